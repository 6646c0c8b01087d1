/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/search_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Where a list of ids stands on the command line. */
typedef struct id_text {
  const char *command; /* for messages; NULL: none */
  const char *what;    /* "--eos" */
  const char *text;
  int32_t has_words; /* 1: its elements are words: each the number of its ids, and they */
} id_text;

/* Reads the id that text begins with into id, which may be NULL, and moves text behind it. */
static int take_id(const id_text *list, const char **text, int32_t *id)
{
  char *end = NULL;
  errno = 0;
  long value = strtol(*text, &end, 10);
  if (end == *text || errno != 0 || value < 0 || value > INT32_MAX) {
    return tsr_cli_usage(list->command, "%s: expected a token id at '%s'", list->what, *text);
  }
  if (id) {
    *id = (int32_t)value;
  }
  *text = end;
  return TSR_EXIT_OK;
}

/* Reads the elements of a list. An empty text means none. ids: NULL: they are only counted. */
static int read_list(const id_text *list, int32_t *ids, int32_t *n)
{
  const char *text = list->text;
  *n = 0;
  while (*text != '\0') {
    int32_t at = *n;
    *n += list->has_words;
    do {
      int code = *n < TSR_MAX_LIST
                     ? take_id(list, &text, ids ? &ids[*n] : NULL)
                     : tsr_cli_usage(list->command, "%s: more than %d ids", list->what, (int)TSR_MAX_LIST);
      if (code != TSR_EXIT_OK) {
        return code;
      }
      ++*n;
    } while (list->has_words && *text == ' ');
    if (ids && list->has_words) {
      ids[at] = *n - at - 1;
    }
    if (*text != ',' && *text != '\0') {
      return tsr_cli_usage(list->command, "%s: %s should be separated by commas, not as in '%s'", list->what,
                           list->has_words ? "words" : "ids", text);
    }
    text += *text == ',';
  }
  return TSR_EXIT_OK;
}

/* Checks a list, and keeps its text and the number of its elements, for which the row's tag is the offset. */
static int take_list(const tsr_option_given *given, char *value, int32_t has_words)
{
  search_settings *settings = given->place;
  settings->lists[given->index] = value;
  return read_list(&(id_text){.command = given->command, .what = given->what, .text = value, .has_words = has_words},
                   NULL, (int32_t *)(void *)((char *)settings + given->row->tag));
}

static int take_words(const tsr_option_given *given, char *value)
{
  return take_list(given, value, 1);
}

