/* SPDX-License-Identifier: Apache-2.0
 *
 * What a physical device offers: requirements, limits, capabilities.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/vulkan/backend.h"
#include "shaders/shaders.h"

static int has_extension(VkPhysicalDevice device, const char *name)
{
  uint32_t count = 0;
  if (vkEnumerateDeviceExtensionProperties(device, NULL, &count, NULL) != VK_SUCCESS || count == 0) {
    return 0;
  }
  VkExtensionProperties *extensions = calloc(count, sizeof(*extensions));
  int found = 0;
  if (extensions && vkEnumerateDeviceExtensionProperties(device, NULL, &count, extensions) >= VK_SUCCESS) {
    for (uint32_t i = 0; i < count; i++) {
      found |= strcmp(extensions[i].extensionName, name) == 0;
    }
  }
  free(extensions);
  return found;
}

/* Families that compute can copy, too. */
static int find_queue_families(VkPhysicalDevice device, tsr_vk_hardware *hardware)
{
  enum { MAX_FAMILIES = 32 };
  VkQueueFamilyProperties families[MAX_FAMILIES];
  uint32_t count = MAX_FAMILIES;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
  for (int draws = 0; draws < 2; draws++) {
    hardware->families[draws].index = -1;
    for (uint32_t i = 0; i < count && hardware->families[draws].index < 0; i++) {
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && families[i].queueCount > 0 &&
          draws == ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0)) {
        hardware->families[draws].index = (int32_t)i;
        hardware->families[draws].timestamp_bits = families[i].timestampValidBits;
      }
    }
  }
  return tsr_vk_hardware_choose_queue(hardware, TSR_VK_QUEUE_AUTO);
}

int tsr_vk_hardware_choose_queue(tsr_vk_hardware *hardware, int queue)
{
  const int draws = queue == TSR_VK_QUEUE_AUTO ? hardware->families[0].index < 0 : queue == TSR_VK_QUEUE_GRAPHICS;
  if (hardware->families[draws].index < 0) {
    return 0;
  }
  hardware->queue_family = (uint32_t)hardware->families[draws].index;
  hardware->timestamp_bits = hardware->families[draws].timestamp_bits;
  return 1;
}

int tsr_vk_hardware_unified(const tsr_vk_hardware *hardware)
{
  VkPhysicalDeviceType type = hardware->properties.deviceType;
  return type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || type == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

uint64_t tsr_vk_heap_limit(const tsr_vk_hardware *hardware, uint32_t heap)
{
  uint64_t limit = hardware->memory.memoryHeaps[heap].size;
  if (hardware->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
    /* Such drivers may report a fixed number; what counts is the machine's memory. */
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0 && (uint64_t)pages * (uint64_t)page_bytes > limit) {
      limit = (uint64_t)pages * (uint64_t)page_bytes;
    }
  }
  return limit;
}

uint64_t tsr_vk_heap_free(const tsr_vk_hardware *hardware, VkPhysicalDevice device, uint32_t heap, uint64_t held)
{
  const uint64_t limit = tsr_vk_heap_limit(hardware, heap);
  uint64_t free_bytes = limit > held ? limit - held : 0;
  if (hardware->memory_budget) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                .pNext = &budget};
    vkGetPhysicalDeviceMemoryProperties2(device, &memory);
    const uint64_t left =
        budget.heapBudget[heap] > budget.heapUsage[heap] ? budget.heapBudget[heap] - budget.heapUsage[heap] : 0;
    free_bytes = left < free_bytes ? left : free_bytes;
  }
  return free_bytes;
}

static uint64_t device_heaps(const tsr_vk_hardware *hardware, uint64_t *largest)
{
  uint64_t sum = 0;
  *largest = 0;
  for (uint32_t i = 0; i < hardware->memory.memoryHeapCount; i++) {
    if (hardware->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      uint64_t limit = tsr_vk_heap_limit(hardware, i);
      sum += limit;
      *largest = limit > *largest ? limit : *largest;
    }
  }
  return sum;
}

uint64_t tsr_vk_largest_heap(const tsr_vk_hardware *hardware)
{
  uint64_t largest;
  device_heaps(hardware, &largest);
  return largest;
}

uint32_t tsr_vk_buffer_alignment(const tsr_vk_hardware *hardware)
{
  VkDeviceSize alignment = hardware->properties.limits.minStorageBufferOffsetAlignment;
  return alignment > 64 ? (uint32_t)alignment : 64;
}

