/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.h with AVX512-BF16: instructions that add the products of two pairs of bf16 to each lane of a vector.
 */
#include "matrix.h"

#include <immintrin.h>

enum { LINE = 64, WORD = 4, STRIP_LINE = CPU_STRIP * WORD, VECTORS = CPU_STRIP / CPU_LANES };

_Static_assert((int32_t)CPU_LANES == 16, "a vector is a cache line");

void cpu_matrix_configure(int64_t rows)
{
  (void)rows;
}

void cpu_matrix_release(void)
{
}

/* Asks for the word of a strip that lies 4 KiB ahead. */
static inline void fetch_ahead(const char *b)
{
  enum { AHEAD = 4096 };
  for (uintptr_t at = 0; at < (uintptr_t)STRIP_LINE; at += LINE) {
    __builtin_prefetch((const void *)((uintptr_t)b + AHEAD + at));
  }
}

/* Some rows by a strip, whose sums stay in registers. rows and fetched are known to the compiler. */
static inline __attribute__((always_inline)) void tile(int rows, int fetched, const char *a, int64_t a_step,
                                                       const char *b, int64_t words, float *c, int64_t c_row, int add)
{
  __m512 sum[CPU_TILE_ROWS][VECTORS];
  CPU_UNROLL_ALWAYS
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL_ALWAYS
    for (int v = 0; v < VECTORS; v++) {
      sum[i][v] = add ? _mm512_loadu_ps(c + i * c_row + v * CPU_LANES) : _mm512_setzero_ps();
    }
  }
  for (int64_t word = 0; word < words; word++, a += WORD, b += STRIP_LINE) {
    __m512bh column[VECTORS];
    CPU_UNROLL_ALWAYS
    for (int v = 0; v < VECTORS; v++) {
      column[v] = (__m512bh)_mm512_loadu_si512(b + v * LINE);
    }
    if (fetched) {
      fetch_ahead(b);
    }
    CPU_UNROLL_ALWAYS
    for (int i = 0; i < rows; i++) {
      int32_t pair;
      memcpy(&pair, a + i * a_step, sizeof pair);
      CPU_UNROLL_ALWAYS
      for (int v = 0; v < VECTORS; v++) {
        sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)_mm512_set1_epi32(pair), column[v]);
      }
    }
  }
  CPU_UNROLL_ALWAYS
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL_ALWAYS
    for (int v = 0; v < VECTORS; v++) {
      _mm512_storeu_ps(c + i * c_row + v * CPU_LANES, sum[i][v]);
    }
  }
}

typedef void (*tile_fn)(const char *a, int64_t a_step, const char *b, int64_t words, float *c, int64_t c_row, int add);

#define TILE(rows, fetched)                                                                                            \
  static void tile_##rows(const char *a, int64_t a_step, const char *b, int64_t words, float *c, int64_t c_row,        \
                          int add)                                                                                     \
  {                                                                                                                    \
    tile(rows, fetched, a, a_step, b, words, c, c_row, add);                                                           \
  }
TILE(1, 1)
TILE(2, 1)
TILE(3, 0)
TILE(4, 0)
TILE(5, 0)
TILE(6, 0)
static const tile_fn tiles[CPU_TILE_ROWS] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

void cpu_matrix_multiply(const cpu_matrix_block *block)
{
  /* Words of a strip, 16 KiB, that stay in a level-1 cache while all rows pass through it. */
  enum { NEAR_WORDS = 64 };
  const int64_t n_tiles = (block->rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS; /* of about the same height */
  const int64_t step = n_tiles > 1 ? NEAR_WORDS : block->words;
  for (int64_t strip = 0; strip < block->strips; strip++) {
    const char *b = (const char *)block->b + strip * block->words * STRIP_LINE;
    float *c = (float *)block->c + strip * CPU_STRIP;
    for (int64_t word = 0; word < block->words; word += step) {
      const int64_t words = block->words - word < step ? block->words - word : step;
      for (int64_t t = 0; t < n_tiles; t++) {
        const int64_t row = cpu_first(block->rows, n_tiles, t), rows = cpu_first(block->rows, n_tiles, t + 1) - row;
        tiles[rows - 1]((const char *)block->a + row * block->a_step + word * WORD, block->a_step,
                        b + word * STRIP_LINE, words, c + row * block->c_row, block->c_row, block->add || word > 0);
      }
    }
  }
}
