/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of layernorm and rmsnorm. rmsnorm is layernorm without the mean, and so is its gradient: with n = (x -
 * mean) r and h = dy gain, dx = r (h - mean(h) - n mean(h n)), in which mean(x) and mean(h) are 0 for rmsnorm. Where
 * the unbiased deviation s stands in r = 1 / (s + epsilon), sum(h n) / (N - 1) (s + epsilon) / s takes the place of
 * mean(h n).
 *
 * A line may be fused with the sum that makes its dy, and with the dropout of its dx.
 *
 * The sums over rows, dgain and dbias, are taken in parts: each task adds up its own rows, then the parts are added in
 * order. How many parts there are depends on the shape alone.
 */
#include "dropout.h"
#include "rows.h"

typedef struct norm_work {
  const cpu_line *line;
  int64_t n_rows, n_parts;
  float *parts;        /* [n_parts][2][room of a row]: of dgain, of dbias */
  cpu_dropout dropout; /* of dx, if there is one */
} norm_work;

static int64_t parts_of(const cpu_line *line)
{
  const cpu_tensor *x = &line->in[0];
  return cpu_tasks(cpu_rows(x), 80.0 + 30.0 * (double)cpu_row_length(x) / CPU_LANES);
}

int32_t cpu_prepare_norm_gradient(cpu_line *line, cpu_preparation *preparation)
{
  const uint64_t row = (uint64_t)cpu_room(cpu_row_length(&line->in[0])) * sizeof(float);
  cpu_ask_shared(preparation, (uint64_t)parts_of(line) * 2 * row);
  return cpu_prepare_rows(line, preparation);
}

static inline cpu_f32v load_some(const float *p, int64_t n)
{
  return n >= CPU_LANES ? cpu_load(p) : cpu_load_part(p, n, 0.0f);
}

static inline void store_some(float *p, cpu_f32v v, int64_t n)
{
  if (n >= CPU_LANES) {
    cpu_store(p, v);
  } else {
    cpu_store_part(p, v, n);
  }
}

/* Of one row. */
typedef struct row_sums {
  float mean, mean_h;
  float r;       /* 1 / sqrt(variance + epsilon), or 1 / (s + epsilon) */
  float mean_hn; /* of h (x - mean) r, or what takes its place */
} row_sums;

static inline row_sums sums_of(int centred, const float *x, const float *gain, const float *dy, int64_t n,
                               const tsr_op_attributes *attributes)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  cpu_f32v s0 = zero, s1 = zero, h0 = zero, h1 = zero;
  row_sums sums = {0};
  int64_t i = 0;
  if (centred) {
    for (; i + 2 * CPU_LANES <= n; i += 2 * CPU_LANES) {
      s0 += cpu_load(x + i);
      s1 += cpu_load(x + i + CPU_LANES);
      h0 = cpu_fma(cpu_load(dy + i), cpu_load(gain + i), h0);
      h1 = cpu_fma(cpu_load(dy + i + CPU_LANES), cpu_load(gain + i + CPU_LANES), h1);
    }
    for (; i < n; i += CPU_LANES) {
      s0 += load_some(x + i, n - i);
      h0 = cpu_fma(load_some(dy + i, n - i), load_some(gain + i, n - i), h0);
    }
    sums.mean = cpu_sum(s0 + s1) / (float)n;
    sums.mean_h = cpu_sum(h0 + h1) / (float)n;
  }
  const cpu_f32v mean = cpu_splat(sums.mean);
  s0 = s1 = h0 = h1 = zero;
  for (i = 0; i + 2 * CPU_LANES <= n; i += 2 * CPU_LANES) {
    const cpu_f32v d0 = cpu_load(x + i) - mean, d1 = cpu_load(x + i + CPU_LANES) - mean;
    s0 = cpu_fma(d0, d0, s0);
    s1 = cpu_fma(d1, d1, s1);
    h0 = cpu_fma(cpu_load(dy + i) * cpu_load(gain + i), d0, h0);
    h1 = cpu_fma(cpu_load(dy + i + CPU_LANES) * cpu_load(gain + i + CPU_LANES), d1, h1);
  }
  for (; i < n; i += CPU_LANES) {
    const cpu_f32v d = cpu_load_part(x + i, n - i < CPU_LANES ? n - i : CPU_LANES, sums.mean) - mean;
    s0 = cpu_fma(d, d, s0);
    h0 = cpu_fma(load_some(dy + i, n - i) * load_some(gain + i, n - i), d, h0);
  }
  if (centred && attributes->unbiased) {
    const float degrees = (float)(n > 1 ? n - 1 : 1), s = sqrtf(cpu_sum(s0 + s1) / degrees);
    sums.r = 1.0f / (s + attributes->epsilon);
    sums.mean_hn = s == 0.0f ? 0.0f : cpu_sum(h0 + h1) * sums.r / degrees * ((s + attributes->epsilon) / s);
  } else {
    sums.r = 1.0f / sqrtf(cpu_sum(s0 + s1) / (float)n + attributes->epsilon);
    sums.mean_hn = cpu_sum(h0 + h1) * sums.r / (float)n;
  }
  return sums;
}

/* One vector of the row's results; n may be more than it has. */
static inline void gradient_step(int centred, const row_sums *sums, const float *x, const float *gain, const float *dy,
                                 int64_t n, float *dx, float *dgain, float *dbias)
{
  const cpu_f32v dyi = load_some(dy, n), normal = (load_some(x, n) - cpu_splat(sums->mean)) * cpu_splat(sums->r);
  cpu_f32v h = dyi * load_some(gain, n);
  if (centred) {
    h -= cpu_splat(sums->mean_h);
    cpu_store(dbias, cpu_load(dbias) + dyi);
  }
  store_some(dx, (h - normal * cpu_splat(sums->mean_hn)) * cpu_splat(sums->r), n);
  cpu_store(dgain, cpu_fma(dyi, normal, cpu_load(dgain)));
}

