/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of tsr_generate as its parts hand it on.
 */
#ifndef TESSERA_CORE_GENERATE_REQUEST_H
#define TESSERA_CORE_GENERATE_REQUEST_H

#include "core/generate/search.h"

typedef struct tsr_request {
  tsr_transformer *transformer;
  int32_t n_sentences;
  const int32_t *const *source; /* [n_sentences], likewise the next two */
  const int32_t *lengths;
  const tsr_prompt *prompts;           /* checked */
  int32_t n_batch;                     /* 0: the default */
  const tsr_generate_options *options; /* resolved and checked */
  int32_t first_only;                  /* 1: the sentences end after the first token behind the prompt; with a beam */
  tsr_progress_fn progress;            /* or NULL */
  void *user;
} tsr_request;

/* Searches all sentences. As tsr_generate. */
tsr_status tsr_request_run(const tsr_request *request, tsr_generation *generation) TSR_MUST_CHECK;

/* The same for options->alternatives: first what may come next, then how each of that goes on. */
tsr_status tsr_request_alternatives(const tsr_request *request, tsr_generation *generation) TSR_MUST_CHECK;

#endif
