/* SPDX-License-Identifier: Apache-2.0 */
#include "product_tile.h"

/* ---- layouts --------------------------------------------------------------------------------------------------- */

CPU_PLAIN static inline cpu_f32v load_b(int32_t dtype, const void *b, int64_t at)
{
  switch (dtype) {
  case TSR_F16:
    return cpu_load_f16((const uint16_t *)b + at);
  case TSR_BF16:
    return cpu_load_bf16((const uint16_t *)b + at);
  default:
    return cpu_load((const float *)b + at);
  }
}

/* One column: `depth` steps side by side or not. */
static void gather_column(const cpu_tensor *b, int64_t at, int64_t k_step, int64_t depth, float *to)
{
  for (int64_t k = 0; k < depth; k += CPU_LANES) {
    float some[CPU_LANES];
    const int64_t steps = depth - k < CPU_LANES ? depth - k : CPU_LANES;
    cpu_widen_row(b->dtype, (const char *)b->data + (at + k * k_step) * cpu_element_size(b->dtype), k_step, steps,
                  some);
    for (int64_t i = 0; i < steps; i++) {
      to[(k + i) * CPU_PANEL] = some[i];
    }
  }
}

/* CPU_LANES columns whose steps lie side by side, as many steps at a time. dtype is known to the compiler. */
static inline __attribute__((always_inline)) void gather_squares(int32_t dtype, const void *from, int64_t n_step,
                                                                 int64_t depth, float *to)
{
  for (int64_t k = 0; k + CPU_LANES <= depth; k += CPU_LANES) {
    cpu_f32v square[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++) {
      square[i] = load_b(dtype, from, i * n_step + k);
    }
    cpu_transpose(square);
    for (int i = 0; i < CPU_LANES; i++) {
      cpu_store(to + (k + i) * CPU_PANEL, square[i]);
    }
  }
}

static void gather_columns(const cpu_tensor *b, int64_t at, int64_t k_step, int64_t n_step, int64_t depth,
                           int64_t columns, float *to)
{
  int64_t n = 0;
  for (; k_step == 1 && n + CPU_LANES <= columns; n += CPU_LANES) {
    const int64_t squared = depth / CPU_LANES * CPU_LANES, first = at + n * n_step;
    const void *from = (const char *)b->data + first * cpu_element_size(b->dtype);
    if (b->dtype == TSR_F32) {
      gather_squares(TSR_F32, from, n_step, depth, to + n);
    } else if (b->dtype == TSR_F16) {
      gather_squares(TSR_F16, from, n_step, depth, to + n);
    } else {
      gather_squares(TSR_BF16, from, n_step, depth, to + n);
    }
    for (int64_t i = 0; i < CPU_LANES && squared < depth; i++) {
      gather_column(b, first + i * n_step + squared, 1, depth - squared, to + squared * CPU_PANEL + n + i);
    }
  }
  for (; n < columns; n++) {
    gather_column(b, at + n * n_step, k_step, depth, to + n);
  }
}

void cpu_gather_block(const cpu_tensor *b, int64_t b_at, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
                      float *to)
{
  const int32_t axis = b->rank - 2;
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1], at = b_at + k0 * k_step + n0 * n_step;
  if (columns < CPU_PANEL) {
    memset(to, 0, (size_t)(depth * CPU_PANEL) * sizeof *to);
  }
  if (n_step != 1 && depth > 1) {
    gather_columns(b, at, k_step, n_step, depth, columns, to);
    return;
  }
  for (int64_t k = 0; k < depth; k++, to += CPU_PANEL) {
    if (b->dtype == TSR_F32 && n_step == 1 && columns == CPU_PANEL) {
      const float *from = (const float *)b->data + at + k * k_step;
      CPU_UNROLL
      for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
        cpu_store(to + v * CPU_LANES, cpu_load(from + v * CPU_LANES));
      }
    } else {
      cpu_widen_row(b->dtype, (const char *)b->data + (at + k * k_step) * cpu_element_size(b->dtype), n_step, columns,
                    to);
    }
  }
}

