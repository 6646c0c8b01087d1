/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a storage from those of views of it. What was repeated is summed; what was permuted is permuted back;
 * slices are put side by side, with zeros where nobody read. So a joined projection, of which attention reads three
 * slices, costs one concatenation.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/program/gradients.h"

/* An axis of a view: its stride in the storage, and the gradient's along it. */
typedef struct run {
  int64_t extent, stride, step;
} run;

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
  for (int32_t i = 0; i < v->rank; i++) {
    if (v->stride[i] == 0 && v->extent[i] > 1) {
      axes |= 1 << i;
    }
  }
  return axes ? tsr_reduce_sum(program, gradient, axes) : gradient;
}

static void fail_view(tsr_program *program, tsr_ref view)
{
  char text[128];
  tsr_shape shape = tsr_tensor_shape(&program->tensors[view]);
  tsr_program_fail(program, 0, TSR_ERR_UNSUPPORTED,
                   "a view of extents %s has no gradient: its elements are no block of its storage",
                   tsr_shape_print(&shape, text, sizeof text));
}

static void append_axis(tsr_placement *place, int64_t room, int64_t digit, int64_t extent, int64_t stride)
{
  place->room[place->n] = room;
  place->digit[place->n] = digit;
  place->extent[place->n] = extent;
  place->stride[place->n++] = stride;
}

/* Joins neighbouring axes that are covered whole, as far as the gradient's strides allow. */
static void merge_axes(tsr_placement *place)
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

/* The axes of a view, the largest stride first, without those of one element and those that repeat. */
static int32_t runs_of(const tsr_tensor_desc *view, const tsr_tensor_desc *gradient, run *runs)
{
  int32_t n = 0;
  for (int32_t i = 0; i < view->rank; i++) {
    if (view->extent[i] == 1 || view->stride[i] == 0) {
      continue;
    }
    int32_t at = n++;
    for (; at > 0 && runs[at - 1].stride < view->stride[i]; at--) {
      runs[at] = runs[at - 1];
    }
    runs[at] = (run){.extent = view->extent[i], .stride = view->stride[i], .step = gradient->stride[i]};
  }
  return n;
}

/* Joins axes that are one run of the storage; the gradient is contiguous in their order. */
static int32_t join_runs(run *runs, int32_t n)
{
  int32_t joined = 0;
  int64_t step = 1;
  for (int32_t i = 0; i < n; i++) {
    if (joined > 0 && runs[joined - 1].stride == runs[i].stride * runs[i].extent) {
      runs[joined - 1].stride = runs[i].stride;
      runs[joined - 1].extent *= runs[i].extent;
    } else {
      runs[joined++] = runs[i];
    }
  }
  for (int32_t i = joined - 1; i >= 0; i--) {
    runs[i].step = step;
    step *= runs[i].extent;
  }
  return joined;
}

/* Where the axes lie in a storage of `total` elements, the first element at `offset`. Returns 0 if that is no block. */
static int place_runs(const run *runs, int32_t n, int64_t offset, int64_t total, tsr_placement *place)
{
  int64_t outer = total;
  place->n = 0;
  for (int32_t i = 0; i < n; i++) {
    int64_t stride = runs[i].stride;
    if (outer % stride != 0) {
      return 0;
    }
    int64_t room = outer / stride, digit = offset / stride % room;
    if (digit + runs[i].extent > room) {
      return 0;
    }
    append_axis(place, room, digit, runs[i].extent, runs[i].step);
    outer = stride;
  }
  if (outer > 1) {
    append_axis(place, outer, offset % outer, 1, 0);
  }
  merge_axes(place);
  return place->n <= TSR_MAX_RANK;
}

/* The gradient, contiguous in the order of the axes. */
static tsr_ref copy_in_order(tsr_program *program, tsr_ref gradient, const run *runs, int32_t n)
{
  tsr_tensor_desc ordered = program->tensors[gradient];
  ordered.rank = n;
  for (int32_t i = 0; i < TSR_MAX_RANK; i++) {
    ordered.extent[i] = i < n ? runs[i].extent : 1;
    ordered.stride[i] = i < n ? runs[i].step : 0;
  }
  return tsr_copy(program, tsr_program_view(program, &ordered), TSR_F32);
}

