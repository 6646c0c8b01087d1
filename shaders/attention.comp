#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention: y[b, l, h] = sum_s w[s] v[b, s, h], w = softmax_s(alpha q[b, l, h] . k[b, s, h] + biases), with a
 * running maximum and sum.
 *
 * A workgroup has a tile of `tile_rows` queries of one sentence and head, and runs over the keys once, in chunks of one
 * key per invocation, up to the last one that is visible. An invocation first has one key, and makes the scores of the
 * tile's queries with it; then it has `parts` elements of v's last axis, and adds up the tile's results there. With
 * SUBGROUP a workgroup is one subgroup, whose lanes hand each other queries and weights by shuffles. Otherwise they do
 * so through shared memory, and a workgroup has at most 64 invocations.
 */
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "operand.glsl"
#include "row.glsl"
#include "contract/attention_rows.h"
#include "attention.glsl"

#define EXCLUDED 0xbf800000u /* stands for the weight of a key that is not seen */

/* x or y. Lanes of a subgroup compute both: a branch might let them go on apart. */
#ifdef SUBGROUP
float either(bool first, float x, float y)
{
  return first ? x : y;
}
#define EITHER(first, x, y) either(first, x, y)
#else
#define EITHER(first, x, y) ((first) ? (x) : (y))

shared float shared_weight[8][64];
shared uint shared_start[64];
#endif

