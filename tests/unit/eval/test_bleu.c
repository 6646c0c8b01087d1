/* SPDX-License-Identifier: Apache-2.0
 *
 * BLEU and chrF: cases counted by hand, and sacreBLEU's recorded scores.
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
#include <jansson.h>

#include "core/base/utf8.h"
#include "core/eval/ngrams.h"
#include "core/eval/words.h"
#include "tessera/corpus.h"
#include "tessera/eval.h"
#include "tests/support/temporary.h"

static tsr_span span(const char *text)
{
  return (tsr_span){text, strlen(text)};
}

static void assert_near(double value, double expected, double bound)
{
  if (!(fabs(value - expected) <= bound)) {
    fail_msg("%.12g is not within %g of %.12g", value, bound, expected);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * The tokenizer
 */

/* The words of the text, each pair parted by one space, are as expected. */
static void assert_words(const char *text, const char *expected)
{
  tsr_text_buffer buffers[2] = {{0}};
  const char *tokens;
  size_t size;
  assert_int_equal(tsr_tokenize_13a(buffers, text, strlen(text), &tokens, &size), TSR_OK);
  char *words = calloc(1, size + 2);
  assert_non_null(words);
  size_t used = 0;
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    int space = tsr_is_space(tsr_utf8_decode(tokens + i, size - i, &length));
    if (space && used > 0 && words[used - 1] != ' ') {
      words[used++] = ' ';
    }
    if (!space) {
      memcpy(words + used, tokens + i, length);
      used += length;
    }
  }
  if (used > 0 && words[used - 1] == ' ') {
    used--;
  }
  words[used] = '\0';
  assert_string_equal(words, expected);
  free(words);
  free(buffers[0].bytes);
  free(buffers[1].bytes);
}

static void test_tokenizer(void **state)
{
  (void)state;
  assert_words("", "");
  assert_words("  \t\n ", "");
  assert_words("Hello, world!", "Hello , world !");
  assert_words("1,000.50 euros, not 1.000,50.", "1,000.50 euros , not 1.000,50 .");
  assert_words(".5 5. .,5", ". 5 5 . . ,5"); /* the first of two points takes what stands before it */
  assert_words("...", ". . .");
  assert_words("a..b", "a . . b");
  assert_words("1...2", "1 . . .2");
  assert_words("1..2", "1 . . 2");
  assert_words("a.b,c", "a . b , c");
  assert_words("3-4 a-b -5 10%-5", "3 - 4 a-b -5 10 % -5");
  assert_words("It's \"over\"", "It's \" over \"");
  assert_words("{a}[b]^_`~|\\ #$%& (c)*+ :;<=>?@ /d", "{ a } [ b ] ^ _ ` ~ | \\ # $ % & ( c ) * + : ; < = > ? @ / d");
  assert_words("&quot;a&quot; &amp; &lt;b&gt; &amp;lt; &amp;amp; &apos; &#39;",
               "\" a \" & < b > < & amp ; & apos ; & # 39 ;");
  assert_words("a <skipped>b <skip<skipped>ped>", "a b < skipped >");
  assert_words("hy-\nphen and\nfeed-\n", "hyphen and feed-");
  assert_words("caf\xC3\xA9. \xC2\xAB non \xC2\xBB, \xE2\x80\x94 \xE6\x97\xA5\xE3\x80\x82",
               "caf\xC3\xA9 . \xC2\xAB non \xC2\xBB , \xE2\x80\x94 \xE6\x97\xA5\xE3\x80\x82");
  assert_words("a\xC2\xA0z\xE2\x80\xAF!\xE3\x80\x80", "a z !"); /* U+00A0, U+202F, U+3000 */
  assert_words(".\xC3\xA9,\xC3\xA9", ". \xC3\xA9 , \xC3\xA9");
}

/* ------------------------------------------------------------------------------------------------------------------
 * Scores by hand
 */
static tsr_bleu bleu_of(const char *hypothesis, const char *reference)
{
  tsr_bleu bleu;
  tsr_span h = span(hypothesis);
  tsr_span r = span(reference);
  assert_int_equal(tsr_bleu_corpus(&h, &r, 1, &bleu), TSR_OK);
  return bleu;
}

