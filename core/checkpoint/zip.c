/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/zip.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/json.h"

/* Records of the form, and the bytes of their fixed parts. All numbers are little-endian. */
enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, END64_SIZE = 56, LOCATOR_SIZE = 20 };
static const uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50,
                      end64_signature = 0x06064b50, locator_signature = 0x07064b50;
enum { EXTRA_ZIP64 = 1, FLAG_ENCRYPTED = 1, FLAG_MASKED = 1 << 13 };
enum { DEFLATE_LIMIT = 1040 }; /* no byte of deflated data stands for more */

/* The file under inspection. */
typedef struct source {
  const tsr_tensor_file *file;
  const char *path; /* these three are the file's */
  const unsigned char *bytes;
  size_t size;
  uint64_t n_entries;
  size_t directory; /* where the central directory begins */
  size_t directory_size;
} source;

static uint32_t u16(const unsigned char *at)
{
  return (uint32_t)tsr_read_unsigned(at, 2);
}

static uint32_t u32(const unsigned char *at)
{
  return (uint32_t)tsr_read_unsigned(at, 4);
}

static uint64_t u64(const unsigned char *at)
{
  return tsr_read_unsigned(at, 8);
}

int tsr_zip_is(const void *bytes, size_t size)
{
  return size >= 4 && (u32(bytes) == local_signature || u32(bytes) == end_signature);
}

/* ---- the directory's place --------------------------------------------------------------------------------------- */

/* The record at the end of the file, behind which lies nothing but the comment that it announces. */
static tsr_status find_end(const source *from, size_t *end)
{
  size_t reach = from->size < UINT16_MAX + END_SIZE ? from->size : (size_t)UINT16_MAX + END_SIZE;
  TSR_TRY(tsr_tensor_file_need(from->file, from->size - reach, reach));
  for (size_t comment = 0; comment <= UINT16_MAX && comment + END_SIZE <= from->size; comment++) {
    size_t at = from->size - END_SIZE - comment;
    if (u32(from->bytes + at) == end_signature && u16(from->bytes + at + 20) == comment) {
      *end = at;
      return TSR_OK;
    }
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: the zip directory at the end of the file is missing: the file is truncated",
                  from->path);
}

/* The wider record that large files have before the first one. */
static tsr_status find_end64(const source *from, size_t end, const unsigned char **record)
{
  *record = NULL;
  if (end < LOCATOR_SIZE) {
    return TSR_OK;
  }
  TSR_TRY(tsr_tensor_file_need(from->file, end - LOCATOR_SIZE, LOCATOR_SIZE));
  if (u32(from->bytes + end - LOCATOR_SIZE) != locator_signature) {
    return TSR_OK;
  }
  const unsigned char *locator = from->bytes + end - LOCATOR_SIZE;
  uint64_t at = u64(locator + 8);
  int fits = end >= LOCATOR_SIZE + END64_SIZE && at <= end - LOCATOR_SIZE - END64_SIZE;
  if (fits) {
    TSR_TRY(tsr_tensor_file_need(from->file, at, END64_SIZE));
  }
  if (!fits || u32(from->bytes + at) != end64_signature) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the zip64 record that the file's end points to is not at byte %" PRIu64,
                    from->path, at);
  }
  *record = from->bytes + at;
  return TSR_OK;
}

