/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a device with what the kernels may use of it, and closes it.
 */
#include <stdlib.h>

#include "backends/vulkan/backend.h"

static int32_t create_device(tsr_backend_device *d, VkPhysicalDevice physical)
{
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue_info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = d->hardware.queue_family,
      .queueCount = 1,
      .pQueuePriorities = &priority,
  };
  /* What the kernels may use where it is present; nothing else, bounds checks of the driver least of all. */
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
      .cooperativeMatrix = VK_TRUE,
  };
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
      .shaderBFloat16Type = VK_TRUE,
      .shaderBFloat16CooperativeMatrix = VK_TRUE,
  };
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
      .shaderIntegerDotProduct = VK_TRUE,
  };
  int has_1_3 = d->hardware.properties.apiVersion >= VK_API_VERSION_1_3;
  int with_cooperative = d->caps.n_shapes > 0, dot_extension = d->caps.dot && !has_1_3;
  const char *extensions[6];
  uint32_t n_extensions = 0;
  if (with_cooperative) {
    extensions[n_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
  }
  if (with_cooperative && d->hardware.bfloat16) {
    extensions[n_extensions++] = VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME;
    cooperative.pNext = &bfloat16;
  }
  if (dot_extension) {
    extensions[n_extensions++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
  }
  if (d->hardware.portability) {
    extensions[n_extensions++] = "VK_KHR_portability_subset";
  }
  VkPhysicalDeviceVulkan13Features features13 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
      .pNext = with_cooperative ? &cooperative : NULL,
      .subgroupSizeControl = d->caps.subgroup_sizes[0] > 0,
      .computeFullSubgroups = d->caps.subgroup_sizes[0] > 0,
      .shaderIntegerDotProduct = d->caps.dot ? VK_TRUE : VK_FALSE,
  };
  VkPhysicalDeviceVulkan12Features features12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
      .pNext = has_1_3         ? (void *)&features13
               : dot_extension ? &dot
                               : NULL,
      .vulkanMemoryModel = with_cooperative ? VK_TRUE : VK_FALSE,
      .vulkanMemoryModelDeviceScope = with_cooperative ? VK_TRUE : VK_FALSE,
      .timelineSemaphore = VK_TRUE,
      .bufferDeviceAddress = d->hardware.features12.bufferDeviceAddress,
      .storageBuffer8BitAccess = d->hardware.features12.storageBuffer8BitAccess,
      .shaderFloat16 = d->hardware.features12.shaderFloat16,
      .shaderInt8 = d->hardware.features12.shaderInt8,
  };
  VkPhysicalDeviceVulkan11Features features11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
      .pNext = &features12,
      .storageBuffer16BitAccess = d->hardware.features11.storageBuffer16BitAccess,
  };
  VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR reconvergence = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR,
      .pNext = &features11,
      .shaderMaximalReconvergence = VK_TRUE,
  };
  void *chain = &features11;
  if (d->hardware.maximal_reconvergence) {
    extensions[n_extensions++] = VK_KHR_SHADER_MAXIMAL_RECONVERGENCE_EXTENSION_NAME;
    chain = &reconvergence;
  }
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      .pNext = chain,
      .pipelineExecutableInfo = VK_TRUE,
  };
  int with_statistics = tsr_vk_statistics_flags(d) != 0;
  if (with_statistics) {
    extensions[n_extensions++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
  }
  VkPhysicalDeviceFeatures2 features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
      .pNext = with_statistics ? &executables : chain,
      .features = {.shaderInt16 = d->hardware.features.shaderInt16, .shaderInt64 = d->hardware.features.shaderInt64},
  };
  VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = &features,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue_info,
      .enabledExtensionCount = n_extensions,
      .ppEnabledExtensionNames = extensions,
  };
  tsr_vk_loader_lock();
  int32_t status = VK(d->host, vkCreateDevice(physical, &info, NULL, &d->handle));
  tsr_vk_loader_unlock();
  if (status != TSR_OK) {
    d->handle = VK_NULL_HANDLE;
    return status;
  }
  volkLoadDeviceTable(&d->vk, d->handle);
  d->vk.vkGetDeviceQueue(d->handle, d->hardware.queue_family, 0, &d->queue);

  VkSemaphoreTypeCreateInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
  };
  VkSemaphoreCreateInfo semaphore_info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
  status = VK(d->host, d->vk.vkCreateSemaphore(d->handle, &semaphore_info, NULL, &d->timeline));
  if (status != TSR_OK) {
    d->timeline = VK_NULL_HANDLE;
  }
  return status;
}

