/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/vulkan_fixture.h"

static void on_report(const tsr_host *host, int32_t level, const char *message)
{
  plugin_fixture *plugin = (plugin_fixture *)(uintptr_t)host;
  if (level == TSR_LOG_ERROR) {
    plugin->n_errors++;
    snprintf(plugin->message, sizeof(plugin->message), "%s", message);
  }
  if (strstr(message, "Vulkan validation")) {
    plugin->n_validation++;
  }
  if (level <= TSR_LOG_WARNING) {
    print_message("[report %d] %s\n", level, message);
  }
}

static const char *on_option(const tsr_host *host, const char *name)
{
  const plugin_fixture *plugin = (const plugin_fixture *)host;
  for (int i = 0; i < FIXTURE_OPTIONS; i++) {
    if (plugin->options[i].name && strcmp(plugin->options[i].name, name) == 0) {
      return plugin->options[i].value;
    }
  }
  if (strcmp(name, "VALIDATION") == 0) {
    return TSR_BUILD_FLAGS & (TSR_BUILD_ASAN | TSR_BUILD_TSAN) ? "0" : "1"; /* the layer itself leaks and races */
  }
  return strcmp(name, "PIPELINE_CACHE") == 0 ? "0" : NULL;
}

static void start(plugin_fixture *plugin)
{
  assert_null(plugin->query(TSR_ABI_MAJOR + 1, &plugin->host));
  plugin->table = plugin->query(TSR_ABI_MAJOR, &plugin->host);
  assert_non_null(plugin->table);
  int32_t status = plugin->table->start(&plugin->host, &plugin->context);
  if (status == TSR_ERR_NO_DEVICE) {
    if (plugin->module) {
      dlclose(plugin->module);
    }
    skip();
  }
  assert_int_equal(status, TSR_OK);
  assert_int_equal(plugin->table->device_count(plugin->context, &plugin->n_devices), TSR_OK);
  assert_true(plugin->n_devices > 0);
}

static void prepare(plugin_fixture *plugin, va_list options)
{
  memset(plugin, 0, sizeof(*plugin));
  plugin->host = (tsr_host){
      .struct_size = sizeof(tsr_host),
      .abi_major = TSR_ABI_MAJOR,
      .abi_minor = TSR_ABI_MINOR,
      .report = on_report,
      .option = on_option,
  };
  for (int i = 0; i < FIXTURE_OPTIONS; i++) {
    plugin->options[i].name = va_arg(options, const char *);
    if (!plugin->options[i].name) {
      break;
    }
    plugin->options[i].value = va_arg(options, const char *);
  }
}

void plugin_open(plugin_fixture *plugin, ...)
{
  va_list options;
  va_start(options, plugin);
  prepare(plugin, options);
  va_end(options);
  plugin->module = dlopen(VULKAN_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!plugin->module) {
    fail_msg("%s", dlerror());
  }
  *(void **)&plugin->query = dlsym(plugin->module, TSR_BACKEND_QUERY_NAME);
  assert_non_null(plugin->query);
  start(plugin);
}

void plugin_open_linked(plugin_fixture *plugin, tsr_backend_query_fn query, ...)
{
  va_list options;
  va_start(options, query);
  prepare(plugin, options);
  va_end(options);
  plugin->query = query;
  start(plugin);
}

void plugin_close(plugin_fixture *plugin)
{
  plugin->table->stop(plugin->context);
  if (plugin->module) {
    dlclose(plugin->module);
  }
  assert_int_equal(plugin->n_validation, 0);
}

tsr_device_counters device_counters(const plugin_fixture *plugin, tsr_backend_device *device)
{
  tsr_device_counters counters = {.struct_size = sizeof(counters)};
  assert_int_equal(plugin->table->counters(device, &counters), TSR_OK);
  return counters;
}