static const char *missing_requirement(const tsr_vk_hardware *hardware)
{
  const VkPhysicalDeviceLimits *limits = &hardware->properties.limits;
  if (limits->maxPerStageDescriptorStorageBuffers < TSR_VK_MAX_BINDINGS ||
      limits->maxDescriptorSetStorageBuffers < TSR_VK_MAX_BINDINGS) {
    return "it offers too few storage buffers per shader (13 are needed)";
  }
  if (limits->maxPushConstantsSize < TSR_VK_MAX_PUSH) {
    return "it offers too few push constants (128 bytes are needed)";
  }
  if (limits->maxComputeWorkGroupInvocations < 64) {
    return "its workgroups are too small (64 invocations are needed)";
  }
  if (!hardware->features12.timelineSemaphore) {
    return "it lacks timeline semaphores";
  }
  return NULL;
}

/* Those that a subgroup multiplies, of each type the largest first: they do most for each value that is loaded. */
static void read_shapes(const tsr_vk_context *context, VkPhysicalDevice device, tsr_vk_hardware *hardware)
{
  uint32_t count = 0;
  if (context->get_cooperative_shapes(device, &count, NULL) != VK_SUCCESS || count == 0) {
    return;
  }
  VkCooperativeMatrixPropertiesKHR *listed = calloc(count, sizeof(*listed));
  for (uint32_t i = 0; listed && i < count; i++) {
    listed[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  }
  if (!listed || context->get_cooperative_shapes(device, &count, listed) < VK_SUCCESS) {
    count = 0;
  }
  for (uint32_t i = 0; i < count && hardware->n_shapes < TSR_VK_MAX_SHAPES; i++) {
    const VkCooperativeMatrixPropertiesKHR *p = &listed[i];
    tsr_vk_shape shape = {.m = p->MSize, .n = p->NSize, .k = p->KSize};
    if (p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR) {
      shape.dtype = TSR_F16;
    } else if (hardware->bfloat16 && p->AType == VK_COMPONENT_TYPE_BFLOAT16_KHR &&
               p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR) {
      shape.dtype = TSR_BF16;
    } else if (p->AType == VK_COMPONENT_TYPE_SINT8_KHR && p->CType == VK_COMPONENT_TYPE_SINT32_KHR) {
      shape.dtype = TSR_I8;
    }
    if (shape.dtype == 0 || p->BType != p->AType || p->ResultType != p->CType || p->saturatingAccumulation ||
        p->scope != VK_SCOPE_SUBGROUP_KHR) {
      continue;
    }
    int32_t at = hardware->n_shapes++;
    while (at > 0 && (uint64_t)hardware->shapes[at - 1].m * hardware->shapes[at - 1].n * hardware->shapes[at - 1].k <
                         (uint64_t)shape.m * shape.n * shape.k) {
      hardware->shapes[at] = hardware->shapes[at - 1];
      at--;
    }
    hardware->shapes[at] = shape;
  }
  free(listed);
}

/* The feature, and what shaders of cooperative matrices need beside it: the memory model, which, once it is enabled,
 * holds for the atomics of all shaders, whose scope is the device. */
static int has_cooperative_matrix(const tsr_vk_context *context, VkPhysicalDevice device,
                                  const tsr_vk_hardware *hardware)
{
  if (!context->get_cooperative_shapes || !has_extension(device, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    return 0;
  }
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR feature = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &feature};
  vkGetPhysicalDeviceFeatures2(device, &features);
  VkPhysicalDeviceCooperativeMatrixPropertiesKHR stages = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &stages};
  vkGetPhysicalDeviceProperties2(device, &properties);
  return feature.cooperativeMatrix && (stages.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
         hardware->features12.vulkanMemoryModel && hardware->features12.vulkanMemoryModelDeviceScope &&
         hardware->features12.shaderFloat16 && hardware->features12.shaderInt8;
}

/* Cooperative matrices of bf16. */
static int has_bfloat16(VkPhysicalDevice device)
{
  if (!has_extension(device, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME)) {
    return 0;
  }
  VkPhysicalDeviceShaderBfloat16FeaturesKHR feature = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &feature};
  vkGetPhysicalDeviceFeatures2(device, &features);
  return feature.shaderBFloat16Type && feature.shaderBFloat16CooperativeMatrix;
}

/* Whether the invocations of a subgroup can be made to meet again where a branch ends. */
static int has_maximal_reconvergence(VkPhysicalDevice device)
{
  if (!has_extension(device, VK_KHR_SHADER_MAXIMAL_RECONVERGENCE_EXTENSION_NAME)) {
    return 0;
  }
  VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR feature = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &feature};
  vkGetPhysicalDeviceFeatures2(device, &features);
  return feature.shaderMaximalReconvergence != VK_FALSE;
}

/* Packed products of four bytes: of Vulkan 1.3, or of an extension of 1.2. */
static void read_integer_dot(VkPhysicalDevice device, tsr_vk_hardware *hardware)
{
  int is_core = hardware->properties.apiVersion >= VK_API_VERSION_1_3;
  if (!is_core && !has_extension(device, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    return;
  }
  VkPhysicalDeviceShaderIntegerDotProductFeatures feature = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &feature};
  vkGetPhysicalDeviceFeatures2(device, &features);
  VkPhysicalDeviceShaderIntegerDotProductProperties speed = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &speed};
  vkGetPhysicalDeviceProperties2(device, &properties);
  hardware->integer_dot = feature.shaderIntegerDotProduct == VK_TRUE;
  hardware->fast_integer_dot = hardware->integer_dot && speed.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
}

