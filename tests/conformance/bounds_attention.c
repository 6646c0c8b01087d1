/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of masking and attention.
 */
#include <stdlib.h>

#include "tests/conformance/bounds.h"

/* The bucket of a distance, rounded as ops.h prescribes: every device takes the same. */
static int64_t bucket(int64_t distance, int64_t rows, int32_t bidirectional, int32_t max_distance)
{
  int64_t base = 0, r = distance < 0 ? -distance : 0, n = rows, e;
  float place;

  if (bidirectional) {
    n /= 2;
    base = distance > 0 ? n : 0;
    r = distance < 0 ? -distance : distance;
  }
  e = n / 2;
  if (r < e) {
    return base + r;
  }
  place = (float)log((double)((float)r / (float)e)) / (float)log((double)max_distance / (double)e);
  r = e + (int64_t)(place * (float)(n - e));
  return base + (r < n - 1 ? r : n - 1);
}

int check_masking_at(const check_masking *m, int64_t b, int64_t h, int64_t l, int64_t s, check_addend *addend)
{
  int64_t position = 0, row, at;
  double value;

  *addend = (check_addend){0};
  if (m->position.storage) {
    position = check_integer(&m->position, check_place(&m->position, 0, 0, 0, b));
  }
  if (m->lengths.storage && s >= check_integer(&m->lengths, check_place(&m->lengths, 0, 0, 0, b))) {
    return 0;
  }
  if (m->attributes->causal && s > l + position) {
    return 0;
  }
  if (m->additive.storage) {
    at = check_place(&m->additive, b, h, l, s);
    value = check_value(&m->additive, at);
    if (value == -INFINITY) {
      return 0;
    }
    addend->additive = value;
    addend->additive_error = check_error(&m->additive, at);
    addend->terms++;
  }
  if (m->relative.storage) {
    row = bucket(s - l - position, m->relative.extent[2], m->attributes->bidirectional, m->attributes->max_distance);
    at = check_place(&m->relative, 0, 0, row, h);
    value = check_value(&m->relative, at);
    if (value == -INFINITY) {
      return 0;
    }
    addend->relative = value;
    addend->relative_error = check_error(&m->relative, at);
    addend->terms++;
  }
  return 1;
}

/* One rounding per term, of a partial sum no larger than the sum of magnitudes, and the reference's; without terms only the
 * flush of a subnormal. */
tsr_status check_bound_mask(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  check_masking m = {check_tensor_of(values, line->in[1]), check_tensor_of(values, line->in[2]),
                     check_tensor_of(values, line->in[3]), check_tensor_of(values, line->in[4]), &line->attributes};
  tsr_status status = check_errors_init(&y);
  int64_t b, h, l, s, at;
  check_addend addend;
  double e;

  if (status) {
    return status;
  }
  for (b = 0; b < y.extent[0]; b++) {
    for (h = 0; h < y.extent[1]; h++) {
      for (l = 0; l < y.extent[2]; l++) {
        for (s = 0; s < y.extent[3]; s++) {
          e = 0.0;
          at = check_place(&x, b, h, l, s);
          if (check_masking_at(&m, b, h, l, s, &addend)) {
            e = check_error(&x, at) + addend.additive_error + addend.relative_error;
            if (fabs(check_value(&x, at)) < FLT_MIN) {
              e += FLT_MIN;
            }
            if (addend.terms) {
              e += (addend.terms + 1.0) * CHECK_U *
                       (fabs(check_value(&x, at)) + fabs(addend.additive) + fabs(addend.relative) + e) +
                   FLT_MIN;
            }
          }
          at = check_place(&y, b, h, l, s);
          y.storage->error[at] = isfinite(check_value(&y, at)) ? e : 0.0;
        }
      }
    }
  }
  return TSR_OK;
}

typedef struct score {
  int64_t row;   /* of k and v */
  double value;  /* masked; -inf: excluded */
  double error;  /* of the score */
  double weight; /* exp(value - max) */
  double spread; /* the bound on the weight */
} score;

/* y = sum w v, w = softmax(mask(alpha q . k)).
 *
 * A score errs by delta: gamma(K + 2) alpha sum |q||k| and what q, k and the masking terms carry, after the masking; its
 * weight exp(s - max) as in softmax by expm1(delta + u d) + 2u (3 + 2 d). Where a score may overflow the row is free. One pass over the keys rescales what it has when the
 * maximum rises: a factor exp(old - new) and a product each time, at most once per key, the differences summing to no more than
 * the range D of the scores: 7u S + 4u D. Each y then errs by sum |v| (bound on w) + gamma(S + 6) sum w|v| + what v carries; and no
 * weight can be off by more than 1. */
