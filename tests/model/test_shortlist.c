/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches that compute the logits of a few tokens: with all tokens in the list, the results are those of a search
 * without one; with fewer, they are the best of these by teacher forcing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/generate/shortlist.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 7, SMALL = 37, LARGE = 300, FIRST = 10 };

/* ---- sets, by hand ----------------------------------------------------------------------------------------------- */

static void test_sets(void **state)
{
  (void)state;
  static const tsr_shortlist_entry entries[] = {
      {.source = 3, .target = 200, .probability = 0.2f}, {.source = 3, .target = 201, .probability = 0.5f},
      {.source = 3, .target = 202, .probability = 0.3f}, {.source = 5, .target = 202, .probability = 1.0f},
      {.source = 4, .target = 299, .probability = 1.0f},
  };
  static const int32_t source[] = {5, 3, 7};
  tsr_shortlist *list;
  tsr_token_set set;
  int32_t *tokens, n;
  assert_int_equal(tsr_shortlist_create(10, 300, entries, 5, 2, 2, &list), TSR_OK);
  assert_int_equal(tsr_token_set_init(&set, list, 300), TSR_OK);
  assert_int_equal(set.n, 2);
  tsr_token_set_add_source(&set, list, source, 3);
  assert_int_equal(set.n, 4); /* 201 and 202, the best two of 3 */
  assert_true(set.has[201] && set.has[202] && !set.has[200] && !set.has[299]);
  tsr_token_set_add(&set, 300);
  tsr_token_set_add(&set, -1);
  assert_int_equal(tsr_token_set_list(&set, &tokens, &n), TSR_OK);
  assert_int_equal(n, 128); /* filled up from below */
  for (int32_t i = 0; i < 126; i++) {
    assert_int_equal(tokens[i], i);
  }
  assert_int_equal(tokens[126], 201);
  assert_int_equal(tokens[127], 202);
  free(tokens);
  tsr_token_set_finish(&set);
  tsr_shortlist_close(list);
  assert_int_equal(tsr_shortlist_create(10, 299, entries, 5, 2, 2, &list), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "entry 4 is of the tokens 4 and 299"));
}

/* ---- all tokens -------------------------------------------------------------------------------------------------- */

static void compare(const setup *s, const batch *b, tsr_generate_options options, const tsr_shortlist *list)
{
  tsr_generation plain, listed;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &plain));
  options.shortlist = list;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &listed));
  for (int32_t i = 0; i < N_SENTENCES * plain.n_best; i++) {
    assert_same(&plain.hypotheses[i], &listed.hypotheses[i]);
  }
  tsr_generation_finish(&plain);
  tsr_generation_finish(&listed);
}

static void compare_searches(const setup *s, const batch *b, const tsr_shortlist *list)
{
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(s, beam);
    compare(s, b, options, list);
    options.suppressed = (const int32_t[]){5};
    options.n_suppressed = 1;
    options.min_length = 6;
    options.scores = 1;
    compare(s, b, options, list);
    options.no_repeat_ngram = 2;
    options.renormalize = beam > 1; /* whole rows come back */
    compare(s, b, options, list);
  }
  tsr_generate_options options = options_for(s, 1);
  options.sample = 1;
  options.n_best = 2;
  compare(s, b, options, list);
}

static void test_all_tokens(void **state)
{
  const fixture *f = *state;
  static const random_model models[] = {
      {.seed = 101},
      {.seed = 102, .nn = 1, .d_model = 20, .heads = 5, .layers = 1, .vocabulary = 53, .target = SMALL},
  };
  static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16};
  tsr_shortlist *list;
  check(tsr_shortlist_create(SMALL, SMALL, NULL, 0, SMALL, 0, &list));
  for (int32_t m = 0; m < 2; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      for (int32_t k = 0; k < (m == 0 ? 3 : 1); k++) {
        const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = dtypes[k]};
        setup s;
        batch b;
        open_setup(f, device_name(f, d), &options, &s);
        make_batch(models[m].seed, SMALL, N_SENTENCES, &b);
        if (is_precise(&s, dtypes[k])) {
          compare_searches(&s, &b, list);
        }
        close_setup(&s);
        free_batch(&b);
      }
    }
  }
  tsr_shortlist_close(list);
}

