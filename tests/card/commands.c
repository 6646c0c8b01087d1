/* SPDX-License-Identifier: Apache-2.0
 *
 * Command buffers, queues and waiting: counted, held to the card's limits, and lost where CARD_FAULT says so.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

typedef struct card_commands {
  VkCommandPool pool;
  card_work work;
} card_commands;

static VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice handle, const VkCommandPoolCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkCommandPool *pool)
{
  card_device *device = card_device_of(handle);
  const card_profile *profile = card_profile_get();
  VkResult result = card_count_creation();
  if (result != VK_SUCCESS) {
    return result;
  }
  VkCommandPoolCreateInfo below = *info;
  if (profile->present) {
    if (info->queueFamilyIndex >= profile->n_families) {
      card_breach("vkCreateCommandPool: there is no queue family %u", info->queueFamilyIndex);
    }
    below.queueFamilyIndex = 0;
  }
  return device->next.CreateCommandPool(handle, &below, allocator, pool);
}

static VKAPI_ATTR void VKAPI_CALL destroy_pool(VkDevice handle, VkCommandPool pool,
                                               const VkAllocationCallbacks *allocator)
{
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&device->lock);
  for (size_t i = 0; pool && i < device->commands.room; i++) {
    card_commands *commands = device->commands.entries[i].value;
    if (commands && commands->pool == pool) {
      free(card_table_take(&device->commands, device->commands.entries[i].handle));
    }
  }
  pthread_mutex_unlock(&device->lock);
  device->next.DestroyCommandPool(handle, pool, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice handle, const VkCommandBufferAllocateInfo *info,
                                                        VkCommandBuffer *commands)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count(CARD_COMMANDS);
  if (result == VK_SUCCESS) {
    result = device->next.AllocateCommandBuffers(handle, info, commands);
  } else {
    memset(commands, 0, info->commandBufferCount * sizeof(*commands));
  }
  for (uint32_t i = 0; result == VK_SUCCESS && i < info->commandBufferCount; i++) {
    card_commands *kept = calloc(1, sizeof(*kept));
    if (kept) {
      kept->pool = info->commandPool;
    }
    pthread_mutex_lock(&device->lock);
    card_table_put(&device->commands, CARD_HANDLE(commands[i]), kept);
    pthread_mutex_unlock(&device->lock);
  }
  return result;
}

static VKAPI_ATTR void VKAPI_CALL free_commands(VkDevice handle, VkCommandPool pool, uint32_t count,
                                                const VkCommandBuffer *commands)
{
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&device->lock);
  for (uint32_t i = 0; i < count; i++) {
    free(card_table_take(&device->commands, CARD_HANDLE(commands[i])));
  }
  pthread_mutex_unlock(&device->lock);
  device->next.FreeCommandBuffers(handle, pool, count, commands);
}

/* What is recorded there. */
static card_work *work_of(card_device *device, VkCommandBuffer commands)
{
  pthread_mutex_lock(&device->lock);
  card_commands *kept = card_table_find(&device->commands, CARD_HANDLE(commands));
  pthread_mutex_unlock(&device->lock);
  if (!kept) {
    card_breach("this command buffer is not there");
  }
  return &kept->work;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
  card_device *device = card_device_of(commands);
  *work_of(device, commands) = (card_work){0};
  return device->next.BeginCommandBuffer(commands, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL end_commands(VkCommandBuffer commands)
{
  card_device *device = card_device_of(commands);
  VkResult result = card_count_creation();
  return result == VK_SUCCESS ? device->next.EndCommandBuffer(commands) : result;
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
  card_device *device = card_device_of(commands);
  const uint32_t *most = device->limits.maxComputeWorkGroupCount;
  if (card_profile_get()->present && (x > most[0] || y > most[1] || z > most[2])) {
    card_breach("vkCmdDispatch: %u x %u x %u workgroups; maxComputeWorkGroupCount is %u x %u x %u", x, y, z, most[0],
                most[1], most[2]);
  }
  card_work *work = work_of(device, commands);
  const uint64_t groups = (uint64_t)x * y * z;
  work->dispatches++;
  work->largest_dispatch = groups > work->largest_dispatch ? groups : work->largest_dispatch;
  device->next.CmdDispatch(commands, x, y, z);
}

static uint64_t buffer_size(card_device *device, VkBuffer buffer, const char *call)
{
  pthread_mutex_lock(&device->lock);
  const card_buffer *kept = card_table_find(&device->buffers, CARD_HANDLE(buffer));
  pthread_mutex_unlock(&device->lock);
  if (!kept) {
    card_breach("%s: this buffer is not there", call);
  }
  return kept->size;
}

static VKAPI_ATTR void VKAPI_CALL fill_buffer(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset,
                                              VkDeviceSize size, uint32_t data)
{
  card_device *device = card_device_of(commands);
  const uint64_t whole = buffer_size(device, buffer, "vkCmdFillBuffer");
  if (offset % 4 != 0 || offset >= whole || (size != VK_WHOLE_SIZE && (size % 4 != 0 || size > whole - offset))) {
    card_breach("vkCmdFillBuffer: %llu bytes from %llu on, of a buffer of %llu", (unsigned long long)size,
                (unsigned long long)offset, (unsigned long long)whole);
  }
  work_of(device, commands)->fill_bytes += size == VK_WHOLE_SIZE ? whole - offset : size;
  device->next.CmdFillBuffer(commands, buffer, offset, size, data);
}

static VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                              const VkBufferCopy *regions)
{
  card_device *device = card_device_of(commands);
  const uint64_t from_size = buffer_size(device, from, "vkCmdCopyBuffer");
  const uint64_t to_size = buffer_size(device, to, "vkCmdCopyBuffer");
  card_work *work = work_of(device, commands);
  for (uint32_t i = 0; i < count; i++) {
    const VkBufferCopy *region = &regions[i];
    if (region->size == 0 || region->srcOffset > from_size || region->size > from_size - region->srcOffset ||
        region->dstOffset > to_size || region->size > to_size - region->dstOffset) {
      card_breach("vkCmdCopyBuffer: %llu bytes from %llu to %llu, of buffers of %llu and %llu",
                  (unsigned long long)region->size, (unsigned long long)region->srcOffset,
                  (unsigned long long)region->dstOffset, (unsigned long long)from_size, (unsigned long long)to_size);
    }
    work->copy_bytes += region->size;
  }
  device->next.CmdCopyBuffer(commands, from, to, count, regions);
}

static VKAPI_ATTR void VKAPI_CALL pipeline_barrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                                   VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t n_memory,
                                                   const VkMemoryBarrier *memory, uint32_t n_buffers,
                                                   const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                                   const VkImageMemoryBarrier *images)
{
  card_device *device = card_device_of(commands);
  work_of(device, commands)->barriers++;
  VkBufferMemoryBarrier *below = n_buffers > 0 ? calloc(n_buffers, sizeof(*below)) : NULL;
  for (uint32_t i = 0; below && i < n_buffers; i++) {
    below[i] = buffers[i];
    below[i].srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED; /* there is but one below */
    below[i].dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  }
  device->next.CmdPipelineBarrier(commands, from, to, flags, n_memory, memory, n_buffers, below ? below : buffers,
                                  n_images, images);
  free(below);
}

