/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer itself. Each trial is a process of its own with a profile that it writes; one that breaks a rule has to be
 * told and ended.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VOLK_IMPLEMENTATION
#include <volk.h>

#include <cmocka.h>

#define FRESH 0x7fc07fc0u

static char folder[] = "/tmp/tessera-card-XXXXXX";
static char profile_path[64], output_path[64], statistics_path[64];

/* What stands in every profile; trials add to it. */
#define HEAPS                                                                                                          \
  "\"heaps\": [{\"size\": \"64 MiB\", \"flags\": [\"DEVICE_LOCAL\"], \"free\": \"32 MiB\", \"taken\": \"1 MiB\"}, "    \
  "{\"size\": \"1 GiB\", \"flags\": []}], "                                                                            \
  "\"types\": [{\"heap\": 0, \"flags\": [\"DEVICE_LOCAL\"]}, "                                                         \
  "{\"heap\": 1, \"flags\": [\"HOST_VISIBLE\", \"HOST_COHERENT\"]}, "                                                  \
  "{\"heap\": 1, \"flags\": [\"HOST_VISIBLE\", \"HOST_CACHED\"]}], "
#define FAMILIES                                                                                                       \
  "\"queueFamilies\": [{\"flags\": [\"GRAPHICS\", \"COMPUTE\", \"TRANSFER\"]}, "                                       \
  "{\"flags\": [\"COMPUTE\", \"TRANSFER\"], \"timestampValidBits\": 36}]"
enum { LOCAL, COHERENT, CACHED };

static const char plain[] =
    "{\"name\": \"Trial\", \"type\": \"discrete\", \"vendorID\": 4660, \"apiVersion\": \"1.2\", " HEAPS
    "\"bufferAlignment\": 512, \"allocationsFailAbove\": \"16 MiB\", "
    "\"extensions\": [\"VK_EXT_memory_budget\"], "
    "\"limits\": {\"nonCoherentAtomSize\": 256, \"maxComputeWorkGroupCount\": [9, 8, 7], "
    "\"maxStorageBufferRange\": 4096, \"minStorageBufferOffsetAlignment\": 256, \"maxMemoryAllocationCount\": 4, "
    "\"maxPushConstantsSize\": 128, \"maxComputeWorkGroupInvocations\": 64, \"maxComputeSharedMemorySize\": 1024, "
    "\"maxPerStageDescriptorStorageBuffers\": 3, \"timestampPeriod\": 50.0}, "
    "\"features\": {\"shaderFloat16\": false, \"shaderInt16\": false}, "
    "\"properties\": {\"maxMemoryAllocationSize\": \"8 MiB\", \"shaderSignedZeroInfNanPreserveFloat32\": "
    "false}, " FAMILIES "}";

static const char portable[] = "{\"name\": \"Translated\", \"type\": \"integrated\", " HEAPS
                               "\"extensions\": [\"VK_KHR_portability_subset\"], " FAMILIES "}";

/* ---- Vulkan, as an application would use it --------------------------------------------------------------------- */

typedef struct card {
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
} card;

/* Within a trial: what fails ends it with a code that says that the trial itself was wrong. */
#define NEED(condition)                                                                                                \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                          \
      exit(3);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static int open_instance(card *c, VkInstanceCreateFlags flags)
{
  NEED(volkInitialize() == VK_SUCCESS);
  const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
  const char *const extensions[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
  const VkInstanceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
      .flags = flags,
      .pApplicationInfo = &application,
      .enabledExtensionCount = flags ? 1 : 0,
      .ppEnabledExtensionNames = extensions,
  };
  NEED(vkCreateInstance(&info, NULL, &c->instance) == VK_SUCCESS);
  volkLoadInstance(c->instance);
  uint32_t count = 1;
  return vkEnumeratePhysicalDevices(c->instance, &count, &c->physical) >= VK_SUCCESS && count == 1;
}

