/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forward pass makes beside its results: outputs of the same programs.
 */
#include "tessera/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transformer/transformer.h"

enum {
  ALL = TSR_INSPECT_HIDDEN | TSR_INSPECT_SELF_ATTENTION | TSR_INSPECT_CROSS_ATTENTION | TSR_INSPECT_LAYERS |
        TSR_INSPECT_NORMS | TSR_INSPECT_SUMS | TSR_INSPECT_INPUTS | TSR_INSPECT_CONVOLUTIONS
};

static tsr_status add(tsr_inspection *inspection, const char *name, tsr_shape shape, float **values)
{
  size_t elements = (size_t)tsr_shape_elements(&shape);
  size_t n = (size_t)inspection->n + 1;
  tsr_inspected *tensors = realloc(inspection->tensors, n * sizeof *tensors);
  if (!tensors) {
    return tsr_fail_memory(n * sizeof *tensors);
  }
  inspection->tensors = tensors;
  char *copy = strdup(name);
  *values = malloc(elements * sizeof **values + 1);
  tensors[inspection->n++] = (tsr_inspected){.name = copy, .shape = shape, .values = *values};
  return copy && *values ? TSR_OK : tsr_fail_memory(elements * sizeof **values);
}

/* Rows of a stream, or of the queries of attention, beyond each sentence's length become 0. */
static void clear_padding(tsr_shape shape, const int32_t *lengths, float *values)
{
  int32_t queries = shape.rank - 2;
  int64_t blocks = queries == 1 ? 1 : shape.extent[1]; /* heads */
  int64_t rows = shape.extent[queries], width = shape.extent[shape.rank - 1];
  for (int64_t b = 0; b < shape.extent[0]; b++) {
    int64_t used = lengths[b];
    for (int64_t h = 0; h < blocks; h++) {
      memset(values + ((b * blocks + h) * rows + used) * width, 0, (size_t)((rows - used) * width) * sizeof *values);
    }
  }
}

/* Reads every tap of a program that has run. lengths: of the rows that count; NULL: all do. */
static tsr_status collect(const tsr_compiled *c, int32_t n_batch, const int32_t *lengths, tsr_inspection *inspection)
{
  const tsr_program *program = c->program;
  int32_t n_tensors = tsr_program_describe(program)->n_tensors;
  for (tsr_ref ref = 1; ref < n_tensors; ref++) {
    const char *name = tsr_ref_name(program, ref);
    if (tsr_ref_kind(program, ref) != TSR_STORAGE_OUTPUT || tsr_program_find(program, name) != ref ||
        ref == c->refs.encoder_output || ref == c->refs.logits) {
      continue;
    }
    tsr_shape shape = tsr_ref_shape(program, ref);
    if (shape.rank == 2) {
      shape = TSR_SHAPE(n_batch, shape.extent[0] / n_batch, shape.extent[1]);
    }
    float *values = NULL;
    TSR_TRY(add(inspection, name, shape, &values));
    TSR_TRY(tsr_executable_read(c->executable, ref, values, tsr_shape_elements(&shape) * (int64_t)sizeof *values));
    if (lengths) {
      clear_padding(shape, lengths, values);
    }
  }
  return TSR_OK;
}

static tsr_status inspect(tsr_transformer *t, const tsr_forward *forward, tsr_inspection *inspection)
{
  const int32_t n_batch = forward->size.batch;
  if (forward->taps <= 0 || (forward->taps & ~ALL) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_inspect: what is %d, no sum of TSR_INSPECT_*",
                    (int)forward->taps);
  }
  TSR_TRY(tsr_forward_check(t, forward));
  tsr_compiled *c = NULL;
  tsr_status status = TSR_OK;
  if (t->model->config.encoder_layers > 0) {
    status = tsr_forward_encode(t, forward, &c);
    if (status == TSR_OK) {
      status = collect(c, n_batch, forward->source_lengths, inspection);
    }
  }
  if (status == TSR_OK && forward->target) {
    status = tsr_forward_decode(t, forward, &c);
    if (status == TSR_OK) {
      status = collect(c, n_batch, NULL, inspection);
    }
  }
  if (status != TSR_OK) {
    tsr_inspection_finish(inspection);
  }
  return status;
}

tsr_status tsr_transformer_inspect(tsr_transformer *transformer, int32_t what, int32_t n_batch, int32_t n_source,
                                   const int32_t *source, const int32_t *source_lengths, int32_t n_target,
                                   const int32_t *target, tsr_inspection *inspection)
{
  if (!transformer || !inspection) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_inspect: transformer and inspection must not be NULL");
  }
  *inspection = (tsr_inspection){0};
  TSR_TRY(
      tsr_model_check_reads_text(transformer->model, "tsr_transformer_inspect", "tsr_transformer_inspect_features"));
  const int encodes = transformer->model->config.encoder_layers > 0;
  const tsr_forward forward = {.size = {.batch = n_batch, .source = n_source, .target = n_target},
                               .taps = what,
                               .source = source,
                               .source_lengths = encodes ? source_lengths : NULL,
                               .target = target};
  return inspect(transformer, &forward, inspection);
}

tsr_status tsr_transformer_inspect_features(tsr_transformer *transformer, int32_t what, int32_t n_batch,
                                            const float *features, int32_t n_target, const int32_t *target,
                                            tsr_inspection *inspection)
{
  if (!transformer || !features || !inspection) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_transformer_inspect_features: transformer, features and inspection must not be NULL");
  }
  *inspection = (tsr_inspection){0};
  TSR_TRY(tsr_model_check_reads_sound(transformer->model, "tsr_transformer_inspect_features"));
  const int32_t source = transformer->model->config.source_positions;
  const tsr_forward forward = {.size = {.batch = n_batch, .source = source, .target = n_target},
                               .taps = what,
                               .features = features,
                               .target = target};
  return inspect(transformer, &forward, inspection);
}

void tsr_inspection_finish(tsr_inspection *inspection)
{
  if (!inspection) {
    return;
  }
  for (int32_t i = 0; i < inspection->n; i++) {
    free((char *)inspection->tensors[i].name);
    free((float *)inspection->tensors[i].values);
  }
  free(inspection->tensors);
  *inspection = (tsr_inspection){0};
}

const tsr_inspected *tsr_inspection_find(const tsr_inspection *inspection, const char *name)
{
  for (int32_t i = 0; inspection && i < inspection->n; i++) {
    if (strcmp(inspection->tensors[i].name, name) == 0) {
      return &inspection->tensors[i];
    }
  }
  return NULL;
}
