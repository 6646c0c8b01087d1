#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of fused attention, as attention_gradient.comp has them, by cooperative matrices, for lines of reduced
 * precision: q, k, v, dy, the weights and the gradients of the scores are rounded to f16 on their way into shared
 * memory, or with BF16 to bf16. A finite value beyond the range becomes the largest finite one.
 *
 * A workgroup has a tile of its own rows of one sentence and head, each of its subgroups `part_rows` of them, and runs
 * over the others tile by tile (own and others: lib/attention_gradient.glsl). A subgroup multiplies both of its own
 * with both of the others', and leaves the products in shared memory. There its invocations find a part of a row each,
 * and make of it the weights and the gradients of the scores, which the subgroup multiplies with the others. No two
 * workgroups add to one result: the same bits come out of each run. In memory all is in groups of four.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define QUADS
#include "operand.glsl"
#define TO_BF16 false
#include "narrowed.glsl"
#include "contract/attention_cooperative.h"
#include "attention_gradient.glsl"

#define EXCLUDED 0x8000u     /* -0: the factor of a pair that is not seen, which none has that is seen */
#define HIDDEN   0xffffffffu /* the gradient of its score */

const bool by_keys = (options & GRADIENT_BY_KEYS) != 0u;
const uint shape_m = FIRST_BYTE(shape);
const uint shape_n = SECOND_BYTE(shape);
const uint shape_k = THIRD_BYTE(shape);
const uint part_rows = FIRST_BYTE(tile_shape);
const uint lanes = SECOND_BYTE(tile_shape);
const uint tile_others = THIRD_BYTE(tile_shape);
const uint tile_rows = size / lanes * part_rows;
const uint row_lanes = lanes / part_rows; /* invocations that share a row */
const uint m_shapes = part_rows / shape_m;

/* Whole shapes along the last axes, over which the scores are summed, and which the results have */
const uint whole = shape_n > shape_k ? shape_n : shape_k;
const uint whole_depth = (depth * 4u + whole - 1u) / whole * whole;
const uint whole_width = (width * 4u + whole - 1u) / whole * whole;
const uint depth_shapes = whole_depth / shape_n;
const uint width_shapes = by_keys ? whole_width / shape_n : 1u;

/* Shared memory is in groups of 16 bytes, which hold eight of 16 bits. Pitches are odd, so that neighbouring rows fall
 * into different banks. A row of sums holds what the subgroup multiplied; then the halves of factors take its
 * place, and last a shape of results. */
const uint depth_groups = whole_depth / 8u;
const uint width_groups = whole_width / 8u;
const uint depth_pitch = depth_groups | 1u;
const uint width_pitch = width_groups | 1u;
const uint sum_pitch = (tile_others > shape_n ? tile_others : shape_n) / 4u | 1u;
const uint wild_second = (depth + 3u) / 4u; /* where those of `second` begin */
const uint wild_pitch = wild_second + (by_keys ? (width + 3u) / 4u : 0u);

shared uvec4 own_tile[tile_rows * depth_pitch];
shared uvec4 own2_tile[tile_rows * width_pitch];
shared uvec4 other_tile[tile_others * depth_pitch];
shared uvec4 other2_tile[tile_others * width_pitch];
shared uvec4 scores[tile_rows * sum_pitch];
shared uvec4 slopes[tile_rows * sum_pitch];
shared vec2 other_stats[tile_others]; /* with BY_KEYS */
shared uint wild_results[tile_rows * wild_pitch]; /* two bits each: +inf, -inf, both: NaN */
shared uint wild[2]; /* 1 + the first row of the last tile in which other, or other2, is not finite */

#define ROW_MAJOR    gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#define SUMS_MATRIX  coopmat<float, gl_ScopeSubgroup, shape_m, shape_n, gl_MatrixUseAccumulator>
#define LEFT_MATRIX  coopmat<float16_t, gl_ScopeSubgroup, shape_m, shape_k, gl_MatrixUseA>
#define RIGHT_MATRIX coopmat<float16_t, gl_ScopeSubgroup, shape_k, shape_n, gl_MatrixUseB>

