/* SPDX-License-Identifier: Apache-2.0 */
#define VOLK_IMPLEMENTATION
#include "tests/card/application.h"

int open_instance(card *c, VkInstanceCreateFlags flags)
{
  NEED(volkInitialize() == VK_SUCCESS);
  const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
  const char *const extensions[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
  const VkInstanceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
      .flags = flags,
      .pApplicationInfo = &application,
      .enabledExtensionCount = flags ? 1 : 0,
      .ppEnabledExtensionNames = extensions,
  };
  NEED(vkCreateInstance(&info, NULL, &c->instance) == VK_SUCCESS);
  volkLoadInstance(c->instance);
  uint32_t count = 1;
  return vkEnumeratePhysicalDevices(c->instance, &count, &c->physical) >= VK_SUCCESS && count == 1;
}

VkResult open_device(card *c, const void *next, const char *extension, uint32_t family)
{
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = family,
      .queueCount = 1,
      .pQueuePriorities = &priority,
  };
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = next,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = extension ? 1 : 0,
      .ppEnabledExtensionNames = &extension,
  };
  const VkResult result = vkCreateDevice(c->physical, &info, NULL, &c->device);
  if (result != VK_SUCCESS) {
    return result;
  }
  volkLoadDevice(c->device);
  vkGetDeviceQueue(c->device, family, 0, &c->queue);
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = family};
  NEED(vkCreateCommandPool(c->device, &pool, NULL, &c->pool) == VK_SUCCESS);
  return VK_SUCCESS;
}

card open_card(void)
{
  card c = {0};
  NEED(open_instance(&c, 0));
  NEED(open_device(&c, NULL, NULL, 1) == VK_SUCCESS);
  return c;
}

void close_card(card *c)
{
  vkDestroyCommandPool(c->device, c->pool, NULL);
  vkDestroyDevice(c->device, NULL);
  vkDestroyInstance(c->instance, NULL);
}

VkResult allocate_memory(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory)
{
  const VkMemoryAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = size, .memoryTypeIndex = type};
  return vkAllocateMemory(c->device, &info, NULL, memory);
}

VkBuffer make_buffer(const card *c, uint64_t size)
{
  VkBuffer buffer;
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
  };
  NEED(vkCreateBuffer(c->device, &info, NULL, &buffer) == VK_SUCCESS);
  return buffer;
}

VkBuffer make_bound_buffer(const card *c, uint32_t type, uint64_t size, VkDeviceMemory *memory)
{
  const VkBuffer buffer = make_buffer(c, size);
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(c->device, buffer, &needs);
  NEED(needs.memoryTypeBits == 7 && needs.alignment == 512);
  NEED(allocate_memory(c, type, needs.size, memory) == VK_SUCCESS);
  NEED(vkBindBufferMemory(c->device, buffer, *memory, 0) == VK_SUCCESS);
  return buffer;
}

VkCommandBuffer begin_commands(const card *c)
{
  VkCommandBuffer commands;
  const VkCommandBufferAllocateInfo allocation = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = c->pool, .commandBufferCount = 1};
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  NEED(vkAllocateCommandBuffers(c->device, &allocation, &commands) == VK_SUCCESS);
  NEED(vkBeginCommandBuffer(commands, &info) == VK_SUCCESS);
  return commands;
}

VkResult submit_commands(const card *c, VkCommandBuffer commands)
{
  const VkSubmitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  NEED(vkEndCommandBuffer(commands) == VK_SUCCESS);
  const VkResult result = vkQueueSubmit(c->queue, 1, &info, VK_NULL_HANDLE);
  return result == VK_SUCCESS ? vkQueueWaitIdle(c->queue) : result;
}

VkResult copy_buffer(const card *c, VkBuffer from, VkBuffer to, uint64_t size)
{
  const VkCommandBuffer commands = begin_commands(c);
  const VkBufferCopy region = {.size = size};
  vkCmdCopyBuffer(commands, from, to, 1, &region);
  return submit_commands(c, commands);
}

uint32_t *map_memory(const card *c, VkDeviceMemory memory)
{
  void *bytes;
  NEED(vkMapMemory(c->device, memory, 0, VK_WHOLE_SIZE, 0, &bytes) == VK_SUCCESS);
  return bytes;
}

VkMappedMemoryRange range_of(VkDeviceMemory memory, uint64_t offset, uint64_t size)
{
  return (VkMappedMemoryRange){
      .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, .memory = memory, .offset = offset, .size = size};
}
