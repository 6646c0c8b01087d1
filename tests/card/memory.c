/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and buffers. The driver has one memory type, which it maps; the card has several. What the host sees of memory
 * that is not coherent is a shadow, so that what was not flushed or invalidated is not there.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

/* Not a number as f32, f16 and bf16; as an index it is far outside of everything. */
static const uint32_t fresh = 0x7fc07fc0;

static pthread_mutex_t heaps_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t heap_used[VK_MAX_MEMORY_HEAPS]; /* by all devices that are not apart */
static uint64_t n_allocations_ever;

static uint64_t budget_now(uint32_t heap)
{
  const card_heap *h = &card_profile_get()->heaps[heap];
  const uint64_t taken = h->taken * n_allocations_ever;
  return taken < h->free ? h->free - taken : 0;
}

uint64_t card_heap_budget(uint32_t heap)
{
  pthread_mutex_lock(&heaps_lock);
  uint64_t budget = budget_now(heap);
  pthread_mutex_unlock(&heaps_lock);
  return budget;
}

uint64_t card_heap_used(uint32_t heap)
{
  pthread_mutex_lock(&heaps_lock);
  uint64_t used = heap_used[heap];
  pthread_mutex_unlock(&heaps_lock);
  return used;
}

static uint32_t heap_of(uint32_t type)
{
  const card_profile *profile = card_profile_get();
  return profile->present ? profile->types[type].heapIndex : 0;
}

/* What is used of the heap that a device allocates from. With the lock. */
static uint64_t *used_by(card_device *device, uint32_t heap)
{
  const char *apart = getenv("CARD_APART");
  return apart && strcmp(apart, "1") == 0 ? &device->heap_used[heap] : &heap_used[heap];
}

static void give_back(card_device *device, uint32_t heap, uint64_t size)
{
  pthread_mutex_lock(&heaps_lock);
  *used_by(device, heap) -= size;
  pthread_mutex_unlock(&heaps_lock);
}

/* Takes the bytes out of the type's heap, if they are there. */
static VkResult take(card_device *device, uint32_t type, uint64_t size)
{
  const card_profile *profile = card_profile_get();
  const uint32_t heap = heap_of(type);
  VkResult result = VK_SUCCESS;
  if (profile->present && profile->allocations_fail_above > 0 && size > profile->allocations_fail_above) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  pthread_mutex_lock(&heaps_lock);
  const uint64_t budget = profile->present ? budget_now(heap) : UINT64_MAX;
  uint64_t *used = used_by(device, heap);
  if (size > budget || *used > budget - size) {
    result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  } else {
    *used += size;
    n_allocations_ever++;
    card_note_heap(heap, *used);
  }
  pthread_mutex_unlock(&heaps_lock);
  return result;
}

static VkResult map_below(card_device *device, VkDeviceMemory memory, card_memory *kept)
{
  void *bytes = NULL;
  VkResult result = device->next.MapMemory(device->handle, memory, 0, VK_WHOLE_SIZE, 0, &bytes);
  kept->bytes = bytes;
  for (uint64_t i = 0; result == VK_SUCCESS && i + sizeof(fresh) <= kept->size; i += sizeof(fresh)) {
    memcpy(kept->bytes + i, &fresh, sizeof(fresh));
  }
  return result;
}