/* Less what buffer_create adds for itself, and what a driver may add for alignment. */
static uint64_t usable(uint64_t size)
{
  return size > 4096 ? (size - 1024) & ~(uint64_t)255 : 0;
}

const char *tsr_vk_hardware_read(const tsr_vk_context *context, VkPhysicalDevice device, tsr_vk_hardware *hardware)
{
  memset(hardware, 0, sizeof(*hardware));
  vkGetPhysicalDeviceProperties(device, &hardware->properties);
  uint32_t version = hardware->properties.apiVersion;
  if (version < VK_API_VERSION_1_2) {
    return "its driver is older than Vulkan 1.2; update it";
  }
  int has_1_3 = version >= VK_API_VERSION_1_3;

  VkPhysicalDeviceVulkan13Properties properties13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
  hardware->properties12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  hardware->properties12.pNext = has_1_3 ? &properties13 : NULL;
  hardware->properties11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  hardware->properties11.pNext = &hardware->properties12;
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                            .pNext = &hardware->properties11};
  vkGetPhysicalDeviceProperties2(device, &properties);
  hardware->properties11.pNext = NULL;
  hardware->properties12.pNext = NULL;

  VkPhysicalDeviceVulkan13Features features13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  hardware->features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  hardware->features12.pNext = has_1_3 ? &features13 : NULL;
  hardware->features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  hardware->features11.pNext = &hardware->features12;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      .pNext = &hardware->features11,
  };
  int has_executables = has_extension(device, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .pNext = has_executables ? (void *)&executables : &hardware->features11};
  vkGetPhysicalDeviceFeatures2(device, &features);
  hardware->features = features.features;
  hardware->features11.pNext = NULL;
  hardware->features12.pNext = NULL;

  hardware->maximal_reconvergence = has_maximal_reconvergence(device);
  read_integer_dot(device, hardware);
  hardware->memory_budget = hardware->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU &&
                            has_extension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  hardware->portability = has_extension(device, "VK_KHR_portability_subset"); /* named in Vulkan's beta header only */
  hardware->pipeline_statistics = has_executables && executables.pipelineExecutableInfo;
  if (has_1_3 && features13.subgroupSizeControl && features13.computeFullSubgroups &&
      (properties13.minSubgroupSize == properties13.maxSubgroupSize ||
       (properties13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))) {
    hardware->subgroup_sizes[0] = properties13.minSubgroupSize;
    hardware->subgroup_sizes[1] = properties13.maxSubgroupSize;
    hardware->max_subgroups = properties13.maxComputeWorkgroupSubgroups;
  }
  hardware->cooperative_matrix = has_cooperative_matrix(context, device, hardware);
  if (hardware->cooperative_matrix) {
    hardware->bfloat16 = has_bfloat16(device);
    read_shapes(context, device, hardware);
  }
  vkGetPhysicalDeviceMemoryProperties(device, &hardware->memory);

  device_heaps(hardware, &hardware->max_buffer_size);
  if (has_1_3 && properties13.maxBufferSize < hardware->max_buffer_size) {
    hardware->max_buffer_size = properties13.maxBufferSize;
  }
  /* Drivers promise allocations of 2 to 4 GiB, and most give larger ones: those are tried. */
  hardware->promised_buffer_size = hardware->properties11.maxMemoryAllocationSize < hardware->max_buffer_size
                                       ? hardware->properties11.maxMemoryAllocationSize
                                       : hardware->max_buffer_size;
  hardware->max_buffer_size = usable(hardware->max_buffer_size);
  hardware->promised_buffer_size = usable(hardware->promised_buffer_size);

  if (!find_queue_families(device, hardware)) {
    return "it has no queue that computes";
  }
  return missing_requirement(hardware);
}

static int has_subgroup(const tsr_vk_hardware *hardware, VkSubgroupFeatureFlags operations)
{
  return (hardware->properties11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
         (hardware->properties11.subgroupSupportedOperations & operations) == operations;
}

static int32_t device_type(VkPhysicalDeviceType type)
{
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return TSR_DEVICE_DISCRETE_GPU;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return TSR_DEVICE_INTEGRATED_GPU;
  case VK_PHYSICAL_DEVICE_TYPE_CPU:
    return TSR_DEVICE_SOFTWARE_GPU;
  default:
    return TSR_DEVICE_VIRTUAL_GPU;
  }
}

