/* SPDX-License-Identifier: Apache-2.0
 *
 * topk: by lists in registers (shaders/topk.comp) or by sorting (shaders/topk_sort.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/topk.h"

#include <string.h>

enum { MAX_LIST = 16, MIN_SHARE = 2048, MIN_GROUPS = 64 };

/* Adds one dispatch; reads and writes scratch as told, results where not. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t shader, const tsr_vk_topk_push *push, uint32_t size,
                            int from_scratch, int to_scratch)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, push, sizeof *push);
  if (dispatch == NULL) {
    return NULL;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_write(dispatch, from_scratch || to_scratch ? TSR_VK_SCRATCH : line->out[0]);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_write(dispatch, line->out[1]);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_k, (uint32_t)planner->line->attributes.k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_from_scratch, (uint32_t)from_scratch);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_to_scratch, (uint32_t)to_scratch);
  dispatch->after = from_scratch;
  return tsr_vk_finish(planner, dispatch, push->groups) ? dispatch : NULL;
}

static int plan_lists(tsr_vk_planner *planner, tsr_vk_topk_push push, uint32_t rows, uint32_t n, uint32_t k)
{
  uint64_t shares = tsr_vk_divide_up(n, MIN_SHARE), wanted = tsr_vk_divide_up(MIN_GROUPS, rows);
  shares = shares < wanted ? shares : wanted;
  push.n = n;
  push.share = (uint32_t)tsr_vk_divide_up(n, shares);
  push.shares = (uint32_t)tsr_vk_divide_up(n, push.share);
  push.groups = rows * push.shares;
  int shared = push.shares > 1;
  if (shared) {
    push.to_at = tsr_vk_reserve(planner, (uint64_t)push.groups * k * 2);
  }
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, push.share / 4, &subgroup);
  int32_t shader = subgroup ? TSR_VK_SHADER_TOPK_SUBGROUP : TSR_VK_SHADER_TOPK;
  tsr_vk_dispatch *dispatch = add(planner, shader, &push, size, 0, shared);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->work = (double)rows * n * k;
  if (!shared) {
    return 1;
  }
  push.n = push.share = push.shares * k;
  push.shares = 1;
  push.groups = rows;
  push.from_at = push.to_at;
  size = tsr_vk_reduce_size(planner->caps, push.n / 4, &subgroup);
  shader = subgroup ? TSR_VK_SHADER_TOPK_SUBGROUP : TSR_VK_SHADER_TOPK;
  return add(planner, shader, &push, size, 1, 0) != NULL;
}

static int plan_sort(tsr_vk_planner *planner, tsr_vk_topk_push push, uint32_t rows, uint32_t n, uint32_t k)
{
  uint32_t list = 1, size = tsr_vk_group_size(planner->caps, 256);
  while (list < k) {
    list *= 2;
  }
  uint64_t lists = tsr_vk_divide_up(n, SORTED), words = (uint64_t)rows * lists * list * 2;
  if (words > UINT32_MAX / 4 || planner->caps->shared_memory < SORTED * 8) {
    return 0;
  }
  uint32_t at[2] = {0, 0};
  if (lists > 1) {
    at[0] = tsr_vk_reserve(planner, words);
    at[1] = tsr_vk_reserve(planner, words);
  }
  push.n = n;
  for (int merges = 0; merges == 0 || lists > 1; merges = 1) {
    if (merges) {
      push.n = (uint32_t)lists;
      lists = tsr_vk_divide_up(lists, 2);
    }
    push.shares = (uint32_t)lists;
    push.groups = (uint32_t)(rows * lists);
    push.to_at = at[0];
    push.from_at = at[1];
    tsr_vk_dispatch *dispatch = add(planner, TSR_VK_SHADER_TOPK_SORT, &push, size, merges, lists > 1);
    if (dispatch == NULL) {
      return 0;
    }
    tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_list_length, list);
    dispatch->work = 50.0 * push.groups * (merges ? list : SORTED);
    at[0] = push.from_at;
    at[1] = push.to_at;
  }
  return 1;
}

int tsr_vk_plan_topk(tsr_vk_planner *planner)
{
  tsr_vk_view x = tsr_vk_view_in(planner, 0);
  uint32_t n = x.extent[3], rows = (uint32_t)(tsr_vk_elements(tsr_vk_in(planner, 0)) / n);
  uint32_t k = (uint32_t)planner->line->attributes.k;
  tsr_vk_topk_push push = {.x_offset = x.offset};
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  return k <= MAX_LIST ? plan_lists(planner, push, rows, n, k) : plan_sort(planner, push, rows, n, k);
}
