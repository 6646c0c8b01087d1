/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements: embedding, copy, append, update, gather, scatter_add, concat.
 */
#include "kernel.h"

/* to[to_at] = from[from_at], bit for bit. */
static void move(const ref_tensor *to, int64_t to_at, const ref_tensor *from, int64_t from_at)
{
  const int64_t size = ref_element_size(to->dtype);
  memcpy((char *)to->data + to_at * size, (const char *)from->data + from_at * size, (size_t)size);
}

/* to[to_at] = 0 */
static void clear(const ref_tensor *to, int64_t to_at)
{
  const int64_t size = ref_element_size(to->dtype);
  memset((char *)to->data + to_at * size, 0, (size_t)size);
}

/* To nearest, ties to even. */
static uint16_t narrow_f16(float value)
{
  const uint32_t sign = ref_bits(value) >> 16 & 0x8000u, magnitude = ref_bits(value) & 0x7fffffffu;
  if (isnan(value)) {
    return (uint16_t)(sign | 0x7e00u);
  }
  if (fabsf(value) >= 65520.0f) { /* halfway between the largest number, 65504, and the next that there would be */
    return (uint16_t)(sign | 0x7c00u);
  }
  if (fabsf(value) < 0x1p-14f) { /* subnormal: multiples of 2^-24, and the smallest normal number if it rounds up */
    return (uint16_t)(sign | (uint32_t)nearbyintf(fabsf(value) * 0x1p24f));
  }
  const uint32_t odd = magnitude >> 13 & 1u; /* a carry out of the fraction raises the exponent, as it should */
  return (uint16_t)(sign | ((magnitude + 0xfffu + odd - ((127u - 15u) << 23)) >> 13));
}

static uint16_t narrow_bf16(float value)
{
  const uint32_t bits = ref_bits(value), odd = bits >> 16 & 1u;
  return (uint16_t)(isnan(value) ? bits >> 16 | 0x40u : (bits + 0x7fffu + odd) >> 16);
}

/* to[to_at] = from[from_at], of the same type or made so. */
static void convert(const ref_tensor *to, int64_t to_at, const ref_tensor *from, int64_t from_at)
{
  if (from->dtype == to->dtype) {
    move(to, to_at, from, from_at);
  } else if (to->dtype == TSR_F16) {
    ((uint16_t *)to->data)[to_at] = narrow_f16(ref_widened(from, from_at));
  } else if (to->dtype == TSR_BF16) {
    ((uint16_t *)to->data)[to_at] = narrow_bf16(ref_widened(from, from_at));
  } else {
    ref_set_f32(to, to_at, ref_widened(from, from_at));
  }
}

/* A state takes its own type, or f32 where it is narrower. */
static int takes(const ref_tensor *state, const ref_tensor *x)
{
  return x->dtype == state->dtype || (x->dtype == TSR_F32 && (state->dtype == TSR_F16 || state->dtype == TSR_BF16));
}

void ref_embedding(const ref_line *line)
{
  const ref_tensor *table = &line->in[0], *ids = &line->in[1], *scales = &line->in[2], *y = &line->out[0];
  const int four_bits = scales->dtype == TSR_F16;
  const int64_t V = table->extent[0], D = four_bits ? 2 * table->extent[1] : table->extent[1];

  assert((table->dtype == TSR_I8) == ref_present(scales));
  assert(!ref_present(scales) || (scales->rank == 1 + four_bits && scales->extent[0] == V));
  assert(table->rank == 2 && ids->dtype == TSR_I32 && ids->rank == y->rank - 1);
  assert(y->dtype == TSR_F32 && ref_row_length(y) == D);

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t id = ref_i32(ids, ref_at(ids, ids->rank, row)), y_at = ref_row(y, row);
    const int within = id >= 0 && id < V;
    double factor = line->attributes.alpha;
    if (within && ref_present(scales) && !four_bits) {
      factor *= ref_f32(scales, id * scales->stride[0]);
    }
    for (int64_t d = 0; d < D; d++) {
      double value = 0.0;
      if (within && four_bits) {
        value = factor * ref_widened(scales, id * scales->stride[0] + d / TSR_I4_GROUP * scales->stride[1]) *
                ref_four_bits(table, id * table->stride[0], table->stride[1], d);
      } else if (within) {
        value = factor * ref_widened(table, id * table->stride[0] + d * table->stride[1]);
      }
      ref_set_f32(y, y_at + d * ref_row_stride(y), value);
    }
  }
}

void ref_copy(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];

  assert(ref_same_extents(x, y));
  assert(x->dtype == y->dtype ||
         (x->dtype != TSR_I32 && x->dtype != TSR_I8 && y->dtype != TSR_I32 && y->dtype != TSR_I8));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), y_at = ref_row(y, row);
    for (int64_t i = 0; i < ref_row_length(y); i++) {
      convert(y, y_at + i * ref_row_stride(y), x, x_at + i * ref_row_stride(x));
    }
  }
}

