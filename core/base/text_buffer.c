/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/text_buffer.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "tessera/text.h"

tsr_status tsr_text_buffer_reserve(tsr_text_buffer *buffer, size_t size)
{
  if (size <= buffer->room) {
    return TSR_OK;
  }
  size_t room = size / 2 < buffer->room ? 2 * buffer->room : size;
  free(buffer->bytes);
  buffer->bytes = malloc(room);
  buffer->room = buffer->bytes ? room : 0;
  return buffer->bytes ? TSR_OK : tsr_fail_memory(room);
}

tsr_status tsr_text_buffer_clean(tsr_text_buffer *buffer, const char *text, size_t size, const char **clean,
                                 size_t *clean_size)
{
  *clean = text;
  *clean_size = size;
  if (tsr_utf8_is_valid(text, size)) {
    return TSR_OK;
  }
  if (size > SIZE_MAX / 3) {
    return tsr_fail_memory(SIZE_MAX);
  }
  TSR_TRY(tsr_text_buffer_reserve(buffer, 3 * size));
  *clean = buffer->bytes;
  *clean_size = tsr_utf8_clean(text, size, buffer->bytes);
  return TSR_OK;
}
