/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/transformer/model.h"

enum { DEFAULT_LENGTH = 20, MAX_LENGTH = 1 << 20 };

/* Settings that change results and that this build does not have, with the value that changes nothing. Settings of
 * sampling alone (temperature, top_k, ..) do not matter while do_sample is refused. */
static const struct {
  const char *key;
  double neutral;
} refused[] = {
    {"do_sample", 0},
    {"repetition_penalty", 1},
    {"encoder_repetition_penalty", 1},
    {"encoder_no_repeat_ngram_size", 0},
    {"num_beam_groups", 1},
    {"diversity_penalty", 0},
    {"penalty_alpha", 0},
    {"guidance_scale", 1},
    {"remove_invalid_values", 0},
    {"dola_layers", NAN},
    {"sequence_bias", NAN},
    {"exponential_decay_length_penalty", NAN},
    {"begin_suppress_tokens", NAN},
    {"forced_decoder_ids", NAN},
    {"force_words_ids", NAN},
    {"constraints", NAN},
    {"stop_strings", NAN},
    {"max_time", NAN},
    {"watermarking_config", NAN},
};

static tsr_status refuse_unknown(const tsr_config *file)
{
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    const json_t *value = json_object_get(file->root, refused[i].key);
    if (!value || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0)) {
      continue;
    }
    double number = json_is_number(value)    ? json_number_value(value)
                    : json_is_boolean(value) ? (double)json_is_true(value)
                                             : NAN;
    if (number != refused[i].neutral) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s': this build does not have this setting; remove it", file->path,
                      refused[i].key);
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

static tsr_status suppress(const tsr_config *file, const char *key, const json_t *id, int32_t vocabulary,
                           tsr_generate_options *options)
{
  if (!is_token(id, vocabulary)) {
    return fail_token(file, key, vocabulary);
  }
  int32_t token = (int32_t)json_integer_value(id);
  for (int32_t i = 0; i < options->n_suppressed; i++) {
    if (options->suppressed[i] == token) {
      return TSR_OK;
    }
  }
  int32_t room = (int32_t)(sizeof options->suppressed / sizeof options->suppressed[0]);
  if (options->n_suppressed == room) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s': more than %d suppressed tokens", file->path, key, (int)room);
  }
  options->suppressed[options->n_suppressed++] = token;
  return TSR_OK;
}

/* A word of several tokens. */
static tsr_status add_word(const tsr_config *file, const json_t *word, int32_t vocabulary,
                           tsr_generate_options *options)
{
  size_t room = sizeof options->words / sizeof options->words[0];
  size_t n = json_array_size(word);
  if (n >= room - (size_t)options->n_words) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key 'bad_words_ids': words of more than %zu tokens together", file->path,
                    room);
  }
  options->words[options->n_words++] = (int32_t)n;
  for (size_t i = 0; i < n; i++) {
    const json_t *id = json_array_get(word, i);
    if (!is_token(id, vocabulary)) {
      return fail_token(file, "bad_words_ids", vocabulary);
    }
    options->words[options->n_words++] = (int32_t)json_integer_value(id);
  }
  return TSR_OK;
}

/* Lists replace what was there: [[5], [7, 8]] and [5, 7]. */
static tsr_status read_suppressed(const tsr_config *file, const tsr_transformer_config *config,
                                  tsr_generate_options *options)
{
  const json_t *words = json_object_get(file->root, "bad_words_ids");
  const json_t *tokens = json_object_get(file->root, "suppress_tokens");
  if ((words && !json_is_null(words) && !json_is_array(words)) ||
      (tokens && !json_is_null(tokens) && !json_is_array(tokens))) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: keys 'bad_words_ids' and 'suppress_tokens' should be lists", file->path);
  }
  if (json_is_array(words) || json_is_array(tokens)) {
    options->n_suppressed = 0;
    options->n_words = 0;
  }
  for (size_t i = 0; i < json_array_size(words); i++) {
    const json_t *word = json_array_get(words, i);
    if (json_array_size(word) == 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key 'bad_words_ids': word %zu should be a list of token ids", file->path, i);
    }
    if (json_array_size(word) > 1) {
      TSR_TRY(add_word(file, word, config->target_vocabulary, options));
      continue;
    }
    const json_t *id = json_array_get(word, 0);
    if (json_is_integer(id) && json_integer_value(id) == config->eos_id) {
      continue; /* the end of the sentence cannot be a bad word */
    }
    TSR_TRY(suppress(file, "bad_words_ids", id, config->target_vocabulary, options));
  }
  for (size_t i = 0; i < json_array_size(tokens); i++) {
    TSR_TRY(suppress(file, "suppress_tokens", json_array_get(tokens, i), config->target_vocabulary, options));
  }
  return TSR_OK;
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
  if (min_new > 0) {
    options->min_length = min_new + 1;
  }
  /* Lengths count the start token. A file that says 20 says nothing: it is what the original writes by default. */
  if (max_new > 0) {
    options->max_length = max_new + 1;
  } else if (max_length > 0 && (call || max_length != DEFAULT_LENGTH)) {
    options->max_length = max_length;
  }
  if (!call && options->max_length > config->max_positions) {
    options->max_length = config->max_positions;
  }
}

