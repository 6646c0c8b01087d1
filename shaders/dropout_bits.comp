#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of attention's weights stay: one bit each, rows of keys filled up to whole words. An invocation has one word.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "dropout.glsl"
#include "contract/dropout_bits.h"

IN(0, seed)
OUT(1, bits)

void main()
{
  uint index = invocation_index();
  if (index >= count) {
    return;
  }
  uint row = index / row_words;
  uint first = (index - row * row_words) * 32u;
  uint n = min(32u, length - first);
  uvec2 key = uvec2(WORD(seed, seed_offset), WORD(seed, seed_offset + seed_stride));
  uvec2 element = dropout_element(row, length, first);
  uvec2 group = dropout_group(element);
  uint place = element.x & 7u;
  uint word = 0u;
  for (uint i = 0u; i < n; place = 0u) {
    uvec4 words = dropout_words(group, stream, key);
    for (; place < 8u && i < n; ++place, ++i) {
      word |= dropout_keeps(words, place, threshold) ? 1u << i : 0u;
    }
    group.y += group.x == 0xffffffffu ? 1u : 0u;
    ++group.x;
  }
  WORD(bits, bits_at + index) = word;
}
