/* SPDX-License-Identifier: Apache-2.0
 *
 * What was recorded of a small model of speech: golden.json of a folder of speech/models.
 */
#ifndef TESSERA_TESTS_RECORDINGS_H
#define TESSERA_TESTS_RECORDINGS_H

#include <stdint.h>

#include <jansson.h>

/* Calls `check` with what golden.json of each model's folder holds; returns how many there are: 0 where TESSERA_GOLDENS
 * has no models of speech. */
int32_t for_each_recording(void (*check)(json_t *golden));

/* The path of a file in the folder of the model that is checked; valid until the next call. */
const char *recorded_file(const char *name);

/* An integer of the model's config.json; the test fails if there is none. */
int32_t model_number(const json_t *golden, const char *key);

/* A key of the model's vocabulary, such as "endoftext"; the test fails if there is none. */
int32_t vocabulary_id(const json_t *golden, const char *key);

enum { MOST_IDS = 4096 };

/* The integers of a list, at most MOST_IDS; *n is how many. Valid until the next call with the same `to`. */
void read_ids(const json_t *list, int32_t to[MOST_IDS], int32_t *n);

/* 1 if the call that was recorded has the text. */
int call_has(const json_t *recorded, const char *text);

#endif
