/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of the search from a file, or from the arguments of a call.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/settings.h"
#include "core/transformer/model.h"

enum { MAX_LENGTH = 1 << 20 };

/* Settings that change results and that this build does not have, with the value that changes nothing. */
typedef struct refusal {
  const char *key;
  double neutral;
} refusal;

static const refusal refused[] = {
    {"num_beam_groups", 1},       {"diversity_penalty", 0},
    {"penalty_alpha", 0},         {"guidance_scale", 1},
    {"remove_invalid_values", 0}, {"dola_layers", NAN},
    {"sequence_bias", NAN},       {"exponential_decay_length_penalty", NAN},
    {"force_words_ids", NAN},     {"constraints", NAN},
    {"stop_strings", NAN},        {"max_time", NAN},
    {"watermarking_config", NAN}, {"token_healing", 0},
};

/* The same of sampling alone. */
static const refusal refused_sampling[] = {
    {"min_p", 0}, {"typical_p", 1}, {"epsilon_cutoff", 0}, {"eta_cutoff", 0}, {"top_h", NAN},
};

static tsr_status refuse(const tsr_config *file, const refusal *settings, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    const json_t *value = json_object_get(file->root, settings[i].key);
    if (!value || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0)) {
      continue;
    }
    double number = json_is_number(value)    ? json_number_value(value)
                    : json_is_boolean(value) ? (double)json_is_true(value)
                                             : NAN;
    if (number != settings[i].neutral) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s': this build does not have this setting; remove it", file->path,
                      settings[i].key);
    }
  }
  return TSR_OK;
}

static int is_token(const json_t *id, int32_t vocabulary)
{
  return json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < vocabulary;
}

static tsr_status fail_token(const tsr_config *file, const char *key, int32_t vocabulary)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s' should hold token ids from 0 to %d", file->path, key,
                  (int)vocabulary - 1);
}

/* Ids that are put together before the model keeps them. */
typedef struct token_list {
  int32_t *ids;
  int32_t n;
  int32_t room;
  uint8_t *has; /* [V] 1: a token that is in the list; NULL: the list may hold a number twice */
} token_list;

static tsr_status append(const tsr_config *file, const char *key, token_list *list, int32_t id)
{
  if (list->n == TSR_MAX_LIST) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s': more than %d tokens", file->path, key, (int)TSR_MAX_LIST);
  }
  if (list->n == list->room) {
    int32_t room = list->room > 0 ? 2 * list->room : 16;
    int32_t *ids = realloc(list->ids, (size_t)room * sizeof *ids);
    if (!ids) {
      return tsr_fail_memory((size_t)room * sizeof *ids);
    }
    list->ids = ids;
    list->room = room;
  }
  list->ids[list->n++] = id;
  return TSR_OK;
}

static void finish(token_list *list)
{
  free(list->ids);
  free(list->has);
}

/* A list of different tokens, which begins with those that are there. */
static tsr_status begin_set(const tsr_config *file, const char *key, int32_t vocabulary, const int32_t *tokens,
                            int32_t n, token_list *list)
{
  *list = (token_list){.has = calloc((size_t)vocabulary, 1)};
  if (!list->has) {
    return tsr_fail_memory((size_t)vocabulary);
  }
  for (int32_t i = 0; i < n; i++) {
    list->has[tokens[i]] = 1;
    TSR_TRY(append(file, key, list, tokens[i]));
  }
  return TSR_OK;
}

/* Adds a token, once. */
static tsr_status add_token(const tsr_config *file, const char *key, const json_t *id, int32_t vocabulary,
                            token_list *list)
{
  if (!is_token(id, vocabulary)) {
    return fail_token(file, key, vocabulary);
  }
  int32_t token = (int32_t)json_integer_value(id);
  if (list->has[token]) {
    return TSR_OK;
  }
  list->has[token] = 1;
  return append(file, key, list, token);
}

/* One token or a list takes the place of what was there: 5, [5, 7]. */
static tsr_status read_tokens(const tsr_config *file, const char *key, const tsr_model *model, const int32_t **tokens,
                              int32_t *n)
{
  int32_t vocabulary = model->config.target_vocabulary;
  const json_t *value = json_object_get(file->root, key);
  if (!value || json_is_null(value)) {
    return TSR_OK;
  }
  token_list list;
  tsr_status status = begin_set(file, key, vocabulary, NULL, 0, &list);
  if (status == TSR_OK && !json_is_array(value)) {
    status = add_token(file, key, value, vocabulary, &list);
  }
  for (size_t i = 0; i < json_array_size(value) && status == TSR_OK; i++) {
    status = add_token(file, key, json_array_get(value, i), vocabulary, &list);
  }
  if (status == TSR_OK) {
    status = tsr_model_keep_ids(model, list.ids, list.n, tokens);
    *n = list.n;
  }
  finish(&list);
  return status;
}

