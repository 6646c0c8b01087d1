#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product, as matmul_generic.comp has it, for GPUs.
 *
 * A workgroup has a tile of `tile_rows` rows and `tile_columns` columns, an invocation `row_groups` groups of four rows
 * and `column_groups` groups of four columns of it. a and b pass through shared memory, 16 values of k at a time: while
 * one half of it is multiplied, the next values are on their way to registers, and go to the other half. Whichever axes
 * are contiguous, shared memory holds for each k groups of four rows and of four columns. An invocation fetches units:
 * two values of k of a group.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "operand.glsl"
#include "number.glsl"
#include "contract/matmul_tiled.h"

#define TILE_ROWS    tile_rows
#define TILE_COLUMNS tile_columns
#include "product.glsl"

IN(0, a)
IN2(0, a_pairs)
IN4(0, a_quads)
IN(1, b)
IN2(1, b_pairs)
IN4(1, b_quads)

#include "element_of_b.glsl"

#define DEPTH_UNITS (TILE_DEPTH / 2u)

const uint a_groups = tile_rows / 4u;
const uint b_groups = tile_columns / 4u;
const uint pitch = a_groups + b_groups;
const uint half_size = TILE_DEPTH * pitch;
const uint lanes = tile_rows * tile_columns / (16u * row_groups * column_groups);
const uint a_units = a_groups * DEPTH_UNITS;
const uint b_units = b_groups * DEPTH_UNITS;
const uint a_rounds = (a_units + lanes - 1u) / lanes; /* in which the invocations fetch the units */
const uint b_rounds = (b_units + lanes - 1u) / lanes;

shared vec4 tiles[2u * half_size]; /* [half][k][groups of a, then of b] */

/* Where a group stands among those of its operand: units that are written together fall into different banks. */
uint swizzle(uint group, uint k, uint groups)
{
  return group ^ (k / 4u * 2u & (groups - 1u));
}

/* Unit i of an operand: x: its group, y: its first k in the tile. Along k eight invocations fetch two groups' whole
 * depth and write them to eight banks of four words. */
uvec2 unit_place(uint i, uint groups, uint layout_of)
{
  if ((layout_of & LAYOUT_ALONG_DEPTH) != 0u) {
    return uvec2(i / 16u * 2u + i % 2u, i / 2u % 4u * 4u + i / 8u % 2u * 2u);
  }
  return uvec2(i % groups, i / groups * 2u);
}

/* Where the four rows or columns from `first` on start, counted in loads; of four loaded at once: x */
uvec4 starts(uint at, uint first, uint extent, uint stride, uint layout_of)
{
  if (layout_of == LAYOUT_VECTORS) {
    return uvec4((at + min(first, extent - 4u)) / 4u);
  }
  uvec4 from = at + min(first + uvec4(0u, 1u, 2u, 3u), extent - 1u) * stride;
  return layout_of == (LAYOUT_VECTORS | LAYOUT_ALONG_DEPTH) ? from / 2u : from;
}

float load_a(uint at)
{
  return FLOAT(a, at);
}

uvec2 load_pair_a(uint at)
{
  return PAIR(a_pairs, at);
}

uvec4 load_quad_a(uint at)
{
  return QUAD(a_quads, at);
}

/* Elements of b as they are stored: 16-bit ones two to a word */
uvec2 load_pair_b(uint at)
{
  return b_type == TYPE_F32 ? PAIR(b_pairs, at) : uvec2(WORD(b, at), 0u);
}

uvec4 load_quad_b(uint at)
{
  return b_type == TYPE_F32 ? QUAD(b_quads, at) : uvec4(PAIR(b_pairs, at), 0u, 0u);
}

/* Loads a unit: along k, rows or columns 0 and 1, then 2 and 3, each at k and k + 1; else those four at k, then at
 * k + 1. `end` stands behind the last k; places beyond the operand are moved to its end, so that nothing depends on
 * them, and no branch keeps the loads from being on their way together. */
