/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, their queues, and which of their functions are the layer's.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/instance.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static card_device *devices;

card_device *card_device_of(const void *dispatchable)
{
  const void *key = *(void *const *)dispatchable;
  pthread_mutex_lock(&devices_lock);
  card_device *device = devices;
  while (device && device->key != key) {
    device = device->next_device;
  }
  pthread_mutex_unlock(&devices_lock);
  if (!device) {
    card_breach("a handle of no device that is open");
  }
  return device;
}

/* What the layer does itself, or the driver is not asked for. */
static int is_the_layers(const char *name)
{
  return strcmp(name, "VK_KHR_portability_subset") == 0 || strcmp(name, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
}

static void check_extensions(const VkDeviceCreateInfo *info)
{
  int portability = 0;
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
    const char *name = info->ppEnabledExtensionNames[i];
    portability |= strcmp(name, "VK_KHR_portability_subset") == 0;
    if (!card_profile_has_extension(name)) {
      card_breach("vkCreateDevice: the extension %s is enabled, but not there", name);
    }
  }
  if (card_profile_has_extension("VK_KHR_portability_subset") && !portability) {
    card_breach("vkCreateDevice: VK_KHR_portability_subset is there, but not enabled");
  }
}

static void check_queues(const card_profile *profile, const VkDeviceCreateInfo *info)
{
  for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
    const VkDeviceQueueCreateInfo *queues = &info->pQueueCreateInfos[i];
    if (queues->queueFamilyIndex >= profile->n_families ||
        queues->queueCount > profile->families[queues->queueFamilyIndex].queueCount) {
      card_breach("vkCreateDevice: %u queues of family %u, which is not there or has fewer", queues->queueCount,
                  queues->queueFamilyIndex);
    }
  }
}

/* Queues of every family are the driver's one. */
static VkResult create_below(PFN_vkCreateDevice create, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                             const VkAllocationCallbacks *allocator, VkDevice *device)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present) {
    return create(physical, info, allocator, device);
  }
  check_extensions(info);
  card_check_features(info);
  check_queues(profile, info);
  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  const char *names[CARD_MAX_EXTENSIONS];
  VkDeviceCreateInfo below = *info;
  below.queueCreateInfoCount = 1;
  below.pQueueCreateInfos = &queue;
  below.ppEnabledExtensionNames = names;
  below.enabledExtensionCount = 0;
  for (uint32_t i = 0; i < info->enabledExtensionCount && below.enabledExtensionCount < CARD_MAX_EXTENSIONS; i++) {
    if (!is_the_layers(info->ppEnabledExtensionNames[i])) {
      names[below.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    }
  }
  return create(physical, &below, allocator, device);
}

VKAPI_ATTR VkResult VKAPI_CALL card_create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkDevice *handle)
{
  VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)(uintptr_t)info->pNext;
  while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO)) {
    link = (VkLayerDeviceCreateInfo *)(uintptr_t)link->pNext;
  }
  if (!link || !link->u.pLayerInfo) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  PFN_vkGetInstanceProcAddr get_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = card_count(CARD_DEVICE);
  if (result != VK_SUCCESS) {
    return result;
  }
  PFN_vkCreateDevice create = (PFN_vkCreateDevice)get_instance(VK_NULL_HANDLE, "vkCreateDevice");
  card_device *device = calloc(1, sizeof(*device));
  result = create && device ? create_below(create, physical, info, allocator, handle) : VK_ERROR_OUT_OF_HOST_MEMORY;
  if (result != VK_SUCCESS) {
    free(device);
    return result;
  }
  device->key = *(void **)*handle;
  device->handle = *handle;
  device->get_proc_addr = get;
#define CARD_LOAD(name) device->next.name = (PFN_vk##name)get(*handle, "vk" #name);
  CARD_DEVICE_FUNCTIONS(CARD_LOAD)