/* A word of several tokens. */
static tsr_status add_word(const tsr_config *file, const json_t *word, int32_t vocabulary, token_list *words)
{
  size_t n = json_array_size(word);
  TSR_TRY(append(file, "bad_words_ids", words, (int32_t)n));
  for (size_t i = 0; i < n; i++) {
    const json_t *id = json_array_get(word, i);
    if (!is_token(id, vocabulary)) {
      return fail_token(file, "bad_words_ids", vocabulary);
    }
    TSR_TRY(append(file, "bad_words_ids", words, (int32_t)json_integer_value(id)));
  }
  return TSR_OK;
}

static int is_end(const tsr_transformer_config *config, const tsr_generate_options *options, int64_t token)
{
  for (int32_t i = 0; i < options->n_eos; i++) {
    if (options->eos[i] == token) {
      return 1;
    }
  }
  return options->n_eos == 0 && token == config->eos_id;
}

/* The elements of bad_words_ids: those of one token are suppressed. */
static tsr_status add_words(const tsr_config *file, const json_t *words, const tsr_transformer_config *config,
                            const tsr_generate_options *options, token_list *suppressed, token_list *longer)
{
  for (size_t i = 0; i < json_array_size(words); i++) {
    const json_t *word = json_array_get(words, i);
    if (json_array_size(word) == 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key 'bad_words_ids': word %zu should be a list of token ids", file->path, i);
    }
    if (json_array_size(word) > 1) {
      TSR_TRY(add_word(file, word, config->target_vocabulary, longer));
      continue;
    }
    const json_t *id = json_array_get(word, 0);
    if (json_is_integer(id) && is_end(config, options, json_integer_value(id))) {
      continue; /* the end of the sentence cannot be a bad word */
    }
    TSR_TRY(add_token(file, "bad_words_ids", id, config->target_vocabulary, suppressed));
  }
  return TSR_OK;
}

/* Lists of the forms [[5], [7, 8]] and [5, 7], both kept in one: bad words take the place of all that was there,
 * suppressed tokens come on top, or of a model of speech, which has no bad words, likewise. */
static tsr_status read_suppressed(const tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  const tsr_transformer_config *config = &model->config;
  const json_t *words = json_object_get(file->root, "bad_words_ids");
  const json_t *tokens = json_object_get(file->root, "suppress_tokens");
  if ((words && !json_is_null(words) && !json_is_array(words)) ||
      (tokens && !json_is_null(tokens) && !json_is_array(tokens))) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: keys 'bad_words_ids' and 'suppress_tokens' should be lists", file->path);
  }
  if (json_is_array(words)) {
    options->n_suppressed = 0;
    options->n_words = 0;
  } else if (config->mels > 0 && json_is_array(tokens)) {
    options->n_suppressed = 0;
  }
  token_list suppressed;
  token_list longer = {0};
  tsr_status status = begin_set(file, "bad_words_ids", config->target_vocabulary, options->suppressed,
                                options->n_suppressed, &suppressed);
  if (status == TSR_OK) {
    status = add_words(file, words, config, options, &suppressed, &longer);
  }
  for (size_t i = 0; i < json_array_size(tokens) && status == TSR_OK; i++) {
    status = add_token(file, "suppress_tokens", json_array_get(tokens, i), config->target_vocabulary, &suppressed);
  }
  if (status == TSR_OK) {
    options->n_suppressed = suppressed.n;
    status = tsr_model_keep_ids(model, suppressed.ids, suppressed.n, &options->suppressed);
  }
  if (status == TSR_OK && longer.n > 0) {
    options->n_words = longer.n;
    status = tsr_model_keep_ids(model, longer.ids, longer.n, &options->words);
  }
  finish(&suppressed);
  finish(&longer);
  return status;
}

static tsr_status read_early_stopping(const tsr_config *file, int32_t *early)
{
  const json_t *value = json_object_get(file->root, "early_stopping");
  if (!value || json_is_null(value)) {
    return TSR_OK;
  }
  if (json_is_boolean(value)) {
    *early = json_is_true(value) ? TSR_EARLY_TRUE : TSR_EARLY_FALSE;
    return TSR_OK;
  }
  if (json_is_string(value) && strcmp(json_string_value(value), "never") == 0) {
    *early = TSR_EARLY_NEVER;
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: key 'early_stopping' should be true, false or \"never\"", file->path);
}

