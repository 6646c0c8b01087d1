#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of fused attention, as attention_gradient.comp has them, for GPUs, where queries and keys are many; all
 * in groups of four.
 *
 * A workgroup has a tile of its own rows of one sentence and head, and runs over the others tile by tile (own and
 * others: lib/attention_gradient.glsl). The last axis of either passes through shared memory in parts of tile_groups,
 * or all at once, and then its own rows are read but once. Eight invocations share `rows_each` rows: in the products
 * each has every eighth of the tile's others, in the results every eighth group of the last axis.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define QUADS
#include "operand.glsl"
#include "contract/attention_gradient_tiled.h"
#include "attention_gradient.glsl"

#define SIDE     GRADIENT_TILE_SIDE
#define PITCH    GRADIENT_FACTOR_PITCH
#define EXCLUDED 0x80000000u /* -0: the factor of a pair that is not seen, which none has that is seen */
#define HIDDEN   0xffffffffu /* the gradient of its score */

const bool by_keys = (options & GRADIENT_BY_KEYS) != 0u;
const uint rows_each = GRADIENT_TILE_ROWS(tile_shape);
const uint others_each = GRADIENT_TILE_OTHERS(tile_shape);
const uint row_groups = size / SIDE;
const uint tile_rows = row_groups * rows_each;
const uint tile_others = SIDE * others_each;

/* Groups of each last axis that are in shared memory at a time, and those of the results that an invocation has */
const bool is_whole = tile_groups == 0u;
const uint depth_step = is_whole || depth < tile_groups ? depth : tile_groups;
const uint width_step = is_whole || width < tile_groups ? width : tile_groups;
const uint depth_parts = (depth + SIDE - 1u) / SIDE;
const uint width_parts = by_keys ? (width + SIDE - 1u) / SIDE : 1u;

/* Pitches in groups: odd, so that neighbouring rows fall into different banks. */
const uint own_pitch = depth_step | 1u;
const uint own2_pitch = width_step | 1u;
const uint other_pitch = (depth_step > width_step ? depth_step : width_step) | 1u;
const uint own_groups = depth_step > width_step ? own_pitch : own2_pitch;
const uint own2_at = is_whole ? tile_rows * own_pitch : 0u;

shared vec4 own_tile[tile_rows * (is_whole ? own_pitch + own2_pitch : own_groups)];
shared vec4 other_tile[tile_others * other_pitch];
shared uvec4 factor_tile[tile_rows * PITCH]; /* component n: of row n * SIDE + what stands beside its own, of others */
shared uint wild; /* which part of the others was the last that had something in it that is not finite */

