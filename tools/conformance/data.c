/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands: views over storages, and what they hold.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/conformance/conformance.h"

static const char *const data_names[CHECK_DATA_COUNT] = {
    "normal", "uniform", "wide",  "integer", "ties",    "large",    "big",       "tiny",   "mixed",
    "cancel", "shift",   "const", "spike",   "zero",    "ascend",   "descend",   "neginf", "neginf_row",
    "posinf", "inf",     "nan",   "special", "extreme", "positive", "minus_one", "edges"};

static const char *const view_names[CHECK_VIEW_COUNT] = {"dense",      "offset",         "padded",   "strided",
                                                         "transposed", "padded_t",       "reversed", "heads",
                                                         "broadcast",  "broadcast_last", "scalar",   "far"};

const char *check_data_name(check_data data)
{
  return data_names[data];
}

const char *check_view_name(check_view view)
{
  return view_names[view];
}

/* The finaliser of splitmix64 over key and counter: each counter gives its own bits, in any order. */
static uint64_t scramble(uint64_t z)
{
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t check_random(uint64_t key, uint64_t counter)
{
  return scramble(scramble(key + 0x9e3779b97f4a7c15u) + counter * 0x9e3779b97f4a7c15u);
}

uint64_t check_hash(uint64_t key, const char *text)
{
  uint64_t hash = 0xcbf29ce484222325u ^ scramble(key);

  for (; *text; text++) {
    hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  }
  return scramble(hash);
}

/* 0 <= u < 1 */
static double unit(uint64_t key, uint64_t counter)
{
  return (double)(check_random(key, counter) >> 11) * 0x1p-53;
}

/* Box-Muller */
static double normal(uint64_t key, uint64_t counter)
{
  double radius = sqrt(-2.0 * log(1.0 - unit(key, 2 * counter)));

  return radius * cos(6.283185307179586 * unit(key, 2 * counter + 1));
}

/* Halfway cases: 65520 is midway between the largest f16 and what would follow; 2^-25 between 0 and the smallest f16;
 * 2049 and 1 + 2^-11 between two f16; 1 + 2^-8 and 1 + 3 * 2^-8 between two bf16 (one rounds down, the other up). */
static const float specials[] = {
    0.0f,           -0.0f,          1.0f,         -1.0f,           FLT_MIN,     -FLT_MIN,  0x1p-149f, -0x1p-130f,
    0x1.8p-127f,    FLT_MAX,        -FLT_MAX,     65504.0f,        65519.0f,    65520.0f,  -65536.0f, 0x1p-14f,
    0x1.ffcp-15f,   0x1p-24f,       0x1p-25f,     0x1.8p-25f,      -0x1.8p-24f, 2049.0f,   2051.0f,   1.0f + 0x1p-11f,
    1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 0x1.fep127f,  0x1.fefffep127f, 0x1.ffp127f, 0x1p-133f, 0x1p-134f, 0x1.8p-134f,
    3.0e38f,        1.0e-20f,       0.333333343f, INFINITY,        -INFINITY,   NAN};

/* A column of row `row` at which tiles end, begin, or are not full: the last, the first of the last tile, the one
 * before it, for tiles of several sizes in turn. Each size is met by rows of each of the four kinds of CHECK_EDGES. */
static int64_t edge_column(int64_t row, int64_t columns)
{
  static const int64_t tiles[] = {1, 64, 4, 256, 16, 1024, 32, 4096, 128};
  const int64_t turn = row + row / 4, tile = tiles[turn / 2 % (int64_t)(sizeof(tiles) / sizeof(tiles[0]))];
  const int64_t column = (columns - 1) / tile * tile - turn % 2;

  return column < 0 ? columns - 1 : column;
}

/* Element `column` of row `row` (`columns` long), the operand's element `index`. */
static double float_element(check_data data, tsr_dtype dtype, uint64_t key, uint64_t index, int64_t row, int64_t column,
                            int64_t columns)
{
  const size_t n_specials = sizeof(specials) / sizeof(specials[0]);
  double tiny = dtype == TSR_F16 ? 0x1p-18 : 0x1p-130;
  uint64_t bits;

  switch (data) {
  case CHECK_UNIFORM:
    return 2.0 * unit(key, index) - 1.0;
  case CHECK_WIDE:
    return 24.0 * unit(key, index) - 12.0;
  case CHECK_INTEGER:
    return (double)(check_random(key, index) % 9) - 4.0;
  case CHECK_TIES:
    return (double)(check_random(key, index) % 3);
  case CHECK_LARGE:
    return normal(key, index) * (dtype == TSR_F16 ? 1e4 : 1e30);
  case CHECK_BIG:
    return normal(key, index) * (dtype == TSR_F16 ? 1e3 : 1e15);
  case CHECK_TINY:
    return (2.0 * unit(key, index) - 1.0) * tiny;
  case CHECK_MIXED:
    return (check_random(key + 1, index) & 1 ? -1.0 : 1.0) *
           pow(10.0, (dtype == TSR_F16 ? 4.0 : 16.0) * (unit(key, index) - 0.5));
  case CHECK_CANCEL:
    return (column & 1 ? -1e4 : 1e4) + normal(key, index);
  case CHECK_SHIFTED:
    return 1e4 + normal(key, index);
  case CHECK_CONSTANT:
    return normal(key, (uint64_t)row);
  case CHECK_SPIKE:
    return column == (int64_t)(check_random(key + 1, (uint64_t)row) % (uint64_t)columns) ? 12.0
                                                                                         : 0.01 * normal(key, index);
  case CHECK_ZERO:
    return check_random(key, index) & 1 ? -0.0 : 0.0;
  case CHECK_ASCENDING:
    return (double)column - (double)columns / 2;
  case CHECK_DESCENDING:
    return (double)columns / 2 - (double)column;
  case CHECK_NEGINF:
    return check_random(key + 1, index) % 3 == 0 ? -INFINITY : normal(key, index);
  case CHECK_NEGINF_ROW:
    return row % 2 == 0 ? -INFINITY : normal(key, index);
  case CHECK_POSINF:
    return check_random(key + 1, index) % 23 == 0 ? INFINITY : normal(key, index);
  case CHECK_INF:
    bits = check_random(key + 1, index);
    return bits % 23 == 0 ? (bits >> 32 & 1 ? INFINITY : -INFINITY) : normal(key, index);
  case CHECK_NAN:
    return check_random(key + 1, index) % 23 == 0 ? NAN : normal(key, index);
  case CHECK_SPECIAL:
    return specials[(index + check_random(key, 0)) % n_specials];
  case CHECK_EXTREME:
    if (dtype == TSR_F16) {
      const float half[] = {65504.0f, -65504.0f, 0x1p-24f, -0x1p-24f, 0x1.ff8p-15f, 0x1p-14f, 1.0f, 0x1.554p-2f};
      return half[check_random(key, index) % 8];
    } else {
      const float wide[] = {1e30f, -1e30f, 0x1p-126f, -0x1p-126f, 0x1p-127f, 0x1p-133f, 1.0f, 0x1.54p-2f};
      return wide[check_random(key, index) % 8];
    }
  case CHECK_POSITIVE:
    return 0.5 + unit(key, index);
  case CHECK_MINUS_ONE:
    return -1.0;
  case CHECK_EDGES: {
    /* e^120 is beyond f32: a maximum that misses the peak overflows; where an exponential is cut off instead, the two
     * of the peak come out equal */
    const int64_t before = row % 4 == 3 ? -1 : edge_column(row, columns) - column;
    if (row % 4 == 0 && (before == 0 || before == 1)) {
      return 120.0 - (double)before;
    }
    if (row % 4 == 1 && before <= 0) {
      return -INFINITY;
    }
    return row % 4 == 2 && before == 0 ? NAN : normal(key, index);
  }
  case CHECK_NORMAL:
  default:
    return normal(key, index);
  }
}

static void poison(tsr_dtype dtype, void *bytes, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    switch (dtype) {
    case TSR_F32:
      ((uint32_t *)bytes)[i] = 0x7fc0beefu;
      break;
    case TSR_F16:
      ((uint16_t *)bytes)[i] = 0x7e77u;
      break;
    case TSR_BF16:
      ((uint16_t *)bytes)[i] = 0x7fd5u;
      break;
    case TSR_I32:
      ((uint32_t *)bytes)[i] = 0x6eadbeefu;
      break;
    default:
      ((uint8_t *)bytes)[i] = 0x55u;
    }
  }
}

