/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of each row of a product, or of the logarithm of its softmax, without that product's result in memory:
 * each workgroup of the product leaves the largest of its columns (shaders/lib/product_topk.glsl), and
 * shaders/topk_merge.comp takes the largest of those.
 */
#include "backends/vulkan/matmul.h"
#include "shaders/contract/topk_merge.h"

/* Adds the dispatch that finds the largest of the candidates that the product, planned last, leaves. */
static int add_topk_merge(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const tsr_vk_topk *topk = &planner->topk;
  tsr_vk_topk_merge_push push = {.rows = p->rows, .lists = topk->lists, .candidates_at = topk->candidates_at};
  if (topk->state != 0) {
    push.state_at = (uint32_t)tsr_vk_tensor(planner, topk->state)->offset;
  }
  uint64_t work = (uint64_t)topk->lists * (uint64_t)topk->k * (uint64_t)topk->k; /* of a row */
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, work, &subgroup);
  if (planner->caps->compute_like_cpu && work / size + (uint64_t)topk->k * 16 > TSR_VK_MOST_ROUNDS) {
    return 0;
  }
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, subgroup ? TSR_VK_SHADER_TOPK_MERGE_SUBGROUP : TSR_VK_SHADER_TOPK_MERGE, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, topk->values);
  tsr_vk_write(dispatch, topk->indices);
  tsr_vk_write(dispatch, topk->state != 0 ? topk->state : topk->indices);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_merge_k, (uint32_t)topk->k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_merge_logarithm, topk->logarithm != 0);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_topk_merge_feeds, topk->state != 0);
  dispatch->after = 1;
  dispatch->work = 10.0 * (double)p->rows * (double)work;
  return tsr_vk_finish(planner, dispatch, p->rows);
}

/* 1 if the variant can be had for the product by itself. */
static int is_had(tsr_vk_planner *planner, const tsr_vk_product *p, tsr_vk_plan_variant plan, int32_t variant)
{
  const tsr_vk_topk topk = planner->topk;
  planner->topk = (tsr_vk_topk){.k = 0};
  int had = plan(planner, p, variant);
  planner->topk = topk;
  return had;
}

/* Not where cooperative matrices make the product but cannot leave candidates: they are worth more than what fusing
 * saves. */
int tsr_vk_plan_matmul_topk(tsr_vk_planner *planner, const tsr_vk_product *product, tsr_vk_plan_variant plan,
                            int32_t tuned, int32_t chosen, const int32_t *others)
{
  if (product->batch != 1) {
    return 0;
  }
  int32_t forced = planner->caps->forced;
  int32_t given = is_had(planner, product, plan, forced)  ? forced
                  : is_had(planner, product, plan, tuned) ? tuned
                                                          : TSR_VK_VARIANT_AUTO;
  const int32_t cooperative = tsr_vk_choose_cooperative(planner, product);
  int is_cooperative = given == TSR_VK_VARIANT_AUTO && is_had(planner, product, plan, cooperative);
  tsr_vk_product p = *product;
  p.y = TSR_VK_SCRATCH;
  if (given != TSR_VK_VARIANT_AUTO && plan(planner, &p, given)) {
    return add_topk_merge(planner, &p);
  }
  if (is_cooperative && plan(planner, &p, cooperative)) {
    return add_topk_merge(planner, &p);
  }
  if (is_cooperative || (given != TSR_VK_VARIANT_AUTO && given == forced)) {
    return 0;
  }
  int found = plan(planner, &p, chosen);
  for (; !found && others != NULL && *others != TSR_VK_VARIANT_AUTO; ++others) {
    found = plan(planner, &p, *others);
  }
  return found && add_topk_merge(planner, &p);
}
