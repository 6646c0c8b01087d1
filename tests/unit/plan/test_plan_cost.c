/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model: kernels whose times can be told by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tools/tessera/plan/cost.h"

#define CLOSE(found, expected) assert_true(fabs((found) - (expected)) <= 1e-9 * fabs(expected) + 1e-18)

enum { N_STORAGES = 8 };

/* Tensor i lies in storage i. */
static const int32_t storages[N_STORAGES] = {0, 1, 2, 3, 4, 5, 6, 7};
static const plan_places places = {storages, N_STORAGES, N_STORAGES, 1000};

static const plan_figures figures = {
    .memory_bandwidth = 1e9,
    .l2_bandwidth = 1e10,
    .l2_bytes = 2e5,
    .rate = {1e9, 1e12, 1e12, 1e13, 1e12, 1e13},
    .stage_seconds = 1e-5,
    .dispatch_seconds = 1e-6,
    .submit_seconds = 1e-4,
    .processors = 10,
};

static double cost(const plan_figures *f, const tsr_plan_kernel *kernels, int32_t n, plan_cost *costs)
{
  const tsr_plan_kernel *list[4] = {NULL};
  double scratch[N_STORAGES + 1];
  for (int32_t i = 0; i < n; i++) {
    list[i] = &kernels[i];
  }
  return plan_costs(f, &places, list, n, costs, scratch);
}

