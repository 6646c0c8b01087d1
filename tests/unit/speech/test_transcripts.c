/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of what small models were recorded to write, with and without timestamps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/speech.h"
#include "tests/unit/speech/recordings.h"

static void expect_text(const tsr_tokenizer *tokenizer, const json_t *list, int32_t keep, const json_t *expected)
{
  static int32_t ids[MOST_IDS];
  int32_t n;
  char *text;
  read_ids(list, ids, &n);
  assert_int_equal(tsr_speech_decode(tokenizer, ids, n, keep, 0, &text), TSR_OK);
  assert_string_equal(text, json_string_value(expected));
  tsr_free(text);
}

static void check_texts(json_t *golden)
{
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_folder(recorded_file(""), &tokenizer) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  tsr_speech_tokens tokens;
  assert_int_equal(tsr_speech_get_tokens(tokenizer, &tokens), TSR_OK);
  assert_int_equal(tokens.end_of_text, vocabulary_id(golden, "endoftext"));
  assert_int_equal(tokens.timestamp_begin, vocabulary_id(golden, "timestamp_begin"));
  size_t at, k;
  json_t *recorded, *sequence, *id;
  const char *code;
  json_object_foreach(json_object_get(json_object_get(golden, "vocabulary"), "languages"), code, id)
  {
    int32_t index;
    assert_int_equal(tsr_speech_find_language(tokenizer, code, &index), TSR_OK);
    assert_int_equal(tsr_speech_language_id(tokenizer, index), json_integer_value(id));
  }
  json_array_foreach(json_object_get(golden, "generate"), at, recorded)
  {
    json_array_foreach(json_object_get(recorded, "sequences_plain"), k, sequence)
    {
      expect_text(tokenizer, sequence, 0, json_array_get(json_object_get(recorded, "text"), k));
      expect_text(tokenizer, sequence, TSR_SPEECH_KEEP_TIMESTAMPS,
                  json_array_get(json_object_get(recorded, "text_with_timestamps"), k));
    }
  }
  json_array_foreach(json_object_get(golden, "long_form"), at, recorded)
  {
    expect_text(tokenizer, json_array_get(json_object_get(recorded, "sequences"), 0), 0,
                json_object_get(recorded, "text"));
  }
  tsr_tokenizer_close(tokenizer);
}

static void test_recorded(void **state)
{
  (void)state;
  if (for_each_recording(check_texts) == 0) {
    skip();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
