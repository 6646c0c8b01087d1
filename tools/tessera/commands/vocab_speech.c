/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/commands/vocab_speech.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/speech.h"
#include "tools/tessera/common/message.h"

/* A pair of neighbouring tokens, and how often it occurs. */
typedef struct pair {
  uint64_t key; /* left << 32 | right, plus 1; 0: a free place */
  int64_t count;
} pair;

typedef struct learner {
  json_t *words;  /* how often each occurs, by its bytes as they are written in vocab.json */
  int32_t **ids;  /* [n_words] the tokens of each */
  int32_t *n_ids; /* [n_words] */
  int64_t *counts;
  int32_t n_words;
  char **tokens; /* [n_tokens] as they are written */
  int32_t n_tokens;
  pair *pairs; /* [room], by hashing */
  size_t room; /* a power of two */
} learner;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static int is_written_as_itself(int byte)
{
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The character that stands for a byte in vocab.json: itself, or one of those from U+0100 on, in UTF-8. Returns its
 * bytes. */
static size_t write_byte(int byte, char *text)
{
  int code = 0x100;
  for (int i = 0; i < byte; i++) {
    code += !is_written_as_itself(i);
  }
  code = is_written_as_itself(byte) ? byte : code;
  if (code < 0x80) {
    text[0] = (char)code;
    return 1;
  }
  text[0] = (char)(0xC0 | code >> 6);
  text[1] = (char)(0x80 | (code & 0x3F));
  return 2;
}

/* Ids of single bytes: first those that are written as themselves. */
static int32_t id_of_byte(int byte)
{
  int32_t before = 0, all = 0;
  for (int i = 0; i < VOCAB_BYTES; i++) {
    before += i < byte && is_written_as_itself(i) == is_written_as_itself(byte);
    all += is_written_as_itself(i);
  }
  return is_written_as_itself(byte) ? before : all + before;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

enum { BLANK, LETTERS, DIGITS, OTHERS };

/* What is not ASCII counts as a letter: no merge crosses a border that the tokenizer has, and some borders more do no
 * harm. */
static int class_of(unsigned char c)
{
  return c <= ' '                                                        ? BLANK
         : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80 ? LETTERS
         : c >= '0' && c <= '9'                                          ? DIGITS
                                                                         : OTHERS;
}

static int count_word(learner *l, const char *bytes, size_t size)
{
  char *word = malloc(2 * size + 1);
  size_t n = 0;
  for (size_t i = 0; word && i < size; i++) {
    n += write_byte((unsigned char)bytes[i], word + n);
  }
  if (word) {
    word[n] = '\0';
  }
  const json_int_t seen = word ? json_integer_value(json_object_get(l->words, word)) : 0;
  const int failed = !word || json_object_set_new(l->words, word, json_integer(seen + 1)) != 0;
  free(word);
  return failed ? tsr_cli_no_memory() : TSR_EXIT_OK;
}

/* The words of a text, each with the blank before it; the text itself stands behind a blank. */
static int count_words(learner *l, const char *text, size_t size)
{
  char *line = malloc(size + 1);
  int code = line ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    line[0] = ' ';
    if (size > 0) {
      memcpy(line + 1, text, size);
    }
  }
  for (size_t at = 0, end; code == TSR_EXIT_OK && at <= size; at = end) {
    const size_t first = line[at] == ' ' && at < size ? at + 1 : at;
    const int class = class_of((unsigned char)line[first]);
    end = first + 1;
    while (class != BLANK && end <= size && class_of((unsigned char)line[end]) == class) {
      end++;
    }
    code = count_word(l, line + at, end - at);
  }
  free(line);
  return code;
}

/* White space at the ends is no part of a text. */
static int count_pair(learner *l, const tsr_corpus_pair *p, int64_t *sentences)
{
  const char *text = p->target;
  size_t size = p->target_size;
  while (size > 0 && class_of((unsigned char)text[size - 1]) == BLANK) {
    size--;
  }
  for (; size > 0 && class_of((unsigned char)*text) == BLANK; size--) {
    text++;
  }
  *sentences += size > 0;
  return size > 0 ? count_words(l, text, size) : TSR_EXIT_OK;
}

static int read_words(learner *l, const tsr_corpus_files *files, int64_t *sentences)
{
  tsr_corpus *corpus = NULL;
  int code = tsr_cli_fail_input(tsr_corpus_open(files, &corpus));
  for (int32_t end = 0; code == TSR_EXIT_OK && !end;) {
    tsr_corpus_pair p;
    code = tsr_cli_fail_input(tsr_corpus_next(corpus, &p, &end));
    if (code == TSR_EXIT_OK && !end) {
      code = count_pair(l, &p, sentences);
    }
  }
  tsr_corpus_close(corpus);
  return code;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* Words as tokens of one byte each. */
static int begin(learner *l, int32_t size)
{
  const size_t n = json_object_size(l->words);
  const char *word;
  json_t *count;
  l->ids = calloc(n + 1, sizeof *l->ids);
  l->n_ids = calloc(n + 1, sizeof *l->n_ids);
  l->counts = calloc(n + 1, sizeof *l->counts);
  l->tokens = calloc((size_t)size + 1, sizeof *l->tokens);
  if (!l->ids || !l->n_ids || !l->counts || !l->tokens) {
    return tsr_cli_no_memory();
  }
  for (int byte = 0; byte < VOCAB_BYTES; byte++) {
    char text[3] = "";
    (void)write_byte(byte, text);
    l->tokens[id_of_byte(byte)] = strdup(text);
    l->n_tokens++;
    if (!l->tokens[id_of_byte(byte)]) {
      return tsr_cli_no_memory();
    }
  }
  json_object_foreach(l->words, word, count)
  {
    int32_t *ids = malloc((strlen(word) + 1) * sizeof *ids), n_ids = 0;
    if (!ids) {
      return tsr_cli_no_memory();
    }
    for (const char *at = word; *at; n_ids++) {
      const size_t length = (unsigned char)*at < 0x80 ? 1 : 2;
      int32_t id = 0;
      while (strncmp(l->tokens[id], at, length) != 0 || l->tokens[id][length] != '\0') {
        id++;
      }
      ids[n_ids] = id;
      at += length;
    }
    l->ids[l->n_words] = ids;
    l->n_ids[l->n_words] = n_ids;
    l->counts[l->n_words++] = json_integer_value(count);
  }
  return TSR_EXIT_OK;
}

static pair *find_pair(const learner *l, uint64_t key)
{
  size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (l->room - 1);
  while (l->pairs[at].key != 0 && l->pairs[at].key != key) {
    at = (at + 1) & (l->room - 1);
  }
  return &l->pairs[at];
}

/* Counts all pairs of neighbours anew: there are few words, and few merges. */
static int count_pairs(learner *l)
{
  int64_t neighbours = 0;
  for (int32_t i = 0; i < l->n_words; i++) {
    neighbours += l->n_ids[i];
  }
  if (!l->pairs) {
    for (l->room = 1024; l->room < 2 * (size_t)neighbours; l->room *= 2) {
    }
    l->pairs = malloc(l->room * sizeof *l->pairs);
  }
  if (!l->pairs) {
    return tsr_cli_no_memory();
  }
  memset(l->pairs, 0, l->room * sizeof *l->pairs);
  for (int32_t i = 0; i < l->n_words; i++) {
    for (int32_t k = 0; k + 1 < l->n_ids[i]; k++) {
      pair *p = find_pair(l, ((uint64_t)(uint32_t)l->ids[i][k] << 32 | (uint32_t)l->ids[i][k + 1]) + 1);
      p->key = ((uint64_t)(uint32_t)l->ids[i][k] << 32 | (uint32_t)l->ids[i][k + 1]) + 1;
      p->count += l->counts[i];
    }
  }
  return TSR_EXIT_OK;
}

/* The most frequent pair, of equal ones that of the smaller ids; its key, or 0 if none occurs twice. */
static uint64_t best_pair(const learner *l)
{
  pair best = {.count = 1};
  for (size_t i = 0; i < l->room; i++) {
    const pair *p = &l->pairs[i];
    if (p->key != 0 && (p->count > best.count || (p->count == best.count && p->key < best.key))) {
      best = *p;
    }
  }
  return best.count > 1 ? best.key : 0;
}

static void merge(learner *l, int32_t left, int32_t right, int32_t merged)
{
  for (int32_t i = 0; i < l->n_words; i++) {
    int32_t *ids = l->ids[i], n = 0;
    for (int32_t k = 0; k < l->n_ids[i]; k++) {
      const int fits = k + 1 < l->n_ids[i] && ids[k] == left && ids[k + 1] == right;
      ids[n++] = fits ? merged : ids[k];
      k += fits;
    }
    l->n_ids[i] = n;
  }
}

/* Learns merges until there are `size` tokens, and writes them to a file of merges. */
static int learn(learner *l, int32_t size, FILE *merges)
{
  fputs("#version: 0.2\n", merges);
  while (l->n_tokens < size) {
    int code = count_pairs(l);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    const uint64_t key = best_pair(l);
    if (key == 0) {
      break;
    }
    const int32_t left = (int32_t)((key - 1) >> 32), right = (int32_t)((key - 1) & 0xFFFFFFFF);
    const size_t room = strlen(l->tokens[left]) + strlen(l->tokens[right]) + 1;
    char *token = malloc(room);
    if (!token) {
      return tsr_cli_no_memory();
    }
    snprintf(token, room, "%s%s", l->tokens[left], l->tokens[right]);
    fprintf(merges, "%s %s\n", l->tokens[left], l->tokens[right]);
    merge(l, left, right, l->n_tokens);
    l->tokens[l->n_tokens++] = token;
  }
  return TSR_EXIT_OK;
}

static void finish(learner *l)
{
  for (int32_t i = 0; l->ids && i < l->n_words; i++) {
    free(l->ids[i]);
  }
  for (int32_t i = 0; l->tokens && i < l->n_tokens; i++) {
    free(l->tokens[i]);
  }
  free(l->ids);
  free(l->n_ids);
  free(l->counts);
  free(l->tokens);
  free(l->pairs);
  json_decref(l->words);
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static int add_special(json_t *added, int32_t *id, const char *text)
{
  char number[16];
  snprintf(number, sizeof number, "%d", (int)(*id)++);
  return json_object_set_new(added, number,
                             json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text, "lstrip", 0, "normalized", 0,
                                       "rstrip", 0, "single_word", 0, "special", 1));
}

/* The special tokens behind the text's, in the order of the original. Those of timestamps have no text: their ids are
 * the ones behind. */
static json_t *special_tokens(int32_t first, const tsr_names *languages)
{
  static const char *const tasks[] = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                      "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};
  json_t *added = json_object();
  int failed = add_special(added, &first, "<|endoftext|>") || add_special(added, &first, "<|startoftranscript|>");
  for (int32_t i = 0; i < languages->n; i++) {
    char text[16];
    snprintf(text, sizeof text, "<|%s|>", languages->values[i]);
    failed |= add_special(added, &first, text);
  }
  for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
    failed |= add_special(added, &first, tasks[i]);
  }
  if (failed) {
    json_decref(added);
    return NULL;
  }
  return added;
}

static int describe(const learner *l, const tsr_names *languages, json_t **vocabulary, json_t **config)
{
  int failed = 0;
  *vocabulary = json_object();
  for (int32_t i = 0; i < l->n_tokens; i++) {
    failed |= json_object_set_new(*vocabulary, l->tokens[i], json_integer(i));
  }
  failed |= json_object_set_new(*vocabulary, "<|endoftext|>", json_integer(l->n_tokens));
  *config = json_pack("{s:s, s:b, s:o*, s:s, s:s, s:s, s:s, s:s}", "tokenizer_class", "WhisperTokenizer",
                      "add_prefix_space", 0, "added_tokens_decoder", special_tokens(l->n_tokens, languages),
                      "bos_token", "<|endoftext|>", "eos_token", "<|endoftext|>", "pad_token", "<|endoftext|>",
                      "unk_token", "<|endoftext|>", "errors", "replace");
  return failed || !*config ? tsr_cli_no_memory() : TSR_EXIT_OK;
}

static int check_languages(const tsr_names *languages)
{
  for (int32_t i = 0; i < languages->n; i++) {
    if (!tsr_speech_language_name(languages->values[i])) {
      return tsr_cli_usage("vocab", "--languages: there is no language with the code '%s'", languages->values[i]);
    }
  }
  return TSR_EXIT_OK;
}

int vocab_speech_make(const tsr_corpus_files *files, int32_t size, const tsr_names *languages, char **merges,
                      json_t **vocabulary, json_t **config, int64_t *sentences)
{
  learner l = {.words = json_object()};
  size_t n = 0;
  *merges = NULL;
  *vocabulary = *config = NULL;
  FILE *file = open_memstream(merges, &n);
  int code = file && l.words ? check_languages(languages) : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    code = read_words(&l, files, sentences);
  }
  if (code == TSR_EXIT_OK) {
    code = begin(&l, size > VOCAB_BYTES ? size : VOCAB_BYTES);
  }
  if (code == TSR_EXIT_OK) {
    code = learn(&l, size, file);
  }
  if (file && fclose(file) != 0 && code == TSR_EXIT_OK) {
    code = tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    code = describe(&l, languages, vocabulary, config);
  }
  finish(&l);
  return code;
}
