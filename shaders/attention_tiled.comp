#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention, as attention.comp has it, for GPUs and many queries; all in groups of four.
 *
 * A workgroup has a tile of queries of one sentence and head, and runs over the keys once, tile by tile, up to the last
 * key that is visible to one of the queries. Tiles of k and of v pass through shared memory one after the other, in the
 * same place; those of large heads, and of q with them, in parts of tile_groups of the last axis. Eight invocations
 * share `rows_each` queries: in the scores each has every eighth of the tile's keys, in the results every eighth group
 * of v's last axis.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define QUADS
#include "operand.glsl"
#include "vector.glsl"
#include "contract/attention_tiled.h"
#include "attention.glsl"

#define SIDE         ATTENTION_TILE_SIDE
#define WEIGHT_PITCH ATTENTION_WEIGHT_PITCH
#define LOWEST   uintBitsToFloat(0xff7fffffu) /* below every score; not -inf, which a driver need not know */
#define EXCLUDED 0x80000000u /* -0: the weight of a key that is not seen, which none has that is seen */

const uint rows_each = ATTENTION_TILE_ROWS(tile_shape);
const uint keys_each = ATTENTION_TILE_KEYS(tile_shape);
const uint row_groups = size / SIDE;
const uint tile_rows = row_groups * rows_each;
const uint tile_keys = SIDE * keys_each;

/* Groups of each last axis that are in shared memory at a time, and those of a part of v that an invocation has */
const bool is_whole = tile_groups == 0u;
const uint depth_step = is_whole || depth < tile_groups ? depth : tile_groups;
const uint width_step = is_whole || width < tile_groups ? width : tile_groups;
const uint step_parts = (width_step + SIDE - 1u) / SIDE;

/* Pitches in groups: odd, so that neighbouring rows fall into different banks. */
const uint q_pitch = depth_step | 1u;
const uint kv_pitch = (depth_step > width_step ? depth_step : width_step) | 1u;

shared vec4 q_tile[tile_rows * q_pitch];
shared vec4 kv_tile[tile_keys * kv_pitch];
shared uvec4 weight_tile[tile_rows * WEIGHT_PITCH]; /* component n: of key n * SIDE + what stands beside the query */
shared float partial_rows[tile_rows * SIDE];        /* of each query from its invocations: maxima, then sums */
shared uint wild; /* which part of v, counted from 1, was the last that had something in it that is not finite */

/* NaN or +inf */
bool is_wild(uint bits)
{
  return bits != MINUS_INF_BITS && (bits & 0x7fffffffu) >= PLUS_INF_BITS;
}

