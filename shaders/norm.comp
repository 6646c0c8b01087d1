#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm: y = gain (x - mean) / sqrt(variance + epsilon) + bias, rmsnorm without mean and bias, of x + addend where
 * one is added. The variance is that of the centred values. A workgroup has a row, an invocation every size-th of its
 * elements, or groups. With HALVES the result is left rounded for a product, too, in scratch (lib/narrowed.glsl); y is
 * written where it is read as it is.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/norm.h"
#ifdef HALVES
#define TO_BF16 (to_type == TYPE_BF16)
#include "narrowed.glsl"
#endif

OPERAND_IN(0, x)
OPERAND_IN(1, gain)
OPERAND_IN(2, bias)
OPERAND_OUT(3, y)
OPERAND_IN(4, addend)
OPERAND_OUT(5, sum)
#ifdef HALVES
OUT2(6, halves)
#endif

VECTOR load(uint x_at, uint addend_at, uint i)
{
  VECTOR z = LOAD(x, x_at + i * x_stride.w);
  return added != ADDEND_NONE ? z + LOAD(addend, addend_at + i * addend_stride.w) : z;
}

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uvec4 place = unravel(row, uvec4(1u, extent.xyz)).yzwx;
  uint x_at = x_offset + element(place, x_stride);
  uint addend_at = addend_offset + element(place, addend_stride);
  uint y_at = row * extent.w;

  float mean = 0.0;
  if (centred != NORM_PLAIN) {
    float total = 0.0;
    FOR_BLOCKS(block, extent.w) {
      float part = 0.0;
      FOR_BLOCK(i, block, extent.w) {
        part += sum_of(load(x_at, addend_at, i));
      }
      total += part;
    }
    mean = group_sum(total) / length;
  }
  float squares = 0.0;
  FOR_BLOCKS(block, extent.w) {
    float part = 0.0;
    FOR_BLOCK(i, block, extent.w) {
      VECTOR z = load(x_at, addend_at, i) - mean;
      part += sum_of(z * z);
    }
    squares += part;
  }
  float total = group_sum(squares);
  float scale = centred == NORM_UNBIASED ? 1.0 / (sqrt(total / max(length - 1.0, 1.0)) + epsilon)
                                         : 1.0 / sqrt(total / length + epsilon);

  for (uint i = gl_LocalInvocationID.x; i < extent.w; i += gl_WorkGroupSize.x) {
    VECTOR whole = load(x_at, addend_at, i);
    if (added == ADDEND_WRITTEN) {
      STORE(sum, y_at + i, whole);
    }
    VECTOR z = LOAD(gain, gain_offset + i * gain_stride) * ((whole - mean) * scale);
    if (biased != 0u) {
      z += LOAD(bias, bias_offset + i * bias_stride);
    }
#ifdef HALVES
    uvec4 bits = floatBitsToUint(z);
    SET_PAIR(halves, halves_at + y_at + i, uvec2(narrowed(bits.xy), narrowed(bits.zw)));
    if (kept == 0u) {
      continue;
    }
#endif
    STORE(y, y_at + i, z);
  }
}