/* Of a model of speech the tokens of language and task, which the caller gives as a prefix. */
static const refusal refused_text[] = {{"forced_decoder_ids", NAN}};

/* The null of a call switches off what the model's folder asks for; that of a file says nothing. */
static void clear_nulls(const tsr_config *file, const tsr_transformer_config *config, tsr_generate_options *options)
{
  if (json_is_null(json_object_get(file->root, "forced_bos_token_id"))) {
    options->forced_bos_id = -1;
  }
  if (json_is_null(json_object_get(file->root, "forced_eos_token_id"))) {
    options->forced_eos_id = -1;
  }
  if (json_is_null(json_object_get(file->root, "bad_words_ids"))) {
    options->n_suppressed = options->n_words = 0;
  }
  if (json_is_null(json_object_get(file->root, "begin_suppress_tokens"))) {
    options->n_begin_suppressed = 0;
  }
  /* Others have bad words in the same list. */
  if (config->mels > 0 && json_is_null(json_object_get(file->root, "suppress_tokens"))) {
    options->n_suppressed = 0;
  }
  if (json_is_null(json_object_get(file->root, "max_initial_timestamp_index"))) {
    options->max_initial_timestamp = -1;
  }
}

/* Pairs of layer and head: [[3, 1], [4, 2]]. What the model lacks is found where they are used. */
static tsr_status read_alignment_heads(const tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  static const char key[] = "alignment_heads";
  const json_t *pairs = json_object_get(file->root, key);
  token_list list = {0};
  tsr_status status = TSR_OK;
  if (!json_is_array(pairs)) {
    return !pairs || json_is_null(pairs) ? TSR_OK
                                         : tsr_fail(TSR_ERR_FORMAT, "%s: key '%s' should be a list", file->path, key);
  }
  for (size_t i = 0; i < json_array_size(pairs) && status == TSR_OK; i++) {
    const json_t *pair = json_array_get(pairs, i), *layer = json_array_get(pair, 0), *head = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !is_token(layer, TSR_MAX_LAYERS) || !is_token(head, TSR_MAX_HEADS)) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: key '%s': element %zu should be a layer and a head, both from 0 on",
                        file->path, key, i);
      break;
    }
    status = append(file, key, &list, (int32_t)json_integer_value(layer));
    if (status == TSR_OK) {
      status = append(file, key, &list, (int32_t)json_integer_value(head));
    }
  }
  if (status == TSR_OK) {
    status = tsr_model_keep_ids(model, list.ids, list.n, &options->alignment_heads);
    options->n_alignment_heads = list.n / 2;
  }
  finish(&list);
  return status;
}

/* Timestamps follow <|notimestamps|> in the vocabulary. */
static tsr_status read_speech(tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  const tsr_transformer_config *config = &model->config;
  const int32_t vocabulary = config->target_vocabulary;
  if (config->mels == 0) {
    return TSR_OK;
  }
  TSR_TRY(read_alignment_heads(file, model, options));
  tsr_config_bool(file, "return_timestamps", &options->timestamps);
  tsr_config_bool(file, "_detect_timestamp_from_logprob", &options->timestamp_by_sum);
  tsr_config_int(file, "max_initial_timestamp_index", 0, vocabulary - 1, &options->max_initial_timestamp);
  TSR_TRY(tsr_config_status(file));
  TSR_TRY(tsr_config_id(file, "no_timestamps_token_id", vocabulary, &options->no_timestamps_id));
  if (tsr_config_has(file, "no_timestamps_token_id")) {
    options->timestamp_begin = options->no_timestamps_id + 1;
  }
  return TSR_OK;
}

static void read_lengths(tsr_config *file, const tsr_transformer_config *config, int call,
                         tsr_generate_options *options)
{
  int32_t max_length = 0;
  int32_t max_new = 0;
  int32_t min_new = 0;
  tsr_config_int(file, "max_length", 0, MAX_LENGTH, &max_length);
  tsr_config_int(file, "max_new_tokens", 0, MAX_LENGTH, &max_new);
  tsr_config_int(file, "min_length", 0, MAX_LENGTH, &options->min_length);
  tsr_config_int(file, "min_new_tokens", 0, MAX_LENGTH, &min_new);
  if (tsr_config_has(file, "min_new_tokens")) {
    options->min_length = min_new + 1;
  }
  /* Lengths count the start token. A file that says 20 says nothing: it is what the original writes by default. */
  if (max_new > 0) {
    options->max_length = max_new + 1;
  } else if (max_length > 0 && (call || max_length != TSR_DEFAULT_LENGTH)) {
    options->max_length = max_length;
  }
  if (!call && options->max_length > config->max_positions) {
    options->max_length = config->max_positions;
  }
}

