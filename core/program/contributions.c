/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a storage from those of views of it. What was repeated is summed; what was permuted is permuted back;
 * slices are put side by side, with zeros where nobody read. So a joined projection, of which attention reads three
 * slices, costs one concatenation.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/program/gradients.h"

enum { MAX_AXES = TSR_MAX_RANK + 1 };

/* Where a view lies in its storage, seen as an array of `n` axes, outermost first: elements digit .. digit + extent - 1
 * of each axis of `room` elements. */
typedef struct placement {
  int32_t n;
  int64_t room[MAX_AXES], digit[MAX_AXES], extent[MAX_AXES];
  int64_t stride[MAX_AXES]; /* of the gradient along the axis */
  tsr_ref gradient;         /* whose first element is that of the block */
} placement;

void tsr_contribute(tsr_program *program, tsr_contributions *contributions, tsr_ref view, tsr_ref gradient)
{
  if (program->status != TSR_OK)
    return;
  if (contributions->n == contributions->room) {
    int32_t room = contributions->room ? 2 * contributions->room : 64;
    tsr_contribution *items = realloc(contributions->items, (size_t)room * sizeof *items);
    if (!items) {
      tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
      return;
    }
    contributions->items = items;
    contributions->room = room;
  }
  contributions->items[contributions->n++] =
      (tsr_contribution){.storage = program->tensors[view].storage, .view = view, .gradient = gradient};
}

void tsr_contributions_finish(tsr_contributions *contributions)
{
  free(contributions->items);
  *contributions = (tsr_contributions){0};
}

/* The gradient with the axes summed that the view repeats. */
static tsr_ref sum_repeated(tsr_program *program, tsr_ref view, tsr_ref gradient)
{
  const tsr_tensor_desc *v = &program->tensors[view];
  int32_t axes = 0;
  for (int32_t i = 0; i < v->rank; i++)
    if (v->stride[i] == 0 && v->extent[i] > 1)
      axes |= 1 << i;
  return axes ? tsr_reduce_sum(program, gradient, axes) : gradient;
}

static tsr_ref fail_view(tsr_program *program, tsr_ref view)
{
  char text[128];
  tsr_shape shape = tsr_tensor_shape(&program->tensors[view]);
  return tsr_program_fail(program, 0, TSR_ERR_UNSUPPORTED,
                          "a view of extents %s has no gradient: its elements are no block of its storage",
                          tsr_shape_print(&shape, text, sizeof text));
}

static void append_axis(placement *place, int64_t room, int64_t digit, int64_t extent, int64_t stride)
{
  place->room[place->n] = room;
  place->digit[place->n] = digit;
  place->extent[place->n] = extent;
  place->stride[place->n++] = stride;
}

/* Joins neighbouring axes that are covered whole, as far as the gradient's strides allow. */
static void merge_axes(placement *place)
{
  int32_t n = 0;
  for (int32_t i = 0; i < place->n; i++) {
    int32_t last = n - 1;
    int whole = place->extent[i] == place->room[i];
    if (n > 0 && whole && place->extent[last] == place->room[last] &&
        place->stride[last] == place->stride[i] * place->extent[i]) {
      place->stride[last] = place->stride[i];
      place->room[last] *= place->room[i];
      place->extent[last] *= place->extent[i];
      continue;
    }
    place->room[n] = place->room[i];
    place->digit[n] = place->digit[i];
    place->extent[n] = place->extent[i];
    place->stride[n++] = place->stride[i];
  }
  place->n = n;
}

/* Finds where a view of a storage of `total` elements lies. Returns 0 if it is no block. */
static int find_place(const tsr_program *program, tsr_ref view, tsr_ref gradient, int64_t total, placement *place)
{
  const tsr_tensor_desc *v = &program->tensors[view], *g = &program->tensors[gradient];
  int32_t axes[TSR_MAX_RANK], n = 0;
  for (int32_t i = 0; i < v->rank; i++) {
    if (v->extent[i] == 1 || v->stride[i] == 0)
      continue;
    int32_t at = n++;
    for (; at > 0 && v->stride[axes[at - 1]] < v->stride[i]; at--)
      axes[at] = axes[at - 1];
    axes[at] = i;
  }
  *place = (placement){.gradient = gradient};
  int64_t outer = total;
  for (int32_t i = 0; i < n; i++) {
    int64_t stride = v->stride[axes[i]], room = outer / stride, digit = v->offset / stride % room;
    if (outer % stride != 0 || digit + v->extent[axes[i]] > room)
      return 0;
    append_axis(place, room, digit, v->extent[axes[i]], g->stride[axes[i]]);
    outer = stride;
  }
  if (outer > 1)
    append_axis(place, outer, v->offset % outer, 1, 0);
  merge_axes(place);
  return place->n <= TSR_MAX_RANK;
}

