/* SPDX-License-Identifier: Apache-2.0
 *
 * How devices are found and named.
 */
#define TSR_BACKEND_QUERY template_query
#include <pthread.h>
#include <unistd.h>

#include "tests/abi/support.h"

/* A backend linked into this program: the template's functions, with devices of chosen types. */
static struct {
  const char *name;
  int32_t types[8];
  uint32_t n;
  int fails_to_open; /* bit i: device i */
  uint64_t features; /* of all, likewise the next */
  uint32_t rows_at_once;
  uint32_t state_types;
} fake;

static tsr_backend fake_table;

static int32_t fake_count(void *context, uint32_t *count)
{
  (void)context;
  *count = fake.n;
  return TSR_OK;
}

static int32_t fake_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  (void)context;
  properties->type = fake.types[index];
  properties->features = fake.features;
  properties->rows_at_once = fake.rows_at_once;
  properties->state_types = fake.state_types;
  return TSR_OK;
}

static int32_t fake_open(void *context, uint32_t index, tsr_backend_device **device)
{
  return fake.fails_to_open & (1 << index) ? TSR_ERR_NO_DEVICE
                                           : template_query(TSR_ABI_MAJOR, NULL)->device_open(context, 0, device);
}

static const tsr_backend *fake_query(uint32_t major, const tsr_host *host)
{
  fake_table = *template_query(major, host);
  fake_table.name = fake.name;
  fake_table.device_count = fake_count;
  fake_table.device_properties = fake_properties;
  fake_table.device_open = fake_open;
  return &fake_table;
}

static int set_up(void **state)
{
  unsetenv("TESSERA_DEVICE");
  unsetenv("TESSERA_BACKEND_PATH");
  memset(&fake, 0, sizeof fake);
  fake.name = "fake";
  *state = NULL;
  return 0;
}

static void assert_opens(tsr_runtime *runtime, const char *name, const char *expected)
{
  tsr_device *device = open_device(runtime, name);
  assert_string_equal(tsr_device_name(device), expected);
  assert_device_works(device);
  tsr_device_close(device);
}

static void assert_no_device(tsr_runtime *runtime, const char *name)
{
  tsr_device *device = (tsr_device *)runtime;
  assert_status(tsr_device_open(runtime, name, &device), TSR_ERR_NO_DEVICE);
  assert_null(device);
}

static void test_names(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", "broken-major", NULL);
  assert_opens(runtime, "template", "template:0");
  assert_opens(runtime, "template:0", "template:0");
  static const char *const wrong[] = {"template:1", "template:", "template:00", "template:x", "templat",
                                      "vulkan:0",   ":0",        "template:0 ", "Template"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_no_device(runtime, wrong[i]);
  }
  assert_message("there is no device 'Template'; found: template:0 (host memory); not usable: ");
  assert_message("built for version 2");
  char longest[5000];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  assert_no_device(runtime, longest);

  tsr_device_info info;
  assert_ok(tsr_runtime_device_info(runtime, 0, &info));
  assert_string_equal(info.name, "template:0");
  assert_string_equal(info.backend, "template");
  assert_non_null(strstr(info.description, "example"));
  assert_non_null(strstr(info.path, "libtessera-backend-template.so"));
  assert_int_equal(info.properties.struct_size, sizeof info.properties);
  assert_int_equal(info.properties.buffer_alignment, 16);
  assert_status(tsr_runtime_device_info(runtime, 1, &info), TSR_ERR_ARGUMENT);
  assert_status(tsr_runtime_device_info(runtime, -1, &info), TSR_ERR_ARGUMENT);
  tsr_problem problem;
  assert_status(tsr_runtime_problem(runtime, 1, &problem), TSR_ERR_ARGUMENT);
  tsr_runtime_destroy(runtime);
}

