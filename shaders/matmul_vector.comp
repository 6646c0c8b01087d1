#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with few rows, as matmul_generic.comp has it, for GPUs: every element of b is read once, so that its
 * loads are what counts: 16 bytes each, several on their way at a time.
 *
 * A workgroup has a tile of `tile_rows` rows and a few columns. Its invocations divide the columns and the depth among
 * them and add up their sums: with SUBGROUP, where the workgroup is one subgroup along the depth, by its operations;
 * else in shared memory.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_vector.h"

#define TILE_ROWS    tile_rows
#define TILE_COLUMNS tile_columns
#include "product.glsl"

IN(0, a)
IN4(0, a_quads)
IN(1, b)
IN4(1, b_quads)

#include "element_of_b.glsl"

const uint quads = (width + 3u) / 4u;
const uint column_lanes = lanes / depth_lanes;
const uint lane_columns = along_depth * loads + (1u - along_depth) * width; /* results of an invocation in each row */
const uint tile_columns = lane_columns * column_lanes;

/* What a load of b brings, as numbers: element e is [e / 4][e % 4]. */
void values_of_b(uvec4 words, out vec4 values[quads])
{
  if (width <= 4u) {
    values[0] = uintBitsToFloat(words);
    return;
  }
  [[unroll]] for (uint i = 0u; i < quads; ++i) {
    uvec2 pair = i == 0u ? words.xy : words.zw;
    values[i] = b_type == TYPE_F16 ? vec4(unpackHalf2x16(pair.x), unpackHalf2x16(pair.y))
                                   : uintBitsToFloat(uvec4(pair.x << 16, pair.x & 0xffff0000u, pair.y << 16,
                                                           pair.y & 0xffff0000u));
  }
}

/* `width` elements of b from element `at` on */
uvec4 load_vector_b(uint at)
{
  return width == 1u ? uvec4(floatBitsToUint(load_b(at)), 0u, 0u, 0u) : QUAD(b_quads, at / width);
}

/* The values of a that meet a quad of b along k */
vec4 load_quad_a(uint at)
{
  if (a_in_quads != 0u) {
    return FLOAT4(a_quads, at / 4u);
  }
  vec4 x = vec4(0.0);
  [[unroll]] for (uint e = 0u; e < min(width, 4u); ++e) {
    x[e] = FLOAT(a, at + e * a_stride[3]);
  }
  return x;
}

/* Where an invocation's result e stands among the columns of the tile */
uint column_of(uint e, uint lane)
{
  return along_depth != 0u ? e * column_lanes + lane : lane * width + e;
}

#ifndef SUBGROUP
shared float partial[lanes * lane_columns]; /* [k lane][result][column lane] */
#endif

