/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/card/trials.h"

#include <stddef.h>
#include <string.h>

#include "tests/card/application.h"

#define FRESH 0x7fc07fc0u

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
  NEED(allocate_memory(&c, LOCAL, (16u << 20) + 4, &memory[0]) == VK_ERROR_OUT_OF_DEVICE_MEMORY); /* above what works */
  NEED(allocate_memory(&c, LOCAL, 12u << 20, &memory[0]) == VK_SUCCESS); /* above what is told to work */
  NEED(budget_of(&c).heapBudget[0] == 31u << 20 && budget_of(&c).heapUsage[0] == 12u << 20);
  NEED(allocate_memory(&c, LOCAL, 12u << 20, &memory[1]) == VK_SUCCESS);
  NEED(allocate_memory(&c, LOCAL, 7u << 20, &memory[2]) == VK_ERROR_OUT_OF_DEVICE_MEMORY); /* 30 MiB by now */
  NEED(allocate_memory(&c, LOCAL, 6u << 20, &memory[2]) == VK_SUCCESS);
  NEED(allocate_memory(&c, COHERENT, 256, &memory[3]) == VK_SUCCESS);
  VkDeviceMemory fifth;
  NEED(allocate_memory(&c, COHERENT, 256, &fifth) == VK_ERROR_TOO_MANY_OBJECTS);
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
  uint32_t *from = map_memory(&c, source_memory);
  const volatile uint32_t *to = map_memory(&c, target_memory);
  for (uint32_t i = 0; i < 256; i++) {
    from[i] = i;
  }
  const VkMappedMemoryRange second = range_of(source_memory, 256, 256);
  NEED(vkFlushMappedMemoryRanges(c.device, 1, &second) == VK_SUCCESS);
  NEED(copy_buffer(&c, source, target, 1024) == VK_SUCCESS);
  NEED(to[0] == FRESH && to[64] == 64 && to[127] == 127 && to[128] == FRESH);
  const VkMappedMemoryRange all = range_of(source_memory, 0, VK_WHOLE_SIZE);
  NEED(vkFlushMappedMemoryRanges(c.device, 1, &all) == VK_SUCCESS);
  NEED(copy_buffer(&c, source, target, 1024) == VK_SUCCESS);
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
  const volatile uint32_t *bytes = map_memory(&c, memory);
  const VkCommandBuffer commands = begin_commands(&c);
  vkCmdFillBuffer(commands, buffer, 0, VK_WHOLE_SIZE, 5);
  NEED(submit_commands(&c, commands) == VK_SUCCESS);
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
  NEED(allocate_memory(&c, CACHED, 1024, &memory) == VK_SUCCESS);
  map_memory(&c, memory);
  const VkMappedMemoryRange range = range_of(memory, 0, 100);
  vkFlushMappedMemoryRanges(c.device, 1, &range);
}

static void tells_a_misaligned_offset(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate_memory(&c, COHERENT, 1024, &memory) == VK_SUCCESS);
  map_memory(&c, memory);
  const VkMappedMemoryRange range = range_of(memory, 64, 256);
  vkInvalidateMappedMemoryRanges(c.device, 1, &range);
}

static void tells_a_map_of_hidden_memory(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate_memory(&c, LOCAL, 1024, &memory) == VK_SUCCESS);
  map_memory(&c, memory);
}

static void tells_an_allocation_beyond_the_heap(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  allocate_memory(&c, LOCAL, 65u << 20, &memory);
}

static void tells_a_misaligned_buffer(void)
{
  card c = open_card();
  VkDeviceMemory memory;
  NEED(allocate_memory(&c, LOCAL, 4096, &memory) == VK_SUCCESS);
  vkBindBufferMemory(c.device, make_buffer(&c, 256), memory, 256);
}

static void tells_too_many_workgroups(void)
{
  card c = open_card();
  const VkCommandBuffer commands = begin_commands(&c);
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
    const VkCommandBuffer commands = begin_commands(&c);
    vkCmdFillBuffer(commands, buffer, 0, 512, 1);
    NEED(submit_commands(&c, commands) == (i == 0 ? VK_SUCCESS : VK_ERROR_DEVICE_LOST));
  }
  NEED(vkDeviceWaitIdle(c.device) == VK_ERROR_DEVICE_LOST);
  vkDestroyBuffer(c.device, buffer, NULL);
  close_card(&c);
}

static void works_when_it_is_opened_anew(void)
{
  for (int i = 0; i < 2; i++) {
    card c = open_card();
    VkDeviceMemory memory;
    const VkBuffer buffer = make_bound_buffer(&c, COHERENT, 1024, &memory);
    const VkCommandBuffer commands = begin_commands(&c);
    vkCmdFillBuffer(commands, buffer, 0, 512, 1);
    NEED(submit_commands(&c, commands) == (i == 0 ? VK_ERROR_DEVICE_LOST : VK_SUCCESS));
    vkDestroyBuffer(c.device, buffer, NULL);
    vkFreeMemory(c.device, memory, NULL);
    close_card(&c);
  }
}

static void fails_some_allocations(void)
{
  enum { N = 1000 };
  card c = open_card();
  int n_failed = 0;
  for (int i = 0; i < N; i++) {
    VkDeviceMemory memory;
    const VkResult result = allocate_memory(&c, COHERENT, 256, &memory);
    NEED(result == VK_SUCCESS || result == VK_ERROR_OUT_OF_DEVICE_MEMORY);
    n_failed += result != VK_SUCCESS;
    if (result == VK_SUCCESS) {
      vkFreeMemory(c.device, memory, NULL);
    }
  }
  NEED(n_failed > N / 30 && n_failed < N / 10);
  close_card(&c);
}

static void fails_the_third_allocation(void)
{
  card c = open_card();
  VkDeviceMemory memory[3];
  NEED(allocate_memory(&c, COHERENT, 256, &memory[0]) == VK_SUCCESS);
  NEED(allocate_memory(&c, COHERENT, 3u << 20, &memory[1]) == VK_ERROR_OUT_OF_DEVICE_MEMORY);
  NEED(allocate_memory(&c, COHERENT, 256, &memory[1]) == VK_ERROR_OUT_OF_DEVICE_MEMORY);
  NEED(allocate_memory(&c, COHERENT, 256, &memory[2]) == VK_SUCCESS);
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

/* ---- all of them ------------------------------------------------------------------------------------------------ */

#define TRIAL(function, profile, ...)                                                                                  \
  {                                                                                                                    \
#function, function, profile, __VA_ARGS__                                                                          \
  }
const trial trials[] = {
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
    TRIAL(works_when_it_is_opened_anew, plain, NULL, "lost:1"),
    TRIAL(fails_some_allocations, plain, NULL, "allocate~20"),
    TRIAL(fails_the_third_allocation, plain, NULL, "allocate:3,allocate-above:2M"),
    TRIAL(times_out, plain, NULL, "wait-timeout:2"),
    TRIAL(takes_a_good_range, "{\"name\": \"Bad\", \"colour\": 1}", "a profile has no 'colour'"),
    TRIAL(takes_a_good_range, "{\"name\": \"Bad\", \"limits\": {\"maxFish\": 1}}", "does not know 'maxFish'"),
    TRIAL(takes_a_good_range, plain, "there is no fault 'fire'", "fire:2"),
};
const size_t n_trials = sizeof(trials) / sizeof(trials[0]);
