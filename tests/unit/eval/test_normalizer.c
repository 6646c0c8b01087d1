/* SPDX-License-Identifier: Apache-2.0
 *
 * The text normalisers: Whisper's recorded ones, rules that the recordings do not reach, and texts of any bytes.
 */
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
#include "core/eval/code_points.h"
#include "tessera/eval.h"
#include "tests/support/goldens.h"
#include "tests/support/temporary.h"

static const char spellings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/tokenizer/normalizer.json";

static tsr_normalizer *create(int32_t kind, int32_t flags)
{
  tsr_normalizer *normalizer;
  assert_int_equal(tsr_normalizer_create(kind, flags, kind == TSR_NORMALIZER_ENGLISH ? spellings : NULL, &normalizer),
                   TSR_OK);
  return normalizer;
}

static tsr_span normalize(tsr_normalizer *normalizer, const char *text, size_t size)
{
  tsr_span normalized;
  assert_int_equal(tsr_normalize(normalizer, (tsr_span){text, size}, &normalized), TSR_OK);
  assert_int_equal(normalized.bytes[normalized.size], '\0');
  return normalized;
}

static void assert_normalized(tsr_normalizer *normalizer, const char *text, const char *expected)
{
  assert_string_equal(normalize(normalizer, text, strlen(text)).bytes, expected);
}

static void test_recorded(void **state)
{
  static const struct {
    const char *name;
    int32_t kind, flags;
  } columns[] = {
      {"english", TSR_NORMALIZER_ENGLISH, 0},
      {"basic", TSR_NORMALIZER_BASIC, 0},
      {"basic_remove_diacritics", TSR_NORMALIZER_BASIC, TSR_NORMALIZE_DIACRITICS},
      {"basic_split_letters", TSR_NORMALIZER_BASIC, TSR_NORMALIZE_LETTERS},
  };
  (void)state;
  const char *path = golden_path(TESSERA_SOURCE_ROOT, "speech/tokenizer/normalizer_golden.json");
  if (!path) {
    skip();
  }
  json_t *recorded = json_load_file(path, 0, NULL);
  assert_non_null(recorded);
  json_t *cases = json_object_get(recorded, "cases");
  assert_true(json_array_size(cases) > 0);
  for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
    tsr_normalizer *normalizer = create(columns[c].kind, columns[c].flags);
    size_t index;
    json_t *row;
    json_array_foreach(cases, index, row)
    {
      assert_normalized(normalizer, json_string_value(json_object_get(row, "text")),
                        json_string_value(json_object_get(row, columns[c].name)));
    }
    tsr_normalizer_destroy(normalizer);
  }
  json_decref(recorded);
}

static void test_basic(void **state)
{
  (void)state;
  tsr_normalizer *basic = create(TSR_NORMALIZER_BASIC, 0);
  assert_normalized(basic, "a [b> c <d] e () f (g (h) i) j (k", "a c e f i j k");
  assert_normalized(basic, "a < b", "a b");
  assert_normalized(basic, "a()b(c)d", "a bd");
  assert_normalized(basic, "\xEF\xBC\xA1\xEF\xAC\x81\xE2\x84\xA2", "afitm"); /* full width, ligature, trade mark */
  assert_normalized(basic, "\xE2\x84\x8Cx e\xCC\x81", "hx \xC3\xA9");        /* NFKC: a capital, and composed */
  assert_normalized(basic, "\xC4\xB0", "i ");                                /* the dot above does not compose */
  assert_normalized(basic, "\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3 \xCE\xA3\xCE\x9F",
                    "\xCE\xBF\xCE\xB4\xCE\xBF\xCF\x82 "
                    "\xCF\x83\xCE\xBF");                                 /* final sigma */
  assert_normalized(basic, "\xE0\xA4\x95\xE0\xA4\xBF", "\xE0\xA4\x95 "); /* vowel signs are marks */
  tsr_normalizer_destroy(basic);
  tsr_normalizer *letters = create(TSR_NORMALIZER_BASIC, TSR_NORMALIZE_LETTERS | TSR_NORMALIZE_DIACRITICS);
  assert_normalized(letters,
                    "e\xCC\x81"
                    "a \xEA\xB0\x80",
                    "e a \xE1\x84\x80\xE1\x85\xA1"); /* jamo stay together */
  tsr_normalizer_destroy(letters);
}

