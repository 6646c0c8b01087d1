/* SPDX-License-Identifier: Apache-2.0
 *
 * The staging ring: a few slots of fixed size through which the host reaches buffers that it does not see. While the
 * device copies one slot the host fills or empties another. Made at the first copy; nothing is allocated afterwards.
 */
#include <string.h>

#include "backends/vulkan/backend.h"

static int32_t prepare(tsr_backend_device *d)
{
  tsr_vk_staging *staging = &d->staging;
  if (staging->pool) {
    return TSR_OK;
  }
  VkCommandPoolCreateInfo pool_info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
      .queueFamilyIndex = d->hardware.queue_family,
  };
  VkCommandBuffer commands[TSR_VK_STAGING_SLOTS];
  VkCommandBufferAllocateInfo commands_info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = TSR_VK_STAGING_SLOTS,
  };
  int32_t status = tsr_vk_buffer_allocate(d, (uint64_t)TSR_VK_STAGING_SLOTS * TSR_VK_STAGING_BYTES, TSR_BUFFER_READBACK,
                                          &staging->buffer);
  if (status != TSR_OK) {
    staging->buffer = NULL;
    return status;
  }
  status = VK(d->host, d->vk.vkCreateCommandPool(d->handle, &pool_info, NULL, &staging->pool));
  if (status != TSR_OK) {
    staging->pool = VK_NULL_HANDLE;
  } else {
    commands_info.commandPool = staging->pool;
    status = VK(d->host, d->vk.vkAllocateCommandBuffers(d->handle, &commands_info, commands));
  }
  if (status != TSR_OK) {
    tsr_vk_staging_finish(d);
    return status;
  }
  for (uint32_t i = 0; i < TSR_VK_STAGING_SLOTS; i++) {
    staging->slot[i].commands = commands[i];
    staging->slot[i].offset = (VkDeviceSize)i * TSR_VK_STAGING_BYTES;
    staging->slot[i].bytes = (char *)staging->buffer->memory.mapped + staging->slot[i].offset;
    tsr_vk_name(d, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)commands[i], "staging %u", i);
  }
  return TSR_OK;
}

void tsr_vk_staging_finish(tsr_backend_device *d)
{
  if (d->staging.pool) {
    d->vk.vkDestroyCommandPool(d->handle, d->staging.pool, NULL);
  }
  tsr_vk_buffer_destroy(d->staging.buffer);
  memset(&d->staging, 0, sizeof(d->staging));
}

/* Waits until the slot is free and brings home what a read left in it. */
static int32_t settle(tsr_backend_device *d, tsr_vk_staging_slot *slot)
{
  int32_t status = tsr_vk_wait(d, slot->ticket);
  if (status == TSR_OK && slot->read_to) {
    status = tsr_vk_memory_invalidate(d, &d->staging.buffer->memory, slot->offset, slot->read_size);
    if (status == TSR_OK) {
      memcpy(slot->read_to, slot->bytes, slot->read_size);
    }
  }
  slot->read_to = NULL;
  return status;
}

static int32_t next_slot(tsr_backend_device *d, tsr_vk_staging_slot **slot)
{
  int32_t status = prepare(d);
  if (status == TSR_OK) {
    *slot = &d->staging.slot[d->staging.next];
    d->staging.next = (d->staging.next + 1) % TSR_VK_STAGING_SLOTS;
    status = settle(d, *slot);
  }
  return status;
}

static void barrier(tsr_backend_device *d, VkCommandBuffer commands, VkPipelineStageFlags from,
                    VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access)
{
  VkMemoryBarrier memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = from_access, .dstAccessMask = to_access};
  d->vk.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* Opens the slot's commands, ordered after all that the queue was given before. */
static int32_t begin(tsr_backend_device *d, tsr_vk_staging_slot *slot)
{
  VkCommandBufferBeginInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
  };
  int32_t status = VK(d->host, d->vk.vkBeginCommandBuffer(slot->commands, &info));
  if (status == TSR_OK) {
    barrier(d, slot->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  }
  return status;
}

