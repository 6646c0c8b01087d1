/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/values.h"

#include <assert.h>
#include <string.h>

_Static_assert(TYPE_F32 == TSR_F32 && TYPE_F16 == TSR_F16 && TYPE_BF16 == TSR_BF16 && TYPE_I8 == TSR_I8 &&
                   TYPE_I32 == TSR_I32 && TYPE_I4 != TSR_I8,
               "element types");
_Static_assert(ACTIVATION_NONE == TSR_ACTIVATION_NONE && ACTIVATION_RELU == TSR_ACTIVATION_RELU &&
                   ACTIVATION_GELU_ERF == TSR_ACTIVATION_GELU_ERF && ACTIVATION_GELU_TANH == TSR_ACTIVATION_GELU_TANH &&
                   ACTIVATION_SILU == TSR_ACTIVATION_SILU,
               "activations");

const tsr_tensor_desc *tsr_vk_tensor(const tsr_vk_planner *planner, int32_t tensor)
{
  return tsr_tensor_at(planner->program, tensor);
}

const tsr_tensor_desc *tsr_vk_in(const tsr_vk_planner *planner, int32_t slot)
{
  return tsr_vk_tensor(planner, planner->line->in[slot]);
}

const tsr_tensor_desc *tsr_vk_out(const tsr_vk_planner *planner, int32_t slot)
{
  return tsr_vk_tensor(planner, planner->line->out[slot]);
}

tsr_vk_view tsr_vk_view_of(const tsr_tensor_desc *tensor)
{
  tsr_vk_view view = {.offset = (uint32_t)tensor->offset};
  int32_t missing = 4 - tensor->rank;
  for (int32_t i = 0; i < 4; ++i) {
    view.extent[i] = i < missing ? 1 : (uint32_t)tensor->extent[i - missing];
    view.stride[i] = view.extent[i] <= 1 ? 0 : (uint32_t)tensor->stride[i - missing];
  }
  return view;
}

tsr_vk_view tsr_vk_view_in(const tsr_vk_planner *planner, int32_t slot)
{
  return planner->line->in[slot] != 0 ? tsr_vk_view_of(tsr_vk_in(planner, slot)) : (tsr_vk_view){.offset = 0};
}

int tsr_vk_has_four_bits(const tsr_vk_planner *planner, int32_t slot)
{
  return planner->line->in[slot] != 0 && tsr_vk_in(planner, slot)->dtype == TSR_F16;
}

uint64_t tsr_vk_elements(const tsr_tensor_desc *tensor)
{
  uint64_t n = 1;
  for (int32_t i = 0; i < tensor->rank; ++i) {
    n *= (uint64_t)tensor->extent[i];
  }
  return n;
}

uint64_t tsr_vk_view_elements(const tsr_vk_view *view)
{
  return (uint64_t)view->extent[0] * view->extent[1] * view->extent[2] * view->extent[3];
}

int tsr_vk_contiguous(const tsr_vk_view *view)
{
  uint32_t expected = 1;
  for (int32_t i = 3; i >= 0; --i) {
    if (view->extent[i] > 1 && view->stride[i] != expected) {
      return 0;
    }
    expected *= view->extent[i];
  }
  return 1;
}

uint32_t tsr_vk_axes(const tsr_vk_view *view)
{
  if (view->extent[0] != 1 || view->extent[1] != 1) {
    return 4;
  }
  return view->extent[2] != 1 ? 2 : 1;
}

static int mergeable(const tsr_vk_view *views, int32_t n, int32_t outer, int32_t inner)
{
  for (int32_t i = 0; i < n; ++i) {
    if ((uint64_t)views[i].stride[inner] * views[i].extent[inner] != views[i].stride[outer]) {
      return 0;
    }
  }
  return 1;
}

void tsr_vk_collapse(tsr_vk_view *views, int32_t n)
{
  int32_t kept = 3;
  for (int32_t axis = 2; axis >= 0; --axis) {
    if (views[0].extent[axis] == 1) {
      continue;
    }
    int merge = views[0].extent[kept] == 1 ? 2 : mergeable(views, n, axis, kept);
    kept -= merge == 0;
    for (int32_t i = 0; i < n; ++i) {
      if (merge == 1) {
        views[i].extent[kept] *= views[i].extent[axis];
      } else {
        views[i].extent[kept] = views[i].extent[axis];
        views[i].stride[kept] = views[i].stride[axis];
      }
    }
  }
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t axis = 0; axis < kept; ++axis) {
      views[i].extent[axis] = 1;
      views[i].stride[axis] = 0;
    }
  }
}

