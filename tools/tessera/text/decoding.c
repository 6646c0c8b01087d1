/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/decoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"
#include "tools/tessera/text/unknown.h"

#define FIELD(member) TSR_FIELD(decoding_settings, member)

/* Heads as bits, from their numbers with commas between. */
static int take_heads(const tsr_option_given *given, char *text)
{
  uint32_t *heads = (uint32_t *)(void *)((char *)given->place + given->row->offset);
  int code = TSR_EXIT_OK;
  *heads = 0;
  for (char *rest = text, *number; code == TSR_EXIT_OK && (number = strsep(&rest, ",")) != NULL;) {
    int32_t head = 0;
    code = tsr_cli_int32(given->command, given->what, number, 0, 31, &head);
    *heads |= UINT32_C(1) << head;
  }
  return code;
}

static const tsr_option option_rows[] = {
    {"prefix", "TEXT", TSR_OPTION_TEXT, FIELD(prefix),
     .help = "what every translation begins with; the model goes on from there. Whole words work best. If a sentence "
             "is split, only its first part begins so"},
    {"prefix-file", "FILE", TSR_OPTION_FILE, FIELD(prefix_file),
     .help = "the same, one for each sentence: one a line, an empty line for none"},
    {"alternatives", "N", TSR_OPTION_INTEGER, FIELD(alternatives), 2, 256,
     .help = "print N translations of each sentence that differ in the first token after the prefix: the N most "
             "probable tokens there, best first, each continued; one a line, as --n-best prints them"},
    {"stream", NULL, TSR_OPTION_FLAG, FIELD(stream), .low = 1,
     .help = "print the text as it comes, one sentence after the other. Greedy search and sampling print each word "
             "when it is complete; a beam prints a word when all hypotheses that can still win agree on it"},
    {"steps-per-submit", "N", TSR_OPTION_INTEGER, FIELD(steps_per_submit), 1, TSR_MAX_STEPS_PER_SUBMIT,
     .help = "greedy search on a GPU: submit N steps at once, and the next N before the first are read. A larger N "
             "helps if a submit is expensive. Up to 2N - 1 steps after a batch's last token are wasted",
     .otherwise = "1; if a CPU executes the GPU's interface, each step is read before the next is submitted"},
    {"attention", NULL, TSR_OPTION_FLAG, FIELD(attention), .low = 1,
     .help = "with --json, also print tokens, source_tokens and attention: for each token a row, which says how much "
             "it attended to each source token (mean of the heads)"},
    {"alignment", NULL, TSR_OPTION_FLAG, FIELD(alignment), .low = 1,
     .help = "with --json, also print tokens, source_tokens and alignment: for each token the number, from 0, of the "
             "source token that it was made from, or null. When the model is loaded, Tessera looks for the heads that "
             "best find where copied words came from; --attention then prints their attention"},
    {"attention-layer", "N", TSR_OPTION_INTEGER, FIELD(attention_layer), 1, 1024,
     .help = "layer of the decoder for --attention and --alignment, from 1",
     .otherwise = "the last, or with --alignment the one that Tessera finds"},
    {"attention-heads", "LIST", TSR_OPTION_TEXT, FIELD(attention_heads), .take = take_heads,
     .help = "the heads whose mean is taken: numbers from 0, separated by commas",
     .otherwise = "all, or with --alignment those that Tessera finds"},
    {"coverage-penalty", "X", TSR_OPTION_NUMBER, FIELD(coverage_penalty), 0, 100,
     .help = "add to the score of a finished hypothesis X times the sum of ln(min(1, attention that a token of the "
             "source got)) over the source's tokens (Wu et al. 2016)"},
    {"replace-unknown", NULL, TSR_OPTION_FLAG, FIELD(replace_unknown), .low = 1,
     .help = "replace an unknown token by the source's word that it attended to most"},
    {"shortlist", "FILE", TSR_OPTION_FILE, FIELD(shortlist),
     .help = "compute the probabilities of a few tokens only: those that the file lists for the tokens of a batch's "
             "sentences, and the first tokens of the vocabulary. Lines are 'TARGET SOURCE PROBABILITY', with tokens of "
             "the vocabularies (the lexical tables of Marian-NMT and fast_align), or words: source, tab, targets"},
    {"shortlist-first", "N", TSR_OPTION_INTEGER, FIELD(shortlist_first), 1, INT32_MAX,
     .help = "always include the first N tokens of the vocabulary", .otherwise = "100"},
    {"shortlist-best", "N", TSR_OPTION_INTEGER, FIELD(shortlist_best), 1, INT32_MAX,
     .help = "maximum targets of each source token, the most probable first", .otherwise = "100"},
    {NULL},
};

