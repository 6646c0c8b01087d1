/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x with the masking applied, a query row at a time, and the gradients.
 */
#include "masking.h"

typedef struct mask_plan {
  const int32_t *starts;
} mask_plan;

typedef struct mask_work {
  const cpu_line *line;
  cpu_masking masking;
  int64_t n_rows, n_tasks;
} mask_work;

int32_t cpu_prepare_mask(cpu_line *line, cpu_preparation *preparation)
{
  mask_plan *plan = cpu_ask_memory(preparation, sizeof *plan);
  if (!plan) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  line->plan = plan;
  cpu_ask_scratch(preparation, 3 * (uint64_t)cpu_row_length(&line->in[0]) * sizeof(float));
  return cpu_prepare_masking(line, 1, preparation, &plan->starts);
}

/* y[0 .. n-1] = x with the biases, those after it -inf. */
static void mask_row(const float *x, const float *additive, const float *relative, int64_t n, int64_t S, float *y)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  int64_t s = 0;
  for (; s + CPU_LANES <= n; s += CPU_LANES) {
    cpu_store(y + s, cpu_biased(cpu_load(x + s), additive ? cpu_load(additive + s) : zero,
                                relative ? cpu_load(relative + s) : zero));
  }
  if (s < n) {
    const int64_t rest = n - s;
    cpu_store_part(y + s,
                   cpu_biased(cpu_load_part(x + s, rest, 0.0f),
                              additive ? cpu_load_part(additive + s, rest, 0.0f) : zero,
                              relative ? cpu_load_part(relative + s, rest, 0.0f) : zero),
                   rest);
  }
  for (s = n; s < S; s++) {
    y[s] = -INFINITY;
  }
}

static void mask_rows(const void *context, int64_t task, void *scratch)
{
  const mask_work *work = context;
  const cpu_tensor *x = &work->line->in[0], *y = &work->line->out[0];
  const cpu_masking *masking = &work->masking;
  const int64_t H = x->extent[1], L = x->extent[2], S = x->extent[3],
                end = cpu_first(work->n_rows, work->n_tasks, task + 1);
  float *gathered = scratch, *additive_room = gathered + S, *relative_room = additive_room + S;

  for (int64_t row = cpu_first(work->n_rows, work->n_tasks, task); row < end; row++) {
    const int64_t l = row % L, h = row / L % H, b = row / L / H, n = cpu_visible_keys(masking, b, l, S);
    const float *from = cpu_side_by_side((const float *)x->data + cpu_row(x, row), x->stride[3], n, gathered);
    const float *additive = NULL, *relative = NULL;
    if (masking->additive) {
      additive = cpu_additive_row(masking, b, h, l, 0, n, additive_room);
    }
    if (masking->relative) {
      cpu_relative_row(masking, b, h, l, 0, n, relative_room);
      relative = relative_room;
    }
    mask_row(from, additive, relative, n, S, (float *)y->data + row * S);
  }
}

void cpu_run_mask(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0];
  const mask_plan *plan = line->plan;
  mask_work work = {.line = line, .masking = cpu_masking_of(line, 1, plan->starts), .n_rows = cpu_rows(x)};
  assert(x->dtype == TSR_F32 && x->rank == 4);
  if (work.n_rows == 0 || x->extent[3] == 0) {
    return;
  }
  work.n_tasks = cpu_tasks(work.n_rows, 20.0 + 4.0 * (double)x->extent[3] / CPU_LANES);
  cpu_parallel(team, work.n_tasks, mask_rows, &work);
}

/* ---- mask_gradient ----------------------------------------------------------------------------------------------- */

typedef struct unmask_work {
  const float *y, *dy;
  float *dx;
  int64_t y_stride, dy_stride;
} unmask_work;

static void unmask_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const unmask_work *work = context;
  const float *y = work->y + at[0], *dy = work->dy + at[1];
  float *dx = work->dx + at[2];
  int64_t i = 0;
  for (; work->y_stride == 1 && work->dy_stride == 1 && i + CPU_LANES <= n; i += CPU_LANES) {
    const cpu_i32v excluded = cpu_load(y + i) == cpu_splat(-INFINITY);
    cpu_store(dx + i, cpu_select(excluded, cpu_splat(0.0f), cpu_load(dy + i)));
  }
  for (; i < n; i++) {
    dx[i] = y[i * work->y_stride] == -INFINITY ? 0.0f : dy[i * work->dy_stride];
  }
}

