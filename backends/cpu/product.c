/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"
#include "rows.h"

/* ---- layouts --------------------------------------------------------------------------------------------------- */

static const void *element(const cpu_tensor *t, int64_t at)
{
  return (const char *)t->data + at * cpu_element_size(t->dtype);
}

/* Steps k0 .. k0+depth-1 of the columns of a panel, as f32: to [depth][CPU_PANEL]; columns beyond N are zeros. */
static void gather_block(const cpu_tensor *b, int64_t b_at, int32_t axis, int64_t k0, int64_t depth, int64_t n0,
                         int64_t columns, float *to)
{
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1];
  if (columns < CPU_PANEL) {
    memset(to, 0, (size_t)(depth * CPU_PANEL) * sizeof *to);
  }
  if (n_step == 1 || depth == 1) {
    for (int64_t k = 0; k < depth; k++) {
      cpu_widen_row(b->dtype, element(b, b_at + (k0 + k) * k_step + n0 * n_step), n_step, columns, to + k * CPU_PANEL);
    }
    return;
  }
  float column[CPU_BLOCK_DEPTH];
  for (int64_t n = 0; n < columns; n++) {
    cpu_widen_row(b->dtype, element(b, b_at + k0 * k_step + (n0 + n) * n_step), k_step, depth, column);
    for (int64_t k = 0; k < depth; k++) {
      to[k * CPU_PANEL + n] = column[k];
    }
  }
}

#define COPY_PANELS(type)                                                                                              \
  for (int64_t n = 0; n < columns; n++) {                                                                              \
    const type *from = (const type *)b->data + at + (n0 + n) * n_step;                                                 \
    type *into = (type *)to + first + n;                                                                               \
    for (int64_t k = 0; k < depth; k++) {                                                                              \
      into[k * CPU_PANEL] = from[k * k_step];                                                                          \
    }                                                                                                                  \
  }

/* cpu_layout.pack: [batch][panels][K][CPU_PANEL], b's own type; `to` is zeroed. */
static void pack_panels(const cpu_layout *layout, void *to)
{
  enum { STEPS = 64 }; /* of k at a time: what is written stays in the cache until all columns have come */
  const cpu_tensor *b = layout->from;
  const int32_t axis = b->rank - 2;
  const int64_t K = b->extent[axis], N = b->extent[axis + 1], panels = (N + CPU_PANEL - 1) / CPU_PANEL;
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1];
  for (int64_t matrix = 0; matrix < layout->matrices; matrix++) {
    for (int64_t panel = 0; panel < panels; panel++) {
      const int64_t n0 = panel * CPU_PANEL, columns = N - n0 < CPU_PANEL ? N - n0 : CPU_PANEL;
      for (int64_t k0 = 0; k0 < K; k0 += STEPS) {
        const int64_t depth = K - k0 < STEPS ? K - k0 : STEPS;
        const int64_t at = cpu_at(b, axis, matrix) + k0 * k_step;
        const int64_t first = ((matrix * panels + panel) * K + k0) * CPU_PANEL;
        if (b->dtype == TSR_F32) {
          COPY_PANELS(float)
        } else {
          COPY_PANELS(uint16_t)
        }
      }
    }
  }
}

/* cpu_layout.pack: the same as f32, of narrow numbers. */
static void pack_widened(const cpu_layout *layout, void *to)
{
  const cpu_tensor *b = layout->from;
  const int32_t axis = b->rank - 2;
  const int64_t K = b->extent[axis], N = b->extent[axis + 1];
  float *at = to;
  for (int64_t matrix = 0; matrix < layout->matrices; matrix++) {
    for (int64_t n0 = 0; n0 < N; n0 += CPU_PANEL) {
      for (int64_t k0 = 0; k0 < K; k0 += CPU_BLOCK_DEPTH) {
        const int64_t depth = K - k0 < CPU_BLOCK_DEPTH ? K - k0 : CPU_BLOCK_DEPTH;
        gather_block(b, cpu_at(b, axis, matrix), axis, k0, depth, n0, N - n0 < CPU_PANEL ? N - n0 : CPU_PANEL, at);
        at += depth * CPU_PANEL;
      }
    }
  }
}

/* Elements of a matrix that may take four bytes each where two would do: it stays in a cache of the second level or near it, and
 * widening it at each run would take a tenth of the product's time. */
