/* SPDX-License-Identifier: Apache-2.0
 *
 * What instance.c and device.c know of each other.
 */
#ifndef TESTS_CARD_INSTANCE_H
#define TESTS_CARD_INSTANCE_H

#include "tests/card/card.h"

/* The card's limits; returns the driver's timestampPeriod. */
float card_limits_of(VkPhysicalDevice device, VkPhysicalDeviceLimits *limits);
VkResult card_driver_extensions(VkPhysicalDevice device, uint32_t *count, VkExtensionProperties *extensions);

VKAPI_ATTR VkResult VKAPI_CALL card_create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkDevice *handle);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL card_get_device_proc_addr(VkDevice handle, const char *name);

#endif
