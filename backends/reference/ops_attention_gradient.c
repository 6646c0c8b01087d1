/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of attention's q, k, v and masked scores, one sentence and head at a time: the weights are made again
 * from the scores and the logarithms of their sums.
 */
#include "kernel.h"

int64_t ref_attention_gradient_scratch(const ref_line *line)
{
  const int64_t K = line->in[1].extent[3], S = line->in[2].extent[1], J = line->in[2].extent[3];
  return K + S * K + S * J;
}

/* sums[i] += factor * t[index + i], along the last axis */
static void add_row(double *sums, double factor, const ref_tensor *t, int64_t at)
{
  for (int64_t i = 0; i < t->extent[3]; i++) {
    sums[i] += factor * ref_f32(t, at + i * t->stride[3]);
  }
}

/* t[index + i] = factor * sums[i], along the last axis */
static void store_row(const ref_tensor *t, int64_t at, double factor, const double *sums)
{
  for (int64_t i = 0; i < t->extent[3]; i++) {
    ref_set_f32(t, at + i * t->stride[3], factor * sums[i]);
  }
}

/* All queries of one head of one sentence. */
static void attention_gradient(const ref_line *line, int64_t b, int64_t h)
{
  const ref_tensor *q = &line->in[0], *k = &line->in[1], *v = &line->in[2];
  const ref_tensor *y = &line->in[9], *dy = &line->in[10], *lse = &line->in[11];
  const ref_tensor *dq = &line->out[0], *dk = &line->out[1], *dv = &line->out[2], *dscores = &line->out[3];
  const ref_masking masking = ref_masking_of(line, 3);
  const ref_drop dropout = ref_drop_of(line, 8);
  const int64_t H = q->extent[2], L = q->extent[1], S = k->extent[1], K = k->extent[3], J = v->extent[3];
  const double alpha = line->attributes.alpha, softcap = line->attributes.softcap;
  double *dq_sums = line->scratch, *dk_sums = dq_sums + K, *dv_sums = dk_sums + S * K;

  memset(dk_sums, 0, (size_t)(S * (K + J)) * sizeof(*dk_sums));
  for (int64_t l = 0; l < L; l++) {
    const int64_t query[] = {b, l, h, 0};
    const double log_sum = ref_f32(lse, b * lse->stride[0] + h * lse->stride[1] + l * lse->stride[2]);
    const double delta = ref_dot(dy, query, y, query);
    memset(dq_sums, 0, (size_t)K * sizeof(*dq_sums));
    for (int64_t s = 0; s < S; s++) {
      const int64_t key[] = {b, s, h, 0}, pair[] = {b, h, l, s};
      const double capped = ref_capped(softcap, alpha * ref_dot(q, query, k, key));
      const float z = ref_excluded(&masking, b, h, l, s) ? -INFINITY : ref_biased(&masking, b, h, l, s, (float)capped);
      double dscore = 0;
      if (z != -INFINITY) {
        const double w = exp(z - log_sum), f = ref_drop_factor(&dropout, ((b * H + h) * L + l) * S + s);
        dscore = w * (f * ref_dot(dy, query, v, key) - delta);
        const double slope = softcap > 0 ? 1 - capped / softcap * (capped / softcap) : 1;
        add_row(dq_sums, dscore * slope, k, ref_element(k, key));
        add_row(dk_sums + s * K, dscore * slope, q, ref_element(q, query));
        add_row(dv_sums + s * J, f * w, dy, ref_element(dy, query));
      }
      if (ref_present(dscores)) {
        ref_set_f32(dscores, ref_element(dscores, pair), dscore);
      }
    }
    store_row(dq, ref_element(dq, query), alpha, dq_sums);
  }
  for (int64_t s = 0; s < S; s++) {
    const int64_t key[] = {b, s, h, 0};
    store_row(dk, ref_element(dk, key), alpha, dk_sums + s * K);
    store_row(dv, ref_element(dv, key), 1.0, dv_sums + s * J);
  }
}

void ref_attention_gradient(const ref_line *line)
{
  const ref_tensor *q = &line->in[0], *k = &line->in[1], *v = &line->in[2];
  const ref_tensor *y = &line->in[9], *dy = &line->in[10], *lse = &line->in[11];

  assert(q->rank == 4 && k->rank == 4 && v->rank == 4 && ref_same_extents(y, dy) && lse->rank == 3);
  assert(k->extent[0] == q->extent[0] && k->extent[2] == q->extent[2] && k->extent[3] == q->extent[3]);
  assert(ref_count(k, 3) == ref_count(v, 3) && ref_count(y, 3) == ref_count(q, 3) && y->extent[3] == v->extent[3]);
  assert(ref_same_extents(q, &line->out[0]) && ref_same_extents(k, &line->out[1]) &&
         ref_same_extents(v, &line->out[2]));

  for (int64_t b = 0; b < q->extent[0]; b++) {
    for (int64_t h = 0; h < q->extent[2]; h++) {
      attention_gradient(line, b, h);
    }
  }
}