static tsr_chrf chrf_of(const char *hypothesis, const char *reference)
{
  tsr_chrf chrf;
  tsr_span h = span(hypothesis);
  tsr_span r = span(reference);
  assert_int_equal(tsr_chrf_corpus(&h, &r, 1, &chrf), TSR_OK);
  return chrf;
}

static void test_bleu(void **state)
{
  (void)state;
  tsr_bleu bleu = bleu_of("the cat sat on the mat", "the cat sat on the mat");
  assert_near(bleu.score, 100, 1e-9);
  assert_near(bleu.brevity_penalty, 1, 0);

  /* Clipped: "the" counts twice, as in the reference. Nothing matches from the second order on. */
  bleu = bleu_of("the the the the the the the", "the cat is on the mat");
  assert_int_equal(bleu.matches[0], 2);
  assert_int_equal(bleu.totals[0], 7);
  assert_int_equal(bleu.matches[1], 0);
  assert_int_equal(bleu.totals[3], 4);
  assert_near(bleu.precisions[0], 200.0 / 7, 1e-9);
  assert_near(bleu.precisions[1], 50.0 / 6, 1e-9);
  assert_near(bleu.precisions[2], 25.0 / 5, 1e-9);
  assert_near(bleu.precisions[3], 12.5 / 4, 1e-9);
  assert_near(bleu.brevity_penalty, 1, 0);
  assert_near(bleu.score, pow(200.0 / 7 * 50 / 6 * 25 / 5 * 12.5 / 4, 0.25), 1e-9);

  bleu = bleu_of("a b c d", "a b c d e f");
  assert_near(bleu.brevity_penalty, exp(1 - 6.0 / 4), 1e-12);
  assert_near(bleu.score, 100 * exp(-0.5), 1e-9);
  assert_int_equal(bleu.hypothesis_length, 4);
  assert_int_equal(bleu.reference_length, 6);

  /* Without n-grams of some order a corpus scores 0, a sentence what the others say. */
  bleu = bleu_of("a b", "a b");
  assert_near(bleu.score, 0, 0);
  assert_near(bleu.precisions[1], 100, 0);
  assert_near(bleu.precisions[2], 0, 0);
  assert_int_equal(tsr_bleu_sentence(span("a b"), span("a b"), &bleu), TSR_OK);
  assert_near(bleu.score, 100, 1e-9);

  /* Case counts; without a match all is 0, the penalty excepted. */
  bleu = bleu_of("A B C D", "a b c d");
  assert_near(bleu.score, 0, 0);
  assert_near(bleu.precisions[0], 0, 0);
  assert_near(bleu.brevity_penalty, 1, 0);
  bleu = bleu_of("", "a");
  assert_near(bleu.score, 0, 0);
  assert_near(bleu.brevity_penalty, 0, 0);
  bleu = bleu_of("a", "");
  assert_near(bleu.score, 0, 0);
  assert_near(bleu.brevity_penalty, 1, 0);
  assert_int_equal(bleu.totals[0], 1);
}

static void test_chrf(void **state)
{
  (void)state;
  assert_near(chrf_of("The cat.", " Thec at . ").score, 100, 1e-9); /* white space does not count */
  assert_near(chrf_of("\xC3\xA9\xC2\xA0\xE2\x80\xAF", "\xC3\xA9").score, 100, 1e-9);
  assert_near(chrf_of("a", "b").score, 0, 0);
  assert_near(chrf_of("", "b").score, 0, 0);
  assert_near(chrf_of("b", "").score, 0, 0);
  assert_near(chrf_of("", "").score, 0, 0);

  /* "aab" against "abbb": 1: a and b match, 2 of 3 and 2 of 4; 2: ab, 1 of 2 and 1 of 3; 3: none of 1 and of 2; there
   * is no fourth in the hypothesis. */
  tsr_chrf chrf = chrf_of("aab", "abbb");
  assert_int_equal(chrf.matches[0], 2);
  assert_int_equal(chrf.matches[1], 1);
  assert_int_equal(chrf.hypothesis[2], 1);
  assert_int_equal(chrf.reference[2], 2);
  assert_int_equal(chrf.reference[3], 1);
  double precision = (2.0 / 3 + 1.0 / 2) / 3;
  double recall = (2.0 / 4 + 1.0 / 3) / 3;
  assert_near(chrf.precision, precision, 1e-12);
  assert_near(chrf.recall, recall, 1e-12);
  assert_near(chrf.score, 100 * 5 * precision * recall / (4 * precision + recall), 1e-9);

  /* Of a hypothesis beyond its reference's length the longer n-grams are left out. */
  chrf = chrf_of("abcd", "ab");
  assert_int_equal(chrf.hypothesis[1], 3);
  assert_int_equal(chrf.hypothesis[2], 0);
}

