/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/search_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Of a list of ids: its elements, how many there are, and how many there may be. The row's tag is the offset of their
 * number. */
typedef struct id_list {
  int32_t *ids;
  int32_t *n;
  int32_t room;
} id_list;

static id_list list_of(const tsr_option_given *given)
{
  const tsr_option *row = given->row;
  char *place = given->place;
  return (id_list){.ids = (int32_t *)(void *)(place + row->offset),
                   .n = (int32_t *)(void *)(place + row->tag),
                   .room = (int32_t)(row->size / sizeof(int32_t))};
}

/* Reads the id that text begins with, and moves text behind it. */
static int take_id(const tsr_option_given *given, const char **text, int32_t *id)
{
  char *end = NULL;
  errno = 0;
  long value = strtol(*text, &end, 10);
  if (end == *text || errno != 0 || value < 0 || value > INT32_MAX) {
    return tsr_cli_usage(given->command, "%s: there should be a token id at '%s'", given->what, *text);
  }
  *id = (int32_t)value;
  *text = end;
  return TSR_EXIT_OK;
}

/* Words of one token are banned like --suppress says; longer ones are kept as tsr_generate_options has them. An empty
 * text means none. */
static int take_words(const tsr_option_given *given, char *value)
{
  const char *text = value;
  const id_list list = list_of(given);
  int32_t *n = list.n;
  *n = 0;
  while (*text != '\0') {
    int32_t at = (*n)++;
    do {
      if (*n >= list.room) {
        return tsr_cli_usage(given->command, "%s: more than %d tokens, the words counted too", given->what,
                             (int)list.room);
      }
      int code = take_id(given, &text, &list.ids[*n]);
      if (code != TSR_EXIT_OK) {
        return code;
      }
      ++*n;
    } while (*text == ' ');
    list.ids[at] = *n - at - 1;
    if (*text != ',' && *text != '\0') {
      return tsr_cli_usage(given->command, "%s: words should be separated by commas, not as in '%s'", given->what,
                           text);
    }
    text += *text == ',';
  }
  return TSR_EXIT_OK;
}

static int take_ids(const tsr_option_given *given, char *value)
{
  const char *text = value;
  const id_list list = list_of(given);
  *list.n = 0;
  while (*text != '\0') {
    if (*list.n == list.room) {
      return tsr_cli_usage(given->command, "%s: more than %d tokens", given->what, (int)list.room);
    }
    int code = take_id(given, &text, &list.ids[(*list.n)++]);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (*text != ',' && *text != '\0') {
      return tsr_cli_usage(given->command, "%s: ids should be separated by commas, not as in '%s'", given->what, text);
    }
    text += *text == ',';
  }
  return TSR_EXIT_OK;
}

/* A number of tokens without the start token, which the field counts. */
static int take_new_tokens(const tsr_option_given *given, char *text)
{
  const tsr_option *row = given->row;
  int32_t *field = (int32_t *)(void *)((char *)given->place + row->offset);
  int code = tsr_cli_int32(given->command, given->what, text, (int32_t)row->low, (int32_t)row->high, field);
  *field += 1;
  return code;
}

