/* SPDX-License-Identifier: Apache-2.0
 *
 * Whisper: byte-level BPE by merges.txt, numbered by vocab.json, with added tokens for languages, tasks and timestamps.
 */
#include "core/text/whisper.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/json.h"
#include "core/text/bpe.h"
#include "core/text/kinds.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Languages: in the order of their ids, as far as a vocabulary has them, each with its English name; then other names
 */
typedef struct named_language {
  const char *code;
  const char *name;
} named_language;

static const named_language languages[] = {
    {"en", "english"},        {"zh", "chinese"},       {"de", "german"},    {"es", "spanish"},    {"ru", "russian"},
    {"ko", "korean"},         {"fr", "french"},        {"ja", "japanese"},  {"pt", "portuguese"}, {"tr", "turkish"},
    {"pl", "polish"},         {"ca", "catalan"},       {"nl", "dutch"},     {"ar", "arabic"},     {"sv", "swedish"},
    {"it", "italian"},        {"id", "indonesian"},    {"hi", "hindi"},     {"fi", "finnish"},    {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},     {"el", "greek"},     {"ms", "malay"},      {"cs", "czech"},
    {"ro", "romanian"},       {"da", "danish"},        {"hu", "hungarian"}, {"ta", "tamil"},      {"no", "norwegian"},
    {"th", "thai"},           {"ur", "urdu"},          {"hr", "croatian"},  {"bg", "bulgarian"},  {"lt", "lithuanian"},
    {"la", "latin"},          {"mi", "maori"},         {"ml", "malayalam"}, {"cy", "welsh"},      {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},       {"lv", "latvian"},   {"bn", "bengali"},    {"sr", "serbian"},
    {"az", "azerbaijani"},    {"sl", "slovenian"},     {"kn", "kannada"},   {"et", "estonian"},   {"mk", "macedonian"},
    {"br", "breton"},         {"eu", "basque"},        {"is", "icelandic"}, {"hy", "armenian"},   {"ne", "nepali"},
    {"mn", "mongolian"},      {"bs", "bosnian"},       {"kk", "kazakh"},    {"sq", "albanian"},   {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},       {"pa", "punjabi"},   {"si", "sinhala"},    {"km", "khmer"},
    {"sn", "shona"},          {"yo", "yoruba"},        {"so", "somali"},    {"af", "afrikaans"},  {"oc", "occitan"},
    {"ka", "georgian"},       {"be", "belarusian"},    {"tg", "tajik"},     {"sd", "sindhi"},     {"gu", "gujarati"},
    {"am", "amharic"},        {"yi", "yiddish"},       {"lo", "lao"},       {"uz", "uzbek"},      {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},        {"tk", "turkmen"},   {"nn", "nynorsk"},    {"mt", "maltese"},
    {"sa", "sanskrit"},       {"lb", "luxembourgish"}, {"my", "myanmar"},   {"bo", "tibetan"},    {"tl", "tagalog"},
    {"mg", "malagasy"},       {"as", "assamese"},      {"tt", "tatar"},     {"haw", "hawaiian"},  {"ln", "lingala"},
    {"ha", "hausa"},          {"ba", "bashkir"},       {"jw", "javanese"},  {"su", "sundanese"},  {"yue", "cantonese"},
};