/* Counts, not averages, add up: pair by pair as at once, whatever came in between. */
static void test_scorer(void **state)
{
  (void)state;
  const tsr_span hypotheses[] = {span("a b c d e"), span(""), span("x y"), span("the 3.5 cats , ok")};
  const tsr_span references[] = {span("a b c d f g"), span("z"), span("x y z w"), span("the 3.5 cats, ok")};
  enum { N = sizeof hypotheses / sizeof hypotheses[0] };
  tsr_bleu bleu;
  tsr_bleu bleu_at_once;
  tsr_chrf chrf;
  tsr_chrf chrf_at_once;
  tsr_scorer *scorer;
  assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &scorer), TSR_OK);
  for (int i = 0; i < N; i++) {
    assert_int_equal(tsr_scorer_add(scorer, hypotheses[i], references[i]), TSR_OK);
    assert_int_equal(tsr_scorer_bleu(scorer, &bleu), TSR_OK);
    assert_int_equal(tsr_scorer_chrf(scorer, &chrf), TSR_OK);
    assert_int_equal(tsr_bleu_corpus(hypotheses, references, i + 1, &bleu_at_once), TSR_OK);
    assert_int_equal(tsr_chrf_corpus(hypotheses, references, i + 1, &chrf_at_once), TSR_OK);
    assert_memory_equal(&bleu, &bleu_at_once, sizeof bleu);
    assert_memory_equal(&chrf, &chrf_at_once, sizeof chrf);
  }
  assert_int_equal(tsr_scorer_count(scorer), N);
  assert_int_equal(bleu.totals[0], 5 + 0 + 2 + 5);
  assert_int_equal(bleu.matches[3], 1 + 2);
  tsr_scorer_destroy(scorer);

  assert_int_equal(tsr_bleu_corpus(NULL, NULL, 0, &bleu), TSR_OK);
  assert_near(bleu.score, 0, 0);
  assert_near(bleu.brevity_penalty, 1, 0);
  assert_int_equal(tsr_chrf_corpus(NULL, NULL, 0, &chrf), TSR_OK);
  assert_near(chrf.score, 0, 0);
  tsr_scorer_destroy(NULL);
}

static void test_errors(void **state)
{
  (void)state;
  tsr_scorer *scorer;
  tsr_bleu bleu;
  tsr_chrf chrf;
  assert_int_equal(tsr_scorer_create(0, &scorer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_create(8, &scorer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_create(TSR_METRIC_CHRF, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_create(TSR_METRIC_CHRF, &scorer), TSR_OK);
  assert_int_equal(tsr_scorer_bleu(scorer, &bleu), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_chrf(scorer, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){NULL, 1}, span("a")), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){NULL, 0}, span("a")), TSR_OK);
  assert_int_equal(tsr_scorer_chrf(scorer, &chrf), TSR_OK);
  assert_int_equal(chrf.reference[0], 1);
  tsr_scorer_destroy(scorer);
  assert_int_equal(tsr_bleu_corpus(NULL, NULL, 1, &bleu), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_bleu_corpus(NULL, NULL, -1, &bleu), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_bleu_sentence(span("a"), span("a"), NULL), TSR_ERR_ARGUMENT);
}

