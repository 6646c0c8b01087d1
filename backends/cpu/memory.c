/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a device, and the list of matrices in packed layouts.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend.h"

/* From PAGES on memory comes in whole pages, of which those that are never touched take no memory: a fused line leaves
 * much of what the plan gave it alone. From LARGE_PAGES on, the size of one, in large ones where the system has them:
 * weights are read from end to end at each step, and rows of a result are written side by side, and small pages would
 * cost a table walk every 4 KiB. */
enum { PAGES = 1 << 16, LARGE_PAGES = 1 << 21 };

/* Where memory of large pages begins. Windows, which has none here, takes no part of a mapping back. */
#if defined(_WIN32)
enum { LARGE_ALIGNMENT = 4096 };
#else
enum { LARGE_ALIGNMENT = LARGE_PAGES };
#endif

static uint64_t round_up(uint64_t size, uint64_t to)
{
  return (size + to - 1) / to * to;
}

/* Zeroed, from the program's heap, which need not align as the vectors want it. The byte before it tells how far behind
 * the beginning of the heap's piece it lies. */
static void *take_small(uint64_t size)
{
  const size_t room = round_up(size, CPU_ALIGNMENT) + CPU_ALIGNMENT;
  unsigned char *piece = calloc(room, 1);
  if (!piece) {
    return NULL;
  }
  const size_t gap = CPU_ALIGNMENT - (uintptr_t)piece % CPU_ALIGNMENT;
  piece[gap - 1] = (unsigned char)gap;
  return piece + gap;
}

static void give_small(void *bytes)
{
  unsigned char *first = bytes;
  free(first - first[-1]);
}

static void count(tsr_backend_device *device, uint64_t size)
{
  atomic_fetch_add(&device->allocations, 1);
  const uint64_t now = atomic_fetch_add(&device->bytes_in_use, size) + size;
  uint64_t peak = atomic_load(&device->bytes_peak);
  while (peak < now && !atomic_compare_exchange_weak(&device->bytes_peak, &peak, now)) {
  }
}

/* Whole pages that begin where a page of `alignment` bytes does: what lies before and behind them is given back. */
static void *map(uint64_t size, uint64_t alignment)
{
  const uint64_t room = alignment > 4096 ? size + alignment - 4096 : size;
  char *first = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) {
    return NULL;
  }
  const uint64_t before = (alignment - (uintptr_t)first % alignment) % alignment;
  if (before > 0) {
    munmap(first, before);
  }
  if (room > before + size) {
    munmap(first + before + size, room - before - size);
  }
  return first + before;
}

void *cpu_memory_take(tsr_backend_device *device, uint64_t size)
{
  const uint64_t memory = device->context->memory, in_use = atomic_load(&device->bytes_in_use);
  void *bytes = NULL;
  /* Asked first, because a system that overcommits would grant more than there is and kill the process later. */
  if (memory > 0 && (memory < in_use || size > memory - in_use)) {
    return NULL;
  }
  if (size >= PAGES) {
    bytes = map(round_up(size, 4096), size >= LARGE_PAGES ? LARGE_ALIGNMENT : 4096);
    if (!bytes) {
      return NULL;
    }
    if (size >= LARGE_PAGES) {
      madvise(bytes, round_up(size, 4096), MADV_HUGEPAGE);
    }
  } else {
    bytes = take_small(size);
    if (!bytes) {
      return NULL;
    }
  }
  count(device, size);
  return bytes;
}

void cpu_memory_give(tsr_backend_device *device, void *bytes, uint64_t size)
{
  if (!bytes) {
    return;
  }
  atomic_fetch_sub(&device->bytes_in_use, size);
  if (size >= PAGES) {
    munmap(bytes, round_up(size, 4096));
  } else {
    give_small(bytes);
  }
}

static int is_same(const cpu_packed *packed, const cpu_layout *layout)
{
  const cpu_tensor *a = &packed->shape, *b = layout->from;
  return !packed->stale && packed->from == b->data && packed->pack == layout->pack && packed->size == layout->size &&
         a->dtype == b->dtype && a->rank == b->rank && memcmp(a->extent, b->extent, sizeof a->extent) == 0 &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* Under the device's lock. */
static void drop(tsr_backend_device *device, cpu_packed **link)
{
  cpu_packed *packed = *link;
  *link = packed->next;
  cpu_memory_give(device, packed->bytes, packed->size);
  free(packed);
}

static cpu_packed *make(tsr_backend_device *device, const cpu_layout *layout)
{
  cpu_packed *packed = calloc(1, sizeof *packed);
  if (!packed) {
    return NULL;
  }
  *packed =
      (cpu_packed){.from = layout->from->data, .shape = *layout->from, .size = layout->size, .pack = layout->pack};
  packed->bytes = cpu_memory_take(device, layout->size);
  if (!packed->bytes) {
    free(packed);
    return NULL;
  }
  layout->pack(layout, packed->bytes);
  packed->next = device->packed;
  device->packed = packed;
  return packed;
}

const cpu_packed *cpu_packed_take(tsr_backend_device *device, const cpu_layout *layout)
{
  pthread_mutex_lock(&device->lock);
  cpu_packed *packed = device->packed;
  while (packed && !is_same(packed, layout)) {
    packed = packed->next;
  }
  if (!packed) {
    packed = make(device, layout);
  }
  if (packed) {
    packed->references++;
  }
  pthread_mutex_unlock(&device->lock);
  return packed;
}

void cpu_packed_give(tsr_backend_device *device, const cpu_packed *packed)
{
  pthread_mutex_lock(&device->lock);
  for (cpu_packed **link = &device->packed; *link; link = &(*link)->next) {
    if (*link == packed) {
      (*link)->references--;
      if ((*link)->references == 0 && (*link)->stale) {
        drop(device, link);
      }
      break;
    }
  }
  pthread_mutex_unlock(&device->lock);
}

void cpu_packed_forget(tsr_backend_device *device, const void *bytes, uint64_t size)
{
  pthread_mutex_lock(&device->lock);
  for (cpu_packed **link = &device->packed; *link;) {
    const uintptr_t at = (uintptr_t)(*link)->from, first = (uintptr_t)bytes;
    /* A matrix that begins before the range may reach into it: only its own extent tells, in elements of at most 4
     * bytes. */
    const cpu_tensor *t = &(*link)->shape;
    int64_t last = 0;
    for (int32_t axis = 0; axis < t->rank; axis++) {
      last += (t->extent[axis] - 1) * t->stride[axis];
    }
    const uintptr_t end = at + (uintptr_t)((last + 1) * cpu_element_size(t->dtype));
    if (at < first + size && end > first) {
      (*link)->stale = 1;
      if ((*link)->references == 0) {
        drop(device, link);
        continue;
      }
    }
    link = &(*link)->next;
  }
  pthread_mutex_unlock(&device->lock);
}