enum { WIDENED = 1 << 20 };

int32_t cpu_product_init(cpu_product *product, const cpu_line *line, int32_t pack, cpu_preparation *preparation)
{
  const cpu_tensor *a = &line->in[0], *b = &line->in[1], *bias = &line->in[2];
  const int32_t axis = a->rank - 2;
  *product = (cpu_product){
      .a = a,
      .b = b,
      .bias = bias,
      .scales = &line->in[3],
      .batch = cpu_count(a, axis),
      .rows = a->extent[axis],
      .columns = b->extent[axis + 1],
      .depth = a->extent[axis + 1],
      .axis = axis,
      .activation = line->attributes.activation,
      .alpha = line->attributes.alpha,
  };
  product->plain = product->alpha == 1.0f && !cpu_present(bias) && product->activation == TSR_ACTIVATION_NONE;
  product->panels = (product->columns + CPU_PANEL - 1) / CPU_PANEL;
  if (!pack || !b->constant || product->batch * product->rows * product->columns * product->depth == 0) {
    return TSR_OK;
  }
  int64_t matrices = 1;
  for (int32_t i = 0; i < axis; i++) {
    matrices = b->stride[i] != 0 ? product->batch : matrices;
  }
  const int64_t elements = product->panels * product->depth * CPU_PANEL;
  const int32_t narrow = b->dtype == TSR_F16 || b->dtype == TSR_BF16;
  const int32_t widen = narrow && product->rows > CPU_TILE_ROWS && elements <= WIDENED;
  const int32_t quantised = b->dtype == TSR_I8;
  const int64_t step = quantised ? (int64_t)cpu_quantised_size(product) : elements;
  product->packed_dtype = widen ? TSR_F32 : b->dtype;
  const cpu_layout layout = {
      .from = b,
      .size = (uint64_t)(matrices * step * cpu_element_size(product->packed_dtype)),
      .pack = quantised ? cpu_quantised_pack
              : widen   ? pack_widened
                        : pack_panels,
      .matrices = matrices,
  };
  product->packed = cpu_ask_packed(preparation, &layout);
  product->packed_step = matrices > 1 ? step : 0;
  return product->packed ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

static inline cpu_f32v load_b(int32_t dtype, const void *b, int64_t at)
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

/* Asks for the step of k that lies 4 KiB ahead. Where few rows meet narrow weights, widening them leaves the processor too
 * little room to look ahead by itself: without this, two thirds of the memory's speed. */
static inline void fetch_ahead(const uint16_t *step)
{
  enum { AHEAD = 4096, LINE = 64 };
  for (uintptr_t at = 0; at < CPU_PANEL * sizeof *step; at += LINE) {
    __builtin_prefetch((const void *)((uintptr_t)step + AHEAD + at));
  }
}

/* c [rows][CPU_PANEL] (+)= a [rows][depth] @ b [depth][CPU_PANEL]. rows and dtype are known to the compiler. */
static inline __attribute__((always_inline)) void tile(int rows, int32_t dtype, const float *a, int64_t a_row,
                                                       const void *b, int64_t depth, float *c, int64_t c_row, int first)
{
  cpu_f32v sum[CPU_TILE_ROWS][CPU_PANEL_VECTORS];
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      sum[i][v] = first ? cpu_splat(0.0f) : cpu_load(c + i * c_row + v * CPU_LANES);
    }
  }
  for (int64_t k = 0; k < depth; k++) {
    cpu_f32v column[CPU_PANEL_VECTORS];
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      column[v] = load_b(dtype, b, k * CPU_PANEL + v * CPU_LANES);
    }
    if (dtype != TSR_F32 && rows <= 2) {
      fetch_ahead((const uint16_t *)b + k * CPU_PANEL);
    }
    CPU_UNROLL
    for (int i = 0; i < rows; i++) {
      const cpu_f32v x = cpu_splat(a[i * a_row + k]);
      CPU_UNROLL
      for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
        sum[i][v] = cpu_fma(x, column[v], sum[i][v]);
      }
    }
  }
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      cpu_store(c + i * c_row + v * CPU_LANES, sum[i][v]);
    }
  }
}

typedef void (*tile_fn)(const float *a, int64_t a_row, const void *b, int64_t depth, float *c, int64_t c_row,
                        int first);

