/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: other extents and strides over the same elements.
 */
#include "core/program/program.h"

int tsr_shape_broadcast(const tsr_shape *a, const tsr_shape *b, tsr_shape *out)
{
  int32_t rank = a->rank > b->rank ? a->rank : b->rank;
  *out = tsr_shape_make(0, NULL);
  out->rank = rank;
  for (int32_t i = 0; i < rank; i++) {
    int32_t ia = i - (rank - a->rank), ib = i - (rank - b->rank);
    int64_t ea = ia < 0 ? 1 : a->extent[ia], eb = ib < 0 ? 1 : b->extent[ib];
    if (ea != eb && ea != 1 && eb != 1) {
      return 0;
    }
    out->extent[i] = ea == 1 ? eb : ea;
  }
  return 1;
}

tsr_ref tsr_program_expand(tsr_program *program, tsr_ref x, const tsr_shape *shape)
{
  const tsr_tensor_desc *from = &program->tensors[x];
  tsr_shape own = tsr_tensor_shape(from);
  if (tsr_shape_equal(&own, shape)) {
    return x;
  }
  if (from->rank > shape->rank) {
    return TSR_INVALID;
  }
  tsr_tensor_desc view = *from;
  view.rank = shape->rank;
  for (int32_t i = 0; i < TSR_MAX_RANK; i++) {
    int32_t j = i - (shape->rank - from->rank);
    int64_t extent = j < 0 || i >= shape->rank ? 1 : from->extent[j];
    view.extent[i] = i < shape->rank ? shape->extent[i] : 1;
    view.stride[i] = i >= shape->rank || extent == 1 ? 0 : from->stride[j];
    if (i < shape->rank && extent != 1 && extent != shape->extent[i]) {
      return TSR_INVALID;
    }
  }
  return tsr_program_view(program, &view);
}

tsr_ref tsr_expand(tsr_program *program, tsr_ref x, tsr_shape shape)
{
  if (!tsr_program_has(program, 0, x)) {
    return TSR_INVALID;
  }
  char from[128], to[128];
  tsr_shape own = tsr_tensor_shape(&program->tensors[x]);
  if (!tsr_program_allows(program, 0, "expand", &shape)) {
    return TSR_INVALID;
  }
  tsr_ref view = tsr_program_expand(program, x, &shape);
  if (view == TSR_INVALID) {
    return tsr_program_fail(program, 0, TSR_ERR_SHAPE, "expand: %s does not broadcast to %s",
                            tsr_shape_print(&own, from, sizeof from), tsr_shape_print(&shape, to, sizeof to));
  }
  return view;
}

/* The strides under which the elements of `from` appear in row-major order with the extents of `shape`; 0 if there are
 * none. Both have the same number of elements, at least 1. Groups of axes with equal products are matched, outermost
 * first; within a group the old axes must be one run of memory. */
static int reshaped_strides(const tsr_tensor_desc *from, const tsr_shape *shape, int64_t *stride)
{
  int64_t extent_old[TSR_MAX_RANK], stride_old[TSR_MAX_RANK];
  int32_t n_old = 0;
  for (int32_t i = 0; i < from->rank; i++) {
    if (from->extent[i] == 1) {
      continue;
    }
    extent_old[n_old] = from->extent[i];
    stride_old[n_old++] = from->stride[i];
  }
  int32_t old_first = 0, new_first = 0;
  while (old_first < n_old && new_first < shape->rank) {
    int32_t old_end = old_first + 1, new_end = new_first + 1;
    int64_t old_product = extent_old[old_first], new_product = shape->extent[new_first];
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= extent_old[old_end++];
      } else {
        new_product *= shape->extent[new_end++];
      }
    }
    for (int32_t i = old_first; i + 1 < old_end; i++) {
      if (stride_old[i] != stride_old[i + 1] * extent_old[i + 1]) {
        return 0;
      }
    }
    int64_t step = stride_old[old_end - 1];
    for (int32_t i = new_end - 1; i >= new_first; i--) {
      stride[i] = step;
      step *= shape->extent[i];
    }
    old_first = old_end;
    new_first = new_end;
  }
  for (int32_t i = new_first; i < shape->rank; i++) {
    stride[i] = 0; /* what is left has extent 1 */
  }
  return 1;
}

