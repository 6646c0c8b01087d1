/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of timestamps: against each rule said of one token alone, on drawn logits and histories; cases by hand; and
 * what was recorded, no token of which may be banned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/speech/timestamp_rules.h"
#include "tests/unit/speech/recordings.h"

/* ---- the rules, of one token ------------------------------------------------------------------------------------- */

static int is_timestamp(const tsr_timestamp_rules *rules, int32_t id)
{
  return id >= rules->timestamp_begin;
}

static int may_follow(const tsr_timestamp_rules *rules, const int32_t *generated, int32_t n, int32_t token)
{
  if (token == rules->no_timestamps) {
    return 0;
  }
  if (n == 0) {
    return is_timestamp(rules, token) &&
           (rules->max_initial < 0 || token - rules->timestamp_begin <= rules->max_initial);
  }
  const int text_then_timestamp =
      n >= 2 && !is_timestamp(rules, generated[n - 2]) && is_timestamp(rules, generated[n - 1]);
  if (!is_timestamp(rules, token)) {
    return !(text_then_timestamp && token < rules->eos);
  }
  if (is_timestamp(rules, generated[n - 1]) && !text_then_timestamp) {
    return 0;
  }
  int32_t last = -1;
  for (int32_t i = 0; i < n; i++) {
    last = is_timestamp(rules, generated[i]) ? generated[i] : last;
  }
  return token > last || (token == last && text_then_timestamp);
}

static void expect(const tsr_timestamp_rules *rules, const int32_t *generated, int32_t n, const float *before,
                   const float *after, int32_t vocabulary)
{
  double sum = 0.0, best = 0.0; /* probabilities, undivided */
  for (int32_t token = 0; token < vocabulary; token++) {
    const double p = may_follow(rules, generated, n, token) ? exp((double)before[token]) : 0.0;
    sum += is_timestamp(rules, token) ? p : 0.0;
    best = !is_timestamp(rules, token) && p > best ? p : best;
  }
  const int timestamps_only = rules->by_sum && sum > best;
  for (int32_t token = 0; token < vocabulary; token++) {
    const int is_kept = may_follow(rules, generated, n, token) && (is_timestamp(rules, token) || !timestamps_only);
    const float expected = is_kept ? before[token] : -INFINITY;
    if (!(after[token] == expected)) {
      fail_msg("token %d after %d tokens: %g, expected %g (eos %d, timestamps from %d of %d)", (int)token, (int)n,
               (double)after[token], (double)expected, (int)rules->eos, (int)rules->timestamp_begin, (int)vocabulary);
    }
  }
}

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

static uint32_t drawn = 12345;

static int32_t draw(int32_t below)
{
  drawn = drawn * 1664525u + 1013904223u;
  return (int32_t)((drawn >> 8) % (uint32_t)below);
}

enum { MOST_TOKENS = 64, MOST_HISTORY = 6 };

static void test_drawn(void **state)
{
  (void)state;
  int32_t sums_decided = 0;
  for (int32_t round = 0; round < 20000; round++) {
    tsr_timestamp_rules rules = {.eos = draw(10)};
    rules.no_timestamps = draw(8) ? rules.eos + draw(4) : -1;
    rules.timestamp_begin = rules.eos + 4 + draw(3);
    rules.max_initial = draw(3) ? draw(12) : -1;
    rules.by_sum = draw(4) > 0;
    const int32_t vocabulary = rules.timestamp_begin + draw(20);
    float before[MOST_TOKENS], after[MOST_TOKENS + 1];
    for (int32_t i = 0; i < vocabulary; i++) {
      before[i] = draw(10) ? (float)draw(4096) / 512.0f : -INFINITY;
    }
    int32_t generated[MOST_HISTORY];
    const int32_t n = draw(MOST_HISTORY + 1);
    for (int32_t i = 0; i < n; i++) {
      const int32_t n_timestamps = vocabulary - rules.timestamp_begin;
      generated[i] =
          draw(2) && n_timestamps > 0 ? rules.timestamp_begin + draw(n_timestamps) : draw(rules.timestamp_begin);
    }
    memcpy(after, before, sizeof before);
    after[vocabulary] = 7.0f; /* a guard */
    tsr_timestamp_rules_apply(&rules, generated, n, after, vocabulary);
    assert_true(after[vocabulary] == 7.0f);
    expect(&rules, generated, n, before, after, vocabulary);
    rules.by_sum = 0;
    float unsummed[MOST_TOKENS];
    memcpy(unsummed, before, sizeof before);
    tsr_timestamp_rules_apply(&rules, generated, n, unsummed, vocabulary);
    sums_decided += memcmp(unsummed, after, (size_t)vocabulary * sizeof *after) != 0;
  }
  assert_true(sums_decided > 1000);
}

/* ---- by hand: text 0 1 2, <|endoftext|> 3, <|notimestamps|> 4, <|0.00|> 5 to <|0.06|> 8 -------------------------- */

