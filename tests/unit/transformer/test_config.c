/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of JSON configurations.
 */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/checkpoint.h"
#include "tests/support/temporary.h"

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static void test_bad_texts(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    const char *fragment;
  } bad[] = {
      {"", "the file is empty"},
      {" ", "not valid JSON"},
      {"[1]", "expected a JSON object, found [1]"},
      {"null", "not valid JSON"},
      {"{\"a\":1", "not valid JSON"},
      {"{\"a\":1}}", "not valid JSON"},
      {"{\"a\":1,\"a\":2}", "duplicate object key"},
      {"{\"a\":{\"b\":1,\"b\":1}}", "duplicate object key \"b\""},
      {"{\"model.encoder.layers.0.fc1.weight\":1,\"model.encoder.layers.0.fc1.weight\" : 2}",
       "duplicate object key \"model.encoder.layers.0.fc1.weight\""},
      {"{\"a \\\\\\\"quoted\\\" name of some length\":1,\"a \\\\\\\"quoted\\\" name of some length\":2}",
       "quoted\\\" name of some length\""},
      {"{\"a\":\"\xC3(\"}", "not valid JSON"},
      {"{\"a\":\"\\ud800\"}", "not valid JSON"},
      {"{\"a\":NaN}", "NaN and Infinity are not JSON"},
      {"{\"a\":\n  Infinity, \"b\":1}", "line 2, column 10: NaN and Infinity are not JSON"},
      {"{\"a\":-Infinity}", "NaN and Infinity are not JSON"},
      {"{\"a\":9223372036854775808}", "\"a\": a number is too large"},
      {"{\"x\":1,\"a\":{\"b\":[1,-9223372036854775809]}}", "\"a\" \"b\": a number is too large"},
      {"{\"a\":1e999}", "real number overflow"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_config config;
    if (tsr_config_parse("config.json", bad[i].text, strlen(bad[i].text), &config) != TSR_ERR_FORMAT) {
      fail_msg("accepted: %s", bad[i].text);
    }
    assert_message_has("config.json: ");
    assert_message_has(bad[i].fragment);
    assert_null(config.root);
    tsr_config_finish(&config);
  }
}

static const char sample[] = "{\"int\":512,\"real\":0.5,\"zero\":0,\"yes\":true,\"no\":false,\"text\":\"marian\","
                             "\"null\":null,\"list\":[1,2],\"large\":4294967296,\"negative\":-1,\"whole\":2.0}";

static void test_getters(void **state)
{
  (void)state;
  tsr_config config;
  assert_int_equal(tsr_config_parse("config.json", sample, sizeof sample - 1, &config), TSR_OK);
  int32_t number = 7;
  tsr_config_int(&config, "int", 1, 1024, &number);
  assert_int_equal(number, 512);
  tsr_config_int(&config, "absent", 1, 2, &number);
  tsr_config_int(&config, "null", 1, 2, &number);
  assert_int_equal(number, 512);
  tsr_config_int(&config, "negative", INT64_MIN, INT64_MAX, &number);
  assert_int_equal(number, -1);
  float real = 9;
  tsr_config_float(&config, "real", 0, 1, &real);
  assert_true(real == 0.5f);
  tsr_config_float(&config, "int", 0, DBL_MAX, &real);
  assert_true(real == 512);
  int32_t flag = -1;
  tsr_config_bool(&config, "yes", &flag);
  assert_int_equal(flag, 1);
  tsr_config_bool(&config, "no", &flag);
  assert_int_equal(flag, 0);
  const char *text = "default";
  tsr_config_text(&config, "null", &text);
  assert_string_equal(text, "default");
  tsr_config_text(&config, "text", &text);
  assert_string_equal(text, "marian");
  assert_int_equal(tsr_config_has(&config, "zero"), 1);
  assert_int_equal(tsr_config_has(&config, "null"), 0);
  assert_int_equal(tsr_config_has(&config, "absent"), 0);
  assert_int_equal(tsr_config_status(&config), TSR_OK);
  tsr_config_finish(&config);
}

static void test_getter_errors(void **state)
{
  (void)state;
  static const struct {
    char getter;
    const char *key;
    const char *message;
  } cases[] = {
      {'i', "text", "config.json: key \"text\": expected an integer from 1 to 100, found \"marian\""},
      {'i', "int", "config.json: key \"int\": expected an integer from 1 to 100, found 512"},
      {'i', "zero", "config.json: key \"zero\": expected an integer from 1 to 100, found 0"},
      {'i', "negative", "found -1"},
      {'i', "large", "found 4294967296"},
      {'i', "whole", "found 2.0"},
      {'i', "yes", "found true"},
      {'i', "list", "found [1,2]"},
      {'f', "text", "config.json: key \"text\": expected a number from 1 to 100, found \"marian\""},
      {'f', "zero", "found 0"},
      {'f', "yes", "found true"},
      {'b', "int", "config.json: key \"int\": expected true or false, found 512"},
      {'b', "text", "found \"marian\""},
      {'t', "int", "config.json: key \"int\": expected a text, found 512"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_config config;
    assert_int_equal(tsr_config_parse("config.json", sample, sizeof sample - 1, &config), TSR_OK);
    int32_t number = 7;
    float real = 7;
    const char *text = "default";
    if (cases[i].getter == 'i') {
      tsr_config_int(&config, cases[i].key, 1, 100, &number);
    }
    if (cases[i].getter == 'f') {
      tsr_config_float(&config, cases[i].key, 1, 100, &real);
    }
    if (cases[i].getter == 'b') {
      tsr_config_bool(&config, cases[i].key, &number);
    }
    if (cases[i].getter == 't') {
      tsr_config_text(&config, cases[i].key, &text);
    }
    /* The first error stays, whatever comes after it, in the config or in the thread. */
    tsr_config_bool(&config, "text", &number);
    tsr_config_int(&config, "int", 1, 1000, &number);
    (void)tsr_fail(TSR_ERR_IO, "something else");
    assert_int_equal(tsr_config_status(&config), TSR_ERR_FORMAT);
    assert_message_has(cases[i].message);
    assert_int_equal(number, 7);
    assert_true(real == 7);
    assert_string_equal(text, "default");
    tsr_config_finish(&config);
  }
}

static void test_file(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "config.json");
  tsr_config config;
  assert_int_equal(tsr_config_open(path, &config), TSR_ERR_IO);
  assert_message_has("config.json: cannot be opened: No such file");
  assert_int_equal(tsr_config_open(folder, &config), TSR_ERR_IO);
  assert_message_has("expected a file, found a folder");
  write_text(path, sample);
  assert_int_equal(tsr_config_open(path, &config), TSR_OK);
  assert_string_equal(config.path, path);
  tsr_config_finish(&config);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_texts),
      cmocka_unit_test(test_getters),
      cmocka_unit_test(test_getter_errors),
      cmocka_unit_test(test_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
