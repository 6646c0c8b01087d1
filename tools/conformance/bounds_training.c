/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of what training needs beside gradients: dropout, the loss, the norm of the gradients, the optimiser.
 */
#include "tessera/philox.h"
#include "tools/conformance/bounds.h"

double check_drop_factor(const check_values *values, int32_t seed, const tsr_op_attributes *attributes, int64_t element)
{
  const double threshold = fmin(rint(65536.0 * (double)attributes->rate), 65535.0);
  check_tensor pair = check_tensor_of(values, seed);
  uint32_t counter[4] = {0, 0, (uint32_t)attributes->stream, 0}, key[2], word[4];
  uint64_t block = (uint64_t)element / 8;
  int32_t half = (int32_t)(element % 8);

  if (!pair.storage) {
    return 1.0;
  }
  key[0] = (uint32_t)check_integer(&pair, check_place(&pair, 0, 0, 0, 0));
  key[1] = (uint32_t)check_integer(&pair, check_place(&pair, 0, 0, 0, 1));
  counter[0] = (uint32_t)block;
  counter[1] = (uint32_t)(block >> 32);
  tsr_philox4x32(counter, key, word);
  return (double)(word[half / 2] >> 16 * (half % 2) & 0xffffu) >= threshold
             ? (double)(float)(65536.0 / (65536.0 - threshold))
             : 0.0;
}

/* y = factor x: one rounding on each side, none where the factor is 0 or 1; a subnormal may count as zero. */
tsr_status check_bound_dropout(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&y);
  int64_t i[4];

  for (int64_t e = 0; e < check_count(&y) && !status; e++) {
    check_index(&y, e, i);
    double factor = check_drop_factor(values, line->in[1], &line->attributes, e);
    double value = check_value(&x, check_at(&x, i));
    int64_t at = check_at(&y, i);
    double error = factor * check_error(&x, check_at(&x, i));
    error += factor == 0.0 || factor == 1.0 ? 0.0 : 2.0 * CHECK_U * (fabs(check_value(&y, at)) + error);
    error += factor > 0.0 && fabs(value) < FLT_MIN ? factor * fabs(value) + FLT_TRUE_MIN : 0.0;
    y.storage->error[at] = isfinite(check_value(&y, at)) ? error : 0.0;
  }
  return status;
}

/* loss = lse - (1 - smoothing) z[label] - smoothing / V sum z.
 *
 * lse errs as in log_softmax; the rest may be summed as z, z - max or z - lse, in any order: gamma(V + 4) of the mean
 * of |z| + |lse|, times smoothing, and a few roundings of the other terms. */
tsr_status check_bound_cross_entropy(check_values *values, const tsr_line_desc *line)
{
  check_tensor logits = check_tensor_of(values, line->in[0]);
  check_tensor labels = check_tensor_of(values, line->in[1]);
  check_tensor loss = check_tensor_of(values, line->out[0]);
  check_tensor lse = check_tensor_of(values, line->out[1]);
  const int64_t T = logits.extent[2], V = logits.extent[3];
  const double smoothing = (double)line->attributes.smoothing;
  double carried, size, z;
  tsr_status status = check_errors_clear(&loss);

  if (!status) {
    status = check_errors_clear(&lse);
  }
  if (status) {
    return status;
  }
  loss.storage->terms = lse.storage->terms = V;
  for (int64_t t = 0; t < T; t++) {
    check_log_sum row = check_log_sum_of(&logits, 0, 0, t);
    if (row.special) {
      continue;
    }
    double total = fabs(row.max) + row.logarithm;
    double error = row.worst + row.error + 2.0 * CHECK_U * total + FLT_MIN;
    lse.storage->error[check_place(&lse, 0, 0, 0, t)] = error;
    int64_t label = check_integer(&labels, check_place(&labels, 0, 0, 0, t));
    int64_t at = check_place(&loss, 0, 0, 0, t);
    if (label < 0 || label >= V || !isfinite(check_value(&loss, at))) {
      continue;
    }
    carried = size = 0.0;
    for (int64_t v = 0; v < V && smoothing > 0.0; v++) {
      z = fabs(check_value(&logits, check_place(&logits, 0, 0, t, v)));
      carried += check_error(&logits, check_place(&logits, 0, 0, t, v)) / (double)V;
      size += (z + total) / (double)V;
    }
    z = fabs(check_value(&logits, check_place(&logits, 0, 0, t, label)));
    error += smoothing * (carried + check_gamma((double)V + 4.0) * size);
    error += (1.0 - smoothing) * (check_error(&logits, check_place(&logits, 0, 0, t, label)) + 4.0 * CHECK_U * z);
    loss.storage->error[at] = error + 4.0 * CHECK_U * (total + z) + FLT_MIN;
  }
  return TSR_OK;
}

