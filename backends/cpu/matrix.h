/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on a CPU's matrix units: tiles of 16 rows by 64 bytes, which an instruction multiplies; or by instructions
 * that multiply pairs of bf16 in vectors.
 *
 * Both factors come in words of four bytes: two steps of k of bf16, or four of i8. A row of a lies as it is. b lies in
 * strips of CPU_STRIP columns, [words][CPU_STRIP], so that 16 words of 16 columns are a tile whose rows are a cache
 * line each. Words come in whole tiles; what is beyond K is zero.
 *
 * i8: exact sums, of tiles alone. bf16 on tiles: in each 16 words of the depth, the first numbers of the words are
 * summed in their order, the second ones too, both from zero with one rounding a step; then c + (first + second). In
 * vectors: of each word the products of the second numbers are added to c, then those of the first, with one rounding
 * each. To nearest, ties to even; subnormal numbers count as zero, and results that would be are. That is how TDPBF16PS
 * and VDPBF16PS are defined, and what the emulations compute: the same bits. None depends on how many rows or columns
 * are taken at once.
 */
#ifndef CPU_MATRIX_H
#define CPU_MATRIX_H

#include "product.h"

#define cpu_matrix_configure CPU_AT_LEVEL(cpu_matrix_configure)
#define cpu_matrix_multiply  CPU_AT_LEVEL(cpu_matrix_multiply)
#define cpu_matrix_release   CPU_AT_LEVEL(cpu_matrix_release)

enum { CPU_MATRIX_BF16, CPU_MATRIX_I8 };

/* Rows that are multiplied together, and words of a tile along the depth. CPU_MATRIX_PANELS: that a task takes
 * together, so that rows of a, which wait in the nearest cache, meet many columns. */
enum {
  CPU_MATRIX_ROWS = CPU_MATRIX_UNITS ? 32 : 5 * CPU_TILE_ROWS,
  CPU_MATRIX_WORDS = 16,
  CPU_MATRIX_PANELS = 256 / CPU_PANEL
};

/* From row to row of the sums of such a block, in elements; and elements that the sums of one take. */
enum { CPU_MATRIX_SUMS_ROW = 256 + 16, CPU_MATRIX_SUMS = CPU_MATRIX_ROWS * CPU_MATRIX_SUMS_ROW };

/* From row to row of a, in words: an odd number of cache lines, so that rows do not fall into the same few places of a
 * cache. */
static inline int64_t cpu_matrix_row_words(int64_t words)
{
  return words / CPU_MATRIX_WORDS % 2 ? words : words + CPU_MATRIX_WORDS;
}

/* `words` in whole tiles. */
static inline int64_t cpu_matrix_words(int64_t words)
{
  return (words + CPU_MATRIX_WORDS - 1) / CPU_MATRIX_WORDS * CPU_MATRIX_WORDS;
}

typedef struct cpu_matrix_block {
  int32_t kind;       /* CPU_MATRIX_* */
  int32_t first_time; /* 1: b comes from far away: no rows met it just before */
  int32_t last_time;  /* 1: no others will meet it next */
  int32_t add;        /* 0: c holds nothing yet */
  int64_t rows;       /* up to CPU_MATRIX_ROWS */
  const void *a;
  int64_t a_step; /* bytes from row to row */
  const void *b;  /* [strips][words][CPU_STRIP] */
  int64_t words, strips;
  void *c;       /* f32, or i32: [rows][c_row] */
  int64_t c_row; /* elements */
} cpu_matrix_block;

/* Around multiplications of so many rows, on the thread that makes them. */
void cpu_matrix_configure(int64_t rows);
void cpu_matrix_multiply(const cpu_matrix_block *block);
void cpu_matrix_release(void);

#endif
