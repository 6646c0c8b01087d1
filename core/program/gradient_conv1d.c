/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of conv1d, y[b, t, o] = sum_{k, i} x[b, stride t + k, i] weight[o, k, i] + bias[o], by operators that
 * there are: dx is a convolution of dy for each remainder of a row's number by the stride, dweight a product of dy with
 * the windows of x.
 */
#include "core/program/program.h"

/* Tensors that become one along an axis, however many they are. */
typedef struct pieces {
  tsr_ref piece[TSR_MAX_INPUTS];
  int32_t n, axis;
} pieces;

static tsr_ref join(tsr_program *program, const pieces *all)
{
  return all->n == 1 ? all->piece[0] : tsr_concat(program, all->piece, all->n, all->axis);
}

static void add(tsr_program *program, pieces *all, tsr_ref piece)
{
  if (all->n == TSR_MAX_INPUTS) {
    all->piece[0] = join(program, all);
    all->n = 1;
  }
  all->piece[all->n++] = piece;
}

static int is_empty(const tsr_shape *shape)
{
  return tsr_shape_elements(shape) == 0;
}

/* The windows of x, a row each: [B windows, K I]. */
static tsr_ref windows_of(tsr_program *program, const tsr_line_desc *line, int64_t windows, int64_t kernel)
{
  const tsr_tensor_desc x = program->tensors[line->in[0]];
  const int64_t width = x.extent[2];
  pieces rows = {.axis = 2};
  for (int64_t k = 0; k < kernel; k++) { /* row k of each */
    tsr_tensor_desc view = x;
    view.offset += k * width;
    view.extent[1] = windows;
    view.stride[1] = windows > 1 ? line->attributes.stride * width : width;
    add(program, &rows, tsr_program_view(program, &view));
  }
  const tsr_ref joined = join(program, &rows);
  return program->status == TSR_OK ? tsr_program_as_rows(program, joined, kernel * width) : TSR_INVALID;
}

static tsr_ref weight_gradient(tsr_program *program, const tsr_line_desc *line, tsr_ref dy)
{
  const tsr_shape weight = tsr_ref_shape(program, line->in[1]), y = tsr_ref_shape(program, dy);
  if (is_empty(&weight)) {
    return tsr_copy(program, line->in[1], TSR_F32);
  }
  const tsr_ref windows = windows_of(program, line, y.extent[1], weight.extent[1]);
  if (windows == TSR_INVALID) {
    return windows;
  }
  const tsr_ref rows = tsr_program_as_rows(program, dy, y.extent[2]);
  return tsr_reshape(program, tsr_product(program, tsr_transpose(program, rows, 0, 1), windows), weight);
}

/* Rows `phase`, phase + step, .. of dx, so many of them: row j is the sum of dy[j - q] weight[q step + phase] over q,
 * a convolution of dy with every step-th row of the kernel, the last one first. */
static tsr_ref phase_of(tsr_program *program, tsr_ref weight, tsr_ref dy, int64_t phase, int64_t step, int64_t rows)
{
  const int64_t kernel = tsr_ref_shape(program, weight).extent[1], windows = tsr_ref_shape(program, dy).extent[1];
  const int64_t taps = (kernel - 1 - phase) / step + 1;
  pieces turned = {.axis = 1};
  for (int64_t q = taps - 1; q >= 0; q--) {
    const tsr_ref row = tsr_slice(program, weight, 1, q * step + phase, 1);
    add(program, &turned, tsr_transpose(program, row, 0, 2));
  }
  const tsr_ref sums = tsr_conv1d(program, dy, join(program, &turned), TSR_NONE, 1, (int32_t)(taps - 1));
  const int64_t rest = rows - (windows + taps - 1); /* that no window reaches */
  if (rest == 0 || sums == TSR_INVALID) {
    return sums;
  }
  return tsr_concat(program, (const tsr_ref[]){sums, tsr_program_zero_rows(program, sums, rest)}, 2, 1);
}

static tsr_ref x_gradient(tsr_program *program, const tsr_line_desc *line, tsr_ref dy)
{
  const tsr_shape x = tsr_ref_shape(program, line->in[0]), weight = tsr_ref_shape(program, line->in[1]);
  const int64_t batch = x.extent[0], time = x.extent[1], width = x.extent[2], kernel = weight.extent[1];
  /* A longer step than there are rows has one window, as this one has. */
  const int64_t step = line->attributes.stride < time ? line->attributes.stride : time;
  const int64_t rows = (time + step - 1) / step, reached = kernel < step ? kernel : step;
  if (is_empty(&x)) {
    return tsr_copy(program, line->in[0], TSR_F32);
  }
  const int is_wide = tsr_ref_dtype(program, line->in[1]) == TSR_F32;
  const tsr_ref factors = is_wide ? line->in[1] : tsr_copy(program, line->in[1], TSR_F32);
  pieces phases = {.axis = 2};
  for (int64_t phase = 0; phase < reached && program->status == TSR_OK; phase++) {
    const tsr_ref sums = phase_of(program, factors, dy, phase, step, rows);
    add(program, &phases, tsr_reshape(program, sums, TSR_SHAPE(batch, rows, 1, width)));
  }
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  if (reached < step) {
    const tsr_ref zero =
        tsr_reshape(program, tsr_program_zero_rows(program, line->in[0], 1), TSR_SHAPE(batch, 1, 1, width));
    add(program, &phases, tsr_expand(program, zero, TSR_SHAPE(batch, rows, step - reached, width)));
  }
  return tsr_slice(program, tsr_reshape(program, join(program, &phases), TSR_SHAPE(batch, rows * step, width)), 1, 0,
                   time);
}

void tsr_gradient_conv1d(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  const tsr_ref dy = call->out[0];
  call->in[2] = dy;
  if (call->wanted[0]) {
    call->in[0] = x_gradient(program, line, dy);
  }
  if (call->wanted[1] && program->status == TSR_OK) {
    call->in[1] = weight_gradient(program, line, dy);
  }
}
