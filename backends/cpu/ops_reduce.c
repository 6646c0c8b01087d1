/* SPDX-License-Identifier: Apache-2.0
 *
 * y = sum of x over the chosen axes, and the sum of all squares.
 */
#include "rows.h"

enum { SUMS = 4 }; /* vectors that are added to at a time */

typedef struct reduce_work {
  cpu_walk kept;   /* x, y: where the sums are */
  cpu_walk summed; /* x: what is added up behind each of them */
  const float *x;
  float *y;
} reduce_work;

/* The first n of a vector's elements, `stride` apart; the others are 0. */
static inline cpu_f32v load_apart(const float *p, int64_t stride, int64_t n)
{
  float part[CPU_LANES] = {0};
  if (stride == 1) {
    return n >= CPU_LANES ? cpu_load(p) : cpu_load_part(p, n, 0.0f);
  }
  for (int64_t i = 0; i < n && i < CPU_LANES; i++) {
    part[i] = p[i * stride];
  }
  return cpu_load(part);
}

/* Where run `run` of the elements that are added up begins. */
static int64_t run_at(const cpu_walk *summed, int64_t run)
{
  if (run == 0) {
    return 0;
  }
  const int64_t i1 = run % summed->extent[1], i2 = run / summed->extent[1] % summed->extent[2];
  const int64_t i3 = run / summed->extent[1] / summed->extent[2];
  return i1 * summed->stride[0][1] + i2 * summed->stride[0][2] + i3 * summed->stride[0][3];
}

/* One sum. */
static float sum_of(const cpu_walk *summed, const float *x)
{
  const int64_t n = summed->extent[0], stride = summed->stride[0][0];
  cpu_f32v s[SUMS] = {cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f)};
  for (int64_t run = 0; run < summed->n_runs; run++) {
    const float *from = x + run_at(summed, run);
    int64_t i = 0;
    for (; i + SUMS * CPU_LANES <= n; i += SUMS * CPU_LANES) {
      for (int j = 0; j < SUMS; j++) {
        s[j] += load_apart(from + (i + j * CPU_LANES) * stride, stride, CPU_LANES);
      }
    }
    for (; i < n; i += CPU_LANES) {
      s[0] += load_apart(from + i * stride, stride, n - i);
    }
  }
  return cpu_sum((s[0] + s[1]) + (s[2] + s[3]));
}

/* As many sums as fill up to SUMS vectors, n of them, whose elements lie side by side. */
static void sum_columns(const cpu_walk *summed, const float *x, int64_t n, float *y)
{
  const int64_t rows = summed->extent[0], stride = summed->stride[0][0];
  cpu_f32v s[SUMS] = {cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f)};
  for (int64_t run = 0; run < summed->n_runs; run++) {
    const float *from = x + run_at(summed, run);
    for (int64_t i = 0; i < rows; i++, from += stride) {
      if (n == SUMS * CPU_LANES) {
        for (int j = 0; j < SUMS; j++) {
          s[j] += cpu_load(from + j * CPU_LANES);
        }
      } else {
        for (int64_t j = 0; j * CPU_LANES < n; j++) {
          s[j] += load_apart(from + j * CPU_LANES, 1, n - j * CPU_LANES);
        }
      }
    }
  }
  memcpy(y, s, (size_t)n * sizeof *y);
}

static void reduce_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const reduce_work *work = context;
  const float *x = work->x + at[0];
  const int64_t stride = work->kept.stride[0][0];
  float *y = work->y + at[1];
  if (stride == 1 && n > 1) {
    for (int64_t i = 0; i < n; i += SUMS * CPU_LANES) {
      sum_columns(&work->summed, x + i, n - i < SUMS * CPU_LANES ? n - i : SUMS * CPU_LANES, y + i);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    y[i] = sum_of(&work->summed, x + i * stride);
  }
}

