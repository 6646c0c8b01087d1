/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts for folders of CTranslate2 and packages of Argos. The folders hold vocabularies and no tokenizer: the
 * SentencePiece model that the original had lies beside them, as conversions and downloads leave it. Its pieces go
 * through the vocabulary, whose ids are its own. Which file it is tells what the caller of the runtime puts around a
 * text; config.json, what the runtime does.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/package.h"
#include "core/text/kinds.h"
#include "core/text/sentencepiece.h"

/* What the caller puts around a text. */
enum {
  PLAIN = 0,     /* nothing: OpenNMT */
  END = 1,       /* </s>; a multilingual model's texts begin with a token such as >>fra<< (Marian) */
  LANGUAGES = 2, /* </s> and tokens of languages, if the vocabulary has them */
  UNSURE = 3     /* nothing where the decoder starts with <s>, as OpenNMT's do, else </s> */
};

static const struct {
  const char *files[TSR_SIDES];
  int ends;
} models[] = {{{"source.spm", "target.spm"}, END},
              {{"sentencepiece.bpe.model", "sentencepiece.bpe.model"}, LANGUAGES},
              {{"spm.model", "spm.model"}, LANGUAGES},
              {{"flores200_sacrebleu_tokenizer_spm.model", "flores200_sacrebleu_tokenizer_spm.model"}, LANGUAGES},
              {{"spiece.model", "spiece.model"}, END},
              {{"sentencepiece.model", "sentencepiece.model"}, UNSURE}};

enum { N_MODELS = sizeof models / sizeof models[0] };

/* ---- texts as Argos Translate makes them of tokens --------------------------------------------------------------- */

typedef struct argos {
  tsr_segmenter inner;
  char *prefix; /* the token that each output begins with; "" */
} argos;

static tsr_status argos_encode(const void *state, const char *text, size_t size, tsr_piece_fn receive, void *user)
{
  const argos *a = state;
  return a->inner.methods->encode(a->inner.state, text, size, receive, user);
}

/* The pieces in a row, a blank for each mark; the prefix is cut off, and one blank at the beginning. */
static tsr_status argos_decode(const void *state, const char *const *pieces, size_t n_pieces, char **text)
{
  static const char mark[] = "\xE2\x96\x81"; /* U+2581 */
  const argos *a = state;
  size_t room = 1, size = 0;
  for (size_t i = 0; i < n_pieces; i++) {
    room += strlen(pieces[i]);
  }
  char *made = malloc(room);
  if (!made) {
    return tsr_fail_memory(room);
  }
  for (size_t i = 0; i < n_pieces; i++) {
    for (const char *from = pieces[i]; *from;) {
      const int is_mark = strncmp(from, mark, sizeof mark - 1) == 0;
      made[size++] = is_mark ? ' ' : *from;
      from += is_mark ? sizeof mark - 1 : 1;
    }
  }
  const size_t lead = strlen(a->prefix);
  size_t begin = lead > 0 && size >= lead && memcmp(made, a->prefix, lead) == 0 ? lead : 0;
  begin += begin < size && made[begin] == ' ';
  memmove(made, made + begin, size - begin);
  made[size - begin] = '\0';
  *text = made;
  return TSR_OK;
}

static void argos_close(void *state)
{
  argos *a = state;
  tsr_segmenter_close(a->inner);
  free(a->prefix);
  free(a);
}

static const tsr_segmenter_methods argos_methods = {argos_encode, argos_decode, argos_close};