void tsr_vk_hardware_describe(const tsr_vk_hardware *hardware, tsr_device_properties *properties)
{
  const VkPhysicalDeviceLimits *limits = &hardware->properties.limits;
  tsr_device_properties all = {.struct_size = properties->struct_size};
  all.type = device_type(hardware->properties.deviceType);
  snprintf(all.name, sizeof(all.name), "%s", hardware->properties.deviceName);
  char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE];
  int length =
      snprintf(driver, sizeof(driver), "%s %s", hardware->properties12.driverName, hardware->properties12.driverInfo);
  while (length > 0 && driver[length - 1] == ' ') {
    driver[--length] = '\0';
  }
  memcpy(all.driver, driver, (size_t)length < sizeof(all.driver) ? (size_t)length : sizeof(all.driver) - 1);

  const struct {
    uint64_t flag;
    int present;
  } features[] = {
      {TSR_FEATURE_F16_STORAGE, (int)hardware->features11.storageBuffer16BitAccess},
      {TSR_FEATURE_F16_ARITHMETIC, (int)hardware->features12.shaderFloat16},
      {TSR_FEATURE_I8_STORAGE, (int)hardware->features12.storageBuffer8BitAccess},
      {TSR_FEATURE_I8_DOT, hardware->integer_dot},
      {TSR_FEATURE_SUBGROUPS, has_subgroup(hardware, VK_SUBGROUP_FEATURE_ARITHMETIC_BIT)},
      {TSR_FEATURE_COOPERATIVE_MATRIX, hardware->cooperative_matrix},
      {TSR_FEATURE_UNIFIED_MEMORY, tsr_vk_hardware_unified(hardware)},
      {TSR_FEATURE_TIMESTAMPS, hardware->timestamp_bits > 0},
  };
  for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
    all.features |= features[i].present ? features[i].flag : 0;
  }

  uint64_t largest = 0;
  all.memory = device_heaps(hardware, &largest);
  all.max_buffer_size = hardware->max_buffer_size;
  all.promised_buffer_size = hardware->promised_buffer_size;
  all.max_binding_size = limits->maxStorageBufferRange;
  all.buffer_alignment = tsr_vk_buffer_alignment(hardware);
  all.max_invocations = limits->maxComputeWorkGroupInvocations;
  all.shared_memory = limits->maxComputeSharedMemorySize;
  all.subgroup_size = hardware->properties11.subgroupSize;
  all.api_major = VK_API_VERSION_MAJOR(hardware->properties.apiVersion);
  all.api_minor = VK_API_VERSION_MINOR(hardware->properties.apiVersion);
  all.rows_at_once = 32;
  all.runs_in_hand = hardware->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 1 : 2;
  all.state_types = 1u << TSR_F32;
  if (hardware->features11.storageBuffer16BitAccess) {
    all.state_types |= 1u << TSR_F16 | 1u << TSR_BF16;
  }
  memcpy(properties, &all, properties->struct_size < sizeof(all) ? properties->struct_size : sizeof(all));
}

void tsr_vk_hardware_caps(const tsr_vk_hardware *hardware, tsr_vk_caps *caps)
{
  const VkPhysicalDeviceLimits *limits = &hardware->properties.limits;
  *caps = (tsr_vk_caps){
      .max_binding = limits->maxStorageBufferRange & ~3u,
      .max_invocations = limits->maxComputeWorkGroupInvocations,
      .shared_memory = limits->maxComputeSharedMemorySize,
      .subgroup_size = has_subgroup(hardware, VK_SUBGROUP_FEATURE_BASIC_BIT) ? hardware->properties11.subgroupSize : 1,
      .subgroup_arithmetic = has_subgroup(hardware, VK_SUBGROUP_FEATURE_ARITHMETIC_BIT),
      .subgroup_shuffle = has_subgroup(hardware, VK_SUBGROUP_FEATURE_SHUFFLE_BIT),
      .wide = (int)hardware->features12.bufferDeviceAddress,
      .unified = tsr_vk_hardware_unified(hardware),
      .dot = hardware->integer_dot,
      .fast_dot = hardware->fast_integer_dot,
      .compute_like_cpu = hardware->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU,
      .subgroup_sizes = {hardware->subgroup_sizes[0], hardware->subgroup_sizes[1]},
      .max_subgroups = hardware->max_subgroups,
  };
  /* A kernel must know how many subgroups share its matrices. */
  if (TSR_VK_HAS_COOPERATIVE_SHADERS && caps->subgroup_sizes[0] > 0) {
    caps->n_shapes = hardware->n_shapes;
    memcpy(caps->shapes, hardware->shapes, sizeof(caps->shapes));
  }
  for (int i = 0; i < 3; i++) {
    caps->max_groups[i] = limits->maxComputeWorkGroupCount[i];
    caps->max_size[i] = limits->maxComputeWorkGroupSize[i];
  }
}
