/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes zip files, and in them what torch.save and NumPy write: good ones, to be damaged by the tests.
 */
#ifndef TESSERA_TESTS_ZIP_WRITER_H
#define TESSERA_TESTS_ZIP_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. Begin with a zeroed one; free(bytes) ends it. */
typedef struct byte_writer {
  unsigned char *bytes;
  size_t size;
  size_t room;
} byte_writer;

void put_bytes(byte_writer *to, const void *bytes, size_t size);
void put_text(byte_writer *to, const char *text);
/* The number's low `size` bytes, lowest first. */
void put_number(byte_writer *to, uint64_t number, int size);

enum {
  ZIP_DEFLATED = 1,
  ZIP_WIDE = 2,    /* sizes and offset stand in the zip64 field */
  ZIP_PADDED = 4,  /* content begins at a multiple of 64, as torch.save has it */
  ZIP_STREAMED = 8 /* the local header lacks sizes and checksum, which follow the content */
};

/* Begin with a zeroed one; zip_finish ends it. */
typedef struct zip_writer {
  byte_writer file;
  byte_writer directory;
  uint32_t count;
} zip_writer;

void zip_add(zip_writer *zip, const char *name, const void *bytes, size_t size, int options);

/* Appends the directory, with the zip64 records if `wide`, and gives the file: *size bytes, to be freed. */
unsigned char *zip_finish(zip_writer *zip, int wide, size_t *size);

/* ------------------------------------------------------------------------------------------------------------------
 * The pickle of a state dict, protocol 2, as torch.save writes it. Between begin and end: tensors.
 */
void pickle_begin(byte_writer *to);
typedef struct pickle_tensor {
  const char *name;
  const char *storage; /* "FloatStorage" */
  const char *key;
  int64_t elements; /* of the storage */
  int64_t offset;
  int32_t rank;
  int64_t extents[6];
  int64_t strides[6];
} pickle_tensor;
void pickle_add(byte_writer *to, const pickle_tensor *tensor);
void pickle_end(byte_writer *to);

/* An array of NumPy: the header as text, padded to a multiple of 64, and the elements. */
void npy_write(byte_writer *to, int version, const char *header, const void *elements, size_t size);

#endif
