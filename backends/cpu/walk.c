/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include <assert.h>

cpu_walk cpu_walk_of(const cpu_tensor *const tensors[], int32_t n_tensors)
{
  cpu_walk walk = {.n_tensors = n_tensors, .extent = {1, 1, 1, 1}, .n_runs = 1};
  int32_t n_axes = 0;
  assert(n_tensors <= CPU_WALK_TENSORS);
  for (int32_t axis = tensors[0]->rank - 1; axis >= 0; axis--) {
    const int64_t extent = tensors[0]->extent[axis];
    int merges = n_axes > 0;
    if (extent == 1) {
      continue;
    }
    for (int32_t t = 0; t < n_tensors && merges; t++) {
      merges = tensors[t]->stride[axis] == walk.stride[t][n_axes - 1] * walk.extent[n_axes - 1];
    }
    if (merges) {
      walk.extent[n_axes - 1] *= extent;
      continue;
    }
    walk.extent[n_axes] = extent;
    for (int32_t t = 0; t < n_tensors; t++) {
      walk.stride[t][n_axes] = tensors[t]->stride[axis];
    }
    n_axes++;
  }
  for (int32_t t = 0; t < n_tensors && n_axes == 0; t++) {
    walk.stride[t][0] = 1;
  }
  for (int32_t axis = 1; axis < TSR_MAX_RANK; axis++) {
    walk.n_runs *= walk.extent[axis];
  }
  walk.n_runs = walk.extent[0] > 0 ? walk.n_runs : 0;
  return walk;
}

/* Runs first .. last-1, of each the elements from `begin` on, n of them. */
static void walk_part(const cpu_walk *walk, int64_t first, int64_t last, int64_t begin, int64_t n, cpu_run_body body,
                      const void *context)
{
  int64_t index[TSR_MAX_RANK] = {0}, at[CPU_WALK_TENSORS] = {0};
  if (first >= last) {
    return;
  }
  int64_t rest = first;
  for (int32_t axis = 1; axis < TSR_MAX_RANK && rest > 0; axis++) {
    index[axis] = rest % walk->extent[axis];
    rest /= walk->extent[axis];
  }
  for (int32_t t = 0; t < walk->n_tensors; t++) {
    at[t] = begin * walk->stride[t][0];
    for (int32_t axis = 1; axis < TSR_MAX_RANK; axis++) {
      at[t] += index[axis] * walk->stride[t][axis];
    }
  }
  for (int64_t run = first;;) {
    body(context, at, n);
    if (++run == last) {
      return;
    }
    /* The next index: the innermost axis that is not at its end goes on, those within it begin again. */
    for (int32_t axis = 1; axis < TSR_MAX_RANK; axis++) {
      const int64_t steps = ++index[axis] < walk->extent[axis] ? 1 : 1 - walk->extent[axis];
      for (int32_t t = 0; t < walk->n_tensors; t++) {
        at[t] += steps * walk->stride[t][axis];
      }
      if (steps == 1) {
        break;
      }
      index[axis] = 0;
    }
  }
}

void cpu_walk_runs(const cpu_walk *walk, int64_t first, int64_t last, cpu_run_body body, const void *context)
{
  walk_part(walk, first, last, 0, walk->extent[0], body, context);
}

typedef struct walk_work {
  const cpu_walk *walk;
  cpu_run_body body;
  const void *context;
  int64_t n_tasks; /* that share the runs */
  int64_t pieces;  /* of each run; 1 unless there are fewer runs than tasks */
} walk_work;

static void walk_task(const void *context, int64_t task, void *scratch)
{
  const walk_work *work = context;
  const cpu_walk *walk = work->walk;
  const int64_t piece = task % work->pieces, share = task / work->pieces;
  const int64_t begin = cpu_first(walk->extent[0], work->pieces, piece);
  (void)scratch;
  walk_part(walk, cpu_first(walk->n_runs, work->n_tasks, share), cpu_first(walk->n_runs, work->n_tasks, share + 1),
            begin, cpu_first(walk->extent[0], work->pieces, piece + 1) - begin, work->body, work->context);
}

void cpu_walk_all(const cpu_walk *walk, cpu_team *team, double cost, cpu_run_body body, const void *context)
{
  const int64_t elements = walk->n_runs * walk->extent[0];
  const int64_t n_tasks = cpu_tasks(elements, cost + 10.0 / (double)(walk->extent[0] > 0 ? walk->extent[0] : 1));
  walk_work work = {.walk = walk, .body = body, .context = context, .n_tasks = n_tasks, .pieces = 1};
  if (n_tasks == 1) {
    cpu_walk_runs(walk, 0, walk->n_runs, body, context);
    return;
  }
  if (walk->n_runs < n_tasks) {
    work.n_tasks = walk->n_runs;
    work.pieces = n_tasks / walk->n_runs;
  }
  cpu_parallel(team, work.n_tasks * work.pieces, walk_task, &work);
}

cpu_row_map cpu_row_map_of(const cpu_tensor *tensor, int32_t axes)
{
  cpu_row_map map = {.tensor = tensor, .axes = axes, .even = 1};
  int64_t extent = 1; /* of the axes so far, as one */
  for (int32_t axis = axes - 1; axis >= 0; axis--) {
    if (tensor->extent[axis] == 1) {
      continue;
    }
    if (extent == 1) {
      map.stride = tensor->stride[axis];
    } else if (tensor->stride[axis] != map.stride * extent) {
      map.even = 0;
    }
    extent *= tensor->extent[axis];
  }
  return map;
}
