/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits, features and properties by the names that Vulkan gives them: in which structures they stand, and where. A
 * profile says something of a few; the rest is the driver's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

typedef enum kind { U32, U64, SIZE, REAL, FLAG } kind;

typedef struct row {
  VkStructureType in;
  const char *name;
  size_t offset;
  kind kind;
  int count;
} row;

#define LIMIT(member, kind, count)                                                                                     \
  {                                                                                                                    \
    0, #member, offsetof(VkPhysicalDeviceLimits, member), kind, count                                                  \
  }
static const row limit_rows[] = {
    LIMIT(maxStorageBufferRange, U32, 1),
    LIMIT(maxUniformBufferRange, U32, 1),
    LIMIT(maxPushConstantsSize, U32, 1),
    LIMIT(maxMemoryAllocationCount, U32, 1),
    LIMIT(bufferImageGranularity, U64, 1),
    LIMIT(maxBoundDescriptorSets, U32, 1),
    LIMIT(maxPerStageDescriptorStorageBuffers, U32, 1),
    LIMIT(maxPerStageResources, U32, 1),
    LIMIT(maxDescriptorSetStorageBuffers, U32, 1),
    LIMIT(maxComputeSharedMemorySize, U32, 1),
    LIMIT(maxComputeWorkGroupCount, U32, 3),
    LIMIT(maxComputeWorkGroupInvocations, U32, 1),
    LIMIT(maxComputeWorkGroupSize, U32, 3),
    LIMIT(minMemoryMapAlignment, SIZE, 1),
    LIMIT(minStorageBufferOffsetAlignment, U64, 1),
    LIMIT(timestampComputeAndGraphics, FLAG, 1),
    LIMIT(timestampPeriod, REAL, 1),
    LIMIT(optimalBufferCopyOffsetAlignment, U64, 1),
    LIMIT(optimalBufferCopyRowPitchAlignment, U64, 1),
    LIMIT(nonCoherentAtomSize, U64, 1),
};

#define MEMBER(type, structure, member, kind)                                                                          \
  {                                                                                                                    \
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, #member, offsetof(structure, member), kind, 1                            \
  }
#define CORE(member)                                                                                                   \
  {                                                                                                                    \
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, #member,                                                             \
        offsetof(VkPhysicalDeviceFeatures2, features) + offsetof(VkPhysicalDeviceFeatures, member), FLAG, 1            \
  }
static const row feature_rows[] = {
    CORE(robustBufferAccess),
    CORE(shaderInt16),
    CORE(shaderInt64),
    CORE(shaderFloat64),
    MEMBER(VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess, FLAG),
    MEMBER(VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features, uniformAndStorageBuffer16BitAccess, FLAG),
    MEMBER(16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures, storageBuffer16BitAccess, FLAG),
    MEMBER(16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures, uniformAndStorageBuffer16BitAccess, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, uniformAndStorageBuffer8BitAccess, FLAG),
    MEMBER(8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures, storageBuffer8BitAccess, FLAG),
    MEMBER(8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures, uniformAndStorageBuffer8BitAccess, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, shaderFloat16, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, shaderInt8, FLAG),
    MEMBER(SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features, shaderFloat16, FLAG),
    MEMBER(SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features, shaderInt8, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, bufferDeviceAddress, FLAG),
    MEMBER(BUFFER_DEVICE_ADDRESS_FEATURES, VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, timelineSemaphore, FLAG),
    MEMBER(TIMELINE_SEMAPHORE_FEATURES, VkPhysicalDeviceTimelineSemaphoreFeatures, timelineSemaphore, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, vulkanMemoryModel, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, vulkanMemoryModelDeviceScope, FLAG),
    MEMBER(VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, shaderSubgroupExtendedTypes, FLAG),
    MEMBER(VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, subgroupSizeControl, FLAG),
    MEMBER(VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, computeFullSubgroups, FLAG),
    MEMBER(SUBGROUP_SIZE_CONTROL_FEATURES, VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl, FLAG),
    MEMBER(SUBGROUP_SIZE_CONTROL_FEATURES, VkPhysicalDeviceSubgroupSizeControlFeatures, computeFullSubgroups, FLAG),
    MEMBER(VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, shaderIntegerDotProduct, FLAG),
    MEMBER(SHADER_INTEGER_DOT_PRODUCT_FEATURES, VkPhysicalDeviceShaderIntegerDotProductFeatures,
           shaderIntegerDotProduct, FLAG),
    MEMBER(VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, maintenance4, FLAG),
    MEMBER(MAINTENANCE_4_FEATURES, VkPhysicalDeviceMaintenance4Features, maintenance4, FLAG),
    MEMBER(VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, synchronization2, FLAG),
    MEMBER(SYNCHRONIZATION_2_FEATURES, VkPhysicalDeviceSynchronization2Features, synchronization2, FLAG),
};

