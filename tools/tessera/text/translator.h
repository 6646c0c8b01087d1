/* SPDX-License-Identifier: Apache-2.0
 *
 * A model, its tokenizer and a device, for the subcommands that translate text: their options, and translating chunks
 * of sentences, so that a stream of any length is translated in constant memory, and the batches within a chunk can
 * still be sorted by length. Functions that return int return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_TRANSLATOR_H
#define TESSERA_TOOLS_TRANSLATOR_H

#include <stdio.h>

#include "tessera/generate.h"
#include "tessera/text.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/search_options.h"

/* The rows of translator_options. */
enum { N_TRANSLATOR_OPTIONS = 10 };

typedef struct translator_settings {
  const char *model;
  const char *device;
  search_settings search;
  int scores;    /* 1: greedy search and sampling compute scores, too */
  int32_t batch; /* 0: the library's default; likewise workers */
  int32_t workers;
  tsr_dtype weights; /* 0: as stored */
  int strict;
  int profile;                 /* 1: the transformer keeps times */
  int32_t long_input;          /* TSR_LONG_* */
  int32_t max_source;          /* tokens of a source; 0: as many as the model has positions */
  const char *source_language; /* NULL: the tokenizer's choice; likewise target_language */
  const char *target_language;
  int32_t n_best; /* 0: one; --n-best, which not all commands have */
  char is_given[N_TRANSLATOR_OPTIONS];
} translator_settings;

/* The options, into translator_settings; those of the search are among them. */
extern const tsr_option_table translator_options;

/* 1 if one of them was given. */
int translator_settings_given(const translator_settings *settings);

enum { TRANSLATOR_CHUNK = 1000, TRANSLATOR_DEVICES = 8 };

struct translator;

/* Makes the text of what a part of a sentence was translated to; exit code. Free *text with tsr_free. */
typedef int (*translator_writer)(void *user, const struct translator *t, int32_t index, int32_t part,
                                 const tsr_hypothesis *hypothesis, char **text);

/* Zero it. */
typedef struct translator {
  const translator_settings *settings;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_tokenizer_info text; /* of the tokenizer, with the languages chosen */
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_generate_options options;
  search_lists lists; /* of the options */
  tsr_cli_progress progress;
  translator_writer write; /* NULL: translator_text */
  void *write_user;
  void (*restart)(void *user); /* a sentence whose tokens were handed out is translated once more; or NULL */
  void *restart_user;
  const char *file;                    /* of the chunk's sentences */
  int64_t lines[TRANSLATOR_CHUNK];     /* theirs */
  char failed[TRANSLATOR_DEVICES][64]; /* devices that failed, by name */
  int32_t n_failed;
  tsr_generate_statistics earlier; /* of what was searched on them */
  int64_t done;                    /* sentences of the chunks before this one */
  int64_t parts_done;              /* and the parts that they were translated in */
  double start;                    /* when opening began, in seconds, and when it had ended */
  double loaded;
  int outcome;                          /* TSR_EXIT_OK, or the exit code for a sentence that was refused */
  int32_t n;                            /* sentences of this chunk */
  tsr_source sources[TRANSLATOR_CHUNK]; /* theirs */
} translator;

/* Chooses the languages of a tokenizer; NULL: as they are. What the tokenizer does not have is a wrong command line. */
int translator_choose_languages(tsr_tokenizer *tokenizer, const char *source, const char *target);

/* Loads the model on the device. `settings` outlives the translator. Finish it also after a failure. */
int translator_open(translator *t, const translator_settings *settings);
void translator_finish(translator *t);

/* Adds a sentence to the chunk, which has room for it. One with more tokens than the model has positions is treated as
 * --long-input says, and reported by its file and line. One that is refused counts as an empty one, and sets
 * t->outcome: the others are still translated. */
int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size);

/* The text of target ids. The language's token that the search was made to begin with is no text, even where the
 * tokenizer takes it for some. Free *text with tsr_free. */
int translator_text(const translator *t, const int32_t *ids, int32_t n_ids, char **text);

typedef struct translation {
  int32_t index;   /* in the chunk */
  int32_t n_parts; /* that the source was translated in; 0: there was no text to translate */
  int32_t rank;    /* of the hypothesis, from 0: each of options.n_best is handed over */
  int is_cut;      /* the output ended because it had reached its greatest length */
  const char *text;
  const tsr_hypothesis
      *hypothesis; /* of several parts: their ids in a row, and the mean of their scores, weighted with the
                                 numbers of their tokens */
} translation;

/* Receives the chunk's translations, in order. */
typedef int (*translator_receiver)(void *user, const translation *translation);

/* Translates the chunk. Where the device fails, the rest of the chunk and all later ones are translated on another one
 * if `auto` chose it, with a warning; otherwise the sentences before the first that is not finished are handed over,
 * and the message tells up to which line. */
int translator_search(translator *t, const tsr_generate_options *options, translator_receiver receive, void *user);

/* Empties it. */
void translator_clear(translator *t);

/* Both, with the options of the model and the command line. */
int translator_run(translator *t, translator_receiver receive, void *user);

/* What the search took so far, on all devices. */
void translator_measure(const translator *t, tsr_generate_statistics *statistics);

/* Prints on stderr what loading and translating took. */
void translator_print_timings(const translator *t);

#endif
