/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be seen of keys, and the biases on scores: the mask operator, and what attention shares with it, and the
 * gradients of both.
 */
#include "kernel.h"

ref_masking ref_masking_of(const ref_line *line, int32_t first)
{
  return (ref_masking){
      .additive = &line->in[first],
      .lengths = &line->in[first + 1],
      .position = &line->in[first + 2],
      .relative = &line->in[first + 3],
      .attributes = &line->attributes,
  };
}

static int64_t position_of(const ref_masking *masking, int64_t b)
{
  return ref_present(masking->position) ? ref_i32(masking->position, b * masking->position->stride[0]) : 0;
}

/* The bucket of a key `distance` after its query, of a table of n. Each step is rounded to f32, the
 * logarithms from their exact values, so that a distance on the border of two buckets falls on the same side
 * everywhere. */
static int64_t bucket(int64_t distance, int64_t n, int bidirectional, int32_t max_distance)
{
  int64_t base = 0, r = distance < 0 ? -distance : 0;
  if (bidirectional) {
    n /= 2;
    base = distance > 0 ? n : 0;
    r = distance < 0 ? -distance : distance;
  }
  const int64_t e = n / 2;
  if (r < e) {
    return base + r;
  }
  const float ratio = (float)r / (float)e, whole = (float)log((double)max_distance / (double)e);
  const float share = (float)log((double)ratio) / whole;
  const int64_t bucket_of_r = e + (int64_t)(share * (float)(n - e));
  return base + (bucket_of_r < n - 1 ? bucket_of_r : n - 1);
}

int64_t ref_relative_row(const ref_masking *masking, int64_t n, int64_t b, int64_t l, int64_t s)
{
  const int64_t distance = s - l - position_of(masking, b), most = masking->attributes->max_distance;
  if (masking->attributes->clamped) {
    return (distance < -most ? -most : distance > most ? most : distance) + most;
  }
  return bucket(distance, n, masking->attributes->bidirectional, masking->attributes->max_distance);
}

static float additive_of(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s)
{
  const ref_tensor *additive = masking->additive;
  return ref_present(additive) ? ref_f32(additive, ref_element(additive, (int64_t[]){b, h, l, s})) : 0.0f;
}

static float relative_of(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s)
{
  const ref_tensor *t = masking->relative;
  if (!ref_present(t)) {
    return 0.0f;
  }
  return ref_f32(t, ref_relative_row(masking, t->extent[0], b, l, s) * t->stride[0] + h * t->stride[1]);
}

int ref_excluded(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s)
{
  const ref_tensor *lengths = masking->lengths;
  return (ref_present(lengths) && s >= ref_i32(lengths, b * lengths->stride[0])) ||
         (masking->attributes->causal && s > l + position_of(masking, b)) ||
         additive_of(masking, b, h, l, s) == -INFINITY || relative_of(masking, b, h, l, s) == -INFINITY;
}

float ref_biased(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s, float score)
{
  if (score == -INFINITY) {
    return -INFINITY;
  }
  const float with_additive = score + additive_of(masking, b, h, l, s);
  return with_additive + relative_of(masking, b, h, l, s);
}

void ref_mask(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];
  const ref_masking masking = ref_masking_of(line, 1);
  const int64_t B = x->extent[0], H = x->extent[1], L = x->extent[2], S = x->extent[3];

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && x->rank == 4 && ref_same_extents(x, y));
  assert(!ref_present(masking.additive) || ref_same_extents(masking.additive, x));
  assert(!ref_present(masking.relative) || masking.relative->extent[1] == H);

  for (int64_t b = 0; b < B; b++) {
    for (int64_t h = 0; h < H; h++) {
      for (int64_t l = 0; l < L; l++) {
        for (int64_t s = 0; s < S; s++) {
          const int64_t index[] = {b, h, l, s};
          const float score = ref_f32(x, ref_element(x, index));
          ref_set_f32(y, ref_element(y, index),
                      ref_excluded(&masking, b, h, l, s) ? -INFINITY : ref_biased(&masking, b, h, l, s, score));
        }
      }
    }
  }
}

void ref_mask_gradient(const ref_line *line)
{
  const ref_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];

  assert(y->dtype == TSR_F32 && ref_same_extents(y, dy) && ref_same_extents(y, dx));

  for (int64_t e = 0; e < ref_count(dx, dx->rank); e++) {
    const float ye = ref_f32(y, ref_at(y, y->rank, e)), dye = ref_f32(dy, ref_at(dy, dy->rank, e));
    ref_set_f32(dx, ref_at(dx, dx->rank, e), ye == -INFINITY ? 0.0f : dye);
  }
}

int64_t ref_relative_gradient_scratch(const ref_line *line)
{
  return ref_count(&line->out[0], 2);
}

void ref_relative_gradient(const ref_line *line)
{
  const ref_tensor *dscores = &line->in[0], *drelative = &line->out[0];
  const ref_masking masking = {.position = &line->in[1], .attributes = &line->attributes};
  const int64_t B = dscores->extent[0], H = dscores->extent[1], L = dscores->extent[2], S = dscores->extent[3];
  const int64_t n = drelative->extent[0];
  double *sums = line->scratch; /* [n, H] */

  assert(dscores->dtype == TSR_F32 && dscores->rank == 4);
  assert(drelative->rank == 2 && n == line->attributes.buckets && drelative->extent[1] == H);

  memset(sums, 0, (size_t)(n * H) * sizeof(*sums));
  for (int64_t b = 0; b < B; b++) {
    for (int64_t h = 0; h < H; h++) {
      for (int64_t l = 0; l < L; l++) {
        for (int64_t s = 0; s < S; s++) {
          sums[ref_relative_row(&masking, n, b, l, s) * H + h] +=
              ref_f32(dscores, ref_element(dscores, (int64_t[]){b, h, l, s}));
        }
      }
    }
  }
  for (int64_t e = 0; e < n * H; e++) {
    ref_set_f32(drelative, ref_at(drelative, 2, e), sums[e]);
  }
}
