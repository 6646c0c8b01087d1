#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of fused attention (Dao et al. 2022, arXiv:2205.14135), as attention.comp goes about it: a workgroup
 * takes a few queries of one sentence and head, and runs over the keys in chunks of one key per invocation, which
 * gives dq and dscores. With BY_KEYS it is the other way round: a few keys, and a run over the queries that see them,
 * which gives dk and dv (lib/attention_gradient.glsl). Either side makes the weights again from the scores and lse.
 *
 * Lanes lie along the others, in the results along their last axis; SUBGROUP as in attention.comp.
 */
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "operand.glsl"
#include "contract/attention_gradient_rows.h"
#include "attention_gradient.glsl"

#define EXCLUDED 0xffffffffu /* stands for the gradient of a score that is not seen */

#ifndef SUBGROUP
shared uint shared_gradient[8][64];
shared float shared_weight[8][64];
#endif

/* sums[m] += the product of row m of the tile with the invocation's row of the others */
#ifdef SUBGROUP
#define ADD_PRODUCTS(sums, mine, mine_base, mine_stride, mine_step, theirs, theirs_at, theirs_step, n)                 \
  {                                                                                                                    \
    const uint steps = lanes / tile_rows; /* elements or groups that one load brings */                                \
    uint mine_at = mine_base + min(first_row + lane % tile_rows, last_row) * mine_stride;                              \
    for (uint i = 0u; i < n; i += steps) {                                                                             \
      VECTOR loaded = LOAD(mine, mine_at + min(i + lane / tile_rows, n - 1u) * mine_step);                             \
      for (uint step = 0u; step < steps; ++step) {                                                                     \
        if (i + step < n) {                                                                                            \
          VECTOR x = LOAD(theirs, theirs_at + (i + step) * theirs_step);                                               \
          for (uint m = 0u; m < tile_rows; ++m) {                                                                      \
            VECTOR y = subgroupShuffle(loaded, step * tile_rows + m);                                                  \
            for (int j = 0; j < WIDTH; ++j) {                                                                          \
              sums[m] = fma(COMPONENT(y, j), COMPONENT(x, j), sums[m]);                                                \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
#else
#define ADD_PRODUCTS(sums, mine, mine_base, mine_stride, mine_step, theirs, theirs_at, theirs_step, n)                 \
  for (uint i = 0u; i < n; ++i) {                                                                                      \
    VECTOR x = LOAD(theirs, theirs_at + i * theirs_step);                                                              \
    for (uint m = 0u; m < tile_rows; ++m) {                                                                            \
      VECTOR y = LOAD(mine, mine_base + min(first_row + m, last_row) * mine_stride + i * mine_step);                   \
      for (int j = 0; j < WIDTH; ++j) {                                                                                \
        sums[m] = fma(COMPONENT(y, j), COMPONENT(x, j), sums[m]);                                                      \
      }                                                                                                                \
    }                                                                                                                  \
  }
#endif

void main()
{
  const uint lanes = gl_WorkGroupSize.x;
  const bool by_keys = (options & GRADIENT_BY_KEYS) != 0u;
  const uint block_width = lanes * parts;
  const uint widest = by_keys ? max(depth, width) : depth;
  const uint blocks = max((widest + block_width - 1u) / block_width, 1u);
  uint n_own = by_keys ? keys : queries;
  uint n_others = by_keys ? queries : keys;
#ifdef SUBGROUP
  uint lane = gl_SubgroupInvocationID;
#else
  uint lane = gl_LocalInvocationID.x;
#endif
  uint tiles = (n_own + tile_rows - 1u) / tile_rows;
  uint rest = group_index() / tiles;
  uint first_row = (group_index() - rest * tiles) * tile_rows;
  uint block = rest % blocks;
  uint h = rest / blocks % heads;
  uint b = rest / blocks / heads;
  if (b >= batch) {
    return;
  }
  uint first_element = block * block_width + lane;
  uint last_row = min(first_row + tile_rows, n_own) - 1u;
  uint row_base = (b * heads + h) * queries; /* of query 0, among those of all sentences and heads */
  bool writes_scores = (options & GRADIENT_DSCORES) != 0u && block == 0u;

  uint own_base = own_offset + b * own_stride[0] + h * own_stride[2];
  uint own2_base = own2_offset + b * own2_stride[0] + h * own2_stride[2];
  int first = first_position(b);
  int present = present_keys(b, keys);
  const uvec2 range = range_of(by_keys, first_row, last_row, first, present);
  uint begin = range.x;
  uint end = range.y;

  vec2 stats[tile_rows]; /* of the queries: lse, delta */
#ifdef SUBGROUP
  vec2 stats_mine = by_keys ? vec2(0.0) : stats_of(row_base + min(first_row + lane % tile_rows, last_row));
#endif
  for (uint m = 0u; m < tile_rows && !by_keys; ++m) {
#ifdef SUBGROUP
    stats[m] = subgroupShuffle(stats_mine, m);
#else
    stats[m] = stats_of(row_base + min(first_row + m, last_row));
#endif
  }

  VECTOR sum[tile_rows][parts];  /* of result */
  VECTOR sum2[tile_rows][parts]; /* of second, with BY_KEYS */
  for (uint m = 0u; m < tile_rows; ++m) {
    for (uint c = 0u; c < parts; ++c) {
      sum[m][c] = VECTOR(0.0);
      sum2[m][c] = VECTOR(0.0);
    }
  }

  for (uint chunk = begin; chunk < end; chunk += lanes) {
    uint t = min(chunk + lane, n_others - 1u);
    bool exists = chunk + lane < end;
    uint other_base = other_offset + b * other_stride[0] + h * other_stride[2];
    uint other2_base = other2_offset + b * other2_stride[0] + h * other2_stride[2];
    uint other_at = other_base + t * other_stride[1];
    uint other2_at = other2_base + t * other2_stride[1];

    float score[tile_rows];
    float slope[tile_rows]; /* dy . v */
    for (uint m = 0u; m < tile_rows; ++m) {
      score[m] = 0.0;
      slope[m] = 0.0;
    }
    ADD_PRODUCTS(score, own, own_base, own_stride[1], own_step, other, other_at, other_step, depth)
    if (width > 0u) {
      ADD_PRODUCTS(slope, own2, own2_base, own2_stride[1], own2_step, other2, other2_at, other2_step, width)
    }

    uint gradient[tile_rows]; /* of the score */
    float weight[tile_rows];  /* dropped out */
    /* A tile's keys lie in one word, and so do those of a subgroup's lanes. */
#ifdef SUBGROUP
    uint kept_mine = by_keys ? kept_keys(row_base + t, first_row)
                             : kept_keys(row_base + min(first_row + lane % tile_rows, last_row), chunk);
#else
    uint kept_mine = by_keys ? kept_keys(row_base + t, first_row) : 0u;
#endif
    uint kept[tile_rows];
    for (uint m = 0u; m < tile_rows; ++m) { /* apart from what follows, where invocations go different ways */
#ifdef SUBGROUP
      kept[m] = by_keys || (options & ATTENTION_DROPOUT) == 0u ? kept_mine : subgroupShuffle(kept_mine, m);
#else
      kept[m] = by_keys ? kept_mine : kept_keys(row_base + min(first_row + m, last_row), t);
#endif
    }
    vec2 stats_t = by_keys ? stats_of(row_base + t) : vec2(0.0);
    for (uint m = 0u; m < tile_rows; ++m) {
      uint row = min(first_row + m, last_row);
      uint l = by_keys ? t : row;
      uint s = by_keys ? row : t;
      gradient[m] = EXCLUDED;
      weight[m] = 0.0;
      if (exists && s < visible_keys(l, first, present)) {
        pair_gradient(score[m], slope[m], by_keys ? stats_t : stats[m], kept[m], b, h, l, s, first, gradient[m],
                      weight[m]);
      }
      if (writes_scores && chunk + lane < n_others && first_row + m <= last_row) {
        WORD(dscores, (row_base + l) * keys + s) = gradient[m] == EXCLUDED ? 0u : gradient[m];
      }
      gradient[m] = gradient[m] == EXCLUDED ? EXCLUDED : before_cap(gradient[m], score[m]);
#ifndef SUBGROUP
      shared_gradient[m][lane] = gradient[m];
      if (by_keys) {
        shared_weight[m][lane] = weight[m];
      }
#endif
    }
#ifndef SUBGROUP
    barrier();
#endif

    uint n = min(lanes, end - chunk);
    for (uint i = 0u; i < n; ++i) {
      float gradient_i[tile_rows];
      float weight_i[tile_rows];
      bool visible[tile_rows];
      for (uint m = 0u; m < tile_rows; ++m) {
#ifdef SUBGROUP
        uint bits = subgroupShuffle(gradient[m], i);
        weight_i[m] = by_keys && width > 0u ? subgroupShuffle(weight[m], i) : 0.0;
#else
        uint bits = shared_gradient[m][i];
        weight_i[m] = by_keys ? shared_weight[m][i] : 0.0;
#endif
        gradient_i[m] = uintBitsToFloat(bits);
        visible[m] = bits != EXCLUDED;
      }
      for (uint c = 0u; c < parts; ++c) {
        if (depth > 0u) {
          VECTOR x = LOAD(other, other_base + (chunk + i) * other_stride[1] +
                                 min(first_element + c * lanes, depth - 1u) * other_step);
          for (uint m = 0u; m < tile_rows; ++m) {
            if (visible[m]) {
              sum[m][c] += gradient_i[m] * x;
            }
          }
        }
        if (by_keys && width > 0u) {
          VECTOR x = LOAD(other2, other2_base + (chunk + i) * other2_stride[1] +
                                  min(first_element + c * lanes, width - 1u) * other2_step);
          for (uint m = 0u; m < tile_rows; ++m) {
            if (visible[m]) {
              sum2[m][c] += weight_i[m] * x;
            }
          }
        }
      }
    }
#ifndef SUBGROUP
    barrier();
#endif
  }

  for (uint m = 0u; m < tile_rows; ++m) {
    if (first_row + m > last_row) {
      continue;
    }
    uint row = (b * n_own + first_row + m) * heads + h;
    for (uint c = 0u; c < parts; ++c) {
      uint j = first_element + c * lanes;
      if (j < depth) {
        STORE(result, row * depth + j, times(alpha_bits, sum[m][c]));
      }
      if (by_keys && j < width) {
        STORE(second, row * width + j, sum2[m][c]);
      }
    }
  }
  if (!writes_scores) {
    return;
  }
  /* The loop over rows is the inner one: what a loop that is not unrolled indexes with its variable is kept in
   * memory. */
  uint written = min((end + lanes - 1u) / lanes * lanes, keys);
  for (uint s = written + lane; s < keys; s += lanes) {
    for (uint m = 0u; m < tile_rows; ++m) {
      if (first_row + m <= last_row) {
        WORD(dscores, (row_base + first_row + m) * keys + s) = 0u;
      }
    }
  }
}
