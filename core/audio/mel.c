/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audio/mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

/* The transform of a real frame of N samples, for N / 2 + 1 bins. Cosines and sines are symmetric twice over:
 *
 *     of samples m and N - m, the sum meets the cosine, the difference the sine;
 *     bins k and N / 2 - k have the same cosines where m is even, and opposite ones where it is odd; sines vice versa.
 *
 * So a quarter of the products is left. Some frames are transformed at once, side by side. */
enum { N = 400, HALF = N / 2, QUARTER = N / 4, BINS = HALF + 1, AT_ONCE = 8 };

typedef struct triangle {
  int32_t first, n;    /* bins that it is not zero for */
  double height[BINS]; /* [n] */
} triangle;

struct tsr_mel {
  int32_t n_mels;
  double highest; /* of all filters */
  double window[N];
  double cosine[QUARTER + 1][HALF + 1], sine[QUARTER + 1][HALF + 1]; /* of bin, and sample */
  triangle filters[];
};

/* Numbers of frames that lie side by side. */
typedef double side[AT_ONCE];

static const double pi = 3.14159265358979323846;

/* Slaney's scale (Auditory Toolbox, 1998): linear up to 1 kHz, 15 mels; above, 27 mels multiply by 6.4. */
static double hertz_of(double mel)
{
  const double linear = 1000, mels = 15;
  return mel < mels ? mel * linear / mels : linear * exp((mel - mels) * log(6.4) / 27);
}

static double mel_of(double hertz)
{
  const double linear = 1000, mels = 15;
  return hertz < linear ? hertz * mels / linear : mels + log(hertz / linear) * 27 / log(6.4);
}

static void make_filter(triangle *t, double low, double top, double high)
{
  for (int32_t bin = 0; bin < BINS; bin++) {
    const double hertz = (double)bin * TSR_AUDIO_RATE / N;
    const double height = fmin((hertz - low) / (top - low), (high - hertz) / (high - top));
    if (height > 0) {
      t->first = t->n == 0 ? bin : t->first;
      t->height[t->n++] = height * 2 / (high - low);
    }
  }
}

tsr_status tsr_mel_create(int32_t n_mels, tsr_mel **mel)
{
  if (!mel) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_mel_create: mel must not be NULL");
  }
  *mel = NULL;
  if (n_mels < 1 || n_mels > TSR_MEL_MOST_MELS) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%d mels, expected 1 to %d", n_mels, TSR_MEL_MOST_MELS);
  }
  tsr_mel *m = calloc(1, sizeof *m + (size_t)n_mels * sizeof *m->filters);
  if (!m) {
    return tsr_fail_memory(sizeof *m + (size_t)n_mels * sizeof *m->filters);
  }
  m->n_mels = n_mels;
  for (int32_t i = 0; i < N; i++) {
    m->window[i] = 0.5 - 0.5 * cos(2 * pi * i / N);
  }
  for (int32_t k = 0; k <= QUARTER; k++) {
    for (int32_t i = 0; i <= HALF; i++) {
      m->cosine[k][i] = cos(2 * pi * (k * i % N) / N);
      m->sine[k][i] = sin(2 * pi * (k * i % N) / N);
    }
  }
  const double step = mel_of(TSR_AUDIO_RATE / 2.0) / (n_mels + 1);
  for (int32_t i = 0; i < n_mels; i++) {
    make_filter(&m->filters[i], hertz_of(i * step), hertz_of((i + 1) * step), hertz_of((i + 2) * step));
    for (int32_t bin = 0; bin < m->filters[i].n; bin++) {
      m->highest = fmax(m->highest, m->filters[i].height[bin]);
    }
  }
  *mel = m;
  return TSR_OK;
}

void tsr_mel_destroy(tsr_mel *mel)
{
  free(mel);
}

