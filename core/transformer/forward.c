/* SPDX-License-Identifier: Apache-2.0
 *
 * Teacher forcing: the logits of targets that are given.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/transformer/transformer.h"

static tsr_status check_ids(const char *what, const int32_t *ids, int32_t n, int32_t vocabulary)
{
  for (int32_t i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s token %d is %d; the vocabulary has the ids 0 to %d", what, (int)i,
                      (int)ids[i], (int)vocabulary - 1);
    }
  }
  return TSR_OK;
}

static tsr_status check_source(const tsr_transformer *t, const tsr_forward *forward, int32_t b)
{
  int32_t length = forward->source_lengths[b], room = forward->size.source;
  if (length < 0 || length > room) {
    return tsr_fail(TSR_ERR_ARGUMENT, "sentence %d has %d tokens; the batch has room for %d", (int)b, (int)length,
                    (int)room);
  }
  return tsr_fail_context(
      check_ids("source", forward->source + (int64_t)b * room, length, t->model->config.source_vocabulary),
      "sentence %d", (int)b);
}

tsr_status tsr_features_check(const tsr_transformer_config *config, int32_t n, const float *features)
{
  const int64_t frames = 2 * (int64_t)config->source_positions, window = config->mels * frames;
  for (int64_t i = 0; i < n * window; i++) {
    if (!isfinite(features[i])) {
      tsr_status status = tsr_fail(TSR_ERR_ARGUMENT, "the feature of mel %d in frame %d is %g; it should be a number",
                                   (int)(i % window / frames), (int)(i % frames), (double)features[i]);
      return n > 1 ? tsr_fail_context(status, "window %d", (int)(i / window)) : status;
    }
  }
  return TSR_OK;
}

tsr_status tsr_forward_check(const tsr_transformer *t, const tsr_forward *forward)
{
  const tsr_transformer_config *config = &t->model->config;
  const tsr_program_size *size = &forward->size;
  int hears = config->mels > 0, reads = config->encoder_layers > 0 && !hears, decodes = forward->target != NULL;
  if (decodes && config->decoder_layers == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the model is an encoder alone: it has no logits", t->model->folder);
  }
  if (size->batch < 1 || (hears && !forward->features) ||
      (reads && (size->source < 1 || !forward->source || !forward->source_lengths)) || (decodes && size->target < 1)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_forward: a batch of %d sentences of %d and %d tokens",
                    (int)size->batch, (int)size->source, (int)size->target);
  }
  if ((reads && size->source > config->max_positions) || (decodes && size->target > config->max_positions)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s has %d positions; the batch is of %d source tokens and %d target tokens",
                    t->model->folder, (int)config->max_positions, reads ? (int)size->source : 0,
                    decodes ? (int)size->target : 0);
  }
  for (int32_t b = 0; b < size->batch; b++) {
    if (reads) {
      TSR_TRY(check_source(t, forward, b));
    }
    if (decodes) {
      TSR_TRY(tsr_fail_context(
          check_ids("target", forward->target + (int64_t)b * size->target, size->target, config->target_vocabulary),
          "sentence %d", (int)b));
    }
  }
  return hears ? tsr_features_check(config, size->batch, forward->features) : TSR_OK;
}

/* What the sources' lengths are; of sound, all of a window counts. */
static tsr_status write_lengths(const tsr_forward *forward, const tsr_compiled *c)
{
  const int32_t n = forward->size.batch;
  const int64_t bytes = n * (int64_t)sizeof(int32_t);
  if (forward->source_lengths || c->refs.source_lengths == TSR_NONE) {
    return c->refs.source_lengths == TSR_NONE
               ? TSR_OK
               : tsr_executable_write(c->executable, c->refs.source_lengths, forward->source_lengths, bytes);
  }
  int32_t *lengths = malloc((size_t)bytes);
  if (!lengths) {
    return tsr_fail_memory((size_t)bytes);
  }
  for (int32_t b = 0; b < n; b++) {
    lengths[b] = forward->size.source;
  }
  tsr_status status = tsr_executable_write(c->executable, c->refs.source_lengths, lengths, bytes);
  free(lengths);
  return status;
}

