/* SPDX-License-Identifier: Apache-2.0
 *
 * What the case tables share.
 */
#ifndef TESSERA_CONFORMANCE_CASES_H
#define TESSERA_CONFORMANCE_CASES_H

#include "tools/conformance/conformance.h"

#define COUNT_OF(list) ((int32_t)(sizeof(list) / sizeof((list)[0])))

/* 1, primes, and both sides of every size a tile may have. */
static const int32_t check_sizes[] = {1,  2,  3,  4,  5,  7,   8,   9,   13,  15,  16,  17, 31,
                                      32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 263};

/* Below one workgroup, one, several, many; the last no multiple of anything. */
static const int32_t check_row_sizes[] = {1,  2,   3,   5,   8,   16,  17,  31,  32,  33,   63,   64,
                                          65, 127, 128, 129, 255, 256, 257, 511, 513, 1000, 1031, 5001};

static const tsr_dtype check_float_dtypes[] = {TSR_F32, TSR_F16, TSR_BF16};

/* More than 2^20, and no multiple of anything: elements of a large case. */
enum { CHECK_MANY = (1 << 20) + 3 };

/* The same in two axes. */
static const int64_t check_many[] = {1031, 1033};

/* Rows and columns of real models: of attention's scores, of activations, of two vocabularies. */
static const int64_t check_large_rows[][2] = {{36, 300}, {36, 2000}, {2049, 512}, {9, 32003}, {4, 250112}};

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

/* ------------------------------------------------------------------------------------------------------------------
 * Drawn cases (draw.c): parameters that nobody wrote down. Beside the functions that add a family's cases stands one
 * that draws a case and adds it: whatever it draws must be legal. Each number is drawn by a statement of its own, since
 * the order in which the initialisers of a struct are evaluated is the compiler's.
 */

/* Random numbers, one after another. */
typedef struct check_draw {
  uint64_t key, next;
} check_draw;

/* 0 .. n - 1 */
int32_t check_draw_below(check_draw *draw, int32_t n);

/* 1 of `n` times. */
int check_draw_once_in(check_draw *draw, int32_t n);

/* 1 .. high, as many between 1 and 2 as between 2 and 4 and so on; 2^i and its neighbours more often. */
int32_t check_draw_size(check_draw *draw, int32_t high);

/* Mostly dense; not CHECK_FAR, which takes long. */
int32_t check_draw_view(check_draw *draw);

/* Mostly normal or whole numbers, sometimes one of the list. */
int32_t check_draw_data(check_draw *draw, const int32_t *list, int32_t n);

/* Of `low` to `high` axes, the last of at most `last`, and at most `elements` elements. Rarely an axis is empty. */
tsr_shape check_draw_shape(check_draw *draw, int32_t low, int32_t high, int32_t last, int64_t elements);

/* 1 if a case is to be as large as real models: then its shape is of check_draw_large. */
int check_draw_is_large(check_draw *draw);

/* Of `low` (at least 1) to `high` axes, the last of at most `last`, and 2^20 to 3 * 2^20 elements. */
tsr_shape check_draw_large(check_draw *draw, int32_t low, int32_t high, int32_t last);

#define CHECK_DRAW(draw, list) ((list)[check_draw_below((draw), COUNT_OF(list))])

/* Each draws one case and adds it. `what`: the operator, or what the function says. */
void check_random_matmul(check_table *table, check_draw *draw, int32_t what);
void check_random_conv1d(check_table *table, check_draw *draw, int32_t what);
void check_random_mask(check_table *table, check_draw *draw, int32_t what);
void check_random_attention(check_table *table, check_draw *draw, int32_t what);
void check_random_attention_gradient(check_table *table, check_draw *draw, int32_t what);
void check_random_program(check_table *table, check_draw *draw, int32_t what);
void check_random_rows(check_table *table, check_draw *draw, int32_t what);
void check_random_index(check_table *table, check_draw *draw, int32_t what);
void check_random_state(check_table *table, check_draw *draw, int32_t what);
void check_random_concat(check_table *table, check_draw *draw, int32_t what);
void check_random_scatter(check_table *table, check_draw *draw, int32_t what);
void check_random_elementwise(check_table *table, check_draw *draw, int32_t what);
void check_random_rotate(check_table *table, check_draw *draw, int32_t what);
void check_random_gradient(check_table *table, check_draw *draw, int32_t what);
void check_random_relative(check_table *table, check_draw *draw, int32_t what);
void check_random_dropout(check_table *table, check_draw *draw, int32_t what);
void check_random_loss(check_table *table, check_draw *draw, int32_t what);
void check_random_squares(check_table *table, check_draw *draw, int32_t what);
void check_random_adam(check_table *table, check_draw *draw, int32_t what);

/* What check_random_matmul, _attention and _program take. */
enum { CHECK_MATMUL_FLOAT, CHECK_MATMUL_I8, CHECK_MATMUL_I4, CHECK_MATMUL_REDUCED };
enum { CHECK_ATTENTION_F32, CHECK_ATTENTION_HALVES };
enum {
  CHECK_PROGRAM_NORMS,
  CHECK_PROGRAM_RESIDUALS,
  CHECK_PROGRAM_LARGEST,
  CHECK_PROGRAM_UNFUSED,
  CHECK_PROGRAM_CACHE,
  CHECK_PROGRAM_DECODE,
  CHECK_PROGRAM_RANKS,
  CHECK_PROGRAM_SUMS,
  CHECK_PROGRAM_TURNS,
  CHECK_PROGRAM_LAYER
};

/* Writes "2x3x5" ("scalar" for rank 0) into text (at least 64 bytes) and returns it. */
char *check_shape_text(tsr_shape shape, char *text);

#endif
