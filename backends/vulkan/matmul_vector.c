/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_vector.comp: products with few rows, in which every element of b is read once.
 */
#include "shaders/contract/matmul_vector.h"
#include "backends/vulkan/matmul.h"

enum {
  TILE_ROWS = 8,    /* at most */
  LEAST_PART = 4096 /* of a depth that is cut */
};

/* Whether groups of `group` elements of b along one axis can be loaded at once */
static int in_groups(const tsr_vk_view *b, int32_t along, int32_t across, uint32_t group)
{
  uint32_t low = b->offset | b->stride[0] | b->stride[1] | b->stride[across] | b->extent[along];
  return b->stride[along] == 1 && low % group == 0;
}

int tsr_vk_plan_vector(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  const tsr_vk_caps *caps = planner->caps;
  tsr_vk_product p = *product;
  uint32_t group = tsr_vk_in(planner, 1)->dtype == TSR_F32 ? 4 : 8; /* elements of 16 bytes */
  int along_depth = p.b.stride[2] == 1 || p.b.stride[3] != 1,
      subgroup = variant == TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP;
  uint32_t width = in_groups(&p.b, along_depth ? 2 : 3, along_depth ? 3 : 2, group) ? group : 1;
  uint32_t tile_rows = p.rows <= TILE_ROWS / 2 ? p.rows : TILE_ROWS;
  uint32_t size = 0, depth_lanes = 0, loads = 0, steps = 1, tile_columns = 0;
  if (p.depth == 0 || (subgroup && (!along_depth || tsr_vk_narrow_subgroup(caps) == 0))) {
    return 0;
  }
  if (along_depth) {
    /* Columns of an invocation: as many as leave workgroups enough; with a subgroup, as it has invocations for sums */
    size = subgroup ? tsr_vk_narrow_subgroup(caps) : tsr_vk_group_size(caps, 64);
    loads = 4;
    /* Half of them where a narrow subgroup's registers hold loads of eight elements, too. */
    uint32_t most_sums = width == 8 && caps->subgroup_sizes[0] < 32 ? size / 2 : size;
    while (loads > 1 && (p.columns * p.batch < (uint64_t)loads * TSR_VK_ENOUGH_GROUPS ||
                         (subgroup && tile_rows * loads > most_sums))) {
      loads /= 2;
    }
    depth_lanes = subgroup || size < 32 ? size : 32;
    while (steps * loads < 4 && steps * depth_lanes * width < p.depth) {
      steps *= 2;
    }
    tile_columns = size / depth_lanes * loads;
  } else {
    size = tsr_vk_group_size(caps, 128);
    depth_lanes = 8;
    loads = width == 8 ? 2 : 4;
    tile_columns = size / depth_lanes * width;
    if (width == 8 && tile_rows > TILE_ROWS / 2) {
      tile_rows = TILE_ROWS / 2; /* sums for which every device has registers */
    }
  }
  if (subgroup && tile_rows > size) {
    return 0;
  }
  uint64_t groups = p.batch * tsr_vk_divide_up(p.rows, tile_rows) * tsr_vk_divide_up(p.columns, tile_columns);
  /* A dispatch more, that adds up parts, costs a decoding step more than idle processors: only a great depth is cut. */
  const uint32_t round = depth_lanes * (along_depth ? width : loads);
  tsr_vk_cut_depth(planner, &p, groups, round < LEAST_PART ? LEAST_PART / round * round : round);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_product(planner, subgroup ? TSR_VK_SHADER_MATMUL_VECTOR_SUBGROUP : TSR_VK_SHADER_MATMUL_VECTOR, &p,
                         tile_rows, tile_columns, size);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->subgroup_size = subgroup ? size : 0;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_tile_rows, tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_loads, loads);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_lanes, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_depth_lanes, depth_lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_a_in_quads, in_groups(&p.a, 3, 2, 4) && width > 1);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_along_depth, (uint32_t)along_depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_width, width);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_vector_steps, steps);
  return tsr_vk_finish_product(planner, &p);
}