static void test_environment(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", "reference", NULL);
  setenv("TESSERA_DEVICE", "template:0", 1);
  assert_opens(runtime, NULL, "template:0");
  assert_opens(runtime, "reference", "reference:0"); /* a name goes first */
  setenv("TESSERA_DEVICE", "reference", 1);
  assert_opens(runtime, NULL, "reference:0");
  assert_opens(runtime, "auto", "template:0"); /* loaded first, of the same rank */
  setenv("TESSERA_DEVICE", "nothing:7", 1);
  assert_no_device(runtime, NULL);
  assert_message("there is no device 'nothing:7' (from TESSERA_DEVICE); found: template:0");
  setenv("TESSERA_DEVICE", "", 1);
  assert_opens(runtime, NULL, "template:0");
  tsr_runtime_destroy(runtime);
}

/* Takes the best away, one after the other. */
static void test_auto(void **state)
{
  (void)state;
  static const int32_t types[] = {
      TSR_DEVICE_SOFTWARE_GPU, TSR_DEVICE_REFERENCE,      TSR_DEVICE_CPU,          TSR_DEVICE_VIRTUAL_GPU,
      TSR_DEVICE_DISCRETE_GPU, TSR_DEVICE_INTEGRATED_GPU, TSR_DEVICE_DISCRETE_GPU, 99};
  static const int32_t order[] = {4, 6, 5, 3, 2, 1};
  memcpy(fake.types, types, sizeof types);
  fake.n = 8;
  tsr_runtime *runtime = runtime_with(NULL, NULL);
  assert_no_device(runtime, "auto");
  assert_message("there is no device that 'auto' may choose; no device was found");
  assert_ok(tsr_runtime_register(runtime, fake_query));
  assert_int_equal(tsr_runtime_device_count(runtime), 8);
  tsr_log_set(NULL, NULL);
  for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
    char expected[16];
    snprintf(expected, sizeof expected, "fake:%d", (int)order[i]);
    assert_opens(runtime, "auto", expected);
    fake.fails_to_open |= 1 << order[i];
  }
  assert_no_device(runtime, "auto"); /* software and unknown kinds only by name */
  assert_message("fake:1: device_open failed with TSR_ERR_NO_DEVICE");
  assert_opens(runtime, "fake:0", "fake:0");
  assert_opens(runtime, "fake:7", "fake:7");
  tsr_runtime_destroy(runtime);

  fake.fails_to_open = 0;
  fake.n = 1;
  runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(runtime, fake_query));
  assert_no_device(runtime, "auto");
  assert_message("there is no device that 'auto' may choose; found: fake:0");
  tsr_runtime_destroy(runtime);
}

static void assert_batches(int32_t type, uint32_t rows_at_once, uint32_t state_types)
{
  fake.types[0] = type;
  fake.n = 1;
  tsr_runtime *runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(runtime, fake_query));
  tsr_device *device = open_device(runtime, "fake");
  const tsr_device_properties *properties = tsr_device_get_properties(device);
  assert_int_equal(properties->rows_at_once, rows_at_once);
  assert_int_equal(properties->state_types, state_types);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

/* What a plugin from before 1.5 leaves open, and what one says. */
static void test_properties_that_came_later(void **state)
{
  (void)state;
  static const int32_t gpus[] = {TSR_DEVICE_DISCRETE_GPU, TSR_DEVICE_INTEGRATED_GPU, TSR_DEVICE_VIRTUAL_GPU,
                                 TSR_DEVICE_SOFTWARE_GPU};
  const uint32_t f32 = 1u << TSR_F32, bf16 = 1u << TSR_BF16, floats = f32 | 1u << TSR_F16 | bf16;
  for (int has_halves = 0; has_halves < 2; has_halves++) {
    fake.features = has_halves ? TSR_FEATURE_F16_STORAGE : 0;
    assert_batches(TSR_DEVICE_CPU, 1, f32);
    assert_batches(TSR_DEVICE_REFERENCE, 1, f32);
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
      assert_batches(gpus[i], 32, has_halves ? floats : f32);
    }
  }
  fake.rows_at_once = 7;
  fake.state_types = bf16;
  assert_batches(TSR_DEVICE_CPU, 7, f32 | bf16);
  assert_batches(TSR_DEVICE_DISCRETE_GPU, 7, f32 | bf16);
}

