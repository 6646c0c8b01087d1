#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product, as matmul_generic.comp has it, by cooperative matrices. A workgroup has a tile of `tile_rows` rows
 * and `tile_columns` columns, each of its subgroups a part of that, in matrices of the device's shape. An invocation
 * fetches groups of a and b for the shared memory that all multiply from, and finishes elements of the result.
 *
 *   f16 x f16 -> f32   a, f32 in memory, is rounded on its way into shared memory (lib/narrowed.glsl), or was before
 *                      (HALVES_A); the result is rounded likewise where another product is to read it (HALVES_Y).
 *                      b is f16, or f32 and rounded likewise.
 *   bf16 x bf16 -> f32 the same with BF16
 *   i8 x i8 -> i32     with QUANTISED: a's rows lie quantised in scratch (lib/quantised.glsl), b is i8
 *
 * A group is 16 bytes of either type. k is contiguous, of b where weights are stored [N, K]; or m of a, n of b, but not
 * of i8. Depth counts groups; strides and offsets count 16 bytes, too, which are four values where they are f32.
 *
 * With TOPK only the largest columns of each row are wanted: rows of sums lie in shared memory for a moment anyway, and
 * a subgroup finds those of a row there.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "operand.glsl"
#include "number.glsl"

#ifdef QUANTISED
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define FACTOR     int8_t
#define SUM        int
#define GROUP      16u /* values */
#define UNIT       uvec2 /* of shared memory: what a row of the smallest matrices has */
#define UNITS      2u  /* in a group */
#else
#define TO_BF16    false
#include "narrowed.glsl"
#define FACTOR     float16_t /* with BF16 what the build makes of it (shaders/bfloat16.h) */
#define SUM        float
#define GROUP      8u
#define UNIT       uvec4
#define UNITS      1u
#endif

#include "contract/matmul_cooperative.h"
#ifdef TOPK
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "exponential.glsl"
#define TOPK_OF_TILE
const uint kept = largest % LARGEST_SUMS;
#endif
#include "product.glsl"

IN4(0, a)
IN4(1, b)

/* One step, as deep as fits: while it is multiplied the next one is on its way, into registers. A row has a group more
 * than are used, so that neighbouring rows start in different banks. */
#ifdef QUANTISED
#define A_QUADS 1u /* in memory, of a group of a */
#else
const uint A_QUADS = (halves & HALVES_A) != 0u ? 1u : 2u;
#endif
const uint B_QUADS = b_type == TYPE_F32 ? 2u : 1u;

const uint size = tile_rows / part_rows * (tile_columns / part_columns) * lanes; /* invocations */
const uint row_groups = tile_rows / GROUP;
const uint column_groups = tile_columns / GROUP;
const uint a_pitch = (a_along_depth != 0u ? step_groups : row_groups) + 1u;
const uint b_pitch = (b_along_depth != 0u ? step_groups : column_groups) + 1u;
const uint a_rows = a_along_depth != 0u ? tile_rows : step_groups * GROUP;
const uint b_begin = a_rows * a_pitch;
shared UNIT tiles[shared_groups * UNITS];

/* Groups of a step that one invocation brings. A large workgroup brings less than one each. */
const uint a_groups = tile_rows * step_groups;
const uint b_groups = tile_columns * step_groups;
const uint a_loads = (a_groups + size - 1u) / size;
const uint b_loads = (b_groups + size - 1u) / size;

const uint m_shapes = part_rows / shape_m;
const uint n_shapes = part_columns / shape_n;
coopmat<SUM, gl_ScopeSubgroup, shape_m, shape_n, gl_MatrixUseAccumulator> sum[m_shapes * n_shapes];

uvec3 tile; /* z: part of the depth, parts of one batch after another */
uint batch;
uint lane;
uint a_at[a_loads]; /* where what the invocation brings lies in memory, k left out */
uint b_at[b_loads];
uvec4 a_next[a_loads * A_QUADS]; /* on its way */
uvec4 b_next[b_loads * B_QUADS];