/* dlogits = dloss (exp(z - lse) - target): the difference rounds once, exp errs by 3 + 2|z - lse| units, the target by
 * a division and two roundings; a difference and a product follow. */
tsr_status check_bound_cross_entropy_gradient(check_values *values, const tsr_line_desc *line)
{
  check_tensor logits = check_tensor_of(values, line->in[0]);
  check_tensor labels = check_tensor_of(values, line->in[1]);
  check_tensor lse = check_tensor_of(values, line->in[2]);
  check_tensor dloss = check_tensor_of(values, line->in[3]);
  check_tensor dlogits = check_tensor_of(values, line->out[0]);
  const int64_t T = logits.extent[2], V = logits.extent[3];
  const double smoothing = (double)line->attributes.smoothing;
  tsr_status status = check_errors_clear(&dlogits);
  double e, error;

  for (int64_t t = 0; t < T && !status; t++) {
    int64_t label = check_integer(&labels, check_place(&labels, 0, 0, 0, t));
    double outer = fabs(check_value(&dloss, check_place(&dloss, 0, 0, 0, t)));
    double carried = check_error(&dloss, check_place(&dloss, 0, 0, 0, t));
    for (int64_t v = 0; v < V && label >= 0 && label < V; v++) {
      int64_t at = check_place(&dlogits, 0, 0, t, v);
      if (!isfinite(check_value(&dlogits, at))) {
        continue;
      }
      double d =
          check_value(&logits, check_place(&logits, 0, 0, t, v)) - check_value(&lse, check_place(&lse, 0, 0, 0, t));
      double target = (v == label ? 1.0 - smoothing : 0.0) + smoothing / (double)V;
      e = error = 0.0;
      if (d > -INFINITY) {
        e = exp(d);
        double delta = check_error(&logits, check_place(&logits, 0, 0, t, v)) +
                       check_error(&lse, check_place(&lse, 0, 0, 0, t)) + CHECK_U * fabs(d);
        error = exp(fmin(d + delta, 700.0)) - e + e * 2.0 * CHECK_U * (3.0 + 2.0 * fabs(d)) + FLT_MIN;
      }
      error += 8.0 * CHECK_U * target + CHECK_U * (e + target);
      error = outer * error + carried * (fabs(e - target) + error);
      error += 2.0 * CHECK_U * (fabs(check_value(&dlogits, at)) + error) + FLT_MIN * (2.0 + outer);
      dlogits.storage->error[at] = e > 1e38 ? INFINITY : error;
    }
  }
  return status;
}

tsr_status check_bound_sum_of_squares(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor plus = check_tensor_of(values, line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&y);
  check_sum sum = {0};
  int64_t i[4];

  if (status) {
    return status;
  }
  for (int64_t e = 0; e < check_count(&x); e++) {
    check_index(&x, e, i);
    double value = fabs(check_value(&x, check_at(&x, i)));
    double error = check_error(&x, check_at(&x, i));
    check_sum_add(&sum, value * value, 2.0 * value * error + error * error);
  }
  if (plus.storage) {
    check_sum_add(&sum, check_value(&plus, plus.offset), check_error(&plus, plus.offset));
  }
  y.storage->terms = sum.terms;
  y.storage->biased |= check_is_repeated(&x, x.extent);
  y.storage->error[y.offset] = sum.special ? 0.0 : check_sum_error(&sum, 1.0);
  return TSR_OK;
}

/* One state of adam before the run, and how far from it a device may have been then. */
typedef struct moment {
  double value, error;
} moment;

static moment before(const check_tensor *state, int64_t at)
{
  return (moment){(double)state->storage->before[at], check_error(state, at)};
}

/* alpha x + beta y, by a few roundings of each term; what the terms carry goes along. Either way to write a mean of
 * two, alpha x + (1 - alpha) y and x + (1 - alpha) (y - x), is within. */
static moment combine(double alpha, moment x, double beta, moment y)
{
  moment result = {alpha * x.value + beta * y.value, fabs(alpha) * x.error + fabs(beta) * y.error};

  result.error += CHECK_U * (4.0 * fabs(beta) * (fabs(x.value) + fabs(y.value)) + 4.0 * fabs(alpha * x.value));
  result.error += FLT_MIN * (2.0 + fabs(alpha) + fabs(beta));
  return result;
}

