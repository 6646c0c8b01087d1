#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, as attention.comp has it, of few queries, a decoding step's above all: what counts is how many loads of k
 * and v are on their way at a time.
 *
 * A workgroup has `tile_rows` queries of one sentence and head, and runs over the keys in chunks. `key_lanes`
 * invocations share a key, each with some groups of its elements, and make the scores of the queries with it; then each
 * invocation has one key of the chunk, and finds its weights; then `value_lanes` invocations share a row of v, and add
 * up the queries' results, which all that have the same elements of v put together at the end.
 *
 * With OUTPUT it then multiplies its head's results by the output's weights: parts[query, head, n] = sum_j y[query,
 * head, j] weight[head, j, n]. What reads the output adds up the heads (matmul_fused.comp). Workgroups share the
 * columns n, and find the same results each for itself: there are few of them.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define QUADS
#include "operand.glsl"
#include "vector.glsl"
#include "number.glsl"
#include "contract/attention_few.h"
#include "attention.glsl"

#define EXCLUDED 0xbf800000u /* stands for the weight of a key that is not seen */

const uint keys_at_once = FEW_SIZE / key_lanes;
const uint chunk_keys = keys_at_once * FEW_LOADS; /* at most FEW_SIZE */
const uint values_at_once = FEW_SIZE / value_lanes;
const uint key_parts = (depth + key_lanes - 1u) / key_lanes; /* groups of an invocation */
const uint value_parts = (width + value_lanes - 1u) / value_lanes;
const uint partial_pitch = key_lanes + 1u;

shared vec4 q_rows[tile_rows * depth];
shared float partial[chunk_keys * partial_pitch];
shared uvec4 order_of_key[tile_rows * chunk_keys / 4u];
shared float weight_of_key[tile_rows * chunk_keys];
shared vec4 merged[FEW_SIZE];
shared float merged_sum[FEW_SIZE];
#ifdef OUTPUT
const uint output_columns = OUTPUT_COLUMNS(output_shape);
const uint output_blocks = (output_columns + FEW_SIZE - 1u) / FEW_SIZE; /* workgroups that share the columns */
const uint output_type = OUTPUT_TYPE(output_shape);
const uint load_quads = output_type == TYPE_F32 ? 1u : 2u; /* groups of four in a load of 16 bytes */
const uint column_loads = width / load_quads;              /* of a column, for one head */

shared vec4 y_rows[tile_rows * width];

/* What a load of the output's weights brings. */
void values_of(uvec4 words, out vec4 z[load_quads])
{
  if (output_type == TYPE_F32) {
    z[0] = uintBitsToFloat(words);
    return;
  }
  [[unroll]] for (uint i = 0u; i < load_quads; ++i) {
    uvec2 pair = i == 0u ? words.xy : words.zw;
    z[i] = vec4(two_numbers(output_type, pair.x), two_numbers(output_type, pair.y));
  }
}

/* Query 0 of the tile is row first_row of head h; an invocation has column n. */
void multiply(uint first_row, uint n_rows, uint h, uint n)
{
  if (n < output_columns) {
    float total[tile_rows];
    [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
      total[m] = 0.0;
    }
    uint at = (n * heads + h) * column_loads;
    [[dont_unroll]] for (uint from = 0u; from < column_loads; from += FEW_LOADS) {
      uvec4 words[FEW_LOADS];
      [[unroll]] for (uint i = 0u; i < FEW_LOADS; ++i) {
        words[i] = QUAD(output_weight, at + min(from + i, column_loads - 1u));
      }
      [[unroll]] for (uint i = 0u; i < FEW_LOADS; ++i) {
        if (from + i < column_loads) {
          vec4 z[load_quads];
          values_of(words[i], z);
          [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
            [[unroll]] for (uint c = 0u; c < load_quads; ++c) {
              vec4 x = y_rows[m * width + (from + i) * load_quads + c];
              [[unroll]] for (int e = 0; e < 4; ++e) {
                total[m] = fma(x[e], z[c][e], total[m]);
              }
            }
          }
        }
      }
    }
    float added = (output_shape & OUTPUT_BIAS) != 0u && h == 0u ? FLOAT(output_bias, n) : 0.0;
    [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
      if (m < n_rows) {
        WORD(parts, partial_at + ((first_row + m) * heads + h) * output_columns + n) =
            floatBitsToUint(total[m] + added);
      }
    }
  }
}
#endif

