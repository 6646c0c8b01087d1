/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of rows that are quantised as they come with weights of four bits.
 *
 * A word of four bytes holds eight weights of a column, the first four in the lower halves of its bytes. A vector of
 * words is a chunk of the depth, of CPU_LANES / 4 groups. Each lane sums its eight products as whole numbers, which
 * are then multiplied with the group's scale and added up in f32, lane by lane, and the lanes last: the same order for
 * any number of rows, so that a row of a batch gives the bits that it gives alone.
 */
#include "product_i4.h"

#include "product_i8.h"

/* Rows and columns whose sums stay in registers; rows of a that stay in a cache while a panel passes. */
enum { ROWS = CPU_REGISTERS == 32 ? 4 : 2, COLUMNS = CPU_REGISTERS == 32 ? 4 : 2, NEAR_ROWS = 32 };

/* Vectors of a row of a per chunk: the bytes that meet lower halves, those that meet upper ones, and what each lane's
 * sum begins with: weights are stored as w + 8. */
enum { LOWER, UPPER, START, VECTORS, CHUNK = 8 * CPU_LANES, CHUNK_GROUPS = CPU_LANES / 4 };

static int64_t groups_of(const cpu_product *product)
{
  return (product->depth + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
}

static int64_t chunks_of(const cpu_product *product)
{
  return (product->depth + CHUNK - 1) / CHUNK;
}

static int64_t row_words(const cpu_product *product)
{
  return chunks_of(product) * VECTORS * CPU_LANES;
}

/* What one unit of each row is worth comes first. */
static uint64_t units_size(const cpu_product *product)
{
  return cpu_aligned((uint64_t)(product->batch * product->rows) * sizeof(float));
}

uint64_t cpu_four_bits_shared(const cpu_product *product)
{
  return units_size(product) + (uint64_t)(product->batch * product->rows * row_words(product)) * sizeof(int32_t);
}

/* Of a row of a, or of columns of b that do not lie as they are read. */
static uint64_t columns_size(const cpu_product *product)
{
  return cpu_aligned((uint64_t)(COLUMNS * groups_of(product) * TSR_I4_BYTES));
}

uint64_t cpu_four_bits_scratch(const cpu_product *product)
{
  const uint64_t row = cpu_aligned((uint64_t)product->depth * sizeof(float)) + (uint64_t)(chunks_of(product) * CHUNK);
  const uint64_t columns = columns_size(product) + (uint64_t)(COLUMNS * groups_of(product)) * sizeof(uint16_t);
  return row > columns ? row : columns;
}

/* ---- a --------------------------------------------------------------------------------------------------------- */

typedef struct quantising {
  const cpu_product *product;
  float *units;
  int32_t *words;
  int64_t n_tasks;
} quantising;

/* q in chunks, zeros beyond its end: to [chunks][VECTORS][CPU_LANES]. */
static void lay_out_row(const int8_t *q, int64_t chunks, int32_t *to)
{
  const cpu_i32v ones = cpu_splat_i32(0x01010101);
  for (int64_t chunk = 0; chunk < chunks; chunk++, to += VECTORS * CPU_LANES) {
    for (int64_t lane = 0; lane < CPU_LANES; lane++, q += 8) {
      memcpy(&to[LOWER * CPU_LANES + lane], q, 4);
      memcpy(&to[UPPER * CPU_LANES + lane], q + 4, 4);
    }
    cpu_i32v sum = cpu_dot_bytes(cpu_splat_i32(0), cpu_load_i32(to + LOWER * CPU_LANES), ones);
    sum = cpu_dot_bytes(sum, cpu_load_i32(to + UPPER * CPU_LANES), ones);
    cpu_store_i32(to + START * CPU_LANES, sum * -8);
  }
}

static void quantise_task(const void *context, int64_t task, void *scratch)
{
  const quantising *job = context;
  const cpu_product *p = job->product;
  const cpu_tensor *a = p->a;
  const int64_t K = p->depth, chunks = chunks_of(p), total = p->batch * p->rows, step = a->stride[p->axis + 1];
  const int64_t end = cpu_first(total, job->n_tasks, task + 1);
  int8_t *q = (int8_t *)scratch + cpu_aligned((uint64_t)K * sizeof(float));
  memset(q + K, 0, (size_t)(chunks * CHUNK - K));
  for (int64_t i = cpu_first(total, job->n_tasks, task); i < end; i++) {
    const int64_t at = cpu_at(a, p->axis, i / p->rows) + i % p->rows * a->stride[p->axis];
    const float *row = (const float *)a->data + at;
    if (step != 1 && K > 1) {
      cpu_widen_row(TSR_F32, row, step, K, scratch);
      row = scratch;
    }
    job->units[i] = cpu_quantise_bytes(row, K, q);
    lay_out_row(q, chunks, job->words + i * row_words(p));
  }
}

void cpu_four_bits_begin(const cpu_product *product, cpu_team *team, void *shared)
{
  const int64_t rows = product->batch * product->rows;
  const quantising job = {
      .product = product,
      .units = shared,
      .words = (int32_t *)(void *)((char *)shared + units_size(product)),
      .n_tasks = cpu_tasks(rows, (double)product->depth / CPU_LANES * 16.0),
  };
  if (product->depth > 0 && rows > 0) {
    cpu_parallel(team, job.n_tasks, quantise_task, &job);
  }
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

/* Some columns of b as they are read. */
typedef struct columns_of_b {
  const uint8_t *bytes; /* of each column side by side */
  const uint16_t *scales;
  int64_t step, scales_step; /* from column to column */
} columns_of_b;

/* The products of a chunk of which `words` lanes are there. */
static inline __attribute__((always_inline)) void chunk_of_tile(int rows, int columns, const int32_t *a, int64_t a_row,
                                                                const columns_of_b *b, int64_t chunk, int64_t words,
                                                                cpu_f32v sum[ROWS][COLUMNS])
{
  const cpu_i32v lower = cpu_splat_i32(0x0f0f0f0f);
  const int32_t *row = a + chunk * VECTORS * CPU_LANES;
  CPU_UNROLL
  for (int j = 0; j < columns; j++) {
    const uint8_t *at = b->bytes + j * b->step + chunk * CPU_LANES * 4;
    const uint16_t *scales = b->scales + j * b->scales_step + chunk * CHUNK_GROUPS;
    uint16_t last[CHUNK_GROUPS] = {0};
    cpu_i32v word;
    if (words < CPU_LANES) {
      word = cpu_bits(cpu_load_part((const float *)(const void *)at, words, 0.0f));
      memcpy(last, scales, (size_t)words / 4 * sizeof *last);
      scales = last;
    } else {
      word = cpu_load_i32((const int32_t *)(const void *)at);
    }
    const cpu_f32v scale = cpu_load_fourfold(scales);
    const cpu_i32v low = word & lower, high = word >> 4 & lower;
    CPU_UNROLL
    for (int i = 0; i < rows; i++) {
      const int32_t *q = row + i * a_row;
      cpu_i32v whole = cpu_dot_bytes(cpu_load_i32(q + START * CPU_LANES), cpu_load_i32(q + LOWER * CPU_LANES), low);
      whole = cpu_dot_bytes(whole, cpu_load_i32(q + UPPER * CPU_LANES), high);
      sum[i][j] = cpu_fma(cpu_to_f32(whole), scale, sum[i][j]);
    }
  }
}

/* c [rows][columns] = units * (a @ b). rows and columns are known to the compiler. */
static inline __attribute__((always_inline)) void tile(int rows, int columns, const int32_t *a, int64_t a_row,
                                                       const float *units, const columns_of_b *b, int64_t groups,
                                                       float *c, int64_t c_row)
{
  cpu_f32v sum[ROWS][COLUMNS];
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int j = 0; j < columns; j++) {
      sum[i][j] = cpu_splat(0.0f);
    }
  }
  const int64_t whole = groups / CHUNK_GROUPS;
  for (int64_t chunk = 0; chunk < whole; chunk++) {
    chunk_of_tile(rows, columns, a, a_row, b, chunk, CPU_LANES, sum);
  }
  if (groups % CHUNK_GROUPS != 0) {
    chunk_of_tile(rows, columns, a, a_row, b, whole, groups % CHUNK_GROUPS * 4, sum);
  }
  CPU_UNROLL
  for (int i = 0; i < rows; i++) {
    CPU_UNROLL
    for (int j = 0; j < columns; j++) {
      c[i * c_row + j] = units[i] * cpu_sum(sum[i][j]);
    }
  }
}

