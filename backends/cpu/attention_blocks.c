/* SPDX-License-Identifier: Apache-2.0
 *
 * What the variants of attention and its gradient compute with: transposes and products of a tile's size, whose sums
 * stay in registers, and a tile's dropout.
 */
#include "attention.h"

/* Rows and vectors of a block of a product. */
enum { BLOCK_ROWS = CPU_ATTENTION_ROWS, BLOCK_VECTORS = 2 };

/* to[c * to_row + r] = from[r * from_row + c * from_step], up to CPU_LANES rows and columns. */
static void turn_square(const float *from, int64_t from_row, int64_t from_step, int64_t rows, int64_t columns,
                        float *to, int64_t to_row)
{
  cpu_f32v v[CPU_LANES];
  for (int64_t r = 0; r < CPU_LANES; r++) {
    float room[CPU_LANES];
    v[r] = r < rows ? cpu_load_part(cpu_side_by_side(from + r * from_row, from_step, columns, room), columns, 0.0f)
                    : cpu_splat(0.0f);
  }
  cpu_transpose(v);
  for (int64_t c = 0; c < columns; c++) {
    cpu_store_part(to + c * to_row, v[c], rows);
  }
}

void cpu_attention_turn(const float *from, int64_t from_row, int64_t from_step, int64_t rows, int64_t columns,
                        float *to, int64_t to_row)
{
  for (int64_t r = 0; r < rows; r += CPU_LANES) {
    for (int64_t c = 0; c < columns; c += CPU_LANES) {
      const int64_t height = rows - r, width = columns - c;
      turn_square(from + r * from_row + c * from_step, from_row, from_step, height < CPU_LANES ? height : CPU_LANES,
                  width < CPU_LANES ? width : CPU_LANES, to + c * to_row + r, to_row);
    }
  }
}

void cpu_attention_columns(const float *from, int64_t from_row, int64_t from_step, int64_t rows, int64_t columns,
                           float *to)
{
  const int64_t last = cpu_whole(rows) - CPU_LANES;
  for (int64_t i = 0; i < columns; i++) {
    cpu_store(to + i * CPU_ATTENTION_TILE + last, cpu_splat(0.0f));
  }
  cpu_attention_turn(from, from_row, from_step, rows, columns, to, CPU_ATTENTION_TILE);
}

/* One block of c, whose first element is c[0] here; likewise a, b, factor, scale. rows and vectors are numbers that the
 * compiler knows. */
static inline __attribute__((always_inline)) void multiply_block(int rows, int vectors, const cpu_small_product *p,
                                                                 const float *a, const float *b, const float *factor,
                                                                 const float *scale, float *c)
{
  const int64_t a_row = p->a_row, a_step = p->a_step, b_row = p->b_row, c_row = p->c_row, depth = p->depth;
  cpu_f32v sum[BLOCK_ROWS][BLOCK_VECTORS], last[BLOCK_VECTORS];
  if (factor) {
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      const cpu_f32v first = cpu_load(factor + v * CPU_LANES);
      CPU_UNROLL
      for (int r = 0; r < rows; r++) {
        sum[r][v] = cpu_load(c + r * c_row + v * CPU_LANES) * first;
      }
    }
  } else {
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      CPU_UNROLL
      for (int r = 0; r < rows; r++) {
        sum[r][v] = cpu_splat(0.0f);
      }
    }
  }
  for (int64_t i = 0; i < depth; i++) {
    cpu_f32v columns[BLOCK_VECTORS];
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      columns[v] = cpu_load(b + i * b_row + v * CPU_LANES);
    }
    CPU_UNROLL
    for (int r = 0; r < rows; r++) {
      const cpu_f32v x = cpu_splat(a[r * a_row + i * a_step]);
      CPU_UNROLL
      for (int v = 0; v < vectors; v++) {
        sum[r][v] = cpu_fma(x, columns[v], sum[r][v]);
      }
    }
  }
  CPU_UNROLL
  for (int v = 0; v < vectors; v++) {
    last[v] = cpu_load(scale + v * CPU_LANES);
  }
  CPU_UNROLL
  for (int r = 0; r < rows; r++) {
    CPU_UNROLL
    for (int v = 0; v < vectors; v++) {
      cpu_store(c + r * c_row + v * CPU_LANES, sum[r][v] * last[v]);
    }
  }
}

typedef void (*block_fn)(const cpu_small_product *p, const float *a, const float *b, const float *factor,
                         const float *scale, float *c);

