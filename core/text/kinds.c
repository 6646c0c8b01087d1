/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of tokenizers, and which one a folder has.
 */
#include "core/text/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/package.h"
#include "core/text/fast.h"
#include "core/text/whisper.h"

static const tsr_tokenizer_kind kinds[] = {
    {
        .name = "marian",
        .classes = {"MarianTokenizer"},
        .families = {"marian", "nn_transformer"},
        .specials = {[TSR_EOS] = "</s>", [TSR_UNK] = "<unk>", [TSR_PAD] = "<pad>"},
        .files = {"source.spm"},
        .open = tsr_marian_open,
        .open_languages = tsr_marian_open_languages,
        .encode_plain = tsr_marian_encode_plain,
    },
    {
        .name = "t5",
        .classes = {"T5Tokenizer", "MT5Tokenizer"},
        .families = {"t5", "mt5", "umt5"},
        .specials = {[TSR_EOS] = "</s>", [TSR_UNK] = "<unk>", [TSR_PAD] = "<pad>"},
        .files = {"spiece.model"},
        .open = tsr_pieces_open,
        .encode_plain = tsr_t5_encode_plain,
        .data = &tsr_layout_t5,
        .eos_once = 1,
    },
    {
        .name = "gemma",
        .classes = {"GemmaTokenizer"},
        .families = {"t5gemma"},
        .specials = {[TSR_EOS] = "<eos>", [TSR_UNK] = "<unk>", [TSR_PAD] = "<pad>", [TSR_BOS] = "<bos>"},
        .files = {"tokenizer.model"},
        .open = tsr_pieces_open,
        .encode_plain = tsr_t5_encode_plain,
        .data = &tsr_layout_gemma,
    },
    {
        .name = "pegasus",
        .classes = {"PegasusTokenizer"},
        .families = {"pegasus"},
        .specials = {[TSR_EOS] = "</s>", [TSR_UNK] = "<unk>", [TSR_PAD] = "<pad>", [TSR_MASK] = "<mask_2>"},
        .files = {"spiece.model"},
        .open = tsr_pieces_open,
        .encode_plain = tsr_fast_encode_plain,
        .data = &tsr_layout_pegasus,
    },
    {
        .name = "mbart",
        .classes = {"MBartTokenizer"},
        .families = {"mbart"},
        .specials = {"</s>", "<unk>", "<pad>", "<s>", "<mask>"},
        .files = {"sentencepiece.bpe.model", "spm.model"},
        .open = tsr_pieces_open,
        .open_languages = tsr_pieces_open_languages,
        .encode_plain = tsr_fast_encode_plain,
        .data = &tsr_layout_mbart,
        .mask_strips = 1,
    },
    {
        .name = "mbart50",
        .classes = {"MBart50Tokenizer"},
        .specials = {"</s>", "<unk>", "<pad>", "<s>", "<mask>"},
        .files = {"sentencepiece.bpe.model", "spm.model"},
        .open = tsr_pieces_open,
        .open_languages = tsr_pieces_open_languages,
        .encode_plain = tsr_fast_encode_plain,
        .data = &tsr_layout_mbart50,
        .mask_strips = 1,
    },
    {
        .name = "m2m100",
        .classes = {"M2M100Tokenizer"},
        .families = {"m2m_100"},
        .specials = {[TSR_EOS] = "</s>", [TSR_UNK] = "<unk>", [TSR_PAD] = "<pad>", [TSR_BOS] = "<s>"},
        .files = {"sentencepiece.bpe.model"},
        .open = tsr_m2m100_open,
        .open_languages = tsr_m2m100_open_languages,
        .encode_plain = tsr_fast_encode_plain,
    },
    {
        .name = "nllb",
        .classes = {"NllbTokenizer"},
        .specials = {"</s>", "<unk>", "<pad>", "<s>", "<mask>"},
        .files = {"sentencepiece.bpe.model", "spm.model"},
        .open = tsr_pieces_open,
        .open_languages = tsr_pieces_open_languages,
        .encode_plain = tsr_fast_encode_plain,
        .data = &tsr_layout_nllb,
        .mask_strips = 1,
    },
    {
        .name = "marian_npz",
        .families = {"marian_npz"},
        .specials = {[TSR_EOS] = "</s>", [TSR_UNK] = "<unk>"},
        .files = {"decoder.yml"},
        .open = tsr_marian_npz_tokenizer,
    },
    {
        .name = "ctranslate2",
        .families = {"ctranslate2"},
        .specials = {[TSR_PAD] = "<pad>"},
        .open = tsr_ctranslate2_tokenizer,
        .encode_plain = tsr_ctranslate2_encode_plain,
    },
    {
        .name = "bart",
        .classes = {"BartTokenizer", "RobertaTokenizer", "LEDTokenizer"},
        .families = {"bart", "led"},
        .specials = {"</s>", "<unk>", "<pad>", "<s>", "<mask>"},
        .files = {"merges.txt"},
        .open = tsr_bart_open,
        .encode_plain = tsr_bart_encode_plain,
        .mask_strips = 1,
    },
    {
        .name = "whisper",
        .classes = {"WhisperTokenizer"},
        .families = {"whisper"},
        .specials = {[TSR_EOS] = "<|endoftext|>",
                     [TSR_UNK] = "<|endoftext|>",
                     [TSR_PAD] = "<|endoftext|>",
                     [TSR_BOS] = "<|endoftext|>"},
        .files = {"merges.txt"},
        .open = tsr_whisper_open,
        .open_languages = tsr_whisper_open_languages,
        .encode_plain = tsr_bart_encode_plain,
        .empty_is_default = 1,
    },
    {
        .name = "fast", /* whatever has a tokenizer.json, and is none of the others */
        .classes = {"PreTrainedTokenizerFast", "PreTrainedTokenizer"},
        .specials = {"</s>", "<unk>", "<pad>", "<s>", "<mask>"},
        .files = {"tokenizer.json"},
        .open = tsr_fast_open,
        .encode_plain = tsr_fast_encode_plain,
    },
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const tsr_tokenizer_kind *tsr_tokenizer_kind_find(const char *name)
{
  for (int i = 0; i < N_KINDS; i++) {
    if (strcmp(kinds[i].name, name) == 0) {
      return &kinds[i];
    }
  }
  return NULL;
}

/* The names of all, for a message. */
static void list_kinds(char *text, size_t size)
{
  size_t used = 0;
  for (int i = 0; i < N_KINDS && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", kinds[i].name);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Which kind
 */
static int is_one_of(const char *text, size_t size, const char *const *list, size_t n)
{
  for (size_t i = 0; i < n && list[i]; i++) {
    if (strlen(list[i]) == size && memcmp(list[i], text, size) == 0) {
      return 1;
    }
  }
  return 0;
}

static const tsr_tokenizer_kind *kind_of_class(const char *class)
{
  static const char fast[] = "Fast";
  size_t size = strlen(class);
  if (size > sizeof fast - 1 && strcmp(class + size - (sizeof fast - 1), fast) == 0) {
    size -= sizeof fast - 1;
  }
  for (int i = 0; i < N_KINDS; i++) {
    if (is_one_of(class, size, kinds[i].classes, sizeof kinds[i].classes / sizeof kinds[i].classes[0])) {
      return &kinds[i];
    }
  }
  return NULL;
}

static const tsr_tokenizer_kind *kind_of_family(const char *family)
{
  for (int i = 0; i < N_KINDS; i++) {
    if (is_one_of(family, strlen(family), kinds[i].families, sizeof kinds[i].families / sizeof kinds[i].families[0])) {
      return &kinds[i];
    }
  }
  return NULL;
}

/* M2M100 and NLLB are one family; where no class is told, their files differ. */
static tsr_status tell_apart(const tsr_tokenizer_files *files, const tsr_tokenizer_kind **kind)
{
  if (strcmp((*kind)->name, "m2m100") == 0) {
    int has;
    TSR_TRY(tsr_files_has(files, "vocab.json", &has));
    if (!has) {
      *kind = tsr_tokenizer_kind_find("nllb");
    }
  }
  return TSR_OK;
}

/* What config.json, which a folder without a model may lack, says. */
static tsr_status kind_of_config(const tsr_tokenizer_files *files, const tsr_tokenizer_kind **kind)
{
  json_t *root = NULL;
  TSR_TRY(tsr_files_json(files, "config.json", &root));
  const char *class = json_string_value(json_object_get(root, "tokenizer_class"));
  const char *family = json_string_value(json_object_get(root, "model_type"));
  *kind = class ? kind_of_class(class) : NULL;
  tsr_status status = TSR_OK;
  if (!*kind && family) {
    *kind = kind_of_family(family);
    if (*kind) {
      status = tell_apart(files, kind);
    }
  }
  json_decref(root);
  return status;
}

/* Whisper has the files of BART or of a fast one; its added tokens tell it. */
static tsr_status tell_whisper_apart(tsr_tokenizer_files *files, const tsr_tokenizer_kind **kind)
{
  static const char token[] = "<|startoftranscript|>";
  json_t *added = NULL;
  TSR_TRY(tsr_files_json(files, "added_tokens.json", &added));
  int is_there = json_object_get(added, token) != NULL;
  json_decref(added);
  TSR_TRY(tsr_files_fast(files));
  const json_t *list = json_object_get(files->fast, "added_tokens");
  for (size_t i = 0; i < json_array_size(list) && !is_there; i++) {
    const char *text = json_string_value(json_object_get(json_array_get(list, i), "content"));
    is_there = text && strcmp(text, token) == 0;
  }
  const char *name = (*kind)->name;
  if (is_there && (strcmp(name, "bart") == 0 || strcmp(name, "fast") == 0)) {
    *kind = tsr_tokenizer_kind_find("whisper");
  }
  return TSR_OK;
}

/* What the names of the files tell. */
static tsr_status kind_of_files(tsr_tokenizer_files *files, const tsr_tokenizer_kind **kind)
{
  static const struct {
    const char *files[2];
    const char *kind;
  } rows[] = {
      {{"decoder.yml", "decoder.yml"}, "marian_npz"},        {{"source.spm", "source.spm"}, "marian"},
      {{"sentencepiece.bpe.model", "vocab.json"}, "m2m100"}, {{"merges.txt", "vocab.json"}, "bart"},
      {{"tokenizer.json", "tokenizer.json"}, "fast"},
  };
  int found = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !found; i++) {
    int first;
    int second;
    TSR_TRY(tsr_files_has(files, rows[i].files[0], &first));
    TSR_TRY(tsr_files_has(files, rows[i].files[1], &second));
    found = first && second;
    *kind = found ? tsr_tokenizer_kind_find(rows[i].kind) : NULL;
  }
  return found ? tell_whisper_apart(files, kind) : TSR_OK;
}

static tsr_status choose_kind(tsr_tokenizer_files *files, const tsr_tokenizer_kind **kind)
{
  char names[256] = "";
  if (tsr_package_is(files->folder)) { /* whatever its original's files say: the ids are others */
    *kind = tsr_tokenizer_kind_find("ctranslate2");
    return TSR_OK;
  }
  const char *class = NULL;
  list_kinds(names, sizeof names);
  tsr_config_text(&files->options, "tokenizer_class", &class);
  TSR_TRY(tsr_config_status(&files->options));
  const tsr_tokenizer_kind *fast = tsr_tokenizer_kind_find("fast");
  int is_fast;
  TSR_TRY(tsr_files_has(files, fast->files[0], &is_fast));
  *kind = class ? kind_of_class(class) : NULL;
  if (class && !*kind && is_fast) {
    *kind = fast;
  }
  if (*kind == fast && !is_fast) {
    *kind = NULL;
    class = NULL; /* a name that tells nothing without the file */
  }
  if (class && !*kind) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: key \"tokenizer_class\": this build has no tokenizer %s; it knows the kinds %s",
                    files->options.path, tsr_quote(class).text, names);
  }
  if (!*kind) {
    TSR_TRY(kind_of_config(files, kind));
  }
  if (!*kind && files->config) {
    *kind = kind_of_family(files->config->family);
  }
  if (!*kind) {
    TSR_TRY(kind_of_files(files, kind));
  }
  if (!*kind) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: neither tokenizer_config.json (tokenizer_class) nor config.json (model_type) nor the files "
                    "tell which tokenizer this is; this build knows the kinds %s",
                    files->folder, names);
  }
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Opening
 */
