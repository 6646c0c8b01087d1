#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention, as attention.comp has it, by cooperative matrices, for lines of reduced precision: q, k, v and the
 * weights are rounded to f16 on their way into shared memory, or with BF16 to bf16. A finite value beyond the range
 * becomes the largest finite one.
 *
 * A workgroup has a tile of queries of one sentence and head, each of its subgroups `part_rows` of them, and runs over
 * the keys once, tile by tile. A subgroup multiplies its queries with the tile's keys and leaves the scores in shared
 * memory. There its invocations find a part of a query's row each, and make weights of it, which the subgroup
 * multiplies with v. In memory all is in groups of four.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define QUADS
#include "operand.glsl"
#include "vector.glsl"
#define TO_BF16 false
#include "narrowed.glsl"
#include "contract/attention_cooperative.h"
#include "attention.glsl"

#define LOWEST   uintBitsToFloat(0xff7fffffu) /* below every score; not -inf, which a driver need not know */
#define EXCLUDED 0x8000u /* -0: the weight of a key that is not seen, which none has that is seen */

const uint shape_m = FIRST_BYTE(shape);
const uint shape_n = SECOND_BYTE(shape);
const uint shape_k = THIRD_BYTE(shape);
const uint part_rows = FIRST_BYTE(tile_shape);
const uint lanes = SECOND_BYTE(tile_shape);
const uint tile_keys = THIRD_BYTE(tile_shape);
const uint tile_rows = size / lanes * part_rows;
const uint row_lanes = lanes / part_rows; /* invocations that share a query's row */

/* Whole shapes of q and k, and of v, along their last axis */
const uint depth_shapes = (depth * 4u + shape_k - 1u) / shape_k;
const uint width_shapes = (width * 4u + shape_n - 1u) / shape_n;
const uint m_shapes = part_rows / shape_m;
const uint n_shapes = tile_keys / shape_n;

/* Shared memory is in groups of 16 bytes, which hold eight of f16. Pitches are odd, so that neighbouring rows fall into
 * different banks. */
const uint depth_groups = depth_shapes * shape_k / 8u;
const uint width_groups = width_shapes * shape_n / 8u;
const uint q_pitch = depth_groups | 1u;
const uint v_pitch = width_groups | 1u;
const uint score_pitch = tile_keys / 4u | 1u;
const uint wild_pitch = (width + 3u) / 4u;
const uint shrink_at = tile_keys / 8u; /* in a row of scores, behind the weights that take their place */

shared uvec4 q_tile[tile_rows * q_pitch];
shared uvec4 k_tile[tile_keys * q_pitch];
shared uvec4 v_tile[tile_keys * v_pitch];
shared uvec4 scores[tile_rows * score_pitch];
shared uint key_exists[tile_keys];
shared uint wild_results[tile_rows * wild_pitch]; /* two bits each: +inf, -inf, both: NaN */
shared uint wild; /* 1 + the first key of the last tile in which v is not finite */

#define ROW_MAJOR    gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#define SUMS_MATRIX  coopmat<float, gl_ScopeSubgroup, shape_m, shape_n, gl_MatrixUseAccumulator>

/* NaN or +inf */
bool is_wild(uint bits)
{
  return bits != MINUS_INF_BITS && (bits & 0x7fffffffu) >= PLUS_INF_BITS;
}

bvec4 not_finite(vec4 x)
{
  return greaterThanEqual(floatBitsToUint(x) & 0x7fffffffu, uvec4(0x7f800000u));
}

#ifdef BF16
#define INF_HALF 0x7f80u
#else
#define INF_HALF 0x7c00u
#endif

/* Rounded; instead: what stands where x is not finite */
uvec2 narrowed(vec4 x, vec4 instead)
{
  uvec4 z = mix(floatBitsToUint(x), floatBitsToUint(instead), not_finite(x));
  return uvec2(narrowed(z.xy), narrowed(z.zw));
}

