/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of a translator's calls share: sentences, translators on devices, and a device that fails.
 */
#ifndef TESSERA_TESTS_CALL_LINES_H
#define TESSERA_TESTS_CALL_LINES_H

#include <stdatomic.h>

#include "tessera/translator.h"
#include "tests/model/generation.h"

#ifdef FEW_SENTENCES /* a sanitized build */
enum { MOST_LINES = 24 };
#else
enum { MOST_LINES = 80 };
#endif
enum { MOST_TOKENS = 40 };

extern char **lines; /* [MOST_LINES] */
extern char *folder; /* the model's */

/* Of a group of tests. */
int open_lines(void **state);
int close_lines(void **state);

tsr_translator *open_on(const char *device, int32_t is_static);
tsr_generate_options search_of(const tsr_model *model, int32_t beam);

/* The first n lines. */
void fill_requests(const tsr_generate_options *options, int32_t n, tsr_translation_request *requests);
void free_answers(int32_t n, tsr_translation **answers);

/* A tsr_progress_fn with an int64_t, which only grows. */
void on_call_progress(void *user, int64_t done, int64_t total);

/* The reference under the name "fake", as a GPU that fails when `runs_left` are over. */
extern atomic_int runs_left;
const tsr_backend *query_fake(uint32_t major, const tsr_host *host);

#endif