static const char *const special_keys[TSR_SPECIALS] = {"eos_token", "unk_token", "pad_token", "bos_token",
                                                       "mask_token"};

static tsr_status read_specials(const tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  for (int32_t i = 0; i < TSR_SPECIALS; i++) {
    const char *text = tokenizer->kind->specials[i];
    if (!text) {
      continue;
    }
    TSR_TRY(tsr_files_special(files, special_keys[i], tokenizer->kind->empty_is_default, &text));
    tokenizer->special[i] = tsr_arena_text(&tokenizer->arena, text);
    if (!tokenizer->special[i]) {
      return tsr_fail_memory(strlen(text) + 1);
    }
  }
  return TSR_OK;
}

/* A model that ends its sentences with another token than the vocabulary says would never be understood to end. */
static tsr_status check_eos(const tsr_tokenizer_files *files, const tsr_tokenizer *tokenizer)
{
  int32_t eos = tokenizer->side[TSR_SIDE_TARGET].special[TSR_EOS];
  if (files->config && files->config->eos_id >= 0 && files->config->eos_id != eos) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s has the id %d in the vocabulary, but eos_token_id is %d",
                    files->folder, tsr_quote(tokenizer->special[TSR_EOS]).text, (int)eos, (int)files->config->eos_id);
  }
  return TSR_OK;
}

