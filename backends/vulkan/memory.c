/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory. Drivers allow few allocations (4096 may be all), so small buffers share blocks; large ones have their
 * own. What the host can see is mapped as long as it lives. And what a device takes of the host's memory, counted.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

enum { SMALL_FRACTION = 16 }; /* a request up to block_bytes / SMALL_FRACTION shares a block */

typedef struct free_range {
  VkDeviceSize offset;
  VkDeviceSize size;
} free_range;

/* The free ranges of a block are sorted by offset, not empty, and never touch each other. */
struct tsr_vk_block {
  tsr_vk_block *next;
  VkDeviceMemory memory;
  VkDeviceSize size;
  uint32_t type; /* index of the memory type */
  int shared;    /* 1: holds many allocations */
  char *mapped;
  int32_t n_allocations;
  int32_t n_free;
  int32_t room; /* of free_ranges: more than n_allocations, so that a release always has room */
  free_range *free_ranges;
};

static VkMemoryPropertyFlags type_flags(const tsr_backend_device *d, uint32_t type)
{
  return d->hardware.memory.memoryTypes[type].propertyFlags;
}

/* How well a memory type serves a usage of so many bytes; below 0: not at all. */
static int score_type(const tsr_backend_device *d, uint32_t type, int32_t usage, uint64_t bytes)
{
  VkMemoryPropertyFlags flags = type_flags(d, type);
  int local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
  int visible = (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
  int coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
  int cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
  const VkMemoryPropertyFlags plain = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  if (flags & ~plain) {
    return -1; /* protected, lazily allocated, uncached on the device: needs features that are not enabled, or slow */
  }
  switch (usage) {
  case TSR_BUFFER_UPLOAD:
    return visible ? 4 * coherent + 2 * local + (cached ? 0 : 1) : -1;
  case TSR_BUFFER_READBACK:
    return visible ? 4 * cached + 2 * coherent + !local : -1;
  default: {
    /* A small window through which the host sees the device's memory is left to the small buffers. */
    uint64_t largest = 0;
    for (uint32_t i = 0; i < d->hardware.memory.memoryTypeCount; i++) {
      if (type_flags(d, i) & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) {
        uint64_t limit = tsr_vk_heap_limit(&d->hardware, d->hardware.memory.memoryTypes[i].heapIndex);
        largest = limit > largest ? limit : largest;
      }
    }
    const int in_largest = tsr_vk_heap_limit(&d->hardware, d->hardware.memory.memoryTypes[type].heapIndex) >= largest;
    if (!tsr_vk_hardware_unified(&d->hardware) && bytes > TSR_VK_MAPPED_BYTES) {
      return local ? 8 * in_largest + 4 * !visible + !cached : -1;
    }
    return local ? 8 * in_largest + 4 * (visible && coherent) + 2 * (visible && cached) + visible : -1;
  }
  }
}

static int32_t fail_full(const tsr_backend_device *d, uint64_t asked, uint32_t type)
{
  uint32_t heap = d->hardware.memory.memoryTypes[type].heapIndex;
  return tsr_vk_fail(d->host, TSR_ERR_DEVICE_MEMORY,
                     "no room on %s for %.1f MiB: this program holds %.1f MiB of the %.1f MiB there, and %.1f MiB are "
                     "free; use a smaller batch or shorter sentences, f16 weights, or another device, or end other "
                     "programs that use it",
                     d->hardware.properties.deviceName, (double)asked / 1048576.0,
                     (double)d->heap_bytes[heap] / 1048576.0, (double)tsr_vk_heap_limit(&d->hardware, heap) / 1048576.0,
                     (double)tsr_vk_heap_free(&d->hardware, d->physical, heap, d->heap_bytes[heap]) / 1048576.0);
}

static void destroy_block(tsr_backend_device *d, tsr_vk_block *block)
{
  if (block->memory) {
    d->vk.vkFreeMemory(d->handle, block->memory, NULL); /* unmaps */
    d->heap_bytes[d->hardware.memory.memoryTypes[block->type].heapIndex] -= block->size;
    d->counters.bytes_in_use -= block->size;
  }
  free(block->free_ranges);
  free(block);
}

/* TSR_ERR_DEVICE_MEMORY is not reported yet: another type may have room. */
static int32_t check_unless_full(const tsr_backend_device *d, VkResult result, const char *call)
{
  int full = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY ||
             result == VK_ERROR_TOO_MANY_OBJECTS || result == VK_ERROR_MEMORY_MAP_FAILED;
  return full ? TSR_ERR_DEVICE_MEMORY : tsr_vk_check(d->host, result, call);
}

/* Likewise. */
static int32_t create_block(tsr_backend_device *d, uint32_t type, VkDeviceSize size, int shared, tsr_vk_block **result)
{
  uint32_t heap = d->hardware.memory.memoryTypes[type].heapIndex;
  if (size > tsr_vk_heap_free(&d->hardware, d->physical, heap, d->heap_bytes[heap])) {
    return TSR_ERR_DEVICE_MEMORY;
  }
  tsr_vk_block *block = tsr_vk_calloc(d, 1, sizeof(*block));
  if (!block) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to keep track of device memory");
  }
  block->type = type;
  block->size = size;
  block->shared = shared;
  VkMemoryAllocateFlagsInfo flags = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
      .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
  };
  VkMemoryAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .pNext = d->caps.wide ? &flags : NULL,
      .allocationSize = size,
      .memoryTypeIndex = type,
  };
  VkResult vk_result = d->vk.vkAllocateMemory(d->handle, &info, NULL, &block->memory);
  if (vk_result != VK_SUCCESS) {
    block->memory = VK_NULL_HANDLE;
    destroy_block(d, block);
    return check_unless_full(d, vk_result, "vkAllocateMemory");
  }
  d->counters.allocations++;
  d->heap_bytes[heap] += size;
  d->counters.bytes_in_use += size;
  if (d->counters.bytes_in_use > d->counters.bytes_peak) {
    d->counters.bytes_peak = d->counters.bytes_in_use;
  }
  if (type_flags(d, type) & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) {
    void *mapped = NULL;
    vk_result = d->vk.vkMapMemory(d->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    if (vk_result != VK_SUCCESS) {
      destroy_block(d, block);
      return check_unless_full(d, vk_result, "vkMapMemory");
    }
    block->mapped = mapped;
  }
  *result = block;
  return TSR_OK;
}

