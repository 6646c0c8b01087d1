/* SPDX-License-Identifier: Apache-2.0
 *
 * A buffer of bytes that is used again and again.
 */
#ifndef TESSERA_CORE_TEXT_BUFFER_H
#define TESSERA_CORE_TEXT_BUFFER_H

#include "tessera/status.h"

#include <stddef.h>

/* Zero it; free(bytes) ends it. */
typedef struct tsr_text_buffer {
  char *bytes;
  size_t room;
} tsr_text_buffer;

/* Room for at least `size` bytes; what was there is lost. */
tsr_status tsr_text_buffer_reserve(tsr_text_buffer *buffer, size_t size) TSR_MUST_CHECK;

/* Valid UTF-8 as it stands; of a text with errors a copy in the buffer, with U+FFFD instead. Sets *clean and
 * *clean_size, which are good until text or buffer changes. */
tsr_status tsr_text_buffer_clean(tsr_text_buffer *buffer, const char *text, size_t size, const char **clean,
                                 size_t *clean_size) TSR_MUST_CHECK;

#endif
