/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of any family and size with random weights in f16, written piece by piece: what is written never lies in
 * memory as a whole.
 */
#ifndef TESSERA_TESTS_LARGE_MODEL_H
#define TESSERA_TESTS_LARGE_MODEL_H

#include "tessera/transformer.h"

typedef struct large_model {
  int32_t vocabulary;
  int32_t d_model;
  int32_t d_ff;
  int32_t heads;
  int32_t layers; /* of each stack */
  int32_t positions;
} large_model;

/* Writes config.json, generation_config.json and model.safetensors of an M2M100 (NLLB) model into a folder. */
tsr_status large_model_write(const char *folder, const large_model *model) TSR_MUST_CHECK;

#endif
