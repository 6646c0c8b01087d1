/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of bf16, which few compilers of GLSL know: the source has f16 in its place, as the factors of cooperative
 * matrices alone, and what it was compiled to is told that the type is bf16 (SPV_KHR_bfloat16).
 */
#ifndef TESSERA_SHADERS_BFLOAT16_H
#define TESSERA_SHADERS_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

#define SHADER_BFLOAT16_MORE_WORDS 9

/* Makes bf16 of the f16 of a SPIR-V module of n words. result: [n + SHADER_BFLOAT16_MORE_WORDS], *n_result its words.
 * Returns NULL, or what is wrong, a constant text: the module is none, has no f16, or computes with it. */
const char *shader_to_bfloat16(const uint32_t *words, size_t n, uint32_t *result, size_t *n_result);

#endif