static void tile_of(int64_t rows, int64_t columns, const int32_t *a, int64_t a_row, const float *units,
                    const columns_of_b *b, int64_t groups, float *c, int64_t c_row)
{
  if (rows == ROWS && columns == COLUMNS) {
    tile(ROWS, COLUMNS, a, a_row, units, b, groups, c, c_row);
  } else if (columns == COLUMNS) {
    for (int64_t i = 0; i < rows; i++) {
      tile(1, COLUMNS, a + i * a_row, a_row, units + i, b, groups, c + i * c_row, c_row);
    }
  } else {
    for (int64_t j = 0; j < columns; j++) {
      const columns_of_b one = {.bytes = b->bytes + j * b->step, .scales = b->scales + j * b->scales_step};
      for (int64_t i = 0; i < rows; i++) {
        tile(1, 1, a + i * a_row, a_row, units + i, &one, groups, c + i * c_row + j, c_row);
      }
    }
  }
}

/* Columns n .. n+count-1 of a matrix, laid out in `scratch` where they do not lie so. */
static columns_of_b columns_at(const cpu_product *product, int64_t matrix, int64_t n, int64_t count, void *scratch)
{
  const cpu_tensor *b = product->b, *scales = product->scales;
  const int64_t groups = groups_of(product), size = groups * TSR_I4_BYTES;
  const int64_t step = b->stride[product->axis], column = b->stride[product->axis + 1];
  const int64_t group_step = scales->stride[0], scales_column = scales->stride[1];
  const uint8_t *bytes = (const uint8_t *)b->data + cpu_at(b, product->axis, matrix) + n * column;
  const uint16_t *halves = (const uint16_t *)scales->data + n * scales_column;
  columns_of_b all = {.bytes = bytes, .scales = halves, .step = column, .scales_step = scales_column};
  if (step != 1) {
    uint8_t *to = scratch;
    for (int64_t i = 0; i < count * size; i++) {
      to[i] = bytes[i / size * column + i % size * step];
    }
    all.bytes = to;
    all.step = size;
  }
  if (group_step != 1 && groups > 1) {
    uint16_t *to = (uint16_t *)(void *)((char *)scratch + columns_size(product));
    for (int64_t i = 0; i < count * groups; i++) {
      to[i] = halves[i / groups * scales_column + i % groups * group_step];
    }
    all.scales = to;
    all.scales_step = groups;
  }
  return all;
}

void cpu_four_bits_part(const cpu_product *product, const void *shared, const cpu_part *part, float *c, int64_t c_row,
                        void *scratch)
{
  const int64_t first = part->matrix * product->rows + part->first, words = row_words(product);
  const int64_t columns = cpu_panel_columns(product, part->panel), groups = groups_of(product);
  const float *units = (const float *)shared + first;
  const int32_t *a = (const int32_t *)(const void *)((const char *)shared + units_size(product)) + first * words;
  for (int64_t near = 0; near < part->rows; near += NEAR_ROWS) {
    const int64_t end = part->rows - near < NEAR_ROWS ? part->rows : near + NEAR_ROWS;
    for (int64_t n = 0; n < columns; n += COLUMNS) {
      const int64_t some = columns - n < COLUMNS ? columns - n : COLUMNS;
      const columns_of_b b = columns_at(product, part->matrix, part->panel * CPU_PANEL + n, some, scratch);
      for (int64_t i = near; i < end; i += ROWS) {
        const int64_t rows = end - i < ROWS ? end - i : ROWS;
        tile_of(rows, some, a + i * words, words, units + i, &b, groups, c + i * c_row + n, c_row);
      }
    }
  }
}
