/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sentences.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/text/text_file.h"

struct tsr_text_file {
  tsr_stream stream;
  tsr_text_buffer buffer;
  int64_t number; /* sentences read */
};

/* Takes the stream over, whatever comes of it. */
static tsr_status wrap(tsr_stream *stream, tsr_text_file **file)
{
  *file = calloc(1, sizeof **file);
  if (!*file) {
    tsr_stream_finish(stream);
    return tsr_fail_memory(sizeof **file);
  }
  (*file)->stream = *stream;
  return TSR_OK;
}

tsr_status tsr_text_file_open(const char *path, int32_t part, tsr_text_file **file)
{
  *file = NULL;
  (void)part;
  tsr_stream stream;
  TSR_TRY(tsr_stream_open(path, &stream));
  return wrap(&stream, file);
}

tsr_status tsr_text_file_view(const char *name, const void *bytes, size_t size, int32_t part, tsr_text_file **file)
{
  *file = NULL;
  (void)part;
  tsr_stream stream;
  TSR_TRY(tsr_stream_view(name, bytes, size, &stream));
  return wrap(&stream, file);
}

void tsr_text_file_close(tsr_text_file *file)
{
  if (!file)
    return;
  tsr_stream_finish(&file->stream);
  free(file->buffer.bytes);
  free(file);
}

tsr_status tsr_text_file_next(tsr_text_file *file, tsr_sentence *sentence, int32_t *end)
{
  tsr_line line;
  TSR_TRY(tsr_lines_next(&file->stream, &file->buffer, file->number + 1, &line, end));
  if (!*end)
    *sentence = (tsr_sentence){.text = line.text, .size = line.size, .number = ++file->number, .id = ""};
  return TSR_OK;
}

const char *tsr_text_file_name(const tsr_text_file *file)
{
  return file->stream.name;
}

int64_t tsr_text_file_tell(const tsr_text_file *file)
{
  return file->stream.offset;
}

tsr_status tsr_text_file_seek(tsr_text_file *file, int64_t offset, int64_t number)
{
  TSR_TRY(tsr_lines_seek(&file->stream, offset));
  file->number = number;
  return TSR_OK;
}