const tsr_option_table decoding_options = {.rows = option_rows};

/* Warns of a text that outputs are to begin with if it is too long for that, as the library counts it: without the end
 * of the sentence, and with the first token that the search would force. */
static int check_prefix(translator *t, const char *text, size_t size)
{
  int32_t *ids = NULL, n = 0, end = 0;
  if (size == 0) {
    return TSR_EXIT_OK;
  }
  tsr_status status = tsr_tokenizer_encode_target(t->tokenizer, text, size, &ids, &n);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  while (end < n && ids[end] != t->text.eos_id) {
    end++;
  }
  int32_t forced = t->options.forced_bos_id;
  int32_t all = end + (end > 0 && forced >= 0 && ids[0] != forced), most = t->options.max_length - 2;
  tsr_free(ids);
  if (all > most) {
    tsr_cli_progress_clear(&t->progress);
    tsr_cli_warning("a prefix of %d tokens is cut to %d, so that a translation of %d tokens can go on after it",
                    (int)all, (int)most, (int)t->options.max_length);
  }
  return TSR_EXIT_OK;
}

static int open_shortlist(decoding *d, translator *t)
{
  enum { FIRST = 100, BEST = 100 };
  const decoding_settings *settings = d->settings;
  if (!settings->shortlist) {
    return TSR_EXIT_OK;
  }
  tsr_status status = tsr_shortlist_open(settings->shortlist, t->tokenizer,
                                         settings->shortlist_first > 0 ? settings->shortlist_first : FIRST,
                                         settings->shortlist_best > 0 ? settings->shortlist_best : BEST, &d->shortlist);
  t->options.shortlist = d->shortlist;
  return tsr_cli_fail_input(status);
}

/* Text as it comes, a tsr_translation_piece_fn. */
static void print_piece(void *user, uint64_t ticket, const char *text, size_t size)
{
  decoding *d = user;
  (void)ticket;
  for (size_t i = 0; i < size && d->printed == TSR_EXIT_OK; i++) {
    putchar(text[i] == '\n' || text[i] == '\r' ? ' ' : text[i]);
  }
  if (d->printed == TSR_EXIT_OK) {
    d->printed = tsr_cli_flush();
  }
}

int decoding_open(decoding *d, const decoding_settings *settings, translator *t)
{
  tsr_translation_request *request = &t->request;
  d->settings = settings;
  t->options.alternatives = settings->alternatives;
  t->options.scores |= settings->alternatives > 0;
  t->options.attention = settings->attention || settings->replace_unknown;
  request->alignment = settings->alignment;
  request->spans = t->options.attention; /* they come with the source's tokens */
  t->options.steps_per_submit = settings->steps_per_submit;
  t->options.attention_layer = settings->attention_layer;
  t->options.attention_heads = settings->attention_heads;
  t->options.coverage_penalty = (float)settings->coverage_penalty;
  if (settings->stream) {
    t->progress.shown = 0;
    request->piece = print_piece;
    request->piece_user = d;
  }
  int code = open_shortlist(d, t);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (settings->prefix) {
    request->prefix = settings->prefix;
    return check_prefix(t, settings->prefix, strlen(settings->prefix));
  }
  return settings->prefix_file ? tsr_cli_lines_open(&d->lines, settings->prefix_file) : TSR_EXIT_OK;
}