#define LOAD_UNIT(unit, from, k, end, stride, layout_of, load_quad, load_pair, load_element)                           \
  {                                                                                                                    \
    uvec2 at = min(uvec2(k, k + 1u), end - 1u);                                                                        \
    if (layout_of == (LAYOUT_VECTORS | LAYOUT_ALONG_DEPTH)) {                                                          \
      uint pair = at.x / 2u;                                                                                           \
      unit[0] = uvec4(load_pair(from.x + pair), load_pair(from.y + pair));                                             \
      unit[1] = uvec4(load_pair(from.z + pair), load_pair(from.w + pair));                                             \
    } else if (layout_of == LAYOUT_VECTORS) {                                                                          \
      unit[0] = load_quad(from.x + at.x * (stride / 4u));                                                              \
      unit[1] = load_quad(from.x + at.y * (stride / 4u));                                                              \
    } else {                                                                                                           \
      at *= stride;                                                                                                    \
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {                                                                      \
        [[unroll]] for (uint t = 0u; t < 2u; ++t) {                                                                    \
          uint bits = floatBitsToUint(load_element(from[i] + at[t]));                                                  \
          if (layout_of == LAYOUT_ALONG_DEPTH) {                                                                       \
            unit[i / 2u][i % 2u * 2u + t] = bits;                                                                      \
          } else {                                                                                                     \
            unit[t][i] = bits;                                                                                         \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* Zeros for what a unit at k has beyond `end` */
void clear_beyond(inout uvec4 unit[2], uint k, uint end, uint layout_of)
{
  bvec2 inside = lessThan(uvec2(k, k + 1u), uvec2(end));
  if ((layout_of & LAYOUT_ALONG_DEPTH) != 0u) {
    unit[0] = mix(uvec4(0u), unit[0], inside.xyxy);
    unit[1] = mix(uvec4(0u), unit[1], inside.xyxy);
  } else {
    unit[0] = inside.x ? unit[0] : uvec4(0u);
    unit[1] = inside.y ? unit[1] : uvec4(0u);
  }
}

vec2 two_of_b(uint word)
{
  return b_type == TYPE_F16 ? unpackHalf2x16(word) : uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u));
}

/* What load_pair_b and load_quad_b brought, in the same order, as numbers */
vec4 values_of_b(uvec4 words)
{
  if (b_type == TYPE_F32 || (layout_b & LAYOUT_VECTORS) == 0u) {
    return uintBitsToFloat(words);
  }
  return vec4(two_of_b(words.x), two_of_b((layout_b & LAYOUT_ALONG_DEPTH) != 0u ? words.z : words.y));
}

void write_unit(uint at, uint layout_of, vec4 first, vec4 second)
{
  bool along_depth = (layout_of & LAYOUT_ALONG_DEPTH) != 0u;
  tiles[at] = along_depth ? vec4(first.xz, second.xz) : first;
  tiles[at + pitch] = along_depth ? vec4(first.yw, second.yw) : second;
}

void product(uvec3 tile)
{
  uint lane = gl_LocalInvocationID.x;
  uint batch = tile.z / parts;
  uint begin = (tile.z - batch * parts) * part_depth;
  uint end = min(begin + part_depth, depth);
  uint first_row = tile.x * tile_rows;
  uint first_column = tile.y * tile_columns;
  uint a_at = a_offset + batch_offset(batch, a_stride[0], a_stride[1]);
  uint b_at = b_offset + batch_offset(batch, b_stride[0], b_stride[1]);

  uvec4 a_from[a_rounds], b_from[b_rounds];
  uvec2 a_place[a_rounds], b_place[b_rounds];
  [[unroll]] for (uint r = 0u; r < a_rounds; ++r) {
    a_place[r] = unit_place((lane + r * lanes) % a_units, a_groups, layout_a);
    a_from[r] = starts(a_at, first_row + a_place[r].x * 4u, rows, a_stride[2], layout_a);
  }
  [[unroll]] for (uint r = 0u; r < b_rounds; ++r) {
    b_place[r] = unit_place((lane + r * lanes) % b_units, b_groups, layout_b);
    b_from[r] = starts(b_at, first_column + b_place[r].x * 4u, columns, b_stride[3], layout_b);
  }

  /* Invocations in patches of 4 x 8, so that those which run together read few groups */
  const uint patches = b_groups / column_groups / 8u;
  uint patch_index = lane / 32u;
  uint row = patch_index / patches * 4u + lane / 8u % 4u;
  uint column = patch_index % patches * 8u + lane % 8u;

  vec4 sum[row_groups * 4u][column_groups];
  [[unroll]] for (uint m = 0u; m < row_groups * 4u; ++m) {
    [[unroll]] for (uint n = 0u; n < column_groups; ++n) {
      sum[m][n] = vec4(0.0);
    }
  }

  uint fill = 0u; /* the half that is written */
  for (uint k = begin; k < end + TILE_DEPTH; k += TILE_DEPTH) {
    uvec4 a_unit[a_rounds][2], b_unit[b_rounds][2];
    if (k < end) { /* in a branch, lest a compiler moves the loads behind the multiplications, where they are used */
      [[unroll]] for (uint r = 0u; r < a_rounds; ++r) {
        LOAD_UNIT(a_unit[r], a_from[r], k + a_place[r].y, end, a_stride[3], layout_a, load_quad_a, load_pair_a, load_a)
      }
      [[unroll]] for (uint r = 0u; r < b_rounds; ++r) {
        LOAD_UNIT(b_unit[r], b_from[r], k + b_place[r].y, end, b_stride[2], layout_b, load_quad_b, load_pair_b, load_b)
      }
    }
    if (k > begin) {
      [[dont_unroll]] for (uint step = 0u; step < TILE_DEPTH; step += at_once) {
        uint at = half_size - fill + step * pitch;
        uint row_at = at + swizzle(row, step, a_groups);
        uint column_at = at + a_groups + swizzle(column, step, b_groups);
        [[unroll]] for (uint j = 0u; j < at_once; ++j) {
          vec4 x[row_groups], z[column_groups];
          [[unroll]] for (uint m = 0u; m < row_groups; ++m) {
            x[m] = tiles[row_at + j * pitch + m * (a_groups / row_groups)];
          }
          [[unroll]] for (uint n = 0u; n < column_groups; ++n) {
            z[n] = tiles[column_at + j * pitch + n * (b_groups / column_groups)];
          }
          [[unroll]] for (uint m = 0u; m < row_groups * 4u; ++m) {
            [[unroll]] for (uint n = 0u; n < column_groups; ++n) {
              sum[m][n] = fma(vec4(x[m / 4u][m % 4u]), z[n], sum[m][n]);
            }
          }
        }
      }
    }
    if (k < end) {
      [[unroll]] for (uint r = 0u; r < a_rounds; ++r) {
        if (k + TILE_DEPTH > end) {
          clear_beyond(a_unit[r], k + a_place[r].y, end, layout_a);
        }
        if (a_rounds * lanes == a_units || lane + r * lanes < a_units) {
          write_unit(fill + a_place[r].y * pitch + swizzle(a_place[r].x, a_place[r].y, a_groups), layout_a,
                     uintBitsToFloat(a_unit[r][0]), uintBitsToFloat(a_unit[r][1]));
        }
      }
      [[unroll]] for (uint r = 0u; r < b_rounds; ++r) {
        if (k + TILE_DEPTH > end) {
          clear_beyond(b_unit[r], k + b_place[r].y, end, layout_b);
        }
        if (b_rounds * lanes == b_units || lane + r * lanes < b_units) {
          write_unit(fill + b_place[r].y * pitch + a_groups + swizzle(b_place[r].x, b_place[r].y, b_groups), layout_b,
                     values_of_b(b_unit[r][0]), values_of_b(b_unit[r][1]));
        }
      }
    }
    barrier();
    fill = half_size - fill;
  }

  /* Row after row is moved to the front, so that the code which finishes a sum is there once. */
  [[dont_unroll]] for (uint m = 0u; m < row_groups * 4u; ++m) {
    uint to_row = first_row + (row + m / 4u * (a_groups / row_groups)) * 4u + m % 4u;
    [[unroll]] for (uint n = 0u; n < column_groups; ++n) {
      uint to_column = first_column + (column + n * (b_groups / column_groups)) * 4u;
      [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        if (to_row < rows && to_column + j < columns) {
          store(tile.z, to_row, to_column + j, sum[0][n][j]);
        }
      }
      [[unroll]] for (uint next = 1u; next < row_groups * 4u; ++next) {
        sum[next - 1u][n] = sum[next][n];
      }
    }
  }
}

#include "product_main.glsl"
