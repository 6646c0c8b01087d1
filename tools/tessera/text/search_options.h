/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of the search as options of a subcommand: each takes the place of what the model's files say.
 */
#ifndef TESSERA_TOOLS_SEARCH_OPTIONS_H
#define TESSERA_TOOLS_SEARCH_OPTIONS_H

#include "tessera/generate.h"
#include "tools/tessera/options/options.h"

/* Their rows. */
enum {
  SEARCH_BEAM,
  SEARCH_MAX_LENGTH,
  SEARCH_MAX_NEW,
  SEARCH_MIN_LENGTH,
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
  const char *lists[N_SEARCH_OPTIONS]; /* the texts of the options that are lists of ids, checked; borrowed */
  char is_given[N_SEARCH_OPTIONS];
} search_settings;

/* The lists that options point to; zero it. */
typedef struct search_lists {
  int32_t *ids[N_SEARCH_OPTIONS];
} search_lists;

/* The options, into search_settings. */
extern const tsr_option_table search_options;

/* Options that the search they belong to is not asked for are a wrong command line. Returns an exit code. */
int search_settings_check(const search_settings *settings, const tsr_generate_options *options);

/* TSR_ERR_UNSUPPORTED, naming the file, if the model's folder asks for sampling and for beams, and the command line
 * chooses neither. */
tsr_status search_settings_check_file(const search_settings *settings, const char *folder,
                                      const tsr_generate_options *options);

/* Reports what the library said of options of a search, by the names that the command line has for them. Returns the
 * exit code. */
int search_settings_fail(tsr_status status);

/* Puts what was given into options; lists outlives them, and is finished also after a failure. Sampling is without
 * beams: --sample without --beam means a beam of 1, and --beam above 1 without --sample that nothing is drawn. Returns
 * an exit code. */
int search_settings_apply(const search_settings *settings, search_lists *lists, tsr_generate_options *options);
void search_lists_finish(search_lists *lists);

#endif