int tsr_vk_quads(tsr_vk_view *views, int32_t n, uint32_t *repeat)
{
  *repeat = 0;
  if (views[0].extent[3] % 4 != 0) {
    return 0;
  }
  for (int32_t i = 0; i < n; ++i) {
    if (views[i].stride[3] == 0) {
      *repeat |= 1u << i;
      continue;
    }
    uint32_t low = views[i].offset | views[i].stride[0] | views[i].stride[1] | views[i].stride[2];
    if (views[i].stride[3] != 1 || low % 4 != 0) {
      return 0;
    }
  }
  for (int32_t i = 0; i < n; ++i) {
    views[i].extent[3] /= 4;
    if ((*repeat >> i & 1u) == 0) {
      views[i].offset /= 4;
      for (int32_t axis = 0; axis < 3; ++axis) {
        views[i].stride[axis] /= 4;
      }
    }
  }
  return 1;
}

int tsr_vk_whole_quads(tsr_vk_view *views, int32_t n)
{
  tsr_vk_view as_quads[4];
  uint32_t repeat;
  memcpy(as_quads, views, (size_t)n * sizeof *views);
  if (!tsr_vk_quads(as_quads, n, &repeat) || repeat != 0) {
    return 0;
  }
  memcpy(views, as_quads, (size_t)n * sizeof *views);
  return 1;
}

int tsr_vk_in_quads(tsr_vk_view *view, int32_t contiguous)
{
  uint32_t low = view->offset;
  for (int32_t i = 0; i < 4; ++i) {
    low |= i == contiguous ? 0 : view->stride[i];
  }
  if (view->stride[contiguous] != 1 || low % 4 != 0) {
    return 0;
  }
  view->offset /= 4;
  for (int32_t i = 0; i < 4; ++i) {
    view->stride[i] /= i == contiguous ? 1 : 4;
  }
  return 1;
}

void tsr_vk_restart(tsr_vk_planner *planner)
{
  planner->plan->scratch_bytes = planner->first_scratch_bytes;
  planner->plan->n_dispatches = planner->first_dispatch;
  planner->is_added = 0;
  planner->are_halves_seen = 0;
}

tsr_vk_dispatch *tsr_vk_add(tsr_vk_planner *planner, int32_t shader, const void *push, uint32_t push_bytes)
{
  assert(tsr_vk_shaders[shader].packed == NULL || tsr_vk_shaders[shader].push_bytes == push_bytes);
  if (planner->plan->n_dispatches == TSR_VK_MAX_DISPATCHES) {
    return NULL;
  }
  tsr_vk_dispatch *dispatch = &planner->plan->dispatch[planner->plan->n_dispatches++];
  memset(dispatch, 0, sizeof *dispatch);
  dispatch->shader = shader;
  dispatch->push_bytes = push_bytes;
  memcpy(dispatch->push, push, push_bytes);
  return dispatch;
}

static void add_operand(tsr_vk_dispatch *dispatch, int32_t tensor, int32_t write)
{
  dispatch->operand[dispatch->n_operands++] = (tsr_vk_operand){.tensor = tensor, .write = write};
}

void tsr_vk_read(tsr_vk_dispatch *dispatch, int32_t tensor)
{
  add_operand(dispatch, tensor, 0);
}

void tsr_vk_write(tsr_vk_dispatch *dispatch, int32_t tensor)
{
  add_operand(dispatch, tensor, 1);
}

void tsr_vk_spec(tsr_vk_dispatch *dispatch, int32_t constant, uint32_t value)
{
  dispatch->spec[constant] = value;
  dispatch->specified |= 1u << constant;
  dispatch->n_spec = dispatch->n_spec > constant ? dispatch->n_spec : constant + 1;
}

void tsr_vk_set_size(tsr_vk_dispatch *dispatch, uint32_t size)
{
  tsr_vk_spec(dispatch, SPEC_SIZE_X, size);
  tsr_vk_spec(dispatch, SPEC_SIZE_Y, 1);
}

