/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of rows that are quantised as they come with weights of i8: sums of whole numbers, exact in any order.
 */
#include "product_i8.h"

/* Groups of k in a block of b that stays in a level-1 cache. */
enum { BLOCK_GROUPS = CPU_PANEL * CPU_GROUP > 64 ? 128 : 256, BLOCK_BYTES = BLOCK_GROUPS * CPU_PANEL * CPU_GROUP };

/* The rows of a, all matrices. */
typedef struct quantised_row {
  float unit;     /* what one unit is worth: amax / 127 */
  int32_t excess; /* CPU_SHIFT times the sum of the row, which the shift of b adds to each product */
} quantised_row;

static int64_t groups_of(const cpu_product *product)
{
  return cpu_quantised_groups(product->depth);
}

/* From row to row of a, in words. */
static int64_t row_words(const cpu_product *product)
{
  return CPU_MATRIX_UNITS ? cpu_matrix_row_words(groups_of(product)) : groups_of(product);
}

static uint64_t rows_size(const cpu_product *product)
{
  return cpu_aligned((uint64_t)(product->batch * product->rows) * sizeof(quantised_row));
}

uint64_t cpu_quantised_shared(const cpu_product *product)
{
  const uint64_t words = (uint64_t)(product->batch * product->rows * row_words(product)) * sizeof(cpu_group_word);
  return rows_size(product) + cpu_aligned(words);
}

/* ---- b --------------------------------------------------------------------------------------------------------- */

uint64_t cpu_quantised_size(const cpu_product *product)
{
  return (uint64_t)(product->panels * groups_of(product) * CPU_PANEL * CPU_GROUP);
}

/* Groups g0 .. g0+groups-1 of the columns of a panel: to [strips][groups][CPU_STRIP][CPU_GROUP]. */
static void pack_block(const cpu_tensor *b, const int8_t *from, int64_t g0, int64_t groups, int64_t columns,
                       uint8_t *to)
{
  const int32_t axis = b->rank - 2;
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1], K = b->extent[axis];
  const int64_t first = g0 * CPU_GROUP, steps = K - first < groups * CPU_GROUP ? K - first : groups * CPU_GROUP;
  memset(to, CPU_SHIFT, (size_t)(groups * CPU_PANEL * CPU_GROUP));
  for (int64_t n = 0; n < columns; n++) {
    const int8_t *column = from + n * n_step + first * k_step;
    for (int64_t k = 0; k < steps; k++) {
      to[cpu_quantised_column(groups, n) + k / CPU_GROUP * CPU_STRIP * CPU_GROUP + k % CPU_GROUP] =
          (uint8_t)(column[k * k_step] + CPU_SHIFT);
    }
  }
}

void cpu_quantised_pack(const cpu_layout *layout, void *to)
{
  const cpu_tensor *b = layout->from;
  const int32_t axis = b->rank - 2;
  const int64_t N = b->extent[axis + 1], groups = cpu_quantised_groups(b->extent[axis]);
  uint8_t *at = to;
  for (int64_t matrix = 0; matrix < layout->matrices; matrix++) {
    const int8_t *from = (const int8_t *)b->data + cpu_at(b, axis, matrix);
    for (int64_t n0 = 0; n0 < N; n0 += CPU_PANEL) {
      pack_block(b, from + n0 * b->stride[axis + 1], 0, groups, N - n0 < CPU_PANEL ? N - n0 : CPU_PANEL, at);
      at += groups * CPU_PANEL * CPU_GROUP;
    }
  }
}

/* ---- a --------------------------------------------------------------------------------------------------------- */

typedef struct quantising {
  const cpu_product *product;
  quantised_row *rows;
  cpu_group_word *words;
  int64_t n_tasks;
} quantising;

static inline cpu_i32v round_some(cpu_f32v x, cpu_f32v factor)
{
  const cpu_f32v most = cpu_splat(127.0f), least = cpu_splat(-127.0f);
  return cpu_to_i32(cpu_max(cpu_min(cpu_round(x * factor), most), least));
}

