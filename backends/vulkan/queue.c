/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's queue. One timeline semaphore orders everything: each submit takes the next ticket and signals it when it
 * has ended.
 */
#include "backends/vulkan/backend.h"

/* A lost device stays lost: later calls say so at once instead of waiting for what will never come. */
static int32_t check_lost(tsr_backend_device *d, int32_t status)
{
  if (status == TSR_ERR_DEVICE_LOST) {
    d->lost = 1;
  }
  return status;
}

static int32_t fail_lost(const tsr_backend_device *d)
{
  return tsr_vk_fail(d->host, TSR_ERR_DEVICE_LOST,
                     "the device was lost before: start the program again, or choose another device");
}

int32_t tsr_vk_submit(tsr_backend_device *d, VkCommandBuffer commands, uint64_t *ticket)
{
  if (d->lost) {
    return fail_lost(d);
  }
  uint64_t next = d->ticket + 1;
  VkTimelineSemaphoreSubmitInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &next,
  };
  VkSubmitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
      .pNext = &timeline,
      .commandBufferCount = 1,
      .pCommandBuffers = &commands,
      .signalSemaphoreCount = 1,
      .pSignalSemaphores = &d->timeline,
  };
  int32_t status = check_lost(d, VK(d->host, d->vk.vkQueueSubmit(d->queue, 1, &info, VK_NULL_HANDLE)));
  if (status == TSR_OK) {
    d->ticket = next;
    *ticket = next;
  }
  return status;
}

int32_t tsr_vk_wait(tsr_backend_device *d, uint64_t ticket)
{
  if (ticket <= d->ticket_done) {
    return TSR_OK;
  }
  if (d->lost) {
    return fail_lost(d);
  }
  VkSemaphoreWaitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
      .semaphoreCount = 1,
      .pSemaphores = &d->timeline,
      .pValues = &ticket,
  };
  int32_t status = check_lost(d, VK(d->host, d->vk.vkWaitSemaphores(d->handle, &info, UINT64_MAX)));
  if (status == TSR_OK) {
    d->ticket_done = ticket;
  }
  return status;
}

void tsr_vk_settle(tsr_backend_device *d, uint64_t ticket)
{
  if (ticket > d->ticket_done && (d->lost || tsr_vk_wait(d, ticket) != TSR_OK)) {
    (void)d->vk.vkDeviceWaitIdle(d->handle); /* the last resort; returns at once if the device is lost */
  }
}
