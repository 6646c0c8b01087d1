/* SPDX-License-Identifier: Apache-2.0
 *
 * What is found to be wrong with translations: cases counted by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/eval.h"

enum {
  EMPTY = 1 << TSR_FLAW_EMPTY,
  REPEATS = 1 << TSR_FLAW_REPEATS,
  COPIED = 1 << TSR_FLAW_COPIED,
  SHORT = 1 << TSR_FLAW_SHORT,
  LONG = 1 << TSR_FLAW_LONG
};

typedef struct row {
  const char *hypothesis;
  const char *references[2];
  const char *source;
  int64_t words[3]; /* of the hypothesis, the reference, the source */
  int64_t repeats[TSR_BLEU_ORDER];
  int64_t doubled;
  int32_t flaws;
} row;

static const row rows[] = {
    {"a b c d", {"a b c d"}, "w x y z", {4, 4, 4}, {0, 0, 0, 0}, 0, 0},
    {"", {""}, "", {0, 0, 0}, {0, 0, 0, 0}, 0, 0},
    {" ", {"a"}, NULL, {0, 1, 0}, {0, 0, 0, 0}, 0, EMPTY},
    {"", {"a b c d e"}, "w", {0, 5, 1}, {0, 0, 0, 0}, 0, EMPTY},
    /* a three times in all, once in the reference; a b and a b a, once more each. */
    {"a b a b a", {"a c"}, NULL, {5, 2, 0}, {3, 2, 1, 0}, 0, REPEATS | LONG},
    {"a b a b a", {"a b a b a"}, NULL, {5, 5, 0}, {0, 0, 0, 0}, 0, 0},
    {"a b a b a", {"c", "a b a b a"}, NULL, {5, 5, 0}, {0, 0, 0, 0}, 0, 0},
    {"the the cat", {"the cat"}, NULL, {3, 2, 0}, {1, 0, 0, 0}, 1, REPEATS},
    {"no no no", {"no no"}, NULL, {3, 2, 0}, {1, 1, 0, 0}, 1, REPEATS},
    {"a b, a c", {"a b c d"}, NULL, {5, 4, 0}, {1, 0, 0, 0}, 0, 0},
    {"w x", {"a b"}, "w x", {2, 2, 2}, {0, 0, 0, 0}, 0, COPIED},
    {"w x", {"w x"}, "w x", {2, 2, 2}, {0, 0, 0, 0}, 0, 0},
    {"w x a b", {"a b c d"}, "w x y z", {4, 4, 4}, {0, 0, 0, 0}, 0, COPIED},
    {"w a b c", {"a b c d"}, "w x y z", {4, 4, 4}, {0, 0, 0, 0}, 0, 0},
    {"w x a b", {"w x c d"}, "w x y z", {4, 4, 4}, {0, 0, 0, 0}, 0, 0},
    {"w x a b", {"a b c d"}, NULL, {4, 4, 0}, {0, 0, 0, 0}, 0, 0},
    {"a", {"a b c d"}, NULL, {1, 4, 0}, {0, 0, 0, 0}, 0, SHORT},
    {"a b", {"a b c d"}, NULL, {2, 4, 0}, {0, 0, 0, 0}, 0, 0},
    {"a", {"a b c"}, NULL, {1, 3, 0}, {0, 0, 0, 0}, 0, 0},
    {"a b c d e", {"a b"}, NULL, {5, 2, 0}, {0, 0, 0, 0}, 0, LONG},
    {"a b c", {"a"}, NULL, {3, 1, 0}, {0, 0, 0, 0}, 0, 0},
    {"a\xFF b", {"a\xEF\xBF\xBD b"}, NULL, {2, 2, 0}, {0, 0, 0, 0}, 0, 0},
};

static tsr_span span(const char *text)
{
  return (tsr_span){text, strlen(text)};
}

static void test_rows(void **state)
{
  (void)state;
  tsr_analyser *analyser;
  assert_int_equal(tsr_analyser_create(&analyser), TSR_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const row *r = &rows[i];
    tsr_span references[2] = {span(r->references[0]), span(r->references[1] ? r->references[1] : "")};
    tsr_span source = span(r->source ? r->source : "");
    tsr_facts facts;
    assert_int_equal(tsr_analyse(analyser, span(r->hypothesis), references, r->references[1] ? 2 : 1,
                                 r->source ? &source : NULL, &facts),
                     TSR_OK);
    const int64_t words[3] = {facts.words, facts.reference_words, facts.source_words};
    if (memcmp(words, r->words, sizeof words) != 0 || memcmp(facts.repeats, r->repeats, sizeof facts.repeats) != 0 ||
        facts.doubled != r->doubled || facts.flaws != r->flaws) {
      fail_msg("'%s': %d, %d, %d words; repeats %d, %d, %d, %d; %d doubled; flaws %x", r->hypothesis, (int)words[0],
               (int)words[1], (int)words[2], (int)facts.repeats[0], (int)facts.repeats[1], (int)facts.repeats[2],
               (int)facts.repeats[3], (int)facts.doubled, (unsigned)facts.flaws);
    }
  }
  tsr_analyser_destroy(analyser);
  tsr_analyser_destroy(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