#define TILE(rows, name, dtype)                                                                                        \
  static void tile_##name##_##rows(const float *a, int64_t a_row, const void *b, int64_t depth, float *c,              \
                                   int64_t c_row, int first)                                                           \
  {                                                                                                                    \
    tile(rows, dtype, a, a_row, b, depth, c, c_row, first);                                                            \
  }
#if CPU_LANES > 4
#define TILES(name, dtype)                                                                                             \
  TILE(1, name, dtype)                                                                                                 \
  TILE(2, name, dtype)                                                                                                 \
  TILE(3, name, dtype)                                                                                                 \
  TILE(4, name, dtype)                                                                                                 \
  TILE(5, name, dtype)                                                                                                 \
  TILE(6, name, dtype)
#define TILE_ROW(name)                                                                                                 \
  {                                                                                                                    \
    tile_##name##_1, tile_##name##_2, tile_##name##_3, tile_##name##_4, tile_##name##_5, tile_##name##_6               \
  }
#else
#define TILES(name, dtype)                                                                                             \
  TILE(1, name, dtype)                                                                                                 \
  TILE(2, name, dtype)                                                                                                 \
  TILE(3, name, dtype)                                                                                                 \
  TILE(4, name, dtype)
#define TILE_ROW(name)                                                                                                 \
  {                                                                                                                    \
    tile_##name##_1, tile_##name##_2, tile_##name##_3, tile_##name##_4                                                 \
  }
#endif
TILES(f32, TSR_F32)
TILES(f16, TSR_F16)
TILES(bf16, TSR_BF16)

static const tile_fn tiles_f32[CPU_TILE_ROWS] = TILE_ROW(f32);
static const tile_fn tiles_f16[CPU_TILE_ROWS] = TILE_ROW(f16);
static const tile_fn tiles_bf16[CPU_TILE_ROWS] = TILE_ROW(bf16);