static VkResult open_device(card *c, const void *next, const char *extension, uint32_t family)
{
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = family,
      .queueCount = 1,
      .pQueuePriorities = &priority,
  };
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = next,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = extension ? 1 : 0,
      .ppEnabledExtensionNames = &extension,
  };
  const VkResult result = vkCreateDevice(c->physical, &info, NULL, &c->device);
  if (result != VK_SUCCESS) {
    return result;
  }
  volkLoadDevice(c->device);
  vkGetDeviceQueue(c->device, family, 0, &c->queue);
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = family};
  NEED(vkCreateCommandPool(c->device, &pool, NULL, &c->pool) == VK_SUCCESS);
  return VK_SUCCESS;
}

static card open_card(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  NEED(open_device(&c, NULL, NULL, 1) == VK_SUCCESS);
  return c;
}

static void close_card(card *c)
{
  vkDestroyCommandPool(c->device, c->pool, NULL);
  vkDestroyDevice(c->device, NULL);
  vkDestroyInstance(c->instance, NULL);
}

static VkResult allocate(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory)
{
  const VkMemoryAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = size, .memoryTypeIndex = type};
  return vkAllocateMemory(c->device, &info, NULL, memory);
}

static VkBuffer make_buffer(const card *c, uint64_t size)
{
  VkBuffer buffer;
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
  };
  NEED(vkCreateBuffer(c->device, &info, NULL, &buffer) == VK_SUCCESS);
  return buffer;
}

/* With memory of its own. */
static VkBuffer make_bound_buffer(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory)
{
  const VkBuffer buffer = make_buffer(c, size);
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(c->device, buffer, &needs);
  NEED(needs.memoryTypeBits == 7 && needs.alignment == 512);
  NEED(allocate(c, type, needs.size, memory) == VK_SUCCESS);
  NEED(vkBindBufferMemory(c->device, buffer, *memory, 0) == VK_SUCCESS);
  return buffer;
}

static VkCommandBuffer begin(const card *c)
{
  VkCommandBuffer commands;
  const VkCommandBufferAllocateInfo allocation = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = c->pool, .commandBufferCount = 1};
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  NEED(vkAllocateCommandBuffers(c->device, &allocation, &commands) == VK_SUCCESS);
  NEED(vkBeginCommandBuffer(commands, &info) == VK_SUCCESS);
  return commands;
}

static VkResult submit(const card *c, VkCommandBuffer commands)
{
  const VkSubmitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  NEED(vkEndCommandBuffer(commands) == VK_SUCCESS);
  const VkResult result = vkQueueSubmit(c->queue, 1, &info, VK_NULL_HANDLE);
  return result == VK_SUCCESS ? vkQueueWaitIdle(c->queue) : result;
}

static VkResult copy(const card *c, VkBuffer from, VkBuffer to, uint64_t size)
{
  const VkCommandBuffer commands = begin(c);
  const VkBufferCopy region = {.size = size};
  vkCmdCopyBuffer(commands, from, to, 1, &region);
  return submit(c, commands);
}

static uint32_t *map(const card *c, VkDeviceMemory memory)
{
  void *bytes;
  NEED(vkMapMemory(c->device, memory, 0, VK_WHOLE_SIZE, 0, &bytes) == VK_SUCCESS);
  return bytes;
}

static VkMappedMemoryRange range_of(VkDeviceMemory memory, uint64_t offset, uint64_t size)
{
  return (VkMappedMemoryRange){
      .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, .memory = memory, .offset = offset, .size = size};
}

/* ---- trials: each within a process of its own ------------------------------------------------------------------- */