void chain_describe(chain *c, const plugin_fixture *plugin, int32_t n, int32_t extent)
{
  tsr_device_properties properties = {.struct_size = sizeof(properties)};
  assert_int_equal(plugin->table->device_properties(plugin->context, 0, &properties), TSR_OK);
  uint64_t bytes = (uint64_t)extent * sizeof(float);
  *c = (chain){.table = plugin->table, .n = n, .extent = extent};
  uint64_t alignment = 4096;
  assert_true(properties.buffer_alignment <= alignment);
  c->stride = (bytes + alignment - 1) / alignment * alignment + alignment;
  c->storages = calloc((size_t)n + 2, sizeof(*c->storages));
  c->tensors = calloc((size_t)n + 2, sizeof(*c->tensors));
  c->lines = calloc((size_t)n, sizeof(*c->lines));
  for (int32_t i = 0; i <= n; i++) {
    int32_t place = i == 0 ? 0 : i == n ? 3 : 1 + i % 2;
    c->storages[i + 1] = (tsr_storage_desc){
        .kind = i == 0   ? TSR_STORAGE_INPUT
                : i == n ? TSR_STORAGE_OUTPUT
                         : TSR_STORAGE_TEMPORARY,
        .offset = (int64_t)((uint64_t)place * c->stride),
        .size = (int64_t)bytes,
    };
    c->tensors[i + 1] = (tsr_tensor_desc){
        .storage = i + 1, .dtype = TSR_F32, .rank = 1, .extent = {extent, 1, 1, 1}, .stride = {1, 0, 0, 0}};
    if (i > 0) {
      c->lines[i - 1] = (tsr_line_desc){.op = TSR_OP_ADD,
                                        .in = {i, i},
                                        .out = {i + 1},
                                        .label = "chain",
                                        .attributes = {.struct_size = sizeof(tsr_op_attributes)}};
    }
  }
  c->program = (tsr_program_desc){
      .struct_size = sizeof(c->program),
      .storage_size = sizeof(tsr_storage_desc),
      .tensor_size = sizeof(tsr_tensor_desc),
      .line_size = sizeof(tsr_line_desc),
      .n_storages = n + 2,
      .n_tensors = n + 2,
      .n_lines = n,
      .storages = c->storages,
      .tensors = c->tensors,
      .lines = c->lines,
  };
}

int32_t chain_compile(chain *c, tsr_backend_device *device, int32_t profile)
{
  int32_t status = c->table->buffer_create(device, 4 * c->stride, TSR_BUFFER_DEVICE, &c->buffer);
  tsr_compile_args args = {
      .struct_size = sizeof(args), .n_buffers = 1, .program = &c->program, .buffers = &c->buffer, .profile = profile};
  return status == TSR_OK ? c->table->compile(device, &args, &c->executable) : status;
}

void chain_open(chain *c, const plugin_fixture *plugin, tsr_backend_device *device, int32_t n, int32_t extent,
                int32_t profile)
{
  chain_describe(c, plugin, n, extent);
  for (int32_t i = 0; i < n; i++) {
    assert_int_equal(c->table->supports(device, &c->program, i), 1);
  }
  assert_int_equal(chain_compile(c, device, profile), TSR_OK);
}

void chain_write(chain *c, float start)
{
  float *values = malloc((size_t)c->extent * sizeof(float));
  for (int32_t i = 0; i < c->extent; i++) {
    values[i] = start + (float)(i % 1000);
  }
  assert_int_equal(c->table->buffer_write(c->buffer, 0, (uint64_t)c->extent * sizeof(float), values), TSR_OK);
  free(values);
}

void chain_check(chain *c, float start)
{
  assert_int_equal(c->table->wait(c->executable), TSR_OK);
  float *values = malloc((size_t)c->extent * sizeof(float));
  assert_int_equal(c->table->buffer_read(c->buffer, 3 * c->stride, (uint64_t)c->extent * sizeof(float), values),
                   TSR_OK);
  for (int32_t i = 0; i < c->extent; i++) {
    float expected = ldexpf(start + (float)(i % 1000), c->n);
    if (values[i] != expected) {
      fail_msg("element %d is %g, not %g", i, (double)values[i], (double)expected);
    }
  }
  free(values);
}

void chain_close(chain *c)
{
  c->table->executable_destroy(c->executable);
  c->table->buffer_destroy(c->buffer);
  free(c->storages);
  free(c->tensors);
  free(c->lines);
}
