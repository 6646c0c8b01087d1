/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/decoder_yml.h"
#include "core/checkpoint/package.h"
#include "core/generate/beam.h"
#include "core/generate/search.h"
#include "core/generate/shortlist.h"
#include "core/transformer/model.h"

tsr_generate_options tsr_generate_plain(const tsr_transformer_config *config)
{
  /* The source of a decoder alone is part of its output. What is said in a window is as long as it is. */
  int32_t length = config->mels > 0             ? config->max_positions
                   : config->encoder_layers > 0 ? TSR_DEFAULT_LENGTH + 1
                                                : TSR_DEFAULT_ROOM;
  return (tsr_generate_options){TSR_SIZED(tsr_generate_options),
                                .beam = 1,
                                .n_best = 1,
                                .max_length = length < config->max_positions ? length : config->max_positions,
                                .length_penalty = 1.0f,
                                .decoder_start_id = -1,
                                .forced_bos_id = -1,
                                .forced_eos_id = -1,
                                .top_k = 50,
                                .timestamp_begin = -1,
                                .no_timestamps_id = -1,
                                .max_initial_timestamp = -1,
                                .timestamp_by_sum = 1};
}

tsr_generate_options tsr_generate_resolve(const tsr_transformer_config *config, const tsr_generate_options *options)
{
  tsr_generate_options resolved = *options;
  if (resolved.n_eos == 0) {
    resolved.n_eos = 1;
    resolved.eos = &config->eos_id;
  }
  if (resolved.decoder_start_id < 0) {
    resolved.decoder_start_id = config->decoder_start_id;
  }
  if (resolved.search == TSR_SEARCH_CTRANSLATE2) {
    resolved.min_length = resolved.min_length > 2 ? resolved.min_length : 2;
    resolved.renormalize = 1;
  }
  return resolved;
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

/* What the files in the model's folder say, on top of *options. */
static tsr_status read_folder(const tsr_model *model, tsr_generate_options *options)
{
  if (model->folder[0] == '\0') {
    return TSR_OK; /* made from a configuration: no file says more */
  }
  if (tsr_package_is(model->folder)) {
    return tsr_generate_ctranslate2(model, options);
  }
  if (tsr_marian_npz_is(model->folder)) {
    return tsr_generate_marian(model, options);
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
    status = tsr_generate_apply(&file, model, 0, options);
  }
  tsr_config_finish(&file);
  free(path);
  return status;
}

tsr_status tsr_generate_defaults(const tsr_model *model, tsr_generate_options *options)
{
  if (!model || !options) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate_defaults: model and options must not be NULL");
  }
  TSR_TRY(TSR_SIZED_CHECK(tsr_generate_options, token_user, options));
  tsr_generate_options read = tsr_generate_plain(&model->config);
  TSR_TRY(read_folder(model, &read));
  return TSR_SIZED_WRITE(tsr_generate_options, token_user, &read, options);
}

tsr_status tsr_generate_parse(const tsr_model *model, const char *name, const char *json, size_t size,
                              tsr_generate_options *options)
{
  if (!model || !name || !json || !options) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate_parse: no argument may be NULL");
  }
  tsr_generate_options changed;
  tsr_config file;
  TSR_TRY(TSR_SIZED_READ(tsr_generate_options, token_user, options, &changed));
  TSR_TRY(tsr_config_parse(name, json, size, &file));
  tsr_status status = tsr_generate_apply(&file, model, 1, &changed);
  tsr_config_finish(&file);
  return status == TSR_OK ? TSR_SIZED_WRITE(tsr_generate_options, token_user, &changed, options) : status;
}

static tsr_status check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
  if (value < low || value > high) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s is %lld; it should be %lld to %lld", name, (long long)value, (long long)low,
                    (long long)high);
  }
  return TSR_OK;
}

static tsr_status check_list(const char *name, const int32_t *list, int32_t n)
{
  char which[64];
  snprintf(which, sizeof which, "the number of %s", name);
  TSR_TRY(check_range(which, n, 0, TSR_MAX_LIST));
  return n > 0 && !list ? tsr_fail(TSR_ERR_ARGUMENT, "there are %d %s, and no list of them: it is NULL", (int)n, name)
                        : TSR_OK;
}

static tsr_status check_words(const tsr_generate_options *options, int32_t last)
{
  TSR_TRY(check_list("words", options->words, options->n_words));
  for (int32_t i = 0; i < options->n_words;) {
    int32_t n = options->words[i++];
    TSR_TRY(check_range("a word's number of tokens", n, 2, options->n_words - i));
    for (int32_t end = i + n; i < end; i++) {
      TSR_TRY(check_range("token of a word", options->words[i], 0, last));
    }
  }
  return TSR_OK;
}

/* tokens [n]; several of them are names. */
static tsr_status check_tokens(const char *name, const char *names, const int32_t *tokens, int32_t n, int32_t last)
{
  TSR_TRY(check_list(names, tokens, n));
  for (int32_t i = 0; i < n; i++) {
    TSR_TRY(check_range(name, tokens[i], 0, last));
  }
  return TSR_OK;
}

