/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_cooperative.comp: by cooperative matrices, in whatever shape the device multiplies them.
 */
#include "shaders/contract/matmul_cooperative.h"
#include "backends/vulkan/matmul.h"
#include "shaders/contract/narrow.h"

/* A register holds a value of each invocation. Where subgroups can be small there are about 128 registers, else 256:
 * a part's sums take a quarter of them, those of the largest tile half. */
enum { FULL_SUBGROUP = 32, MANY_SUMS = 128, SUMS = 64, FEW_SUMS = 32 };

/* A workgroup's tile, and the part of it that one subgroup makes. */
typedef struct tile {
  uint32_t rows;
  uint32_t columns;
  uint32_t part_rows;
  uint32_t part_columns;
  uint32_t sums; /* of an invocation of a full subgroup */
} tile;

/* Those of each type, the largest first: in this order their variants stand. */
static const tile tiles[] = {
    {128, 128, 64, 64, MANY_SUMS}, {128, 128, 32, 64, SUMS}, {64, 64, 32, 32, SUMS}, {32, 64, 16, 32, SUMS}};
enum { N_TILES = sizeof tiles / sizeof tiles[0] };

/* What there is for each type of factors. */
typedef struct kind {
  int32_t dtype;
  int32_t shader;
  int32_t first;   /* of its variants */
  uint32_t values; /* of b in a group of 16 bytes */
} kind;

static const kind kinds[] = {
    {TSR_F16, TSR_VK_SHADER_MATMUL_COOPERATIVE_F16, TSR_VK_VARIANT_MATMUL_COOP_F16_128_64, 8},
    {TSR_BF16, TSR_VK_SHADER_MATMUL_COOPERATIVE_BF16, TSR_VK_VARIANT_MATMUL_COOP_BF16_128_64, 8},
    {TSR_I8, TSR_VK_SHADER_MATMUL_COOPERATIVE_I8, TSR_VK_VARIANT_MATMUL_COOP_I8_128_64, 16},
};
#define ASSERT_ORDER(type)                                                                                             \
  _Static_assert(TSR_VK_VARIANT_MATMUL_COOP_##type##_32 - TSR_VK_VARIANT_MATMUL_COOP_##type##_128_64 == N_TILES - 1,   \
                 "order of variants")
ASSERT_ORDER(F16);
ASSERT_ORDER(BF16);
ASSERT_ORDER(I8);

/* The kind of what the line may multiply; NULL: there is none. */
static const kind *kind_of(const tsr_vk_planner *planner)
{
  if (tsr_vk_has_four_bits(planner, 3)) {
    return NULL;
  }
  const int32_t dtype = tsr_vk_in(planner, 1)->dtype;
  const int32_t factors = dtype == TSR_I8 ? TSR_I8 : tsr_vk_factors_of(planner->program, planner->line);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    if (kinds[i].dtype == factors) {
      return &kinds[i];
    }
  }
  return NULL;
}

/* Cuts the parts to what a subgroup has registers for, though not into more than a workgroup has subgroups. */
static uint32_t fit(tile *t, const tsr_vk_caps *caps, uint32_t lanes)
{
  uint32_t most =
      caps->max_subgroups < caps->max_invocations / lanes ? caps->max_subgroups : caps->max_invocations / lanes;
  uint32_t sums = (lanes < FULL_SUBGROUP ? FEW_SUMS : t->sums) * lanes;
  uint32_t subgroups = t->rows / t->part_rows * (t->columns / t->part_columns);
  for (; t->part_rows * t->part_columns > sums && subgroups * 2 <= most; subgroups *= 2) {
    if (t->part_columns > t->part_rows) {
      t->part_columns /= 2;
    } else {
      t->part_rows /= 2;
    }
  }
  return subgroups;
}

/* Makes offset and strides of a view count groups of n elements along axis `contiguous`. 0, nothing changed, if they
 * do not divide. */
static int in_groups(tsr_vk_view *view, int32_t contiguous, uint32_t n)
{
  uint32_t low = view->extent[contiguous] | view->offset;
  for (int32_t i = 0; i < 4; ++i) {
    low |= i == contiguous ? 0 : view->stride[i];
  }
  if (view->stride[contiguous] != 1 || low % n != 0) {
    return 0;
  }
  view->offset /= n;
  for (int32_t i = 0; i < 4; ++i) {
    view->stride[i] /= i == contiguous ? 1 : n;
  }
  return 1;
}

