#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product over any strides: y[m, n] = activation(alpha sum_k a[m, k] b[k, n] + bias[m, n]) + residual[m, n].
 *
 * A workgroup has a tile of `tile_rows` rows and as many columns as it has invocations. An invocation has one column,
 * and runs over k.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_generic.h"
#include "product.glsl"

IN(0, a)
IN(1, b)

#include "element_of_b.glsl"

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
  float sum[tile_rows];
  for (uint m = 0u; m < tile_rows; ++m) {
    a_at[m] = a_batch + min(first_row + m, rows - 1u) * a_stride[2];
    sum[m] = 0.0;
  }
  for (uint k = 0u; k < depth; ++k) {
    float x = load_b(b_at + k * b_stride[2]);
    for (uint m = 0u; m < tile_rows; ++m) {
      sum[m] = fma(FLOAT(a, a_at[m] + k * a_stride[3]), x, sum[m]);
    }
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    if (first_row + m < rows) {
      store(tile.z, first_row + m, n, sum[m]);
    }
  }
}