/* Bytes that are no UTF-8 count as U+FFFD; NUL bytes are characters. */
static void test_any_bytes(void **state)
{
  (void)state;
  assert_near(chrf_of("a\xFF\xC3z", "a\xEF\xBF\xBD\xEF\xBF\xBDz").score, 100, 1e-9);
  assert_near(bleu_of("a \xFF z \xC3", "a \xEF\xBF\xBD z \xEF\xBF\xBD").score, 100, 1e-9);
  tsr_chrf chrf;
  const tsr_span with_nul = {"a\0b", 3};
  const tsr_span without = span("ab");
  assert_int_equal(tsr_chrf_corpus(&with_nul, &without, 1, &chrf), TSR_OK);
  assert_int_equal(chrf.hypothesis[0], 3);
  assert_int_equal(chrf.matches[0], 2);
  assert_int_equal(chrf.matches[1], 0);
  tsr_bleu bleu;
  const tsr_span words[] = {{"a\0b a\0 b c d", 12}};
  assert_int_equal(tsr_bleu_corpus(words, words, 1, &bleu), TSR_OK);
  assert_near(bleu.score, 100, 1e-9);
  assert_int_equal(bleu.totals[0], 5);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Counting n-grams against counting by comparison
 */
static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

enum { ORDER = 6, LONGEST = 60, REFERENCES = 3 };

static int64_t occurrences(const tsr_symbols *in, const uint32_t *ngram, size_t order)
{
  int64_t n = 0;
  for (size_t i = 0; i + order <= in->n; i++) {
    n += memcmp(in->symbols + i, ngram, order * sizeof *ngram) == 0;
  }
  return n;
}

/* Each distinct n-gram of the hypothesis by itself. */
static void count_by_hand(const tsr_symbols *hypothesis, const tsr_symbols *references, int32_t n_references,
                          size_t order, tsr_ngram_counts *counts)
{
  *counts = (tsr_ngram_counts){.hypothesis = 0};
  for (size_t i = 0; i + order <= hypothesis->n; i++) {
    const uint32_t *ngram = hypothesis->symbols + i;
    const tsr_symbols before = {.symbols = hypothesis->symbols, .n = i + order - 1};
    int64_t n = occurrences(hypothesis, ngram, order), most = 0;
    counts->hypothesis++;
    if (occurrences(&before, ngram, order) > 0) {
      continue;
    }
    for (int32_t r = 0; r < n_references; r++) {
      int64_t here = occurrences(&references[r], ngram, order);
      most = here > most ? here : most;
    }
    counts->matches += n < most ? n : most;
    most = most > 1 ? most : 1;
    counts->repeats += n > most ? n - most : 0;
  }
}

static void test_ngrams(void **state)
{
  (void)state;
  uint32_t random = 7;
  tsr_ngrams ngrams = {0};
  for (int round = 0; round < 2000; round++) {
    uint32_t texts[1 + REFERENCES][LONGEST];
    tsr_symbols symbols[1 + REFERENCES];
    uint32_t alphabet = 1 + next_random(&random) % 5;
    int32_t n_references = 1 + (int32_t)(next_random(&random) % REFERENCES);
    for (int32_t k = 0; k <= n_references; k++) {
      symbols[k] = (tsr_symbols){.symbols = texts[k], .n = next_random(&random) % LONGEST};
      for (size_t i = 0; i < symbols[k].n; i++) {
        texts[k][i] = next_random(&random) % alphabet * 0x10FFu;
      }
    }
    ngrams.stamp = round == 1000 ? UINT32_MAX - 2 : ngrams.stamp; /* and on over the end */
    tsr_ngram_counts counts[ORDER], expected;
    assert_int_equal(tsr_ngrams_count(&ngrams, &symbols[0], &symbols[1], n_references, ORDER, counts), TSR_OK);
    for (size_t order = 1; order <= ORDER; order++) {
      count_by_hand(&symbols[0], &symbols[1], n_references, order, &expected);
      assert_int_equal(counts[order - 1].hypothesis, expected.hypothesis);
      assert_int_equal(counts[order - 1].matches, expected.matches);
      assert_int_equal(counts[order - 1].repeats, expected.repeats);
      if (n_references == 1) {
        assert_int_equal(counts[order - 1].reference, symbols[1].n >= order ? symbols[1].n - order + 1 : 0);
      }
    }
  }
  tsr_ngrams_finish(&ngrams);
}

/* Counted by hand: each n-gram is taken from the reference that has it most often, the length from the nearest. */
static void test_references(void **state)
{
  (void)state;
  static const struct {
    const char *hypothesis, *references[3];
    int64_t matches[TSR_BLEU_ORDER], length;
    const char *signature;
  } rows[] = {
      {"the cat sat on the mat",
       {"the cat sat down here", "a dog sat on the mat today now"},
       {5, 5, 3, 1},
       5,
       "nrefs:2|"},
      {"the cat sat on the mat", {"a b c d e f g", "the the the the the"}, {2, 0, 0, 0}, 5, "nrefs:2|"}, /* 7 and 5 */
      {"the cat", {"", "the cat", ""}, {2, 1, 0, 0}, 2, "nrefs:1|"},
      {"the cat", {"", ""}, {0, 0, 0, 0}, 0, "nrefs:1|"},
  };
  tsr_scorer *all;
  char signature[128];
  assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU, &all), TSR_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_scorer *scorer;
    tsr_span references[3];
    tsr_bleu bleu, last;
    tsr_chrf chrf, each;
    int32_t n = 0;
    double best = 0;
    assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &scorer), TSR_OK);
    for (; n < 3 && rows[i].references[n]; n++) {
      references[n] = span(rows[i].references[n]);
      tsr_span hypothesis = span(rows[i].hypothesis);
      assert_int_equal(tsr_chrf_corpus(&hypothesis, &references[n], 1, &each), TSR_OK);
      best = fmax(best, each.score);
    }
    assert_int_equal(tsr_scorer_add_references(scorer, span(rows[i].hypothesis), references, n), TSR_OK);
    assert_int_equal(tsr_scorer_add_references(all, span(rows[i].hypothesis), references, n), TSR_OK);
    assert_int_equal(tsr_scorer_bleu(scorer, &bleu), TSR_OK);
    assert_int_equal(tsr_scorer_chrf(scorer, &chrf), TSR_OK);
    for (int k = 0; k < TSR_BLEU_ORDER; k++) {
      assert_int_equal(bleu.matches[k], rows[i].matches[k]);
    }
    assert_int_equal(bleu.reference_length, rows[i].length);
    assert_near(chrf.score, best, 1e-9);
    assert_memory_equal(tsr_scorer_signature(scorer, TSR_METRIC_BLEU, signature, sizeof signature), rows[i].signature,
                        8);
    assert_int_equal(tsr_scorer_last(scorer, &last, &each), TSR_OK);
    assert_near(each.score, chrf.score, 0);
    assert_true(last.score >= bleu.score);
    assert_int_equal(tsr_scorer_add(scorer, span("a"), span("b")), TSR_OK);
    assert_int_equal(tsr_scorer_last(scorer, &last, NULL), TSR_OK);
    assert_near(last.score, 0, 0);
    tsr_scorer_destroy(scorer);
  }
  assert_string_equal(tsr_scorer_signature(all, TSR_METRIC_CHRF, signature, 10), "nrefs:var");
  assert_int_equal(tsr_scorer_last(all, NULL, &(tsr_chrf){.score = 0}), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_scorer_add_references(all, span("a"), NULL, 0), TSR_ERR_ARGUMENT);
  tsr_scorer_destroy(all);
}

