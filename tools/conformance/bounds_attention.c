/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of masking and attention.
 */
#include <stdlib.h>

#include "tools/conformance/bounds.h"

int64_t check_relative_row(int64_t distance, int64_t rows, const tsr_op_attributes *attributes)
{
  const int32_t max_distance = attributes->max_distance;
  int64_t base = 0, r = distance < 0 ? -distance : 0, n = rows;

  if (attributes->clamped) {
    return r >= max_distance ? 0 : distance >= max_distance ? rows - 1 : max_distance + distance;
  }
  if (attributes->bidirectional) {
    n /= 2;
    base = distance > 0 ? n : 0;
    r = distance < 0 ? -distance : distance;
  }
  int64_t e = n / 2;
  if (r < e) {
    return base + r;
  }
  float place = (float)log((double)((float)r / (float)e)) / (float)log((double)max_distance / (double)e);
  r = e + (int64_t)(place * (float)(n - e));
  return base + (r < n - 1 ? r : n - 1);
}

int check_masking_at(const check_masking *m, int64_t b, int64_t h, int64_t l, int64_t s, check_addend *addend)
{
  int64_t position = 0;

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
    int64_t at = check_place(&m->additive, b, h, l, s);
    double value = check_value(&m->additive, at);
    if (value == -INFINITY) {
      return 0;
    }
    addend->additive = value;
    addend->additive_error = check_error(&m->additive, at);
    addend->terms++;
  }
  if (m->relative.storage) {
    int64_t row = check_relative_row(s - l - position, m->relative.extent[2], m->attributes);
    int64_t at = check_place(&m->relative, 0, 0, row, h);
    double value = check_value(&m->relative, at);
    if (value == -INFINITY) {
      return 0;
    }
    addend->relative = value;
    addend->relative_error = check_error(&m->relative, at);
    addend->terms++;
  }
  return 1;
}

/* One rounding per term, of a partial sum no larger than the sum of magnitudes, and the reference's; without terms only
 * the flush of a subnormal. */
