/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the best variants: as text, and kept on disk for whoever opens the device later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/tuning.h"
#include "backends/vulkan/variants.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tests/support/temporary.h"

static const tsr_vk_class first = {.op = 1, .field = {1, 2, 3, 4, 5, 6, 7}};
static const tsr_vk_class second = {.op = 19, .field = {0, 0, 30, 0, 0, 0, 0}};

static void test_table(void **state)
{
  (void)state;
  tsr_vk_tuning table = {0}, copy = {0};
  assert_int_equal(tsr_vk_tuning_find(NULL, &first), TSR_VK_VARIANT_AUTO);
  assert_int_equal(tsr_vk_tuning_find(&table, &first), TSR_VK_VARIANT_AUTO);
  assert_true(tsr_vk_tuning_set(&table, &first, TSR_VK_VARIANT_MATMUL_VECTOR));
  assert_true(tsr_vk_tuning_set(&table, &second, TSR_VK_VARIANT_MATMUL_PLAIN));
  assert_true(tsr_vk_tuning_set(&table, &first, TSR_VK_VARIANT_MATMUL_GENERIC));
  assert_int_equal(table.count, 2);
  char *text = tsr_vk_tuning_print(&table);
  assert_non_null(text);
  assert_string_equal(text, "tessera variants 1\n1 1 2 3 4 5 6 7 matmul.generic\n19 0 0 30 0 0 0 0 matmul.plain\n");
  assert_null(tsr_vk_tuning_parse(&copy, text));
  free(text);
  assert_int_equal(tsr_vk_tuning_find(&copy, &first), TSR_VK_VARIANT_MATMUL_GENERIC);
  assert_int_equal(tsr_vk_tuning_find(&copy, &second), TSR_VK_VARIANT_MATMUL_PLAIN);
  assert_true(tsr_vk_tuning_set(&copy, &first, TSR_VK_VARIANT_AUTO));
  assert_int_equal(tsr_vk_tuning_find(&copy, &first), TSR_VK_VARIANT_AUTO);
  assert_int_equal(tsr_vk_tuning_find(&copy, &second), TSR_VK_VARIANT_MATMUL_PLAIN);
  tsr_vk_tuning_finish(&table);
  tsr_vk_tuning_finish(&copy);
}

static void test_text(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "",
      "tessera variants 2\n",
      "tessera forms 1\n1 2 3 4 5 6 7 8 matmul.plain\n", /* as it once was */
      "tessera variants 1\n1\n",
      "tessera variants 1\n1 2 3 4 5 6 7 8\n",
      "tessera variants 1\n1 2 3 4 5 6 7 8 \n",
      "tessera variants 1\n1 2 3 4 5 6 7 8 matmul.plain",
      "tessera variants 1\n0 2 3 4 5 6 7 8 matmul.plain\n",
      "tessera variants 1\n1 -2 3 4 5 6 7 8 matmul.plain\n",
      "tessera variants 1\n1 1234567890 3 4 5 6 7 8 matmul.plain\n",
      "tessera variants 1\n1  3 4 5 6 7 8 9 matmul.plain\n",
      "tessera variants 1\n\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_vk_tuning table = {0};
    if (!tsr_vk_tuning_parse(&table, bad[i])) {
      fail_msg("text %zu was taken", i);
    }
    tsr_vk_tuning_finish(&table);
  }
  tsr_vk_tuning table = {0};
  assert_null(tsr_vk_tuning_parse(&table, "tessera variants 1\n1 2 3 4 5 6 7 8 matmul.of_another_version\n"));
  assert_int_equal(table.count, 0);
  tsr_vk_tuning_finish(&table);
}

static void test_many(void **state)
{
  (void)state;
  tsr_vk_tuning table = {0};
  tsr_vk_class class = {.op = 1};
  while (tsr_vk_tuning_set(&table, &class, TSR_VK_VARIANT_MATMUL_PLAIN)) {
    class.field[3]++;
    assert_in_range(table.count, 0, 1 << 16);
  }
  tsr_vk_tuning_finish(&table);
}

static void test_buckets(void **state)
{
  (void)state;
  static const struct {
    uint64_t n;
    int32_t bucket;
  } cases[] = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {17, 5}, {32, 5}, {33, 6}, {UINT64_MAX, 63}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(tsr_vk_bucket(cases[i].n), cases[i].bucket);
  }
}

