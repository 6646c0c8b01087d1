/* SPDX-License-Identifier: Apache-2.0
 *
 * y[b, l, h] = sum_s w[b, h, l, s] v[b, s, h],  w = softmax_s(mask(cap(alpha * q[b, l, h] . k[b, s, h]))), one pass
 * over the keys (Dao et al. 2022, arXiv:2205.14135): for a run of keys the scores are computed, the largest so far and
 * the sum of the exponentials are brought up to date, and y as far as it is known is scaled down where the largest
 * has risen. Two variants, chosen by the number of queries:
 *   - few (attention_few.c): vectors lie along the head's elements; k and v are read once, for all queries of a
 *     sentence
 *   - tiles (attention_tiles.c): vectors lie along the queries, so that maxima, sums and factors need no horizontal
 *     step
 * What a query gives depends on that query and the keys it sees alone: not on the batch, nor on how far S goes beyond
 * them. The gradient (ops_attention_gradient.c) takes the tiles up once more, and w from the logarithms of its sums.
 */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "dropout.h"
#include "masking.h"

/* Up to how many queries the variant for few is the faster one: as many fill half of a vector. */
enum { CPU_FEW_QUERIES = CPU_LANES / 2 };

/* Keys in a run of the variant for few, the longer one. */
enum { CPU_KEYS = 128 };

/* Queries and keys in a tile, and rows of a block of a small product, whose sums fill the registers. */
enum { CPU_ATTENTION_TILE = 64, CPU_ATTENTION_ROWS = CPU_REGISTERS == 32 ? 8 : CPU_LANES == 8 ? 6 : 4 };

typedef struct cpu_attention {
  const cpu_tensor *q, *k, *v, *y;
  const cpu_tensor *rows, *weights, *lse, *seed; /* NULL: absent */
  cpu_masking masking;
  cpu_dropout dropout; /* with seed */
  float alpha;
  float softcap; /* 0: none */
  int64_t B, L, S, H, K, J;
  int64_t sharing; /* heads of q that share one of k and v */
  int64_t keys;    /* S; 0 if there is no row that a key could be in */
  int64_t n_items; /* few: of a sentence and a head; tiles: of a sentence, a head and a tile */
  int64_t n_tasks;
} cpu_attention;

/* What the gradient takes and gives beside: dy [B, L, H, J], lse [B, H, L]; dscores may be NULL. attention.y is what
 * the attention gave. */
typedef struct cpu_attention_gradient {
  cpu_attention attention;
  const cpu_tensor *dy, *lse, *dq, *dk, *dv, *dscores;
} cpu_attention_gradient;

/* c [rows][columns] = (c * factor + a @ b) * scale, in whole vectors; factor and scale [columns]; without factor c
 * counts as 0. a [rows][depth], b [depth][columns]. */
typedef struct cpu_small_product {
  int64_t rows, depth, vectors;
  const float *a, *b, *factor, *scale;
  float *c;
  int64_t a_row, a_step, b_row, c_row; /* elements from row to row, and from step to step of the depth */
} cpu_small_product;

/* Where a run of keys lies. */
typedef struct cpu_places {
  int64_t k[CPU_KEYS], v[CPU_KEYS]; /* of head 0, in elements; up to a whole vector of keys the last one is repeated */
  int32_t outside[CPU_KEYS];        /* 1: in a row that does not exist: excluded, and placed in one that does */
  int32_t any_outside;
} cpu_places;

#define cpu_attention_places       CPU_WITH_VECTORS(cpu_attention_places)
#define cpu_attention_cap          CPU_WITH_VECTORS(cpu_attention_cap)
#define cpu_attention_bias         CPU_WITH_VECTORS(cpu_attention_bias)
#define cpu_attention_weights      CPU_WITH_VECTORS(cpu_attention_weights)
#define cpu_attention_turn         CPU_WITH_VECTORS(cpu_attention_turn)
#define cpu_attention_columns      CPU_WITH_VECTORS(cpu_attention_columns)
#define cpu_attention_lse          CPU_WITH_VECTORS(cpu_attention_lse)
#define cpu_attention_multiply     CPU_WITH_VECTORS(cpu_attention_multiply)
#define cpu_attention_finite       CPU_WITH_VECTORS(cpu_attention_finite)
#define cpu_attention_factors      CPU_WITH_VECTORS(cpu_attention_factors)
#define cpu_attention_of           CPU_WITH_VECTORS(cpu_attention_of)
#define cpu_attention_result       CPU_WITH_VECTORS(cpu_attention_result)
#define cpu_attention_visible      CPU_WITH_VECTORS(cpu_attention_visible)
#define cpu_attention_drop_out     CPU_WITH_VECTORS(cpu_attention_drop_out)
#define cpu_prepare_attention_plan CPU_WITH_VECTORS(cpu_prepare_attention_plan)
#define cpu_few_task               CPU_WITH_VECTORS(cpu_few_task)
#define cpu_few_scratch            CPU_WITH_VECTORS(cpu_few_scratch)
#define cpu_tiles_task             CPU_WITH_VECTORS(cpu_tiles_task)
#define cpu_tiles_scratch          CPU_WITH_VECTORS(cpu_tiles_scratch)
#define cpu_tiles_count            CPU_WITH_VECTORS(cpu_tiles_count)

