/* SPDX-License-Identifier: Apache-2.0
 *
 * Toy tasks: what their examples are, that they repeat, and that none that is held out is ever trained on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/training_data.h"

enum { ROOM = 16 };

static const tsr_toy_task usual = {
    .kind = TSR_TOY_TASK_COPY, .vocabulary = 13, .min_length = 2, .max_length = 9, .seed = 42};

static void test_examples(void **state)
{
  (void)state;
  for (int32_t kind = TSR_TOY_TASK_COPY; kind <= TSR_TOY_TASK_SORT; kind++) {
    tsr_toy_task task = usual;
    task.kind = kind;
    assert_int_equal(tsr_toy_task_check(&task), TSR_OK);
    assert_int_equal(tsr_toy_task_pad(&task), 12);
    int32_t seen_lengths[ROOM] = {0};
    int32_t seen_tokens[ROOM] = {0};
    for (uint64_t index = 0; index < 2000; index++) {
      int32_t source[ROOM];
      int32_t target[ROOM];
      int32_t n = tsr_toy_task_example(&task, index, source, target);
      assert_in_range(n, 3, 10);
      assert_int_equal(source[n - 1], TSR_TOY_TASK_EOS);
      assert_int_equal(target[n - 1], TSR_TOY_TASK_EOS);
      int32_t source_count[ROOM] = {0};
      int32_t target_count[ROOM] = {0};
      for (int32_t i = 0; i < n - 1; i++) {
        assert_in_range(source[i], TSR_TOY_TASK_FIRST_TOKEN, 11);
        seen_tokens[source[i]]++;
        source_count[source[i]]++;
        target_count[target[i]]++;
        if (kind == TSR_TOY_TASK_COPY) {
          assert_int_equal(target[i], source[i]);
        } else if (kind == TSR_TOY_TASK_REVERSE) {
          assert_int_equal(target[i], source[n - 2 - i]);
        } else if (i > 0) {
          assert_true(target[i - 1] <= target[i]);
        }
      }
      assert_memory_equal(source_count, target_count, sizeof source_count);
      seen_lengths[n]++;
    }
    for (int32_t n = 3; n <= 10; n++) {
      assert_in_range(seen_lengths[n], 150, 350); /* 250 expected */
    }
    for (int32_t token = TSR_TOY_TASK_FIRST_TOKEN; token < 12; token++) {
      assert_in_range(seen_tokens[token], 900, 1300); /* 1,100 expected */
    }
  }
}

/* Recorded here: a task is the same everywhere and for ever. */
static void test_fixed(void **state)
{
  (void)state;
  tsr_toy_task task = usual;
  int32_t first[ROOM];
  int32_t again[ROOM];
  int32_t target[ROOM];
  int32_t n = tsr_toy_task_example(&task, UINT64_C(1) << 40, first, target);
  assert_int_equal(tsr_toy_task_example(&task, UINT64_C(1) << 40, again, target), n);
  assert_memory_equal(first, again, (size_t)n * sizeof first[0]);
  task.seed = 43;
  int32_t m = tsr_toy_task_example(&task, UINT64_C(1) << 40, again, target);
  assert_true(m != n || memcmp(first, again, (size_t)n * sizeof first[0]) != 0);

  static const int32_t expected[] = {9, 8, 10, 5, 6, 6, 0};
  task = usual;
  n = tsr_toy_task_example(&task, 7, first, target);
  assert_int_equal(n, (int32_t)(sizeof expected / sizeof expected[0]));
  assert_memory_equal(first, expected, sizeof expected);
}

/* A number for a sequence of at most nine tokens. */
static uint32_t number_of(const int32_t *source, int32_t n)
{
  uint32_t number = 0;
  for (int32_t i = 0; i < n; i++) {
    number = number * 6 + (uint32_t)source[i] - TSR_TOY_TASK_FIRST_TOKEN + 1;
  }
  return number;
}

/* All sequences of up to five of five tokens are 3,905: enough examples meet nearly all of them. */
static void test_held_out(void **state)
{
  (void)state;
  static unsigned char seen[2][6 * 6 * 6 * 6 * 6 * 6];
  memset(seen, 0, sizeof seen);
  for (int32_t set = TSR_TOY_TASK_TRAINING; set <= TSR_TOY_TASK_HELD_OUT; set++) {
    const tsr_toy_task task = {
        .kind = TSR_TOY_TASK_REVERSE, .set = set, .vocabulary = 8, .min_length = 1, .max_length = 5, .seed = 1};
    assert_int_equal(tsr_toy_task_check(&task), TSR_OK);
    for (uint64_t index = 0; index < 60000; index++) {
      int32_t source[ROOM];
      int32_t target[ROOM];
      int32_t n = tsr_toy_task_example(&task, index, source, target);
      seen[set][number_of(source, n - 1)] = 1;
    }
  }
  int32_t distinct[2] = {0, 0};
  for (size_t i = 0; i < sizeof seen[0]; i++) {
    assert_false(seen[0][i] && seen[1][i]);
    distinct[0] += seen[0][i];
    distinct[1] += seen[1][i];
  }
  assert_in_range(distinct[0], 3200, 3600); /* seven eighths: 3,417 */
  assert_in_range(distinct[1], 380, 600);
}

static void test_bad_tasks(void **state)
{
  (void)state;
  static const struct {
    tsr_toy_task task;
    const char *fragment;
  } bad[] = {
      {{.kind = 0, .vocabulary = 13, .min_length = 1, .max_length = 9}, "kind 0"},
      {{.kind = 4, .vocabulary = 13, .min_length = 1, .max_length = 9}, "kind 4"},
      {{.kind = 1, .set = 2, .vocabulary = 13, .min_length = 1, .max_length = 9}, "set 2"},
      {{.kind = 1, .vocabulary = 3, .min_length = 1, .max_length = 9}, "vocabulary of 3"},
      {{.kind = 1, .vocabulary = 13, .min_length = 0, .max_length = 9}, "0 to 9 tokens"},
      {{.kind = 1, .vocabulary = 13, .min_length = 5, .max_length = 4}, "5 to 4 tokens"},
      {{.kind = 1, .vocabulary = 5, .min_length = 1, .max_length = 5}, "too few"},
      {{.kind = 1, .vocabulary = 4, .min_length = 1, .max_length = 300}, "too few"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(tsr_toy_task_check(&bad[i].task), TSR_ERR_ARGUMENT);
    assert_non_null(strstr(tsr_error_message(), bad[i].fragment));
  }
  int32_t kind = 0;
  assert_int_equal(tsr_toy_task_find("sort", &kind), TSR_OK);
  assert_int_equal(kind, TSR_TOY_TASK_SORT);
  assert_int_equal(tsr_toy_task_find("sorted", &kind), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "copy, reverse or sort"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_fixed),
      cmocka_unit_test(test_held_out),
      cmocka_unit_test(test_bad_tasks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
