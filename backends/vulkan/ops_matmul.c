/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: which variant of product suits the device and the strides, and its tiles.
 *
 *   plain    matmul_plain.comp    long loops, no shared memory: devices that a CPU executes
 *   tiled    matmul_tiled.comp    register tiles over shared memory: GPUs
 *   vector   matmul_vector.comp   few rows: invocations side by side along k
 *   generic  matmul_generic.comp  any strides
 *   coop     matmul_cooperative.comp  cooperative matrices, where the line permits them
 *   fused    matmul_fused.comp    few rows, with the lines around it: where fusion.c asks for it
 *   i8_...   matmul_i8_*.comp     the same with weights of i8 or of four bits: matmul_i8.c; i8_fused... is
 *                                 matmul_fused.comp
 *
 * A tiled or vector product whose results are too few for a large device cuts the depth into parts, which
 * matmul_parts.comp adds up.
 */
#include "backends/vulkan/matmul.h"
#include "shaders/contract/values.h"

/* By variant; those that one planner makes share it. */
static int (*const plan_variant[TSR_VK_VARIANT_COUNT])(tsr_vk_planner *, const tsr_vk_product *, int32_t) = {
    [TSR_VK_VARIANT_MATMUL_PLAIN] = tsr_vk_plan_plain,
    [TSR_VK_VARIANT_MATMUL_TILED_128X128] = tsr_vk_plan_tiled,
    [TSR_VK_VARIANT_MATMUL_TILED_64X64] = tsr_vk_plan_tiled,
    [TSR_VK_VARIANT_MATMUL_TILED_32X64] = tsr_vk_plan_tiled,
    [TSR_VK_VARIANT_MATMUL_TILED_32X32] = tsr_vk_plan_tiled,
    [TSR_VK_VARIANT_MATMUL_TILED_16X64] = tsr_vk_plan_tiled,
    [TSR_VK_VARIANT_MATMUL_VECTOR] = tsr_vk_plan_vector,
    [TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP] = tsr_vk_plan_vector,
    [TSR_VK_VARIANT_MATMUL_GENERIC] = tsr_vk_plan_generic,
    [TSR_VK_VARIANT_MATMUL_COOP_F16_128_64] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_F16_128] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_F16_64] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_F16_32] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_BF16_128_64] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_BF16_128] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_BF16_64] = tsr_vk_plan_cooperative,
    [TSR_VK_VARIANT_MATMUL_COOP_BF16_32] = tsr_vk_plan_cooperative,
};

static int plan(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  const int cuts = variant != TSR_VK_VARIANT_MATMUL_PLAIN && variant != TSR_VK_VARIANT_MATMUL_GENERIC;
  if (!cuts && tsr_vk_least_parts(planner->caps, product->depth) > 1) {
    return 0;
  }
  tsr_vk_restart(planner);
  if (plan_variant[variant] == NULL || !plan_variant[variant](planner, product, variant)) {
    return 0;
  }
  planner->plan->variant = variant;
  return 1;
}

static int32_t choose(const tsr_vk_caps *caps, const tsr_vk_product *product)
{
  enum { LARGE_SUBGROUP = 16 };
  if (caps->compute_like_cpu) {
    return tsr_vk_least_parts(caps, product->depth) > 1 ? TSR_VK_VARIANT_MATMUL_TILED_32X32
                                                        : TSR_VK_VARIANT_MATMUL_PLAIN;
  }
  if (product->rows > tsr_vk_few_rows(caps)) {
    return tsr_vk_choose_tiled(caps, product);
  }
  return caps->subgroup_sizes[1] >= LARGE_SUBGROUP ? TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP
                                                   : TSR_VK_VARIANT_MATMUL_VECTOR;
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { A_ALONG_DEPTH = 1, B_ALONG_DEPTH = 2, FACTORS = 4 /* times their type */ };
  return (tsr_vk_class){
      .op = TSR_OP_MATMUL,
      .field = {p->four_bits ? TYPE_I4 : (uint32_t)tsr_vk_in(planner, 1)->dtype, tsr_vk_bucket(p->rows),
                tsr_vk_bucket(p->columns), tsr_vk_bucket(p->depth), tsr_vk_bucket(p->batch),
                (p->a.stride[3] == 1 ? A_ALONG_DEPTH : 0) | (p->b.stride[2] == 1 ? B_ALONG_DEPTH : 0) |
                    FACTORS * tsr_vk_factors_of(planner->program, planner->line)},
  };
}

