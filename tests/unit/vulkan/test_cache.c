/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline cache on disk: whatever lies there, programs compile and run.
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
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temporary.h"
#include "tests/unit/vulkan/vulkan_fixture.h"

static char *only_file(const char *folder);

/* Opens device 0, compiles and runs a small program, closes it: reads the cache and writes it. early: the folder in
 * which it lies before the device is closed; or NULL. */
static void use_device_early(const char *cache_option, const char *early)
{
  plugin_fixture plugin;
  plugin_open(&plugin, "PIPELINE_CACHE", cache_option, NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  chain_open(&c, &plugin, device, 3, 50, 0);
  chain_write(&c, 2);
  assert_int_equal(plugin.table->run(c.executable), TSR_OK);
  chain_check(&c, 2);
  if (early) {
    char *path = only_file(early);
    assert_string_not_equal(path, "");
    free(path);
  }
  chain_close(&c);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

static void use_device(const char *cache_option)
{
  use_device_early(cache_option, NULL);
}

/* The one file in the folder; "" if there is none. Freed by the caller. */
static char *only_file(const char *folder)
{
  char *path = calloc(1, 4096);
  DIR *directory = opendir(folder);
  int n = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] != '.') {
      snprintf(path, 4096, "%s/%s", folder, entry->d_name);
      n++;
    }
  }
  if (directory) {
    closedir(directory);
  }
  assert_in_range(n, 0, 1);
  return path;
}

static unsigned char *read_whole(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  unsigned char *bytes = malloc(1u << 24);
  *size = fread(bytes, 1, 1u << 24, file);
  fclose(file);
  return bytes;
}

typedef struct cache_fixture {
  char *base;        /* XDG_CACHE_HOME */
  char folder[4096]; /* base/tessera */
} cache_fixture;

static int open_cache(void **state)
{
  cache_fixture *fixture = calloc(1, sizeof(*fixture));
  fixture->base = make_temporary_folder();
  snprintf(fixture->folder, sizeof(fixture->folder), "%s/tessera", fixture->base);
  setenv("XDG_CACHE_HOME", fixture->base, 1);
  *state = fixture;
  return 0;
}

static int close_cache(void **state)
{
  cache_fixture *fixture = *state;
  chmod(fixture->base, 0700);
  chmod(fixture->folder, 0700);
  char *path = only_file(fixture->folder);
  unlink(path);
  free(path);
  rmdir(fixture->folder);
  remove_temporary_folder(fixture->base);
  free(fixture);
  unsetenv("XDG_CACHE_HOME");
  return 0;
}

static void test_written_and_read(void **state)
{
  const cache_fixture *fixture = *state;
  use_device("0");
  char *path = only_file(fixture->folder);
  assert_string_equal(path, "");
  free(path);

  use_device("1");
  path = only_file(fixture->folder);
  size_t size = 0, size_again = 0;
  unsigned char *bytes = read_whole(path, &size);
  assert_true(size >= 56); /* both headers; what follows is up to the driver */
  assert_memory_equal(bytes, "TSRVKPC1", 8);
  use_device("1");
  unsigned char *again = read_whole(path, &size_again);
  assert_true(size_again >= size); /* some drivers add to it */
  free(bytes);
  free(again);
  free(path);
}

/* A program that is stopped leaves the cache behind: it is saved as soon as there is something to save. */
static void test_saved_early(void **state)
{
  const cache_fixture *fixture = *state;
  use_device_early("1", fixture->folder);
}

/* A damaged cache is replaced by a sound one. */
static void check_damage(const cache_fixture *fixture, const unsigned char *damaged, size_t damaged_size)
{
  char *path = only_file(fixture->folder);
  write_file(path, damaged, damaged_size);
  use_device("1");
  size_t size = 0;
  unsigned char *bytes = read_whole(path, &size);
  assert_true(size >= 56); /* both headers; what follows is up to the driver */
  assert_memory_equal(bytes, "TSRVKPC1", 8);
  assert_true(size != damaged_size || memcmp(bytes, damaged, size) != 0);
  free(bytes);
  free(path);
}