/* A text of many distinct words, and one word many times, in time proportional to its length. */
static void test_long_texts(void **state)
{
  (void)state;
  enum { WORDS = 200000, ROOM = WORDS * 8 };
  char *text = malloc(ROOM);
  assert_non_null(text);
  size_t size = 0;
  for (int i = 0; i < WORDS; i++) {
    size += (size_t)snprintf(text + size, ROOM - size, "%d ", i);
  }
  tsr_scorer *scorer;
  tsr_bleu bleu;
  tsr_chrf chrf;
  assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &scorer), TSR_OK);
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){text, size}, (tsr_span){text, size}), TSR_OK);
  for (size_t i = 0; i < size; i++) {
    text[i] = i % 2 ? ' ' : '.';
  }
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){text, size}, (tsr_span){text, size}), TSR_OK);
  memset(text, 'a', size);
  assert_int_equal(tsr_scorer_add(scorer, (tsr_span){text, size}, (tsr_span){text, size}), TSR_OK);
  assert_int_equal(tsr_scorer_bleu(scorer, &bleu), TSR_OK);
  assert_int_equal(tsr_scorer_chrf(scorer, &chrf), TSR_OK);
  assert_near(bleu.score, 100, 1e-9);
  assert_near(chrf.score, 100, 1e-9);
  assert_int_equal(bleu.totals[0], WORDS + (int64_t)(size + 1) / 2 + 1);
  tsr_scorer_destroy(scorer);
  free(text);
}

