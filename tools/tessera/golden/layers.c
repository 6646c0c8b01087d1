/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of `tessera golden` that compares what lies between the layers: hidden states and attention weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tools/tessera/golden/golden.h"

enum { NAME_ROOM = 96 };

/* One recorded tensor, of [.., query or position, ..], and ours. */
typedef struct comparison {
  const tsr_checkpoint_tensor *recorded;
  const tsr_inspected *found;
  const int32_t *mask; /* [B, positions] */
  double largest;      /* error */
  double magnitude;    /* largest recorded value */
} comparison;

/* Positions whose mask is 0 are left out. NaN is an infinite error. */
static void compare(const float *expected, comparison *c)
{
  const int64_t *extent = c->found->shape.extent;
  int32_t rank = c->found->shape.rank;
  int64_t blocks = rank == 4 ? extent[1] : 1; /* heads */
  int64_t positions = extent[rank - 2], width = extent[rank - 1];
  for (int64_t row = 0; row < extent[0] * blocks * positions; row++) {
    int64_t sentence = row / (blocks * positions);
    if (c->mask[sentence * positions + row % positions] == 0) {
      continue;
    }
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
      double error = fabs((double)c->found->values[i] - (double)expected[i]);
      c->largest = isnan(error) ? INFINITY : fmax(c->largest, error);
      c->magnitude = fmax(c->magnitude, fabs((double)expected[i]));
    }
  }
}

static tsr_status read_and_compare(const tsr_checkpoint *tensors, const char *name, comparison *c)
{
  tsr_checkpoint_tensor_info recorded;
  char shapes[2][64];
  tsr_checkpoint_describe(c->recorded, &recorded);
  if (recorded.dtype != TSR_F32 || !tsr_shape_equal(&recorded.shape, &c->found->shape)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is %s %s; the model gives f32 %s", tsr_checkpoint_path(tensors),
                    name, tsr_dtype_name(recorded.dtype), tsr_shape_print(&recorded.shape, shapes[0], 64),
                    tsr_shape_print(&c->found->shape, shapes[1], 64));
  }
  int64_t elements = tsr_shape_elements(&recorded.shape);
  float *expected = malloc((size_t)elements * sizeof *expected + 1);
  if (!expected) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  tsr_status status = tsr_checkpoint_read(c->recorded, 0, elements, TSR_F32, expected);
  if (status == TSR_OK) {
    compare(expected, c);
  }
  free(expected);
  return status;
}

/* The kinds of tensors: how they are recorded, and what they are called here. */
static const struct {
  const char *recorded;
  const char *name; /* of the tensors of tsr_transformer_inspect */
  int decoder;      /* 1: the positions are the target's */
  int is_attention;
} kinds[] = {
    {"encoder_hidden", "encoder.hidden.%d", 0, 0},
    {"decoder_hidden", "decoder.hidden.%d", 1, 0},
    {"encoder_attn", "encoder.layers.%d.self_attention.weights", 0, 1},
    {"decoder_attn", "decoder.layers.%d.self_attention.weights", 1, 1},
    {"cross_attn", "decoder.layers.%d.cross_attention.weights", 1, 1},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* Takes the error of one tensor into what is told of its sort. */
static void take(const char *name, double error, tsr_golden_values *values)
{
  if (values->n++ == 0 || error > values->error) {
    values->error = error;
    memcpy(values->name, name, strlen(name) + 1);
  }
}

static tsr_status compare_kind(const tsr_golden_batch *batch, const tsr_inspection *inspection, int kind,
                               tsr_golden_layers *layers)
{
  for (int32_t i = 0;; i++) {
    char recorded[TSR_GOLDEN_NAME], name[NAME_ROOM];
    snprintf(recorded, sizeof recorded, "%s.%d", kinds[kind].recorded, (int)i);
    snprintf(name, sizeof name, kinds[kind].name, (int)i);
    comparison c = {.recorded = tsr_checkpoint_find(batch->tensors, recorded),
                    .found = tsr_inspection_find(inspection, name),
                    .mask = kinds[kind].decoder ? batch->target_mask : batch->source_mask};
    if (!c.recorded && (!c.found || i == 0)) {
      return TSR_OK;
    }
    if (!c.recorded || !c.found) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: '%s' is %s; the model has %s '%s'", tsr_checkpoint_path(batch->tensors),
                      recorded, c.recorded ? "recorded" : "not recorded", c.found ? "a tensor" : "no", name);
    }
    tsr_status status = read_and_compare(batch->tensors, recorded, &c);
    if (status != TSR_OK) {
      return status;
    }
    if (kinds[kind].is_attention) {
      take(recorded, c.largest, &layers->attention);
    } else {
      take(recorded, c.largest / (c.magnitude > 0.0 ? c.magnitude : 1.0), &layers->hidden);
    }
  }
}

tsr_status tsr_golden_compare_layers(tsr_transformer *transformer, const tsr_golden_batch *batch, double tolerance,
                                     double attention_tolerance, tsr_golden_layers *layers)
{
  *layers = (tsr_golden_layers){0};
  tsr_inspection inspection = {0};
  const int32_t what = TSR_INSPECT_HIDDEN | TSR_INSPECT_SELF_ATTENTION | TSR_INSPECT_CROSS_ATTENTION;
  tsr_status status = batch->features
                          ? tsr_transformer_inspect_features(transformer, what, batch->n_batch, batch->features,
                                                             batch->n_target, batch->target, &inspection)
                          : tsr_transformer_inspect(transformer, what, batch->n_batch, batch->n_source, batch->source,
                                                    batch->source_lengths, batch->n_target, batch->target, &inspection);
  for (int kind = 0; kind < N_KINDS && status == TSR_OK; kind++) {
    status = compare_kind(batch, &inspection, kind, layers);
  }
  layers->hidden.passed = layers->hidden.error <= tolerance;
  layers->attention.passed = layers->attention.error <= attention_tolerance;
  tsr_inspection_finish(&inspection);
  return status;
}
