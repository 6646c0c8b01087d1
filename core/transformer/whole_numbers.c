/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as whole numbers: in one byte, -127 .. 127 of a scale for each row; in four bits, where 32 neighbours of a
 * row share a scale, -8 .. 7 of it.
 */
#include <math.h>
#include <string.h>

#include "core/transformer/model.h"

enum { GROUP = TSR_I4_GROUP, BYTES = TSR_I4_BYTES };

/* ---- one byte ---------------------------------------------------------------------------------------------------- */

void tsr_eight_bits(const float *values, int64_t rows, int64_t columns, int8_t *bytes, float *scales)
{
  for (int64_t r = 0; r < rows; r++) {
    const float *row = values + r * columns;
    float largest = 0.0f;
    int finite = 1;
    for (int64_t i = 0; i < columns; i++) {
      largest = fmaxf(largest, fabsf(row[i]));
      finite = finite && isfinite(row[i]);
    }
    float scale = largest / 127.0f;
    int counts = finite && isnormal(scale);
    scales[r] = !finite ? NAN : counts ? scale : 0.0f;
    for (int64_t i = 0; i < columns; i++) {
      bytes[r * columns + i] = counts ? (int8_t)fminf(fmaxf(nearbyintf(row[i] / scale), -127.0f), 127.0f) : 0;
    }
  }
}

/* ---- four bits --------------------------------------------------------------------------------------------------- */

/* Of 32 weights at `scale`: the whole numbers, and the sum of the squared errors. */
static float round_group(const float *w, float scale, float *whole)
{
  const float inverse = 1.0f / scale, magic = 0x1.8p23f; /* adding it pushes the fraction out, ties to even */
  float part[8] = {0};
  for (int i = 0; i < GROUP; i++) {
    const float near = w[i] * inverse;
    const float bounded = near < -8.0f ? -8.0f : near > 7.0f ? 7.0f : near;
    whole[i] = (bounded + magic) - magic;
    const float error = w[i] - whole[i] * scale;
    part[i % 8] += error * error;
  }
  return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

/* The largest magnitude, with its sign; NaN if a weight is NaN or infinite. */
static float extreme_of(const float *w)
{
  float extreme = 0.0f;
  for (int i = 0; i < GROUP; i++) {
    if (!isfinite(w[i])) {
      return NAN;
    }
    extreme = fabsf(w[i]) > fabsf(extreme) ? w[i] : extreme;
  }
  return extreme;
}

/* The weight of the largest magnitude becomes -8, a little less, or 7, whichever leaves the least error: a scale that
 * cuts it off serves the others better. */
static uint16_t quantise_group(const float *w, float *whole)
{
  static const float ends[] = {-8.0f, -8.8f, -7.4f, -6.8f, 7.0f, 7.6f};
  const float extreme = extreme_of(w);
  uint16_t best = 0;
  float least = INFINITY;
  memset(whole, 0, GROUP * sizeof *whole);
  if (isnan(extreme)) {
    return tsr_f32_to_f16(NAN);
  }
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    float some[GROUP];
    const float wanted = extreme / ends[i];
    const uint16_t bits = tsr_f32_to_f16(fminf(fmaxf(wanted, -65504.0f), 65504.0f));
    const float scale = tsr_f16_to_f32(bits);
    if (!isnormal(scale)) {
      continue; /* too small to count */
    }
    const float error = round_group(w, scale, some);
    if (error < least) {
      least = error;
      best = bits;
      memcpy(whole, some, sizeof some);
    }
  }
  return best;
}

void tsr_four_bits(const float *values, int64_t rows, int64_t columns, uint8_t *bytes, uint16_t *scales)
{
  const int64_t groups = (columns + GROUP - 1) / GROUP;
  for (int64_t group = 0; group < rows * groups; group++) {
    const int64_t row = group / groups, first = group % groups * GROUP;
    const int64_t n = columns - first < GROUP ? columns - first : GROUP;
    float w[GROUP] = {0}, whole[GROUP];
    memcpy(w, values + row * columns + first, (size_t)n * sizeof *w);
    scales[group] = quantise_group(w, whole);
    for (int64_t j = 0; j < BYTES; j++) {
      const float *pair = whole + j / 4 * 8 + j % 4;
      bytes[group * BYTES + j] = (uint8_t)((int)pair[0] + 8 + 16 * ((int)pair[4] + 8));
    }
  }
}

int32_t tsr_four_bits_at(const uint8_t *row, int64_t column)
{
  const int64_t place = column % 8;
  const uint8_t pair = row[column / 8 * 4 + place % 4];
  return (int32_t)(place < 4 ? pair & 15 : pair >> 4) - 8;
}
