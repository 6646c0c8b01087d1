/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of which only the largest columns of each row are wanted: a workgroup goes through a few tiles of columns, holds
 * their results in shared memory, and writes its `kept` best of each row as candidates, as lib/candidates.glsl has them.
 * best.comp takes the best of all workgroups' candidates.
 *
 * The kernel says how large one of its tiles is: TILE_ROWS, TILE_COLUMNS.
 */
#ifndef LIB_BEST
#define LIB_BEST

#include "candidates.glsl"
#include "exponential.glsl"
#ifdef SUBGROUP
#include "reduce.glsl"
#endif

layout(constant_id = 12) const uint held_columns = 64u; /* of a workgroup, a multiple of TILE_COLUMNS */
layout(constant_id = 13) const uint held_words = 64u;   /* TILE_ROWS * held_columns */
layout(constant_id = 14) const uint kept = 1u;
layout(constant_id = 15) const uint with_sums = 0u;     /* 1: the sums of exponentials, too */

shared uint held[held_words]; /* orders of results */

uint held_row;    /* where in the result the workgroup starts */
uint held_column;

void hold(uint m, uint n, float z)
{
  held[(m - held_row) * held_columns + n - held_column] = order_of(z);
}

/* Candidate `place` of a list: of what this workgroup found in a row */
void write_candidate(uint list, uint place, uvec2 candidate)
{
  uint at = candidates_at + 2u * (list * kept + place);
  WORD(y, at) = candidate.x;
  WORD(y, at + 1u) = candidate.y;
}

void write_sum(uint list, uint largest, float sum)
{
  uint at = candidates_at + 2u * (rows * column_tiles * kept + list);
  WORD(y, at) = largest;
  WORD(y, at + 1u) = floatBitsToUint(sum);
}

/* Of what is held of row m, of which `largest` is the order of the largest: columns from, from + step, .. */
float sum_of_held(uint m, uint largest, uint from, uint step, uint width)
{
  float top = number_of(largest);
  float sum = 0.0;
  for (uint c = from; c < width; c += step)
    sum += exp_accurate(number_of(held[m * held_columns + c]) - top);
  return largest > ORDER_MINUS_INF ? sum : 0.0;
}

#ifdef SUBGROUP
/* The workgroup is one subgroup: the largest of each row is found and struck out, `kept` times. */
void keep_best(uint share)
{
  uint lane = gl_SubgroupInvocationID;
  uint width = min(held_columns, columns - held_column);
  uint count = min(TILE_ROWS, rows - held_row);
  for (uint m = 0u; m < count; ++m) {
    uint list = (held_row + m) * column_tiles + share;
    for (uint r = 0u; r < kept; ++r) {
      uvec2 best = NOBODY;
      for (uint c = lane; c < width; c += gl_WorkGroupSize.x) {
        uint order = held[m * held_columns + c];
        best = order > best.x ? uvec2(order, c) : best;
      }
      uint largest = group_max(best.x);
      uint column = ~group_max(best.x == largest ? ~best.y : 0u);
      if (with_sums != 0u && r == 0u) {
        float sum = group_sum(sum_of_held(m, largest, lane, gl_WorkGroupSize.x, width));
        if (lane == 0u)
          write_sum(list, largest, sum);
      }
      if (best.y == column && column < width)
        held[m * held_columns + column] = NOBODY.x;
      if (lane == 0u)
        write_candidate(list, r, column < width ? uvec2(largest, held_column + column) : NOBODY);
    }
  }
}
#else
/* Each element's place among those of its row is counted; whoever has the first sees to the sum. */
void keep_best(uint share)
{
  uint width = min(held_columns, columns - held_column);
  uint count = min(TILE_ROWS, rows - held_row);
  for (uint i = gl_LocalInvocationID.x; i < count * width; i += gl_WorkGroupSize.x) {
    uint m = i / width;
    uint column = i - m * width;
    uint order = held[m * held_columns + column];
    uint place = 0u;
    for (uint c = 0u; c < width; ++c) {
      uint other = held[m * held_columns + c];
      place += uint(other > order || (other == order && c < column));
    }
    uint list = (held_row + m) * column_tiles + share;
    if (place < kept)
      write_candidate(list, place, uvec2(order, held_column + column));
    if (with_sums != 0u && place == 0u)
      write_sum(list, order, sum_of_held(m, order, 0u, 1u, width));
  }
  for (uint i = gl_LocalInvocationID.x; i < count * kept; i += gl_WorkGroupSize.x) {
    uint m = i / kept;
    if (i - m * kept >= width)
      write_candidate((held_row + m) * column_tiles + share, i - m * kept, NOBODY);
  }
}
#endif

#endif
