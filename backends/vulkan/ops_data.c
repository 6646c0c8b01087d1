/* SPDX-License-Identifier: Apache-2.0
 *
 * copy, gather, embedding (shaders/gather.comp), append, update and concat (shaders/scatter.comp),
 * scatter_add (shaders/scatter_sort.comp, shaders/scatter_add.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/gather.h"
#include "shaders/contract/scatter.h"
#include "shaders/contract/scatter_add.h"
#include "shaders/contract/scatter_sort.h"

#include <stddef.h>
#include <string.h>

enum { GATHER_BYTES = offsetof(tsr_vk_gather_push, scales_offset) }; /* of tables that have no scales */
enum { MOST_RUNS = 1024 };

static uint32_t bytes_of(int32_t dtype)
{
  return dtype == TSR_I8 ? 1 : dtype == TSR_F16 || dtype == TSR_BF16 ? 2 : 4;
}

/* views[0] reads x, views[1] the index (absent: index 0), both with y's extents. scales: a tensor, of the rows of an
 * x of i8, or 0. */
static int plan_gather(tsr_vk_planner *planner, int32_t x, tsr_vk_view views[2], int32_t index, uint32_t row_stride,
                       uint32_t rows, float alpha, int32_t scales)
{
  int32_t y = planner->line->out[0];
  int32_t from = tsr_vk_tensor(planner, x)->dtype, to = tsr_vk_tensor(planner, y)->dtype;
  uint64_t count = tsr_vk_elements(tsr_vk_tensor(planner, y));
  const int four_bits = scales != 0 && tsr_vk_tensor(planner, scales)->dtype == TSR_F16;
  tsr_vk_collapse(views, 2);
  tsr_vk_view as_quads[2] = {views[0], views[1]};
  uint32_t repeat = 0;
  int quads = (bytes_of(from) == 4 || scales != 0) && bytes_of(to) == 4 && row_stride % 4 == 0 &&
              tsr_vk_quads(as_quads, 2, &repeat) && repeat == 2;
  const tsr_vk_view *used = quads ? as_quads : views;
  tsr_vk_gather_push push = {
      .x_offset = used[0].offset,
      .index_offset = used[1].offset,
      .row_stride = quads ? row_stride / 4 : row_stride,
      .rows = rows,
      .count = (uint32_t)(quads ? count / 4 : count),
      .alpha = alpha,
  };
  memcpy(push.extent, used[0].extent, sizeof push.extent);
  memcpy(push.x_stride, used[0].stride, sizeof push.x_stride);
  memcpy(push.index_stride, used[1].stride, sizeof push.index_stride);
  if (scales != 0) {
    tsr_vk_view view = tsr_vk_view_of(tsr_vk_tensor(planner, scales));
    push.scales_offset = view.offset;
    push.scales_stride = four_bits ? view.stride[2] : view.stride[3];
    push.scales_group_stride = view.stride[3];
  }

  int32_t shader = scales != 0 ? quads ? TSR_VK_SHADER_GATHER_BYTES_QUADS : TSR_VK_SHADER_GATHER_BYTES
                   : quads     ? TSR_VK_SHADER_GATHER_QUADS
                               : TSR_VK_SHADER_GATHER;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, scales != 0 ? sizeof push : GATHER_BYTES);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, x);
  tsr_vk_read(dispatch, index != 0 ? index : x);
  tsr_vk_write(dispatch, y);
  if (scales != 0) {
    tsr_vk_read(dispatch, scales);
  }
  /* Of many invocations a device begins fewer groups; a quarter of a large copy's time on an H200. */
  enum { MANY = 1 << 20, SIZE = 64, LARGE_SIZE = 256 };
  const uint64_t invocations = quads ? count / 4 : tsr_vk_divide_up(count, 4 / bytes_of(to));
  const int is_large = invocations >= MANY && !planner->caps->compute_like_cpu;
  const uint32_t size = tsr_vk_group_size(planner->caps, is_large ? LARGE_SIZE : SIZE);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_gather_from_type, four_bits ? TYPE_I4 : (uint32_t)from);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_gather_to_type, (uint32_t)to);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_gather_indexed, index != 0);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_gather_scaled, alpha != 1.0f);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_gather_axes, tsr_vk_axes(&used[0]));
  dispatch->work = (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(invocations, size));
}

