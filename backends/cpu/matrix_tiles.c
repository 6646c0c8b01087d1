/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.h with AMX.
 */
#include "matrix.h"

#include <immintrin.h>
#include <stdatomic.h>

/* Tiles 0 to 3 are of c, 4 and 5 of a, 6 and 7 of b; where there are rows for one tile of a only, 5 is of b too. */
enum { TILE = 16, LINE = 64, STRIP_LINE = CPU_STRIP * 4, PALETTE = 1 };

_Static_assert((int32_t)CPU_STRIP == 2 * (int32_t)TILE, "a strip is two tiles wide");

/* The operand of LDTILECFG. */
typedef struct tile_configuration {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_configuration;

_Static_assert(sizeof(tile_configuration) == 64, "as the instruction has it");

void cpu_matrix_configure(int64_t rows)
{
  const uint8_t first = (uint8_t)(rows < TILE ? rows : TILE), second = (uint8_t)(rows - first);
  tile_configuration tiles = {.palette = PALETTE};
  for (int i = 0; i < 8; i++) {
    tiles.row_bytes[i] = LINE;
    tiles.rows[i] = TILE;
  }
  if (second == 0) {
    for (int i = 0; i < 5; i++) {
      tiles.rows[i] = first;
    }
  } else {
    tiles.rows[2] = tiles.rows[3] = tiles.rows[5] = second;
  }
  /* The intrinsic of some compilers does not say that all of it is read. */
  atomic_signal_fence(memory_order_seq_cst);
  _tile_loadconfig(&tiles);
  atomic_signal_fence(memory_order_seq_cst);
}

void cpu_matrix_release(void)
{
  _tile_release();
}

/* kind is known to the compiler. */
#define MULTIPLY(kind, c, a, b)                                                                                        \
  if ((kind) == CPU_MATRIX_I8) {                                                                                       \
    _tile_dpbssd(c, a, b);                                                                                             \
  } else {                                                                                                             \
    _tile_dpbf16ps(c, a, b);                                                                                           \
  }

/* Asks for what lies 4 KiB ahead of the two tiles at b. */
static inline void fetch_ahead(const char *b)
{
  enum { AHEAD = 4096, TILES = 2 * TILE * LINE };
  for (uintptr_t at = 0; at < TILES; at += LINE) {
    __builtin_prefetch((const void *)((uintptr_t)b + AHEAD + at));
  }
}

/* How a tile of b comes: it stays in the nearest cache, it passes it by, or it is not looked for there before. */
enum { KEPT, PASSING, FETCHED };

/* The first multiplication of tile `tile` of c: gives what it held before its place, and takes up what it adds to. */
#define TURN(kind, tile, a, b, offset)                                                                                 \
  if (before) {                                                                                                        \
    _tile_stored(tile, before + (offset), c_step);                                                                     \
  }                                                                                                                    \
  if (add) {                                                                                                           \
    _tile_loadd(tile, c + (offset), c_step);                                                                           \
  } else {                                                                                                             \
    _tile_zero(tile);                                                                                                  \
  }                                                                                                                    \
  MULTIPLY(kind, tile, a, b)

/* Two tiles of rows by a strip. Leaves the sums in the tiles, and stores those of the strip before it, which belong to
 * `before` if it is not NULL: one at a time between multiplications, which would wait for four together. kind and way
 * are known to the compiler. */
static inline __attribute__((always_inline)) void square(int kind, int way, const cpu_matrix_block *block,
                                                         int64_t first_word, int64_t words, const char *b, char *c,
                                                         int add, char *before)
{
  const size_t a_step = (size_t)block->a_step, c_step = (size_t)block->c_row * 4;
  const char *a = (const char *)block->a + first_word * 4, *second_a = a + TILE * a_step;
  b += first_word * STRIP_LINE;
  for (int64_t word = 0; word < words; word += CPU_MATRIX_WORDS) {
    if (way == FETCHED) {
      fetch_ahead(b);
    }
    if (way == PASSING) {
      _tile_stream_loadd(6, b, STRIP_LINE);
      _tile_loadd(4, a, a_step);
      _tile_stream_loadd(7, b + LINE, STRIP_LINE);
    } else {
      _tile_loadd(6, b, STRIP_LINE);
      _tile_loadd(4, a, a_step);
      _tile_loadd(7, b + LINE, STRIP_LINE);
    }
    _tile_loadd(5, second_a, a_step);
    if (word == 0) {
      TURN(kind, 0, 4, 6, 0)
      TURN(kind, 1, 4, 7, LINE)
      TURN(kind, 2, 5, 6, TILE * c_step)
      TURN(kind, 3, 5, 7, TILE * c_step + LINE)
    } else {
      MULTIPLY(kind, 0, 4, 6)
      MULTIPLY(kind, 1, 4, 7)
      MULTIPLY(kind, 2, 5, 6)
      MULTIPLY(kind, 3, 5, 7)
    }
    a += LINE;
    second_a += LINE;
    b += CPU_MATRIX_WORDS * STRIP_LINE;
  }
}

static inline __attribute__((always_inline)) void store_square(char *c, size_t c_step)
{
  _tile_stored(0, c, c_step);
  _tile_stored(1, c + LINE, c_step);
  _tile_stored(2, c + TILE * c_step, c_step);
  _tile_stored(3, c + TILE * c_step + LINE, c_step);
}

/* One tile of rows by a strip, or two. kind and two are known to the compiler. */
static inline __attribute__((always_inline)) void line_of_tiles(int kind, int two, const cpu_matrix_block *block,
                                                                const char *b, char *c)
{
  const size_t a_step = (size_t)block->a_step, c_step = (size_t)block->c_row * 4;
  const char *a = block->a, *second_b = b + block->words * STRIP_LINE;
  if (block->add) {
    _tile_loadd(0, c, c_step);
    _tile_loadd(1, c + LINE, c_step);
    if (two) {
      _tile_loadd(2, c + 2 * LINE, c_step);
      _tile_loadd(3, c + 3 * LINE, c_step);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t word = 0; word < block->words; word += CPU_MATRIX_WORDS) {
    fetch_ahead(b);
    _tile_loadd(4, a, a_step);
    _tile_loadd(5, b, STRIP_LINE);
    MULTIPLY(kind, 0, 4, 5)
    _tile_loadd(6, b + LINE, STRIP_LINE);
    MULTIPLY(kind, 1, 4, 6)
    if (two) {
      fetch_ahead(second_b);
      _tile_loadd(7, second_b, STRIP_LINE);
      MULTIPLY(kind, 2, 4, 7)
      _tile_loadd(5, second_b + LINE, STRIP_LINE);
      MULTIPLY(kind, 3, 4, 5)
    }
    a += LINE;
    b += CPU_MATRIX_WORDS * STRIP_LINE;
    second_b += CPU_MATRIX_WORDS * STRIP_LINE;
  }
  _tile_stored(0, c, c_step);
  _tile_stored(1, c + LINE, c_step);
  if (two) {
    _tile_stored(2, c + 2 * LINE, c_step);
    _tile_stored(3, c + 3 * LINE, c_step);
  }
}

static inline __attribute__((always_inline)) void multiply(int kind, const cpu_matrix_block *block)
{
  /* Words of 32 rows, 16 KiB, that stay in a level-1 cache while all strips pass through it. */
  enum { NEAR_WORDS = 128 };
  const int64_t strip_size = block->words * STRIP_LINE;
  const char *b = block->b;
  char *c = block->c;
  if (block->rows <= TILE) {
    int64_t strip = 0;
    for (; strip + 2 <= block->strips; strip += 2) {
      line_of_tiles(kind, 1, block, b + strip * strip_size, c + strip * STRIP_LINE);
    }
    if (strip < block->strips) {
      line_of_tiles(kind, 0, block, b + strip * strip_size, c + strip * STRIP_LINE);
    }
    return;
  }
  const int32_t once = block->first_time && block->last_time;
  const int64_t step = block->strips > 2 && !once ? NEAR_WORDS : block->words;
  char *before = NULL;
  for (int64_t word = 0; word < block->words; word += step) {
    const int64_t words = block->words - word < step ? block->words - word : step;
    for (int64_t strip = 0; strip < block->strips; strip++) {
      const char *from = b + strip * strip_size;
      char *to = c + strip * STRIP_LINE;
      if (block->first_time) {
        square(kind, FETCHED, block, word, words, from, to, block->add || word > 0, before);
      } else if (block->strips > 2) {
        square(kind, PASSING, block, word, words, from, to, block->add || word > 0, before);
      } else {
        square(kind, KEPT, block, word, words, from, to, block->add || word > 0, before);
      }
      before = to;
    }
  }
  store_square(before, (size_t)block->c_row * 4);
}

void cpu_matrix_multiply(const cpu_matrix_block *block)
{
  atomic_signal_fence(memory_order_seq_cst); /* what was written is there when tiles read it */
  if (block->kind == CPU_MATRIX_I8) {
    multiply(CPU_MATRIX_I8, block);
  } else {
    multiply(CPU_MATRIX_BF16, block);
  }
  atomic_signal_fence(memory_order_seq_cst);
}
