/* SPDX-License-Identifier: Apache-2.0
 *
 * How much work a submit may have: what is learnt of fast and slow devices, and how dispatches are divided.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/vulkan/backend.h"

enum { GIB = 1 << 30 };

/* A device that does `rate` operations a second, with some microseconds for each submit, and so much memory of its own,
 * as programs meet it: how long the longest of the submits took, and the last. */
static void meet(double rate, uint64_t memory, double *longest, double *last)
{
  const tsr_vk_caps caps = {0};
  tsr_vk_pace pace;
  tsr_vk_pace_init(&pace, &caps, memory, -1);
  *longest = 0;
  for (int i = 0; i < 30; i++) {
    const double work = pace.bound; /* a long program fills its submits */
    *last = 20e-6 + work / rate;
    *longest = *last > *longest ? *last : *longest;
    tsr_vk_pace_learn(&pace, work, *last);
  }
}

static void test_learns(void **state)
{
  (void)state;
  for (double rate = 2e10; rate < 2e13; rate *= 3) {
    double longest, last;
    meet(rate, 0, &longest, &last);
    assert_true(longest <= 1.1); /* the first, on the slowest */
    assert_true(last < 0.35);
    assert_true(last > 0.2);
  }
  double longest, last;
  meet(1e15, 0, &longest, &last); /* no submit need be larger than largest */
  assert_true(last < 0.05);
}

/* A large card begins with as much as a product of 4096 x 4096 x 4096 takes, and a small one, and what shares the CPU's
 * memory, with little. */
static void test_begins(void **state)
{
  (void)state;
  static const struct {
    uint64_t gib;
    int32_t unified;
    double rate, least, most; /* of the card at its worst; seconds of its first submit */
  } rows[] = {{2, 0, 5e10, 0.1, 1}, {8, 0, 3e11, 0.1, 1}, {80, 0, 3e12, 0.1, 1}, {64, 1, 5e10, 0.1, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const tsr_vk_caps caps = {.unified = rows[i].unified};
    tsr_vk_pace pace;
    tsr_vk_pace_init(&pace, &caps, rows[i].gib * GIB, -1);
    assert_in_range((uint64_t)(pace.bound / rows[i].rate * 1000), (uint64_t)(rows[i].least * 1000),
                    (uint64_t)(rows[i].most * 1000));
  }
  const tsr_vk_caps card = {0};
  const tsr_vk_dispatch product = {.groups = {1024, 1, 1}, .work = 2.0 * 4096 * 4096 * 4096};
  tsr_vk_pace pace;
  int axis;
  tsr_vk_pace_init(&pace, &card, 8 * (uint64_t)GIB, -1);
  assert_int_equal(tsr_vk_pace_parts(&pace, &product, &axis), 1);
  tsr_vk_pace_init(&pace, &card, 2 * (uint64_t)GIB, -1);
  assert_int_equal(tsr_vk_pace_parts(&pace, &product, &axis), 4);
}

/* Small submits tell nothing of the pace, and nonsense neither. */
static void test_ignores(void **state)
{
  (void)state;
  const tsr_vk_caps caps = {0}, cpu = {.compute_like_cpu = 1};
  tsr_vk_pace pace;
  tsr_vk_pace_init(&pace, &caps, GIB, -1);
  const double bound = pace.bound;
  tsr_vk_pace_learn(&pace, 1e6, 5e-4);
  tsr_vk_pace_learn(&pace, 0, 1);
  tsr_vk_pace_learn(&pace, 1e9, 0);
  assert_true(pace.bound == bound);
  tsr_vk_pace_learn(&pace, 1e9, 1000); /* a laptop that slept */
  assert_true(pace.bound >= 1e8);
  tsr_vk_pace_init(&pace, &caps, GIB, 5e9);
  tsr_vk_pace_learn(&pace, 5e9, 30);
  assert_true(pace.bound == 5e9); /* the user's */
  tsr_vk_pace_init(&pace, &cpu, 64 * (uint64_t)GIB, -1);
  tsr_vk_pace_learn(&pace, 5e9, 30);
  assert_true(pace.bound == 0);
}

static void test_parts(void **state)
{
  (void)state;
  const tsr_vk_pace pace = {.bound = 1000}, none = {0};
  static const struct {
    uint32_t groups[3];
    double work;
    int axis;
    uint32_t parts;
  } rows[] = {
      {{7, 1, 1}, 1000, 0, 1},     {{7, 1, 1}, 1001, 0, 2},         {{7, 1, 1}, 1e9, 0, 7},
      {{65535, 3, 1}, 2500, 1, 3}, {{65535, 65535, 9}, 5500, 2, 6}, {{65535, 1, 1}, 1e12, 0, 256},
      {{1, 40, 1}, 39999, 1, 40},  {{1, 1, 1}, 1e9, 0, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_vk_dispatch dispatch = {.work = rows[i].work};
    for (int axis = 0; axis < 3; axis++) {
      dispatch.groups[axis] = rows[i].groups[axis];
    }
    int axis;
    assert_int_equal(tsr_vk_pace_parts(&pace, &dispatch, &axis), rows[i].parts);
    assert_int_equal(axis, rows[i].axis);
    assert_int_equal(tsr_vk_pace_parts(&none, &dispatch, &axis), 1);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_begins), cmocka_unit_test(test_learns),
                                     cmocka_unit_test(test_ignores), cmocka_unit_test(test_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
