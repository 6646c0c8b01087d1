/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of products: the innermost loops, and how their operands are laid out for them.
 */
#ifndef CPU_PRODUCT_TILE_H
#define CPU_PRODUCT_TILE_H

#include "product.h"

#define cpu_multiply_block  CPU_WITH_VECTORS(cpu_multiply_block)
#define cpu_gather_block    CPU_WITH_VECTORS(cpu_gather_block)
#define cpu_lay_out_columns CPU_WITH_VECTORS(cpu_lay_out_columns)

/* Some rows of a: the steps of k of a row lie side by side, or the rows of a step do. */
enum { CPU_A_ROWS, CPU_A_COLUMNS };

typedef struct cpu_rows_of_a {
  const float *from; /* the first row's first step */
  int64_t step;      /* elements from row to row; of columns from step to step of k */
  int64_t rows;
  int32_t kind; /* CPU_A_* */
} cpu_rows_of_a;

/* Elements from step to step of k where columns of a are laid out: an odd number of cache lines, so that the steps do
 * not all fall into the same few places of a cache. And room for a block of them. */
enum { CPU_COLUMN_STEP = CPU_BLOCK_ROWS + 16, CPU_BLOCK_OF_A = CPU_BLOCK_DEPTH * CPU_COLUMN_STEP };

/* 1 if rows of a can be taken as they lie; 1 if columns can. */
static inline int32_t cpu_rows_lie_ready(const cpu_tensor *a)
{
  return a->stride[a->rank - 1] == 1 || a->extent[a->rank - 1] <= 1;
}

static inline int32_t cpu_columns_lie_ready(const cpu_tensor *a)
{
  return a->stride[a->rank - 2] == 1 || a->extent[a->rank - 2] <= 1;
}

/* c [rows][c_row] (+)= a @ b [depth][CPU_PANEL], the first `columns` of each row. dtype: of b; f32 unless a is in rows.
 * add: 0: c holds nothing yet. */
void cpu_multiply_block(const cpu_rows_of_a *a, int32_t dtype, const void *b, int64_t depth, float *c, int64_t c_row,
                        int64_t columns, int32_t add);

/* Steps k0 .. k0+depth-1 of the columns of a panel that begins at column n0 of the matrix that begins at element b_at,
 * as f32: to [depth][CPU_PANEL]; columns beyond N are zeros. */
void cpu_gather_block(const cpu_tensor *b, int64_t b_at, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
                      float *to);

/* A block of a, whose first element is a_at: to [depth][CPU_COLUMN_STEP], which is what it returns. */
cpu_rows_of_a cpu_lay_out_columns(const cpu_tensor *a, int64_t a_at, int64_t rows, int64_t depth, float *to);

#endif