tsr_status tsr_generate_apply(tsr_config *file, const tsr_transformer_config *config, int call,
                              tsr_generate_options *options)
{
  TSR_TRY(refuse_unknown(file));
  read_lengths(file, config, call, options);
  tsr_config_int(file, "num_beams", 1, TSR_MAX_BEAM, &options->beam);
  tsr_config_int(file, "num_return_sequences", 1, TSR_MAX_BEAM, &options->n_best);
  tsr_config_int(file, "no_repeat_ngram_size", 0, MAX_LENGTH, &options->no_repeat_ngram);
  tsr_config_float(file, "length_penalty", -1e6, 1e6, &options->length_penalty);
  tsr_config_bool(file, "renormalize_logits", &options->renormalize);
  TSR_TRY(read_early_stopping(file, &options->early_stopping));
  TSR_TRY(read_suppressed(file, config, options));
  TSR_TRY(tsr_config_id(file, "forced_bos_token_id", config->target_vocabulary, &options->forced_bos_id));
  TSR_TRY(tsr_config_id(file, "forced_eos_token_id", config->target_vocabulary, &options->forced_eos_id));
  return tsr_config_status(file);
}

tsr_generate_options tsr_generate_plain(const tsr_transformer_config *config)
{
  int32_t length = DEFAULT_LENGTH + 1;
  return (tsr_generate_options){.beam = 1,
                                .n_best = 1,
                                .max_length = length < config->max_positions ? length : config->max_positions,
                                .length_penalty = 1.0f,
                                .forced_bos_id = -1,
                                .forced_eos_id = -1};
}

/* What a model's config.json says of the search where no generation_config.json does. */
static tsr_status apply_family(tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  const tsr_family *family = model->family;
  int32_t force_bos = 0;
  if (family->forced_eos_id < model->config.target_vocabulary) {
    options->forced_eos_id = family->forced_eos_id;
  }
  if (family->forced_bos_older) {
    tsr_config_bool(file, family->forced_bos_older, &force_bos);
  }
  if (force_bos) {
    options->forced_bos_id = model->config.bos_id;
  }
  return tsr_config_status(file);
}

tsr_status tsr_generate_defaults(const tsr_model *model, tsr_generate_options *options)
{
  if (!model || !options) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate_defaults: model and options must not be NULL");
  }
  *options = tsr_generate_plain(&model->config);
  if (model->folder[0] == '\0') {
    return TSR_OK; /* made from a configuration: no file says more */
  }
  size_t room = strlen(model->folder) + 32;
  char *path = malloc(room);
  if (!path) {
    return tsr_fail_memory(room);
  }
  snprintf(path, room, "%s/generation_config.json", model->folder);
  int is_family = access(path, F_OK) != 0;
  if (is_family) {
    snprintf(path, room, "%s/config.json", model->folder);
  }
  tsr_config file = {0};
  tsr_status status = tsr_config_open(path, &file);
  if (status == TSR_OK && is_family) {
    status = apply_family(&file, model, options);
  }
  if (status == TSR_OK) {
    status = tsr_generate_apply(&file, &model->config, 0, options);
  }
  tsr_config_finish(&file);
  free(path);
  return status;
}

static tsr_status check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
  if (value < low || value > high) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s is %lld; it should be %lld to %lld", name, (long long)value, (long long)low,
                    (long long)high);
  }
  return TSR_OK;
}

static tsr_status check_words(const tsr_generate_options *options, int32_t last)
{
  TSR_TRY(check_range("n_words", options->n_words, 0, (int64_t)(sizeof options->words / sizeof options->words[0])));
  for (int32_t i = 0; i < options->n_words;) {
    int32_t n = options->words[i++];
    TSR_TRY(check_range("a word's number of tokens", n, 2, options->n_words - i));
    for (int32_t end = i + n; i < end; i++) {
      TSR_TRY(check_range("token of a word", options->words[i], 0, last));
    }
  }
  return TSR_OK;
}

tsr_status tsr_generate_check(const tsr_transformer_config *config, const tsr_generate_options *options)
{
  int32_t last = config->target_vocabulary - 1;
  TSR_TRY(check_range("beam", options->beam, 1, TSR_MAX_BEAM));
  TSR_TRY(check_range("n_best", options->n_best, 1, options->beam));
  /* The last token is never fed back, so it needs no position. */
  TSR_TRY(check_range("max_length", options->max_length, 2, (int64_t)config->max_positions + 1));
  TSR_TRY(check_range("min_length", options->min_length, 0, INT32_MAX));
  TSR_TRY(check_range("early_stopping", options->early_stopping, TSR_EARLY_FALSE, TSR_EARLY_NEVER));
  TSR_TRY(check_range("forced_bos_id", options->forced_bos_id, -1, last));
  TSR_TRY(check_range("forced_eos_id", options->forced_eos_id, -1, last));
  TSR_TRY(check_range("no_repeat_ngram", options->no_repeat_ngram, 0, INT32_MAX));
  TSR_TRY(check_range("n_suppressed", options->n_suppressed, 0,
                      (int64_t)(sizeof options->suppressed / sizeof options->suppressed[0])));
  for (int32_t i = 0; i < options->n_suppressed; i++) {
    TSR_TRY(check_range("suppressed token", options->suppressed[i], 0, last));
  }
  TSR_TRY(check_words(options, last));
  TSR_TRY(check_range("renormalize", options->renormalize, 0, 1));
  if (!isfinite(options->length_penalty)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "length_penalty is not a number");
  }
  if (config->decoder_start_id < 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "the model's files do not say what its decoder starts with (decoder_start_token_id)");
  }
  if (config->eos_id < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "the model's files do not say how a sentence ends (eos_token_id)");
  }
  return TSR_OK;
}
