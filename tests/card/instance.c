/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer is to the loader, and what the card says of itself.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"
#include "tests/card/instance.h"

/* The functions of the loader below, which are the same for every instance. */
#define CARD_INSTANCE_FUNCTIONS(X)                                                                                     \
  X(DestroyInstance)                                                                                                   \
  X(EnumeratePhysicalDevices)                                                                                          \
  X(EnumerateDeviceExtensionProperties)                                                                                \
  X(GetPhysicalDeviceProperties)                                                                                       \
  X(GetPhysicalDeviceProperties2)                                                                                      \
  X(GetPhysicalDeviceFeatures)                                                                                         \
  X(GetPhysicalDeviceFeatures2)                                                                                        \
  X(GetPhysicalDeviceMemoryProperties)                                                                                 \
  X(GetPhysicalDeviceMemoryProperties2)                                                                                \
  X(GetPhysicalDeviceQueueFamilyProperties)                                                                            \
  X(GetPhysicalDeviceQueueFamilyProperties2)

#define CARD_MEMBER(name) PFN_vk##name name;
static struct {
  CARD_INSTANCE_FUNCTIONS(CARD_MEMBER)
} next;
#undef CARD_MEMBER
static PFN_vkGetInstanceProcAddr next_get_proc_addr;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int shows_portability; /* the instance asked for drivers that translate */

#define PORTABILITY_SUBSET "VK_KHR_portability_subset" /* named in Vulkan's beta header only */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkInstance *instance)
{
  card_profile_get();
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)(uintptr_t)info->pNext;
  while (link &&
         (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO)) {
    link = (VkLayerInstanceCreateInfo *)(uintptr_t)link->pNext;
  }
  if (!link || !link->u.pLayerInfo) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(VK_NULL_HANDLE, "vkCreateInstance");
  VkResult result = create ? create(info, allocator, instance) : VK_ERROR_INITIALIZATION_FAILED;
  if (result == VK_SUCCESS) {
    pthread_mutex_lock(&lock);
    next_get_proc_addr = get;
#define CARD_LOAD(name) next.name = (PFN_vk##name)get(*instance, "vk" #name);
    CARD_INSTANCE_FUNCTIONS(CARD_LOAD)
#undef CARD_LOAD
    shows_portability = (info->flags & VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR) != 0;
    pthread_mutex_unlock(&lock);
  }
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
  card_statistics_write();
  next.DestroyInstance(instance, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
  if (card_profile_has_extension(PORTABILITY_SUBSET) && !shows_portability) {
    *count = 0;
    return VK_SUCCESS;
  }
  return next.EnumeratePhysicalDevices(instance, count, devices);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                                           VkExtensionProperties *extensions)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present || layer) {
    return next.EnumerateDeviceExtensionProperties(device, layer, count, extensions);
  }
  const uint32_t n = (uint32_t)profile->n_extensions;
  if (!extensions) {
    *count = n;
    return VK_SUCCESS;
  }
  uint32_t given = *count < n ? *count : n;
  memcpy(extensions, profile->extensions, given * sizeof(*extensions));
  *count = given;
  return given < n ? VK_INCOMPLETE : VK_SUCCESS;
}

static void change_properties(VkPhysicalDeviceProperties *properties)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present) {
    return;
  }
  memcpy(properties->deviceName, profile->name, sizeof(properties->deviceName));
  properties->deviceType = profile->type;
  properties->vendorID = profile->vendor ? profile->vendor : properties->vendorID;
  properties->deviceID = profile->device ? profile->device : properties->deviceID;
  if (profile->api_version < properties->apiVersion) {
    properties->apiVersion = profile->api_version;
  }
  card_apply_limits(&properties->limits);
}

float card_limits_of(VkPhysicalDevice device, VkPhysicalDeviceLimits *limits)
{
  VkPhysicalDeviceProperties properties;
  next.GetPhysicalDeviceProperties(device, &properties);
  const float period = properties.limits.timestampPeriod;
  card_apply_limits(&properties.limits);
  *limits = properties.limits;
  return period;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
  next.GetPhysicalDeviceProperties(device, properties);
  change_properties(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
  card_untouched kept;
  card_keep_unknown(properties, &kept);
  next.GetPhysicalDeviceProperties2(device, properties);
  change_properties(&properties->properties);
  card_apply_properties(properties);
  card_restore_unknown(&kept);
}

static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features)
{
  card_untouched kept;
  card_keep_unknown(features, &kept);
  next.GetPhysicalDeviceFeatures2(device, features);
  card_apply_features(features);
  card_restore_unknown(&kept);
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures *features)
{
  VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  next.GetPhysicalDeviceFeatures(device, &all.features);
  card_apply_features(&all);
  *features = all.features;
}

