/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device wants to read in a module that glslang does not write, as execution modes (SPIR-V 1.6, 3.6):
 *
 *   - that signed zeros, infinities and NaN count. A driver may take it otherwise that no result is infinite or NaN. A
 *     module may have the mode where the device offers shaderSignedZeroInfNanPreserveFloat32 or -Float16 (Vulkan, float
 *     controls).
 *   - that the invocations of a subgroup meet again where a branch ends (SPV_KHR_maximal_reconvergence). A compiler may
 *     otherwise let them go on apart, and what follows, a sum over the subgroup say, is computed by some of them. A
 *     module may have the mode where the device offers shaderMaximalReconvergence.
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
  CAPABILITY_SUBGROUPS = 61,     /* GroupNonUniform */
  CAPABILITY_PRESERVE = 4466,    /* SignedZeroInfNanPreserve */
  CAPABILITY_COOPERATIVE = 6022, /* CooperativeMatrixKHR */
  MODE_PRESERVE = 4461,
  MODE_RECONVERGES = 6023, /* MaximallyReconvergesKHR */
};

static size_t add(uint32_t *result, size_t n, const uint32_t *words, size_t n_words)
{
  memcpy(result + n, words, n_words * sizeof(*words));
  return n + n_words;
}

/* OpExtension; name: at most 31 characters */
static size_t add_extension(uint32_t *result, size_t n, const char *name)
{
  uint32_t words[9] = {0};
  const size_t n_words = 1 + strlen(name) / 4 + 1; /* with the zero behind the name */
  words[0] = (uint32_t)n_words << 16 | OP_EXTENSION;
  memcpy(&words[1], name, strlen(name));
  return add(result, n, words, n_words);
}

static size_t add_preserve(uint32_t *result, size_t n, uint32_t entry, uint32_t bits)
{
  return add(result, n, (const uint32_t[]){4u << 16 | OP_EXECUTION_MODE, entry, MODE_PRESERVE, bits}, 4);
}

size_t tsr_vk_spirv_declare(const uint32_t *words, size_t n_words, tsr_vk_spirv_modes modes, uint32_t *result)
{
  static const uint32_t capability[] = {2u << 16 | OP_CAPABILITY, CAPABILITY_PRESERVE};
  if (n_words < HEADER_WORDS) {
    return 0;
  }
  size_t n = add(result, 0, words, HEADER_WORDS);
  uint32_t entry = 0;
  int has_halves = 0, has_subgroups = 0, has_modes = 0, has_extensions = 0;
  for (size_t at = HEADER_WORDS; at < n_words;) {
    const uint32_t op = words[at] & 0xffffu;
    const size_t length = words[at] >> 16;
    if (length == 0 || length > n_words - at) {
      return 0;
    }
    if (op == OP_CAPABILITY && length > 1) {
      has_halves |= words[at + 1] == CAPABILITY_FLOAT16;
      has_subgroups |= words[at + 1] == CAPABILITY_SUBGROUPS || words[at + 1] == CAPABILITY_COOPERATIVE;
    } else if (op != OP_CAPABILITY && !has_extensions) { /* in the order that modules have */
      if (modes.preserve && words[1] < VERSION_1_4) {
        n = add_extension(result, n, "SPV_KHR_float_controls");
      }
      if (modes.reconverge && has_subgroups) {
        n = add_extension(result, n, "SPV_KHR_maximal_reconvergence");
      }
      has_extensions = 1;
    }
    if (op == OP_ENTRY_POINT && length > 2) {
      if (entry != 0) {
        return 0;
      }
      entry = words[at + 2];
    } else if (entry != 0 && !has_modes) {
      if (modes.preserve) {
        n = add_preserve(result, n, entry, 32);
        n = modes.preserve_halves && has_halves ? add_preserve(result, n, entry, 16) : n;
      }
      if (modes.reconverge && has_subgroups) {
        n = add(result, n, (const uint32_t[]){3u << 16 | OP_EXECUTION_MODE, entry, MODE_RECONVERGES}, 3);
      }
      has_modes = 1;
    }
    n = add(result, n, &words[at], length);
    if (at == HEADER_WORDS && modes.preserve) { /* every module begins with a capability */
      n = add(result, n, capability, 2);
    }
    at += length;
  }
  return has_modes ? n : 0;
}
