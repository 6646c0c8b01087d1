/* SPDX-License-Identifier: Apache-2.0
 *
 * When tokens are spoken: attention to the sound, filtered, and the path of dynamic time warping through it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "tessera/speech.h"

static const double position_time = 0.02; /* seconds */

/* Sizes: R rows, T columns that are used, W the width of the median. */
typedef struct aligner {
  int32_t rows;
  int32_t columns;
  int32_t width;
  double *sum;       /* [R, T] of the heads */
  double *mean;      /* [T] of a head's column */
  double *deviation; /* [T] likewise */
  float *padded;     /* [T + W - 1] a row, normalised */
  float *lanes;      /* [W, LANES] neighbours of columns */
  float *costs;      /* [2, T + 1] of the row before, and of this one */
  uint8_t *steps;    /* [R, T] of the path into each cell: STEP_* */
} aligner;

enum { LANES = 64 }; /* columns whose medians are found together */
enum { STEP_BOTH = 0, STEP_ROW = 1, STEP_COLUMN = 2 };

static void finish(aligner *a)
{
  free(a->sum);
  free(a->mean);
  free(a->deviation);
  free(a->padded);
  free(a->lanes);
  free(a->costs);
  free(a->steps);
}

static tsr_status begin(aligner *a)
{
  const size_t columns = (size_t)a->columns;
  const size_t cells = (size_t)a->rows * columns;
  a->sum = calloc(cells, sizeof *a->sum);
  a->mean = malloc(columns * sizeof *a->mean);
  a->deviation = malloc(columns * sizeof *a->deviation);
  a->padded = malloc((columns + (size_t)a->width) * sizeof *a->padded);
  a->lanes = calloc((size_t)a->width * LANES, sizeof *a->lanes);
  a->costs = malloc(2 * (columns + 1) * sizeof *a->costs);
  a->steps = malloc(cells * sizeof *a->steps);
  const int has_all = a->sum && a->mean && a->deviation && a->padded && a->lanes && a->costs && a->steps;
  return has_all ? TSR_OK : tsr_fail_memory(cells * (sizeof *a->sum + sizeof *a->steps));
}

/* ------------------------------------------------------------------------------------------------------------------
 * Attention
 */

/* Mean and population standard deviation of each column of a head's weights, whose rows are `stride` apart. */
static void measure_columns(aligner *a, const float *weights, size_t stride)
{
  memset(a->mean, 0, (size_t)a->columns * sizeof *a->mean);
  memset(a->deviation, 0, (size_t)a->columns * sizeof *a->deviation);
  for (int32_t r = 0; r < a->rows; r++) {
    for (int32_t t = 0; t < a->columns; t++) {
      a->mean[t] += (double)weights[(size_t)r * stride + (size_t)t];
    }
  }
  for (int32_t t = 0; t < a->columns; t++) {
    a->mean[t] /= a->rows;
  }
  for (int32_t r = 0; r < a->rows; r++) {
    for (int32_t t = 0; t < a->columns; t++) {
      const double difference = (double)weights[(size_t)r * stride + (size_t)t] - a->mean[t];
      a->deviation[t] += difference * difference;
    }
  }
  for (int32_t t = 0; t < a->columns; t++) {
    a->deviation[t] = sqrt(a->deviation[t] / a->rows);
  }
}

/* The row normalised, with W / 2 columns before and behind it that reflect its ends. */
static void normalise_row(aligner *a, const float *weights)
{
  const int32_t half = a->width / 2;
  float *row = a->padded + half;
  for (int32_t t = 0; t < a->columns; t++) {
    const double difference = (double)weights[t] - a->mean[t];
    row[t] = isnormal(a->deviation[t]) ? (float)(difference / a->deviation[t]) : 0.0f;
  }
  for (int32_t i = 1; i <= half; i++) {
    row[-i] = row[i];
    row[a->columns - 1 + i] = row[a->columns - 1 - i];
  }
}

/* Puts the smaller of each two values into `low`. */
static void order(float *restrict low, float *restrict high)
{
  for (int32_t i = 0; i < LANES; i++) {
    const float x = low[i];
    const float y = high[i];
    const float smaller = x < y ? x : y;
    const float larger = x < y ? y : x;
    low[i] = smaller;
    high[i] = larger;
  }
}

