#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with weights of i8, as matmul_i8_generic.comp has it, for GPUs. k of b is contiguous, in groups of 16.
 *
 * A workgroup has side x side invocations and a tile of side * `tile` * 4 rows and as many columns. An invocation has
 * `tile` groups of four rows, and of four columns. a and b pass through shared memory, two groups of 16 values of k at
 * a time, in words; of weights of four bits with the scales of those two.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define QUANTISED
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_i8_tiled.h"

const uint extent = side * tile * 4u; /* rows and columns of a workgroup */
#define TILE_ROWS    extent
#define TILE_COLUMNS extent
#include "product.glsl"

IN4(0, a)
IN4(1, b)
IN2(1, b_pairs)

uvec4 load_b(uint at)
{
  return four_bits ? weight_group(PAIR(b_pairs, at)) : QUAD(b, at);
}

/* [word of k][row or column], four neighbours to a group; one group more than the tile has, so that words of
 * neighbours in k fall into different banks */
const uint pitch = side * tile + 1u;
shared uvec4 a_tile[I8_STEP * 4u * pitch];
shared uvec4 b_tile[I8_STEP * 4u * pitch];
shared float factors[four_bits ? extent : 1u]; /* of b's columns */

void product(uvec3 where)
{
  const uint size = side * side;
  uint lane = gl_LocalInvocationID.x;
  uint batch = where.z / parts;
  uint begin = (where.z - batch * parts) * part_depth;
  uint end = min(begin + part_depth, depth);
  uint first_row = where.x * extent;
  uint first_column = where.y * extent;
  uint a_at = a_offset + batch_offset(batch, a_stride[0], a_stride[1]);
  uint b_at = b_offset + batch_offset(batch, b_stride[0], b_stride[1]);
  uint row = lane / side;
  uint column = lane % side;
  ivec4 sum[tile * 4u][tile];
  vec4 total[tile * 4u][tile]; /* of four bits */
  for (uint m = 0u; m < tile * 4u; ++m) {
    for (uint n = 0u; n < tile; ++n) {
      sum[m][n] = ivec4(0);
      total[m][n] = vec4(0.0);
    }
  }

  for (uint k = begin; k < end; k += I8_STEP) {
    for (uint i = lane; i < I8_STEP * extent; i += size) {
      uint group = i % I8_STEP;
      uint at = i / I8_STEP;
      bool inside = k + group < end;
      uvec4 word = inside ? QUAD(a, a_at + min(first_row + at, rows - 1u) * a_stride[2] + k + group) : uvec4(0u);
      for (uint j = 0u; j < 4u; ++j) {
        a_tile[(group * 4u + j) * pitch + at / 4u][at % 4u] = word[j];
      }
      word = inside ? load_b(b_at + min(first_column + at, columns - 1u) * b_stride[3] + k + group) : uvec4(0u);
      for (uint j = 0u; j < 4u; ++j) {
        b_tile[(group * 4u + j) * pitch + at / 4u][at % 4u] = word[j];
      }
    }
    for (uint i = lane; i < extent && four_bits; i += size) {
      factors[i] = factor_of(min(first_column + i, columns - 1u), k / I8_STEP);
    }
    barrier();
    [[dont_unroll]] for (uint step = 0u; step < I8_STEP * 4u; ++step) {
      uvec4 x[tile];
      for (uint m = 0u; m < tile; ++m) {
        x[m] = a_tile[step * pitch + row + m * side];
      }
      for (uint n = 0u; n < tile; ++n) {
        uvec4 z = b_tile[step * pitch + column + n * side];
        for (uint m = 0u; m < tile * 4u; ++m) {
          uint y = x[m / 4u][m % 4u];
          sum[m][n] += ivec4(dot_bytes(y, z.x), dot_bytes(y, z.y), dot_bytes(y, z.z), dot_bytes(y, z.w));
        }
      }
    }
    for (uint n = 0u; n < tile && four_bits; ++n) {
      uint from = (column + n * side) * 4u;
      vec4 factor = vec4(factors[from], factors[from + 1u], factors[from + 2u], factors[from + 3u]);
      for (uint m = 0u; m < tile * 4u; ++m) {
        total[m][n] = fma(vec4(sum[m][n]), factor, total[m][n]);
        sum[m][n] = ivec4(0);
      }
    }
    barrier();
  }
  for (uint m = 0u; m < tile * 4u; ++m) {
    uint at_row = first_row + (row + m / 4u * side) * 4u + m % 4u;
    if (at_row >= rows) {
      continue;
    }
    float unit = uintBitsToFloat(QUAD(a, a_at + at_row * a_stride[2] + depth).x);
    for (uint n = 0u; n < tile * 4u; ++n) {
      uint at_column = first_column + (column + n / 4u * side) * 4u + n % 4u;
      if (at_column < columns) {
        int result = four_bits ? floatBitsToInt(total[m][n / 4u][n % 4u]) : sum[m][n / 4u][n % 4u];
        store_quantised(where.z, at_row, at_column, unit, result);
      }
    }
  }
}

#include "product_main.glsl"
