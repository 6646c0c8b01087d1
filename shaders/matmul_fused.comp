#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * A product with few rows, and what stands around it in a decoding step, so that one dispatch does the work of five:
 *
 *     n = norm(x + addend)                 norm.comp; the norm and the addend may be absent
 *     y = activation(alpha n weight + bias)
 *     keys[row, position] = y[row, keys_from ..], values likewise: scatter.comp
 *
 * A workgroup has `tile_rows` rows and a few columns. It makes its rows of n in shared memory, every workgroup anew:
 * all its invocations bring what a row consists of, and an eighth of them adds up one row, so that a row's sums do not
 * depend on how many there are. Then `depth_lanes` invocations make the results of `loads` columns, each from every
 * depth_lanes-th group of 16 bytes of a column, and add up their sums: with SUBGROUPS, where these are a subgroup, by
 * its operations; else in shared memory.
 *
 * With QUANTISED the weights are of i8, or of four bits: a workgroup quantises its rows of n (lib/quantised.glsl), or
 * of x where there is no norm, and the sums are whole numbers; of four bits those of a load are, which has a scale. A
 * residual may be added to y then.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "operand.glsl"
#include "number.glsl"
#include "activation.glsl"
#include "format.glsl"
#include "contract/matmul_fused.h"
#ifdef QUANTISED
#include "quantised.glsl"
#endif

IN4(0, x)
IN4(1, weight)
IN(2, bias)
OUT(3, y)
IN4(4, addend)
IN4(5, gain)
IN4(6, norm_bias)
OUT4(7, sum)
#ifdef QUANTISED /* one of the two at most is kept */
OUT4(7, normed)
IN(8, scales)
IN(4, residual)
#else
OUT4(8, normed)
#endif
OUT(9, keys)
OUT(10, values)
IN(11, position)

#ifdef QUANTISED
#define SUM int
const bool four_bits = weight_type == TYPE_I4; /* totals are then the bits of f32 */
const uint width = four_bits ? 32u : 16u;
const uint width_groups = width / QUANTISED_GROUP;
const uint row_groups = quads / 4u;
#else
#define SUM float
const uint width = weight_type == TYPE_F32 ? 4u : 8u; /* elements of a load of weights */
#endif
const uint width_quads = width / 4u;
const uint loads_of_column = quads / width_quads;
const uint groups_of_lanes = size / depth_lanes;
const uint tile_columns = groups_of_lanes * loads;
const uint row_lanes = size / FUSED_MAX_ROWS; /* that add up a row of n */

#ifdef QUANTISED
const uint quantising_lanes = size / tile_rows; /* of a row */
shared vec4 n_rows[(parts & FUSED_NORM) != 0u ? tile_rows * quads : 1u];
shared uvec4 quantised[tile_rows * row_groups];
shared float unit[tile_rows];
shared uint lane_largest[size];
#else
shared vec4 n_rows[tile_rows * quads];
#endif
shared float lane_sum[size];
shared vec2 row_norm[FUSED_MAX_ROWS]; /* what is taken from a row's elements, and what they are multiplied by */
shared SUM found[tile_rows * tile_columns];
#ifndef SUBGROUPS
shared SUM partial[loads * size];
#endif

float sum_of(vec4 z)
{
  return z.x + z.y + z.z + z.w;
}

/* The sum of what the invocations of a row bring, for each of them. */
float row_sum(float mine)
{
  uint lane = gl_LocalInvocationID.x, at = lane % row_lanes;
  barrier();
  lane_sum[lane] = mine;
  [[dont_unroll]] for (uint half_size = row_lanes >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    if (at < half_size) {
      lane_sum[lane] += lane_sum[lane + half_size];
    }
  }
  barrier();
  return lane_sum[lane - at];
}

/* Four neighbours of x, or of x + addend. */
vec4 load_x(uint row, uint i)
{
  vec4 z = FLOAT4(x, x_offset + row * quads + i);
  if ((parts & FUSED_ADDEND) != 0u) {
    vec4 added = FLOAT4(addend, addend_offset + row * addend_stride + i);
    for (uint p = 1u; p < addend_parts; ++p) {
      added += FLOAT4(addend, addend_offset + row * addend_stride + p * part_stride + i);
    }
    z += added;
  }
  return z;
}

/* The same of the norm's gain and bias; zeros where there are none. */
void load_gain(uint i, out vec4 by, out vec4 plus)
{
  by = (parts & FUSED_NORM) != 0u ? FLOAT4(gain, gain_offset + i) : vec4(0.0);
  plus = (parts & FUSED_NORM_BIAS) != 0u ? FLOAT4(norm_bias, norm_bias_offset + i) : vec4(0.0);
}

