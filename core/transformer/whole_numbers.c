/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as whole numbers: in one byte, -127 .. 127 of a scale for each row; in four bits, where 32 neighbours of a
 * row share a scale, -8 .. 7 of it.
 */
#include <math.h>
#include <string.h>

#include "core/transformer/model.h"

enum { GROUP = TSR_I4_GROUP, BYTES = TSR_I4_BYTES, FOURS = GROUP / 4 };

/* Four neighbours. */
typedef float four __attribute__((vector_size(16)));
typedef int32_t four_i32 __attribute__((vector_size(16)));

static inline four load_four(const float *from)
{
  four x;
  memcpy(&x, from, sizeof x);
  return x;
}

static inline four where(four_i32 mask, four x, four otherwise)
{
  return (four)((mask & (four_i32)x) | (~mask & (four_i32)otherwise));
}

/* x, of low .. high, to the nearest whole number, ties to even. */
static inline four round_within(four x, float low, float high)
{
  const four from = {low, low, low, low}, to = {high, high, high, high};
  const float magic = 0x1.8p23f; /* adding it pushes the fraction out */
  x = where(x < from, from, x);
  x = where(x > to, to, x);
  return (x + magic) - magic;
}

/* The bits of the largest magnitude; those of infinities and NaN are the largest. */
static int32_t largest_magnitude(const float *values, int64_t n)
{
  int32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

static float number_of(int32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* ---- one byte ---------------------------------------------------------------------------------------------------- */

static void round_row(const float *row, int64_t columns, float scale, int8_t *bytes)
{
  for (int64_t i = 0; i < columns; i += 4) {
    const int64_t n = columns - i < 4 ? columns - i : 4;
    four x = {0};
    memcpy(&x, row + i, (size_t)n * sizeof *row);
    x = round_within(x / scale, -127.0f, 127.0f);
    for (int64_t j = 0; j < n; j++) {
      bytes[i + j] = (int8_t)x[j];
    }
  }
}

void tsr_eight_bits(const float *values, int64_t rows, int64_t columns, int8_t *bytes, float *scales)
{
  for (int64_t r = 0; r < rows; r++) {
    const float largest = number_of(largest_magnitude(values + r * columns, columns)), scale = largest / 127.0f;
    if (isfinite(largest) && isnormal(scale)) {
      scales[r] = scale;
      round_row(values + r * columns, columns, scale, bytes + r * columns);
    } else {
      scales[r] = isfinite(largest) ? 0.0f : NAN;
      memset(bytes + r * columns, 0, (size_t)columns);
    }
  }
}

/* ---- four bits --------------------------------------------------------------------------------------------------- */

static float sum_of(four x)
{
  return (x[0] + x[1]) + (x[2] + x[3]);
}

/* Of 32 weights at `scale`: the whole numbers, and the sum of the squared errors. */
static float round_group(const float *w, float scale, float *whole)
{
  const float inverse = 1.0f / scale;
  four sum[2] = {{0}};
  for (int i = 0; i < FOURS; i++) {
    const four x = load_four(w + i * 4), near = round_within(x * inverse, -8.0f, 7.0f), error = x - near * scale;
    sum[i % 2] += error * error;
    memcpy(whole + i * 4, &near, sizeof near);
  }
  return sum_of(sum[0] + sum[1]);
}

/* The largest magnitude, with its sign; NaN if a weight is NaN or infinite. */
static float extreme_of(const float *w)
{
  const float largest = number_of(largest_magnitude(w, GROUP));
  for (int i = 0; i < GROUP && isfinite(largest); i++) {
    if (fabsf(w[i]) == largest) {
      return w[i];
    }
  }
  return NAN;
}

/* The weight of the largest magnitude becomes -8, a little less, or 7, whichever leaves the least error: a scale that
 * cuts it off serves the others better. */
static uint16_t scale_of(const float *w)
{
  static const float ends[] = {-8.0f, -8.8f, -7.4f, -6.8f, 7.0f, 7.6f};
  const float extreme = extreme_of(w);
  uint16_t best = 0;
  float least = INFINITY;
  if (isnan(extreme)) {
    return tsr_f32_to_f16(NAN);
  }
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    float whole[GROUP];
    const float wanted = extreme / ends[i];
    const uint16_t bits = tsr_f32_to_f16(fminf(fmaxf(wanted, -65504.0f), 65504.0f));
    const float scale = tsr_f16_to_f32(bits);
    if (!isnormal(scale)) {
      continue; /* too small to count */
    }
    const float error = round_group(w, scale, whole);
    if (error < least) {
      least = error;
      best = bits;
    }
  }
  return best;
}

/* The group of a row that begins with column `first`, with zeros where it is not whole. */
static void load_group(const float *row, int64_t columns, int64_t first, float w[GROUP])
{
  const int64_t n = columns - first < GROUP ? columns - first : GROUP;
  memset(w, 0, GROUP * sizeof *w);
  memcpy(w, row + first, (size_t)n * sizeof *w);
}

static void store_group(const float whole[GROUP], uint8_t *bytes)
{
  for (int64_t j = 0; j < BYTES; j++) {
    const float *pair = whole + j / 4 * 8 + j % 4;
    bytes[j] = (uint8_t)((int)pair[0] + 8 + 16 * ((int)pair[4] + 8));
  }
}

/* Rounds the group of a row that begins with column `first`, weight after weight, and hands on what each leaves to
 * those behind it in its block (Frantar et al. 2022, arXiv:2210.17323). */
static void hand_on(float *row, int64_t columns, int64_t first, float scale, const tsr_factors *factors,
                    float whole[GROUP])
{
  enum { WIDTH = TSR_FACTORS_WIDTH };
  const int64_t begin = first / WIDTH * WIDTH, n = columns - begin < WIDTH ? columns - begin : WIDTH;
  const float *block = factors->blocks + begin * WIDTH;
  float *w = row + begin;
  for (int64_t k = first - begin; k < n && k < first - begin + GROUP; k++) {
    const float *factor = block + k * WIDTH;
    const float near = isnormal(scale) ? fminf(fmaxf(rintf(w[k] / scale), -8.0f), 7.0f) : 0.0f;
    const float error = w[k] - near * scale;
    whole[k - (first - begin)] = near;
    for (int64_t j = k + 1; j < n; j++) {
      w[j] -= error * factor[j];
    }
  }
}

/* A row that may be changed; of one with NaN, which its groups have for a scale, the copy is not used. */
static void round_changing_row(const float *values, int64_t columns, const tsr_factors *factors, float *row,
                               uint16_t *chosen, const uint16_t *given, uint8_t *bytes)
{
  memcpy(row, values, (size_t)columns * sizeof *row);
  for (int64_t group = 0; group * GROUP < columns; group++) {
    float w[GROUP], whole[GROUP] = {0};
    load_group(row, columns, group * GROUP, w);
    const uint16_t bits = given ? given[group] : scale_of(w);
    hand_on(row, columns, group * GROUP, tsr_f16_to_f32(bits), factors, whole);
    if (chosen) {
      chosen[group] = bits;
    } else {
      store_group(whole, bytes + group * BYTES);
    }
  }
}

void tsr_four_bits_scales(const float *values, int64_t rows, int64_t columns, const tsr_factors *factors, float *room,
                          uint16_t *scales)
{
  const int64_t groups = (columns + GROUP - 1) / GROUP;
  for (int64_t r = 0; r < rows; r++, values += columns, scales += groups) {
    if (factors && factors->blocks) {
      round_changing_row(values, columns, factors, room, scales, NULL, NULL);
      continue;
    }
    for (int64_t group = 0; group < groups; group++) {
      float w[GROUP];
      load_group(values, columns, group * GROUP, w);
      scales[group] = scale_of(w);
    }
  }
}

void tsr_four_bits(const float *values, int64_t rows, int64_t columns, const tsr_factors *factors, float *room,
                   const uint16_t *scales, uint8_t *bytes)
{
  const int64_t groups = (columns + GROUP - 1) / GROUP;
  for (int64_t r = 0; r < rows; r++, values += columns, scales += groups, bytes += groups * BYTES) {
    if (factors && factors->blocks) {
      round_changing_row(values, columns, factors, room, NULL, scales, bytes);
      continue;
    }
    for (int64_t group = 0; group < groups; group++) {
      float w[GROUP], whole[GROUP] = {0};
      const float scale = tsr_f16_to_f32(scales[group]);
      load_group(values, columns, group * GROUP, w);
      if (isnormal(scale)) {
        round_group(w, scale, whole);
      }
      store_group(whole, bytes + group * BYTES);
    }
  }
}

int32_t tsr_four_bits_at(const uint8_t *row, int64_t column)
{
  const int64_t place = column % 8;
  const uint8_t pair = row[column / 8 * 4 + place % 4];
  return (int32_t)(place < 4 ? pair & 15 : pair >> 4) - 8;
}
