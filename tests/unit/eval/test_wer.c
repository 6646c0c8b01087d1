/* SPDX-License-Identifier: Apache-2.0
 *
 * The word error rate: cases counted by hand, a plain table of distances, several references, and long texts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/eval/word_errors.h"
#include "tessera/eval.h"

static tsr_span span(const char *text)
{
  return (tsr_span){text, strlen(text)};
}

static tsr_scorer *create(tsr_normalizer *normalizer)
{
  tsr_scorer *scorer;
  assert_int_equal(tsr_scorer_create(TSR_METRIC_WER, &scorer), TSR_OK);
  assert_int_equal(tsr_scorer_set_normalizer(scorer, normalizer), TSR_OK);
  return scorer;
}

static tsr_wer wer_of(const tsr_scorer *scorer)
{
  tsr_wer wer;
  assert_int_equal(tsr_scorer_wer(scorer, &wer), TSR_OK);
  return wer;
}

static void assert_counts(const char *hypothesis, const char *reference, int64_t substitutions, int64_t deletions,
                          int64_t insertions)
{
  tsr_scorer *scorer = create(NULL);
  assert_int_equal(tsr_scorer_add(scorer, span(hypothesis), span(reference)), TSR_OK);
  tsr_wer wer = wer_of(scorer);
  assert_int_equal(wer.substitutions, substitutions);
  assert_int_equal(wer.deletions, deletions);
  assert_int_equal(wer.insertions, insertions);
  tsr_scorer_destroy(scorer);
}

static void test_counts(void **state)
{
  (void)state;
  assert_counts("", "", 0, 0, 0);
  assert_counts("a b c", "a b c", 0, 0, 0);
  assert_counts(" a\tb\xE3\x80\x80"
                "c ",
                "a b c", 0, 0, 0);
  assert_counts("a x c", "a b c", 1, 0, 0);
  assert_counts("a c", "a b c", 0, 1, 0);
  assert_counts("a b b c", "a b c", 0, 0, 1);
  assert_counts("", "a b c", 0, 3, 0);
  assert_counts("a b c", " ", 0, 0, 3);
  assert_counts("A b", "a b", 1, 0, 0);
  assert_counts("b c d", "a b c", 0, 1, 1); /* not three substitutions */
  assert_counts("b x", "a b", 0, 1, 1);     /* as many errors as two substitutions, and a word more is correct */
  assert_counts("a \xFF", "a \xEF\xBF\xBD", 0, 0, 0); /* invalid bytes are U+FFFD */
}

static void test_corpus(void **state)
{
  (void)state;
  tsr_normalizer *basic;
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_BASIC, 0, NULL, &basic), TSR_OK);
  tsr_scorer *scorer = create(basic);
  tsr_wer wer = wer_of(scorer);
  assert_true(isnan(wer.score));
  assert_int_equal(tsr_scorer_add(scorer, span("Hello, world."), span("hello world")), TSR_OK);
  assert_int_equal(tsr_scorer_add(scorer, span("(none)"), span("one two")), TSR_OK);
  assert_int_equal(tsr_scorer_add(scorer, span("more"), span("...")), TSR_OK);
  assert_int_equal(tsr_scorer_set_normalizer(scorer, NULL), TSR_ERR_ARGUMENT);
  wer = wer_of(scorer);
  assert_int_equal(wer.deletions, 2);
  assert_int_equal(wer.insertions, 1);
  assert_int_equal(wer.reference_words, 4);
  assert_int_equal(wer.hypothesis_words, 3);
  assert_true(fabs(wer.score - 75) < 1e-12);
  char text[128];
  tsr_scorer_signature(scorer, TSR_METRIC_WER, text, sizeof text);
  assert_ptr_equal(strstr(text, "nrefs:1|norm:basic|version:tessera-"), text);

  /* The reference with the fewest errors per word: one of four is less than one of two. */
  tsr_span references[] = {span("a x"), span("a b c x"), span("")};
  assert_int_equal(tsr_scorer_add_references(scorer, span("a b c d"), references, 3), TSR_OK);
  wer = wer_of(scorer);
  assert_int_equal(wer.substitutions, 1);
  assert_int_equal(wer.reference_words, 8);
  tsr_scorer_signature(scorer, TSR_METRIC_WER, text, sizeof text);
  assert_ptr_equal(strstr(text, "nrefs:var|norm:basic|version:tessera-"), text);
  tsr_scorer_destroy(scorer);
  tsr_normalizer_destroy(basic);

  assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU, &scorer), TSR_OK);
  assert_int_equal(tsr_scorer_wer(scorer, &wer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_set_normalizer(scorer, NULL), TSR_ERR_ARGUMENT);
  tsr_scorer_destroy(scorer);
}

