#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with weights of i8 over any strides: y[m, n] = unit[m] scale[n] sum_k q[m, k] b[k, n], finished as
 * lib/product.glsl says. With weights of four bits: y[m, n] = unit[m] sum_k q[m, k] scale[k / 32, n] b[k, n].
 *
 * A workgroup has a tile of `tile_rows` rows and as many columns as it has invocations. An invocation has one column,
 * and runs over k.
 */
#extension GL_GOOGLE_include_directive : require
#define QUANTISED
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_generic.h"
#include "product.glsl"

IN4(0, a) /* offset and strides count groups of four words */
IN(1, b)  /* bytes */

/* Four elements along k; behind the last some other, which meets a zero. */
uint load_b(uint at, uint k)
{
  uint word = 0u;
  for (uint j = 0u; j < 4u; ++j) {
    uint from = at + (four_bits ? k / 8u * 4u + j : min(k + j, depth - 1u)) * b_stride[2];
    word |= ((WORD(b, from >> 2) >> ((from & 3u) * 8u)) & 0xffu) << (j * 8u);
  }
  return four_bits ? weight_bytes(word, (k & 4u) != 0u) : word;
}

void main()
{
  if (group_index() >= groups) {
    return;
  }
  uvec3 tile = tile_of(group_index());
  uint n = tile.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (n >= columns) {
    return;
  }
  uint first_row = tile.x * tile_rows;
  uint b_at = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]) + n * b_stride[3];
  uint a_batch = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]);
  uint a_at[tile_rows];
  int sum[tile_rows];
  float total[tile_rows]; /* of four bits */
  for (uint m = 0u; m < tile_rows; ++m) {
    a_at[m] = a_batch + min(first_row + m, rows - 1u) * a_stride[2];
    sum[m] = 0;
    total[m] = 0.0;
  }
  uint groups = four_bits ? FOUR_BITS_GROUPS(depth) : QUANTISED_GROUPS(depth);
  for (uint group = 0u; group < groups; ++group) {
    for (uint j = 0u; j < 4u; ++j) {
      uint weights = load_b(b_at, group * QUANTISED_GROUP + j * 4u);
      for (uint m = 0u; m < tile_rows; ++m) {
        sum[m] += dot_bytes(QUAD(a, a_at[m] + group)[j], weights);
      }
    }
    if (four_bits) {
      float factor = factor_of(n, group / 2u);
      for (uint m = 0u; m < tile_rows; ++m) {
        total[m] = fma(float(sum[m]), factor, total[m]);
        sum[m] = 0;
      }
    }
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    if (first_row + m < rows) {
      int result = four_bits ? floatBitsToInt(total[m]) : sum[m];
      store_quantised(tile.z, first_row + m, n, uintBitsToFloat(QUAD(a, a_at[m] + groups).x), result);
    }
  }
}
