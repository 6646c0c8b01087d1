/* SPDX-License-Identifier: Apache-2.0
 *
 * A model, its tokenizer and devices, for the subcommands that translate text: their options, and translating chunks
 * of sentences, so that a stream of any length is translated in constant memory, and the batches within a chunk can
 * still be sorted by length. Functions that return int return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_TRANSLATOR_H
#define TESSERA_TOOLS_TRANSLATOR_H

#include "tessera/translator.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/search_options.h"

/* The help of --device where a command computes on one. */
#define TRANSLATOR_ONE_DEVICE                                                                                          \
  "where to compute: vulkan:0, reference, auto ... (see `tessera devices`); several only with --split"

/* The rows of translator_options. */
enum { N_TRANSLATOR_OPTIONS = 11 };

typedef struct translator_settings {
  const char *model;
  tsr_names devices; /* none: TESSERA_DEVICE, else auto */
  int split;         /* 1: the model is split over the devices */
  search_settings search;
  int scores;    /* 1: greedy search and sampling compute scores, too */
  int32_t batch; /* 0: the library's default; likewise workers */
  int32_t workers;
  tsr_dtype weights; /* 0: as stored */
  int strict;
  int profile;                 /* 1: the transformer keeps times */
  int32_t alignment_layer;     /* as in tsr_translator_options */
  int32_t long_input;          /* TSR_LONG_* */
  int32_t max_source;          /* tokens of a source; 0: as many as the model has positions */
  const char *source_language; /* NULL: the tokenizer's choice; likewise target_language */
  const char *target_language;
  int32_t n_best; /* 0: one; --n-best, which not all commands have */
  char is_given[N_TRANSLATOR_OPTIONS];
} translator_settings;

/* The options, into translator_settings; those of the search are among them. */
extern const tsr_option_table translator_options;

/* The name of row i of these, the search's own left out; i: 0 .. N_TRANSLATOR_OPTIONS - 1. Static. */
const char *translator_option_name(int32_t i);

/* 1 if one of them was given. */
int translator_settings_given(const translator_settings *settings);

/* For a command that computes on one device: refuses several. Returns an exit code. */
int translator_settings_one_device(const char *command, const translator_settings *settings);

enum { TRANSLATOR_CHUNK = 1000 };

/* Zero it. */
typedef struct translator {
  const translator_settings *settings;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_tokenizer_info text; /* of the tokenizer, with the languages chosen */
  tsr_runtime *runtime;
  tsr_translator *translator;
  tsr_generate_options options;
  search_lists lists;              /* of the options */
  tsr_translation_request request; /* what the requests have in common */
  tsr_cli_progress progress;
  const char *file;                                   /* of the chunk's sentences */
  int64_t lines[TRANSLATOR_CHUNK];                    /* theirs */
  tsr_translation_request requests[TRANSLATOR_CHUNK]; /* likewise; their texts are the translator's own */
  tsr_translation *answers[TRANSLATOR_CHUNK];         /* of the last search */
  int32_t n;                                          /* sentences of this chunk */
  size_t size;                                        /* bytes of their texts */
  int drops_failed;                                   /* 1: the caller drops a chunk that fails */
  int told;                                           /* 1: what was to be told of them is told */
  int64_t done;                                       /* sentences of the chunks before this one */
  int64_t total;                                      /* of all chunks, for the progress; 0: not known */
  int64_t parts_done;                                 /* and the parts that they were translated in */
  int64_t parts;                                      /* likewise, of this chunk */
  double start;                                       /* when opening began, in seconds, and when it had ended */
  double loaded;
  int outcome; /* TSR_EXIT_OK, or the exit code for a sentence that was refused */
} translator;

/* Chooses the languages of a tokenizer; NULL: as they are. What the tokenizer does not have is a wrong command line. */
int translator_choose_languages(tsr_tokenizer *tokenizer, const char *source, const char *target);

/* Loads the model on the devices. `settings` outlives the translator. Finish it also after a failure. */
int translator_open(translator *t, const translator_settings *settings);
void translator_finish(translator *t);

/* 1 if the chunk has no room for another sentence, of at most `most`. */
int translator_is_full(const translator *t, int32_t most);

/* Adds a sentence to the chunk, which has room for it. Its request's number is -1, which the caller may change. A
 * sentence with more tokens than the model has positions is treated as --long-input says, and reported by its file and
 * line when the chunk is translated. One that is refused counts as an empty one, and sets t->outcome: the others are
 * still translated. `file` outlives the chunk. */
int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size);

/* Tells what became of a source with more tokens than the model takes; nothing if it has not. */
void translator_tell_long(const translator *t, const char *file, int64_t line, const tsr_source *source);

/* The text of target ids. The language's token that the search was made to begin with is no text, even where the
 * tokenizer takes it for some. Free *text with tsr_free. */
int translator_text(const translator *t, const int32_t *ids, int32_t n_ids, char **text);

typedef struct translation {
  int32_t index;   /* in the chunk */
  int32_t n_parts; /* that the source was translated in; 0: there was no text to translate */
  int32_t rank;    /* of the hypothesis, from 0: each is handed over */
  const tsr_translation *answer;
  const tsr_translation_hypothesis *hypothesis; /* its text is never NULL */
} translation;

/* Receives the chunk's translations, in order. */
typedef int (*translator_receiver)(void *user, const translation *translation);

/* Translates the chunk, on all devices side by side. Where one fails, a warning tells so, and the rest of the chunk and
 * all later ones are translated by the others, or by the one that takes its place if `auto` chose it. Without any, the
 * sentences before the first that is not finished are handed over, and the message tells up to which line. */
int translator_search(translator *t, const tsr_generate_options *options, translator_receiver receive, void *user);

/* Empties it. */
void translator_clear(translator *t);

/* Both, with the options of the model and the command line. */
int translator_run(translator *t, translator_receiver receive, void *user);

/* Calls `use` with the transformer on the first device, as tsr_translator_use does; the message for an error is
 * printed. */
int translator_use(const translator *t, tsr_translator_use_fn use, void *user);

/* Prints on stderr what loading and translating took. */
int translator_print_timings(const translator *t);

#endif