#undef CARD_LOAD
  const card_profile *profile = card_profile_get();
  const float period = card_limits_of(physical, &device->limits);
  const float of_card = device->limits.timestampPeriod;
  device->ticks = of_card > 0 ? (double)period / (double)of_card : 0;
  device->timestamp_bits =
      profile->present ? profile->families[info->pQueueCreateInfos[0].queueFamilyIndex].timestampValidBits : 64;
  pthread_mutex_init(&device->lock, NULL);
  pthread_mutex_lock(&devices_lock);
  device->next_device = devices;
  devices = device;
  pthread_mutex_unlock(&devices_lock);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator)
{
  if (!handle) {
    return;
  }
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&devices_lock);
  card_device **link = &devices;
  while (*link != device) {
    link = &(*link)->next_device;
  }
  *link = device->next_device;
  pthread_mutex_unlock(&devices_lock);
  card_memories_free(device);
  device->next.DestroyDevice(handle, allocator);
  card_table_clear(&device->buffers);
  card_table_clear(&device->modules);
  card_table_clear(&device->commands);
  card_table_clear(&device->queries);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *queue)
{
  const card_device *device = card_device_of(handle);
  const int present = card_profile_get()->present;
  device->next.GetDeviceQueue(handle, present ? 0 : family, present ? 0 : index, queue);
}

static VKAPI_ATTR void VKAPI_CALL get_queue2(VkDevice handle, const VkDeviceQueueInfo2 *info, VkQueue *queue)
{
  const card_device *device = card_device_of(handle);
  VkDeviceQueueInfo2 below = *info;
  if (card_profile_get()->present) {
    below.queueFamilyIndex = 0;
    below.queueIndex = 0;
  }
  device->next.GetDeviceQueue2(handle, &below, queue);
}

/* Functions of Vulkan 1.3, which an older driver lacks. */
static const char *const functions_1_3[] = {
    "vkGetPhysicalDeviceToolProperties",
    "vkCreatePrivateDataSlot",
    "vkDestroyPrivateDataSlot",
    "vkSetPrivateData",
    "vkGetPrivateData",
    "vkCmdSetEvent2",
    "vkCmdResetEvent2",
    "vkCmdWaitEvents2",
    "vkCmdPipelineBarrier2",
    "vkCmdWriteTimestamp2",
    "vkQueueSubmit2",
    "vkCmdCopyBuffer2",
    "vkCmdCopyImage2",
    "vkCmdCopyBufferToImage2",
    "vkCmdCopyImageToBuffer2",
    "vkGetDeviceBufferMemoryRequirements",
    "vkGetDeviceImageMemoryRequirements",
};

/* Functions that do what the layer counts or changes in a way that it does not know. */
static const char *const unknown_functions[] = {
    "vkQueueSubmit2",
    "vkQueueSubmit2KHR",
    "vkCmdPipelineBarrier2",
    "vkCmdPipelineBarrier2KHR",
    "vkCmdCopyBuffer2",
    "vkCmdCopyBuffer2KHR",
    "vkMapMemory2KHR",
    "vkCmdDispatchBase",
    "vkCmdDispatchBaseKHR",
    "vkCmdDispatchIndirect",
    "vkGetDeviceBufferMemoryRequirements",
    "vkGetDeviceBufferMemoryRequirementsKHR",
};

static VKAPI_ATTR void VKAPI_CALL stop_at_unknown(void)
{
  card_breach("a function was called that the layer does not imitate (device.c lists them)");
}

static const card_function device_functions[] = {
    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)card_get_device_proc_addr},
    {"vkDestroyDevice", (PFN_vkVoidFunction)destroy_device},
    {"vkGetDeviceQueue", (PFN_vkVoidFunction)get_queue},
    {"vkGetDeviceQueue2", (PFN_vkVoidFunction)get_queue2},
    {NULL, NULL},
};

static int is_listed(const char *name, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], name) == 0) {
      return 1;
    }
  }
  return 0;
}

PFN_vkVoidFunction card_device_function(const char *name)
{
  const card_function *const lists[] = {device_functions, card_memory_functions, card_command_functions,
                                        card_pipeline_functions};
  for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
    for (const card_function *f = lists[l]; f->name; f++) {
      if (strcmp(f->name, name) == 0) {
        return f->function;
      }
    }
  }
  return NULL;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL card_get_device_proc_addr(VkDevice handle, const char *name)
{
  const card_profile *profile = card_profile_get();
  if (profile->present && profile->api_version < VK_API_VERSION_1_3 &&
      is_listed(name, functions_1_3, sizeof(functions_1_3) / sizeof(functions_1_3[0]))) {
    return NULL;
  }
  PFN_vkVoidFunction function = card_device_function(name);
  if (function) {
    return function;
  }
  function = card_device_of(handle)->get_proc_addr(handle, name);
  if (function && profile->present &&
      is_listed(name, unknown_functions, sizeof(unknown_functions) / sizeof(unknown_functions[0]))) {
    return stop_at_unknown;
  }
  return function;
}