#define BLOCK(rows, vectors)                                                                                           \
  static void block_##rows##_##vectors(const cpu_small_product *p, const float *a, const float *b,                     \
                                       const float *factor, const float *scale, float *c)                              \
  {                                                                                                                    \
    multiply_block(rows, vectors, p, a, b, factor, scale, c);                                                          \
  }
#define BLOCKS(rows) BLOCK(rows, 1) BLOCK(rows, 2)
BLOCKS(1)
BLOCKS(2)
BLOCKS(3)
BLOCKS(4)
#if CPU_LANES >= 8 || CPU_REGISTERS == 32
BLOCKS(5)
BLOCKS(6)
#endif
#if CPU_REGISTERS == 32
BLOCKS(7)
BLOCKS(8)
#endif

static const block_fn blocks[BLOCK_ROWS][BLOCK_VECTORS] = {
    {block_1_1, block_1_2}, {block_2_1, block_2_2}, {block_3_1, block_3_2}, {block_4_1, block_4_2},
#if CPU_LANES >= 8 || CPU_REGISTERS == 32
    {block_5_1, block_5_2}, {block_6_1, block_6_2},
#endif
#if CPU_REGISTERS == 32
    {block_7_1, block_7_2}, {block_8_1, block_8_2},
#endif
};

void cpu_attention_multiply(const cpu_small_product *p)
{
  /* Blocks of about the same height. */
  const int64_t n_blocks = (p->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const int64_t least = n_blocks > 0 ? p->rows / n_blocks : 0, taller = p->rows - n_blocks * least;
  for (int64_t i = 0, r = 0; i < n_blocks; i++) {
    const int64_t height = least + (i < taller);
    for (int64_t v = 0; v < p->vectors; v += BLOCK_VECTORS) {
      const int64_t at = v * CPU_LANES, width = p->vectors - v < BLOCK_VECTORS ? p->vectors - v : BLOCK_VECTORS;
      blocks[height - 1][width - 1](p, p->a + r * p->a_row, p->b + at, p->factor ? p->factor + at : NULL, p->scale + at,
                                    p->c + r * p->c_row + at);
    }
    r += height;
  }
}

int cpu_attention_finite(const float *x, int64_t row, int64_t rows, int64_t n)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  cpu_f32v sum = zero;
  for (int64_t r = 0; r < rows; r++) {
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
      sum += cpu_load(x + r * row + i) * zero;
    }
    sum += cpu_load_part(x + r * row + i, n - i, 0.0f) * zero;
  }
  return !cpu_any(sum != zero);
}

int64_t cpu_attention_factors(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t queries, int64_t first,
                              int64_t n, int64_t width, float *factors)
{
  const uint64_t at = (uint64_t)(((b * a->H + h) * a->L + l) * a->S + first);
  if (a->S <= width) { /* all keys: the rows follow one another */
    cpu_dropout_factors(&a->dropout, at, (queries - 1) * a->S + n, factors);
    return a->S;
  }
  for (int64_t i = 0; i < queries; i++) {
    cpu_dropout_factors(&a->dropout, at + (uint64_t)(i * a->S), n, factors + i * width);
  }
  return width;
}

/* ---- of a line --------------------------------------------------------------------------------------------------- */

typedef struct attention_plan {
  const int32_t *starts; /* cpu_prepare_masking */
} attention_plan;

cpu_attention cpu_attention_of(const cpu_line *line)
{
  const cpu_tensor *q = &line->in[0], *k = &line->in[1], *v = &line->in[2];
  const attention_plan *plan = line->plan;
  return (cpu_attention){
      .q = q,
      .k = k,
      .v = v,
      .rows = cpu_operand(line, 7),
      .seed = cpu_operand(line, 8),
      .masking = cpu_masking_of(line, 3, plan->starts),
      .alpha = line->attributes.alpha,
      .softcap = line->attributes.softcap,
      .sharing = k->extent[2] > 0 ? q->extent[2] / k->extent[2] : 1,
      .B = q->extent[0],
      .L = q->extent[1],
      .S = k->extent[1],
      .H = q->extent[2],
      .K = q->extent[3],
      .J = v->extent[3],
      .keys = k->extent[0] > 0 ? k->extent[1] : 0,
  };
}

const cpu_tensor *cpu_attention_result(const cpu_line *line, int32_t index)
{
  return cpu_present(&line->out[index]) ? &line->out[index] : NULL;
}

int cpu_prepare_attention_plan(cpu_line *line, cpu_preparation *preparation)
{
  attention_plan *plan = cpu_ask_memory(preparation, sizeof *plan);
  line->plan = plan;
  return plan && cpu_prepare_masking(line, 3, preparation, &plan->starts) == TSR_OK;
}