/* sqrt(v c2) + epsilon; a square root errs by inversesqrt's 2 units and a division's 2.5. */
static moment denominator(moment v, double c2, double epsilon)
{
  const double w = v.value * c2, e = (v.error + 2.0 * CHECK_U * fabs(v.value)) * fabs(c2) + FLT_MIN;
  moment result = {sqrt(w) + epsilon, sqrt(w + e) - sqrt(w > e ? w - e : 0.0)};

  result.error += 12.0 * CHECK_U * sqrt(w + e) + CHECK_U * result.value;
  return result;
}

/* The factor of the gradient: c3 clip, and its relative error. A square root as above, a division, two roundings. */
static double gradient_factor(const check_tensor *norm, double c3, double max_norm, double *relative)
{
  *relative = 2.0 * CHECK_U;
  if (!norm->storage || max_norm <= 0.0) {
    return c3;
  }
  double value = check_value(norm, norm->offset);
  double carried = check_error(norm, norm->offset);
  double factor = max_norm / (sqrt(value) * fabs(c3) + 1e-6);
  if (factor * (1.0 - 32.0 * CHECK_U) < 1.0 || carried > 0.0) {
    *relative += 24.0 * CHECK_U + (value > 0.0 ? carried / value : 0.0);
  }
  return c3 * fmin(1.0, factor);
}

tsr_status check_bound_adam(check_values *values, const tsr_line_desc *line)
{
  const tsr_op_attributes *attributes = &line->attributes;
  check_tensor gradient = check_tensor_of(values, line->in[0]);
  check_tensor control = check_tensor_of(values, line->in[1]);
  check_tensor norm = check_tensor_of(values, line->in[2]);
  check_tensor state[4];
  double c[5], relative;
  moment g, step;
  tsr_status status = TSR_OK;
  int64_t i[4];

  for (int32_t k = 0; k < 4; k++) {
    state[k] = check_tensor_of(values, line->out[k]);
    status = status || !state[k].storage ? status : check_errors_init(&state[k]);
  }
  if (status || (norm.storage && !isfinite(check_value(&norm, norm.offset)))) {
    return status; /* nothing changes */
  }
  for (int32_t k = 0; k < 5; k++) {
    c[k] = check_value(&control, check_place(&control, 0, 0, 0, k));
  }
  double factor = gradient_factor(&norm, c[3], (double)attributes->max_norm, &relative);
  for (int64_t e = 0; e < check_count(&gradient); e++) {
    check_index(&gradient, e, i);
    int64_t at = check_at(&gradient, i);
    g.value = factor * check_value(&gradient, at);
    g.error = fabs(factor) * check_error(&gradient, at) + relative * fabs(g.value) + FLT_MIN * (1.0 + fabs(factor));
    moment p = before(&state[0], check_at(&state[0], i));
    if (attributes->decoupled) {
      p = combine(1.0, p, -c[0] * (double)attributes->decay, p);
    } else if (attributes->decay > 0.0f) {
      g = combine(1.0, g, (double)attributes->decay, p);
    }
    moment m = combine((double)attributes->beta1, before(&state[1], check_at(&state[1], i)),
                       1.0 - (double)attributes->beta1, g);
    double square = g.value * g.value;
    moment v =
        combine((double)attributes->beta2, before(&state[2], check_at(&state[2], i)), 1.0 - (double)attributes->beta2,
                (moment){square, 2.0 * fabs(g.value) * g.error + g.error * g.error + 2.0 * CHECK_U * square});
    moment below = denominator(v, c[2], (double)attributes->epsilon);
    double rate = c[0] * c[1];
    step.value = m.value / below.value;
    step.error = below.value > below.error
                     ? (m.error + fabs(m.value) * below.error / below.value) / (below.value - below.error)
                     : INFINITY;
    step.error += 6.0 * CHECK_U * fabs(step.value) + FLT_MIN;
    p = combine(1.0, p, -rate, step);
    moment average = p;
    if (state[3].storage) {
      average = combine(1.0 - c[4], before(&state[3], check_at(&state[3], i)), c[4], p);
    }
    const moment after[] = {p, m, v, average};
    for (int32_t k = 0; k < 4; k++) {
      if (state[k].storage) {
        at = check_at(&state[k], i);
        /* the reference's rounding; where a square may overflow all is open */
        state[k].storage->error[at] = after[k].error + 2.0 * CHECK_U * fabs(after[k].value);
        state[k].storage->error[at] = !isfinite(check_value(&state[k], at)) ? 0.0 : state[k].storage->error[at];
        state[k].storage->error[at] = square > FLT_MAX ? INFINITY : state[k].storage->error[at];
      }
    }
  }
  return TSR_OK;
}
