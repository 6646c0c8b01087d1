/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sentences.
 */
#include "core/text/text_file.h"

#include <stdlib.h>

#include "core/base/status.h"
#include "core/text/markup.h"

struct tsr_text_file {
  tsr_stream stream;
  tsr_text_buffer buffer;
  int64_t number;    /* sentences read */
  int32_t is_markup; /* 1: SGM or XML; 0: lines */
  tsr_markup markup;
};

/* Takes the stream over, whatever comes of it. */
static tsr_status wrap(tsr_stream *stream, int32_t part, tsr_text_file **file)
{
  tsr_text_file *f = calloc(1, sizeof *f);
  if (!f) {
    tsr_stream_finish(stream);
    return tsr_fail_memory(sizeof *f);
  }
  f->stream = *stream;
  f->markup.part = part;
  tsr_status status = part == TSR_TEXT_PLAIN ? TSR_OK : tsr_markup_detect(&f->stream, &f->is_markup);
  if (status != TSR_OK) {
    tsr_text_file_close(f);
    return status;
  }
  *file = f;
  return TSR_OK;
}

tsr_status tsr_text_file_open(const char *path, int32_t part, tsr_text_file **file)
{
  *file = NULL;
  tsr_stream stream;
  TSR_TRY(tsr_stream_open(path, &stream));
  return wrap(&stream, part, file);
}

tsr_status tsr_text_file_view(const char *name, const void *bytes, size_t size, int32_t part, tsr_text_file **file)
{
  *file = NULL;
  tsr_stream stream;
  TSR_TRY(tsr_stream_view(name, bytes, size, &stream));
  return wrap(&stream, part, file);
}

void tsr_text_file_close(tsr_text_file *file)
{
  if (!file) {
    return;
  }
  tsr_stream_finish(&file->stream);
  free(file->buffer.bytes);
  free(file->markup.text.bytes);
  free(file);
}

static tsr_status next_segment(tsr_text_file *file, tsr_corpus_sentence *sentence, int32_t *end)
{
  TSR_TRY(tsr_markup_next(&file->markup, &file->stream, sentence, end));
  if (*end && file->number == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected segments (<seg>) in a SGM or XML file, found none that count",
                    file->stream.name);
  }
  return TSR_OK;
}

static tsr_status next_line(tsr_text_file *file, tsr_corpus_sentence *sentence, int32_t *end)
{
  tsr_line line;
  TSR_TRY(tsr_lines_next(&file->stream, &file->buffer, file->number + 1, &line, end));
  if (!*end) {
    *sentence = (tsr_corpus_sentence){.text = line.text, .size = line.size, .id = ""};
  }
  return TSR_OK;
}

tsr_status tsr_text_file_next(tsr_text_file *file, tsr_corpus_sentence *sentence, int32_t *end)
{
  TSR_TRY(file->is_markup ? next_segment(file, sentence, end) : next_line(file, sentence, end));
  if (!*end) {
    sentence->number = ++file->number;
  }
  return TSR_OK;
}

const char *tsr_text_file_name(const tsr_text_file *file)
{
  return file->stream.name;
}

int tsr_text_file_is_markup(const tsr_text_file *file)
{
  return file->is_markup;
}

int64_t tsr_text_file_tell(const tsr_text_file *file)
{
  return file->stream.offset;
}

/* What is open at a place of a SGM file says what stands before it: it is read again from its beginning. */
static tsr_status seek_segment(tsr_text_file *file, int64_t offset)
{
  tsr_markup fresh = {.part = file->markup.part, .text = file->markup.text};
  file->markup = fresh;
  file->number = 0;
  TSR_TRY(tsr_stream_seek(&file->stream, 0));
  tsr_corpus_sentence sentence;
  for (int32_t end = 0; !end && file->stream.offset < offset;) {
    TSR_TRY(tsr_text_file_next(file, &sentence, &end));
  }
  if (file->stream.offset != offset) {
    return tsr_fail(TSR_ERR_IO, "%s: no segment ends at byte %lld: the file has changed since that position was taken",
                    file->stream.name, (long long)offset);
  }
  return TSR_OK;
}

tsr_status tsr_text_file_seek(tsr_text_file *file, int64_t offset, int64_t number)
{
  TSR_TRY(file->is_markup ? seek_segment(file, offset) : tsr_lines_seek(&file->stream, offset));
  file->number = number;
  return TSR_OK;
}