int64_t cpu_attention_visible(const cpu_attention *a)
{
  int64_t sum = 0;
  for (int64_t b = 0; b < a->B; b++) {
    sum += cpu_visible_keys(&a->masking, b, a->L - 1, a->keys);
  }
  return sum;
}

void cpu_attention_drop_out(cpu_attention *a, const cpu_line *line)
{
  if (a->seed) {
    a->dropout = cpu_dropout_of(a->seed, &line->attributes);
  }
}

/* ---- of a query -------------------------------------------------------------------------------------------------- */

void cpu_attention_places(const cpu_attention *a, int64_t b, int64_t first, int64_t n, cpu_places *places)
{
  places->any_outside = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t row = b;
    if (a->rows) {
      row = ((const int32_t *)a->rows->data)[b * a->rows->stride[0] + (first + i) * a->rows->stride[1]];
      places->outside[i] = row < 0 || row >= a->k->extent[0];
      places->any_outside |= places->outside[i];
      row = places->outside[i] ? 0 : row;
    }
    places->k[i] = row * a->k->stride[0] + (first + i) * a->k->stride[1];
    places->v[i] = row * a->v->stride[0] + (first + i) * a->v->stride[1];
  }
  for (int64_t i = n; i < cpu_whole(n); i++) {
    places->k[i] = places->k[n - 1];
    places->v[i] = places->v[n - 1];
  }
}

/* tanh(z) to about two units in the last place: near 0 by a polynomial (Cephes), where the quotient would cancel. */
static inline cpu_f32v tanh_of(cpu_f32v z)
{
  const cpu_f32v one = cpu_splat(1.0f), two = cpu_splat(2.0f), s = z * z;
  const cpu_f32v size = cpu_min(cpu_splat(20.0f), cpu_abs(z)); /* beyond, it is 1; NaN stays */
  cpu_f32v p = cpu_splat(-5.70498872745e-3f);
  p = cpu_fma(p, s, cpu_splat(2.06390887954e-2f));
  p = cpu_fma(p, s, cpu_splat(-5.37397155531e-2f));
  p = cpu_fma(p, s, cpu_splat(1.33314422036e-1f));
  p = cpu_fma(p, s, cpu_splat(-3.33332819422e-1f));
  const cpu_f32v far = one - two / (cpu_exp(two * size) + one);
  return cpu_select(size < cpu_splat(0.625f), cpu_fma(p * s, z, z), cpu_select(z < cpu_splat(0.0f), -far, far));
}

void cpu_attention_cap(const cpu_attention *a, float *scores, int64_t n)
{
  const cpu_f32v cap = cpu_splat(a->softcap);
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    cpu_store(scores + s, cap * tanh_of(cpu_load(scores + s) / cap));
  }
}

void cpu_attention_bias(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n,
                        float *scores, float *room)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  const float *additive = NULL, *relative = NULL;
  if (a->masking.additive) {
    additive = cpu_additive_row(&a->masking, b, h, l, first, n, room);
  }
  if (a->masking.relative) {
    cpu_relative_row(&a->masking, b, h, l, first, n, room + CPU_KEYS);
    relative = room + CPU_KEYS;
  }
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    const int64_t part = n - s < CPU_LANES ? n - s : CPU_LANES;
    cpu_store(scores + s, cpu_biased(cpu_load(scores + s), additive ? cpu_load_part(additive + s, part, 0.0f) : zero,
                                     relative ? cpu_load_part(relative + s, part, 0.0f) : zero));
  }
}

void cpu_attention_weights(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t end, float max, float sum)
{
  const cpu_tensor *t = a->weights;
  float *w = (float *)t->data + b * t->stride[0] + h * t->stride[1] + l * t->stride[2];
  const float inverse = cpu_attention_inverse(sum);
  const cpu_f32v shift = cpu_attention_shift(cpu_splat(max));
  for (int64_t s = 0; s < end; s += CPU_LANES) {
    const int64_t part = end - s < CPU_LANES ? end - s : CPU_LANES;
    const cpu_f32v score = cpu_load_part(w + s, part, 0.0f);
    cpu_store_part(w + s, cpu_exp(score - shift) * cpu_splat(inverse), part);
  }
  for (int64_t s = end; s < a->S; s++) {
    w[s] = 0.0f * inverse; /* NaN in a row that is NaN */
  }
}

void cpu_attention_lse(const cpu_attention *a, int64_t b, int64_t h, int64_t l, float max, float sum)
{
  const cpu_tensor *t = a->lse;
  float *lse = (float *)t->data + b * t->stride[0] + h * t->stride[1] + l * t->stride[2];
  *lse = sum == 0.0f ? -INFINITY : max + logf(sum);
}