int tsr_vk_plan_copy(tsr_vk_planner *planner)
{
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 0)};
  views[1].offset = 0;
  memset(views[1].stride, 0, sizeof views[1].stride);
  return plan_gather(planner, planner->line->in[0], views, 0, 0, 0, 1.0f, 0);
}

int tsr_vk_plan_gather(tsr_vk_planner *planner)
{
  const tsr_tensor_desc *x = tsr_vk_in(planner, 0), *y = tsr_vk_out(planner, 0);
  int32_t axis = planner->line->attributes.axis;
  axis = (axis < 0 ? axis + x->rank : axis) + 4 - x->rank;
  tsr_vk_view views[2] = {tsr_vk_view_of(x), tsr_vk_view_in(planner, 1)};
  uint32_t row_stride = views[0].stride[axis], rows = views[0].extent[axis], index_stride = views[1].stride[3];
  memcpy(views[0].extent, tsr_vk_view_of(y).extent, sizeof views[0].extent);
  memcpy(views[1].extent, views[0].extent, sizeof views[1].extent);
  memset(views[1].stride, 0, sizeof views[1].stride);
  views[0].stride[axis] = 0;
  views[1].stride[axis] = index_stride;
  return plan_gather(planner, planner->line->in[0], views, planner->line->in[1], row_stride, rows, 1.0f, 0);
}

int tsr_vk_plan_embedding(tsr_vk_planner *planner)
{
  tsr_vk_view table = tsr_vk_view_in(planner, 0), ids = tsr_vk_view_in(planner, 1);
  tsr_vk_view y = tsr_vk_view_of(tsr_vk_out(planner, 0));
  tsr_vk_view views[2] = {{.offset = table.offset, .stride[3] = table.stride[3]}, {.offset = ids.offset}};
  memcpy(views[0].extent, y.extent, sizeof y.extent);
  memcpy(views[1].extent, y.extent, sizeof y.extent);
  for (int32_t axis = 0; axis < 3; ++axis) {
    views[1].stride[axis] = ids.stride[axis + 1];
  }
  return plan_gather(planner, planner->line->in[0], views, planner->line->in[1], table.stride[2], table.extent[2],
                     planner->line->attributes.alpha, planner->line->in[2]);
}

/* Pairs of neighbours that share a word of a state of 16 bits: views of x and of the state become such of pairs, the
 * state's counting words. 0: not everywhere. *step: from an element of x to its neighbour. */
static int in_pairs(tsr_vk_view views[2], uint32_t *step)
{
  tsr_vk_view *x = &views[0], *state = &views[1];
  uint32_t low = state->offset | state->stride[0] | state->stride[1] | state->stride[2] | x->extent[3];
  *step = x->stride[3];
  if (low % 2 != 0 || state->stride[3] != 1 || x->stride[3] > 1) {
    return 0;
  }
  state->offset /= 2;
  for (int32_t i = 0; i < 3; ++i) {
    state->stride[i] /= 2;
  }
  x->stride[3] *= 2;
  x->extent[3] /= 2;
  state->extent[3] /= 2;
  return 1;
}

/* views: x, which is input `slot`, then the result with x's extents; axes b, l and two more. position: a tensor, or 0.
 * rows: of the result along axis l. */
static int plan_scatter(tsr_vk_planner *planner, int32_t slot, tsr_vk_view views[2], int32_t position, uint32_t rows)
{
  uint64_t count = tsr_vk_elements(tsr_vk_in(planner, slot));
  int32_t from = tsr_vk_in(planner, slot)->dtype, to = tsr_vk_out(planner, 0)->dtype;
  uint32_t step = 0;
  int halves = bytes_of(to) == 2, pairs = halves && in_pairs(views, &step);
  int quads = !halves && tsr_vk_whole_quads(views, 2);
  tsr_vk_view at = position != 0 ? tsr_vk_view_of(tsr_vk_tensor(planner, position)) : (tsr_vk_view){.offset = 0};
  tsr_vk_scatter_push push = {
      .x_offset = views[0].offset,
      .state_offset = views[1].offset,
      .position_offset = at.offset,
      .position_stride = at.stride[3],
      .rows = rows,
      .count = (uint32_t)(quads   ? count / 4
                          : pairs ? count / 2
                                  : count),
  };
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.x_stride, views[0].stride, sizeof push.x_stride);
  memcpy(push.state_stride, views[1].stride, sizeof push.state_stride);

  int32_t shader = halves ? TSR_VK_SHADER_SCATTER_HALVES : quads ? TSR_VK_SHADER_SCATTER_QUADS : TSR_VK_SHADER_SCATTER;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, planner->line->in[slot]);
  tsr_vk_read(dispatch, position != 0 ? position : planner->line->in[slot]);
  tsr_vk_write(dispatch, planner->line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_positioned, position != 0);
  if (halves) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_from_type, (uint32_t)from);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_to_type, (uint32_t)to);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_paired, (uint32_t)pairs);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_x_step, step);
  }
  dispatch->work = (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push.count, size));
}

