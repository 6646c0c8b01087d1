/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/check/check.h"
#include "tools/tessera/check/session.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"

/* What to type to run this case again on this device. */
static void print_again(const check_session *s, const check_subject *device, const check_case *test)
{
  printf("  again: tessera check --devices %s --seed %lld --case '%s'", device->name, (long long)s->request.seed,
         test->name);
  if (check_is_drawn(s, test)) {
    printf(" --random %lld --random-seed %lld", (long long)s->request.random, (long long)s->request.random_seed);
  }
  printf(device->variant > 0 ? " --variant %s\n" : "\n",
         tsr_device_variant_name(device->device.device, device->variant));
}

int check_report(check_session *s, const check_subject *device, const check_case *test, const check_result *result,
                 int excused)
{
  static const char *const verdicts[] = {"passed", "FAILED", "unsupported"};
  json_t *line;

  if ((result->verdict == CHECK_PASSED || excused) && (!s->request.verbose || s->request.mode == MODE_PERF)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_progress_clear(&s->progress);
  if (s->request.as_json) {
    line = json_pack("{s:s, s:s, s:s?, s:s, s:I, s:o, s:o, s:I, s:o}", "case", test->name, "device", device->name,
                     "variant", tsr_device_variant_name(device->device.device, device->variant), "result",
                     result->verdict == CHECK_FAILED ? "failed" : verdicts[result->verdict], "seed",
                     (json_int_t)s->request.seed, "error_of_bound", tsr_cli_json_real(result->worst), "nmse",
                     tsr_cli_json_real(result->nmse), "without_bound", (json_int_t)result->free, "message",
                     tsr_cli_json_text(result->message, strlen(result->message)));
    return tsr_cli_json_print(line, 0);
  }
  if (result->verdict == CHECK_PASSED) {
    printf("passed %s %s: error %.3f of the bound, nmse %.2g, %lld elements without a bound\n", device->name,
           test->name, result->worst, result->nmse, (long long)result->free);
  } else {
    printf("%s %s %s\n  %s\n", verdicts[result->verdict], device->name, test->name, result->message);
  }
  if (result->verdict == CHECK_FAILED) {
    print_again(s, device, test);
  }
  return TSR_EXIT_OK;
}

/* Items not seen, as one line each. Returns how many. */
static int32_t print_missing(const check_coverage *coverage, const char *what)
{
  int32_t missing = 0;

  for (int32_t i = 0; i < coverage->count; i++) {
    if (!coverage->item[i].seen && !coverage->item[i].excepted) {
      printf("%s: %s\n", what, coverage->item[i].name);
      missing++;
    }
  }
  return missing;
}

/* Exceptions that a device executed: says which. Returns how many. */
static int32_t count_stale(const check_subject *device)
{
  int32_t stale = 0;

  for (int32_t i = 0; i < device->coverage.count; i++) {
    if (device->coverage.item[i].excepted && device->coverage.item[i].seen) {
      tsr_cli_error("check: %s executes %s: take it out of --except", device->name, device->coverage.item[i].name);
      stale++;
    }
  }
  return stale;
}

/* 1 if a device is to execute the item: a share of the cases has what each device is to execute. */
static int is_wanted(const check_session *s, int32_t item)
{
  int wanted = 0;

  for (int32_t i = 0; i < s->n_subjects; i++) {
    wanted |= !s->subjects[i].coverage.item[item].excepted;
  }
  return wanted;
}

static int print_errors(const check_session *s)
{
  tsr_cli_table table;

  tsr_cli_table_init(&table, 5, 0x1c);
  tsr_cli_table_cell(&table, "device");
  tsr_cli_table_cell(&table, "operator");
  tsr_cli_table_cell(&table, "error / bound");
  tsr_cli_table_cell(&table, "nmse");
  tsr_cli_table_cell(&table, "elements without a bound");
  for (int32_t i = 0; i < s->n_subjects; i++) {
    for (int32_t op = 0; op < TSR_OP_COUNT; op++) {
      if (!s->subjects[i].executed[op]) {
        continue;
      }
      tsr_cli_table_cell(&table, "%s", s->subjects[i].name);
      tsr_cli_table_cell(&table, "%s", op ? tsr_op_describe(op)->name : "(programs)");
      tsr_cli_table_cell(&table, "%.4f", s->subjects[i].worst[op]);
      tsr_cli_table_cell(&table, "%.2g", s->subjects[i].nmse[op]);
      tsr_cli_table_cell(&table, "%lld", (long long)s->subjects[i].free_elements[op]);
    }
  }
  int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

/* How many cases each variant that --variant asks for was forced in. */
static void print_variants(const check_session *s, const check_subject *device)
{
  for (int32_t variant = 1; variant <= tsr_device_variant_count(device->device.device); variant++) {
    if (check_wants_variant(s->request.variant, device->device.device, variant)) {
      printf("%s: %s %d cases%s\n", device->name, tsr_device_variant_name(device->device.device, variant),
             (int)device->taken[variant],
             device->taken[variant] ? "" : ": the device cannot, or no case selected has its shape");
    }
  }
}

/* Of each operator that was executed; that of whole programs is called "programs". NULL: no memory. */
static json_t *operators_json(const check_subject *device)
{
  json_t *operators = json_object();

  for (int32_t op = 0; op < TSR_OP_COUNT; op++) {
    if (device->executed[op]) {
      json_object_set_new(operators, op ? tsr_op_describe(op)->name : "programs",
                          json_pack("{s:i, s:i, s:o, s:s?, s:o, s:I}", "cases", (int)device->executed[op], "failed",
                                    (int)device->wrong[op], "error_of_bound", tsr_cli_json_real(device->worst[op]),
                                    "worst_case", device->worst_case[op], "nmse", tsr_cli_json_real(device->nmse[op]),
                                    "without_bound", (json_int_t)device->free_elements[op]));
    }
  }
  return operators;
}

/* One device's part of the last line. */
static json_t *subject_json(const check_session *s, const check_subject *device)
{
  json_t *variants = json_object();

  for (int32_t variant = 1; variant <= tsr_device_variant_count(device->device.device); variant++) {
    if (s->request.variant && check_wants_variant(s->request.variant, device->device.device, variant)) {
      json_object_set_new(variants, tsr_device_variant_name(device->device.device, variant),
                          json_integer(device->taken[variant]));
    }
  }
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:o, s:o}", "device", device->name, "cases", (int)device->cases,
                   "drawn", (int)device->drawn, "failed", (int)device->failed, "unsupported", (int)device->unsupported,
                   "coverage", check_coverage_fraction(&device->coverage), "operators", operators_json(device),
                   "variants", variants);
}