static tsr_status find_directory(source *from)
{
  size_t end = 0;
  const unsigned char *wide = NULL;
  TSR_TRY(find_end(from, &end));
  TSR_TRY(find_end64(from, end, &wide));
  const unsigned char *record = from->bytes + end;
  uint64_t disks = wide ? u32(wide + 16) + (uint64_t)u32(wide + 20) : u16(record + 4) + (uint64_t)u16(record + 6);
  uint64_t here = wide ? u64(wide + 24) : u16(record + 8);
  from->n_entries = wide ? u64(wide + 32) : u16(record + 10);
  uint64_t size = wide ? u64(wide + 40) : u32(record + 12);
  uint64_t begin = wide ? u64(wide + 48) : u32(record + 16);
  size_t limit = wide ? (size_t)(wide - from->bytes) : end;
  if (disks != 0 || here != from->n_entries) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: a zip file of several disks cannot be read", from->path);
  }
  if (size > limit || begin > limit - size) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: the zip directory of %" PRIu64 " bytes from byte %" PRIu64
                    " on reaches beyond byte %zu: the file is truncated or damaged",
                    from->path, size, begin, limit);
  }
  if (from->n_entries > size / CENTRAL_SIZE) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: a zip directory of %" PRIu64 " bytes cannot list %" PRIu64 " entries",
                    from->path, size, from->n_entries);
  }
  from->directory = (size_t)begin;
  from->directory_size = (size_t)size;
  return tsr_tensor_file_need(from->file, begin, size);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* What the extra field says of the numbers that do not fit into 32 bits, in its order. */
static tsr_status widen_sizes(const source *from, const char *name, const unsigned char *extra, size_t extra_size,
                              uint64_t *const sizes[3])
{
  int missing[3];
  for (int i = 0; i < 3; i++) {
    missing[i] = *sizes[i] == UINT32_MAX;
  }
  for (size_t at = 0; at + 4 <= extra_size;) {
    size_t next = at + 4;
    size_t end = next + u16(extra + at + 2);
    for (int i = 0; i < 3 && end <= extra_size && u16(extra + at) == EXTRA_ZIP64; i++) {
      if (missing[i] && next + 8 <= end) {
        *sizes[i] = u64(extra + next);
        missing[i] = 0;
        next += 8;
      }
    }
    at = end;
  }
  if (missing[0] || missing[1] || missing[2]) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: its 64-bit sizes are missing", from->path, tsr_quote(name).text);
  }
  return TSR_OK;
}

/* Where the content lies: behind the local header, whose lengths may differ from the directory's. */
static tsr_status find_content(const source *from, const unsigned char *central, uint64_t offset, tsr_zip_entry *entry)
{
  int fits = offset <= from->directory && from->directory - offset >= LOCAL_SIZE;
  if (fits) {
    TSR_TRY(tsr_tensor_file_need(from->file, offset, LOCAL_SIZE));
  }
  if (!fits || u32(from->bytes + offset) != local_signature) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: there is no local header at byte %" PRIu64, from->path,
                    tsr_quote(entry->name).text, offset);
  }
  const unsigned char *local = from->bytes + offset;
  uint64_t room = from->directory - offset - LOCAL_SIZE;
  uint64_t name_size = u16(local + 26);
  uint64_t lead = name_size + u16(local + 28);
  if (lead > room || entry->packed > room - lead) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: entry %s: %zu bytes from byte %" PRIu64
                    " on reach into the zip directory: the file is truncated or damaged",
                    from->path, tsr_quote(entry->name).text, entry->packed, offset + LOCAL_SIZE + lead);
  }
  TSR_TRY(tsr_tensor_file_need(from->file, offset + LOCAL_SIZE, name_size));
  if (u16(local + 8) != u16(central + 10) || name_size != strlen(entry->name) ||
      memcmp(local + LOCAL_SIZE, entry->name, (size_t)name_size) != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: its local header at byte %" PRIu64 " tells of another entry",
                    from->path, tsr_quote(entry->name).text, offset);
  }
  entry->bytes = local + LOCAL_SIZE + lead;
  return TSR_OK;
}

static tsr_status read_name(const source *from, const unsigned char *text, size_t size, tsr_arena *arena,
                            tsr_zip_entry *entry)
{
  char *name = tsr_arena_take(arena, size + 1);
  if (!name) {
    return tsr_fail_memory(size + 1);
  }
  memcpy(name, text, size);
  entry->name = name;
  if (memchr(name, 0, size) || !tsr_utf8_is_valid(name, size)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the zip directory holds a name that is not UTF-8 (at byte %zu)", from->path,
                    (size_t)(text - from->bytes));
  }
  return TSR_OK;
}