/* The gradient as an array of the placement's axes. */
static tsr_ref arranged(tsr_program *program, const placement *place)
{
  tsr_tensor_desc view = program->tensors[place->gradient];
  view.rank = place->n > 0 ? place->n : 1;
  for (int32_t i = 0; i < TSR_MAX_RANK; i++) {
    view.extent[i] = i < place->n ? place->extent[i] : 1;
    view.stride[i] = i < place->n && place->extent[i] > 1 ? place->stride[i] : 0;
  }
  return tsr_program_view(program, &view);
}

/* The first axis that is not covered whole, or -1. */
static int32_t partial_axis(const placement *place)
{
  for (int32_t i = 0; i < place->n; i++)
    if (place->extent[i] != place->room[i])
      return i;
  return -1;
}

/* Zeros: the sum over nothing, repeated. */
static tsr_ref zeros(tsr_program *program, tsr_contributions *contributions, tsr_ref like, const tsr_shape *shape)
{
  if (contributions->zero == TSR_NONE) {
    int32_t all = (1 << tsr_ref_shape(program, like).rank) - 1;
    tsr_ref sum = tsr_reduce_sum(program, tsr_slice(program, like, 0, 0, 0), all);
    contributions->zero = tsr_reshape(program, sum, TSR_SHAPE(1));
  }
  return tsr_expand(program, contributions->zero, *shape);
}

/* A concatenation that grows; more pieces than one line takes are put together as they come. */
typedef struct joint {
  tsr_ref piece[TSR_MAX_INPUTS];
  int32_t n;
  int32_t axis;
} joint;

static void join(tsr_program *program, joint *whole, tsr_ref piece)
{
  if (whole->n == TSR_MAX_INPUTS) {
    whole->piece[0] = tsr_concat(program, whole->piece, whole->n, whole->axis);
    whole->n = 1;
  }
  whole->piece[whole->n++] = piece;
}

/* Zeros for `count` elements of the axis, beside `piece`. */
static void join_zeros(tsr_program *program, tsr_contributions *contributions, joint *whole, tsr_ref piece,
                       int64_t count)
{
  tsr_shape shape = tsr_ref_shape(program, piece);
  if (count <= 0 || program->status != TSR_OK)
    return;
  shape.extent[whole->axis] = count;
  join(program, whole, zeros(program, contributions, piece, &shape));
}

/* The gradient of everything that `n` placements cover, which are blocks of the same axes and partial along `axis` alone
 * in the same way but for where they lie there; ascending, not overlapping. */
static tsr_ref concatenate(tsr_program *program, tsr_contributions *contributions, const placement *places, int32_t n,
                           int32_t axis)
{
  joint whole = {.axis = axis};
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    tsr_ref piece = arranged(program, &places[i]);
    join_zeros(program, contributions, &whole, piece, places[i].digit[axis] - at);
    join(program, &whole, piece);
    at = places[i].digit[axis] + places[i].extent[axis];
    if (i == n - 1)
      join_zeros(program, contributions, &whole, piece, places[i].room[axis] - at);
  }
  return tsr_concat(program, whole.piece, whole.n, axis);
}

/* 1 if two placements are blocks of the same axes and differ only in where they lie along `axis`. */
static int are_alike(const placement *a, const placement *b, int32_t axis)
{
  if (a->n != b->n)
    return 0;
  for (int32_t i = 0; i < a->n; i++)
    if (a->room[i] != b->room[i] || (i != axis && (a->digit[i] != b->digit[i] || a->extent[i] != b->extent[i])))
      return 0;
  return 1;
}

/* Makes a placement cover its first partial axis whole, together with those of the n others that continue it there; these
 * are taken out of the array (extent[0] becomes -1). */
