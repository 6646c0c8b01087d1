/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/search_options.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/loop.h"
#include "tools/tessera/options/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE, PLUS_ONE, NUMBER, CHOICE, FLAG, LIST, WORDS, SEED };

typedef struct field {
  const char *name; /* of the option */
  int32_t kind;
  size_t offset; /* in tsr_generate_options */
  double low;    /* PLUS_ONE: of what is given; the field is one more. CHOICE: of the first name; FLAG: the value */
  double high;
  const char *const *choices; /* NULL-terminated */
  size_t count;               /* LIST: offset of the number of tokens, which lie at `offset`, `high` of them at most */
} field;

#define FIELD(member) offsetof(tsr_generate_options, member)
#define ROOM(member)  ((double)(sizeof((tsr_generate_options *)0)->member / sizeof(int32_t)))

static const char *const length_kinds[] = {"power", "gnmt", NULL};
static const char *const early_kinds[] = {"false", "true", "never", NULL};
static const char *const searches[] = {"transformers", "marian", NULL};

static const field fields[N_SEARCH_OPTIONS] = {
    [SEARCH_BEAM] = {"--beam", WHOLE, FIELD(beam), 1, 64, NULL, 0},
    [SEARCH_N_BEST] = {"--n-best", WHOLE, FIELD(n_best), 1, 256, NULL, 0},
    [SEARCH_MAX_LENGTH] = {"--max-length", WHOLE, FIELD(max_length), 2, 1 << 20, NULL, 0},
    [SEARCH_MIN_LENGTH] = {"--min-length", WHOLE, FIELD(min_length), 0, 1 << 20, NULL, 0},
    [SEARCH_MAX_NEW] = {"--max-new-tokens", PLUS_ONE, FIELD(max_length), 1, 1 << 20, NULL, 0},
    [SEARCH_MIN_NEW] = {"--min-new-tokens", PLUS_ONE, FIELD(min_length), 0, 1 << 20, NULL, 0},
    [SEARCH_LENGTH_PENALTY] = {"--length-penalty", NUMBER, FIELD(length_penalty), -100, 100, NULL, 0},
    [SEARCH_LENGTH_KIND] = {"--length-norm", CHOICE, FIELD(length_kind), TSR_LENGTH_POWER, 0, length_kinds, 0},
    [SEARCH_EARLY] = {"--early-stopping", CHOICE, FIELD(early_stopping), TSR_EARLY_FALSE, 0, early_kinds, 0},
    [SEARCH_PATIENCE] = {"--patience", NUMBER, FIELD(patience), 1e-3, 1000, NULL, 0},
    [SEARCH_REPETITION] = {"--repetition-penalty", NUMBER, FIELD(repetition_penalty), 1e-3, 1000, NULL, 0},
    [SEARCH_ENCODER_REPETITION] = {"--encoder-repetition-penalty", NUMBER, FIELD(encoder_repetition_penalty), 1e-3,
                                   1000, NULL, 0},
    [SEARCH_NGRAM] = {"--no-repeat-ngram", WHOLE, FIELD(no_repeat_ngram), 0, 1 << 20, NULL, 0},
    [SEARCH_ENCODER_NGRAM] = {"--encoder-no-repeat-ngram", WHOLE, FIELD(encoder_no_repeat_ngram), 0, 1 << 20, NULL, 0},
    [SEARCH_RENORMALIZE] = {"--renormalize", FLAG, FIELD(renormalize), 1, 0, NULL, 0},
    [SEARCH_FORCED_BOS] = {"--forced-bos", WHOLE, FIELD(forced_bos_id), -1, INT32_MAX, NULL, 0},
    [SEARCH_FORCED_EOS] = {"--forced-eos", WHOLE, FIELD(forced_eos_id), -1, INT32_MAX, NULL, 0},
    [SEARCH_EOS] = {"--eos", LIST, FIELD(eos), 0, ROOM(eos), NULL, FIELD(n_eos)},
    [SEARCH_SUPPRESS] = {"--suppress", LIST, FIELD(suppressed), 0, ROOM(suppressed), NULL, FIELD(n_suppressed)},
    [SEARCH_BEGIN_SUPPRESS] = {"--begin-suppress", LIST, FIELD(begin_suppressed), 0, ROOM(begin_suppressed), NULL,
                               FIELD(n_begin_suppressed)},
    [SEARCH_BAD_WORDS] = {"--bad-words", WORDS, FIELD(words), 0, ROOM(words), NULL, FIELD(n_words)},
    [SEARCH_SAMPLE] = {"--sample", FLAG, FIELD(sample), 1, 0, NULL, 0},
    [SEARCH_NO_SAMPLE] = {"--no-sample", FLAG, FIELD(sample), 0, 0, NULL, 0},
    [SEARCH_TEMPERATURE] = {"--temperature", NUMBER, FIELD(temperature), 1e-3, 1e6, NULL, 0},
    [SEARCH_TOP_K] = {"--top-k", WHOLE, FIELD(top_k), 0, INT32_MAX, NULL, 0},
    [SEARCH_TOP_P] = {"--top-p", NUMBER, FIELD(top_p), 1e-6, 1, NULL, 0},
    [SEARCH_SEED] = {"--seed", SEED, FIELD(seed), 0, 0, NULL, 0},
    [SEARCH_KIND] = {"--search", CHOICE, FIELD(search), TSR_SEARCH_TRANSFORMERS, 0, searches, 0},
    [SEARCH_WORD_PENALTY] = {"--word-penalty", NUMBER, FIELD(word_penalty), -1000, 1000, NULL, 0},
    [SEARCH_LENGTH_FACTOR] = {"--max-length-factor", NUMBER, FIELD(max_length_factor), 1e-3, 1e6, NULL, 0},
};