static void bound_query(score *scores, int64_t n_scores, double *rescaling, double *total, double *spread)
{
  double max = -INFINITY, min = INFINITY, d;
  int64_t s;

  for (s = 0; s < n_scores; s++) {
    if (scores[s].value > -INFINITY) {
      max = fmax(max, scores[s].value);
      min = fmin(min, scores[s].value);
    }
  }
  *total = *spread = *rescaling = 0.0;
  if (max == -INFINITY) {
    return;
  }
  *rescaling = CHECK_U * (7.0 * (double)n_scores + 4.0 * fmin(max - min, 200.0)); /* beyond 104 the factor is 0 */
  for (s = 0; s < n_scores; s++) {
    scores[s].weight = scores[s].spread = 0.0;
    if (scores[s].value > -INFINITY) {
      d = max - scores[s].value;
      scores[s].weight = exp(-d);
      scores[s].spread = exp(fmin(scores[s].error + CHECK_U * d - d, 700.0)) - exp(-d) +
                         exp(-d) * 2.0 * CHECK_U * (3.0 + 2.0 * d) + FLT_MIN;
      *total += scores[s].weight;
      *spread += scores[s].spread;
    }
  }
}

/* (score + additive) + relative, each rounded to f32, as ops.h has it. */
static double masked(double sum, double additive, double relative)
{
  return (double)(float)((double)(float)((double)(float)sum + additive) + relative);
}

/* The masked score and its error. Rounding never reverses an order, so the ends of an interval round to the ends of the
 * rounded one: a large addend swallows the error of a small score, on every device alike. */
static void bound_score(score *result, double value, double error, const check_addend *addend)
{
  double low, high;

  result->value = value == -INFINITY ? value : masked(value, addend->additive, addend->relative);
  low = masked(value - error, addend->additive - addend->additive_error, addend->relative - addend->relative_error);
  high = masked(value + error, addend->additive + addend->additive_error, addend->relative + addend->relative_error);
  result->error = fmax(high - result->value, result->value - low);
}

/* The scores of one query, the visible ones: SPECIAL: one of them is NaN or +inf; OVERFLOW: a partial sum may overflow, in one
 * order and not in another. */
enum { SCORES_FINITE, SCORES_SPECIAL, SCORES_OVERFLOW };

static int query_scores(const check_values *values, const tsr_line_desc *line, const check_masking *m, int64_t b,
                        int64_t h, int64_t l, score *scores, int64_t n_scores)
{
  check_tensor q = check_tensor_of(values, line->in[0]);
  check_tensor k = check_tensor_of(values, line->in[1]);
  check_tensor rows = check_tensor_of(values, line->in[7]);
  const double alpha = (double)line->attributes.alpha;
  double dot, size, carried, error, qv, kv, eq, ek;
  int64_t s, i, at_q, at_k;
  check_addend addend;
  int special = 0, overflows = 0;

  for (s = 0; s < n_scores; s++) {
    scores[s].row = rows.storage ? check_integer(&rows, check_place(&rows, 0, 0, b, s)) : b;
    scores[s].value = -INFINITY;
    scores[s].error = scores[s].weight = scores[s].spread = 0.0;
    if (scores[s].row < 0 || scores[s].row >= k.extent[0] || !check_masking_at(m, b, h, l, s, &addend)) {
      continue;
    }
    dot = size = carried = 0.0;
    at_q = check_place(&q, b, l, h, 0);
    at_k = check_place(&k, scores[s].row, s, h, 0);
    for (i = 0; i < q.extent[3]; i++, at_q += q.stride[3], at_k += k.stride[3]) {
      qv = check_value(&q, at_q);
      kv = check_value(&k, at_k);
      eq = check_error(&q, at_q);
      ek = check_error(&k, at_k);
      dot += qv * kv;
      size += isfinite(qv) && isfinite(kv) ? (fabs(qv) + eq) * (fabs(kv) + ek) : 0.0;
      carried += eq * fabs(kv) + ek * fabs(qv) + eq * ek;
    }
    error = fabs(alpha) * (carried + check_gamma((double)q.extent[3] + 2.0) * size) + FLT_MIN * (double)q.extent[3];
    bound_score(&scores[s], alpha * dot, error, &addend);
    special |= scores[s].value != scores[s].value || scores[s].value == INFINITY;
    overflows |= fmax(size, fabs(alpha) * size) > FLT_MAX;
  }
  return overflows ? SCORES_OVERFLOW : special ? SCORES_SPECIAL : SCORES_FINITE;
}