static const row property_rows[] = {
    MEMBER(VULKAN_1_1_PROPERTIES, VkPhysicalDeviceVulkan11Properties, maxMemoryAllocationSize, U64),
    MEMBER(VULKAN_1_1_PROPERTIES, VkPhysicalDeviceVulkan11Properties, maxPerSetDescriptors, U32),
    MEMBER(MAINTENANCE_3_PROPERTIES, VkPhysicalDeviceMaintenance3Properties, maxMemoryAllocationSize, U64),
    MEMBER(MAINTENANCE_3_PROPERTIES, VkPhysicalDeviceMaintenance3Properties, maxPerSetDescriptors, U32),
    MEMBER(VULKAN_1_1_PROPERTIES, VkPhysicalDeviceVulkan11Properties, subgroupSize, U32),
    MEMBER(VULKAN_1_1_PROPERTIES, VkPhysicalDeviceVulkan11Properties, subgroupSupportedStages, U32),
    MEMBER(VULKAN_1_1_PROPERTIES, VkPhysicalDeviceVulkan11Properties, subgroupSupportedOperations, U32),
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, "subgroupSize",
     offsetof(VkPhysicalDeviceSubgroupProperties, subgroupSize), U32, 1},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, "subgroupSupportedStages",
     offsetof(VkPhysicalDeviceSubgroupProperties, supportedStages), U32, 1},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, "subgroupSupportedOperations",
     offsetof(VkPhysicalDeviceSubgroupProperties, supportedOperations), U32, 1},
    MEMBER(VULKAN_1_2_PROPERTIES, VkPhysicalDeviceVulkan12Properties, driverID, U32),
    MEMBER(DRIVER_PROPERTIES, VkPhysicalDeviceDriverProperties, driverID, U32),
    MEMBER(VULKAN_1_2_PROPERTIES, VkPhysicalDeviceVulkan12Properties, shaderSignedZeroInfNanPreserveFloat16, FLAG),
    MEMBER(VULKAN_1_2_PROPERTIES, VkPhysicalDeviceVulkan12Properties, shaderSignedZeroInfNanPreserveFloat32, FLAG),
    MEMBER(FLOAT_CONTROLS_PROPERTIES, VkPhysicalDeviceFloatControlsProperties, shaderSignedZeroInfNanPreserveFloat16,
           FLAG),
    MEMBER(FLOAT_CONTROLS_PROPERTIES, VkPhysicalDeviceFloatControlsProperties, shaderSignedZeroInfNanPreserveFloat32,
           FLAG),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, minSubgroupSize, U32),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, maxSubgroupSize, U32),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, maxComputeWorkgroupSubgroups, U32),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, requiredSubgroupSizeStages, U32),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, maxBufferSize, U64),
    MEMBER(MAINTENANCE_4_PROPERTIES, VkPhysicalDeviceMaintenance4Properties, maxBufferSize, U64),
    MEMBER(VULKAN_1_3_PROPERTIES, VkPhysicalDeviceVulkan13Properties, integerDotProduct4x8BitPackedSignedAccelerated,
           FLAG),
    MEMBER(SHADER_INTEGER_DOT_PRODUCT_PROPERTIES, VkPhysicalDeviceShaderIntegerDotProductProperties,
           integerDotProduct4x8BitPackedSignedAccelerated, FLAG),
};

