/* SPDX-License-Identifier: Apache-2.0
 *
 * A module whose f16 becomes bf16 (shaders/bfloat16.h): what it declares then, with the order of its instructions, and
 * the modules that are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "shaders/bfloat16.h"

enum { MAX_WORDS = 64 };
#define OP(length, op) ((uint32_t)(length) << 16 | (op))

enum {
  CAPABILITY = 17,
  EXTENSION = 10,
  MEMORY_MODEL = 14,
  TYPE_FLOAT = 22,
  TYPE_VECTOR = 23,
  CONSTANT = 43,
  SPEC_CONSTANT = 50,
  TYPE_COOPERATIVE_MATRIX = 4456
};

#define HEADER 0x07230203, 0x00010500, 0, 20, 0
#define BEGIN  HEADER, OP(2, CAPABILITY), 1, OP(2, CAPABILITY), 9, OP(3, MEMORY_MODEL), 0, 1

static const uint32_t usual[] = {BEGIN,
                                 OP(3, TYPE_FLOAT),
                                 7,
                                 16,
                                 OP(3, TYPE_FLOAT),
                                 8,
                                 32,
                                 OP(4, CONSTANT),
                                 8,
                                 9,
                                 0x3f800000,
                                 OP(7, TYPE_COOPERATIVE_MATRIX),
                                 10,
                                 7,
                                 1,
                                 2,
                                 3,
                                 4};

/* "SPV_KHR_bfloat16" in little-endian words, and its end */
static const uint32_t expected[] = {HEADER,
                                    OP(2, CAPABILITY),
                                    1,
                                    OP(2, CAPABILITY),
                                    5116,
                                    OP(2, CAPABILITY),
                                    5118,
                                    OP(6, EXTENSION),
                                    0x5f565053,
                                    0x5f52484b,
                                    0x6f6c6662,
                                    0x36317461,
                                    0,
                                    OP(3, MEMORY_MODEL),
                                    0,
                                    1,
                                    OP(4, TYPE_FLOAT),
                                    7,
                                    16,
                                    0,
                                    OP(3, TYPE_FLOAT),
                                    8,
                                    32,
                                    OP(4, CONSTANT),
                                    8,
                                    9,
                                    0x3f800000,
                                    OP(7, TYPE_COOPERATIVE_MATRIX),
                                    10,
                                    7,
                                    1,
                                    2,
                                    3,
                                    4};
enum { USUAL_WORDS = sizeof usual / sizeof *usual, EXPECTED_WORDS = sizeof expected / sizeof *expected };
_Static_assert(EXPECTED_WORDS == USUAL_WORDS + SHADER_BFLOAT16_MORE_WORDS, "what the header says");

static void test_usual(void **state)
{
  (void)state;
  uint32_t result[EXPECTED_WORDS];
  size_t n = 0;
  assert_null(shader_to_bfloat16(usual, USUAL_WORDS, result, &n));
  assert_int_equal(n, EXPECTED_WORDS);
  assert_memory_equal(result, expected, sizeof expected);
}

static const char *refusal(const uint32_t *words, size_t n)
{
  uint32_t result[MAX_WORDS + SHADER_BFLOAT16_MORE_WORDS];
  size_t n_result;
  return shader_to_bfloat16(words, n, result, &n_result);
}

#define ASSERT_REFUSED(text, ...)                                                                                      \
  do {                                                                                                                 \
    const uint32_t words[] = {__VA_ARGS__};                                                                            \
    const char *why = refusal(words, sizeof words / sizeof *words);                                                    \
    assert_non_null(why);                                                                                              \
    assert_string_equal(why, text);                                                                                    \
  } while (0)

static void test_refused(void **state)
{
  (void)state;
  static const char computes[] = "computes with f16, which was to be bf16";
  static const char without[] = "has no f16, which was to be bf16";
  static const char none[] = "is no SPIR-V";
  ASSERT_REFUSED(computes, BEGIN, OP(3, TYPE_FLOAT), 7, 16, OP(4, CONSTANT), 7, 9, 0x3c00);
  ASSERT_REFUSED(computes, BEGIN, OP(3, TYPE_FLOAT), 7, 16, OP(4, SPEC_CONSTANT), 7, 9, 0x3c00);
  ASSERT_REFUSED(computes, BEGIN, OP(3, TYPE_FLOAT), 7, 16, OP(4, TYPE_VECTOR), 9, 7, 2);
  ASSERT_REFUSED(without, BEGIN, OP(3, TYPE_FLOAT), 7, 32);
  ASSERT_REFUSED(without, HEADER, OP(2, CAPABILITY), 1, OP(3, MEMORY_MODEL), 0, 1, OP(3, TYPE_FLOAT), 7, 16);
  ASSERT_REFUSED(none, 0x03022307, 0x00010500, 0, 20, 0);
  ASSERT_REFUSED(none, BEGIN, OP(0, TYPE_FLOAT), 7, 16);
  for (size_t n = 0; n < USUAL_WORDS; n++) { /* cut short: where an instruction ends, it may do */
    if (n < USUAL_WORDS - 7) {
      (void)refusal(usual, n);
    } else if (n > USUAL_WORDS - 7) {
      assert_string_equal(refusal(usual, n), none);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_usual), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
