/* SPDX-License-Identifier: Apache-2.0
 *
 * One sentence as a model reads it, and what the model writes or is told to write, for the subcommands that look into a
 * forward pass. Functions that return int return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_SENTENCE_H
#define TESSERA_TOOLS_SENTENCE_H

#include "tools/tessera/common/json.h"
#include "tools/tessera/text/translator.h"

typedef struct sentence {
  const char *text;  /* the source's; borrowed */
  char *target_text; /* NULL, and all of the target empty: the model has no decoder */
  int32_t n_source;
  int32_t *source; /* ids */
  int32_t n_target;
  int32_t *target; /* what the decoder reads: the start token, then all but the last of `next` */
  int32_t *next;   /* what it is to give at each of these positions */
} sentence;

/* Reads a sentence; without a target (NULL) it is translated. The translator is open, and holds no other. Finish the
 * sentence also after a failure. */
int sentence_read(translator *t, const char *text, const char *target, sentence *s);
void sentence_finish(sentence *s);

/* The tokens of ids as the vocabulary spells them. side: 0 source, 1 target. NULL: an allocation failed. */
json_t *sentence_tokens(const translator *t, int32_t side, const int32_t *ids, int32_t n);
json_t *sentence_ids(const int32_t *ids, int32_t n);

#endif
