/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two shaders of topk share.
 */
#ifndef SHADERS_CONTRACT_TOPK_H
#define SHADERS_CONTRACT_TOPK_H

#include "contract.h"

CONSTANT(topk, 2, k, 1u);
CONSTANT(topk, 3, from_scratch, 0u); /* 1: reads candidates, 0: elements of x */
CONSTANT(topk, 4, to_scratch, 0u);
#if defined(CONTRACT_IN_C) || defined(SORT)
CONSTANT(topk, 5, list_length, 1024u);
#endif

#define SORTED 1024u /* with SORT: elements that a workgroup sorts */

PUSH(topk)
{
  uvec4 extent;
  uvec4 x_stride;
  uint x_offset;
  uint n;       /* candidates of a row: elements of x, or lists in scratch */
  uint share;   /* of them, those of one workgroup */
  uint shares;  /* workgroups per row */
  uint groups;  /* workgroups in all */
  uint from_at; /* words into scratch where candidates are read */
  uint to_at;   /* and written */
}
PUSH_END(topk);

#endif