/* ---- few tokens -------------------------------------------------------------------------------------------------- */

/* Each source token has two targets, far up in the vocabulary. */
static tsr_shortlist *make_list(void)
{
  tsr_shortlist_entry entries[2 * SMALL];
  tsr_shortlist *list;
  for (int32_t i = 0; i < 2 * SMALL; i++) {
    entries[i] = (tsr_shortlist_entry){.source = i / 2, .target = 150 + (i * 53) % 150, .probability = 0.5f};
  }
  check(tsr_shortlist_create(SMALL, LARGE, entries, 2 * SMALL, FIRST, 2, &list));
  return list;
}

static void choose(const tsr_transformer_config *config, const tsr_shortlist *list, const int32_t *source,
                   int32_t length, int32_t **tokens, int32_t *n)
{
  tsr_token_set set;
  check(tsr_token_set_init(&set, list, config->target_vocabulary));
  tsr_token_set_add(&set, config->unk_id);
  tsr_token_set_add(&set, config->eos_id);
  tsr_token_set_add_source(&set, list, source, length);
  check(tsr_token_set_list(&set, tokens, n));
  tsr_token_set_finish(&set);
}

static void check_few(const setup *s, const int32_t *source, int32_t length, const tsr_shortlist *list, int32_t beam)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  tsr_generate_options options = options_for(s, beam);
  tsr_generation g;
  int32_t *tokens, n;
  options.shortlist = list;
  options.n_best = 1;
  check(tsr_generate(s->transformer, 1, &source, &length, 0, &options, NULL, NULL, &g));
  choose(config, list, source, length, &tokens, &n);
  assert_int_equal(n, 128);
  const tsr_hypothesis *h = &g.hypotheses[0];
  size_t vocabulary = (size_t)config->target_vocabulary;
  float *logits = forced_logits(s, source, length, h->ids, h->n_ids);
  double sum = 0.0;
  for (int32_t t = 0; t < h->n_ids; t++) {
    const float *row = logits + (size_t)t * vocabulary;
    double total = 0.0;
    int32_t found = 0;
    for (int32_t i = 0; i < n; i++) {
      total += exp((double)row[tokens[i]]);
      found |= tokens[i] == h->ids[t];
      assert_true(beam > 1 || row[tokens[i]] <= row[h->ids[t]] + 1e-4f);
    }
    assert_true(found);
    sum += (double)row[h->ids[t]] - log(total);
  }
  double score = sum / pow((double)h->n_ids, (double)options.length_penalty);
  assert_true(beam == 1 || fabs(score - (double)h->score) <= 2e-5 * fmax(1.0, fabs(score)));
  free(logits);
  free(tokens);
  tsr_generation_finish(&g);
}

static void test_few_tokens(void **state)
{
  const fixture *f = *state;
  static const random_model model = {.seed = 103, .vocabulary = SMALL, .target = LARGE};
  tsr_shortlist *list = make_list();
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup s;
    batch b;
    open_setup(f, device_name(f, d), NULL, &s);
    make_batch(model.seed, SMALL, N_SENTENCES, &b);
    for (int32_t i = 0; i < N_SENTENCES; i++) {
      if (b.lengths[i] > 0) {
        check_few(&s, b.source[i], b.lengths[i], list, 1);
        check_few(&s, b.source[i], b.lengths[i], list, 3);
      }
    }
    close_setup(&s);
    free_batch(&b);
  }
  tsr_shortlist_close(list);
}

static void test_mistakes(void **state)
{
  const fixture *f = *state;
  static const random_model model = {.seed = 104};
  tsr_shortlist *list = make_list();
  setup s;
  batch b;
  tsr_generation g;
  random_model_write(f->folder, &model);
  open_setup(f, "reference", NULL, &s);
  make_batch(1, SMALL, N_SENTENCES, &b);
  tsr_generate_options options = options_for(&s, 1);
  options.shortlist = list;
  assert_int_equal(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "shortlist is for vocabularies of 37 and 300"));
  close_setup(&s);
  free_batch(&b);
  tsr_shortlist_close(list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sets),
      cmocka_unit_test(test_all_tokens),
      cmocka_unit_test(test_few_tokens),
      cmocka_unit_test(test_mistakes),
  };
  return cmocka_run_group_tests_name("shortlist", tests, start, stop);
}
