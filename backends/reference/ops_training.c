/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss and its gradient, the norm of the gradients, the optimiser.
 */
#include "kernel.h"

/* The part of row t's probability that the target gives to v. */
static double target(const ref_line *line, int64_t label, int64_t v)
{
  const double smoothing = line->attributes.smoothing, V = (double)line->in[0].extent[1];
  return (v == label ? 1 - smoothing : 0) + smoothing / V;
}

void ref_cross_entropy(const ref_line *line)
{
  const ref_tensor *logits = &line->in[0], *labels = &line->in[1], *loss = &line->out[0], *lse = &line->out[1];
  const int64_t T = logits->extent[0], V = logits->extent[1];
  double *z = line->scratch;

  assert(logits->dtype == TSR_F32 && logits->rank == 2 && V >= 1);
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == T);
  assert(loss->rank == 1 && loss->extent[0] == T && ref_same_extents(lse, loss));

  for (int64_t t = 0; t < T; t++) {
    const int64_t label = ref_i32(labels, t * labels->stride[0]);
    double sum = 0;
    ref_widen_row(logits, t * logits->stride[0], logits->stride[1], V, z);
    const double log_sum = ref_softmax_row(z, V);
    for (int64_t v = 0; v < V && label >= 0 && label < V; v++) {
      const double share = target(line, label, v),
                   logit = ref_f32(logits, t * logits->stride[0] + v * logits->stride[1]);
      const double log_probability = log_sum == -INFINITY ? -INFINITY : logit - log_sum;
      if (share > 0) {
        sum += share * log_probability;
      }
    }
    ref_set_f32(loss, t * loss->stride[0], 0.0 - sum);
    ref_set_f32(lse, t * lse->stride[0], log_sum);
  }
}

void ref_cross_entropy_gradient(const ref_line *line)
{
  const ref_tensor *logits = &line->in[0], *labels = &line->in[1], *lse = &line->in[2], *dloss = &line->in[3];
  const ref_tensor *dlogits = &line->out[0];
  const int64_t T = logits->extent[0], V = logits->extent[1];

  assert(logits->dtype == TSR_F32 && logits->rank == 2 && ref_same_extents(logits, dlogits));
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == T);
  assert(ref_same_extents(lse, labels) && ref_same_extents(dloss, labels));

  for (int64_t t = 0; t < T; t++) {
    const int64_t label = ref_i32(labels, t * labels->stride[0]);
    const double log_sum = ref_f32(lse, t * lse->stride[0]), dy = ref_f32(dloss, t * dloss->stride[0]);
    for (int64_t v = 0; v < V; v++) {
      const double logit = ref_f32(logits, t * logits->stride[0] + v * logits->stride[1]);
      const double value = label < 0 || label >= V ? 0.0 : dy * (exp(logit - log_sum) - target(line, label, v));
      ref_set_f32(dlogits, t * dlogits->stride[0] + v * dlogits->stride[1], value);
    }
  }
}

void ref_sum_of_squares(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *plus = &line->in[1], *y = &line->out[0];
  double sum = 0;

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && y->rank == 1 && y->extent[0] == 1);
  assert(!ref_present(plus) || ref_same_extents(plus, y));

  for (int64_t e = 0; e < ref_count(x, x->rank); e++) {
    const double xe = ref_f32(x, ref_at(x, x->rank, e));
    sum += xe * xe;
  }
  ref_set_f32(y, 0, ref_present(plus) ? sum + ref_f32(plus, 0) : sum);
}

void ref_adam(const ref_line *line)
{
  const ref_tensor *gradient = &line->in[0], *control = &line->in[1], *norm = &line->in[2];
  const ref_tensor *parameter = &line->out[0], *moment1 = &line->out[1], *moment2 = &line->out[2];
  const ref_tensor *average = &line->out[3];
  const tsr_op_attributes *attributes = &line->attributes;
  double c[5], clip = 1;

  assert(gradient->dtype == TSR_F32 && ref_same_extents(gradient, parameter));
  assert(ref_same_extents(gradient, moment1) && ref_same_extents(gradient, moment2));
  assert(!ref_present(average) || ref_same_extents(gradient, average));
  assert(control->dtype == TSR_F32 && control->rank == 1 && control->extent[0] == 5);

  for (int32_t i = 0; i < 5; i++) {
    c[i] = ref_f32(control, i * control->stride[0]);
  }
  if (ref_present(norm)) {
    const double sum_of_squares = ref_f32(norm, 0);
    if (!isfinite(sum_of_squares)) {
      return;
    }
    if (attributes->max_norm > 0) {
      clip = fmin(1.0, attributes->max_norm / (sqrt(sum_of_squares) * fabs(c[3]) + 1e-6));
    }
  }
  for (int64_t e = 0; e < ref_count(gradient, gradient->rank); e++) {
    const int64_t p_at = ref_at(parameter, parameter->rank, e), m_at = ref_at(moment1, moment1->rank, e);
    const int64_t v_at = ref_at(moment2, moment2->rank, e);
    double g = ref_f32(gradient, ref_at(gradient, gradient->rank, e)) * c[3] * clip;
    double p = ref_f32(parameter, p_at), m = ref_f32(moment1, m_at), v = ref_f32(moment2, v_at);
    if (attributes->decoupled) {
      p -= c[0] * attributes->decay * p;
    } else {
      g += attributes->decay * p;
    }
    m += (1.0 - attributes->beta1) * (g - m);
    v = attributes->beta2 * v + (1.0 - attributes->beta2) * g * g;
    p -= c[0] * c[1] * m / (sqrt(v * c[2]) + attributes->epsilon);
    ref_set_f32(parameter, p_at, p);
    ref_set_f32(moment1, m_at, m);
    ref_set_f32(moment2, v_at, v);
    if (ref_present(average)) {
      const int64_t average_at = ref_at(average, average->rank, e);
      const double a = ref_f32(average, average_at);
      ref_set_f32(average, average_at, a + c[4] * (p - a));
    }
  }
}
