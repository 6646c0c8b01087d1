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
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/loop.h"
#include "tools/tessera/text/search_options.h"

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
} translator_settings;

/* For the table of a subcommand's options, and for its help. The values are no letters, which the subcommand has. */
enum { TRANSLATOR_OPTION = 256 };
/* clang-format off */
#define TRANSLATOR_OPTIONS                                                                                             \
  SEARCH_OPTIONS,                                                                                                      \
  {"device", required_argument, NULL, TRANSLATOR_OPTION},                                                              \
  {"batch", required_argument, NULL, TRANSLATOR_OPTION + 1},                                                           \
  {"workers", required_argument, NULL, TRANSLATOR_OPTION + 2},                                                         \
  {"precision", required_argument, NULL, TRANSLATOR_OPTION + 3},                                                       \
  {"strict", no_argument, NULL, TRANSLATOR_OPTION + 4},                                                                \
  {"long-input", required_argument, NULL, TRANSLATOR_OPTION + 5},                                                      \
  {"max-source", required_argument, NULL, TRANSLATOR_OPTION + 6},                                                      \
  {"source-lang", required_argument, NULL, TRANSLATOR_OPTION + 7},                                                     \
  {"target-lang", required_argument, NULL, TRANSLATOR_OPTION + 8}
#define TRANSLATOR_HELP                                                                                                \
  "  --device NAME          where to compute: vulkan:0, reference, auto ... (see `tessera devices`);\n"                \
  "                         default: TESSERA_DEVICE, else auto\n"                                                      \
  "  --batch N              sentences computed at once, 1 to 1024; default: 32, and fewer with a\n"                    \
  "                         wide beam on a CPU\n"                                                                      \
  "  --workers N            batches computed side by side, each on a thread, 1 to 1024; default: as\n"                 \
  "                         many as the device executes side by side, if there are sentences enough\n"                 \
  "  --precision P          how the weights are kept on the device: f32; f16 or bf16, where a GPU may\n"               \
  "                         round what is multiplied with them as well; or int8, a quarter of f32,\n"                  \
  "                         with which products are computed in whole numbers; default: as in the\n"                   \
  "                         model's file, and nothing else rounded\n"                                                  \
  "  --strict               fail where the device lacks an operator, instead of computing it on\n"                     \
  "                         another device\n"                                                                         \
  "  --long-input HOW       what becomes of a sentence with more tokens than the model has positions,\n"               \
  "                         told on stderr with its line: cut (default): its beginning is translated;\n"               \
  "                         split: it is translated in parts, which end with a sentence, a clause or\n"                \
  "                         a word, and joined; error: its line stays empty, and the exit code is 3\n"                 \
  "  --max-source N         tokens of a sentence at most, special tokens included, where the model\n"                  \
  "                         has more positions, or no limit (T5)\n"                                                   \
  "  --source-lang CODE     the language of the text, for models of many (mBART, M2M100, NLLB):\n"                      \
  "                         fra_Latn, fr_XX, fr; default: what the model's tokenizer_config.json\n"                    \
  "                         says, else English\n"                                                                      \
  "  --target-lang CODE     the language to translate into (these, and multilingual Marian models);\n"                 \
  "                         `tessera tokenize MODEL --languages` lists the codes\n"
/* clang-format on */

/* Takes one of these options, optarg being its value. */
int translator_take_option(const char *command, int option, translator_settings *wish);

enum { TRANSLATOR_CHUNK = 1000 };

struct translator;

/* Makes the text of what a part of a sentence was translated to; exit code. Free *text with tsr_free. */
typedef int (*translator_writer)(void *user, const struct translator *t, int32_t index, int32_t part,
                                 const tsr_hypothesis *hypothesis, char **text);

/* Zero it. */
typedef struct translator {
  const translator_settings *wish;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_tokenizer_info text; /* of the tokenizer, with the languages chosen */
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_generate_options options;
  tsr_cli_progress progress;
  translator_writer write; /* NULL: translator_text */
  void *write_user;
  int64_t done;       /* sentences of the chunks before this one */
  int64_t parts_done; /* and the parts that they were translated in */
  double start;       /* when opening began, in seconds, and when it had ended */
  double loaded;
  int outcome;                          /* TSR_EXIT_OK, or the exit code for a sentence that was refused */
  int32_t n;                            /* sentences of this chunk */
  tsr_source sources[TRANSLATOR_CHUNK]; /* theirs */
} translator;

/* Chooses the languages of a tokenizer; NULL: as they are. What the tokenizer does not have is a wrong command line. */
int translator_choose_languages(tsr_tokenizer *tokenizer, const char *source, const char *target);

/* Loads the model on the device. `wish` outlives the translator. Finish it also after a failure. */
int translator_open(translator *t, const translator_settings *wish);
void translator_finish(translator *t);

/* Adds a sentence to the chunk, which has room for it. One with more tokens than the model has positions is treated as
 * --long-input says, and reported by its file and line. One that is refused counts as an empty one, and sets t->outcome:
 * the others are still translated. */
int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size);

/* The text of target ids. The language's token that the search was made to begin with is no text, even where the tokenizer
 * takes it for some. Free *text with tsr_free. */
int translator_text(const translator *t, const int32_t *ids, int32_t n_ids, char **text);

typedef struct translation {
  int32_t index;   /* in the chunk */
  int32_t n_parts; /* that the source was translated in; 0: there was no text to translate */
  int32_t rank;    /* of the hypothesis, from 0: each of options.n_best is handed over */
  int is_cut;      /* the output ended because it had reached its greatest length */
  const char *text;
  const tsr_hypothesis *best; /* of several parts: their ids in a row, and the mean of their scores, weighted with the
                                 numbers of their tokens */
} translation;

/* Receives the chunk's translations, in order. */
typedef int (*translator_receiver)(void *user, const translation *translation);

/* Translates the chunk. */
int translator_search(translator *t, const tsr_generate_options *options, translator_receiver receive, void *user);

/* Empties it. */
void translator_clear(translator *t);

/* Both, with the options of the model and the command line. */
int translator_run(translator *t, translator_receiver receive, void *user);

/* Prints on stderr what loading and translating took. */
void translator_print_timings(const translator *t);

#endif
