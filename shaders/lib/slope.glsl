/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of the activations.
 */
#ifndef LIB_SLOPE
#define LIB_SLOPE

#include "activation.glsl"

/* Beyond the bounds the slope is 0 or 1 to the last place; within, no step of the formulas overflows. */
float slope(uint activation, float x)
{
  if (is_nan(x)) {
    return x;
  }
  if (activation == ACTIVATION_RELU) {
    return floatBitsToUint(x) - 1u < 0x7f800000u ? 1.0 : 0.0;
  }
  if (activation == ACTIVATION_GELU_ERF) {
    float z = clamp(x, -15.0, 15.0);
    return 0.5 * (1.0 + erf_accurate(z * 0.707106781)) + 0.3989422804 * z * exp_accurate(-0.5 * z * z);
  }
  bool with_tanh = activation == ACTIVATION_GELU_TANH;
  float bound = with_tanh ? 12.0 : 110.0;
  float z = clamp(x, -bound, bound);
  float inner = with_tanh ? 1.595769122 * (z + 0.044715 * z * z * z) : z;
  float inner_slope = with_tanh ? 1.595769122 * (1.0 + 0.134145 * z * z) : 1.0;
  float e = exp_accurate(-abs(inner));
  float rest = 1.0 / (1.0 + e);
  return (inner < 0.0 ? e * rest : rest) + z * inner_slope * (e * rest * rest);
}

#endif
