/* SPDX-License-Identifier: Apache-2.0
 *
 * What the case tables share.
 */
#ifndef TESSERA_CONFORMANCE_CASES_H
#define TESSERA_CONFORMANCE_CASES_H

#include "tests/conformance/conformance.h"

#define COUNT_OF(list) ((int32_t)(sizeof(list) / sizeof((list)[0])))

/* 1, primes, and both sides of every size a tile may have. */
static const int32_t check_sizes[] = {1,  2,  3,  4,  5,  7,   8,   9,   13,  15,  16,  17, 31,
                                      32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 263};

/* Below one workgroup, one, several, many; the last no multiple of anything. */
static const int32_t check_row_sizes[] = {1,  2,   3,   5,   8,   16,  17,  31,  32,  33,   63,   64,
                                          65, 127, 128, 129, 255, 256, 257, 511, 513, 1000, 1031, 5001};

static const tsr_dtype check_float_dtypes[] = {TSR_F32, TSR_F16, TSR_BF16};

/* A number below n for choice `index` of table `salt`: mixes parameters that are not swept. */
static inline int32_t check_choose(uint64_t salt, uint64_t index, int32_t n)
{
  return (int32_t)(check_random(salt, index) % (uint64_t)n);
}

/* The seed of a dropout: two numbers of 32 bits, others in each run. */
static inline tsr_ref check_seed(check_build *build, check_view view)
{
  return check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(2), view,
                       CHECK_FILL(.low = INT32_MIN, .high = INT32_MAX));
}

/* Writes "2x3x5" ("scalar" for rank 0) into text (at least 64 bytes) and returns it. */
char *check_shape_text(tsr_shape shape, char *text);

#endif