static VkResult allocate_below(card_device *device, const VkMemoryAllocateInfo *info,
                               const VkAllocationCallbacks *allocator, VkDeviceMemory *memory)
{
  const card_profile *profile = card_profile_get();
  VkMemoryAllocateInfo below = *info;
  below.memoryTypeIndex = profile->present ? 0 : info->memoryTypeIndex;
  VkResult result = device->next.AllocateMemory(device->handle, &below, allocator, memory);
  if (result != VK_SUCCESS) {
    return result;
  }
  card_memory *kept = calloc(1, sizeof(*kept));
  if (!kept) {
    card_breach("no memory for the layer's own tables");
  }
  kept->type = info->memoryTypeIndex;
  kept->size = info->allocationSize;
  if (profile->present) {
    result = map_below(device, *memory, kept);
    const VkMemoryPropertyFlags flags = profile->types[kept->type].propertyFlags;
    if (result == VK_SUCCESS && (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) &&
        !(flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)) {
      kept->shadow = malloc(kept->size);
      result = kept->shadow ? VK_SUCCESS : VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
  }
  if (result != VK_SUCCESS) {
    device->next.FreeMemory(device->handle, *memory, allocator);
    free(kept);
    return result;
  }
  pthread_mutex_lock(&device->lock);
  card_table_put(&device->memories, CARD_HANDLE(*memory), kept);
  device->n_allocations++;
  pthread_mutex_unlock(&device->lock);
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkDeviceMemory *memory)
{
  card_device *device = card_device_of(handle);
  const card_profile *profile = card_profile_get();
  VkResult result = card_count(CARD_ALLOCATE);
  if (result == VK_SUCCESS && card_allocation_is_too_large(info->allocationSize)) {
    result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  if (result != VK_SUCCESS) {
    return result;
  }
  if (profile->present) {
    if (info->memoryTypeIndex >= profile->n_types) {
      card_breach("vkAllocateMemory: there is no memory type %u", info->memoryTypeIndex);
    }
    if (info->allocationSize > profile->heaps[heap_of(info->memoryTypeIndex)].size) {
      card_breach("vkAllocateMemory: %llu bytes are more than the heap of type %u has",
                  (unsigned long long)info->allocationSize, info->memoryTypeIndex);
    }
    if (device->n_allocations >= device->limits.maxMemoryAllocationCount) {
      return VK_ERROR_TOO_MANY_OBJECTS;
    }
  }
  result = take(device, info->memoryTypeIndex, info->allocationSize);
  if (result != VK_SUCCESS) {
    return result;
  }
  result = allocate_below(device, info, allocator, memory);
  if (result != VK_SUCCESS) {
    give_back(device, heap_of(info->memoryTypeIndex), info->allocationSize);
    return result;
  }
  card_note_allocation(info->memoryTypeIndex, info->allocationSize);
  return VK_SUCCESS;
}

static card_memory *find_memory(card_device *device, VkDeviceMemory memory, const char *call)
{
  pthread_mutex_lock(&device->lock);
  card_memory *kept = card_table_find(&device->memories, CARD_HANDLE(memory));
  pthread_mutex_unlock(&device->lock);
  if (!kept) {
    card_breach("%s: this memory is not there", call);
  }
  return kept;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice handle, VkDeviceMemory memory,
                                              const VkAllocationCallbacks *allocator)
{
  card_device *device = card_device_of(handle);
  if (memory) {
    pthread_mutex_lock(&device->lock);
    card_memory *kept = card_table_take(&device->memories, CARD_HANDLE(memory));
    device->n_allocations -= kept != NULL;
    pthread_mutex_unlock(&device->lock);
    if (!kept) {
      card_breach("vkFreeMemory: this memory is not there");
    }
    give_back(device, heap_of(kept->type), kept->size);
    free(kept->shadow);
    free(kept);
  }
  device->next.FreeMemory(handle, memory, allocator);
}

void card_memories_free(card_device *device)
{
  for (size_t i = 0; i < device->memories.room; i++) {
    card_memory *kept = device->memories.entries[i].value;
    if (kept) {
      give_back(device, heap_of(kept->type), kept->size);
      free(kept->shadow);
    }
  }
  card_table_clear(&device->memories);
}

static VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset,
                                                 VkDeviceSize size, VkMemoryMapFlags flags, void **bytes)
{
  card_device *device = card_device_of(handle);
  const card_profile *profile = card_profile_get();
  card_memory *kept = find_memory(device, memory, "vkMapMemory");
  VkResult result = card_count(CARD_MAP);
  if (result != VK_SUCCESS) {
    return result;
  }
  if (!profile->present) {
    return device->next.MapMemory(handle, memory, offset, size, flags, bytes);
  }
  if (!(profile->types[kept->type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)) {
    card_breach("vkMapMemory: the host does not see memory of type %u", kept->type);
  }
  if (kept->is_mapped || offset >= kept->size || (size != VK_WHOLE_SIZE && size > kept->size - offset)) {
    card_breach("vkMapMemory: the memory is mapped already, or smaller than that");
  }
  kept->is_mapped = 1;
  kept->mapped_offset = offset;
  kept->mapped_size = size == VK_WHOLE_SIZE ? kept->size - offset : size;
  for (uint64_t i = 0; kept->shadow && i + sizeof(fresh) <= kept->size; i += sizeof(fresh)) {
    memcpy(kept->shadow + i, &fresh, sizeof(fresh));
  }
  *bytes = (kept->shadow ? kept->shadow : kept->bytes) + offset;
  card_note_mapping(kept->mapped_size);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL unmap_memory(VkDevice handle, VkDeviceMemory memory)
{
  card_device *device = card_device_of(handle);
  if (!card_profile_get()->present) {
    device->next.UnmapMemory(handle, memory);
    return;
  }
  card_memory *kept = find_memory(device, memory, "vkUnmapMemory");
  if (!kept->is_mapped) {
    card_breach("vkUnmapMemory: the memory is not mapped");
  }
  kept->is_mapped = 0;
}

/* Of coherent memory nothing is to be done, but the ranges have to be right, too. */
static void move_ranges(VkDevice handle, uint32_t count, const VkMappedMemoryRange *ranges, int to_device,
                        const char *call)
{
  card_device *device = card_device_of(handle);
  const uint64_t atom = device->limits.nonCoherentAtomSize > 0 ? device->limits.nonCoherentAtomSize : 1;
  for (uint32_t i = 0; i < count && card_profile_get()->present; i++) {
    card_memory *kept = find_memory(device, ranges[i].memory, call);
    const uint64_t offset = ranges[i].offset;
    const uint64_t mapped_end = kept->mapped_offset + kept->mapped_size;
    const uint64_t end = ranges[i].size == VK_WHOLE_SIZE ? mapped_end : offset + ranges[i].size;
    if (!kept->is_mapped || offset < kept->mapped_offset || offset > end || end > mapped_end) {
      card_breach("%s: bytes %llu to %llu are not mapped", call, (unsigned long long)offset, (unsigned long long)end);
    }
    if (offset % atom != 0 || (end % atom != 0 && end != kept->size)) {
      card_breach("%s: bytes %llu to %llu are no multiples of nonCoherentAtomSize %llu", call,
                  (unsigned long long)offset, (unsigned long long)end, (unsigned long long)atom);
    }
    if (kept->shadow) {
      memcpy((to_device ? kept->bytes : kept->shadow) + offset, (to_device ? kept->shadow : kept->bytes) + offset,
             (size_t)(end - offset));
      card_note_flush(end - offset);
    }
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL flush_ranges(VkDevice handle, uint32_t count, const VkMappedMemoryRange *ranges)
{
  move_ranges(handle, count, ranges, 1, "vkFlushMappedMemoryRanges");
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL invalidate_ranges(VkDevice handle, uint32_t count,
                                                        const VkMappedMemoryRange *ranges)
{
  move_ranges(handle, count, ranges, 0, "vkInvalidateMappedMemoryRanges");
  return VK_SUCCESS;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice handle, const VkBufferCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkBuffer *buffer)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count(CARD_BUFFER);
  if (result != VK_SUCCESS) {
    return result;
  }
  VkBufferCreateInfo below = *info;
  below.sharingMode = VK_SHARING_MODE_EXCLUSIVE; /* there is but one family below */
  below.queueFamilyIndexCount = 0;
  result = device->next.CreateBuffer(handle, &below, allocator, buffer);
  if (result == VK_SUCCESS) {
    card_buffer *kept = calloc(1, sizeof(*kept));
    if (kept) {
      kept->size = info->size;
    }
    pthread_mutex_lock(&device->lock);
    card_table_put(&device->buffers, CARD_HANDLE(*buffer), kept);
    pthread_mutex_unlock(&device->lock);
  }
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_buffer(VkDevice handle, VkBuffer buffer,
                                                 const VkAllocationCallbacks *allocator)
{
  card_device *device = card_device_of(handle);
  pthread_mutex_lock(&device->lock);
  free(card_table_take(&device->buffers, CARD_HANDLE(buffer)));
  pthread_mutex_unlock(&device->lock);
  device->next.DestroyBuffer(handle, buffer, allocator);
}

static void change_requirements(VkMemoryRequirements *needs)
{
  const card_profile *profile = card_profile_get();
  if (profile->present) {
    needs->memoryTypeBits = profile->buffer_types;
    needs->alignment = needs->alignment > profile->buffer_alignment ? needs->alignment : profile->buffer_alignment;
    needs->size = (needs->size + needs->alignment - 1) / needs->alignment * needs->alignment;
  }
}

static VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice handle, VkBuffer buffer, VkMemoryRequirements *needs)
{
  card_device_of(handle)->next.GetBufferMemoryRequirements(handle, buffer, needs);
  change_requirements(needs);
}

static VKAPI_ATTR void VKAPI_CALL get_requirements2(VkDevice handle, const VkBufferMemoryRequirementsInfo2 *info,
                                                    VkMemoryRequirements2 *needs)
{
  card_device_of(handle)->next.GetBufferMemoryRequirements2(handle, info, needs);
  change_requirements(&needs->memoryRequirements);
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_buffer(VkDevice handle, VkBuffer buffer, VkDeviceMemory memory,
                                                  VkDeviceSize offset)
{
  card_device *device = card_device_of(handle);
  VkResult result = card_count(CARD_BIND);
  if (result != VK_SUCCESS) {
    return result;
  }
  if (card_profile_get()->present) {
    const card_memory *kept = find_memory(device, memory, "vkBindBufferMemory");
    VkMemoryRequirements needs;
    get_requirements(handle, buffer, &needs);
    if (!(needs.memoryTypeBits & (1u << kept->type))) {
      card_breach("vkBindBufferMemory: memory of type %u is not for buffers", kept->type);
    }
    if (offset % needs.alignment != 0 || offset > kept->size || needs.size > kept->size - offset) {
      card_breach("vkBindBufferMemory: offset %llu breaks the alignment %llu, or %llu bytes are more than there are",
                  (unsigned long long)offset, (unsigned long long)needs.alignment, (unsigned long long)needs.size);
    }
  }
  return device->next.BindBufferMemory(handle, buffer, memory, offset);
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_buffer2(VkDevice handle, uint32_t count, const VkBindBufferMemoryInfo *infos)
{
  VkResult result = VK_SUCCESS;
  for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
    result = bind_buffer(handle, infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
  }
  return result;
}

const card_function card_memory_functions[] = {
    {"vkAllocateMemory", (PFN_vkVoidFunction)allocate_memory},
    {"vkFreeMemory", (PFN_vkVoidFunction)free_memory},
    {"vkMapMemory", (PFN_vkVoidFunction)map_memory},
    {"vkUnmapMemory", (PFN_vkVoidFunction)unmap_memory},
    {"vkFlushMappedMemoryRanges", (PFN_vkVoidFunction)flush_ranges},
    {"vkInvalidateMappedMemoryRanges", (PFN_vkVoidFunction)invalidate_ranges},
    {"vkCreateBuffer", (PFN_vkVoidFunction)create_buffer},
    {"vkDestroyBuffer", (PFN_vkVoidFunction)destroy_buffer},
    {"vkGetBufferMemoryRequirements", (PFN_vkVoidFunction)get_requirements},
    {"vkGetBufferMemoryRequirements2", (PFN_vkVoidFunction)get_requirements2},
    {"vkGetBufferMemoryRequirements2KHR", (PFN_vkVoidFunction)get_requirements2},
    {"vkBindBufferMemory", (PFN_vkVoidFunction)bind_buffer},
    {"vkBindBufferMemory2", (PFN_vkVoidFunction)bind_buffer2},
    {"vkBindBufferMemory2KHR", (PFN_vkVoidFunction)bind_buffer2},
    {NULL, NULL},
};
