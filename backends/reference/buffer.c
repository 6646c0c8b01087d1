/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: zeroed host memory.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

/* Counts a buffer in, if there is memory for it. Returns what was in use before in any case. */
static uint64_t take_memory(tsr_backend_device *device, uint64_t size, int *is_taken)
{
  tsr_device_counters *counters = &device->counters;
  pthread_mutex_lock(&device->lock);
  const uint64_t memory = device->context->memory, in_use = counters->bytes_in_use;
  *is_taken = size <= (memory > in_use ? memory - in_use : 0);
  if (*is_taken) {
    counters->allocations += 1;
    counters->bytes_in_use += size;
    if (counters->bytes_peak < counters->bytes_in_use) {
      counters->bytes_peak = counters->bytes_in_use;
    }
  }
  pthread_mutex_unlock(&device->lock);
  return in_use;
}

static void give_memory(tsr_backend_device *device, uint64_t size)
{
  pthread_mutex_lock(&device->lock);
  device->counters.bytes_in_use -= size;
  pthread_mutex_unlock(&device->lock);
}

int32_t ref_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  (void)usage;
  tsr_backend_buffer *created = NULL;
  int is_taken = 0;

  assert(size > 0);
  /* Asked first, because a system that overcommits would grant more than there is and kill the process later. */
  const uint64_t in_use = take_memory(device, size, &is_taken);
  if (is_taken) {
    created = calloc(1, sizeof(*created));
  }
  if (created) {
    created->memory = calloc(1, (size_t)size + REF_ALIGNMENT);
  }
  if (!created || !created->memory) {
    free(created);
    if (is_taken) {
      give_memory(device, size);
    }
    return ref_fail(device->context, TSR_ERR_DEVICE_MEMORY,
                    "no memory for a buffer of %" PRIu64 " bytes: %" PRIu64 " of the machine's %" PRIu64
                    " bytes are in use by this device; use a smaller batch or model, or close other programs",
                    size, in_use, device->context->memory);
  }
  created->device = device;
  created->size = size;
  created->bytes = created->memory + (REF_ALIGNMENT - (uintptr_t)created->memory % REF_ALIGNMENT) % REF_ALIGNMENT;
  *buffer = created;
  return TSR_OK;
}

void ref_buffer_destroy(tsr_backend_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  give_memory(buffer->device, buffer->size);
  free(buffer->memory);
  free(buffer);
}

int32_t ref_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    memcpy(buffer->bytes + offset, bytes, (size_t)size);
    ref_raise(buffer->device, &buffer->device->counters.transfers);
  }
  return TSR_OK;
}

int32_t ref_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    memcpy(bytes, buffer->bytes + offset, (size_t)size);
    ref_raise(buffer->device, &buffer->device->counters.transfers);
  }
  return TSR_OK;
}