static int32_t *whole_at(tsr_generate_options *options, size_t offset)
{
  return (int32_t *)(void *)((char *)options + offset);
}

static int take_choice(const char *command, const field *f, const char *text, int32_t *value)
{
  for (int32_t i = 0; f->choices[i]; i++) {
    if (strcmp(f->choices[i], text) == 0) {
      *value = (int32_t)f->low + i;
      return TSR_EXIT_OK;
    }
  }
  return tsr_cli_usage(command, "%s: '%s' is none of %s, %s%s%s", f->name, text, f->choices[0], f->choices[1],
                       f->choices[2] ? ", " : "", f->choices[2] ? f->choices[2] : "");
}

/* Reads the id that text begins with, and moves text behind it. */
static int take_id(const char *command, const field *f, const char **text, int32_t *id)
{
  char *end = NULL;
  errno = 0;
  long value = strtol(*text, &end, 10);
  if (end == *text || errno != 0 || value < 0 || value > INT32_MAX) {
    return tsr_cli_usage(command, "%s: there should be a token id at '%s'", f->name, *text);
  }
  *id = (int32_t)value;
  *text = end;
  return TSR_EXIT_OK;
}

/* Words of one token are banned like --suppress says; longer ones are kept as tsr_generate_options has them. An empty
 * text means none. */
static int take_words(const char *command, const field *f, const char *text, search_settings *settings)
{
  tsr_generate_options *given = &settings->given;
  int32_t *elements = whole_at(given, f->offset);
  int32_t *n = whole_at(given, f->count);
  *n = 0;
  while (*text != '\0') {
    int32_t at = (*n)++;
    do {
      if (*n >= (int32_t)f->high) {
        return tsr_cli_usage(command, "%s: more than %d tokens, the words counted too", f->name, (int)f->high);
      }
      int code = take_id(command, f, &text, &elements[*n]);
      if (code != TSR_EXIT_OK) {
        return code;
      }
      ++*n;
    } while (*text == ' ');
    elements[at] = *n - at - 1;
    if (*text != ',' && *text != '\0') {
      return tsr_cli_usage(command, "%s: words should be separated by commas, not as in '%s'", f->name, text);
    }
    text += *text == ',';
  }
  return TSR_EXIT_OK;
}

static int take_list(const char *command, const field *f, const char *text, search_settings *settings)
{
  int32_t *tokens = whole_at(&settings->given, f->offset);
  int32_t *n = whole_at(&settings->given, f->count);
  *n = 0;
  while (*text != '\0') {
    if (*n == (int32_t)f->high) {
      return tsr_cli_usage(command, "%s: more than %d tokens", f->name, (int)f->high);
    }
    int code = take_id(command, f, &text, &tokens[(*n)++]);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (*text != ',' && *text != '\0') {
      return tsr_cli_usage(command, "%s: ids should be separated by commas, not as in '%s'", f->name, text);
    }
    text += *text == ',';
  }
  return TSR_EXIT_OK;
}

static int take_seed(const char *command, const field *f, const char *text, uint64_t *seed)
{
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || strchr(text, '-')) {
    return tsr_cli_usage(command, "%s: '%s' is no whole number from 0 to %" PRIu64, f->name, text, UINT64_MAX);
  }
  *seed = value;
  return TSR_EXIT_OK;
}

static int take_value(const char *command, const field *f, const char *text, search_settings *settings)
{
  int32_t *value = whole_at(&settings->given, f->offset);
  double number = 0.0;
  int code = TSR_EXIT_OK;
  switch (f->kind) {
  case WHOLE:
    return tsr_cli_int32(command, f->name, text, (int32_t)f->low, (int32_t)f->high, value);
  case PLUS_ONE:
    code = tsr_cli_int32(command, f->name, text, (int32_t)f->low, (int32_t)f->high, value);
    *value += 1;
    return code;
  case NUMBER:
    code = tsr_cli_number(command, f->name, text, f->low, f->high, &number);
    *(float *)(void *)((char *)&settings->given + f->offset) = (float)number;
    return code;
  case CHOICE:
    return take_choice(command, f, text, value);
  case FLAG:
    *value = (int32_t)f->low;
    return TSR_EXIT_OK;
  case LIST:
    return take_list(command, f, text, settings);
  case WORDS:
    return take_words(command, f, text, settings);
  default:
    return take_seed(command, f, text, &settings->given.seed);
  }
}

int search_settings_take(const char *command, int option, search_settings *settings)
{
  int index = option - SEARCH_OPTION;
  if (index < 0 || index >= N_SEARCH_OPTIONS) {
    return TSR_EXIT_USAGE; /* tsr_cli_option has told */
  }
  settings->is_given[index] = 1;
  return take_value(command, &fields[index], optarg, settings);
}

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
    const field *f = &fields[i];
    const char *from = (const char *)&settings->given + f->offset;
    if (!is_given[i] || f->kind == WORDS) {
      continue;
    }
    size_t size = f->kind == SEED ? sizeof(uint64_t) : f->kind == LIST ? (size_t)f->high * 4 : sizeof(int32_t);
    memcpy((char *)options + f->offset, from, size);
    if (f->kind == LIST) {
      memcpy((char *)options + f->count, (const char *)&settings->given + f->count, sizeof(int32_t));
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
      return tsr_cli_usage(NULL, "%s is of sampling: --sample is missing", fields[of_sampling[i]].name);
    }
  }
  for (size_t i = 0; i < sizeof of_marian / sizeof of_marian[0]; i++) {
    if (settings->is_given[of_marian[i]] && options->search != TSR_SEARCH_MARIAN) {
      return tsr_cli_usage(NULL, "%s is of Marian-NMT's search: --search marian is missing", fields[of_marian[i]].name);
    }
  }
  return TSR_EXIT_OK;
}
