/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_RELATIVE_H
#define SHADERS_CONTRACT_RELATIVE_H

#include "contract.h"

CONSTANT(relative, 2, clamped, 0u); /* 1: the table has a row for each distance from -reach to reach */

#define RELATIVE_MAX_BEGIN 20

PUSH(relative)
{
  uint table_offset;
  uint bucket_stride;
  uint head_stride;
  uint bias_offset;
  uint count; /* heads * (2 * reach + 1) */
  uint reach;
  uint exact; /* distances below have a bucket each */
  uint upper; /* buckets of keys after the query begin here; 0: there are none */
  uint from;  /* this dispatch serves distances from .. to - 1 */
  uint to;
  uint first_bucket; /* of distances from `exact` on that are below begin[0] */
  uint n;
  uint begin[RELATIVE_MAX_BEGIN];
}
PUSH_END(relative);

#endif
