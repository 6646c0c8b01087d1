/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/abi/support.h"

static const char *keep(const char *format, const char *folder, const char *name)
{
  static char texts[16][1024];
  static int next;
  char *text = texts[next++ % 16];
  snprintf(text, sizeof texts[0], format, folder, name);
  return text;
}

const char *plugin_folder(const char *name)
{
  const char *build = getenv("TESSERA_TEST_BUILD");
  assert_non_null(build);
  if (strncmp(name, "broken", 6) == 0) {
    return keep("%s%s", build, "/tests/abi");
  }
  return keep("%s/backends/%s", build, name);
}

const char *plugin_file(const char *name)
{
  const char *file = getenv("TESSERA_TEST_TEMPLATE");
  if (file && strcmp(name, "template") == 0) {
    return file;
  }
  return keep("%s/libtessera-backend-%s.so", plugin_folder(name), name);
}

tsr_runtime *runtime_with(const char *first, ...)
{
  const char *plugins[8] = {0};
  int n = 0;
  va_list names;
  va_start(names, first);
  for (const char *name = first; name && n < 4; name = va_arg(names, const char *)) {
    plugins[n++] = plugin_file(name);
  }
  va_end(names);
  tsr_runtime *runtime = NULL;
  assert_ok(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .plugins = plugins, .path = ""},
                               &runtime));
  return runtime;
}

tsr_device *open_device(tsr_runtime *runtime, const char *name)
{
  tsr_device *device = NULL;
  assert_ok(tsr_device_open(runtime, name, &device));
  return device;
}

void assert_message(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("'%s' does not hold '%s'", tsr_error_message(), fragment);
  }
}

void assert_status(tsr_status status, tsr_status expected)
{
  if (status != expected) {
    fail_msg("%s instead of %s: %s", tsr_status_name(status), tsr_status_name(expected), tsr_error_message());
  }
}

void assert_problem(const tsr_runtime *runtime, tsr_status status, const char *fragment)
{
  char all[4096] = "";
  for (int32_t i = 0; i < tsr_runtime_problem_count(runtime); i++) {
    tsr_problem problem;
    assert_ok(tsr_runtime_problem(runtime, i, &problem));
    if (problem.status == status && strstr(problem.message, fragment)) {
      return;
    }
    snprintf(all + strlen(all), sizeof all - strlen(all), "\n%s: %s", tsr_status_name(problem.status), problem.message);
  }
  fail_msg("no problem is %s and holds '%s':%s", tsr_status_name(status), fragment, all);
}

void assert_device_works(tsr_device *device)
{
  tsr_program *program;
  assert_ok(tsr_program_create(&program));
  tsr_ref a = tsr_input(program, "a", TSR_F32, TSR_SHAPE(2, 3));
  tsr_ref b = tsr_input(program, "b", TSR_F32, TSR_SHAPE(3));
  tsr_ref y = tsr_output(program, "y", tsr_relu(program, tsr_add(program, a, b)));
  tsr_executable *executable;
  assert_ok(tsr_executable_create(device, program, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1},
                                  &executable));
  tsr_program_destroy(program);
  const float a_values[6] = {1, -2, 3, -4, 5, -6}, b_values[3] = {1, 1, 10}, expected[6] = {2, 0, 13, 0, 6, 4};
  float result[6];
  assert_ok(tsr_executable_write(executable, a, a_values, sizeof a_values));
  assert_ok(tsr_executable_write(executable, b, b_values, sizeof b_values));
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_read(executable, y, result, sizeof result));
  assert_memory_equal(result, expected, sizeof expected);
  tsr_executable_destroy(executable);
}

void assert_healthy(void)
{
  tsr_runtime *runtime = runtime_with("template", NULL);
  tsr_device *device = open_device(runtime, "template");
  assert_device_works(device);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}
