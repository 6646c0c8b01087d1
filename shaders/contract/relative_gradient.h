/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_RELATIVE_GRADIENT_H
#define SHADERS_CONTRACT_RELATIVE_GRADIENT_H

#include "contract.h"

CONSTANT(relative_gradient, 2, positioned, 0u); /* 1: position is given */
CONSTANT(relative_gradient, 3, clamped, 0u);    /* 1: the table has a row for each distance from -upper to upper */

#define RELATIVE_GRADIENT_MAX_BEGIN 14

PUSH(relative_gradient)
{
  uvec4 x_stride; /* b, h, l, s */
  uint x_offset;
  uint queries;
  uint keys;
  uint heads;
  uint position_offset;
  uint position_stride;
  uint rows;    /* queries of all sentences */
  uint block;   /* rows of one workgroup */
  uint y_at;    /* words into y */
  uint buckets; /* rows of the table */
  uint exact;   /* distances below have a bucket each */
  uint upper;   /* buckets of keys after the query begin here; 0: there are none */
  uint first;   /* this dispatch serves distances' buckets first .. first + n - 1, of both directions */
  uint n;
  uint
      begin[RELATIVE_GRADIENT_MAX_BEGIN]; /* of the buckets from max(first, exact) on, and of the one behind the last */
}
PUSH_END(relative_gradient);

#endif
