/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of any size with random weights, written as folders that tsr_model_open reads: for tests, and to measure
 * speed.
 */
#ifndef TESSERA_TOOLS_RANDOM_MODEL_H
#define TESSERA_TOOLS_RANDOM_MODEL_H

#include "tessera/status.h"

/* What a model is made of. Zero stands for the default in brackets. */
typedef struct random_model {
  int32_t nn;           /* 1: torch nn.Transformer; 0: Marian */
  int32_t norm_first;   /* nn */
  int32_t max_distance; /* nn: of relative positions; 0: sinusoids */
  int32_t relu;         /* Marian: the activation; 0: swish */
  int32_t d_model;      /* 24 */
  int32_t heads;        /* 3 */
  int32_t d_ff;         /* 40 */
  int32_t layers;       /* 2, in each stack */
  int32_t vocabulary;   /* 37 */
  int32_t target;       /* the decoder's vocabulary, with tables of their own; 0: Marian shares one table */
  int32_t positions;    /* 64 */
  uint64_t seed;        /* of the weights */
  const char *extra;    /* further keys of config.json, such as "\"num_beams\":4," */
  const char *prefix;   /* put before every tensor's name, such as "module." */
  const char *unrooted; /* a beginning that is left out of the names, such as "model." */
  const char *drop;     /* a tensor that is left out */
  const char *reshape;  /* a tensor that gets an element too many in its last axis */
  const char *nan;      /* a tensor whose elements are NaN */
} random_model;

/* Writes config.json and model.safetensors into an existing folder; the same for the same seed. Errors: TSR_ERR_IO,
 * TSR_ERR_OUT_OF_MEMORY, TSR_ERR_ARGUMENT (too many layers). */
tsr_status random_model_create(const char *folder, const random_model *model) TSR_MUST_CHECK;

#endif
