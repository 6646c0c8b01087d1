/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x with the masking applied, a query row at a time.
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