static int take_seed(const tsr_option_given *given, char *text)
{
  return tsr_cli_seed(given->command, given->what, text, &((search_settings *)given->place)->given.seed);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define FIELD(member)        TSR_FIELD(search_settings, given.member)
#define IDS(member, counter) FIELD(member), .tag = (int32_t)offsetof(search_settings, given.counter), .take = take_ids

enum { MOST_TOKENS = 1 << 20 };

static const tsr_choice length_kinds[] = {{"power", "its length"}, {"gnmt", "(5 + its length) / 6"}, {NULL}};
static const tsr_choice early_kinds[] = {
    {"false", "when no hypothesis can be better, as far as its present length tells"},
    {"true", "when N hypotheses have ended"},
    {"never", "when no hypothesis can be better, at any length"},
    {NULL}};
static const tsr_choice searches[] = {{"transformers", "that of Hugging Face's transformers"},
                                      {"marian", "that of Marian-NMT, where hypotheses that end leave the beam"},
                                      {NULL}};

_Static_assert(TSR_LENGTH_POWER == 0 && TSR_LENGTH_GNMT == 1, "length_kinds");
_Static_assert(TSR_EARLY_FALSE == 0 && TSR_EARLY_TRUE == 1 && TSR_EARLY_NEVER == 2, "early_kinds");
_Static_assert(TSR_SEARCH_TRANSFORMERS == 0 && TSR_SEARCH_MARIAN == 1, "searches");

static const tsr_option rows[N_SEARCH_OPTIONS + 1] = {
    [SEARCH_BEAM] = {"beam", "N", TSR_OPTION_INTEGER, FIELD(beam), 1, 64, .shows_range = 1,
                     .help = "hypotheses that the search keeps (1: greedy search)"},
    [SEARCH_MAX_LENGTH] = {"max-length", "N", TSR_OPTION_INTEGER, FIELD(max_length), 2, MOST_TOKENS,
                           .help = "tokens of a translation at most, start and end tokens included"},
    [SEARCH_MAX_NEW] = {"max-new-tokens", "N", TSR_OPTION_INTEGER, FIELD(max_length), 1, MOST_TOKENS,
                        .take = take_new_tokens, .help = "the same without the start token"},
    [SEARCH_MIN_LENGTH] = {"min-length", "N", TSR_OPTION_INTEGER, FIELD(min_length), 0, MOST_TOKENS,
                           .help = "no end before so many tokens, the start token included"},
    [SEARCH_MIN_NEW] = {"min-new-tokens", "N", TSR_OPTION_INTEGER, FIELD(min_length), 0, MOST_TOKENS,
                        .take = take_new_tokens, .help = "the same without the start token"},
    [SEARCH_LENGTH_PENALTY] = {"length-penalty", "X", TSR_OPTION_NUMBER, FIELD(length_penalty), -100, 100,
                               .help = "exponent of what the score of a hypothesis is divided by"},
    [SEARCH_LENGTH_KIND] = {"length-norm", "HOW", TSR_OPTION_CHOICE, FIELD(length_kind), .choices = length_kinds,
                            .help = "what the score of a hypothesis is divided by", .otherwise = "power"},
    [SEARCH_EARLY] = {"early-stopping", "HOW", TSR_OPTION_CHOICE, FIELD(early_stopping), .choices = early_kinds,
                      .help = "when the search of a sentence ends"},
    [SEARCH_PATIENCE] = {"patience", "X", TSR_OPTION_NUMBER, FIELD(patience), 1e-3, 1000,
                         .help = "wait for X times N hypotheses that have ended", .otherwise = "1"},
    [SEARCH_REPETITION] = {"repetition-penalty", "X", TSR_OPTION_NUMBER, FIELD(repetition_penalty), 1e-3, 1000,
                           .help = "divide the scores of tokens that are there already by X (multiply negative ones)"},
    [SEARCH_ENCODER_REPETITION] = {"encoder-repetition-penalty", "X", TSR_OPTION_NUMBER,
                                   FIELD(encoder_repetition_penalty), 1e-3, 1000,
                                   .help = "multiply the scores of tokens that the source has by X (divide negative "
                                           "ones)"},
    [SEARCH_NGRAM] = {"no-repeat-ngram", "N", TSR_OPTION_INTEGER, FIELD(no_repeat_ngram), 0, MOST_TOKENS,
                      .help = "no N tokens in a row come twice"},
    [SEARCH_ENCODER_NGRAM] = {"encoder-no-repeat-ngram", "N", TSR_OPTION_INTEGER, FIELD(encoder_no_repeat_ngram), 0,
                              MOST_TOKENS, .help = "no N tokens in a row of the source come out"},
    [SEARCH_RENORMALIZE] = {"renormalize", NULL, TSR_OPTION_FLAG, FIELD(renormalize), .low = 1,
                            .help = "probabilities have a sum of 1 again when tokens were ruled out"},
    [SEARCH_FORCED_BOS] = {"forced-bos", "ID", TSR_OPTION_INTEGER, FIELD(forced_bos_id), -1, INT32_MAX,
                           .help = "first token after the start; -1: none"},
    [SEARCH_FORCED_EOS] = {"forced-eos", "ID", TSR_OPTION_INTEGER, FIELD(forced_eos_id), -1, INT32_MAX,
                           .help = "last token at the greatest length; -1: none"},
    [SEARCH_EOS] = {"eos", "IDS", TSR_OPTION_TEXT, IDS(eos, n_eos),
                    .help = "tokens that end a sentence, separated by commas"},
    [SEARCH_SUPPRESS] = {"suppress", "IDS", TSR_OPTION_TEXT, IDS(suppressed, n_suppressed),
                         .help = "tokens that never come out"},
    [SEARCH_BEGIN_SUPPRESS] = {"begin-suppress", "IDS", TSR_OPTION_TEXT, IDS(begin_suppressed, n_begin_suppressed),
                               .help = "tokens that do not come out first"},
    [SEARCH_BAD_WORDS] = {"bad-words", "LIST", TSR_OPTION_TEXT, FIELD(words),
                          .tag = (int32_t)offsetof(search_settings, given.n_words), .take = take_words,
                          .help = "words that never come out, separated by commas: each the ids of its tokens, "
                                  "separated by blanks"},
    [SEARCH_SAMPLE] = {"sample", NULL, TSR_OPTION_FLAG, FIELD(sample), .low = 1,
                       .help = "draw each token at random (with --beam 1)"},
    [SEARCH_NO_SAMPLE] = {"no-sample", NULL, TSR_OPTION_FLAG, FIELD(sample), .low = 0, .help = "draw none"},
    [SEARCH_TEMPERATURE] = {"temperature", "X", TSR_OPTION_NUMBER, FIELD(temperature), 1e-3, 1e6,
                            .help = "of drawing: logits are divided by X"},
    [SEARCH_TOP_K] = {"top-k", "N", TSR_OPTION_INTEGER, FIELD(top_k), 0, INT32_MAX,
                      .help = "of drawing: only the N likeliest tokens; 0: all"},
    [SEARCH_TOP_P] = {"top-p", "X", TSR_OPTION_NUMBER, FIELD(top_p), 1e-6, 1,
                      .help = "of drawing: only the likeliest tokens that have the probability X together"},
    [SEARCH_SEED] = {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), .high = (double)UINT64_MAX, .take = take_seed,
                     .help = "of drawing: the same seed gives the same text", .otherwise = "0"},
    [SEARCH_KIND] = {"search", "HOW", TSR_OPTION_CHOICE, FIELD(search), .choices = searches,
                     .help = "whose beam search"},
    [SEARCH_WORD_PENALTY] = {"word-penalty", "X", TSR_OPTION_NUMBER, FIELD(word_penalty), -1000, 1000,
                             .help = "of Marian's search: what each token adds to a score"},
    [SEARCH_LENGTH_FACTOR] = {"max-length-factor", "X", TSR_OPTION_NUMBER, FIELD(max_length_factor), 1e-3, 1e6,
                              .help = "of Marian's search: X tokens at most for each of the source", .otherwise = "3"},
};