static void shows_the_card(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties floats = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, .pNext = &driver};
  VkPhysicalDeviceMaintenance3Properties sizes = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                  .pNext = &floats};
  VkPhysicalDeviceVulkan13Properties newer = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES, .pNext = &sizes, .maxBufferSize = 77};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &newer};
  vkGetPhysicalDeviceProperties2(c.physical, &properties);
  const VkPhysicalDeviceProperties *p = &properties.properties;
  NEED(strcmp(p->deviceName, "Trial") == 0 && p->vendorID == 4660);
  NEED(p->deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU && p->apiVersion < VK_API_VERSION_1_3);
  NEED(p->limits.nonCoherentAtomSize == 256 && p->limits.maxComputeWorkGroupCount[2] == 7);
  NEED(p->limits.timestampPeriod > 49 && p->limits.timestampPeriod < 51);
  NEED(sizes.maxMemoryAllocationSize == 8u << 20 && !floats.shaderSignedZeroInfNanPreserveFloat32);
  NEED(newer.maxBufferSize == 77); /* a structure that a driver of Vulkan 1.2 does not know */

  VkPhysicalDeviceVulkan12Features features12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &features12};
  vkGetPhysicalDeviceFeatures2(c.physical, &features);
  NEED(!features12.shaderFloat16 && features12.timelineSemaphore && !features.features.shaderInt16);

  VkQueueFamilyProperties families[4];
  uint32_t count = 4;
  vkGetPhysicalDeviceQueueFamilyProperties(c.physical, &count, families);
  NEED(count == 2 && families[1].queueFlags == (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT));
  NEED(families[1].timestampValidBits == 36);

  VkExtensionProperties extensions[4];
  count = 4;
  NEED(vkEnumerateDeviceExtensionProperties(c.physical, NULL, &count, extensions) == VK_SUCCESS && count == 1);
  NEED(strcmp(extensions[0].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0);
  NEED(open_device(&c, NULL, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 1) == VK_SUCCESS);
  NEED(vkGetDeviceProcAddr(c.device, "vkQueueSubmit2") == NULL);
  close_card(&c);
}

static VkPhysicalDeviceMemoryBudgetPropertiesEXT budget_of(const card *c)
{
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                              .pNext = &budget};
  vkGetPhysicalDeviceMemoryProperties2(c->physical, &memory);
  NEED(memory.memoryProperties.memoryHeapCount == 2 && memory.memoryProperties.memoryTypeCount == 3);
  NEED(memory.memoryProperties.memoryHeaps[0].size == 64u << 20);
  budget.pNext = NULL;
  return budget;
}

static void tells_the_budget(void)
{
  card c = open_card();
  NEED(budget_of(&c).heapBudget[0] == 32u << 20 && budget_of(&c).heapUsage[0] == 0);
  VkDeviceMemory memory[4];
  NEED(allocate(&c, LOCAL, (16u << 20) + 4, &memory[0]) == VK_ERROR_OUT_OF_DEVICE_MEMORY); /* above what works */
  NEED(allocate(&c, LOCAL, 12u << 20, &memory[0]) == VK_SUCCESS); /* above what is told to work */
  NEED(budget_of(&c).heapBudget[0] == 31u << 20 && budget_of(&c).heapUsage[0] == 12u << 20);
  NEED(allocate(&c, LOCAL, 12u << 20, &memory[1]) == VK_SUCCESS);
  NEED(allocate(&c, LOCAL, 7u << 20, &memory[2]) == VK_ERROR_OUT_OF_DEVICE_MEMORY); /* 30 MiB by now */
  NEED(allocate(&c, LOCAL, 6u << 20, &memory[2]) == VK_SUCCESS);
  NEED(allocate(&c, COHERENT, 256, &memory[3]) == VK_SUCCESS);
  VkDeviceMemory fifth;
  NEED(allocate(&c, COHERENT, 256, &fifth) == VK_ERROR_TOO_MANY_OBJECTS);
  for (int i = 0; i < 4; i++) {
    vkFreeMemory(c.device, memory[i], NULL);
  }
  NEED(budget_of(&c).heapBudget[0] == 28u << 20 && budget_of(&c).heapUsage[0] == 0);
  close_card(&c);
}

