/* SPDX-License-Identifier: Apache-2.0
 *
 * conv1d, by the kernels of the matrix product: a window of x is a row of the product, as long as the kernel's rows
 * together, and begins `stride` rows of x behind the window before. Each row of the weight is a column.
 */
#include "backends/vulkan/matmul.h"

int tsr_vk_plan_conv1d(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_tensor_desc *y = tsr_vk_out(planner, 0);
  const tsr_vk_view weight = tsr_vk_view_in(planner, 1);
  const uint32_t width = weight.extent[3], depth = weight.extent[2] * width;
  const int64_t next = (int64_t)line->attributes.stride * width;
  tsr_vk_product p = {
      .a = tsr_vk_view_in(planner, 0),
      .b = {.offset = weight.offset, .extent = {1, 1, depth, weight.extent[1]}, .stride = {0, 0, 1, weight.stride[1]}},
      .bias = tsr_vk_view_in(planner, 2),
      .rows = (uint32_t)y->extent[1],
      .columns = weight.extent[1],
      .depth = depth,
      .batch = (uint64_t)y->extent[0],
      .parts = 1,
      .part_depth = depth,
      .y = line->out[0],
  };
  /* Axis 1 stays the batch; a single window has no next one. */
  p.a.extent[2] = p.rows;
  p.a.stride[2] = p.rows > 1 ? (uint32_t)next : 0;
  p.a.extent[3] = depth;
  p.a.stride[3] = 1;
  tsr_line_desc product = *line;
  product.attributes.alpha = 1.0f;
  product.attributes.activation = TSR_ACTIVATION_NONE;
  product.attributes.reduced_precision = 0;
  planner->line = &product;
  const int planned = tsr_vk_plan_product(planner, &p);
  planner->line = line;
  return planned;
}
