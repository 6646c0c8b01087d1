/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/vulkan/variants.h"

#include <stddef.h>
#include <string.h>

static const char *const names[TSR_VK_VARIANT_COUNT] = {
#define VARIANT_NAME(name, text) [TSR_VK_VARIANT_##name] = text,
    TSR_VK_VARIANTS(VARIANT_NAME)
#undef VARIANT_NAME
};

const char *tsr_vk_variant_name(int32_t variant)
{
  return variant > TSR_VK_VARIANT_AUTO && variant < TSR_VK_VARIANT_COUNT ? names[variant] : NULL;
}

int32_t tsr_vk_variant_find(const char *name)
{
  for (int32_t variant = TSR_VK_VARIANT_AUTO + 1; variant < TSR_VK_VARIANT_COUNT; ++variant) {
    if (strcmp(names[variant], name) == 0) {
      return variant;
    }
  }
  return TSR_VK_VARIANT_AUTO;
}