enum { GROUP_BYTES = 16, GROUP_WORDS = 4, MAX_STEP = 8, MIN_STEP = 2 };
enum { I8_LEAST_PART = 256 /* of the depth: whole steps */ };

/* The axis of a and of b that is contiguous, and how many quads a group of theirs takes in memory. */
typedef struct layout {
  int a_along_depth;
  int b_along_depth;
  uint32_t a_quads;
  uint32_t b_quads;
} layout;

/* Groups of an operand in a step; extent: of the tile, across the depth. */
static uint32_t tile_groups(uint32_t extent, uint32_t step, uint32_t values, int along_depth)
{
  return along_depth ? extent * (step + 1) : step * values * (extent / values + 1);
}

/* Groups of shared memory: a step, and later what the subgroups store their sums in. */
static uint32_t shared_groups(const tile *t, const tsr_vk_shape *shape, uint32_t step, uint32_t values, layout l)
{
  uint32_t operands =
      tile_groups(t->rows, step, values, l.a_along_depth) + tile_groups(t->columns, step, values, l.b_along_depth);
  uint32_t sums = t->rows / t->part_rows * (t->columns / t->part_columns) * shape->m * (t->part_columns / 4);
  return operands > sums ? operands : sums;
}

/* Words of the next step that wait in an invocation's registers while this one is multiplied. Where subgroups have one
 * size only, as on NVIDIA's cards, each invocation has 255 registers; AMD's compiler spills twice as soon. */
static uint32_t most_words(const tsr_vk_caps *caps)
{
  enum { MANY = 64, SOME = 32, FEW = 0 /* the least step */ };
  if (caps->subgroup_sizes[0] < FULL_SUBGROUP) {
    return FEW;
  }
  return caps->subgroup_sizes[0] == caps->subgroup_sizes[1] ? MANY : SOME;
}

/* The groups of depth at a time of a workgroup of `size` invocations; 0: matrices of that shape do not fill the tile's
 * parts, do not begin with a group, or do not fit. */
static uint32_t step_of(const tsr_vk_caps *caps, const tile *t, const tsr_vk_shape *shape, uint32_t size,
                        uint32_t values, layout l)
{
  if (t->part_rows % shape->m != 0 || t->part_columns % shape->n != 0 || (!l.a_along_depth && shape->m % values != 0) ||
      (!l.b_along_depth && shape->n % values != 0)) {
    return 0;
  }
  const uint32_t row_words = GROUP_WORDS * (t->rows * l.a_quads + t->columns * l.b_quads);
  uint32_t step = MAX_STEP;
  while (step > MIN_STEP && step * row_words > most_words(caps) * size) {
    step /= 2;
  }
  while (step >= MIN_STEP && (step * values % shape->k != 0 || size % step != 0 ||
                              shared_groups(t, shape, step, values, l) * GROUP_BYTES > caps->shared_memory)) {
    step /= 2;
  }
  return step >= MIN_STEP ? step : 0;
}