static VKAPI_ATTR void VKAPI_CALL push_constants(VkCommandBuffer commands, VkPipelineLayout layout,
                                                 VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                                                 const void *values)
{
  card_device *device = card_device_of(commands);
  const uint32_t most = device->limits.maxPushConstantsSize;
  if (card_profile_get()->present && (offset >= most || size > most - offset)) {
    card_breach("vkCmdPushConstants: %u bytes from %u on; maxPushConstantsSize is %u", size, offset, most);
  }
  device->next.CmdPushConstants(commands, layout, stages, offset, size, values);
}

/* ---- queues ----------------------------------------------------------------------------------------------------- */

/* The queue is drained first, so that nothing runs in what the application then destroys. */
static void lose(card_device *device)
{
  (void)device->next.DeviceWaitIdle(device->handle);
  atomic_store(&device->is_lost, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence)
{
  card_device *device = card_device_of(queue);
  VkResult result = card_count(CARD_SUBMIT);
  VkResult loss = card_count(CARD_LOST);
  card_work work = {0};
  pthread_mutex_lock(&device->lock);
  if (loss != VK_SUCCESS) {
    lose(device);
  }
  if (atomic_load(&device->is_lost)) {
    result = VK_ERROR_DEVICE_LOST;
  }
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < submits[i].commandBufferCount; k++) {
      const card_commands *kept = card_table_find(&device->commands, CARD_HANDLE(submits[i].pCommandBuffers[k]));
      if (!kept) {
        card_breach("vkQueueSubmit: a command buffer is not there");
      }
      work.dispatches += kept->work.dispatches;
      work.barriers += kept->work.barriers;
      work.fill_bytes += kept->work.fill_bytes;
      work.copy_bytes += kept->work.copy_bytes;
      if (kept->work.largest_dispatch > work.largest_dispatch) {
        work.largest_dispatch = kept->work.largest_dispatch;
      }
    }
  }
  if (result == VK_SUCCESS) {
    result = device->next.QueueSubmit(queue, count, submits, fence);
  }
  pthread_mutex_unlock(&device->lock);
  if (result == VK_SUCCESS) {
    card_note_submit(&work);
  }
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice handle, const VkSemaphoreWaitInfo *info,
                                                      uint64_t timeout)
{
  card_device *device = card_device_of(handle);
  VkResult late = card_count(CARD_WAIT_TIMEOUT);
  VkResult loss = card_count(CARD_LOST_IN_WAIT);
  if (atomic_load(&device->is_lost)) {
    return VK_ERROR_DEVICE_LOST;
  }
  if (late != VK_SUCCESS || loss != VK_SUCCESS) {
    pthread_mutex_lock(&device->lock);
    lose(device);
    pthread_mutex_unlock(&device->lock);
    return late != VK_SUCCESS ? late : loss;
  }
  return device->next.WaitSemaphores(handle, info, timeout);
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice handle)
{
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&device->lock);
  VkResult result = device->next.DeviceWaitIdle(handle);
  pthread_mutex_unlock(&device->lock);
  return atomic_load(&device->is_lost) ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_wait_idle(VkQueue queue)
{
  card_device *device = card_device_of(queue);
  pthread_mutex_lock(&device->lock);
  VkResult result = device->next.QueueWaitIdle(queue);
  pthread_mutex_unlock(&device->lock);
  return atomic_load(&device->is_lost) ? VK_ERROR_DEVICE_LOST : result;
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

static VKAPI_ATTR VkResult VKAPI_CALL create_queries(VkDevice handle, const VkQueryPoolCreateInfo *info,
                                                     const VkAllocationCallbacks *allocator, VkQueryPool *pool)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count_creation();
  if (result == VK_SUCCESS) {
    result = device->next.CreateQueryPool(handle, info, allocator, pool);
  }
  if (result == VK_SUCCESS) {
    pthread_mutex_lock(&device->lock);
    free(card_table_take(&device->queries, CARD_HANDLE(*pool)));
    if (info->queryType == VK_QUERY_TYPE_TIMESTAMP) {
      card_table_put(&device->queries, CARD_HANDLE(*pool), calloc(1, 1));
    }
    pthread_mutex_unlock(&device->lock);
  }
  return result;
}

