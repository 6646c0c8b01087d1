/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/tensor.h"

#include <stdio.h>
#include <string.h>

const char *tsr_dtype_name(tsr_dtype dtype)
{
  switch (dtype) {
  case TSR_F32:
    return "f32";
  case TSR_F16:
    return "f16";
  case TSR_BF16:
    return "bf16";
  case TSR_I8:
    return "i8";
  case TSR_I32:
    return "i32";
  default:
    return "?";
  }
}

size_t tsr_dtype_size(tsr_dtype dtype)
{
  switch (dtype) {
  case TSR_F32:
  case TSR_I32:
    return 4;
  case TSR_F16:
  case TSR_BF16:
    return 2;
  case TSR_I8:
    return 1;
  default:
    return 0;
  }
}

tsr_shape tsr_shape_make(int32_t rank, const int64_t *extent)
{
  tsr_shape shape = {.rank = rank};
  for (int32_t i = 0; i < TSR_MAX_RANK; i++) {
    shape.extent[i] = i < rank ? extent[i] : 1;
  }
  return shape;
}

int64_t tsr_shape_elements(const tsr_shape *shape)
{
  int64_t product = 1;
  int empty = 0;
  if (shape->rank < 0 || shape->rank > TSR_MAX_RANK) {
    return -1;
  }
  for (int32_t i = 0; i < shape->rank; i++) {
    int64_t extent = shape->extent[i];
    if (extent < 0) {
      return -1;
    }
    if (extent == 0) {
      empty = 1;
    } else if (product > INT64_MAX / extent) {
      return -1;
    } else {
      product *= extent;
    }
  }
  return empty ? 0 : product;
}

int tsr_shape_equal(const tsr_shape *a, const tsr_shape *b)
{
  if (a->rank != b->rank) {
    return 0;
  }
  for (int32_t i = 0; i < a->rank; i++) {
    if (a->extent[i] != b->extent[i]) {
      return 0;
    }
  }
  return 1;
}

char *tsr_shape_print(const tsr_shape *shape, char *text, size_t size)
{
  size_t used = 0;
  if (size == 0) {
    return text;
  }
  text[0] = '\0';
  if (shape->rank < 0 || shape->rank > TSR_MAX_RANK) { /* there are no more extents to print */
    snprintf(text, size, "of rank %d", (int)shape->rank);
    return text;
  }
  for (int32_t i = 0; i <= shape->rank && used < size; i++) {
    int n = i == shape->rank
                ? snprintf(text + used, size - used, "%s", i == 0 ? "[]" : "]")
                : snprintf(text + used, size - used, "%s%lld", i == 0 ? "[" : ", ", (long long)shape->extent[i]);
    used += n > 0 ? (size_t)n : 0;
  }
  return text;
}

static uint32_t bits_of(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float tsr_f16_to_f32(uint16_t bits)
{
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 31u;
  uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) {
    return float_of(sign | 0x7f800000u | fraction << 13);
  }
  if (exponent != 0) {
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  }
  float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals: exact in f32 */
  return sign ? -magnitude : magnitude;
}

uint16_t tsr_f32_to_f16(float value)
{
  uint32_t bits = bits_of(value);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u); /* NaN */
  }
  if (magnitude >= 0x477ff000u) {
    return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  }
  if (magnitude >= 0x38800000u) { /* normal in f16 */
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
  }
  /* Subnormal: the value is a multiple of 2^-24 after rounding. */
  uint32_t exponent = magnitude >> 23;
  if (exponent < 102) {
    return sign; /* below 2^-25 */
  }
  uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  uint32_t shift = 126 - exponent; /* 14 .. 24 */
  uint32_t kept = fraction >> shift;
  uint32_t rest = fraction & ((1u << shift) - 1);
  uint32_t half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1u))) {
    kept++;
  }
  return (uint16_t)(sign | kept);
}

float tsr_bf16_to_f32(uint16_t bits)
{
  return float_of((uint32_t)bits << 16);
}

uint16_t tsr_f32_to_bf16(float value)
{
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)(bits >> 16 | 0x40u); /* NaN, kept quiet */
  }
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

tsr_status tsr_convert(tsr_dtype from_dtype, const void *from, tsr_dtype to_dtype, void *to, int64_t n)
{
  size_t from_size = tsr_dtype_size(from_dtype), to_size = tsr_dtype_size(to_dtype);
  if (from_size && from_dtype == to_dtype) {
    if (n > 0) {
      memcpy(to, from, (size_t)n * from_size);
    }
    return TSR_OK;
  }
  if ((from_dtype != TSR_F32 && from_dtype != TSR_F16 && from_dtype != TSR_BF16) ||
      (to_dtype != TSR_F32 && to_dtype != TSR_F16 && to_dtype != TSR_BF16)) {
    return tsr_fail(TSR_ERR_DTYPE, "no conversion from %s to %s", tsr_dtype_name(from_dtype), tsr_dtype_name(to_dtype));
  }
  for (int64_t i = 0; i < n; i++) {
    /* memcpy: bytes in a checkpoint may lie at any address. */
    const char *source = (const char *)from + (size_t)i * from_size;
    char *target = (char *)to + (size_t)i * to_size;
    float value;
    if (from_dtype == TSR_F32) {
      memcpy(&value, source, sizeof value);
    } else {
      uint16_t bits;
      memcpy(&bits, source, sizeof bits);
      value = from_dtype == TSR_F16 ? tsr_f16_to_f32(bits) : tsr_bf16_to_f32(bits);
    }
    if (to_dtype == TSR_F32) {
      memcpy(target, &value, sizeof value);
    } else {
      uint16_t bits = to_dtype == TSR_F16 ? tsr_f32_to_f16(value) : tsr_f32_to_bf16(value);
      memcpy(target, &bits, sizeof bits);
    }
  }
  return TSR_OK;
}