/* By the largest shape of that kind that can be had. Strides of the product count groups, its depth values. */
static int plan_in_groups(tsr_vk_planner *planner, const kind *of, tsr_vk_product p, tile t, layout l)
{
  const tsr_vk_caps *caps = planner->caps;
  const uint32_t values = of->values;
  uint32_t lanes = caps->subgroup_sizes[0];
  uint32_t subgroups = fit(&t, caps, lanes), size = subgroups * lanes;
  if (subgroups > caps->max_subgroups || size > caps->max_invocations || size > caps->max_size[0]) {
    return 0;
  }
  const tsr_vk_shape *shape = NULL;
  uint32_t step = 0;
  while (step == 0 && (shape = tsr_vk_next_shape(caps, of->dtype, shape)) != NULL) {
    step = step_of(caps, &t, shape, size, values, l);
  }
  if (step == 0) {
    return 0;
  }
  tsr_vk_cut_depth(planner, &p, p.batch * tsr_vk_divide_up(p.rows, t.rows) * tsr_vk_divide_up(p.columns, t.columns),
                   p.quantised ? I8_LEAST_PART : step * values);
  tsr_vk_product counted = p; /* in groups, as the shader counts */
  counted.depth = p.depth / values;
  counted.part_depth = (uint32_t)tsr_vk_divide_up(p.part_depth, values);
  tsr_vk_dispatch *dispatch = tsr_vk_add_product(planner, of->shader, &counted, t.rows, t.columns, size);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->subgroup_size = lanes;
  dispatch->work *= values;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_m, shape->m);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_n, shape->n);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_k, shape->k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_tile_rows, t.rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_tile_columns, t.columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_part_rows, t.part_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_part_columns, t.part_columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_step_groups, step);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_lanes, lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_b_along_depth, (uint32_t)l.b_along_depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_a_along_depth, (uint32_t)l.a_along_depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shared_groups, shared_groups(&t, shape, step, values, l));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_halves, p.halves);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_has_rest, p.depth % (step * values) != 0);
  return tsr_vk_finish_product(planner, &counted);
}

enum { VALUES = 8, F32_VALUES = 4 }; /* of 16 bits in a group, of f32 */

/* Adds the dispatch that rounds a's rows, in groups of F32_VALUES, each distinct one once; the product's view of a
 * becomes that of the result. First in the line, as where rows are quantised (matmul_i8.c). 0 if it cannot be had. */
