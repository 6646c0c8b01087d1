/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/compressed.h"

#include <string.h>
#include <strings.h>

#include "core/base/status.h"

size_t tsr_compressed_stem(const char *name)
{
  static const char *const endings[] = {".gz", ".zst"};
  size_t size = strlen(name);
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    size_t n = strlen(endings[i]);
    if (size > n && strcasecmp(name + size - n, endings[i]) == 0) {
      return size - n;
    }
  }
  return size;
}

tsr_status tsr_compressed_begin(const char *name, const char *bytes, size_t size, tsr_compressed *c)
{
  static const tsr_codec *const codecs[] = {&tsr_codec_gzip, &tsr_codec_zstd};
  *c = (tsr_compressed){0};
  const tsr_codec *codec = NULL;
  for (size_t i = 0; i < sizeof codecs / sizeof codecs[0] && !codec; i++) {
    codec = codecs[i]->begins((const unsigned char *)bytes, size) ? codecs[i] : NULL;
  }
  if (!codec && size < TSR_COMPRESSED_MARK && name[tsr_compressed_stem(name)] != '\0') {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected a compressed file, found %zu bytes; is it cut off?", name, size);
  }
  if (codec && !codec->open) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: is compressed by %s, which this build of Tessera cannot read (it was built without lib%s); "
                    "decompress the file first",
                    name, codec->format, codec->format);
  }
  if (codec) {
    TSR_TRY(codec->open(&c->state));
    c->codec = codec;
    c->name = name;
  }
  return TSR_OK;
}

void tsr_compressed_finish(tsr_compressed *c)
{
  if (c->codec) {
    c->codec->close(c->state);
  }
  *c = (tsr_compressed){0};
}

void tsr_compressed_restart(tsr_compressed *c)
{
  c->codec->restart(c->state);
  *c = (tsr_compressed){.codec = c->codec, .state = c->state, .name = c->name};
}

static tsr_status fail(const tsr_compressed *c)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: the %s %s that begins at compressed byte %lld is broken at byte %lld: %s",
                  c->name, c->codec->format, c->codec->unit, (long long)c->unit_begin, (long long)c->offset, c->fault);
}

static tsr_status fail_early_end(const tsr_compressed *c)
{
  return tsr_fail(TSR_ERR_FORMAT,
                  "%s: ends in the middle of a %s %s: it begins at compressed byte %lld, and the file ends at byte "
                  "%lld; is the file cut off?",
                  c->name, c->codec->format, c->codec->unit, (long long)c->unit_begin, (long long)c->offset);
}

tsr_status tsr_compressed_read(tsr_compressed *c, char *out, size_t room, size_t *given)
{
  *given = 0;
  while (!c->fault && *given < room && (c->left > 0 || c->within)) {
    if (!c->within) {
      c->unit_begin = c->offset;
      c->within = 1;
    }
    tsr_codec_step step = {.in = c->next, .in_size = c->left, .out = out + *given, .room = room - *given};
    tsr_codec_progress progress = c->codec->step(c->state, &step);
    size_t used = c->left - step.in_size;
    size_t made = room - *given - step.room;
    c->next = step.in;
    c->left = step.in_size;
    c->offset += (int64_t)used;
    c->fault = step.fault;
    c->within = progress != TSR_CODEC_ENDED;
    *given += made;
    if (progress == TSR_CODEC_NO_MEMORY) {
      return tsr_fail_memory(room);
    }
    if (progress == TSR_CODEC_GOES_ON && used == 0 && made == 0) {
      break;
    }
  }
  if (*given > 0) {
    return TSR_OK; /* what is wrong behind this text is said once it has been read */
  }
  if (c->fault) {
    return fail(c);
  }
  return c->within && c->left == 0 && c->at_end ? fail_early_end(c) : TSR_OK;
}
