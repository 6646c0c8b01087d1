/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer itself. Each trial is a process of its own with a profile that it writes; one that breaks a rule has to be
 * told and ended.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <volk.h>

#include <cmocka.h>

#include "tests/card/trials.h"

static char folder[] = "/tmp/tessera-card-XXXXXX";
static char profile_path[64], output_path[64], statistics_path[64];

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void read_file(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  const size_t n = fread(text, 1, size - 1, file);
  text[n] = '\0';
  fclose(file);
}

/* How the trial's process ended; what it told is in output_path. */
static int run_trial(const trial *t)
{
  write_file(profile_path, t->profile);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("CARD_PROFILE", profile_path, 1);
    setenv("CARD_STATISTICS", statistics_path, 1);
    if (t->fault) {
      setenv("CARD_FAULT", t->fault, 1);
    } else {
      unsetenv("CARD_FAULT");
    }
    setenv("VK_INSTANCE_LAYERS",
           t->validated ? "VK_LAYER_KHRONOS_validation:VK_LAYER_TESSERA_card" : "VK_LAYER_TESSERA_card", 1);
    unsetenv("VK_LAYER_SETTINGS_PATH"); /* which would have the validation layer end the program */
    if (!freopen(output_path, "w", stderr) || dup2(fileno(stderr), fileno(stdout)) < 0) {
      _exit(3);
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(60);
    t->function();
    fflush(stderr);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static int has_validation(void)
{
  uint32_t count = 64;
  VkLayerProperties layers[64];
  int found = 0;
  if (volkInitialize() == VK_SUCCESS && vkEnumerateInstanceLayerProperties(&count, layers) >= VK_SUCCESS) {
    for (uint32_t i = 0; i < count; i++) {
      found |= strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation") == 0;
    }
  }
  return found;
}

static void test_trials(void **state)
{
  (void)state;
  const int validation = has_validation();
  int failures = 0;
  for (size_t i = 0; i < n_trials; i++) {
    const trial *t = &trials[i];
    if (t->validated && !validation) {
      printf("left out, for want of the validation layer: %s\n", t->name);
      continue;
    }
    char told[8192];
    const int status = run_trial(t);
    read_file(output_path, told, sizeof(told));
    const int good = t->told ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(told, t->told) != NULL
                             : WIFEXITED(status) && WEXITSTATUS(status) == 0 && told[0] == '\0';
    if (!good) {
      printf("FAILED: %s: status %#x, told: %s\n", t->name, (unsigned)status, told);
      failures++;
    }
  }
  assert_int_equal(failures, 0);
}

/* A number of the statistics, by its name. */
static long number_of(const char *text, const char *name)
{
  const char *place = strstr(text, name);
  assert_non_null(place);
  return strtol(place + strlen(name) + 3, NULL, 10);
}

static void test_statistics(void **state)
{
  (void)state;
  size_t flush = 0;
  while (strcmp(trials[flush].name, "shows_what_was_not_flushed") != 0) {
    flush++;
    assert_true(flush < n_trials);
  }
  assert_int_equal(run_trial(&trials[flush]), 0);
  char text[8192];
  read_file(statistics_path, text, sizeof(text));
  assert_int_equal(number_of(text, "submits"), 2);
  assert_int_equal(number_of(text, "copy_bytes"), 2048);
  assert_int_equal(number_of(text, "flushed_bytes"), 256 + 1024);
  assert_int_equal(number_of(text, "dispatches"), 0);
  assert_int_equal(number_of(text, "buffer"), 2);
}

static int make_folder(void **state)
{
  (void)state;
  if (!mkdtemp(folder)) {
    return -1;
  }
  snprintf(profile_path, sizeof(profile_path), "%s/profile.json", folder);
  snprintf(output_path, sizeof(output_path), "%s/told", folder);
  snprintf(statistics_path, sizeof(statistics_path), "%s/statistics.json", folder);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  remove(profile_path);
  remove(output_path);
  remove(statistics_path);
  return remove(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trials),
      cmocka_unit_test(test_statistics),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
