/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers and what is in them. Where the host sees the device's memory it writes there directly; elsewhere through the
 * staging ring.
 */
#include <string.h>

#include "backends/vulkan/backend.h"

int32_t tsr_vk_buffer_create(tsr_backend_device *d, uint64_t size, int32_t usage, tsr_backend_buffer **result)
{
  tsr_backend_buffer *buffer;
  int32_t status = tsr_vk_buffer_allocate(d, size, usage, &buffer);
  if (status == TSR_OK && !buffer->direct_writes) {
    status = tsr_vk_staging_clear(buffer);
    if (status != TSR_OK) {
      tsr_vk_buffer_destroy(buffer);
    }
  }
  if (status == TSR_OK) {
    *result = buffer;
  }
  return status;
}

int32_t tsr_vk_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  if (size == 0) {
    return TSR_OK;
  }
  if (!buffer->direct_writes) {
    return tsr_vk_staging_write(buffer, offset, size, bytes);
  }
  /* A staged read may have been the last use; copies by the host are not ordered with the queue by themselves. */
  int32_t status = tsr_vk_wait(buffer->device, buffer->transfer_ticket);
  if (status != TSR_OK) {
    return status;
  }
  memcpy((char *)buffer->memory.mapped + offset, bytes, size);
  return tsr_vk_memory_flush(buffer->device, &buffer->memory, offset, size);
}

int32_t tsr_vk_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  if (size == 0) {
    return TSR_OK;
  }
  if (!buffer->direct_reads) {
    return tsr_vk_staging_read(buffer, offset, size, bytes);
  }
  int32_t status = tsr_vk_memory_invalidate(buffer->device, &buffer->memory, offset, size);
  if (status == TSR_OK) {
    memcpy(bytes, (const char *)buffer->memory.mapped + offset, size);
  }
  return status;
}