/* The entry at *at in the directory; moves *at behind it. */
static tsr_status read_entry(const source *from, tsr_arena *arena, size_t *at, tsr_zip_entry *entry)
{
  const unsigned char *central = from->bytes + from->directory + *at;
  size_t room = from->directory_size - *at;
  if (room < CENTRAL_SIZE || u32(central) != central_signature) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the zip directory is damaged at byte %zu", from->path, from->directory + *at);
  }
  size_t name_size = u16(central + 28);
  size_t extra_size = u16(central + 30);
  size_t whole = CENTRAL_SIZE + name_size + extra_size + u16(central + 32);
  if (whole > room) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the zip directory is damaged at byte %zu", from->path, from->directory + *at);
  }
  TSR_TRY(read_name(from, central + CENTRAL_SIZE, name_size, arena, entry));
  if (u16(central + 8) & (FLAG_ENCRYPTED | FLAG_MASKED)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: entry %s is encrypted", from->path, tsr_quote(entry->name).text);
  }
  uint64_t packed = u32(central + 20);
  uint64_t size = u32(central + 24);
  uint64_t offset = u32(central + 42);
  uint64_t *const sizes[] = {&size, &packed, &offset}; /* in the order of the extra field */
  TSR_TRY(widen_sizes(from, entry->name, central + CENTRAL_SIZE + name_size, extra_size, sizes));
  entry->method = (int32_t)u16(central + 10);
  entry->crc = u32(central + 16);
  if (packed > from->size || size > SIZE_MAX / 2 || (entry->method == TSR_ZIP_STORED && packed != size)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: %" PRIu64 " bytes, %" PRIu64 " of them in the file, cannot be",
                    from->path, tsr_quote(entry->name).text, size, packed);
  }
  entry->packed = (size_t)packed;
  entry->size = (size_t)size;
  *at += whole;
  return find_content(from, central, offset, entry);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(((const tsr_zip_entry *)a)->name, ((const tsr_zip_entry *)b)->name);
}

static int compare_places(const void *a, const void *b)
{
  const unsigned char *x = ((const tsr_zip_entry *)a)->bytes;
  const unsigned char *y = ((const tsr_zip_entry *)b)->bytes;
  return x < y ? -1 : x > y;
}

/* Sorts the entries by place, then by name. Entries that share bytes could unfold to any size. */
static tsr_status check_entries(const tsr_zip *zip)
{
  const tsr_zip_entry *list = zip->entries;
  qsort(zip->entries, zip->count, sizeof *zip->entries, compare_places);
  for (size_t i = 1; i < zip->count; i++) {
    if ((size_t)(list[i].bytes - list[i - 1].bytes) < list[i - 1].packed + LOCAL_SIZE) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: entries %s and %s overlap", zip->path, tsr_quote(list[i - 1].name).text,
                      tsr_quote(list[i].name).text);
    }
  }
  qsort(zip->entries, zip->count, sizeof *zip->entries, compare_names);
  for (size_t i = 1; i < zip->count; i++) {
    if (strcmp(list[i - 1].name, list[i].name) == 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s is there twice", zip->path, tsr_quote(list[i].name).text);
    }
  }
  return TSR_OK;
}

tsr_status tsr_zip_parse(const tsr_tensor_file *file, tsr_arena *arena, tsr_zip *zip)
{
  source from = {.file = file, .path = file->path, .bytes = file->bytes, .size = file->size};
  *zip = (tsr_zip){.path = file->path, .file = file, .arena = arena};
  TSR_TRY(find_directory(&from));
  size_t room = ((size_t)from.n_entries + 1) * sizeof *zip->entries;
  zip->entries = tsr_arena_take(arena, room);
  if (!zip->entries) {
    return tsr_fail_memory(room);
  }
  for (size_t at = 0; zip->count < from.n_entries; zip->count++) {
    TSR_TRY(read_entry(&from, arena, &at, &zip->entries[zip->count]));
  }
  return check_entries(zip);
}

static int compare_key(const void *key, const void *entry)
{
  return strcmp(key, ((const tsr_zip_entry *)entry)->name);
}

