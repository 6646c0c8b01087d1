/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of the search as options of a subcommand: each takes the place of what the model's files say.
 */
#ifndef TESSERA_TOOLS_SEARCH_OPTIONS_H
#define TESSERA_TOOLS_SEARCH_OPTIONS_H

#include "tessera/generate.h"
#include "tools/tessera/options/loop.h"

enum {
  SEARCH_BEAM,
  SEARCH_N_BEST,
  SEARCH_MAX_LENGTH,
  SEARCH_MIN_LENGTH,
  SEARCH_MAX_NEW,
  SEARCH_MIN_NEW,
  SEARCH_LENGTH_PENALTY,
  SEARCH_LENGTH_KIND,
  SEARCH_EARLY,
  SEARCH_PATIENCE,
  SEARCH_REPETITION,
  SEARCH_ENCODER_REPETITION,
  SEARCH_NGRAM,
  SEARCH_ENCODER_NGRAM,
  SEARCH_RENORMALIZE,
  SEARCH_FORCED_BOS,
  SEARCH_FORCED_EOS,
  SEARCH_EOS,
  SEARCH_SUPPRESS,
  SEARCH_BEGIN_SUPPRESS,
  SEARCH_BAD_WORDS,
  SEARCH_SAMPLE,
  SEARCH_NO_SAMPLE,
  SEARCH_TEMPERATURE,
  SEARCH_TOP_K,
  SEARCH_TOP_P,
  SEARCH_SEED,
  SEARCH_KIND,
  SEARCH_WORD_PENALTY,
  SEARCH_LENGTH_FACTOR,
  N_SEARCH_OPTIONS
};

/* What the command line gives; zero it. */
typedef struct search_settings {
  tsr_generate_options given;
  char is_given[N_SEARCH_OPTIONS];
} search_settings;

/* For the table of a subcommand's options; all but --n-best, which not all have. */
enum { SEARCH_OPTION = 512 };
/* clang-format off */
#define SEARCH_OPTIONS                                                                                                 \
  {"beam", required_argument, NULL, SEARCH_OPTION + SEARCH_BEAM},                                                      \
  {"max-length", required_argument, NULL, SEARCH_OPTION + SEARCH_MAX_LENGTH},                                          \
  {"min-length", required_argument, NULL, SEARCH_OPTION + SEARCH_MIN_LENGTH},                                          \
  {"max-new-tokens", required_argument, NULL, SEARCH_OPTION + SEARCH_MAX_NEW},                                         \
  {"min-new-tokens", required_argument, NULL, SEARCH_OPTION + SEARCH_MIN_NEW},                                         \
  {"length-penalty", required_argument, NULL, SEARCH_OPTION + SEARCH_LENGTH_PENALTY},                                  \
  {"length-norm", required_argument, NULL, SEARCH_OPTION + SEARCH_LENGTH_KIND},                                        \
  {"early-stopping", required_argument, NULL, SEARCH_OPTION + SEARCH_EARLY},                                           \
  {"patience", required_argument, NULL, SEARCH_OPTION + SEARCH_PATIENCE},                                              \
  {"repetition-penalty", required_argument, NULL, SEARCH_OPTION + SEARCH_REPETITION},                                  \
  {"encoder-repetition-penalty", required_argument, NULL, SEARCH_OPTION + SEARCH_ENCODER_REPETITION},                  \
  {"no-repeat-ngram", required_argument, NULL, SEARCH_OPTION + SEARCH_NGRAM},                                          \
  {"encoder-no-repeat-ngram", required_argument, NULL, SEARCH_OPTION + SEARCH_ENCODER_NGRAM},                          \
  {"renormalize", no_argument, NULL, SEARCH_OPTION + SEARCH_RENORMALIZE},                                              \
  {"forced-bos", required_argument, NULL, SEARCH_OPTION + SEARCH_FORCED_BOS},                                          \
  {"forced-eos", required_argument, NULL, SEARCH_OPTION + SEARCH_FORCED_EOS},                                          \
  {"eos", required_argument, NULL, SEARCH_OPTION + SEARCH_EOS},                                                        \
  {"suppress", required_argument, NULL, SEARCH_OPTION + SEARCH_SUPPRESS},                                              \
  {"begin-suppress", required_argument, NULL, SEARCH_OPTION + SEARCH_BEGIN_SUPPRESS},                                  \
  {"bad-words", required_argument, NULL, SEARCH_OPTION + SEARCH_BAD_WORDS},                                            \
  {"sample", no_argument, NULL, SEARCH_OPTION + SEARCH_SAMPLE},                                                        \
  {"no-sample", no_argument, NULL, SEARCH_OPTION + SEARCH_NO_SAMPLE},                                                  \
  {"temperature", required_argument, NULL, SEARCH_OPTION + SEARCH_TEMPERATURE},                                        \
  {"top-k", required_argument, NULL, SEARCH_OPTION + SEARCH_TOP_K},                                                    \
  {"top-p", required_argument, NULL, SEARCH_OPTION + SEARCH_TOP_P},                                                    \
  {"seed", required_argument, NULL, SEARCH_OPTION + SEARCH_SEED},                                                      \
  {"search", required_argument, NULL, SEARCH_OPTION + SEARCH_KIND},                                                    \
  {"word-penalty", required_argument, NULL, SEARCH_OPTION + SEARCH_WORD_PENALTY},                                      \
  {"max-length-factor", required_argument, NULL, SEARCH_OPTION + SEARCH_LENGTH_FACTOR}
