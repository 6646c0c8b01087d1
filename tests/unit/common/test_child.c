/* SPDX-License-Identifier: Apache-2.0
 *
 * The program started again: its arguments, environment and streams, how it ends, and what ends with it. The program is
 * this test; its first argument says what a child does.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/tessera/common/child.h"

enum { ROOM = 1 << 16, TOLD = 7, MOST = 32 };

/* What is told to a child besides its arguments. */
typedef struct how {
  const char *const *variables;
  int is_bound;
  int input; /* 0: nothing */
} how;

typedef struct running {
  pid_t number;
  int output, errors; /* to read from */
} running;

static int open_nothing(void)
{
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  assert_true(nothing >= 0);
  return nothing;
}

static running start(const char *const *words, how h)
{
  int output[2], errors[2], nothing = open_nothing();
  running r;
  assert_int_equal(child_pipe(output), 0);
  assert_int_equal(child_pipe(errors), 0);
  const child_setup setup = {.words = words,
                             .variables = h.variables,
                             .input = h.input > 0 ? h.input : nothing,
                             .output = output[1],
                             .errors = errors[1],
                             .is_bound = h.is_bound};
  assert_int_equal(child_start(&setup, &r.number), 0);
  close(nothing);
  close(output[1]);
  close(errors[1]);
  r.output = output[0];
  r.errors = errors[0];
  return r;
}

/* To its end; closes it. */
static size_t read_all(int from, char *text)
{
  size_t size = 0;
  for (ssize_t got; size + 1 < ROOM && (got = read(from, text + size, ROOM - 1 - size)) != 0;) {
    assert_true(got > 0 || errno == EINTR);
    size += got > 0 ? (size_t)got : 0;
  }
  text[size] = '\0';
  close(from);
  return size;
}

static int end(running r)
{
  int status = -1;
  assert_true(waitpid(r.number, &status, 0) == r.number);
  return status;
}

static void expect_told(running r)
{
  int status = end(r);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), TOLD);
}

/* ---- what a child does ------------------------------------------------------------------------------------------- */

/* Its arguments, each with its end. */
static int tell_words(int n, char **words)
{
  for (int i = 0; i < n; i++) {
    fwrite(words[i], 1, strlen(words[i]) + 1, stdout);
  }
  return TOLD;
}

/* The values of the variables that its arguments name. */
static int tell_variables(int n, char **names)
{
  for (int i = 0; i < n; i++) {
    const char *value = getenv(names[i]);
    printf("%s\n", value ? value : "(none)");
  }
  return TOLD;
}

static int copy_input(void)
{
  for (int c; (c = getchar()) != EOF;) {
    putchar(c);
  }
  fputs("all of it", stderr);
  return TOLD;
}

static int hang(void)
{
  puts("up");
  fflush(stdout);
  while (pause() < 0) {
  }
  return TOLD;
}

/* Starts one more that hangs, on its own streams; it hangs, too, or ends before. */
static int start_another(int is_bound, int hangs)
{
  static const char *const words[] = {"test", "hang", NULL};
  const child_setup setup = {.words = words,
                             .input = open("/dev/null", O_RDONLY | O_CLOEXEC),
                             .output = STDOUT_FILENO,
                             .errors = STDERR_FILENO,
                             .is_bound = is_bound};
  pid_t number;
  if (child_start(&setup, &number) != 0) {
    return EXIT_FAILURE;
  }
  return hangs ? hang() : TOLD;
}

