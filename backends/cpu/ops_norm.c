/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm, rmsnorm, and layernorm of a sum, one part of which may be dropped out, along the last axis.
 */
#include "dropout.h"
#include "rows.h"

/* ((x + x) + (x + x)) over the lanes, then over the lanes' halves: the order depends on n alone. `power` 1: the sum
 * of x - shift, 2: of its squares. */
static inline float sum_of_powers(const float *x, int64_t n, float shift, int power)
{
  const cpu_f32v by = cpu_splat(shift);
  cpu_f32v s[4] = {cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f)};
  int64_t i = 0;
  for (; i + 4 * CPU_LANES <= n; i += 4 * CPU_LANES) {
    for (int j = 0; j < 4; j++) {
      const cpu_f32v d = cpu_load(x + i + j * CPU_LANES) - by;
      s[j] = power == 1 ? s[j] + d : cpu_fma(d, d, s[j]);
    }
  }
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    const cpu_f32v d = cpu_load(x + i) - by;
    s[0] = power == 1 ? s[0] + d : cpu_fma(d, d, s[0]);
  }
  if (i < n) {
    const cpu_f32v d = cpu_load_part(x + i, n - i, shift) - by;
    s[1] = power == 1 ? s[1] + d : cpu_fma(d, d, s[1]);
  }
  return cpu_sum((s[0] + s[1]) + (s[2] + s[3]));
}

/* y = (x - shift) * factor * gain + bias (NULL: 0); y may be x. */
static inline void normalise(const float *x, float shift, float factor, const float *gain, const float *bias, int64_t n,
                             float *y)
{
  const cpu_f32v by = cpu_splat(shift), scale = cpu_splat(factor);
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    const cpu_f32v normal = (cpu_load(x + i) - by) * scale, g = cpu_load(gain + i);
    cpu_store(y + i, bias ? cpu_fma(normal, g, cpu_load(bias + i)) : normal * g);
  }
  if (i < n) {
    const int64_t rest = n - i;
    const cpu_f32v normal = (cpu_load_part(x + i, rest, 0.0f) - by) * scale, g = cpu_load_part(gain + i, rest, 0.0f);
    cpu_store_part(y + i, bias ? cpu_fma(normal, g, cpu_load_part(bias + i, rest, 0.0f)) : normal * g, rest);
  }
}

static void layernorm_row(const float *x, const float *gain, const float *bias, const tsr_op_attributes *attributes,
                          int64_t n, float *y)
{
  const float mean = sum_of_powers(x, n, 0.0f, 1) / (float)n, squares = sum_of_powers(x, n, mean, 2);
  const float factor = attributes->unbiased ? 1.0f / (sqrtf(squares / (float)(n > 1 ? n - 1 : 1)) + attributes->epsilon)
                                            : 1.0f / sqrtf(squares / (float)n + attributes->epsilon);
  if (bias) {
    normalise(x, mean, factor, gain, bias, n, y);
  } else {
    normalise(x, mean, factor, gain, NULL, n, y);
  }
}

/* A vector operand, side by side; NULL if it is absent. */
static const float *vector_of(const cpu_tensor *t, float *room)
{
  return cpu_present(t) ? cpu_side_by_side(t->data, t->stride[0], t->extent[0], room) : NULL;
}

static void layernorm_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x));
  const int64_t N = cpu_row_length(x);
  float *room = scratch;
  const float *gain = vector_of(&line->in[1], room + cpu_room(N));
  const float *bias = vector_of(&line->in[2], room + 2 * cpu_room(N));

  for (int64_t row = first; row < last; row++) {
    const float *from = (const float *)x->data + cpu_row_at(&x_rows, row);
    layernorm_row(cpu_side_by_side(from, cpu_row_stride(x), N, room), gain, bias, &line->attributes, N,
                  (float *)y->data + row * N);
  }
}

static double cost_of(int64_t n)
{
  return 50.0 + 10.0 * (double)n / CPU_LANES;
}

void cpu_run_layernorm(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *gain = &line->in[1], *bias = &line->in[2], *y = &line->out[0];
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && cpu_row_length(y) == cpu_row_length(x));
  assert(gain->dtype == TSR_F32 && gain->rank == 1 && gain->extent[0] == cpu_row_length(x));
  assert(!cpu_present(bias) || (bias->dtype == TSR_F32 && bias->rank == 1 && bias->extent[0] == cpu_row_length(x)));
  assert(line->attributes.epsilon > 0);
  cpu_run_rows(line, team, cpu_rows(y), cost_of(cpu_row_length(x)), layernorm_rows);
}