cpu_rows_of_a cpu_lay_out_columns(const cpu_tensor *a, int64_t a_at, int64_t rows, int64_t depth, float *to)
{
  const int64_t m_step = a->stride[a->rank - 2], k_step = a->stride[a->rank - 1];
  const float *from = (const float *)a->data + a_at;
  for (int64_t k = 0; k < depth; k++) {
    float *row = to + k * CPU_COLUMN_STEP;
    int64_t i = 0;
    for (; m_step == 1 && i + CPU_LANES <= rows; i += CPU_LANES) {
      cpu_store(row + i, cpu_load(from + k * k_step + i));
    }
    for (; i < rows; i++) {
      row[i] = from[k * k_step + i * m_step];
    }
  }
  return (cpu_rows_of_a){.from = to, .step = CPU_COLUMN_STEP, .rows = rows, .kind = CPU_A_COLUMNS};
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

/* Asks for the step of k that lies 4 KiB ahead. Where few rows meet narrow weights, widening them leaves the processor
 * too little room to look ahead by itself: without this, two thirds of the memory's speed. */
static inline void fetch_ahead(const uint16_t *step)
{
  enum { AHEAD = 4096, LINE = 64 };
  for (uintptr_t at = 0; at < CPU_PANEL * sizeof *step; at += LINE) {
    __builtin_prefetch((const void *)((uintptr_t)step + AHEAD + at));
  }
}

/* A vector of a row of c, of which `left` elements are there, if not all of it is. */
static inline cpu_f32v load_some(const float *c, int whole, int64_t left)
{
  return whole || left >= CPU_LANES ? cpu_load(c) : left > 0 ? cpu_load_part(c, left, 0.0f) : cpu_splat(0.0f);
}

static inline void store_some(float *c, int whole, int64_t left, cpu_f32v sum)
{
  if (whole || left >= CPU_LANES) {
    cpu_store(c, sum);
  } else if (left > 0) {
    cpu_store_part(c, sum, left);
  }
}

typedef cpu_f32v tile_sums[CPU_TILE_ROWS][CPU_PANEL_VECTORS];

/* sum += a @ b; the arguments are those of tile. */
CPU_PLAIN static inline __attribute__((always_inline)) void add_steps(int rows, int vectors, int32_t dtype,
                                                                      int columns_of_a, const float *a, int64_t a_step,
                                                                      const void *b, int64_t depth, tile_sums sum)
{
  for (int64_t k = 0; k < depth; k++) {
    cpu_f32v column[CPU_PANEL_VECTORS];
    CPU_UNROLL_ALWAYS
    for (int v = 0; v < vectors; v++) {
      column[v] = load_b(dtype, b, k * CPU_PANEL + v * CPU_LANES);
    }
    if (dtype != TSR_F32 && rows <= 2) {
      fetch_ahead((const uint16_t *)b + k * CPU_PANEL);
    }
    CPU_UNROLL_ALWAYS
    for (int i = 0; i < rows; i++) {
      const cpu_f32v x = cpu_splat(columns_of_a ? a[k * a_step + i] : a[i * a_step + k]);
      CPU_UNROLL_ALWAYS
      for (int v = 0; v < vectors; v++) {
        sum[i][v] = cpu_fma(x, column[v], sum[i][v]);
      }
    }
  }
}

CPU_PLAIN static inline __attribute__((always_inline)) void copy_sums(int rows, int vectors, tile_sums from,
                                                                      tile_sums to)
{
  CPU_UNROLL_ALWAYS
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL_ALWAYS
    for (int v = 0; v < vectors; v++) {
      to[i][v] = from[i][v];
    }
  }
}

/* One tile: c [rows][columns] (+)= a @ b [depth][CPU_PANEL]. Known to the compiler: rows; vectors, of a row of c, whole
 * or not; dtype; columns_of_a: a_step is from step to step of k, else from row to row. */
