/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_NORM_H
#define SHADERS_CONTRACT_NORM_H

#include "contract.h"
#include "norm_kinds.h"
#include "values.h"

CONSTANT(norm, 2, centred, NORM_CENTRED); /* NORM_* */
CONSTANT(norm, 3, biased, 0u);            /* 1: there is a bias */
CONSTANT(norm, 4, added, 0u);             /* ADDEND_* */
#if defined(CONTRACT_IN_C) || defined(HALVES)
CONSTANT(norm, 5, to_type, TYPE_F16); /* of what is left for a product; or TYPE_BF16 */
#endif

#define ADDEND_NONE    0u
#define ADDEND_ADDED   1u /* x + addend takes the place of x */
#define ADDEND_WRITTEN 2u /* and is written to sum */

PUSH(norm)
{
  uvec4 extent;
  uvec4 x_stride;
  uvec4 addend_stride;
  uint x_offset;
  uint addend_offset;
  uint gain_offset;
  uint gain_stride;
  uint bias_offset;
  uint bias_stride;
  uint rows;
  float epsilon;
  float length; /* elements of a row */
#if defined(CONTRACT_IN_C) || defined(HALVES)
  uint halves_at; /* groups of four into the scratch */
  uint kept;      /* 1: y is written, too */
#endif
}
PUSH_END(norm);

#endif
