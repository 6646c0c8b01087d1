/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages, options, and what a VkResult means to the user.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

enum { MESSAGE_BYTES = 1024 };

void tsr_vk_report(const tsr_host *host, int32_t level, const char *format, ...)
{
  char message[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  host->report(host, level, message);
}

int32_t tsr_vk_fail(const tsr_host *host, int32_t status, const char *format, ...)
{
  char message[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  host->report(host, TSR_LOG_ERROR, message);
  return status;
}

typedef struct result_meaning {
  VkResult result;
  int32_t status;
  const char *name;
  const char *advice;
} result_meaning;

static const result_meaning meanings[] = {
    {VK_ERROR_OUT_OF_HOST_MEMORY, TSR_ERR_OUT_OF_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY",
     "the machine's main memory is full; close other programs or use a smaller model or batch"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, TSR_ERR_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY",
     "the device's memory is full; use a smaller batch, f16 weights or another device"},
    {VK_ERROR_TOO_MANY_OBJECTS, TSR_ERR_DEVICE_MEMORY, "VK_ERROR_TOO_MANY_OBJECTS",
     "the driver allows no more objects of this kind; use a smaller model or batch"},
    {VK_ERROR_DEVICE_LOST, TSR_ERR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST",
     "the device stopped answering (a reset, a watchdog, an unplugged device): start the program again, or choose "
     "another device; if it happens again set TESSERA_WATCHDOG_FLOPS to a smaller number such as 1e9"},
    {VK_TIMEOUT, TSR_ERR_DEVICE_LOST, "VK_TIMEOUT", /* of a wait without a limit: a reset is under way */
     "the device stopped answering: start the program again, or choose another device"},
    {VK_ERROR_INITIALIZATION_FAILED, TSR_ERR_NO_DEVICE, "VK_ERROR_INITIALIZATION_FAILED",
     "the driver could not start; check with vulkaninfo that it works for this user"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, TSR_ERR_NO_DEVICE, "VK_ERROR_INCOMPATIBLE_DRIVER",
     "no Vulkan driver was found; install the driver of the GPU, or mesa-vulkan-drivers, which also has one for the "
     "CPU"},
    {VK_ERROR_LAYER_NOT_PRESENT, TSR_ERR_NO_DEVICE, "VK_ERROR_LAYER_NOT_PRESENT",
     "a Vulkan layer named in VK_INSTANCE_LAYERS is not installed; install it or unset the variable"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, TSR_ERR_UNSUPPORTED, "VK_ERROR_EXTENSION_NOT_PRESENT", "update the driver"},
    {VK_ERROR_FEATURE_NOT_PRESENT, TSR_ERR_UNSUPPORTED, "VK_ERROR_FEATURE_NOT_PRESENT", "update the driver"},
    {VK_ERROR_MEMORY_MAP_FAILED, TSR_ERR_DEVICE_MEMORY, "VK_ERROR_MEMORY_MAP_FAILED",
     "the device's memory cannot be mapped; the process may be out of address space (ulimit -v)"},
    {VK_ERROR_FRAGMENTED_POOL, TSR_ERR_DEVICE_MEMORY, "VK_ERROR_FRAGMENTED_POOL",
     "the driver has no room for more objects of this kind; use a smaller model or batch"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, TSR_ERR_DEVICE_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY",
     "the driver has no room for more objects of this kind; use a smaller model or batch"},
    {VK_ERROR_UNKNOWN, TSR_ERR_PLUGIN, "VK_ERROR_UNKNOWN",
     "the driver does not say more; update it, or choose another device"},
    {VK_INCOMPLETE, TSR_ERR_INTERNAL, "VK_INCOMPLETE", "please report it"},
};

static const result_meaning *meaning_of(VkResult result)
{
  for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
    if (meanings[i].result == result) {
      return &meanings[i];
    }
  }
  return NULL;
}

int32_t tsr_vk_check(const tsr_host *host, VkResult result, const char *call)
{
  if (result == VK_SUCCESS) {
    return TSR_OK;
  }
  /* `call` is source text: what stands before the parenthesis, without the table it was taken from. */
  size_t length = strcspn(call, "(");
  size_t start = length;
  while (start > 0 && call[start - 1] != '>' && call[start - 1] != '.') {
    start--;
  }
  const result_meaning *meaning = meaning_of(result);
  if (meaning) {
    return tsr_vk_fail(host, meaning->status, "%.*s: %s: %s", (int)(length - start), call + start, meaning->name,
                       meaning->advice);
  }
  return tsr_vk_fail(host, TSR_ERR_INTERNAL, "%.*s: unexpected result %d; please report it", (int)(length - start),
                     call + start, (int)result);
}