void decoding_finish(decoding *d)
{
  for (int32_t i = 0; i < TRANSLATOR_CHUNK; i++) {
    free(d->given[i]);
  }
  tsr_shortlist_close(d->shortlist);
  if (d->lines.file) {
    tsr_cli_lines_finish(&d->lines);
  }
}

int decoding_add(decoding *d, translator *t)
{
  int32_t i = t->n - 1;
  int got = 0;
  if (!d->lines.file) {
    return TSR_EXIT_OK;
  }
  int code = tsr_cli_lines_next(&d->lines, &got);
  if (code == TSR_EXIT_OK && !got) {
    tsr_cli_error("%s: ends with line %lld, before the sentences do", d->lines.name, (long long)d->lines.number);
    return TSR_EXIT_INPUT;
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  free(d->given[i]);
  d->given[i] = malloc(d->lines.size + 1);
  if (!d->given[i]) {
    return tsr_cli_no_memory();
  }
  memcpy(d->given[i], d->lines.text, d->lines.size + 1);
  t->requests[i].prefix = d->given[i];
  t->requests[i].prefix_size = d->lines.size;
  return check_prefix(t, d->given[i], d->lines.size);
}

int decoding_text(const decoding *d, const translator *t, const translation *found, char **text)
{
  if (d->settings->replace_unknown && found->n_parts > 0) {
    return unknown_text(t, found, text);
  }
  *text = strdup(found->hypothesis->text);
  return *text ? TSR_EXIT_OK : tsr_cli_no_memory();
}

static json_t *list_tokens(const translator *t, int32_t side, const int32_t *ids, int32_t n)
{
  json_t *list = json_array();
  for (int32_t i = 0; list && i < n; i++) {
    const char *token = tsr_tokenizer_token(t->tokenizer, side, ids[i]);
    if (json_array_append_new(list, tsr_cli_json_text(token, strlen(token))) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *list_rows(const tsr_translation_hypothesis *h)
{
  json_t *rows = json_array();
  int failed = !rows;
  for (int32_t i = 0; !failed && i < h->n_ids; i++) {
    json_t *row = json_array();
    failed |= json_array_append_new(rows, row) != 0;
    for (int32_t k = 0; !failed && k < h->n_source; k++) {
      failed |= json_array_append_new(row, tsr_cli_json_real((double)h->attention[i * h->n_source + k])) != 0;
    }
  }
  if (failed) {
    json_decref(rows);
    return NULL;
  }
  return rows;
}

static json_t *list_aligned(const tsr_translation_hypothesis *h)
{
  json_t *list = json_array();
  for (int32_t i = 0; list && i < h->n_ids; i++) {
    if (json_array_append_new(list, h->aligned[i] >= 0 ? json_integer(h->aligned[i]) : json_null()) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

int decoding_describe(const decoding *d, const translator *t, const translation *found, json_t *root)
{
  const tsr_translation_hypothesis *h = found->hypothesis;
  const tsr_translation *answer = found->answer;
  if (!d->settings->attention && !d->settings->alignment) {
    return 0;
  }
  int failed = json_object_set_new(root, "tokens", list_tokens(t, TSR_SIDE_TARGET, h->ids, h->n_ids)) != 0;
  if (h->attention || h->aligned) {
    json_t *source = list_tokens(t, TSR_SIDE_SOURCE, answer->source_ids, answer->n_source_ids);
    failed |= json_object_set_new(root, "source_tokens", source) != 0;
  }
  if (h->aligned) {
    failed |= json_object_set_new(root, "alignment", list_aligned(h)) != 0;
  }
  if (h->attention && d->settings->attention) {
    failed |= json_object_set_new(root, "attention", list_rows(h)) != 0;
  }
  return failed ? -1 : 0;
}