static int64_t integer_element(const check_fill *fill, uint64_t key, int64_t index, int32_t run)
{
  int64_t value;

  if (fill->padded && index % fill->padded >= fill->padded / 2) {
    return fill->low;
  }
  index /= fill->repeat ? fill->repeat : 1;
  if (fill->list) {
    value = fill->list[index % fill->n_list];
  } else {
    value = fill->low + (int64_t)(check_random(key, (uint64_t)index) % (uint64_t)((int64_t)fill->high - fill->low + 1));
  }
  return value + (int64_t)fill->step * run + fill->plus;
}

void check_leaf_fill(const check_build *build, int32_t leaf, uint64_t seed, int32_t run, void *bytes)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  const check_fill *fill = &build->leaf[leaf].fill;
  const tsr_tensor_desc *view = tsr_tensor_at(program, build->leaf[leaf].view);
  const tsr_storage_desc *storage = tsr_storage_at(program, view->storage);
  uint64_t key = check_random(check_hash(seed, build->test->name), (uint64_t)leaf);
  const tsr_shape *whole = &build->leaf[leaf].whole;
  const int64_t *first = build->leaf[leaf].first;
  int64_t columns = view->rank ? whole->extent[view->rank - 1] : 1;
  static const float strange[] = {NAN, INFINITY, -INFINITY};
  int64_t at[TSR_MAX_RANK] = {0}; /* of an element, along each axis */
  int64_t total = 1;
  double value;

  if (storage->kind != TSR_STORAGE_INPUT) {
    run = 0;
  }
  key = check_random(key, (uint64_t)run);
  poison(view->dtype, bytes, storage->size / (int64_t)tsr_dtype_size(view->dtype));
  for (int32_t axis = 0; axis < view->rank; axis++) {
    total *= view->extent[axis];
  }
  for (int64_t number = 0; number < total; number++) {
    int64_t place = view->offset;
    int64_t index = 0; /* in the whole case, on which alone depends what an element holds */
    for (int32_t axis = 0; axis < view->rank; axis++) {
      place += at[axis] * view->stride[axis];
      index = index * whole->extent[axis] + first[axis] + at[axis];
    }
    const int64_t index_1 = view->rank > 1 ? first[1] + at[1] : 0; /* along axis 1 */
    for (int32_t axis = view->rank - 1; axis >= 0 && ++at[axis] == view->extent[axis]; axis--) {
      at[axis] = 0;
    }
    if (view->dtype == TSR_I32) {
      ((int32_t *)bytes)[place] = (int32_t)(uint32_t)(uint64_t)integer_element(fill, key, index, run);
      continue;
    }
    if (view->dtype == TSR_I8) {
      ((int8_t *)bytes)[place] = (int8_t)integer_element(fill, key, index, run);
      continue;
    }
    int64_t column = index % columns;
    const int64_t sloped = fill->slope * column;
    if (fill->hidden > 0 ? index_1 >= fill->hidden + sloped : index_1 < -fill->hidden - sloped) {
      value = (double)strange[check_random(key, (uint64_t)index) % (sizeof(strange) / sizeof(strange[0]))];
    } else if (fill->reals) {
      value = (double)fill->reals[(index + (int64_t)fill->step * run) % fill->n_list];
    } else {
      value = float_element(fill->data, view->dtype, key, (uint64_t)index, index / columns, column, columns);
    }
    if (view->dtype == TSR_F32) {
      ((float *)bytes)[place] = (float)value;
    } else if (view->dtype == TSR_F16) {
      ((uint16_t *)bytes)[place] = tsr_f32_to_f16((float)value);
    } else {
      ((uint16_t *)bytes)[place] = tsr_f32_to_bf16((float)value);
    }
  }
}