/* The workgroup's tile, as tile_of has it, but in bands of eight tiles along m: workgroups that run at the same time
 * then share a and b alike, and both come from the cache. */
uvec3 tile_in_band(uint group)
{
  const uint BAND = 8u;
  uint part = group / (row_tiles * column_tiles);
  uint rest = group - part * row_tiles * column_tiles;
  uint band = rest / (BAND * column_tiles);
  uint height = min(BAND, row_tiles - band * BAND);
  rest -= band * BAND * column_tiles;
  return uvec3(band * BAND + rest % height, rest / height, part);
}

/* Rows and columns beyond the result repeat its last: what they give is not stored. */
void find_operands()
{
  uint a_batch = a_offset + batch_offset(batch, a_stride[0], a_stride[1]);
  uint b_batch = b_offset + batch_offset(batch, b_stride[0], b_stride[1]);
  [[unroll]] for (uint i = 0u; i < a_loads; ++i) {
    uint place = lane + i * size;
    if (a_along_depth != 0u) {
      a_at[i] = a_batch + min(tile.x * tile_rows + place / step_groups, rows - 1u) * a_stride[2];
    } else {
      a_at[i] = a_batch + min(tile.x * row_groups + place % row_groups, rows / GROUP - 1u) * A_QUADS;
    }
  }
  [[unroll]] for (uint i = 0u; i < b_loads; ++i) {
    uint place = lane + i * size;
    if (b_along_depth != 0u) {
      b_at[i] = b_batch + min(tile.y * tile_columns + place / step_groups, columns - 1u) * b_stride[3];
    } else {
      b_at[i] = b_batch + min(tile.y * column_groups + place % column_groups, columns / GROUP - 1u) * B_QUADS;
    }
  }
}

/* Of the depth of a step, the group in which lies what the invocation brings with its load i of a, of b */
uint a_from(uint i)
{
  return a_along_depth != 0u ? lane % step_groups : (lane + i * size) / row_groups / GROUP;
}

uint b_from(uint i)
{
  return b_along_depth != 0u ? lane % step_groups : (lane + i * size) / column_groups / GROUP;
}

/* Starts to load groups k and following. */
void fetch(uint k)
{
  uint own = min(k + lane % step_groups, depth - 1u);
  [[unroll]] for (uint i = 0u; i < a_loads; ++i) {
    uint at = a_at[i];
    if (a_along_depth != 0u) {
      at += own * A_QUADS;
    } else {
      at += min(k * GROUP + (lane + i * size) / row_groups, depth * GROUP - 1u) * a_stride[3];
    }
    [[unroll]] for (uint j = 0u; j < A_QUADS; ++j) {
      a_next[i * A_QUADS + j] = QUAD(a, at + j);
    }
  }
  [[unroll]] for (uint i = 0u; i < b_loads; ++i) {
    uint at = b_at[i];
    if (b_along_depth != 0u) {
      at += own * B_QUADS;
    } else {
      at += min(k * GROUP + (lane + i * size) / column_groups, depth * GROUP - 1u) * b_stride[2];
    }
    [[unroll]] for (uint j = 0u; j < B_QUADS; ++j) {
      b_next[i * B_QUADS + j] = QUAD(b, at + j);
    }
  }
}

/* Makes zeros of what was loaded from behind the depth, in a step that begins at group k. */
void clear_behind(uint k)
{
  [[unroll]] for (uint i = 0u; i < a_loads * A_QUADS; ++i) {
    a_next[i] = k + a_from(i / A_QUADS) < depth ? a_next[i] : uvec4(0u);
  }
  [[unroll]] for (uint i = 0u; i < b_loads * B_QUADS; ++i) {
    b_next[i] = k + b_from(i / B_QUADS) < depth ? b_next[i] : uvec4(0u);
  }
}

