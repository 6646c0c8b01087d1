/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_fused.comp: a product with few rows, and what stands around it in a decoding step.
 */
#ifndef SHADERS_CONTRACT_MATMUL_FUSED_H
#define SHADERS_CONTRACT_MATMUL_FUSED_H

#include "contract.h"
#include "norm_kinds.h"
#include "values.h"

CONSTANT(matmul_fused, 2, weight_type, TYPE_F32); /* TYPE_F32, TYPE_F16, TYPE_BF16; QUANTISED: TYPE_I8, TYPE_I4 */
CONSTANT(matmul_fused, 3, parts, 0u);             /* FUSED_* */
CONSTANT(matmul_fused, 4, tile_rows, 1u);         /* rows of a workgroup: 1, 2, 4 or 8 */
CONSTANT(matmul_fused, 5, loads, 4u);             /* columns that an invocation takes part in */
CONSTANT(matmul_fused, 6, size, 128u);            /* of a workgroup */
CONSTANT(matmul_fused, 7, depth_lanes, 32u);      /* invocations that share a column; with SUBGROUPS: a subgroup's */
CONSTANT(matmul_fused, 8, quads, 1u);             /* groups of four elements of a row of x */
CONSTANT(matmul_fused, 9, steps, 1u);             /* loads of each column that are on their way at a time */
CONSTANT(matmul_fused, 10, norm_kind, NORM_CENTRED);
CONSTANT(matmul_fused, 11, epsilon_bits, 0u);
CONSTANT(matmul_fused, 12, keys_from, 0u);     /* the first column that goes to the cache of keys; even */
CONSTANT(matmul_fused, 13, values_from, 0u);   /* likewise of values */
CONSTANT(matmul_fused, 14, cache_columns, 0u); /* of each of the two; even, 0: there are no caches */
CONSTANT(matmul_fused, 15, cache_type, TYPE_F32);

/* What there is beside the product. */
#define FUSED_ACTIVATION 7u   /* the bits of ACTIVATION_* */
#define FUSED_NORM       8u   /* of x, or of x + addend */
#define FUSED_NORM_BIAS  16u  /* the norm has a bias */
#define FUSED_ADDEND     32u  /* x + addend takes the place of x */
#define FUSED_KEEPS_SUM  64u  /* and is written to sum */
#define FUSED_KEEPS_NORM 128u /* the norm's result is written to normed */
#define FUSED_BIAS       256u /* of the product */
#define FUSED_RESIDUAL   512u /* QUANTISED, without a norm: is added to the result, and stands in the addend's place */

#define FUSED_MAX_ROWS 8u /* of a tile */

/* Offsets and strides of x, addend and weights count groups: of four elements, of weights those of 16 bytes. */
PUSH(matmul_fused)
{
  uint rows;
  uint columns;
  uint x_offset;
  uint addend_offset;
  uint addend_stride; /* from a row to the next; 0: it is one row for all */
  uint addend_parts;  /* what is added is the sum of so many; 1 unless attention left them */
  uint part_stride;   /* from one to the next */
  uint gain_offset;
  uint norm_bias_offset;
  uint weight_offset;
  uint weight_stride; /* from a column to the next */
  uint bias_offset;
  uint bias_stride;
  float alpha;
  uint row_tiles;
  uint groups;      /* workgroups that have work: the grid may be larger */
  uint keys_offset; /* of the caches, in elements */
  uint values_offset;
  uint cache_row_stride; /* from a row's cache to the next row's */
  uint cache_stride;     /* from a position to the next */
  uint cache_positions;
  uint position_offset;
  uint position_stride;
/* Without QUANTISED it ends here. */
#if defined(CONTRACT_IN_C) || defined(QUANTISED)
  uint bias_row_stride;
  uint scales_offset; /* of the columns */
  uint scales_stride;
  uint scales_group_stride; /* TYPE_I4: from a group along k to the next */
  uint residual_offset;
#endif
}
PUSH_END(matmul_fused);

#endif
