/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_plain.comp: for devices on which shared memory and barriers cost more than loads.
 */
#include "shaders/contract/matmul_plain.h"
#include "backends/vulkan/matmul.h"

int tsr_vk_plan_plain(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  (void)variant;
  tsr_vk_product p = *product;
  const tsr_vk_caps *caps = planner->caps;
  uint32_t lanes = caps->subgroup_size;
  if (!caps->subgroup_shuffle || lanes < 4 || (lanes & (lanes - 1)) != 0 || lanes > caps->max_size[0]) {
    return 0;
  }
  /* Its tiles are as large as a CPU's registers and caches are; a GPU's do not hold them, and it has variants of its
   * own. */
  if (p.depth == 0 || !caps->compute_like_cpu) {
    return 0;
  }
  int32_t shader = TSR_VK_SHADER_MATMUL_PLAIN_ANY_STRIDE;
  uint32_t tile_rows = 1, tile_columns = 2;
  tsr_vk_view a = p.a, b = p.b, a_columns = p.a;
  if (p.depth % 4 == 0 && tsr_vk_in_quads(&a, 3)) {
    if (tsr_vk_in_quads(&b, 2)) {
      shader = TSR_VK_SHADER_MATMUL_PLAIN;
    } else if (p.columns % 4 == 0 && tsr_vk_in_quads(&b, 3)) {
      shader = TSR_VK_SHADER_MATMUL_PLAIN_BY_ROW;
      tile_columns = 4;
    }
  } else if (p.rows % 4 == 0 && p.columns % 4 == 0 && tsr_vk_in_quads(&a_columns, 2) && tsr_vk_in_quads(&b, 3)) {
    shader = TSR_VK_SHADER_MATMUL_PLAIN_BY_COLUMN;
    a = a_columns;
    tile_rows = 4;
    tile_columns = 4;
  }
  if (shader != TSR_VK_SHADER_MATMUL_PLAIN_ANY_STRIDE) {
    p.a = a;
    p.b = b;
  }
  uint32_t most_rows = shader == TSR_VK_SHADER_MATMUL_PLAIN_BY_COLUMN ? 4 * lanes : lanes;
  while (tile_rows < most_rows && tile_rows < 8 && tile_rows < p.rows) {
    tile_rows *= 2;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add_product(planner, shader, &p, tile_rows, lanes * tile_columns, lanes);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_tile_rows, tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_lanes, lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_tile_columns, tile_columns);
  return 1;
}
