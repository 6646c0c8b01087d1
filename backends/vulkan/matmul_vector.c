/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_vector.comp: products with few rows.
 */
#include "backends/vulkan/matmul.h"

int tsr_vk_plan_vector(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t form)
{
  enum { SIZE = 128, MAX_SUMS = 16, MAX_TILE_ROWS = 8 };
  (void)form;
  uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  uint32_t along_depth = p->b.stride[2] == 1 && p->b.stride[3] != 1;
  uint32_t depth_lanes = along_depth ? 32 : 8, tile_rows = p->rows < MAX_TILE_ROWS ? p->rows : MAX_TILE_ROWS;
  uint32_t tile_columns = along_depth && tile_rows * 2 <= MAX_SUMS ? 2 : 1;
  if (size < depth_lanes)
    return 0;
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_product(planner, TSR_VK_VARIANT_MATMUL_VECTOR, p, tile_rows, size / depth_lanes * tile_columns, size);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  tsr_vk_spec(dispatch, tile_columns);
  tsr_vk_spec(dispatch, depth_lanes);
  tsr_vk_spec(dispatch, along_depth);
  return 1;
}
