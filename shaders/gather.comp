#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * copy, gather, embedding: y[i] = convert(alpha * x[place of i, at a row that an index names]), y contiguous. One
 * invocation writes one 32-bit word: one, two or four elements; with QUADS four elements of 32 bits (extents and
 * strides then count groups of four, the index repeats within one). With BYTES x is of i8, its rows have scales, and an
 * invocation makes one f32, with QUADS four of them. Or, of TYPE_I4, its bytes hold two weights each (tsr_matmul_i4):
 * strides are those of the bytes, in groups of four with QUADS.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "format.glsl"
#include "quantised.glsl"
#include "index.glsl"
#include "contract/gather.h"

IN(1, index_word)
#ifdef BYTES
IN(0, x)
IN(3, scales)

const bool four_bits = from_type == TYPE_I4;
#ifdef QUADS
#define COLUMNS 4u /* of an invocation */
#else
#define COLUMNS 1u
#endif

/* Where in its row lie the bytes of what an invocation makes, the column-th: they hold four neighbours in their lower
 * halves, the next four in the upper ones. */
uint place_of_bytes(uint column)
{
  return COLUMNS == 4u ? column / 2u : column / 8u * 4u + column % 4u;
}

bool in_upper(uint column)
{
  return (column * COLUMNS & 4u) != 0u;
}
#endif
#ifdef QUADS
#ifndef BYTES
IN4(0, x4)
#endif
OUT4(2, y4)
#else
#ifndef BYTES
IN(0, x)
#endif
OUT(2, y)

uint size_of(uint type)
{
  return type == TYPE_F16 || type == TYPE_BF16 ? 2u : type == TYPE_I8 ? 1u : 4u;
}

/* The bits of element `at` of x as y's type, in the low end of a word */
uint fetch(uint at)
{
  uint bits;
  if (size_of(from_type) == 4u) {
    bits = WORD(x, at);
  } else if (size_of(from_type) == 2u) {
    bits = (WORD(x, at >> 1) >> ((at & 1u) * 16u)) & 0xffffu;
  } else {
    bits = (WORD(x, at >> 2) >> ((at & 3u) * 8u)) & 0xffu;
  }
  if (from_type == to_type && scaled == 0u) {
    return bits;
  }
  if (from_type == TYPE_F16) {
    bits = half_to_bits(bits);
  } else if (from_type == TYPE_BF16) {
    bits <<= 16;
  }
  if (scaled != 0u) {
    bits = floatBitsToUint(alpha * uintBitsToFloat(bits));
  }
  if (to_type == TYPE_F16) {
    return bits_to_half(bits);
  }
  return to_type == TYPE_BF16 ? bits_to_bfloat(bits) : bits;
}
#endif

/* Where element i of y comes from, and the row that the index names; false if that is out of range. column: i's place
 * along the last axis. */
bool source(uint i, out uint at, out uint row, out uint column)
{
  uvec4 place = unravel(i, extent, axes);
  column = place.w;
#ifdef BYTES
  place.w = four_bits ? place_of_bytes(column) : column;
#endif
  at = x_offset + element(place, x_stride);
  row = 0u;
  if (indexed == 0u) {
    return true;
  }
  row = WORD(index_word, index_offset + element(place, index_stride));
  at += row * row_stride;
  return row < rows;
}

void main()
{
  uint i = invocation_index();
  uint at, row, column;
#ifdef BYTES
  if (i >= count) {
    return;
  }
  bool within = source(i, at, row, column);
  float factor = 0.0;
  if (within && four_bits) {
    uint half_at = scales_offset + row * scales_stride + column * COLUMNS / 32u * scales_group_stride;
    factor = alpha * group_factor(WORD(scales, half_at >> 1), half_at & 1u);
  } else if (within) {
    factor = alpha * FLOAT(scales, scales_offset + row * scales_stride);
  }
#ifdef QUADS
  uint word = within ? WORD(x, at) : 0u;
  word = four_bits && within ? weight_bytes(word, in_upper(column)) : word;
  SET_QUAD(y4, i, floatBitsToUint(factor * vec4(ivec4(uvec4(word << 24, word << 16, word << 8, word)) >> 24)));
#else
  uint word = within ? WORD(x, at >> 2) : 0u;
  word = four_bits && within ? weight_bytes(word, in_upper(column)) : word;
  int value = int(word << ((3u - (at & 3u)) * 8u)) >> 24;
  WORD(y, i) = floatBitsToUint(factor * float(value));
#endif
#elif defined(QUADS)
  if (i >= count) {
    return;
  }
  uvec4 result = uvec4(0u);
  if (source(i, at, row, column)) {
    result = QUAD(x4, at);
    if (scaled != 0u) {
      result = floatBitsToUint(alpha * uintBitsToFloat(result));
    }
  }
  SET_QUAD(y4, i, result);
#else
  const uint per_word = 4u / size_of(to_type);
  uint first = i * per_word;
  if (first >= count) {
    return;
  }
  uint n = min(per_word, count - first);
  /* What lies behind the last element stays. */
  uint word = n < per_word ? WORD(y, i) & (0xffffffffu << (n * 8u * size_of(to_type))) : 0u;
  for (uint j = 0u; j < n; ++j) {
    if (source(first + j, at, row, column)) {
      word |= fetch(at) << (j * 8u * size_of(to_type));
    }
  }
  WORD(y, i) = word;
#endif
}
