/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rates against numbers worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tessera/training_run.h"

static void assert_near(double found, double expected)
{
  double error = found > expected ? found - expected : expected - found;
  if (error > 1e-12) {
    fail_msg("expected %.15g, found %.15g", expected, found);
  }
}

static void noam_rises_and_falls_as_the_root(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_NOAM, .peak = 0.01, .warmup = 100, .floor = 0.002};
  assert_near(tsr_schedule_rate(&s, 1, 0), 0.0001);
  assert_near(tsr_schedule_rate(&s, 50, 0), 0.005);
  assert_near(tsr_schedule_rate(&s, 100, 0), 0.01);
  assert_near(tsr_schedule_rate(&s, 400, 0), 0.005);   /* a quarter's root */
  assert_near(tsr_schedule_rate(&s, 10000, 0), 0.002); /* 0.001 is below the floor */
}

/* factor * d_model^-0.5 * min(t^-0.5, t * w^-1.5), as the paper writes it. */
static void noam_is_the_papers(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_NOAM, .peak = tsr_schedule_paper_peak(2.0, 256, 400), .warmup = 400};
  assert_near(s.peak, 2.0 / 16.0 / 20.0);
  assert_near(tsr_schedule_rate(&s, 4, 0), 2.0 / 16.0 * 4.0 / 8000.0);
  assert_near(tsr_schedule_rate(&s, 1600, 0), 2.0 / 16.0 / 40.0);
}

static void linear_falls_in_a_line(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_LINEAR, .peak = 0.01, .warmup = 20, .floor = 0.002};
  assert_near(tsr_schedule_rate(&s, 10, 0.0), 0.005);
  assert_near(tsr_schedule_rate(&s, 20, tsr_schedule_decayed(&s, 20, 120)), 0.01);
  assert_near(tsr_schedule_rate(&s, 45, tsr_schedule_decayed(&s, 45, 120)), 0.008); /* a quarter of the way */
  assert_near(tsr_schedule_rate(&s, 120, tsr_schedule_decayed(&s, 120, 120)), 0.002);
  assert_near(tsr_schedule_rate(&s, 200, tsr_schedule_decayed(&s, 200, 120)), 0.002);
}

static void cosine_falls_along_a_cosine(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_COSINE, .peak = 0.01, .warmup = 0, .floor = 0.002};
  assert_near(tsr_schedule_rate(&s, 1, 0.0), 0.01);
  assert_near(tsr_schedule_rate(&s, 5, 0.5), 0.006);
  assert_near(tsr_schedule_rate(&s, 5, 1.0 / 3.0), 0.008); /* (1 + cos 60 degrees) / 2 is three quarters */
  assert_near(tsr_schedule_rate(&s, 9, 1.0), 0.002);
  assert_near(tsr_schedule_rate(&s, 9, 1.5), 0.002);
}

static void constant_stays(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_CONSTANT, .peak = 0.01, .warmup = 4};
  assert_near(tsr_schedule_rate(&s, 1, 0), 0.0025);
  assert_near(tsr_schedule_rate(&s, 4, 0), 0.01);
  assert_near(tsr_schedule_rate(&s, 4000, 1.0), 0.01);
}

/* The end of the warm-up may be beyond the end of the training. */
static void decay_stays_within_its_bounds(void **state)
{
  (void)state;
  const tsr_schedule s = {.kind = TSR_SCHEDULE_LINEAR, .peak = 0.01, .warmup = 100};
  assert_near(tsr_schedule_decayed(&s, 1, 50), 0.0);
  assert_near(tsr_schedule_decayed(&s, 100, 50), 0.0);
  assert_near(tsr_schedule_decayed(&s, 101, 50), 1.0);
}

static void names_and_bounds_are_checked(void **state)
{
  (void)state;
  int32_t kind = 0;
  assert_int_equal(tsr_schedule_find("cosine", &kind), TSR_OK);
  assert_int_equal(kind, TSR_SCHEDULE_COSINE);
  assert_int_equal(tsr_schedule_find("cosinus", &kind), TSR_ERR_ARGUMENT);
  tsr_schedule s = {.kind = TSR_SCHEDULE_LINEAR, .peak = 0.01, .warmup = 4, .floor = 0.01};
  assert_int_equal(tsr_schedule_check(&s), TSR_OK);
  s.floor = 0.02;
  assert_int_equal(tsr_schedule_check(&s), TSR_ERR_ARGUMENT);
  s.floor = 0.0;
  s.peak = -1.0;
  assert_int_equal(tsr_schedule_check(&s), TSR_ERR_ARGUMENT);
  s.peak = 1.0;
  s.warmup = -1;
  assert_int_equal(tsr_schedule_check(&s), TSR_ERR_ARGUMENT);
  s.warmup = 0;
  s.kind = 0;
  assert_int_equal(tsr_schedule_check(&s), TSR_ERR_ARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(noam_rises_and_falls_as_the_root),
      cmocka_unit_test(noam_is_the_papers),
      cmocka_unit_test(linear_falls_in_a_line),
      cmocka_unit_test(cosine_falls_along_a_cosine),
      cmocka_unit_test(constant_stays),
      cmocka_unit_test(decay_stays_within_its_bounds),
      cmocka_unit_test(names_and_bounds_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
