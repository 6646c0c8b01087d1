/* SPDX-License-Identifier: Apache-2.0
 *
 * What the loader cannot do for several threads at once.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "backends/vulkan/backend.h"

/* Passing on a name, the loader (as of 1.3.239) walks its lists of instances and devices without its own lock. */
static pthread_mutex_t loader_lists = PTHREAD_MUTEX_INITIALIZER;

void tsr_vk_loader_lock(void)
{
  pthread_mutex_lock(&loader_lists);
}

void tsr_vk_loader_unlock(void)
{
  pthread_mutex_unlock(&loader_lists);
}

void tsr_vk_name(tsr_backend_device *d, VkObjectType type, uint64_t object, const char *format, ...)
{
  if (!d->context->set_name) {
    return;
  }
  char name[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof(name), format, arguments);
  va_end(arguments);
  VkDebugUtilsObjectNameInfoEXT info = {
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
      .objectType = type,
      .objectHandle = object,
      .pObjectName = name,
  };
  /* A name that cannot be given changes nothing. */
  tsr_vk_loader_lock();
  (void)d->context->set_name(d->handle, &info);
  tsr_vk_loader_unlock();
}
