/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of core/generate share: a random model on a device, sentences for it, and how results compare.
 */
#ifndef TESSERA_TESTS_GENERATION_H
#define TESSERA_TESTS_GENERATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/transformer/transformer.h"
#include "tessera/generate.h"

typedef struct fixture {
  char *folder; /* of the model */
  tsr_runtime *runtime;
} fixture;

typedef struct setup {
  tsr_device *device;
  tsr_model *model;
  tsr_transformer *transformer;
} setup;

/* Of cmocka's groups: *state is a fixture. */
int start(void **state);
int stop(void **state);

/* Fails the test unless the status is TSR_OK. */
void check(tsr_status status);

/* Valid until the next call. */
const char *device_name(const fixture *f, int32_t index);

/* The model that lies in the folder, on a device. */
void open_setup(const fixture *f, const char *device, const tsr_transformer_options *options, setup *s);
void close_setup(setup *s);

/* 1 if a model whose matrices are kept in that type gives what the reference gives, but for the order of sums: on a GPU
 * factors may be rounded to 16 bits, in one variant of a product and not in another, and to bf16 on a CPU's matrix
 * units. */
int is_precise(const setup *s, tsr_dtype weights);

/* Sentences of different lengths, the first the longest, the third empty. */
typedef struct batch {
  int32_t n;
  int32_t *pool; /* [n][MAX_SOURCE] */
  const int32_t **source;
  int32_t *lengths;
} batch;

enum { MAX_SOURCE = 23 };

void make_batch(uint64_t seed, int32_t vocabulary, int32_t n, batch *b);
void free_batch(batch *b);

tsr_generate_options options_for(const setup *s, int32_t beam);

void assert_same(const tsr_hypothesis *a, const tsr_hypothesis *b);

/* ln softmax(logits [n])[token], in double. */
double log_probability(const float *logits, int32_t n, int32_t token);

/* Logits of one sentence when the decoder is fed an output's tokens, the last left out: [n, V], to be freed. */
float *forced_logits(const setup *s, const int32_t *source, int32_t length, const int32_t *ids, int32_t n);

/* Logits of two sentences, *n in all: of the same random tokens for any setup. To be freed. */
float *forward_random(const setup *s, size_t *n);

/* Root mean square of the difference, divided by that of a. */
double distance(const float *a, const float *b, size_t n);

/* Lets sentences of a random model end, each at its own place: the token that most of them hold is their end now. */
void choose_end(setup *s, const batch *b);

/* The rows of the smallest step that the transformer keeps, in sentences. */
int32_t smallest_step(const tsr_transformer *t);

#endif
