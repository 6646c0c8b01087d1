/* SPDX-License-Identifier: Apache-2.0
 *
 * Open devices.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/runtime/internal.h"
#include "tessera/ops.h"

static void device_free(tsr_device *device)
{
  pthread_cond_destroy(&device->released);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

tsr_status tsr_device_open_found(tsr_runtime *runtime, const tsr_found_device *found, tsr_device **out)
{
  *out = NULL;
  tsr_device *device = calloc(1, sizeof *device);
  if (!device) {
    return tsr_fail_memory(sizeof *device);
  }
  device->runtime = runtime;
  device->backend = found->backend;
  device->properties = found->properties;
  device->is_concurrent = found->properties.concurrent_runs > 1;
  memcpy(device->name, found->name, sizeof device->name);
  pthread_mutex_init(&device->lock, NULL);
  pthread_cond_init(&device->released, NULL);

  pthread_mutex_lock(&found->backend->opening);
  tsr_backend_device *handle = NULL;
  tsr_status status = TSR_DEVICE_SLOT(device, device_open, found->backend->context, found->index, &handle);
  pthread_mutex_unlock(&found->backend->opening);
  if (status == TSR_OK && !handle) {
    status =
        tsr_fail(TSR_ERR_PLUGIN, "%s: device_open succeeded without a device: a fault of the backend", device->name);
  }
  if (status != TSR_OK) {
    device_free(device);
    return status;
  }
  device->handle = handle;
  *out = device;
  return TSR_OK;
}

void tsr_device_close(tsr_device *device)
{
  if (!device) {
    return;
  }
  pthread_mutex_lock(&device->backend->opening);
  TSR_DEVICE_VOID_SLOT(device, device_close, device->handle);
  pthread_mutex_unlock(&device->backend->opening);
  device_free(device);
}

void tsr_device_enter(tsr_device *device)
{
  if (!device->is_concurrent) {
    pthread_mutex_lock(&device->lock);
  }
}

void tsr_device_leave(tsr_device *device)
{
  if (!device->is_concurrent) {
    pthread_mutex_unlock(&device->lock);
  }
}

const char *tsr_device_name(const tsr_device *device)
{
  return device ? device->name : "";
}

const tsr_device_properties *tsr_device_get_properties(const tsr_device *device)
{
  return device ? &device->properties : NULL;
}

tsr_runtime *tsr_device_runtime(const tsr_device *device)
{
  return device ? device->runtime : NULL;
}

tsr_status tsr_device_get_counters_sized(tsr_device *device, tsr_device_counters *counters, size_t size)
{
  if (!device || !counters) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_get_counters: device and counters must not be NULL");
  }
  tsr_device_counters found = {TSR_SIZED(tsr_device_counters)};
  tsr_status status = TSR_OK;
  tsr_device_enter(device);
  if (device->backend->table.counters) {
    status = TSR_DEVICE_SLOT(device, counters, device->handle, &found);
  }
  tsr_device_leave(device);
  found.struct_size = (uint32_t)(size < sizeof found ? size : sizeof found);
  tsr_sized_fill(&found, sizeof found, counters, size);
  return status;
}

int tsr_device_supports_line(tsr_device *device, const tsr_program_desc *description, int32_t line)
{
  if (tsr_line_since(description, line) > device->backend->table.abi_minor) {
    return 0; /* the backend has not heard of what the line uses */
  }
  tsr_slot_enter();
  int32_t supported = device->backend->table.supports(device->handle, description, line);
  (void)tsr_slot_leave(device->name, "supports", TSR_OK);
  return supported == 1;
}

int tsr_device_supports(tsr_device *device, const tsr_program *program, int32_t line)
{
  if (!device || !program || line < 0 || line >= tsr_program_line_count(program)) {
    return 0;
  }
  tsr_device_enter(device);
  int supported = tsr_device_supports_line(device, tsr_program_describe(program), line);
  tsr_device_leave(device);
  return supported;
}
