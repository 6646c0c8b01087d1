/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's queue. One timeline semaphore orders everything: each submit takes the next ticket and signals it when it
 * has ended.
 */
#include <time.h>

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

int32_t tsr_vk_submit(tsr_backend_device *d, const VkCommandBuffer *commands, uint32_t n, uint64_t *ticket)
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
      .commandBufferCount = n,
      .pCommandBuffers = commands,
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

static uint64_t microseconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Whether the ticket is done within some microseconds. A thread that sleeps is woken up later than a short program of a
 * GPU ends; a device that a CPU executes needs the processor itself. */
static int is_done_soon(tsr_backend_device *d, uint64_t ticket)
{
  enum { SOON_MICROSECONDS = 200 };
  if (d->hardware.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
    return 0;
  }
  const uint64_t begin = microseconds_now();
  uint64_t done = 0;
  do {
    if (d->vk.vkGetSemaphoreCounterValue(d->handle, d->timeline, &done) != VK_SUCCESS) {
      return 0; /* waiting tells why */
    }
  } while (done < ticket && microseconds_now() - begin < SOON_MICROSECONDS);
  return done >= ticket && done != UINT64_MAX; /* which a driver may give for a device that is lost */
}

int32_t tsr_vk_wait(tsr_backend_device *d, uint64_t ticket)
{
  if (ticket <= d->ticket_done) {
    return TSR_OK;
  }
  if (d->lost) {
    return fail_lost(d);
  }
  if (is_done_soon(d, ticket)) {
    d->ticket_done = ticket;
    return TSR_OK;
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
