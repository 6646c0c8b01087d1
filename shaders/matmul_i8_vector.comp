#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with weights of i8 and few rows, as matmul_i8_generic.comp has it, for GPUs. k of b is contiguous, in
 * groups of 16.
 *
 * A workgroup has a tile of `tile_rows` rows and `tile_columns` columns. An invocation makes all of it for every
 * lanes-th group of k, and the invocations add up their sums: with SUBGROUP, where the workgroup is one subgroup, by
 * its operations; else in shared memory. Of weights of four bits it loads two groups at a time, which share a scale.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#define QUANTISED
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_i8_vector.h"

#define TILE_ROWS    tile_rows
#define TILE_COLUMNS tile_columns
#include "product.glsl"

IN4(0, a)
IN4(1, b)

const uint results = tile_rows * tile_columns;
const uint at_once = four_bits ? 2u : 1u; /* groups in a load of b */

#ifndef SUBGROUP
shared int partial[lanes * results]; /* [lane][result] */
#endif

void product(uvec3 tile)
{
#ifdef SUBGROUP
  uint lane = gl_SubgroupInvocationID;
#else
  uint lane = gl_LocalInvocationID.x;
#endif
  uvec3 part = part_of(tile.z);
  uint first_row = tile.x * tile_rows;
  uint first_column = tile.y * tile_columns;
  uint a_at = a_offset + batch_offset(part.x, a_stride[0], a_stride[1]);
  uint b_at = b_offset + batch_offset(part.x, b_stride[0], b_stride[1]);
  int sum[results];
  float total[results]; /* of four bits */
  [[unroll]] for (uint i = 0u; i < results; ++i) {
    sum[i] = 0;
    total[i] = 0.0;
  }
  for (uint k = part.y + lane * at_once; k < part.z; k += lanes * at_once) {
    uvec4 z[tile_columns];
    float factor[tile_columns];
    [[unroll]] for (uint c = 0u; c < tile_columns; ++c) {
      uint n = min(first_column + c, columns - 1u);
      z[c] = QUAD(b, (b_at + n * b_stride[3] + k) / at_once);
      factor[c] = four_bits ? factor_of(n, k / at_once) : 1.0;
    }
    [[unroll]] for (uint group = 0u; group < at_once; ++group) {
      uvec4 x[tile_rows];
      [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
        x[m] = QUAD(a, a_at + min(first_row + m, rows - 1u) * a_stride[2] + k + group);
      }
      /* One word of each at a time: where bytes are taken out one by one they fill registers. */
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
          [[unroll]] for (uint c = 0u; c < tile_columns; ++c) {
            uint weights = four_bits ? weight_bytes(z[c][group * 2u + j / 2u], j % 2u == 1u) : z[c][j];
            sum[m * tile_columns + c] += dot_bytes(x[m][j], weights);
          }
        }
      }
    }
    if (four_bits) {
      [[unroll]] for (uint i = 0u; i < results; ++i) {
        total[i] = fma(float(sum[i]), factor[i % tile_columns], total[i]);
        sum[i] = 0;
      }
    }
  }
  if (four_bits) {
    [[unroll]] for (uint i = 0u; i < results; ++i) {
      sum[i] = floatBitsToInt(total[i]);
    }
  }

#ifdef SUBGROUP
  int mine = 0; /* result i is lane i's */
  [[unroll]] for (uint i = 0u; i < results; ++i) {
    int all = four_bits ? floatBitsToInt(subgroupAdd(intBitsToFloat(sum[i]))) : subgroupAdd(sum[i]);
    mine = lane == i ? all : mine;
  }
#else
#ifdef TOPK
  barrier(); /* the tile before has been read */
#endif
  [[unroll]] for (uint i = 0u; i < results; ++i) {
    partial[lane * results + i] = sum[i];
  }
  for (uint half_size = lanes >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    for (uint i = lane; i < half_size * results; i += lanes) {
      partial[i] = added(partial[i], partial[i + half_size * results]);
    }
  }
  barrier();
#endif
  for (uint i = lane; i < results; i += lanes) {
    uint m = first_row + i / tile_columns;
    uint n = first_column + i % tile_columns;
#ifndef SUBGROUP
    int mine = partial[i];
#endif
    if (m < rows && n < columns) {
      store_quantised(tile.z, m, n, uintBitsToFloat(QUAD(a, a_at + m * a_stride[2] + depth).x), mine);
    }
  }
}

#include "product_main.glsl"
