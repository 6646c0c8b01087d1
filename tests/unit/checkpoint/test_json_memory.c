/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out while JSON is read: each allocation fails once, alone and with all that follow it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/json.h"

static long n_allocations, fail_at;
static int fail_all;

static void *allocate(size_t size)
{
  n_allocations++;
  int fails = n_allocations == fail_at || (fail_all && fail_at > 0 && n_allocations > fail_at);
  return fails ? NULL : malloc(size);
}

typedef tsr_status (*parse_fn)(const char *name, const void *text, size_t size, json_t **root);

/* Tokens have at most 15 characters: where the buffer of a longer one cannot grow, jansson drops characters without a
 * word, or ends the program by an assertion. */
static void check_failures(parse_fn parse, const char *text)
{
  json_t *expected = NULL, *found = NULL;
  fail_at = 0;
  assert_int_equal(parse("a.json", text, strlen(text), &expected), TSR_OK);
  for (fail_all = 0; fail_all < 2; fail_all++) {
    for (long at = 1;; at++) {
      n_allocations = 0;
      fail_at = at;
      tsr_status status = parse("a.json", text, strlen(text), &found);
      int was_reached = n_allocations >= at;
      fail_at = 0;
      if (status == TSR_OK) {
        assert_true(json_equal(found, expected));
        json_decref(found);
      } else if (status != TSR_ERR_OUT_OF_MEMORY) {
        fail_msg("allocation %ld: %s: %s", at, tsr_status_name(status), tsr_error_message());
      }
      if (!was_reached) {
        assert_int_equal(status, TSR_OK);
        assert_true(at > 10);
        break;
      }
    }
  }
  json_decref(expected);
}

static void test_failures(void **state)
{
  (void)state;
  check_failures(tsr_json_parse, "{\"a\": [1, 2.5, true, null, \"text\"], \"b\": {\"c\": {}, \"d\": \"\\u00e9\"}}");
  check_failures(tsr_json_parse_large, "{\"a\": [1, {\"b\": 2}], \"c\": \"d\"}");
}

/* With memory, what is wrong is told as before. */
static void test_wrong_texts(void **state)
{
  (void)state;
  static const char *const texts[] = {"",
                                      "{",
                                      "{\"a\": }",
                                      "{\"a\": NaN}",
                                      "{\"a\": 1, \"a\": 2}",
                                      "[]",
                                      "{} x",
                                      "{\"a\": 99999999999999999999}",
                                      "{\"a\": \"\xff\"}"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    json_t *root = NULL;
    assert_int_equal(tsr_json_parse("a.json", texts[i], strlen(texts[i]), &root), TSR_ERR_FORMAT);
    assert_null(root);
  }
}

int main(void)
{
  json_set_alloc_funcs(allocate, free);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_failures), cmocka_unit_test(test_wrong_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
