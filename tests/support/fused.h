/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of backends share that compute neighbouring lines as one: products and their largest columns, of data
 * of many kinds, and how what the lines give as one compares with what they give one by one.
 */
#ifndef TESSERA_TESTS_FUSED_H
#define TESSERA_TESTS_FUSED_H

#include <stdint.h>

#include "tessera/program.h"
#include "tessera/runtime.h"
#include "tessera/tensor.h"

/* Fails the test unless the status is TSR_OK. */
void check(tsr_status status);

/* n values from -1 to 1, to be freed. */
float *random_floats(int64_t n, uint64_t seed);

int64_t elements_of(const tsr_program *program, tsr_ref x);

/* A program of which a device may compute neighbouring lines as one. */
typedef struct fused_run {
  const tsr_program *program;
  void (*write)(tsr_executable *executable, const void *user); /* all inputs */
  const void *user;
  const tsr_ref *outputs;
  int32_t n_outputs;
  int32_t keep_all; /* as in tsr_compile_options */
} fused_run;

/* Runs it twice, so that what the first run leaves over would show. results: the outputs, f32, each to be freed;
 * *fused: how many lines took no time, because they were computed with the next; -1 where the device has no clock. */
void run_fused(tsr_device *device, const fused_run *run, float **results, int32_t *fused);

typedef enum data {
  PLAIN,       /* values from -1 to 1 */
  OUTLIERS,    /* a few elements of each row of a far larger than the others: bytes stand for the rest badly */
  ALIKE,       /* all columns nearly the same: all of them are candidates */
  TIES,        /* columns repeated, so that the lowest index counts */
  WHOLE,       /* whole numbers: many exact ties */
  STRANGE,     /* rows with NaN, infinities, zeros, tiny and huge elements */
  STRANGE_B,   /* the same in columns */
  SMALL,       /* rows whose elements' squares are too small for f32, no bias */
  SMALL_B,     /* the same in columns, of sizes far apart */
  SUPPRESSED,  /* most of the bias -inf */
  ALL_EXCLUDED /* all of it */
} data;

typedef struct extents {
  int32_t rows, columns, depth, k;
} extents;

/* Makes such data of random values: a [rows, depth], b [columns, depth], bias [columns]. */
void fill(data kind, const extents *s, float *a, float *b, float *bias);

/* The k largest columns of each row. */
typedef struct found {
  float *values;
  int32_t *indices;
} found;

/* Fails the test unless both are the same, with logs: but for the order of a sum. Frees both. */
void check_found(const char *device, const extents *s, data kind, tsr_dtype dtype, int32_t logs, found fused,
                 found one_by_one);

#endif
