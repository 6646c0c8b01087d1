/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_batch_invariance DEVICE N
 *
 * What a sentence gives does not depend on its company: the first N test sentences, which 64 threads hand to a
 * translator one by one, in a drawn order and with a drawn batch, give the texts of a search of all of them in sorted
 * batches. So with greedy search, a beam of 4 and sampling; then all of these at once. Exit code 77 without the device.
 *   TESSERA_SEED  what the draws begin with (else the time)
 *
 * Batches of other sizes round otherwise, so that of two outputs with scores within 1e-4 of each other either may come.
 * One sentence in 500 may do that, where the search computes scores; greedy search does not, and has to give its text.
 * None of the test sentences did so far, on any device.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/translator.h"
#include "tests/model/crowd.h"
#include "tests/model/generation.h"
#include "tests/support/sanitized.h"
#include "tools/random/random.h"

enum { GREEDY, BEAM, SAMPLE, N_SEARCHES };
enum { FEW = 100, MOST_TOKENS = 64 /* fewer than a batch has steps */ };

static const char *const search_names[N_SEARCHES] = {"greedy search", "a beam of 4", "sampling"};
static const float tolerance = 1e-4f; /* of scores */
static const char *device_wanted;
static int32_t n_sentences;
static uint64_t seed;

typedef struct expectation {
  char *text;
  float score;
} expectation;

typedef struct trial {
  char **sentences;
  tsr_generate_options searches[N_SEARCHES];
  expectation *expected[N_SEARCHES]; /* [n_sentences] */
  tsr_translator *translator;
  int32_t *search;   /* [n_sentences] which one each asks for */
  atomic_int n_tied; /* other texts with as good a score */
  atomic_int n_wrong;
} trial;

/* ---- in sorted batches ------------------------------------------------------------------------------------------- */

/* The options' lists are the model's. */
static void choose_searches(const tsr_model *model, trial *t)
{
  for (int32_t i = 0; i < N_SEARCHES; i++) {
    tsr_generate_options *options = &t->searches[i];
    *options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
    check(tsr_generate_defaults(model, options));
    options->beam = i == BEAM ? 4 : 1;
    options->n_best = 1;
    options->max_length = MOST_TOKENS;
    options->sample = i == SAMPLE;
    options->scores = i == SAMPLE;
    options->seed = 99;
  }
}

static void search_sorted(trial *t)
{
  fixture f = {.folder = path_in_tree("tests/data/marian-en-fr")};
  setup s;
  tsr_tokenizer *tokenizer;
  int32_t **source = calloc((size_t)n_sentences, sizeof *source);
  int32_t *lengths = calloc((size_t)n_sentences, sizeof *lengths);
  assert_true(source && lengths);
  check(tsr_runtime_create(NULL, &f.runtime));
  open_setup(&f, device_wanted, NULL, &s);
  check(tsr_tokenizer_open(s.model, &tokenizer));
  choose_searches(s.model, t);
  for (int32_t i = 0; i < n_sentences; i++) {
    check(tsr_tokenizer_encode(tokenizer, t->sentences[i], strlen(t->sentences[i]), &source[i], &lengths[i]));
  }
  for (int32_t k = 0; k < N_SEARCHES; k++) {
    tsr_generation g;
    t->expected[k] = calloc((size_t)n_sentences, sizeof *t->expected[k]);
    assert_non_null(t->expected[k]);
    check(tsr_generate(s.transformer, n_sentences, (const int32_t *const *)source, lengths, 0, &t->searches[k], NULL,
                       NULL, &g));
    for (int32_t i = 0; i < n_sentences; i++) {
      const tsr_hypothesis *h = &g.hypotheses[i];
      check(tsr_tokenizer_decode(tokenizer, h->ids, h->n_ids, &t->expected[k][i].text));
      t->expected[k][i].score = h->score;
    }
    tsr_generation_finish(&g);
  }
  for (int32_t i = 0; i < n_sentences; i++) {
    tsr_free(source[i]);
  }
  free(source);
  free(lengths);
  tsr_tokenizer_close(tokenizer);
  close_setup(&s);
  tsr_runtime_destroy(f.runtime);
  free(f.folder);
}

/* ---- in a crowd -------------------------------------------------------------------------------------------------- */