/* Excluded keys must not be seen, and 0 times what is not finite is NaN: so the matrices meet zeros for what is not
 * finite of v, and what it would make of the results of a query is kept aside. */
void find_wild(uint b, uint h, uint row, uint chunk, uint end, uint place)
{
  [[dont_unroll]] for (uint n = 0u; n < tile_keys; ++n) {
    uint bits = scores[row * score_pitch + n / 8u][n / 2u % 4u] >> (n % 2u * 16u) & 0xffffu;
    uint s = min(chunk + n, end - 1u);
    bool exists = bits != EXCLUDED;
    uint from = value_place(key_row(b, s, exists), s, h);
    for (uint i = place; exists && i < width; i += row_lanes) {
      uvec4 x = floatBitsToUint(load_v(from + i));
      uint found = 0u;
      for (uint j = 0u; j < 4u; ++j) {
        bool number = (bits & 0x7fffu) != 0u && (bits & 0x7fffu) <= INF_HALF && (x[j] & 0x7fffffffu) == 0x7f800000u;
        if ((x[j] & 0x7fffffffu) >= 0x7f800000u) {
          found |= (number ? (x[j] >> 31) + 1u : 3u) << (2u * (i % 4u * 4u + j));
        }
      }
      if (found != 0u) {
        atomicOr(wild_results[row * wild_pitch + i / 4u], found);
      }
    }
  }
}

