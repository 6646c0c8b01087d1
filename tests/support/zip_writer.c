/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/zip_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void put_bytes(byte_writer *to, const void *bytes, size_t size)
{
  if (to->size + size > to->room) {
    to->room = 2 * (to->size + size);
    to->bytes = realloc(to->bytes, to->room);
    if (!to->bytes) {
      abort();
    }
  }
  if (size > 0) {
    memcpy(to->bytes + to->size, bytes, size);
  }
  to->size += size;
}

void put_text(byte_writer *to, const char *text)
{
  put_bytes(to, text, strlen(text));
}

void put_number(byte_writer *to, uint64_t number, int size)
{
  for (int i = 0; i < size; i++) {
    unsigned char byte = i < 8 ? (unsigned char)(number >> (8 * i)) : 0;
    put_bytes(to, &byte, 1);
  }
}

/* *packed is to be freed. */
static size_t deflate_all(const void *bytes, size_t size, unsigned char **packed)
{
  z_stream stream = {0};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    abort();
  }
  size_t room = deflateBound(&stream, (uLong)size);
  *packed = malloc(room);
  if (!*packed) {
    abort();
  }
  stream.next_in = (unsigned char *)bytes;
  stream.avail_in = (uInt)size;
  stream.next_out = *packed;
  stream.avail_out = (uInt)room;
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
    abort();
  }
  size = stream.total_out;
  deflateEnd(&stream);
  return size;
}

/* What both headers of an entry have: from the flags to the lengths of name and extra field. */
static void put_header(byte_writer *to, int options, uint32_t crc, size_t packed, size_t size, size_t name,
                       size_t extra)
{
  int wide = options & ZIP_WIDE;
  put_number(to, options & ZIP_STREAMED ? 8 : 0, 2);
  put_number(to, options & ZIP_DEFLATED ? 8 : 0, 2);
  put_number(to, 0, 4); /* time and date */
  put_number(to, crc, 4);
  put_number(to, wide ? UINT32_MAX : packed, 4);
  put_number(to, wide ? UINT32_MAX : size, 4);
  put_number(to, name, 2);
  put_number(to, extra, 2);
}

void zip_add(zip_writer *zip, const char *name, const void *bytes, size_t size, int options)
{
  static const char zeros[64];
  byte_writer *file = &zip->file;
  byte_writer *directory = &zip->directory;
  unsigned char *packed = NULL;
  size_t n = options & ZIP_DEFLATED ? deflate_all(bytes, size, &packed) : size;
  uint32_t crc = (uint32_t)crc32(0, bytes, (uInt)size);
  size_t offset = file->size;
  size_t lead = offset + 30 + strlen(name);
  size_t padding = options & ZIP_PADDED ? 4 + (64 - (lead + 4) % 64) % 64 : 0;

  int streamed = options & ZIP_STREAMED;
  put_number(file, 0x04034b50, 4);
  put_number(file, 20, 2);
  put_header(file, options & ~ZIP_WIDE, streamed ? 0 : crc, streamed ? 0 : n, streamed ? 0 : size, strlen(name),
             padding);
  put_text(file, name);
  if (padding > 0) {
    put_text(file, "FB");
    put_number(file, padding - 4, 2);
    put_bytes(file, zeros, padding - 4);
  }
  put_bytes(file, packed ? packed : bytes, n);
  if (streamed) {
    put_number(file, 0x08074b50, 4);
    put_number(file, crc, 4);
    put_number(file, n, 4);
    put_number(file, size, 4);
  }
  free(packed);

  int wide = options & ZIP_WIDE;
  put_number(directory, 0x02014b50, 4);
  put_number(directory, 45, 2);
  put_number(directory, 45, 2);
  put_header(directory, options, crc, n, size, strlen(name), wide ? 28 : 0);
  put_number(directory, 0, 10); /* comment, disk, attributes */
  put_number(directory, wide ? UINT32_MAX : offset, 4);
  put_text(directory, name);
  if (wide) {
    put_number(directory, 1, 2);
    put_number(directory, 24, 2);
    put_number(directory, size, 8);
    put_number(directory, n, 8);
    put_number(directory, offset, 8);
  }
  zip->count++;
}

