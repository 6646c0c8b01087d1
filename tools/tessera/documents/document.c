/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/documents.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/formats.h"
#include "tools/tessera/documents/html.h"

typedef struct format {
  doc_format_fn translate;
  int32_t is_text;
} format;

/* In the order of the formats. */
static const char *const endings[] = {".docx", ".epub", ".htm", ".html", ".md",  ".odp", ".odt",
                                      ".po",   ".pptx", ".srt", ".txt",  ".vtt", NULL};
static const format formats[] = {
    {doc_format_office, 0},   {doc_format_epub, 0},         {doc_format_html, 1},         {doc_format_html, 1},
    {doc_format_markdown, 1}, {doc_format_opendocument, 0}, {doc_format_opendocument, 0}, {doc_format_catalogue, 1},
    {doc_format_office, 0},   {doc_format_subtitles, 1},    {doc_format_text, 1},         {doc_format_subtitles, 1},
};

const char *const *tsr_document_formats(void)
{
  return endings;
}

void tsr_document_free(void *result)
{
  free(result);
}

tsr_status doc_job_translate(doc_job *job)
{
  tsr_status status = doc_batch_run(&job->batch, job->translator);
  return status;
}

int doc_next_line(const doc_job *job, doc_line *line)
{
  const char *end = job->bytes + job->size;
  line->begin = line->begin ? line->begin + line->full : job->bytes;
  if (line->begin >= end) {
    return 0;
  }
  const char *close = memchr(line->begin, '\n', (size_t)(end - line->begin));
  line->full = (size_t)((close ? close + 1 : end) - line->begin);
  line->size = line->full - (close ? 1 : 0);
  line->size -= close && line->size > 0 && line->begin[line->size - 1] == '\r';
  line->number++;
  return 1;
}

tsr_status doc_format_html(doc_job *job)
{
  doc_html *html = NULL;
  tsr_status status = doc_html_read(job->bytes, job->size, 0, &job->batch, &html);
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = doc_html_write(html, &job->batch, &job->out);
  }
  doc_html_free(html);
  return status;
}

static tsr_document_limits with_defaults(tsr_document_limits limits)
{
  limits.unpacked = limits.unpacked > 0 ? limits.unpacked : (int64_t)256 << 20;
  limits.entries = limits.entries > 0 ? limits.entries : 10000;
  limits.ratio = limits.ratio > 0 ? limits.ratio : 250;
  return limits;
}

/* Text that is no UTF-8, with the line where it stops to be. */
static tsr_status check_text(const doc_job *job)
{
  if (job->size >= 2 && (memcmp(job->bytes, "\xFF\xFE", 2) == 0 || memcmp(job->bytes, "\xFE\xFF", 2) == 0)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected UTF-8, but this is UTF-16", job->name);
  }
  size_t bad = doc_utf8_check(job->bytes, job->size);
  int64_t line = 1;
  if (bad == job->size) {
    return TSR_OK;
  }
  for (size_t i = 0; i < bad; i++) {
    line += job->bytes[i] == '\n';
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s, line %lld: byte %zu is 0x%02X, which is no UTF-8", job->name, (long long)line,
                  bad, (unsigned)(unsigned char)job->bytes[bad]);
}

static tsr_status run(doc_job *job, const format *f, char **result, size_t *result_size)
{
  tsr_status status = TSR_OK;
  job->limits = with_defaults(job->translator->limits);
  job->batch.has_paragraphs = job->translator->paragraphs;
  if ((uint64_t)job->size > (uint64_t)job->limits.unpacked) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu bytes are more than the limit of %lld", job->name, job->size,
                    (long long)job->limits.unpacked);
  }
  if (f->is_text) {
    status = check_text(job);
  }
  if (status == TSR_OK) {
    status = f->translate(job);
  }
  if (status == TSR_OK) {
    status = doc_buffer_take(&job->out, result, result_size);
  }
  doc_batch_finish(&job->batch);
  doc_buffer_finish(&job->out);
  return status;
}

tsr_status tsr_document_html(const tsr_document_translator *translator, const char *html, size_t size, char **result,
                             size_t *result_size)
{
  static const format f = {doc_format_html, 1};
  if (!translator || !translator->translate || !html || !result || !result_size) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_document_html: an argument is NULL");
  }
  doc_job job = {.translator = translator, .name = "the HTML", .bytes = html, .size = size};
  *result = NULL;
  *result_size = 0;
  return run(&job, &f, result, result_size);
}

static const format *find_format(const char *name)
{
  const char *dot = strrchr(name, '.');
  size_t size = dot ? strlen(dot) : 0;
  for (int i = 0; endings[i] && dot; i++) {
    if (strlen(endings[i]) == size && doc_starts(dot, size, endings[i])) {
      return &formats[i];
    }
  }
  return NULL;
}

static tsr_status refuse(const char *name)
{
  doc_buffer list = {0};
  for (int i = 0; endings[i]; i++) {
    doc_buffer_char(&list, ' ');
    doc_buffer_text(&list, endings[i]);
  }
  tsr_status status = doc_buffer_check(&list);
  if (status == TSR_OK) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the name's ending is none of%s", name, list.bytes);
  }
  doc_buffer_finish(&list);
  return status;
}

tsr_status tsr_document_file(const tsr_document_translator *translator, const char *name, const void *bytes,
                             size_t size, void **result, size_t *result_size)
{
  if (!translator || !translator->translate || !name || (!bytes && size > 0) || !result || !result_size) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_document_file: an argument is NULL");
  }
  const char *slash = strrchr(name, '/');
  doc_job job = {.translator = translator, .name = slash ? slash + 1 : name, .bytes = bytes ? bytes : "", .size = size};
  *result = NULL;
  *result_size = 0;
  const format *f = find_format(job.name);
  if (!f) {
    return refuse(job.name);
  }
  char *made = NULL;
  tsr_status status = run(&job, f, &made, result_size);
  *result = made;
  return status;
}