uint32_t tsr_vk_bits_of(float x)
{
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

void tsr_vk_read_in(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, int32_t slot)
{
  int32_t tensor = planner->line->in[slot];
  tsr_vk_read(dispatch, tensor != 0 ? tensor : dispatch->operand[0].tensor);
}

uint32_t tsr_vk_reserve(tsr_vk_planner *planner, uint64_t words)
{
  uint64_t at = ((uint64_t)planner->plan->scratch_bytes + 15) / 16 * 16;
  planner->plan->scratch_bytes = (int64_t)(at + words * 4);
  return (uint32_t)(at / 4);
}

uint64_t tsr_vk_storage_bytes(const tsr_vk_planner *planner, int32_t tensor)
{
  if (tensor == TSR_VK_SCRATCH) {
    return (uint64_t)planner->plan->scratch_bytes;
  }
  return ((uint64_t)tsr_storage_at(planner->program, tsr_vk_tensor(planner, tensor)->storage)->size + 3) / 4 * 4;
}

int tsr_vk_finish(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, uint64_t groups)
{
  const tsr_vk_caps *caps = planner->caps;
  uint64_t rest = groups;
  for (int axis = 0; axis < 2; ++axis) {
    const uint64_t along = rest < caps->max_groups[axis] ? rest : caps->max_groups[axis];
    dispatch->groups[axis] = (uint32_t)along;
    rest = tsr_vk_divide_up(rest, along);
  }
  if (rest > caps->max_groups[2]) {
    return 0;
  }
  dispatch->groups[2] = (uint32_t)rest;
  /* An empty storage has nothing to bind: the shader does not touch it, so another operand stands in for it. That
   * may be one which is written, by the line's other dispatches too. */
  int32_t substitute = 0;
  int32_t wide = 0;
  for (int32_t i = 0; i < dispatch->n_operands; ++i) {
    uint64_t bytes = tsr_vk_storage_bytes(planner, dispatch->operand[i].tensor);
    if (bytes > 0) {
      substitute = dispatch->operand[i].tensor;
    }
    wide |= bytes > caps->max_binding;
  }
  for (int32_t i = 0; i < dispatch->n_operands; ++i) {
    if (tsr_vk_storage_bytes(planner, dispatch->operand[i].tensor) == 0) {
      dispatch->operand[i].tensor = substitute;
      dispatch->after = 1;
    }
  }
  const uint32_t size = dispatch->spec[SPEC_SIZE_X];
  if (tsr_vk_shaders[dispatch->shader].is_subgroup && size >= caps->subgroup_sizes[0] &&
      size <= caps->subgroup_sizes[1]) {
    dispatch->subgroup_size = size;
  }
  dispatch->scratch_bytes = planner->plan->scratch_bytes;
  dispatch->wide = wide;
  dispatch->shader += wide;
  return !wide || caps->wide;
}

uint32_t tsr_vk_group_size(const tsr_vk_caps *caps, uint32_t wanted)
{
  uint32_t size = 1;
  while (size * 2 <= wanted && size * 2 <= caps->max_invocations && size * 2 <= caps->max_size[0]) {
    size *= 2;
  }
  return size;
}

uint32_t tsr_vk_reduce_size(const tsr_vk_caps *caps, uint64_t n, int *subgroup)
{
  /* A CPU's driver may give up on a shader after 65535 rounds of its loops in all (Mesa's llvmpipe does, and tells
   * nobody): rows that take a good part of them, a few times over, get more invocations. On a GPU long rows want more
   * loads in flight than a subgroup has. */
  const uint64_t most_rounds = caps->compute_like_cpu ? 8192 : 16;
  const uint32_t lanes = caps->subgroup_size;
  const int is_known = caps->compute_like_cpu || (caps->subgroup_sizes[0] > 0 && lanes >= caps->subgroup_sizes[0] &&
                                                  lanes <= caps->subgroup_sizes[1]);
  *subgroup = is_known && caps->subgroup_arithmetic && lanes <= caps->max_size[0] && n <= most_rounds * lanes;
  if (*subgroup) {
    return lanes;
  }
  uint32_t size = 32;
  while (size < n && size < 256) {
    size *= 2;
  }
  return tsr_vk_group_size(caps, size);
}

tsr_vk_dispatch *tsr_vk_add_rows(tsr_vk_planner *planner, int32_t shader, const void *push, uint32_t push_bytes,
                                 int quads, uint64_t n)
{
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, n, &subgroup);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, shader + (quads ? TSR_VK_QUADS : 0) + (subgroup ? TSR_VK_SUBGROUP : 0), push, push_bytes);
  if (dispatch == NULL) {
    return NULL;
  }
  tsr_vk_set_size(dispatch, size);
  return dispatch;
}

const tsr_vk_shape *tsr_vk_next_shape(const tsr_vk_caps *caps, int32_t dtype, const tsr_vk_shape *last)
{
  for (const tsr_vk_shape *shape = last != NULL ? last + 1 : caps->shapes; shape < caps->shapes + caps->n_shapes;
       ++shape) {
    if (shape->dtype == dtype) {
      return shape;
    }
  }
  return NULL;
}

static int32_t reduced_precision(const tsr_line_desc *line)
{
  const tsr_op_attributes *attributes = &line->attributes;
  const size_t end = offsetof(tsr_op_attributes, reduced_precision) + sizeof attributes->reduced_precision;
  return attributes->struct_size >= end ? attributes->reduced_precision : 0;
}

int tsr_vk_has_reduced_precision(const tsr_vk_planner *planner)
{
  return reduced_precision(planner->line) != 0;
}

int32_t tsr_vk_factors_of(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const int32_t dtype = tsr_tensor_at(program, line->in[1])->dtype, reduced = reduced_precision(line);
  const int32_t factors = dtype == TSR_F32 ? reduced : reduced != 0 ? dtype : 0;
  return factors == TSR_F16 || factors == TSR_BF16 ? factors : 0;
}

int32_t tsr_vk_attention_factors(const tsr_vk_planner *planner)
{
  const int32_t reduced = reduced_precision(planner->line);
  return reduced == TSR_BF16 ? TSR_BF16 : reduced != 0 ? TSR_F16 : 0;
}
