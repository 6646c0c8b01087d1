/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_CORE_SETTLED_H
#define TESSERA_CORE_SETTLED_H

#include <stddef.h>

/* How many bytes of a decoded text of `size` bytes, valid UTF-8, stay as they are whatever tokens follow: up to the
 * last blank, which is left out, or the last character of a script that writes without blanks. What may be part of a
 * character does not count. */
size_t tsr_text_settled(const char *text, size_t size);

#endif