void put(uint at, uvec4 group)
{
#ifdef QUANTISED
  tiles[2u * at] = group.xy;
  tiles[2u * at + 1u] = group.zw;
#else
  tiles[at] = group;
#endif
}

/* Puts what fetch loaded into shared memory. */
void put_step()
{
  [[unroll]] for (uint i = 0u; i < a_loads; ++i) {
    uint place = lane + i * size;
    uvec4 group = a_next[A_QUADS * i];
#ifndef QUANTISED
    if (A_QUADS > 1u) {
      group = narrowed(group, a_next[A_QUADS * i + A_QUADS - 1u]);
    }
#endif
    uint across = a_along_depth != 0u ? step_groups : row_groups;
    if (a_loads * size == a_groups || place < a_groups) {
      put(place / across * a_pitch + place % across, group);
    }
  }
  [[unroll]] for (uint i = 0u; i < b_loads; ++i) {
    uint place = lane + i * size;
    uvec4 group = b_next[B_QUADS * i];
#ifndef QUANTISED
    if (B_QUADS > 1u) {
      group = narrowed(group, b_next[B_QUADS * i + B_QUADS - 1u]);
    }
#endif
    uint across = b_along_depth != 0u ? step_groups : column_groups;
    if (b_loads * size == b_groups || place < b_groups) {
      put(b_begin + place / across * b_pitch + place % across, group);
    }
  }
}

