/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: zeroed host memory.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

int32_t cpu_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  (void)usage;
  assert(size > 0);
  tsr_backend_buffer *created = calloc(1, sizeof(*created));
  void *bytes = created ? cpu_memory_take(device, size) : NULL;
  if (!bytes) {
    free(created);
    return cpu_fail(device->context, TSR_ERR_DEVICE_MEMORY,
                    "no memory for a buffer of %" PRIu64 " bytes: %" PRIu64 " of the machine's %" PRIu64
                    " bytes are in use by this device; use a smaller batch or model, or close other programs",
                    size, atomic_load(&device->bytes_in_use), device->context->memory);
  }
  *created = (tsr_backend_buffer){.device = device, .size = size, .bytes = bytes};
  *buffer = created;
  return TSR_OK;
}

void cpu_buffer_destroy(tsr_backend_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  if (buffer->constants) {
    cpu_packed_forget(buffer->device, buffer->bytes, buffer->size);
  }
  cpu_memory_give(buffer->device, buffer->bytes, buffer->size);
  free(buffer);
}

int32_t cpu_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    if (buffer->constants) {
      cpu_packed_forget(buffer->device, buffer->bytes + offset, size);
    }
    memcpy(buffer->bytes + offset, bytes, (size_t)size);
    atomic_fetch_add(&buffer->device->transfers, 1);
  }
  return TSR_OK;
}

int32_t cpu_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  assert(offset <= buffer->size && size <= buffer->size - offset);
  if (size > 0) {
    memcpy(bytes, buffer->bytes + offset, (size_t)size);
    atomic_fetch_add(&buffer->device->transfers, 1);
  }
  return TSR_OK;
}
