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

/* Groups as the driver loads them best. A CPU's driver loads what each invocation asks for one number at a time: with
 * LONG numbers have 64 bits, and loads are half as many. */
#ifdef LONG
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define TWO_WORDS  uint64_t
#define FOUR_WORDS u64vec2

uvec2 unpacked(uint64_t x)
{
  return unpack32(x);
}

uvec4 unpacked(u64vec2 x)
{
  return uvec4(unpack32(x.x), unpack32(x.y));
}

uint64_t packed(uvec2 x)
{
  return pack64(x);
}

u64vec2 packed(uvec4 x)
{
  return u64vec2(pack64(x.xy), pack64(x.zw));
}
#else
#define TWO_WORDS   uvec2
#define FOUR_WORDS  uvec4
#define unpacked(x) x
#define packed(x)   x
#endif

#ifdef WIDE
layout(buffer_reference, std430, buffer_reference_align = 4) buffer word_array
{
  uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer pair_array
{
  TWO_WORDS at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer quad_array
{
  FOUR_WORDS at[];
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
#define PAIRS(name, i)   pair_array(name##_address).at[i]
#define QUADS_OF(name, i) quad_array(name##_address).at[i]
#else
#define OPERAND(slot, name, access, type)                                                                              \
  layout(set = 0, binding = slot, std430) access buffer name##_block                                                   \
  {                                                                                                                    \
    type at[];                                                                                                         \
  }                                                                                                                    \
  name##_operand;
#define IN(slot, name)   OPERAND(slot, name, readonly, uint)
#define IN2(slot, name)  OPERAND(slot, name, readonly, TWO_WORDS)
#define IN4(slot, name)  OPERAND(slot, name, readonly, FOUR_WORDS)
#define OUT(slot, name)  OPERAND(slot, name, , uint)
#define OUT2(slot, name) OPERAND(slot, name, , TWO_WORDS)
#define OUT4(slot, name) OPERAND(slot, name, , FOUR_WORDS)
#define WORD(name, i)    name##_operand.at[i]
#define PAIRS(name, i)   name##_operand.at[i]
#define QUADS_OF(name, i) name##_operand.at[i]
#endif

#define PAIR(name, i)        unpacked(PAIRS(name, i))
#define QUAD(name, i)        unpacked(QUADS_OF(name, i))
#define SET_PAIR(name, i, x) PAIRS(name, i) = packed(x)
#define SET_QUAD(name, i, x) QUADS_OF(name, i) = packed(x)

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
