/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fused.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/random/random.h"

void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

float *random_floats(int64_t n, uint64_t seed)
{
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < n; i++) {
    values[i] = (float)tsr_random_real(&seed);
  }
  return values;
}

int64_t elements_of(const tsr_program *program, tsr_ref x)
{
  const tsr_shape shape = tsr_ref_shape(program, x);
  return tsr_shape_elements(&shape);
}

void run_fused(tsr_device *device, const fused_run *run, float **results, int32_t *fused)
{
  enum { MAX_LINES = 64 };
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .strict = 1, .keep_all = run->keep_all,
                                       .profile = 1};
  const int32_t n_lines = tsr_program_line_count(run->program);
  uint64_t nanoseconds[MAX_LINES];
  tsr_executable *executable;
  assert_in_range(n_lines, 1, MAX_LINES);
  check(tsr_executable_create(device, run->program, &options, &executable));
  run->write(executable, run->user);
  check(tsr_executable_run(executable));
  check(tsr_executable_run(executable));
  *fused = tsr_executable_profile(executable, nanoseconds, n_lines) == TSR_OK ? 0 : -1;
  for (int32_t i = 0; i < n_lines && *fused >= 0; i++) {
    *fused += nanoseconds[i] == 0;
  }
  for (int32_t i = 0; i < run->n_outputs; i++) {
    const int64_t n = elements_of(run->program, run->outputs[i]);
    results[i] = random_floats(n, 7);
    check(tsr_executable_read(executable, run->outputs[i], results[i], n * (int64_t)sizeof(float)));
  }
  tsr_executable_destroy(executable);
}

static void make_strange(float *row, int64_t n, int64_t which)
{
  static const float specials[] = {NAN, INFINITY, -INFINITY, 1e25f, 1e38f, -1e38f};
  if (which % 9 < 6) {
    row[which % n] = specials[which % 9];
  } else {
    for (int64_t i = 0; i < n; i++) {
      row[i] *= which % 9 == 6 ? 0.0f : which % 9 == 7 ? 1e-35f : 1e15f;
    }
  }
}

void fill(data kind, const extents *s, float *a, float *b, float *bias)
{
  const int64_t K = s->depth;
  for (int64_t m = 0; m < s->rows; m++) {
    if (kind == STRANGE) {
      make_strange(a + m * K, K, m);
    } else if (kind == OUTLIERS) {
      a[m * K + m % K] *= 400.0f;
    } else if (kind == SMALL) {
      for (int64_t k = 0; k < K; k++) {
        a[m * K + k] *= 1e-25f;
      }
    }
  }
  for (int64_t n = 0; n < s->columns; n++) {
    float *column = b + n * K;
    if (kind == TIES) {
      memcpy(column, b + n % 7 * K, (size_t)K * sizeof *column);
    } else if (kind == STRANGE_B && n % 50 == 3) {
      make_strange(column, K, n / 50);
    }
    for (int64_t k = 0; k < K; k++) {
      column[k] = kind == ALIKE ? b[k] + 1e-4f * column[k] : kind == WHOLE ? rintf(3.0f * column[k]) : column[k];
      column[k] *= kind == SMALL_B ? powf(10.0f, (float)(-14 - n % 12)) : 1.0f;
    }
    bias[n] = kind == ALL_EXCLUDED || (kind == SUPPRESSED && n % 64 != 9)         ? -INFINITY
              : kind == WHOLE || kind == TIES || kind == SMALL || kind == SMALL_B ? 0.0f
                                                                                  : bias[n];
  }
  for (int64_t i = 0; kind == WHOLE && i < s->rows * K; i++) {
    a[i] = rintf(3.0f * a[i]);
  }
}

static int is_same(float a, float b)
{
  return (isnan(a) && isnan(b)) || a == b;
}

void check_found(const char *device, const extents *s, data kind, tsr_dtype dtype, int32_t logs, found fused,
                 found one_by_one)
{
  for (int64_t i = 0; i < (int64_t)s->rows * s->k; i++) {
    /* The logarithm's sum is taken in another order. */
    const float x = fused.values[i], y = one_by_one.values[i];
    const int close = is_same(x, y) || (logs && fabsf(x - y) <= 4e-6f * (1.0f + fabsf(y)));
    /* Where logits part by less than that, either may come first. */
    if (!close || (fused.indices[i] != one_by_one.indices[i] && !logs)) {
      fail_msg("%s: %d x %d x %d, k %d, data %d, %s, row %lld, place %lld: %.9g at %d, one by one %.9g at %d", device,
               (int)s->rows, (int)s->columns, (int)s->depth, (int)s->k, (int)kind, tsr_dtype_name(dtype),
               (long long)(i / s->k), (long long)(i % s->k), (double)x, (int)fused.indices[i], (double)y,
               (int)one_by_one.indices[i]);
    }
  }
  free(fused.values);
  free(fused.indices);
  free(one_by_one.values);
  free(one_by_one.indices);
}
