/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/train/recipe.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/replace.h"
#include "tools/tessera/common/message.h"

enum { TEXT, WORD, INTEGER, LONG, REAL, FLAG };

/* What changing a key does to a training that goes on. */
enum {
  FREE,  /* nothing to its numbers */
  FIXED, /* changes them */
  TOTAL  /* changes them where the learning rate falls until the end */
};

typedef struct key {
  const char *name;
  int32_t type;
  size_t offset;
  int32_t effect;
  const char *value; /* default */
  double low, high;  /* of numbers */
  const char *words; /* of WORD: "a|b|c" */
  const char *help;
} key;

#define TEXT_KEY(name, effect, help)                                                                                   \
  {                                                                                                                    \
#name, TEXT, offsetof(recipe, name), effect, "", 0, 0, NULL, help                                                  \
  }
#define WORD_KEY(name, effect, value, words, help)                                                                     \
  {                                                                                                                    \
#name, WORD, offsetof(recipe, name), effect, value, 0, 0, words, help                                              \
  }
#define NUMBER_KEY(type, name, effect, value, low, high, help)                                                         \
  {                                                                                                                    \
#name, type, offsetof(recipe, name), effect, value, low, high, NULL, help                                          \
  }
#define FLAG_KEY(name, effect, value, help)                                                                            \
  {                                                                                                                    \
#name, FLAG, offsetof(recipe, name), effect, value, 0, 1, NULL, help                                               \
  }

static const double most = 1e9;