/* Axes b, l, .. of a tensor of rank 2 to 4 at places 0, 1, .., the last of those behind l at place 3. */
static tsr_vk_view rows_of(const tsr_tensor_desc *tensor)
{
  tsr_vk_view right = tsr_vk_view_of(tensor);
  tsr_vk_view view = {.offset = right.offset, .extent = {1, 1, 1, 1}};
  for (int32_t i = 0; i < tensor->rank; ++i) {
    int32_t place = i == 2 && tensor->rank == 3 ? 3 : i;
    view.extent[place] = right.extent[4 - tensor->rank + i];
    view.stride[place] = (uint32_t)tensor->stride[i];
  }
  return view;
}

int tsr_vk_plan_append(tsr_vk_planner *planner)
{
  tsr_vk_view views[2] = {rows_of(tsr_vk_in(planner, 0)), rows_of(tsr_vk_out(planner, 0))};
  uint32_t rows = views[1].extent[1];
  views[1].extent[1] = views[0].extent[1];
  int inner = 1;
  for (int32_t i = 0; i < 2; ++i) {
    inner &= views[i].stride[2] == views[i].stride[3] * views[i].extent[3];
  }
  for (int32_t i = 0; i < 2 && inner; ++i) {
    views[i].extent[3] *= views[i].extent[2];
    views[i].extent[2] = 1;
  }
  return tsr_vk_elements(tsr_vk_in(planner, 0)) == 0 || plan_scatter(planner, 0, views, planner->line->in[1], rows);
}

int tsr_vk_plan_update(tsr_vk_planner *planner)
{
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0), tsr_vk_view_of(tsr_vk_out(planner, 0))};
  tsr_vk_collapse(views, 2);
  return plan_scatter(planner, 0, views, 0, views[0].extent[1]);
}

int tsr_vk_plan_concat(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_tensor_desc *y = tsr_vk_out(planner, 0);
  int32_t axis = line->attributes.axis;
  axis = (axis < 0 ? axis + y->rank : axis) + 4 - y->rank;
  uint32_t at = 0; /* along the axis */
  for (int32_t slot = 0; slot < TSR_MAX_INPUTS && line->in[slot] != 0; ++slot) {
    tsr_vk_view views[2] = {tsr_vk_view_in(planner, slot), tsr_vk_view_of(y)};
    uint32_t extent = views[0].extent[axis];
    views[1].offset += at * views[1].stride[axis];
    at += extent;
    if (extent == 0) {
      continue;
    }
    memcpy(views[1].extent, views[0].extent, sizeof views[1].extent);
    tsr_vk_collapse(views, 2);
    if (!plan_scatter(planner, slot, views, 0, views[0].extent[1])) {
      return 0;
    }
  }
  return 1;
}

static int add_sort_step(tsr_vk_planner *planner, const tsr_vk_scatter_sort_push *push, uint32_t step)
{
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_SCATTER_SORT, push, sizeof *push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, planner->line->in[1]);
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  uint32_t size = tsr_vk_group_size(planner->caps, step == STEP_SORT ? CHUNK / 2 : 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_sort_step, step);
  dispatch->after = step != STEP_SORT;
  dispatch->work = (step == STEP_SORT ? 50.0 : 10.0 * FAN_IN) * push->places;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push->places, step == STEP_SORT ? push->list : size));
}

/* Adds what sorts the places of scatter_add by their row; *sorted_at: where in scratch the sorted rows lie, with the
 * places right behind them. */