static VkDeviceSize align_up(VkDeviceSize value, VkDeviceSize alignment)
{
  return (value + alignment - 1) / alignment * alignment;
}

/* Takes `size` bytes out of a shared block. Returns 1, or 0 if no free range is large enough. */
static int take_range(tsr_backend_device *d, tsr_vk_block *block, VkDeviceSize size, VkDeviceSize alignment,
                      VkDeviceSize *offset)
{
  for (int32_t i = 0; i < block->n_free; i++) {
    free_range *range = &block->free_ranges[i];
    VkDeviceSize start = align_up(range->offset, alignment);
    VkDeviceSize before = start - range->offset;
    if (range->size < before || range->size - before < size) {
      continue;
    }
    /* One more allocation can mean one more free range, here or at its release. */
    if (tsr_vk_grow(d, (void **)&block->free_ranges, &block->room, block->n_allocations + 3,
                    sizeof(*block->free_ranges)) != TSR_OK) {
      return 0;
    }
    range = &block->free_ranges[i];
    VkDeviceSize after = range->size - before - size;
    size_t tail = (size_t)(block->n_free - i - 1) * sizeof(*range);
    if (before > 0 && after > 0) {
      memmove(range + 2, range + 1, tail);
      range[0].size = before;
      range[1] = (free_range){start + size, after};
      block->n_free++;
    } else if (before > 0) {
      range->size = before;
    } else if (after > 0) {
      *range = (free_range){start + size, after};
    } else {
      memmove(range, range + 1, tail);
      block->n_free--;
    }
    block->n_allocations++;
    *offset = start;
    return 1;
  }
  return 0;
}

static void give_range(tsr_vk_block *block, VkDeviceSize offset, VkDeviceSize size)
{
  int32_t i = 0;
  while (i < block->n_free && block->free_ranges[i].offset < offset) {
    i++;
  }
  free_range *range = block->free_ranges;
  int joins_left = i > 0 && range[i - 1].offset + range[i - 1].size == offset;
  int joins_right = i < block->n_free && offset + size == range[i].offset;
  if (joins_left && joins_right) {
    range[i - 1].size += size + range[i].size;
    memmove(range + i, range + i + 1, (size_t)(block->n_free - i - 1) * sizeof(*range));
    block->n_free--;
  } else if (joins_left) {
    range[i - 1].size += size;
  } else if (joins_right) {
    range[i].offset = offset;
    range[i].size += size;
  } else {
    memmove(range + i + 1, range + i, (size_t)(block->n_free - i) * sizeof(*range));
    range[i] = (free_range){offset, size};
    block->n_free++;
  }
  block->n_allocations--;
}