/* The rows of n from first_row on. keeps: writes those that are needed later. */
void make_rows(uint first_row, bool keeps)
{
  const uint lane = gl_LocalInvocationID.x;
  /* Of the first elements gain and bias are on their way at once, too. */
  vec4 by, plus;
  load_gain(lane % quads, by, plus);
  for (uint i = lane; i < tile_rows * quads; i += size) {
    uint m = i / quads, at = i % quads;
    vec4 z = load_x(min(first_row + m, rows - 1u), at);
    if ((parts & FUSED_KEEPS_SUM) != 0u && keeps && first_row + m < rows) {
      SET_QUAD(sum, (first_row + m) * quads + at, floatBitsToUint(z));
    }
    n_rows[i] = z;
  }
  if ((parts & FUSED_NORM) == 0u) {
    return;
  }
  barrier();

  const uint mine = lane / row_lanes, own = lane % row_lanes, from = mine * quads;
  const bool takes_part = mine < tile_rows;
  const float length = float(4u * quads);
  float total = 0.0;
  for (uint i = own; takes_part && i < quads; i += row_lanes) {
    total += sum_of(n_rows[from + i]);
  }
  float mean = norm_kind == NORM_PLAIN ? 0.0 : row_sum(total) / length;
  float squares = 0.0;
  for (uint i = own; takes_part && i < quads; i += row_lanes) {
    vec4 z = n_rows[from + i] - mean;
    squares += sum_of(z * z);
  }
  total = row_sum(squares);
  float epsilon = uintBitsToFloat(epsilon_bits);
  float scale = norm_kind == NORM_UNBIASED ? 1.0 / (sqrt(total / max(length - 1.0, 1.0)) + epsilon)
                                           : 1.0 / sqrt(total / length + epsilon);
  if (own == 0u) {
    row_norm[mine] = vec2(mean, scale);
  }
  barrier();

  for (uint i = lane; i < tile_rows * quads; i += size) {
    uint m = i / quads, at = i % quads;
    if (i != lane) {
      load_gain(at, by, plus);
    }
    vec4 z = by * ((n_rows[i] - row_norm[m].x) * row_norm[m].y);
    if ((parts & FUSED_NORM_BIAS) != 0u) {
      z += plus;
    }
    n_rows[i] = z;
    if ((parts & FUSED_KEEPS_NORM) != 0u && keeps && first_row + m < rows) {
      SET_QUAD(normed, (first_row + m) * quads + at, floatBitsToUint(z));
    }
  }
}

#ifdef QUANTISED
/* Four neighbours of what is multiplied: of n, which all invocations made, or of x. */
vec4 load_row(uint first_row, uint m, uint i)
{
  return (parts & FUSED_NORM) != 0u ? n_rows[m * quads + i]
                                    : FLOAT4(x, x_offset + min(first_row + m, rows - 1u) * quads + i);
}

/* Of all rows from first_row on; a largest magnitude and rounding do not depend on how many invocations there are. */
void quantise_rows(uint first_row)
{
  uint lane = gl_LocalInvocationID.x, m = lane / quantising_lanes, at = lane % quantising_lanes;
  uint largest = 0u;
  for (uint i = at; i < quads; i += quantising_lanes) {
    largest = max(largest, largest_magnitude(load_row(first_row, m, i)));
  }
  lane_largest[lane] = largest;
  [[dont_unroll]] for (uint half_size = quantising_lanes >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    if (at < half_size) {
      lane_largest[lane] = max(lane_largest[lane], lane_largest[lane + half_size]);
    }
  }
  barrier();
  largest = lane_largest[lane - at];
  float factor = units_of_one(largest);
  for (uint i = at; i < row_groups; i += quantising_lanes) {
    uvec4 words;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      words[j] = quantised_word(load_row(first_row, m, 4u * i + j), factor);
    }
    quantised[m * row_groups + i] = words;
  }
  if (at == 0u) {
    unit[m] = uintBitsToFloat(bits_of_unit(largest));
  }
}

/* What the sum over load i of column n is multiplied by, where weights have four bits */
float factor_of(uint n, uint i)
{
  uint at = scales_offset + min(n, columns - 1u) * scales_stride + i * scales_group_stride;
  return group_factor(WORD(scales, at >> 1), at & 1u);
}

SUM added(SUM total, SUM other)
{
  return four_bits ? floatBitsToInt(intBitsToFloat(total) + intBitsToFloat(other)) : total + other;
}
#else
SUM added(SUM total, SUM other)
{
  return total + other;
}

