/* SPDX-License-Identifier: Apache-2.0
 *
 * What only a training of a model of speech has: the words that it gets right at validations, and the files that its
 * folder has beside those of any model.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/train/run_parts.h"
#include "core/transformer/model.h"
#include "tessera/audio.h"
#include "tessera/eval.h"
#include "tessera/files.h"
#include "tessera/generate.h"

enum {
  BATCH = 16,        /* windows that are searched together */
  SPARE_TOKENS = 16, /* of an output, beyond twice the longest text */
  INITIAL_TIMESTAMP = 50
};

static const char generation_config[] = "generation_config.json", preprocessor_config[] = "preprocessor_config.json";

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A validation under way. */
typedef struct hearing {
  tsr_run *run;
  tsr_transformer *transformer;
  tsr_generate_options options;
  tsr_scorer *scorer;
  const float *features[BATCH]; /* of n rows of a batch, which begin here */
  const int32_t *prefix[BATCH];
  int32_t lengths[BATCH];
  const int32_t *labels[BATCH];
  int32_t n;
} hearing;

/* The text of a row's labels. */
static tsr_status reference_of(const hearing *h, const int32_t *labels, int32_t width, char **text)
{
  int32_t first = 0, n = 0;
  while (first < width && labels[first] < 0) {
    first++;
  }
  while (first + n < width && labels[first + n] >= 0) {
    n++;
  }
  return tsr_speech_decode(h->run->options->data->tokenizer, labels + first, n, 0, 0, text);
}

static tsr_status score(const hearing *h, const tsr_hypothesis *hypothesis, const int32_t *labels, int32_t width)
{
  char *found = NULL, *wanted = NULL;
  tsr_status status =
      tsr_speech_decode(h->run->options->data->tokenizer, hypothesis->ids, hypothesis->n_ids, 0, 0, &found);
  if (status == TSR_OK) {
    status = reference_of(h, labels, width, &wanted);
  }
  if (status == TSR_OK) {
    status = tsr_scorer_add(h->scorer, (tsr_span){.bytes = found, .size = strlen(found)},
                            (tsr_span){.bytes = wanted, .size = strlen(wanted)});
  }
  tsr_free(found);
  tsr_free(wanted);
  return status;
}

/* Searches what was gathered. */
static tsr_status hear(hearing *h, int32_t width)
{
  tsr_generation generation = {0};
  if (h->n == 0) {
    return TSR_OK;
  }
  h->options.prefix = h->prefix;
  h->options.prefix_lengths = h->lengths;
  tsr_status status =
      tsr_generate_features(h->transformer, h->n, h->features, h->n, &h->options, NULL, NULL, &generation);
  for (int32_t i = 0; i < h->n && status == TSR_OK; i++) {
    status = score(h, &generation.hypotheses[i], h->labels[i], width);
  }
  tsr_generation_finish(&generation);
  h->n = 0;
  return status;
}

/* The rows of a batch that belong to the sample. */
static tsr_status hear_batch(hearing *h, const tsr_training_batch *batch)
{
  const tsr_run *run = h->run;
  const float *features = tsr_training_data_features(run->valid);
  const int64_t window = run->model->config.mels * 2 * (int64_t)batch->source_width;
  const int32_t most = 2 * batch->target_width + SPARE_TOKENS, positions = run->model->config.max_positions;
  h->options.max_length = most < positions ? most : positions;
  for (int32_t row = 0; row < batch->sentences; row++) {
    const int32_t *labels = batch->labels + (int64_t)row * batch->target_width;
    if (batch->lines[row] > run->options->sentences) {
      continue;
    }
    int32_t n_prompt = 0;
    while (labels[n_prompt] < 0) {
      n_prompt++;
    }
    h->features[h->n] = features + row * window;
    h->prefix[h->n] = batch->target + (int64_t)row * batch->target_width + 1;
    h->lengths[h->n] = n_prompt;
    h->labels[h->n] = labels;
    h->n++;
    if (h->n == BATCH) {
      TSR_TRY(hear(h, batch->target_width));
    }
  }
  return hear(h, batch->target_width);
}

static tsr_status hear_all(hearing *h)
{
  tsr_run *run = h->run;
  TSR_TRY(tsr_training_data_seek(run->valid, &(tsr_training_data_position){0}));
  for (;;) {
    const tsr_training_batch *batch;
    TSR_TRY(tsr_training_data_next(run->valid, &batch));
    if (!batch) {
      return TSR_OK;
    }
    TSR_TRY(hear_batch(h, batch));
  }
}