/* q[k] for n elements side by side. The rest of the last group is the caller's. Returns their sum. */
static int32_t round_row(const float *a, int64_t n, float inverse, cpu_group_element *q)
{
  const cpu_f32v factor = cpu_splat(inverse);
  const int64_t whole = n / CPU_LANES * CPU_LANES;
  cpu_i32v sum = cpu_splat_i32(0);
  for (int64_t k = 0; k < whole; k += CPU_LANES) {
    const cpu_i32v some = round_some(cpu_load(a + k), factor);
    const cpu_group_vector narrow = __builtin_convertvector(some, cpu_group_vector);
    memcpy(q + k, &narrow, sizeof narrow);
    sum += some;
  }
  if (whole < n) {
    const cpu_i32v some = round_some(cpu_load_part(a + whole, n - whole, 0.0f), factor);
    const cpu_group_vector narrow = __builtin_convertvector(some, cpu_group_vector);
    memcpy(q + whole, &narrow, (size_t)(n - whole) * sizeof *q);
    sum += some;
  }
  int32_t total = 0;
  for (int i = 0; i < CPU_LANES; i++) {
    total += sum[i];
  }
  return total;
}

/* The largest magnitude of n elements; NaN if one is NaN or infinite. */
static float largest_magnitude(const float *a, int64_t n)
{
  enum { SIDE_BY_SIDE = 4 }; /* so that one need not wait for the other */
  const cpu_f32v infinite = cpu_splat(INFINITY);
  cpu_f32v largest[SIDE_BY_SIDE];
  cpu_i32v finite = cpu_splat_i32(-1);
  int64_t k = 0;
  CPU_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; i++) {
    largest[i] = cpu_splat(0.0f);
  }
  for (; k + SIDE_BY_SIDE * CPU_LANES <= n; k += SIDE_BY_SIDE * CPU_LANES) {
    CPU_UNROLL
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
      const cpu_f32v size = cpu_abs(cpu_load(a + k + i * CPU_LANES));
      finite &= size < infinite;
      largest[i] = cpu_max(size, largest[i]);
    }
  }
  for (; k < n; k += CPU_LANES) {
    const cpu_f32v size = cpu_abs(n - k < CPU_LANES ? cpu_load_part(a + k, n - k, 0.0f) : cpu_load(a + k));
    finite &= size < infinite;
    largest[0] = cpu_max(size, largest[0]);
  }
  for (int i = 1; i < SIDE_BY_SIDE; i++) {
    largest[0] = cpu_max(largest[i], largest[0]);
  }
  return cpu_any(~finite) ? NAN : cpu_largest(largest[0]);
}

static void quantise_row(const float *a, int64_t n, quantised_row *row, cpu_group_element *q)
{
  const float largest = largest_magnitude(a, n);
  if (!(largest >= 0x1p-100f)) { /* too small to count, or not finite */
    *row = (quantised_row){.unit = largest == largest ? 0.0f : NAN};
    memset(q, 0, (size_t)n * sizeof *q);
    return;
  }
  row->unit = largest / 127.0f;
  row->excess = CPU_SHIFT * round_row(a, n, 127.0f / largest, q);
}

float cpu_quantise_bytes(const float *a, int64_t n, int8_t *q)
{
  typedef int8_t bytes __attribute__((vector_size(CPU_LANES)));
  const float most = largest_magnitude(a, n);
  if (!(most >= 0x1p-100f)) { /* as quantise_row */
    memset(q, 0, (size_t)n);
    return most == most ? 0.0f : NAN;
  }
  const cpu_f32v factor = cpu_splat(127.0f / most);
  for (int64_t k = 0; k < n; k += CPU_LANES) {
    const int64_t some = n - k < CPU_LANES ? n - k : CPU_LANES;
    const cpu_f32v x = some < CPU_LANES ? cpu_load_part(a + k, some, 0.0f) : cpu_load(a + k);
    const bytes narrow = __builtin_convertvector(round_some(x, factor), bytes);
    memcpy(q + k, &narrow, (size_t)some);
  }
  return most / 127.0f;
}

