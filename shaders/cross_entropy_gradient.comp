#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * cross_entropy_gradient: dx[v] = dloss (e^(x[v] - lse) - target[v]). An invocation has one element of the logits, or
 * with QUADS a group of four.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "row.glsl"
#include "contract/cross_entropy_gradient.h"

OPERAND_IN(0, x)
IN(1, labels)
IN(2, lse)
IN(3, dloss)
OPERAND_OUT(4, dx)

void main()
{
  uint at = invocation_index();
  if (at >= count) {
    return;
  }
  uint row = at / extent;
  uint i = at - row * extent;
  uint label = WORD(labels, labels_offset + row * labels_stride);
  VECTOR z = VECTOR(0.0);
  if (label < vocabulary) {
    z = LOAD(x, x_offset + row * row_stride + i * element_stride) - FLOAT(lse, lse_offset + row * lse_stride);
    float others = smoothing / float(vocabulary);
    for (uint j = 0u; j < WIDTH; ++j) {
      float share = exp_accurate(COMPONENT(z, j)) - others;
      COMPONENT(z, j) = i * WIDTH + j == label ? share - (1.0 - smoothing) : share;
    }
    z *= FLOAT(dloss, dloss_offset + row * dloss_stride);
  }
  STORE(dx, at, z);
}