static void bound_results(const check_tensor *v, check_tensor *y, const check_tensor *w, const score *scores,
                          int64_t n_scores, const int64_t *at, double rescaling, double total, double spread)
{
  const int64_t b = at[0], h = at[1], l = at[2];
  double weight, error, sum, size, visible;
  int64_t j, s, place;
  int special;

  for (j = 0; j < y->extent[3]; j++) {
    sum = size = visible = 0.0;
    special = 0;
    for (s = 0; s < n_scores && total > 0.0; s++) {
      if (scores[s].value == -INFINITY) {
        continue;
      }
      place = check_place(v, scores[s].row, s, h, j);
      weight = scores[s].weight / total;
      error = fmin(1.0, scores[s].spread / total + weight * (spread / total));
      special |= !isfinite(check_value(v, place));
      sum += error * fabs(check_value(v, place)) + (weight + error) * check_error(v, place);
      size += (weight + error) * fabs(check_value(v, place));
      visible = fmax(visible, fabs(check_value(v, place)));
    }
    error =
        sum + (check_gamma((double)n_scores + 6.0) + rescaling) * size + FLT_MIN * (double)n_scores * (1.0 + visible);
    place = check_place(y, b, l, h, j);
    y->storage->error[place] = special || total == 0.0 ? 0.0 : spread > 1e300 ? INFINITY : error;
  }
  for (s = 0; w->storage && s < n_scores; s++) {
    error = 0.0;
    if (total > 0.0 && scores[s].value > -INFINITY) {
      weight = scores[s].weight / total;
      error = scores[s].spread / total + weight * (spread / total + check_gamma((double)n_scores + 6.0) + rescaling) +
              FLT_MIN;
    }
    w->storage->error[check_place(w, b, h, l, s)] = spread > 1e300 ? INFINITY : fmin(error, 1.0);
  }
}

/* Nothing is asked of a query's results. */
static void release_results(check_tensor *y, check_tensor *w, const int64_t *at)
{
  int64_t i;

  for (i = 0; i < y->extent[3]; i++) {
    y->storage->error[check_place(y, at[0], at[2], at[1], i)] = INFINITY;
  }
  for (i = 0; w->storage && i < w->extent[3]; i++) {
    w->storage->error[check_place(w, at[0], at[1], at[2], i)] = INFINITY;
  }
}

tsr_status check_bound_attention(check_values *values, const tsr_line_desc *line)
{
  check_tensor k = check_tensor_of(values, line->in[1]);
  check_tensor v = check_tensor_of(values, line->in[2]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  check_tensor w = check_tensor_of(values, line->out[1]);
  check_masking m = {check_tensor_of(values, line->in[3]), check_tensor_of(values, line->in[4]),
                     check_tensor_of(values, line->in[5]), check_tensor_of(values, line->in[6]), &line->attributes};
  const int64_t n_scores = k.extent[1];
  tsr_status status = check_errors_init(&y);
  score *scores;
  double rescaling, total, spread;
  int64_t at[3];
  int kind;

  if (!status && w.storage) {
    status = check_errors_init(&w);
  }
  if (status) {
    return status;
  }
  scores = calloc((size_t)(n_scores ? n_scores : 1), sizeof(*scores));
  if (!scores) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of %lld scores", (long long)n_scores);
  }
  y.storage->terms = n_scores + tsr_tensor_at(values->program, line->in[0])->extent[3];
  for (at[0] = 0; at[0] < y.extent[0]; at[0]++) {
    for (at[1] = 0; at[1] < y.extent[2]; at[1]++) {
      for (at[2] = 0; at[2] < y.extent[1]; at[2]++) {
        kind = query_scores(values, line, &m, at[0], at[1], at[2], scores, n_scores);
        if (kind == SCORES_FINITE) {
          bound_query(scores, n_scores, &rescaling, &total, &spread);
          bound_results(&v, &y, &w, scores, n_scores, at, rescaling, total, spread);
        } else if (kind == SCORES_OVERFLOW) {
          release_results(&y, &w, at);
        }
      }
    }
  }
  free(scores);
  return TSR_OK;
}
