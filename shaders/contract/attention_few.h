/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_few.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_FEW_H
#define SHADERS_CONTRACT_ATTENTION_FEW_H

#include "contract.h"

CONSTANT(attention_few, 5, tile_rows, 1u);     /* queries: 1, 2 or 4 */
CONSTANT(attention_few, 6, key_lanes, 16u);    /* invocations that share a key: 8 or 16 */
CONSTANT(attention_few, 14, value_lanes, 16u); /* invocations that share a row of v: 8 or 16 */
#if defined(CONTRACT_IN_C) || defined(OUTPUT)
CONSTANT(attention_few, 15, output_shape, 1u); /* columns of the output, and OUTPUT_* */
#endif

#define OUTPUT_BIAS       0x80000000u /* there is one, which head 0 adds */
#define OUTPUT_COLUMNS(s) ((s)&0xffffffu)
#define OUTPUT_TYPE(s)    ((s) >> 24 & 15u) /* TYPE_* of the weights */

#define FEW_SIZE  128u /* invocations of a workgroup */
#define FEW_LOADS 8u   /* of k or v, that an invocation has on their way at a time */
#define FEW_QUADS 64u  /* of four elements, that q and v have at most */

#endif