/* The sum's row stands in scratch, or in out[1], before y's is written: y may lie where a or b does. */
static void add_layernorm_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *a = &line->in[0], *b = &line->in[1], *y = &line->out[0], *sum = &line->out[1], *seed = &line->in[4];
  const cpu_row_map a_rows = cpu_row_map_of(a, cpu_last(a)), b_rows = cpu_row_map_of(b, cpu_last(b));
  const int64_t N = cpu_row_length(a), a_step = cpu_row_stride(a);
  const cpu_dropout dropout =
      cpu_present(seed) ? cpu_dropout_of(seed, &line->attributes) : (cpu_dropout){.scale = 1.0f};
  int64_t b_step = cpu_row_stride(b);
  float *room = scratch, *dropped = room + 3 * cpu_room(N);
  const float *gain = vector_of(&line->in[2], room + cpu_room(N));
  const float *bias = vector_of(&line->in[3], room + 2 * cpu_room(N));

  for (int64_t row = first; row < last; row++) {
    const float *ai = (const float *)a->data + cpu_row_at(&a_rows, row);
    const float *bi = (const float *)b->data + cpu_row_at(&b_rows, row);
    float *s = cpu_present(sum) ? (float *)sum->data + row * N : room;
    int64_t i = 0;
    if (cpu_present(seed)) {
      cpu_dropout_row(&dropout, (uint64_t)(row * N), cpu_side_by_side(bi, cpu_row_stride(b), N, dropped), N, dropped);
      bi = dropped;
      b_step = 1;
    }
    for (; a_step == 1 && b_step == 1 && i + CPU_LANES <= N; i += CPU_LANES) {
      cpu_store(s + i, cpu_load(ai + i) + cpu_load(bi + i));
    }
    for (; i < N; i++) {
      s[i] = ai[i * a_step] + bi[i * b_step];
    }
    layernorm_row(s, gain, bias, &line->attributes, N, (float *)y->data + row * N);
  }
}

void cpu_run_add_layernorm(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *a = &line->in[0], *b = &line->in[1], *gain = &line->in[2], *bias = &line->in[3];
  const cpu_tensor *y = &line->out[0], *sum = &line->out[1];
  assert(a->dtype == TSR_F32 && b->dtype == TSR_F32 && y->dtype == TSR_F32 && a->rank == b->rank);
  assert(cpu_row_length(y) == cpu_row_length(a) && cpu_row_length(b) == cpu_row_length(a));
  assert(gain->dtype == TSR_F32 && gain->rank == 1 && gain->extent[0] == cpu_row_length(a));
  assert(!cpu_present(bias) || (bias->dtype == TSR_F32 && bias->rank == 1 && bias->extent[0] == cpu_row_length(a)));
  assert(!cpu_present(sum) || (sum->dtype == TSR_F32 && cpu_row_length(sum) == cpu_row_length(a)));
  cpu_run_rows(line, team, cpu_rows(y), cost_of(cpu_row_length(a)), add_layernorm_rows);
}

static void rmsnorm_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x));
  const int64_t N = cpu_row_length(x);
  float *room = scratch;
  const float *gain = vector_of(&line->in[1], room + cpu_room(N));

  for (int64_t row = first; row < last; row++) {
    const float *from = (const float *)x->data + cpu_row_at(&x_rows, row);
    const float *xi = cpu_side_by_side(from, cpu_row_stride(x), N, room);
    const float mean_square = sum_of_powers(xi, N, 0.0f, 2) / (float)N;
    normalise(xi, 0.0f, 1.0f / sqrtf(mean_square + line->attributes.epsilon), gain, NULL, N,
              (float *)y->data + row * N);
  }
}

void cpu_run_rmsnorm(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *gain = &line->in[1], *y = &line->out[0];
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && cpu_row_length(y) == cpu_row_length(x));
  assert(gain->dtype == TSR_F32 && gain->rank == 1 && gain->extent[0] == cpu_row_length(x));
  assert(line->attributes.epsilon > 0);
  cpu_run_rows(line, team, cpu_rows(y), cost_of(cpu_row_length(x)), rmsnorm_rows);
}
