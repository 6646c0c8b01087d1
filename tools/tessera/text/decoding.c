/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/decoding.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/unknown.h"

#define FIELD(member) TSR_FIELD(decoding_settings, member)

static const tsr_option option_rows[] = {
    {"prefix", "TEXT", TSR_OPTION_TEXT, FIELD(prefix),
     .help = "what every translation begins with; the model goes on from there. Best of whole words; of a sentence "
             "that is split, only the first part begins so"},
    {"prefix-file", "FILE", TSR_OPTION_FILE, FIELD(prefix_file),
     .help = "the same, another for each sentence: one a line, an empty line for none"},
    {"alternatives", "N", TSR_OPTION_INTEGER, FIELD(alternatives), 2, 256,
     .help = "print N translations of each sentence, which differ in the first token behind the prefix: the N most "
             "probable there, best first, each of them continued; a line each, as --n-best prints them"},
    {"stream", NULL, TSR_OPTION_FLAG, FIELD(stream), .low = 1,
     .help = "print the text as it comes, one sentence after the other: words as greedy search or a draw completes "
             "them; with a beam, those on which all hypotheses agree that can still win"},
    {"steps-per-submit", "N", TSR_OPTION_INTEGER, FIELD(steps_per_submit), 1, TSR_MAX_STEPS_PER_SUBMIT,
     .help =
         "greedy search on a GPU: hand it N steps at once, and the next N before the first are read. A larger N pays "
         "where a submit is expensive, and computes up to 2N - 1 steps in vain behind a batch's last token",
     .otherwise = "1; on a GPU that a CPU imitates each step is read before the next"},
    {"attention", NULL, TSR_OPTION_FLAG, FIELD(attention), .low = 1,
     .help = "with --json, tell also tokens, source_tokens and attention: a row for each token, how much it attended "
             "to each source token (mean of the heads)"},
    {"attention-layer", "N", TSR_OPTION_INTEGER, FIELD(attention_layer), 1, 1024, .help = "of the decoder, from 1",
     .otherwise = "the last"},
    {"coverage-penalty", "X", TSR_OPTION_NUMBER, FIELD(coverage_penalty), 0, 100,
     .help = "scores of finished hypotheses rise by X times the sum over the source's tokens of ln(min(1, attention "
             "that they got)) (Wu et al. 2016)"},
    {"replace-unknown", NULL, TSR_OPTION_FLAG, FIELD(replace_unknown), .low = 1,
     .help = "write in the place of an unknown token the source's word that it attended to most"},
    {"shortlist", "FILE", TSR_OPTION_FILE, FIELD(shortlist),
     .help = "compute the probabilities of a few tokens alone: those that the file has for the tokens of a batch's "
             "sentences, and the first ones. Lines are 'TARGET SOURCE PROBABILITY', with tokens of the vocabularies "
             "(the lexical tables of Marian-NMT and fast_align), or words: source, tab, targets"},
    {"shortlist-first", "N", TSR_OPTION_INTEGER, FIELD(shortlist_first), 1, INT32_MAX,
     .help = "the N first tokens of the vocabulary are always there", .otherwise = "100"},
    {"shortlist-best", "N", TSR_OPTION_INTEGER, FIELD(shortlist_best), 1, INT32_MAX,
     .help = "targets of each source token at most, the most probable", .otherwise = "100"},
    {NULL},
};

const tsr_option_table decoding_options = {.rows = option_rows};

/* The ids of a text that outputs begin with: as the model is trained to write it, without the end of the sentence, and
 * with the first token that the search would force. *ids is the caller's; free it with tsr_free. */