bool is_finite(vec4 x)
{
  return all(lessThan(floatBitsToUint(x) & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* Brings groups from, .. of a tile's rows first, .. into shared memory; zeros for rows from `behind` on. `seen` is
 * called with each. */
#define LOAD_PART(name, tile, tile_at, pitch, n_rows, first, behind, from, step, n, seen)                              \
  for (uint i = lane; i < n_rows * step; i += size) {                                                                  \
    uint loaded_row = first + i / step;                                                                                \
    uint group = from + i % step;                                                                                      \
    vec4 x = loaded_row < behind && group < n ? LOAD(name, name##_base + loaded_row * name##_stride[1] + group)        \
                                              : vec4(0.0);                                                             \
    seen(x)                                                                                                            \
    tile[tile_at + i / step * pitch + i % step] = x;                                                                   \
  }
#define IGNORED(x)
#define FIND_WILD(x) any_wild = any_wild || !is_finite(x);

#define LOAD_OWN(name, tile_at, pitch, from, step, n)                                                                  \
  LOAD_PART(name, own_tile, tile_at, pitch, tile_rows, first_row, last_row + 1u, from, step, n, IGNORED)

#define LOAD_OTHERS(name, from, step, n)                                                                               \
  {                                                                                                                    \
    bool any_wild = false;                                                                                             \
    ++parts_loaded;                                                                                                    \
    LOAD_PART(name, other_tile, 0u, other_pitch, tile_others, chunk, end, from, step, n, FIND_WILD)                    \
    if (any_wild) {                                                                                                    \
      atomicMax(wild, parts_loaded);                                                                                   \
    }                                                                                                                  \
  }

/* sums[m][o] += the products of what is in shared memory of its own and of the others */
#define ADD_PRODUCTS(sums, tile_at, pitch, n)                                                                          \
  for (uint i = 0u; i < n; ++i) {                                                                                      \
    vec4 theirs[others_each];                                                                                          \
    [[unroll]] for (uint o = 0u; o < others_each; ++o) {                                                               \
      theirs[o] = other_tile[(column + o * SIDE) * other_pitch + i];                                                   \
    }                                                                                                                  \
    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                                 \
      vec4 mine = own_tile[tile_at + (row + m * row_groups) * pitch + i];                                              \
      [[unroll]] for (uint o = 0u; o < others_each; ++o) {                                                             \
        [[unroll]] for (int j = 0; j < 4; ++j) {                                                                       \
          sums[m][o] = fma(mine[j], theirs[o][j], sums[m][o]);                                                         \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* sums[m][c] += the factors times what is in shared memory of the others, of groups from, .. of n */
#define ADD_ROWS(sums, from, step, n)                                                                                  \
  if (wild == parts_loaded) {                                                                                          \
    for (uint t = 0u; t < tile_others; ++t) {                                                                          \
      [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                               \
        uint bits = factor_tile[(row + m * row_groups) * PITCH + t % SIDE][t / SIDE];                                  \
        if (bits != EXCLUDED) {                                                                                        \
          [[unroll]] for (uint c = 0u; c < (step + SIDE - 1u) / SIDE; ++c) {                                           \
            if (from + c * SIDE < n) {                                                                                 \
              sums[m][from / SIDE + c] +=                                                                              \
                uintBitsToFloat(bits) * other_tile[t * other_pitch + min(column + c * SIDE, step - 1u)];               \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  } else {                                                                                                             \
    for (uint i = 0u; i < SIDE; ++i) {                                                                                 \
      vec4 factor[rows_each];                                                                                          \
      [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                               \
        factor[m] = uintBitsToFloat(factor_tile[(row + m * row_groups) * PITCH + i]);                                  \
      }                                                                                                                \
      [[unroll]] for (uint o = 0u; o < others_each; ++o) {                                                             \
        [[unroll]] for (uint c = 0u; c < (step + SIDE - 1u) / SIDE; ++c) {                                             \
          if (from + c * SIDE < n) {                                                                                   \
            vec4 x = other_tile[(i + o * SIDE) * other_pitch + min(column + c * SIDE, step - 1u)];                     \
            [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                         \
              sums[m][from / SIDE + c] = fma(vec4(factor[m][o]), x, sums[m][from / SIDE + c]);                         \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* All that a last axis can have; not a loop, since what a loop indexes that a driver does not unroll lies in memory. */
#define EACH_PART(add) add(0u) add(1u) add(2u) add(3u)

void main()
{
  uint lane = gl_LocalInvocationID.x;
  uint column = lane % SIDE;
  uint row = lane / SIDE; /* its rows of the tile: row, row + row_groups, .. */
  uint n_own = by_keys ? keys : queries;
  uint tiles = (n_own + tile_rows - 1u) / tile_rows;
  uint rest = group_index() / tiles;
  uint first_row = (group_index() - rest * tiles) * tile_rows;
  uint h = rest % heads;
  uint b = rest / heads;
  if (b >= batch) {
    return;
  }
  uint last_row = min(first_row + tile_rows, n_own) - 1u;
  uint row_base = (b * heads + h) * queries; /* of query 0, among those of all sentences and heads */
  const bool writes_scores = (options & GRADIENT_DSCORES) != 0u;
  int first = first_position(b);
  int present = present_keys(b, keys);
  const uvec2 range = range_of(by_keys, first_row, last_row, first, present);
  uint end = range.y;
  uint own_base = own_offset + b * own_stride[0] + h * own_stride[2];
  uint own2_base = own2_offset + b * own2_stride[0] + h * own2_stride[2];
  uint other_base = other_offset + b * other_stride[0] + h * other_stride[2];
  uint other2_base = other2_offset + b * other2_stride[0] + h * other2_stride[2];

  vec4 sum[rows_each][depth_parts];  /* of result */
  vec4 sum2[rows_each][width_parts]; /* of second, with BY_KEYS */
  vec2 stats[rows_each];             /* of the queries, if they are its own */
  [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
    stats[m] = by_keys ? vec2(0.0) : stats_of(row_base + min(first_row + row + m * row_groups, last_row));
    [[unroll]] for (uint c = 0u; c < depth_parts; ++c) {
      sum[m][c] = vec4(0.0);
    }
    [[unroll]] for (uint c = 0u; c < width_parts; ++c) {
      sum2[m][c] = vec4(0.0);
    }
  }

  uint parts_loaded = 0u; /* of the others */
  if (lane == 0u) {
    wild = 0u;
  }
  if (is_whole) {
    LOAD_OWN(own, 0u, own_pitch, 0u, depth_step, depth)
    LOAD_OWN(own2, own2_at, own2_pitch, 0u, width_step, width)
  }
  barrier();

  for (uint chunk = range.x; chunk < end; chunk += tile_others) {
    float score[rows_each][others_each];
    float slope[rows_each][others_each]; /* dy . v */
    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
      [[unroll]] for (uint o = 0u; o < others_each; ++o) {
        score[m][o] = 0.0;
        slope[m][o] = 0.0;
      }
    }
    [[dont_unroll]] for (uint from = 0u; from < width; from += width_step) {
      LOAD_OTHERS(other2, from, width_step, width)
      if (!is_whole) {
        LOAD_OWN(own2, 0u, own2_pitch, from, width_step, width)
      }
      barrier();
      ADD_PRODUCTS(slope, own2_at, own2_pitch, min(width_step, width - from))
      barrier();
    }
    [[dont_unroll]] for (uint from = 0u; from < depth; from += depth_step) {
      LOAD_OTHERS(other, from, depth_step, depth)
      if (!is_whole) {
        LOAD_OWN(own, 0u, own_pitch, from, depth_step, depth)
      }
      barrier();
      ADD_PRODUCTS(score, 0u, own_pitch, min(depth_step, depth - from))
      if (!is_whole) {
        barrier();
      }
    }

    uint weights[rows_each][others_each]; /* dropped out */
    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
      uint mine = first_row + row + m * row_groups;
      uvec4 gradients = uvec4(EXCLUDED);
      [[unroll]] for (uint o = 0u; o < others_each; ++o) {
        uint theirs = chunk + column + o * SIDE;
        uint l = by_keys ? theirs : mine;
        uint s = by_keys ? mine : theirs;
        uint gradient = HIDDEN;
        float weight = 0.0;
        if (mine <= last_row && theirs < end && s < visible_keys(l, first, present)) {
          uint kept = kept_keys(row_base + l, s);
          vec2 query = by_keys ? stats_of(row_base + l) : stats[m];
          pair_gradient(score[m][o], slope[m][o], query, kept, b, h, l, s, first, gradient, weight);
        }
        bool seen = gradient != HIDDEN;
        weights[m][o] = seen ? floatBitsToUint(weight) : EXCLUDED;
        if (writes_scores && mine <= last_row && theirs < keys) {
          WORD(dscores, (row_base + l) * keys + s) = seen ? gradient : 0u;
        }
        gradient = before_cap(gradient, score[m][o]);
        gradients[o] = !seen ? EXCLUDED : gradient == EXCLUDED ? 0u : gradient;
      }
      factor_tile[(row + m * row_groups) * PITCH + column] = gradients;
    }
    barrier();

#define ADD_PART(part)                                                                                                 \
  if (part * depth_step < depth) {                                                                                     \
    if (!is_whole) {                                                                                                   \
      LOAD_OTHERS(other, part * depth_step, depth_step, depth)                                                         \
      barrier();                                                                                                       \
    }                                                                                                                  \
    ADD_ROWS(sum, part * depth_step, depth_step, depth)                                                                \
    barrier();                                                                                                         \
  }
    EACH_PART(ADD_PART)
    if (by_keys) {
      [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
        uvec4 factors = uvec4(EXCLUDED);
        [[unroll]] for (uint o = 0u; o < others_each; ++o) {
          factors[o] = weights[m][o];
        }
        factor_tile[(row + m * row_groups) * PITCH + column] = factors;
      }
#define ADD_PART2(part)                                                                                                \
  if (part * width_step < width) {                                                                                     \
    LOAD_OTHERS(other2, part * width_step, width_step, width)                                                          \
    barrier();                                                                                                         \
    ADD_ROWS(sum2, part * width_step, width_step, width)                                                               \
    barrier();                                                                                                         \
  }
      EACH_PART(ADD_PART2)
    }
  }

  [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
    uint mine = first_row + row + m * row_groups;
    if (mine > last_row) {
      continue;
    }
    uint at = (b * n_own + mine) * heads + h;
    [[unroll]] for (uint c = 0u; c < depth_parts; ++c) {
      if (column + c * SIDE < depth) {
        STORE(result, at * depth + column + c * SIDE, times(alpha_bits, sum[m][c]));
      }
    }
    [[unroll]] for (uint c = 0u; c < width_parts; ++c) {
      if (by_keys && column + c * SIDE < width) {
        STORE(second, at * width + column + c * SIDE, sum2[m][c]);
      }
    }
  }
  if (writes_scores) {
    uint written = min((end + tile_others - 1u) / tile_others * tile_others, keys);
    for (uint l = first_row; l <= last_row; ++l) {
      for (uint s = written + lane; s < keys; s += size) {
        WORD(dscores, (row_base + l) * keys + s) = 0u;
      }
    }
  }
}