static void quantise_task(const void *context, int64_t task, void *scratch)
{
  const quantising *job = context;
  const cpu_product *p = job->product;
  const cpu_tensor *a = p->a;
  const int64_t K = p->depth, groups = groups_of(p), words = row_words(p), total = p->batch * p->rows;
  const int64_t whole = K / CPU_GROUP, step = a->stride[p->axis + 1], end = cpu_first(total, job->n_tasks, task + 1);
  for (int64_t i = cpu_first(total, job->n_tasks, task); i < end; i++) {
    const int64_t at = cpu_at(a, p->axis, i / p->rows) + i % p->rows * a->stride[p->axis];
    const float *row = (const float *)a->data + at;
    cpu_group_element *q = (cpu_group_element *)(void *)(job->words + i * words);
    if (step != 1 && K > 1) {
      cpu_widen_row(TSR_F32, row, step, K, scratch);
      row = scratch;
    }
    memset(job->words + i * words + whole, 0, (size_t)(groups - whole) * sizeof *job->words);
    quantise_row(row, K, &job->rows[i], q);
  }
}

void cpu_quantise(const cpu_product *product, cpu_team *team, void *shared)
{
  const int64_t rows = product->batch * product->rows;
  const quantising job = {
      .product = product,
      .rows = shared,
      .words = (cpu_group_word *)(void *)((char *)shared + rows_size(product)),
      .n_tasks = cpu_tasks(rows, (double)product->depth / CPU_LANES * 8.0),
  };
  if (product->depth > 0 && rows > 0) {
    cpu_parallel(team, job.n_tasks, quantise_task, &job);
  }
}

float cpu_quantised_unit(const cpu_product *product, const void *shared, int64_t row)
{
  (void)product;
  return ((const quantised_row *)shared)[row].unit;
}

int32_t cpu_quantised_at(const cpu_product *product, const void *shared, int64_t row, int64_t k)
{
  const char *words = (const char *)shared + rows_size(product);
  const cpu_group_element *q = (const cpu_group_element *)(const void *)words;
  return q[row * row_words(product) * CPU_GROUP + k];
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

#if CPU_MATRIX_UNITS

/* matrix.h has them. */

#elif CPU_HAS_SQUARES

/* The first halves of two vectors, or the second ones. */
#define FIRST_HALVES(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define SECOND_HALVES(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)

/* c [rows][CPU_PANEL] (+)= a [rows][groups] @ b [groups][CPU_PANEL], i32. rows is known to the compiler. Two rows meet
 * two columns at a time; a last row without a partner is its own. */
static inline __attribute__((always_inline)) void tile(int rows, const cpu_group_word *a, int64_t a_row,
                                                       const uint8_t *b, int64_t groups, int32_t *c, int first)
{
  enum { PAIRS = CPU_PANEL / 2 };
  cpu_i32v sum[CPU_TILE_ROWS / 2][PAIRS];
  CPU_UNROLL
  for (int i = 0; i < rows; i += 2) {
    const int32_t *row_0 = c + i * CPU_PANEL, *row_1 = i + 1 < rows ? row_0 + CPU_PANEL : row_0;
    CPU_UNROLL
    for (int p = 0; p < PAIRS; p += 2) {
      const cpu_i32v x = first ? cpu_splat_i32(0) : cpu_load_i32(row_0 + 2 * p);
      const cpu_i32v y = first ? cpu_splat_i32(0) : cpu_load_i32(row_1 + 2 * p);
      sum[i / 2][p] = FIRST_HALVES(x, y);
      sum[i / 2][p + 1] = SECOND_HALVES(x, y);
    }
  }
  for (int64_t g = 0; g < groups; g++) {
    const uint8_t *columns = b + g * CPU_PANEL * CPU_GROUP;
    CPU_UNROLL
    for (int p = 0; p < PAIRS; p++) {
      CPU_UNROLL
      for (int i = 0; i < rows; i += 2) {
        const cpu_group_word row_0 = a[i * a_row + g], row_1 = i + 1 < rows ? a[(i + 1) * a_row + g] : row_0;
        sum[i / 2][p] = cpu_dot_square(sum[i / 2][p], row_0, row_1, columns + 2 * p * CPU_GROUP);
      }
    }
  }
  CPU_UNROLL
  for (int i = 0; i < rows; i += 2) {
    CPU_UNROLL
    for (int p = 0; p < PAIRS; p += 2) {
      cpu_store_i32(c + i * CPU_PANEL + 2 * p, FIRST_HALVES(sum[i / 2][p], sum[i / 2][p + 1]));
      if (i + 1 < rows) {
        cpu_store_i32(c + (i + 1) * CPU_PANEL + 2 * p, SECOND_HALVES(sum[i / 2][p], sum[i / 2][p + 1]));
      }
    }
  }
}

#else

/* c [rows][CPU_PANEL] (+)= a [rows][groups] @ b [groups][CPU_PANEL], i32. rows is known to the compiler. */
static inline __attribute__((always_inline)) void tile(int rows, const cpu_group_word *a, int64_t a_row,
                                                       const uint8_t *b, int64_t groups, int32_t *c, int first)
{
  cpu_i32v sum[CPU_TILE_ROWS][CPU_PANEL_VECTORS];
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      sum[i][v] = first ? cpu_splat_i32(0) : cpu_load_i32(c + i * CPU_PANEL + v * CPU_LANES);
    }
  }
  for (int64_t g = 0; g < groups; g++) {
    cpu_i32v column[CPU_PANEL_VECTORS];
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      column[v] = cpu_load_groups(b + (g * CPU_PANEL + v * CPU_LANES) * CPU_GROUP);
    }
    CPU_UNROLL
    for (int i = 0; i < rows; i++) {
      const cpu_i32v x = cpu_splat_i32(a[i * a_row + g]);
      CPU_UNROLL
      for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
        sum[i][v] = cpu_dot(sum[i][v], x, column[v]);
      }
    }
  }
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
      cpu_store_i32(c + i * CPU_PANEL + v * CPU_LANES, sum[i][v]);
    }
  }
}

