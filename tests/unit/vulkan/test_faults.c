/* SPDX-License-Identifier: Apache-2.0
 *
 * What drivers do rarely: every call of a device's life fails once, in turn. The backend is linked into the test, which
 * puts itself between it and the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"
#include "tests/unit/vulkan/vulkan_fixture.h"

static struct VolkDeviceTable driver; /* the device's own functions */
static int calls;                     /* so far */
static int failing_call;              /* 0: none */
static VkResult injected;
static int n_barriers;

static int strikes(void)
{
  return ++calls == failing_call;
}

#define INTERPOSE(name, parameters, arguments)                                                                         \
  static VKAPI_ATTR VkResult VKAPI_CALL fault_##name parameters                                                        \
  {                                                                                                                    \
    return strikes() ? injected : driver.name arguments;                                                               \
  }

#define CREATE(name, info, object)                                                                                     \
  INTERPOSE(name, (VkDevice d, const info *i, const VkAllocationCallbacks *a, object *o), (d, i, a, o))

CREATE(vkCreateBuffer, VkBufferCreateInfo, VkBuffer)
CREATE(vkAllocateMemory, VkMemoryAllocateInfo, VkDeviceMemory)
CREATE(vkCreateDescriptorSetLayout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
CREATE(vkCreatePipelineLayout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
CREATE(vkCreateShaderModule, VkShaderModuleCreateInfo, VkShaderModule)
CREATE(vkCreateDescriptorPool, VkDescriptorPoolCreateInfo, VkDescriptorPool)
CREATE(vkCreateCommandPool, VkCommandPoolCreateInfo, VkCommandPool)
CREATE(vkCreateQueryPool, VkQueryPoolCreateInfo, VkQueryPool)
INTERPOSE(vkBindBufferMemory, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize o), (d, b, m, o))
INTERPOSE(vkMapMemory, (VkDevice d, VkDeviceMemory m, VkDeviceSize o, VkDeviceSize s, VkMemoryMapFlags f, void **p),
          (d, m, o, s, f, p))
INTERPOSE(vkCreateComputePipelines,
          (VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
           const VkAllocationCallbacks *a, VkPipeline *p),
          (d, c, n, i, a, p))
INTERPOSE(vkAllocateDescriptorSets, (VkDevice d, const VkDescriptorSetAllocateInfo *i, VkDescriptorSet *s), (d, i, s))
INTERPOSE(vkAllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *c), (d, i, c))
INTERPOSE(vkBeginCommandBuffer, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), (c, i))
INTERPOSE(vkQueueSubmit, (VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f), (q, n, s, f))
INTERPOSE(vkWaitSemaphores, (VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t), (d, i, t))
INTERPOSE(vkGetQueryPoolResults,
          (VkDevice d, VkQueryPool p, uint32_t f, uint32_t n, size_t s, void *r, VkDeviceSize e, VkQueryResultFlags g),
          (d, p, f, n, s, r, e, g))

static VKAPI_ATTR void VKAPI_CALL count_barrier(VkCommandBuffer c, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                                VkDependencyFlags flags, uint32_t n_memory,
                                                const VkMemoryBarrier *memory, uint32_t n_buffers,
                                                const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                                const VkImageMemoryBarrier *images)
{
  n_barriers++;
  driver.vkCmdPipelineBarrier(c, from, to, flags, n_memory, memory, n_buffers, buffers, n_images, images);
}

static void interpose(tsr_backend_device *device)
{
  driver = device->vk;
  calls = 0;
  failing_call = 0;
  n_barriers = 0;
#define PUT(name) device->vk.name = fault_##name
  PUT(vkCreateBuffer);
  PUT(vkAllocateMemory);
  PUT(vkCreateDescriptorSetLayout);
  PUT(vkCreatePipelineLayout);
  PUT(vkCreateShaderModule);
  PUT(vkCreateDescriptorPool);
  PUT(vkCreateCommandPool);
  PUT(vkCreateQueryPool);
  PUT(vkBindBufferMemory);
  PUT(vkMapMemory);
  PUT(vkCreateComputePipelines);
  PUT(vkAllocateDescriptorSets);
  PUT(vkAllocateCommandBuffers);
  PUT(vkBeginCommandBuffer);
  PUT(vkQueueSubmit);
  PUT(vkWaitSemaphores);
  PUT(vkGetQueryPoolResults);
#undef PUT
  device->vk.vkCmdPipelineBarrier = count_barrier;
}

