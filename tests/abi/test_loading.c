/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that cannot be used: each gives its own message and leaves the process as it was.
 */
#define TSR_BACKEND_QUERY template_query
#include <dlfcn.h>
#include <unistd.h>

#include "tests/abi/support.h"
#include "tests/support/temporary.h"

static int clear_environment(void **state)
{
  (void)state;
  static const char *const names[] = {"TESSERA_MISSING_SLOT",          "TESSERA_FAIL_SLOT",    "TESSERA_FAIL_STATUS",
                                      "TESSERA_FAIL_SILENT",           "TESSERA_BACKEND_PATH", "TESSERA_DEVICE",
                                      "TESSERA_MISSING_VARIANTS_SLOT", "TESSERA_VARIANTS"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    unsetenv(names[i]);
  }
  return 0;
}

/* 1 if the plugin's file is still mapped. ThreadSanitizer keeps what was loaded, so nothing is asked of it. */
static int is_loaded(const char *file)
{
  if (TSR_BUILD_FLAGS & TSR_BUILD_TSAN) {
    return 0;
  }
  void *library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  if (library) {
    dlclose(library);
  }
  return library != NULL;
}

/* The plugin is refused with that problem, unloaded, and a good one works beside it. */
static void assert_refused(const char *name, tsr_status status, const char *fragment)
{
  tsr_runtime *runtime = runtime_with(name, "template", NULL);
  assert_problem(runtime, status, fragment);
  assert_problem(runtime, status, plugin_file(name));
  assert_int_equal(tsr_runtime_problem_count(runtime), 1);
  assert_int_equal(tsr_runtime_device_count(runtime), 1);
  assert_false(is_loaded(plugin_file(name)));
  tsr_device *device = open_device(runtime, "auto");
  assert_device_works(device);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

static void test_refused(void **state)
{
  (void)state;
  assert_refused("broken-major", TSR_ERR_PLUGIN, "built for version 2 of the plugin interface, but this program uses");
  assert_refused("broken-short_table", TSR_ERR_PLUGIN, "its table of functions has 144 bytes");
  assert_refused("broken-null_query", TSR_ERR_PLUGIN, "its query function returned NULL");
  assert_refused("broken-refusal", TSR_ERR_PLUGIN, "this machine has no such thing");
  assert_refused("broken-no_symbol", TSR_ERR_PLUGIN, "exports no symbol tessera_backend_query");
  assert_refused("broken-name", TSR_ERR_PLUGIN, "the backend's name is 'Bad Name'");
  assert_refused("broken-no_name", TSR_ERR_PLUGIN, "the backend's name is '(NULL)'");
  assert_refused("broken-no_description", TSR_ERR_PLUGIN, "has no description");
  if (!(TSR_BUILD_FLAGS & TSR_BUILD_TSAN)) {
    assert_refused("broken-sanitizer", TSR_ERR_PLUGIN, "was built with ThreadSanitizer, this program was not");
  }
  assert_refused("broken-missing", TSR_ERR_IO, "cannot be opened: No such file");
}

static void test_missing_slots(void **state)
{
  (void)state;
  static const char *const slots[] = {"start",
                                      "stop",
                                      "device_count",
                                      "device_properties",
                                      "device_open",
                                      "device_close",
                                      "buffer_create",
                                      "buffer_destroy",
                                      "buffer_write",
                                      "buffer_read",
                                      "supports",
                                      "compile",
                                      "executable_destroy",
                                      "run",
                                      "wait"};
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    char fragment[100];
    snprintf(fragment, sizeof fragment, "lacks what every backend must have: %s", slots[i]);
    setenv("TESSERA_MISSING_SLOT", slots[i], 1);
    assert_refused("broken-on_demand", TSR_ERR_PLUGIN, fragment);
  }
}

static void test_variants(void **state)
{
  (void)state;
  static const char *const slots[] = {"name", "force", "variant_of", "class_of", "remember", "save"};
  static const char *const faults[][2] = {
      {"small", "tessera.variants/1 has 48 bytes instead of 56"},
      {"negative", "tessera.variants/1 has -1 variants"},
      {"nameless", "variant 2 of 2 has no name"},
  };
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    char fragment[100];
    snprintf(fragment, sizeof fragment, "extension tessera.variants/1 lacks what it must have: %s", slots[i]);
    setenv("TESSERA_MISSING_VARIANTS_SLOT", slots[i], 1);
    assert_refused("broken-on_demand", TSR_ERR_PLUGIN, fragment);
  }
  unsetenv("TESSERA_MISSING_VARIANTS_SLOT");
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    setenv("TESSERA_VARIANTS", faults[i][0], 1);
    assert_refused("broken-on_demand", TSR_ERR_PLUGIN, faults[i][1]);
  }
  unsetenv("TESSERA_VARIANTS");
  tsr_runtime *runtime = runtime_with("broken-on_demand", NULL);
  tsr_device *device = open_device(runtime, "broken");
  assert_int_equal(tsr_device_variant_count(device), 2);
  assert_string_equal(tsr_device_variant_name(device, 2), "one.other");
  assert_null(tsr_device_variant_name(device, 3));
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