tsr_status tsr_run_share_of_words(tsr_run *run, const tsr_model *model, double *share)
{
  hearing h = {.run = run, .options = {TSR_SIZED(tsr_generate_options)}};
  const tsr_transformer_options placement = {TSR_SIZED(tsr_transformer_options), .fallback = run->fallback};
  tsr_normalizer *normalizer = NULL;
  tsr_wer wer = {0};
  TSR_TRY(tsr_generate_defaults(model, &h.options));
  h.options.beam = run->beam;
  h.options.n_best = 1;
  h.options.decoder_start_id = run->model->config.decoder_start_id;
  tsr_status status = tsr_normalizer_create(TSR_NORMALIZER_BASIC, 0, NULL, &normalizer);
  if (status == TSR_OK) {
    status = tsr_scorer_create(TSR_METRIC_WER, &h.scorer);
  }
  if (status == TSR_OK) {
    status = tsr_scorer_set_normalizer(h.scorer, normalizer);
  }
  if (status == TSR_OK) {
    status = tsr_transformer_create(model, run->device, &placement, &h.transformer);
  }
  if (status == TSR_OK) {
    status = hear_all(&h);
  }
  if (status == TSR_OK) {
    status = tsr_scorer_wer(h.scorer, &wer);
  }
  *share = wer.reference_words > 0 ? 1.0 - wer.score / 100.0 : 0.0;
  tsr_transformer_destroy(h.transformer);
  tsr_scorer_destroy(h.scorer);
  tsr_normalizer_destroy(normalizer);
  return status;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* The file of a folder; *root is NULL if there is none. */
static tsr_status read_json(const char *folder, const char *name, json_t **root)
{
  char *path = folder ? tsr_path_join(folder, name) : NULL;
  tsr_file file = {0};
  *root = NULL;
  tsr_status status = folder && !path ? tsr_fail_memory(strlen(folder) + strlen(name) + 2) : TSR_OK;
  if (path && tsr_path_exists(path)) {
    status = tsr_file_read(path, &file);
    if (status == TSR_OK) {
      status = tsr_json_parse(path, file.bytes, file.size, root);
    }
  }
  tsr_file_free(&file);
  free(path);
  return status;
}

/* Takes `root`, NULL being a failed allocation. */
static tsr_status write_json(const char *folder, const char *name, json_t *root)
{
  char *path = tsr_path_join(folder, name);
  char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(root);
  tsr_status status = path && text ? tsr_file_replace(path, text, strlen(text)) : tsr_fail_memory(sizeof(json_t));
  free(text);
  free(path);
  return status;
}

static json_t *languages_of(const tsr_tokenizer *tokenizer)
{
  json_t *object = json_object();
  for (int32_t i = 0; i < tsr_tokenizer_n_languages(tokenizer) && object; i++) {
    const int32_t id = tsr_speech_language_id(tokenizer, i);
    json_object_set_new(object, tsr_tokenizer_token(tokenizer, TSR_SIDE_TARGET, id), json_integer(id));
  }
  return object;
}

/* What no text has: tokens that only a prompt has. */
static json_t *suppressed(const tsr_speech_tokens *t)
{
  const int32_t ids[] = {t->start_of_transcript, t->translate,     t->transcribe,
                         t->start_of_lm,         t->start_of_prev, t->no_speech};
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof ids / sizeof ids[0] && list; i++) {
    if (ids[i] >= 0) {
      json_array_append_new(list, json_integer(ids[i]));
    }
  }
  return list;
}

/* A text begins neither with a blank alone nor with its end. */
static tsr_status make_begin(const tsr_tokenizer *tokenizer, const tsr_speech_tokens *tokens, json_t **list)
{
  int32_t *blank, n;
  TSR_TRY(tsr_speech_encode(tokenizer, " ", 1, &blank, &n));
  *list = json_array();
  if (n == 1) {
    json_array_append_new(*list, json_integer(blank[0]));
  }
  json_array_append_new(*list, json_integer(tokens->end_of_text));
  tsr_free(blank);
  return TSR_OK;
}