/* What a load of weights brings, as numbers: element e is [e / 4][e % 4]. */
void values_of(uvec4 words, out vec4 z[width_quads])
{
  if (weight_type == TYPE_F32) {
    z[0] = uintBitsToFloat(words);
    return;
  }
  [[unroll]] for (uint i = 0u; i < width_quads; ++i) {
    uvec2 pair = i == 0u ? words.xy : words.zw;
    z[i] = weight_type == TYPE_F16
               ? vec4(unpackHalf2x16(pair.x), unpackHalf2x16(pair.y))
               : uintBitsToFloat(uvec4(pair.x << 16, pair.x & 0xffff0000u, pair.y << 16, pair.y & 0xffff0000u));
  }
}

#endif

float finish(uint row, uint n, float total)
{
  float z = alpha * total;
#ifdef QUANTISED
  if ((parts & FUSED_BIAS) != 0u) {
    z += FLOAT(bias, bias_offset + row * bias_row_stride + n * bias_stride);
  }
  z = activate(parts & FUSED_ACTIVATION, z);
  return (parts & FUSED_RESIDUAL) != 0u ? z + FLOAT(residual, residual_offset + row * columns + n) : z;
#else
  if ((parts & FUSED_BIAS) != 0u) {
    z += FLOAT(bias, bias_offset + n * bias_stride);
  }
  return activate(parts & FUSED_ACTIVATION, z);
#endif
}

uint cache_bits(float z)
{
  return cache_type == TYPE_F16 ? bits_to_half(floatBitsToUint(z)) : bits_to_bfloat(floatBitsToUint(z));
}

/* Columns n and n + 1 of a row, n even; the second where has_next. */
void store(uint row, uint n, vec2 total, bool has_next)
{
  vec2 z = vec2(finish(row, n, total.x), has_next ? finish(row, n + 1u, total.y) : 0.0);
  uint at = row * columns + n;
  WORD(y, at) = floatBitsToUint(z.x);
  if (has_next) {
    WORD(y, at + 1u) = floatBitsToUint(z.y);
  }
  if (cache_columns == 0u) {
    return;
  }
  uint from_keys = n - keys_from, from_values = n - values_from; /* large where n lies before */
  uint place = WORD(position, position_offset + row * position_stride);
  if ((from_keys >= cache_columns && from_values >= cache_columns) || place >= cache_positions) {
    return;
  }
  uint cache_at = row * cache_row_stride + place * cache_stride;
  if (cache_type == TYPE_F32) {
    if (from_keys < cache_columns) {
      WORD(keys, keys_offset + cache_at + from_keys) = floatBitsToUint(z.x);
      WORD(keys, keys_offset + cache_at + from_keys + 1u) = floatBitsToUint(z.y);
    } else {
      WORD(values, values_offset + cache_at + from_values) = floatBitsToUint(z.x);
      WORD(values, values_offset + cache_at + from_values + 1u) = floatBitsToUint(z.y);
    }
    return;
  }
  uint word = cache_bits(z.x) | cache_bits(z.y) << 16;
  if (from_keys < cache_columns) {
    WORD(keys, (keys_offset + cache_at + from_keys) >> 1) = word;
  } else {
    WORD(values, (values_offset + cache_at + from_values) >> 1) = word;
  }
}

