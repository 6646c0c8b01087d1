/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of every Vulkan device, reached directly and through the staging ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/vulkan_fixture.h"

static const int32_t usages[] = {TSR_BUFFER_DEVICE, TSR_BUFFER_UPLOAD, TSR_BUFFER_READBACK};

static uint32_t next_random(uint32_t *seed)
{
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static void fill(unsigned char *bytes, size_t size, uint32_t *seed)
{
  for (size_t i = 0; i < size; i++) {
    bytes[i] = (unsigned char)next_random(seed);
  }
}

/* Zeros at first, then what was written, at odd offsets and sizes, some larger than the staging ring. */
static void check_contents(const tsr_backend *table, tsr_backend_device *device, uint64_t size, int32_t usage)
{
  uint32_t seed = (uint32_t)size + (uint32_t)usage;
  unsigned char *expected = calloc(size, 1);
  unsigned char *found = malloc(size);
  tsr_backend_buffer *buffer = NULL;
  assert_int_equal(table->buffer_create(device, size, usage, &buffer), TSR_OK);
  memset(found, 0xa5, size);
  assert_int_equal(table->buffer_read(buffer, 0, size, found), TSR_OK);
  assert_memory_equal(found, expected, size);
  for (int round = 0; round < 6; round++) {
    uint64_t begin = round == 0 ? 0 : next_random(&seed) % size;
    uint64_t count = round == 0 ? size : next_random(&seed) % (size - begin + 1);
    fill(expected + begin, count, &seed);
    assert_int_equal(table->buffer_write(buffer, begin, count, expected + begin), TSR_OK);
    begin = next_random(&seed) % size;
    count = next_random(&seed) % (size - begin + 1);
    assert_int_equal(table->buffer_read(buffer, begin, count, found + begin), TSR_OK);
    assert_memory_equal(found + begin, expected + begin, count);
  }
  assert_int_equal(table->buffer_write(buffer, size, 0, NULL), TSR_OK);
  assert_int_equal(table->buffer_read(buffer, size, 0, NULL), TSR_OK);
  assert_int_equal(table->buffer_read(buffer, 0, size, found), TSR_OK);
  assert_memory_equal(found, expected, size);
  table->buffer_destroy(buffer);
  free(expected);
  free(found);
}

static void check_all_contents(const char *staging)
{
  static const uint64_t sizes[] = {1, 2, 3, 17, 4096, 100001, (5u << 20) + 3, (13u << 20) + 1};
  plugin_fixture plugin;
  plugin_open(&plugin, "STAGING", staging, NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_backend_device *device = NULL;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
      for (size_t u = 0; u < sizeof(usages) / sizeof(usages[0]); u++) {
        check_contents(plugin.table, device, sizes[s], usages[u]);
      }
    }
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

static void test_direct(void **state)
{
  (void)state;
  check_all_contents("0");
}

static void test_staged(void **state)
{
  (void)state;
  check_all_contents("1");
}

/* After its first use the ring allocates nothing. */
static void test_staging_is_steady(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, "STAGING", "1", NULL);
  tsr_backend_device *device = NULL;
  tsr_backend_buffer *buffer = NULL;
  static unsigned char bytes[1000];
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  assert_int_equal(plugin.table->buffer_create(device, sizeof(bytes), TSR_BUFFER_DEVICE, &buffer), TSR_OK);
  tsr_device_counters before = device_counters(&plugin, device);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(plugin.table->buffer_write(buffer, 0, sizeof(bytes), bytes), TSR_OK);
    assert_int_equal(plugin.table->buffer_read(buffer, 0, sizeof(bytes), bytes), TSR_OK);
  }
  tsr_device_counters after = device_counters(&plugin, device);
  assert_int_equal(after.transfers - before.transfers, 200);
  before.transfers = after.transfers;
  assert_memory_equal(&before, &after, sizeof(before));
  plugin.table->buffer_destroy(buffer);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

/* Many small buffers that come and go share blocks of memory, and never each other's bytes. */
static void test_small_buffers(void **state)
{
  (void)state;
  enum { SLOTS = 60, ROUNDS = 1500, LARGEST = 200000 };
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  tsr_backend_device *device = NULL;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  tsr_backend_buffer *buffers[SLOTS] = {NULL};
  uint64_t sizes[SLOTS] = {0};
  unsigned char *bytes = malloc(LARGEST);
  unsigned char *found = malloc(LARGEST);
  uint32_t seed = 7;
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t slot = next_random(&seed) % SLOTS;
    if (buffers[slot]) {
      memset(bytes, (int)slot + 1, sizes[slot]);
      assert_int_equal(plugin.table->buffer_read(buffers[slot], 0, sizes[slot], found), TSR_OK);
      assert_memory_equal(found, bytes, sizes[slot]);
      plugin.table->buffer_destroy(buffers[slot]);
      buffers[slot] = NULL;
      continue;
    }
    sizes[slot] = 1 + next_random(&seed) % (next_random(&seed) % 4 == 0 ? LARGEST : 3000);
    int32_t usage = usages[next_random(&seed) % 3];
    assert_int_equal(plugin.table->buffer_create(device, sizes[slot], usage, &buffers[slot]), TSR_OK);
    memset(bytes, 0, sizes[slot]);
    assert_int_equal(plugin.table->buffer_read(buffers[slot], 0, sizes[slot], found), TSR_OK);
    assert_memory_equal(found, bytes, sizes[slot]);
    memset(bytes, (int)slot + 1, sizes[slot]);
    assert_int_equal(plugin.table->buffer_write(buffers[slot], 0, sizes[slot], bytes), TSR_OK);
  }
  for (int slot = 0; slot < SLOTS; slot++) {
    plugin.table->buffer_destroy(buffers[slot]);
  }
  free(bytes);
  free(found);
  tsr_device_counters counters = device_counters(&plugin, device);
  assert_int_equal(counters.bytes_in_use, 0);
  assert_in_range(counters.bytes_peak, 1, 64u << 20);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

/* Sizes that no machine has: a status and a message, and the device goes on working. */
static void test_absurd_sizes(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_device_properties properties = {.struct_size = sizeof(properties)};
    assert_int_equal(plugin.table->device_properties(plugin.context, i, &properties), TSR_OK);
    const uint64_t sizes[] = {properties.max_buffer_size + 1, (uint64_t)1 << 46, (uint64_t)1 << 62, UINT64_MAX - 3,
                              UINT64_MAX};
    tsr_backend_device *device = NULL;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
      for (size_t u = 0; u < sizeof(usages) / sizeof(usages[0]); u++) {
        tsr_backend_buffer *buffer = NULL;
        int errors = plugin.n_errors;
        assert_int_equal(plugin.table->buffer_create(device, sizes[s], usages[u], &buffer), TSR_ERR_DEVICE_MEMORY);
        assert_null(buffer);
        assert_int_equal(plugin.n_errors, errors + 1);
        assert_non_null(strstr(plugin.message, "use a smaller batch"));
      }
    }
    assert_int_equal(device_counters(&plugin, device).bytes_in_use, 0);
    check_contents(plugin.table, device, 1000, TSR_BUFFER_DEVICE);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

/* The host's struct may be shorter or longer than the plugin's. */
static void test_property_sizes(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  struct {
    tsr_device_properties properties;
    unsigned char after[64];
  } larger, shorter;
  memset(&larger, 0, sizeof(larger));
  memset(&shorter, 0x5a, sizeof(shorter));
  larger.properties.struct_size = sizeof(larger);
  shorter.properties.struct_size = offsetof(tsr_device_properties, features);
  assert_int_equal(plugin.table->device_properties(plugin.context, 0, &larger.properties), TSR_OK);
  assert_int_equal(plugin.table->device_properties(plugin.context, 0, &shorter.properties), TSR_OK);
  assert_string_equal(larger.properties.name, shorter.properties.name);
  assert_int_equal(larger.properties.struct_size, sizeof(larger));
  assert_int_equal(shorter.properties.struct_size, offsetof(tsr_device_properties, features));
  assert_int_equal(shorter.properties.api_major, 0x5a5a5a5a);
  assert_int_equal(larger.after[0], 0);
  assert_true(larger.properties.buffer_alignment >= 16);
  assert_true(larger.properties.max_binding_size >= 1u << 27);
  assert_int_equal(larger.properties.api_major, 1);
  plugin_close(&plugin);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_direct),
      cmocka_unit_test(test_staged),
      cmocka_unit_test(test_staging_is_steady),
      cmocka_unit_test(test_small_buffers),
      cmocka_unit_test(test_absurd_sizes),
      cmocka_unit_test(test_property_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
