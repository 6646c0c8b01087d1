/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that returns an error from each slot in turn: the error reaches the caller, nothing is lost, and the device
 * works again as soon as the slot does.
 */
#include "tests/abi/support.h"

typedef struct bench {
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_program *program;
  tsr_ref x, y;
} bench;

static int set_up(void **state)
{
  static bench b;
  b.runtime = runtime_with("broken-on_demand", "template", NULL);
  b.device = open_device(b.runtime, "broken:0");
  assert_ok(tsr_program_create(&b.program));
  b.x = tsr_input(b.program, "x", TSR_F32, TSR_SHAPE(4));
  b.y = tsr_output(b.program, "y", tsr_relu(b.program, b.x));
  *state = &b;
  return 0;
}

static int tear_down(void **state)
{
  bench *b = *state;
  tsr_program_destroy(b->program);
  tsr_device_close(b->device);
  tsr_runtime_destroy(b->runtime);
  return 0;
}

/* Everything that a caller does with a device, in order; stops at the first error. */
static tsr_status use_all(bench *b)
{
  const float values[4] = {1, -1, 2, -2}, expected[4] = {1, 0, 2, 0};
  float result[4];
  uint64_t nanoseconds[1];
  tsr_device_counters counters;
  tsr_device *device = NULL;
  tsr_buffer *buffer = NULL;
  tsr_executable *executable = NULL;
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .profile = 1, .strict = 1};
  tsr_status status = tsr_device_open(b->runtime, "broken:0", &device);
  if (status == TSR_OK) {
    status = tsr_buffer_create(b->device, 64, TSR_BUFFER_DEVICE, &buffer);
  }
  if (status == TSR_OK) {
    status = tsr_buffer_write(buffer, 16, sizeof values, values);
  }
  if (status == TSR_OK) {
    status = tsr_buffer_read(buffer, 16, sizeof result, result);
  }
  if (status == TSR_OK) {
    status = tsr_executable_create(b->device, b->program, &options, &executable);
  }
  if (status == TSR_OK) {
    status = tsr_executable_write(executable, b->x, values, sizeof values);
  }
  if (status == TSR_OK) {
    status = tsr_executable_run(executable);
  }
  if (status == TSR_OK) {
    status = tsr_executable_read(executable, b->y, result, sizeof result);
  }
  if (status == TSR_OK) {
    assert_memory_equal(result, expected, sizeof expected);
    status = tsr_executable_profile(executable, nanoseconds, 1);
  }
  if (status == TSR_OK) {
    status = tsr_device_get_counters(b->device, &counters);
  }
  if (status == TSR_OK) {
    status = tsr_device_remember_variant(b->device, b->program, 0, 2);
  }
  if (status == TSR_OK) {
    status = tsr_device_save_variants(b->device);
  }
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(buffer);
  tsr_device_close(device);
  return status;
}

static const char *const slots[] = {"device_open", "buffer_create", "buffer_write", "buffer_read", "compile", "run",
                                    "wait",        "profile",       "counters",     "remember",    "save"};
enum { N_SLOTS = sizeof slots / sizeof slots[0] };

static void set_option(bench *b, const char *name, const char *value)
{
  assert_ok(tsr_runtime_option(b->runtime, name, value));
}

static void test_each_slot(void **state)
{
  bench *b = *state;
  char fragment[100];
  assert_ok(use_all(b));
  for (int i = 0; i < N_SLOTS; i++) {
    set_option(b, "fail_slot", slots[i]);
    assert_status(use_all(b), TSR_ERR_DEVICE_MEMORY);
    snprintf(fragment, sizeof fragment, "broken:0: %s was told to fail", slots[i]);
    assert_message(fragment);
    set_option(b, "fail_status", "7");
    assert_status(use_all(b), TSR_ERR_DEVICE_LOST);
    assert_message(fragment);
    set_option(b, "fail_status", NULL);
    set_option(b, "fail_slot", NULL);
    assert_ok(use_all(b));
  }
  assert_healthy();
}

static void test_without_a_message(void **state)
{
  bench *b = *state;
  char fragment[100];
  set_option(b, "fail_silent", "1");
  for (int i = 0; i < N_SLOTS; i++) {
    set_option(b, "fail_slot", slots[i]);
    assert_status(use_all(b), TSR_ERR_DEVICE_MEMORY);
    snprintf(fragment, sizeof fragment, "broken:0: %s failed with TSR_ERR_DEVICE_MEMORY and gave no reason", slots[i]);
    assert_message(fragment);
  }
}

static void test_unknown_status(void **state)
{
  bench *b = *state;
  static const char *const numbers[] = {"77", "13", "-1", "-2147483648"};
  char fragment[100];
  for (int i = 0; i < N_SLOTS; i++) {
    const char *number = numbers[i % 4];
    set_option(b, "fail_slot", slots[i]);
    set_option(b, "fail_status", number);
    assert_status(use_all(b), TSR_ERR_PLUGIN);
    snprintf(fragment, sizeof fragment, "broken:0: %s returned %s, which is no status code", slots[i], number);
    assert_message(fragment);
    snprintf(fragment, sizeof fragment, "it said: %s was told to fail", slots[i]);
    assert_message(fragment);
  }
}

static void test_success_without_an_object(void **state)
{
  bench *b = *state;
  static const char *const makers[] = {"device_open", "buffer_create", "compile"};
  char fragment[100];
  for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
    set_option(b, "null_slot", makers[i]);
    assert_status(use_all(b), TSR_ERR_PLUGIN);
    snprintf(fragment, sizeof fragment, "broken:0: %s succeeded without", makers[i]);
    assert_message(fragment);
  }
}

/* A run that fails after start is told to whoever waits, once for whom it concerns. */
static void test_failed_run(void **state)
{
  bench *b = *state;
  tsr_executable *executable;
  float values[4] = {0};
  assert_ok(tsr_executable_create(b->device, b->program, NULL, &executable));
  assert_ok(tsr_executable_start(executable));
  set_option(b, "fail_slot", "wait");
  assert_status(tsr_executable_write(executable, b->x, values, sizeof values), TSR_ERR_DEVICE_MEMORY);
  assert_message("broken:0: wait was told to fail");
  assert_status(tsr_executable_wait(executable), TSR_ERR_DEVICE_MEMORY);
  assert_message("broken:0: the run failed with TSR_ERR_DEVICE_MEMORY");
  set_option(b, "fail_slot", NULL);
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_wait(executable));
  tsr_executable_destroy(executable);
}

/* The caller's value goes before the environment's; both stay valid when they change. */
static void test_options(void **state)
{
  bench *b = *state;
  setenv("TESSERA_FAIL_SLOT", "run", 1);
  assert_status(use_all(b), TSR_ERR_DEVICE_MEMORY);
  assert_message("run was told");
  set_option(b, "fail_slot", "compile");
  assert_status(use_all(b), TSR_ERR_DEVICE_MEMORY);
  assert_message("compile was told");
  set_option(b, "fail_slot", NULL);
  setenv("TESSERA_FAIL_SLOT", "wait", 1);
  assert_status(use_all(b), TSR_ERR_DEVICE_MEMORY);
  assert_message("wait was told");
  unsetenv("TESSERA_FAIL_SLOT");
  assert_ok(use_all(b));
  assert_status(tsr_runtime_option(b->runtime, "", "x"), TSR_ERR_ARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_each_slot, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_without_a_message, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_unknown_status, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_success_without_an_object, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failed_run, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_options, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
