/* SPDX-License-Identifier: Apache-2.0
 *
 * Transcripts as text, subtitles, tables and JSON, written segment by segment as they are heard.
 */
#ifndef TESSERA_TOOLS_TRANSCRIPT_WRITER_H
#define TESSERA_TOOLS_TRANSCRIPT_WRITER_H

#include <stdio.h>

#include <jansson.h>

#include "tessera/transcriber.h"

/* TXT: the text of a segment on a line. SRT: SubRip's subtitles. VTT: those of the web (W3C, WebVTT). TSV: start and
 * end in milliseconds, text. JSON: one object, as Whisper's own program writes it, on a line. */
enum { WRITER_TXT, WRITER_SRT, WRITER_VTT, WRITER_TSV, WRITER_JSON, WRITER_FORMS };

/* Names of the forms, which are the endings of files, too; NULL ends the list. */
extern const char *const writer_forms[WRITER_FORMS + 1];

/* A transcript that is being written. */
typedef struct writer {
  FILE *file;
  int32_t form;
  int32_t n_taken;   /* segments so far */
  int32_t n_written; /* of these, those that have a text: the others stand in JSON alone */
} writer;

/* Before the first segment; each segment; and, when the whole is there, the rest. Functions return 0 if memory ran out.
 * What could not be written, the file knows (ferror). */
void writer_begin(writer *w);
int writer_segment(writer *w, const tsr_segment *segment);
int writer_end(writer *w, const char *name, const tsr_transcript *transcript);

/* A segment as WRITER_JSON has it. NULL: memory ran out. */
json_t *writer_segment_json(int32_t number, const tsr_segment *segment);

/* The texts of all segments, one after the other; allocated, with room for one byte more. NULL: memory ran out. */
char *writer_text(const tsr_transcript *transcript);

#endif