#define ROWS(array) array, sizeof(array) / sizeof((array)[0])

static int knows(const char *name, const row *rows, size_t n_rows)
{
  for (size_t i = 0; i < n_rows; i++) {
    if (strcmp(rows[i].name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

int card_knows_limit(const char *name)
{
  return knows(name, ROWS(limit_rows));
}

int card_knows_feature(const char *name)
{
  return knows(name, ROWS(feature_rows));
}

int card_knows_property(const char *name)
{
  return knows(name, ROWS(property_rows));
}

static const card_value *find_value(const char *name, const card_value *values, int n)
{
  for (int i = 0; i < n; i++) {
    if (strcmp(values[i].name, name) == 0) {
      return &values[i];
    }
  }
  return NULL;
}

/* A number of the structure at `place` becomes the profile's. */
static void set(const row *member, const card_value *value, char *place)
{
  if (value->count != member->count) {
    card_breach("the profile has %d numbers for %s, %d are expected", value->count, member->name, member->count);
  }
  for (int i = 0; i < member->count; i++) {
    const uint32_t word = (uint32_t)value->integer[i];
    const uint64_t wide = value->integer[i];
    const size_t size = (size_t)value->integer[i];
    const float real = (float)value->number[i];
    switch (member->kind) {
    case U64:
      memcpy(place + (size_t)i * sizeof(wide), &wide, sizeof(wide));
      break;
    case SIZE:
      memcpy(place + (size_t)i * sizeof(size), &size, sizeof(size));
      break;
    case REAL:
      memcpy(place + (size_t)i * sizeof(real), &real, sizeof(real));
      break;
    default:
      memcpy(place + (size_t)i * sizeof(word), &word, sizeof(word));
      break;
    }
  }
}

void card_apply_limits(VkPhysicalDeviceLimits *limits)
{
  const card_profile *profile = card_profile_get();
  for (size_t i = 0; i < sizeof(limit_rows) / sizeof(limit_rows[0]); i++) {
    const card_value *value = find_value(limit_rows[i].name, profile->limits, profile->n_limits);
    if (value) {
      set(&limit_rows[i], value, (char *)limits + limit_rows[i].offset);
    }
  }
}

void card_apply_features(VkPhysicalDeviceFeatures2 *features)
{
  const card_profile *profile = card_profile_get();
  for (VkBaseOutStructure *s = (VkBaseOutStructure *)features; s; s = s->pNext) {
    for (size_t i = 0; i < sizeof(feature_rows) / sizeof(feature_rows[0]); i++) {
      const card_value *value = find_value(feature_rows[i].name, profile->features, profile->n_features);
      if (feature_rows[i].in == s->sType && value && value->integer[0] == 0) {
        set(&feature_rows[i], value, (char *)s + feature_rows[i].offset); /* what the driver lacks stays away */
      }
    }
  }
}

void card_apply_properties(VkPhysicalDeviceProperties2 *properties)
{
  const card_profile *profile = card_profile_get();
  for (VkBaseOutStructure *s = (VkBaseOutStructure *)properties; s; s = s->pNext) {
    for (size_t i = 0; i < sizeof(property_rows) / sizeof(property_rows[0]); i++) {
      const card_value *value = find_value(property_rows[i].name, profile->properties, profile->n_properties);
      if (property_rows[i].in == s->sType && value) {
        set(&property_rows[i], value, (char *)s + property_rows[i].offset);
      }
    }
    if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES && profile->driver_name[0]) {
      VkPhysicalDeviceVulkan12Properties *p = (VkPhysicalDeviceVulkan12Properties *)s;
      memcpy(p->driverName, profile->driver_name, sizeof(p->driverName));
      memcpy(p->driverInfo, profile->driver_info, sizeof(p->driverInfo));
    } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES && profile->driver_name[0]) {
      VkPhysicalDeviceDriverProperties *p = (VkPhysicalDeviceDriverProperties *)s;
      memcpy(p->driverName, profile->driver_name, sizeof(p->driverName));
      memcpy(p->driverInfo, profile->driver_info, sizeof(p->driverInfo));
    }
  }
}

int card_lacks_feature(const char *name)
{
  const card_profile *profile = card_profile_get();
  const card_value *value = find_value(name, profile->features, profile->n_features);
  return value && value->integer[0] == 0;
}

/* Structures that a driver of Vulkan 1.2 knows only with an extension. */
static const struct {
  VkStructureType type;
  size_t size;
  const char *extension; /* "": none */
} newer[] = {
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, sizeof(VkPhysicalDeviceVulkan13Features), ""},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES, sizeof(VkPhysicalDeviceVulkan13Properties), ""},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
     sizeof(VkPhysicalDeviceSubgroupSizeControlFeatures), VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
     sizeof(VkPhysicalDeviceSubgroupSizeControlProperties), VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
     sizeof(VkPhysicalDeviceShaderIntegerDotProductFeatures), VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
     sizeof(VkPhysicalDeviceShaderIntegerDotProductProperties), VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, sizeof(VkPhysicalDeviceMaintenance4Features),
     VK_KHR_MAINTENANCE_4_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, sizeof(VkPhysicalDeviceMaintenance4Properties),
     VK_KHR_MAINTENANCE_4_EXTENSION_NAME},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, sizeof(VkPhysicalDeviceSynchronization2Features),
     VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME},
};