static const named_language other_names[] = {
    {"my", "burmese"},       {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},
    {"lb", "letzeburgesch"}, {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"},
    {"ro", "moldovan"},      {"si", "sinhalese"}, {"es", "castilian"}, {"zh", "mandarin"},
};

enum {
  N_LANGUAGES = sizeof languages / sizeof languages[0],
  N_OTHER_NAMES = sizeof other_names / sizeof other_names[0]
};

const char *tsr_speech_language_name(const char *code)
{
  for (int i = 0; code && i < N_LANGUAGES; i++) {
    if (strcmp(languages[i].code, code) == 0) {
      return languages[i].name;
    }
  }
  return NULL;
}

static int lower(char c)
{
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* Whatever the case of `text`; `name` is in lower case. */
static int is_name(const char *text, const char *name)
{
  size_t i = 0;
  while (name[i] && lower(text[i]) == name[i]) {
    i++;
  }
  return text[i] == name[i];
}

static int32_t find_code(const tsr_tokenizer *tokenizer, const char *code)
{
  for (int32_t i = 0; i < tokenizer->n_languages; i++) {
    if (is_name(code, tokenizer->languages[i].code) || is_name(code, tokenizer->languages[i].token)) {
      return i;
    }
  }
  return -1;
}

int32_t tsr_whisper_find_name(const tsr_tokenizer *tokenizer, const char *name)
{
  for (int i = 0; i < N_LANGUAGES; i++) {
    if (is_name(name, languages[i].name)) {
      return find_code(tokenizer, languages[i].code);
    }
  }
  for (int i = 0; i < N_OTHER_NAMES; i++) {
    if (is_name(name, other_names[i].name)) {
      return find_code(tokenizer, other_names[i].code);
    }
  }
  return find_code(tokenizer, name);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Opening
 */
tsr_status tsr_whisper_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  (void)kind;
  return tsr_byte_level_open(files, tokenizer);
}

static int32_t find_token(const tsr_tokenizer *tokenizer, const char *token)
{
  return tsr_vocabulary_find(tokenizer->side[TSR_SIDE_TARGET].vocabulary, token, strlen(token));
}

static tsr_status require_token(const tsr_tokenizer *tokenizer, const char *token, int32_t *id)
{
  return tsr_vocabulary_require(tokenizer->side[TSR_SIDE_TARGET].vocabulary, token, id);
}

static tsr_status find_tokens(const tsr_tokenizer_files *files, const tsr_tokenizer *tokenizer,
                              tsr_speech_tokens *tokens)
{
  tokens->end_of_text = tokenizer->side[TSR_SIDE_TARGET].special[TSR_EOS];
  TSR_TRY(require_token(tokenizer, "<|startoftranscript|>", &tokens->start_of_transcript));
  TSR_TRY(require_token(tokenizer, "<|translate|>", &tokens->translate));
  TSR_TRY(require_token(tokenizer, "<|transcribe|>", &tokens->transcribe));
  TSR_TRY(require_token(tokenizer, "<|startofprev|>", &tokens->start_of_prev));
  TSR_TRY(require_token(tokenizer, "<|notimestamps|>", &tokens->no_timestamps));
  tokens->start_of_lm = find_token(tokenizer, "<|startoflm|>");
  tokens->no_speech = find_token(tokenizer, "<|nospeech|>");
  if (tokens->no_speech < 0) {
    tokens->no_speech = find_token(tokenizer, "<|nocaptions|>");
  }
  /* The oldest folders have no tokens for timestamps: their ids are beyond the vocabulary. */
  tokens->timestamp_begin = tokens->no_timestamps + 1;
  int32_t first = find_token(tokenizer, "<|0.00|>");
  if (first >= 0 && first != tokens->timestamp_begin) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: <|0.00|> has the id %d: expected %d, the one behind <|notimestamps|>",
                    files->folder, (int)first, (int)tokens->timestamp_begin);
  }
  return TSR_OK;
}

/* Tokens such as "<|fr|>" between <|startoftranscript|> and the tasks, and others with the code of a known language. */
static tsr_status find_languages(tsr_tokenizer *tokenizer, const tsr_speech_tokens *tokens)
{
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_TARGET].vocabulary;
  const int32_t tasks = tokens->translate < tokens->transcribe ? tokens->translate : tokens->transcribe;
  for (int32_t id = tokens->start_of_transcript + 1; id < tsr_vocabulary_size(vocabulary); id++) {
    const char *token = tsr_vocabulary_token(vocabulary, id);
    const size_t size = token ? strlen(token) : 0;
    char code[TSR_LANGUAGE_TOKEN];
    if (size < 5 || size >= sizeof code || memcmp(token, "<|", 2) != 0 || memcmp(token + size - 2, "|>", 2) != 0) {
      continue;
    }
    memcpy(code, token + 2, size - 4);
    code[size - 4] = '\0';
    if (id < tasks || tsr_speech_language_name(code)) {
      TSR_TRY(tsr_tokenizer_add_language(tokenizer, code, token, id));
    }
  }
  return TSR_OK;
}

