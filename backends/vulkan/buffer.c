/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers without a content; what is in them, transfer.c moves.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

static int32_t create_handle(tsr_backend_buffer *buffer, uint64_t bytes, int32_t usage)
{
  tsr_backend_device *d = buffer->device;
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = bytes,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | (d->caps.wide ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0u),
      .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
  };
  int32_t status = VK(d->host, d->vk.vkCreateBuffer(d->handle, &info, NULL, &buffer->handle));
  if (status != TSR_OK) {
    buffer->handle = VK_NULL_HANDLE;
    return status;
  }
  VkMemoryRequirements needs;
  d->vk.vkGetBufferMemoryRequirements(d->handle, buffer->handle, &needs);
  status = tsr_vk_memory_allocate(d, &needs, usage, buffer->size, &buffer->memory);
  if (status == TSR_OK) {
    status =
        VK(d->host, d->vk.vkBindBufferMemory(d->handle, buffer->handle, buffer->memory.memory, buffer->memory.offset));
  }
  if (status == TSR_OK && d->caps.wide) {
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = buffer->handle};
    buffer->address = d->vk.vkGetBufferDeviceAddress(d->handle, &address);
  }
  return status;
}

int32_t tsr_vk_buffer_allocate(tsr_backend_device *d, uint64_t size, int32_t usage, tsr_backend_buffer **result)
{
  if (size > d->hardware.max_buffer_size) {
    return tsr_vk_fail(d->host, TSR_ERR_DEVICE_MEMORY,
                       "a buffer of %.1f MiB was asked for; the largest on %s is %.1f MiB; use a smaller batch, "
                       "shorter sentences, or another device",
                       (double)size / 1048576.0, d->hardware.properties.deviceName,
                       (double)d->hardware.max_buffer_size / 1048576.0);
  }
  tsr_backend_buffer *buffer = tsr_vk_calloc(d, 1, sizeof(*buffer));
  if (!buffer) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to keep track of a buffer");
  }
  buffer->device = d;
  buffer->size = size;
  uint64_t bytes = ((size + 15) & ~(uint64_t)15) + TSR_VK_SPARE_BYTES;
  int32_t status = create_handle(buffer, bytes, usage);
  if (status == TSR_OK) {
    const int across_bus = !tsr_vk_hardware_unified(&d->hardware) && size > TSR_VK_MAPPED_BYTES;
    const int staged = usage == TSR_BUFFER_DEVICE && (d->force_staging || across_bus);
    buffer->direct_writes = buffer->memory.mapped && !staged;
    buffer->direct_reads = buffer->direct_writes && buffer->memory.fast_reads;
    if (buffer->direct_writes) {
      memset(buffer->memory.mapped, 0, bytes);
      status = tsr_vk_memory_flush(d, &buffer->memory, 0, bytes);
    }
  }
  if (status != TSR_OK) {
    tsr_vk_buffer_destroy(buffer);
    return status;
  }
  tsr_vk_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)buffer->handle,
              usage == TSR_BUFFER_UPLOAD     ? "upload %llu"
              : usage == TSR_BUFFER_READBACK ? "readback %llu"
                                             : "device %llu",
              (unsigned long long)size);
  *result = buffer;
  return TSR_OK;
}

void tsr_vk_buffer_destroy(tsr_backend_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  tsr_backend_device *d = buffer->device;
  tsr_vk_settle(d, buffer->transfer_ticket); /* a copy may still be under way */
  d->vk.vkDestroyBuffer(d->handle, buffer->handle, NULL);
  tsr_vk_memory_free(d, &buffer->memory);
  free(buffer);
}