/* Not of a driver older than Vulkan 1.3 without the extension. */
static int is_unknown(VkStructureType type)
{
  const card_profile *profile = card_profile_get();
  for (size_t i = 0; profile->present && i < sizeof(newer) / sizeof(newer[0]); i++) {
    if (newer[i].type == type) {
      return profile->api_version < VK_API_VERSION_1_3 &&
             !(newer[i].extension[0] && card_profile_has_extension(newer[i].extension));
    }
  }
  return 0;
}

int card_lacks_property(const char *name)
{
  const card_profile *profile = card_profile_get();
  const card_value *value = find_value(name, profile->properties, profile->n_properties);
  return value && value->integer[0] == 0;
}

static void check_structure(const VkBaseInStructure *s)
{
  for (size_t i = 0; i < sizeof(feature_rows) / sizeof(feature_rows[0]); i++) {
    VkBool32 enabled = VK_FALSE;
    if (feature_rows[i].in == s->sType) {
      memcpy(&enabled, (const char *)s + feature_rows[i].offset, sizeof(enabled));
    }
    if (enabled && card_lacks_feature(feature_rows[i].name)) {
      card_breach("vkCreateDevice: the feature %s is enabled, but not there", feature_rows[i].name);
    }
  }
}

void card_check_features(const VkDeviceCreateInfo *info)
{
  for (const VkBaseInStructure *s = info->pNext; s; s = s->pNext) {
    if (is_unknown(s->sType)) {
      card_breach("vkCreateDevice: a structure of type %d is chained, of which this driver knows nothing",
                  (int)s->sType);
    }
    check_structure(s);
  }
  if (info->pEnabledFeatures) {
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .features = *info->pEnabledFeatures};
    check_structure((const VkBaseInStructure *)&features);
  }
}

void card_keep_unknown(void *chain, card_untouched *kept)
{
  kept->n = 0;
  for (VkBaseOutStructure *s = chain; s; s = s->pNext) {
    for (size_t i = 0; is_unknown(s->sType) && i < sizeof(newer) / sizeof(newer[0]); i++) {
      void *copy = newer[i].type == s->sType && kept->n < 16 ? malloc(newer[i].size) : NULL;
      if (copy) {
        memcpy(copy, s, newer[i].size);
        kept->structure[kept->n] = s;
        kept->copy[kept->n++] = copy;
      }
    }
  }
}

void card_restore_unknown(card_untouched *kept)
{
  for (int k = 0; k < kept->n; k++) {
    const VkBaseOutStructure *copy = kept->copy[k];
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
      if (newer[i].type == copy->sType) {
        memcpy(kept->structure[k], copy, newer[i].size);
      }
    }
    free(kept->copy[k]);
  }
}
