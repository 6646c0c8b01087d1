/* SPDX-License-Identifier: Apache-2.0 */
#include "product_bf16.h"
#include "product_i4.h"
#include "product_i8.h"
#include "product_tile.h"
#include "rows.h"

/* ---- layouts --------------------------------------------------------------------------------------------------- */

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
        cpu_gather_block(b, cpu_at(b, axis, matrix), k0, depth, n0, N - n0 < CPU_PANEL ? N - n0 : CPU_PANEL, at);
        at += depth * CPU_PANEL;
      }
    }
  }
}

/* Elements of a matrix that may take four bytes each where two would do: it stays in a cache of the second level or
 * near it, and widening it at each run would take a tenth of the product's time. */
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
      .matrices = 1,
      .chunk = a->extent[axis],
      .four_bits = line->in[3].dtype == TSR_F16,
  };
  product->plain = product->alpha == 1.0f && !cpu_present(bias) && product->activation == TSR_ACTIVATION_NONE;
  product->panels = (product->columns + CPU_PANEL - 1) / CPU_PANEL;
  if (!pack || product->batch * product->rows * product->columns * product->depth == 0) {
    return TSR_OK;
  }
  for (int32_t i = 0; i < axis; i++) {
    product->matrices = b->stride[i] != 0 ? product->batch : product->matrices;
  }
  product->rounds = cpu_rounded_suits(line);
  if (!b->constant || product->four_bits || (product->rounds && b->dtype != TSR_BF16)) {
    return TSR_OK;
  }
  const int64_t elements = product->panels * product->depth * CPU_PANEL;
  const int32_t narrow = b->dtype == TSR_F16 || b->dtype == TSR_BF16;
  const int32_t rounds = product->rounds, quantised = b->dtype == TSR_I8;
  const int32_t widen = narrow && !rounds && product->rows > CPU_TILE_ROWS && elements <= WIDENED;
  const int64_t step = quantised ? (int64_t)cpu_quantised_size(product)
                       : rounds  ? cpu_rounded_elements(product)
                                 : elements;
  product->packed_dtype = widen ? TSR_F32 : b->dtype;
  const cpu_layout layout = {
      .from = b,
      .size = (uint64_t)(product->matrices * step * cpu_element_size(product->packed_dtype)),
      .pack = quantised ? cpu_quantised_pack
              : rounds  ? cpu_rounded_pack
              : widen   ? pack_widened
                        : pack_panels,
      .matrices = product->matrices,
  };
  product->packed = cpu_ask_packed(preparation, &layout);
  product->packed_step = product->matrices > 1 ? step : 0;
  return product->packed ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

/* ---- a panel --------------------------------------------------------------------------------------------------- */

enum { BLOCK_OF_B = CPU_BLOCK_DEPTH * CPU_PANEL };

uint64_t cpu_product_shared(const cpu_product *product)
{
  return product->four_bits            ? cpu_four_bits_shared(product)
         : product->b->dtype == TSR_I8 ? cpu_quantised_shared(product)
         : product->rounds             ? cpu_rounded_shared(product)
                                       : 0;
}

uint64_t cpu_product_scratch(const cpu_product *product)
{
  return product->four_bits            ? cpu_four_bits_scratch(product)
         : product->b->dtype == TSR_I8 ? cpu_quantised_scratch(product)
         : product->rounds             ? cpu_rounded_scratch(product)
                                       : (BLOCK_OF_B + CPU_BLOCK_OF_A) * sizeof(float);
}