static void test_bound_by_memory(void **state)
{
  (void)state;
  const tsr_kernel_access read = {.tensor = 1, .bytes = 1e7}; /* fifty times the cache */
  const tsr_plan_kernel kernel = {
      .waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &read, .operations = 1e6};
  plan_cost found;
  CLOSE(cost(&figures, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-2);
  assert_int_equal(found.bound, PLAN_MEMORY);
  CLOSE(found.memory, 1e7);
}

/* What fits into the cache is found there by the second run. */
static void test_bound_by_l2(void **state)
{
  (void)state;
  const tsr_kernel_access read = {.tensor = 1, .bytes = 1.6e5};
  const tsr_plan_kernel kernel = {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &read};
  plan_cost found;
  CLOSE(cost(&figures, &kernel, 1, &found), 1e-4 + 1e-5 + 1.6e-5);
  assert_int_equal(found.bound, PLAN_L2);
  CLOSE(found.memory, 0.0);

  /* Read many times over, by tiles. */
  tsr_plan_kernel tiled = kernel;
  tiled.loads = 1e8;
  CLOSE(cost(&figures, &tiled, 1, &found), 1e-4 + 1e-5 + 1e-2);
  assert_int_equal(found.bound, PLAN_L2);

  /* Unless much else was touched between. */
  const tsr_kernel_access other = {.tensor = 2, .bytes = 1e7};
  const tsr_plan_kernel two[] = {kernel, {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &other}};
  plan_cost both[2];
  (void)cost(&figures, two, 2, both);
  CLOSE(both[0].memory, 1.6e5);
  CLOSE(both[1].memory, 1e7);
}

/* Of what is somewhat larger than the cache a part is found there. */
static void test_part_in_cache(void **state)
{
  (void)state;
  double before = 0;
  for (double times = 1.02; times < 4; times *= 1.2) {
    const tsr_kernel_access read = {.tensor = 1, .bytes = times * figures.l2_bytes / 4};
    const tsr_kernel_access other = {.tensor = 2, .bytes = times * figures.l2_bytes * 3 / 4};
    const tsr_plan_kernel two[] = {{.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &read},
                                   {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &other}};
    plan_cost both[2];
    (void)cost(&figures, two, 2, both);
    const double missing = both[0].memory / read.bytes;
    CLOSE(both[1].memory, missing * other.bytes);
    CLOSE(1 - missing, exp(-missing * times));
    assert_true(missing > before);
    before = missing;
  }
  assert_true(before > 0.9);
}

static void test_writes(void **state)
{
  (void)state;
  const tsr_kernel_access write = {.tensor = 1, .is_written = 1, .bytes = 1.6e5};
  const tsr_plan_kernel kernel = {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &write};
  plan_places large = places;
  large.arena = 1e7;
  const tsr_plan_kernel *list[] = {&kernel};
  double scratch[N_STORAGES + 1];
  plan_cost found;
  (void)plan_costs(&figures, &places, list, 1, &found, scratch);
  CLOSE(found.memory, 0.0);
  (void)plan_costs(&figures, &large, list, 1, &found, scratch);
  CLOSE(found.memory, 1.6e5);
}

static void test_bound_by_operations(void **state)
{
  (void)state;
  const tsr_plan_kernel kernel = {.waits = 1, .rate = TSR_RATE_F32, .groups = 20, .operations = 1e10};
  plan_cost found;
  CLOSE(cost(&figures, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-2);
  assert_int_equal(found.bound, PLAN_OPERATIONS);

  /* The last round of workgroups is half empty: 15 of 20 places. */
  tsr_plan_kernel uneven = kernel;
  uneven.groups = 15;
  CLOSE(cost(&figures, &uneven, 1, &found), 1e-4 + 1e-5 + 1e-2 / 0.75);

  tsr_plan_kernel cooperative = kernel;
  cooperative.rate = TSR_RATE_COOPERATIVE_F16;
  CLOSE(cost(&figures, &cooperative, 1, &found), 1e-4 + 1e-5 + 1e-3);
}

/* Few rows: the first fetches the weights. */
static void test_few_rows(void **state)
{
  (void)state;
  tsr_plan_kernel kernel = {.waits = 1, .rate = TSR_RATE_F32, .rows = 1, .operations = 1e10};
  plan_figures slow = figures;
  slow.one_row[TSR_RATE_F32] = 1e11;
  plan_cost found;
  CLOSE(cost(&slow, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-1);
  kernel.rows = 10;
  CLOSE(cost(&slow, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-2 + 9e-3);
  kernel.rows = 0;
  CLOSE(cost(&slow, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-2);
}

static void test_too_few_workgroups(void **state)
{
  (void)state;
  const tsr_plan_kernel kernel = {.waits = 1, .rate = TSR_RATE_F32, .groups = 1, .operations = 1e10};
  plan_cost found;
  CLOSE(cost(&figures, &kernel, 1, &found), 1e-4 + 1e-5 + 1e-1);
  assert_int_equal(found.bound, PLAN_GROUPS);

  /* One workgroup reads at a tenth of the cache's rate, which here is that of the memory. */
  const tsr_kernel_access read = {.tensor = 1, .bytes = 1e7};
  const tsr_plan_kernel reading = {.waits = 1, .rate = TSR_RATE_F32, .groups = 1, .n_accesses = 1, .accesses = &read};
  CLOSE(cost(&figures, &reading, 1, &found), 1e-4 + 1e-5 + 1e-2);
}

static void test_bound_by_stages(void **state)
{
  (void)state;
  const tsr_plan_kernel kernels[] = {{.waits = 1, .operations = 1000}, {.waits = 1}, {.waits = 0}};
  plan_cost found[3];
  CLOSE(cost(&figures, kernels, 3, found), 1e-4 + 1e-6 + 2e-5 + 1e-6);
  assert_int_equal(found[0].bound, PLAN_STAGES);
  CLOSE(found[1].seconds, 1e-5);
  CLOSE(found[2].seconds, 1e-6);
}

/* Kernels of one stage share the device: one reads while the other computes. */
static void test_overlap(void **state)
{
  (void)state;
  const tsr_kernel_access read = {.tensor = 1, .bytes = 1e7};
  const tsr_plan_kernel kernels[] = {
      {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &read},
      {.waits = 0, .rate = TSR_RATE_F32, .operations = 5e9},
  };
  plan_cost found[2];
  CLOSE(cost(&figures, kernels, 2, found), 1e-4 + 1e-5 + 1e-6 + 1e-2);
  CLOSE(found[0].seconds - 1e-5, 1e-2 * 2 / 3);
  plan_figures cpu = figures;
  cpu.one_by_one = 1;
  CLOSE(cost(&cpu, kernels, 2, found), 1e-4 + 1e-5 + 1e-6 + 1.5e-2);
  CLOSE(found[1].seconds - 1e-6, 5e-3);
}

/* A CPU fetches a line before it writes there, unless it has just read it; and it packs before it multiplies. */
static void test_cpu(void **state)
{
  (void)state;
  const tsr_kernel_access write = {.tensor = 1, .is_written = 1, .bytes = 1e7};
  const tsr_kernel_access in_place[] = {{.tensor = 1, .bytes = 1e7}, write};
  const tsr_plan_kernel fresh = {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 1, .accesses = &write};
  const tsr_plan_kernel update = {.waits = 1, .rate = TSR_RATE_F32, .n_accesses = 2, .accesses = in_place};
  tsr_plan_kernel product = fresh;
  plan_figures cpu = figures;
  plan_cost found;
  CLOSE(cost(&cpu, &fresh, 1, &found), 1e-4 + 1e-5 + 1e-2);
  cpu.one_by_one = 1;
  CLOSE(cost(&cpu, &fresh, 1, &found), 1e-4 + 1e-5 + 2e-2);
  CLOSE(cost(&cpu, &update, 1, &found), 1e-4 + 1e-5 + 2e-2);
  product.rows = 1000;
  product.operations = 5e9;
  CLOSE(cost(&cpu, &product, 1, &found), 1e-4 + 1e-5 + 2e-2 + 5e-3);
  assert_int_equal(found.bound, PLAN_MEMORY);
  cpu.one_row[TSR_RATE_F32] = 2.5e8; /* which fetch 5e8 bytes a second */
  CLOSE(cost(&cpu, &product, 1, &found), 1e-4 + 1e-5 + 4e-2 + 5e-3);
  product.rows = 0;
  CLOSE(cost(&cpu, &product, 1, &found), 1e-4 + 1e-5 + 2e-2);
}

static void test_nothing(void **state)
{
  (void)state;
  CLOSE(cost(&figures, NULL, 0, NULL), 1e-4);
  for (int32_t i = 0; i < PLAN_BOUNDS; i++) {
    assert_true(plan_bound_name(i)[0] != '?');
  }
  assert_string_equal(plan_bound_name(PLAN_BOUNDS), "?");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bound_by_memory),
      cmocka_unit_test(test_bound_by_l2),
      cmocka_unit_test(test_part_in_cache),
      cmocka_unit_test(test_writes),
      cmocka_unit_test(test_bound_by_operations),
      cmocka_unit_test(test_too_few_workgroups),
      cmocka_unit_test(test_bound_by_stages),
      cmocka_unit_test(test_few_rows),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
