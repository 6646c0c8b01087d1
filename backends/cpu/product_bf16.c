/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of rows that are rounded to bf16 as they come: once per product, for all its columns.
 */
#include "product_bf16.h"

#include "matrix.h"

/* Two steps of k. */
enum { PAIR = 2 };

static int64_t words_of(int64_t depth)
{
  return cpu_matrix_words((depth + PAIR - 1) / PAIR);
}

int32_t cpu_rounded_suits(const cpu_line *line)
{
  return CPU_HAS_MATRIX && line->in[1].dtype == TSR_BF16 && line->attributes.reduced_precision != 0;
}

/* ---- b --------------------------------------------------------------------------------------------------------- */

int64_t cpu_rounded_elements(const cpu_product *product)
{
  return product->panels * CPU_PANEL * words_of(product->depth) * PAIR;
}

/* cpu_layout.pack: [batch][strips][words][CPU_STRIP][PAIR]; `to` is zeroed. */
void cpu_rounded_pack(const cpu_layout *layout, void *to)
{
  enum { STEPS = 64 }; /* of k at a time: what is written stays in the cache until all columns have come */
  const cpu_tensor *b = layout->from;
  const int32_t axis = b->rank - 2;
  const int64_t K = b->extent[axis], N = b->extent[axis + 1], words = words_of(K);
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1];
  const int64_t size = (N + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL * words * PAIR;
  for (int64_t matrix = 0; matrix < layout->matrices; matrix++) {
    const uint16_t *from = (const uint16_t *)b->data + cpu_at(b, axis, matrix);
    for (int64_t n0 = 0; n0 < N; n0 += CPU_STRIP) {
      const int64_t columns = N - n0 < CPU_STRIP ? N - n0 : CPU_STRIP;
      uint16_t *strip = (uint16_t *)to + matrix * size + n0 * words * PAIR;
      for (int64_t k0 = 0; k0 < K; k0 += STEPS) {
        const int64_t end = K - k0 < STEPS ? K : k0 + STEPS;
        for (int64_t n = 0; n < columns; n++) {
          for (int64_t k = k0; k < end; k++) {
            strip[(k / PAIR * CPU_STRIP + n) * PAIR + k % PAIR] = from[k * k_step + (n0 + n) * n_step];
          }
        }
      }
    }
  }
}

/* ---- a --------------------------------------------------------------------------------------------------------- */

static int64_t row_elements(const cpu_product *product)
{
  return cpu_matrix_row_words(words_of(product->depth)) * PAIR;
}

uint64_t cpu_rounded_shared(const cpu_product *product)
{
  return cpu_aligned((uint64_t)(product->batch * product->rows * row_elements(product)) * sizeof(uint16_t));
}

typedef struct rounding {
  const cpu_product *product;
  uint16_t *rows;
  int64_t n_tasks;
} rounding;

/* To nearest, ties to even; finite numbers beyond the largest to that. */
static inline cpu_u16v round_some(cpu_f32v x)
{
  const cpu_f32v most = cpu_splat(0x1.fep127f), least = cpu_splat(-0x1.fep127f);
  const cpu_i32v finite = cpu_abs(x) < cpu_splat(INFINITY);
  return cpu_to_bf16(cpu_select(finite, cpu_max(cpu_min(x, most), least), x));
}

/* n elements side by side. */
static void round_row(const float *a, int64_t n, uint16_t *to)
{
  const int64_t whole = n / CPU_LANES * CPU_LANES;
  for (int64_t k = 0; k < whole; k += CPU_LANES) {
    const cpu_u16v rounded = round_some(cpu_load(a + k));
    memcpy(to + k, &rounded, sizeof rounded);
  }
  if (whole < n) {
    const cpu_u16v rounded = round_some(cpu_load_part(a + whole, n - whole, 0.0f));
    memcpy(to + whole, &rounded, (size_t)(n - whole) * sizeof *to);
  }
}

static void round_task(const void *context, int64_t task, void *scratch)
{
  const rounding *job = context;
  const cpu_product *p = job->product;
  const cpu_tensor *a = p->a;
  const int64_t K = p->depth, total = p->batch * p->rows, step = a->stride[p->axis + 1];
  const int64_t elements = row_elements(p), used = words_of(K) * PAIR;
  const int64_t end = cpu_first(total, job->n_tasks, task + 1);
  for (int64_t i = cpu_first(total, job->n_tasks, task); i < end; i++) {
    const float *row = (const float *)a->data + cpu_at(a, p->axis, i / p->rows) + i % p->rows * a->stride[p->axis];
    uint16_t *to = job->rows + i * elements;
    if (step != 1 && K > 1) {
      cpu_widen_row(TSR_F32, row, step, K, scratch);
      row = scratch;
    }
    round_row(row, K, to);
    memset(to + K, 0, (size_t)(used - K) * sizeof *to);
  }
}

void cpu_round(const cpu_product *product, cpu_team *team, void *shared)
{
  const int64_t rows = product->batch * product->rows;
  const rounding job = {
      .product = product,
      .rows = shared,
      .n_tasks = cpu_tasks(rows, (double)product->depth / CPU_LANES * 8.0),
  };
  cpu_parallel(team, job.n_tasks, round_task, &job);
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

uint64_t cpu_rounded_scratch(const cpu_product *product)
{
  const uint64_t row = (uint64_t)product->depth * sizeof(float); /* of a, while it is rounded */
  const uint64_t sums = CPU_MATRIX_SUMS * sizeof(float);
  return row > sums ? row : sums;
}

void cpu_rounded_part(const cpu_product *product, const void *shared, const cpu_part *part, float *c, int64_t c_row,
                      void *scratch)
{
  const int64_t words = words_of(product->depth), elements = row_elements(product);
  const int64_t columns = cpu_panels_columns(product, part->panel, part->panels);
  const float *sums = scratch;
  const cpu_matrix_block block = {
      .kind = CPU_MATRIX_BF16,
      .first_time = part->first_time,
      .last_time = part->last_time,
      .rows = part->rows,
      .a = (const uint16_t *)shared + (part->matrix * product->rows + part->first) * elements,
      .a_step = elements * (int64_t)sizeof(uint16_t),
      .b = (const uint16_t *)product->packed + part->matrix * product->packed_step +
           part->panel * CPU_PANEL * words * PAIR,
      .words = words,
      .strips = part->panels * CPU_PANEL_STRIPS,
      .c = scratch,
      .c_row = CPU_MATRIX_SUMS_ROW,
  };
  cpu_matrix_multiply(&block);
  for (int64_t i = 0; i < part->rows; i++) {
    memcpy(c + i * c_row, sums + i * block.c_row, (size_t)columns * sizeof *c);
  }
}
