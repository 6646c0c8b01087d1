/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies: tokens and their ids, from a JSON object (vocab.json) or added one by one.
 */
#ifndef TESSERA_CORE_VOCABULARY_H
#define TESSERA_CORE_VOCABULARY_H

#include <jansson.h>

#include "tessera/status.h"

typedef struct tsr_vocabulary tsr_vocabulary;

/* As many ids as there are tokens. */
enum { TSR_VOCABULARY_WHOLE = -1 };

/* An empty one, to be filled before others see it. TSR_VOCABULARY_WHOLE: it grows with the highest id. */
tsr_status tsr_vocabulary_begin(const char *name, int32_t size, tsr_vocabulary **vocabulary) TSR_MUST_CHECK;

/* Adds a token, which is copied. Errors: TSR_ERR_FORMAT (an id out of range or taken, a token that is there). */
tsr_status tsr_vocabulary_add(tsr_vocabulary *vocabulary, const char *token, int64_t id) TSR_MUST_CHECK;

/* Another id of a token that is there: it stands for the same text, and is never what the text becomes. Errors: as
 * above, but for the last. */
tsr_status tsr_vocabulary_repeat(tsr_vocabulary *vocabulary, const char *token, int64_t id) TSR_MUST_CHECK;

/* Adds what an object from tokens to ids holds. */
tsr_status tsr_vocabulary_add_object(tsr_vocabulary *vocabulary, const json_t *object) TSR_MUST_CHECK;

/* Ids are unique and from 0 to size - 1, size being the rows of the model's embedding; not every id needs a token.
 * *vocabulary is the caller's until tsr_vocabulary_close; immutable: any number of threads. Errors: TSR_ERR_IO,
 * TSR_ERR_FORMAT, naming file, token and id. */
tsr_status tsr_vocabulary_open(const char *path, int32_t size, tsr_vocabulary **vocabulary) TSR_MUST_CHECK;

/* The same from memory that may go afterwards. `name` stands for the file in messages. */
tsr_status tsr_vocabulary_parse(const char *name, const void *text, size_t text_size, int32_t size,
                                tsr_vocabulary **vocabulary) TSR_MUST_CHECK;
void tsr_vocabulary_close(tsr_vocabulary *vocabulary); /* takes NULL */

/* The id of a token, -1 if there is none. The token need not be NUL-terminated. */
int32_t tsr_vocabulary_find(const tsr_vocabulary *vocabulary, const char *token, size_t size);

/* The same for a token that must be there. Errors: TSR_ERR_FORMAT. */
tsr_status tsr_vocabulary_require(const tsr_vocabulary *vocabulary, const char *token, int32_t *id) TSR_MUST_CHECK;

/* The token of an id, NULL if there is none. */
const char *tsr_vocabulary_token(const tsr_vocabulary *vocabulary, int32_t id);

int32_t tsr_vocabulary_size(const tsr_vocabulary *vocabulary);

#endif