static void test_english(void **state)
{
  static const char *const pairs[][2] = {
      {"umm um's mmm, MHM", "umm is"},
      {"Mr and Mrs St. mrs.x", "mister and missus saint missus x"},
      {"it 's been; he'd done; she's done", "it has been he had done she is done"},
      {"1,2,3 and 1,000,000", "12 3 and 1000000"},
      {"two thousand and nineteen", "2019"},
      {"one thousand two thousand", "3000"},
      {"one thousand million", "1000"},
      {"three point five million", "3500000"},
      {"zero point zero five", "0.05"},
      {"99 decillion 12345678901234567890123", "99000000000000000000000000000000000 12345678901234567890123"},
      {"999999999999999999999999 thousand", "1000000000000000000998000"},
      {"1.5 hundredth, 1.555 hundredth", "150th one.555 100th"},
      {"ninth nineth fortieth fifties zeroth sixes", "ninth 9th 40th 50s 0th 6s"},
      {"twenty-two hundred", "2200"},
      {"seventy six sixty five", "7665"},
      {"minus twenty, plus and negative thoughts", "-20 +and negative thoughts"},
      {"minus and", "-and"},
      {"double seven, triple oh, double trouble, double twelve", "77000 double trouble 1212"},
      {"the point is; point nine; point hundred", "the point is 90"},
      {"five dollars and seven cents", "$5.07"},
      {"$0.50 and zero dollars", "\xC2\xA2"
                                 "50 and $0"},
      {"$1 and one ones 1s 1.5 x1", " one and 11s ones one.5 x one"},
      {"six per cent, per cent", "6% per cent"},
      {"%% 5 % 5%", "% 5 5%"},
      {"two hundred and a half, a dog and a half", "200.5 a dog and a half"},
      {"and a half", ""},
      {"5 th 5 thing a1b2", "5th 5 thing a one b 2"},
      {"\xD9\xA3 million \xD9\xA3\xD9\xA5", "3000000 35"}, /* Arabic digits */
      {"007 and 5.0 and 5.50", "7 and 5 and 5.50"},
      {"Catalogue \xE2\x84\xA2 \xC3\x86on", "catalog TM eon"},
  };
  (void)state;
  tsr_normalizer *english = create(TSR_NORMALIZER_ENGLISH, 0);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    assert_normalized(english, pairs[i][0], pairs[i][1]);
  }
  tsr_normalizer_destroy(english);
}

/* Long and hostile texts end soon, and what comes out is UTF-8. */
static void test_any_bytes(void **state)
{
  static const char *const parts[] = {"<",
                                      "(",
                                      "a (b",
                                      "\xCC\x81\xCC\xA3",
                                      "\xFF\xE2\x82",
                                      "zero million ",
                                      "9",
                                      " and a half",
                                      "\xCE\xA3.",
                                      " '",
                                      "two thousand ",
                                      "\xEF\xB7\xBA",
                                      "1,"};
  enum { SIZE = 1 << 18 };
  (void)state;
  char *text = malloc(SIZE);
  assert_non_null(text);
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
    size_t n = strlen(parts[p]);
    for (size_t i = 0; i < SIZE; i++) {
      text[i] = parts[p][i % n];
    }
    for (int32_t kind = TSR_NORMALIZER_BASIC; kind <= TSR_NORMALIZER_ENGLISH; kind++) {
      tsr_normalizer *normalizer = create(kind, 0);
      tsr_span normalized = normalize(normalizer, text, SIZE);
      assert_true(tsr_utf8_is_valid(normalized.bytes, normalized.size));
      tsr_normalizer_destroy(normalizer);
    }
  }
  free(text);
  tsr_normalizer *english = create(TSR_NORMALIZER_ENGLISH, 0);
  tsr_span normalized = normalize(english, "a\0colour colour\0", 16);
  assert_int_equal(normalized.size, 16);
  assert_memory_equal(normalized.bytes, "a\0colour colour\0", 16);
  normalized = normalize(english, NULL, 0);
  assert_int_equal(normalized.size, 0);
  tsr_normalizer_destroy(english);
}

/* Marks in canonical order, those of one class as they were. */
static void test_decompose(void **state)
{
  static const uint32_t expected[] = {'a', 0x323, 0x331, 0x301, 0x300, 'o', 0x308};
  (void)state;
  tsr_code_points text = {0}, result = {0};
  assert_int_equal(tsr_code_points_append_utf8(&text, "\xC3\xA1\xCC\xA3\xCC\x80\xCC\xB1\xC3\xB6", 10), TSR_OK);
  assert_int_equal(tsr_code_points_decompose(&text, &result), TSR_OK);
  assert_int_equal(result.n, sizeof expected / sizeof expected[0]);
  assert_memory_equal(result.at, expected, sizeof expected);
  free(text.at);
  free(result.at);
}

static void assert_refused(const char *table, const char *message)
{
  tsr_normalizer *normalizer;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "spellings.json");
  write_text(path, table);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_ENGLISH, 0, path, &normalizer), TSR_ERR_FORMAT);
  assert_null(normalizer);
  assert_non_null(strstr(tsr_error_message(), message));
  remove_temporary_folder(folder);
}

static void test_errors(void **state)
{
  (void)state;
  tsr_normalizer *normalizer;
  tsr_span normalized;
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_BASIC, 0, NULL, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(3, 0, NULL, &normalizer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_BASIC, 4, NULL, &normalizer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_BASIC, 0, spellings, &normalizer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_ENGLISH, 0, NULL, &normalizer), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_ENGLISH, TSR_NORMALIZE_LETTERS, spellings, &normalizer),
                   TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_normalizer_create(TSR_NORMALIZER_ENGLISH, 0, "/nowhere/spellings", &normalizer), TSR_ERR_IO);
  assert_refused("[]", "spellings.json");
  assert_refused("{\"colour\": 1}", "\"colour\": expected a string, found 1");
  assert_int_equal(tsr_normalize(NULL, (tsr_span){0}, &normalized), TSR_ERR_ARGUMENT);
  tsr_normalizer_destroy(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded),  cmocka_unit_test(test_basic),     cmocka_unit_test(test_english),
      cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_decompose), cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
