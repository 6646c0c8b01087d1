/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a request on their way through one or two models. A text is translated line by line, and keeps its line
 * breaks and the white space around its lines.
 */
#ifndef TESSERA_SERVE_WORK_H
#define TESSERA_SERVE_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "tools/tessera/serve/models.h"

typedef struct work work;

enum {
  WORK_DONE,
  WORK_CANCELLED,
  WORK_LATE,
  WORK_REFUSED, /* by the model, or the model cannot be opened */
  WORK_FAILED
};

typedef struct work_options {
  int32_t alternatives; /* beside the best */
  int32_t alignment;
  const char *prefix; /* of the first line's translation; NULL: none. Copied */
  int32_t next_words; /* words that may follow the prefix; 0: nobody asks */
  double deadline;    /* of the steady clock */
  /* Text of one of the texts as it comes: in order, text after text; from any thread, one at a time. NULL: nobody
   * asks. */
  void (*piece)(void *user, int32_t text, const char *bytes, size_t size);
  /* Everything is translated, or something failed. Once, from any thread, also from within work_start. */
  void (*done)(void *user, work *w);
  void *user;
} work_options;

/* Translates `n` texts, which are copied. The set is released with the work. *made is the caller's until work_release.
 * Returns 0 if memory ran out; then the set is not released. */
int work_create(models *m, model_set *set, const route *way, int32_t n, const char *const *texts, const size_t *sizes,
                const work_options *options, work **made);
void work_hold(work *w);
void work_release(work *w);

/* Lines with something to translate, over all works that are started and not done. */
int32_t work_lines(const work *w);
int64_t work_lines_in_hand(void);

/* Counts the lines among those in hand. Returns 0, and does nothing, if there would be more than `most`. They are in
 * hand until the work is done, or until it is released without having been started. */
int work_reserve(work *w, int64_t most);

/* Of a work that was reserved. */
void work_start(work *w);

/* Asks to give it up; `done` follows. Any thread, at any time. */
void work_cancel(work *w);

/* After `done`. `of`: the number of a text. */
int work_outcome(const work *w);
int32_t work_n_texts(const work *w);
int32_t work_n_alternatives(const work *w, int32_t of); /* that differ from the best and each other */

/* The translation of a text, or an alternative from 1; allocated, NUL-terminated. NULL: memory ran out. */
char *work_text(const work *w, int32_t of, int32_t alternative, size_t *size);

/* With options.alignment: pairs of places, [4 n]: source begin, end, translation begin, end, in characters of the two
 * texts, or in bytes. Of a way through another language: what words of that language join. Allocated. NULL: none was
 * asked for, or memory ran out. */
int32_t *work_alignment(const work *w, int32_t of, int32_t *n);
int32_t *work_alignment_bytes(const work *w, int32_t of, int32_t *n);

#endif
