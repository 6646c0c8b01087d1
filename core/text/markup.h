/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments of WMT's SGM and XML files: see corpus.h.
 *
 * A scanner for tags instead of a parser: SGM files are neither well-formed XML nor HTML; a parser that mends them
 * changes texts (a bare <, an unknown tag), holds the whole document, and does not say where in the file it is. Of the
 * dozen element names that occur only seg, doc, src, ref and hyp matter here.
 */
#ifndef TESSERA_CORE_MARKUP_H
#define TESSERA_CORE_MARKUP_H

#include "core/text/lines.h"
#include "tessera/corpus.h"

/* What has to be remembered between segments. Zero it and set `part`; free(text.bytes) ends it. */
typedef struct tsr_markup {
  int32_t part;     /* TSR_TEXT_*: what is read of an XML file */
  int32_t within;   /* TSR_TEXT_*: the element that is open; 0: none */
  int32_t begun;    /* such elements as are read that have begun in this document */
  int32_t left_out; /* 1: the document is */
  int64_t lines;    /* ends of lines before the stream's window */
  char id[64];      /* the segment's; longer ones are cut */
  tsr_text_buffer text;
} tsr_markup;

/* 1 if the file is SGM or XML by what its first bytes or the end of its name are. */
tsr_status tsr_markup_detect(tsr_stream *stream, int32_t *is_markup) TSR_MUST_CHECK;

/* Sets all of *sentence but its number; *end is 1 if no segment follows. Errors: TSR_ERR_IO, TSR_ERR_FORMAT. */
tsr_status tsr_markup_next(tsr_markup *markup, tsr_stream *stream, tsr_corpus_sentence *sentence,
                           int32_t *end) TSR_MUST_CHECK;

#endif
