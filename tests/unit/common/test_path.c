/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that are removed with all that lies in them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/platform/paths.h"
#include "tools/tessera/common/path.h"

static char *make_file(const char *folder, const char *name)
{
  char *path = path_join(folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("kept", file);
  fclose(file);
  return path;
}

static char *make_folder(const char *folder, const char *name)
{
  char *path = path_join(folder, name);
  assert_int_equal(mkdir(path, 0700), 0);
  return path;
}

static void test_remove_all(void **state)
{
  (void)state;
  char *top = path_in_temporary("tessera-test-XXXXXX");
  assert_non_null(mkdtemp(top));
  char *inner = make_folder(top, "inner ñ"), *deep = make_folder(inner, "deep"), *beside = make_folder(top, "beside");
  char *kept = make_file(beside, "kept"), *link = path_join(deep, "link"), *file = make_file(deep, ".hidden");
  char *leads_out = path_join(deep, "leads out");
  assert_int_equal(symlink(kept, link), 0);
  /* A link to a folder is not to be had for every user of Windows. */
  assert_true(symlink(beside, leads_out) == 0 || errno == EPERM || errno == EACCES);
  assert_int_equal(path_remove_all(inner), 0);
  assert_false(path_exists(inner));
  /* What links lead to stays. */
  assert_true(path_exists(kept));
  assert_int_equal(path_remove_all(inner), ENOENT);
  /* A file alone. */
  assert_int_equal(path_remove_all(kept), 0);
  assert_false(path_exists(kept));
  assert_int_equal(path_remove_all(top), 0);
  assert_false(path_exists(top));
  free(leads_out);
  free(file);
  free(link);
  free(kept);
  free(beside);
  free(deep);
  free(inner);
  free(top);
}

static void test_temporary(void **state)
{
  (void)state;
  setenv(TSR_TEMPORARY_VARIABLE, "somewhere", 1);
  char *path = path_in_temporary("name");
  assert_string_equal(path, "somewhere/name");
  free(path);
  unsetenv(TSR_TEMPORARY_VARIABLE);
  path = path_in_temporary("name");
  assert_string_equal(path, TSR_TEMPORARY "/name");
  free(path);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_remove_all),
      cmocka_unit_test(test_temporary),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