static int take_ids(const tsr_option_given *given, char *value)
{
  return take_list(given, value, 0);
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
static const tsr_choice searches[] = {{"transformers", "as Hugging Face's transformers"},
                                      {"marian", "as Marian-NMT: a hypothesis that ends leaves the beam"},
                                      {"ctranslate2", "as CTranslate2: N hypotheses that have ended are enough"},
                                      {NULL}};

_Static_assert(TSR_LENGTH_POWER == 0 && TSR_LENGTH_GNMT == 1, "length_kinds");
_Static_assert(TSR_EARLY_FALSE == 0 && TSR_EARLY_TRUE == 1 && TSR_EARLY_NEVER == 2, "early_kinds");
_Static_assert(TSR_SEARCH_TRANSFORMERS == 0 && TSR_SEARCH_MARIAN == 1 && TSR_SEARCH_CTRANSLATE2 == 2, "searches");

static const tsr_option rows[N_SEARCH_OPTIONS + 1] = {
    [SEARCH_BEAM] = {"beam", "N", TSR_OPTION_INTEGER, FIELD(beam), 1, 64, .shows_range = 1,
                     .help = "hypotheses that the search keeps (1: greedy search)"},
    [SEARCH_MAX_LENGTH] = {"max-length", "N", TSR_OPTION_INTEGER, FIELD(max_length), 2, MOST_TOKENS,
                           .help = "maximum tokens of a translation, start and end tokens included"},
    [SEARCH_MAX_NEW] = {"max-new-tokens", "N", TSR_OPTION_INTEGER, FIELD(max_length), 1, MOST_TOKENS,
                        .take = take_new_tokens, .help = "the same without the start token"},
    [SEARCH_MIN_LENGTH] = {"min-length", "N", TSR_OPTION_INTEGER, FIELD(min_length), 0, MOST_TOKENS,
                           .help = "minimum tokens of a translation, the start token included"},
    [SEARCH_MIN_NEW] = {"min-new-tokens", "N", TSR_OPTION_INTEGER, FIELD(min_length), 0, MOST_TOKENS,
                        .take = take_new_tokens, .help = "the same without the start token"},
    [SEARCH_LENGTH_PENALTY] = {"length-penalty", "X", TSR_OPTION_NUMBER, FIELD(length_penalty), -100, 100,
                               .help = "exponent of the length that the score of a hypothesis is divided by"},
    [SEARCH_LENGTH_KIND] = {"length-norm", "HOW", TSR_OPTION_CHOICE, FIELD(length_kind), .choices = length_kinds,
                            .help = "what the score of a hypothesis is divided by", .otherwise = "power"},
    [SEARCH_EARLY] = {"early-stopping", "HOW", TSR_OPTION_CHOICE, FIELD(early_stopping), .choices = early_kinds,
                      .help = "when the search of a sentence ends"},
    [SEARCH_PATIENCE] = {"patience", "X", TSR_OPTION_NUMBER, FIELD(patience), 1e-3, 1000,
                         .help = "wait for X times N hypotheses that have ended", .otherwise = "1"},
    [SEARCH_REPETITION] =
        {"repetition-penalty", "X", TSR_OPTION_NUMBER, FIELD(repetition_penalty), 1e-3, 1000,
         .help = "divide the scores of tokens that the translation already has by X (multiply negative ones)"},
    [SEARCH_ENCODER_REPETITION] = {"encoder-repetition-penalty", "X", TSR_OPTION_NUMBER,
                                   FIELD(encoder_repetition_penalty), 1e-3, 1000,
                                   .help = "multiply the scores of tokens that the source has by X (divide negative "
                                           "ones)"},
    [SEARCH_NGRAM] = {"no-repeat-ngram", "N", TSR_OPTION_INTEGER, FIELD(no_repeat_ngram), 0, MOST_TOKENS,
                      .help = "no N tokens in a row may come twice"},
    [SEARCH_ENCODER_NGRAM] = {"encoder-no-repeat-ngram", "N", TSR_OPTION_INTEGER, FIELD(encoder_no_repeat_ngram), 0,
                              MOST_TOKENS, .help = "no N tokens in a row of the source may come out"},
    [SEARCH_RENORMALIZE] = {"renormalize", NULL, TSR_OPTION_FLAG, FIELD(renormalize), .low = 1,
                            .help = "scale probabilities to a sum of 1 again after tokens were ruled out"},
    [SEARCH_FORCED_BOS] = {"forced-bos", "ID", TSR_OPTION_INTEGER, FIELD(forced_bos_id), -1, INT32_MAX,
                           .help = "the first token after the start must be this one; -1: none"},
    [SEARCH_FORCED_EOS] = {"forced-eos", "ID", TSR_OPTION_INTEGER, FIELD(forced_eos_id), -1, INT32_MAX,
                           .help = "the last token at the maximum length must be this one; -1: none"},
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
                       .help = "sample: draw each token at random (with --beam 1)"},
    [SEARCH_NO_SAMPLE] = {"no-sample", NULL, TSR_OPTION_FLAG, FIELD(sample), .low = 0, .help = "do not sample"},
    [SEARCH_TEMPERATURE] = {"temperature", "X", TSR_OPTION_NUMBER, FIELD(temperature), 1e-3, 1e6,
                            .help = "sampling: divide logits by X"},
    [SEARCH_TOP_K] = {"top-k", "N", TSR_OPTION_INTEGER, FIELD(top_k), 0, INT32_MAX,
                      .help = "sampling: draw from the N most probable tokens only; 0: from all"},
    [SEARCH_TOP_P] =
        {"top-p", "X", TSR_OPTION_NUMBER, FIELD(top_p), 1e-6, 1,
         .help = "sampling: draw from the most probable tokens only, as many as have the probability X together"},
    [SEARCH_SEED] = {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), .high = (double)UINT64_MAX, .take = take_seed,
                     .help = "sampling: the same seed gives the same text", .otherwise = "0"},
    [SEARCH_KIND] = {"search", "HOW", TSR_OPTION_CHOICE, FIELD(search), .choices = searches,
                     .help = "the kind of beam search"},
    [SEARCH_WORD_PENALTY] = {"word-penalty", "X", TSR_OPTION_NUMBER, FIELD(word_penalty), -1000, 1000,
                             .help = "with --search marian: what each token adds to a score"},
    [SEARCH_LENGTH_FACTOR] = {"max-length-factor", "X", TSR_OPTION_NUMBER, FIELD(max_length_factor), 1e-3, 1e6,
                              .help = "with --search marian: at most X tokens for each token of the source",
                              .otherwise = "3"},
};