#endif

#if !CPU_MATRIX_UNITS

static void tile_of(int64_t rows, const cpu_group_word *a, int64_t a_row, const uint8_t *b, int64_t groups, int32_t *c,
                    int first)
{
  switch (rows) {
  case 1:
    tile(1, a, a_row, b, groups, c, first);
    break;
  case 2:
    tile(2, a, a_row, b, groups, c, first);
    break;
  case 3:
    tile(3, a, a_row, b, groups, c, first);
    break;
#if CPU_LANES > 4 || CPU_REGISTERS == 32
  case 4:
    tile(4, a, a_row, b, groups, c, first);
    break;
  case 5:
    tile(5, a, a_row, b, groups, c, first);
    break;
#endif
  default:
    tile(CPU_TILE_ROWS, a, a_row, b, groups, c, first);
    break;
  }
}

#endif

uint64_t cpu_quantised_scratch(const cpu_product *product)
{
  const uint64_t row = (uint64_t)product->depth * sizeof(float); /* of a, while it is quantised */
  const uint64_t sums = CPU_MATRIX_UNITS ? CPU_MATRIX_SUMS : CPU_BLOCK_ROWS * CPU_PANEL;
  const uint64_t block = BLOCK_BYTES + sums * sizeof(int32_t);
  return row > block ? row : block;
}

/* Whole sums to what they stand for: to c, which may lie where they do. */
static void scale_row(const cpu_product *product, const quantised_row *row, int64_t from, int64_t columns,
                      const int32_t *sums, float *c)
{
  const int64_t step = product->scales->stride[0];
  const float *scales = (const float *)product->scales->data + from * step;
  int64_t n = 0;
  for (; step == 1 && n + CPU_LANES <= columns; n += CPU_LANES) {
    const cpu_i32v sum = cpu_load_i32(sums + n) - cpu_splat_i32(row->excess);
    cpu_store(c + n, cpu_to_f32(sum) * (cpu_splat(row->unit) * cpu_load(scales + n)));
  }
  for (; n < columns; n++) {
    c[n] = (float)(sums[n] - row->excess) * (row->unit * scales[n * step]);
  }
}