tsr_status tsr_forward_encode(tsr_transformer *t, const tsr_forward *forward, tsr_compiled **compiled)
{
  const tsr_program_size *size = &forward->size;
  tsr_program_key key = {
      .kind = TSR_PROGRAM_ENCODE, .size = {.batch = size->batch, .source = size->source}, .taps = forward->taps};
  TSR_TRY(tsr_transformer_compile(t, &key, compiled));
  tsr_compiled *c = *compiled;
  if (c->refs.features != TSR_NONE) {
    const int64_t window = t->model->config.mels * 2 * (int64_t)size->source;
    TSR_TRY(tsr_executable_write(c->executable, c->refs.features, forward->features,
                                 size->batch * window * (int64_t)sizeof *forward->features));
  } else {
    TSR_TRY(tsr_executable_write(c->executable, c->refs.source, forward->source,
                                 (int64_t)size->batch * size->source * (int64_t)sizeof *forward->source));
  }
  TSR_TRY(write_lengths(forward, c));
  return tsr_transformer_run(t, c, 1.0);
}

tsr_status tsr_forward_decode(tsr_transformer *t, const tsr_forward *forward, tsr_compiled **compiled)
{
  const tsr_program_size *size = &forward->size;
  tsr_program_key key = {.kind = TSR_PROGRAM_DECODE, .size = *size, .taps = forward->taps};
  TSR_TRY(tsr_transformer_compile(t, &key, compiled));
  tsr_compiled *c = *compiled;
  TSR_TRY(tsr_executable_write(c->executable, c->refs.target, forward->target,
                               (int64_t)size->batch * size->target * (int64_t)sizeof *forward->target));
  TSR_TRY(write_lengths(forward, c));
  return tsr_transformer_run(t, c, 1.0);
}

static tsr_status run_forward(tsr_transformer *t, const tsr_forward *forward, float *encoder_output, float *logits)
{
  const tsr_transformer_config *config = &t->model->config;
  const tsr_program_size *size = &forward->size;
  TSR_TRY(tsr_forward_check(t, forward));
  tsr_compiled *c = NULL;
  if (config->encoder_layers > 0) {
    TSR_TRY(tsr_forward_encode(t, forward, &c));
  }
  if (encoder_output) {
    const int64_t elements = (int64_t)size->batch * size->source * tsr_config_width(config, 0);
    TSR_TRY(tsr_executable_read(c->executable, c->refs.encoder_output, encoder_output,
                                elements * (int64_t)sizeof *encoder_output));
  }
  if (!logits) {
    return TSR_OK;
  }
  TSR_TRY(tsr_forward_decode(t, forward, &c));
  return tsr_executable_read(c->executable, c->refs.logits, logits,
                             (int64_t)size->batch * size->target * config->target_vocabulary * (int64_t)sizeof *logits);
}

tsr_status tsr_transformer_forward(tsr_transformer *transformer, int32_t n_batch, int32_t n_source,
                                   const int32_t *source, const int32_t *source_lengths, int32_t n_target,
                                   const int32_t *target, float *encoder_output, float *logits)
{
  if (!transformer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_forward: transformer must not be NULL");
  }
  if (logits && !target) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_forward: logits need a target");
  }
  const tsr_transformer_config *config = &transformer->model->config;
  TSR_TRY(
      tsr_model_check_reads_text(transformer->model, "tsr_transformer_forward", "tsr_transformer_forward_features"));
  if (encoder_output && config->encoder_layers == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the model is a decoder alone: it has no encoder's output",
                    transformer->model->folder);
  }
  const tsr_forward forward = {.size = {.batch = n_batch, .source = n_source, .target = n_target},
                               .source = source,
                               .source_lengths = source_lengths,
                               .target = logits ? target : NULL};
  return run_forward(transformer, &forward, encoder_output, logits);
}

tsr_status tsr_transformer_forward_features(tsr_transformer *transformer, int32_t n_batch, const float *features,
                                            int32_t n_target, const int32_t *target, float *encoder_output,
                                            float *logits)
{
  if (!transformer || !features || (logits && !target)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_transformer_forward_features: transformer and features must not be NULL, and logits need a "
                    "target");
  }
  TSR_TRY(tsr_model_check_reads_sound(transformer->model, "tsr_transformer_forward_features"));
  const int32_t source = transformer->model->config.source_positions;
  const tsr_forward forward = {.size = {.batch = n_batch, .source = source, .target = n_target},
                               .features = features,
                               .target = logits ? target : NULL};
  return run_forward(transformer, &forward, encoder_output, logits);
}