void cpu_run_reduce_sum(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  cpu_tensor kept = *x, summed = *x;
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && x->rank == y->rank);
  for (int32_t axis = 0; axis < x->rank; axis++) {
    cpu_tensor *without = line->attributes.axes >> axis & 1 ? &kept : &summed;
    without->extent[axis] = 1;
    without->stride[axis] = 0;
    assert(y->extent[axis] == kept.extent[axis]);
  }
  const reduce_work work = {
      .kept = cpu_walk_of((const cpu_tensor *const[]){&kept, y}, 2),
      .summed = cpu_walk_of((const cpu_tensor *const[]){&summed}, 1),
      .x = x->data,
      .y = y->data,
  };
  const double terms = (double)work.summed.n_runs * (double)work.summed.extent[0];
  if (terms == 0.0 && work.kept.n_runs > 0) {
    memset(y->data, 0, (size_t)cpu_count(y, y->rank) * sizeof(float));
    return;
  }
  cpu_walk_all(&work.kept, team, 10.0 + 2.0 * terms / CPU_LANES, reduce_run, &work);
}

/* ---- sum_of_squares ---------------------------------------------------------------------------------------------- */

/* The elements are cut into parts by their number alone; the parts' sums are added in order. */
typedef struct squares_work {
  cpu_walk walk; /* x */
  const float *x;
  int64_t n_parts;
  float *sums; /* [n_parts] */
} squares_work;

typedef struct squares_part {
  const squares_work *work;
  cpu_f32v *sums; /* [SUMS] */
} squares_part;

static void square_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const squares_part *part = context;
  const int64_t stride = part->work->walk.stride[0][0];
  const float *x = part->work->x + at[0];
  cpu_f32v s[SUMS];
  int64_t i = 0;
  memcpy(s, part->sums, sizeof s);
  for (; stride == 1 && i + SUMS * CPU_LANES <= n; i += SUMS * CPU_LANES) {
    for (int j = 0; j < SUMS; j++) {
      const cpu_f32v xi = cpu_load(x + i + j * CPU_LANES);
      s[j] = cpu_fma(xi, xi, s[j]);
    }
  }
  for (; i < n; i += CPU_LANES) {
    const cpu_f32v xi = load_apart(x + i * stride, stride, n - i);
    s[0] = cpu_fma(xi, xi, s[0]);
  }
  memcpy(part->sums, s, sizeof s);
}

/* One run is cut into pieces, several are shared among the parts. */
static void squares_task(const void *context, int64_t task, void *scratch)
{
  const squares_work *work = context;
  const cpu_walk *walk = &work->walk;
  const cpu_f32v zero = cpu_splat(0.0f);
  cpu_f32v s[SUMS] = {zero, zero, zero, zero};
  const squares_part part = {.work = work, .sums = s};
  (void)scratch;
  if (walk->n_runs == 1) {
    const int64_t first = cpu_first(walk->extent[0], work->n_parts, task);
    square_run(&part, (int64_t[CPU_WALK_TENSORS]){first * walk->stride[0][0]},
               cpu_first(walk->extent[0], work->n_parts, task + 1) - first);
  } else {
    cpu_walk_runs(walk, cpu_first(walk->n_runs, work->n_parts, task), cpu_first(walk->n_runs, work->n_parts, task + 1),
                  square_run, &part);
  }
  work->sums[task] = cpu_sum((s[0] + s[1]) + (s[2] + s[3]));
}

static squares_work squares_of(const cpu_line *line)
{
  const cpu_tensor *x = &line->in[0];
  squares_work work = {.walk = cpu_walk_of((const cpu_tensor *const[]){x}, 1), .x = x->data};
  work.n_parts = cpu_tasks(cpu_count(x, x->rank), 2.0 / CPU_LANES);
  if (work.walk.n_runs > 1 && work.walk.n_runs < work.n_parts) {
    work.n_parts = work.walk.n_runs;
  }
  return work;
}

int32_t cpu_prepare_sum_of_squares(cpu_line *line, cpu_preparation *preparation)
{
  cpu_ask_shared(preparation, (uint64_t)squares_of(line).n_parts * sizeof(float));
  return TSR_OK;
}

void cpu_run_sum_of_squares(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *plus = &line->in[1], *y = &line->out[0];
  squares_work work = squares_of(line);
  float sum = 0.0f;
  assert(line->in[0].dtype == TSR_F32 && y->dtype == TSR_F32 && y->rank == 1 && y->extent[0] == 1);
  work.sums = cpu_shared(team);
  if (work.walk.n_runs > 0) {
    cpu_parallel(team, work.n_parts, squares_task, &work);
    for (int64_t part = 0; part < work.n_parts; part++) {
      sum += work.sums[part];
    }
  }
  *(float *)y->data = cpu_present(plus) ? sum + *(const float *)plus->data : sum;
}