/* What tokenizer_config.json says of the prefix. */
static tsr_status read_prefix(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  tsr_whisper *whisper = tokenizer->whisper;
  const char *task = NULL;
  const char *language = NULL;
  tsr_config_text(&files->options, "task", &task);
  tsr_config_text(&files->options, "language", &language);
  tsr_config_bool(&files->options, "predict_timestamps", &whisper->has_timestamps);
  TSR_TRY(tsr_config_status(&files->options));
  if (task && strcmp(task, "translate") != 0 && strcmp(task, "transcribe") != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key \"task\": expected \"transcribe\" or \"translate\", found %s",
                    files->options.path, tsr_quote(task).text);
  }
  whisper->task = !task                            ? TSR_SPEECH_NO_TASK
                  : strcmp(task, "translate") == 0 ? TSR_SPEECH_TRANSLATE
                                                   : TSR_SPEECH_TRANSCRIBE;
  tsr_status status = tsr_tokenizer_set_languages(tokenizer, language, language);
  return tsr_fail_context(status, "%s: key \"language\"", files->options.path);
}

tsr_status tsr_whisper_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                      tsr_tokenizer *tokenizer)
{
  (void)kind;
  if (!tokenizer->keep_blanks) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: a tokenizer of Whisper is byte-level BPE, and tokenizer.json has another",
                    files->folder);
  }
  tokenizer->clean_up = 0; /* whatever tokenizer_config.json says, as in the original */
  tsr_whisper *whisper = tsr_arena_take(&tokenizer->arena, sizeof *whisper);
  if (!whisper) {
    return tsr_fail_memory(sizeof *whisper);
  }
  TSR_TRY(find_tokens(files, tokenizer, &whisper->tokens));
  tokenizer->whisper = whisper;
  tokenizer->place = TSR_LANGUAGE_PREFIX;
  TSR_TRY(find_languages(tokenizer, &whisper->tokens));
  return read_prefix(files, tokenizer);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Tokens
 */
const tsr_whisper *tsr_whisper_of(const tsr_tokenizer *tokenizer, const char *where)
{
  const tsr_whisper *whisper = tokenizer ? tokenizer->whisper : NULL;
  if (!whisper) {
    tsr_status status = tsr_fail(TSR_ERR_ARGUMENT, "%s: expected a tokenizer of the kind whisper, found %s", where,
                                 tokenizer ? tokenizer->kind->name : "none");
    (void)status;
  }
  return whisper;
}

tsr_status tsr_speech_get_tokens(const tsr_tokenizer *tokenizer, tsr_speech_tokens *tokens)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_get_tokens");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!tokens) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_speech_get_tokens: tokens must not be NULL");
  }
  *tokens = whisper->tokens;
  return TSR_OK;
}

int32_t tsr_speech_language_id(const tsr_tokenizer *tokenizer, int32_t index)
{
  const int is_there = tokenizer && tokenizer->whisper && index >= 0 && index < tokenizer->n_languages;
  return is_there ? tokenizer->languages[index].id : -1;
}

tsr_status tsr_speech_find_language(const tsr_tokenizer *tokenizer, const char *name, int32_t *index)
{
  if (!tsr_whisper_of(tokenizer, "tsr_speech_find_language")) {
    return TSR_ERR_ARGUMENT;
  }
  if (!name || !index) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_speech_find_language: name and index must not be NULL");
  }
  return tsr_tokenizer_find_language(tokenizer, "", name, index);
}

int32_t tsr_whisper_prefix(const tsr_whisper *whisper, int32_t language, int32_t task, int32_t has_timestamps,
                           int32_t prefix[TSR_SPEECH_PREFIX])
{
  const tsr_speech_tokens *tokens = &whisper->tokens;
  int32_t n = 0;
  prefix[n++] = tokens->start_of_transcript;
  if (language >= 0) {
    prefix[n++] = language;
  }
  if (task != TSR_SPEECH_NO_TASK) {
    prefix[n++] = task == TSR_SPEECH_TRANSLATE ? tokens->translate : tokens->transcribe;
  }
  if (!has_timestamps) {
    prefix[n++] = tokens->no_timestamps;
  }
  return n;
}

