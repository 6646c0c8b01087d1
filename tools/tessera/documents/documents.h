/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: HTML and files in, the same with translated text out. Structure, styles and everything that is no text
 * stay as they are.
 *
 * A paragraph (what a reader takes for one) is one text. Its inline tags are taken out, its sentences are translated
 * with their alignment, and each tag is put around the words that were made from those that it enclosed. A paragraph
 * whose translation is the same text keeps its bytes.
 *
 * A build without libxml2 or libzip has these functions, too: they return TSR_ERR_UNSUPPORTED, and there are no
 * formats.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_H
#define TESSERA_TOOLS_DOCUMENTS_H

#include "tessera/translator.h"

/* What a document may cost at most; 0: the default. */
typedef struct tsr_document_limits {
  int64_t unpacked; /* bytes of all entries of an archive together, unpacked, and of a document; 0: 256 MiB */
  int32_t entries;  /* of an archive; 0: 10,000 */
  int32_t ratio;    /* bytes of an entry of more than a MiB for each byte that it is packed into; 0: 250 */
  int32_t batch;    /* texts handed over in one call; 0: 2,000 */
  int32_t reserved;
} tsr_document_limits;

/* A paragraph or a sentence: `size` bytes of UTF-8, and a NUL. */
typedef struct tsr_document_text {
  const char *text;
  size_t size;
} tsr_document_text;

/* Bytes of a translation, and those of the text that they were made from. */
typedef struct tsr_document_link {
  int32_t target_begin;
  int32_t target_end;
  int32_t source_begin;
  int32_t source_end;
} tsr_document_link;

/* What a text became. Allocated with malloc, and freed by who asked. */
typedef struct tsr_document_answer {
  char *text; /* NUL-terminated */
  tsr_document_link *links;
  int32_t n_links; /* 0: the model does not align; words are then taken to follow each other as in the text */
} tsr_document_answer;

typedef struct tsr_document_translator {
  /* Translates n texts. answers [n], zeros, receive the answers; after an error they may have some. A text comes once,
   * however often the document has it. Called by the thread that called the function below. Not NULL. */
  tsr_status (*translate)(void *user, int32_t n, const tsr_document_text *texts, tsr_document_answer *answers);
  void *user;
  /* 0: each sentence of a paragraph is a text, for a model that was trained on sentences leaves out what comes behind
   * the first. 1: a paragraph is. */
  int32_t paragraphs;
  int32_t reserved;
  tsr_document_limits limits;
  /* Called before the first text, after each call of `translate`, and with as many texts as there are. An error that
   * it returns ends the work, and is returned: for a caller whose client has gone away. NULL: nobody asks. */
  tsr_status (*progress)(void *progress_user, int64_t done, int64_t total);
  void *progress_user;
} tsr_document_translator;

/* What a translator answers to `text` (tessera/translator.h), as an answer here: its best translation, and links where
 * the request asked for spans and alignment. An answer with an error gives that error. */
tsr_status tsr_document_take(const tsr_document_text *text, const tsr_translation *translation,
                             tsr_document_answer *answer) TSR_MUST_CHECK;

/* Translates the text of HTML, a fragment or a page, which is UTF-8. `html` need not end with a NUL. Markup that is
 * wrong gives what can be made of it. Text within script, style, code, pre, kbd, samp, var, textarea, svg, math and
 * their like, and within translate="no" and class="notranslate", is left alone; so are attributes.
 * *result is the caller's, who frees it with tsr_document_free; a NUL, which is not counted, follows its *result_size
 * bytes. Blocks while `translate` does. Any number of threads. Errors: TSR_ERR_FORMAT (no UTF-8, larger than the
 * limit), what `translate` returned, TSR_ERR_OUT_OF_MEMORY, TSR_ERR_ARGUMENT (NULL),
 * TSR_ERR_UNSUPPORTED; there is no result then, and *result is NULL. */
tsr_status tsr_document_html(const tsr_document_translator *translator, const char *html, size_t size, char **result,
                             size_t *result_size) TSR_MUST_CHECK;

/* Translates a file. Its name's ending, one of tsr_document_formats in letters of either case, says what it is.
 *   name   may be a path; messages name it without its folders
 * Otherwise as above. Errors: also TSR_ERR_FORMAT (another ending; an archive or an XML part that is broken, encrypted
 * or passes a limit; entities of its own; a wrong line of subtitles or of a catalogue: the message tells where). */
tsr_status tsr_document_file(const tsr_document_translator *translator, const char *name, const void *bytes,
                             size_t size, void **result, size_t *result_size) TSR_MUST_CHECK;

/* The endings, with their dots: ".txt", ".html" .. NULL ends the list. Static. */
const char *const *tsr_document_formats(void);

/* Frees a result, as free does. Takes NULL. */
void tsr_document_free(void *result);

#endif