void main()
{
  const uint lanes = gl_WorkGroupSize.x;
  const uint block_width = lanes * parts;
  const uint blocks = max((width + block_width - 1u) / block_width, 1u);
#ifdef SUBGROUP
  uint lane = gl_SubgroupInvocationID;
#else
  uint lane = gl_LocalInvocationID.x;
#endif
  uint tiles = (queries + tile_rows - 1u) / tile_rows;
  uint rest = group_index() / tiles;
  uint first_row = (group_index() - rest * tiles) * tile_rows;
  uint block = rest % blocks;
  rest /= blocks;
  uint splits = split_count();
  uint split = rest % splits;
  rest /= splits;
  uint h = rest % heads;
  uint b = rest / heads;
  if (b >= batch) {
    return;
  }
  uint first_element = block * block_width + lane;
  uint row_base = (b * heads + h) * queries; /* of query 0, among those of all sentences and heads */
  bool writes_weights = (options & ATTENTION_WEIGHTS) != 0u && block == 0u;

  uint q_base = q_offset + b * q_stride[0] + h * q_stride[2];
  int first = first_position(b);
  uint last_row = min(first_row + tile_rows, queries) - 1u;
  int present = present_keys(b, keys);
  uint begin = split * split_keys;
  uint end = k_rows == 0u ? 0u : visible_keys(last_row, first, present);
  if (split_keys > 0u) {
    end = min(end, begin + split_keys);
  }

  VECTOR result[tile_rows][parts];
  float sum[tile_rows];
  uint order[tile_rows]; /* of the running maximum */
  uint visible[tile_rows];
  for (uint m = 0u; m < tile_rows; ++m) {
    visible[m] = visible_keys(min(first_row + m, last_row), first, present);
    sum[m] = 0.0;
    order[m] = ORDER_MINUS_INF;
    for (uint c = 0u; c < parts; ++c) {
      result[m][c] = VECTOR(0.0);
    }
  }

  for (uint chunk = begin; chunk < end; chunk += lanes) {
    uint s = min(chunk + lane, keys - 1u);
    bool exists = chunk + lane < end;
    uint row = key_row(b, s, exists);
    uint k_at = key_place(row, s, h);
    uint v_start = value_place(row, s, h);

    float score[tile_rows];
    for (uint m = 0u; m < tile_rows; ++m) {
      score[m] = 0.0;
    }
#ifdef SUBGROUP
    const uint steps = lanes / tile_rows; /* elements or groups that one load of q brings */
    uint q_at = q_base + min(first_row + lane % tile_rows, last_row) * q_stride[1];
    for (uint i = 0u; i < depth; i += steps) {
      VECTOR q_mine = LOAD(q, q_at + min(i + lane / tile_rows, depth - 1u) * q_stride[3]);
      for (uint step = 0u; step < steps; ++step) {
        if (i + step < depth) {
          VECTOR k_mine = load_k(k_at + (i + step) * k_stride[3]);
          for (uint m = 0u; m < tile_rows; ++m) {
            VECTOR x = subgroupShuffle(q_mine, step * tile_rows + m);
            for (int j = 0; j < WIDTH; ++j) {
              score[m] = fma(COMPONENT(x, j), COMPONENT(k_mine, j), score[m]);
            }
          }
        }
      }
    }
#else
    for (uint i = 0u; i < depth; ++i) {
      VECTOR k_mine = load_k(k_at + i * k_stride[3]);
      for (uint m = 0u; m < tile_rows; ++m) {
        VECTOR x = LOAD(q, q_base + min(first_row + m, last_row) * q_stride[1] + i * q_stride[3]);
        for (int j = 0; j < WIDTH; ++j) {
          score[m] = fma(COMPONENT(x, j), COMPONENT(k_mine, j), score[m]);
        }
      }
    }
#endif

    float weight[tile_rows];
#ifdef SUBGROUP
    /* No branch between the maxima, and nothing that is the same in all rounds for a compiler to branch on before them:
     * it might let the invocations go on apart. */
    const uint never = 0xffffffffu;
    uint s_seen = exists ? s : never;
    uint bits[tile_rows]; /* of the scores */
    uint kept[tile_rows]; /* of the dropout, the key's word of each query */
    uint kept_mine = kept_keys(row_base + min(first_row + lane % tile_rows, last_row), chunk);
    for (uint m = 0u; m < tile_rows; ++m) {
      kept[m] = (options & ATTENTION_DROPOUT) != 0u ? subgroupShuffle(kept_mine, m) : 0u;
    }
#endif
    for (uint m = 0u; m < tile_rows; ++m) {
      uint l = min(first_row + m, last_row);
#ifdef SUBGROUP
      uint z_bits = masked_score(score[m], b, h, l, s, first);
      z_bits = s_seen < visible[m] ? z_bits : MINUS_INF_BITS;
      bits[m] = z_bits;
#else
      uint z_bits = exists && s < visible[m] ? masked_score(score[m], b, h, l, s, first) : MINUS_INF_BITS;
      if (writes_weights && chunk + lane < keys && first_row + m <= last_row) {
        WORD(w, (row_base + l) * keys + s) = z_bits;
      }
#endif
      bool seen = z_bits != MINUS_INF_BITS;
      uint new_order = max(order[m], group_max(order_of_bits(z_bits)));
      float largest = finite_of(new_order);
      float shrink = EITHER(new_order == order[m], 1.0, exp_accurate(number_of(order[m]) - largest));
      order[m] = new_order;
      float w_mine = EITHER(seen, exp_accurate(uintBitsToFloat(z_bits) - largest), 0.0);
      sum[m] = sum[m] * shrink + w_mine;
#ifdef SUBGROUP
      w_mine *= drop_factor(kept[m], s);
#else
      if ((options & ATTENTION_DROPOUT) != 0u && seen) {
        w_mine *= drop_factor(kept_keys(row_base + l, s), s);
      }
#endif
      weight[m] = seen ? w_mine : uintBitsToFloat(EXCLUDED);
      for (uint c = 0u; c < parts; ++c) {
        result[m][c] *= shrink;
      }
    }
#ifdef SUBGROUP
    if (writes_weights && chunk + lane < keys) {
      for (uint m = 0u; m < tile_rows; ++m) {
        if (first_row + m <= last_row) {
          WORD(w, (row_base + first_row + m) * keys + s) = bits[m];
        }
      }
    }
#else
    for (uint m = 0u; m < tile_rows; ++m) {
      shared_weight[m][lane] = weight[m];
    }
    shared_start[lane] = v_start;
    barrier();
#endif
    uint n = width == 0u ? 0u : min(lanes, end - chunk);
    for (uint t = 0u; t < n; ++t) {
      float weight_t[tile_rows];
#ifdef SUBGROUP
      uint v_at = subgroupShuffle(v_start, t);
      for (uint m = 0u; m < tile_rows; ++m) {
        weight_t[m] = subgroupShuffle(weight[m], t);
      }
#else
      uint v_at = shared_start[t];
      for (uint m = 0u; m < tile_rows; ++m) {
        weight_t[m] = shared_weight[m][t];
      }
#endif
      for (uint c = 0u; c < parts; ++c) {
        VECTOR x = load_v(v_at + min(first_element + c * lanes, width - 1u) * v_stride[3]);
        for (uint m = 0u; m < tile_rows; ++m) {
          if (floatBitsToUint(weight_t[m]) != EXCLUDED) {
            result[m][c] += weight_t[m] * x;
          }
        }
      }
    }
#ifndef SUBGROUP
    barrier();
#endif
  }

  float total[tile_rows];
  for (uint m = 0u; m < tile_rows; ++m) {
    total[m] = group_sum(sum[m]);
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    bool nothing = order[m] <= ORDER_MINUS_INF;
    if (first_row + m > last_row) {
      continue;
    }
    uint y_at = result_at(b, h, first_row + m, split);
    for (uint c = 0u; c < parts; ++c) {
      uint j = first_element + c * lanes;
      if (j < width) {
        STORE(y, y_at + j, split_keys > 0u ? result[m][c] : nothing ? VECTOR(0.0) : result[m][c] / total[m]);
      }
    }
    float largest = finite_of(order[m]);
    if (block == 0u && lane == 0u) {
      store_sums(row_base + first_row + m, split, largest, total[m]);
    }
  }
  if (!writes_weights) {
    return;
  }
  /* The loop over rows is the inner one: what a loop that is not unrolled indexes with its variable is kept in
   * memory. */
  uint written = min((end + lanes - 1u) / lanes * lanes, keys);
  for (uint s = lane; s < keys; s += lanes) {
    for (uint m = 0u; m < tile_rows; ++m) {
      if (first_row + m > last_row) {
        continue;
      }
      uint at = (row_base + first_row + m) * keys + s;
      uint z_bits = s < written ? WORD(w, at) : MINUS_INF_BITS;
      bool nothing = order[m] <= ORDER_MINUS_INF;
      float weight = z_bits == MINUS_INF_BITS ? 0.0 : exp_accurate(uintBitsToFloat(z_bits) - finite_of(order[m]));
      WORD(w, at) = nothing ? 0u : floatBitsToUint(weight / total[m]);
    }
  }
}