/* Creates, writes, compiles, runs, reads, and measures, until something fails. */
static int32_t live(chain *c, tsr_backend_device *device)
{
  enum { EXTENT = 64, LINES = 3 };
  float values[EXTENT] = {0};
  uint64_t nanoseconds[LINES];
  int32_t status = chain_compile(c, device, 1);
  if (status == TSR_OK) {
    status = c->table->buffer_write(c->buffer, 0, sizeof(values), values);
  }
  if (status == TSR_OK) {
    status = c->table->run(c->executable);
  }
  if (status == TSR_OK) {
    status = c->table->wait(c->executable);
  }
  if (status == TSR_OK) {
    status = c->table->profile(c->executable, nanoseconds);
  }
  return status == TSR_OK ? c->table->buffer_read(c->buffer, 3 * c->stride, sizeof(values), values) : status;
}

/* Fails each call in turn; returns how many there are. *survived: of them, those whose failure nothing came of. */
static int fail_in_turn(const char *staging, VkResult result, int32_t expected_status, int *survived)
{
  int failing = 0;
  *survived = 0;
  for (int is_reached = 1; is_reached;) {
    plugin_fixture plugin;
    plugin_open_linked(&plugin, TSR_BACKEND_QUERY, "STAGING", staging, NULL);
    tsr_backend_device *device = NULL;
    chain c;
    assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
    interpose(device);
    failing_call = ++failing;
    injected = result;
    chain_describe(&c, &plugin, 3, 64);
    const int32_t status = live(&c, device);
    is_reached = calls >= failing;
    *survived += is_reached && status == TSR_OK;
    if (status != TSR_OK) {
      assert_true(is_reached);
      assert_int_equal(status, expected_status);
      assert_int_equal(plugin.n_errors, 1);
    }
    int executable_was_made = c.executable != NULL;
    int lost = device->lost;
    chain_close(&c);
    if (!lost && !executable_was_made) {
      /* The device is as good as before. */
      chain_open(&c, &plugin, device, 3, 64, 0);
      chain_write(&c, 5);
      assert_int_equal(plugin.table->run(c.executable), TSR_OK);
      chain_check(&c, 5);
      chain_close(&c);
    }
    plugin.table->device_close(device);
    plugin_close(&plugin);
    assert_true(failing < 200);
  }
  return failing - 1;
}

static void test_out_of_memory(void **state)
{
  (void)state;
  int survived;
  assert_in_range(fail_in_turn("0", VK_ERROR_OUT_OF_DEVICE_MEMORY, TSR_ERR_DEVICE_MEMORY, &survived), 15, 100);
  assert_in_range(survived, 1, 2); /* of a block, in whose stead less is asked for */
  assert_in_range(fail_in_turn("1", VK_ERROR_OUT_OF_DEVICE_MEMORY, TSR_ERR_DEVICE_MEMORY, &survived), 20, 100);
}

static void test_device_lost(void **state)
{
  (void)state;
  for (int staged = 0; staged < 2; staged++) {
    plugin_fixture plugin;
    plugin_open_linked(&plugin, TSR_BACKEND_QUERY, "STAGING", staged ? "1" : "0", NULL);
    tsr_backend_device *device = NULL;
    chain c;
    assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
    chain_open(&c, &plugin, device, 3, 64, 0);
    chain_write(&c, 1);
    interpose(device);
    failing_call = 1;
    injected = VK_ERROR_DEVICE_LOST;
    assert_int_equal(plugin.table->run(c.executable), TSR_ERR_DEVICE_LOST);
    assert_non_null(strstr(plugin.message, "start the program again, or choose another device"));
    /* It stays lost, and nothing hangs. */
    assert_int_equal(plugin.table->run(c.executable), TSR_ERR_DEVICE_LOST);
    float value = 0;
    int32_t status = plugin.table->buffer_write(c.buffer, 0, sizeof(value), &value);
    assert_int_equal(status, staged ? TSR_ERR_DEVICE_LOST : TSR_OK);
    chain_close(&c);
    plugin.table->device_close(device);

    /* Opened anew it works. */
    assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
    chain_open(&c, &plugin, device, 3, 64, 0);
    chain_write(&c, 1);
    assert_int_equal(plugin.table->run(c.executable), TSR_OK);
    chain_check(&c, 1);
    chain_close(&c);
    plugin.table->device_close(device);
    plugin_close(&plugin);
  }
}

/* A run of several submits of which one fails leaves nothing under way: whoever is told writes into its buffers
 * next. */
