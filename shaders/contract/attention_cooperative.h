/* SPDX-License-Identifier: Apache-2.0
 *
 * The own constants of attention_cooperative.comp and of attention_gradient_cooperative.comp.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_COOPERATIVE_H
#define SHADERS_CONTRACT_ATTENTION_COOPERATIVE_H

#include "contract.h"

CONSTANT(attention_cooperative, SPEC_SIZE_X, size, 128u);
CONSTANT(attention_cooperative, 5, shape, 0x101010u); /* the device's, THREE_BYTES: m, n, k */
CONSTANT(attention_cooperative, 6, tile_shape,
         0x202010u); /* THREE_BYTES: a subgroup's queries and invocations, the keys; its own, .., the others */

#define THREE_BYTES(a, b, c) ((a) | (b) << 8 | (c) << 16)
#define FIRST_BYTE(bytes)    ((bytes)&255u)
#define SECOND_BYTE(bytes)   ((bytes) >> 8 & 255u)
#define THIRD_BYTE(bytes)    ((bytes) >> 16)

#endif