/* y [rows, 24] = a [rows, 32] @ b [32, 24] */
static tsr_program *make_product(int32_t rows)
{
  tsr_program *program = NULL;
  assert_int_equal(tsr_program_create(&program), TSR_OK);
  tsr_ref a = tsr_input(program, "a", TSR_F32, TSR_SHAPE(rows, 32));
  tsr_output(program, "y", tsr_product(program, a, tsr_constant(program, "b", TSR_F32, TSR_SHAPE(32, 24))));
  assert_int_equal(tsr_program_status(program), TSR_OK);
  return program;
}

static tsr_device *open_device(tsr_runtime *runtime)
{
  tsr_device *device = NULL;
  return tsr_device_open(runtime, "vulkan:0", &device) == TSR_OK ? device : NULL;
}

/* The file with the table in XDG_CACHE_HOME/tessera; "" if there is none. Valid until the next call. */
static const char *table_file(const char *base)
{
  static char path[4096];
  char folder[2048];
  snprintf(folder, sizeof folder, "%s/tessera", base);
  path[0] = '\0';
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    const char *suffix = strrchr(entry->d_name, '.');
    if (suffix && strcmp(suffix, ".variants") == 0) {
      snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    }
  }
  if (directory) {
    closedir(directory);
  }
  return path;
}

static void test_device(void **state)
{
  (void)state;
  char *base = make_temporary_folder();
  setenv("XDG_CACHE_HOME", base, 1);
  tsr_runtime *runtime = NULL;
  assert_int_equal(tsr_runtime_create(NULL, &runtime), TSR_OK);
  tsr_device *device = open_device(runtime);
  if (!device) {
    tsr_runtime_destroy(runtime);
    remove_temporary_folder(base);
    skip();
  }
  tsr_program *program = make_product(30), *alike = make_product(17), *other = make_product(33);
  const int32_t usual = tsr_device_variant_of(device, program, 0);
  const int32_t another =
      usual == TSR_VK_VARIANT_MATMUL_GENERIC ? TSR_VK_VARIANT_MATMUL_PLAIN : TSR_VK_VARIANT_MATMUL_GENERIC;
  char class[128];
  assert_int_equal(tsr_device_variant_class(device, program, 0, class, sizeof class), 1);
  assert_true(class[0] != '\0');

  /* what is forced comes first, then what is remembered of the class, then the rules */
  assert_int_equal(tsr_device_remember_variant(device, program, 0, another), TSR_OK);
  assert_int_equal(tsr_device_variant_of(device, program, 0), another);
  assert_int_equal(tsr_device_variant_of(device, alike, 0), another);
  assert_int_not_equal(tsr_device_variant_of(device, other, 0), another);
  assert_int_equal(tsr_device_force_variant(device, usual), TSR_OK);
  assert_int_equal(tsr_device_variant_of(device, program, 0), usual);
  assert_int_equal(tsr_device_force_variant(device, 0), TSR_OK);
  assert_int_equal(tsr_device_force_variant(device, 10000), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_device_remember_variant(device, program, 7, another), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_device_remember_variant(device, program, 0, -1), TSR_ERR_ARGUMENT);

  /* kept for the next one */
  assert_int_equal(tsr_device_save_variants(device), TSR_OK);
  tsr_device_close(device);
  device = open_device(runtime);
  assert_int_equal(tsr_device_variant_of(device, program, 0), another);
  assert_int_equal(tsr_device_remember_variant(device, program, 0, 0), TSR_OK);
  assert_int_equal(tsr_device_variant_of(device, program, 0), usual);
  tsr_device_close(device);
  assert_int_equal(tsr_runtime_option(runtime, "TUNING", "0"), TSR_OK);
  device = open_device(runtime);
  assert_int_equal(tsr_device_variant_of(device, program, 0), usual);
  tsr_device_close(device);
  assert_int_equal(tsr_runtime_option(runtime, "TUNING", NULL), TSR_OK);

  /* a file that is damaged does no harm */
  const char *file = table_file(base);
  assert_true(file[0] != '\0');
  write_text(file, "tessera variants 1\nnonsense\n");
  device = open_device(runtime);
  assert_int_equal(tsr_device_variant_of(device, program, 0), usual);
  tsr_device_close(device);

  tsr_program_destroy(program);
  tsr_program_destroy(alike);
  tsr_program_destroy(other);
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(strcat(strcpy(malloc(strlen(base) + sizeof "/tessera"), base), "/tessera"));
  remove_temporary_folder(base);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),   cmocka_unit_test(test_text),   cmocka_unit_test(test_many),
      cmocka_unit_test(test_buckets), cmocka_unit_test(test_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
