/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend's table: one device, all the cores that this process may use.
 */
#include "backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blas.h"

int32_t cpu_fail(const cpu_context *context, int32_t status, const char *format, ...)
{
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  context->host->report(context->host, TSR_LOG_ERROR, message);
  return status;
}

/* TESSERA_THREADS, or the number of cores. */
static int32_t read_threads(cpu_context *context)
{
  enum { MOST = 1024 };
  const char *wanted = context->host->option(context->host, "THREADS");
  context->threads = cpu_core_count();
  if (wanted && *wanted) {
    char *end = NULL;
    const long threads = strtol(wanted, &end, 10);
    if (*end != '\0' || threads < 1 || threads > MOST) {
      return cpu_fail(context, TSR_ERR_ARGUMENT, "TESSERA_THREADS is \"%s\"; it should be a number from 1 to %d",
                      wanted, MOST);
    }
    context->threads = (int32_t)threads;
  }
  return TSR_OK;
}

/* TESSERA_CPU_LEVEL: one level, or "all": a device for each, best first, for tests. Without it the best. */
static int32_t read_levels(cpu_context *context)
{
  const char *wanted = context->host->option(context->host, "CPU_LEVEL");
  const int any = !wanted || !*wanted, all = !any && strcmp(wanted, "all") == 0;
  char list[128] = "";
  for (int32_t i = 0; cpu_level_at(i); i++) {
    const cpu_level *level = cpu_level_at(i);
    const size_t used = strlen(list);
    snprintf(list + used, sizeof(list) - used, "%s, ", level->name);
    const int first = any && context->n_levels == 0;
    if ((all || first || (!any && strcmp(wanted, level->name) == 0)) && cpu_level_is_granted(level)) {
      context->levels[context->n_levels++] = level;
    }
  }
  return context->n_levels > 0
             ? TSR_OK
             : cpu_fail(context, TSR_ERR_ARGUMENT,
                        "TESSERA_CPU_LEVEL is \"%s\"; it should be one of what this CPU can take: %sall", wanted, list);
}

static void stop(void *context)
{
  cpu_context *started = context;
  cpu_blas_close(started->blas);
  free(started);
}

static int32_t start(const tsr_host *host, void **context)
{
  cpu_context *started = calloc(1, sizeof(*started));
  if (!started) {
    const cpu_context failed = {.host = host};
    return cpu_fail(&failed, TSR_ERR_OUT_OF_MEMORY, "out of memory while starting");
  }
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
  started->host = host;
  started->memory = pages > 0 && page_size > 0 ? (uint64_t)pages * (uint64_t)page_size : 0;
  int32_t status = read_threads(started);
  if (status == TSR_OK) {
    status = read_levels(started);
  }
  if (status == TSR_OK) {
    status = cpu_blas_open(started, &started->blas);
  }
  if (status != TSR_OK) {
    stop(started);
    return status;
  }
  *context = started;
  return TSR_OK;
}

static int32_t device_count(void *context, uint32_t *count)
{
  const cpu_context *started = context;
  *count = (uint32_t)started->n_levels;
  return TSR_OK;
}

static int32_t check_index(const cpu_context *context, uint32_t index)
{
  return index < (uint32_t)context->n_levels
             ? TSR_OK
             : cpu_fail(context, TSR_ERR_NO_DEVICE, "cpu:%u does not exist: the last device of this backend is cpu:%d",
                        index, (int)context->n_levels - 1);
}

static int32_t device_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const cpu_context *started = context;
  const int32_t status = check_index(started, index);
  if (status != TSR_OK) {
    return status;
  }
  tsr_device_properties all = {
      .struct_size = properties->struct_size,
      .type = TSR_DEVICE_CPU,
      .features = TSR_FEATURE_UNIFIED_MEMORY | TSR_FEATURE_TIMESTAMPS | TSR_FEATURE_F16_STORAGE |
                  TSR_FEATURE_I8_STORAGE | TSR_FEATURE_I8_DOT,
      .memory = started->memory,
      .max_buffer_size = started->memory,
      .max_binding_size = started->memory,
      .buffer_alignment = CPU_ALIGNMENT,
      .max_invocations = (uint32_t)started->threads,
      .subgroup_size = 1,
      .concurrent_runs = (uint32_t)started->threads,
      .rows_at_once = 1,
      /* Halves are widened as they are read, which takes longer than reading twice as much from caches. */
      .state_types = 1u << TSR_F32,
  };
  char model[64], blas[128];
  snprintf(all.name, sizeof(all.name), "%s, %d thread%s", cpu_model_name(model, sizeof(model)), (int)started->threads,
           started->threads == 1 ? "" : "s");
  snprintf(all.driver, sizeof(all.driver), "tessera " TSR_VERSION ", %s kernels (%s), %s", started->levels[index]->name,
           started->levels[index]->instructions, cpu_blas_describe(started->blas, blas, sizeof(blas)));
  memcpy(properties, &all, all.struct_size < sizeof(all) ? all.struct_size : sizeof(all));
  return TSR_OK;
}

static void device_close(tsr_backend_device *device)
{
  cpu_pool_destroy(device->pool);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static int32_t device_open(void *context, uint32_t index, tsr_backend_device **device)
{
  cpu_context *started = context;
  const int32_t status = check_index(started, index);
  if (status != TSR_OK) {
    return status;
  }
  tsr_backend_device *opened = calloc(1, sizeof(*opened));
  cpu_pool *pool = opened ? cpu_pool_create(started->threads) : NULL;
  if (!pool) {
    free(opened);
    return cpu_fail(started, TSR_ERR_OUT_OF_MEMORY, "out of memory while opening the device");
  }
  opened->context = started;
  opened->level = started->levels[index];
  opened->pool = pool;
  pthread_mutex_init(&opened->lock, NULL);
  *device = opened;
  return TSR_OK;
}

static int32_t counters(tsr_backend_device *device, tsr_device_counters *out)
{
  const tsr_device_counters all = {
      .struct_size = out->struct_size,
      .runs = atomic_load(&device->runs),
      .submits = atomic_load(&device->runs),
      .transfers = atomic_load(&device->transfers),
      .allocations = atomic_load(&device->allocations),
      .bytes_in_use = atomic_load(&device->bytes_in_use),
      .bytes_peak = atomic_load(&device->bytes_peak),
  };
  memcpy(out, &all, all.struct_size < sizeof(all) ? all.struct_size : sizeof(all));
  return TSR_OK;
}

static const void *get_extension(void *context, const char *name)
{
  (void)context;
  (void)name;
  return NULL;
}

static const tsr_backend table = {
    .struct_size = sizeof(tsr_backend),
    .abi_major = TSR_ABI_MAJOR,
    .abi_minor = TSR_ABI_MINOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "cpu",
    .description = "fast on CPUs: vectorised kernels on all cores, a BLAS for large products",
    .start = start,
    .stop = stop,
    .device_count = device_count,
    .device_properties = device_properties,
    .device_open = device_open,
    .device_close = device_close,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .buffer_write = cpu_buffer_write,
    .buffer_read = cpu_buffer_read,
    .supports = cpu_supports,
    .compile = cpu_compile,
    .executable_destroy = cpu_executable_destroy,
    .run = cpu_run,
    .wait = cpu_wait,
    .profile = cpu_profile,
    .counters = counters,
    .get_extension = get_extension,
};

const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  (void)host;
  return host_abi_major == TSR_ABI_MAJOR ? &table : NULL;
}
