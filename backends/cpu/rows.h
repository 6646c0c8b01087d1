/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of floats: what the operators share that work along them.
 */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include "kernel.h"

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

#endif
