/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorded results of one folder.
 */
#ifndef TESSERA_TOOLS_GOLDEN_FIXTURE_H
#define TESSERA_TOOLS_GOLDEN_FIXTURE_H

#include <stdint.h>

#include <jansson.h>

#include "tessera/checkpoint.h"

/* A tensor of the recorded file: [n_batch, n_length] ids or masks, or [n_batch, n_length, width] values. */
typedef struct golden_recorded {
  int32_t n_batch;
  int32_t n_length;
  int32_t width;
  int32_t *ids;
  float *values;
} golden_recorded;

/* A batch, and what the original made of it by teacher forcing. */
typedef struct golden_forced {
  golden_recorded source, source_mask, target, target_mask, encoder_output, logits;
  int32_t *lengths; /* [B] */
} golden_forced;

typedef struct golden_fixture {
  tsr_checkpoint *tensors;
  json_t *golden;
  golden_forced batch;
  golden_forced further; /* without ids: not recorded */
} golden_fixture;

/* Reads a tensor: rank 2, i32, into ids; rank 3, f32, into values. Both are allocated. */
tsr_status golden_recorded_read(const tsr_checkpoint *tensors, const char *name, int32_t rank,
                                golden_recorded *out) TSR_MUST_CHECK;

/* 1 if both have the same n_batch and n_length. */
int golden_same_extents(const golden_recorded *a, const golden_recorded *b);

/* Reads golden.json and golden.safetensors of a folder. Finish the fixture after a failure, too. */
tsr_status golden_fixture_read(const char *folder, golden_fixture *f) TSR_MUST_CHECK;
void golden_fixture_finish(golden_fixture *f);

#endif
