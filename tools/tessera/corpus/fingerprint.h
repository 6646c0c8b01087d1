/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for what a file or a folder holds: from sizes and samples, so that it takes little time even of large files.
 */
#ifndef TESSERA_TOOLS_CORPUS_FINGERPRINT_H
#define TESSERA_TOOLS_CORPUS_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* 64 well mixed bits of any bytes. */
uint64_t corpus_hash(const void *bytes, size_t size, uint64_t seed);

enum { FINGERPRINT_ROOM = 17 };

/* Writes 16 hexadecimal digits into text: of a file, its size and 256 pieces spread over it; of a folder, the same of
 * the files in it, and their names. Returns an exit code. */
int corpus_fingerprint(const char *path, char text[FINGERPRINT_ROOM]);

#endif
