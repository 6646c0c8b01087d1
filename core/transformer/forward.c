/* SPDX-License-Identifier: Apache-2.0
 *
 * Teacher forcing: the logits of targets that are given.
 */
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

tsr_status tsr_forward_check(const tsr_transformer *t, const tsr_forward *forward)
{
  const tsr_transformer_config *config = &t->model->config;
  const tsr_program_size *size = &forward->size;
  int encodes = config->encoder_layers > 0, decodes = forward->target != NULL;
  if (decodes && config->decoder_layers == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the model is an encoder alone: it has no logits", t->model->folder);
  }
  if (size->batch < 1 || (encodes && (size->source < 1 || !forward->source || !forward->source_lengths)) ||
      (decodes && size->target < 1)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_forward: a batch of %d sentences of %d and %d tokens",
                    (int)size->batch, (int)size->source, (int)size->target);
  }
  if ((encodes && size->source > config->max_positions) || (decodes && size->target > config->max_positions)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s has %d positions; the batch is of %d source tokens and %d target tokens",
                    t->model->folder, (int)config->max_positions, encodes ? (int)size->source : 0,
                    decodes ? (int)size->target : 0);
  }
  for (int32_t b = 0; b < size->batch; b++) {
    if (encodes) {
      TSR_TRY(check_source(t, forward, b));
    }
    if (decodes) {
      TSR_TRY(tsr_fail_context(
          check_ids("target", forward->target + (int64_t)b * size->target, size->target, config->target_vocabulary),
          "sentence %d", (int)b));
    }
  }
  return TSR_OK;
}

tsr_status tsr_forward_encode(tsr_transformer *t, const tsr_forward *forward, tsr_compiled **compiled)
{
  const tsr_program_size *size = &forward->size;
  tsr_program_key key = {
      .kind = TSR_PROGRAM_ENCODE, .size = {.batch = size->batch, .source = size->source}, .taps = forward->taps};
  TSR_TRY(tsr_transformer_compile(t, &key, compiled));
  tsr_compiled *c = *compiled;
  TSR_TRY(tsr_executable_write(c->executable, c->refs.source, forward->source,
                               (int64_t)size->batch * size->source * (int64_t)sizeof *forward->source));
  TSR_TRY(tsr_executable_write(c->executable, c->refs.source_lengths, forward->source_lengths,
                               size->batch * (int64_t)sizeof *forward->source_lengths));
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
  if (c->refs.source_lengths != TSR_NONE) {
    TSR_TRY(tsr_executable_write(c->executable, c->refs.source_lengths, forward->source_lengths,
                                 size->batch * (int64_t)sizeof *forward->source_lengths));
  }
  return tsr_transformer_run(t, c, 1.0);
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
  if (encoder_output && config->encoder_layers == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the model is a decoder alone: it has no encoder's output",
                    transformer->model->folder);
  }
  const tsr_forward forward = {.size = {.batch = n_batch, .source = n_source, .target = n_target},
                               .source = source,
                               .source_lengths = source_lengths,
                               .target = logits ? target : NULL};
  TSR_TRY(tsr_forward_check(transformer, &forward));
  tsr_compiled *c = NULL;
  if (config->encoder_layers > 0) {
    TSR_TRY(tsr_forward_encode(transformer, &forward, &c));
  }
  if (encoder_output) {
    TSR_TRY(tsr_executable_read(c->executable, c->refs.encoder_output, encoder_output,
                                (int64_t)n_batch * n_source * config->d_model * (int64_t)sizeof *encoder_output));
  }
  if (!logits) {
    return TSR_OK;
  }
  TSR_TRY(tsr_forward_decode(transformer, &forward, &c));
  return tsr_executable_read(c->executable, c->refs.logits, logits,
                             (int64_t)n_batch * n_target * config->target_vocabulary * (int64_t)sizeof *logits);
}