static void swap_extents(tsr_shape *shape, int32_t a, int32_t b)
{
  int64_t extent = shape->extent[a];

  shape->extent[a] = shape->extent[b];
  shape->extent[b] = extent;
}

/* Rows of axis 0 that lie before a far operand: 128 MiB, whatever a row takes. */
static int64_t far_rows(tsr_shape shape, tsr_dtype dtype)
{
  int64_t row = (int64_t)tsr_dtype_size(dtype);

  for (int64_t axis = 1; axis < shape.rank; axis++) {
    row *= shape.extent[axis];
  }
  return (1 << 27) / row + 1;
}

/* The extents of the storage over which `view` gives `shape`. */
static tsr_shape storage_shape(tsr_shape shape, tsr_dtype dtype, check_view view)
{
  tsr_shape base = shape;
  int32_t last = shape.rank - 1;

  switch (view) {
  case CHECK_OFFSET:
    base.extent[0] += 2;
    break;
  case CHECK_PADDED:
    base.extent[last] += 3;
    break;
  case CHECK_STRIDED:
    base.extent[base.rank++] = 2;
    break;
  case CHECK_TRANSPOSED:
    swap_extents(&base, last, last - 1);
    break;
  case CHECK_PADDED_T:
    swap_extents(&base, last, last - 1);
    base.extent[last] += 3;
    base.extent[last - 1] += 2;
    break;
  case CHECK_REVERSED:
    for (int32_t axis = 0; axis < shape.rank; axis++) {
      base.extent[axis] = shape.extent[last - axis];
    }
    break;
  case CHECK_HEADS:
    swap_extents(&base, last - 2, last - 1);
    break;
  case CHECK_BROADCAST:
    base.extent[0] = 1;
    break;
  case CHECK_BROADCAST_LAST:
    base.extent[last] = 1;
    break;
  case CHECK_SCALAR:
    for (int32_t axis = 0; axis < shape.rank; axis++) {
      base.extent[axis] = 1;
    }
    break;
  case CHECK_FAR:
    base.extent[0] += far_rows(shape, dtype);
    break;
  default:
    break;
  }
  return base;
}