/* All rows of one block of b, in tiles of about the same height. */
static void multiply_block(const tile_fn *tiles, const float *a, int64_t a_row, int64_t rows, const void *b,
                           int64_t depth, float *c, int64_t c_row, int first)
{
  const int64_t n_tiles = (rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS;
  for (int64_t t = 0; t < n_tiles; t++) {
    const int64_t from = cpu_first(rows, n_tiles, t), height = cpu_first(rows, n_tiles, t + 1) - from;
    tiles[height - 1](a + from * a_row, a_row, b, depth, c + from * c_row, c_row, first);
  }
}

/* ---- a panel --------------------------------------------------------------------------------------------------- */

enum { BLOCK_OF_B = CPU_BLOCK_DEPTH * CPU_PANEL, BLOCK_OF_A = CPU_BLOCK_ROWS * CPU_BLOCK_DEPTH };

uint64_t cpu_product_scratch(const cpu_product *product)
{
  return product->b->dtype == TSR_I8 ? cpu_quantised_scratch(product) : (BLOCK_OF_B + BLOCK_OF_A) * sizeof(float);
}

void cpu_product_finish(const cpu_product *product, int64_t matrix, int64_t row, int64_t from, int64_t n, float *c)
{
  const cpu_tensor *bias = product->bias;
  const cpu_f32v alpha = cpu_splat(product->alpha);
  if (product->plain) {
    return;
  }
  if (!cpu_present(bias)) {
    if (product->alpha != 1.0f) {
      for (int64_t i = 0; i < n; i++) {
        c[i] *= product->alpha;
      }
    }
  } else {
    const int64_t step = bias->stride[product->axis + 1];
    const float *z = (const float *)bias->data + cpu_at(bias, product->axis, matrix) +
                     row * bias->stride[product->axis] + from * step;
    int64_t i = 0;
    for (; step == 1 && i + CPU_LANES <= n; i += CPU_LANES) {
      cpu_store(c + i, cpu_fma(alpha, cpu_load(c + i), cpu_load(z + i)));
    }
    for (; i < n; i += CPU_LANES) {
      float room[CPU_LANES];
      const int64_t part = n - i < CPU_LANES ? n - i : CPU_LANES;
      const cpu_f32v added = cpu_load_part(cpu_side_by_side(z + i * step, step, part, room), part, 0.0f);
      cpu_store_part(c + i, cpu_fma(alpha, cpu_load_part(c + i, part, 0.0f), added), part);
    }
  }
  cpu_activate_row(product->activation, c, n);
}

/* Rows of a with the steps of k side by side: where they lie, or copied to scratch. */
static const float *rows_of_a(const cpu_product *product, int64_t at, int64_t rows, int64_t k0, int64_t depth,
                              float *copied, int64_t *a_row)
{
  const cpu_tensor *a = product->a;
  const int64_t m_step = a->stride[product->axis], k_step = a->stride[product->axis + 1];
  const float *from = (const float *)a->data + at + k0 * k_step;
  if (k_step == 1 || product->depth == 1) {
    *a_row = m_step;
    return from;
  }
  for (int64_t i = 0; i < rows; i++) {
    cpu_widen_row(TSR_F32, from + i * m_step, k_step, depth, copied + i * CPU_BLOCK_DEPTH);
  }
  *a_row = CPU_BLOCK_DEPTH;
  return copied;
}

/* Sums of one panel, of weights in floating point. */
static void sum_panel(const cpu_product *product, int64_t matrix, int64_t first, int64_t rows, int64_t panel, float *c,
                      int64_t c_row, void *scratch)
{
  const cpu_tensor *b = product->b;
  const int64_t K = product->depth, columns = cpu_panel_columns(product, panel);
  const int64_t a_at = cpu_at(product->a, product->axis, matrix) + first * product->a->stride[product->axis];
  const int32_t dtype = product->packed ? product->packed_dtype : TSR_F32;
  float *block_of_b = scratch, *block_of_a = block_of_b + BLOCK_OF_B;
  const void *packed = NULL;
  const tile_fn *tiles = tiles_f32;
  int64_t step = CPU_BLOCK_DEPTH;
  if (product->packed) {
    const int64_t at = matrix * product->packed_step + panel * K * CPU_PANEL;
    packed = (const char *)product->packed + at * cpu_element_size(dtype);
    if (rows <= CPU_TILE_ROWS) {
      /* One tile: b is read once, so that nothing is won by keeping a block of it. */
      tiles = dtype == TSR_F16 ? tiles_f16 : dtype == TSR_BF16 ? tiles_bf16 : tiles_f32;
      step = product->a->stride[product->axis + 1] == 1 ? K : step;
    }
  }
  for (int64_t k0 = 0; k0 < K; k0 += step) {
    const int64_t depth = K - k0 < step ? K - k0 : step;
    int64_t a_row = 0;
    const float *a = rows_of_a(product, a_at, rows, k0, depth, block_of_a, &a_row);
    const void *block = block_of_b;
    if (!packed) {
      gather_block(b, cpu_at(b, product->axis, matrix), product->axis, k0, depth, panel * CPU_PANEL, columns,
                   block_of_b);
    } else if (dtype != TSR_F32 && tiles == tiles_f32) {
      cpu_widen_row(dtype, (const uint16_t *)packed + k0 * CPU_PANEL, 1, depth * CPU_PANEL, block_of_b);
    } else {
      block = (const char *)packed + k0 * CPU_PANEL * cpu_element_size(dtype);
    }
    multiply_block(tiles, a, a_row, rows, block, depth, c, c_row, k0 == 0);
  }
}

void cpu_product_begin(const cpu_product *product, cpu_team *team, void *shared)
{
  if (product->b->dtype == TSR_I8) {
    cpu_quantise(product, team, shared);
  }
}

void cpu_product_panel(const cpu_product *product, const void *shared, int64_t matrix, int64_t first, int64_t rows,
                       int64_t panel, float *c, int64_t c_row, void *scratch)
{
  const int64_t columns = cpu_panel_columns(product, panel);
  if (product->depth == 0) {
    for (int64_t i = 0; i < rows; i++) {
      memset(c + i * c_row, 0, (size_t)columns * sizeof *c);
    }
  } else if (product->b->dtype == TSR_I8) {
    cpu_quantised_panel(product, shared, matrix, first, rows, panel, c, c_row, scratch);
  } else {
    sum_panel(product, matrix, first, rows, panel, c, c_row, scratch);
  }
  for (int64_t i = 0; i < rows; i++) {
    cpu_product_finish(product, matrix, first + i, panel * CPU_PANEL, columns, c + i * c_row);
  }
}