static void test_start_fails(void **state)
{
  (void)state;
  static const char *const slots[] = {"start", "device_count"};
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    char fragment[100];
    clear_environment(NULL);
    setenv("TESSERA_FAIL_SLOT", slots[i], 1);
    setenv("TESSERA_FAIL_STATUS", "8", 1);
    snprintf(fragment, sizeof fragment, "broken: %s was told to fail", slots[i]);
    assert_refused("broken-on_demand", TSR_ERR_NO_DEVICE, fragment);
    setenv("TESSERA_FAIL_SILENT", "1", 1);
    snprintf(fragment, sizeof fragment, "broken: %s failed with TSR_ERR_NO_DEVICE and gave no reason", slots[i]);
    assert_refused("broken-on_demand", TSR_ERR_NO_DEVICE, fragment);
    setenv("TESSERA_FAIL_STATUS", "77", 1);
    snprintf(fragment, sizeof fragment, "broken: %s returned 77, which is no status code", slots[i]);
    assert_refused("broken-on_demand", TSR_ERR_PLUGIN, fragment);
  }
}

/* Without its properties a device is left out, and told. */
static void test_properties_fail(void **state)
{
  (void)state;
  setenv("TESSERA_FAIL_SLOT", "device_properties", 1);
  tsr_runtime *runtime = runtime_with("broken-on_demand", NULL);
  assert_problem(runtime, TSR_ERR_DEVICE_MEMORY, "broken:0: device_properties was told to fail");
  assert_int_equal(tsr_runtime_device_count(runtime), 0);
  tsr_device *device;
  assert_status(tsr_device_open(runtime, "broken", &device), TSR_ERR_NO_DEVICE);
  assert_message("no device was found");
  assert_message("backend broken has no device");
  tsr_runtime_destroy(runtime);
}

static void test_other_versions(void **state)
{
  (void)state;
  static const char *const names[] = {"broken-older", "broken-newer", "broken-noise"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tsr_runtime *runtime = runtime_with(names[i], NULL);
    assert_int_equal(tsr_runtime_problem_count(runtime), 0);
    tsr_device *device = open_device(runtime, "broken:0");
    assert_device_works(device);
    tsr_device_counters counters;
    assert_ok(tsr_device_get_counters(device, &counters));
    assert_int_equal(counters.runs, i == 0 ? 0 : 1); /* the older one's slot is beyond its table */
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
  }
}

static void test_not_a_shared_object(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  static const char *const contents[] = {"", "this is a text\n", "\177ELF"};
  for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
    char name[64];
    snprintf(name, sizeof name, "libtessera-backend-text%zu.so", i);
    write_text(path_in(folder, name), contents[i]);
  }
  write_text(path_in(folder, "libtessera-backend-.so"), "the name is empty: not looked at");
  write_text(path_in(folder, "libother.so"), "not looked at");
  char path[2048];
  snprintf(path, sizeof path, "%s:%s", folder, plugin_folder("template"));
  tsr_runtime *runtime;
  assert_ok(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = path}, &runtime));
  assert_int_equal(tsr_runtime_problem_count(runtime), 3);
  for (int32_t i = 0; i < 3; i++) {
    tsr_problem problem;
    assert_ok(tsr_runtime_problem(runtime, i, &problem));
    assert_int_equal(problem.status, TSR_ERR_PLUGIN);
    assert_non_null(strstr(problem.message, "cannot be loaded as a shared object of this machine"));
    assert_non_null(strstr(problem.message, problem.path));
  }
  tsr_device *device = open_device(runtime, NULL);
  assert_device_works(device);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(folder);
}

/* A plugin that brings the runtime of a sanitizer would end the process on loading. */
static void test_foreign_sanitizer(void **state)
{
  (void)state;
  if (TSR_BUILD_FLAGS & TSR_BUILD_TSAN) {
    skip();
  }
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "libtessera-backend-tsan.so");
  static char bytes[100000];
  memcpy(bytes, "\177ELF", 4);
  memcpy(bytes + 65530, "libtsan.so.2", 12); /* across the loader's blocks */
  write_file(path, bytes, sizeof bytes);
  tsr_runtime *runtime;
  assert_ok(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = folder}, &runtime));
  assert_problem(runtime, TSR_ERR_PLUGIN, "was built with ThreadSanitizer, this program was not");
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(folder);
}

static void test_load_unload_load(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    assert_healthy();
    assert_false(is_loaded(plugin_file("template")));
  }
}

static void test_two_runtimes(void **state)
{
  (void)state;
  tsr_runtime *first = runtime_with("template", NULL), *second = runtime_with("template", "reference", NULL);
  tsr_device *a = open_device(first, "template"), *b = open_device(second, "template");
  assert_device_works(a);
  assert_device_works(b);
  assert_ptr_equal(tsr_device_runtime(b), second);
  tsr_device_close(a);
  tsr_runtime_destroy(first);
  assert_device_works(b);
  tsr_device_close(b);
  tsr_runtime_destroy(second);
}