static int round_a(tsr_vk_planner *planner, tsr_vk_product *p)
{
  enum { SIZE = 128 };
  tsr_vk_view x = p->a;
  const uint32_t groups = p->depth / VALUES;
  uint32_t stride = groups;
  for (int32_t axis = 2; axis >= 0; --axis) {
    if (x.stride[axis] == 0) {
      x.extent[axis] = 1;
    }
    p->a.stride[axis] = x.extent[axis] > 1 ? stride : 0;
    stride *= x.extent[axis];
  }
  const uint64_t count = (uint64_t)x.extent[0] * x.extent[1] * x.extent[2] * groups;
  if (count * 4 > INT32_MAX) {
    return 0;
  }
  p->a.offset = tsr_vk_reserve(planner, count * 4) / 4;
  p->halves |= HALVES_A;
  const tsr_vk_narrow_push push = {
      .rows = x.extent[2],
      .inner_batch = x.extent[1],
      .row_groups = groups,
      .x_offset = x.offset,
      .x_stride = {x.stride[0], x.stride[1], x.stride[2]},
      .y_at = p->a.offset,
      .count = (uint32_t)count,
  };
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_NARROW, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  const uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  tsr_vk_read(dispatch, planner->line->in[0]);
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_narrow_to_type, (uint32_t)tsr_vk_factors_of(planner->program, planner->line));
  dispatch->pure = 1;
  dispatch->work = 2.0 * VALUES * (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

/* Whether it pays to round a before the product: each column of tiles then reads half the bytes, and rounding reads
 * and writes a once, in a stage of its own. */
static int should_round(const tsr_vk_product *p, const tile *t)
{
  enum { ROUNDING = 3, STAGE_BYTES = 32 << 20 }; /* what a cache brings while a large device begins a stage */
  const uint64_t readers = tsr_vk_divide_up(p->columns, t->columns);
  const uint64_t bytes = 2 * p->batch * p->rows * p->depth;
  return readers > ROUNDING && bytes * (readers - ROUNDING) > STAGE_BYTES;
}

/* a is there already, rounded, in row-major order. */
static void take_halves(const tsr_vk_planner *planner, tsr_vk_product *p)
{
  uint32_t stride = 1;
  for (int32_t axis = 3; axis >= 0; --axis) {
    p->a.stride[axis] = stride;
    stride *= p->a.extent[axis];
  }
  p->a.offset = planner->a_at * 2;
  p->halves |= HALVES_A;
}

/* Whether the result can be left rounded: whole words of finished sums, of the factors' own type. */
static int leave_halves(tsr_vk_planner *planner, tsr_vk_product *p)
{
  const uint64_t count = p->batch * p->rows * p->columns;
  if (planner->leaves_halves != tsr_vk_factors_of(planner->program, planner->line) || p->columns % VALUES != 0 ||
      planner->addend != 0 || planner->topk.k > 0) {
    return 0;
  }
  planner->halves_at = tsr_vk_reserve(planner, count / 2);
  p->y = TSR_VK_SCRATCH;
  p->y_at = planner->halves_at;
  p->halves |= HALVES_Y;
  return 1;
}

/* Factors of 16 bits, or rounded to that on their way: what a line of reduced precision permits. Whole groups of eight
 * along the depth and the contiguous axes, wherever the values of f32 lie in groups of four. */
static int plan_halves(tsr_vk_planner *planner, const kind *of, tsr_vk_product p, tile t)
{
  const uint32_t b_values = tsr_vk_in(planner, 1)->dtype == TSR_F32 ? F32_VALUES : VALUES;
  if (p.depth == 0 || p.depth % VALUES != 0) {
    return 0;
  }
  if (planner->takes_halves) {
    take_halves(planner, &p);
  }
  layout l = {.a_along_depth = in_groups(&p.a, 3, planner->takes_halves ? VALUES : F32_VALUES),
              .b_along_depth = in_groups(&p.b, 2, b_values)};
  if ((!l.a_along_depth && (p.rows % VALUES != 0 || !in_groups(&p.a, 2, F32_VALUES))) ||
      (!l.b_along_depth && (p.columns % VALUES != 0 || !in_groups(&p.b, 3, b_values)))) {
    return 0;
  }
  if (!planner->takes_halves && l.a_along_depth && should_round(&p, &t) && !round_a(planner, &p)) {
    return 0;
  }
  if (planner->leaves_halves != 0 && !leave_halves(planner, &p)) {
    return 0;
  }
  planner->are_halves_seen = 1;
  l.a_quads = p.halves & HALVES_A ? 1 : 2;
  l.b_quads = b_values == F32_VALUES ? 2 : 1;
  return plan_in_groups(planner, of, p, t, l);
}

/* Both of i8: the sums are exact. */
static int plan_i8(tsr_vk_planner *planner, const kind *of, tsr_vk_product p, tile t)
{
  return p.depth > 0 && in_groups(&p.b, 2, of->values) && plan_in_groups(planner, of, p, t, (layout){1, 1, 1, 1});
}

int tsr_vk_plan_cooperative(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  const kind *of = kind_of(planner);
  const int32_t i = of != NULL ? variant - of->first : -1;
  if (i < 0 || i >= N_TILES) {
    return 0;
  }
  return product->quantised ? plan_i8(planner, of, *product, tiles[i]) : plan_halves(planner, of, *product, tiles[i]);
}

/* Whether the device has registers and shared memory for the largest tile. */
static int has_largest(const tsr_vk_caps *caps)
{
  enum { LARGE_SHARED_MEMORY = 48 << 10 };
  return caps->subgroup_sizes[0] >= FULL_SUBGROUP && caps->shared_memory >= LARGE_SHARED_MEMORY;
}

/* Of the tiles at least half of whose rows are there, the largest of which there are enough for a large device. */
int32_t tsr_vk_choose_cooperative(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { MIN_ROWS = 16 };
  const tsr_vk_caps *caps = planner->caps;
  const kind *of = kind_of(planner);
  enum { MANY = 2 * TSR_VK_ENOUGH_GROUPS }; /* an H100 takes smaller tiles faster where there are fewer of these */
  static const uint32_t enough[N_TILES] = {MANY, MANY, TSR_VK_ENOUGH_GROUPS / 4, 0};
  if (of == NULL || caps->n_shapes == 0 || caps->compute_like_cpu || p->rows < MIN_ROWS) {
    return TSR_VK_VARIANT_AUTO;
  }
  int32_t i = has_largest(caps) ? 0 : 1;
  while (i < N_TILES - 1 && (p->rows <= tiles[i].rows / 2 || p->batch * tsr_vk_divide_up(p->rows, tiles[i].rows) *
                                                                     tsr_vk_divide_up(p->columns, tiles[i].columns) <
                                                                 enough[i])) {
    ++i;
  }
  return of->first + i;
}
