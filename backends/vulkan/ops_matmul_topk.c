/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of each row of a product, or of the logarithm of its softmax, without that product's result in memory:
 * each workgroup of the product leaves the best of its columns (shaders/lib/best.glsl), and shaders/best.comp takes the
 * best of those.
 */
#include "backends/vulkan/matmul.h"
#include "shaders/contract/best.h"
#include "shaders/contract/held.h"

/* A CPU's driver may give up on a shader after 65535 rounds of its loops (tsr_vk_reduce_size). */
enum { MOST_ROUNDS = 32768 };

/* On a GPU few, so that the workgroups are many, though several times k; by the columns and k alone, so that a row's
 * sum does not depend on the rows beside it. A CPU's driver may give up on a shader after 65535 rounds of its loops
 * (tsr_vk_reduce_size): those of a product over columns of the depth, in fours at best (of i8: of groups, each in
 * several rounds), and then of all rows. */
static uint32_t wanted_columns(const tsr_vk_planner *planner, const tsr_vk_product *p, uint32_t tile_rows,
                               uint32_t tile_columns)
{
  enum { GPU_COLUMNS = 16, CPU_COLUMNS = 256, MANY_COLUMNS = 8192, GROUP_ROUNDS = 8 };
  if (!planner->caps->compute_like_cpu) {
    return planner->best.k == 1 ? GPU_COLUMNS : planner->best.k <= 8 ? 2 * GPU_COLUMNS : 4 * GPU_COLUMNS;
  }
  uint32_t columns = p->columns < MANY_COLUMNS ? CPU_COLUMNS : 2 * CPU_COLUMNS, lanes = planner->caps->subgroup_size;
  uint32_t rounds = p->quantised ? p->depth * GROUP_ROUNDS : p->depth; /* of a tile */
  while (columns > tile_columns &&
         (uint64_t)columns / tile_columns * rounds + (uint64_t)tile_rows * (uint64_t)planner->best.k * columns / lanes >
             MOST_ROUNDS) {
    columns /= 2;
  }
  return columns;
}

int32_t tsr_vk_best_variant(const tsr_vk_planner *planner, const tsr_vk_product *p, int32_t variant, uint32_t tile_rows,
                            uint32_t tile_columns, uint32_t *columns)
{
  const tsr_vk_caps *caps = planner->caps;
  uint32_t wanted = wanted_columns(planner, p, tile_rows, tile_columns), own_bytes = 0; /* of shared memory */
  int32_t best = -1;
  *columns = wanted > tile_columns ? wanted / tile_columns * tile_columns : tile_columns;
  switch (variant) {
  case TSR_VK_VARIANT_MATMUL_PLAIN:
    best = caps->subgroup_arithmetic ? TSR_VK_VARIANT_MATMUL_PLAIN_BEST : -1;
    break;
  case TSR_VK_VARIANT_MATMUL_I8_PLAIN:
    best = caps->subgroup_arithmetic ? TSR_VK_VARIANT_MATMUL_I8_PLAIN_BEST : -1;
    break;
  case TSR_VK_VARIANT_MATMUL_TILED:
    best = TSR_VK_VARIANT_MATMUL_TILED_BEST;
    own_bytes = 2 * 16 * (tile_rows + tile_columns) * 4;
    break;
  case TSR_VK_VARIANT_MATMUL_VECTOR:
    best = TSR_VK_VARIANT_MATMUL_VECTOR_BEST;
    own_bytes = 4096;
    break;
  case TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP:
    best = TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP_BEST;
    break;
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR:
    best = TSR_VK_VARIANT_MATMUL_I8_VECTOR_BEST;
    own_bytes = 8192;
    break;
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT:
    best = TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT_BEST;
    own_bytes = 8192;
    break;
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP:
    best = TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_BEST;
    break;
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT:
    best = TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT_BEST;
    break;
  default:
    break;
  }
  return 2 * (uint32_t)planner->best.k <= *columns && *columns * tile_rows * 4 + own_bytes <= caps->shared_memory ? best
                                                                                                                  : -1;
}

void tsr_vk_spec_best(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, uint32_t tile_rows, uint32_t columns)
{
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_held_columns, columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_held_words, columns * tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_kept, (uint32_t)planner->best.k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_with_sums, planner->best.logarithm != 0);
}

/* Adds the dispatch that finds the best of the candidates that the product, planned last, leaves. */
static int add_best(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const tsr_vk_best *best = &planner->best;
  tsr_vk_best_push push = {.rows = p->rows, .lists = best->lists, .candidates_at = best->candidates_at};
  uint64_t work = (uint64_t)best->lists * (uint64_t)best->k * (uint64_t)best->k; /* of a row */
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, work, &subgroup);
  if (planner->caps->compute_like_cpu && work / size + (uint64_t)best->k * 16 > MOST_ROUNDS) {
    return 0;
  }
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, subgroup ? TSR_VK_VARIANT_BEST_SUBGROUP : TSR_VK_VARIANT_BEST, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, best->values);
  tsr_vk_write(dispatch, best->indices);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_best_k, (uint32_t)best->k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_best_logarithm, best->logarithm != 0);
  dispatch->after = 1;
  dispatch->work = 10.0 * (double)p->rows * (double)work;
  return tsr_vk_finish(planner, dispatch, p->rows);
}

/* 1 if the form can be had for the product by itself. */
static int is_had(tsr_vk_planner *planner, const tsr_vk_product *p, tsr_vk_plan_form plan, int32_t form)
{
  const tsr_vk_best best = planner->best;
  planner->best = (tsr_vk_best){.k = 0};
  int had = plan(planner, p, form);
  planner->best = best;
  return had;
}

/* Not where cooperative matrices make the product: that is worth more than what joining it saves. */
int tsr_vk_plan_best(tsr_vk_planner *planner, const tsr_vk_product *product, tsr_vk_plan_form plan, int32_t tuned,
                     int32_t chosen, const int32_t *others)
{
  if (product->batch != 1) {
    return 0;
  }
  int32_t forced = planner->caps->forced;
  int32_t given = is_had(planner, product, plan, forced)  ? forced
                  : is_had(planner, product, plan, tuned) ? tuned
                                                          : TSR_VK_FORM_AUTO;
  int is_cooperative =
      given == TSR_VK_FORM_AUTO && is_had(planner, product, plan, tsr_vk_choose_cooperative(planner->caps, product));
  tsr_vk_product p = *product;
  p.y = TSR_VK_SCRATCH;
  if (given != TSR_VK_FORM_AUTO && plan(planner, &p, given)) {
    return add_best(planner, &p);
  }
  if (is_cooperative || (given != TSR_VK_FORM_AUTO && given == forced)) {
    return 0;
  }
  int found = plan(planner, &p, chosen);
  for (; !found && others != NULL && *others != TSR_VK_FORM_AUTO; ++others) {
    found = plan(planner, &p, *others);
  }
  return found && add_best(planner, &p);
}
