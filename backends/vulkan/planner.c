/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans a line: finds the planner of its operator, and holds each to what all shaders count on.
 */
#include <assert.h>

#include "backends/vulkan/kernel_common.h"

/* Shaders count elements of a tensor, and 32-bit words of a storage or of scratch, in 32 bits, and index the latter
 * with a signed number. */
static int within_reach(const tsr_vk_planner *planner, int32_t tensor)
{
  if (tensor == 0) {
    return 1;
  }
  const tsr_tensor_desc *desc = tsr_vk_tensor(planner, tensor);
  if (tsr_vk_storage_bytes(planner, tensor) / 4 > INT32_MAX || tsr_vk_elements(desc) > INT32_MAX) {
    return 0;
  }
  uint64_t end = (uint64_t)desc->offset;
  for (int32_t i = 0; i < desc->rank; ++i) {
    if (desc->extent[i] > INT32_MAX || desc->stride[i] > INT32_MAX) {
      return 0;
    }
    end += desc->extent[i] > 0 ? (uint64_t)(desc->extent[i] - 1) * (uint64_t)desc->stride[i] : 0;
  }
  return end <= UINT32_MAX;
}

static int around_within_reach(const tsr_vk_planner *planner)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *lines[] = {around->norm, around->keys, around->values};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; ++i) {
    for (int32_t slot = 0; lines[i] != NULL && slot < TSR_MAX_INPUTS; ++slot) {
      if (!within_reach(planner, lines[i]->in[slot])) {
        return 0;
      }
    }
    if (lines[i] != NULL && !within_reach(planner, lines[i]->out[0])) {
      return 0;
    }
  }
  return within_reach(planner, around->x) &&
         (around->addend == TSR_VK_SCRATCH || within_reach(planner, around->addend));
}

/* 1 if each dispatch says what every specialisation constant of its shader is. */
static int is_specified(const tsr_vk_plan *plan)
{
  for (int32_t i = 0; i < plan->n_dispatches; ++i) {
    const tsr_vk_dispatch *dispatch = &plan->dispatch[i];
    if ((tsr_vk_shaders[dispatch->shader].constants & ~dispatch->specified) != 0) {
      return 0;
    }
  }
  return 1;
}

