/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences that come more than once, in files of any size: each is found once, and what becomes of it is put in all
 * its places. Memory is bounded: the sentences are divided by a hash into parts on disk, so that all that are equal lie
 * in one, and what belongs together is merged by its line. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_CORPUS_DUPLICATES_H
#define TESSERA_TOOLS_CORPUS_DUPLICATES_H

#include "tessera/files.h"
#include "tools/tessera/corpus/sentences.h"

enum { DUPLICATES_MOST_PARTS = 128 };

/* How many parts files of so many bytes are divided into, so that what is kept of one takes `memory` bytes. For more
 * than 64 times as many bytes it takes more. */
int32_t duplicates_parts(int64_t bytes, int64_t memory);

typedef struct duplicates_counts {
  int64_t sentences;
  int64_t distinct;
} duplicates_counts;

/* Writes each sentence of the files once, a line each, in the order in which they first come, to the path `distinct`,
 * and what says where they belong into `folder`. What another run left there is removed. */
int duplicates_find(const corpus_files *files, int32_t n_parts, const char *folder, const char *distinct,
                    duplicates_counts *counts);

/* Takes the next line of what became of the distinct sentences, in their order. Returns an exit code. */
typedef int (*duplicates_line_fn)(void *user, const char **line, size_t *size);

/* Writes the line of each sentence's first place in all its places, in the order of the files. *n receives how many
 * lines these are. */
int duplicates_join(int32_t n_parts, const char *folder, duplicates_line_fn next, void *user, tsr_file_writer *writer,
                    int64_t *n);

#endif
