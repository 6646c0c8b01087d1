#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds the rows of a product's a to f16 or bf16, as matmul_cooperative.comp does on the way to its shared memory:
 * where many workgroups read a, half the bytes come from the caches. An invocation makes a group of eight values.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "contract/narrow.h"
#define TO_BF16 (to_type == TYPE_BF16)
#include "narrowed.glsl"

IN4(0, x)
OUT4(1, y)

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  uint row = i / row_groups, matrix = row / rows, outer = matrix / inner_batch;
  uint at = x_offset + outer * x_stride[0] + (matrix - outer * inner_batch) * x_stride[1] +
            (row - matrix * rows) * x_stride[2] + (i - row * row_groups) * 2u;
  SET_QUAD(y, y_at + i, narrowed(QUAD(x, at), QUAD(x, at + 1u)));
}