tsr_status check_bound_mask(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  check_masking m = {check_tensor_of(values, line->in[1]), check_tensor_of(values, line->in[2]),
                     check_tensor_of(values, line->in[3]), check_tensor_of(values, line->in[4]), &line->attributes};
  tsr_status status = check_errors_init(&y);
  check_addend addend;

  if (status) {
    return status;
  }
  for (int64_t b = 0; b < y.extent[0]; b++) {
    for (int64_t h = 0; h < y.extent[1]; h++) {
      for (int64_t l = 0; l < y.extent[2]; l++) {
        for (int64_t s = 0; s < y.extent[3]; s++) {
          double e = 0.0;
          int64_t at = check_place(&x, b, h, l, s);
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
  int64_t row;        /* of k and v */
  double value;       /* masked; -inf: excluded */
  double error;       /* of the score */
  double weight;      /* exp(value - max) */
  double spread;      /* the bound on the weight */
  double slope;       /* of the cap at the score; 1: there is none */
  double slope_error; /* 0: there is no cap */
} score;

/* y = sum w v, w = softmax(mask(alpha q . k)).
 *
 * A score errs by delta: gamma(K + 2) alpha sum |q||k| and what q, k and the masking terms carry, after the masking;
 * its weight exp(s - max) as in softmax by expm1(delta + u d) + 2u (3 + 2 d). Where a score may overflow the row is
 * free. One pass over the keys rescales what it has when the maximum rises: a factor exp(old - new) and a product each
 * time, at most once per key, the differences summing to no more than the range D of the scores: 7u S + 4u D. Each y
 * then errs by sum |v| (bound on w) + gamma(S + 6) sum w|v| + what v carries; and no weight can be off by more than 1.
 *
 * Reduced precision: q, k and v carry their roundings to f16 or bf16 (check_narrowing). Where alpha q is rounded, what
 * is lost of a subnormal or beyond the range is that of alpha q: the larger of both counts. A weight p = exp(z - the
 * largest so far) is rounded too, by r(p); what has been summed is then scaled down by exp(largest so far - largest),
 * which leaves r(p) of the final p or less: in the normal range r is proportional to p, and one that is lost is lost
 * wholly. The sum of the weights is that of the unrounded ones. Sums that are cut off err by 2u a step. */
static void bound_query(score *scores, int64_t n_scores, double *rescaling, double *total, double *spread)
{
  double max = -INFINITY, min = INFINITY;

  for (int64_t s = 0; s < n_scores; s++) {
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
  for (int64_t s = 0; s < n_scores; s++) {
    scores[s].weight = scores[s].spread = 0.0;
    if (scores[s].value > -INFINITY) {
      double d = max - scores[s].value;
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
  result->value = value == -INFINITY ? value : masked(value, addend->additive, addend->relative);
  double low =
      masked(value - error, addend->additive - addend->additive_error, addend->relative - addend->relative_error);
  double high =
      masked(value + error, addend->additive + addend->additive_error, addend->relative + addend->relative_error);
  result->error = fmax(high - result->value, result->value - low);
}

/* cap tanh(x / cap), whose slope is at most 1. Quotient, tanh and product err by about twelve units of the result: near
 * 0 the tanh is a polynomial without cancellation, and beyond it 1 - 2 / (exp(2 z) + 1), z at least 0.6. */
static void bound_cap(float softcap, double *value, double *error)
{
  if (softcap > 0.0f) {
    const double cap = (double)softcap;
    *value = cap * tanh(*value / cap);
    *error = fmin(*error + 24.0 * CHECK_U * fabs(*value) + FLT_MIN * (1.0 + cap), 2.0 * cap);
  }
}

/* The slope of the cap, 1 - t^2 with t = value / cap, which is what the cap gave; t errs as that does, and the square
 * and the difference by a unit each. Both slopes are from 0 to 1. */
static void bound_slope(float softcap, double value, double error, score *result)
{
  result->slope = 1.0;
  result->slope_error = 0.0;
  if (softcap > 0.0f) {
    const double t = value / (double)softcap, e = error / (double)softcap;
    result->slope = (1.0 - t) * (1.0 + t);
    result->slope_error = fmin(1.0, e * (2.0 * fabs(t) + e) + 4.0 * CHECK_U);
  }
}

/* The type to which a line may round its factors; 0: to none. */
static int32_t factors_of(const tsr_line_desc *line)
{
  const int32_t reduced = line->attributes.reduced_precision;

  return reduced == 1 ? TSR_F16 : reduced;
}

/* As check_narrowing, of q or of alpha q. */
static double query_narrowing(int32_t factors, double value, double error, double alpha)
{
  const double scale = fabs(alpha), plain = check_narrowing(factors, value, error);

  return scale > 0.0 ? fmax(plain, check_narrowing(factors, scale * value, scale * error) / scale) : plain;
}

static int query_vanishes(int32_t factors, double value, double error, double alpha)
{
  return check_narrowing_vanishes(factors, value, error) ||
         check_narrowing_vanishes(factors, alpha * value, fabs(alpha) * error);
}

/* The scores of one query, the visible ones: SPECIAL: one of them is NaN or +inf; OVERFLOW: a partial sum may overflow,
 * in one order and not in another. */
enum { SCORES_FINITE, SCORES_SPECIAL, SCORES_OVERFLOW };

static int query_scores(const check_values *values, const tsr_line_desc *line, const check_masking *m, int64_t b,
                        int64_t h, int64_t l, score *scores, int64_t n_scores)
{
  check_tensor q = check_tensor_of(values, line->in[0]);
  check_tensor k = check_tensor_of(values, line->in[1]);
  check_tensor rows = check_tensor_of(values, line->in[7]);
  const double alpha = (double)line->attributes.alpha;
  const int32_t factors = factors_of(line);
  const double roundings = check_gamma((double)q.extent[3] + 2.0) * (factors ? 2.0 : 1.0);
  double dot, size, carried;
  check_addend addend;
  int special = 0, overflows = 0;

  for (int64_t s = 0; s < n_scores; s++) {
    scores[s].row = rows.storage ? check_integer(&rows, check_place(&rows, 0, 0, b, s)) : b;
    scores[s].value = -INFINITY;
    scores[s].error = scores[s].weight = scores[s].spread = 0.0;
    if (scores[s].row < 0 || scores[s].row >= k.extent[0] || !check_masking_at(m, b, h, l, s, &addend)) {
      continue;
    }
    dot = size = carried = 0.0;
    int64_t at_q = check_place(&q, b, l, h, 0);
    int64_t at_k = check_place(&k, scores[s].row, s, h / (q.extent[2] / k.extent[2]), 0);
    for (int64_t i = 0; i < q.extent[3]; i++, at_q += q.stride[3], at_k += k.stride[3]) {
      double qv = check_value(&q, at_q);
      double kv = check_value(&k, at_k);
      double eq = check_error(&q, at_q);
      double ek = check_error(&k, at_k);
      if (factors) {
        /* an infinity beside a factor that may vanish: any result will do */
        overflows |= (isinf(qv) && check_narrowing_vanishes(factors, kv, ek)) ||
                     (isinf(kv) && query_vanishes(factors, qv, eq, alpha));
        eq += query_narrowing(factors, qv, eq, alpha);
        ek += check_narrowing(factors, kv, ek);
      }
      dot += qv * kv;
      size += isfinite(qv) && isfinite(kv) ? (fabs(qv) + eq) * (fabs(kv) + ek) : 0.0;
      carried += eq * fabs(kv) + ek * fabs(qv) + eq * ek;
    }
    double error = fabs(alpha) * (carried + roundings * size) + FLT_MIN * (double)q.extent[3];
    double value = alpha * dot;
    bound_cap(line->attributes.softcap, &value, &error);
    bound_slope(line->attributes.softcap, value, error, &scores[s]);
    bound_score(&scores[s], value, error, &addend);
    special |= scores[s].value != scores[s].value || scores[s].value == INFINITY;
    overflows |= fmax(size, fabs(alpha) * size) > FLT_MAX;
  }
  return overflows ? SCORES_OVERFLOW : special ? SCORES_SPECIAL : SCORES_FINITE;
}

/* The results of attention, or of its gradient; storage NULL where one is absent. */
typedef struct results {
  int32_t factors; /* the type of them, rounded; 0: they are not */
  check_tensor y, w, lse;
  check_tensor dq, dk, dv, dscores;
} results;

/* The factors of the dropout for one query, per key. */
static void drop_factors(const check_values *values, const tsr_line_desc *line, const int64_t *at,
                         const check_tensor *q, int64_t n_scores, double *factor)
{
  const int64_t first = ((at[0] * q->extent[2] + at[1]) * q->extent[1] + at[2]) * n_scores;

  for (int64_t s = 0; s < n_scores; s++) {
    factor[s] = check_drop_factor(values, line->in[8], &line->attributes, first + s);
  }
}

/* What rounding a weight, or its product with the dropout's factor, may change in it: dropping out scales up, so that
 * of the weight is the worse, but where the factor passes the range of f16. */
static double weight_narrowing(int32_t factors, const score *s, double factor)
{
  return factors == TSR_F16 && factor > 65504.0 ? s->weight + s->spread
                                                : check_narrowing(factors, s->weight, fmin(s->spread, 1e300));
}

/* A weight so small that a device may take it for zero, before or after the division by the sum: 0 * inf is NaN,
 * anything else is inf. */
static int weight_vanishes(const score *s, double total, double spread)
{
  return s->weight - s->spread < 2.0 * FLT_MIN * (total + spread);
}

/* `factor`: of the dropout, 1 without one, which rounds once more. lse = max + ln total: the logarithm moves by the
 * relative error of its argument, and by 3 units or 2^-21; the sum rounds once on each side. */
static void bound_results(const check_tensor *v, const results *r, const score *scores, const double *factor,
                          int64_t n_scores, const int64_t *at, double rescaling, double total, double spread)
{
  const int64_t b = at[0], h = at[1], l = at[2];
  const check_tensor *y = &r->y, *w = &r->w;
  const double cut = r->factors ? 2.0 : 1.0;
  double error, sum, size, visible, max = -INFINITY;
  int64_t place;
  int special, open;

  for (int64_t j = 0; j < y->extent[3]; j++) {
    sum = size = visible = 0.0;
    special = open = 0;
    for (int64_t s = 0; s < n_scores && total > 0.0; s++) {
      if (scores[s].value == -INFINITY) {
        continue;
      }
      place = check_place(v, scores[s].row, s, h / (r->y.extent[2] / v->extent[2]), j);
      double weight = scores[s].weight / total;
      error = fmin(1.0, scores[s].spread / total + weight * (spread / total));
      double carried = check_error(v, place);
      if (r->factors) {
        error += weight_narrowing(r->factors, &scores[s], factor[s]) / total;
        carried += check_narrowing(r->factors, check_value(v, place), carried);
        open |=
            isinf(check_value(v, place)) && check_narrowing_vanishes(r->factors, scores[s].weight, scores[s].spread);
      }
      error *= factor[s];
      weight *= factor[s];
      special |= !isfinite(check_value(v, place));
      open |= isinf(check_value(v, place)) && weight_vanishes(&scores[s], total, spread);
      sum += error * fabs(check_value(v, place)) + (weight + error) * carried;
      size += (weight + error) * fabs(check_value(v, place));
      visible = fmax(visible, factor[s] * fabs(check_value(v, place)));
    }
    error = sum + (cut * check_gamma((double)n_scores + 7.0) + rescaling) * size +
            FLT_MIN * (double)n_scores * (1.0 + visible);
    place = check_place(y, b, l, h, j);
    y->storage->error[place] = open ? INFINITY : special || total == 0.0 ? 0.0 : spread > 1e300 ? INFINITY : error;
  }
  for (int64_t s = 0; s < n_scores; s++) {
    error = 0.0;
    max = fmax(max, scores[s].value);
    if (w->storage && total > 0.0 && scores[s].value > -INFINITY) {
      double weight = scores[s].weight / total;
      error = scores[s].spread / total +
              weight * (spread / total + cut * check_gamma((double)n_scores + 6.0) + rescaling) + FLT_MIN;
    }
    if (w->storage) {
      w->storage->error[check_place(w, b, h, l, s)] = spread > 1e300 ? INFINITY : fmin(error, 1.0);
    }
  }
  if (r->lse.storage && total > 0.0) {
    error = -log1p(-fmin(spread / total + cut * check_gamma((double)n_scores + 6.0) + rescaling, 0.999));
    error += fmax(6.0 * CHECK_U * fabs(log(total)), 0x1p-21) + 2.0 * CHECK_U * (fabs(max) + fabs(log(total))) + FLT_MIN;
    r->lse.storage->error[check_place(&r->lse, 0, b, h, l)] = spread > total ? INFINITY : error;
  }
}

/* Nothing is asked of a query's results. */
static void release_results(const results *r, const int64_t *at)
{
  for (int64_t i = 0; i < r->y.extent[3]; i++) {
    r->y.storage->error[check_place(&r->y, at[0], at[2], at[1], i)] = INFINITY;
  }
  for (int64_t i = 0; r->w.storage && i < r->w.extent[3]; i++) {
    r->w.storage->error[check_place(&r->w, at[0], at[1], at[2], i)] = INFINITY;
  }
  if (r->lse.storage) {
    r->lse.storage->error[check_place(&r->lse, 0, at[0], at[1], at[2])] = INFINITY;
  }
}

/* Room for the scores of one query and their factors. Errors: TSR_ERR_OUT_OF_MEMORY. */
static tsr_status make_room(int64_t n_scores, score **scores, double **factor)
{
  *scores = calloc((size_t)(n_scores ? n_scores : 1), sizeof(**scores));
  *factor = calloc((size_t)(n_scores ? n_scores : 1), sizeof(**factor));
  if (*scores && *factor) {
    return TSR_OK;
  }
  free(*scores);
  free(*factor);
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of %lld scores", (long long)n_scores);
}

static check_masking masking_of(const check_values *values, const tsr_line_desc *line)
{
  return (check_masking){check_tensor_of(values, line->in[3]), check_tensor_of(values, line->in[4]),
                         check_tensor_of(values, line->in[5]), check_tensor_of(values, line->in[6]), &line->attributes};
}

tsr_status check_bound_attention(check_values *values, const tsr_line_desc *line)
{
  check_tensor q = check_tensor_of(values, line->in[0]);
  check_tensor v = check_tensor_of(values, line->in[2]);
  results r = {.factors = factors_of(line),
               .y = check_tensor_of(values, line->out[0]),
               .w = check_tensor_of(values, line->out[1]),
               .lse = check_tensor_of(values, line->out[2])};
  check_masking m = masking_of(values, line);
  const int64_t n_scores = v.extent[1];
  tsr_status status = check_errors_clear(&r.y);
  score *scores;
  double *factor, rescaling, total, spread;
  int64_t at[3];

  if (!status) {
    status = check_errors_clear(&r.w);
  }
  if (!status) {
    status = check_errors_clear(&r.lse);
  }
  if (!status) {
    status = make_room(n_scores, &scores, &factor);
  }
  if (status) {
    return status;
  }
  r.y.storage->terms = n_scores + q.extent[3];
  r.y.storage->biased |= r.factors != 0;
  for (at[0] = 0; at[0] < q.extent[0]; at[0]++) {
    for (at[1] = 0; at[1] < q.extent[2]; at[1]++) {
      for (at[2] = 0; at[2] < q.extent[1]; at[2]++) {
        int kind = query_scores(values, line, &m, at[0], at[1], at[2], scores, n_scores);
        if (kind == SCORES_FINITE) {
          bound_query(scores, n_scores, &rescaling, &total, &spread);
          drop_factors(values, line, at, &q, n_scores, factor);
          bound_results(&v, &r, scores, factor, n_scores, at, rescaling, total, spread);
        } else if (kind == SCORES_OVERFLOW) {
          release_results(&r, at);
        }
      }
    }
  }
  free(scores);
  free(factor);
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The gradient
 */

/* The product of two rows along the last axis, in any order. */
typedef struct dot_product {
  double value, error;
  /* The sum of the magnitudes of what is finite: beyond the largest f32 one order overflows and another does not. */
  double size;
  int open; /* an infinity beside a factor that may vanish: any result will do */
} dot_product;

static dot_product dot_rows(const check_tensor *a, int64_t at_a, const check_tensor *b, int64_t at_b, int32_t factors)
{
  double size = 0.0;
  dot_product result = {0};

  for (int64_t i = 0; i < a->extent[3]; i++, at_a += a->stride[3], at_b += b->stride[3]) {
    double x = check_value(a, at_a);
    double y = check_value(b, at_b);
    double ex = check_error(a, at_a);
    double ey = check_error(b, at_b);
    if (factors) {
      result.open |= (isinf(x) && check_narrowing_vanishes(factors, y, ey)) ||
                     (isinf(y) && check_narrowing_vanishes(factors, x, ex));
      ex += check_narrowing(factors, x, ex);
      ey += check_narrowing(factors, y, ey);
    }
    result.value += x * y;
    size += (fabs(x) + ex) * (fabs(y) + ey);
    result.size += isfinite(x) && isfinite(y) ? fabs(x * y) : 0.0;
    result.error += ex * fabs(y) + ey * fabs(x) + ex * ey + FLT_MIN * (1.0 + fabs(x) + fabs(y));
  }
  result.error += check_gamma((double)a->extent[3] + 1.0) * (factors ? 2.0 : 1.0) * size;
  return result;
}

/* Adds factor * row to the errors of a result's row, as one term of a sum of `terms`: what the two carry, gamma(terms +
 * 3) of the product. A term that is NaN or infinite makes the result so, which is held against the reference. Returns 1
 * where rounding to `factors` may make NaN of it. */
static int add_term(const check_tensor *result, int64_t at, const check_tensor *row, int64_t at_row, double factor,
                    double error, double scale, int64_t terms, int32_t factors)
{
  const double gamma = check_gamma((double)terms + 3.0) * (factors ? 2.0 : 1.0);
  const int vanishes = factors && check_narrowing_vanishes(factors, factor, fmin(error, 1e300));
  int open = 0;

  error += factors ? check_narrowing(factors, factor, fmin(error, 1e300)) : 0.0;
  for (int64_t i = 0; i < row->extent[3]; i++, at += result->stride[3], at_row += row->stride[3]) {
    double x = fabs(check_value(row, at_row));
    double ex = check_error(row, at_row);
    if (factors) {
      open |= (isinf(x) && vanishes) || (isinf(factor) && check_narrowing_vanishes(factors, x, ex));
      ex += check_narrowing(factors, x, ex);
    }
    result->storage->error[at] +=
        scale * (error * x + (fabs(factor) + error) * ex + gamma * (fabs(factor) + error) * (x + ex)) +
        FLT_MIN * (1.0 + scale) * (1.0 + x + fabs(factor));
  }
  return open;
}

/* One query: w = exp(z - lse), the difference rounded once, exp good to 3 + 2|z - lse| units;
 * dscore = w (f dy . v - delta), delta = dy . y: each product as dot_rows has it, f by a rounding, the difference and
 * the product by one each, and that with the slope of a cap by one more. dq, dk and dv are sums over keys and queries
 * of products with these. Of reduced precision the factors of each product but delta's carry their roundings, f w and
 * dscore too. Returns 1 if a product may overflow in one order and not in another, or be NaN where the rounding of a
 * factor leaves 0. */
static int bound_gradient(const check_values *values, const tsr_line_desc *line, const results *r, const int64_t *at,
                          const score *scores, const double *factor, int64_t n_scores)
{
  check_tensor q = check_tensor_of(values, line->in[0]), k = check_tensor_of(values, line->in[1]);
  check_tensor v = check_tensor_of(values, line->in[2]), y = check_tensor_of(values, line->in[9]);
  check_tensor dy = check_tensor_of(values, line->in[10]), lse = check_tensor_of(values, line->in[11]);
  const int64_t b = at[0], h = at[1], l = at[2], at_lse = check_place(&lse, 0, b, h, l);
  const int64_t query = check_place(&q, b, l, h, 0), at_dy = check_place(&dy, b, l, h, 0);
  const dot_product delta = dot_rows(&dy, at_dy, &y, check_place(&y, b, l, h, 0), 0);
  const double alpha = fabs((double)line->attributes.alpha), f_error = line->in[8] ? CHECK_U : 0.0;
  double largest = delta.size;
  int open = 0;

  for (int64_t s = 0; s < n_scores; s++) {
    if (scores[s].value == -INFINITY) {
      continue;
    }
    double d = scores[s].value - check_value(&lse, at_lse);
    double w = exp(d);
    double w_error = exp(fmin(d + scores[s].error + check_error(&lse, at_lse) + CHECK_U * fabs(d), 700.0)) - w +
                     w * 2.0 * CHECK_U * (3.0 + 2.0 * fabs(d)) + FLT_MIN;
    dot_product p = dot_rows(&dy, at_dy, &v, check_place(&v, b, s, h, 0), r->factors);
    largest = fmax(largest, fmax(1.0, factor[s]) * p.size);
    double inner = factor[s] * p.value - delta.value;
    double error = factor[s] * p.error + delta.error + 2.0 * CHECK_U * (fabs(factor[s] * p.value) + fabs(delta.value));
    double dscore = w * inner;
    error = w * error + w_error * (fabs(inner) + error) + 2.0 * CHECK_U * fabs(dscore) + FLT_MIN * (1.0 + w);
    if (r->dscores.storage) {
      r->dscores.storage->error[check_place(&r->dscores, b, h, l, s)] = error + CHECK_U * fabs(dscore);
    }
    open |= p.open;
    if (scores[s].slope_error > 0.0) {
      error = scores[s].slope * error + scores[s].slope_error * (fabs(dscore) + error) + FLT_MIN;
      dscore *= scores[s].slope;
      error += 2.0 * CHECK_U * fabs(dscore);
    }
    open |= add_term(&r->dq, check_place(&r->dq, b, l, h, 0), &k, check_place(&k, b, s, h, 0), dscore, error, alpha,
                     n_scores, r->factors);
    open |= add_term(&r->dk, check_place(&r->dk, b, s, h, 0), &q, query, dscore, error, alpha, q.extent[1], r->factors);
    open |= add_term(&r->dv, check_place(&r->dv, b, s, h, 0), &dy, at_dy, factor[s] * w,
                     factor[s] * w_error + f_error * factor[s] * w, 1.0, q.extent[1], r->factors);
  }
  return open || largest > FLT_MAX;
}

/* What is not finite is held against the reference; a bound that is not finite is none. */
static void settle(const check_tensor *t)
{
  for (int64_t i = 0; t->storage && i < t->storage->count; i++) {
    double *error = &t->storage->error[i];
    *error = !isfinite(t->storage->value[i]) ? 0.0 : *error < 1e300 ? *error : INFINITY;
  }
}

/* Of a query whose scores or products may overflow nothing is asked, nor of the keys that it sees. */
static void release_gradient(const results *r, const int64_t *at, const check_masking *m, int64_t n_scores)
{
  check_addend addend;

  for (int64_t i = 0; i < r->dq.extent[3]; i++) {
    r->dq.storage->error[check_place(&r->dq, at[0], at[2], at[1], i)] = INFINITY;
  }
  for (int64_t s = 0; s < n_scores; s++) {
    if (!check_masking_at(m, at[0], at[1], at[2], s, &addend)) {
      continue;
    }
    if (r->dscores.storage) {
      r->dscores.storage->error[check_place(&r->dscores, at[0], at[1], at[2], s)] = INFINITY;
    }
    for (int64_t i = 0; i < r->dk.extent[3]; i++) {
      r->dk.storage->error[check_place(&r->dk, at[0], s, at[1], i)] = INFINITY;
    }
    for (int64_t i = 0; i < r->dv.extent[3]; i++) {
      r->dv.storage->error[check_place(&r->dv, at[0], s, at[1], i)] = INFINITY;
    }
  }
}

tsr_status check_bound_attention_gradient(check_values *values, const tsr_line_desc *line)
{
  check_tensor q = check_tensor_of(values, line->in[0]);
  results r = {.factors = factors_of(line),
               .dq = check_tensor_of(values, line->out[0]),
               .dk = check_tensor_of(values, line->out[1]),
               .dv = check_tensor_of(values, line->out[2]),
               .dscores = check_tensor_of(values, line->out[3])};
  check_tensor *const all[] = {&r.dq, &r.dk, &r.dv, &r.dscores};
  check_masking m = masking_of(values, line);
  const int64_t n_scores = r.dk.extent[1];
  tsr_status status = TSR_OK;
  score *scores;
  double *factor;
  int64_t at[3];
  char *open, *query; /* of each query: what release_gradient says */

  for (int64_t i = 0; i < 4 && !status; i++) {
    status = check_errors_clear(all[i]);
    if (!status && all[i]->storage) {
      all[i]->storage->biased |= r.factors != 0;
    }
  }
  if (!status) {
    status = make_room(n_scores, &scores, &factor);
  }
  if (status) {
    return status;
  }
  open = query = calloc((size_t)(q.extent[0] * q.extent[1] * q.extent[2] + 1), 1);
  if (!open) {
    free(scores);
    free(factor);
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of a gradient");
  }
  r.dq.storage->terms = n_scores;
  r.dk.storage->terms = r.dv.storage->terms = q.extent[1];
  for (at[0] = 0; at[0] < q.extent[0]; at[0]++) {
    for (at[1] = 0; at[1] < q.extent[2]; at[1]++) {
      for (at[2] = 0; at[2] < q.extent[1]; at[2]++) {
        *query = query_scores(values, line, &m, at[0], at[1], at[2], scores, n_scores) == SCORES_OVERFLOW;
        drop_factors(values, line, at, &q, n_scores, factor);
        *query |= (char)bound_gradient(values, line, &r, at, scores, factor, n_scores);
        query++;
      }
    }
  }
  for (int64_t i = 0; i < 4; i++) {
    settle(all[i]);
  }
  query = open;
  for (at[0] = 0; at[0] < q.extent[0]; at[0]++) {
    for (at[1] = 0; at[1] < q.extent[2]; at[1]++) {
      for (at[2] = 0; at[2] < q.extent[1]; at[2]++) {
        if (*query++) {
          release_gradient(&r, at, &m, n_scores);
        }
      }
    }
  }
  free(open);
  free(scores);
  free(factor);
  return TSR_OK;
}
