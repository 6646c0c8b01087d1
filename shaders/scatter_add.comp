#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add, y[row] = alpha * the sum of x over the places that go to the row, in a fixed order without atomic sums.
 * scatter_sort.comp has sorted the places by their row; they are cut into runs of equal length.
 *   STEP_CLEAR  an invocation empties an element of y
 *   STEP_SUM    an invocation has a run and a column, and sums each row of the run: into y, or what other runs have a
 *               part of into scratch
 *   STEP_JOIN   an invocation has a run and a column, and sums what the runs left of the row that begins in its run and
 *               goes on behind it
 */
#extension GL_GOOGLE_include_directive : require
#include "contract/scatter_add.h"
#include "operand.glsl"
#include "row.glsl"

OPERAND_IN(0, x)
IN(1, scratch)
OPERAND_OUT(1, partials)
OPERAND_OUT(2, y)

#define ROW(i)   WORD(scratch, rows_at + (i))
#define PLACE(i) WORD(scratch, places_at + (i))

uint partial_of(uint run_index, uint part, uint column)
{
  return partial_at + (2u * run_index + part) * columns + column;
}

void sum_run(uint run_index, uint column, uint x_at, uint y_at)
{
  uint begin = run_index * run;
  uint end = min(begin + run, places);
  uint row = ROW(begin);
  bool continues = begin > 0u && ROW(begin - 1u) == row;
  for (uint i = begin; i < end && row < rows;) {
    VECTOR sum = VECTOR(0.0);
    uint next = row;
    while (i < end && next == row) {
      sum += LOAD(x, x_at + PLACE(i) * x_step);
      ++i;
      next = ROW(min(i, places - 1u));
    }
    if (continues) {
      STORE(partials, partial_of(run_index, HEAD, column), sum);
    } else if (i < places && next == row) {
      STORE(partials, partial_of(run_index, TAIL, column), sum);
    } else {
      STORE(y, y_at + row * y_step, alpha * sum);
    }
    continues = false;
    row = next;
  }
}

void join_runs(uint run_index, uint column, uint y_at)
{
  uint begin = run_index * run;
  uint end = begin + run;
  if (end >= places) {
    return;
  }
  uint row = ROW(end);
  bool begins = begin == 0u || ROW(begin - 1u) != row;
  if (row >= rows || ROW(end - 1u) != row || !begins) {
    return;
  }
  VECTOR sum = LOAD(partials, partial_of(run_index, TAIL, column));
  VECTOR part = VECTOR(0.0); /* of the last BLOCK runs at most */
  for (uint n = 1u; n == 1u || (end < places && ROW(end) == row); ++n) {
    part += LOAD(partials, partial_of(run_index + n, HEAD, column));
    end += run;
    if (n % BLOCK == 0u) {
      sum += part;
      part = VECTOR(0.0);
    }
  }
  sum += part;
  STORE(y, y_at + row * y_step, alpha * sum);
}

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  if (step == STEP_CLEAR) {
    STORE(y, i, VECTOR(nothing));
    return;
  }
  uint run_index = i / columns;
  uint column = i - run_index * columns;
  uvec4 where = unravel(column, extent, axes);
  uint y_at = element(where, y_stride);
  if (step == STEP_SUM) {
    sum_run(run_index, column, x_offset + element(where, x_stride), y_at);
  } else {
    join_runs(run_index, column, y_at);
  }
}