static tsr_status wrap(const char *prefix, tsr_segmenter *segmenter)
{
  argos *a = calloc(1, sizeof *a);
  if (!a) {
    return tsr_fail_memory(sizeof *a);
  }
  a->prefix = strdup(prefix);
  a->inner = *segmenter;
  *segmenter = (tsr_segmenter){&argos_methods, a};
  return a->prefix ? TSR_OK : tsr_fail_memory(strlen(prefix) + 1);
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

/* The file of that name, beside the package's metadata or its weights. */
static tsr_status read_file(const tsr_package *package, const char *name, char **path, tsr_file *file)
{
  TSR_TRY(tsr_package_read(package, TSR_PACKAGE_ROOT, name, path, file));
  if (file->bytes) {
    return TSR_OK;
  }
  free(*path);
  *path = NULL;
  return tsr_package_read(package, TSR_PACKAGE_MODEL, name, path, file);
}

/* Both sides. *found: 1 if there are such files. */
static tsr_status open_model(const tsr_package *package, const char *const *names, tsr_tokenizer *tokenizer, int *found)
{
  tsr_side_files files = {{NULL}};
  tsr_status status = TSR_OK;
  for (int side = 0; side < TSR_SIDES && status == TSR_OK; side++) {
    status = read_file(package, names[side], &files.path[side], &files.file[side]);
  }
  *found = files.file[0].bytes && files.file[1].bytes;
  return tsr_side_segmenters(status, &files, tokenizer);
}

static tsr_status fail_none(const tsr_package *package, const char *folder)
{
  char *path = NULL;
  tsr_file file;
  tsr_status status = read_file(package, "bpe.model", &path, &file);
  const int is_bpe = file.bytes != NULL;
  tsr_file_free(&file);
  free(path);
  TSR_TRY(status);
  if (is_bpe) {
    return tsr_fail(
        TSR_ERR_UNSUPPORTED,
        "%s: bpe.model: this build does not have the tokenizer of Moses and subword-nmt, which the oldest packages use",
        folder);
  }
  return tsr_fail(
      TSR_ERR_IO,
      "%s: there is no tokenizer: a folder of CTranslate2 holds none. Copy the files of the model that was converted "
      "into it: source.spm and target.spm, or sentencepiece.bpe.model, spm.model, spiece.model or sentencepiece.model",
      folder);
}

static tsr_status open_models(const tsr_package *package, const char *folder, tsr_tokenizer *tokenizer, int *ends)
{
  int found = 0;
  for (int i = 0; i < N_MODELS && !found; i++) {
    TSR_TRY(open_model(package, models[i].files, tokenizer, &found));
    *ends = models[i].ends;
  }
  return found ? TSR_OK : fail_none(package, folder);
}

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

static tsr_status fill(const tsr_package_vocabulary *list, tsr_vocabulary *vocabulary)
{
  for (int32_t id = 0; id < list->n; id++) {
    const char *token = list->tokens[id];
    TSR_TRY(tsr_vocabulary_find(vocabulary, token, strlen(token)) < 0
                ? tsr_vocabulary_add(vocabulary, token, id)
                : tsr_vocabulary_repeat(vocabulary, token, id)); /* the first one counts */
  }
  return TSR_OK;
}

static tsr_status open_vocabulary(const tsr_package *package, const tsr_tokenizer_files *files, int side,
                                  const char *unk, tsr_tokenizer *tokenizer)
{
  const tsr_transformer_config *config = files->config;
  int32_t limit = !config ? TSR_VOCABULARY_WHOLE : side == 0 ? config->source_vocabulary : config->target_vocabulary;
  tsr_package_vocabulary list;
  tsr_status status = tsr_package_read_vocabulary(package, side, unk, &list);
  tsr_tokenizer_side *to = &tokenizer->side[side];
  if (status == TSR_OK && list.is_shared && side > 0 && (!config || config->source_vocabulary >= list.n)) {
    to->vocabulary = tokenizer->side[0].vocabulary;
  } else if (status == TSR_OK) {
    status = tsr_vocabulary_begin(list.path, limit, &to->vocabulary);
    if (status == TSR_OK) {
      status = fill(&list, to->vocabulary);
    }
  }
  tsr_package_vocabulary_finish(&list);
  return status;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static tsr_status set_special(tsr_tokenizer *tokenizer, int which, const char *text)
{
  tokenizer->special[which] = tsr_arena_text(&tokenizer->arena, text);
  return tokenizer->special[which] ? TSR_OK : tsr_fail_memory(strlen(text) + 1);
}

/* Added tokens stand for nothing in texts here, as SentencePiece alone cuts them: they are not sorted. */
static tsr_status find_specials(tsr_tokenizer *tokenizer, int is_argos)
{
  for (int side = 0; side < TSR_SIDES; side++) {
    tsr_tokenizer_side *s = &tokenizer->side[side];
    TSR_TRY(tsr_added_tokens_create(&s->added));
    for (int i = 0; i < TSR_SPECIALS; i++) {
      const char *text = tokenizer->special[i];
      s->special[i] = text ? tsr_vocabulary_find(s->vocabulary, text, strlen(text)) : -1;
      if (s->special[i] >= 0 && (i == TSR_EOS || side == TSR_SIDE_SOURCE || !is_argos)) {
        TSR_TRY(tsr_added_tokens_add(s->added, text, s->special[i], TSR_ADDED_SPECIAL));
      }
    }
  }
  return TSR_OK;
}

static void append(int32_t *ids, int32_t *n, int32_t id)
{
  if (id >= 0) {
    ids[(*n)++] = id;
  }
}

static void set_frames(tsr_tokenizer *tokenizer, const tsr_package_tokens *tokens, int has_end)
{
  tsr_frame *source = &tokenizer->side[TSR_SIDE_SOURCE].frame, *target = &tokenizer->side[TSR_SIDE_TARGET].frame;
  *source = *target = (tsr_frame){.n_before = 0};
  if (tokens->add_source_bos) {
    append(source->before, &source->n_before, tokenizer->side[TSR_SIDE_SOURCE].special[TSR_BOS]);
  }
  if (tokens->add_source_eos || has_end) {
    append(source->after, &source->n_after, tokenizer->side[TSR_SIDE_SOURCE].special[TSR_EOS]);
  }
  append(target->after, &target->n_after, tokenizer->side[TSR_SIDE_TARGET].special[TSR_EOS]);
}

/* ---- languages --------------------------------------------------------------------------------------------------- */

static int is_letters(const char *text, size_t n, char first, char last)
{
  for (size_t i = 0; i < n; i++) {
    if (text[i] < first || text[i] > last) {
      return 0;
    }
  }
  return 1;
}

/* 1 for eng_Latn, en_XX and __en__; then the code is `size` bytes from `begin` on. */
static int is_language(const char *token, size_t *begin, size_t *size)
{
  const size_t n = strlen(token);
  const char *gap = strchr(token, '_');
  *begin = 0;
  *size = n;
  if (n > 5 && n < 20 && memcmp(token, "__", 2) == 0 && strcmp(token + n - 2, "__") == 0) {
    *begin = 2;
    *size = n - 4;
    return token[2] >= 'a' && token[2] <= 'z';
  }
  const size_t lead = gap ? (size_t)(gap - token) : 0;
  if (lead < 2 || lead > 3 || !is_letters(token, lead, 'a', 'z')) {
    return 0;
  }
  return (n == lead + 3 && is_letters(gap + 1, 2, 'A', 'Z')) ||
         (lead == 3 && n == 8 && is_letters(gap + 1, 1, 'A', 'Z') && is_letters(gap + 2, 3, 'a', 'z'));
}

/* The tokens of languages that the target's vocabulary has; a single one is a word like others. */
static tsr_status find_languages(tsr_tokenizer *tokenizer)
{
  tsr_tokenizer_side *target = &tokenizer->side[TSR_SIDE_TARGET];
  const tsr_vocabulary *vocabulary = target->vocabulary;
  int32_t n = 0;
  size_t begin, size;
  for (int32_t id = 0; id < tsr_vocabulary_size(vocabulary); id++) {
    const char *token = tsr_vocabulary_token(vocabulary, id);
    n += token && is_language(token, &begin, &size);
  }
  for (int32_t id = 0; n > 1 && id < tsr_vocabulary_size(vocabulary); id++) {
    const char *token = tsr_vocabulary_token(vocabulary, id);
    char code[32] = "";
    if (token && is_language(token, &begin, &size)) {
      memcpy(code, token + begin, size);
      TSR_TRY(tsr_tokenizer_add_language(tokenizer, code, token, id));
      TSR_TRY(tsr_added_tokens_add(target->added, token, id, TSR_ADDED_SPECIAL));
    }
  }
  return TSR_OK;
}

/* English, where nobody chose a language. */
static const char *default_source(const tsr_tokenizer *tokenizer)
{
  static const char *const codes[] = {"en", "eng_Latn", "en_XX"};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    for (int32_t k = 0; k < tokenizer->n_languages; k++) {
      if (strcmp(tokenizer->languages[k].code, codes[i]) == 0) {
        return codes[i];
      }
    }
  }
  return NULL;
}

static tsr_status open_vocabulary_languages(tsr_tokenizer_files *files, const tsr_package_tokens *tokens,
                                            tsr_tokenizer *tokenizer)
{
  TSR_TRY(find_languages(tokenizer));
  if (tokenizer->n_languages == 0) {
    return TSR_OK;
  }
  tokenizer->place = tokens->decoder_start ? TSR_LANGUAGE_BEFORE : TSR_LANGUAGE_START;
  return tsr_languages_choose(files, tokenizer, default_source(tokenizer));
}

/* A package translates from one language to another. */
static tsr_status open_package_languages(const tsr_config *metadata, tsr_tokenizer *tokenizer)
{
  static const char *const keys[TSR_SIDES] = {"from_code", "to_code"};
  const char *codes[TSR_SIDES];
  for (int side = 0; side < TSR_SIDES; side++) {
    codes[side] = json_string_value(json_object_get(metadata->root, keys[side]));
  }
  if (!codes[0] || !codes[1]) {
    return TSR_OK;
  }
  for (int side = 0; side < TSR_SIDES; side++) {
    TSR_TRY(tsr_tokenizer_add_language(tokenizer, codes[side], codes[side], -1));
    tokenizer->language[side] = side;
  }
  tokenizer->place = TSR_LANGUAGE_FIXED;
  return TSR_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tsr_status open_argos(const tsr_package *package, tsr_tokenizer *tokenizer)
{
  tsr_config metadata;
  TSR_TRY(tsr_package_config(package, TSR_PACKAGE_ROOT, "metadata.json", &metadata));
  const char *prefix = json_string_value(json_object_get(metadata.root, "target_prefix"));
  tsr_tokenizer_side *source = &tokenizer->side[TSR_SIDE_SOURCE], *target = &tokenizer->side[TSR_SIDE_TARGET];
  const int is_one = source->segmenter.state == target->segmenter.state;
  tsr_status status = wrap(prefix ? prefix : "", &target->segmenter);
  if (is_one) {
    source->segmenter = target->segmenter;
  }
  tokenizer->keep_blanks = 1;
  if (status == TSR_OK) {
    status = open_package_languages(&metadata, tokenizer);
  }
  tsr_config_finish(&metadata);
  return status;
}

static tsr_status open_with(tsr_tokenizer_files *files, const tsr_package *package, const tsr_package_tokens *tokens,
                            tsr_tokenizer *tokenizer)
{
  const int is_argos = tsr_package_is_argos(package);
  int ends = PLAIN;
  TSR_TRY(open_models(package, files->folder, tokenizer, &ends));
  for (int side = 0; side < TSR_SIDES; side++) {
    TSR_TRY(open_vocabulary(package, files, side, tokens->unk, tokenizer));
  }
  TSR_TRY(set_special(tokenizer, TSR_EOS, tokens->eos));
  TSR_TRY(set_special(tokenizer, TSR_UNK, tokens->unk));
  TSR_TRY(set_special(tokenizer, TSR_BOS, tokens->bos));
  TSR_TRY(find_specials(tokenizer, is_argos));
  if (is_argos) {
    set_frames(tokenizer, tokens, 0);
    return open_argos(package, tokenizer);
  }
  if (ends == UNSURE) {
    ends = tokens->decoder_start && strcmp(tokens->decoder_start, tokens->bos) == 0 && strcmp(tokens->bos, "<s>") == 0
               ? PLAIN
               : LANGUAGES;
  }
  set_frames(tokenizer, tokens, ends != PLAIN);
  return ends == LANGUAGES ? open_vocabulary_languages(files, tokens, tokenizer)
         : ends == END     ? tsr_marian_open_languages(tokenizer->kind, files, tokenizer)
                           : TSR_OK;
}

tsr_status tsr_ctranslate2_tokenizer(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer)
{
  (void)kind;
  tsr_package *package = NULL;
  tsr_package_tokens tokens = {0};
  TSR_TRY(tsr_package_open(files->folder, &package));
  tsr_status status = tsr_package_read_tokens(package, NULL, &tokens);
  if (status == TSR_OK) {
    status = open_with(files, package, &tokens, tokenizer);
  }
  tsr_package_tokens_finish(&tokens);
  tsr_package_close(package);
  return status;
}

tsr_status tsr_ctranslate2_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  const tsr_segmenter *segmenter = &to->tokenizer->side[to->side].segmenter;
  return to->tokenizer->place == TSR_LANGUAGE_SOURCE
             ? tsr_marian_encode_plain(to, text, size, where)
             : segmenter->methods->encode(segmenter->state, text, size, tsr_encoding_append_token, to);
}