#define SEARCH_HELP                                                                                                    \
  "Search; what is not given is as the model's generation_config.json says:\n"                                         \
  "  --beam N               hypotheses kept by the search, 1 to 64; 1 is greedy search\n"                              \
  "  --max-length N         tokens of a translation at most, start and end tokens included;\n"                         \
  "  --max-new-tokens N     or without the start token\n"                                                              \
  "  --min-length N         no end before that many tokens, start token included;\n"                                   \
  "  --min-new-tokens N     or without the start token\n"                                                              \
  "  --length-penalty X     exponent of what a hypothesis' score is divided by:\n"                                     \
  "  --length-norm HOW      power: its length (default), or gnmt: (5 + its length) / 6\n"                              \
  "  --early-stopping HOW   true: when N hypotheses have ended; false: when none can be better, as far\n"              \
  "                         as their present length tells; never: when none can be, at any length\n"                   \
  "  --patience X           wait for X times N hypotheses that have ended; default: 1\n"                               \
  "  --repetition-penalty X  divide the scores of tokens that are there already (multiply negative ones)\n"            \
  "  --encoder-repetition-penalty X  multiply those of tokens that the source has (divide negative ones)\n"            \
  "  --no-repeat-ngram N    no N tokens in a row come twice\n"                                                         \
  "  --encoder-no-repeat-ngram N  no N tokens in a row of the source come out\n"                                       \
  "  --renormalize          probabilities have a sum of 1 again when tokens were ruled out\n"                          \
  "  --forced-bos ID        first token after the start; --forced-eos ID: last one at the greatest\n"                  \
  "                         length; -1: none\n"                                                                        \
  "  --eos IDS              tokens that end a sentence, separated by commas\n"                                         \
  "  --suppress IDS         tokens that never come out; --begin-suppress IDS: not as the first\n"                      \
  "  --bad-words LIST       words that never come out, separated by commas: each the ids of its tokens,\n"             \
  "                         separated by blanks\n"                                                                     \
  "  --sample               draw each token at random (with --beam 1); --no-sample: do not\n"                          \
  "  --temperature X, --top-k N, --top-p X  of drawing: logits are divided by X; only the N likeliest\n"               \
  "                         tokens (0: all); only the likeliest that have the probability X together\n"                \
  "  --seed N               of drawing; default: 0. The same seed gives the same text\n"                               \
  "  --search HOW           whose beam search: transformers, or marian, where hypotheses that end leave\n"             \
  "                         the beam; of the latter: --word-penalty X for each token, and\n"                           \
  "                         --max-length-factor X tokens at most for each of the source (3)\n"
/* clang-format on */

/* Takes one of these options, optarg being its value. Returns an exit code. */
int search_settings_take(const char *command, int option, search_settings *settings);

/* Options that the search they belong to is not asked for are a wrong command line. Returns an exit code. */
int search_settings_check(const search_settings *settings, const tsr_generate_options *options);

/* Puts what was given into options. Sampling is without beams: --sample without --beam means a beam of 1, and --beam
 * above 1 without --sample that nothing is drawn. Returns an exit code. */
int search_settings_apply(const search_settings *settings, tsr_generate_options *options);

#endif