/* Holds what came against what should. */
static void compare(trial *t, int32_t sentence, const expectation *e, const tsr_translation_hypothesis *h)
{
  enum { MOST_SHOWN = 10 };
  const int is_near = fabsf(h->score - e->score) <= tolerance;
  const int is_text = strcmp(h->text, e->text) == 0;
  if (is_text && (is_near || (isnan(h->score) && isnan(e->score)))) {
    return;
  }
  int n_before = atomic_fetch_add(is_near ? &t->n_tied : &t->n_wrong, 1);
  if (n_before < MOST_SHOWN) {
    fprintf(stderr, "sentence %d, %s: '%s' %.7g; in sorted batches '%s' %.7g\n", (int)sentence,
            search_names[t->search[sentence]], h->text, (double)h->score, e->text, (double)e->score);
  }
}

static void ask(void *user, int32_t i)
{
  trial *t = user;
  const int32_t k = t->search[i];
  const tsr_translation_request request = {TSR_SIZED(tsr_translation_request), .text = t->sentences[i],
                                           .search = &t->searches[k], .number = i};
  tsr_translation *found = NULL;
  uint64_t ticket;
  if (tsr_translator_submit(t->translator, &request, NULL, NULL, &ticket) != TSR_OK ||
      tsr_translator_wait(t->translator, ticket, &found) != TSR_OK || found->status != TSR_OK) {
    fprintf(stderr, "sentence %d: %s\n", (int)i, found ? found->message : tsr_error_message());
    atomic_fetch_add(&t->n_wrong, 1);
  } else {
    compare(t, i, &t->expected[k][i], found->hypotheses[0]);
  }
  tsr_translation_free(found);
}

/* kind: a search; N_SEARCHES: each sentence draws one. Returns how many sentences joined a batch. */
static int32_t run_crowd(trial *t, int32_t kind)
{
  enum { MOST_IN_BATCH = 48, MOST_WORKERS = 3 };
  const int32_t most = n_sentences / 4 < MOST_IN_BATCH ? n_sentences / 4 : MOST_IN_BATCH;
  char *folder = path_in_tree("tests/data/marian-en-fr");
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device_wanted,
                                          .batch = 1 + tsr_random_below(&seed, most),
                                          .workers = 1 + tsr_random_below(&seed, MOST_WORKERS)};
  check(tsr_translator_open(folder, &options, &t->translator));
  choose_searches(tsr_translator_model(t->translator), t);
  for (int32_t i = 0; i < n_sentences; i++) {
    t->search[i] = kind < N_SEARCHES ? kind : tsr_random_below(&seed, N_SEARCHES);
  }
  atomic_store(&t->n_tied, 0);
  atomic_store(&t->n_wrong, 0);
  ask_in_a_crowd(n_sentences, &seed, ask, t);
  tsr_translator_statistics s;
  tsr_translator_measure(t->translator, &s);
  printf("%s, %s, batch %d, workers %d: %d joined, %d batches, %.1f sentences in a step; %d tied, %d wrong\n",
         device_wanted, kind < N_SEARCHES ? search_names[kind] : "all searches", (int)options.batch,
         (int)options.workers, (int)s.joined, (int)s.batches,
         (double)s.rows / (double)(s.step_runs > 0 ? s.step_runs : 1), atomic_load(&t->n_tied),
         atomic_load(&t->n_wrong));
  fflush(stdout);
  tsr_translator_close(t->translator);
  free(folder);
  return (int32_t)s.joined;
}

static void test_company(void **state)
{
  (void)state;
  trial t = {.sentences = read_test_sentences(n_sentences), .search = calloc((size_t)n_sentences, sizeof *t.search)};
  int32_t n_wrong = 0, n_tied = 0, n_joined = 0;
  assert_non_null(t.search);
  search_sorted(&t);
  for (int32_t kind = 0; kind <= N_SEARCHES; kind++) {
    n_joined += run_crowd(&t, kind);
    n_wrong += atomic_load(&t.n_wrong);
    n_tied += atomic_load(&t.n_tied);
  }
  assert_int_equal(n_wrong, 0);
  assert_in_range(n_tied, 0, n_sentences / 500);
  assert_true(n_joined > 0);
  for (int32_t k = 0; k < N_SEARCHES; k++) {
    for (int32_t i = 0; i < n_sentences; i++) {
      tsr_free(t.expected[k][i].text);
    }
    free(t.expected[k]);
  }
  free(t.search);
  free_test_sentences(t.sentences, n_sentences);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_company)};
  if (argc != 3) {
    fprintf(stderr, "usage: test_model_batch_invariance DEVICE N\n");
    return 1;
  }
  device_wanted = argv[1];
  n_sentences = TEST_IS_SANITIZED && atoi(argv[2]) > FEW ? FEW : atoi(argv[2]);
  seed = draw_seed();
  return has_device(device_wanted) ? cmocka_run_group_tests(tests, NULL, NULL) : EXIT_SKIPPED;
}
