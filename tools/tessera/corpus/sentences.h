/* SPDX-License-Identifier: Apache-2.0
 *
 * The sentences of several files in a row, as tessera/corpus.h reads them, and how they are cut into shards. Functions
 * that return int return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_CORPUS_SENTENCES_H
#define TESSERA_TOOLS_CORPUS_SENTENCES_H

#include "tessera/corpus.h"
#include "tessera/files.h"

/* About how much text files hold, in bytes; 0: a pipe is among them, and nobody knows. */
int64_t corpus_expected_bytes(const char *const *paths, int32_t n_paths);

/* Writes a text, which holds no line's end, and the end of its line. */
int corpus_put_line(tsr_file_writer *writer, const char *text, size_t size);

/* A place before a sentence. */
typedef struct corpus_place {
  int32_t file;   /* from 0 */
  int64_t offset; /* in the file, as tsr_text_file_tell has it */
  int64_t number; /* sentences of the file before it */
} corpus_place;

typedef struct corpus_files {
  const char *const *paths; /* borrowed */
  int32_t n;
  int32_t part; /* TSR_TEXT_SOURCE or TSR_TEXT_PLAIN */
} corpus_files;

typedef struct corpus_reader {
  const corpus_files *files; /* borrowed */
  corpus_place place;        /* of the sentence that was read last */
  int32_t file_number;       /* of the file that is open */
  tsr_text_file *file;       /* NULL behind the last file */
} corpus_reader;

/* Begins at a place; `files` outlives the reader. Finish it also after a failure. */
int corpus_reader_open(corpus_reader *reader, const corpus_files *files, const corpus_place *place);
void corpus_reader_finish(corpus_reader *reader);

/* Reads the next sentence, which is valid until the next call. *got is 0 behind the last. */
int corpus_reader_next(corpus_reader *reader, tsr_corpus_sentence *sentence, int *got);

/* A part of the sentences. */
typedef struct corpus_shard {
  corpus_place begin;
  int64_t first; /* sentences before it, in all files */
  int64_t n;
  uint64_t sum; /* of corpus_sum of its sentences */
} corpus_shard;

/* A sentence and its number among all, as a number: a shard whose sum is another one holds other sentences. */
uint64_t corpus_sum(const tsr_corpus_sentence *sentence, int64_t index);

typedef struct corpus_shards {
  int32_t n;
  corpus_shard *list;
  int64_t sentences; /* in all files */
} corpus_shards;

/* Reads all files and cuts their sentences into n shards, in order, whose sizes differ by one, or by a 100,000th of all
 * sentences where these are many. n 0: as many as it takes to have at most CORPUS_SHARD_SENTENCES in each. Finish the
 * shards also after a failure. */
enum { CORPUS_SHARD_SENTENCES = 10000, CORPUS_MAX_SHARDS = 99999 };
int corpus_cut(const corpus_files *files, int32_t n, corpus_shards *shards);
void corpus_shards_finish(corpus_shards *shards);

#endif