static void test_duplicates(void **state)
{
  (void)state;
  /* The same file twice is one plugin, by whatever path; another file of the same name is a problem. */
  char *folder = make_temporary_folder();
  const char *link = path_in(folder, "libtessera-backend-link.so");
  assert_int_equal(symlink(plugin_file("broken-on_demand"), link), 0);
  const char *plugins[] = {plugin_file("broken-on_demand"), plugin_file("broken-on_demand"), link,
                           plugin_file("broken-newer"), NULL};
  tsr_runtime *runtime;
  assert_ok(tsr_runtime_create(
      &(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .plugins = plugins, .path = folder}, &runtime));
  assert_int_equal(tsr_runtime_problem_count(runtime), 1);
  assert_problem(runtime, TSR_ERR_PLUGIN, "a backend named 'broken' was found before in ");
  assert_int_equal(tsr_runtime_device_count(runtime), 1);
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(folder);
}

/* 1 if that plugin is loaded and the other is not. */
static int only_loaded(const char *name, const char *other)
{
  return TSR_BUILD_FLAGS & TSR_BUILD_TSAN ? 1 : is_loaded(plugin_file(name)) && !is_loaded(plugin_file(other));
}

static tsr_runtime *runtime_of_folders(const char *first, const char *second)
{
  char path[2048];
  tsr_runtime *runtime;
  snprintf(path, sizeof path, "%s:%s", plugin_folder(first), plugin_folder(second));
  assert_ok(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = path}, &runtime));
  return runtime;
}

/* A device's name loads its backend alone; all are loaded by what needs all, and listed as they were found. */
static void test_loaded_when_needed(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_of_folders("reference", "template");
  assert_false(is_loaded(plugin_file("template")) || is_loaded(plugin_file("reference")));
  tsr_device *device = open_device(runtime, "template");
  assert_true(only_loaded("template", "reference"));
  assert_device_works(device); /* nothing falls back, so the reference is not needed */
  assert_true(only_loaded("template", "reference"));
  tsr_device *other;
  assert_status(tsr_device_open(runtime, "template:7", &other), TSR_ERR_NO_DEVICE);
  assert_message("found: reference:0");
  tsr_device_info info;
  assert_ok(tsr_runtime_device_info(runtime, 0, &info));
  assert_string_equal(info.name, "reference:0");
  assert_ok(tsr_runtime_device_info(runtime, 1, &info));
  assert_string_equal(info.name, "template:0");
  assert_int_equal(tsr_runtime_device_count(runtime), 2);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  assert_false(is_loaded(plugin_file("template")));

  /* What was never needed goes without having been there. */
  tsr_runtime_destroy(runtime_of_folders("reference", "template"));
  runtime = runtime_of_folders("template", "reference");
  tsr_device_close(open_device(runtime, "reference:0"));
  assert_true(only_loaded("reference", "template"));
  device = open_device(runtime, "auto");
  assert_string_equal(tsr_device_name(device), "template:0");
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

/* A line that a device lacks is reason to load what it may fall back on. */
static void test_fallback_is_loaded(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_of_folders("template", "reference");
  tsr_device *device = open_device(runtime, "template");
  tsr_program *program;
  assert_ok(tsr_program_create(&program));
  tsr_output(program, "y", tsr_silu(program, tsr_input(program, "x", TSR_F32, TSR_SHAPE(3))));
  tsr_executable *executable;
  assert_ok(tsr_executable_create(device, program, NULL, &executable));
  assert_true(tsr_executable_line_fell_back(executable, 0));
  tsr_program_destroy(program);
  tsr_executable_destroy(executable);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

/* A backend linked in comes after those that were found, also if nobody needed them. */
static void test_registered_later(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_of_folders("reference", "template");
  assert_status(tsr_runtime_register(runtime, template_query), TSR_ERR_PLUGIN);
  assert_message("a backend named 'template' was found before in ");
  assert_true(only_loaded("template", "reference"));
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_refused, clear_environment),
      cmocka_unit_test_setup(test_missing_slots, clear_environment),
      cmocka_unit_test_setup(test_variants, clear_environment),
      cmocka_unit_test_setup(test_start_fails, clear_environment),
      cmocka_unit_test_setup(test_properties_fail, clear_environment),
      cmocka_unit_test_setup(test_other_versions, clear_environment),
      cmocka_unit_test_setup(test_not_a_shared_object, clear_environment),
      cmocka_unit_test_setup(test_foreign_sanitizer, clear_environment),
      cmocka_unit_test_setup(test_load_unload_load, clear_environment),
      cmocka_unit_test_setup(test_two_runtimes, clear_environment),
      cmocka_unit_test_setup(test_duplicates, clear_environment),
      cmocka_unit_test_setup(test_loaded_when_needed, clear_environment),
      cmocka_unit_test_setup(test_fallback_is_loaded, clear_environment),
      cmocka_unit_test_setup(test_registered_later, clear_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