static tsr_ref apply_view(tsr_program *program, tsr_ref base, tsr_shape shape, check_view view)
{
  static const int32_t reversed[TSR_MAX_RANK][TSR_MAX_RANK] = {{0}, {1, 0}, {2, 1, 0}, {3, 2, 1, 0}};
  int32_t last = shape.rank - 1;

  switch (view) {
  case CHECK_OFFSET:
    return tsr_slice(program, base, 0, 1, shape.extent[0]);
  case CHECK_PADDED:
    return tsr_slice(program, base, last, 1, shape.extent[last]);
  case CHECK_STRIDED:
    return tsr_reshape(program, tsr_slice(program, base, shape.rank, 1, 1), shape);
  case CHECK_TRANSPOSED:
    return tsr_transpose(program, base, last, last - 1);
  case CHECK_PADDED_T:
    base = tsr_slice(program, base, last, 1, shape.extent[last - 1]);
    base = tsr_slice(program, base, last - 1, 2, shape.extent[last]);
    return tsr_transpose(program, base, last, last - 1);
  case CHECK_REVERSED:
    return tsr_permute(program, base, reversed[last]);
  case CHECK_HEADS:
    return tsr_transpose(program, base, last - 2, last - 1);
  case CHECK_FAR:
    return tsr_slice(program, base, 0, far_rows(shape, tsr_ref_dtype(program, base)), shape.extent[0]);
  case CHECK_BROADCAST:
  case CHECK_BROADCAST_LAST:
  case CHECK_SCALAR:
    return tsr_expand(program, base, shape);
  default:
    return base;
  }
}

