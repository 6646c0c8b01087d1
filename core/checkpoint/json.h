/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from strangers: parsing with messages that say what is wrong, and values put into messages.
 */
#ifndef TESSERA_CORE_JSON_H
#define TESSERA_CORE_JSON_H

#include <jansson.h>

#include "tessera/status.h"

/* Parses a whole text as one JSON object, which *root then owns (json_decref). Duplicate keys, trailing text, broken
 * UTF-8, NaN and Infinity, and integers beyond 64 bits are errors. `name` stands for the file in messages. Errors:
 * TSR_ERR_FORMAT. */
tsr_status tsr_json_parse(const char *name, const void *text, size_t size, json_t **root) TSR_MUST_CHECK;

/* The same, but integers beyond 64 bits become reals: tokenizer_config.json says "model_max_length":
 * 1000000000000000019884624838656 where it means that there is no limit. */
tsr_status tsr_json_parse_large(const char *name, const void *text, size_t size, json_t **root) TSR_MUST_CHECK;

/* A float as the shortest decimal that reads back as the same float, to be printed with JSON_REAL_PRECISION(9): 0.1,
 * not 0.10000000149011612. NULL without memory, or for NaN and infinities. */
json_t *tsr_json_float(float value);

/* Text fit for a message, cut where it is long; an array inside a struct, so that it can be used within one expression:
 * tsr_fail(TSR_ERR_FORMAT, "tensor %s is missing", tsr_quote(name).text). */
typedef struct tsr_quoted {
  char text[136];
} tsr_quoted;

/* The text in double quotes, control characters replaced: what a file holds must not steer a terminal. */
tsr_quoted tsr_quote(const char *text);

/* The value as JSON; "nothing" for NULL. */
tsr_quoted tsr_json_show(const json_t *value);

#endif
