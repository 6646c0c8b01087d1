/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_generic.comp: whatever the strides.
 */
#include "shaders/contract/matmul_generic.h"
#include "backends/vulkan/matmul.h"

int tsr_vk_plan_generic(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t variant)
{
  (void)variant;
  uint32_t size = tsr_vk_group_size(planner->caps, 64), tile_rows = p->rows < 4 ? p->rows : 4;
  tsr_vk_dispatch *dispatch = tsr_vk_add_product(planner, TSR_VK_SHADER_MATMUL_GENERIC, p, tile_rows, size, size);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_generic_tile_rows, tile_rows);
  return 1;
}
