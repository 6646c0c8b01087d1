/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed bytes, for tests of what reads them.
 */
#ifndef TESSERA_TESTS_COMPRESS_H
#define TESSERA_TESTS_COMPRESS_H

#include <stddef.h>

typedef enum compression { COMPRESSION_GZIP, COMPRESSION_ZSTD } compression;

/* 1 if this build has the format. */
int has_compression(compression format);

/* One member or frame with a checksum. The result is freed by the caller; *packed: its bytes. */
unsigned char *compress_bytes(compression format, const void *bytes, size_t size, size_t *packed);

#endif