/* The view nearest to what was asked that a tensor of this rank can have. */
static check_view possible_view(check_view view, int32_t rank)
{
  if (rank == 0 || (rank == 1 && (view == CHECK_TRANSPOSED || view == CHECK_PADDED_T))) {
    return CHECK_DENSE;
  }
  if ((rank < 3 && view == CHECK_HEADS) || (rank == TSR_MAX_RANK && view == CHECK_STRIDED)) {
    return CHECK_PADDED;
  }
  return view;
}

int64_t check_extent(const check_build *build, int32_t dimension, int64_t extent)
{
  return build->part && dimension != CHECK_UNCUT ? build->part->count[dimension] : extent;
}

int64_t check_first(const check_build *build, int32_t dimension)
{
  return build->part && dimension != CHECK_UNCUT ? build->part->first[dimension] : 0;
}

void check_output_cut(check_build *build, const char *name, tsr_ref ref, const int32_t dimension[TSR_MAX_RANK])
{
  check_output *output = &build->output[build->n_outputs++];

  tsr_output(build->program, name, ref);
  output->ref = ref;
  for (int32_t axis = 0; axis < TSR_MAX_RANK; axis++) {
    output->first[axis] = check_first(build, dimension[axis]);
  }
}

tsr_ref check_operand(check_build *build, int32_t kind, tsr_dtype dtype, tsr_shape shape, check_view view,
                      check_fill fill)
{
  return check_operand_cut(build, kind, dtype, shape, view, fill, (const int32_t[TSR_MAX_RANK]){CHECK_UNCUT});
}

tsr_ref check_operand_cut(check_build *build, int32_t kind, tsr_dtype dtype, tsr_shape whole, check_view view,
                          check_fill fill, const int32_t dimension[TSR_MAX_RANK])
{
  tsr_shape shape = whole;
  check_leaf *leaf;
  char name[32];

  if (build->n_leaves == CHECK_MAX_LEAVES) {
    return TSR_INVALID;
  }
  for (int32_t axis = 0; axis < shape.rank; axis++) {
    shape.extent[axis] = check_extent(build, dimension[axis], whole.extent[axis]);
  }
  view = possible_view(view, shape.rank);
  tsr_shape base = storage_shape(shape, dtype, view);
  leaf = &build->leaf[build->n_leaves];
  snprintf(name, sizeof(name), "operand%d", (int)build->n_leaves);
  if (kind == TSR_STORAGE_CONSTANT) {
    leaf->base = tsr_constant(build->program, name, dtype, base);
  } else if (kind == TSR_STORAGE_STATE) {
    leaf->base = tsr_state(build->program, name, dtype, base);
  } else {
    leaf->base = tsr_input(build->program, name, dtype, base);
  }
  leaf->view = apply_view(build->program, leaf->base, shape, view);
  leaf->fill = fill;
  leaf->whole = whole;
  for (int32_t axis = 0; axis < shape.rank; axis++) {
    leaf->first[axis] = check_first(build, dimension[axis]);
  }
  build->n_leaves++;
  return leaf->view;
}

tsr_ref check_input(check_build *build, tsr_shape shape, check_data data)
{
  return check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, CHECK_DENSE, CHECK_FILL(.data = data));
}

tsr_ref check_integers(check_build *build, const int32_t *list, int32_t n, int32_t step)
{
  return check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(n), CHECK_DENSE,
                       CHECK_FILL(.list = list, .n_list = n, .step = step));
}
