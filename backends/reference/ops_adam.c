/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of Adam or AdamW.
 */
#include "kernel.h"

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