/* Finds where a view of a storage of `total` elements lies. Returns 0 if it is no block. */
static int find_place(tsr_program *program, tsr_ref view, tsr_ref gradient, int64_t total, tsr_placement *place)
{
  run runs[TSR_MAX_RANK] = {{0}};
  int64_t offset = program->tensors[view].offset;
  int32_t n = runs_of(&program->tensors[view], &program->tensors[gradient], runs);
  *place = (tsr_placement){.gradient = gradient};
  if (place_runs(runs, n, offset, total, place)) {
    return 1;
  }
  /* Rows under other extents, say: [4, 3] of a storage [5, 6] seen from its second row on. */
  place->gradient = copy_in_order(program, gradient, runs, n);
  return place_runs(runs, join_runs(runs, n), offset, total, place);
}

/* The gradient as an array of the placement's axes. */
static tsr_ref arranged(tsr_program *program, const tsr_placement *place)
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
static int32_t partial_axis(const tsr_placement *place)
{
  for (int32_t i = 0; i < place->n; i++) {
    if (place->extent[i] != place->room[i]) {
      return i;
    }
  }
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
  if (count <= 0 || program->status != TSR_OK) {
    return;
  }
  shape.extent[whole->axis] = count;
  join(program, whole, zeros(program, contributions, piece, &shape));
}

/* The gradient of everything that `n` placements cover, which are blocks of the same axes and partial along `axis`
 * alone in the same way but for where they lie there; ascending, not overlapping. */
static tsr_ref concatenate(tsr_program *program, tsr_contributions *contributions, const tsr_placement *places,
                           int32_t n, int32_t axis)
{
  joint whole = {.axis = axis};
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    tsr_ref piece = arranged(program, &places[i]);
    join_zeros(program, contributions, &whole, piece, places[i].digit[axis] - at);
    join(program, &whole, piece);
    at = places[i].digit[axis] + places[i].extent[axis];
    if (i == n - 1) {
      join_zeros(program, contributions, &whole, piece, places[i].room[axis] - at);
    }
  }
  return tsr_concat(program, whole.piece, whole.n, axis);
}

/* 1 if two placements are blocks of the same axes and differ only in where they lie along `axis`. */
static int are_alike(const tsr_placement *a, const tsr_placement *b, int32_t axis)
{
  if (a->n != b->n) {
    return 0;
  }
  for (int32_t i = 0; i < a->n; i++) {
    if (a->room[i] != b->room[i] || (i != axis && (a->digit[i] != b->digit[i] || a->extent[i] != b->extent[i]))) {
      return 0;
    }
  }
  return 1;
}

/* Makes a placement cover its first partial axis whole, together with those of the n others that continue it there;
 * these are taken out of the array (extent[0] becomes -1). */
static void widen(tsr_program *program, tsr_contributions *contributions, tsr_placement *places, int32_t n,
                  int32_t index)
{
  tsr_placement *first = &places[index];
  int32_t axis = partial_axis(first);
  tsr_placement *row = calloc((size_t)n, sizeof *row);
  if (!row) {
    tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
    return;
  }
  int32_t n_row = 1;
  row[0] = *first;
  for (int32_t i = 0; i < n; i++) {
    const tsr_placement *other = &places[i];
    if (i == index || other->n == 0 || other->extent[0] < 0 || !are_alike(first, other, axis)) {
      continue;
    }
    int64_t start = other->digit[axis], end = start + other->extent[axis];
    int32_t at = 0, overlaps = 0;
    for (int32_t j = 0; j < n_row; j++) {
      overlaps |= start < row[j].digit[axis] + row[j].extent[axis] && row[j].digit[axis] < end;
      at += row[j].digit[axis] < start;
    }
    if (overlaps) {
      continue;
    }
    for (int32_t j = n_row++; j > at; j--) {
      row[j] = row[j - 1];
    }
    row[at] = *other;
    places[i].extent[0] = -1;
  }
  first->gradient = concatenate(program, contributions, row, n_row, axis);
  free(row);
  if (program->status != TSR_OK) {
    return;
  }
  first->digit[axis] = 0;
  first->extent[axis] = first->room[axis];
  const tsr_tensor_desc *joined = &program->tensors[first->gradient];
  for (int32_t i = 0; i < first->n; i++) {
    first->stride[i] = joined->stride[i];
  }
  merge_axes(first);
}

