/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files: the directory, with every entry where it lies. What is stored is read in place; what is deflated
 * is inflated by zlib. The directory is read here, as a library that hands out copies could not tell where the bytes
 * of an entry lie.
 */
#ifndef TESSERA_CORE_ZIP_H
#define TESSERA_CORE_ZIP_H

#include <stdint.h>

#include "core/base/arena.h"
#include "core/checkpoint/tensor_file.h"
#include "tessera/status.h"

typedef struct tsr_zip_entry {
  const char *name;           /* valid UTF-8; of the arena */
  const unsigned char *bytes; /* where they lie in the file */
  size_t packed;              /* bytes there */
  size_t size;                /* bytes of the content */
  uint32_t crc;
  int32_t method;                /* TSR_ZIP_STORED, TSR_ZIP_DEFLATED, or one that cannot be read */
  const unsigned char *inflated; /* once somebody asked for it; of the arena */
} tsr_zip_entry;

enum { TSR_ZIP_STORED = 0, TSR_ZIP_DEFLATED = 8 };

typedef struct tsr_zip {
  const char *path; /* of the file */
  const tsr_tensor_file *file;
  tsr_zip_entry *entries; /* sorted by name; of the arena */
  size_t count;
  tsr_arena *arena;
} tsr_zip;

/* 1 if the bytes begin as a zip file does. */
int tsr_zip_is(const void *bytes, size_t size);

/* Checks the directory against the local headers: after success all entries lie within the file, no two
 * overlap and no two have one name. Files of several disks and encrypted entries are refused. The file and the arena
 * outlive *zip. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, TSR_ERR_IO, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_zip_parse(const tsr_tensor_file *file, tsr_arena *arena, tsr_zip *zip) TSR_MUST_CHECK;

/* The entry of that name, or NULL. */
tsr_zip_entry *tsr_zip_find(const tsr_zip *zip, const char *name);

/* Where the content of an entry lies: in the file, where it is still to be asked for (tsr_zip_need), or inflated, its
 * checksum
 * then being checked. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (another method of compression), TSR_ERR_IO,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_zip_place(const tsr_zip *zip, tsr_zip_entry *entry, const unsigned char **content) TSR_MUST_CHECK;

/* Makes the first `count` bytes of an entry's content readable, at most all. Errors: TSR_ERR_IO,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_zip_need(const tsr_zip *zip, const tsr_zip_entry *entry, size_t count) TSR_MUST_CHECK;

/* Both, of all of it. */
tsr_status tsr_zip_content(const tsr_zip *zip, tsr_zip_entry *entry, const unsigned char **content) TSR_MUST_CHECK;

/* Compares a content with the entry's checksum, which reading in place leaves out. Errors: TSR_ERR_FORMAT. */
tsr_status tsr_zip_verify(const tsr_zip *zip, const tsr_zip_entry *entry, const unsigned char *content) TSR_MUST_CHECK;

#endif