static tsr_status make_generation_config(const tsr_run *run, json_t **root)
{
  const tsr_transformer_config *c = &run->model->config;
  const tsr_tokenizer *tokenizer = run->options->data->tokenizer;
  tsr_speech_tokens t;
  json_t *begin;
  TSR_TRY(tsr_speech_get_tokens(tokenizer, &t));
  TSR_TRY(make_begin(tokenizer, &t, &begin));
  *root = json_pack("{s:o, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:b, s:o}", "begin_suppress_tokens", begin,
                    "bos_token_id", (int)c->bos_id, "decoder_start_token_id", (int)c->decoder_start_id, "eos_token_id",
                    (int)c->eos_id, "pad_token_id", (int)c->pad_id, "is_multilingual",
                    run->options->data->sounds->language != NULL, "max_initial_timestamp_index", INITIAL_TIMESTAMP,
                    "no_timestamps_token_id", (int)t.no_timestamps, "prev_sot_token_id", (int)t.start_of_prev,
                    "return_timestamps", 0, "suppress_tokens", suppressed(&t));
  if (*root && run->options->data->sounds->language) {
    json_object_set_new(*root, "lang_to_id", languages_of(tokenizer));
    json_object_set_new(*root, "task_to_id",
                        json_pack("{s:i, s:i}", "transcribe", (int)t.transcribe, "translate", (int)t.translate));
  }
  return *root ? TSR_OK : tsr_fail_memory(sizeof(json_t));
}

/* Which heads follow the sound nobody knows before they are looked at: all of the upper half of the layers. */
static json_t *alignment_heads(const tsr_transformer_config *c)
{
  json_t *list = json_array();
  for (int32_t layer = c->decoder_layers / 2; layer < c->decoder_layers && list; layer++) {
    for (int32_t head = 0; head < c->decoder_heads; head++) {
      json_array_append_new(list, json_pack("[i, i]", (int)layer, (int)head));
    }
  }
  return list;
}

static json_t *make_preprocessor_config(const tsr_transformer_config *c)
{
  const int32_t samples = c->source_positions * 2 * TSR_MEL_HOP;
  json_t *seconds = samples % TSR_AUDIO_RATE == 0 ? json_integer(samples / TSR_AUDIO_RATE)
                                                  : json_real((double)samples / TSR_AUDIO_RATE);
  return json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:s, s:b, s:i}", "chunk_length", seconds,
                   "feature_extractor_type", "WhisperFeatureExtractor", "feature_size", (int)c->mels, "hop_length",
                   (int)TSR_MEL_HOP, "n_fft", 400, "n_samples", (int)samples, "nb_max_frames",
                   (int)(2 * c->source_positions), "padding_side", "right", "padding_value", 0.0, "processor_class",
                   "WhisperProcessor", "return_attention_mask", 0, "sampling_rate", (int)TSR_AUDIO_RATE);
}

tsr_status tsr_run_write_speech(const tsr_run *run, const char *folder, int32_t beam)
{
  const tsr_transformer_config *c = &run->model->config;
  const int32_t goes_on = tsr_model_has_weights(run->model);
  json_t *generation, *preprocessor = NULL;
  TSR_TRY(read_json(goes_on ? tsr_model_folder(run->model) : run->options->tokenizer_folder, generation_config,
                    &generation));
  if (!generation) {
    TSR_TRY(make_generation_config(run, &generation));
  }
  if (!goes_on) { /* what is said of tokens stays, what is said of another model does not */
    json_object_set_new(generation, "alignment_heads", alignment_heads(c));
    json_object_set_new(generation, "max_length", json_integer(c->max_positions));
    json_object_set_new(generation, "num_beams", json_integer(beam > 0 ? beam : 1));
  }
  const int32_t learns_timestamps = run->options->data->sounds->timestamps > 0;
  if (!goes_on || (learns_timestamps && json_object_get(generation, "has_timestamps"))) {
    json_object_set_new(generation, "has_timestamps", json_boolean(learns_timestamps));
  }
  tsr_status status = write_json(folder, generation_config, generation);
  if (status == TSR_OK && goes_on) {
    status = read_json(tsr_model_folder(run->model), preprocessor_config, &preprocessor);
  }
  if (status == TSR_OK) {
    status = write_json(folder, preprocessor_config, preprocessor ? preprocessor : make_preprocessor_config(c));
  }
  return status;
}