int32_t tsr_mel_count(const tsr_mel *mel)
{
  return mel->n_mels;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* The place in a sound that stands for place i, which may lie before or behind it. */
static int64_t reflected(int64_t i, int64_t length)
{
  const int64_t period = length > 1 ? 2 * (length - 1) : 1;
  const int64_t place = (i % period + period) % period;
  return place < length ? place : period - place;
}

/* The windowed frame around sample `center`. Returns 0 if it is all zeros. */
static int take_frame(const tsr_mel *mel, const tsr_sound_part *part, int64_t center, double *frame)
{
  const int64_t begin = center - HALF - part->begin;
  const int is_inside = center >= HALF && center + HALF <= part->length && begin + N <= part->n;
  int is_heard = 0;
  for (int32_t i = 0; is_inside && i < N; i++) {
    frame[i] = mel->window[i] * (double)part->samples[begin + i];
    is_heard |= frame[i] != 0;
  }
  for (int32_t i = 0; !is_inside && i < N; i++) {
    const int64_t at = reflected(center - HALF + i, part->length) - part->begin;
    frame[i] = at < part->n ? mel->window[i] * (double)part->samples[at] : 0;
    is_heard |= frame[i] != 0;
  }
  return is_heard;
}

/* Adds the products of a row of the table with every second number, from `first` on. */
static void add_products(const double *row, const side *numbers, int32_t first, double *sum)
{
  for (int32_t i = first; i <= HALF; i += 2) {
    for (int32_t f = 0; f < AT_ONCE; f++) {
      sum[f] += row[i] * numbers[i][f];
    }
  }
}

/* power [BINS] of frames whose samples m and N - m were added and subtracted. */
static void transform(const tsr_mel *mel, const side *sums, const side *differences, side *power)
{
  for (int32_t k = 0; k <= QUARTER; k++) {
    side even = {0}, odd = {0}, even_sine = {0}, odd_sine = {0};
    add_products(mel->cosine[k], sums, 0, even);
    add_products(mel->cosine[k], sums, 1, odd);
    add_products(mel->sine[k], differences, 0, even_sine);
    add_products(mel->sine[k], differences, 1, odd_sine);
    for (int32_t f = 0; f < AT_ONCE; f++) {
      const double real = even[f] + odd[f], imaginary = even_sine[f] + odd_sine[f];
      const double mirrored_real = even[f] - odd[f], mirrored_imaginary = even_sine[f] - odd_sine[f];
      power[k][f] = real * real + imaginary * imaginary;
      power[HALF - k][f] = mirrored_real * mirrored_real + mirrored_imaginary * mirrored_imaginary;
    }
  }
}

/* Frames that lie side by side, folded: samples m and N - m added and subtracted. */
typedef struct folded {
  side sums[HALF + 1], differences[HALF + 1];
} folded;

static void fold(const double *frame, int32_t place, folded *f)
{
  f->sums[0][place] = frame[0];
  f->sums[HALF][place] = frame[HALF];
  for (int32_t i = 1; i < HALF; i++) {
    f->sums[i][place] = frame[i] + frame[N - i];
    f->differences[i][place] = frame[i] - frame[N - i];
  }
}

static double logarithm(const triangle *filter, const side *power, int32_t frame)
{
  double sum = 0;
  for (int32_t i = 0; i < filter->n; i++) {
    sum += filter->height[i] * power[filter->first + i][frame];
  }
  return log10(fmax(sum, 1e-10));
}

float tsr_mel_logarithms(const tsr_mel *mel, const tsr_sound_part *part, int64_t first, int64_t n, float largest,
                         float *values, int64_t stride)
{
  folded f = {0};
  for (int64_t begin = 0; begin < n; begin += AT_ONCE) {
    const int32_t at_once = n - begin < AT_ONCE ? (int32_t)(n - begin) : AT_ONCE;
    double frame[N];
    side power[BINS];
    int is_heard = 0;
    for (int32_t i = 0; i < at_once; i++) {
      is_heard |= take_frame(mel, part, (first + begin + i) * TSR_MEL_HOP, frame);
      fold(frame, i, &f);
    }
    if (is_heard) {
      transform(mel, (const side *)f.sums, (const side *)f.differences, power);
    } else {
      memset(power, 0, sizeof power); /* as behind the end of a short sound */
    }
    for (int32_t m = 0; m < mel->n_mels; m++) {
      for (int32_t i = 0; i < at_once; i++) {
        const float l = (float)logarithm(&mel->filters[m], (const side *)power, i);
        values[m * stride + begin + i] = l;
        largest = fmaxf(largest, l);
      }
    }
  }
  return largest;
}

/* No filter gives more of the frame: its highest point times the power of all bins, which Parseval's theorem tells. */
static double bound_of(const tsr_mel *mel, const double *frame)
{
  double energy = 0, sum = 0, alternating = 0;
  for (int32_t i = 0; i < N; i += 2) {
    energy += frame[i] * frame[i] + frame[i + 1] * frame[i + 1];
    sum += frame[i] + frame[i + 1];
    alternating += frame[i] - frame[i + 1];
  }
  return mel->highest * (N * energy + sum * sum + alternating * alternating) / 2;
}

/* The largest logarithm of n frames, n <= AT_ONCE, and of `largest`. */
static float largest_of(const tsr_mel *mel, const folded *f, int32_t n, float largest)
{
  side power[BINS];
  transform(mel, f->sums, f->differences, power);
  for (int32_t m = 0; m < mel->n_mels; m++) {
    for (int32_t i = 0; i < n; i++) {
      largest = fmaxf(largest, (float)logarithm(&mel->filters[m], (const side *)power, i));
    }
  }
  return largest;
}

float tsr_mel_largest(const tsr_mel *mel, const tsr_sound_part *part, int64_t first, int64_t n, float largest)
{
  static const double rounding = 1e-5; /* of logarithms as floats, and more */
  folded f = {0};
  int32_t waiting = 0;
  largest = n > 0 ? fmaxf(largest, -10) : largest;
  double threshold = pow(10, (double)largest - rounding);
  for (int64_t i = 0; i < n; i++) {
    double frame[N];
    if (take_frame(mel, part, (first + i) * TSR_MEL_HOP, frame) && bound_of(mel, frame) > threshold) {
      fold(frame, waiting++, &f);
    }
    if (waiting == AT_ONCE || (waiting > 0 && i == n - 1)) {
      largest = largest_of(mel, &f, waiting, largest);
      threshold = pow(10, (double)largest - rounding);
      waiting = 0;
    }
  }
  return largest;
}

void tsr_mel_scale(float *values, int64_t n, float largest)
{
  for (int64_t i = 0; i < n; i++) {
    values[i] = (fmaxf(values[i], largest - 8) + 4) / 4;
  }
}

tsr_status tsr_mel_features(const tsr_mel *mel, const float *samples, int64_t n, int64_t length, float *features)
{
  if (!mel || (!samples && n > 0) || n < 0 || length < 0 || (!features && length >= TSR_MEL_HOP)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_mel_features: %lld samples of %lld; mel, samples and features must not be NULL", (long long)n,
                    (long long)length);
  }
  const int64_t frames = length / TSR_MEL_HOP;
  const tsr_sound_part part = {.samples = samples, .n = n < length ? n : length, .length = length};
  const float largest = tsr_mel_logarithms(mel, &part, 0, frames, -INFINITY, features, frames);
  tsr_mel_scale(features, mel->n_mels * frames, largest);
  return TSR_OK;
}