/* 1 if the kind's files are not there, but tokenizer.json is. */
static tsr_status lacks_files(const tsr_tokenizer_files *files, const tsr_tokenizer_kind *kind, int *is_fast)
{
  TSR_TRY(tsr_files_has(files, "tokenizer.json", is_fast));
  for (int i = 0; i < 2 && kind->files[i] && *is_fast; i++) {
    int has;
    TSR_TRY(tsr_files_has(files, kind->files[i], &has));
    *is_fast = !has;
  }
  return TSR_OK;
}

/* SentencePiece would cut at random. */
static tsr_status refuse_sampling(const tsr_tokenizer_files *files)
{
  const json_t *arguments = json_object_get(files->options.root, "sp_model_kwargs");
  return json_is_true(json_object_get(arguments, "enable_sampling"))
             ? tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key \"sp_model_kwargs\": this build does not sample pieces; found %s",
                        files->options.path, tsr_json_show(arguments).text)
             : TSR_OK;
}

static tsr_status open_tokenizer(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  TSR_TRY(refuse_sampling(files));
  TSR_TRY(read_specials(files, tokenizer));
  tsr_config_bool(&files->options, "clean_up_tokenization_spaces", &tokenizer->clean_up);
  TSR_TRY(tsr_config_status(&files->options));
  const tsr_tokenizer_kind *kind = tokenizer->kind;
  int is_fast;
  TSR_TRY(lacks_files(files, kind, &is_fast));
  is_fast = is_fast && kind->files[0];
  TSR_TRY((is_fast ? tsr_fast_open : kind->open)(kind, files, tokenizer));
  if (kind->open_languages) {
    TSR_TRY(kind->open_languages(kind, files, tokenizer));
  }
  return check_eos(files, tokenizer);
}