static int32_t allocate_of_type(tsr_backend_device *d, const VkMemoryRequirements *needs, uint32_t type,
                                tsr_vk_memory *memory)
{
  VkDeviceSize atom = d->hardware.properties.limits.nonCoherentAtomSize;
  VkDeviceSize alignment = align_up(needs->alignment > 0 ? needs->alignment : 1, atom > 0 ? atom : 1);
  VkDeviceSize size = align_up(needs->size, atom > 0 ? atom : 1);
  int shared = size <= d->block_bytes / SMALL_FRACTION;
  tsr_vk_block *block = NULL;
  VkDeviceSize offset = 0;
  if (shared) {
    for (block = d->blocks; block; block = block->next) {
      if (block->shared && block->type == type && take_range(d, block, size, alignment, &offset)) {
        break;
      }
    }
  }
  if (!block) {
    int32_t status = create_block(d, type, shared ? d->block_bytes : size, shared, &block);
    if (status == TSR_ERR_DEVICE_MEMORY && shared) { /* there may be room for this one, if not for a block */
      shared = 0;
      status = create_block(d, type, size, shared, &block);
    }
    if (status != TSR_OK) {
      return status;
    }
    if (shared) {
      status = tsr_vk_grow(d, (void **)&block->free_ranges, &block->room, 1, sizeof(*block->free_ranges));
      if (status != TSR_OK) {
        destroy_block(d, block);
        return status;
      }
      block->free_ranges[0] = (free_range){0, block->size};
      block->n_free = 1;
      take_range(d, block, size, alignment, &offset);
    }
    block->next = d->blocks;
    d->blocks = block;
  }
  VkMemoryPropertyFlags flags = type_flags(d, type);
  *memory = (tsr_vk_memory){
      .block = block,
      .memory = block->memory,
      .offset = offset,
      .size = size,
      .mapped = block->mapped ? block->mapped + offset : NULL,
      .coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0,
      .fast_reads = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0 || tsr_vk_hardware_unified(&d->hardware),
  };
  return TSR_OK;
}

int32_t tsr_vk_memory_allocate(tsr_backend_device *d, const VkMemoryRequirements *needs, int32_t usage, uint64_t asked,
                               tsr_vk_memory *memory)
{
  uint32_t tried = 0;
  uint32_t first = 0;
  for (;;) {
    int best = -1;
    uint32_t best_type = 0;
    for (uint32_t type = 0; type < d->hardware.memory.memoryTypeCount; type++) {
      const int score = score_type(d, type, usage, asked);
      if ((needs->memoryTypeBits & ~tried & (1u << type)) && score > best) {
        best = score;
        best_type = type;
      }
    }
    if (best < 0) {
      return fail_full(d, asked, first);
    }
    first = tried == 0 ? best_type : first;
    tried |= 1u << best_type;
    int32_t status = allocate_of_type(d, needs, best_type, memory);
    if (status != TSR_ERR_DEVICE_MEMORY) {
      return status;
    }
  }
}

void tsr_vk_memory_free(tsr_backend_device *d, tsr_vk_memory *memory)
{
  tsr_vk_block *block = memory->block;
  if (!block) {
    return;
  }
  memory->block = NULL;
  if (block->shared) {
    give_range(block, memory->offset, memory->size);
    if (block->n_allocations > 0) {
      return;
    }
  }
  tsr_vk_block **link = &d->blocks;
  while (*link != block) {
    link = &(*link)->next;
  }
  *link = block->next;
  destroy_block(d, block);
}

/* The range rounded outwards to what the device can flush; allocations are aligned to that, so it stays inside. */
static VkMappedMemoryRange mapped_range(const tsr_backend_device *d, const tsr_vk_memory *memory, uint64_t offset,
                                        uint64_t size)
{
  VkDeviceSize atom = d->hardware.properties.limits.nonCoherentAtomSize;
  VkDeviceSize begin = (memory->offset + offset) / atom * atom;
  VkDeviceSize end = align_up(memory->offset + offset + size, atom);
  VkDeviceSize limit = memory->offset + memory->size;
  return (VkMappedMemoryRange){
      .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
      .memory = memory->memory,
      .offset = begin,
      .size = (end < limit ? end : limit) - begin,
  };
}

int32_t tsr_vk_memory_flush(tsr_backend_device *d, const tsr_vk_memory *memory, uint64_t offset, uint64_t size)
{
  if (memory->coherent || size == 0) {
    return TSR_OK;
  }
  VkMappedMemoryRange range = mapped_range(d, memory, offset, size);
  return VK(d->host, d->vk.vkFlushMappedMemoryRanges(d->handle, 1, &range));
}

int32_t tsr_vk_memory_invalidate(tsr_backend_device *d, const tsr_vk_memory *memory, uint64_t offset, uint64_t size)
{
  if (memory->coherent || size == 0) {
    return TSR_OK;
  }
  VkMappedMemoryRange range = mapped_range(d, memory, offset, size);
  return VK(d->host, d->vk.vkInvalidateMappedMemoryRanges(d->handle, 1, &range));
}

/* ---- the host's memory ------------------------------------------------------------------------------------------ */

void *tsr_vk_calloc(tsr_backend_device *d, size_t count, size_t size)
{
  d->counters.allocations++;
  return calloc(count > 0 ? count : 1, size);
}

int32_t tsr_vk_grow(tsr_backend_device *d, void **array, int32_t *room, int32_t needed, size_t element)
{
  if (needed <= *room) {
    return TSR_OK;
  }
  int32_t larger = *room > 0 ? *room : 16;
  while (larger < needed) {
    larger += larger / 2;
  }
  void *moved = realloc(*array, (size_t)larger * element);
  if (!moved) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory for a list of %d entries", larger);
  }
  d->counters.allocations++;
  *array = moved;
  *room = larger;
  return TSR_OK;
}
