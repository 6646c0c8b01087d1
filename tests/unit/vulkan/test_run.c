/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling and running on every Vulkan device of the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vulkan/vulkan_fixture.h"

/* What a run may change is runs and submits: 200 of them allocate, record and create nothing. */
static void test_replay(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_backend_device *device = NULL;
    chain c;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    chain_open(&c, &plugin, device, 7, 1003, 0);
    tsr_device_counters before = device_counters(&plugin, device);
    assert_int_equal(before.runs, 0);
    assert_int_equal(before.recordings, 1);
    for (int run = 0; run < 200; run++) {
      chain_write(&c, (float)run);
      assert_int_equal(plugin.table->run(c.executable), TSR_OK);
      assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
      if (run % 50 == 0) {
        chain_check(&c, (float)run);
      }
    }
    tsr_device_counters after = device_counters(&plugin, device);
    before.runs = 200;
    before.submits = 200;
    before.transfers = after.transfers;
    assert_memory_equal(&before, &after, sizeof(before));
    chain_close(&c);
    assert_int_equal(device_counters(&plugin, device).bytes_in_use, 0);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

/* Runs that are started before the last has ended, after staged writes. */
static void test_runs_without_wait(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, "STAGING", "1", NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_backend_device *device = NULL;
    chain a, b;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    chain_open(&a, &plugin, device, 3, 4096, 0);
    chain_open(&b, &plugin, device, 2, 77, 0);
    for (int round = 0; round < 5; round++) {
      chain_write(&a, (float)round);
      chain_write(&b, (float)-round);
      for (int run = 0; run < 4; run++) {
        assert_int_equal(plugin.table->run(a.executable), TSR_OK);
        assert_int_equal(plugin.table->run(b.executable), TSR_OK);
      }
      chain_check(&b, (float)-round);
      chain_check(&a, (float)round);
    }
    chain_close(&a);
    chain_close(&b);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

static void test_watchdog_splits(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, "WATCHDOG_FLOPS", "2000", NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_backend_device *device = NULL;
    chain c;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    chain_open(&c, &plugin, device, 9, 1000, 0);
    chain_write(&c, 1);
    assert_int_equal(plugin.table->run(c.executable), TSR_OK);
    assert_int_equal(plugin.table->run(c.executable), TSR_OK);
    assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
    chain_check(&c, 1);
    tsr_device_counters counters = device_counters(&plugin, device);
    assert_int_equal(counters.runs, 2);
    assert_int_equal(counters.recordings, 5);
    assert_int_equal(counters.submits, 10);
    chain_close(&c);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

/* One dispatch with more work than a submit may have is divided. */
static void test_watchdog_divides(void **state)
{
  (void)state;
  enum { LINES = 3, EXTENT = 300001 };
  plugin_fixture plugin;
  plugin_open(&plugin, "WATCHDOG_FLOPS", "40000", NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    for (int32_t profile = 0; profile < 2; profile++) {
      tsr_backend_device *device = NULL;
      chain c;
      assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
      chain_open(&c, &plugin, device, LINES, EXTENT, profile);
      chain_write(&c, 1);
      assert_int_equal(plugin.table->run(c.executable), TSR_OK);
      assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
      chain_check(&c, 1);
      assert_in_range(device_counters(&plugin, device).submits, LINES * (EXTENT / 40000), LINES * 16);
      chain_close(&c);
      plugin.table->device_close(device);
    }
  }
  plugin_close(&plugin);
}

static void test_profile(void **state)
{
  (void)state;
  enum { LINES = 5 };
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_device_properties properties = {.struct_size = sizeof(properties)};
    assert_int_equal(plugin.table->device_properties(plugin.context, i, &properties), TSR_OK);
    if (!(properties.features & TSR_FEATURE_TIMESTAMPS)) {
      continue;
    }
    tsr_backend_device *device = NULL;
    chain c, plain;
    uint64_t nanoseconds[LINES];
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    chain_open(&c, &plugin, device, LINES, 300000, 1);
    chain_open(&plain, &plugin, device, LINES, 10, 0);
    assert_int_equal(plugin.table->profile(plain.executable, nanoseconds), TSR_ERR_UNSUPPORTED);
    assert_int_equal(plugin.table->profile(c.executable, nanoseconds), TSR_ERR_ARGUMENT);
    chain_write(&c, 3);
    for (int run = 0; run < 3; run++) {
      assert_int_equal(plugin.table->run(c.executable), TSR_OK);
    }
    assert_int_equal(plugin.table->profile(c.executable, nanoseconds), TSR_OK);
    chain_check(&c, 3);
    for (int line = 0; line < LINES; line++) {
      assert_in_range(nanoseconds[line], 1, 10000000000u);
    }
    chain_close(&c);
    chain_close(&plain);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

static void test_program_without_work(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  chain_open(&c, &plugin, device, 2, 0, 0);
  assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
  assert_int_equal(plugin.table->run(c.executable), TSR_OK);
  assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
  chain_close(&c);
  plugin.table->executable_destroy(NULL);
  plugin.table->buffer_destroy(NULL);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

static void test_unsupported_line(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  chain_open(&c, &plugin, device, 2, 8, 0);
  c.lines[1].op = TSR_OP_COUNT;
  assert_int_equal(plugin.table->supports(device, &c.program, 1), 0);
  assert_int_equal(plugin.n_errors, 0);
  tsr_compile_args args = {.struct_size = sizeof(args), .n_buffers = 1, .program = &c.program, .buffers = &c.buffer};
  tsr_backend_executable *executable = NULL;
  assert_int_equal(plugin.table->compile(device, &args, &executable), TSR_ERR_UNSUPPORTED);
  assert_null(executable);
  assert_int_equal(plugin.n_errors, 1);
  assert_non_null(strstr(plugin.message, "line 1 (chain"));
  chain_close(&c);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

/* Shaders index words with a signed number: a line whose tensors they reach, but not its scratch memory, is refused. */
static void test_scratch_out_of_reach(void **state)
{
  const int64_t rows[] = {64, ((int64_t)1 << 30) + 64}; /* of one element, for each two words of scratch */
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(plugin.table->device_open(plugin.context, 0, &device), TSR_OK);
  chain_open(&c, &plugin, device, 3, 1, 0);
  c.lines[0] = (tsr_line_desc){.op = TSR_OP_RMSNORM_GRADIENT,
                               .in = {1, 2, 1},
                               .out = {3, 4},
                               .label = "norm",
                               .attributes = {.struct_size = sizeof(tsr_op_attributes), .epsilon = 1.0f}};
  for (int32_t i = 0; i < 2; i++) {
    for (int32_t tensor = 1; tensor <= 3; tensor += 2) {
      c.storages[tensor].size = rows[i] * (int64_t)sizeof(float);
      c.tensors[tensor].rank = 2;
      c.tensors[tensor].extent[0] = rows[i];
    }
    assert_int_equal(plugin.table->supports(device, &c.program, 0), i == 0);
  }
  assert_int_equal(plugin.n_errors, 0);
  chain_close(&c);
  plugin.table->device_close(device);
  plugin_close(&plugin);
}

typedef struct worker {
  plugin_fixture *plugin;
  uint32_t index;
  int done;
} worker;

static void *work(void *opaque)
{
  worker *w = opaque;
  tsr_backend_device *device = NULL;
  chain c;
  assert_int_equal(w->plugin->table->device_open(w->plugin->context, w->index, &device), TSR_OK);
  chain_open(&c, w->plugin, device, 5, 5000, 0);
  for (int run = 0; run < 30; run++) {
    chain_write(&c, (float)run);
    assert_int_equal(w->plugin->table->run(c.executable), TSR_OK);
    chain_check(&c, (float)run);
  }
  chain_close(&c);
  w->plugin->table->device_close(device);
  w->done = 1;
  return NULL;
}

/* Two threads, each with a device of its own: two of the machine's, or one opened twice. */
static void test_two_threads(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  worker workers[2] = {{&plugin, 0, 0}, {&plugin, plugin.n_devices - 1, 0}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_true(workers[i].done);
  }
  plugin_close(&plugin);
}

/* The same device twice at once, and load, unload, load. */
static void test_open_twice(void **state)
{
  (void)state;
  for (int round = 0; round < 2; round++) {
    plugin_fixture plugin;
    plugin_open(&plugin, NULL);
    tsr_backend_device *devices[2] = {NULL, NULL};
    chain chains[2];
    for (int i = 0; i < 2; i++) {
      assert_int_equal(plugin.table->device_open(plugin.context, 0, &devices[i]), TSR_OK);
      chain_open(&chains[i], &plugin, devices[i], 4, 100, 0);
      chain_write(&chains[i], (float)(10 * i));
      assert_int_equal(plugin.table->run(chains[i].executable), TSR_OK);
    }
    for (int i = 0; i < 2; i++) {
      chain_check(&chains[i], (float)(10 * i));
      chain_close(&chains[i]);
      plugin.table->device_close(devices[i]);
    }
    tsr_backend_device *none = NULL;
    assert_int_equal(plugin.table->device_open(plugin.context, plugin.n_devices, &none), TSR_ERR_NO_DEVICE);
    assert_null(none);
    plugin_close(&plugin);
  }
}

/* A tensor that no binding can hold. */
static void test_wide(void **state)
{
  (void)state;
  plugin_fixture plugin;
  plugin_open(&plugin, NULL);
  for (uint32_t i = 0; i < plugin.n_devices; i++) {
    tsr_device_properties properties = {.struct_size = sizeof(properties)};
    assert_int_equal(plugin.table->device_properties(plugin.context, i, &properties), TSR_OK);
    uint64_t bytes = properties.max_binding_size + 4096;
    if (4 * bytes > properties.max_buffer_size || 4 * bytes > ((uint64_t)1 << 30)) {
      continue; /* it has no such tensors, or too large ones for a test */
    }
    tsr_backend_device *device = NULL;
    chain c;
    assert_int_equal(plugin.table->device_open(plugin.context, i, &device), TSR_OK);
    chain_open(&c, &plugin, device, 2, (int32_t)(bytes / sizeof(float)), 0);
    chain_write(&c, 1);
    assert_int_equal(plugin.table->run(c.executable), TSR_OK);
    assert_int_equal(plugin.table->wait(c.executable), TSR_OK);
    chain_check(&c, 1);
    chain_close(&c);
    plugin.table->device_close(device);
  }
  plugin_close(&plugin);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replay),
      cmocka_unit_test(test_runs_without_wait),
      cmocka_unit_test(test_watchdog_splits),
      cmocka_unit_test(test_watchdog_divides),
      cmocka_unit_test(test_profile),
      cmocka_unit_test(test_program_without_work),
      cmocka_unit_test(test_unsupported_line),
      cmocka_unit_test(test_scratch_out_of_reach),
      cmocka_unit_test(test_two_threads),
      cmocka_unit_test(test_open_twice),
      cmocka_unit_test(test_wide),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
