/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite on a device: as the device chooses its kernels, and with every form of them forced in turn.
 */
#include <math.h>
#include <string.h>

#include "tools/tessera/report/report.h"
#include "tools/tessera/report/scrub.h"

enum { FAILURES = 20, NUMBER = 32, NAME = 64 }; /* failures that are told one by one */

/* Of the part's time: opening the device and the first compilation come before, the last case may take long. */
static const double for_cases = 0.85;
static const double for_last_case = 3.0; /* seconds */

static void keep_failure(json_t *results, const json_t *line, const report_run *run)
{
  char again[512];
  const char *variant = report_text(line, "variant");
  json_t *told = json_pack("{s:O, s:o}", "case", json_object_get(line, "case"), "message",
                           report_scrub_json(report_text(line, "message")));
  json_object_set(told, "error_of_bound", json_object_get(line, "error_of_bound"));
  json_object_set(told, "variant", json_object_get(line, "variant"));
  snprintf(again, sizeof again, "tessera check --devices %s --seed %lld --case '%s'%s%s", run->device,
           (long long)run->request->seed, report_text(line, "case"), variant[0] ? " --variant " : "", variant);
  json_object_set_new(told, "again", json_string(again));
  report_keep(results, "failures", told, "case", "variant", "error_of_bound", "message", "again", NULL);
  json_decref(told);
}

/* The largest error of all operators, and how many forms were forced. */
static void summarise(json_t *results)
{
  const char *name;
  json_t *value;
  double most = 0.0;
  int forced = 0;
  json_object_foreach(json_object_get(results, "operators"), name, value)
  {
    most = fmax(most, report_number(value, "error_of_bound"));
  }
  json_object_foreach(json_object_get(results, "variants"), name, value)
  {
    forced += json_integer_value(value) > 0;
  }
  json_object_set_new(results, "largest_error", json_real(most));
  json_object_set_new(results, "forms", json_integer(forced));
}

static void count(json_t *object, const char *name, int n)
{
  json_object_set_new(object, name, json_integer(json_integer_value(json_object_get(object, name)) + n));
}

/* The object of that name within another, made if it is not there. */
static json_t *inner_object(json_t *object, const char *name)
{
  if (!json_object_get(object, name)) {
    json_object_set_new(object, name, json_object());
  }
  return json_object_get(object, name);
}

/* Adds a case that the device executed to its operator. */
static void add_case(json_t *results, const json_t *line, int failed)
{
  char name[NAME];
  const char *whole = report_text(line, "case");
  snprintf(name, sizeof name, "%.*s", (int)strcspn(whole, "("), whole);
  json_t *row = inner_object(inner_object(results, "operators"), name);
  count(row, "cases", 1);
  count(row, "failed", failed);
  if (!json_object_get(row, "error_of_bound") ||
      report_number(line, "error_of_bound") > report_number(row, "error_of_bound")) {
    json_object_set(row, "error_of_bound", json_object_get(line, "error_of_bound"));
    json_object_set(row, "worst_case", json_object_get(line, "case"));
  }
}

/* Those that no case was forced in, too. */
static void list_forms(json_t *results, const json_t *device)
{
  size_t i;
  json_t *form, *variants = json_object_get(results, "variants");
  json_array_foreach(json_object_get(device, "forms"), i, form)
  {
    if (json_object_size(variants) > 0 && !json_object_get(variants, json_string_value(form))) {
      json_object_set_new(variants, json_string_value(form), json_integer(0));
    }
  }
}

/* What the lines of a run that did not come to its end tell: the same numbers, as far as they are known. */
static void add_up(json_t *results, const json_t *lines)
{
  size_t i;
  json_t *line;
  json_array_foreach(lines, i, line)
  {
    const char *result = report_text(line, "result"), *variant = report_text(line, "variant");
    const int failed = strcmp(result, "failed") == 0, unsupported = strcmp(result, "unsupported") == 0;
    count(results, "cases", 1);
    count(results, "failed", failed);
    count(results, "unsupported", unsupported);
    if (!unsupported) {
      add_case(results, line, failed);
    }
    if (variant[0]) {
      count(inner_object(results, "variants"), variant, 1);
    }
  }
}

/* Keeps what the last line tells of the device, and the first of the cases that failed. */
static void keep_results(report_run *run, json_t *results, const json_t *lines)
{
  const json_t *last = json_array_get(lines, json_array_size(lines) - 1);
  const json_t *mine = json_array_get(json_object_get(last, "devices"), 0);
  size_t i;
  json_t *line;
  json_array_foreach(lines, i, line)
  {
    if (strcmp(report_text(line, "result"), "failed") == 0 &&
        json_array_size(json_object_get(results, "failures")) < FAILURES) {
      keep_failure(results, line, run);
    }
  }
  if (json_array_size(lines) == 0) {
    return;
  }
  if (mine) {
    json_object_update(results, (json_t *)mine);
    json_object_set(results, "not_reached", json_object_get(last, "not_reached"));
  } else {
    add_up(results, lines);
  }
  json_object_del(results, "device");
  list_forms(results, run->about);
  summarise(results);
  if (report_number(last, "not_reached") > 0) {
    report_worsen(run, REPORT_INCOMPLETE);
  }
  if (report_number(results, "failed") > 0) {
    report_worsen(run, REPORT_FAILED);
  }
}

static void check(report_run *run, json_t *results, const char *variant)
{
  char minutes[NUMBER], seed[NUMBER];
  double left = for_cases * report_left(run) / 60.0;
  report_words words = {0};
  snprintf(minutes, sizeof minutes, "%.4f", left > 0.001 ? left : 0.001);
  snprintf(seed, sizeof seed, "%lld", (long long)run->request->seed);
  report_words_add(&words, "check", "--devices", run->device, "--json", "--verbose", "--minutes", minutes, "--seed",
                   seed, "--random", variant ? "2" : "20", NULL);
  if (variant) {
    report_words_add(&words, "--variant", variant, NULL);
  }
  if (run->request->ops) {
    report_words_add(&words, "--ops", run->request->ops, NULL);
    json_object_set_new(results, "ops", json_string(run->request->ops));
  }
  json_object_set_new(results, "seed", json_integer(run->request->seed));
  run->grace = for_last_case;
  json_t *lines = report_step(run, "the rest of the conformance suite", &words, NULL);
  keep_results(run, results, lines);
  json_decref(lines);
}

void report_conformance(report_run *run, json_t *results)
{
  check(run, results, NULL);
}

void report_forms(report_run *run, json_t *results)
{
  if (json_array_size(json_object_get(run->about, "forms")) == 0) {
    report_leave_out(run, "the device has one form of each kernel");
    return;
  }
  check(run, results, "all");
}
