/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of tsr_generate as its parts hand it on.
 */
#ifndef TESSERA_CORE_GENERATE_REQUEST_H
#define TESSERA_CORE_GENERATE_REQUEST_H

#include "core/generate/search.h"

/* Who may lose interest in a sentence of a request. Called by the threads that search, several at a time. */
typedef struct tsr_request_watch {
  void *user;
  /* As in tsr_search_client. */
  int32_t (*look)(void *user, int32_t n_open);
  /* The same, of sentence number `index` of the request; asked also before its batch begins. One that is not wanted has
   * no result (n_ids is -1). */
  int32_t (*is_wanted)(void *user, int32_t index);
} tsr_request_watch;

typedef struct tsr_request {
  tsr_transformer *transformer;
  int32_t n_sentences;
  const int32_t *const *source;        /* [n_sentences], likewise the next three; NULL for a model of speech */
  const float *const *features;        /* of a model of speech, checked; else NULL */
  const int32_t *lengths;              /* of a model of speech source_positions */
  const tsr_prompt *prompts;           /* checked */
  const int64_t *numbers;              /* [n_sentences] for the draws; NULL: from options->first_sentence on */
  int32_t n_batch;                     /* 0: the default */
  int32_t workers;                     /* batches side by side, each by a sibling; 0: as many as the device likes */
  const tsr_generate_options *options; /* resolved and checked */
  int32_t first_only;                  /* 1: the sentences end after the first token behind the prompt; with a beam */
  tsr_progress_fn progress;            /* or NULL */
  void *user;
  const tsr_request_watch *watch; /* or NULL: all sentences are wanted. Not of alternatives */
} tsr_request;

/* Searches all sentences. As tsr_generate. */
tsr_status tsr_request_run(const tsr_request *request, tsr_generation *generation) TSR_MUST_CHECK;

/* The same for options->alternatives: first what may come next, then how each of that goes on. */
tsr_status tsr_request_alternatives(const tsr_request *request, tsr_generation *generation) TSR_MUST_CHECK;

#endif