/* dgain and dbias have room for whole vectors. */
static inline void gradient_row(int centred, const float *x, const float *gain, const float *dy, int64_t n,
                                const tsr_op_attributes *attributes, float *dx, float *dgain, float *dbias)
{
  const row_sums sums = sums_of(centred, x, gain, dy, n, attributes);
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    gradient_step(centred, &sums, x + i, gain + i, dy + i, CPU_LANES, dx + i, dgain + i, dbias + i);
  }
  if (i < n) {
    gradient_step(centred, &sums, x + i, gain + i, dy + i, n - i, dx + i, dgain + i, dbias + i);
  }
}

/* dy's row: where it lies side by side, or else in room; that of a sum is made there. */
static const float *dy_row(const cpu_line *line, const cpu_row_map *dy_rows, const cpu_row_map *more_rows, int64_t row,
                           float *room)
{
  const cpu_tensor *dy = &line->in[2], *more = &line->in[CPU_IN_NORM_MORE];
  const int64_t N = cpu_row_length(dy), step = cpu_row_stride(dy), more_step = cpu_row_stride(more);
  const float *a = (const float *)dy->data + cpu_row_at(dy_rows, row), *b = more->data;
  int64_t i = 0;
  if (!cpu_present(more)) {
    return cpu_side_by_side(a, step, N, room);
  }
  b += cpu_row_at(more_rows, row);
  for (; step == 1 && more_step == 1 && i + CPU_LANES <= N; i += CPU_LANES) {
    cpu_store(room + i, cpu_load(a + i) + cpu_load(b + i));
  }
  for (; i < N; i++) {
    room[i] = a[i * step] + b[i * more_step];
  }
  return room;
}

static void rows_task(const void *context, int64_t task, void *scratch)
{
  const norm_work *work = context;
  const cpu_line *line = work->line;
  const cpu_tensor *x = &line->in[0], *gain = &line->in[1], *dy = &line->in[2], *dx = &line->out[0];
  const cpu_tensor *more = &line->in[CPU_IN_NORM_MORE], *dropped = &line->out[CPU_OUT_NORM_DROPPED];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x)), dy_rows = cpu_row_map_of(dy, cpu_last(dy));
  const cpu_row_map more_rows = cpu_row_map_of(more, cpu_last(more));
  const int64_t N = cpu_row_length(x), end = cpu_first(work->n_rows, work->n_parts, task + 1);
  float *room = scratch, *dgain = work->parts + task * 2 * cpu_room(N), *dbias = dgain + cpu_room(N);
  const float *gains = cpu_side_by_side(gain->data, gain->stride[0], N, room + 2 * cpu_room(N));

  memset(dgain, 0, 2 * (size_t)cpu_room(N) * sizeof *dgain);
  for (int64_t row = cpu_first(work->n_rows, work->n_parts, task); row < end; row++) {
    const float *xi = (const float *)x->data + cpu_row_at(&x_rows, row);
    const float *dyi = dy_row(line, &dy_rows, &more_rows, row, room + cpu_room(N));
    float *to = (float *)dx->data + row * N;
    xi = cpu_side_by_side(xi, cpu_row_stride(x), N, room);
    if (line->op == TSR_OP_LAYERNORM_GRADIENT) {
      gradient_row(1, xi, gains, dyi, N, &line->attributes, to, dgain, dbias);
    } else {
      gradient_row(0, xi, gains, dyi, N, &line->attributes, to, dgain, dbias);
    }
    if (cpu_present(dropped)) {
      cpu_dropout_row(&work->dropout, (uint64_t)(row * N), to, N, (float *)dropped->data + row * N);
    }
  }
}

/* The sums of a result: the parts' rows, one after another. */
static void add_parts(const norm_work *work, int64_t which, const cpu_tensor *sums)
{
  const int64_t N = cpu_row_length(&work->line->in[0]);
  const float *parts = work->parts + which * cpu_room(N);
  for (int64_t i = 0; cpu_present(sums) && i < N; i += CPU_LANES) {
    cpu_f32v sum = cpu_splat(0.0f);
    for (int64_t part = 0; part < work->n_parts; part++) {
      sum += cpu_load(parts + part * 2 * cpu_room(N) + i);
    }
    store_some((float *)sums->data + i, sum, N - i);
  }
}

void cpu_run_norm_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *gain = &line->in[1], *dy = &line->in[2], *dx = &line->out[0];
  const int64_t N = cpu_row_length(x);
  norm_work work = {.line = line, .n_rows = cpu_rows(x), .n_parts = parts_of(line), .parts = cpu_shared(team)};
  assert(x->dtype == TSR_F32 && dy->dtype == TSR_F32 && dx->dtype == TSR_F32);
  assert(cpu_row_length(dy) == N && cpu_row_length(dx) == N && gain->rank == 1 && gain->extent[0] == N);
  assert(line->attributes.epsilon > 0 && line->out[1].extent[0] == N);
  if (cpu_present(&line->in[CPU_IN_NORM_SEED])) {
    work.dropout = cpu_dropout_of(&line->in[CPU_IN_NORM_SEED], &line->attributes);
  }
  if (N > 0) {
    cpu_parallel(team, work.n_parts, rows_task, &work);
    add_parts(&work, 0, &line->out[1]);
    add_parts(&work, 1, &line->out[2]);
  }
}
