/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of SPIR-V, before a driver sees them.
 */
#ifndef TESSERA_BACKENDS_VULKAN_SPIRV_H
#define TESSERA_BACKENDS_VULKAN_SPIRV_H

#include <stddef.h>
#include <stdint.h>

/* Words by which tsr_vk_spirv_declare makes a module longer, at most. */
enum { TSR_VK_SPIRV_MORE_WORDS = 2 + 7 + 9 + 2 * 4 + 3 };

typedef struct tsr_vk_spirv_modes {
  int preserve;        /* signed zeros, infinities and NaN count for floats of 32 bits */
  int preserve_halves; /* and for those of 16, in a module that has any; counts only with `preserve` */
  int reconverge;      /* invocations meet again behind a branch, in a module whose subgroups work together */
} tsr_vk_spirv_modes;

/* Copies a module of one entry point and declares the modes in it. result: [n_words + TSR_VK_SPIRV_MORE_WORDS]. Returns
 * its words; 0: it is no such module. */
size_t tsr_vk_spirv_declare(const uint32_t *words, size_t n_words, tsr_vk_spirv_modes modes, uint32_t *result);

#endif
