/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/corpus.h: corpora: files of sentences and of sentence pairs, of any size, read one by one.
 *
 * The file's content, or else its name, says which of these it is:
 *   plain text   one sentence a line
 *   TSV          one pair a line: source and target are its first two columns, split at tabs
 *   SGM          what WMT distributed until 2020: <srcset>, <refset> or <tstset>, <doc>, <seg id="1">text</seg>. It
 *                is not well-formed XML. Only the text in <seg> is read, without white space at its ends, and with one
 *                space for white space inside; character references (&amp; &#39; &nbsp; ...) stand for characters,
 *                other & and < for themselves
 *   XML          WMT's from 2021 on: source, references and systems' outputs (<src>, <ref>, <hyp>) in one file. If a
 *                document has several references, the first counts; documents marked as a test suite are left out
 *
 * Any of these may be compressed by gzip or zstd; the content tells, not the name. It is decompressed as it is read, in
 * little memory: zstd's window is at most 128 MiB, as large as zstd decompresses without being asked to. A file of
 * several members of gzip or frames of zstd is read to its end. A build without libzstd says that it cannot read zstd.
 *
 * A line ends with LF, CR LF, or the end of the file. A byte order mark at a file's beginning is skipped. What is not
 * UTF-8 is read as U+FFFD; NUL bytes are characters like others. A line has at most TSR_LINE_LIMIT bytes.
 */
#ifndef TESSERA_CORPUS_H
#define TESSERA_CORPUS_H

#include "tessera/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TSR_LINE_LIMIT = 1 << 24 };

/* ------------------------------------------------------------------------------------------------------------------
 * One side: sentences
 */
/* Which elements of an XML file count; or that a file is plain text, whatever it looks like. */
enum { TSR_TEXT_SOURCE = 1, TSR_TEXT_REFERENCE = 2, TSR_TEXT_HYPOTHESIS = 3, TSR_TEXT_PLAIN = 4 };

typedef struct tsr_text_file tsr_text_file;

/* Valid until the next call about the file. */
typedef struct tsr_corpus_sentence {
  const char *text; /* UTF-8; not NUL-terminated */
  size_t size;      /* bytes */
  int64_t number;   /* of the sentence, from 1: in plain text the line's */
  const char *id;   /* <seg id="...">; "" where there is none */
  int32_t part;     /* TSR_TEXT_*: the element of an XML file that it stands in; 0: none */
} tsr_corpus_sentence;

/* A plain text, SGM or XML file, compressed or not; a pipe, too. `part` is TSR_TEXT_*. One thread at a time. *file is
 * the caller's until tsr_text_file_close. Errors: TSR_ERR_IO; TSR_ERR_FORMAT (broken compressed bytes);
 * TSR_ERR_UNSUPPORTED (zstd, in a build without it), naming the file. */
TSR_API tsr_status tsr_text_file_open(const char *path, int32_t part, tsr_text_file **file) TSR_MUST_CHECK;

/* The same for bytes in memory, which outlive the file; messages call it `name`. */
TSR_API tsr_status tsr_text_file_view(const char *name, const void *bytes, size_t size, int32_t part,
                                      tsr_text_file **file) TSR_MUST_CHECK;
TSR_API void tsr_text_file_close(tsr_text_file *file); /* takes NULL */

/* The next sentence; *end is 1 and nothing else set if there is none. After an error the file can be sought or closed.
 * Errors: TSR_ERR_IO; TSR_ERR_FORMAT (a line beyond the limit, broken markup), naming file and line, and (compressed
 * bytes that are broken or cut off), naming file and byte. */
TSR_API tsr_status tsr_text_file_next(tsr_text_file *file, tsr_corpus_sentence *sentence, int32_t *end) TSR_MUST_CHECK;

/* Where the next sentence is looked for: bytes of the text from its beginning, decompressed. May be stored and used in
 * another process, on the same file. */
TSR_API int64_t tsr_text_file_tell(const tsr_text_file *file);

/* Goes to an offset that tsr_text_file_tell gave after `number` sentences. A compressed file is decompressed up to it,
 * a SGM or XML file is read up to it. Errors: TSR_ERR_IO (a pipe, or an offset where no line or segment begins: the
 * file has changed), and those of tsr_text_file_next. */
TSR_API tsr_status tsr_text_file_seek(tsr_text_file *file, int64_t offset, int64_t number) TSR_MUST_CHECK;

TSR_API const char *tsr_text_file_name(const tsr_text_file *file);

/* ------------------------------------------------------------------------------------------------------------------
 * Both sides: pairs
 */
typedef struct tsr_corpus_files {
  const char *source; /* path */
  const char *target; /* path; NULL: `source` has both sides, as TSV or XML */
  int32_t part;       /* what `source` is if it is XML: TSR_TEXT_HYPOTHESIS, or 0 for TSR_TEXT_SOURCE */
} tsr_corpus_files;

typedef struct tsr_corpus tsr_corpus;

/* Valid until the next call about the corpus. */
typedef struct tsr_corpus_pair {
  const char *source; /* UTF-8; not NUL-terminated; may be empty */
  const char *target;
  size_t source_size; /* bytes */
  size_t target_size;
  int64_t number; /* of the pair, from 1: the line in plain text and TSV */
} tsr_corpus_pair;

/* Where the next pair begins. Zero: at the beginning. May be stored and used in another process, on the same files. */
typedef struct tsr_corpus_position {
  int64_t source; /* bytes from the beginning of each text, decompressed */
  int64_t target; /* 0 where there is one file */
  int64_t number; /* pairs before it */
} tsr_corpus_position;

/* One thread at a time. *corpus is the caller's until tsr_corpus_close. Errors: those of tsr_text_file_open. */
TSR_API tsr_status tsr_corpus_open(const tsr_corpus_files *files, tsr_corpus **corpus) TSR_MUST_CHECK;
TSR_API void tsr_corpus_close(tsr_corpus *corpus); /* takes NULL */

/* The next pair; *end is 1 and nothing else set if there is none. After an error the corpus can be sought or closed.
 * Errors: TSR_ERR_IO; TSR_ERR_FORMAT: a file that ends before the other (which one, and where), a line of a TSV without
 * a tab, segments of a document whose ids differ, and those of tsr_text_file_next, naming file and line. */
TSR_API tsr_status tsr_corpus_next(tsr_corpus *corpus, tsr_corpus_pair *pair, int32_t *end) TSR_MUST_CHECK;

/* Column 3 or a further one of the line that the last pair was, in a TSV: not NUL-terminated, valid as the pair is; ""
 * where there is none. */
TSR_API void tsr_corpus_column(const tsr_corpus *corpus, int32_t column, const char **text, size_t *size);

TSR_API void tsr_corpus_tell(const tsr_corpus *corpus, tsr_corpus_position *position);

/* Errors: TSR_ERR_IO (a pipe, or a position where no line begins: the file has changed), and those of
 * tsr_text_file_next. */
TSR_API tsr_status tsr_corpus_seek(tsr_corpus *corpus, const tsr_corpus_position *position) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