CPU_PLAIN static inline __attribute__((always_inline)) void tile(int rows, int vectors, int32_t dtype, int columns_of_a,
                                                                 const float *a, int64_t a_step, const void *b,
                                                                 int64_t depth, float *c, int64_t c_row,
                                                                 int64_t columns, int32_t first)
{
  tile_sums sum;
  const int whole = columns == vectors * CPU_LANES;
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      sum[i][v] = first ? cpu_splat(0.0f) : load_some(c + i * c_row + v * CPU_LANES, whole, columns - v * CPU_LANES);
    }
  }
  if (first) { /* asked for now, c is there when the sums are */
    CPU_UNROLL
    for (int i = 0; i < rows; i++) {
      CPU_UNROLL
      for (int v = 0; v < vectors; v++) {
        __builtin_prefetch(c + i * c_row + v * CPU_LANES, 1);
      }
    }
  }
  if (CPU_HOLDS) {
    tile_sums held;
    copy_sums(rows, vectors, sum, held);
    add_steps(rows, vectors, dtype, columns_of_a, a, a_step, b, depth, held);
    copy_sums(rows, vectors, held, sum);
  } else {
    add_steps(rows, vectors, dtype, columns_of_a, a, a_step, b, depth, sum);
  }
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      store_some(c + i * c_row + v * CPU_LANES, whole, columns - v * CPU_LANES, sum[i][v]);
    }
  }
}

typedef void (*tile_fn)(const float *a, int64_t a_step, const void *b, int64_t depth, float *c, int64_t c_row,
                        int64_t columns, int32_t first);

#define TILE(rows, name, vectors, dtype, columns_of_a)                                                                 \
  static void tile_##name##_##rows(const float *a, int64_t a_step, const void *b, int64_t depth, float *c,             \
                                   int64_t c_row, int64_t columns, int32_t first)                                      \
  {                                                                                                                    \
    tile(rows, vectors, dtype, columns_of_a, a, a_step, b, depth, c, c_row, columns, first);                           \
  }
#if CPU_LANES > 4 || CPU_REGISTERS == 32
#define TILES(name, vectors, dtype, columns_of_a)                                                                      \
  TILE(1, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(2, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(3, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(4, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(5, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(6, name, vectors, dtype, columns_of_a)                                                                          \
  static const tile_fn tiles_##name[CPU_TILE_ROWS] = {tile_##name##_1, tile_##name##_2, tile_##name##_3,               \
                                                      tile_##name##_4, tile_##name##_5, tile_##name##_6};
#else
#define TILES(name, vectors, dtype, columns_of_a)                                                                      \
  TILE(1, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(2, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(3, name, vectors, dtype, columns_of_a)                                                                          \
  TILE(4, name, vectors, dtype, columns_of_a)                                                                          \
  static const tile_fn tiles_##name[CPU_TILE_ROWS] = {tile_##name##_1, tile_##name##_2, tile_##name##_3,               \
                                                      tile_##name##_4};
#endif

enum { HALF = CPU_PANEL_VECTORS / 2 };

TILES(f16, CPU_PANEL_VECTORS, TSR_F16, 0)
TILES(bf16, CPU_PANEL_VECTORS, TSR_BF16, 0)
TILES(rows, CPU_PANEL_VECTORS, TSR_F32, 0)
TILES(rows_half, HALF, TSR_F32, 0)
TILES(columns, CPU_PANEL_VECTORS, TSR_F32, 1)
TILES(columns_half, HALF, TSR_F32, 1)

void cpu_multiply_block(const cpu_rows_of_a *a, int32_t dtype, const void *b, int64_t depth, float *c, int64_t c_row,
                        int64_t columns, int32_t add)
{
  const int half = columns <= HALF * CPU_LANES;
  const tile_fn *rows = half ? tiles_rows_half : tiles_rows, *others = half ? tiles_columns_half : tiles_columns;
  const tile_fn *narrow = dtype == TSR_F16 ? tiles_f16 : tiles_bf16;
  const tile_fn *functions = dtype != TSR_F32 ? narrow : a->kind == CPU_A_ROWS ? rows : others;
  const int64_t row_step = a->kind == CPU_A_ROWS ? a->step : 1;
  const int64_t n_tiles = (a->rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS; /* of about the same height */
  for (int64_t t = 0; t < n_tiles; t++) {
    const int64_t row = cpu_first(a->rows, n_tiles, t), height = cpu_first(a->rows, n_tiles, t + 1) - row;
    functions[height - 1](a->from + row * row_step, a->step, b, depth, c + row * c_row, c_row, columns, !add);
  }
}