static void shows_what_was_not_flushed(void)
{
  card c = open_card();
  VkDeviceMemory source_memory, target_memory;
  const VkBuffer source = make_bound_buffer(&c, CACHED, 1024, &source_memory);
  const VkBuffer target = make_bound_buffer(&c, COHERENT, 1024, &target_memory);
  uint32_t *from = map(&c, source_memory);
  const volatile uint32_t *to = map(&c, target_memory);
  for (uint32_t i = 0; i < 256; i++) {
    from[i] = i;
  }
  const VkMappedMemoryRange second = range_of(source_memory, 256, 256);
  NEED(vkFlushMappedMemoryRanges(c.device, 1, &second) == VK_SUCCESS);
  NEED(copy(&c, source, target, 1024) == VK_SUCCESS);
  NEED(to[0] == FRESH && to[64] == 64 && to[127] == 127 && to[128] == FRESH);
  const VkMappedMemoryRange all = range_of(source_memory, 0, VK_WHOLE_SIZE);
  NEED(vkFlushMappedMemoryRanges(c.device, 1, &all) == VK_SUCCESS);
  NEED(copy(&c, source, target, 1024) == VK_SUCCESS);
  NEED(to[0] == 0 && to[255] == 255);
  vkDestroyBuffer(c.device, source, NULL);
  vkDestroyBuffer(c.device, target, NULL);
  vkFreeMemory(c.device, source_memory, NULL);
  vkFreeMemory(c.device, target_memory, NULL);
  close_card(&c);
}

static void shows_what_was_not_invalidated(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  const VkBuffer buffer = make_bound_buffer(&c, CACHED, 1024, &memory);
  const volatile uint32_t *bytes = map(&c, memory);
  const VkCommandBuffer commands = begin(&c);
  vkCmdFillBuffer(commands, buffer, 0, VK_WHOLE_SIZE, 5);
  NEED(submit(&c, commands) == VK_SUCCESS);
  NEED(bytes[0] == FRESH);
  const VkMappedMemoryRange first = range_of(memory, 0, 256);
  NEED(vkInvalidateMappedMemoryRanges(c.device, 1, &first) == VK_SUCCESS);
  NEED(bytes[0] == 5 && bytes[63] == 5 && bytes[64] == FRESH);
  vkDestroyBuffer(c.device, buffer, NULL);
  close_card(&c);
}

static void tells_a_misaligned_flush(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate(&c, CACHED, 1024, &memory) == VK_SUCCESS);
  map(&c, memory);
  const VkMappedMemoryRange range = range_of(memory, 0, 100);
  vkFlushMappedMemoryRanges(c.device, 1, &range);
}

static void tells_a_misaligned_offset(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate(&c, COHERENT, 1024, &memory) == VK_SUCCESS);
  map(&c, memory);
  const VkMappedMemoryRange range = range_of(memory, 64, 256);
  vkInvalidateMappedMemoryRanges(c.device, 1, &range);
}

static void tells_a_map_of_hidden_memory(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate(&c, LOCAL, 1024, &memory) == VK_SUCCESS);
  map(&c, memory);
}

static void tells_an_allocation_beyond_the_heap(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  allocate(&c, LOCAL, 65u << 20, &memory);
}

static void tells_a_misaligned_buffer(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate(&c, LOCAL, 4096, &memory) == VK_SUCCESS);
  vkBindBufferMemory(c.device, make_buffer(&c, 256), memory, 256);
}

static void tells_too_many_workgroups(void)
{
  card c = open_card();
  const VkCommandBuffer commands = begin(&c);
  vkCmdDispatch(commands, 9, 9, 1);
}

static void tells_a_missing_feature(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  const VkPhysicalDeviceVulkan12Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                     .shaderFloat16 = VK_TRUE};
  open_device(&c, &features, NULL, 0);
}

static void tells_a_structure_of_the_future(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  const VkPhysicalDeviceVulkan13Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  open_device(&c, &features, NULL, 0);
}

static void tells_a_forgotten_portability_subset(void)
{
  card c = {0};
  NEED(open_instance(&c, VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR));
  open_device(&c, NULL, NULL, 0);
}

static void hides_what_translates(void)
{
  card c = {0};
  NEED(!open_instance(&c, 0));
  vkDestroyInstance(c.instance, NULL);
  NEED(open_instance(&c, VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR));
  NEED(open_device(&c, NULL, "VK_KHR_portability_subset", 0) == VK_SUCCESS);
  close_card(&c);
}

