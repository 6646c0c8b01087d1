/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device wants to read in a module that glslang does not write: that signed zeros, infinities and NaN count. A
 * driver may take it otherwise that no result is infinite or NaN. It is an execution mode (SPIR-V 1.6, 3.6), which a
 * module may have where the device offers shaderSignedZeroInfNanPreserveFloat32 or -Float16 (Vulkan, float controls).
 */
#include <string.h>

#include "backends/vulkan/spirv.h"

enum {
  HEADER_WORDS = 5,
  VERSION_1_4 = 0x00010400,
  OP_EXTENSION = 10,
  OP_EXT_INST_IMPORT = 11,
  OP_MEMORY_MODEL = 14,
  OP_ENTRY_POINT = 15,
  OP_EXECUTION_MODE = 16,
  OP_CAPABILITY = 17,
  CAPABILITY_FLOAT16 = 9,
  CAPABILITY_PRESERVE = 4466, /* SignedZeroInfNanPreserve */
  MODE_PRESERVE = 4461,
};

static size_t add(uint32_t *result, size_t n, const uint32_t *words, size_t n_words)
{
  memcpy(result + n, words, n_words * sizeof(*words));
  return n + n_words;
}

static size_t add_mode(uint32_t *result, size_t n, uint32_t entry, uint32_t bits)
{
  return add(result, n, (const uint32_t[]){4u << 16 | OP_EXECUTION_MODE, entry, MODE_PRESERVE, bits}, 4);
}

size_t tsr_vk_spirv_preserve(const uint32_t *words, size_t n_words, int halves, uint32_t *result)
{
  static const uint32_t capability[] = {2u << 16 | OP_CAPABILITY, CAPABILITY_PRESERVE};
  uint32_t extension[7] = {7u << 16 | OP_EXTENSION};
  memcpy(&extension[1], "SPV_KHR_float_controls", sizeof("SPV_KHR_float_controls"));
  if (n_words < HEADER_WORDS) {
    return 0;
  }
  size_t n = add(result, 0, words, HEADER_WORDS);
  uint32_t entry = 0;
  int has_halves = 0, has_modes = 0, has_extension = words[1] >= VERSION_1_4;
  for (size_t at = HEADER_WORDS; at < n_words;) {
    const uint32_t op = words[at] & 0xffffu;
    const size_t length = words[at] >> 16;
    if (length == 0 || length > n_words - at) {
      return 0;
    }
    if (op == OP_CAPABILITY && length > 1) {
      has_halves |= words[at + 1] == CAPABILITY_FLOAT16;
    } else if (op != OP_CAPABILITY && !has_extension) { /* in the order that modules have */
      n = add(result, n, extension, sizeof(extension) / sizeof(extension[0]));
      has_extension = 1;
    }
    if (op == OP_ENTRY_POINT && length > 2) {
      if (entry != 0) {
        return 0;
      }
      entry = words[at + 2];
    } else if (entry != 0 && !has_modes) {
      n = add_mode(result, n, entry, 32);
      n = halves && has_halves ? add_mode(result, n, entry, 16) : n;
      has_modes = 1;
    }
    n = add(result, n, &words[at], length);
    if (at == HEADER_WORDS) { /* every module begins with a capability */
      n = add(result, n, capability, 2);
    }
    at += length;
  }
  return has_modes ? n : 0;
}
