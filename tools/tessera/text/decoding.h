/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tessera translate` can ask of a search beyond its settings: given beginnings, alternatives behind them, text as
 * it comes, attention and what is made of it, and a shortlist of words. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_DECODING_H
#define TESSERA_TOOLS_DECODING_H

#include <stdio.h>

#include "tessera/shortlist.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/text_stream.h"
#include "tools/tessera/text/translator.h"

typedef struct decoding_settings {
  const char *prefix;
  const char *prefix_file;
  int32_t alternatives;
  int32_t steps_per_submit;
  int stream;
  int attention;
  int32_t attention_layer; /* 0: the last */
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

/* Sets the options of the translator that was opened. `settings` outlives it. Finish it also after a failure. */
int decoding_open(decoding *d, const decoding_settings *settings, translator *t);
void decoding_finish(decoding *d);

/* Keeps the text of the sentence that was added to the translator last, and reads its prefix. */
int decoding_add(decoding *d, translator *t, const char *text, size_t size);

/* Before the translator runs: what its chunk's parts begin with. */
int decoding_prepare(decoding *d, translator *t);

/* Adds what was asked for of a translation's attention to a JSON object. Returns 0, or -1 if memory ran out. */
int decoding_describe(const decoding *d, const translator *t, const translation *found, json_t *root);

#endif