unsigned char *zip_finish(zip_writer *zip, int wide, size_t *size)
{
  byte_writer *file = &zip->file;
  size_t begin = file->size;
  size_t length = zip->directory.size;
  put_bytes(file, zip->directory.bytes, length);
  if (wide) {
    size_t at = file->size;
    put_number(file, 0x06064b50, 4);
    put_number(file, 44, 8);
    put_number(file, 45, 2);
    put_number(file, 45, 2);
    put_number(file, 0, 8); /* disks */
    put_number(file, zip->count, 8);
    put_number(file, zip->count, 8);
    put_number(file, length, 8);
    put_number(file, begin, 8);
    put_number(file, 0x07064b50, 4);
    put_number(file, 0, 4);
    put_number(file, at, 8);
    put_number(file, 1, 4);
  }
  put_number(file, 0x06054b50, 4);
  put_number(file, 0, 4);
  put_number(file, wide ? UINT16_MAX : zip->count, 2);
  put_number(file, wide ? UINT16_MAX : zip->count, 2);
  put_number(file, wide ? UINT32_MAX : length, 4);
  put_number(file, wide ? UINT32_MAX : begin, 4);
  put_number(file, 0, 2);
  free(zip->directory.bytes);
  *size = file->size;
  unsigned char *bytes = file->bytes;
  *zip = (zip_writer){0};
  return bytes;
}

/* ---- pickles ----------------------------------------------------------------------------------------------------- */

static void put_unicode(byte_writer *to, const char *text)
{
  put_text(to, "X");
  put_number(to, strlen(text), 4);
  put_text(to, text);
}

static void put_integer(byte_writer *to, int64_t number)
{
  if (number >= 0 && number < 256) {
    put_text(to, "K");
    put_number(to, (uint64_t)number, 1);
  } else if (number >= INT32_MIN && number <= INT32_MAX) {
    put_text(to, "J");
    put_number(to, (uint64_t)number, 4);
  } else {
    put_text(to, "\x8a\x08");
    put_number(to, (uint64_t)number, 8);
  }
}

static void put_tuple(byte_writer *to, const int64_t *numbers, int32_t n)
{
  put_text(to, "(");
  for (int32_t i = 0; i < n; i++) {
    put_integer(to, numbers[i]);
  }
  put_text(to, "t");
}

void pickle_begin(byte_writer *to)
{
  put_text(to, "\x80\x02"
               "ccollections\nOrderedDict\nq");
  put_number(to, 0, 1);
  put_text(to, ")Rq\x01(");
}

void pickle_add(byte_writer *to, const pickle_tensor *tensor)
{
  put_unicode(to, tensor->name);
  put_text(to, "ctorch._utils\n_rebuild_tensor_v2\n((");
  put_unicode(to, "storage");
  put_text(to, "ctorch\n");
  put_text(to, tensor->storage);
  put_text(to, "\n");
  put_unicode(to, tensor->key);
  put_unicode(to, "cpu");
  put_integer(to, tensor->elements);
  put_text(to, "tQ");
  put_integer(to, tensor->offset);
  put_tuple(to, tensor->extents, tensor->rank);
  put_tuple(to, tensor->strides, tensor->rank);
  put_text(to, "\x89h");
  put_number(to, 0, 1);
  put_text(to, ")RtR");
}

void pickle_end(byte_writer *to)
{
  put_text(to, "u}");
  put_unicode(to, "_metadata");
  put_text(to, "h");
  put_number(to, 0, 1);
  put_text(to, ")Rsb.");
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

void npy_write(byte_writer *to, int version, const char *header, const void *elements, size_t size)
{
  int width = version == 1 ? 2 : 4;
  size_t lead = 8 + (size_t)width + strlen(header) + 1;
  size_t padding = (64 - lead % 64) % 64;
  put_text(to, "\x93NUMPY");
  put_number(to, (uint64_t)version, 2);
  put_number(to, strlen(header) + padding + 1, width);
  put_text(to, header);
  for (size_t i = 0; i < padding; i++) {
    put_text(to, " ");
  }
  put_text(to, "\n");
  put_bytes(to, elements, size);
}