void cpu_product_finish(const cpu_product *product, int64_t matrix, int64_t row, int64_t from, int64_t n,
                        const float *sums, float *c)
{
  const cpu_tensor *bias = product->bias;
  const cpu_f32v alpha = cpu_splat(product->alpha), zero = cpu_splat(0.0f);
  const int32_t relu = product->activation == TSR_ACTIVATION_RELU;
  if (product->plain) {
    if (sums != c) {
      memcpy(c, sums, (size_t)n * sizeof *c);
    }
    return;
  }
  if (!cpu_present(bias)) {
    if (product->alpha != 1.0f || sums != c) {
      for (int64_t i = 0; i < n; i++) {
        c[i] = sums[i] * product->alpha;
      }
    }
  } else {
    const int64_t step = bias->stride[product->axis + 1];
    const float *z = (const float *)bias->data + cpu_at(bias, product->axis, matrix) +
                     row * bias->stride[product->axis] + from * step;
    int64_t i = 0;
    for (; step == 1 && i + CPU_LANES <= n; i += CPU_LANES) {
      const cpu_f32v sum = cpu_fma(alpha, cpu_load(sums + i), cpu_load(z + i));
      cpu_store(c + i, relu ? cpu_max(zero, sum) : sum);
    }
    if (relu && i == n) {
      return;
    }
    for (; i < n; i += CPU_LANES) {
      float room[CPU_LANES];
      const int64_t part = n - i < CPU_LANES ? n - i : CPU_LANES;
      const cpu_f32v added = cpu_load_part(cpu_side_by_side(z + i * step, step, part, room), part, 0.0f);
      cpu_store_part(c + i, cpu_fma(alpha, cpu_load_part(sums + i, part, 0.0f), added), part);
    }
  }
  cpu_activate_row(product->activation, c, n);
}

/* Rows of a, steps k0 .. k0+depth-1, as they lie or laid out in `room`. */
static cpu_rows_of_a rows_of_a(const cpu_tensor *a, int64_t a_at, int64_t rows, int64_t k0, int64_t depth, float *room)
{
  const int64_t k_step = a->stride[a->rank - 1], at = a_at + k0 * k_step;
  const float *from = (const float *)a->data + at;
  if (cpu_rows_lie_ready(a)) {
    return (cpu_rows_of_a){.from = from, .step = a->stride[a->rank - 2], .rows = rows, .kind = CPU_A_ROWS};
  }
  if (cpu_columns_lie_ready(a)) {
    return (cpu_rows_of_a){.from = from, .step = k_step, .rows = rows, .kind = CPU_A_COLUMNS};
  }
  return cpu_lay_out_columns(a, at, rows, depth, room);
}

/* Sums of one panel, of weights in floating point. */
static void sum_panel(const cpu_product *product, int64_t matrix, int64_t first, int64_t rows, int64_t panel, float *c,
                      int64_t c_row, void *scratch)
{
  const cpu_tensor *a = product->a, *b = product->b;
  const int64_t K = product->depth, columns = cpu_panel_columns(product, panel);
  const int64_t a_at = cpu_at(a, product->axis, matrix) + first * a->stride[product->axis];
  const int32_t dtype = product->packed ? product->packed_dtype : TSR_F32;
  float *block_of_b = scratch;
  const char *packed = NULL;
  int32_t narrow = TSR_F32; /* the type in which the tiles take b */
  int64_t step = CPU_BLOCK_DEPTH;
  if (product->packed) {
    const int64_t at = matrix * product->packed_step + panel * K * CPU_PANEL;
    packed = (const char *)product->packed + at * cpu_element_size(dtype);
    if (rows <= CPU_TILE_ROWS && cpu_rows_lie_ready(a)) {
      /* One tile: b is read once, so that nothing is won by keeping a block of it. */
      narrow = dtype;
      step = K;
    }
  }
  for (int64_t k0 = 0; k0 < K; k0 += step) {
    const int64_t depth = K - k0 < step ? K - k0 : step;
    const cpu_rows_of_a some = rows_of_a(a, a_at, rows, k0, depth, block_of_b + BLOCK_OF_B);
    const void *block = block_of_b;
    if (!packed) {
      cpu_gather_block(b, cpu_at(b, product->axis, matrix), k0, depth, panel * CPU_PANEL, columns, block_of_b);
    } else if (dtype != narrow) {
      cpu_widen_row(dtype, packed + k0 * CPU_PANEL * cpu_element_size(dtype), 1, depth * CPU_PANEL, block_of_b);
    } else {
      block = packed + k0 * CPU_PANEL * cpu_element_size(dtype);
    }
    cpu_multiply_block(&some, narrow, block, depth, c, c_row, columns, k0 > 0);
  }
}

void cpu_product_begin(const cpu_product *product, int64_t first, cpu_team *team, void *shared)
{
  if (product->four_bits) {
    cpu_four_bits_begin(product, team, shared);
  } else if (product->b->dtype == TSR_I8) {
    cpu_quantise(product, team, shared);
  } else if (product->rounds) {
    cpu_round(product, first, team, shared);
  }
}