/* Adds what the step in shared memory gives to the sums of a subgroup's part. */
void multiply(uint part_row, uint part_column)
{
  uint a_part = (a_along_depth != 0u ? part_row * a_pitch : part_row / GROUP) * UNITS;
  uint b_part = (b_begin + (b_along_depth != 0u ? part_column * b_pitch : part_column / GROUP)) * UNITS;
  [[unroll]] for (uint step = 0u; step < step_groups * GROUP; step += shape_k) {
    coopmat<FACTOR, gl_ScopeSubgroup, shape_m, shape_k, gl_MatrixUseA> x[m_shapes];
    [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
      if (a_along_depth != 0u) {
        coopMatLoad(x[m], tiles, a_part + m * shape_m * a_pitch * UNITS + step * UNITS / GROUP, a_pitch * UNITS,
                    gl_CooperativeMatrixLayoutRowMajor);
      } else {
        coopMatLoad(x[m], tiles, a_part + step * a_pitch * UNITS + m * shape_m * UNITS / GROUP, a_pitch * UNITS,
                    gl_CooperativeMatrixLayoutColumnMajor);
      }
    }
    [[unroll]] for (uint n = 0u; n < n_shapes; ++n) {
      coopmat<FACTOR, gl_ScopeSubgroup, shape_k, shape_n, gl_MatrixUseB> z;
      if (b_along_depth != 0u) {
        coopMatLoad(z, tiles, b_part + n * shape_n * b_pitch * UNITS + step * UNITS / GROUP, b_pitch * UNITS,
                    gl_CooperativeMatrixLayoutColumnMajor);
      } else {
        coopMatLoad(z, tiles, b_part + step * b_pitch * UNITS + n * shape_n * UNITS / GROUP, b_pitch * UNITS,
                    gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint m = 0u; m < m_shapes; ++m) {
        sum[m * n_shapes + n] = coopMatMulAdd(x[m], z, sum[m * n_shapes + n]);
      }
    }
  }
}

#ifndef QUANTISED
/* The results whose sums lie in a piece of the shared memory: their first row and column. */
void store_halves(uint piece, uint pitch, uint first_row, uint first_column)
{
  [[dont_unroll]] for (uint i = gl_SubgroupInvocationID * 2u; i < shape_m * part_columns; i += lanes * 2u) {
    uint at_row = first_row + i / part_columns;
    uint at_column = first_column + i % part_columns;
    uint word = (piece + i / part_columns * pitch) * 4u + i % part_columns;
    if (at_row < rows && at_column < columns) {
      uvec4 sums = tiles[word / 4u];
      vec2 z = uintBitsToFloat((word & 2u) != 0u ? sums.zw : sums.xy);
      z.x = finish(tile.z, at_row, at_column, z.x);
      z.y = finish(tile.z, at_row, at_column + 1u, z.y);
      WORD(y, y_at + ((tile.z * rows + at_row) * columns + at_column) / 2u) = narrowed(floatBitsToUint(z));
    }
  }
}
#endif

#ifdef TOPK
/* Of a row whose sums begin at that word an invocation has every lanes-th column. The largest is found, and struck out,
 * `kept` times. */
void keep_largest(uint at_row, uint word)
{
  const uint columns_of_lane = (tile_columns + lanes - 1u) / lanes;
  uint first_column = tile.y * tile_columns;
  uint order[columns_of_lane];
#ifdef QUANTISED
  float unit = uintBitsToFloat(QUAD(a, a_offset + at_row * a_stride[2] + depth).x);
#endif
  [[unroll]] for (uint c = 0u; c < columns_of_lane; ++c) {
    uint n = gl_SubgroupInvocationID + c * lanes;
    order[c] = NOBODY.x;
    if (n < tile_columns && first_column + n < columns) {
      uint bits = tiles[(word + n) * UNITS / 4u][(word + n) % (4u / UNITS)];
#ifdef QUANTISED
      float z = scaled(first_column + n, unit, int(bits));
#else
      float z = uintBitsToFloat(bits);
#endif
      order[c] = order_of(finish(0u, at_row, first_column + n, z));
    }
  }
  uint list = at_row * column_tiles + tile.y;
  [[dont_unroll]] for (uint r = 0u; r < kept; ++r) {
    uint mine = NOBODY.x;
    [[unroll]] for (uint c = 0u; c < columns_of_lane; ++c) {
      mine = max(mine, order[c]);
    }
    uint best = subgroupMax(mine);
    uint column = NOBODY.y;
    [[unroll]] for (uint c = 0u; c < columns_of_lane; ++c) {
      column = order[c] == best ? min(column, gl_SubgroupInvocationID + c * lanes) : column;
    }
    column = subgroupMin(column);
    if (largest >= LARGEST_SUMS && r == 0u) {
      float below = 0.0;
      [[unroll]] for (uint c = 0u; c < columns_of_lane; ++c) {
        below += order[c] != NOBODY.x ? exp_accurate(number_of(order[c]) - number_of(best)) : 0.0;
      }
      below = subgroupAdd(best > ORDER_MINUS_INF ? below : 0.0);
      if (gl_SubgroupInvocationID == 0u) {
        write_sum(list, best, below);
      }
    }
    if (gl_SubgroupInvocationID == 0u) {
      write_candidate(list, r, best != NOBODY.x ? uvec2(best, first_column + column) : NOBODY);
    }
    [[unroll]] for (uint c = 0u; c < columns_of_lane; ++c) {
      order[c] = gl_SubgroupInvocationID + c * lanes == column ? NOBODY.x : order[c];
    }
  }
}
#endif

void main()
{
  const uint parts_across = tile_columns / part_columns;
  if (group_index() >= groups) {
    return;
  }
  tile = tile_in_band(group_index());
  lane = gl_LocalInvocationID.x;
  uint part_row = gl_SubgroupID / parts_across * part_rows;
  uint part_column = gl_SubgroupID % parts_across * part_columns;
  [[unroll]] for (uint i = 0u; i < m_shapes * n_shapes; ++i) {
    sum[i] = coopmat<SUM, gl_ScopeSubgroup, shape_m, shape_n, gl_MatrixUseAccumulator>(SUM(0));
  }

  batch = tile.z / parts;
  uint begin = (tile.z - batch * parts) * part_depth;
  uint end = min(begin + part_depth, depth);
  find_operands();
  fetch(begin);
  for (uint k = begin; k < end; k += step_groups) {
    if (has_rest != 0u && k + step_groups > depth) {
      clear_behind(k);
    }
    put_step();
    barrier();
    /* In a branch, lest a compiler moves the loads behind the multiplications, to where they are used */
    if (k + step_groups < end) {
      fetch(k + step_groups);
    }
    multiply(part_row, part_column);
    barrier();
  }

#ifdef TOPK
  /* A row of matrices of all subgroups at a time goes through what held the step, whole rows of the tile. */
  const uint rows_at_once = tile_rows / part_rows * shape_m;
  const uint pitch = min(tile_columns / 4u + 1u, shared_groups / rows_at_once);
  uint first_at = gl_SubgroupID / parts_across * shape_m;
  [[dont_unroll]] for (uint m = 0u; m < m_shapes; ++m) {
    [[unroll]] for (uint i = 0u; i < m_shapes * n_shapes; ++i) { /* as below */
      if (i / n_shapes == m) {
        coopMatStore(sum[i], tiles, (first_at * pitch + (part_column + i % n_shapes * shape_n) / 4u) * UNITS,
                     pitch * UNITS, gl_CooperativeMatrixLayoutRowMajor);
      }
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_SubgroupID; i < rows_at_once; i += size / lanes) {
      uint at_row = tile.x * tile_rows + i / shape_m * part_rows + m * shape_m + i % shape_m;
      if (at_row < rows) {
        keep_largest(at_row, i * pitch * 4u);
      }
    }
    barrier();
  }
#else
  /* A row of matrices at a time goes through the subgroup's own piece of what held the step. */
  const uint STORES = 4u; /* of an invocation at a time */
  const uint piece_rows = size / lanes * shape_m;
  const uint piece_sums = shape_m * part_columns;
  /* In groups of four sums; one more where there is room */
  const uint pitch = min(part_columns / 4u + 1u, shared_groups / piece_rows);
  uint piece = gl_SubgroupID * shape_m * pitch;
  uint sum_row = tile.x * tile_rows + part_row;
  uint sum_column = tile.y * tile_columns + part_column;
  [[dont_unroll]] for (uint m = 0u; m < m_shapes; ++m) {
    /* Compilers unroll no loop with others in it: the places of sums are known in this one. */
    [[unroll]] for (uint i = 0u; i < m_shapes * n_shapes; ++i) {
      if (i / n_shapes == m) {
        coopMatStore(sum[i], tiles, (piece + i % n_shapes * shape_n / 4u) * UNITS, pitch * UNITS,
                     gl_CooperativeMatrixLayoutRowMajor);
      }
    }
    subgroupBarrier();
#ifndef QUANTISED
    if ((halves & HALVES_Y) != 0u) {
      store_halves(piece, pitch, sum_row + m * shape_m, sum_column);
      subgroupBarrier();
      continue;
    }
#endif
    [[dont_unroll]] for (uint first = gl_SubgroupInvocationID; first < piece_sums; first += STORES * lanes) {
      [[unroll]] for (uint j = 0u; j < STORES; ++j) {
        uint i = first + j * lanes;
        uint at_row = sum_row + m * shape_m + i / part_columns;
        uint at_column = sum_column + i % part_columns;
        uint word = (piece + i / part_columns * pitch) * 4u + i % part_columns;
        if (i < piece_sums && at_row < rows && at_column < columns) {
          uint bits = tiles[word * UNITS / 4u][word % (4u / UNITS)];
#ifdef QUANTISED
          uint a_row = a_offset + batch_offset(batch, a_stride[0], a_stride[1]) + at_row * a_stride[2];
          store_quantised(tile.z, at_row, at_column, uintBitsToFloat(QUAD(a, a_row + depth).x), int(bits));
#else
          store(tile.z, at_row, at_column, uintBitsToFloat(bits));
#endif
        }
      }
    }
    subgroupBarrier();
  }
#endif
}