static void test_register(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", NULL);
  fake.n = 0;
  assert_ok(tsr_runtime_register(runtime, fake_query)); /* a backend without a device is sound */
  assert_no_device(runtime, "fake");
  assert_message("backend fake has no device");
  assert_status(tsr_runtime_register(runtime, fake_query), TSR_ERR_PLUGIN);
  assert_message("a backend named 'fake' was found before, linked into the program");
  assert_status(tsr_runtime_register(runtime, template_query), TSR_ERR_PLUGIN);
  assert_message("a backend named 'template' was found before in ");
  static const char *const names[] = {
      "", "auto", "a b", "a:b", "UPPER", "an-extremely-long-name-of-a-backend-that-does-not-fit", "\xc3\xa9"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    fake.name = names[i];
    assert_status(tsr_runtime_register(runtime, fake_query), TSR_ERR_PLUGIN);
    assert_message("a backend linked into the program: the backend's name is");
  }
  assert_status(tsr_runtime_register(runtime, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_runtime_problem_count(runtime), 9);
  assert_opens(runtime, "template", "template:0");
  tsr_runtime_destroy(runtime);

  runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(runtime, template_query));
  assert_opens(runtime, "auto", "template:0");
  tsr_device_info info;
  assert_ok(tsr_runtime_device_info(runtime, 0, &info));
  assert_string_equal(info.path, "");
  tsr_runtime_destroy(runtime);
}

static int has_backend(tsr_runtime *runtime, const char *name)
{
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
    tsr_device_info info;
    assert_ok(tsr_runtime_device_info(runtime, i, &info));
    if (strcmp(info.backend, name) == 0) {
      return 1;
    }
  }
  return 0;
}

static void test_search_path(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  char path[4096];
  snprintf(path, sizeof path, ":%s::/no/such/folder:%s:", plugin_folder("template"), plugin_folder("reference"));
  setenv("TESSERA_BACKEND_PATH", path, 1);
  assert_ok(tsr_runtime_create(NULL, &runtime));
  assert_true(has_backend(runtime, "template"));
  assert_true(has_backend(runtime, "reference"));
  assert_problem(runtime, TSR_ERR_IO, "/no/such/folder: cannot be searched for backends");
  assert_no_device(runtime, "x");
  assert_message("searched for backends: ");
  assert_message("/no/such/folder");
  assert_message(TSR_PLUGIN_DIR);
  tsr_runtime_destroy(runtime);

  /* A path from the caller stands in for all others. */
  assert_ok(tsr_runtime_create(
      &(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = plugin_folder("reference")}, &runtime));
  assert_false(has_backend(runtime, "template"));
  assert_true(has_backend(runtime, "reference"));
  tsr_runtime_destroy(runtime);
}

static void test_never_the_working_directory(void **state)
{
  (void)state;
  char before[4096];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(plugin_folder("template")), 0);
  static const char *const paths[] = {"", ":", "::", ".", "./", "../template", ":.:"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    setenv("TESSERA_BACKEND_PATH", paths[i], 1);
    tsr_runtime *runtime;
    assert_ok(tsr_runtime_create(NULL, &runtime));
    assert_false(has_backend(runtime, "template"));
    if (strchr(paths[i], '.')) {
      assert_problem(runtime, TSR_ERR_ARGUMENT, "the working directory is never searched");
    }
    tsr_runtime_destroy(runtime);
  }
  assert_int_equal(chdir(before), 0);
}

static void *work(void *device)
{
  for (int i = 0; i < 50; i++) {
    assert_device_works(device);
  }
  return NULL;
}

static void test_threads(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", "reference", NULL);
  tsr_device *a = open_device(runtime, "template"), *b = open_device(runtime, "reference");
  tsr_device *devices[] = {a, b, a, b};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, work, devices[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  tsr_device_close(a);
  tsr_device_close(b);
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_names, set_up),
      cmocka_unit_test_setup(test_environment, set_up),
      cmocka_unit_test_setup(test_auto, set_up),
      cmocka_unit_test_setup(test_properties_that_came_later, set_up),
      cmocka_unit_test_setup(test_register, set_up),
      cmocka_unit_test_setup(test_search_path, set_up),
      cmocka_unit_test_setup(test_never_the_working_directory, set_up),
      cmocka_unit_test_setup(test_threads, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
