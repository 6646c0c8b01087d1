/* SPDX-License-Identifier: Apache-2.0 */
#include "bfloat16.h"

#include <string.h>

/* The numbers of the SPIR-V specification and of SPV_KHR_bfloat16 */
enum {
  MAGIC = 0x07230203,
  HEADER_WORDS = 5,
  OP_CAPABILITY = 17,
  OP_TYPE_FLOAT = 22,
  OP_TYPE_VECTOR = 23,
  OP_CONSTANT = 43,
  OP_SPEC_CONSTANT = 50,
  CAPABILITY_FLOAT16 = 9,
  CAPABILITY_BFLOAT16_TYPE = 5116,
  CAPABILITY_BFLOAT16_COOPERATIVE_MATRIX = 5118,
  ENCODING_BFLOAT16 = 0
};

static const uint32_t capabilities[] = {2u << 16 | OP_CAPABILITY, CAPABILITY_BFLOAT16_TYPE, 2u << 16 | OP_CAPABILITY,
                                        CAPABILITY_BFLOAT16_COOPERATIVE_MATRIX};

static size_t add(uint32_t *result, size_t n, const uint32_t *words, size_t n_words)
{
  memcpy(result + n, words, n_words * sizeof *words);
  return n + n_words;
}

static size_t add_extension(uint32_t *result, size_t n)
{
  static const char name[] = "SPV_KHR_bfloat16";
  enum { OP_EXTENSION = 10, WORDS = 1 + (sizeof name + 3) / 4 };
  uint32_t words[WORDS] = {(uint32_t)WORDS << 16 | OP_EXTENSION};
  memcpy(&words[1], name, sizeof name);
  return add(result, n, words, WORDS);
}

const char *shader_to_bfloat16(const uint32_t *words, size_t n, uint32_t *result, size_t *n_result)
{
  if (n < HEADER_WORDS || words[0] != MAGIC) {
    return "is no SPIR-V";
  }
  size_t n_words = add(result, 0, words, HEADER_WORDS);
  uint32_t type = 0;
  int has_capability = 0, has_extension = 0;
  for (size_t at = HEADER_WORDS; at < n;) {
    const uint32_t *word = &words[at];
    const uint32_t op = word[0] & 0xffffu;
    const size_t length = word[0] >> 16;
    if (length == 0 || length > n - at) {
      return "is no SPIR-V";
    }
    at += length;
    if (op != OP_CAPABILITY && !has_extension) { /* capabilities, extensions, all else: in this order */
      n_words = add_extension(result, n_words);
      has_extension = 1;
    }
    if (op == OP_CAPABILITY && length == 2 && word[1] == CAPABILITY_FLOAT16 && !has_capability) {
      n_words = add(result, n_words, capabilities, sizeof capabilities / sizeof capabilities[0]);
      has_capability = 1;
    } else if (op == OP_TYPE_FLOAT && length == 3 && word[2] == 16 && type == 0) {
      type = word[1];
      n_words = add(result, n_words, (const uint32_t[]){4u << 16 | OP_TYPE_FLOAT, type, 16, ENCODING_BFLOAT16}, 4);
    } else {
      const uint32_t used = length > 1 && (op == OP_CONSTANT || op == OP_SPEC_CONSTANT) ? word[1]
                            : length > 2 && op == OP_TYPE_VECTOR                        ? word[2]
                                                                                        : 0;
      if (used != 0 && used == type) {
        return "computes with f16, which was to be bf16";
      }
      n_words = add(result, n_words, word, length);
    }
  }
  if (!has_capability || type == 0) {
    return "has no f16, which was to be bf16";
  }
  *n_result = n_words;
  return NULL;
}
