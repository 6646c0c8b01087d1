/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of the conformance tests where they decide between something and nothing: which of topk's indices are
 * held, and what follows from an operand without a bound.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/conformance/conformance.h"

enum { N = 6, K = 4 };

/* The bounds of topk's results for what x holds. */
static void bound(const float *x, double *error, const int32_t *ranked, double *values, double *indices)
{
  tsr_program *program = NULL;
  tsr_ref ranks;
  assert_int_equal(tsr_program_create(&program), TSR_OK);
  tsr_output(program, "values", tsr_topk(program, tsr_input(program, "x", TSR_F32, TSR_SHAPE(N)), K, &ranks));
  tsr_output(program, "indices", ranks);
  assert_int_equal(tsr_program_status(program), TSR_OK);
  const tsr_program_desc *desc = tsr_program_describe(program);
  const tsr_line_desc *line = tsr_line_at(desc, 0);
  check_storage *storage = calloc((size_t)desc->n_storages, sizeof *storage);
  assert_non_null(storage);
  float kept[N], best[K];
  int32_t places[K];
  for (int32_t i = 0; i < N; i++) {
    kept[i] = x[i];
  }
  for (int32_t i = 0; i < K; i++) {
    places[i] = ranked[i];
    best[i] = x[ranked[i]];
  }
  const int32_t in = tsr_tensor_at(desc, line->in[0])->storage;
  const int32_t out[] = {tsr_tensor_at(desc, line->out[0])->storage, tsr_tensor_at(desc, line->out[1])->storage};
  storage[in] = (check_storage){.dtype = TSR_F32, .count = N, .bytes = kept, .value = kept, .error = error};
  storage[out[0]] = (check_storage){.dtype = TSR_F32, .count = K, .bytes = best, .value = best};
  storage[out[1]] = (check_storage){.dtype = TSR_I32, .count = K, .bytes = places};
  check_values all = {desc, storage};
  assert_int_equal(check_bound_line(&all, 0), TSR_OK);
  for (int32_t i = 0; i < K; i++) {
    values[i] = storage[out[0]].error[i];
    indices[i] = storage[out[1]].error[i];
  }
  free(storage[out[0]].error);
  free(storage[out[1]].error);
  free(storage);
  tsr_program_destroy(program);
}

static void hold(const double *found, const double *expected)
{
  for (int32_t i = 0; i < K; i++) {
    assert_true(found[i] == expected[i]);
  }
}

static void test_topk(void **state)
{
  (void)state;
  double values[K], indices[K];

  /* the first two may change places; the others may not */
  bound((const float[]){4.9f, 1.0f, 5.0f, 3.0f, -2.0f, 2.0f}, (double[]){0.2, 0.0, 0.0, 0.01, 0.0, 0.02},
        (const int32_t[]){2, 0, 3, 5}, values, indices);
  hold(indices, (const double[]){INFINITY, INFINITY, 0.0, 0.0});
  hold(values, (const double[]){0.2, 0.2, 0.01, 0.02});

  /* equals that carry nothing keep their order; the last one's rival is not among the best */
  bound((const float[]){7.0f, 7.0f, 5.0f, 2.0f, 2.1f, 5.0f}, (double[]){0.0, 0.0, 0.0, 0.2, 0.0, 0.0},
        (const int32_t[]){0, 1, 2, 5}, values, indices);
  hold(indices, (const double[]){0.0, 0.0, 0.0, 0.0});
  bound((const float[]){7.0f, 7.0f, 5.0f, 2.0f, 2.1f, -5.0f}, (double[]){0.0, 0.0, 0.0, 0.2, 0.0, 0.0},
        (const int32_t[]){0, 1, 2, 4}, values, indices);
  hold(indices, (const double[]){0.0, 0.0, 0.0, INFINITY});

  /* NaN and infinities come as they are; an element of which nothing is known may come before them */
  bound((const float[]){NAN, INFINITY, 1.0f, 0.5f, -INFINITY, 0.0f}, (double[]){0.0, 0.0, 0.25, 0.125, 0.0, 0.0},
        (const int32_t[]){0, 1, 2, 3}, values, indices);
  hold(indices, (const double[]){0.0, 0.0, 0.0, 0.0});
  bound((const float[]){NAN, INFINITY, 1.0f, 0.5f, -INFINITY, 0.0f}, (double[]){0.0, 0.0, INFINITY, 0.0, 0.0, 0.0},
        (const int32_t[]){0, 1, 2, 3}, values, indices);
  hold(indices, (const double[]){INFINITY, INFINITY, INFINITY, INFINITY});
}

/* y = gain (x - mean) / deviation, of a row of which one element may be anything: so may all of y be. */
static void test_open_operand(void **state)
{
  (void)state;
  tsr_program *program = NULL;
  assert_int_equal(tsr_program_create(&program), TSR_OK);
  tsr_ref x = tsr_input(program, "x", TSR_F32, TSR_SHAPE(N)), gain = tsr_input(program, "gain", TSR_F32, TSR_SHAPE(N));
  tsr_output(program, "y", tsr_layernorm(program, x, gain, TSR_NONE, 1e-5f));
  assert_int_equal(tsr_program_status(program), TSR_OK);
  const tsr_program_desc *desc = tsr_program_describe(program);
  const tsr_line_desc *line = tsr_line_at(desc, 0);
  check_storage *storage = calloc((size_t)desc->n_storages, sizeof *storage);
  assert_non_null(storage);
  float elements[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, gains[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}, y[N] = {0};
  double error[N] = {0.0, INFINITY};
  const int32_t out = tsr_tensor_at(desc, line->out[0])->storage;
  storage[tsr_tensor_at(desc, x)->storage] =
      (check_storage){.dtype = TSR_F32, .count = N, .bytes = elements, .value = elements, .error = error};
  storage[tsr_tensor_at(desc, gain)->storage] =
      (check_storage){.dtype = TSR_F32, .count = N, .bytes = gains, .value = gains};
  storage[out] = (check_storage){.dtype = TSR_F32, .count = N, .bytes = y, .value = y};
  check_values all = {desc, storage};
  assert_int_equal(check_bound_line(&all, 0), TSR_OK);
  for (int32_t i = 0; i < N; i++) {
    assert_true(storage[out].error[i] == INFINITY);
  }
  free(storage[out].error);
  free(storage);
  tsr_program_destroy(program);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_topk), cmocka_unit_test(test_open_operand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
