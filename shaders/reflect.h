/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compiled shader says of its contract with C (shaders/contract): its push constants and specialisation
 * constants.
 */
#ifndef TESSERA_SHADERS_REFLECT_H
#define TESSERA_SHADERS_REFLECT_H

#include <stddef.h>
#include <stdint.h>

typedef struct shader_contract {
  uint32_t push_bytes; /* of the push constants; 0: there are none */
  uint32_t constants;  /* bit i: it has specialisation constant i */
} shader_contract;

/* Reads a SPIR-V module of n words. Returns NULL, or what is wrong, a constant text: the module is none, or its push
 * constants lie elsewhere than C lays out a struct of the same members. */
const char *shader_reflect(const uint32_t *words, size_t n, shader_contract *result);

#endif