static void change_memory(VkPhysicalDeviceMemoryProperties *memory)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present) {
    return;
  }
  memset(memory, 0, sizeof(*memory));
  memory->memoryHeapCount = profile->n_heaps;
  for (uint32_t i = 0; i < profile->n_heaps; i++) {
    memory->memoryHeaps[i] = (VkMemoryHeap){profile->heaps[i].size, profile->heaps[i].flags};
  }
  memory->memoryTypeCount = profile->n_types;
  memcpy(memory->memoryTypes, profile->types, sizeof(memory->memoryTypes));
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *memory)
{
  next.GetPhysicalDeviceMemoryProperties(device, memory);
  change_memory(memory);
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *memory)
{
  const card_profile *profile = card_profile_get();
  next.GetPhysicalDeviceMemoryProperties2(device, memory);
  change_memory(&memory->memoryProperties);
  for (VkBaseOutStructure *s = memory->pNext; s && profile->present; s = s->pNext) {
    if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
      VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)s;
      for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
        const int known = i < profile->n_heaps && card_profile_has_extension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        budget->heapBudget[i] = known ? card_heap_budget(i) : 0;
        budget->heapUsage[i] = known ? card_heap_used(i) : 0;
      }
    }
  }
}

static VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice device, uint32_t *count,
                                               VkQueueFamilyProperties *families)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present) {
    next.GetPhysicalDeviceQueueFamilyProperties(device, count, families);
    return;
  }
  if (families) {
    *count = *count < profile->n_families ? *count : profile->n_families;
    memcpy(families, profile->families, *count * sizeof(*families));
  } else {
    *count = profile->n_families;
  }
}

static VKAPI_ATTR void VKAPI_CALL get_families2(VkPhysicalDevice device, uint32_t *count,
                                                VkQueueFamilyProperties2 *families)
{
  const card_profile *profile = card_profile_get();
  if (!profile->present) {
    next.GetPhysicalDeviceQueueFamilyProperties2(device, count, families);
    return;
  }
  if (families) {
    *count = *count < profile->n_families ? *count : profile->n_families;
    for (uint32_t i = 0; i < *count; i++) {
      families[i].queueFamilyProperties = profile->families[i];
    }
  } else {
    *count = profile->n_families;
  }
}

VkResult card_driver_extensions(VkPhysicalDevice device, uint32_t *count, VkExtensionProperties *extensions)
{
  return next.EnumerateDeviceExtensionProperties(device, NULL, count, extensions);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance, const char *name);

static const card_function functions[] = {
    {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_proc_addr},
    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
    {"vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance},
    {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate_devices},
    {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)enumerate_extensions},
    {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
    {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
    {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)get_properties2},
    {"vkGetPhysicalDeviceFeatures", (PFN_vkVoidFunction)get_features},
    {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)get_features2},
    {"vkGetPhysicalDeviceFeatures2KHR", (PFN_vkVoidFunction)get_features2},
    {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)get_memory},
    {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)get_memory2},
    {"vkGetPhysicalDeviceMemoryProperties2KHR", (PFN_vkVoidFunction)get_memory2},
    {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)get_families},
    {"vkGetPhysicalDeviceQueueFamilyProperties2", (PFN_vkVoidFunction)get_families2},
    {"vkGetPhysicalDeviceQueueFamilyProperties2KHR", (PFN_vkVoidFunction)get_families2},
    {"vkCreateDevice", (PFN_vkVoidFunction)card_create_device},
};

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance, const char *name)
{
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    if (strcmp(functions[i].name, name) == 0) {
      return functions[i].function;
    }
  }
  PFN_vkVoidFunction function = card_device_function(name);
  return function ? function : instance && next_get_proc_addr ? next_get_proc_addr(instance, name) : NULL;
}

/* Newer headers have no VK_LAYER_EXPORT. */
__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *pVersionStruct)
{
  if (pVersionStruct->loaderLayerInterfaceVersion < 2) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  pVersionStruct->loaderLayerInterfaceVersion = 2;
  pVersionStruct->pfnGetInstanceProcAddr = get_instance_proc_addr;
  pVersionStruct->pfnGetDeviceProcAddr = card_get_device_proc_addr;
  pVersionStruct->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
