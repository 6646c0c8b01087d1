/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of which only the largest columns of each row are wanted: a workgroup goes through a few tiles of columns,
 * holds their results in shared memory, and writes its `kept` largest of each row as candidates, as lib/candidates.glsl
 * has them. topk_merge.comp takes the largest of all workgroups' candidates.
 *
 * The kernel says how large one of its tiles is: TILE_ROWS, TILE_COLUMNS.
 */
#ifndef LIB_PRODUCT_TOPK
#define LIB_PRODUCT_TOPK

#include "exponential.glsl"
#ifdef SUBGROUP
#include "reduce.glsl"
#endif

#include "contract/held.h"
#include "candidate_lists.glsl"

shared uint held[held_words]; /* orders of results */

uint held_row;    /* where in the result the workgroup starts */
uint held_column;

void hold(uint m, uint n, float z)
{
  held[(m - held_row) * held_columns + n - held_column] = order_of(z);
}

/* Of what is held of row m, of which `largest` is the order of the largest: columns from, from + step, .. */
float sum_of_held(uint m, uint largest, uint from, uint step, uint width)
{
  float top = number_of(largest);
  float sum = 0.0;
  for (uint c = from; c < width; c += step) {
    sum += exp_accurate(number_of(held[m * held_columns + c]) - top);
  }
  return largest > ORDER_MINUS_INF ? sum : 0.0;
}

#ifdef SUBGROUP
#ifdef HELD_BY_LANE
/* Reading costs most here: each lane reads its columns once, and keeps a sorted list of the largest, if it can be
 * short. */
#define LONGEST_LIST 16u
const uint list_length = kept <= LONGEST_LIST ? kept : 1u;

void insert(inout uvec2 list[list_length], uvec2 candidate)
{
  for (uint j = 0u; j < list_length; ++j) {
    bool better = before(candidate, list[j]);
    uvec2 worse = better ? list[j] : candidate;
    list[j] = better ? candidate : list[j];
    candidate = worse;
  }
}
#else
#define LONGEST_LIST 0u
const uint list_length = 1u;
#endif

/* The workgroup is one subgroup: the largest of each row is found and struck out, `kept` times. */
void keep_topk(uint share)
{
  uint lane = gl_SubgroupInvocationID;
  uint width = min(held_columns, columns - held_column);
  uint count = min(TILE_ROWS, rows - held_row);
  for (uint m = 0u; m < count; ++m) {
    uint list_at = (held_row + m) * column_tiles + share;
    uvec2 list[list_length];
    for (uint j = 0u; j < list_length; ++j) {
      list[j] = NOBODY;
    }
#ifdef HELD_BY_LANE
    for (uint c = lane; c < width && kept <= LONGEST_LIST; c += gl_WorkGroupSize.x) {
      insert(list, uvec2(held[m * held_columns + c], c));
    }
#endif
    for (uint r = 0u; r < kept; ++r) {
      if (kept > LONGEST_LIST) {
        list[0] = NOBODY;
        for (uint c = lane; c < width; c += gl_WorkGroupSize.x) {
          uint order = held[m * held_columns + c];
          list[0] = order > list[0].x ? uvec2(order, c) : list[0];
        }
      }
      uint largest = group_max(list[0].x);
      uint column = ~group_max(list[0].x == largest ? ~list[0].y : 0u);
      if (with_sums != 0u && r == 0u) {
        float sum = group_sum(sum_of_held(m, largest, lane, gl_WorkGroupSize.x, width));
        if (lane == 0u) {
          write_sum(list_at, largest, sum);
        }
      }
      bool mine = list[0].y == column;
      if (kept > LONGEST_LIST) {
        if (mine && column < width) {
          held[m * held_columns + column] = NOBODY.x;
        }
      } else {
        for (uint j = 0u; j + 1u < list_length; ++j) {
          list[j] = mine ? list[j + 1u] : list[j];
        }
        list[list_length - 1u] = mine ? NOBODY : list[list_length - 1u];
      }
      if (lane == 0u) {
        write_candidate(list_at, r, column < width ? uvec2(largest, held_column + column) : NOBODY);
      }
    }
  }
}
#else
/* Each element's place among those of its row is counted; whoever has the first sees to the sum. */
void keep_topk(uint share)
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
    if (place < kept) {
      write_candidate(list, place, uvec2(order, held_column + column));
    }
    if (with_sums != 0u && place == 0u) {
      write_sum(list, order, sum_of_held(m, order, 0u, 1u, width));
    }
  }
  for (uint i = gl_LocalInvocationID.x; i < count * kept; i += gl_WorkGroupSize.x) {
    uint m = i / kept;
    if (i - m * kept >= width) {
      write_candidate((held_row + m) * column_tiles + share, i - m * kept, NOBODY);
    }
  }
}
#endif

#endif
