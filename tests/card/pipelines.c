/* SPDX-License-Identifier: Apache-2.0
 *
 * Shaders, pipelines, layouts and descriptors, held to the card's limits and features.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count_creation();
  if (result == VK_SUCCESS) {
    result = device->next.CreateShaderModule(handle, info, allocator, module);
  }
  if (result == VK_SUCCESS) {
    card_module *kept = malloc(sizeof(*kept) + info->codeSize);
    if (kept) {
      kept->n_words = info->codeSize / sizeof(uint32_t);
      memcpy(kept->words, info->pCode, info->codeSize);
    }
    pthread_mutex_lock(&device->lock);
    card_table_put(&device->modules, CARD_HANDLE(*module), kept);
    pthread_mutex_unlock(&device->lock);
  }
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice handle, VkShaderModule module,
                                                 const VkAllocationCallbacks *allocator)
{
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&device->lock);
  free(card_table_take(&device->modules, CARD_HANDLE(module)));
  pthread_mutex_unlock(&device->lock);
  device->next.DestroyShaderModule(handle, module, allocator);
}

/* SPIR-V's capabilities, and the feature that each needs. */
static const struct {
  uint32_t capability;
  const char *feature;
} capability_features[] = {
    {9, "shaderFloat16"},
    {10, "shaderFloat64"},
    {11, "shaderInt64"},
    {22, "shaderInt16"},
    {39, "shaderInt8"},
    {4433, "storageBuffer16BitAccess"},
    {4434, "uniformAndStorageBuffer16BitAccess"},
    {4448, "storageBuffer8BitAccess"},
    {4449, "uniformAndStorageBuffer8BitAccess"},
    {5345, "vulkanMemoryModel"},
    {5346, "vulkanMemoryModelDeviceScope"},
    {5347, "bufferDeviceAddress"},
    {6018, "shaderIntegerDotProduct"},
    {6019, "shaderIntegerDotProduct"},
};

