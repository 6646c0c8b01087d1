/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tessera translate` can ask of a search beyond its settings: given beginnings, alternatives behind them, text as
 * it comes, attention and what is made of it, and a shortlist of words. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_DECODING_H
#define TESSERA_TOOLS_DECODING_H

#include "tessera/shortlist.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

typedef struct decoding_settings {
  const char *prefix;
  const char *prefix_file;
  int32_t alternatives;
  int32_t steps_per_submit;
  int stream;
  int attention;
  int alignment;
  int32_t attention_layer;  /* 0: the last, or the one that aligns */
  uint32_t attention_heads; /* bits; 0: all, or those that align */
  double coverage_penalty;
  int replace_unknown;
  const char *shortlist;
  int32_t shortlist_first; /* 0: 100, likewise the next */
  int32_t shortlist_best;
} decoding_settings;

/* The options, into decoding_settings. */
extern const tsr_option_table decoding_options;

/* Zero it. */
typedef struct decoding {
  const decoding_settings *settings;
  tsr_cli_lines lines;           /* of the prefix file */
  char *given[TRANSLATOR_CHUNK]; /* of the prefix file: each sentence's */
  tsr_shortlist *shortlist;
  int printed; /* TSR_EXIT_OK, or why text that comes is not printed any more */
} decoding;

/* Sets the options of the translator that was opened. `settings` and the decoding outlive it. Finish it also after a
 * failure. */
int decoding_open(decoding *d, const decoding_settings *settings, translator *t);
void decoding_finish(decoding *d);

/* Reads the prefix of the sentence that was added to the translator last. */
int decoding_add(decoding *d, translator *t);

/* The text of a translation as it is to be printed. Free *text with tsr_free. */
int decoding_text(const decoding *d, const translator *t, const translation *found, char **text);

/* Adds what was asked for of a translation's attention to a JSON object. Returns 0, or -1 if memory ran out. */
int decoding_describe(const decoding *d, const translator *t, const translation *found, json_t *root);

#endif
