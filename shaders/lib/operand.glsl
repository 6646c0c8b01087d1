/* SPDX-License-Identifier: Apache-2.0
 *
 * How a kernel reaches its operands: as 32-bit words, or as aligned groups of four words. IN(slot, a) declares
 * operand `slot`, WORD(a, i) is its word i; IN2 and PAIR, IN4 and QUAD are the same for groups of two and four. With
 * WIDE the storages are reached by address, from a table in the binding behind the operands; a kernel's source does
 * not see the difference.
 */
#ifndef LIB_OPERAND
#define LIB_OPERAND

#ifdef WIDE
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#endif

#include "contract/contract.h"

layout(local_size_x_id = SPEC_SIZE_X, local_size_y_id = SPEC_SIZE_Y) in;

#ifdef WIDE
layout(buffer_reference, std430, buffer_reference_align = 4) buffer word_array
{
  uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer pair_array
{
  uvec2 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer quad_array
{
  uvec4 at[];
};
layout(set = 0, binding = N_OPERANDS, std430) readonly buffer address_table
{
  uvec2 address[12];
};
#define IN(slot, name)   uvec2 name##_address = address[slot];
#define IN2(slot, name)  uvec2 name##_address = address[slot];
#define IN4(slot, name)  uvec2 name##_address = address[slot];
#define OUT(slot, name)  uvec2 name##_address = address[slot];
#define OUT2(slot, name) uvec2 name##_address = address[slot];
#define OUT4(slot, name) uvec2 name##_address = address[slot];
#define WORD(name, i)    word_array(name##_address).at[i]
#define PAIR(name, i)    pair_array(name##_address).at[i]
#define QUAD(name, i)    quad_array(name##_address).at[i]
#else
#define OPERAND(slot, name, access, type)                                                                              \
  layout(set = 0, binding = slot, std430) access buffer name##_block                                                   \
  {                                                                                                                    \
    type at[];                                                                                                         \
  }                                                                                                                    \
  name##_operand;
#define IN(slot, name)   OPERAND(slot, name, readonly, uint)
#define IN2(slot, name)  OPERAND(slot, name, readonly, uvec2)
#define IN4(slot, name)  OPERAND(slot, name, readonly, uvec4)
#define OUT(slot, name)  OPERAND(slot, name, , uint)
#define OUT2(slot, name) OPERAND(slot, name, , uvec2)
#define OUT4(slot, name) OPERAND(slot, name, , uvec4)
#define WORD(name, i)    name##_operand.at[i]
#define PAIR(name, i)    name##_operand.at[i]
#define QUAD(name, i)    name##_operand.at[i]
#endif

#define FLOAT(name, i)  uintBitsToFloat(WORD(name, i))
#define FLOAT4(name, i) uintBitsToFloat(QUAD(name, i))

/* A grid is folded over three axes; this is the workgroup's, or the invocation's, place along the unfolded one. */
uint group_index()
{
  return (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

uint invocation_index()
{
  return group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

#endif
