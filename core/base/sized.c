/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/sized.h"

#include <string.h>

#include "core/base/status.h"

/* No struct is as large: a struct_size beyond it was never set. */
enum { MOST = 4096 };

static uint32_t size_of(const void *sized)
{
  uint32_t size;
  memcpy(&size, sized, sizeof size);
  return size;
}

tsr_status tsr_sized_check(const char *type, size_t first, const void *target)
{
  if (!target) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: must not be NULL", type);
  }
  uint32_t size = size_of(target);
  if (size < first || size > MOST) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "%s: struct_size is %u; it should be sizeof(%s), at least %zu: write %s x = {TSR_SIZED(%s)}", type,
                    (unsigned)size, type, first, type, type);
  }
  return TSR_OK;
}

tsr_status tsr_sized_read(const char *type, size_t first, size_t now, const void *given, void *copy)
{
  uint32_t known = (uint32_t)now;
  memset(copy, 0, now);
  if (given) {
    TSR_TRY(tsr_sized_check(type, first, given));
    size_t size = size_of(given);
    const unsigned char *bytes = given;
    for (size_t i = now; i < size; i++) {
      if (bytes[i] != 0) {
        return tsr_fail(TSR_ERR_ARGUMENT,
                        "%s: the field at byte %zu of %zu is set, which this version of the library (" TSR_VERSION
                        ") does not have: its struct ends at byte %zu",
                        type, i, size, now);
      }
    }
    memcpy(copy, given, size < now ? size : now);
  }
  memcpy(copy, &known, sizeof known);
  return TSR_OK;
}

tsr_status tsr_sized_write(const char *type, size_t first, size_t now, const void *filled, void *target)
{
  TSR_TRY(tsr_sized_check(type, first, target));
  uint32_t size = size_of(target);
  tsr_sized_fill(filled, now, target, size);
  memcpy(target, &size, sizeof size);
  return TSR_OK;
}

void tsr_sized_fill(const void *filled, size_t now, void *target, size_t size)
{
  size_t shared = size < now ? size : now;
  memcpy(target, filled, shared);
  memset((unsigned char *)target + shared, 0, size - shared);
}
