/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product. Its files know each other in one direction only:
 *
 *     ops_matmul.c         chooses among the variants; of products with weights of i8 matmul_i8.c does
 *     ops_matmul_topk.c    the same where only the largest of each row are wanted
 *     matmul_VARIANT.c        plans a product in variants of its own
 *     matmul.c             what the variants share
 */
#ifndef TESSERA_BACKENDS_VULKAN_MATMUL_H
#define TESSERA_BACKENDS_VULKAN_MATMUL_H

#include "backends/vulkan/kernel_common.h"

/* A product, as a variant takes it: the last two axes of a are m and k, of b k and n, of bias m and n. */
typedef struct tsr_vk_product {
  tsr_vk_view a;
  tsr_vk_view b;
  tsr_vk_view bias;
  uint32_t rows;
  uint32_t columns;
  uint32_t depth;
  uint64_t batch;
  uint32_t parts; /* of the depth, each summed by workgroups of its own; 1 unless tsr_vk_cut_depth was called */
  uint32_t part_depth;
  uint32_t parts_at;  /* where they lie: words into scratch */
  int32_t y;          /* the result's tensor, or TSR_VK_SCRATCH */
  uint32_t halves;    /* HALVES_* (shaders/contract/matmul_cooperative.h) */
  uint32_t y_at;      /* with HALVES_Y: words into scratch, where the result begins */
  int32_t quantised;  /* 1: b is of i8; a's rows lie quantised in scratch, where `a` says, in groups of four words */
  int32_t four_bits;  /* 1: and its bytes hold two weights each */
  tsr_vk_view scales; /* of b's columns, with quantised; of four bits axis 2 are the groups along k */
} tsr_vk_product;

/* Workgroups that keep most devices busy. How many a device executes at a time Vulkan does not tell. */
#define TSR_VK_ENOUGH_GROUPS 256

/* Plans a product of floats by the variant that is forced, measured or chosen. Its line's attributes are those of a
 * matmul, with the operands in the same slots. 0 if no variant can be had. */
int tsr_vk_plan_product(tsr_vk_planner *planner, const tsr_vk_product *product);

/* Invocations of a subgroup that can be asked for: enough for a row of sums, few enough for registers for each, and no
 * more than needed; 0: none can be asked for. */
uint32_t tsr_vk_narrow_subgroup(const tsr_vk_caps *caps);

/* Rows of a product up to which a GPU computes it by the vector variants: beyond, tiles pay, which read b fewer times.
 * Several tiles of eight rows read b from a cache, and multiply without cooperative matrices or large tiles: that costs
 * a large device less than the stages that it saves, and a small one more. */
uint32_t tsr_vk_few_rows(const tsr_vk_caps *caps);

/* Rounds of a shader's loops that a CPU's driver is asked for at most: it may give up after 65535
 * (tsr_vk_reduce_size). */
#define TSR_VK_MOST_ROUNDS 32768

/* Parts that the depth must have, because a CPU's driver may give up on one loop over it. */
uint64_t tsr_vk_least_parts(const tsr_vk_caps *caps, uint32_t depth);

/* Where `groups` workgroups would leave a device idle cuts the depth into parts, multiples of `step` but the last.
 * The variant then sums each part for itself, and leaves them in the line's scratch, those of a product one after
 * another. */
void tsr_vk_cut_depth(tsr_vk_planner *planner, tsr_vk_product *product, uint64_t groups, uint32_t step);

/* Adds a dispatch of a workgroup of `size` invocations for each tile of tile_rows x tile_columns results. Its
 * specialisation constants from 4 on are the variant's own. Where only the largest of each row are wanted
 * (tsr_vk_planner.topk) the shader's sister takes its place that leaves candidates in scratch. NULL if it cannot be
 * done, or there is no such sister. */
tsr_vk_dispatch *tsr_vk_add_product(tsr_vk_planner *planner, int32_t shader, const tsr_vk_product *product,
                                    uint32_t tile_rows, uint32_t tile_columns, uint32_t size);

/* Called last: where the depth was cut adds the dispatch that adds up the parts. 0 if it cannot be done. */
int tsr_vk_finish_product(tsr_vk_planner *planner, const tsr_vk_product *product);

/* Plans a product, with its topk or without, in one variant. 0 if that cannot be had. */
typedef int (*tsr_vk_plan_variant)(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);

/* Plans the product with its topk, by the variant that is forced or `tuned`, if that can be had, else by `chosen`, or
 * one of `others`, which ends with TSR_VK_VARIANT_AUTO (NULL: none). 0 if that cannot be had, or is worth less than the
 * product alone. */
int tsr_vk_plan_matmul_topk(tsr_vk_planner *planner, const tsr_vk_product *product, tsr_vk_plan_variant plan,
                            int32_t tuned, int32_t chosen, const int32_t *others);

/* Each plans the product in `variant`, one of its own. Returns 1, or 0 if it cannot be had. */
int tsr_vk_plan_plain(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);
int tsr_vk_plan_tiled(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);
int tsr_vk_plan_vector(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);
int tsr_vk_plan_generic(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);
int tsr_vk_plan_cooperative(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);

/* Plans the product with the lines around it (tsr_vk_planner.around). 0 if it cannot be had, or is worth less than the
 * lines apart. */
int tsr_vk_plan_fused(tsr_vk_planner *planner, const tsr_vk_product *product);

/* By the same kernel, a product alone with weights of i8, and the variant of it that suits the device. */
int tsr_vk_plan_i8_fused(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant);
int32_t tsr_vk_choose_i8_fused(const tsr_vk_caps *caps);

/* The variant of cooperative matrices that suits the weights' type and the extents, wherever it can be had;
 * TSR_VK_VARIANT_AUTO: none does. */
int32_t tsr_vk_choose_cooperative(const tsr_vk_planner *planner, const tsr_vk_product *product);

/* Of the tiled variants, the one whose tile suits the product and the device. */
int32_t tsr_vk_choose_tiled(const tsr_vk_caps *caps, const tsr_vk_product *product);

/* Plans a product with weights of i8 in a variant of its own, `tuned` where it can be had: matmul_i8.c. */
int tsr_vk_plan_matmul_i8(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t tuned);

#endif
