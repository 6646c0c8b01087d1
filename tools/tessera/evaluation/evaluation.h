/* SPDX-License-Identifier: Apache-2.0
 *
 * The scores of translations: of one way to translate or of several side by side, of the whole, of sentences by their
 * length and, where that is asked for, of each sentence, with what may be wrong with it. Functions that return int
 * return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_EVALUATION_H
#define TESSERA_TOOLS_EVALUATION_H

#include <stdio.h>

#include "tessera/eval.h"
#include "tools/tessera/common/json.h"

enum { EVALUATION_VARIANTS = 8, EVALUATION_BUCKETS = 7, EVALUATION_NAME = 64 };

/* Sentences that count together. */
typedef struct evaluation_group {
  tsr_scorer *scorer;
  int64_t words;
  int64_t reference_words;
  int64_t repeats[TSR_BLEU_ORDER];
  int64_t doubled;
  int64_t flaws[TSR_FLAWS]; /* sentences */
} evaluation_group;

/* A way to translate. */
typedef struct evaluation_variant {
  char name[EVALUATION_NAME];
  evaluation_group all;
  evaluation_group buckets[EVALUATION_BUCKETS]; /* by the words of the source; of the reference without one */
  double seconds;                               /* of the search; 0: not known, likewise the next */
  int64_t tokens;                               /* written */
  int64_t cut;                                  /* outputs that the search ended; also without an analysis */
} evaluation_variant;

typedef struct evaluation_output {
  tsr_span text; /* allocated */
  double bleu;
  double chrf;
  tsr_facts facts;
} evaluation_output;

typedef struct evaluation_sentence {
  int64_t number;
  tsr_span source;            /* allocated, likewise the next; bytes NULL: there is none */
  tsr_span *references;       /* [n_references] */
  evaluation_output *outputs; /* [n_variants] */
} evaluation_sentence;

/* Zero it, set the first six fields and the names of the variants, and begin it. */
typedef struct evaluation {
  int32_t n_variants;
  int32_t n_references;
  int has_cuts;               /* it is known which outputs were cut */
  int keeps;                  /* sentences are kept and analysed */
  int has_wer;                /* the word error rate is wanted, too */
  tsr_normalizer *normalizer; /* of the texts for the word error rate, borrowed; NULL: none */
  evaluation_variant variants[EVALUATION_VARIANTS];
  evaluation_sentence *sentences; /* [n] */
  int64_t n;
  int64_t room;
  int64_t forgotten; /* sentences that were counted and not kept */
  tsr_analyser *analyser;
} evaluation;

int evaluation_begin(evaluation *e);
void evaluation_finish(evaluation *e); /* takes a zeroed one */

/* Adds a sentence, copying the texts; its number is e->n before. source: bytes may be NULL. references
 * [n_references]. */
int evaluation_add(evaluation *e, int64_t number, tsr_span source, const tsr_span *references);

/* Adds a variant's output for a sentence. Every sentence gets one of each variant, once. */
int evaluation_add_output(evaluation *e, int32_t variant, int64_t sentence, tsr_span text, int is_cut);

/* Drops the sentences, unless they are to be kept. */
void evaluation_forget(evaluation *e);

/* The name of a flaw. Static. */
const char *evaluation_flaw(int32_t flaw);

/* "up to 4", "5 to 9" and so on: writes into text (at least 32 bytes) and returns it. */
char *evaluation_bucket(int32_t bucket, char *text);

/* Of kept sentences: lists (in *list, the caller's) their places, *n of them. The worst of the first variant; those on
 * which the variants differ, the one with the largest difference of sentence BLEU first. */
int evaluation_worst(const evaluation *e, int64_t **list, int64_t *n);
int evaluation_differing(const evaluation *e, int64_t **list, int64_t *n);

/* The signature of sentence BLEU: effective order. Writes into text (128 bytes are enough) and returns it. */
char *evaluation_sentence_signature(const evaluation *e, char *text, size_t size);

/* All of it as JSON, with `limit` sentences of each list; NULL without memory. */
json_t *evaluation_json(const evaluation *e, int64_t limit);

/* All of it as a page, with the `limit` worst sentences. */
int evaluation_write_page(const evaluation *e, int64_t limit, const char *title, const char *path);

/* All of it as text on stdout. */
int evaluation_print(const evaluation *e, int has_analysis, int64_t limit);

#endif
