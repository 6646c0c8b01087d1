/* SPDX-License-Identifier: Apache-2.0
 *
 * y[b, t, o] = sum_{k, i} x[b, stride t + k, i] weight[o, k, i] + bias[o]
 *
 * A window of K rows of x lies in memory as one row of K I elements, and the next window begins stride I elements
 * behind it. So the convolution is a product of x, seen as these rows, with the weight, each of whose rows is a column.
 */
#include "kernel.h"

int32_t cpu_prepare_conv1d(cpu_line *line, cpu_preparation *preparation)
{
  cpu_tensor *x = &line->in[0], *weight = &line->in[1];
  const int64_t O = weight->extent[0], width = weight->extent[2], depth = weight->extent[1] * width;
  const int64_t next = line->attributes.stride * width;
  const int64_t windows = line->out[0].extent[1];
  assert(x->rank == 3 && weight->rank == 3 && x->extent[2] == width);
  x->extent[1] = windows;
  x->stride[1] = windows > 1 ? next : 0;
  x->extent[2] = depth;
  x->stride[2] = depth > 1;
  weight->stride[2] = weight->stride[0];
  weight->extent[2] = O;
  weight->extent[1] = depth;
  weight->stride[1] = depth > 1;
  weight->extent[0] = x->extent[0];
  weight->stride[0] = 0;
  line->attributes.alpha = 1.0f;
  line->attributes.activation = TSR_ACTIVATION_NONE;
  line->attributes.reduced_precision = 0;
  return cpu_prepare_matmul(line, preparation);
}