/* A gradient that covers the storage, with other extents. */
static tsr_ref shaped(tsr_program *program, const tsr_placement *place, const tsr_shape *shape)
{
  tsr_ref x = arranged(program, place);
  if (x == TSR_INVALID) {
    return x;
  }
  return tsr_program_as_shape(program, x, *shape);
}

/* Adds a contribution that covers its storage to one that is there already and does so too; 0 if there is none. The
 * sooner the two are one, the sooner their bytes are free. */
static int add_to_whole(tsr_program *program, tsr_contributions *contributions, int32_t storage,
                        const tsr_placement *place)
{
  tsr_shape shape = tsr_tensor_shape(&program->tensors[program->named[storage]]);
  for (int32_t i = 0; i < contributions->n; i++) {
    tsr_contribution *other = &contributions->items[i];
    if (other->storage != storage || partial_axis(&other->place) >= 0) {
      continue;
    }
    tsr_ref sum = tsr_add(program, shaped(program, &other->place, &shape), shaped(program, place, &shape));
    other->place = (tsr_placement){.gradient = sum};
    append_axis(&other->place, tsr_shape_elements(&shape), 0, tsr_shape_elements(&shape), 1);
    return 1;
  }
  return 0;
}

void tsr_contribute(tsr_program *program, tsr_contributions *contributions, tsr_ref view, tsr_ref gradient)
{
  if (program->status != TSR_OK) {
    return;
  }
  int32_t storage = program->tensors[view].storage;
  tsr_shape read = tsr_tensor_shape(&program->tensors[view]);
  tsr_shape shape = tsr_tensor_shape(&program->tensors[program->named[storage]]);
  if (tsr_shape_elements(&read) == 0) {
    return;
  }
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
  tsr_placement place;
  gradient = sum_repeated(program, view, gradient);
  if (program->status != TSR_OK) {
    return;
  }
  if (!find_place(program, view, gradient, tsr_shape_elements(&shape), &place)) {
    fail_view(program, view);
    return;
  }
  if (partial_axis(&place) < 0 && add_to_whole(program, contributions, storage, &place)) {
    return;
  }
  contributions->items[contributions->n++] = (tsr_contribution){.storage = storage, .place = place};
}

int tsr_contributions_to(const tsr_contributions *contributions, int32_t storage)
{
  int32_t n = 0;
  for (int32_t i = 0; i < contributions->n; i++) {
    n += contributions->items[i].storage == storage;
  }
  return n;
}

static tsr_ref collect(tsr_program *program, tsr_contributions *contributions, tsr_placement *places, int32_t n,
                       const tsr_shape *shape)
{
  tsr_ref sum = TSR_NONE;
  for (int32_t i = 0; i < n; i++) {
    if (places[i].n > 0 && places[i].extent[0] < 0) {
      continue; /* part of another by now */
    }
    while (program->status == TSR_OK && partial_axis(&places[i]) >= 0) {
      widen(program, contributions, places, n, i);
    }
    if (program->status != TSR_OK) {
      return TSR_INVALID;
    }
    tsr_ref term = shaped(program, &places[i], shape);
    sum = sum == TSR_NONE ? term : tsr_add(program, sum, term);
  }
  return program->status == TSR_OK ? sum : TSR_INVALID;
}

tsr_ref tsr_contributions_collect(tsr_program *program, tsr_contributions *contributions, int32_t storage,
                                  const tsr_shape *shape)
{
  int32_t kept = 0, n = 0;
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  tsr_placement *places = calloc((size_t)contributions->n + 1, sizeof *places);
  if (!places) {
    return tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
  }
  for (int32_t i = 0; i < contributions->n; i++) {
    if (contributions->items[i].storage == storage) {
      places[n++] = contributions->items[i].place;
    } else {
      contributions->items[kept++] = contributions->items[i];
    }
  }
  contributions->n = kept;
  tsr_ref gradient = n > 0 ? collect(program, contributions, places, n, shape) : TSR_NONE;
  free(places);
  return gradient;
}