/* A time in the card's ticks, of which as many bits count as the queue family says. */
static uint64_t card_time(const card_device *device, uint64_t time)
{
  const uint64_t ticks = (uint64_t)((double)time * device->ticks);
  return device->timestamp_bits < 64 ? ticks & ((UINT64_C(1) << device->timestamp_bits) - 1) : ticks;
}

static VKAPI_ATTR VkResult VKAPI_CALL get_queries(VkDevice handle, VkQueryPool pool, uint32_t first, uint32_t count,
                                                  size_t size, void *results, VkDeviceSize stride,
                                                  VkQueryResultFlags flags)
{
  card_device *device = card_device_of(handle);
  VkResult result = device->next.GetQueryPoolResults(handle, pool, first, count, size, results, stride, flags);
  pthread_mutex_lock(&device->lock);
  const int are_times = card_table_find(&device->queries, CARD_HANDLE(pool)) != NULL;
  pthread_mutex_unlock(&device->lock);
  for (uint32_t i = 0; result == VK_SUCCESS && card_profile_get()->present && are_times && i < count; i++) {
    char *place = (char *)results + i * stride;
    if (flags & VK_QUERY_RESULT_64_BIT) {
      uint64_t time;
      memcpy(&time, place, sizeof(time));
      time = card_time(device, time);
      memcpy(place, &time, sizeof(time));
    } else {
      uint32_t time;
      memcpy(&time, place, sizeof(time));
      time = (uint32_t)card_time(device, time);
      memcpy(place, &time, sizeof(time));
    }
  }
  return atomic_load(&device->is_lost) ? VK_ERROR_DEVICE_LOST : result;
}

const card_function card_command_functions[] = {
    {"vkCreateCommandPool", (PFN_vkVoidFunction)create_pool},
    {"vkDestroyCommandPool", (PFN_vkVoidFunction)destroy_pool},
    {"vkAllocateCommandBuffers", (PFN_vkVoidFunction)allocate_commands},
    {"vkFreeCommandBuffers", (PFN_vkVoidFunction)free_commands},
    {"vkBeginCommandBuffer", (PFN_vkVoidFunction)begin_commands},
    {"vkEndCommandBuffer", (PFN_vkVoidFunction)end_commands},
    {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
    {"vkCmdFillBuffer", (PFN_vkVoidFunction)fill_buffer},
    {"vkCmdCopyBuffer", (PFN_vkVoidFunction)copy_buffer},
    {"vkCmdPipelineBarrier", (PFN_vkVoidFunction)pipeline_barrier},
    {"vkCmdPushConstants", (PFN_vkVoidFunction)push_constants},
    {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
    {"vkWaitSemaphores", (PFN_vkVoidFunction)wait_semaphores},
    {"vkWaitSemaphoresKHR", (PFN_vkVoidFunction)wait_semaphores},
    {"vkDeviceWaitIdle", (PFN_vkVoidFunction)device_wait_idle},
    {"vkQueueWaitIdle", (PFN_vkVoidFunction)queue_wait_idle},
    {"vkCreateQueryPool", (PFN_vkVoidFunction)create_queries},
    {"vkGetQueryPoolResults", (PFN_vkVoidFunction)get_queries},
    {NULL, NULL},
};