void product(uvec3 tile)
{
#ifdef SUBGROUP
  uint lane = gl_SubgroupInvocationID;
#else
  uint lane = gl_LocalInvocationID.x;
#endif
  uint k_lane = along_depth != 0u ? lane % depth_lanes : lane / column_lanes;
  uint n_lane = along_depth != 0u ? lane / depth_lanes : lane % column_lanes;
  uint batch = tile.z / parts;
  uint begin = (tile.z - batch * parts) * part_depth;
  uint end = min(begin + part_depth, depth);
  uint first_row = tile.x * tile_rows;
  uint first_column = tile.y * tile_columns;
  uint b_at = b_offset + batch_offset(batch, b_stride[0], b_stride[1]);
  uint a_from[tile_rows];
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    a_from[m] = a_offset + batch_offset(batch, a_stride[0], a_stride[1]) + min(first_row + m, rows - 1u) * a_stride[2];
  }
  float sum[tile_rows][lane_columns];
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    [[unroll]] for (uint e = 0u; e < lane_columns; ++e) {
      sum[m][e] = 0.0;
    }
  }

  if (along_depth != 0u) {
    uint b_from[loads];
    [[unroll]] for (uint c = 0u; c < loads; ++c) {
      b_from[c] = b_at + min(first_column + column_of(c, n_lane), columns - 1u) * b_stride[3];
    }
    const uint stride = depth_lanes * width;
    for (uint k_first = begin + k_lane * width; k_first < end; k_first += stride * steps) {
      uvec4 words[steps][loads];
      [[unroll]] for (uint s = 0u; s < steps; ++s) {
        uint k = min(k_first + s * stride, end - width);
        [[unroll]] for (uint c = 0u; c < loads; ++c) {
          words[s][c] = load_vector_b(b_from[c] + k * b_stride[2]);
        }
      }
      [[unroll]] for (uint s = 0u; s < steps; ++s) {
        uint k = k_first + s * stride;
        if (s > 0u && k >= end) {
          break;
        }
        [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
          vec4 x[quads];
          [[unroll]] for (uint i = 0u; i < quads; ++i) {
            x[i] = load_quad_a(a_from[m] + (k + i * 4u) * a_stride[3]);
          }
          [[unroll]] for (uint c = 0u; c < loads; ++c) {
            vec4 z[quads];
            values_of_b(words[s][c], z);
            [[unroll]] for (uint e = 0u; e < width; ++e) {
              sum[m][c] = fma(x[e / 4u][e % 4u], z[e / 4u][e % 4u], sum[m][c]);
            }
          }
        }
      }
    }
  } else {
    uint n = min(first_column + n_lane * width, columns - width);
    for (uint k = begin + k_lane; k < end; k += depth_lanes * loads) {
      uvec4 words[loads];
      [[unroll]] for (uint j = 0u; j < loads; ++j) {
        words[j] = load_vector_b(b_at + min(k + j * depth_lanes, end - 1u) * b_stride[2] + n * b_stride[3]);
      }
      [[unroll]] for (uint j = 0u; j < loads; ++j) {
        uint at = k + j * depth_lanes;
        vec4 z[quads];
        values_of_b(at < end ? words[j] : uvec4(0u), z);
        [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
          float x = at < end ? FLOAT(a, a_from[m] + at * a_stride[3]) : 0.0;
          [[unroll]] for (uint e = 0u; e < width; ++e) {
            sum[m][e] = fma(x, z[e / 4u][e % 4u], sum[m][e]);
          }
        }
      }
    }
  }

#ifdef SUBGROUP
  float mine = 0.0; /* result i is lane i's */
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    [[unroll]] for (uint e = 0u; e < lane_columns; ++e) {
      float all = subgroupAdd(sum[m][e]);
      mine = lane == m * lane_columns + e ? all : mine;
    }
  }
  uint to_row = first_row + lane / lane_columns;
  uint to_column = first_column + lane % lane_columns;
  if (lane < tile_rows * lane_columns && to_row < rows && to_column < columns) {
    store(tile.z, to_row, to_column, mine);
  }
#else
  /* Row after row is moved to the front. */
  [[dont_unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    barrier();
    [[unroll]] for (uint e = 0u; e < lane_columns; ++e) {
      partial[(k_lane * lane_columns + e) * column_lanes + n_lane] = sum[0][e];
    }
    for (uint half_size = depth_lanes >> 1; half_size > 0u; half_size >>= 1) {
      barrier();
      for (uint i = lane; i < half_size * tile_columns; i += lanes) {
        partial[i] += partial[i + half_size * tile_columns];
      }
    }
    barrier();
    for (uint i = lane; i < tile_columns; i += lanes) {
      uint n = first_column + column_of(i / column_lanes, i % column_lanes);
      if (first_row + m < rows && n < columns) {
        store(tile.z, first_row + m, n, partial[i]);
      }
    }
    [[unroll]] for (uint next = 1u; next < tile_rows; ++next) {
      [[unroll]] for (uint e = 0u; e < lane_columns; ++e) {
        sum[next - 1u][e] = sum[next][e];
      }
    }
  }
#endif
}

#include "product_main.glsl"
