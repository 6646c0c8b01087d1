/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tessera translate` can ask of a search beyond its settings: given beginnings, alternatives behind them, text as it
 * comes, attention and what is made of it, and a shortlist of words. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_DECODING_H
#define TESSERA_TOOLS_DECODING_H

#include <stdio.h>

#include "tessera/shortlist.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/options/loop.h"
#include "tools/tessera/text/text_stream.h"
#include "tools/tessera/text/translator.h"

typedef struct decoding_settings {
  const char *prefix;
  const char *prefix_file;
  int32_t alternatives;
  int stream;
  int attention;
  int32_t attention_layer; /* 0: the last */
  double coverage_penalty;
  int replace_unknown;
  const char *shortlist;
  int32_t shortlist_first; /* 0: 100, likewise the next */
  int32_t shortlist_best;
} decoding_settings;

enum { DECODING_OPTION = 1024 };
/* clang-format off */
#define DECODING_OPTIONS                                                                                               \
  {"prefix", required_argument, NULL, DECODING_OPTION},                                                                \
  {"prefix-file", required_argument, NULL, DECODING_OPTION + 1},                                                       \
  {"alternatives", required_argument, NULL, DECODING_OPTION + 2},                                                      \
  {"stream", no_argument, NULL, DECODING_OPTION + 3},                                                                  \
  {"attention", no_argument, NULL, DECODING_OPTION + 4},                                                               \
  {"attention-layer", required_argument, NULL, DECODING_OPTION + 5},                                                   \
  {"coverage-penalty", required_argument, NULL, DECODING_OPTION + 6},                                                  \
  {"shortlist", required_argument, NULL, DECODING_OPTION + 7},                                                         \
  {"shortlist-first", required_argument, NULL, DECODING_OPTION + 8},                                                   \
  {"shortlist-best", required_argument, NULL, DECODING_OPTION + 9},                                                    \
  {"replace-unknown", no_argument, NULL, DECODING_OPTION + 10}
#define DECODING_HELP                                                                                                  \
  "  --prefix TEXT          what every translation begins with; the model goes on from there. Best of\n"               \
  "                         whole words; of a sentence that is split, only the first part begins so\n"                 \
  "  --prefix-file FILE     the same, another for each sentence: one a line, an empty line for none\n"                 \
  "  --alternatives N       print N translations of each sentence, which differ in the first token\n"                  \
  "                         behind the prefix: the N most probable there, best first, each of them\n"                  \
  "                         continued; a line each, as --n-best prints them\n"                                         \
  "  --stream               print the text as it comes, one sentence after the other: words as greedy\n"               \
  "                         search or a draw completes them; with a beam, those on which all\n"                        \
  "                         hypotheses agree that can still win\n"                                                     \
  "  --attention            with --json, tell also tokens, source_tokens and attention: a row for each\n"              \
  "                         token, how much it attended to each source token (mean of the heads)\n"                    \
  "  --attention-layer N    of the decoder, from 1; default: the last\n"                                               \
  "  --coverage-penalty X   scores of finished hypotheses rise by X times the sum over the source's\n"                 \
  "                         tokens of ln(min(1, attention that they got)) (Wu et al. 2016)\n"                        \
  "  --replace-unknown      write in the place of an unknown token the source's word that it attended to\n"            \
  "                         most\n"                                                                                   \
  "  --shortlist FILE       compute the probabilities of a few tokens alone: those that the file has\n"                \
  "                         for the tokens of a batch's sentences, and the first ones. Lines are\n"                   \
  "                         'TARGET SOURCE PROBABILITY', with tokens of the vocabularies (the lexical\n"              \
  "                         tables of Marian-NMT and fast_align), or words: source, tab, targets\n"                   \
  "  --shortlist-first N    the N first tokens of the vocabulary are always there; default: 100\n"                     \
  "  --shortlist-best N     targets of each source token at most, the most probable; default: 100\n"
/* clang-format on */

/* Takes one of these options, optarg being its value. */
int decoding_take_option(const char *command, int option, decoding_settings *wish);

/* Zero it. */
typedef struct decoding {
  const decoding_settings *wish;
  tsr_cli_lines lines; /* of the prefix file */
  int32_t *common;     /* ids of --prefix */
  int32_t n_common;
  int32_t *given[TRANSLATOR_CHUNK]; /* of the prefix file: each sentence's */
  int32_t n_given[TRANSLATOR_CHUNK];
  const int32_t **prefix; /* of each part of the chunk's sentences */
  int32_t *lengths;
  text_stream stream;
  tsr_shortlist *shortlist;
  char *text[TRANSLATOR_CHUNK]; /* of the sentences, where unknown tokens are replaced */
  size_t size[TRANSLATOR_CHUNK];
} decoding;

/* Sets the options of the translator that was opened. `wish` outlives it. Finish it also after a failure. */
int decoding_open(decoding *d, const decoding_settings *wish, translator *t);
void decoding_finish(decoding *d);

/* Keeps the text of the sentence that was added to the translator last, and reads its prefix. */
int decoding_add(decoding *d, translator *t, const char *text, size_t size);

/* Before the translator runs: what its chunk's parts begin with. */
int decoding_prepare(decoding *d, translator *t);

/* Adds what was asked for of a translation's attention to a JSON object. Returns 0, or -1 if memory ran out. */
int decoding_describe(const decoding *d, const translator *t, const translation *found, json_t *root);

#endif