/* Prepares the plan of a line of attention or its gradient. 0: out of memory. */
int cpu_prepare_attention_plan(cpu_line *line, cpu_preparation *preparation);

/* What attention and its gradient have in common, of a line so prepared; what they differ in is left out. */
cpu_attention cpu_attention_of(const cpu_line *line);

/* A result; NULL: absent. */
const cpu_tensor *cpu_attention_result(const cpu_line *line, int32_t index);

/* Takes the dropout of this run. */
void cpu_attention_drop_out(cpu_attention *a, const cpu_line *line);

/* Keys that the last query of each sentence sees, all sentences together: the work that there is, not what there is
 * room for. */
int64_t cpu_attention_visible(const cpu_attention *a);

/* Keys first .. first+n-1 of sentence b; n from 1 to CPU_KEYS. */
void cpu_attention_places(const cpu_attention *a, int64_t b, int64_t first, int64_t n, cpu_places *places);

/* scores = softcap tanh(scores / softcap), n of them in whole vectors. Only with softcap. */
void cpu_attention_cap(const cpu_attention *a, float *scores, int64_t n);

/* Biases on the scores of keys first .. first+n-1 of one query. scores has room for whole vectors; room for 2
 * CPU_KEYS floats. */
void cpu_attention_bias(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n,
                        float *scores, float *room);

/* Makes weights of a query's scores, of which `end` were written; the others are of excluded keys. */
void cpu_attention_weights(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t end, float max, float sum);

/* lse of a query. */
void cpu_attention_lse(const cpu_attention *a, int64_t b, int64_t h, int64_t l, float max, float sum);

/* to[c * to_row + r] = from[r * from_row + c * from_step]. */
void cpu_attention_turn(const float *from, int64_t from_row, int64_t from_step, int64_t rows, int64_t columns,
                        float *to, int64_t to_row);

/* The same to [columns][CPU_ATTENTION_TILE], for rows >= 1 up to as many; zeros fill their last vector up. */
void cpu_attention_columns(const float *from, int64_t from_row, int64_t from_step, int64_t rows, int64_t columns,
                           float *to);

void cpu_attention_multiply(const cpu_small_product *product);

/* 1 if neither NaN nor infinity is in x [rows][n]. */
int cpu_attention_finite(const float *x, int64_t row, int64_t rows, int64_t n);

/* Factors of the dropout, 0 or its scale: of `queries` queries from (b, h, l) on, those of head h+1 following those of
 * head h, and keys first .. first+n-1. Rows of as many floats as it returns: S if that is `width` at most, else width,
 * which n does not exceed. factors has room for cpu_attention_factors_room(). */
int64_t cpu_attention_factors(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t queries, int64_t first,
                              int64_t n, int64_t width, float *factors);

/* A vector may reach beyond the last row. */
static inline int64_t cpu_attention_factors_room(const cpu_attention *a, int64_t queries, int64_t width)
{
  return a->seed ? queries * (a->S < width ? a->S : width) + CPU_LANES : 0;
}

/* 1 if factors of so many queries are better made at once, for all their keys: the rows of a tile of keys are short
 * for the vectors of blocks that numbers come in. Beyond 256 KiB they would leave the nearer caches. */
static inline int cpu_attention_at_once(const cpu_attention *a, int64_t queries)
{
  return queries * a->S <= 1 << 16;
}

/* Tasks of the two variants (cpu_task), and the bytes of scratch that they need. */
void cpu_few_task(const void *attention, int64_t task, void *scratch);
uint64_t cpu_few_scratch(const cpu_attention *a);
void cpu_tiles_task(const void *attention, int64_t task, void *scratch);
uint64_t cpu_tiles_scratch(const cpu_attention *a);
int64_t cpu_tiles_count(int64_t L); /* tiles that L queries are cut into */

static inline int cpu_attention_biased(const cpu_attention *a)
{
  return a->masking.additive || a->masking.relative;
}

/* What to subtract from scores before their exponential, given the largest: nothing where all are excluded. */
static inline cpu_f32v cpu_attention_shift(cpu_f32v max)
{
  return cpu_select(max == cpu_splat(-INFINITY), cpu_splat(0.0f), max);
}

/* 1 / sum; 0 where all keys are excluded. */
static inline float cpu_attention_inverse(float sum)
{
  return sum == 0.0f ? 0.0f : 1.0f / sum;
}

/* Elements up to whole vectors. */
static inline int64_t cpu_whole(int64_t n)
{
  return (n + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
}

/* The next `n` floats of scratch, in whole cache lines; `used` counts floats. Without scratch it only counts. */
static inline float *cpu_cut(float *scratch, int64_t *used, int64_t n)
{
  const int64_t at = *used;
  *used += (n + 15) / 16 * 16;
  return scratch ? scratch + at : NULL;
}

#endif