tsr_status tsr_speech_prefix(const tsr_tokenizer *tokenizer, int32_t language, int32_t task, int32_t has_timestamps,
                             int32_t *prefix, int32_t *n)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_prefix");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!prefix || !n || language < -1 || language >= tokenizer->n_languages || task < TSR_SPEECH_NO_TASK ||
      task > TSR_SPEECH_TRANSLATE) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_prefix: language %d, task %d: expected a language from -1 to %d, a task TSR_SPEECH_*, "
                    "and room for the prefix",
                    (int)language, (int)task, (int)tokenizer->n_languages - 1);
  }
  *n = tsr_whisper_prefix(whisper, tsr_speech_language_id(tokenizer, language), task, has_timestamps, prefix);
  return TSR_OK;
}

tsr_status tsr_speech_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                             int32_t *n_ids)
{
  if (!tsr_whisper_of(tokenizer, "tsr_speech_encode")) {
    return TSR_ERR_ARGUMENT;
  }
  return tsr_tokenizer_encode_bare(tokenizer, TSR_SIDE_TARGET, text, size, ids, n_ids);
}

/* The ids of a prompt's text, with room for one id before them. */
static tsr_status encode_prompt(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                int32_t *n_ids)
{
  tsr_strip(&text, &size);
  char *line = malloc(size + 1);
  if (!line) {
    return tsr_fail_memory(size + 1);
  }
  line[0] = ' ';
  if (size > 0) {
    memcpy(line + 1, text, size);
  }
  tsr_status status = tsr_tokenizer_encode_bare(tokenizer, TSR_SIDE_TARGET, line, size + 1, ids, n_ids);
  free(line);
  return status;
}

static tsr_status put_before(int32_t id, int32_t **ids, int32_t *n_ids)
{
  const size_t size = ((size_t)*n_ids + 1) * sizeof **ids;
  int32_t *grown = realloc(*ids, size);
  if (!grown) {
    return tsr_fail_memory(size);
  }
  memmove(grown + 1, grown, (size_t)*n_ids * sizeof *grown);
  grown[0] = id;
  *ids = grown;
  ++*n_ids;
  return TSR_OK;
}

static tsr_status check_prompt(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids)
{
  for (int32_t i = 0; i < n_ids; i++) {
    if (ids[i] >= tokenizer->whisper->tokens.end_of_text) {
      return tsr_fail(TSR_ERR_ARGUMENT, "the text gives the token %s: expected text alone",
                      tsr_quote(tsr_tokenizer_token(tokenizer, TSR_SIDE_TARGET, ids[i])).text);
    }
  }
  return TSR_OK;
}

tsr_status tsr_speech_prompt(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                             int32_t *n_ids)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_prompt");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!ids || !n_ids || (!text && size > 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_speech_prompt: text, ids and n_ids must not be NULL");
  }
  *ids = NULL;
  *n_ids = 0;
  tsr_status status = encode_prompt(tokenizer, text, size, ids, n_ids);
  if (status == TSR_OK) {
    status = check_prompt(tokenizer, *ids, *n_ids);
  }
  if (status == TSR_OK) {
    status = put_before(whisper->tokens.start_of_prev, ids, n_ids);
  }
  if (status != TSR_OK) {
    free(*ids);
    *ids = NULL;
    *n_ids = 0;
  }
  return status;
}

size_t tsr_whisper_bytes(const tsr_tokenizer *tokenizer, int32_t id, char *bytes)
{
  const char *token = tsr_vocabulary_token(tokenizer->side[TSR_SIDE_TARGET].vocabulary, id);
  if (!token || id >= tokenizer->whisper->tokens.end_of_text) {
    return 0;
  }
  return bytes ? tsr_bpe_bytes(token, bytes) : strlen(token);
}
