/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/vulkan/forms.h"

#include <stddef.h>
#include <string.h>

static const char *const names[TSR_VK_FORM_COUNT] = {
#define FORM_NAME(name, text) [TSR_VK_FORM_##name] = text,
    TSR_VK_FORMS(FORM_NAME)
#undef FORM_NAME
};

const char *tsr_vk_form_name(int32_t form)
{
  return form > TSR_VK_FORM_AUTO && form < TSR_VK_FORM_COUNT ? names[form] : NULL;
}

int32_t tsr_vk_form_find(const char *name)
{
  for (int32_t form = TSR_VK_FORM_AUTO + 1; form < TSR_VK_FORM_COUNT; ++form) {
    if (strcmp(names[form], name) == 0) {
      return form;
    }
  }
  return TSR_VK_FORM_AUTO;
}