/* The last lines, and the exit code. */
int check_summarise(check_session *s)
{
  int32_t cases = 0, failed = 0, unsupported = 0, holes = 0, uncovered = 0;
  double coverage = 1.0;
  json_t *devices = json_array();
  int code = TSR_EXIT_OK;

  tsr_cli_progress_clear(&s->progress);
  if (s->request.verbose && !s->request.as_json && s->request.mode != MODE_PERF && s->request.mode != MODE_SUPPORT) {
    code = print_errors(s);
  }
  for (int32_t i = 0; i < s->n_subjects; i++) {
    check_subject *device = &s->subjects[i];
    double fraction = check_coverage_fraction(&device->coverage);
    coverage = fmin(coverage, fraction);
    cases += device->cases;
    failed += device->failed;
    unsupported += device->unsupported;
    if (s->request.mode == MODE_COVERAGE) {
      uncovered += device->unexcused + count_stale(device) + (fraction < 1.0);
    }
    if (s->request.variant && !s->request.as_json) {
      print_variants(s, device);
    }
    if (s->request.as_json) {
      json_array_append_new(devices, subject_json(s, device));
      continue;
    }
    if (s->request.mode == MODE_SUPPORT || s->request.mode == MODE_COVERAGE) {
      char what[128];
      snprintf(what, sizeof(what), "%s on %s", s->request.mode == MODE_SUPPORT ? "not supported" : "not executed",
               device->name);
      print_missing(&device->coverage, what);
    }
    if (s->request.mode == MODE_SUPPORT) {
      printf("%s: %d cases, %d supported, %d not; coverage %.1f %% of %d items\n", device->name, (int)device->cases,
             (int)(device->cases - device->unsupported), (int)device->unsupported, 100.0 * fraction,
             (int)device->coverage.count);
      continue;
    }
    printf("%s: %d cases, %d passed, %d failed, %d unsupported; coverage %.1f %% of %d items\n", device->name,
           (int)device->cases, (int)(device->cases - device->failed - device->unsupported), (int)device->failed,
           (int)device->unsupported, 100.0 * fraction, (int)device->coverage.count);
  }
  /* an operator without a case is a hole in the table, whatever the device; seen only when all cases are selected */
  const int complete = !s->request.only && s->request.mode != MODE_PERF && s->rounds.not_reached == 0;
  for (int32_t i = 0; i < s->offered.count && complete; i++) {
    if (!s->offered.item[i].seen && is_wanted(s, i)) {
      tsr_cli_error("check: no case for %s; add one to tests/conformance", s->offered.item[i].name);
      holes++;
    }
  }
  if (s->rounds.not_reached > 0 && !s->request.as_json) {
    printf("%d cases were not reached in %g minutes\n", (int)s->rounds.not_reached, s->request.minutes);
  }
  if (s->request.as_json && !code) {
    code = tsr_cli_json_print(json_pack("{s:i, s:i, s:i, s:f, s:i, s:O}", "cases", (int)cases, "failed", (int)failed,
                                        "unsupported", (int)unsupported, "coverage", coverage, "not_reached",
                                        (int)s->rounds.not_reached, "devices", devices),
                              JSON_COMPACT | JSON_REAL_PRECISION(6));
  }
  json_decref(devices);
  if (!code && (failed || holes || uncovered)) {
    code = TSR_EXIT_MISMATCH;
  }
  return code;
}