/* Closes and submits them; what follows on the queue, and the host after a wait, see what they wrote. */
static int32_t submit(tsr_backend_device *d, tsr_vk_staging_slot *slot)
{
  barrier(d, slot->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
              VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
  int32_t status = VK(d->host, d->vk.vkEndCommandBuffer(slot->commands));
  if (status == TSR_OK) {
    status = tsr_vk_submit(d, &slot->commands, 1, &slot->ticket);
  }
  if (status == TSR_OK) {
    d->counters.transfers++;
  }
  return status;
}

/* One chunk, between the slot and the buffer. */
static int32_t copy_chunk(tsr_backend_buffer *buffer, tsr_vk_staging_slot *slot, uint64_t offset, uint64_t size,
                          int to_host)
{
  tsr_backend_device *d = buffer->device;
  int32_t status = begin(d, slot);
  if (status != TSR_OK) {
    return status;
  }
  VkBufferCopy copy = {
      .srcOffset = to_host ? offset : slot->offset, .dstOffset = to_host ? slot->offset : offset, .size = size};
  VkBuffer staging = d->staging.buffer->handle;
  d->vk.vkCmdCopyBuffer(slot->commands, to_host ? buffer->handle : staging, to_host ? staging : buffer->handle, 1,
                        &copy);
  status = submit(d, slot);
  if (status == TSR_OK) {
    buffer->transfer_ticket = slot->ticket;
  }
  return status;
}

static uint64_t chunk_size(uint64_t left)
{
  return left < TSR_VK_STAGING_BYTES ? left : TSR_VK_STAGING_BYTES;
}

int32_t tsr_vk_staging_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  tsr_backend_device *d = buffer->device;
  int32_t status = TSR_OK;
  for (uint64_t done = 0; status == TSR_OK && done < size;) {
    uint64_t chunk = chunk_size(size - done);
    tsr_vk_staging_slot *slot = NULL;
    status = next_slot(d, &slot);
    if (status == TSR_OK) {
      memcpy(slot->bytes, (const char *)bytes + done, chunk);
      status = tsr_vk_memory_flush(d, &d->staging.buffer->memory, slot->offset, chunk);
    }
    if (status == TSR_OK) {
      status = copy_chunk(buffer, slot, offset + done, chunk, 0);
    }
    done += chunk;
  }
  return status;
}

int32_t tsr_vk_staging_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  tsr_backend_device *d = buffer->device;
  int32_t status = TSR_OK;
  for (uint64_t done = 0; status == TSR_OK && done < size;) {
    uint64_t chunk = chunk_size(size - done);
    tsr_vk_staging_slot *slot = NULL;
    status = next_slot(d, &slot);
    if (status == TSR_OK) {
      status = copy_chunk(buffer, slot, offset + done, chunk, 1);
    }
    if (status == TSR_OK) {
      slot->read_to = (char *)bytes + done;
      slot->read_size = chunk;
    }
    done += chunk;
  }
  /* After an error too: no slot may keep a pointer of the caller's. */
  for (uint32_t i = 0; i < TSR_VK_STAGING_SLOTS; i++) {
    tsr_vk_staging_slot *slot = &d->staging.slot[i];
    if (status == TSR_OK && slot->read_to) {
      status = settle(d, slot);
    }
    slot->read_to = NULL;
  }
  return status;
}

int32_t tsr_vk_staging_clear(tsr_backend_buffer *buffer)
{
  tsr_backend_device *d = buffer->device;
  tsr_vk_staging_slot *slot = NULL;
  int32_t status = next_slot(d, &slot);
  if (status == TSR_OK) {
    status = begin(d, slot);
  }
  if (status == TSR_OK) {
    d->vk.vkCmdFillBuffer(slot->commands, buffer->handle, 0, VK_WHOLE_SIZE, 0);
    status = submit(d, slot);
  }
  if (status == TSR_OK) {
    buffer->transfer_ticket = slot->ticket;
  }
  return status;
}