/* ---- descriptors and shaders ------------------------------------------------------------------------------------ */

static VkDescriptorSetLayout set_layout(const card *c, uint32_t n)
{
  const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = n,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  const VkDescriptorSetLayoutCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VkDescriptorSetLayout layout;
  NEED(vkCreateDescriptorSetLayout(c->device, &info, NULL, &layout) == VK_SUCCESS);
  return layout;
}

static void tells_too_many_storage_buffers(void)
{
  card c = open_card();
  set_layout(&c, 4);
}

static void bind_range(uint64_t offset, uint64_t size)
{
  card c = open_card();
  VkDeviceMemory memory;
  const VkBuffer buffer = make_bound_buffer(&c, COHERENT, 8192, &memory);
  const VkDescriptorSetLayout layout = set_layout(&c, 1);
  const VkDescriptorPoolSize pool_size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
  const VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                .maxSets = 1,
                                                .poolSizeCount = 1,
                                                .pPoolSizes = &pool_size};
  VkDescriptorPool pool;
  NEED(vkCreateDescriptorPool(c.device, &pool_info, NULL, &pool) == VK_SUCCESS);
  const VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = pool,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &layout};
  VkDescriptorSet set;
  NEED(vkAllocateDescriptorSets(c.device, &info, &set) == VK_SUCCESS);
  const VkDescriptorBufferInfo range = {buffer, offset, size};
  const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &range};
  vkUpdateDescriptorSets(c.device, 1, &write, 0, NULL);
  vkDestroyDescriptorPool(c.device, pool, NULL);
  vkDestroyDescriptorSetLayout(c.device, layout, NULL);
  vkDestroyBuffer(c.device, buffer, NULL);
  close_card(&c);
}

static void takes_a_good_range(void)
{
  bind_range(256, 4096);
}

static void tells_a_range_that_is_too_large(void)
{
  bind_range(0, VK_WHOLE_SIZE);
}

static void tells_a_misaligned_range(void)
{
  bind_range(64, 64);
}

/* A shader that does nothing, with a workgroup of x invocations (constant 0) and an array of as many u32 as constant 1
 * says; with `preserve`, one that keeps infinities. */