tsr_ref tsr_program_reshape(tsr_program *program, tsr_ref x, const tsr_shape *shape)
{
  const tsr_tensor_desc *from = &program->tensors[x];
  tsr_shape own = tsr_tensor_shape(from);
  int64_t elements = tsr_shape_elements(shape);
  if (elements < 0 || elements != tsr_shape_elements(&own)) {
    return TSR_INVALID;
  }
  tsr_tensor_desc view = *from;
  view.rank = shape->rank;
  for (int32_t i = 0; i < TSR_MAX_RANK; i++) {
    view.extent[i] = i < shape->rank ? shape->extent[i] : 1;
    view.stride[i] = 0;
  }
  if (elements > 0 && !reshaped_strides(from, shape, view.stride)) {
    return TSR_INVALID;
  }
  return tsr_program_view(program, &view);
}

tsr_ref tsr_reshape(tsr_program *program, tsr_ref x, tsr_shape shape)
{
  if (!tsr_program_has(program, 0, x) || !tsr_program_allows(program, 0, "reshape", &shape)) {
    return TSR_INVALID;
  }
  tsr_ref view = tsr_program_reshape(program, x, &shape);
  if (view != TSR_INVALID) {
    return view;
  }
  char from[128], to[128];
  tsr_shape own = tsr_tensor_shape(&program->tensors[x]);
  int same_size = tsr_shape_elements(&own) == tsr_shape_elements(&shape);
  return tsr_program_fail(program, 0, TSR_ERR_SHAPE, "reshape: %s cannot be seen as %s: %s",
                          tsr_shape_print(&own, from, sizeof from), tsr_shape_print(&shape, to, sizeof to),
                          same_size ? "no strides express it, copy it first" : "the numbers of elements differ");
}

tsr_ref tsr_permute(tsr_program *program, tsr_ref x, const int32_t *order)
{
  if (!tsr_program_has(program, 0, x)) {
    return TSR_INVALID;
  }
  if (!order) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_permute: order must not be NULL");
  }
  const tsr_tensor_desc *from = &program->tensors[x];
  tsr_tensor_desc view = *from;
  uint32_t seen = 0;
  for (int32_t i = 0; i < from->rank; i++) {
    if (order[i] < 0 || order[i] >= from->rank || (seen & 1u << order[i])) {
      return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "permute: the order is no permutation of %d axes",
                              from->rank);
    }
    seen |= 1u << order[i];
    view.extent[i] = from->extent[order[i]];
    view.stride[i] = from->stride[order[i]];
  }
  return tsr_program_view(program, &view);
}

/* An axis counted from the front; -1 after an error. */
static int32_t axis_of(tsr_program *program, const char *what, int32_t rank, int32_t axis)
{
  int32_t counted = axis < 0 ? axis + rank : axis;
  if (counted >= 0 && counted < rank) {
    return counted;
  }
  tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "%s: a tensor of rank %d has no axis %d", what, rank, axis);
  return -1;
}

tsr_ref tsr_transpose(tsr_program *program, tsr_ref x, int32_t axis_a, int32_t axis_b)
{
  if (!tsr_program_has(program, 0, x)) {
    return TSR_INVALID;
  }
  int32_t rank = program->tensors[x].rank;
  int32_t a = axis_of(program, "transpose", rank, axis_a), b = axis_of(program, "transpose", rank, axis_b);
  if (a < 0 || b < 0) {
    return TSR_INVALID;
  }
  int32_t order[TSR_MAX_RANK] = {0, 1, 2, 3};
  order[a] = b;
  order[b] = a;
  return tsr_permute(program, x, order);
}

tsr_ref tsr_slice(tsr_program *program, tsr_ref x, int32_t axis, int64_t start, int64_t count)
{
  if (!tsr_program_has(program, 0, x)) {
    return TSR_INVALID;
  }
  tsr_tensor_desc view = program->tensors[x];
  int32_t at = axis_of(program, "slice", view.rank, axis);
  if (at < 0) {
    return TSR_INVALID;
  }
  if (start < 0 || count < 0 || start > view.extent[at] || count > view.extent[at] - start) {
    return tsr_program_fail(program, 0, TSR_ERR_SHAPE, "slice: %lld elements from %lld do not lie in an axis of %lld",
                            (long long)count, (long long)start, (long long)view.extent[at]);
  }
  if (count > 0) {
    view.offset += start * view.stride[at];
  }
  view.extent[at] = count;
  return tsr_program_view(program, &view);
}
