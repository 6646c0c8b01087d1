/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a stream: see corpus.h for what a line is.
 */
#ifndef TESSERA_CORE_LINES_H
#define TESSERA_CORE_LINES_H

#include "core/base/text_buffer.h"
#include "core/text/stream.h"

typedef struct tsr_line {
  const char *text; /* UTF-8, without the line's end; valid until the stream or the buffer is touched again */
  size_t size;
} tsr_line;

/* Skips a byte order mark at the stream's beginning; nothing elsewhere. */
tsr_status tsr_lines_skip_mark(tsr_stream *stream) TSR_MUST_CHECK;

/* Reads the next line; *end is 1 if there is none. `number` is the line's, for messages. Errors: TSR_ERR_IO,
 * TSR_ERR_FORMAT (longer than TSR_LINE_LIMIT). */
tsr_status tsr_lines_next(tsr_stream *stream, tsr_text_buffer *buffer, int64_t number, tsr_line *line,
                          int32_t *end) TSR_MUST_CHECK;

/* Goes to an offset where a line begins, or to the end. Errors: TSR_ERR_IO (also where no line begins). */
tsr_status tsr_lines_seek(tsr_stream *stream, int64_t offset) TSR_MUST_CHECK;

#endif