static void test_half_a_run(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, "WATCHDOG_FLOPS", "1048576", NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  chain_open(&c, &plugin, device, 9, 1 << 20, 0);
  chain_write(&c, 1);
  interpose(device);
  failing_call = 9;
  injected = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  assert_int_equal(plugin.table->run(c.executable), TSR_ERR_DEVICE_MEMORY);
  uint64_t value = 0;
  assert_int_equal(device->vk.vkGetSemaphoreCounterValue(device->handle, device->timeline, &value), VK_SUCCESS);
  assert_int_equal(value, device->ticket);
  assert_int_equal(device_counters(&plugin, device).runs, 0);
  chain_write(&c, 2);
  assert_int_equal(plugin.table->run(c.executable), TSR_OK);
  chain_check(&c, 2);
  chain_close(&c);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

/* Several runs at once: one submit, or as many as the runs' work asks for. Returns how many. */
static uint64_t submits_of_many(const plugin_fixture *plugin, int32_t lines, int32_t extent, uint32_t n)
{
  const tsr_runs_extension *runs = plugin->table->get_extension(plugin->context, TSR_RUNS_EXTENSION);
  tsr_backend_device *device = NULL;
  chain c;
  assert_non_null(runs);
  assert_int_equal(plugin->table->device_open(plugin->context, 0, &device), TSR_OK);
  chain_open(&c, plugin, device, lines, extent, 0);
  chain_write(&c, 1);
  assert_int_equal(runs->run_many(c.executable, n), TSR_OK);
  chain_check(&c, 1);
  const tsr_device_counters counters = device_counters(plugin, device);
  assert_int_equal(counters.runs, n);

  /* One that fails leaves none under way. */
  chain_write(&c, 2);
  interpose(device);
  failing_call = 1;
  injected = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  assert_int_equal(runs->run_many(c.executable, n), TSR_ERR_DEVICE_MEMORY);
  assert_int_equal(device_counters(plugin, device).runs, n);
  assert_int_equal(runs->run_many(c.executable, 1), TSR_OK);
  chain_check(&c, 2);
  chain_close(&c);
  plugin->table->device_close(device);
  return counters.submits;
}

static void test_many_runs(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, NULL);
  assert_int_equal(submits_of_many(&plugin, 3, 64, 1), 1);
  assert_int_equal(submits_of_many(&plugin, 3, 64, 20), 1);
  assert_int_equal(submits_of_many(&plugin, 3, 64, 65), 2);
  plugin_close(&plugin);
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, "WATCHDOG_FLOPS", "1048576", NULL);
  assert_in_range(submits_of_many(&plugin, 1, 1 << 18, 20), 4, 19);
  assert_in_range(submits_of_many(&plugin, 9, 1 << 20, 4), 5, 64); /* of a run several */
  plugin_close(&plugin);
}

/* Barriers recorded for the chain; the first and the last are those towards what is around the run. */
static int barriers_of(chain *c, tsr_backend_device *device)
{
  n_barriers = 0;
  assert_int_equal(chain_compile(c, device, 0), TSR_OK);
  c->table->executable_destroy(c->executable);
  c->table->buffer_destroy(c->buffer);
  c->executable = NULL;
  c->buffer = NULL;
  return n_barriers;
}