tsr_zip_entry *tsr_zip_find(const tsr_zip *zip, const char *name)
{
  return bsearch(name, zip->entries, zip->count, sizeof *zip->entries, compare_key);
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static tsr_status fail_inflate(const tsr_zip *zip, const tsr_zip_entry *entry)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: its compressed bytes are damaged, or do not give the %zu announced",
                  zip->path, tsr_quote(entry->name).text, entry->size);
}

static uint64_t place_of(const tsr_zip *zip, const tsr_zip_entry *entry)
{
  return (uint64_t)(entry->bytes - zip->file->bytes);
}

/* In portions, so that the compressed bytes take little memory. */
static tsr_status inflate_all(z_stream *stream, const tsr_zip *zip, const tsr_zip_entry *entry, unsigned char *out)
{
  enum { PORTION = 1 << 20, ROOM = 1 << 30 /* zlib counts in 32 bits */ };
  size_t taken = 0;
  size_t given = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    size_t in = entry->packed - taken < PORTION ? entry->packed - taken : PORTION;
    size_t room = entry->size - given < ROOM ? entry->size - given : ROOM;
    TSR_TRY(tsr_tensor_file_need(zip->file, place_of(zip, entry) + taken, in));
    stream->next_in = (unsigned char *)entry->bytes + taken;
    stream->avail_in = (uInt)in;
    stream->next_out = out + given;
    stream->avail_out = (uInt)room;
    code = inflate(stream, Z_NO_FLUSH);
    tsr_tensor_file_drop(zip->file, place_of(zip, entry) + taken, in);
    taken += in - stream->avail_in;
    given += room - stream->avail_out;
  }
  return code == Z_STREAM_END && given == entry->size && taken == entry->packed ? TSR_OK : fail_inflate(zip, entry);
}

tsr_status tsr_zip_verify(const tsr_zip *zip, const tsr_zip_entry *entry, const unsigned char *content)
{
  uint32_t found = (uint32_t)crc32_z(0, content, entry->size);
  if (found != entry->crc) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s: its checksum is %08" PRIx32 "; the zip directory says %08" PRIx32,
                    zip->path, tsr_quote(entry->name).text, found, entry->crc);
  }
  return TSR_OK;
}

static tsr_status inflate_entry(const tsr_zip *zip, const tsr_zip_entry *entry, const unsigned char **content)
{
  if (entry->size / DEFLATE_LIMIT > entry->packed) {
    return fail_inflate(zip, entry);
  }
  unsigned char *out = tsr_arena_take(zip->arena, entry->size + 1);
  if (!out) {
    return tsr_fail_memory(entry->size + 1);
  }
  z_stream stream = {0};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return tsr_fail_memory(sizeof stream);
  }
  tsr_status status = inflate_all(&stream, zip, entry, out);
  inflateEnd(&stream);
  *content = out;
  return status == TSR_OK ? tsr_zip_verify(zip, entry, out) : status;
}

tsr_status tsr_zip_place(const tsr_zip *zip, tsr_zip_entry *entry, const unsigned char **content)
{
  if (entry->method != TSR_ZIP_STORED && entry->method != TSR_ZIP_DEFLATED) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: entry %s is compressed by method %d; this build knows 0 and 8 (deflate)",
                    zip->path, tsr_quote(entry->name).text, (int)entry->method);
  }
  if (entry->method == TSR_ZIP_DEFLATED && !entry->inflated) {
    TSR_TRY(inflate_entry(zip, entry, &entry->inflated));
  }
  *content = entry->method == TSR_ZIP_STORED ? entry->bytes : entry->inflated;
  return TSR_OK;
}

tsr_status tsr_zip_need(const tsr_zip *zip, const tsr_zip_entry *entry, size_t count)
{
  count = count < entry->size ? count : entry->size;
  return entry->method == TSR_ZIP_STORED ? tsr_tensor_file_need(zip->file, place_of(zip, entry), count) : TSR_OK;
}

tsr_status tsr_zip_content(const tsr_zip *zip, tsr_zip_entry *entry, const unsigned char **content)
{
  TSR_TRY(tsr_zip_place(zip, entry, content));
  return tsr_zip_need(zip, entry, entry->size);
}