void cpu_run_mask_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){y, dy, dx}, 3);
  const unmask_work work = {
      .y = y->data, .dy = dy->data, .dx = dx->data, .y_stride = walk.stride[0][0], .dy_stride = walk.stride[1][0]};
  assert(y->dtype == TSR_F32 && dy->dtype == TSR_F32 && dx->dtype == TSR_F32 && walk.stride[2][0] == 1);
  cpu_walk_all(&walk, team, 5.0 / CPU_LANES, unmask_run, &work);
}

/* ---- relative_gradient ------------------------------------------------------------------------------------------- */

/* Rows of scores are cut into parts by their number alone; each part has a table of its own, and the tables are added
 * in order. */
typedef struct relative_work {
  const cpu_line *line;
  cpu_masking masking;
  int64_t n_rows, n_parts;
  float *tables; /* [n_parts][H][buckets] */
} relative_work;

static int64_t relative_parts(const cpu_tensor *dscores)
{
  return cpu_tasks(cpu_rows(dscores), 50.0 + 2.0 * (double)cpu_row_length(dscores));
}

int32_t cpu_prepare_relative_gradient(cpu_line *line, cpu_preparation *preparation)
{
  const cpu_tensor *dscores = &line->in[0];
  const tsr_op_attributes *attributes = &line->attributes;
  line->plan = cpu_bucket_starts(preparation, attributes->buckets, attributes);
  cpu_ask_scratch(preparation, (uint64_t)cpu_row_length(dscores) * sizeof(float));
  cpu_ask_shared(preparation, (uint64_t)(relative_parts(dscores) * cpu_count(&line->out[0], 2)) * sizeof(float));
  return line->plan ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

static void relative_task(const void *context, int64_t task, void *scratch)
{
  const relative_work *work = context;
  const cpu_tensor *dscores = &work->line->in[0];
  const tsr_op_attributes *attributes = &work->line->attributes;
  const int64_t H = dscores->extent[1], L = dscores->extent[2], S = dscores->extent[3], buckets = attributes->buckets;
  const int64_t end = cpu_first(work->n_rows, work->n_parts, task + 1);
  float *table = work->tables + task * H * buckets;

  memset(table, 0, (size_t)(H * buckets) * sizeof *table);
  for (int64_t row = cpu_first(work->n_rows, work->n_parts, task); row < end; row++) {
    const int64_t l = row % L, h = row / L % H, b = row / L / H;
    const float *from = (const float *)dscores->data + cpu_row(dscores, row);
    const float *d = cpu_side_by_side(from, dscores->stride[3], S, scratch);
    cpu_bucket_walk walk =
        cpu_bucket_walk_from(work->line->plan, buckets, attributes, -l - cpu_position_of(&work->masking, b));
    for (int64_t s = 0; s < S;) {
      int64_t bucket;
      const int64_t last = s + cpu_next_bucket(&walk, S - s, &bucket);
      float sum = 0.0f;
      for (; s < last; s++) {
        sum += d[s];
      }
      table[h * buckets + bucket] += sum;
    }
  }
}

void cpu_run_relative_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *dscores = &line->in[0], *y = &line->out[0];
  const int64_t H = dscores->extent[1], buckets = y->extent[0];
  relative_work work = {.line = line, .masking = {.position = cpu_operand(line, 1)}, .n_rows = cpu_rows(dscores)};
  assert(dscores->dtype == TSR_F32 && dscores->rank == 4 && y->rank == 2 && y->extent[1] == H);
  assert(buckets == line->attributes.buckets);
  work.n_parts = relative_parts(dscores);
  work.tables = cpu_shared(team);
  if (H == 0) {
    return;
  }
  cpu_parallel(team, work.n_parts, relative_task, &work);
  for (int64_t bucket = 0; bucket < buckets; bucket++) {
    for (int64_t h = 0; h < H; h++) {
      float sum = 0.0f;
      for (int64_t part = 0; part < work.n_parts; part++) {
        sum += work.tables[(part * H + h) * buckets + bucket];
      }
      ((float *)y->data)[bucket * H + h] = sum;
    }
  }
}
