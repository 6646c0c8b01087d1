#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * adam: m += (1 - beta1) (g - m), v = beta2 v + (1 - beta2) g^2, p -= rate m / (sqrt(v) + epsilon), each corrected by
 * what `control` holds: tessera/ops.h. An invocation has one element of the parameter, or with QUADS a group of four.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/adam.h"

IN(0, gradient_element)
OPERAND_IN(0, gradient)
IN(1, control)
IN(2, norm)
OPERAND_OUT(3, parameter)
OPERAND_OUT(4, first)
OPERAND_OUT(5, second)
OPERAND_OUT(6, average)

float control_at(uint i)
{
  return FLOAT(control, control_offset + i * control_stride);
}

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  float factor = control_at(3u);
  if ((flags & ADAM_NORM) != 0u) {
    uint bits = WORD(norm, norm_offset);
    if ((bits & 0x7f800000u) == 0x7f800000u) {
      return;
    }
    if (max_norm > 0.0) {
      factor *= min(1.0, max_norm / (sqrt(uintBitsToFloat(bits)) * abs(factor) + 1e-6));
    }
  }
  uint at = gradient_offset + element(unravel(i, extent), gradient_stride);
  VECTOR g = factor * (repeat != 0u ? VECTOR(FLOAT(gradient_element, at)) : LOAD(gradient, at));
  VECTOR p = LOAD(parameter, parameter_offset + i);
  float rate = control_at(0u);
  if ((flags & ADAM_DECOUPLED) != 0u) {
    p -= rate * decay * p;
  } else {
    g += decay * p;
  }
  VECTOR m = LOAD(first, m_offset + i);
  m += (1.0 - beta1) * (g - m);
  VECTOR v = beta2 * LOAD(second, v_offset + i) + (1.0 - beta2) * (g * g);
  p -= rate * control_at(1u) * m / (sqrt(v * control_at(2u)) + epsilon);
  STORE(first, m_offset + i, m);
  STORE(second, v_offset + i, v);
  STORE(parameter, parameter_offset + i, p);
  if ((flags & ADAM_AVERAGE) != 0u) {
    VECTOR kept = LOAD(average, average_offset + i);
    STORE(average, average_offset + i, kept + control_at(4u) * (p - kept));
  }
}