static void widen(tsr_program *program, tsr_contributions *contributions, placement *places, int32_t n, int32_t index)
{
  placement *first = &places[index];
  int32_t axis = partial_axis(first);
  placement *row = calloc((size_t)n, sizeof *row);
  if (!row) {
    tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
    return;
  }
  int32_t n_row = 1;
  row[0] = *first;
  for (int32_t i = 0; i < n; i++) {
    const placement *other = &places[i];
    if (i == index || other->n == 0 || other->extent[0] < 0 || !are_alike(first, other, axis))
      continue;
    int64_t start = other->digit[axis], end = start + other->extent[axis];
    int32_t at = 0, overlaps = 0;
    for (int32_t j = 0; j < n_row; j++) {
      overlaps |= start < row[j].digit[axis] + row[j].extent[axis] && row[j].digit[axis] < end;
      at += row[j].digit[axis] < start;
    }
    if (overlaps)
      continue;
    for (int32_t j = n_row++; j > at; j--)
      row[j] = row[j - 1];
    row[at] = *other;
    places[i].extent[0] = -1;
  }
  first->gradient = concatenate(program, contributions, row, n_row, axis);
  free(row);
  if (program->status != TSR_OK)
    return;
  first->digit[axis] = 0;
  first->extent[axis] = first->room[axis];
  const tsr_tensor_desc *joined = &program->tensors[first->gradient];
  for (int32_t i = 0; i < first->n; i++)
    first->stride[i] = joined->stride[i];
  merge_axes(first);
}

/* A gradient that covers the storage, with other extents. */
static tsr_ref shaped(tsr_program *program, const placement *place, const tsr_shape *shape)
{
  tsr_ref x = arranged(program, place);
  if (x == TSR_INVALID)
    return x;
  tsr_ref view = tsr_program_reshape(program, x, shape);
  return view != TSR_INVALID ? view : tsr_reshape(program, tsr_copy(program, x, TSR_F32), *shape);
}

/* What each contribution says, placed. Returns their number, -1 after an error. */
static int32_t place_all(tsr_program *program, const tsr_contribution *items, int32_t n, int64_t total,
                         placement *places)
{
  int32_t n_places = 0;
  for (int32_t i = 0; i < n; i++) {
    placement place;
    tsr_ref gradient = sum_repeated(program, items[i].view, items[i].gradient);
    if (program->status != TSR_OK)
      return -1;
    if (!find_place(program, items[i].view, gradient, total, &place)) {
      fail_view(program, items[i].view);
      return -1;
    }
    places[n_places++] = place;
  }
  return n_places;
}

static tsr_ref collect(tsr_program *program, tsr_contributions *contributions, const tsr_contribution *items, int32_t n,
                       placement *places, const tsr_shape *shape)
{
  int32_t n_places = place_all(program, items, n, tsr_shape_elements(shape), places);
  tsr_ref sum = TSR_NONE;
  for (int32_t i = 0; i < n_places; i++) {
    if (places[i].n > 0 && places[i].extent[0] < 0)
      continue; /* part of another by now */
    while (program->status == TSR_OK && partial_axis(&places[i]) >= 0)
      widen(program, contributions, places, n_places, i);
    if (program->status != TSR_OK)
      return TSR_INVALID;
    tsr_ref term = shaped(program, &places[i], shape);
    sum = sum == TSR_NONE ? term : tsr_add(program, sum, term);
  }
  return program->status == TSR_OK ? sum : TSR_INVALID;
}

tsr_ref tsr_contributions_collect(tsr_program *program, tsr_contributions *contributions, int32_t storage,
                                  const tsr_shape *shape)
{
  int32_t kept = 0, n = 0;
  if (program->status != TSR_OK)
    return TSR_INVALID;
  tsr_contribution *items = calloc((size_t)contributions->n + 1, sizeof *items);
  placement *places = calloc((size_t)contributions->n + 1, sizeof *places);
  tsr_ref gradient = TSR_NONE;
  if (!items || !places) {
    gradient = tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
    goto done;
  }
  for (int32_t i = 0; i < contributions->n; i++) {
    if (contributions->items[i].storage == storage)
      items[n++] = contributions->items[i];
    else
      contributions->items[kept++] = contributions->items[i];
  }
  contributions->n = kept;
  if (n > 0 && tsr_shape_elements(shape) > 0)
    gradient = collect(program, contributions, items, n, places, shape);
done:
  free(items);
  free(places);
  return gradient;
}