static int add_sort(tsr_vk_planner *planner, uint32_t places, uint32_t rows, uint32_t *sorted_at)
{
  tsr_vk_view index = tsr_vk_view_in(planner, 1);
  uint64_t list = 2;
  while (list < CHUNK && list < places) {
    list *= 2;
  }
  uint32_t to_at = tsr_vk_reserve(planner, 2 * (uint64_t)places);
  uint32_t spare_at = list < places ? tsr_vk_reserve(planner, 2 * (uint64_t)places) : to_at;
  tsr_vk_scatter_sort_push push = {
      .index_offset = index.offset,
      .index_stride = index.stride[3],
      .places = places,
      .rows = rows,
      .list = (uint32_t)list,
      .to_at = to_at,
  };
  if (!add_sort_step(planner, &push, STEP_SORT)) {
    return 0;
  }
  for (; list < places; list *= FAN_IN) {
    push.list = (uint32_t)list;
    push.from_at = push.to_at;
    push.to_at = push.from_at == to_at ? spare_at : to_at;
    if (!add_sort_step(planner, &push, STEP_MERGE)) {
      return 0;
    }
  }
  *sorted_at = push.to_at;
  return 1;
}

static int add_step(tsr_vk_planner *planner, tsr_vk_scatter_add_push *push, uint32_t step, int quads, uint64_t count,
                    uint32_t axes, double work)
{
  const tsr_line_desc *line = planner->line;
  push->count = (uint32_t)count;
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, quads ? TSR_VK_SHADER_SCATTER_ADD_QUADS : TSR_VK_SHADER_SCATTER_ADD, push, sizeof *push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_write(dispatch, step == STEP_CLEAR ? line->out[0] : TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_add_step, step);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_scatter_add_axes, axes);
  dispatch->after = step != STEP_CLEAR;
  dispatch->work = work;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

/* Places of a run. Short runs keep many invocations busy; longer ones keep the join of their parts short. */
static uint32_t run_of(uint32_t places)
{
  uint32_t run = 32;
  while (places / run > MOST_RUNS) {
    run *= 2;
  }
  return run;
}

int tsr_vk_plan_scatter_add(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_tensor_desc *y = tsr_vk_out(planner, 0);
  int32_t axis = line->attributes.axis;
  axis = (axis < 0 ? axis + y->rank : axis) + 4 - y->rank;
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0), tsr_vk_view_of(y)}; /* beside the axis */
  uint32_t places = views[0].extent[axis], rows = views[1].extent[axis];
  uint32_t step[2] = {views[0].stride[axis], views[1].stride[axis]};
  for (int32_t i = 0; i < 2; ++i) {
    views[i].extent[axis] = 1;
    views[i].stride[axis] = 0;
  }
  tsr_vk_collapse(views, 2);
  int quads = (step[0] | step[1]) % 4 == 0 && tsr_vk_whole_quads(views, 2);
  uint32_t width = quads ? 4 : 1, axes = tsr_vk_axes(&views[0]);
  uint64_t elements = tsr_vk_elements(y), columns = tsr_vk_view_elements(&views[0]);
  uint32_t run = run_of(places);
  uint64_t runs = tsr_vk_divide_up(places, run);
  tsr_vk_scatter_add_push push = {
      .x_offset = views[0].offset,
      .x_step = step[0] / width,
      .y_step = step[1] / width,
      .rows = rows,
      .places = places,
      .columns = (uint32_t)columns,
      .run = run,
      .alpha = line->attributes.alpha,
      .nothing = line->attributes.alpha * 0.0f,
  };
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.x_stride, views[0].stride, sizeof push.x_stride);
  memcpy(push.y_stride, views[1].stride, sizeof push.y_stride);

  int whole = elements % 4 == 0;
  if (!add_step(planner, &push, STEP_CLEAR, whole, whole ? elements / 4 : elements, axes, (double)elements)) {
    return 0;
  }
  if (places == 0) {
    return 1;
  }
  if (!add_sort(planner, places, rows, &push.rows_at)) {
    return 0;
  }
  push.places_at = push.rows_at + places;
  if (runs > 1) {
    push.partial_at = tsr_vk_reserve(planner, 2 * runs * columns * width) / width;
  }
  double terms = (double)tsr_vk_elements(tsr_vk_in(planner, 0));
  return add_step(planner, &push, STEP_SUM, quads, runs * columns, axes, 2 * terms) &&
         (runs == 1 || add_step(planner, &push, STEP_JOIN, quads, runs * columns, axes, 2 * terms / run));
}