/* clang-format off */
static const key keys[] = {
    TEXT_KEY(source, FIXED, "sentences to train on, one a line; or WMT's SGM or XML"),
    TEXT_KEY(target, FIXED, "their translations"),
    TEXT_KEY(tsv, FIXED, "instead of both: a file with both sides, TSV or XML"),
    TEXT_KEY(valid_source, FIXED, "sentences to validate on; or a file with both sides"),
    TEXT_KEY(valid_target, FIXED, "their translations"),
    TEXT_KEY(vocab, FIXED, "folder with the tokenizer's files, as `tessera vocab` writes it"),
    TEXT_KEY(out, FREE, "folder of the model that is made; checkpoints and logs are in its train/"),
    TEXT_KEY(device, FREE, "where to compute (see `tessera devices`); else TESSERA_DEVICE, else auto"),
    WORD_KEY(task, FIXED, "", "|copy|reverse|sort", "copy, reverse or sort random sequences instead of files"),
    NUMBER_KEY(INTEGER, vocab_size, FIXED, "16", 4, 1 << 20, "of a task: ids, </s>, <unk> and <pad> among them"),
    NUMBER_KEY(INTEGER, min_length, FIXED, "1", 1, 65536, "of a task's sequences"),
    NUMBER_KEY(INTEGER, max_length, FIXED, "10", 1, 65536, "of a task's sequences"),
    WORD_KEY(family, FIXED, "marian", "marian|nn_transformer|bart|pegasus|t5|mt5|umt5",
             "whose form the model has: marian, nn_transformer; the others are trained on from a folder"),
    NUMBER_KEY(INTEGER, d_model, FIXED, "256", 1, 65536, "width"),
    NUMBER_KEY(INTEGER, heads, FIXED, "8", 1, 1024, "of the attention"),
    NUMBER_KEY(INTEGER, d_ff, FIXED, "1024", 1, 262144, "width of the feed-forward blocks"),
    NUMBER_KEY(INTEGER, encoder_layers, FIXED, "3", 1, 1024, "of the encoder"),
    NUMBER_KEY(INTEGER, decoder_layers, FIXED, "3", 1, 1024, "of the decoder"),
    WORD_KEY(activation, FIXED, "relu", "relu|gelu|gelu_new|swish", "relu, gelu, gelu_new or swish"),
    FLAG_KEY(norm_first, FIXED, "false", "norms before the sublayers instead of after them (nn_transformer)"),
    FLAG_KEY(shared_embedding, FIXED, "true", "one table of embeddings for both sides (marian, joint vocabulary)"),
    FLAG_KEY(tied_logits, FIXED, "true", "the logits' weights are the target's embeddings (marian)"),
    NUMBER_KEY(INTEGER, max_positions, FIXED, "256", 8, 1 << 20, "longest sequence of the model, in tokens"),
    TEXT_KEY(init, FIXED, "how parameters begin: xavier (where nothing is said), family, or a model's folder to train on"),
    NUMBER_KEY(REAL, dropout, FIXED, "0.1", 0, 0.99, "of embeddings and sublayers"),
    NUMBER_KEY(REAL, attention_dropout, FIXED, "0", 0, 0.99, "of the attention's weights"),
    NUMBER_KEY(REAL, activation_dropout, FIXED, "0", 0, 0.99, "within the feed-forward blocks"),
    NUMBER_KEY(REAL, label_smoothing, FIXED, "0.1", 0, 0.99, "share of the probability that all words of the vocabulary get"),
    NUMBER_KEY(INTEGER, batch_tokens, FIXED, "2500", 1, 1 << 24, "of a batch's larger side, padding included"),
    NUMBER_KEY(INTEGER, accumulate, FIXED, "1", 1, 65536, "batches whose gradients make one update"),
    NUMBER_KEY(INTEGER, max_source, FIXED, "128", 0, 65536, "tokens of a source; longer pairs are left out; 0: what fits"),
    NUMBER_KEY(INTEGER, max_target, FIXED, "128", 0, 65536, "tokens of a target, likewise"),
    NUMBER_KEY(REAL, max_ratio, FIXED, "0", 0, 1e6, "of the longer side to the shorter, likewise; 0: any"),
    NUMBER_KEY(INTEGER, bucket, FIXED, "4", 1, 4096, "widths of batches are multiples of it"),
    NUMBER_KEY(INTEGER, pool, FIXED, "131072", 1, 1 << 28, "pairs that are read, sorted and shuffled at once"),
    NUMBER_KEY(LONG, seed, FIXED, "1", 0, 9e15, "of parameters, dropout and order"),
    WORD_KEY(optimizer, FIXED, "adam", "adam|adamw", "adam or adamw, where the decay is no part of the gradient"),
    NUMBER_KEY(REAL, beta1, FIXED, "0.9", 0, 0.999999, "of Adam"),
    NUMBER_KEY(REAL, beta2, FIXED, "0.98", 0, 0.999999, "of Adam"),
    NUMBER_KEY(REAL, epsilon, FIXED, "1e-9", 1e-30, 1, "of Adam"),
    NUMBER_KEY(REAL, weight_decay, FIXED, "0", 0, 1e3, "of the matrices"),
    NUMBER_KEY(REAL, max_norm, FIXED, "0", 0, 1e9, "of the gradients; larger ones are scaled down; 0: never"),
    WORD_KEY(schedule, FIXED, "noam", "constant|noam|linear|cosine", "of the learning rate: constant, noam (inverse root),\n                          linear or cosine (to the floor, by the last of `steps` or `minutes`)"),
    NUMBER_KEY(REAL, rate, FIXED, "0", 0, 1e38, "learning rate at the end of the warm-up; 0: 1 / sqrt(d_model * warmup)"),
    NUMBER_KEY(LONG, warmup, FIXED, "1000", 0, most, "steps in which the rate rises"),
    NUMBER_KEY(REAL, floor, FIXED, "0", 0, 1e38, "to which the rate falls"),
    NUMBER_KEY(REAL, average, FIXED, "0", 0, 0.9999999, "decay of an exponential average of the parameters, which is what\n                          is validated and saved then; 0: none"),
    NUMBER_KEY(INTEGER, average_last, FREE, "0", 0, 1000, "in the end, the mean of so many saved states competes, too"),
    WORD_KEY(precision, FIXED, "f32", "f32|f16|bf16", "of the products: f32, f16 or bf16"),
    NUMBER_KEY(REAL, loss_scale, FIXED, "65536", 1, 1e38, "of f16: at first; it is halved where gradients overflow, and grows again"),
    WORD_KEY(recompute, FIXED, "none", "none|layers", "none, or layers: less memory, more work"),
    NUMBER_KEY(LONG, steps, TOTAL, "0", 0, most, "updates after which it ends; 0: any"),
    NUMBER_KEY(LONG, epochs, FREE, "0", 0, most, "passes over the data after which it ends; 0: any"),
    NUMBER_KEY(REAL, minutes, TOTAL, "0", 0, 1e6, "after which it ends; 0: any"),
    NUMBER_KEY(INTEGER, patience, FREE, "0", 0, most, "validations without a better one after which it ends; 0: any"),
    NUMBER_KEY(REAL, until, FREE, "0", 0, 100, "BLEU, or share of exact sequences (0 to 1), at which it ends; 0: any"),
    NUMBER_KEY(LONG, log_every, FREE, "50", 1, most, "steps between rows of the log"),
    NUMBER_KEY(LONG, validate_every, FREE, "500", 1, most, "steps between validations"),
    NUMBER_KEY(LONG, save_every, FREE, "500", 1, most, "steps between checkpoints"),
    NUMBER_KEY(INTEGER, keep, FREE, "0", 0, 1000, "checkpoints that stay beside the last and the best"),
    FLAG_KEY(statistics, FREE, "false", "activations and gradients of each layer in the log and layers.csv"),
    WORD_KEY(criterion, FREE, "", "|loss|bleu|exact", "what makes a validation the best: loss, bleu or exact (of a task)"),
    NUMBER_KEY(INTEGER, bleu_beam, FREE, "1", 1, 64, "hypotheses kept at validations; 1: greedy search"),
    NUMBER_KEY(INTEGER, bleu_sentences, FREE, "500", 0, most, "translated at validations, from the first; 0: none"),
    WORD_KEY(save_precision, FREE, "f16", "f32|f16|bf16", "of the model that is made: f32, f16 or bf16"),
    NUMBER_KEY(INTEGER, save_beam, FREE, "4", 1, 64, "hypotheses that the model's folder asks for"),
};
/* clang-format on */

enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* What suits a toy task, where nothing is said. */
static const struct {
  const char *name, *value;
} task_values[] = {{"d_model", "64"},         {"heads", "4"},
                   {"d_ff", "256"},           {"encoder_layers", "2"},
                   {"decoder_layers", "2"},   {"max_positions", "64"},
                   {"dropout", "0"},          {"label_smoothing", "0"},
                   {"batch_tokens", "1024"},  {"rate", "0.001"},
                   {"warmup", "200"},         {"max_norm", "1"},
                   {"average", "0.99"},       {"validate_every", "100"},
                   {"save_precision", "f32"}, {"save_beam", "1"},
                   {"pool", "8192"},          {"max_source", "0"},
                   {"max_target", "0"}};

int32_t recipe_key_count(void)
{
  return N_KEYS;
}

const char *recipe_key_name(int32_t k)
{
  return keys[k].name;
}

const char *recipe_key_help(int32_t k)
{
  return keys[k].help;
}

const char *recipe_key_default(int32_t k, int is_task)
{
  for (size_t i = 0; i < sizeof task_values / sizeof task_values[0] && is_task; i++) {
    if (strcmp(task_values[i].name, keys[k].name) == 0) {
      return task_values[i].value;
    }
  }
  return keys[k].value;
}

int recipe_key_is_flag(int32_t k)
{
  return keys[k].type == FLAG;
}

