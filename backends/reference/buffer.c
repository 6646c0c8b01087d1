/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: zeroed host memory.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

int32_t ref_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  (void)usage;
  tsr_device_counters *counters = &device->counters;
  const uint64_t memory = device->context->memory, in_use = counters->bytes_in_use;
  const uint64_t free_bytes = memory > in_use ? memory - in_use : 0;
  tsr_backend_buffer *created = NULL;

  assert(size > 0);
  /* Asked first, because a system that overcommits would grant more than there is and kill the process later. */
  if (size <= free_bytes) {
    created = calloc(1, sizeof(*created));
  }
  if (created) {
    created->memory = calloc(1, (size_t)size + REF_ALIGNMENT);
  }
  if (!created || !created->memory) {
    free(created);
    return ref_fail(device->context, TSR_ERR_DEVICE_MEMORY,
                    "no memory for a buffer of %" PRIu64 " bytes: %" PRIu64 " of the machine's %" PRIu64
                    " bytes are in use by this device; use a smaller batch or model, or close other programs",
                    size, in_use, memory);
  }
  created->device = device;
  created->size = size;
  created->bytes = created->memory + (REF_ALIGNMENT - (uintptr_t)created->memory % REF_ALIGNMENT) % REF_ALIGNMENT;
  counters->allocations += 1;
  counters->bytes_in_use += size;
  if (counters->bytes_peak < counters->bytes_in_use) {
    counters->bytes_peak = counters->bytes_in_use;
  }
  *buffer = created;
  return TSR_OK;
}

void ref_buffer_destroy(tsr_backend_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  buffer->device->counters.bytes_in_use -= buffer->size;
  free(buffer->memory);
  free(buffer);
}

int32_t ref_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    memcpy(buffer->bytes + offset, bytes, (size_t)size);
    buffer->device->counters.transfers += 1;
  }
  return TSR_OK;
}

int32_t ref_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    memcpy(bytes, buffer->bytes + offset, (size_t)size);
    buffer->device->counters.transfers += 1;
  }
  return TSR_OK;
}
