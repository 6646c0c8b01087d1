/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens that are handed out while a search goes on: they are those of the results, in order, and who receives them can
 * stop it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 9, N_BEST = 3, ROOM = 64 };

static const random_model model = {.seed = 81, .layers = 1};

typedef struct output {
  int32_t ids[ROOM];
  int32_t n;
  int32_t n_last; /* how often a token was said to be the last */
} output;

typedef struct listener {
  output outputs[N_SENTENCES][N_BEST];
  int32_t stop_at; /* the step whose token is answered with 1; -1: none */
} listener;

static int32_t listen(void *user, const tsr_token *token)
{
  listener *l = user;
  assert_in_range(token->sentence, 0, N_SENTENCES - 1);
  assert_in_range(token->hypothesis, 0, N_BEST - 1);
  output *o = &l->outputs[token->sentence][token->hypothesis];
  assert_int_equal(token->step, o->n);
  assert_int_equal(o->n_last, 0);
  o->ids[o->n++] = token->id;
  o->n_last += token->is_last;
  return token->step == l->stop_at;
}

static void check_tokens(const setup *s, const batch *b, tsr_generate_options options, int32_t stop_at)
{
  listener *l = calloc(1, sizeof *l);
  tsr_generation g;
  assert_non_null(l);
  l->stop_at = stop_at;
  options.token = listen;
  options.token_user = l;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &g));
  int32_t told = options.sample ? g.n_best : 1; /* a beam's best alone */
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    for (int32_t k = 0; k < told; k++) {
      const tsr_hypothesis *h = &g.hypotheses[i * g.n_best + k];
      const output *o = &l->outputs[i][k];
      if (stop_at < 0) {
        assert_int_equal(o->n, h->n_ids);
        assert_int_equal(o->n_last, h->n_ids > 0);
      } else {
        assert_true(o->n <= stop_at + 1 && o->n <= h->n_ids);
        assert_true(options.beam > 1 || o->n == h->n_ids);
      }
      assert_memory_equal(o->ids, h->ids, (size_t)o->n * sizeof *h->ids);
    }
  }
  tsr_generation_finish(&g);
  free(l);
}

static void test_tokens(void **state)
{
  const fixture *f = *state;
  static const int32_t given[2] = {4, 11}, n_given[N_SENTENCES] = {2, 0, 1, 2, 0, 1, 2, 0, 1};
  const int32_t *prefixes[N_SENTENCES];
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    prefixes[i] = given;
  }
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup s;
    batch b;
    open_setup(f, device_name(f, d), NULL, &s);
    make_batch(model.seed, 37, N_SENTENCES, &b);
    for (int32_t beam = 1; beam <= 4; beam += 3) {
      tsr_generate_options options = options_for(&s, beam);
      check_tokens(&s, &b, options, -1);
      check_tokens(&s, &b, options, 4);
      options.prefix = prefixes;
      options.prefix_lengths = n_given;
      options.forced_eos_id = 0;
      check_tokens(&s, &b, options, -1);
    }
    tsr_generate_options options = options_for(&s, 1);
    options.sample = 1;
    options.n_best = N_BEST;
    check_tokens(&s, &b, options, -1);
    check_tokens(&s, &b, options, 2);
    close_setup(&s);
    free_batch(&b);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens)};
  return cmocka_run_group_tests_name("stream", tests, start, stop);
}