bool has_strange(uvec4 bits)
{
  return any(greaterThanEqual(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

#ifdef BF16
#define INF_HALF 0x7f80u
#else
#define INF_HALF 0x7c00u
#endif

/* What the infinities and NaN among four halves make of a sum when they are multiplied with a factor: two bits each */
uint wild_of(uint factor, uvec2 pairs)
{
  uint found = 0u;
  bool number = (factor & 0x7fffu) != 0u && (factor & 0x7fffu) <= INF_HALF;
  for (uint j = 0u; j < 4u; ++j) {
    uint x = (j < 2u ? pairs.x : pairs.y) >> (j % 2u * 16u) & 0xffffu;
    if ((x & 0x7fffu) >= INF_HALF) {
      found |= (number && (x & 0x7fffu) == INF_HALF ? ((x ^ factor) >> 15) + 1u : 3u) << (2u * j);
    }
  }
  return found;
}

/* Zeros for those that are not finite */
uvec4 finite_halves(uvec4 x)
{
  uvec4 low = mix(x & 0xffffu, uvec4(0u), greaterThanEqual(x & 0x7fffu, uvec4(INF_HALF)));
  uvec4 high = mix(x & 0xffff0000u, uvec4(0u), greaterThanEqual(x >> 16 & 0x7fffu, uvec4(INF_HALF)));
  return low | high;
}

/* The bits of four sums with what wild_of found */
uvec4 with_wild(uvec4 bits, uint found)
{
  [[unroll]] for (uint e = 0u; e < 4u; ++e) {
    uint kind = found >> (2u * e) & 3u;
    if (kind != 0u && (bits[e] & 0x7fffffffu) <= PLUS_INF_BITS) {
      bool opposed = (bits[e] & 0x7fffffffu) == PLUS_INF_BITS && bits[e] >> 31 != kind - 1u;
      bits[e] = kind == 3u || opposed ? NAN_BITS : PLUS_INF_BITS | (kind - 1u) << 31;
    }
  }
  return bits;
}

/* Two factors; none of a pair that is seen is EXCLUDED. */
uint halves_of(uint low, uint high, bool low_seen, bool high_seen)
{
  uint bits = narrowed(uvec2(low, high));
  uint first_half = bits & 0xffffu;
  uint second_half = bits >> 16;
  first_half = !low_seen ? EXCLUDED : first_half == EXCLUDED ? 0u : first_half;
  second_half = !high_seen ? EXCLUDED : second_half == EXCLUDED ? 0u : second_half;
  return first_half | second_half << 16;
}

/* Brings rows first, .. of an operand into shared memory; zeros for rows from `behind` on. `seen` is called with each
 * four. */
#define LOAD_ROWS(name, tile, n_rows, first, behind, n, n_groups, pitch, seen)                                         \
  [[dont_unroll]] for (uint i = lane; i < n_rows * n_groups; i += size) {                                              \
    uint loaded_row = first + i / n_groups;                                                                            \
    uint quad = i % n_groups * 2u;                                                                                     \
    uvec4 x[2];                                                                                                        \
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {                                                                        \
      bool exists = loaded_row < behind && quad + j < n;                                                               \
      x[j] = exists ? floatBitsToUint(LOAD(name, name##_base + loaded_row * name##_stride[1] + quad + j)) : uvec4(0u); \
      seen(x[j])                                                                                                       \
    }                                                                                                                  \
    tile[i / n_groups * pitch + quad / 2u] = narrowed(x[0], x[1]);                                                     \
  }
#define IGNORED(x)
#define FIND_WILD(x) any_wild = any_wild || has_strange(x);

#define LOAD_OTHERS(name, which, n, n_groups, pitch)                                                                   \
  {                                                                                                                    \
    bool any_wild = false;                                                                                             \
    LOAD_ROWS(name, name##_tile, tile_others, chunk, end, n, n_groups, pitch, FIND_WILD)                               \
    if (any_wild) {                                                                                                    \
      atomicMax(wild[which], chunk + 1u);                                                                              \
    }                                                                                                                  \
  }

/* products = the subgroup's rows of its own times those of the others, over the last axis */
#define MULTIPLY_ROWS(products, own_rows, other_rows, length, pitch)                                                   \
  [[dont_unroll]] for (uint n = 0u; n < tile_others / shape_n; ++n) {                                                  \
    SUMS_MATRIX product[m_shapes];                                                                                     \
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                  \
      product[m] = SUMS_MATRIX(0.0);                                                                                   \
    }                                                                                                                  \
    [[dont_unroll]] for (uint i = 0u; i < length / shape_k; ++i) {                                                     \
      RIGHT_MATRIX z;                                                                                                  \
      coopMatLoad(z, other_rows, n * shape_n * pitch + i * shape_k / 8u, pitch, COLUMN_MAJOR);                         \
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                \
        LEFT_MATRIX x;                                                                                                 \
        coopMatLoad(x, own_rows, (part + m * shape_m) * pitch + i * shape_k / 8u, pitch, ROW_MAJOR);                   \
        product[m] = coopMatMulAdd(x, z, product[m]);                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                  \
      coopMatStore(product[m], products, (part + m * shape_m) * sum_pitch + n * shape_n / 4u, sum_pitch, ROW_MAJOR);   \
    }                                                                                                                  \
  }

/* sums += the factors times the others */
#define ADD_OTHERS(sums, n_shapes, factors, other_rows, pitch)                                                         \
  [[dont_unroll]] for (uint n = 0u; n < tile_others / shape_k; ++n) {                                                  \
    LEFT_MATRIX x[m_shapes];                                                                                           \
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                  \
      coopMatLoad(x[m], factors, (part + m * shape_m) * sum_pitch + n * shape_k / 8u, sum_pitch, ROW_MAJOR);           \
    }                                                                                                                  \
    [[unroll]] for (uint i = 0u; i < n_shapes; ++i) {                                                                  \
      RIGHT_MATRIX z;                                                                                                  \
      coopMatLoad(z, other_rows, n * shape_k * pitch + i * shape_n / 8u, pitch, ROW_MAJOR);                            \
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                \
        sums[m * n_shapes + i] = coopMatMulAdd(x[m], z, sums[m * n_shapes + i]);                                       \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* Pairs that are not seen take no part, and 0 times what is not finite is NaN: so the matrices meet zeros for what is
 * not finite of the others, and what it makes of the results is kept aside. Of the whole workgroup. */
#define SET_WILD_ASIDE(factors, other_rows, pitch, n, n_groups, aside)                                                 \
  {                                                                                                                    \
    [[dont_unroll]] for (uint quad = place; quad < n; quad += row_lanes) {                                             \
      uint found = 0u;                                                                                                 \
      [[dont_unroll]] for (uint t = 0u; t < tile_others; ++t) {                                                        \
        uint factor = factors[row * sum_pitch + t / 8u][t / 2u % 4u] >> (t % 2u * 16u) & 0xffffu;                      \
        uvec4 group = other_rows[t * pitch + quad / 2u];                                                               \
        if (factor != EXCLUDED) {                                                                                      \
          found |= wild_of(factor, quad % 2u == 0u ? group.xy : group.zw);                                             \
        }                                                                                                              \
      }                                                                                                                \
      if (found != 0u) {                                                                                               \
        atomicOr(wild_results[row * wild_pitch + aside + quad / 4u], found << (quad % 4u * 8u));                       \
      }                                                                                                                \
    }                                                                                                                  \
    barrier();                                                                                                         \
    [[dont_unroll]] for (uint i = lane; i < tile_others * n_groups; i += size) {                                       \
      uint at = i / n_groups * pitch + i % n_groups;                                                                   \
      other_rows[at] = finite_halves(other_rows[at]);                                                                  \
    }                                                                                                                  \
    barrier();                                                                                                         \
  }

/* Stores the subgroup's rows of a result, by way of shared memory. */
#define STORE_ROWS(name, sums, n_shapes, n, aside, factor_bits)                                                        \
  [[unroll]] for (uint i = 0u; i < n_shapes; ++i) {                                                                    \
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {                                                                  \
      coopMatStore(sums[m * n_shapes + i], scores, (part + m * shape_m) * sum_pitch, sum_pitch, ROW_MAJOR);            \
    }                                                                                                                  \
    subgroupBarrier();                                                                                                 \
    [[unroll]] for (uint from = 0u; from < shape_n / 4u; from += row_lanes) {                                          \
      uint j = min(from + place, shape_n / 4u - 1u);                                                                   \
      uint quad = i * shape_n / 4u + j;                                                                                \
      if (mine <= last_row && quad < n && from + place < shape_n / 4u) {                                               \
        uint found = wild_results[row * wild_pitch + aside + quad / 4u] >> (quad % 4u * 8u);                           \
        uvec4 bits = with_wild(scores[row * sum_pitch + j], found);                                                    \
        STORE(name, ((b * n_own + mine) * heads + h) * n + quad, times(factor_bits, uintBitsToFloat(bits)));           \
      }                                                                                                                \
    }                                                                                                                  \
    subgroupBarrier();                                                                                                 \
  }

void main()
{
  uint lane = gl_LocalInvocationID.x;
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

  /* The invocation's row of its subgroup's part, and its place among those who share it */
  uint part = gl_SubgroupID * part_rows;
  uint row = part + gl_SubgroupInvocationID % part_rows;
  uint place = gl_SubgroupInvocationID / part_rows;
  uint mine = first_row + row;
  vec2 own_stats = by_keys ? vec2(0.0) : stats_of(row_base + min(mine, last_row));

  LOAD_ROWS(own, own_tile, tile_rows, first_row, last_row + 1u, depth, depth_groups, depth_pitch, IGNORED)
  LOAD_ROWS(own2, own2_tile, tile_rows, first_row, last_row + 1u, width, width_groups, width_pitch, IGNORED)
  [[dont_unroll]] for (uint i = lane; i < tile_rows * wild_pitch; i += size) {
    wild_results[i] = 0u;
  }
  if (lane < 2u) {
    wild[lane] = 0u;
  }
  barrier();

  SUMS_MATRIX sums[m_shapes * depth_shapes];  /* of result */
  SUMS_MATRIX sums2[m_shapes * width_shapes]; /* of second, with BY_KEYS */
  [[unroll]] for (uint i = 0u; i < m_shapes * depth_shapes; ++i) {
    sums[i] = SUMS_MATRIX(0.0);
  }
  [[unroll]] for (uint i = 0u; i < m_shapes * width_shapes; ++i) {
    sums2[i] = SUMS_MATRIX(0.0);
  }

  for (uint chunk = range.x; chunk < end; chunk += tile_others) {
    LOAD_OTHERS(other, 0u, depth, depth_groups, depth_pitch)
    LOAD_OTHERS(other2, 1u, width, width_groups, width_pitch)
    if (by_keys) {
      [[dont_unroll]] for (uint i = lane; i < tile_others; i += size) {
        other_stats[i] = stats_of(row_base + min(chunk + i, end - 1u));
      }
    }
    barrier();

    MULTIPLY_ROWS(scores, own_tile, other_tile, whole_depth, depth_pitch)
    MULTIPLY_ROWS(slopes, own2_tile, other2_tile, whole_width, width_pitch)
    subgroupBarrier();

    /* The invocation's others: every row_lanes-th eight of the tile's */
    const uint own_groups = tile_others / 8u / row_lanes;
    uint gradient_halves[own_groups][4];
    uint weight_halves[own_groups][4];
    [[unroll]] for (uint i = 0u; i < own_groups; ++i) {
      uint n = (place + i * row_lanes) * 8u;
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint gradient_bits[2];
        uint weight_bits[2];
        bool seen[2];
        [[unroll]] for (uint e = 0u; e < 2u; ++e) {
          uint t = n + j * 2u + e;
          uint theirs = chunk + t;
          uint l = by_keys ? theirs : mine;
          uint s = by_keys ? mine : theirs;
          uint gradient = HIDDEN;
          float weight = 0.0;
          float score = 0.0;
          if (mine <= last_row && theirs < end && s < visible_keys(l, first, present)) {
            uint at = row * sum_pitch + t / 4u;
            score = uintBitsToFloat(scores[at][t % 4u]);
            float slope = uintBitsToFloat(slopes[at][t % 4u]);
            vec2 query = by_keys ? other_stats[t] : own_stats;
            pair_gradient(score, slope, query, kept_keys(row_base + l, s), b, h, l, s, first, gradient, weight);
          }
          seen[e] = gradient != HIDDEN;
          gradient_bits[e] = seen[e] ? gradient : 0u;
          weight_bits[e] = floatBitsToUint(weight);
          if (writes_scores && mine <= last_row && theirs < keys) {
            WORD(dscores, (row_base + l) * keys + s) = gradient_bits[e];
          }
          gradient_bits[e] = seen[e] ? before_cap(gradient, score) : 0u;
        }
        gradient_halves[i][j] = halves_of(gradient_bits[0], gradient_bits[1], seen[0], seen[1]);
        weight_halves[i][j] = by_keys ? halves_of(weight_bits[0], weight_bits[1], seen[0], seen[1]) : 0u;
      }
    }
    subgroupBarrier();
    [[unroll]] for (uint i = 0u; i < own_groups; ++i) {
      uint at = row * sum_pitch + place + i * row_lanes;
      scores[at] = uvec4(gradient_halves[i][0], gradient_halves[i][1], gradient_halves[i][2], gradient_halves[i][3]);
      if (by_keys) {
        slopes[at] = uvec4(weight_halves[i][0], weight_halves[i][1], weight_halves[i][2], weight_halves[i][3]);
      }
    }
    subgroupBarrier();

    if (wild[0] == chunk + 1u) {
      SET_WILD_ASIDE(scores, other_tile, depth_pitch, depth, depth_groups, 0u)
    }
    if (by_keys && wild[1] == chunk + 1u) {
      SET_WILD_ASIDE(slopes, other2_tile, width_pitch, width, width_groups, wild_second)
    }
    ADD_OTHERS(sums, depth_shapes, scores, other_tile, depth_pitch)
    if (by_keys) {
      ADD_OTHERS(sums2, width_shapes, slopes, other2_tile, width_pitch)
    }
    barrier();
  }

  STORE_ROWS(result, sums, depth_shapes, depth, 0u, alpha_bits)
  if (by_keys) {
    STORE_ROWS(second, sums2, width_shapes, width, wild_second, 0x3f800000u)
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
