/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_CORE_BASE64_H
#define TESSERA_CORE_BASE64_H

#include <stddef.h>

/* Decodes base64 (RFC 4648, padded or not) into `bytes`, which has room for 3 bytes for each 4 characters begun.
 * Returns 1, or 0 for what is none. */
int tsr_base64_decode(const char *text, size_t size, unsigned char *bytes, size_t *n_bytes);

#endif