int32_t tsr_vk_device_open(const tsr_vk_context *context, VkPhysicalDevice physical, tsr_backend_device **device)
{
  const tsr_host *host = context->host;
  tsr_vk_options options;
  int32_t status = tsr_vk_options_read(host, &options);
  if (status != TSR_OK) {
    return status;
  }
  tsr_backend_device *d = calloc(1, sizeof(*d));
  if (!d) {
    return tsr_vk_fail(host, TSR_ERR_OUT_OF_MEMORY, "no memory to open a device");
  }
  d->context = context;
  d->host = host;
  d->physical = physical;
  d->counters.struct_size = sizeof(d->counters);
  const char *reason = tsr_vk_hardware_read(context, physical, &d->hardware);
  if (reason) {
    free(d);
    return tsr_vk_fail(host, TSR_ERR_NO_DEVICE, "the device cannot be used: %s", reason);
  }
  if (!tsr_vk_hardware_choose_queue(&d->hardware, options.queue)) {
    free(d);
    return tsr_vk_fail(host, TSR_ERR_NO_DEVICE,
                       "the device has no queue that computes and %s: unset TESSERA_VULKAN_QUEUE",
                       options.queue == TSR_VK_QUEUE_GRAPHICS ? "draws" : "does not draw");
  }
  tsr_vk_hardware_caps(&d->hardware, &d->caps);
  if (d->caps.wide && options.max_binding >= 0 && options.max_binding < (double)d->caps.max_binding) {
    d->caps.max_binding = options.max_binding > 4 ? (uint64_t)options.max_binding & ~(uint64_t)3 : 4;
  }
  for (int i = 0; i < 2 && options.max_groups >= 0; i++) {
    const double most = options.max_groups > 1 ? options.max_groups : 1;
    d->caps.max_groups[i] = most < d->caps.max_groups[i] ? (uint32_t)most : d->caps.max_groups[i];
  }
  d->caps.compute_like_cpu = options.kernels == 0 ? d->caps.compute_like_cpu : options.kernels == 1;
  d->caps.forced = options.variant;
  d->caps.fusion = options.fusion;
  if (options.tuning) {
    tsr_vk_variants_load(host, &d->hardware.properties, &d->tuning);
  }
  d->caps.tuning = &d->tuning;
  d->force_staging = options.staging;
  d->pipelines.on_disk = options.pipeline_cache;
  tsr_vk_pace_init(&d->pace, &d->caps, tsr_vk_largest_heap(&d->hardware), options.watchdog_flops);
  uint64_t heap = d->hardware.max_buffer_size;
  d->block_bytes = heap / 16 < (4u << 20) ? heap / 16 : (4u << 20);

  status = tsr_vk_statistics_init(d, options.statistics);
  if (status == TSR_OK) {
    status = create_device(d, physical);
  }
  if (status == TSR_OK) {
    status = tsr_vk_pipelines_init(d);
  }
  if (status != TSR_OK) {
    tsr_vk_device_close(d);
    return status;
  }
  *device = d;
  return TSR_OK;
}

void tsr_vk_device_close(tsr_backend_device *d)
{
  if (d->handle) {
    if (d->ticket > 0 && d->vk.vkDeviceWaitIdle(d->handle) == VK_ERROR_DEVICE_LOST) {
      d->lost = 1;
    }
    tsr_vk_staging_finish(d);
    tsr_vk_pipelines_finish(d);
    d->vk.vkDestroySemaphore(d->handle, d->timeline, NULL);
    tsr_vk_loader_lock();
    d->vk.vkDestroyDevice(d->handle, NULL);
    tsr_vk_loader_unlock();
  }
  tsr_vk_statistics_finish(d);
  tsr_vk_tuning_finish(&d->tuning);
  free(d);
}