/* ------------------------------------------------------------------------------------------------------------------
 * sacreBLEU's scores
 */
static const json_t *member(const json_t *object, const char *name)
{
  const json_t *value = json_object_get(object, name);
  if (!value) {
    fail_msg("scores.json: no member %s", name);
  }
  return value;
}

/* Up to the version, which is the project's own. */
static void assert_signature(const char *signature, const char *expected)
{
  const char *version = strstr(expected, "|version:");
  assert_non_null(version);
  assert_memory_equal(signature, expected, (size_t)(version - expected));
  assert_memory_equal(signature + (version - expected), "|version:tessera-", strlen("|version:tessera-"));
}

static void check_set(const char *folder, const char *name, const json_t *expected)
{
  char file[256];
  snprintf(file, sizeof file, "%s.hyp", name);
  tsr_corpus_files files = {.source = path_in(folder, file)};
  snprintf(file, sizeof file, "%s.ref", name);
  files.target = path_in(folder, file);
  tsr_corpus *corpus;
  tsr_scorer *scorer;
  assert_int_equal(tsr_corpus_open(&files, &corpus), TSR_OK);
  assert_int_equal(tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &scorer), TSR_OK);
  const json_t *sentences = member(expected, "sentence_bleu_effective_order_first50");
  tsr_corpus_pair pair;
  tsr_bleu bleu;
  tsr_chrf chrf;
  size_t i = 0;
  for (int32_t end = 0;; i++) {
    assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
    if (end) {
      break;
    }
    tsr_span hypothesis = {pair.source, pair.source_size};
    tsr_span reference = {pair.target, pair.target_size};
    assert_int_equal(tsr_scorer_add(scorer, hypothesis, reference), TSR_OK);
    if (i < json_array_size(sentences)) {
      assert_int_equal(tsr_bleu_sentence(hypothesis, reference, &bleu), TSR_OK);
      assert_near(bleu.score, json_number_value(json_array_get(sentences, i)), 1e-9);
    }
  }
  assert_true(i >= json_array_size(sentences));
  assert_int_equal(tsr_scorer_bleu(scorer, &bleu), TSR_OK);
  assert_int_equal(tsr_scorer_chrf(scorer, &chrf), TSR_OK);
  print_message("%-12s  BLEU %.6f  chrF %.6f\n", name, bleu.score, chrf.score);
  assert_near(bleu.score, json_number_value(member(expected, "bleu")), 1e-9);
  assert_near(bleu.brevity_penalty, json_number_value(member(expected, "bp")), 1e-12);
  for (size_t order = 0; order < TSR_BLEU_ORDER; order++) {
    assert_near(bleu.precisions[order], json_number_value(json_array_get(member(expected, "precisions"), order)), 1e-9);
  }
  assert_int_equal(bleu.hypothesis_length, json_integer_value(member(expected, "sys_len")));
  assert_int_equal(bleu.reference_length, json_integer_value(member(expected, "ref_len")));
  assert_near(chrf.score, json_number_value(member(expected, "chrf")), 1e-9);
  assert_signature(tsr_bleu_signature(), json_string_value(member(expected, "bleu_signature")));
  assert_signature(tsr_chrf_signature(), json_string_value(member(expected, "chrf_signature")));
  tsr_scorer_destroy(scorer);
  tsr_corpus_close(corpus);
}

static void test_recorded(void **state)
{
  (void)state;
  static const char folder[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/bleu";
  json_error_t error;
  json_t *scores = json_load_file(path_in(folder, "scores.json"), 0, &error);
  if (!scores) {
    fail_msg("scores.json:%d: %s", error.line, error.text);
  }
  assert_true(json_object_size(scores) > 0);
  const char *name;
  json_t *expected;
  json_object_foreach(scores, name, expected)
  {
    check_set(folder, name, expected);
  }
  json_decref(scores);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tokenizer), cmocka_unit_test(test_bleu),       cmocka_unit_test(test_chrf),
      cmocka_unit_test(test_scorer),    cmocka_unit_test(test_errors),     cmocka_unit_test(test_any_bytes),
      cmocka_unit_test(test_ngrams),    cmocka_unit_test(test_references), cmocka_unit_test(test_long_texts),
      cmocka_unit_test(test_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