void main()
{
  uint lane = gl_LocalInvocationID.x;
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
  [[dont_unroll]] for (uint i = lane; i < tile_rows * depth_groups; i += size) {
    uint m = i / depth_groups;
    uint quad = i % depth_groups * 2u;
    vec4 x[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      x[j] = first_row + m <= last_row && quad + j < depth ? LOAD(q, q_base + (first_row + m) * q_stride[1] + quad + j)
                                                           : vec4(0.0);
    }
    q_tile[m * q_pitch + quad / 2u] = uvec4(narrowed(x[0], x[0]), narrowed(x[1], x[1]));
  }
  [[dont_unroll]] for (uint i = lane; i < tile_rows * wild_pitch; i += size) {
    wild_results[i] = 0u;
  }
  if (lane == 0u) {
    wild = 0u;
  }
  barrier();

  /* The invocation's row of its subgroup's part, and its place among those who share it */
  uint part = gl_SubgroupID * part_rows;
  uint row = part + gl_SubgroupInvocationID % part_rows;
  uint place = gl_SubgroupInvocationID / part_rows;
  uint l = first_row + row;
  uint visible = l <= last_row ? visible_keys(l, first, present) : 0u;
  float largest = LOWEST;
  float sum = 0.0; /* of the invocation's keys */
  bool spoilt = false; /* by a score that is NaN or +inf */
  SUMS_MATRIX result[m_shapes * width_shapes];
  [[unroll]] for (uint i = 0u; i < m_shapes * width_shapes; ++i) {
    result[i] = SUMS_MATRIX(0.0);
  }

  for (uint chunk = begin; chunk < end; chunk += tile_keys) {
    bool any_wild = false;
    [[dont_unroll]] for (uint i = lane; i < tile_keys * depth_groups; i += size) {
      uint n = i / depth_groups;
      uint quad = i % depth_groups * 2u;
      uint s = min(chunk + n, end - 1u);
      bool exists = chunk + n < end;
      uint from = key_place(key_row(b, s, exists), s, h);
      vec4 x[2];
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        x[j] = exists && quad + j < depth ? load_k(from + quad + j) : vec4(0.0);
      }
      k_tile[n * q_pitch + quad / 2u] = uvec4(narrowed(x[0], x[0]), narrowed(x[1], x[1]));
      if (quad == 0u) {
        key_exists[n] = exists ? 1u : 0u;
      }
    }
    [[dont_unroll]] for (uint i = lane; i < tile_keys * width_groups; i += size) {
      uint n = i / width_groups;
      uint quad = i % width_groups * 2u;
      uint s = min(chunk + n, end - 1u);
      bool exists = chunk + n < end;
      uint from = value_place(key_row(b, s, exists), s, h);
      vec4 x[2];
      [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        x[j] = exists && quad + j < width ? load_v(from + quad + j) : vec4(0.0);
        any_wild = any_wild || any(not_finite(x[j]));
      }
      v_tile[n * v_pitch + quad / 2u] = uvec4(narrowed(x[0], vec4(0.0)), narrowed(x[1], vec4(0.0)));
    }
    if (any_wild) {
      atomicMax(wild, chunk + 1u);
    }
    barrier();

    [[dont_unroll]] for (uint n = 0u; n < n_shapes; ++n) {
      SUMS_MATRIX score[m_shapes];
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
        score[m] = SUMS_MATRIX(0.0);
      }
      [[dont_unroll]] for (uint i = 0u; i < depth_shapes; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, shape_k, shape_n, gl_MatrixUseB> z;
        coopMatLoad(z, k_tile, n * shape_n * q_pitch + i * shape_k / 8u, q_pitch, COLUMN_MAJOR);
        [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
          coopmat<float16_t, gl_ScopeSubgroup, shape_m, shape_k, gl_MatrixUseA> x;
          coopMatLoad(x, q_tile, (part + m * shape_m) * q_pitch + i * shape_k / 8u, q_pitch, ROW_MAJOR);
          score[m] = coopMatMulAdd(x, z, score[m]);
        }
      }
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
        coopMatStore(score[m], scores, (part + m * shape_m) * score_pitch + n * shape_n / 4u, score_pitch, ROW_MAJOR);
      }
    }
    subgroupBarrier();

    /* The invocation's keys: every row_lanes-th eight of the tile's */
    const uint own_groups = tile_keys / 8u / row_lanes;
    uint score_bits[own_groups][8]; /* of -inf: the key is not seen */
    float before = largest;
    [[unroll]] for (uint i = 0u; i < own_groups; ++i) {
      uint n = (place + i * row_lanes) * 8u;
      uvec4 bits[2];
      bits[0] = scores[row * score_pitch + n / 4u];
      bits[1] = scores[row * score_pitch + n / 4u + 1u];
      [[unroll]] for (uint j = 0u; j < 8u; ++j) {
        uint s = chunk + n + j;
        score_bits[i][j] = MINUS_INF_BITS;
        if (s < visible && key_exists[n + j] != 0u) {
          score_bits[i][j] = masked_score(uintBitsToFloat(bits[j / 4u][j % 4u]), b, h, l, s, first);
          spoilt = spoilt || is_wild(score_bits[i][j]);
          if (score_bits[i][j] != MINUS_INF_BITS && !spoilt) {
            largest = max(largest, uintBitsToFloat(score_bits[i][j]));
          }
        }
      }
    }
    [[unroll]] for (uint i = part_rows; i < lanes; i *= 2u) {
      largest = max(largest, subgroupShuffleXor(largest, i));
    }
    float shrink = exp(max(before - largest, -120.0));
    sum *= shrink;
    subgroupBarrier();

    [[unroll]] for (uint i = 0u; i < own_groups; ++i) {
      uint n = (place + i * row_lanes) * 8u;
      uint half_bits[8];
      [[unroll]] for (uint j = 0u; j < 8u; ++j) {
        half_bits[j] = EXCLUDED;
        if (score_bits[i][j] != MINUS_INF_BITS) {
          float weight = exp(max(uintBitsToFloat(score_bits[i][j]) - largest, -120.0));
          sum += weight;
          if ((options & ATTENTION_DROPOUT) != 0u) {
            weight *= drop_factor(kept_keys(row_base + l, chunk + n + j), chunk + n + j);
          }
          half_bits[j] = narrowed(uvec2(floatBitsToUint(weight), 0u)) & 0xffffu;
        }
      }
      scores[row * score_pitch + n / 8u] =
        uvec4(half_bits[0] | half_bits[1] << 16, half_bits[2] | half_bits[3] << 16, half_bits[4] | half_bits[5] << 16,
              half_bits[6] | half_bits[7] << 16);
    }
    [[unroll]] for (uint i = 0u; i < shape_n / 4u; i += row_lanes) {
      scores[row * score_pitch + shrink_at + min(i + place, shape_n / 4u - 1u)] = uvec4(floatBitsToUint(shrink));
    }
    subgroupBarrier();

    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
      SUMS_MATRIX factor;
      coopMatLoad(factor, scores, (part + m * shape_m) * score_pitch + shrink_at, score_pitch, ROW_MAJOR);
      [[unroll]] for (uint i = 0u; i < width_shapes; ++i) {
        result[m * width_shapes + i] = result[m * width_shapes + i] * factor;
      }
    }
    [[dont_unroll]] for (uint n = 0u; n < tile_keys / shape_k; ++n) {
      coopmat<float16_t, gl_ScopeSubgroup, shape_m, shape_k, gl_MatrixUseA> x[m_shapes];
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
        coopMatLoad(x[m], scores, (part + m * shape_m) * score_pitch + n * shape_k / 8u, score_pitch, ROW_MAJOR);
      }
      [[unroll]] for (uint i = 0u; i < width_shapes; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, shape_k, shape_n, gl_MatrixUseB> z;
        coopMatLoad(z, v_tile, n * shape_k * v_pitch + i * shape_n / 8u, v_pitch, ROW_MAJOR);
        [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
          result[m * width_shapes + i] = coopMatMulAdd(x[m], z, result[m * width_shapes + i]);
        }
      }
    }
    if (wild == chunk + 1u) {
      find_wild(b, h, row, chunk, end, place);
    }
    barrier();
  }

  float total = nan_if(spoilt, sum);
  [[unroll]] for (uint i = part_rows; i < lanes; i *= 2u) {
    float other = subgroupShuffleXor(total, i);
    total = nan_if(is_nan(total) || is_nan(other), total + other);
  }
  largest = nan_if(is_nan(total), largest);
  if (l <= last_row && place == 0u) {
    store_sums(row_base + l, split, largest, total);
  }
  uint y_at = result_at(b, h, l, split);
  [[unroll]] for (uint i = 0u; i < width_shapes; ++i) {
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
      coopMatStore(result[m * width_shapes + i], scores, (part + m * shape_m) * score_pitch, score_pitch, ROW_MAJOR);
    }
    subgroupBarrier();
    [[unroll]] for (uint from = 0u; from < shape_n / 4u; from += row_lanes) {
      uint j = min(from + place, shape_n / 4u - 1u);
      vec4 x = uintBitsToFloat(scores[row * score_pitch + j]);
      if (split_keys == 0u) {
        x = total == 0.0 ? vec4(0.0) : x / total;
      }
      uint quad = i * shape_n / 4u + j;
      uint found = quad < width ? wild_results[row * wild_pitch + quad / 4u] >> (quad % 4u * 8u) : 0u;
      [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        uint bits = found >> (2u * e) & 3u;
        if (bits == 3u || is_nan(total)) {
          x[e] = uintBitsToFloat(NAN_BITS);
        } else if (bits != 0u) {
          x[e] = uintBitsToFloat(PLUS_INF_BITS | (bits - 1u) << 31);
        }
      }
      if (l <= last_row && quad < width && from + place < shape_n / 4u) {
        if ((options & ATTENTION_HALVES) != 0u) {
          uvec4 z = floatBitsToUint(x);
          WORD(w, partial_at + (y_at + quad) * 2u) = narrowed(z.xy);
          WORD(w, partial_at + (y_at + quad) * 2u + 1u) = narrowed(z.zw);
          continue;
        }
        STORE(y, y_at + quad, x);
      }
    }
    subgroupBarrier();
  }
}