static int act(int n, char **words)
{
  if (strcmp(words[0], "words") == 0) {
    return tell_words(n, words);
  }
  if (strcmp(words[0], "variables") == 0) {
    return tell_variables(n - 1, words + 1);
  }
  if (strcmp(words[0], "copy") == 0) {
    return copy_input();
  }
  if (strcmp(words[0], "hang") == 0) {
    return hang();
  }
  return start_another(strcmp(words[0], "leave") == 0, strcmp(words[0], "two") == 0);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_words(void **state)
{
  (void)state;
  static const char *const words[] = {
      "test",          "words", "",         "two words", "\"",        "\"quoted\"", "back\\slash",     "at its end\\",
      "two\\\\",       "\\\"",  "a\\\\\"b", "'single'",  "tab\there", "line\nend",  "%PATH% $HOME *?", "^&|<>",
      "modèle ñ 訳 😀", "--x=y", NULL};
  char text[ROOM];
  running r = start(words, (how){0});
  size_t size = read_all(r.output, text), at = 0;
  close(r.errors);
  expect_told(r);
  for (int i = 1; words[i]; i++) {
    assert_true(at < size);
    assert_string_equal(text + at, words[i]);
    at += strlen(words[i]) + 1;
  }
  assert_int_equal(at, size);
}

static void test_variables(void **state)
{
  (void)state;
  static const char *const words[] = {"test", "variables", "CHILD_NEW", "CHILD_OLD", "CHILD_KEPT", "CHILD", NULL};
  static const char *const variables[] = {"CHILD_NEW", "a = b; ñ 訳", "CHILD_OLD", "", NULL};
  char text[ROOM];
  setenv("CHILD_OLD", "before", 1);
  setenv("CHILD_KEPT", "kept", 1);
  running r = start(words, (how){.variables = variables});
  read_all(r.output, text);
  close(r.errors);
  expect_told(r);
  /* Windows has no variable that is empty. */
  assert_true(strcmp(text, "a = b; ñ 訳\n\nkept\n(none)\n") == 0 ||
              strcmp(text, "a = b; ñ 訳\n(none)\nkept\n(none)\n") == 0);
  assert_string_equal(getenv("CHILD_OLD"), "before");
  assert_null(getenv("CHILD_NEW"));
}

static void test_streams(void **state)
{
  (void)state;
  static const char *const words[] = {"test", "copy", NULL};
  static const char bytes[] = "one\r\ntwo\n\x1a\xff\n";
  char text[ROOM];
  int input[2];
  assert_int_equal(child_pipe(input), 0);
  running r = start(words, (how){.input = input[0]});
  close(input[0]);
  assert_int_equal(write(input[1], bytes, sizeof bytes - 1), sizeof bytes - 1);
  /* Nobody else has it: this is its end. */
  close(input[1]);
  read_all(r.output, text);
  assert_string_equal(text, bytes);
  read_all(r.errors, text);
  assert_string_equal(text, "all of it");
  expect_told(r);
}

/* Reads "up" and the line's end so many times. */
static void expect_up(running r, int times)
{
  for (int i = 0; i < times; i++) {
    char line[4] = "";
    for (int at = 0; at < 3;) {
      ssize_t got = read(r.output, line + at, 1);
      assert_true(got == 1);
      at += line[at] != '\r';
    }
    assert_string_equal(line, "up\n");
  }
}

static void test_killed(void **state)
{
  (void)state;
  static const char *const words[] = {"test", "hang", NULL};
  char text[ROOM];
  running r = start(words, (how){.is_bound = 1});
  int status;
  expect_up(r, 1);
  assert_int_equal(waitpid(r.number, &status, WNOHANG), 0);
  assert_int_equal(kill(-r.number, SIGKILL), 0);
  status = end(r);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGKILL);
  assert_int_equal(read_all(r.output, text), 0);
  close(r.errors);
}

/* What a bound child has started ends with it: nobody holds its streams any more. */
static void test_group(void **state)
{
  (void)state;
  static const char *const words[] = {"test", "two", NULL};
  char text[ROOM];
  running r = start(words, (how){.is_bound = 1});
  expect_up(r, 2);
  assert_int_equal(kill(-r.number, SIGKILL), 0);
  assert_true(WIFSIGNALED(end(r)));
  assert_int_equal(read_all(r.output, text), 0);
  close(r.errors);
}

/* A child that starts a bound one, and ends: the bound one does, too, whether it had begun or not. */
static void test_left(void **state)
{
  (void)state;
  static const char *const words[] = {"test", "leave", NULL};
  char text[ROOM];
  running r = start(words, (how){0});
  expect_told(r);
  read_all(r.output, text);
  assert_true(strcmp(text, "") == 0 || strcmp(text, "up\n") == 0);
  close(r.errors);
}

static void test_many_words(void **state)
{
  (void)state;
  enum { TOO_MANY = 400 };
  const char *words[TOO_MANY + 1];
  pid_t number;
  for (int i = 0; i < TOO_MANY; i++) {
    words[i] = i == 1 ? "words" : "x";
  }
  words[TOO_MANY] = NULL;
  const child_setup setup = {.words = words, .output = STDOUT_FILENO, .errors = STDERR_FILENO};
  assert_int_equal(child_start(&setup, &number), E2BIG);
}

int main(int argc, char **argv)
{
  child_begin(&argc, argv);
  if (argc > 1) {
    return act(argc - 1, argv + 1);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),      cmocka_unit_test(test_variables), cmocka_unit_test(test_streams),
      cmocka_unit_test(test_killed),     cmocka_unit_test(test_group),     cmocka_unit_test(test_left),
      cmocka_unit_test(test_many_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
