/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/container.h"

#include "core/base/status.h"

void tsr_container_finish(tsr_container *container)
{
  json_decref(container->metadata);
  tsr_arena_finish(&container->arena);
  *container = (tsr_container){0};
}

tsr_status tsr_container_reserve(tsr_container *container, size_t count)
{
  size_t size = (count + 1) * sizeof *container->tensors;
  container->tensors = tsr_arena_take(&container->arena, size);
  return container->tensors ? TSR_OK : tsr_fail_memory(size);
}

void tsr_container_pack(tsr_checkpoint_tensor *tensor)
{
  /* Beside an extent of 0, others may be of any size: their products would overflow. */
  int64_t stride = tsr_shape_elements(&tensor->shape) > 0;
  for (int32_t axis = tensor->shape.rank - 1; axis >= 0; axis--) {
    tensor->strides[axis] = stride;
    stride *= tensor->shape.extent[axis];
  }
}
