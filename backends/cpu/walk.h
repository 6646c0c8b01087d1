/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over several tensors of the same extents at once. Axes that lie one after another in all of them are merged,
 * so that what is contiguous is one run, and what is broadcast or transposed is as few long runs as there can be.
 */
#ifndef CPU_WALK_H
#define CPU_WALK_H

#include "program.h"

enum { CPU_WALK_TENSORS = 3 };

typedef struct cpu_walk {
  int32_t n_tensors;
  int64_t extent[TSR_MAX_RANK]; /* axis 0 is the innermost, a run; then the axes around it; the rest are 1 */
  int64_t stride[CPU_WALK_TENSORS][TSR_MAX_RANK]; /* elements; of a run of one element: 1 */
  int64_t n_runs;                                 /* 0 if a tensor is empty */
} cpu_walk;

/* One run: n elements, of tensor t from at[t] on (elements from the view's first), walk->stride[t][0] apart. */
typedef void (*cpu_run_body)(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n);

cpu_walk cpu_walk_of(const cpu_tensor *const tensors[], int32_t n_tensors);

/* Runs first .. last-1, in row-major order. */
void cpu_walk_runs(const cpu_walk *walk, int64_t first, int64_t last, cpu_run_body body, const void *context);

/* All runs, cut into tasks if that pays; a run may be cut as well. `cost`: vector instructions per element. */
void cpu_walk_all(const cpu_walk *walk, cpu_team *team, double cost, cpu_run_body body, const void *context);

/* Where the rows of a tensor begin that its first `axes` axes count: cpu_at without divisions where one stride says
 * all. */
typedef struct cpu_row_map {
  const cpu_tensor *tensor;
  int32_t axes;
  int32_t even;   /* 1: row r begins at r * stride */
  int64_t stride; /* elements */
} cpu_row_map;

cpu_row_map cpu_row_map_of(const cpu_tensor *tensor, int32_t axes);

static inline int64_t cpu_row_at(const cpu_row_map *map, int64_t row)
{
  return map->even ? row * map->stride : cpu_at(map->tensor, map->axes, row);
}

#endif