int32_t recipe_key_find(const char *name)
{
  for (int32_t i = 0; i < N_KEYS; i++) {
    if (strcmp(keys[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

/* Letters to be put in, left out or changed to make one word of another (Levenshtein 1966). Words are cut at 63. */
static int32_t distance(const char *a, const char *b)
{
  enum { ROOM = 64 };
  int32_t row[ROOM], n = (int32_t)strlen(b), m = (int32_t)strlen(a);
  n = n < ROOM - 1 ? n : ROOM - 1;
  m = m < ROOM - 1 ? m : ROOM - 1;
  for (int32_t j = 0; j <= n; j++) {
    row[j] = j;
  }
  for (int32_t i = 1; i <= m; i++) {
    int32_t diagonal = row[0];
    row[0] = i;
    for (int32_t j = 1; j <= n; j++) {
      int32_t changed = diagonal + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      diagonal = row[j];
      row[j] = changed < other ? changed : other;
    }
  }
  return row[n];
}

const char *recipe_key_nearest(const char *name)
{
  int32_t best = 0;
  for (int32_t i = 1; i < N_KEYS; i++) {
    if (distance(name, keys[i].name) < distance(name, keys[best].name)) {
      best = i;
    }
  }
  return keys[best].name;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void *field_of(const recipe *r, const key *k)
{
  return (char *)r + k->offset;
}

/* "a|b|c" has the word. */
static int has_word(const char *words, const char *word)
{
  size_t size = strlen(word);
  for (const char *at = words;; at++) {
    size_t length = strcspn(at, "|");
    if (length == size && strncmp(at, word, size) == 0) {
      return 1;
    }
    at += length;
    if (*at == '\0') {
      return 0;
    }
  }
}

static int set_text(char **field, const char *text)
{
  char *copy = malloc(strlen(text) + 1);
  if (!copy) {
    return tsr_cli_no_memory();
  }
  strcpy(copy, text);
  free(*field);
  *field = copy;
  return TSR_EXIT_OK;
}

static int fail_value(const char *where, const char *text, const char *expected)
{
  tsr_cli_error("%s: expected %s, found '%s'", where, expected, text);
  return strncmp(where, "--", 2) == 0 ? TSR_EXIT_USAGE : TSR_EXIT_INPUT;
}

static int parse_number(const key *k, const char *text, const char *where, double *value)
{
  char *end = NULL, expected[96];
  errno = 0;
  int is_whole = k->type != REAL;
  *value = is_whole ? (double)strtoll(text, &end, 10) : strtod(text, &end);
  if (end == text || *end != '\0' || errno == ERANGE || !isfinite(*value)) {
    return fail_value(where, text, is_whole ? "a whole number" : "a number");
  }
  if (*value < k->low || *value > k->high) {
    snprintf(expected, sizeof expected, "%.10g to %.10g", k->low, k->high);
    return fail_value(where, text, expected);
  }
  return TSR_EXIT_OK;
}

static int set_value(recipe *r, const key *k, const char *text, const char *where)
{
  void *field = field_of(r, k);
  double number = 0;
  if (k->type == TEXT) {
    return set_text(field, text);
  }
  if (k->type == WORD) {
    if (!has_word(k->words, text)) {
      return fail_value(where, text, k->words[0] == '|' ? k->words + 1 : k->words);
    }
    return set_text(field, text);
  }
  if (k->type == FLAG) {
    if (!has_word("true|false|yes|no", text)) {
      return fail_value(where, text, "true or false");
    }
    *(int32_t *)field = has_word("true|yes", text);
    return TSR_EXIT_OK;
  }
  int code = parse_number(k, text, where, &number);
  if (code == TSR_EXIT_OK && k->type == REAL) {
    *(double *)field = number;
  } else if (code == TSR_EXIT_OK && k->type == LONG) {
    *(int64_t *)field = (int64_t)number;
  } else if (code == TSR_EXIT_OK) {
    *(int32_t *)field = (int32_t)number;
  }
  return code;
}

/* A value as text that reads back as the same. Writes into `text` unless it is a text already. */
static const char *value_of(const recipe *r, const key *k, char *text, size_t size)
{
  const void *field = field_of(r, k);
  switch (k->type) {
  case TEXT:
  case WORD:
    return *(char *const *)field;
  case FLAG:
    return *(const int32_t *)field ? "true" : "false";
  case REAL:
    snprintf(text, size, "%.15g", *(const double *)field);
    if (strtod(text, NULL) != *(const double *)field) {
      snprintf(text, size, "%.17g", *(const double *)field);
    }
    return text;
  case LONG:
    snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
    return text;
  default:
    snprintf(text, size, "%d", (int)*(const int32_t *)field);
    return text;
  }
}

int recipe_init(recipe *r, int is_task)
{
  *r = (recipe){0};
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < N_KEYS && code == TSR_EXIT_OK; i++) {
    code = set_value(r, &keys[i], keys[i].value, keys[i].name);
  }
  for (size_t i = 0; i < sizeof task_values / sizeof task_values[0] && is_task && code == TSR_EXIT_OK; i++) {
    code = set_value(r, &keys[recipe_key_find(task_values[i].name)], task_values[i].value, task_values[i].name);
  }
  return code;
}

void recipe_finish(recipe *r)
{
  for (int32_t i = 0; i < N_KEYS; i++) {
    if (keys[i].type == TEXT || keys[i].type == WORD) {
      free(*(char **)field_of(r, &keys[i]));
    }
  }
  *r = (recipe){0};
}

/* ---- what was said ----------------------------------------------------------------------------------------------- */

int recipe_note(recipe_assignments *list, int32_t k, const char *text, const char *where)
{
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 32;
    recipe_assignment *longer = realloc(list->items, (size_t)room * sizeof *longer);
    if (!longer) {
      return tsr_cli_no_memory();
    }
    list->items = longer;
    list->room = room;
  }
  recipe_assignment *item = &list->items[list->n];
  *item = (recipe_assignment){.key = k};
  if (set_text(&item->text, text) != TSR_EXIT_OK || set_text(&item->where, where) != TSR_EXIT_OK) {
    free(item->text);
    return TSR_EXIT_MEMORY;
  }
  list->n++;
  return TSR_EXIT_OK;
}

void recipe_assignments_finish(recipe_assignments *list)
{
  for (int32_t i = 0; i < list->n; i++) {
    free(list->items[i].text);
    free(list->items[i].where);
  }
  free(list->items);
  *list = (recipe_assignments){0};
}

int recipe_is_said(const recipe_assignments *list, const char *name)
{
  for (int32_t i = 0; i < list->n; i++) {
    if (strcmp(keys[list->items[i].key].name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

int recipe_apply(recipe *r, const recipe_assignments *list)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < list->n && code == TSR_EXIT_OK; i++) {
    code = set_value(r, &keys[list->items[i].key], list->items[i].text, list->items[i].where);
  }
  return code;
}

int recipe_impose(recipe *r, const recipe_assignments *said, const char *name, const char *value, const char *owner)
{
  const key *k = &keys[recipe_key_find(name)];
  char text[64];
  const char *is = value_of(r, k, text, sizeof text);
  if (strcmp(is, value) == 0) {
    return TSR_EXIT_OK;
  }
  if (recipe_is_said(said, name)) {
    tsr_cli_error("%s has %s '%s', not '%s': leave it out", owner, name, value, is);
    return TSR_EXIT_USAGE;
  }
  return set_value(r, k, value, owner);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* As a double-quoted scalar of YAML. */
static void print_quoted(FILE *file, const char *text)
{
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at == '"' || *at == '\\') {
      fprintf(file, "\\%c", *at);
    } else if (*at < 0x20 || *at == 0x7F) {
      fprintf(file, "\\x%02X", *at);
    } else {
      fputc(*at, file);
    }
  }
  fputc('"', file);
}

tsr_status recipe_write(const recipe *r, const char *path)
{
  char *bytes = NULL, text[64];
  size_t size = 0;
  FILE *file = open_memstream(&bytes, &size);
  if (!file) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: no memory for its text", path);
  }
  for (int32_t i = 0; i < N_KEYS; i++) {
    const key *k = &keys[i];
    const char *value = value_of(r, k, text, sizeof text);
    fprintf(file, "%s: ", k->name);
    if (k->type == TEXT || value[0] == '\0') {
      print_quoted(file, value);
    } else {
      fputs(value, file);
    }
    fputc('\n', file);
  }
  if (fclose(file) != 0) {
    free(bytes);
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: no memory for its text", path);
  }
  tsr_status status = tsr_file_replace(path, bytes, size);
  free(bytes);
  return status;
}

int recipe_compare(const recipe *old, const recipe *changed, const char *folder)
{
  int falls = strcmp(old->schedule, "linear") == 0 || strcmp(old->schedule, "cosine") == 0;
  for (int32_t i = 0; i < N_KEYS; i++) {
    const key *k = &keys[i];
    char a[64], b[64];
    const char *was = value_of(old, k, a, sizeof a), *is = value_of(changed, k, b, sizeof b);
    if (strcmp(was, is) != 0 && (k->effect == FIXED || (k->effect == TOTAL && falls))) {
      tsr_cli_error("%s: was begun with %s '%s'; '%s' would change its numbers: leave it, or train in another folder",
                    folder, k->name, was, is);
      return TSR_EXIT_USAGE;
    }
  }
  return TSR_EXIT_OK;
}
