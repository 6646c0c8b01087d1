/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of SPIR-V, before a driver sees them.
 */
#ifndef TESSERA_BACKENDS_VULKAN_SPIRV_H
#define TESSERA_BACKENDS_VULKAN_SPIRV_H

#include <stddef.h>
#include <stdint.h>

/* Words by which tsr_vk_spirv_preserve makes a module longer, at most. */
enum { TSR_VK_SPIRV_MORE_WORDS = 2 + 7 + 2 * 4 };

/* Copies a module of one entry point and declares in it that signed zeros, infinities and NaN count for floats of 32
 * bits and, with `halves`, for those of 16, if it has any. result: [n_words + TSR_VK_SPIRV_MORE_WORDS]. Returns its
 * words; 0: it is no such module. */
size_t tsr_vk_spirv_preserve(const uint32_t *words, size_t n_words, int halves, uint32_t *result);

#endif
