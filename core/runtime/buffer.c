/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of devices.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

/* Bytes of host memory that a process can still get; UINT64_MAX where the system does not tell. */
static uint64_t available_memory(void)
{
  char line[128];
  uint64_t kilobytes = 0, value;
  int n_known = 0;
  FILE *file = fopen("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemAvailable: %" SCNu64, &value) == 1 || sscanf(line, "SwapFree: %" SCNu64, &value) == 1) {
      kilobytes += value;
      n_known++;
    }
  }
  if (file) {
    fclose(file);
  }
  return n_known == 2 ? kilobytes * 1024 : UINT64_MAX;
}

/* A system that overcommits grants memory that it does not have, and ends a process when it is used. So what is large
 * is held against what there is, where the device's memory is the host's. */
static tsr_status check_available(const tsr_device *device, int64_t size, const char *what)
{
  enum { LARGE = 64 << 20 };
  if (size < LARGE || !(device->properties.features & TSR_FEATURE_UNIFIED_MEMORY)) {
    return TSR_OK;
  }
  uint64_t available = available_memory();
  if ((uint64_t)size <= available) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_DEVICE_MEMORY,
                  "%s: %s would take %" PRId64 " bytes, of the machine's memory %" PRIu64
                  " are free: use a smaller batch or shorter sequences, or end other programs",
                  device->name, what, size, available);
}

tsr_status tsr_buffer_create_locked(tsr_device *device, int64_t size, int32_t usage, const char *what, tsr_buffer **out)
{
  *out = NULL;
  const tsr_device_properties *properties = &device->properties;
  uint64_t limit = properties->max_buffer_size;
  if (properties->memory && (!limit || limit > properties->memory)) {
    limit = properties->memory;
  }
  if (limit && (uint64_t)size > limit) {
    return tsr_fail(TSR_ERR_DEVICE_MEMORY,
                    "%s: %s would take %" PRId64 " bytes in one buffer, the device takes at most %" PRIu64
                    ": use a smaller batch, shorter sequences, or a device with more memory",
                    device->name, what, size, limit);
  }
  TSR_TRY(check_available(device, size, what));
  tsr_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) {
    return tsr_fail_memory(sizeof *buffer);
  }
  buffer->device = device;
  buffer->size = size;
  tsr_status status = TSR_OK;
  if (size > 0) {
    status = TSR_DEVICE_SLOT(device, buffer_create, device->handle, (uint64_t)size, usage, &buffer->handle);
  }
  if (status == TSR_OK && size > 0 && !buffer->handle) {
    status =
        tsr_fail(TSR_ERR_PLUGIN, "%s: buffer_create succeeded without a buffer: a fault of the backend", device->name);
  }
  if (status == TSR_ERR_DEVICE_MEMORY || status == TSR_ERR_OUT_OF_MEMORY) {
    tsr_fail(status, "%s (%" PRId64 " bytes for %s)", tsr_error_message(), size, what);
  }
  if (status != TSR_OK) {
    free(buffer);
    return status;
  }
  *out = buffer;
  return TSR_OK;
}

void tsr_buffer_destroy_locked(tsr_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  if (buffer->handle) {
    if (tsr_device_settle(buffer->device, buffer->handle) != TSR_OK) {
      tsr_log(TSR_LOG_WARNING, "%s", tsr_error_message());
    }
    TSR_DEVICE_VOID_SLOT(buffer->device, buffer_destroy, buffer->handle);
  }
  free(buffer);
}

tsr_status tsr_buffer_create(tsr_device *device, int64_t size, int32_t usage, tsr_buffer **buffer)
{
  if (!device || !buffer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_buffer_create: device and buffer must not be NULL");
  }
  *buffer = NULL;
  if (size < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_buffer_create: the size is %" PRId64 ", it must not be negative", size);
  }
  if (usage < TSR_BUFFER_DEVICE || usage > TSR_BUFFER_READBACK) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_buffer_create: %d is no usage (TSR_BUFFER_*)", (int)usage);
  }
  tsr_device_enter(device);
  tsr_status status = tsr_buffer_create_locked(device, size, usage, "a buffer", buffer);
  tsr_device_leave(device);
  return status;
}

void tsr_buffer_destroy(tsr_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  tsr_device *device = buffer->device;
  tsr_device_enter(device);
  tsr_buffer_destroy_locked(buffer);
  tsr_device_leave(device);
}

int64_t tsr_buffer_size(const tsr_buffer *buffer)
{
  return buffer ? buffer->size : 0;
}

tsr_device *tsr_buffer_device(const tsr_buffer *buffer)
{
  return buffer ? buffer->device : NULL;
}

static tsr_status check_range(const char *caller, const tsr_buffer *buffer, int64_t offset, int64_t size,
                              const void *bytes)
{
  if (!buffer || (!bytes && size != 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: buffer and bytes must not be NULL", caller);
  }
  if (offset < 0 || size < 0 || offset > buffer->size || size > buffer->size - offset) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "%s: %" PRId64 " bytes at offset %" PRId64 " do not lie within the buffer's %" PRId64 " bytes",
                    caller, size, offset, buffer->size);
  }
  return TSR_OK;
}

tsr_status tsr_buffer_write(tsr_buffer *buffer, int64_t offset, int64_t size, const void *bytes)
{
  TSR_TRY(check_range("tsr_buffer_write", buffer, offset, size, bytes));
  if (size == 0) {
    return TSR_OK;
  }
  tsr_device *device = buffer->device;
  const tsr_use use = {.buffer = buffer, .is_written = 1};
  const tsr_claim claim = {.device = device, .uses = &use, .n_uses = 1};
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = tsr_device_settle(device, buffer->handle);
  if (status == TSR_OK) {
    status = TSR_DEVICE_SLOT(device, buffer_write, buffer->handle, (uint64_t)offset, (uint64_t)size, bytes);
  }
  tsr_claim_give(&claim);
  return status;
}

tsr_status tsr_buffer_read(tsr_buffer *buffer, int64_t offset, int64_t size, void *bytes)
{
  TSR_TRY(check_range("tsr_buffer_read", buffer, offset, size, bytes));
  if (size == 0) {
    return TSR_OK;
  }
  tsr_device *device = buffer->device;
  const tsr_use use = {.buffer = buffer};
  const tsr_claim claim = {.device = device, .uses = &use, .n_uses = 1};
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = tsr_device_settle(device, buffer->handle);
  if (status == TSR_OK) {
    status = TSR_DEVICE_SLOT(device, buffer_read, buffer->handle, (uint64_t)offset, (uint64_t)size, bytes);
  }
  tsr_claim_give(&claim);
  return status;
}