static VkResult make_pipeline(uint32_t x, uint32_t shared, int preserve)
{
#define WORD(length, op) ((uint32_t)(length) << 16 | (uint32_t)(op))
  const uint32_t code[] = {
      0x07230203,
      0x00010300,
      0,
      16,
      0, /* the header: SPIR-V 1.3, 16 names */
      WORD(2, 17),
      1, /* OpCapability Shader */
      WORD(2, 17),
      preserve ? 4466 : 1, /* SignedZeroInfNanPreserve */
      WORD(3, 14),
      0,
      1, /* OpMemoryModel Logical GLSL450 */
      WORD(5, 15),
      5,
      1,
      0x6e69616d,
      0, /* OpEntryPoint GLCompute %1 "main" */
      WORD(6, 16),
      1,
      17,
      1,
      1,
      1, /* OpExecutionMode %1 LocalSize 1 1 1 */
      preserve ? WORD(4, 16) : WORD(4, 71),
      preserve ? 1 : 2,
      preserve ? 4461 : 1,
      preserve ? 32 : 0,
      WORD(4, 71),
      2,
      1,
      0, /* OpDecorate %2 SpecId 0 */
      WORD(4, 71),
      3,
      1,
      1, /* OpDecorate %3 SpecId 1 */
      WORD(4, 71),
      4,
      11,
      25, /* OpDecorate %4 BuiltIn WorkgroupSize */
      WORD(2, 19),
      5, /* %5 = OpTypeVoid */
      WORD(3, 33),
      6,
      5, /* %6 = OpTypeFunction %5 */
      WORD(4, 21),
      7,
      32,
      0, /* %7 = OpTypeInt 32 0 */
      WORD(4, 23),
      8,
      7,
      3, /* %8 = OpTypeVector %7 3 */
      WORD(4, 50),
      7,
      2,
      1, /* %2 = OpSpecConstant %7 1 */
      WORD(4, 50),
      7,
      3,
      1, /* %3 = OpSpecConstant %7 1 */
      WORD(4, 43),
      7,
      9,
      1, /* %9 = OpConstant %7 1 */
      WORD(6, 51),
      8,
      4,
      2,
      9,
      9, /* %4 = OpSpecConstantComposite %8 %2 %9 %9 */
      WORD(6, 52),
      7,
      10,
      132,
      3,
      9, /* %10 = OpSpecConstantOp %7 IMul %3 %9 */
      WORD(4, 28),
      11,
      7,
      10, /* %11 = OpTypeArray %7 %10 */
      WORD(4, 32),
      12,
      4,
      11, /* %12 = OpTypePointer Workgroup %11 */
      WORD(4, 59),
      12,
      13,
      4, /* %13 = OpVariable %12 Workgroup */
      WORD(5, 54),
      5,
      1,
      0,
      6, /* %1 = OpFunction %5 None %6 */
      WORD(2, 248),
      14,           /* OpLabel */
      WORD(1, 253), /* OpReturn */
      WORD(1, 56),  /* OpFunctionEnd */
  };
#undef WORD
  card c = open_card();
  const VkShaderModuleCreateInfo module_info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof(code), .pCode = code};
  VkShaderModule module;
  NEED(vkCreateShaderModule(c.device, &module_info, NULL, &module) == VK_SUCCESS);
  const VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  VkPipelineLayout layout;
  NEED(vkCreatePipelineLayout(c.device, &layout_info, NULL, &layout) == VK_SUCCESS);
  const uint32_t values[] = {x, shared};
  const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}};
  const VkSpecializationInfo specialization = {2, entries, sizeof(values), values};
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage =
          {
              .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
              .stage = VK_SHADER_STAGE_COMPUTE_BIT,
              .module = module,
              .pName = "main",
              .pSpecializationInfo = &specialization,
          },
      .layout = layout,
  };
  VkPipeline pipeline;
  const VkResult result = vkCreateComputePipelines(c.device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
  vkDestroyPipeline(c.device, pipeline, NULL);
  vkDestroyPipelineLayout(c.device, layout, NULL);
  vkDestroyShaderModule(c.device, module, NULL);
  close_card(&c);
  return result;
}

static void takes_a_good_shader(void)
{
  NEED(make_pipeline(64, 256, 0) == VK_SUCCESS);
}

static void tells_too_many_invocations(void)
{
  make_pipeline(65, 256, 0);
}

static void tells_too_much_shared_memory(void)
{
  make_pipeline(64, 257, 0);
}

static void tells_floats_that_are_not_kept(void)
{
  make_pipeline(64, 256, 1);
}

/* ---- faults and statistics -------------------------------------------------------------------------------------- */

static void loses_the_second_submit(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  const VkBuffer buffer = make_bound_buffer(&c, COHERENT, 1024, &memory);
  for (int i = 0; i < 4; i++) {
    const VkCommandBuffer commands = begin(&c);
    vkCmdFillBuffer(commands, buffer, 0, 512, 1);
    NEED(submit(&c, commands) == (i == 0 ? VK_SUCCESS : VK_ERROR_DEVICE_LOST));
  }
  NEED(vkDeviceWaitIdle(c.device) == VK_ERROR_DEVICE_LOST);
  vkDestroyBuffer(c.device, buffer, NULL);
  close_card(&c);
}

static void fails_the_third_allocation(void)
{
  card c = open_card();
  VkDeviceMemory memory[3];
  NEED(allocate(&c, COHERENT, 256, &memory[0]) == VK_SUCCESS);
  NEED(allocate(&c, COHERENT, 3u << 20, &memory[1]) == VK_ERROR_OUT_OF_DEVICE_MEMORY);
  NEED(allocate(&c, COHERENT, 256, &memory[1]) == VK_ERROR_OUT_OF_DEVICE_MEMORY);
  NEED(allocate(&c, COHERENT, 256, &memory[2]) == VK_SUCCESS);
  close_card(&c);
}