const tsr_option_table search_options = {
    .title = "Search; the defaults are in the model's generation_config.json:",
    .rows = rows,
    .has_given = 1,
    .given = offsetof(search_settings, is_given),
};

/* The list that an option gave, in memory of its own. */
static int make_list(const search_settings *settings, int32_t option, search_lists *lists, int32_t *n)
{
  const tsr_option *row = &rows[option];
  const int32_t *count = (const int32_t *)(const void *)((const char *)settings + row->tag);
  lists->ids[option] = malloc(((size_t)*count + 1) * sizeof *lists->ids[option]);
  return lists->ids[option]
             ? read_list(&(id_text){.text = settings->lists[option], .has_words = row->take == take_words},
                         lists->ids[option], n)
             : tsr_cli_no_memory();
}

/* Words of one token belong to those that are suppressed; longer ones are kept as tsr_generate_options has them. */
static int apply_words(const search_settings *settings, search_lists *lists, tsr_generate_options *options)
{
  int32_t n = 0;
  int code = make_list(settings, SEARCH_BAD_WORDS, lists, &n);
  int32_t *suppressed = malloc(((size_t)options->n_suppressed + (size_t)n + 1) * sizeof *suppressed);
  if (code != TSR_EXIT_OK || !suppressed) {
    free(suppressed);
    return code != TSR_EXIT_OK ? code : tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < options->n_suppressed; i++) {
    suppressed[i] = options->suppressed[i];
  }
  int32_t *words = lists->ids[SEARCH_BAD_WORDS];
  options->n_words = 0;
  for (int32_t i = 0, next; i < n; i = next) {
    next = i + 1 + words[i];
    if (words[i] == 1) {
      suppressed[options->n_suppressed++] = words[i + 1];
      continue;
    }
    memmove(words + options->n_words, words + i, (size_t)(next - i) * sizeof *words);
    options->n_words += next - i;
  }
  free(lists->ids[SEARCH_SUPPRESS]);
  lists->ids[SEARCH_SUPPRESS] = suppressed;
  options->suppressed = suppressed;
  options->words = words;
  return TSR_EXIT_OK;
}

static int apply_list(const search_settings *settings, int32_t option, search_lists *lists,
                      tsr_generate_options *options)
{
  const size_t before = offsetof(search_settings, given);
  int32_t n = 0;
  int code = make_list(settings, option, lists, &n);
  memcpy((char *)options + rows[option].offset - before, &lists->ids[option], sizeof lists->ids[option]);
  memcpy((char *)options + (size_t)rows[option].tag - before, &n, sizeof n);
  return code;
}