static tsr_status make(tsr_tokenizer_files *files, const tsr_tokenizer_kind *kind, tsr_tokenizer **tokenizer)
{
  if (!kind) {
    TSR_TRY(choose_kind(files, &kind));
  }
  tsr_tokenizer *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->kind = kind;
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    made->language[side] = -1;
  }
  tsr_status status = open_tokenizer(files, made);
  if (status != TSR_OK) {
    tsr_tokenizer_close(made);
    /* Many folders come without one: a name such as source.spm does not say what it is for. */
    return status == TSR_ERR_IO ? tsr_fail_context(status, "the tokenizer (%s)", kind->name) : status;
  }
  *tokenizer = made;
  return TSR_OK;
}

/* tokenizer_config.json may be missing: then all is as usual. To be finished also after a failure. */
static tsr_status open_options(tsr_tokenizer_files *files)
{
  static const char name[] = "tokenizer_config.json";
  files->options.path = tsr_path_join(files->folder, name);
  if (!files->options.path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  TSR_TRY(tsr_files_json(files, name, &files->options.root));
  if (!files->options.root) {
    files->options.root = json_object();
  }
  return files->options.root ? TSR_OK : tsr_fail_memory(1);
}

tsr_status tsr_tokenizer_open_kind(const char *folder, const tsr_tokenizer_kind *kind,
                                   const tsr_transformer_config *config, tsr_tokenizer **tokenizer)
{
  *tokenizer = NULL;
  tsr_tokenizer_files files = {.folder = folder, .config = config};
  tsr_status status = open_options(&files);
  if (status == TSR_OK) {
    status = tsr_files_json(&files, "special_tokens_map.json", &files.specials);
  }
  if (status == TSR_OK) {
    status = tsr_files_list_additional(&files);
  }
  if (status == TSR_OK) {
    status = make(&files, kind, tokenizer);
  }
  tsr_added_tokens_finish(&files.additional);
  tsr_config_finish(&files.options);
  json_decref(files.specials);
  json_decref(files.fast);
  return status;
}

tsr_status tsr_tokenizer_open(const tsr_model *model, tsr_tokenizer **tokenizer)
{
  if (!model || !tokenizer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_open: model and tokenizer must not be NULL");
  }
  const char *folder = tsr_model_folder(model);
  *tokenizer = NULL;
  if (folder[0] == '\0') {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_tokenizer_open: the model was made from a configuration: it has no folder to "
                    "read a tokenizer from");
  }
  return tsr_tokenizer_open_kind(folder, NULL, tsr_model_config(model), tokenizer);
}

tsr_status tsr_tokenizer_open_folder(const char *folder, tsr_tokenizer **tokenizer)
{
  return tsr_tokenizer_open_as(folder, NULL, tokenizer);
}

tsr_status tsr_tokenizer_open_as(const char *folder, const char *kind, tsr_tokenizer **tokenizer)
{
  if (!folder || !tokenizer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_open_folder: folder and tokenizer must not be NULL");
  }
  const tsr_tokenizer_kind *found = kind ? tsr_tokenizer_kind_find(kind) : NULL;
  *tokenizer = NULL;
  if (kind && !found) {
    char names[256] = "";
    list_kinds(names, sizeof names);
    return tsr_fail(TSR_ERR_ARGUMENT, "no tokenizer is of the kind %s; the kinds are %s", tsr_quote(kind).text, names);
  }
  if (!tsr_package_is(folder)) {
    TSR_TRY(tsr_folder_expect(folder, "a folder with a tokenizer's files"));
  }
  return tsr_tokenizer_open_kind(folder, found, NULL, tokenizer);
}