/* Sums of a block's row, in the nearest cache, to c. Where c passes by the caches it is finished before, so that it is
 * written once. */
static void finish_row(const cpu_product *product, int64_t matrix, int64_t row, int64_t from, int64_t columns,
                       float *sums, float *c)
{
  if (!product->far || columns % CPU_LANES != 0 || (uintptr_t)c % (CPU_LANES * sizeof *c) != 0) {
    cpu_product_finish(product, matrix, row, from, columns, sums, c);
    return;
  }
  cpu_product_finish(product, matrix, row, from, columns, sums, sums);
  for (int64_t n = 0; n < columns; n += CPU_LANES) {
    cpu_store_past(c + n, cpu_load(sums + n));
  }
}

/* Rows and panels as many as matrix units take at once; each block is finished while it is in the nearest cache. */
static void matrix_panels(const cpu_product *product, const void *shared, int64_t matrix, int64_t first, int64_t rows,
                          int64_t panel, int64_t panels, float *c, int64_t c_row, void *scratch)
{
  int64_t ready = 0;
  for (int64_t p = 0; p < panels; p += CPU_MATRIX_PANELS) {
    const int64_t here = panels - p < CPU_MATRIX_PANELS ? panels - p : CPU_MATRIX_PANELS;
    const int64_t columns = cpu_panels_columns(product, panel + p, here);
    for (int64_t row = 0; row < rows; row += CPU_MATRIX_ROWS) {
      const int64_t height = rows - row < CPU_MATRIX_ROWS ? rows - row : CPU_MATRIX_ROWS;
      const cpu_part part = {.matrix = matrix,
                             .first = first + row,
                             .rows = height,
                             .panel = panel + p,
                             .panels = here,
                             .first_time = row == 0,
                             .last_time = row + height == rows};
      float *to = c + row * c_row + p * CPU_PANEL, *sums = product->rounds ? scratch : cpu_quantised_sums(scratch);
      if (height != ready) {
        cpu_matrix_configure(height);
        ready = height;
      }
      if (product->rounds) {
        cpu_rounded_part(product, shared, &part, sums);
      } else {
        cpu_quantised_part(product, shared, &part, sums, CPU_MATRIX_SUMS_ROW, scratch);
      }
      for (int64_t i = 0; i < height; i++) {
        finish_row(product, matrix, first + row + i, (panel + p) * CPU_PANEL, columns, sums + i * CPU_MATRIX_SUMS_ROW,
                   to + i * c_row);
      }
    }
  }
  cpu_matrix_release();
  cpu_store_end();
}

void cpu_product_panels(const cpu_product *product, const void *shared, int64_t matrix, int64_t first, int64_t rows,
                        int64_t panel, int64_t panels, float *c, int64_t c_row, void *scratch)
{
  if (cpu_product_on_matrix(product) && product->depth > 0) {
    matrix_panels(product, shared, matrix, first, rows, panel, panels, c, c_row, scratch);
    return;
  }
  for (int64_t p = panel; p < panel + panels; p++) {
    const int64_t columns = cpu_panel_columns(product, p);
    float *to = c + (p - panel) * CPU_PANEL;
    if (product->depth == 0) {
      for (int64_t i = 0; i < rows; i++) {
        memset(to + i * c_row, 0, (size_t)columns * sizeof *to);
      }
    } else if (product->four_bits) {
      const cpu_part part = {.matrix = matrix, .first = first, .rows = rows, .panel = p, .panels = 1};
      cpu_four_bits_part(product, shared, &part, to, c_row, scratch);
    } else if (product->b->dtype == TSR_I8) {
      const cpu_part part = {.matrix = matrix, .first = first, .rows = rows, .panel = p, .panels = 1};
      cpu_quantised_part(product, shared, &part, to, c_row, scratch);
    } else {
      sum_panel(product, matrix, first, rows, p, to, c_row, scratch);
    }
    for (int64_t i = 0; i < rows; i++) {
      float *own = to + i * c_row;
      cpu_product_finish(product, matrix, first + i, p * CPU_PANEL, columns, own, own);
    }
  }
}