static tsr_status check_number(const char *name, float value, double low, double high)
{
  if (!(value >= low && value <= high)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s is %g; it should be %g to %g", name, (double)value, low, high);
  }
  return TSR_OK;
}

static tsr_status check_numbers(const tsr_generate_options *options)
{
  enum { MOST = 1000000 };
  TSR_TRY(check_number("length_penalty", options->length_penalty, -MOST, MOST));
  TSR_TRY(check_number("word_penalty", options->word_penalty, -MOST, MOST));
  TSR_TRY(check_number("max_length_factor", options->max_length_factor, 0, MOST));
  TSR_TRY(check_number("patience", options->patience, 0, MOST));
  TSR_TRY(check_number("repetition_penalty", options->repetition_penalty, 0, MOST));
  TSR_TRY(check_number("encoder_repetition_penalty", options->encoder_repetition_penalty, 0, MOST));
  TSR_TRY(check_number("temperature", options->temperature, 0, MOST));
  return check_number("top_p", options->top_p, 0, 1);
}

static tsr_status check_lists(const tsr_generate_options *o, int32_t last)
{
  TSR_TRY(check_tokens("suppressed token", "suppressed tokens", o->suppressed, o->n_suppressed, last));
  TSR_TRY(check_tokens("token suppressed at the beginning", "tokens suppressed at the beginning", o->begin_suppressed,
                       o->n_begin_suppressed, last));
  TSR_TRY(check_tokens("end token", "end tokens", o->eos, o->n_eos, last));
  TSR_TRY(check_tokens("language", "languages", o->languages, o->n_languages, last));
  return check_words(o, last);
}

/* How many hypotheses there are, and come back. */
static tsr_status check_beam(const tsr_generate_options *options)
{
  int32_t most = options->sample ? TSR_MAX_BEAM : options->beam;
  TSR_TRY(check_range("search", options->search, TSR_SEARCH_TRANSFORMERS, TSR_SEARCH_CTRANSLATE2));
  TSR_TRY(check_range("sample", options->sample, 0, 1));
  TSR_TRY(check_range("beam", options->beam, 1, TSR_MAX_BEAM));
  if (options->sample && options->beam > 1) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "sampling takes no beams: beam should be 1; it is %d", (int)options->beam);
  }
  if (options->sample && options->search == TSR_SEARCH_MARIAN) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "sampling is no search of Marian's kind, which keeps beams");
  }
  if (!options->sample && tsr_search_is_beam(options) && tsr_beam_wanted(options) < most) {
    most = tsr_beam_wanted(options); /* patience below 1 */
  }
  return check_range("n_best", options->n_best, 1, most);
}

static tsr_status check_timestamps(const tsr_generate_options *o, int32_t last)
{
  TSR_TRY(check_range("timestamps", o->timestamps, 0, 1));
  if (!o->timestamps) {
    return TSR_OK;
  }
  TSR_TRY(check_range("timestamp_begin", o->timestamp_begin, 0, last));
  TSR_TRY(check_range("no_timestamps_id", o->no_timestamps_id, -1, last));
  TSR_TRY(check_range("max_initial_timestamp", o->max_initial_timestamp, -1, INT32_MAX));
  TSR_TRY(check_range("timestamp_by_sum", o->timestamp_by_sum, 0, 1));
  return o->shortlist ? tsr_fail(TSR_ERR_ARGUMENT, "the rules of timestamps need all tokens, not those of a shortlist")
                      : TSR_OK;
}

static tsr_status check_alignment(const tsr_transformer_config *config, const tsr_generate_options *o)
{
  TSR_TRY(check_range("alignment", o->alignment, 0, 1));
  if (!o->alignment) {
    return TSR_OK;
  }
  if (config->mels == 0 || !o->details || o->attention || o->coverage_penalty > 0.0f) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "alignment takes a model of speech and details, and neither attention nor coverage_penalty");
  }
  TSR_TRY(check_range("the number of alignment_heads", o->n_alignment_heads, 1, TSR_MAX_ALIGNMENT_HEADS));
  for (int32_t i = 0; i < o->n_alignment_heads && o->alignment_heads; i++) {
    TSR_TRY(check_range("layer of alignment_heads", o->alignment_heads[2 * i], 0, config->decoder_layers - 1));
    TSR_TRY(check_range("head of alignment_heads", o->alignment_heads[2 * i + 1], 0, config->decoder_heads - 1));
  }
  return o->alignment_heads ? TSR_OK : tsr_fail(TSR_ERR_ARGUMENT, "alignment_heads is NULL");
}

/* Sound has no tokens. */
static tsr_status check_speech(const tsr_transformer_config *config, const tsr_generate_options *o)
{
  const int is_penalised = o->encoder_repetition_penalty != 0.0f && o->encoder_repetition_penalty != 1.0f;
  if (config->mels > 0 && (o->encoder_no_repeat_ngram > 0 || is_penalised || o->shortlist)) {
    return tsr_fail(
        TSR_ERR_UNSUPPORTED,
        "encoder_no_repeat_ngram, encoder_repetition_penalty and shortlist need the tokens of a source; the "
        "model reads sound");
  }
  return TSR_OK;
}