void main()
{
  uint group = group_index();
  if (group >= groups) {
    return;
  }
#ifdef SUBGROUPS
  uint lane = gl_SubgroupInvocationID, part = gl_SubgroupID;
#else
  uint lane = gl_LocalInvocationID.x % depth_lanes, part = gl_LocalInvocationID.x / depth_lanes;
#endif
  uint column_tile = group / row_tiles;
  uint first_row = (group - column_tile * row_tiles) * tile_rows;
  uint first_column = column_tile * tile_columns;

  uint from[loads];
  [[unroll]] for (uint c = 0u; c < loads; ++c) {
    from[c] = weight_offset + min(first_column + part * loads + c, columns - 1u) * weight_stride;
  }
  /* The first weights are on their way while the rows are made. */
  uvec4 words[steps][loads];
#ifdef QUANTISED
  float factors[steps][loads];
#endif
  [[unroll]] for (uint s = 0u; s < steps; ++s) {
    [[unroll]] for (uint c = 0u; c < loads; ++c) {
      uint at = min(lane + s * depth_lanes, loads_of_column - 1u);
      words[s][c] = QUAD(weight, from[c] + at);
#ifdef QUANTISED
      factors[s][c] = four_bits ? factor_of(first_column + part * loads + c, at) : 1.0;
#endif
    }
  }
#ifdef QUANTISED
  if ((parts & FUSED_NORM) != 0u) {
    make_rows(first_row, column_tile == 0u);
    barrier();
  }
  quantise_rows(first_row);
#else
  make_rows(first_row, column_tile == 0u);
#endif
  barrier();

  SUM total[tile_rows][loads];
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    [[unroll]] for (uint c = 0u; c < loads; ++c) {
      total[m][c] = SUM(0);
    }
  }
  [[dont_unroll]] for (uint k = lane; k < loads_of_column;) {
    [[unroll]] for (uint s = 0u; s < steps; ++s) {
      uint at = k + s * depth_lanes;
      if (at < loads_of_column) {
        [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
#ifdef QUANTISED
          int whole[loads];
          [[unroll]] for (uint c = 0u; c < loads; ++c) {
            whole[c] = four_bits ? 0 : total[m][c];
          }
          [[unroll]] for (uint group = 0u; group < width_groups; ++group) {
            uvec4 n = quantised[m * row_groups + at * width_groups + group];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
              [[unroll]] for (uint c = 0u; c < loads; ++c) {
                uint word = four_bits ? weight_bytes(words[s][c][group * 2u + j / 2u], j % 2u == 1u) : words[s][c][j];
                whole[c] += dot_bytes(n[j], word);
              }
            }
          }
          [[unroll]] for (uint c = 0u; c < loads; ++c) {
            total[m][c] = four_bits ? floatBitsToInt(fma(float(whole[c]), factors[s][c], intBitsToFloat(total[m][c])))
                                    : whole[c];
          }
#else
          vec4 n[width_quads];
          [[unroll]] for (uint i = 0u; i < width_quads; ++i) {
            n[i] = n_rows[m * quads + at * width_quads + i];
          }
          [[unroll]] for (uint c = 0u; c < loads; ++c) {
            vec4 z[width_quads];
            values_of(words[s][c], z);
            [[unroll]] for (uint e = 0u; e < width; ++e) {
              total[m][c] = fma(n[e / 4u][e % 4u], z[e / 4u][e % 4u], total[m][c]);
            }
          }
#endif
        }
      }
    }
    k += steps * depth_lanes;
    if (k < loads_of_column) {
      [[unroll]] for (uint s = 0u; s < steps; ++s) {
        [[unroll]] for (uint c = 0u; c < loads; ++c) {
          uint at = min(k + s * depth_lanes, loads_of_column - 1u);
          words[s][c] = QUAD(weight, from[c] + at);
#ifdef QUANTISED
          factors[s][c] = four_bits ? factor_of(first_column + part * loads + c, at) : 1.0;
#endif
        }
      }
    }
  }

#ifdef SUBGROUPS
  [[unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    [[unroll]] for (uint c = 0u; c < loads; ++c) {
#ifdef QUANTISED
      SUM all = four_bits ? floatBitsToInt(subgroupAdd(intBitsToFloat(total[m][c]))) : subgroupAdd(total[m][c]);
#else
      SUM all = subgroupAdd(total[m][c]);
#endif
      if (lane == 0u) {
        found[m * tile_columns + part * loads + c] = all;
      }
    }
  }
#else
  /* Row after row is moved to the front. */
  [[dont_unroll]] for (uint m = 0u; m < tile_rows; ++m) {
    [[unroll]] for (uint c = 0u; c < loads; ++c) {
      partial[c * size + gl_LocalInvocationID.x] = total[0][c];
    }
    [[dont_unroll]] for (uint half_size = depth_lanes >> 1; half_size > 0u; half_size >>= 1) {
      barrier();
      if (lane < half_size) {
        [[unroll]] for (uint c = 0u; c < loads; ++c) {
          uint at = c * size + gl_LocalInvocationID.x;
          partial[at] = added(partial[at], partial[at + half_size]);
        }
      }
    }
    barrier();
    if (lane == 0u) {
      [[unroll]] for (uint c = 0u; c < loads; ++c) {
        found[m * tile_columns + part * loads + c] = partial[c * size + gl_LocalInvocationID.x];
      }
    }
    barrier();
    [[unroll]] for (uint next = 1u; next < tile_rows; ++next) {
      [[unroll]] for (uint c = 0u; c < loads; ++c) {
        total[next - 1u][c] = total[next][c];
      }
    }
  }
#endif
  barrier();
  for (uint i = 2u * gl_LocalInvocationID.x; i < tile_rows * tile_columns; i += 2u * size) {
    uint m = i / tile_columns, n = first_column + i % tile_columns;
    if (first_row + m < rows && n < columns) {
      vec2 both = vec2(found[i], found[i + 1u]);
#ifdef QUANTISED
      if (four_bits) {
        both = unit[m] * vec2(intBitsToFloat(found[i]), intBitsToFloat(found[i + 1u]));
      } else {
        both.x *= unit[m] * FLOAT(scales, scales_offset + n * scales_stride);
        both.y *= unit[m] * FLOAT(scales, scales_offset + min(n + 1u, columns - 1u) * scales_stride);
      }
#endif
      store(first_row + m, n, both, n + 1u < columns);
    }
  }
}
