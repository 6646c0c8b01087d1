/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/lines.h"

#include <string.h>

#include "core/base/status.h"
#include "tessera/corpus.h"

tsr_status tsr_lines_skip_mark(tsr_stream *stream)
{
  static const char mark[] = {'\xEF', '\xBB', '\xBF'};
  if (stream->offset != 0) {
    return TSR_OK;
  }
  while (stream->end - stream->begin < sizeof mark && !stream->at_end) {
    TSR_TRY(tsr_stream_fill(stream));
  }
  if (stream->end - stream->begin >= sizeof mark && memcmp(stream->window + stream->begin, mark, sizeof mark) == 0) {
    tsr_stream_skip(stream, sizeof mark);
  }
  return TSR_OK;
}

tsr_status tsr_lines_next(tsr_stream *stream, tsr_text_buffer *buffer, int64_t number, tsr_line *line, int32_t *end)
{
  const size_t longest = (size_t)TSR_LINE_LIMIT + strlen("\r\n");
  TSR_TRY(tsr_lines_skip_mark(stream));
  const char *feed = NULL;
  for (size_t seen = 0;;) {
    size_t unread = stream->end - stream->begin;
    if (unread > seen) {
      feed = memchr(stream->window + stream->begin + seen, '\n', unread - seen);
    }
    if (feed || stream->at_end || unread > longest) {
      break;
    }
    seen = unread;
    TSR_TRY(tsr_stream_fill(stream));
  }

  size_t unread = stream->end - stream->begin;
  *end = unread == 0;
  if (*end) {
    return TSR_OK;
  }
  const char *text = stream->window + stream->begin;
  size_t size = feed ? (size_t)(feed - text) : unread;
  size_t used = feed ? size + 1 : size;
  if (feed && size > 0 && text[size - 1] == '\r') {
    size--;
  }
  if (size > TSR_LINE_LIMIT) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s:%lld: the line has more than %d bytes; is this a text with one sentence a line?", stream->name,
                    (long long)number, TSR_LINE_LIMIT);
  }
  tsr_stream_skip(stream, used);
  return tsr_text_buffer_clean(buffer, text, size, &line->text, &line->size);
}

tsr_status tsr_lines_seek(tsr_stream *stream, int64_t offset)
{
  if (offset <= 0) {
    return tsr_stream_seek(stream, offset);
  }
  TSR_TRY(tsr_stream_seek(stream, offset - 1));
  while (stream->end - stream->begin < 2 && !stream->at_end) {
    TSR_TRY(tsr_stream_fill(stream));
  }
  size_t unread = stream->end - stream->begin;
  int begins = unread > 0 && (unread == 1 || stream->window[stream->begin] == '\n');
  if (!begins) {
    return tsr_fail(TSR_ERR_IO, "%s: no line begins at byte %lld: the file has changed since that position was taken",
                    stream->name, (long long)offset);
  }
  tsr_stream_skip(stream, 1);
  return TSR_OK;
}