int search_settings_apply(const search_settings *settings, search_lists *lists, tsr_generate_options *options)
{
  const char *is_given = settings->is_given;
  for (int32_t i = 0; i < N_SEARCH_OPTIONS; i++) {
    const tsr_option *row = &rows[i];
    if (!is_given[i] || row->take == take_words) {
      continue;
    }
    if (row->take != take_ids) {
      memcpy((char *)options + row->offset - offsetof(search_settings, given), (const char *)settings + row->offset,
             row->size);
      continue;
    }
    int code = apply_list(settings, i, lists, options);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  if (is_given[SEARCH_SAMPLE] && !is_given[SEARCH_BEAM]) {
    options->beam = 1;
  }
  if (is_given[SEARCH_BEAM] && options->beam > 1 && !is_given[SEARCH_SAMPLE]) {
    options->sample = 0;
  }
  return is_given[SEARCH_BAD_WORDS] ? apply_words(settings, lists, options) : TSR_EXIT_OK;
}

void search_lists_finish(search_lists *lists)
{
  for (int32_t i = 0; i < N_SEARCH_OPTIONS; i++) {
    free(lists->ids[i]);
    lists->ids[i] = NULL;
  }
}

int search_settings_check(const search_settings *settings, const tsr_generate_options *options)
{
  static const int of_sampling[] = {SEARCH_TEMPERATURE, SEARCH_TOP_K, SEARCH_TOP_P, SEARCH_SEED};
  static const int of_marian[] = {SEARCH_WORD_PENALTY, SEARCH_LENGTH_FACTOR};
  for (size_t i = 0; i < sizeof of_sampling / sizeof of_sampling[0]; i++) {
    if (settings->is_given[of_sampling[i]] && !options->sample) {
      return tsr_cli_usage(NULL, "--%s is for sampling: --sample is missing", rows[of_sampling[i]].name);
    }
  }
  for (size_t i = 0; i < sizeof of_marian / sizeof of_marian[0]; i++) {
    if (settings->is_given[of_marian[i]] && options->search != TSR_SEARCH_MARIAN) {
      return tsr_cli_usage(NULL, "--%s is for Marian-NMT's search: --search marian is missing",
                           rows[of_marian[i]].name);
    }
  }
  return TSR_EXIT_OK;
}

tsr_status search_settings_check_file(const search_settings *settings, const char *folder,
                                      const tsr_generate_options *options)
{
  static const char name[] = "generation_config.json";
  const int is_chosen = settings->is_given[SEARCH_BEAM] || settings->is_given[SEARCH_SAMPLE];
  if (is_chosen || !options->sample || options->beam == 1) {
    return TSR_OK;
  }
  char *path = path_join(folder, name);
  if (!path) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  const int is_there = path_exists(path);
  free(path);
  return tsr_fail(TSR_ERR_UNSUPPORTED,
                  "%s/%s: keys 'do_sample' and 'num_beams': sampling takes no beams, and num_beams is %d: --sample or "
                  "--no-sample chooses",
                  folder, is_there ? name : "config.json", (int)options->beam);
}

int search_settings_fail(tsr_status status)
{
  static const struct {
    const char *field, *option;
  } names[] = {
      {"n_best", "n-best"},
      {"forced_bos_id", "forced-bos"},
      {"forced_eos_id", "forced-eos"},
      {"alternatives", "alternatives"},
      {"attention_layer", "attention-layer"},
      {"attention_heads", "attention-heads"},
  };
  const char *message = tsr_error_message();
  for (size_t i = 0; i < sizeof names / sizeof names[0] && status != TSR_OK; i++) {
    const size_t size = strlen(names[i].field);
    if (strncmp(message, names[i].field, size) == 0 && strncmp(message + size, " is ", 4) == 0) {
      tsr_cli_error("--%s%s", names[i].option, message + size);
      return tsr_cli_exit_code(status);
    }
  }
  return tsr_cli_fail(status);
}
