/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of Adam or AdamW: one pass over the gradient and the states.
 */
#include "rows.h"

typedef struct adam_work {
  const float *gradient;
  int64_t gradient_stride;
  float *p, *m, *v, *average; /* contiguous, of the same extents; average NULL: none */
  float factor;               /* of the gradient */
  float gradient_decay;       /* this times p is part of the gradient */
  float own_decay;            /* this times p is taken off p */
  float rest1, beta2, rest2;  /* 1 - beta1, beta2, 1 - beta2 */
  float rate;                 /* learning rate, with the first moment's correction */
  float correction2, epsilon, average_rate;
} adam_work;

typedef struct element {
  cpu_f32v p, m, v;
} element;

static inline element stepped(const adam_work *work, cpu_f32v gradient, element e)
{
  const cpu_f32v g = cpu_fma(cpu_splat(work->gradient_decay), e.p, gradient * cpu_splat(work->factor));
  e.p = cpu_fma(cpu_splat(-work->own_decay), e.p, e.p);
  e.m = cpu_fma(cpu_splat(work->rest1), g - e.m, e.m);
  e.v = cpu_fma(cpu_splat(work->beta2), e.v, cpu_splat(work->rest2) * g * g);
  const cpu_f32v size = cpu_sqrt(e.v * cpu_splat(work->correction2)) + cpu_splat(work->epsilon);
  e.p -= cpu_splat(work->rate) * e.m / size;
  return e;
}

static void step_all(const adam_work *work, const float *gradient, int64_t at, int64_t n)
{
  float *p = work->p + at, *m = work->m + at, *v = work->v + at, *average = work->average ? work->average + at : NULL;
  const cpu_f32v average_rate = cpu_splat(work->average_rate);
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    const element e =
        stepped(work, cpu_load(gradient + i), (element){cpu_load(p + i), cpu_load(m + i), cpu_load(v + i)});
    cpu_store(p + i, e.p);
    cpu_store(m + i, e.m);
    cpu_store(v + i, e.v);
    if (average) {
      const cpu_f32v a = cpu_load(average + i);
      cpu_store(average + i, cpu_fma(average_rate, e.p - a, a));
    }
  }
  if (i < n) {
    const int64_t rest = n - i;
    const element old = {cpu_load_part(p + i, rest, 0.0f), cpu_load_part(m + i, rest, 0.0f),
                         cpu_load_part(v + i, rest, 0.0f)};
    const element e = stepped(work, cpu_load_part(gradient + i, rest, 0.0f), old);
    cpu_store_part(p + i, e.p, rest);
    cpu_store_part(m + i, e.m, rest);
    cpu_store_part(v + i, e.v, rest);
    if (average) {
      const cpu_f32v a = cpu_load_part(average + i, rest, 0.0f);
      cpu_store_part(average + i, cpu_fma(average_rate, e.p - a, a), rest);
    }
  }
}

static void step_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  enum { PART = 512 };
  const adam_work *work = context;
  const float *gradient = work->gradient + at[0];
  float room[PART];
  if (work->gradient_stride == 1) {
    step_all(work, gradient, at[1], n);
    return;
  }
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t part = n - i < PART ? n - i : PART;
    step_all(work, cpu_side_by_side(gradient + i * work->gradient_stride, work->gradient_stride, part, room), at[1] + i,
             part);
  }
}

void cpu_run_adam(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *gradient = &line->in[0], *control = &line->in[1], *norm = &line->in[2], *parameter = &line->out[0];
  const tsr_op_attributes *attributes = &line->attributes;
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){gradient, parameter}, 2);
  float c[5], clip = 1.0f;
  assert(gradient->dtype == TSR_F32 && parameter->dtype == TSR_F32 && walk.stride[1][0] == 1);
  assert(control->dtype == TSR_F32 && control->rank == 1 && control->extent[0] == 5);
  for (int64_t i = 0; i < 5; i++) {
    c[i] = ((const float *)control->data)[i * control->stride[0]];
  }
  if (cpu_present(norm)) {
    const float squares = *(const float *)norm->data;
    if (!isfinite(squares)) {
      return;
    }
    if (attributes->max_norm > 0.0f) {
      clip = fminf(1.0f, attributes->max_norm / (sqrtf(squares) * fabsf(c[3]) + 1e-6f));
    }
  }
  const adam_work work = {
      .gradient = gradient->data,
      .gradient_stride = walk.stride[0][0],
      .p = parameter->data,
      .m = line->out[1].data,
      .v = line->out[2].data,
      .average = cpu_present(&line->out[3]) ? line->out[3].data : NULL,
      .factor = c[3] * clip,
      .gradient_decay = attributes->decoupled ? 0.0f : attributes->decay,
      .own_decay = attributes->decoupled ? c[0] * attributes->decay : 0.0f,
      .rest1 = (float)(1.0 - (double)attributes->beta1),
      .beta2 = attributes->beta2,
      .rest2 = (float)(1.0 - (double)attributes->beta2),
      .rate = c[0] * c[1],
      .correction2 = c[2],
      .epsilon = attributes->epsilon,
      .average_rate = c[4],
  };
  cpu_walk_all(&walk, team, 40.0 / CPU_LANES, step_run, &work);
}
