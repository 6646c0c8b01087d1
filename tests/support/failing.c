/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/failing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "tessera/backend.h"

static tsr_backend table;
static const tsr_backend *reference;
static atomic_int runs_left = FAILING_NEVER;
static atomic_int buffers_left = FAILING_NEVER;

/* 1 while there are any; one less is left then. */
static int take(atomic_int *left)
{
  int n = atomic_load(left);
  while (n > 0 && n != FAILING_NEVER && !atomic_compare_exchange_weak(left, &n, n - 1)) {
  }
  return n > 0;
}

static int32_t run(tsr_backend_executable *executable)
{
  return take(&runs_left) ? reference->run(executable) : TSR_ERR_DEVICE_LOST;
}

static int32_t buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  return take(&buffers_left) ? reference->buffer_create(device, size, usage, buffer) : TSR_ERR_DEVICE_MEMORY;
}

static const tsr_backend *query(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "failing";
  table.run = run;
  table.buffer_create = buffer_create;
  return &table;
}

void register_failing(tsr_runtime *runtime)
{
  assert_int_equal(tsr_runtime_register(runtime, query), TSR_OK);
}

void fail_after_runs(int32_t n)
{
  atomic_store(&runs_left, n);
}

void fail_after_buffers(int32_t n)
{
  atomic_store(&buffers_left, n);
}
