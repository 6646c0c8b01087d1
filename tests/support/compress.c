/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/compress.h"

#include <assert.h>
#include <stdlib.h>
#include <zlib.h>
#if TSR_HAS_ZSTD
#include <zstd.h>
#endif

int has_compression(compression format)
{
  return format == COMPRESSION_GZIP || TSR_HAS_ZSTD;
}

static unsigned char *compress_gzip(const void *bytes, size_t size, size_t *packed)
{
  z_stream z = {.next_in = (unsigned char *)bytes, .avail_in = (uInt)size};
  int code = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  assert(code == Z_OK);
  uLong room = deflateBound(&z, (uLong)size);
  unsigned char *out = malloc(room);
  assert(out);
  z.next_out = out;
  z.avail_out = (uInt)room;
  code = deflate(&z, Z_FINISH);
  assert(code == Z_STREAM_END);
  *packed = room - z.avail_out;
  deflateEnd(&z);
  return out;
}

static unsigned char *compress_zstd(const void *bytes, size_t size, size_t *packed)
{
#if TSR_HAS_ZSTD
  ZSTD_CCtx *context = ZSTD_createCCtx();
  assert(context);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  size_t room = ZSTD_compressBound(size);
  unsigned char *out = malloc(room);
  assert(out);
  *packed = ZSTD_compress2(context, out, room, bytes, size);
  assert(!ZSTD_isError(*packed));
  ZSTD_freeCCtx(context);
  return out;
#else
  (void)bytes;
  (void)size;
  (void)packed;
  abort();
#endif
}

unsigned char *compress_bytes(compression format, const void *bytes, size_t size, size_t *packed)
{
  return format == COMPRESSION_GZIP ? compress_gzip(bytes, size, packed) : compress_zstd(bytes, size, packed);
}