void main()
{
  uint lane = gl_LocalInvocationID.x;
  uint tiles = (queries + tile_rows - 1u) / tile_rows;
  uint rest = group_index() / tiles;
  uint first_row = (group_index() - rest * tiles) * tile_rows;
#ifdef OUTPUT
  uint block = rest % output_blocks;
  rest /= output_blocks;
#endif
  uint splits = split_count();
  uint split = rest % splits;
  rest /= splits;
  uint h = rest % heads;
  uint b = rest / heads;
  if (b >= batch) {
    return;
  }
  uint row_base = (b * heads + h) * queries; /* of query 0, among those of all sentences and heads */
  uint q_base = q_offset + b * q_stride[0] + h * q_stride[2];
  int first = first_position(b);
  uint last_row = min(first_row + tile_rows, queries) - 1u;
  int present = present_keys(b, keys);
  uint begin = split * split_keys;
  uint end = k_rows == 0u ? 0u : visible_keys(last_row, first, present);
  if (split_keys > 0u) {
    end = min(end, begin + split_keys);
  }

  for (uint i = lane; i < tile_rows * depth; i += FEW_SIZE) {
    uint m = i / depth;
    q_rows[i] = LOAD(q, q_base + min(first_row + m, last_row) * q_stride[1] + (i - m * depth) * q_stride[3]);
  }
  vec4 result[tile_rows][value_parts];
  float sum[tile_rows]; /* of the weights of the keys that this invocation adds up */
  uint order[tile_rows]; /* of the running maximum */
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    sum[m] = 0.0;
    order[m] = ORDER_MINUS_INF;
    [[unroll]] for (uint c = 0u; c < value_parts; ++c) {
      result[m][c] = vec4(0.0);
    }
  }
  barrier();

  uint key_lane = lane % key_lanes, key_group = lane / key_lanes;
  uint value_lane = lane % value_lanes, value_group = lane / value_lanes;
  [[dont_unroll]] for (uint chunk = begin; chunk < end; chunk += chunk_keys) {
    float product[tile_rows][FEW_LOADS];
    [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
      [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
        product[m][r] = 0.0;
      }
    }
    [[unroll]] for (uint p = 0u; p < key_parts; ++p) {
      uint i = key_lane + p * key_lanes, there = min(i, depth - 1u);
      vec4 k_mine[FEW_LOADS];
      [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
        uint s = min(chunk + r * keys_at_once + key_group, keys - 1u);
        bool exists = true;
        uint row = key_row(b, s, exists);
        k_mine[r] = load_k(key_place(row, s, h) + there * k_stride[3]);
      }
      [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
        vec4 x = q_rows[m * depth + there];
        [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
          float z = product[m][r];
          [[unroll]] for (int e = 0; e < 4; ++e) {
            z = fma(x[e], k_mine[r][e], z);
          }
          product[m][r] = i < depth ? z : product[m][r];
        }
      }
    }

    uint s = chunk + lane;
    bool exists = lane < chunk_keys && s < end;
    key_row(b, min(s, keys - 1u), exists);
    uint z_bits[tile_rows];
    [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
      [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
        partial[(r * keys_at_once + key_group) * partial_pitch + key_lane] = product[m][r];
      }
      barrier();
      uint l = min(first_row + m, last_row);
      z_bits[m] = MINUS_INF_BITS;
      if (exists && s < visible_keys(l, first, present)) {
        float score = 0.0;
        [[unroll]] for (uint i = 0u; i < key_lanes; ++i) {
          score += partial[lane * partial_pitch + i];
        }
        z_bits[m] = masked_score(score, b, h, l, s, first);
      }
      if (lane < chunk_keys) {
        uint at = m * chunk_keys + lane;
        order_of_key[at / 4u][at % 4u] = order_of_bits(z_bits[m]);
      }
      barrier();
    }
    [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
      uvec4 largest_of_four = uvec4(ORDER_MINUS_INF);
      for (uint i = 0u; i < chunk_keys / 4u; ++i) {
        largest_of_four = max(largest_of_four, order_of_key[m * chunk_keys / 4u + i]);
      }
      uvec2 largest_of_two = max(largest_of_four.xy, largest_of_four.zw);
      uint new_order = max(order[m], max(largest_of_two.x, largest_of_two.y));
      float largest = finite_of(new_order);
      float shrink = new_order == order[m] ? 1.0 : exp_accurate(number_of(order[m]) - largest);
      order[m] = new_order;
      sum[m] *= shrink;
      [[unroll]] for (uint c = 0u; c < value_parts; ++c) {
        result[m][c] *= shrink;
      }
      bool seen = z_bits[m] != MINUS_INF_BITS;
      if (lane < chunk_keys) {
        weight_of_key[m * chunk_keys + lane] =
            seen ? exp_accurate(uintBitsToFloat(z_bits[m]) - largest) : uintBitsToFloat(EXCLUDED);
      }
    }
    barrier();

    [[dont_unroll]] for (uint from = 0u; from < min(chunk_keys, end - chunk); from += values_at_once * FEW_LOADS) {
      uint v_at[FEW_LOADS];
      [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
        uint t = min(chunk + from + r * values_at_once + value_group, keys - 1u);
        bool row_exists = true;
        uint row = key_row(b, t, row_exists);
        v_at[r] = value_place(row, t, h);
      }
      [[unroll]] for (uint c = 0u; c < value_parts; ++c) {
        uint j = min(value_lane + c * value_lanes, width - 1u);
        vec4 v_mine[FEW_LOADS];
        [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
          v_mine[r] = load_v(v_at[r] + j * v_stride[3]);
        }
        [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
          [[unroll]] for (uint r = 0u; r < FEW_LOADS; ++r) {
            uint t = from + r * values_at_once + value_group;
            float weight = t < chunk_keys ? weight_of_key[m * chunk_keys + t] : uintBitsToFloat(EXCLUDED);
            if (floatBitsToUint(weight) != EXCLUDED) {
              sum[m] += c == 0u ? weight : 0.0;
              uint row = row_base + min(first_row + m, last_row);
              result[m][c] += weight * drop_factor(kept_keys(row, chunk + t), chunk + t) * v_mine[r];
            }
          }
        }
      }
    }
  }

  [[dont_unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    float total = 0.0;
    bool nothing = order[0] <= ORDER_MINUS_INF;
    float largest = finite_of(order[0]);
#ifndef OUTPUT
    uint y_at = result_at(b, h, min(first_row + m, last_row), split);
#endif
    merged_sum[lane] = sum[0];
    [[unroll]] for (uint c = 0u; c < value_parts; ++c) {
      merged[lane] = result[0][c];
      barrier();
      uint j = value_lane + c * value_lanes;
      if (value_group == 0u) {
        vec4 whole = vec4(0.0);
        total = 0.0;
        for (uint i = 0u; i < values_at_once; ++i) {
          whole += merged[i * value_lanes + value_lane];
          total += merged_sum[i * value_lanes];
        }
#ifdef OUTPUT
        if (j < width) {
          y_rows[m * width + j] = nothing ? vec4(0.0) : whole / total;
        }
#else
        if (j < width && first_row + m <= last_row) {
          STORE(y, y_at + j, split_keys > 0u ? whole : nothing ? vec4(0.0) : whole / total);
        }
#endif
      }
      barrier();
    }
#ifndef OUTPUT
    if (lane == 0u && first_row + m <= last_row) {
      store_sums(row_base + first_row + m, split, largest, total);
    }
#endif
    /* Row after row is moved to the front. */
    [[unroll]] for (uint next = 1u; next < tile_rows; ++next) {
      sum[next - 1u] = sum[next];
      order[next - 1u] = order[next];
      [[unroll]] for (uint c = 0u; c < value_parts; ++c) {
        result[next - 1u][c] = result[next][c];
      }
    }
  }
#ifdef OUTPUT
  barrier();
  multiply(b * queries + first_row, last_row + 1u - first_row, h, block * FEW_SIZE + lane);
#endif
}