tsr_status tsr_generate_check_options(const tsr_transformer_config *config, const tsr_generate_options *options)
{
  int32_t last = config->target_vocabulary - 1;
  if (config->decoder_layers == 0 || config->target_vocabulary == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "the model has no decoder with a vocabulary: there is nothing to generate");
  }
  if (config->encoder_layers == 0 && (options->prefix || options->attention || options->coverage_penalty > 0.0f)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "the model is a decoder alone: its output begins with its source, so it takes "
                                         "no other prefix, and it has no cross-attention");
  }
  TSR_TRY(check_beam(options));
  TSR_TRY(check_range("scores", options->scores, 0, 1));
  /* The last token is never fed back, so it needs no position. */
  TSR_TRY(check_range("max_length", options->max_length, 2, (int64_t)config->max_positions + 1));
  TSR_TRY(check_range("min_length", options->min_length, 0, INT32_MAX));
  TSR_TRY(check_range("length_kind", options->length_kind, TSR_LENGTH_POWER, TSR_LENGTH_GNMT));
  TSR_TRY(check_range("early_stopping", options->early_stopping, TSR_EARLY_FALSE, TSR_EARLY_NEVER));
  TSR_TRY(check_range("decoder_start_id", options->decoder_start_id, -1, last));
  TSR_TRY(check_range("forced_bos_id", options->forced_bos_id, -1, last));
  TSR_TRY(check_range("forced_eos_id", options->forced_eos_id, -1, last));
  TSR_TRY(check_range("no_repeat_ngram", options->no_repeat_ngram, 0, INT32_MAX));
  TSR_TRY(check_range("encoder_no_repeat_ngram", options->encoder_no_repeat_ngram, 0, INT32_MAX));
  TSR_TRY(check_range("top_k", options->top_k, 0, INT32_MAX));
  TSR_TRY(check_range("renormalize", options->renormalize, 0, 1));
  TSR_TRY(check_lists(options, last));
  TSR_TRY(check_numbers(options));
  TSR_TRY(check_range("attention", options->attention, 0, 1));
  TSR_TRY(check_range("steps_per_submit", options->steps_per_submit, 0, TSR_MAX_STEPS_PER_SUBMIT));
  TSR_TRY(check_range("attention_layer", options->attention_layer, 0, config->decoder_layers));
  if (config->decoder_heads < 32 && options->attention_heads >> config->decoder_heads != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "attention_heads is %#x; the decoder has %d heads", options->attention_heads,
                    (int)config->decoder_heads);
  }
  if (!(options->coverage_penalty >= 0.0f && isfinite(options->coverage_penalty))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "coverage_penalty is %g; it should be 0 or above",
                    (double)options->coverage_penalty);
  }
  TSR_TRY(check_range("alternatives", options->alternatives, 0, TSR_MAX_BEAM));
  if (options->alternatives == 1 || 2 * options->alternatives > config->target_vocabulary) {
    return tsr_fail(TSR_ERR_ARGUMENT, "alternatives is %d; it should be 0, or 2 to half the vocabulary of %d",
                    (int)options->alternatives, (int)config->target_vocabulary);
  }
  if (config->encoder_layers == 0 && (options->attention || options->coverage_penalty > 0.0f || options->shortlist)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "attention, a coverage penalty and a shortlist need an encoder; the model is a decoder alone");
  }
  if (options->shortlist && (options->shortlist->source_vocabulary > config->source_vocabulary ||
                             options->shortlist->target_vocabulary > config->target_vocabulary)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the shortlist is for vocabularies of %d and %d tokens; the model has %d and %d",
                    (int)options->shortlist->source_vocabulary, (int)options->shortlist->target_vocabulary,
                    (int)config->source_vocabulary, (int)config->target_vocabulary);
  }
  TSR_TRY(check_timestamps(options, last));
  TSR_TRY(check_range("no_speech_id", options->no_speech_id, -1, last));
  TSR_TRY(check_alignment(config, options));
  TSR_TRY(check_speech(config, options));
  if (options->alternatives > 0 && options->details) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there are no details of alternatives");
  }
  if (options->alternatives > 0 && options->token) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tokens of alternatives cannot be handed out as they come");
  }
  if (options->prefix && !options->prefix_lengths) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there are prefixes, but not their lengths");
  }
  if (config->encoder_layers > 0 && config->decoder_start_id < 0 && options->decoder_start_id < 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "the model's files do not say what its decoder starts with (decoder_start_token_id)");
  }
  if (config->eos_id < 0 && options->n_eos == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "the model's files do not say how a sentence ends (eos_token_id)");
  }
  return TSR_OK;
}

tsr_status tsr_generate_check(const tsr_model *model, const tsr_generate_options *options)
{
  if (!model || !options) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate_check: model and options must not be NULL");
  }
  tsr_generate_options given;
  TSR_TRY(TSR_SIZED_READ(tsr_generate_options, token_user, options, &given));
  return tsr_generate_check_options(&model->config, &given);
}