static void check_module(const card_device *device, const card_needs *needs)
{
  const VkPhysicalDeviceLimits *limits = &device->limits;
  uint64_t invocations = 1;
  for (int i = 0; i < 3; i++) {
    invocations *= needs->size[i];
    if (needs->size[i] > limits->maxComputeWorkGroupSize[i]) {
      card_breach("vkCreateComputePipelines: a workgroup of %u x %u x %u; maxComputeWorkGroupSize is %u x %u x %u",
                  needs->size[0], needs->size[1], needs->size[2], limits->maxComputeWorkGroupSize[0],
                  limits->maxComputeWorkGroupSize[1], limits->maxComputeWorkGroupSize[2]);
    }
  }
  if (invocations > limits->maxComputeWorkGroupInvocations) {
    card_breach("vkCreateComputePipelines: %llu invocations; maxComputeWorkGroupInvocations is %u",
                (unsigned long long)invocations, limits->maxComputeWorkGroupInvocations);
  }
  if (needs->shared_bytes > limits->maxComputeSharedMemorySize) {
    card_breach("vkCreateComputePipelines: %llu bytes of shared memory; maxComputeSharedMemorySize is %u",
                (unsigned long long)needs->shared_bytes, limits->maxComputeSharedMemorySize);
  }
  if ((needs->preserves[16] && card_lacks_property("shaderSignedZeroInfNanPreserveFloat16")) ||
      (needs->preserves[32] && card_lacks_property("shaderSignedZeroInfNanPreserveFloat32"))) {
    card_breach("vkCreateComputePipelines: a shader asks for SignedZeroInfNanPreserve, which is not there");
  }
  for (int k = 0; k < needs->n_capabilities; k++) {
    for (size_t i = 0; i < sizeof(capability_features) / sizeof(capability_features[0]); i++) {
      if (capability_features[i].capability == needs->capabilities[k] &&
          card_lacks_feature(capability_features[i].feature)) {
        card_breach("vkCreateComputePipelines: a shader needs the feature %s", capability_features[i].feature);
      }
    }
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count(CARD_PIPELINE);
  if (result != VK_SUCCESS) {
    memset(pipelines, 0, count * sizeof(*pipelines));
    return result;
  }
  for (uint32_t i = 0; card_profile_get()->present && i < count; i++) {
    pthread_mutex_lock(&device->lock);
    const card_module *module = card_table_find(&device->modules, CARD_HANDLE(infos[i].stage.module));
    pthread_mutex_unlock(&device->lock);
    if (!module) {
      card_breach("vkCreateComputePipelines: the shader module is not there");
    }
    card_needs needs;
    card_module_needs(module, infos[i].stage.pSpecializationInfo, &needs);
    check_module(device, &needs);
  }
  return device->next.CreateComputePipelines(handle, cache, count, infos, allocator, pipelines);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice handle, const VkPipelineCacheCreateInfo *info,
                                                   const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
  VkResult result = card_count_creation();
  return result == VK_SUCCESS ? card_device_of(handle)->next.CreatePipelineCache(handle, info, allocator, cache)
                              : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_semaphore(VkDevice handle, const VkSemaphoreCreateInfo *info,
                                                       const VkAllocationCallbacks *allocator, VkSemaphore *semaphore)
{
  VkResult result = card_count_creation();
  return result == VK_SUCCESS ? card_device_of(handle)->next.CreateSemaphore(handle, info, allocator, semaphore)
                              : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice handle, const VkDescriptorSetLayoutCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkDescriptorSetLayout *layout)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count_creation();
  if (result != VK_SUCCESS) {
    return result;
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < info->bindingCount; i++) {
    n +=
        info->pBindings[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ? info->pBindings[i].descriptorCount : 0;
  }
  if (card_profile_get()->present &&
      (n > device->limits.maxPerStageDescriptorStorageBuffers || n > device->limits.maxDescriptorSetStorageBuffers)) {
    card_breach("vkCreateDescriptorSetLayout: %u storage buffers; maxPerStageDescriptorStorageBuffers is %u, "
                "maxDescriptorSetStorageBuffers %u",
                n, device->limits.maxPerStageDescriptorStorageBuffers, device->limits.maxDescriptorSetStorageBuffers);
  }
  return device->next.CreateDescriptorSetLayout(handle, info, allocator, layout);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_layout(VkDevice handle, const VkPipelineLayoutCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkPipelineLayout *layout)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count_creation();
  if (result != VK_SUCCESS) {
    return result;
  }
  const uint32_t most = device->limits.maxPushConstantsSize;
  for (uint32_t i = 0; card_profile_get()->present && i < info->pushConstantRangeCount; i++) {
    const VkPushConstantRange *range = &info->pPushConstantRanges[i];
    if (range->offset >= most || range->size > most - range->offset) {
      card_breach("vkCreatePipelineLayout: %u push constants from %u on; maxPushConstantsSize is %u", range->size,
                  range->offset, most);
    }
  }
  return device->next.CreatePipelineLayout(handle, info, allocator, layout);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_descriptor_pool(VkDevice handle, const VkDescriptorPoolCreateInfo *info,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkDescriptorPool *pool)
{
  VkResult result = card_count_creation();
  return result == VK_SUCCESS ? card_device_of(handle)->next.CreateDescriptorPool(handle, info, allocator, pool)
                              : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice handle, const VkDescriptorSetAllocateInfo *info,
                                                    VkDescriptorSet *sets)
{
  VkResult result = card_count(CARD_DESCRIPTORS);
  if (result != VK_SUCCESS) {
    memset(sets, 0, info->descriptorSetCount * sizeof(*sets));
    return result;
  }
  return card_device_of(handle)->next.AllocateDescriptorSets(handle, info, sets);
}

static void check_binding(card_device *device, const VkDescriptorBufferInfo *info)
{
  pthread_mutex_lock(&device->lock);
  const card_buffer *buffer = card_table_find(&device->buffers, CARD_HANDLE(info->buffer));
  pthread_mutex_unlock(&device->lock);
  if (!buffer) {
    card_breach("vkUpdateDescriptorSets: a buffer is not there");
  }
  const uint64_t alignment = device->limits.minStorageBufferOffsetAlignment;
  if (info->offset % (alignment > 0 ? alignment : 1) != 0) {
    card_breach("vkUpdateDescriptorSets: offset %llu is no multiple of minStorageBufferOffsetAlignment %llu",
                (unsigned long long)info->offset, (unsigned long long)alignment);
  }
  if (info->offset >= buffer->size || (info->range != VK_WHOLE_SIZE && info->range > buffer->size - info->offset)) {
    card_breach("vkUpdateDescriptorSets: %llu bytes from %llu on, of a buffer of %llu", (unsigned long long)info->range,
                (unsigned long long)info->offset, (unsigned long long)buffer->size);
  }
  const uint64_t range = info->range == VK_WHOLE_SIZE ? buffer->size - info->offset : info->range;
  if (range > device->limits.maxStorageBufferRange) {
    card_breach("vkUpdateDescriptorSets: a range of %llu bytes; maxStorageBufferRange is %u", (unsigned long long)range,
                device->limits.maxStorageBufferRange);
  }
}

static VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice handle, uint32_t n_writes, const VkWriteDescriptorSet *writes,
                                              uint32_t n_copies, const VkCopyDescriptorSet *copies)
{
  card_device *device = card_device_of(handle);
  for (uint32_t i = 0; card_profile_get()->present && i < n_writes; i++) {
    for (uint32_t k = 0; writes[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER && k < writes[i].descriptorCount;
         k++) {
      check_binding(device, &writes[i].pBufferInfo[k]);
    }
  }
  device->next.UpdateDescriptorSets(handle, n_writes, writes, n_copies, copies);
}

const card_function card_pipeline_functions[] = {
    {"vkCreateShaderModule", (PFN_vkVoidFunction)create_module},
    {"vkDestroyShaderModule", (PFN_vkVoidFunction)destroy_module},
    {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
    {"vkCreatePipelineCache", (PFN_vkVoidFunction)create_cache},
    {"vkCreateSemaphore", (PFN_vkVoidFunction)create_semaphore},
    {"vkCreateDescriptorSetLayout", (PFN_vkVoidFunction)create_set_layout},
    {"vkCreatePipelineLayout", (PFN_vkVoidFunction)create_layout},
    {"vkCreateDescriptorPool", (PFN_vkVoidFunction)create_descriptor_pool},
    {"vkAllocateDescriptorSets", (PFN_vkVoidFunction)allocate_sets},
    {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)update_sets},
    {NULL, NULL},
};