/* Errors and substitutions by the whole table. */
static void count_plainly(const tsr_symbols *h, const tsr_symbols *r, int64_t *errors, int64_t *substitutions)
{
  enum { WIDEST = 128 };
  static int64_t costs[WIDEST][WIDEST]; /* 1000 * errors + substitutions */
  for (size_t i = 0; i <= r->n; i++) {
    for (size_t j = 0; j <= h->n; j++) {
      int64_t best = i == 0 && j == 0 ? 0 : INT64_MAX;
      if (i > 0 && j > 0) {
        best = costs[i - 1][j - 1] + (r->symbols[i - 1] == h->symbols[j - 1] ? 0 : 1001);
      }
      best = i > 0 && costs[i - 1][j] + 1000 < best ? costs[i - 1][j] + 1000 : best;
      costs[i][j] = j > 0 && costs[i][j - 1] + 1000 < best ? costs[i][j - 1] + 1000 : best;
    }
  }
  *errors = costs[r->n][h->n] / 1000;
  *substitutions = costs[r->n][h->n] % 1000;
}

static uint32_t next_random(uint32_t *seed, uint32_t below)
{
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % below;
}

static void test_table(void **state)
{
  (void)state;
  uint32_t seed = 1, words[2][100];
  for (int trial = 0; trial < 3000; trial++) {
    tsr_symbols h = {words[0], next_random(&seed, 100), 100}, r = {words[1], next_random(&seed, 100), 100};
    uint32_t vocabulary = 2 + next_random(&seed, 20);
    for (size_t i = 0; i < 100; i++) {
      words[0][i] = next_random(&seed, vocabulary);
      words[1][i] = next_random(&seed, 4) > 0 ? words[0][i] : next_random(&seed, vocabulary);
    }
    int64_t n_errors, substitutions;
    tsr_word_errors errors;
    count_plainly(&h, &r, &n_errors, &substitutions);
    assert_int_equal(tsr_word_errors_count(&h, &r, &errors), TSR_OK);
    assert_int_equal(errors.substitutions + errors.deletions + errors.insertions, n_errors);
    assert_int_equal(errors.substitutions, substitutions);
    assert_int_equal(errors.insertions - errors.deletions, (int64_t)h.n - (int64_t)r.n);
  }
}

/* The best alignment lies outside of the band of the first bound, in which there is another one. */
static void test_band(void **state)
{
  enum { SHIFT = 12, COMMON = 30, N = SHIFT + COMMON };
  (void)state;
  uint32_t words[2][N];
  for (uint32_t i = 0; i < N; i++) {
    words[0][i] = i < COMMON ? i : 100 + i;
    words[1][i] = i < SHIFT ? 200 + i : i - SHIFT;
  }
  tsr_word_errors errors;
  assert_int_equal(tsr_word_errors_count(&(tsr_symbols){words[0], N, N}, &(tsr_symbols){words[1], N, N}, &errors),
                   TSR_OK);
  assert_int_equal(errors.substitutions, 0);
  assert_int_equal(errors.deletions, SHIFT);
  assert_int_equal(errors.insertions, SHIFT);
}

/* Two texts of a megabyte with a few errors: a table of their words would take 250 GiB and minutes. */
static void test_long(void **state)
{
  enum { WORDS = 180000 };
  (void)state;
  char *hypothesis = malloc(8 * WORDS), *reference = malloc(8 * WORDS);
  assert_true(hypothesis && reference);
  size_t used[2] = {0};
  for (int i = 0; i < WORDS; i++) {
    used[0] += i % 60000 == 100 ? 0 : (size_t)sprintf(hypothesis + used[0], "%d ", i % 45000 == 7 ? -1 : i);
    used[1] += (size_t)sprintf(reference + used[1], "%d ", i);
  }
  tsr_scorer *scorer = create(NULL);
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){hypothesis, used[0]}, (tsr_span){reference, used[1]}), TSR_OK);
  tsr_wer wer = wer_of(scorer);
  assert_int_equal(wer.substitutions, 4);
  assert_int_equal(wer.deletions, 3);
  assert_int_equal(wer.insertions, 0);
  assert_int_equal(wer.reference_words, WORDS);
  tsr_scorer_destroy(scorer);
  free(hypothesis);
  free(reference);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts), cmocka_unit_test(test_corpus), cmocka_unit_test(test_table),
      cmocka_unit_test(test_band),   cmocka_unit_test(test_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