/* Sums of a block of b, groups g0 .. g0+n-1 of one panel, or of several where matrix units take them: to
 * [rows][sums_row]. */
static void sum_block(const cpu_product *product, const void *shared, const cpu_part *part, int64_t panels, int64_t g0,
                      int64_t n, const uint8_t *b, int32_t *sums, int64_t sums_row)
{
  const int64_t at = part->matrix * product->rows + part->first, words = row_words(product);
  const cpu_group_word *a =
      (const cpu_group_word *)(const void *)((const char *)shared + rows_size(product)) + at * words + g0;
#if CPU_MATRIX_UNITS
  const cpu_matrix_block block = {
      .kind = CPU_MATRIX_I8,
      .first_time = part->first_time,
      .last_time = part->last_time,
      .add = g0 > 0,
      .rows = part->rows,
      .a = a,
      .a_step = words * (int64_t)sizeof *a,
      .b = b,
      .words = n,
      .strips = panels * CPU_PANEL_STRIPS,
      .c = sums,
      .c_row = sums_row,
  };
  cpu_matrix_multiply(&block);
#else
  const int64_t n_tiles = (part->rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS;
  assert(panels == 1 && sums_row == CPU_PANEL);
  (void)panels;
  (void)sums_row;
  for (int64_t t = 0; t < n_tiles; t++) {
    const int64_t i = cpu_first(part->rows, n_tiles, t), height = cpu_first(part->rows, n_tiles, t + 1) - i;
    tile_of(height, a + i * words, words, b, n, sums + i * CPU_PANEL, g0 == 0);
  }
#endif
}

float *cpu_quantised_sums(void *scratch)
{
  return (float *)(void *)((uint8_t *)scratch + BLOCK_BYTES);
}

void cpu_quantised_part(const cpu_product *product, const void *shared, const cpu_part *part, float *c, int64_t c_row,
                        void *scratch)
{
  const cpu_tensor *b = product->b;
  const int64_t groups = groups_of(product), panel_size = groups * CPU_PANEL * CPU_GROUP;
  const int64_t columns = cpu_panels_columns(product, part->panel, part->panels);
  const int64_t sums_row = CPU_MATRIX_UNITS ? CPU_MATRIX_SUMS_ROW : CPU_PANEL;
  const quantised_row *row = (const quantised_row *)shared + part->matrix * product->rows + part->first;
  uint8_t *block = scratch;
  int32_t *sums = (int32_t *)(void *)(block + BLOCK_BYTES);
  if (product->packed) {
    const uint8_t *packed =
        (const uint8_t *)product->packed + part->matrix * product->packed_step + part->panel * panel_size;
    const int64_t step = CPU_MATRIX_UNITS ? groups : BLOCK_GROUPS;
    for (int64_t g0 = 0; g0 < groups; g0 += step) {
      const int64_t n = groups - g0 < step ? groups - g0 : step;
      sum_block(product, shared, part, part->panels, g0, n, packed + g0 * CPU_PANEL * CPU_GROUP, sums, sums_row);
    }
  }
  for (int64_t p = 0; p < part->panels && !product->packed; p++) {
    const int64_t n0 = (part->panel + p) * CPU_PANEL;
    const int8_t *from =
        (const int8_t *)b->data + cpu_at(b, product->axis, part->matrix) + n0 * b->stride[product->axis + 1];
    for (int64_t g0 = 0; g0 < groups; g0 += BLOCK_GROUPS) {
      const int64_t n = groups - g0 < BLOCK_GROUPS ? groups - g0 : BLOCK_GROUPS;
      pack_block(b, from, g0, n, cpu_panel_columns(product, part->panel + p), block);
      sum_block(product, shared, part, 1, g0, n, block, sums + p * CPU_PANEL, sums_row);
    }
  }
  for (int64_t i = 0; i < part->rows; i++) {
    scale_row(product, &row[i], part->panel * CPU_PANEL, columns, sums + i * sums_row, c + i * c_row);
  }
}
