/* SPDX-License-Identifier: Apache-2.0
 *
 * A Vulkan program with a mistake: it reads what a transfer wrote with no barrier between. The validation layer must
 * tell; if it does not, its silence about Tessera proves nothing. Without the layer the program ends with 0.
 */
#include <stdio.h>
#include <vulkan/vulkan.h>

#define VK(call)                                                                                                       \
  do {                                                                                                                 \
    VkResult vk_result = (call);                                                                                       \
    if (vk_result != VK_SUCCESS) {                                                                                     \
      fprintf(stderr, "%s: %d\n", #call, vk_result);                                                                   \
      return 2;                                                                                                        \
    }                                                                                                                  \
  } while (0)

enum { SIZE = 256 };

static int make_buffer(VkDevice device, VkBuffer *buffer)
{
  VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = SIZE,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VK(vkCreateBuffer(device, &create, NULL, buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, *buffer, &needs);
  uint32_t type = 0;
  while (!(needs.memoryTypeBits & (1u << type))) {
    type++;
  }
  VkMemoryAllocateInfo allocate = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
  VkDeviceMemory memory;
  VK(vkAllocateMemory(device, &allocate, NULL, &memory));
  VK(vkBindBufferMemory(device, *buffer, memory, 0));
  return 0;
}

static int run(VkPhysicalDevice physical)
{
  float priority = 1;
  VkDeviceQueueCreateInfo queue_create = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  VkDeviceCreateInfo device_create = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_create};
  VkDevice device;
  VK(vkCreateDevice(physical, &device_create, NULL, &device));
  VkQueue queue;
  vkGetDeviceQueue(device, 0, 0, &queue);
  VkCommandPoolCreateInfo pool_create = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  VkCommandPool pool;
  VK(vkCreateCommandPool(device, &pool_create, NULL, &pool));
  VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .commandPool = pool,
                                          .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                          .commandBufferCount = 1};
  VkCommandBuffer commands;
  VK(vkAllocateCommandBuffers(device, &allocate, &commands));
  VkBuffer from;
  VkBuffer to;
  if (make_buffer(device, &from) != 0 || make_buffer(device, &to) != 0) {
    return 2;
  }
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VK(vkBeginCommandBuffer(commands, &begin));
  vkCmdFillBuffer(commands, from, 0, SIZE, 1);
  VkBufferCopy copy = {.size = SIZE};
  vkCmdCopyBuffer(commands, from, to, 1, &copy);
  VK(vkEndCommandBuffer(commands));
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  VK(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
  VK(vkQueueWaitIdle(queue));
  return 0;
}

/* The operating system releases what it takes. */
int main(void)
{
  setvbuf(stdout, NULL, _IONBF, 0); /* the layer's text must be out when it stops the program */
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  VkInstance instance;
  VK(vkCreateInstance(&create, NULL, &instance));
  uint32_t n = 1;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkResult found = vkEnumeratePhysicalDevices(instance, &n, &physical);
  if (n != 1 || (found != VK_SUCCESS && found != VK_INCOMPLETE)) {
    fprintf(stderr, "no Vulkan device\n");
    return 2;
  }
  return run(physical);
}