/* What sentences begin and end with. What the model's configuration says too is left to it. */
static tsr_status read_ends(tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  const tsr_transformer_config *config = &model->config;
  int32_t vocabulary = config->target_vocabulary;
  TSR_TRY(read_tokens(file, "eos_token_id", model, &options->eos, &options->n_eos));
  if (options->n_eos == 1 && options->eos[0] == config->eos_id) {
    options->n_eos = 0;
  }
  TSR_TRY(tsr_config_id(file, "decoder_start_token_id", vocabulary, &options->decoder_start_id));
  if (options->decoder_start_id == config->decoder_start_id) {
    options->decoder_start_id = -1;
  }
  TSR_TRY(tsr_config_id(file, "forced_bos_token_id", vocabulary, &options->forced_bos_id));
  return tsr_config_id(file, "forced_eos_token_id", vocabulary, &options->forced_eos_id);
}

static tsr_status read_sampling(tsr_config *file, int call, tsr_generate_options *options)
{
  tsr_config_bool(file, "do_sample", &options->sample);
  tsr_config_float(file, "temperature", 0.0, 1e6, &options->temperature);
  tsr_config_int(file, "top_k", 0, INT32_MAX, &options->top_k);
  tsr_config_float(file, "top_p", 0.0, 1.0, &options->top_p);
  TSR_TRY(tsr_config_status(file));
  if (call && options->sample && options->beam > 1) { /* what a file says may still be overridden */
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: keys 'do_sample' and 'num_beams': sampling takes no beams: num_beams should be 1", file->path);
  }
  return options->sample ? refuse(file, refused_sampling, sizeof refused_sampling / sizeof refused_sampling[0])
                         : TSR_OK;
}

tsr_status tsr_generate_apply(tsr_config *file, const tsr_model *model, int call, tsr_generate_options *options)
{
  const tsr_transformer_config *config = &model->config;
  TSR_TRY(refuse(file, refused, sizeof refused / sizeof refused[0]));
  if (config->mels == 0) {
    TSR_TRY(refuse(file, refused_text, sizeof refused_text / sizeof refused_text[0]));
  }
  if (call) {
    clear_nulls(file, config, options);
  }
  if (config->encoder_layers == 0 &&
      (tsr_config_has(file, "max_new_tokens") || tsr_config_has(file, "min_new_tokens"))) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: keys 'max_new_tokens' and 'min_new_tokens': the lengths of a decoder alone include the text "
                    "that it continues: give max_length and min_length",
                    file->path);
  }
  if (json_integer_value(json_object_get(file->root, "max_length")) == 1) {
    return tsr_fail(
        TSR_ERR_FORMAT,
        "%s: key 'max_length' is 1; it should be 2 or more: lengths count the token that decoding starts from",
        file->path);
  }
  read_lengths(file, config, call, options);
  tsr_config_int(file, "num_beams", 1, TSR_MAX_BEAM, &options->beam);
  tsr_config_int(file, "num_return_sequences", 1, TSR_MAX_BEAM, &options->n_best);
  tsr_config_int(file, "no_repeat_ngram_size", 0, MAX_LENGTH, &options->no_repeat_ngram);
  tsr_config_int(file, "encoder_no_repeat_ngram_size", 0, MAX_LENGTH, &options->encoder_no_repeat_ngram);
  tsr_config_float(file, "length_penalty", -1e6, 1e6, &options->length_penalty);
  tsr_config_float(file, "repetition_penalty", 1e-6, 1e6, &options->repetition_penalty);
  tsr_config_float(file, "encoder_repetition_penalty", 1e-6, 1e6, &options->encoder_repetition_penalty);
  tsr_config_bool(file, "renormalize_logits", &options->renormalize);
  TSR_TRY(tsr_config_status(file));
  TSR_TRY(read_early_stopping(file, &options->early_stopping));
  TSR_TRY(read_ends(file, model, options));
  TSR_TRY(read_suppressed(file, model, options));
  TSR_TRY(read_tokens(file, "begin_suppress_tokens", model, &options->begin_suppressed, &options->n_begin_suppressed));
  TSR_TRY(read_speech(file, model, options));
  return read_sampling(file, call, options);
}
