/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend's table: one device, the machine's own memory, and for each run the thread that calls.
 */
#include "backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t ref_fail(const ref_context *context, int32_t status, const char *format, ...)
{
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  context->host->report(context->host, TSR_LOG_ERROR, message);
  return status;
}

static int32_t start(const tsr_host *host, void **context)
{
  ref_context *started = calloc(1, sizeof(*started));
  if (!started) {
    const ref_context failed = {.host = host};
    return ref_fail(&failed, TSR_ERR_OUT_OF_MEMORY, "out of memory while starting");
  }
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
  started->host = host;
  /* At least two, so that what depends on several runs at once is tried on every machine. */
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  started->processors = processors < 2 ? 2 : processors > 64 ? 64 : (uint32_t)processors;
  started->memory = pages > 0 && page_size > 0 ? (uint64_t)pages * (uint64_t)page_size : 0;
  *context = started;
  return TSR_OK;
}

static void stop(void *context)
{
  free(context);
}

static int32_t device_count(void *context, uint32_t *count)
{
  (void)context;
  *count = 1;
  return TSR_OK;
}

static int32_t check_index(const ref_context *context, uint32_t index)
{
  return index == 0 ? TSR_OK
                    : ref_fail(context, TSR_ERR_NO_DEVICE,
                               "reference:%u does not exist: this backend has one device, reference:0", index);
}

static int32_t device_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const ref_context *started = context;
  const int32_t status = check_index(started, index);
  if (status != TSR_OK) {
    return status;
  }
  const tsr_device_properties all = {
      .struct_size = properties->struct_size,
      .type = TSR_DEVICE_REFERENCE,
      .name = "the reference, each run on one thread",
      .driver = "tessera " TSR_VERSION,
      .features = TSR_FEATURE_UNIFIED_MEMORY | TSR_FEATURE_TIMESTAMPS,
      .memory = started->memory,
      .max_buffer_size = started->memory,
      .max_binding_size = started->memory,
      .buffer_alignment = REF_ALIGNMENT,
      .max_invocations = 1,
      .subgroup_size = 1,
      .concurrent_runs = started->processors,
      .rows_at_once = 1,
      .state_types = 1u << TSR_F32,
  };
  memcpy(properties, &all, all.struct_size < sizeof(all) ? all.struct_size : sizeof(all));
  return TSR_OK;
}

static int32_t device_open(void *context, uint32_t index, tsr_backend_device **device)
{
  const int32_t status = check_index(context, index);
  if (status != TSR_OK) {
    return status;
  }
  tsr_backend_device *opened = calloc(1, sizeof(*opened));
  if (!opened) {
    return ref_fail(context, TSR_ERR_OUT_OF_MEMORY, "out of memory while opening the device");
  }
  opened->context = context;
  pthread_mutex_init(&opened->lock, NULL);
  *device = opened;
  return TSR_OK;
}

static void device_close(tsr_backend_device *device)
{
  pthread_mutex_destroy(&device->lock);
  free(device);
}

void ref_raise(tsr_backend_device *device, uint64_t *counter)
{
  pthread_mutex_lock(&device->lock);
  *counter += 1;
  pthread_mutex_unlock(&device->lock);
}

static int32_t counters(tsr_backend_device *device, tsr_device_counters *out)
{
  pthread_mutex_lock(&device->lock);
  tsr_device_counters all = device->counters;
  pthread_mutex_unlock(&device->lock);
  all.struct_size = out->struct_size;
  memcpy(out, &all, all.struct_size < sizeof(all) ? all.struct_size : sizeof(all));
  return TSR_OK;
}

static const void *get_extension(void *context, const char *name)
{
  (void)context, (void)name;
  return NULL;
}

static const tsr_backend table = {
    .struct_size = sizeof(table),
    .abi_major = TSR_ABI_MAJOR,
    .abi_minor = TSR_ABI_MINOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "reference",
    .description = "the oracle: plain scalar C, sums in double, one thread a run",
    .start = start,
    .stop = stop,
    .device_count = device_count,
    .device_properties = device_properties,
    .device_open = device_open,
    .device_close = device_close,
    .buffer_create = ref_buffer_create,
    .buffer_destroy = ref_buffer_destroy,
    .buffer_write = ref_buffer_write,
    .buffer_read = ref_buffer_read,
    .supports = ref_supports,
    .compile = ref_compile,
    .executable_destroy = ref_executable_destroy,
    .run = ref_run,
    .wait = ref_wait,
    .profile = ref_profile,
    .counters = counters,
    .get_extension = get_extension,
};

const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  (void)host;
  return host_abi_major == TSR_ABI_MAJOR ? &table : NULL;
}