/* One barrier between two additions that depend on each other, none between those that do not. */
static void test_barriers(void **state)
{
  (void)state;
  enum { LINES = 6, EXTENT = 640, BYTES = EXTENT * 4 };
  plugin_fixture plugin;
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  interpose(device);
  chain_describe(&c, &plugin, LINES, EXTENT);
  assert_int_equal(barriers_of(&c, device), 2 + LINES - 1);
  chain_close(&c);

  /* Every line reads x[0]; the results lie side by side. */
  chain_describe(&c, &plugin, LINES, EXTENT);
  for (int32_t i = 0; i < LINES; i++) {
    c.lines[i].in[0] = c.lines[i].in[1] = 1;
    c.storages[i + 2].offset = (int64_t)c.stride + BYTES * i;
  }
  assert_int_equal(barriers_of(&c, device), 2);

  /* Write after read: the last line overwrites what the others read. */
  c.storages[LINES + 1].offset = 0;
  assert_int_equal(barriers_of(&c, device), 3);

  /* Write after write: the results of the last two lines overlap at their ends. */
  c.storages[LINES + 1].offset = (int64_t)c.stride + BYTES * (LINES - 1) - 256;
  assert_int_equal(barriers_of(&c, device), 3);
  chain_close(&c);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

/* Pipelines that are numbers: created and not yet destroyed. */
static int n_created, n_destroyed;

static VKAPI_ATTR VkResult VKAPI_CALL create_number(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                    const VkComputePipelineCreateInfo *infos,
                                                    const VkAllocationCallbacks *allocation, VkPipeline *pipelines)
{
  (void)device, (void)cache, (void)n, (void)infos, (void)allocation;
  n_created++;
  *pipelines = (VkPipeline)(uintptr_t)n_created;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_number(VkDevice device, VkPipeline pipeline,
                                                 const VkAllocationCallbacks *allocation)
{
  (void)device, (void)pipeline, (void)allocation;
  n_destroyed++;
}

/* The pipeline with that specialisation constant. */
static VkPipeline get_number(tsr_backend_device *device, uint32_t constant)
{
  const tsr_vk_dispatch dispatch = {.n_operands = 2, .n_spec = 1, .spec = {constant}};
  VkPipeline pipeline = VK_NULL_HANDLE;
  assert_int_equal(tsr_vk_pipeline_get(device, &dispatch, &pipeline), TSR_OK);
  return pipeline;
}

/* Pipelines that no executable has are released, the oldest first, so that a process that compiles for hours (all cases
 * in all variants) does not keep them all; those of executables stay. */
static void test_released_pipelines(void **state)
{
  (void)state;
  enum { HELD = 3, MANY = TSR_VK_KEPT_PIPELINES + 100 };
  plugin_fixture plugin;
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, NULL);
  tsr_backend_device *device = NULL;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  device->vk.vkCreateComputePipelines = create_number;
  device->vk.vkDestroyPipeline = destroy_number;
  ((tsr_vk_context *)plugin.context)->set_name = NULL; /* they are no objects */
  n_created = n_destroyed = 0;
  for (uint32_t i = 0; i < MANY; i++) {
    VkPipeline pipeline = get_number(device, i);
    if (i < HELD) {
      tsr_vk_pipeline_hold(device, pipeline, 1);
    }
  }
  assert_int_equal(n_created, MANY);
  tsr_vk_pipelines_trim(device, TSR_VK_KEPT_PIPELINES);
  assert_int_equal(n_destroyed, MANY - HELD - TSR_VK_KEPT_PIPELINES);
  assert_int_equal(device->pipelines.n_pipelines, HELD + TSR_VK_KEPT_PIPELINES);
  assert_true(get_number(device, 1) == (VkPipeline)(uintptr_t)2);
  assert_true(get_number(device, MANY - 1) == (VkPipeline)(uintptr_t)MANY);
  assert_int_equal(n_created, MANY);
  (void)get_number(device, HELD); /* the oldest of those without users: it is gone */
  assert_int_equal(n_created, MANY + 1);

  const tsr_variants_extension *variants = plugin.table->get_extension(plugin.context, TSR_VARIANTS_EXTENSION);
  variants->force(device, 1);
  assert_int_equal(device->pipelines.n_pipelines, HELD + TSR_VK_KEPT_WHEN_FORCED);
  assert_int_equal(device->pipelines.n_unused, TSR_VK_KEPT_WHEN_FORCED);
  for (uint32_t i = 0; i < HELD; i++) {
    tsr_vk_pipeline_hold(device, get_number(device, i), -1);
  }
  assert_int_equal(device->pipelines.n_unused, HELD + TSR_VK_KEPT_WHEN_FORCED);
  plugin.table->device_close(device);
  assert_int_equal(n_destroyed, n_created);
  plugin_close(&plugin);
}

static VKAPI_ATTR void VKAPI_CALL old_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
  memset(properties, 0, sizeof(*properties));
  properties->apiVersion = VK_API_VERSION_1_1;
  strcpy(properties->deviceName, "an old one");
  (void)device;
}

/* A device below the baseline is left out with a warning; when none is left the backend does not start. */
static void test_old_driver(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open_linked(&plugin, TSR_BACKEND_QUERY, NULL);
  PFN_vkGetPhysicalDeviceProperties real = vkGetPhysicalDeviceProperties;
  void *context = NULL;
  vkGetPhysicalDeviceProperties = old_properties;
  assert_int_equal(plugin.table->start(&plugin.host, &context), TSR_ERR_NO_DEVICE);
  vkGetPhysicalDeviceProperties = real;
  assert_null(context);
  assert_int_equal(plugin.n_errors, 1);
  assert_non_null(strstr(plugin.message, "update their drivers"));
  plugin_close(&plugin);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_device_lost),
      cmocka_unit_test(test_half_a_run),    cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_many_runs),     cmocka_unit_test(test_released_pipelines),
      cmocka_unit_test(test_old_driver),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