static void test_damaged(void **state)
{
  const cache_fixture *fixture = *state;
  use_device("1");
  char *path = only_file(fixture->folder);
  size_t size = 0;
  unsigned char *sound = read_whole(path, &size);
  unsigned char *damaged = malloc(size + 100);
  free(path);

  static const size_t kept[] = {0, 1, 7, 23, 24, 40, 55};
  for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
    check_damage(fixture, sound, kept[i]);
  }
  check_damage(fixture, sound, size - 1);

  /* A flipped bit in each field of both headers, and in the content. */
  static const size_t flipped[] = {0, 8, 15, 16, 24, 28, 32, 36, 40, 55};
  for (size_t i = 0; i < sizeof(flipped) / sizeof(flipped[0]); i++) {
    memcpy(damaged, sound, size);
    damaged[flipped[i]] ^= 4;
    check_damage(fixture, damaged, size);
  }
  memcpy(damaged, sound, size);
  damaged[size - 1] ^= 0x80;
  check_damage(fixture, damaged, size);

  memcpy(damaged, sound, size);
  memset(damaged + size, 0, 100);
  check_damage(fixture, damaged, size + 100);

  for (size_t i = 0; i < size; i++) {
    damaged[i] = (unsigned char)(i * 37);
  }
  check_damage(fixture, damaged, size);
  free(sound);
  free(damaged);
}

/* Another driver's content in a file that is sound otherwise: its own header and checksum are right. */
static void test_foreign(void **state)
{
  const cache_fixture *fixture = *state;
  use_device("1");
  char *path = only_file(fixture->folder);
  size_t size = 0;
  unsigned char *bytes = read_whole(path, &size);
  free(path);
  bytes[24 + 16] ^= 1; /* the UUID in Vulkan's header */
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 24; i < size; i++) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  for (int i = 0; i < 8; i++) {
    bytes[16 + i] = (unsigned char)(hash >> (8 * i));
  }
  check_damage(fixture, bytes, size);
  free(bytes);
}

/* Folders that cannot be written, and a path that is none. */
static void test_no_place(void **state)
{
  const cache_fixture *fixture = *state;
  chmod(fixture->base, 0500);
  use_device("1");
  chmod(fixture->base, 0700);
  char *path = only_file(fixture->folder);
  unlink(path);
  free(path);
  mkdir(fixture->folder, 0700);
  chmod(fixture->folder, 0500);
  use_device("1");
  chmod(fixture->folder, 0700);
  path = only_file(fixture->folder);
  unlink(path);
  free(path);
  rmdir(fixture->folder);

  write_text(fixture->folder, "a file where the folder should be");
  use_device("1");
  unlink(fixture->folder);

  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  use_device("1");
  setenv("XDG_CACHE_HOME", "relative/path", 1);
  setenv("HOME", fixture->base, 1);
  use_device("1");
  char nested[4200];
  snprintf(nested, sizeof(nested), "%s/.cache/tessera", fixture->base);
  path = only_file(nested);
  assert_string_not_equal(path, "");
  unlink(path);
  free(path);
  rmdir(nested);
  snprintf(nested, sizeof(nested), "%s/.cache", fixture->base);
  rmdir(nested);
  unsetenv("HOME");
  use_device("1");
}

int main(void)
{
  setenv("MESA_SHADER_CACHE_DISABLE", "true", 1); /* would put a folder of its own beside ours */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_written_and_read, open_cache, close_cache),
      cmocka_unit_test_setup_teardown(test_saved_early, open_cache, close_cache),
      cmocka_unit_test_setup_teardown(test_damaged, open_cache, close_cache),
      cmocka_unit_test_setup_teardown(test_foreign, open_cache, close_cache),
      cmocka_unit_test_setup_teardown(test_no_place, open_cache, close_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