const tsr_option_table search_options = {
    .title = "Search; what is not given is as the model's generation_config.json says:",
    .rows = rows,
    .has_given = 1,
    .given = offsetof(search_settings, is_given),
};

/* Words of one token belong to those that are suppressed. */
static int apply_words(const tsr_generate_options *given, tsr_generate_options *options)
{
  const int32_t room = (int32_t)(sizeof options->suppressed / sizeof options->suppressed[0]);
  options->n_words = 0;
  for (int32_t i = 0; i < given->n_words; i += 1 + given->words[i]) {
    int32_t n = given->words[i];
    if (n == 1) {
      if (options->n_suppressed == room) {
        return tsr_cli_usage(NULL, "--bad-words: with the tokens that are suppressed, more than %d of one token",
                             (int)room);
      }
      options->suppressed[options->n_suppressed++] = given->words[i + 1];
    } else if (n > 1) {
      memcpy(options->words + options->n_words, given->words + i, (size_t)(n + 1) * sizeof *given->words);
      options->n_words += n + 1;
    }
  }
  return TSR_EXIT_OK;
}

int search_settings_apply(const search_settings *settings, tsr_generate_options *options)
{
  const char *is_given = settings->is_given;
  for (int i = 0; i < N_SEARCH_OPTIONS; i++) {
    const tsr_option *row = &rows[i];
    size_t at = row->offset - offsetof(search_settings, given);
    if (!is_given[i] || row->take == take_words) {
      continue;
    }
    memcpy((char *)options + at, (const char *)settings + row->offset, row->size);
    if (row->take == take_ids) {
      at = (size_t)row->tag - offsetof(search_settings, given);
      memcpy((char *)options + at, (const char *)settings + row->tag, sizeof(int32_t));
    }
  }
  if (is_given[SEARCH_SAMPLE] && !is_given[SEARCH_BEAM]) {
    options->beam = 1;
  }
  if (is_given[SEARCH_BEAM] && options->beam > 1 && !is_given[SEARCH_SAMPLE]) {
    options->sample = 0;
  }
  return is_given[SEARCH_BAD_WORDS] ? apply_words(&settings->given, options) : TSR_EXIT_OK;
}

int search_settings_check(const search_settings *settings, const tsr_generate_options *options)
{
  static const int of_sampling[] = {SEARCH_TEMPERATURE, SEARCH_TOP_K, SEARCH_TOP_P, SEARCH_SEED};
  static const int of_marian[] = {SEARCH_WORD_PENALTY, SEARCH_LENGTH_FACTOR};
  for (size_t i = 0; i < sizeof of_sampling / sizeof of_sampling[0]; i++) {
    if (settings->is_given[of_sampling[i]] && !options->sample) {
      return tsr_cli_usage(NULL, "--%s is of sampling: --sample is missing", rows[of_sampling[i]].name);
    }
  }
  for (size_t i = 0; i < sizeof of_marian / sizeof of_marian[0]; i++) {
    if (settings->is_given[of_marian[i]] && options->search != TSR_SEARCH_MARIAN) {
      return tsr_cli_usage(NULL, "--%s is of Marian-NMT's search: --search marian is missing", rows[of_marian[i]].name);
    }
  }
  return TSR_EXIT_OK;
}
