/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations.
 */
#ifndef LIB_ACTIVATION
#define LIB_ACTIVATION

#include "contract/values.h"
#include "exponential.glsl"

/* The bits of max(x, 0), NaN kept; on bits, because a driver may flush subnormals. */
uint relu_bits(uint x)
{
  return x > 0x80000000u && x <= 0xff800000u ? 0u : x;
}

/* erf x to about one unit of its largest value: a polynomial in x^2 below 1, else 1 - e^-g(x). */
float erf_accurate(float x)
{
  float a = abs(x);
  if (a < 1.0) {
    float t = x * x;
    return x * (1.128379166 + t * (-0.3761262667 + t * (0.1128359472 + t * (-0.02685421201 +
           t * (0.005189087423 + t * (-0.0008016864287 + t * 7.875875063e-5))))));
  }
  if (is_nan(x)) {
    return x;
  }
  float c = min(a, 4.0);
  float g = 0.0007658977797 + c * (1.125893652 + c * (0.6391412576 + c * (0.1032811176 + c * (-0.02260477224 +
            c * (0.003432351381 + c * (-0.0003169370225 + c * 1.327236181e-5))))));
  float y = 1.0 - exp_accurate(-g);
  return x < 0.0 ? -y : y;
}

/* x / (1 + e^-z): where e^-z leaves the range the result is 0 */
float times_sigmoid(float x, float z)
{
  return z < -80.0 ? 0.0 : x / (1.0 + exp_accurate(-z));
}

float activate(uint activation, float x)
{
  if (activation == ACTIVATION_NONE) {
    return x;
  }
  if (activation == ACTIVATION_RELU) {
    return uintBitsToFloat(relu_bits(floatBitsToUint(x)));
  }
  if (is_minus_inf(x)) {
    return 0.0;
  }
  if (activation == ACTIVATION_GELU_ERF) {
    return 0.5 * x * (1.0 + erf_accurate(x * 0.707106781));
  }
  if (activation == ACTIVATION_GELU_TANH) {
    return times_sigmoid(x, 1.595769122 * (x + 0.044715 * x * x * x));
  }
  return times_sigmoid(x, x);
}

#endif