static int encode_prefix(translator *t, const char *text, size_t size, int32_t **ids, int32_t *n)
{
  *ids = NULL;
  *n = 0;
  if (size == 0) {
    return TSR_EXIT_OK;
  }
  tsr_status status = tsr_tokenizer_encode_target(t->tokenizer, text, size, ids, n);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  int32_t end = 0;
  while (end < *n && (*ids)[end] != t->text.eos_id) {
    end++;
  }
  *n = end;
  int32_t forced = t->options.forced_bos_id;
  if (end > 0 && forced >= 0 && (*ids)[0] != forced) {
    int32_t *longer = malloc(((size_t)end + 1) * sizeof *longer);
    if (!longer) {
      return tsr_cli_no_memory();
    }
    longer[0] = forced;
    memcpy(longer + 1, *ids, (size_t)end * sizeof *longer);
    tsr_free(*ids);
    *ids = longer;
    *n = end + 1;
  }
  int32_t most = t->options.max_length - 2;
  if (*n > most) {
    tsr_cli_progress_clear(&t->progress);
    tsr_cli_warning("a prefix of %d tokens is cut to %d, so that a translation of %d goes on behind it", (int)*n,
                    (int)most, (int)t->options.max_length);
    *n = most;
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

/* A translator_writer. */
static int write_known(void *user, const translator *t, int32_t index, int32_t part, const tsr_hypothesis *hypothesis,
                       char **text)
{
  const decoding *d = user;
  const tsr_source *source = &t->sources[index];
  if (!hypothesis->attention) {
    return translator_text(t, hypothesis->ids, hypothesis->n_ids, text);
  }
  const unknown_source whole = {.text = source->n_parts == 1 ? d->text[index] : NULL,
                                .size = d->size[index],
                                .ids = source->ids[part],
                                .n_ids = source->n_ids[part]};
  return unknown_text(t, &whole, hypothesis, text);
}

int decoding_open(decoding *d, const decoding_settings *settings, translator *t)
{
  d->settings = settings;
  d->stream.translator = t;
  t->options.alternatives = settings->alternatives;
  t->options.scores |= settings->alternatives > 0;
  t->options.attention = settings->attention || settings->replace_unknown;
  if (settings->replace_unknown) {
    t->write = write_known;
    t->write_user = d;
  }
  t->options.steps_per_submit = settings->steps_per_submit;
  t->options.attention_layer = settings->attention_layer;
  t->options.coverage_penalty = (float)settings->coverage_penalty;
  if (settings->stream) {
    t->progress.shown = 0;
    t->restart = text_stream_restart;
    t->restart_user = &d->stream;
  }
  int code = open_shortlist(d, t);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (settings->prefix) {
    return encode_prefix(t, settings->prefix, strlen(settings->prefix), &d->common, &d->n_common);
  }
  return settings->prefix_file ? tsr_cli_lines_open(&d->lines, settings->prefix_file) : TSR_EXIT_OK;
}

static void drop_given(decoding *d)
{
  for (int32_t i = 0; i < TRANSLATOR_CHUNK; i++) {
    tsr_free(d->given[i]);
    d->given[i] = NULL;
  }
}

void decoding_finish(decoding *d)
{
  drop_given(d);
  for (int32_t i = 0; i < TRANSLATOR_CHUNK; i++) {
    free(d->text[i]);
  }
  tsr_free(d->common);
  free(d->prefix);
  free(d->lengths);
  text_stream_finish(&d->stream);
  tsr_shortlist_close(d->shortlist);
  if (d->lines.file) {
    tsr_cli_lines_finish(&d->lines);
  }
}

static int keep_text(decoding *d, int32_t i, const char *text, size_t size)
{
  free(d->text[i]);
  d->text[i] = malloc(size + 1);
  d->size[i] = size;
  if (!d->text[i]) {
    return tsr_cli_no_memory();
  }
  memcpy(d->text[i], text, size);
  return TSR_EXIT_OK;
}

int decoding_add(decoding *d, translator *t, const char *text, size_t size)
{
  int32_t i = t->n - 1;
  int got = 0;
  if (d->settings->replace_unknown && keep_text(d, i, text, size) != TSR_EXIT_OK) {
    return TSR_EXIT_MEMORY;
  }
  if (!d->lines.file) {
    return TSR_EXIT_OK;
  }
  int code = tsr_cli_lines_next(&d->lines, &got);
  if (code == TSR_EXIT_OK && !got) {
    tsr_cli_error("%s: ends before the sentences do, with line %lld", d->lines.name, (long long)d->lines.number);
    return TSR_EXIT_INPUT;
  }
  tsr_free(d->given[i]);
  d->given[i] = NULL;
  return code == TSR_EXIT_OK ? encode_prefix(t, d->lines.text, d->lines.size, &d->given[i], &d->n_given[i]) : code;
}

int decoding_prepare(decoding *d, translator *t)
{
  size_t room = 1;
  for (int32_t i = 0; i < t->n; i++) {
    room += (size_t)t->sources[i].n_parts;
  }
  /* Parts of a sentence need not come in their order. */
  t->options.token = d->settings->stream && room <= 2 ? text_stream_receive : NULL;
  t->options.token_user = &d->stream;
  if (!d->common && !d->lines.file) {
    return TSR_EXIT_OK;
  }
  free(d->prefix);
  free(d->lengths);
  d->prefix = malloc(room * sizeof *d->prefix);
  d->lengths = malloc(room * sizeof *d->lengths);
  if (!d->prefix || !d->lengths) {
    return tsr_cli_no_memory();
  }
  int32_t part = 0;
  for (int32_t i = 0; i < t->n; i++) {
    for (int32_t k = 0; k < t->sources[i].n_parts; k++, part++) {
      d->prefix[part] = d->common ? d->common : d->given[i];
      d->lengths[part] = k > 0 ? 0 : d->common ? d->n_common : d->n_given[i];
    }
  }
  t->options.prefix = d->prefix;
  t->options.prefix_lengths = d->lengths;
  return TSR_EXIT_OK;
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

static json_t *list_rows(const tsr_hypothesis *h)
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

int decoding_describe(const decoding *d, const translator *t, const translation *found, json_t *root)
{
  const tsr_hypothesis *h = found->hypothesis;
  if (!d->settings->attention) {
    return 0;
  }
  int failed = json_object_set_new(root, "tokens", list_tokens(t, 1, h->ids, h->n_ids)) != 0;
  if (h->attention) {
    const tsr_source *source = &t->sources[found->index];
    failed |= json_object_set_new(root, "source_tokens", list_tokens(t, 0, source->ids[0], h->n_source)) != 0;
    failed |= json_object_set_new(root, "attention", list_rows(h)) != 0;
  }
  return failed ? -1 : 0;
}
