/* SPDX-License-Identifier: Apache-2.0
 *
 * Vulkan, as an application would use it: what the trials of the layer share.
 */
#ifndef TESTS_CARD_APPLICATION_H
#define TESTS_CARD_APPLICATION_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <volk.h>

/* Within a trial: what fails ends it with a code that says that the trial itself was wrong. */
#define NEED(condition)                                                                                                \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                          \
      exit(3);                                                                                                         \
    }                                                                                                                  \
  } while (0)

typedef struct card {
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
} card;

/* 1 if the instance shows one device. */
int open_instance(card *c, VkInstanceCreateFlags flags);
VkResult open_device(card *c, const void *next, const char *extension, uint32_t family);

/* Both, with nothing enabled, and a queue of the second family. */
card open_card(void);
void close_card(card *c);

VkResult allocate_memory(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory);
uint32_t *map_memory(const card *c, VkDeviceMemory memory);
VkMappedMemoryRange range_of(VkDeviceMemory memory, uint64_t offset, uint64_t size);

VkBuffer make_buffer(const card *c, uint64_t size);

/* With memory of its own. */
VkBuffer make_bound_buffer(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory);

VkCommandBuffer begin_commands(const card *c);

/* Ends them, and waits for them. */
VkResult submit_commands(const card *c, VkCommandBuffer commands);
VkResult copy_buffer(const card *c, VkBuffer from, VkBuffer to, uint64_t size);

#endif