static void assert_allowed(const int32_t *generated, int32_t n, int32_t max_initial, const char *allowed)
{
  const tsr_timestamp_rules rules = {
      .eos = 3, .no_timestamps = 4, .timestamp_begin = 5, .max_initial = max_initial, .by_sum = 0};
  float logits[9] = {0};
  char found[10] = "";
  tsr_timestamp_rules_apply(&rules, generated, n, logits, 9);
  for (int32_t i = 0; i < 9; i++) {
    found[i] = logits[i] == 0.0f ? '+' : '.';
  }
  assert_string_equal(found, allowed);
}

static void test_cases(void **state)
{
  (void)state;
  const int32_t window[] = {5, 1, 6, 6, 2, 7};
  assert_allowed(window, 0, -1, ".....++++");
  assert_allowed(window, 0, 1, ".....++..");
  assert_allowed(window, 0, 0, ".....+...");
  assert_allowed(window, 0, 9, ".....++++");
  assert_allowed(window, 1, 0, "++++.....");
  assert_allowed(window, 2, -1, "++++..+++");
  assert_allowed(window, 3, -1, "...+..+++");
  assert_allowed(window, 4, -1, "++++.....");
  assert_allowed(window, 5, -1, "++++...++");
  assert_allowed(window, 6, -1, "...+...++");
  const int32_t last[] = {5, 1, 8};
  assert_allowed(last, 3, -1, "...+....+");
}

/* Many timestamps that are each less likely than one text, which all together are not. Logits as large as none can be
 * exponentiated. */
static void test_sum(void **state)
{
  (void)state;
  const tsr_timestamp_rules rules = {
      .eos = 1, .no_timestamps = 2, .timestamp_begin = 3, .max_initial = -1, .by_sum = 1};
  const int32_t generated[] = {3, 0};
  for (int32_t less = 0; less < 2; less++) {
    float logits[1503];
    for (int32_t i = 0; i < 1503; i++) {
      logits[i] = 993.0f;
    }
    logits[0] = less ? 1000.32f : 1000.3f; /* 1,499 timestamps: 7.3125 above one of them */
    logits[1] = 999.0f;
    tsr_timestamp_rules_apply(&rules, generated, 2, logits, 1503);
    assert_int_equal(logits[0] == -INFINITY, !less);
    assert_int_equal(logits[1] == -INFINITY, !less);
    assert_true(logits[3] == -INFINITY && logits[4] == 993.0f && logits[1502] == 993.0f);
  }
}

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

static tsr_timestamp_rules rules_of(const json_t *golden)
{
  return (tsr_timestamp_rules){
      .eos = vocabulary_id(golden, "endoftext"),
      .no_timestamps = vocabulary_id(golden, "notimestamps"),
      .timestamp_begin = vocabulary_id(golden, "timestamp_begin"),
      .max_initial = -1,
      .by_sum = 0,
  };
}

static int32_t replayed;

static void replay(const tsr_timestamp_rules *rules, const int32_t *generated, int32_t n, int32_t vocabulary)
{
  float *logits = malloc((size_t)vocabulary * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i < n; i++) {
    memset(logits, 0, (size_t)vocabulary * sizeof *logits);
    tsr_timestamp_rules_apply(rules, generated, i, logits, vocabulary);
    if (logits[generated[i]] != 0.0f) {
      fail_msg("token %d of a recorded sequence, %d, is banned", (int)i, (int)generated[i]);
    }
    replayed++;
  }
  free(logits);
}

static void replay_recording(json_t *golden)
{
  const tsr_timestamp_rules rules = rules_of(golden);
  const int32_t vocabulary = vocabulary_id(golden, "vocab_size");
  int32_t ids[MOST_IDS], n;
  size_t at, k;
  json_t *recorded, *value;
  json_array_foreach(json_object_get(golden, "generate"), at, recorded)
  {
    json_array_foreach(json_object_get(recorded, "sequences"), k, value)
    {
      read_ids(value, ids, &n);
      int32_t begin = 0;
      while (begin < n && ids[begin] != vocabulary_id(golden, "startoftranscript")) {
        begin++;
      }
      while (begin < n && ids[begin] > rules.eos && ids[begin] < rules.timestamp_begin) {
        begin++; /* language and task */
      }
      for (; n > begin && ids[n - 1] == rules.eos; n--) {
      }
      if (call_has(recorded, "return_timestamps=True") && n > begin) {
        replay(&rules, ids + begin, n - begin, vocabulary);
      }
    }
  }
  json_array_foreach(json_object_get(golden, "long_form"), at, recorded)
  {
    json_array_foreach(json_object_get(recorded, "windows"), k, value)
    {
      read_ids(json_object_get(value, "generated"), ids, &n);
      replay(&rules, ids, n, vocabulary);
    }
  }
}

static void test_recorded(void **state)
{
  (void)state;
  if (for_each_recording(replay_recording) == 0) {
    skip();
  }
  assert_true(replayed > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drawn),
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