static void times_out(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  const VkPhysicalDeviceVulkan12Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                     .timelineSemaphore = VK_TRUE};
  NEED(open_device(&c, &features, NULL, 1) == VK_SUCCESS);
  const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                          .initialValue = 1};
  const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore semaphore;
  NEED(vkCreateSemaphore(c.device, &info, NULL, &semaphore) == VK_SUCCESS);
  const uint64_t value = 1;
  const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &semaphore,
                                    .pValues = &value};
  NEED(vkWaitSemaphores(c.device, &wait, UINT64_MAX) == VK_SUCCESS);
  NEED(vkWaitSemaphores(c.device, &wait, UINT64_MAX) == VK_TIMEOUT);
  NEED(vkWaitSemaphores(c.device, &wait, UINT64_MAX) == VK_ERROR_DEVICE_LOST);
  vkDestroySemaphore(c.device, semaphore, NULL);
  close_card(&c);
}

/* ---- running them ----------------------------------------------------------------------------------------------- */

typedef struct trial {
  const char *name;
  void (*function)(void);
  const char *profile;
  const char *told;  /* NULL: it has to end well */
  const char *fault; /* CARD_FAULT, or NULL */
  int validated;     /* 1: under the validation layer */
} trial;

#define TRIAL(function, profile, ...)                                                                                  \
  {                                                                                                                    \
#function, function, profile, __VA_ARGS__                                                                          \
  }
static const trial trials[] = {
    TRIAL(shows_the_card, plain, NULL),
    TRIAL(tells_the_budget, plain, NULL),
    TRIAL(shows_what_was_not_flushed, plain, NULL),
    TRIAL(shows_what_was_not_invalidated, plain, NULL),
    TRIAL(tells_a_misaligned_flush, plain, "bytes 0 to 100 are no multiples of nonCoherentAtomSize 256"),
    TRIAL(tells_a_misaligned_offset, plain, "bytes 64 to 320 are no multiples of nonCoherentAtomSize 256"),
    TRIAL(tells_a_map_of_hidden_memory, plain, "the host does not see memory of type 0"),
    TRIAL(tells_an_allocation_beyond_the_heap, plain, "are more than the heap of type 0 has"),
    TRIAL(tells_an_allocation_beyond_the_heap, plain, "VUID-vkAllocateMemory-pAllocateInfo-01713", NULL, 1),
    TRIAL(tells_a_misaligned_buffer, plain, "offset 256 breaks the alignment 512"),
    TRIAL(tells_too_many_workgroups, plain, "9 x 9 x 1 workgroups; maxComputeWorkGroupCount is 9 x 8 x 7"),
    TRIAL(tells_a_missing_feature, plain, "the feature shaderFloat16 is enabled, but not there"),
    TRIAL(tells_a_structure_of_the_future, plain, "of which this driver knows nothing"),
    TRIAL(hides_what_translates, portable, NULL),
    TRIAL(tells_a_forgotten_portability_subset, portable, "VK_KHR_portability_subset is there, but not enabled"),
    TRIAL(tells_too_many_storage_buffers, plain, "4 storage buffers; maxPerStageDescriptorStorageBuffers is 3"),
    TRIAL(takes_a_good_range, plain, NULL),
    TRIAL(tells_a_range_that_is_too_large, plain, "a range of 8192 bytes; maxStorageBufferRange is 4096"),
    TRIAL(tells_a_misaligned_range, plain, "offset 64 is no multiple of minStorageBufferOffsetAlignment 256"),
    TRIAL(takes_a_good_shader, plain, NULL),
    TRIAL(tells_too_many_invocations, plain, "65 invocations; maxComputeWorkGroupInvocations is 64"),
    TRIAL(tells_too_much_shared_memory, plain, "1028 bytes of shared memory; maxComputeSharedMemorySize is 1024"),
    TRIAL(tells_floats_that_are_not_kept, plain, "SignedZeroInfNanPreserve, which is not there"),
    TRIAL(loses_the_second_submit, plain, NULL, "lost:2"),
    TRIAL(fails_the_third_allocation, plain, NULL, "allocate:3,allocate-above:2M"),
    TRIAL(times_out, plain, NULL, "wait-timeout:2"),
    TRIAL(takes_a_good_range, "{\"name\": \"Bad\", \"colour\": 1}", "a profile has no 'colour'"),
    TRIAL(takes_a_good_range, "{\"name\": \"Bad\", \"limits\": {\"maxFish\": 1}}", "does not know 'maxFish'"),
    TRIAL(takes_a_good_range, plain, "there is no fault 'fire'", "fire:2"),
};

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void read_file(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  const size_t n = fread(text, 1, size - 1, file);
  text[n] = '\0';
  fclose(file);
}

