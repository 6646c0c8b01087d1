/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: what the operators share that work along them.
 */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include "kernel.h"
#include "walk.h"

#define cpu_run_rows CPU_WITH_VECTORS(cpu_run_rows)

/* Room for a row of n floats, with the next one aligned too. */
static inline int64_t cpu_room(int64_t n)
{
  return (n + 15) / 16 * 16;
}

/* n floats `stride` apart: where they lie if that is side by side, else copied into room. */
static inline const float *cpu_side_by_side(const float *from, int64_t stride, int64_t n, float *room)
{
  if (stride == 1 || n <= 1) {
    return from;
  }
  for (int64_t i = 0; i < n; i++) {
    room[i] = from[i * stride];
  }
  return room;
}

/* n elements of `size` bytes, strides in elements. */
static inline void cpu_copy_sized(const void *from, int64_t from_stride, void *to, int64_t to_stride, int64_t n,
                                  int64_t size)
{
  for (int64_t i = 0; i < n; i++) {
    memcpy((char *)to + i * to_stride * size, (const char *)from + i * from_stride * size, (size_t)size);
  }
}

static inline void cpu_copy_run(const void *from, int64_t from_stride, void *to, int64_t to_stride, int64_t n,
                                int64_t size)
{
  if (n <= 0) {
    return;
  }
  if ((from_stride == 1 && to_stride == 1) || n == 1) {
    memcpy(to, from, (size_t)(n * size));
  } else if (size == 4) {
    cpu_copy_sized(from, from_stride, to, to_stride, n, 4);
  } else if (size == 2) {
    cpu_copy_sized(from, from_stride, to, to_stride, n, 2);
  } else {
    cpu_copy_sized(from, from_stride, to, to_stride, n, 1);
  }
}

/* Calls body once per task with its share of n_rows rows, each of which costs `cost` vector instructions. Not at all
 * if the line has no results. */
typedef void (*cpu_rows_body)(const cpu_line *line, int64_t first, int64_t last, void *scratch);

void cpu_run_rows(const cpu_line *line, cpu_team *team, int64_t n_rows, double cost, cpu_rows_body body);

#endif
