#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with weights of i8, as matmul_i8_generic.comp has it, for devices where loads are what costs, and
 * shared memory and barriers cost more (CPUs). k of b is contiguous, in groups of 16.
 *
 * A workgroup is one subgroup and has a tile of `tile_rows` rows and lanes * `tile_columns` columns. A lane has every
 * lanes-th column. Each group of a is loaded, and widened, by one lane and handed to the others by a shuffle. Products
 * are summed as f32, which holds 1024 of them exactly, and such sums as integers. Of weights of four bits a group is
 * eight bytes, and its sum is multiplied with its scale.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define SUBGROUP
#define HELD_BY_LANE
#define QUANTISED
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_plain.h"

#define TILE_ROWS    tile_rows
#define TILE_COLUMNS (lanes * tile_columns)
#include "product.glsl"

IN4(0, a)
IN4(1, b)
IN2(1, b_pairs)

uvec4 load_b(uint at)
{
  return four_bits ? weight_group(PAIR(b_pairs, at)) : QUAD(b, at);
}

#define OF_TOP_BYTE 5.9604644775390625e-8 /* 2^-24 */

/* The bytes of a word, as multiples of 2^24 */
vec4 widen(uint word)
{
  return vec4(ivec4(uvec4(word << 24, word << 16, word << 8, word) & 0xff000000u));
}

#define BLOCK_GROUPS 64u /* of 16 */

void product(uvec3 tile)
{
  const uint steps = lanes / tile_rows; /* groups of k that one load in each lane brings */
  uint lane = gl_SubgroupInvocationID;
  uint first_row = tile.x * tile_rows;
  uint a_batch = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]);
  uint a_at = a_batch + min(first_row + lane % tile_rows, rows - 1u) * a_stride[2];
  uint b_batch = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]);
  uint first_column = tile.y * lanes * tile_columns + lane;
  uint b_at[tile_columns];
  int sum[tile_rows][tile_columns];
  float total[tile_rows][tile_columns]; /* of four bits */
  for (uint c = 0u; c < tile_columns; ++c) {
    b_at[c] = b_batch + min(first_column + c * lanes, columns - 1u) * b_stride[3];
    for (uint m = 0u; m < tile_rows; ++m) {
      sum[m][c] = 0;
      total[m][c] = 0.0;
    }
  }
  uint ahead = lane / tile_rows;
  for (uint block = 0u; block < depth; block += BLOCK_GROUPS) {
    float part[tile_rows][tile_columns];
    for (uint m = 0u; m < tile_rows; ++m) {
      for (uint c = 0u; c < tile_columns; ++c) {
        part[m][c] = 0.0;
      }
    }
    uint end = min(block + BLOCK_GROUPS, depth);
    for (uint k = block; k < end; k += steps) {
      uvec4 a_mine = QUAD(a, a_at + min(k + ahead, depth));
      uint n_steps = min(steps, end - k);
      for (uint step = 0u; step < n_steps; ++step) {
        uvec4 b_mine[tile_columns];
        for (uint c = 0u; c < tile_columns; ++c) {
          b_mine[c] = load_b(b_at[c] + k + step);
        }
        for (uint j = 0u; j < 4u; ++j) {
          vec4 x[tile_rows];
          vec4 wide = widen(a_mine[j]) * OF_TOP_BYTE;
          for (uint m = 0u; m < tile_rows; ++m) {
            x[m] = subgroupShuffle(wide, step * tile_rows + m);
          }
          for (uint c = 0u; c < tile_columns; ++c) {
            vec4 z = widen(b_mine[c][j]);
            for (uint m = 0u; m < tile_rows; ++m) {
              for (uint i = 0u; i < 4u; ++i) {
                part[m][c] = fma(x[m][i], z[i], part[m][c]);
              }
            }
          }
        }
        for (uint c = 0u; c < tile_columns && four_bits; ++c) {
          float factor = factor_of(min(first_column + c * lanes, columns - 1u), (k + step) / 2u);
          for (uint m = 0u; m < tile_rows; ++m) {
            total[m][c] = fma(part[m][c] * OF_TOP_BYTE, factor, total[m][c]);
            part[m][c] = 0.0;
          }
        }
      }
    }
    for (uint m = 0u; m < tile_rows; ++m) {
      for (uint c = 0u; c < tile_columns; ++c) {
        sum[m][c] += int(part[m][c] * OF_TOP_BYTE);
      }
    }
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    if (first_row + m >= rows) {
      continue;
    }
    float unit = uintBitsToFloat(QUAD(a, a_batch + (first_row + m) * a_stride[2] + depth).x);
    for (uint c = 0u; c < tile_columns; ++c) {
      uint n = first_column + c * lanes;
      if (n < columns) {
        store_quantised(tile.z, first_row + m, n, unit, four_bits ? floatBitsToInt(total[m][c]) : sum[m][c]);
      }
    }
  }
}

#include "product_main.glsl"