int tsr_vk_plan_one(tsr_vk_planner *planner)
{
  static int (*const plan_op[TSR_OP_COUNT])(tsr_vk_planner *) = {
      [TSR_OP_TOPK] = tsr_vk_plan_topk,
      [TSR_OP_MATMUL] = tsr_vk_plan_matmul,
      [TSR_OP_SOFTMAX] = tsr_vk_plan_softmax,
      [TSR_OP_LOG_SOFTMAX] = tsr_vk_plan_softmax,
      [TSR_OP_LAYERNORM] = tsr_vk_plan_norm,
      [TSR_OP_RMSNORM] = tsr_vk_plan_norm,
      [TSR_OP_REDUCE_SUM] = tsr_vk_plan_reduce_sum,
      [TSR_OP_ATTENTION] = tsr_vk_plan_attention,
      [TSR_OP_ATTENTION_GRADIENT] = tsr_vk_plan_attention_gradient,
      [TSR_OP_MASK] = tsr_vk_plan_mask,
      [TSR_OP_ADD] = tsr_vk_plan_elementwise,
      [TSR_OP_MUL] = tsr_vk_plan_elementwise,
      [TSR_OP_RELU] = tsr_vk_plan_elementwise,
      [TSR_OP_GELU] = tsr_vk_plan_elementwise,
      [TSR_OP_SILU] = tsr_vk_plan_elementwise,
      [TSR_OP_EMBEDDING] = tsr_vk_plan_embedding,
      [TSR_OP_COPY] = tsr_vk_plan_copy,
      [TSR_OP_APPEND] = tsr_vk_plan_append,
      [TSR_OP_UPDATE] = tsr_vk_plan_update,
      [TSR_OP_GATHER] = tsr_vk_plan_gather,
      [TSR_OP_CROSS_ENTROPY] = tsr_vk_plan_cross_entropy,
      [TSR_OP_CROSS_ENTROPY_GRADIENT] = tsr_vk_plan_cross_entropy_gradient,
      [TSR_OP_SOFTMAX_GRADIENT] = tsr_vk_plan_softmax_gradient,
      [TSR_OP_LOG_SOFTMAX_GRADIENT] = tsr_vk_plan_softmax_gradient,
      [TSR_OP_LAYERNORM_GRADIENT] = tsr_vk_plan_norm_gradient,
      [TSR_OP_RMSNORM_GRADIENT] = tsr_vk_plan_norm_gradient,
      [TSR_OP_RELATIVE_GRADIENT] = tsr_vk_plan_relative_gradient,
      [TSR_OP_SCATTER_ADD] = tsr_vk_plan_scatter_add,
      [TSR_OP_SUM_OF_SQUARES] = tsr_vk_plan_sum_of_squares,
      [TSR_OP_ADAM] = tsr_vk_plan_adam,
      [TSR_OP_CONCAT] = tsr_vk_plan_concat,
      [TSR_OP_ACTIVATION_GRADIENT] = tsr_vk_plan_elementwise,
      [TSR_OP_MASK_GRADIENT] = tsr_vk_plan_mask_gradient,
      [TSR_OP_DROPOUT] = tsr_vk_plan_dropout,
      [TSR_OP_CONV1D] = tsr_vk_plan_conv1d,
      [TSR_OP_ROTATE] = tsr_vk_plan_rotate,
  };
  tsr_vk_plan *plan = planner->plan;
  plan->variant = TSR_VK_VARIANT_AUTO;
  plan->class = (tsr_vk_class){.op = 0};
  planner->first_dispatch = planner->continues ? plan->n_dispatches : 0;
  planner->first_scratch_bytes = planner->continues ? plan->scratch_bytes : 0;
  tsr_vk_restart(planner);
  int32_t op = planner->line->op;
  if (op <= 0 || op >= TSR_OP_COUNT || plan_op[op] == NULL) {
    return 0;
  }
  for (int32_t i = 0; i < TSR_MAX_INPUTS; ++i) {
    if (!within_reach(planner, planner->line->in[i])) {
      return 0;
    }
  }
  if (!within_reach(planner, planner->addend) || !within_reach(planner, planner->sum) ||
      !within_reach(planner, planner->topk.values) || !within_reach(planner, planner->topk.indices) ||
      !within_reach(planner, planner->topk.state)) {
    return 0;
  }
  if (planner->around != NULL && !around_within_reach(planner)) {
    return 0;
  }
  for (int32_t i = 0; planner->output != NULL && i < TSR_MAX_INPUTS; ++i) {
    if (!within_reach(planner, planner->output->in[i])) {
      return 0;
    }
  }
  int empty = 1;
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; ++i) {
    int32_t out = planner->line->out[i];
    if (!within_reach(planner, out)) {
      return 0;
    }
    empty &= out == 0 || tsr_vk_elements(tsr_vk_tensor(planner, out)) == 0;
  }
  if (empty) {
    return 1;
  }
  if (!plan_op[op](planner) || plan->scratch_bytes / 4 > INT32_MAX) {
    return 0;
  }
  for (int32_t i = planner->first_dispatch; i < plan->n_dispatches; ++i) {
    plan->dispatch[i].variant = plan->variant;
  }
  assert(is_specified(plan));
  return 1;
}

int tsr_vk_plan_line(const tsr_vk_caps *caps, const tsr_program_desc *program, int32_t line, tsr_vk_plan *plan)
{
  tsr_vk_planner planner = {.caps = caps, .program = program, .line = tsr_line_at(program, line), .plan = plan};
  return tsr_vk_plan_one(&planner);
}
