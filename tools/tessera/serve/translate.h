/* SPDX-License-Identifier: Apache-2.0
 *
 * What POST /translate and POST /translate/stream share.
 */
#ifndef TESSERA_SERVE_TRANSLATE_H
#define TESSERA_SERVE_TRANSLATE_H

#include "tools/tessera/serve/service.h"

typedef struct translate_request {
  model_set *set;
  route way;          /* of the set */
  const char **texts; /* borrowed from the parameters */
  size_t *sizes;
  int32_t n;
  int64_t alternatives;
  int64_t next_words;
  int32_t is_html;
  int32_t alignment;
  const char *prefix;
} translate_request;

/* What the answer has beside the translation: c->own begins with it. */
typedef struct translate_wishes {
  int64_t alternatives;
  int64_t next_words;
  int32_t alignment;
} translate_wishes;

/* Reads the parameters, finds the way from source to target, and makes c->own: so many zeroed bytes, which begin with
 * the wishes. Returns 0 after it answered; with 1 the set and the lists of texts are the caller's. */
int translate_prepare(call *c, size_t own_size, translate_request *r);
void translate_finish(translate_request *r); /* frees the lists */

/* The answer for a work that is done. */
json_t *translate_answer(call *c, const work *w);

#endif