/* How the trial's process ended; what it told is in output_path. */
static int run_trial(const trial *t)
{
  write_file(profile_path, t->profile);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("CARD_PROFILE", profile_path, 1);
    setenv("CARD_STATISTICS", statistics_path, 1);
    if (t->fault) {
      setenv("CARD_FAULT", t->fault, 1);
    } else {
      unsetenv("CARD_FAULT");
    }
    setenv("VK_INSTANCE_LAYERS",
           t->validated ? "VK_LAYER_KHRONOS_validation:VK_LAYER_TESSERA_card" : "VK_LAYER_TESSERA_card", 1);
    unsetenv("VK_LAYER_SETTINGS_PATH"); /* which would have the validation layer end the program */
    if (!freopen(output_path, "w", stderr) || dup2(fileno(stderr), fileno(stdout)) < 0) {
      _exit(3);
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(60);
    t->function();
    fflush(stderr);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static int has_validation(void)
{
  uint32_t count = 64;
  VkLayerProperties layers[64];
  int found = 0;
  if (volkInitialize() == VK_SUCCESS && vkEnumerateInstanceLayerProperties(&count, layers) >= VK_SUCCESS) {
    for (uint32_t i = 0; i < count; i++) {
      found |= strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation") == 0;
    }
  }
  return found;
}

static void test_trials(void **state)
{
  (void)state;
  const int validation = has_validation();
  int failures = 0;
  for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
    const trial *t = &trials[i];
    if (t->validated && !validation) {
      printf("left out, for want of the validation layer: %s\n", t->name);
      continue;
    }
    char told[8192];
    const int status = run_trial(t);
    read_file(output_path, told, sizeof(told));
    const int good = t->told ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(told, t->told) != NULL
                             : WIFEXITED(status) && WEXITSTATUS(status) == 0 && told[0] == '\0';
    if (!good) {
      printf("FAILED: %s: status %#x, told: %s\n", t->name, (unsigned)status, told);
      failures++;
    }
  }
  assert_int_equal(failures, 0);
}

/* A number of the statistics, by its name. */
static long number_of(const char *text, const char *name)
{
  const char *place = strstr(text, name);
  assert_non_null(place);
  return strtol(place + strlen(name) + 3, NULL, 10);
}

static void test_statistics(void **state)
{
  (void)state;
  const trial flush = TRIAL(shows_what_was_not_flushed, plain, NULL);
  assert_int_equal(run_trial(&flush), 0);
  char text[8192];
  read_file(statistics_path, text, sizeof(text));
  assert_int_equal(number_of(text, "submits"), 2);
  assert_int_equal(number_of(text, "copy_bytes"), 2048);
  assert_int_equal(number_of(text, "flushed_bytes"), 256 + 1024);
  assert_int_equal(number_of(text, "dispatches"), 0);
  assert_int_equal(number_of(text, "buffer"), 2);
}

static int make_folder(void **state)
{
  (void)state;
  if (!mkdtemp(folder)) {
    return -1;
  }
  snprintf(profile_path, sizeof(profile_path), "%s/profile.json", folder);
  snprintf(output_path, sizeof(output_path), "%s/told", folder);
  snprintf(statistics_path, sizeof(statistics_path), "%s/statistics.json", folder);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  remove(profile_path);
  remove(output_path);
  remove(statistics_path);
  return remove(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trials),
      cmocka_unit_test(test_statistics),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
