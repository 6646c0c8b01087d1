/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are accurate where the built-in ones need not be: a driver's exp may be off by 3 + 2|x| units in the
 * last place, its log by 2^-21.
 */
#ifndef LIB_EXPONENTIAL
#define LIB_EXPONENTIAL

#include "number.glsl"

/* 2^n by its two halves, so that subnormal and infinite results come out as the device has them */
float scale_by_power(float x, int n)
{
  int lower = n >> 1;
  return x * uintBitsToFloat(uint(lower + 127) << 23) * uintBitsToFloat(uint(n - lower + 127) << 23);
}

/* e^x to about one unit in the last place: x = n ln 2 + r, |r| <= ln 2 / 2. */
float exp_accurate(float x)
{
  float bounded = clamp(x, -105.0, 89.5);
  float n = floor(bounded * 1.44269504 + 0.5);
  precise float r = (bounded - n * 0.693359375) + n * 2.12194440e-4;
  float tail = 0.5 + r * (0.1666657554 + r * (0.04166655281 + r * (0.00836341962 + r * 0.00139264841)));
  precise float y = 1.0 + (r + r * r * tail);
  return uintBitsToFloat(is_nan(x) ? floatBitsToUint(x) : floatBitsToUint(scale_by_power(y, int(n))));
}

/* tanh(x) to about two units in the last place: near 0 by a polynomial (Cephes), where the quotient would cancel. */
float tanh_accurate(float x)
{
  float size = abs(x), s = x * x;
  float p = -3.33332819422e-1 + s * (1.33314422036e-1 + s * (-5.37397155531e-2 +
            s * (2.06390887954e-2 + s * -5.70498872745e-3)));
  float far = 1.0 - 2.0 / (exp_accurate(2.0 * min(size, 20.0)) + 1.0);
  float y = size < 0.625 ? x + x * (s * p) : x < 0.0 ? -far : far;
  return nan_if(is_nan(x), y);
}

/* ln x of a positive, normal x, to about one unit: x = m 2^n, m in [sqrt(1/2), sqrt(2)). */
float log_accurate(float x)
{
  uint bits = floatBitsToUint(x) + (0x3f800000u - 0x3f3504f3u);
  float n = float(int(bits >> 23) - 127);
  float f = uintBitsToFloat((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0;
  float tail = 0.3333333118 + f * (-0.2499999696 + f * (0.2000071575 + f * (-0.1666780232 + f * (0.1424905765 +
               f * (-0.1242568733 + f * (0.1168541992 + f * (-0.1147973385 + f * 0.06971611471)))))));
  float square = f * f;
  precise float y = f + (n * -2.12194440e-4 + (square * f * tail - 0.5 * square)) + n * 0.693359375;
  return y;
}

#endif
