#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses all that example.h declares.
 */
#extension GL_GOOGLE_include_directive : require
#include "example.h"

layout(local_size_x_id = SPEC_SIZE_X, local_size_y_id = SPEC_SIZE_Y) in;
layout(set = 0, binding = 0, std430) buffer words
{
  uint at[];
};

void main()
{
  at[count + first] = second * extent.w + uint(scale) + stride[2] + last;
}
