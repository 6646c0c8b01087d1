/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules of the backend as tests read them. Include after cmocka.h.
 */
#ifndef TESSERA_TESTS_UNIT_VULKAN_SHADER_WORDS_H
#define TESSERA_TESTS_UNIT_VULKAN_SHADER_WORDS_H

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#include "shaders/shaders.h"

/* The n words of SPIR-V of a shader that was compiled; the caller's to free. */
static uint32_t *shader_words(const tsr_vk_shader *shader, size_t *n)
{
  uLongf size = shader->size_bytes;
  uint32_t *words = malloc(size);
  assert_non_null(words);
  assert_int_equal(uncompress((Bytef *)words, &size, shader->packed, shader->packed_bytes), Z_OK);
  *n = size / sizeof(*words);
  return words;
}

#endif
