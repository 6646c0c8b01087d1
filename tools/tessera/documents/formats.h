/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of files. Each reads what the file has to say, has the batch translated, and writes the file anew.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_FORMATS_H
#define TESSERA_TOOLS_DOCUMENTS_FORMATS_H

#include "tools/tessera/documents/batch.h"
#include "tools/tessera/documents/documents.h"

typedef struct doc_job {
  const tsr_document_translator *translator;
  tsr_document_limits limits; /* with the defaults */
  const char *name;           /* for messages */
  const char *bytes;
  size_t size;
  doc_batch batch;
  doc_buffer out;
} doc_job;

/* Each fills job->out. Those of text know that the bytes are UTF-8. */
typedef tsr_status (*doc_format_fn)(doc_job *job);
tsr_status doc_format_text(doc_job *job) TSR_MUST_CHECK;
tsr_status doc_format_html(doc_job *job) TSR_MUST_CHECK;
tsr_status doc_format_subtitles(doc_job *job) TSR_MUST_CHECK; /* .srt, .vtt */
tsr_status doc_format_catalogue(doc_job *job) TSR_MUST_CHECK; /* .po */
tsr_status doc_format_markdown(doc_job *job) TSR_MUST_CHECK;
tsr_status doc_format_office(doc_job *job) TSR_MUST_CHECK;       /* .docx, .pptx */
tsr_status doc_format_opendocument(doc_job *job) TSR_MUST_CHECK; /* .odt, .odp */
tsr_status doc_format_epub(doc_job *job) TSR_MUST_CHECK;

/* Translates what the batch was asked for. */
tsr_status doc_job_translate(doc_job *job) TSR_MUST_CHECK;

/* Lines, with their ends: LF or CR LF. 0 at the end. */
typedef struct doc_line {
  const char *begin;
  size_t size; /* without the end */
  size_t full; /* with it */
  int64_t number;
} doc_line;
int doc_next_line(const doc_job *job, doc_line *line);

#endif
