#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product, as matmul_generic.comp has it, for devices where loads are what costs, and shared memory and barriers
 * cost more (CPUs). k of a is contiguous; of b, k is (weights stored [N, K]), or with B_ROWS n; groups of four
 * throughout. With A_COLUMNS, too, m of a is contiguous instead (the gradient of weights), and k is taken one by one.
 * With ANY_STRIDE elements one by one, over any strides.
 *
 * A workgroup is one subgroup and has a tile of `tile_rows` rows and lanes * `tile_columns` columns. A lane has every
 * lanes-th column, with B_ROWS four neighbours. Each value of a is loaded by one lane and handed to the others by a
 * shuffle.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define SUBGROUP
#define HELD_BY_LANE
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_plain.h"

#define TILE_ROWS    tile_rows
#define TILE_COLUMNS (lanes * tile_columns)
#include "product.glsl"

#ifdef ANY_STRIDE
#define VECTOR          float
#define WIDTH           1u
#define COMPONENT(v, j) v
IN(0, a)
IN(1, b)

#include "element_of_b.glsl"

float load_a(uint at)
{
  return FLOAT(a, at);
}
#else
#define VECTOR          vec4
#define WIDTH           4u
#define COMPONENT(v, j) v[j]
IN4(0, a)
IN4(1, b)
IN2(1, b_narrow)

vec4 load_a(uint at)
{
  return FLOAT4(a, at);
}

vec4 load_b(uint at)
{
  if (b_type == TYPE_F32) {
    return FLOAT4(b, at);
  }
  uvec2 words = PAIR(b_narrow, at);
  if (b_type == TYPE_F16) {
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
  }
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}
#endif

/* Where the invocation's columns of b start: with B_ROWS one group of four columns, else tile_columns columns */
#ifdef B_ROWS
#define STARTS 1u
#else
#define STARTS tile_columns
#endif

#ifdef A_COLUMNS
/* Adds what element k brings; its values of a lie in a_mine, from lane `from` on, four rows in each. */
void add_products(inout float sum[tile_rows][tile_columns], vec4 a_mine, uint from, uint b_at[STARTS], uint k)
{
  vec4 b_mine = load_b(b_at[0] + k * b_stride[2]);
  for (uint group = 0u; group < tile_rows / 4u; ++group) {
    vec4 x = subgroupShuffle(a_mine, from + group);
    for (uint m = 0u; m < 4u; ++m) {
      for (uint c = 0u; c < 4u; ++c) {
        sum[group * 4u + m][c] = fma(x[m], b_mine[c], sum[group * 4u + m][c]);
      }
    }
  }
}
#else
/* Adds what element or group k brings; its values of a lie in a_mine, from lane `from` on. */
void add_products(inout float sum[tile_rows][tile_columns], VECTOR a_mine, uint from, uint b_at[STARTS], uint k)
{
  VECTOR b_mine[tile_columns];
  for (uint c = 0u; c < tile_columns; ++c) {
#ifdef B_ROWS
    b_mine[c] = load_b(b_at[0] + (k * 4u + c) * b_stride[2]);
#else
    b_mine[c] = load_b(b_at[c] + k * b_stride[2]);
#endif
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    VECTOR x = subgroupShuffle(a_mine, from + m);
    for (uint c = 0u; c < tile_columns; ++c) {
      for (uint j = 0u; j < WIDTH; ++j) {
#ifdef B_ROWS
        sum[m][c] = fma(x[j], b_mine[j][c], sum[m][c]);
#else
        sum[m][c] = fma(COMPONENT(x, j), COMPONENT(b_mine[c], j), sum[m][c]);
#endif
      }
    }
  }
}
#endif

/* What one lane's load of a holds of a tile's rows, and how many values or groups of k are in it */
#ifdef A_COLUMNS
#define ROWS_PER_LOAD  4u
#define DEPTH_PER_LOAD 1u
#else
#define ROWS_PER_LOAD  1u
#define DEPTH_PER_LOAD WIDTH
#endif

void product(uvec3 tile)
{
  const uint loads = tile_rows / ROWS_PER_LOAD; /* of a for each element or group of k */
  const uint steps = lanes / loads;             /* elements or groups of k that one load in each lane brings */
  uint lane = gl_SubgroupInvocationID;
  uint first_row = tile.x * tile_rows;
  uint a_at = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]) +
              min(first_row / ROWS_PER_LOAD + lane % loads, rows / ROWS_PER_LOAD - 1u) * a_stride[2];
  uint b_batch = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]);
  float sum[tile_rows][tile_columns];
  for (uint m = 0u; m < tile_rows; ++m) {
    for (uint c = 0u; c < tile_columns; ++c) {
      sum[m][c] = 0.0;
    }
  }
#ifdef B_ROWS
  uint first_column = (tile.y * lanes + lane) * 4u;
  uint b_at[STARTS];
  b_at[0] = b_batch + min(tile.y * lanes + lane, columns / 4u - 1u);
#else
  uint first_column = tile.y * lanes * tile_columns + lane;
  uint b_at[STARTS];
  for (uint c = 0u; c < tile_columns; ++c) {
    b_at[c] = b_batch + min(first_column + c * lanes, columns - 1u) * b_stride[3];
  }
#endif

  uint length = depth / DEPTH_PER_LOAD;
  uint whole = length / steps * steps;
  uint ahead = lane / loads;
  for (uint k = 0u; k < whole; k += steps) {
    VECTOR a_mine = load_a(a_at + (k + ahead) * a_stride[3]);
    for (uint step = 0u; step < steps; ++step) {
      add_products(sum, a_mine, step * loads, b_at, k + step);
    }
  }
  if (whole < length) {
    VECTOR a_mine = load_a(a_at + min(whole + ahead, length - 1u) * a_stride[3]);
    for (uint k = whole; k < length; ++k) {
      add_products(sum, a_mine, (k - whole) * loads, b_at, k);
    }
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    for (uint c = 0u; c < tile_columns; ++c) {
#ifdef B_ROWS
      uint n = first_column + c;
#else
      uint n = first_column + c * lanes;
#endif
      if (first_row + m < rows && n < columns) {
        store(tile.z, first_row + m, n, sum[m][c]);
      }
    }
  }
}

#include "product_main.glsl"
