/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention never holds its scores: what a device sets aside for a line of 8,192 queries and keys and 8 heads stays
 * below 64 MB, in each variant of the kernels, and so do the parts that one query's keys are split into. Programs are
 * compiled, not run.
 *
 * Without a device: skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/ops.h"
#include "tessera/runtime.h"

enum { KEYS = 8192, HEADS = 8, SIZE = 64, MOST_BYTES = 64 << 20 };

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

static tsr_program *build(int64_t batch, int64_t queries, int32_t causal)
{
  tsr_program *p;
  check(tsr_program_create(&p));
  tsr_ref lse;
  const tsr_attention_args args = {
      .q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(batch, queries, HEADS, SIZE)),
      .k = tsr_input(p, "k", TSR_F32, TSR_SHAPE(batch, KEYS, HEADS, SIZE)),
      .v = tsr_input(p, "v", TSR_F32, TSR_SHAPE(batch, KEYS, HEADS, SIZE)),
      .masking = {.causal = causal},
      .alpha = 0.125f,
      .lse = &lse,
  };
  (void)tsr_output(p, "y", tsr_attention(p, &args));
  (void)tsr_output(p, "lse", lse);
  check(tsr_program_status(p));
  return p;
}

/* Bytes that the device took beside the operands. */
static int64_t bytes_beside(tsr_device *device, int64_t batch, int64_t queries, int32_t causal)
{
  tsr_program *program = build(batch, queries, causal);
  tsr_device_counters before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
  tsr_executable *executable;
  check(tsr_device_get_counters(device, &before));
  check(tsr_executable_create(device, program, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1},
                              &executable));
  check(tsr_device_get_counters(device, &after));
  tsr_executable_destroy(executable);
  tsr_program_destroy(program);
  const int64_t operands = 4 * batch * HEADS * (2 * queries * SIZE + 2 * (int64_t)KEYS * SIZE + queries);
  return (int64_t)(after.bytes_in_use - before.bytes_in_use) - operands;
}

static void measure(tsr_device *device, const char *variant)
{
  static const struct {
    int64_t batch, queries;
    int32_t causal;
  } shapes[] = {{1, KEYS, 0}, {1, KEYS, 1}, {4, 1, 0}, {1, 16, 0}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const int64_t bytes = bytes_beside(device, shapes[i].batch, shapes[i].queries, shapes[i].causal);
    print_message("%s, %s, %lld x %lld queries: %.2f MB\n", tsr_device_name(device), variant,
                  (long long)shapes[i].batch, (long long)shapes[i].queries, (double)bytes * 1e-6);
    if (bytes >= MOST_BYTES) {
      fail_msg("%s, %s: %lld bytes beside the operands of %lld x %lld queries and %d keys", tsr_device_name(device),
               variant, (long long)bytes, (long long)shapes[i].batch, (long long)shapes[i].queries, KEYS);
    }
  }
}

static void test_memory(void **state)
{
  static const char *const kernels[] = {"cpu", "gpu"};
  int32_t n_devices = 0;
  (void)state;
  for (int32_t way = 0; way < 2; way++) {
    tsr_runtime *runtime;
    check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = VULKAN_FOLDER}, &runtime));
    check(tsr_runtime_option(runtime, "VULKAN_KERNELS", kernels[way]));
    n_devices = tsr_runtime_device_count(runtime);
    for (int32_t i = 0; i < n_devices; i++) {
      tsr_device_info info;
      tsr_device *device;
      check(tsr_runtime_device_info(runtime, i, &info));
      check(tsr_device_open(runtime, info.name, &device));
      measure(device, kernels[way]);
      for (int32_t variant = 1; way == 0 && variant <= tsr_device_variant_count(device); variant++) {
        const char *name = tsr_device_variant_name(device, variant);
        if (strncmp(name, "attention.", strlen("attention.")) == 0) {
          check(tsr_device_force_variant(device, variant));
          measure(device, name);
        }
      }
      tsr_device_close(device);
    }
    tsr_runtime_destroy(runtime);
  }
  if (n_devices == 0) {
    skip();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