bool is_finite(vec4 x)
{
  return all(lessThan(floatBitsToUint(x) & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* Brings groups from, .. of the queries into shared memory. */
#define LOAD_Q(from)                                                                                                   \
  for (uint i = lane; i < tile_rows * depth_step; i += size) {                                                         \
    uint m = i / depth_step;                                                                                           \
    uint group = from + i % depth_step;                                                                                \
    q_tile[m * q_pitch + i % depth_step] = first_row + m <= last_row && group < depth                                  \
                                             ? LOAD(q, q_base + (first_row + m) * q_stride[1] + group)                 \
                                             : vec4(0.0);                                                              \
  }

/* Adds a part of v to the results. A macro, since what a loop indexes that a driver does not unroll lies in memory. */
#define ADD_PART(part)                                                                                                 \
  if (part * width_step < width) {                                                                                     \
    bool any_wild = false;                                                                                             \
    ++parts_loaded;                                                                                                    \
    for (uint i = lane; i < tile_keys * width_step; i += size) {                                                       \
      uint n = i / width_step;                                                                                         \
      uint group = part * width_step + i % width_step;                                                                 \
      uint s = min(chunk + n, end - 1u);                                                                               \
      bool exists = chunk + n < end;                                                                                   \
      uint at = value_place(key_row(b, s, exists), s, h);                                                              \
      vec4 x = exists && group < width ? load_v(at + group) : vec4(0.0);                                               \
      any_wild = any_wild || !is_finite(x);                                                                            \
      kv_tile[n * kv_pitch + i % width_step] = x;                                                                      \
    }                                                                                                                  \
    if (any_wild) {                                                                                                    \
      atomicMax(wild, parts_loaded);                                                                                   \
    }                                                                                                                  \
    barrier();                                                                                                         \
    if (wild == parts_loaded) {                                                                                        \
      for (uint n = 0u; n < tile_keys; ++n) {                                                                          \
        [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                             \
          uint bits = weight_tile[(row + m * row_groups) * WEIGHT_PITCH + n % SIDE][n / SIDE];                         \
          if (bits != EXCLUDED) {                                                                                      \
            [[unroll]] for (uint c = 0u; c < step_parts; ++c) {                                                        \
              if (part * step_parts + c < parts) {                                                                     \
                result[m][part * step_parts + c] +=                                                                    \
                  uintBitsToFloat(bits) * kv_tile[n * kv_pitch + min(column + c * SIDE, width_step - 1u)];             \
              }                                                                                                        \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    } else {                                                                                                           \
      for (uint i = 0u; i < SIDE; ++i) {                                                                               \
        vec4 weight[rows_each];                                                                                        \
        [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                             \
          weight[m] = uintBitsToFloat(weight_tile[(row + m * row_groups) * WEIGHT_PITCH + i]);                         \
        }                                                                                                              \
        [[unroll]] for (uint n = 0u; n < keys_each; ++n) {                                                             \
          [[unroll]] for (uint c = 0u; c < step_parts; ++c) {                                                          \
            if (part * step_parts + c < parts) {                                                                       \
              vec4 x = kv_tile[(i + n * SIDE) * kv_pitch + min(column + c * SIDE, width_step - 1u)];                   \
              [[unroll]] for (uint m = 0u; m < rows_each; ++m) {                                                       \
                result[m][part * step_parts + c] = fma(vec4(weight[m][n]), x, result[m][part * step_parts + c]);       \
              }                                                                                                        \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    barrier();                                                                                                         \
  }

void main()
{
  uint lane = gl_LocalInvocationID.x;
  uint column = lane % SIDE;
  uint row = lane / SIDE; /* its queries of the tile: row, row + row_groups, .. */
  uint tiles = (queries + tile_rows - 1u) / tile_rows;
  uint rest = group_index() / tiles;
  uint first_row = (group_index() - rest * tiles) * tile_rows;
  uint splits = split_count();
  uint split = rest % splits;
  rest /= splits;
  uint h = rest % heads;
  uint b = rest / heads;
  if (b >= batch) {
    return;
  }
  uint last_row = min(first_row + tile_rows, queries) - 1u;
  uint row_base = (b * heads + h) * queries; /* of query 0, among those of all sentences and heads */
  int first = first_position(b);
  int present = present_keys(b, keys);
  uint begin = split * split_keys;
  uint end = k_rows == 0u ? 0u : visible_keys(last_row, first, present);
  if (split_keys > 0u) {
    end = min(end, begin + split_keys);
  }

  uint q_base = q_offset + b * q_stride[0] + h * q_stride[2];
  uint parts_loaded = 0u;
  if (is_whole) {
    LOAD_Q(0u)
  }
  if (lane == 0u) {
    wild = 0u;
  }

  vec4 result[rows_each][parts];
  float sum[rows_each]; /* of the invocation's keys */
  float largest[rows_each];
  bool spoilt[rows_each]; /* by a score that is NaN or +inf */
  uint visible[rows_each];
  [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
    uint l = first_row + row + m * row_groups;
    visible[m] = l <= last_row ? visible_keys(l, first, present) : 0u;
    sum[m] = 0.0;
    largest[m] = LOWEST;
    spoilt[m] = false;
    [[unroll]] for (uint c = 0u; c < parts; ++c) {
      result[m][c] = vec4(0.0);
    }
  }

  for (uint chunk = begin; chunk < end; chunk += tile_keys) {
    float score[rows_each][keys_each];
    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
      [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
        score[m][n] = 0.0;
      }
    }
    [[dont_unroll]] for (uint from = 0u; from < depth; from += depth_step) {
      if (!is_whole) {
        LOAD_Q(from)
      }
      for (uint i = lane; i < tile_keys * depth_step; i += size) {
        uint n = i / depth_step;
        uint group = from + i % depth_step;
        uint s = min(chunk + n, end - 1u);
        bool exists = chunk + n < end;
        uint at = key_place(key_row(b, s, exists), s, h);
        kv_tile[n * kv_pitch + i % depth_step] = exists && group < depth ? load_k(at + group) : vec4(0.0);
      }
      barrier();

      uint groups = min(depth_step, depth - from);
      for (uint i = 0u; i < groups; ++i) {
        vec4 k_mine[keys_each];
        [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
          k_mine[n] = kv_tile[(column + n * SIDE) * kv_pitch + i];
        }
        [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
          vec4 x = q_tile[(row + m * row_groups) * q_pitch + i];
          [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
            [[unroll]] for (int j = 0; j < 4; ++j) {
              score[m][n] = fma(x[j], k_mine[n][j], score[m][n]);
            }
          }
        }
      }
      if (!is_whole) {
        barrier();
      }
    }

    [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
      uint s = chunk + column + n * SIDE;
      bool exists = s < end;
      s = min(s, end - 1u);
      uint unused = key_row(b, s, exists);
      [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
        uint z_bits = MINUS_INF_BITS; /* the key is not seen */
        if (exists && s < visible[m]) {
          z_bits = masked_score(score[m][n], b, h, first_row + row + m * row_groups, s, first);
        }
        score[m][n] = uintBitsToFloat(z_bits);
        spoilt[m] = spoilt[m] || is_wild(z_bits);
      }
    }
    float before[rows_each];
    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
      before[m] = largest[m];
      [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
        if (floatBitsToUint(score[m][n]) != MINUS_INF_BITS && !spoilt[m]) {
          largest[m] = max(largest[m], score[m][n]);
        }
      }
      partial_rows[(row + m * row_groups) * SIDE + column] = largest[m];
    }
    barrier();

    [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
      for (uint i = 0u; i < SIDE; ++i) {
        largest[m] = max(largest[m], partial_rows[(row + m * row_groups) * SIDE + i]);
      }
      float shrink = exp_accurate(before[m] - largest[m]);
      sum[m] *= shrink;
      [[unroll]] for (uint c = 0u; c < parts; ++c) {
        result[m][c] *= shrink;
      }
      uvec4 weights;
      [[unroll]] for (uint n = 0u; n < keys_each; ++n) {
        uint s = chunk + column + n * SIDE;
        uint bits = EXCLUDED;
        if (floatBitsToUint(score[m][n]) != MINUS_INF_BITS) {
          float weight = exp_accurate(score[m][n] - largest[m]);
          sum[m] += weight;
          if ((options & ATTENTION_DROPOUT) != 0u) {
            weight *= drop_factor(kept_keys(row_base + first_row + row + m * row_groups, s), s);
          }
          bits = floatBitsToUint(weight);
        }
        weights[n] = bits;
      }
      weight_tile[(row + m * row_groups) * WEIGHT_PITCH + column] = weights;
    }
    ADD_PART(0u)
    ADD_PART(1u)
    ADD_PART(2u)
    ADD_PART(3u)
    ADD_PART(4u)
    ADD_PART(5u)
    ADD_PART(6u)
    ADD_PART(7u)
  }

  [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
    partial_rows[(row + m * row_groups) * SIDE + column] = nan_if(spoilt[m], sum[m]);
  }
  barrier();
  [[unroll]] for (uint m = 0u; m < rows_each; ++m) {
    uint l = first_row + row + m * row_groups;
    if (l > last_row) {
      continue;
    }
    float total = 0.0;
    bool number = true;
    for (uint i = 0u; i < SIDE; ++i) {
      float x = partial_rows[(row + m * row_groups) * SIDE + i];
      number = number && !is_nan(x);
      total += x;
    }
    total = nan_if(!number, total);
    largest[m] = nan_if(!number, largest[m]);
    uint y_at = result_at(b, h, l, split);
    [[unroll]] for (uint c = 0u; c < parts; ++c) {
      vec4 x = result[m][c];
      if (split_keys == 0u) {
        x = total == 0.0 ? vec4(0.0) : x / total;
      }
      for (uint e = 0u; e < 4u; ++e) {
        x[e] = nan_if(!number, x[e]);
      }
      if (column + c * SIDE < width) {
        STORE(y, y_at + column + c * SIDE, x);
      }
    }
    if (column == 0u) {
      store_sums(row_base + l, split, largest[m], total);
    }
  }
}