void ref_append(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *position = &line->in[1], *state = &line->out[0];

  assert(x->rank >= 2 && x->rank == state->rank && takes(state, x) && state->extent[0] == x->extent[0]);
  assert(x->extent[2] == state->extent[2] && x->extent[3] == state->extent[3]);

  for (int64_t element = 0; element < ref_count(x, x->rank); element++) {
    int64_t index[TSR_MAX_RANK];
    ref_index(x, element, index);
    const int64_t from = ref_element(x, index);
    index[1] += ref_present(position) ? ref_i32(position, index[0] * position->stride[0]) : 0;
    if (index[1] >= 0 && index[1] < state->extent[1]) {
      convert(state, ref_element(state, index), x, from);
    }
  }
}

void ref_update(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *state = &line->out[0];

  assert(takes(state, x) && ref_same_extents(x, state));

  for (int64_t row = 0; row < ref_rows(state); row++) {
    const int64_t x_at = ref_row(x, row), state_at = ref_row(state, row);
    for (int64_t i = 0; i < ref_row_length(state); i++) {
      convert(state, state_at + i * ref_row_stride(state), x, x_at + i * ref_row_stride(x));
    }
  }
}

/* The attribute, counted from the first axis. */
static int32_t axis_of(const ref_line *line)
{
  return line->attributes.axis < 0 ? line->attributes.axis + line->in[0].rank : line->attributes.axis;
}

void ref_gather(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *indices = &line->in[1], *y = &line->out[0];
  const int32_t axis = axis_of(line);

  assert(axis >= 0 && axis < x->rank && x->rank == y->rank && x->dtype == y->dtype);
  assert(indices->dtype == TSR_I32 && indices->rank == 1 && indices->extent[0] == y->extent[axis]);

  for (int64_t element = 0; element < ref_count(y, y->rank); element++) {
    int64_t index[TSR_MAX_RANK];
    ref_index(y, element, index);
    const int64_t to = ref_element(y, index);
    index[axis] = ref_i32(indices, index[axis] * indices->stride[0]);
    if (index[axis] >= 0 && index[axis] < x->extent[axis]) {
      move(y, to, x, ref_element(x, index));
    } else {
      clear(y, to);
    }
  }
}

/* How many elements stand before that of index. */
static int64_t row_major(const ref_tensor *t, const int64_t index[TSR_MAX_RANK])
{
  int64_t element = 0;
  for (int32_t axis = 0; axis < t->rank; axis++) {
    element = element * t->extent[axis] + index[axis];
  }
  return element;
}

int64_t ref_scatter_add_scratch(const ref_line *line)
{
  return ref_count(&line->out[0], line->out[0].rank);
}

void ref_scatter_add(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *indices = &line->in[1], *y = &line->out[0];
  const int32_t axis = axis_of(line);
  double *sums = line->scratch; /* y's elements in row-major order */

  assert(axis >= 0 && axis < x->rank && x->rank == y->rank && x->dtype == TSR_F32 && y->dtype == TSR_F32);
  assert(indices->dtype == TSR_I32 && indices->rank == 1 && indices->extent[0] == x->extent[axis]);

  memset(sums, 0, (size_t)ref_scatter_add_scratch(line) * sizeof(*sums));
  for (int64_t element = 0; element < ref_count(x, x->rank); element++) {
    int64_t index[TSR_MAX_RANK];
    ref_index(x, element, index);
    const double value = ref_f32(x, ref_element(x, index));
    index[axis] = ref_i32(indices, index[axis] * indices->stride[0]);
    if (index[axis] >= 0 && index[axis] < y->extent[axis]) {
      sums[row_major(y, index)] += value;
    }
  }
  for (int64_t element = 0; element < ref_count(y, y->rank); element++) {
    ref_set_f32(y, ref_at(y, y->rank, element), line->attributes.alpha * sums[element]);
  }
}

void ref_concat(const ref_line *line)
{
  const ref_tensor *y = &line->out[0];
  const int32_t axis = axis_of(line);
  int64_t first = 0; /* where the operand begins along the axis */

  for (int32_t slot = 0; slot < TSR_MAX_INPUTS && ref_present(&line->in[slot]); slot++) {
    const ref_tensor *x = &line->in[slot];
    assert(x->dtype == y->dtype && x->rank == y->rank && first + x->extent[axis] <= y->extent[axis]);
    for (int64_t element = 0; element < ref_count(x, x->rank); element++) {
      int64_t index[TSR_MAX_RANK];
      ref_index(x, element, index);
      const int64_t from = ref_element(x, index);
      index[axis] += first;
      move(y, ref_element(y, index), x, from);
    }
    first += x->extent[axis];
  }
  assert(first == y->extent[axis]);
}
