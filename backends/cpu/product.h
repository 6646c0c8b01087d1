/* SPDX-License-Identifier: Apache-2.0
 *
 * Products, a panel of columns at a time: what matmul shares with the operators that take a product's columns
 * further.
 *
 * b is cut into panels of CPU_PANEL columns. A panel is stored [K][CPU_PANEL], so that each element of a, spread
 * over a vector, meets whole vectors of b, and the sums of CPU_TILE_ROWS rows stay in registers from the first k to
 * the last: each element is summed in the order of k whatever the shape of the product around it, so that a row of a
 * batch gives the bits that it gives alone. Constant matrices are laid out so once; others as they are met, block by
 * block.
 */
#ifndef CPU_PRODUCT_H
#define CPU_PRODUCT_H

#include "kernel.h"

/* Vectors in a panel, rows in a tile, and steps of k in a block: with them the sums fill the registers, and a block of
 * b, which all tiles of a task's rows meet, stays in the nearest caches: 16 KiB, or 64 KiB with 16 lanes. */
#if CPU_REGISTERS == 32
enum { CPU_PANEL_VECTORS = 4, CPU_TILE_ROWS = 6, CPU_BLOCK_DEPTH = 256 };
#elif CPU_LANES == 8
enum { CPU_PANEL_VECTORS = 2, CPU_TILE_ROWS = 6, CPU_BLOCK_DEPTH = 256 };
#else
enum { CPU_PANEL_VECTORS = 2, CPU_TILE_ROWS = 4, CPU_BLOCK_DEPTH = 256 };
#endif
enum { CPU_PANEL = CPU_PANEL_VECTORS * CPU_LANES, CPU_BLOCK_ROWS = 192 };

/* Columns that lie side by side in a matrix whose steps of k come in groups: with matrix units two tiles, so that a
 * panel has several strips. */
enum { CPU_STRIP = CPU_MATRIX_UNITS ? 32 : CPU_PANEL, CPU_PANEL_STRIPS = CPU_PANEL / CPU_STRIP };

/* The product of one line. */
typedef struct cpu_product {
  const cpu_tensor *a, *b, *bias, *scales;
  int64_t batch, rows, columns, depth; /* matrices, M, N, K */
  int64_t panels;
  int32_t axis; /* of the rows in a */
  int32_t activation;
  float alpha;
  int32_t plain;        /* 1: alpha is 1, no bias, no activation */
  const void *packed;   /* [batch or 1][panels][K][CPU_PANEL] of b's type, or NULL */
  int32_t packed_dtype; /* b's type, or f32: small matrices of narrow numbers that many rows meet are widened once */
  int64_t packed_step;  /* elements from one matrix to the next; 0: all are the same */
  int32_t four_bits;    /* 1: weights of four bits, read as they are stored: product_i4.h */
  int32_t rounds;       /* 1: factors are rounded to bf16, and b is laid out for matrix units: product_bf16.h */
  int64_t matrices;     /* that b has; 1: all of the batch are the same */
  int32_t far;          /* 1: what matrix units make passes by the caches, which have no room for all of it */
  int64_t chunk;        /* rows of a that are rounded before they are multiplied: all of them, or part of a matrix */
} cpu_product;

/* Some rows of some panels of one matrix. */
typedef struct cpu_part {
  int64_t matrix;
  int64_t first, rows;
  int64_t panel, panels;
  int32_t first_time; /* 1: no rows met these panels just before */
  int32_t last_time;  /* 1: no others will meet them next */
} cpu_part;

#define cpu_product_init    CPU_AT_LEVEL(cpu_product_init)
#define cpu_product_shared  CPU_AT_LEVEL(cpu_product_shared)
#define cpu_product_begin   CPU_AT_LEVEL(cpu_product_begin)
#define cpu_product_panels  CPU_AT_LEVEL(cpu_product_panels)
#define cpu_product_scratch CPU_AT_LEVEL(cpu_product_scratch)
#define cpu_product_finish  CPU_AT_LEVEL(cpu_product_finish)

/* Of a matmul's operands and attributes. pack: 1: lay constant weights out now. TSR_OK or TSR_ERR_OUT_OF_MEMORY. */
int32_t cpu_product_init(cpu_product *product, const cpu_line *line, int32_t pack, cpu_preparation *preparation);

/* Bytes of scratch that cpu_product_panels needs, and of memory that all tasks share: a multiple of 64. */
uint64_t cpu_product_scratch(const cpu_product *product);
uint64_t cpu_product_shared(const cpu_product *product);

/* Before the first panel of a run, and of each chunk of rows: what all panels need, to `shared`. first: where the chunk
 * begins. */
void cpu_product_begin(const cpu_product *product, int64_t first, cpu_team *team, void *shared);

/* Rows first .. first+rows-1 of some panels of one matrix, finished (bias, activation), to c [rows][c_row]; of the last
 * panel only the columns that there are. rows is at most CPU_BLOCK_ROWS, except on matrix units. */
void cpu_product_panels(const cpu_product *product, const void *shared, int64_t matrix, int64_t first, int64_t rows,
                        int64_t panel, int64_t panels, float *c, int64_t c_row, void *scratch);

/* The same of one panel. */
static inline void cpu_product_panel(const cpu_product *product, const void *shared, int64_t matrix, int64_t first,
                                     int64_t rows, int64_t panel, float *c, int64_t c_row, void *scratch)
{
  cpu_product_panels(product, shared, matrix, first, rows, panel, 1, c, c_row, scratch);
}

/* 1 if matrix units multiply it, or what emulates them. */
static inline int32_t cpu_product_on_matrix(const cpu_product *product)
{
  return CPU_HAS_MATRIX &&
         (product->rounds || (CPU_MATRIX_UNITS && product->b->dtype == TSR_I8 && !product->four_bits));
}

/* alpha * sums + bias and the activation, for n columns from column `from` on, of row `row`: to c, which may be
 * sums. */
void cpu_product_finish(const cpu_product *product, int64_t matrix, int64_t row, int64_t from, int64_t n,
                        const float *sums, float *c);

/* Columns that panels really have. */
static inline int64_t cpu_panels_columns(const cpu_product *product, int64_t panel, int64_t panels)
{
  const int64_t left = product->columns - panel * CPU_PANEL;
  return left < panels * CPU_PANEL ? left : panels * CPU_PANEL;
}

static inline int64_t cpu_panel_columns(const cpu_product *product, int64_t panel)
{
  return cpu_panels_columns(product, panel, 1);
}

#endif