/* Adds the row, filtered by the median, to `sum` [T]. The neighbourhoods of LANES columns are sorted together, as far
 * as their middles: each round moves the largest value that is left to the end. */
static void add_median(aligner *a, double *sum)
{
  const int32_t half = a->width / 2;
  for (int32_t begin = 0; begin < a->columns; begin += LANES) {
    const int32_t n = a->columns - begin < LANES ? a->columns - begin : LANES;
    for (int32_t i = 0; i < a->width; i++) {
      memcpy(a->lanes + (size_t)i * LANES, a->padded + begin + i, (size_t)n * sizeof *a->lanes);
    }
    for (int32_t last = a->width - 1; last >= half; last--) {
      for (int32_t i = 0; i < last; i++) {
        order(a->lanes + (size_t)i * LANES, a->lanes + (size_t)(i + 1) * LANES);
      }
    }
    for (int32_t i = 0; i < n; i++) {
      sum[begin + i] += (double)a->lanes[(size_t)half * LANES + (size_t)i];
    }
  }
}

static void add_head(aligner *a, const float *weights, size_t stride)
{
  measure_columns(a, weights, stride);
  for (int32_t r = 0; r < a->rows; r++) {
    normalise_row(a, weights + (size_t)r * stride);
    add_median(a, a->sum + (size_t)r * (size_t)a->columns);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Path
 */

/* Finds the cheapest path into each cell; a cell costs the negative mean of the heads. Costs are rounded to f32, which
 * decides between paths that are nearly equal. */
static void warp(aligner *a, int32_t heads)
{
  const size_t columns = (size_t)a->columns;
  float *before = a->costs;
  float *costs = a->costs + columns + 1;
  for (size_t t = 0; t <= columns; t++) {
    before[t] = t == 0 ? 0.0f : INFINITY;
  }
  for (int32_t r = 0; r < a->rows; r++) {
    const double *sum = a->sum + (size_t)r * columns;
    uint8_t *steps = a->steps + (size_t)r * columns;
    costs[0] = INFINITY;
    for (size_t t = 0; t < columns; t++) {
      const float both = before[t];
      const float row = before[t + 1];
      const float column = costs[t];
      const int is_both = both < row && both < column;
      const int is_row = !is_both && row < both && row < column;
      steps[t] = (uint8_t)(is_both ? STEP_BOTH : is_row ? STEP_ROW : STEP_COLUMN);
      costs[t + 1] = (float)((double)(is_both ? both : is_row ? row : column) - sum[t] / heads);
    }
    float *other = before;
    before = costs;
    costs = other;
  }
}

/* Follows the path back from the last cell; a row's time is that of the column where the path enters it. */
static void follow(const aligner *a, double *times)
{
  int32_t r = a->rows - 1;
  int32_t t = a->columns - 1;
  times[0] = 0.0;
  while (r >= 0 && t >= 0) {
    times[r + 1] = t * position_time;
    const uint8_t step = a->steps[(size_t)r * (size_t)a->columns + (size_t)t];
    r -= step != STEP_COLUMN;
    t -= step != STEP_ROW;
  }
}

tsr_status tsr_speech_token_times(const float *weights, int32_t heads, int32_t rows, int32_t frames, int32_t used,
                                  int32_t median_width, double *times)
{
  if (!weights || !times || heads < 1 || rows < 1 || used < 1 || used > frames || median_width < 1 ||
      median_width % 2 == 0) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "tsr_speech_token_times: %d heads, %d rows, %d of %d frames, a median of %d: expected at least one of "
        "each, and an odd median",
        (int)heads, (int)rows, (int)used, (int)frames, (int)median_width);
  }
  /* A median that is too wide is none. */
  const int32_t width = median_width / 2 < used ? median_width : 1;
  aligner a = {.rows = rows, .columns = used, .width = width};
  tsr_status status = begin(&a);
  if (status == TSR_OK) {
    for (int32_t h = 0; h < heads; h++) {
      add_head(&a, weights + (size_t)h * (size_t)rows * (size_t)frames, (size_t)frames);
    }
    warp(&a, heads);
    follow(&a, times);
  }
  finish(&a);
  return status;
}
