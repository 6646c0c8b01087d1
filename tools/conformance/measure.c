/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a case takes.
 */
#include <stdlib.h>
#include <time.h>

#include "tools/conformance/runner.h"

#define WARM_UPS    3
#define MAX_REPEATS 101
/* That the repeats of one case may take together, and its warm-ups; at least one of each is made. */
#define SECONDS 0.5

static double now(void)
{
  struct timespec time;

  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* The median of the seconds of one run. */
static tsr_status time_runs(tsr_executable *executable, check_time *result)
{
  double seconds[MAX_REPEATS], begin = now();
  tsr_status status = TSR_OK;
  int32_t i;

  for (i = 0; i < MAX_REPEATS && !status && (i < 1 || now() - begin < SECONDS); i++) {
    double start = now();
    status = tsr_executable_run(executable);
    seconds[i] = now() - start;
  }
  result->repeats = i;
  qsort(seconds, (size_t)i, sizeof(seconds[0]), compare_doubles);
  result->seconds = seconds[i / 2];
  return status;
}

/* The sum over the lines of one profiled run; stays 0 where the device has no profile. */
static tsr_status profile_run(const check_build *build, const check_contents *contents, check_device *device,
                              check_time *result)
{
  int32_t n = tsr_program_line_count(build->program);
  uint64_t *nanoseconds;
  check_execution execution;
  tsr_status status = check_execution_init(&execution, build, contents, device, 0, 1);

  if (status) {
    return status;
  }
  nanoseconds = calloc((size_t)n + 1, sizeof(*nanoseconds));
  status = nanoseconds ? check_execution_start(&execution, build, contents, 0)
                       : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for a profile of %d lines", (int)n);
  for (int32_t i = 0; i < (result->seconds < SECONDS ? 2 : 1) && !status; i++) { /* once to warm up */
    status = tsr_executable_run(execution.executable);
  }
  if (!status && tsr_executable_profile(execution.executable, nanoseconds, n) == TSR_OK) {
    for (int32_t i = 0; i < n; i++) {
      result->device += 1e-9 * (double)nanoseconds[i];
    }
  }
  free(nanoseconds);
  check_execution_finish(&execution);
  return status;
}

double check_program_cost(const tsr_program *program)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  double cost = 0.0;

  for (int32_t line = 0; line < tsr_program_line_count(program); line++) {
    cost += tsr_line_flops(desc, line) + tsr_line_bytes(desc, line);
  }
  return cost;
}

tsr_status check_measure(const check_case *test, uint64_t seed, check_device *device, check_time *result)
{
  check_build build;
  check_contents contents = {0};
  check_execution execution;
  tsr_status status = check_build_program(test, &build);

  *result = (check_time){0};
  if (status) {
    return status;
  }
  for (int32_t i = 0; i < tsr_program_line_count(build.program); i++) {
    const tsr_program_desc *program = tsr_program_describe(build.program);
    result->flops += tsr_line_flops(program, i);
    result->bytes += tsr_line_bytes(program, i);
  }
  if (!status) {
    status = check_contents_init(&contents, &build, seed, 0);
  }
  if (!status) {
    status = check_execution_init(&execution, &build, &contents, device, 0, 0);
  }
  if (!status) {
    status = check_execution_start(&execution, &build, &contents, 0);
    double begin = now();
    for (int32_t i = 0; i < WARM_UPS && !status && (i < 1 || now() - begin < SECONDS); i++) {
      status = tsr_executable_run(execution.executable);
    }
    if (!status) {
      status = time_runs(execution.executable, result);
    }
    check_execution_finish(&execution);
  }
  if (!status) {
    status = profile_run(&build, &contents, device, result);
  }
  if (contents.bytes) {
    check_contents_finish(&contents);
  }
  tsr_program_destroy(build.program);
  return status;
}