/* By the variant that it is given or that is chosen, or one of the same kind that leaves room for what is held. */
static int plan_topk(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t tuned, int32_t chosen)
{
  static const int32_t by_depth[] = {TSR_VK_VARIANT_MATMUL_VECTOR, TSR_VK_VARIANT_AUTO};
  static const int32_t tiled[] = {TSR_VK_VARIANT_MATMUL_TILED_64X64, TSR_VK_VARIANT_MATMUL_TILED_32X64,
                                  TSR_VK_VARIANT_MATMUL_TILED_16X64, TSR_VK_VARIANT_AUTO};
  const int32_t *others = chosen == TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP ? by_depth
                          : plan_variant[chosen] == tsr_vk_plan_tiled     ? tiled
                                                                          : NULL;
  return tsr_vk_plan_matmul_topk(planner, p, plan, tuned, chosen, others);
}

/* The first of the variants that would be taken, and is a cooperative one: those alone know halves. */
static int plan_by_halves(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t tuned)
{
  const int32_t wanted[] = {planner->caps->forced, tuned, tsr_vk_choose_cooperative(planner, p)};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i) {
    if (plan_variant[wanted[i]] != NULL) {
      return plan_variant[wanted[i]] == tsr_vk_plan_cooperative && plan(planner, p, wanted[i]);
    }
  }
  return 0;
}

/* Unless another kind of kernel is forced. */
static int may_be_fused(const tsr_vk_caps *caps, const tsr_vk_product *p)
{
  const int32_t forced = caps->forced;
  if (!p->quantised) {
    return plan_variant[forced] == NULL || plan_variant[forced] == tsr_vk_plan_vector;
  }
  return forced < TSR_VK_VARIANT_MATMUL_COOP_I8_128_64 || forced > TSR_VK_VARIANT_MATMUL_I8_GENERIC ||
         (forced >= TSR_VK_VARIANT_MATMUL_I8_VECTOR && forced <= TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS_DOT);
}

static int plan_chosen(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t tuned, int32_t chosen)
{
  return plan(planner, p, planner->caps->forced) || plan(planner, p, tuned) ||
         plan(planner, p, tsr_vk_choose_cooperative(planner, p)) || plan(planner, p, chosen) ||
         (chosen == TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP && plan(planner, p, TSR_VK_VARIANT_MATMUL_VECTOR)) ||
         plan(planner, p, TSR_VK_VARIANT_MATMUL_GENERIC);
}

int tsr_vk_plan_product(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  planner->plan->class = class_of(planner, p);
  const int32_t tuned = tsr_vk_tuning_find(planner->caps->tuning, &planner->plan->class);
  return plan_chosen(planner, p, tuned, choose(planner->caps, p));
}

int tsr_vk_plan_matmul(tsr_vk_planner *planner)
{
  tsr_vk_product p = {
      .a = tsr_vk_view_in(planner, 0),
      .b = tsr_vk_view_in(planner, 1),
      .bias = tsr_vk_view_in(planner, 2),
  };
  p.rows = p.a.extent[2];
  p.columns = p.b.extent[3];
  p.depth = p.a.extent[3];
  p.batch = (uint64_t)p.a.extent[0] * p.a.extent[1];
  p.parts = 1;
  p.part_depth = p.depth;
  p.y = planner->line->out[0];
  if (planner->line->in[3] != 0) {
    p.quantised = 1;
    p.four_bits = tsr_vk_has_four_bits(planner, 3);
    p.scales = tsr_vk_view_in(planner, 3);
  }
  if (planner->around != NULL) {
    return may_be_fused(planner->caps, &p) && tsr_vk_plan_fused(planner, &p);
  }
  planner->plan->class = class_of(planner, &p);
  const int32_t tuned = tsr_vk_tuning_find(planner->caps->tuning, &planner->plan->class);
  if (p.quantised) {
    return tsr_vk_plan_matmul_i8(planner, &p, tuned);
  }
  if (planner->takes_halves || planner->leaves_halves != 0) {
    return plan_by_halves(planner, &p, tuned);
  }
  const int32_t chosen = choose(planner->caps, &p);
  if (planner->topk.k > 0) {
    return plan_topk(planner, &p, tuned, chosen);
  }
  return plan_chosen(planner, &p, tuned, chosen);
}
