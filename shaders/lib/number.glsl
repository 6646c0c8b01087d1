/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers: tests that no compiler assumes away, conversions between formats, and functions that are accurate where the
 * built-in ones need not be (a driver's exp may be off by 3 + 2|x| units, its log by 2^-21).
 */
#ifndef LIB_NUMBER
#define LIB_NUMBER

#define INFINITY      uintBitsToFloat(0x7f800000u)
#define MINUS_INF     uintBitsToFloat(0xff800000u)
#define NOT_A_NUMBER  uintBitsToFloat(0x7fc00000u)

/* Element types, as tessera/backend.h numbers them. */
#define TYPE_F32  1u
#define TYPE_F16  2u
#define TYPE_BF16 3u
#define TYPE_I8   4u
#define TYPE_I32  5u

#define ACTIVATION_NONE      0u
#define ACTIVATION_RELU      1u
#define ACTIVATION_GELU_ERF  2u
#define ACTIVATION_GELU_TANH 3u
#define ACTIVATION_SILU      4u

bool is_nan(float x)
{
  return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

bool is_minus_inf(float x)
{
  return floatBitsToUint(x) == 0xff800000u;
}

bool is_plus_inf(float x)
{
  return floatBitsToUint(x) == 0x7f800000u;
}

/* Numbers in the order of their values as unsigned integers: -inf, .., -0 and 0 alike, .., +inf, any NaN */
#define ORDER_MINUS_INF 0x007fffffu
#define ORDER_PLUS_INF  0xff800000u
#define ORDER_NAN       0xffffffffu

uint order_of(float x)
{
  uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return ORDER_NAN;
  if (bits == 0x80000000u)
    return 0x80000000u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

/* The number of an order; of ORDER_NAN: NaN */
float number_of(uint order)
{
  return uintBitsToFloat((order & 0x80000000u) != 0u ? order & 0x7fffffffu : ~order);
}

/* The bits of max(x, 0), NaN kept; on bits, because a driver may flush subnormals. */
uint relu_bits(uint x)
{
  return x > 0x80000000u && x <= 0xff800000u ? 0u : x;
}

/* f16 to the bits of f32, exact, subnormals too whether or not the device keeps them. */
uint half_to_bits(uint h)
{
  uint magnitude = h & 0x7fffu;
  uint bits = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u)
    bits += 0x38000000u;
  else if (magnitude < 0x0400u)
    bits = magnitude == 0u ? 0u : floatBitsToUint(float(magnitude) * 5.9604644775390625e-8);
  return bits | ((h & 0x8000u) << 16);
}

/* The bits of f32 to f16, to nearest, ties to even. */
uint bits_to_half(uint bits)
{
  uint sign = (bits >> 16) & 0x8000u;
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  if (magnitude >= 0x477ff000u)
    return sign | 0x7c00u;
  if (magnitude >= 0x38800000u)
    return sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
  if (magnitude < 0x33000000u)
    return sign;
  uint shift = 126u - (magnitude >> 23);
  uint fraction = (magnitude & 0x7fffffu) | 0x800000u;
  uint result = fraction >> shift;
  uint rest = fraction & ((1u << shift) - 1u);
  uint middle = 1u << (shift - 1u);
  if (rest > middle || (rest == middle && (result & 1u) != 0u))
    ++result;
  return sign | result;
}

uint bits_to_bfloat(uint bits)
{
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

/* Four consecutive 16-bit elements, in two words, to f32. */
vec4 half4_to_float(uvec2 words)
{
  return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
}

vec4 bfloat4_to_float(uvec2 words)
{
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

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
  return is_nan(x) ? x : scale_by_power(y, int(n));
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

/* erf x to about one unit of its largest value: a polynomial in x^2 below 1, else 1 - e^-g(x). */
float erf_accurate(float x)
{
  float a = abs(x);
  if (a < 1.0) {
    float t = x * x;
    return x * (1.128379166 + t * (-0.3761262667 + t * (0.1128359472 + t * (-0.02685421201 +
           t * (0.005189087423 + t * (-0.0008016864287 + t * 7.875875063e-5))))));
  }
  if (is_nan(x))
    return x;
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
  if (activation == ACTIVATION_NONE)
    return x;
  if (activation == ACTIVATION_RELU)
    return uintBitsToFloat(relu_bits(floatBitsToUint(x)));
  if (is_minus_inf(x))
    return 0.0;
  if (activation == ACTIVATION_GELU_ERF)
    return 0.5 * x * (1.0 + erf_accurate(x * 0.707106781));
  if (activation == ACTIVATION_GELU_TANH)
    return times_sigmoid(x, 1.595769122 * (x + 0.044715 * x * x * x));
  return times_sigmoid(x, x);
}

#endif
