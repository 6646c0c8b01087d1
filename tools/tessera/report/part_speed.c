/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a device is: from the start of the program, in single operators, in a base model, in a training step; and
 * what `tessera tune` makes of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/report/report.h"
#include "tools/tessera/report/scrub.h"

enum { NUMBER = 32, WHAT = 64 };

/* Of the operators' time: the case that is measured last may take long. */
static const double for_cases = 0.9;

static const char *const precisions[] = {"f32", "f16", "bf16", "int8", "int4"};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* ---- start-up and memory ----------------------------------------------------------------------------------------- */

void report_start(report_run *run, json_t *results)
{
  const report_files *files = run->files;
  char line[REPORT_PATH];
  report_words start = {0}, whole = {0};
  json_t *values, *told;
  size_t i;
  if (!files->model[0] || !files->source[0]) {
    report_leave_out(run, "a model and a text are needed: --model FOLDER and --source FILE name them");
    return;
  }
  if (report_files_cut(files, files->source, "sentence.txt", 1, line) != 1) {
    report_note_error(run, "the text", "it has no line, or cannot be read");
    return;
  }
  report_words_add(&start, "bench", "start", "--model", files->model, "--device", run->device, "--repeat", "1",
                   "--json", line, NULL);
  values = report_step(run, "start-up", &start, NULL);
  json_array_foreach(values, i, told)
  {
    json_object_set(told, "milliseconds", json_object_get(json_object_get(told, "first_token_ms"), "median"));
    report_keep(results, "rows", told, "cache", "milliseconds", NULL);
  }
  json_decref(values);
  report_words_add(&whole, "bench", "translate", "--model", files->model, "--device", run->device, "--repeat", "1",
                   "--beam", "1", "--json", line, NULL);
  values = report_step(run, "memory", &whole, NULL);
  told = json_array_get(values, 0);
  if (report_number(told, "peak_memory") > 0.0) { /* not every system tells of a process that has ended */
    json_object_set(results, "peak_memory", json_object_get(told, "peak_memory"));
  }
  json_decref(values);
}

/* ---- tuning ------------------------------------------------------------------------------------------------------ */

/* Of a class, the time of its lines in the variant that is best, as a part of what the rules choose. */
static double best_of_rules(const json_t *row)
{
  double by_rules = report_number(row, "by_rules");
  double best = report_number(json_object_get(row, "nanoseconds"), report_text(row, "best"));
  return json_is_true(json_object_get(row, "kept")) && by_rules > 0.0 ? best / by_rules : 1.0;
}

/* The seconds that it took; 0: it did not come to its end. */
static double tune(report_run *run, json_t *results, const char *precision, const char *batch)
{
  report_words words = {0};
  double seconds = 0.0;
  char what[NUMBER];
  size_t i;
  json_t *row;
  snprintf(what, sizeof what, "%s, batch %s", precision, batch);
  report_words_add(&words, "tune", run->files->model, "--device", run->device, "--precision", precision, "--batch",
                   batch, "--runs", "3", "--json", NULL);
  json_t *values = report_step(run, what, &words, &seconds);
  json_array_foreach(values, i, row)
  {
    json_object_set_new(row, "precision", json_string(precision));
    json_object_set_new(row, "best_of_rules", json_real(best_of_rules(row)));
    report_keep(results, "rows", row, "precision", "operator", "class", "usual", "best", "kept", "best_of_rules", NULL);
  }
  seconds = json_array_size(values) > 0 ? seconds : 0.0;
  json_decref(values);
  return seconds;
}

void report_tuning(report_run *run, json_t *results)
{
  static const char *const tuned[] = {"f16", "f32", "int8"}, *const batches[] = {"1", "32"};
  enum { TUNED = sizeof tuned / sizeof tuned[0], SLOWER = 4 /* the larger batch, about */ };
  double before[TUNED] = {0};
  if (json_array_size(json_object_get(run->about, "forms")) == 0) {
    report_leave_out(run, "the device has one form of each kernel");
    return;
  }
  if (!run->files->model[0]) {
    report_leave_out(run, "no model is at hand: --model FOLDER names one");
    return;
  }
  for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
    for (size_t p = 0; p < TUNED; p++) {
      char what[NUMBER];
      snprintf(what, sizeof what, "%s, batch %s", tuned[p], batches[b]);
      if (b > 0 && (before[p] == 0.0 || SLOWER * before[p] > report_left(run))) {
        report_note_cut(run, what);
      } else {
        before[p] = tune(run, results, tuned[p], batches[b]);
      }
    }
  }
}

/* 0 for what a CPU executes. */
static int is_real_gpu(const report_run *run)
{
  const char *type = report_text(run->about, "type");
  return strcmp(type, "discrete GPU") == 0 || strcmp(type, "integrated GPU") == 0 || strcmp(type, "virtual GPU") == 0;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

void report_operators(report_run *run, json_t *results)
{
  char minutes[NUMBER];
  const double left = for_cases * report_left(run) / 60.0;
  report_words words = {0};
  size_t i;
  json_t *row;
  snprintf(minutes, sizeof minutes, "%.4f", left > 0.001 ? left : 0.001);
  report_words_add(&words, "bench", "ops", "--device", run->device, "--precision", "f32,f16,int8,int4", "--repeat", "3",
                   "--minutes", minutes, "--json", is_real_gpu(run) ? "--large" : NULL, NULL);
  json_t *values = report_step(run, "some of the operators", &words, NULL);
  json_array_foreach(values, i, row)
  {
    const char *op = report_text(row, "op");
    if (json_object_get(row, "not_measured")) {
      json_object_set(results, "not_measured", json_object_get(row, "not_measured"));
      report_worsen(run, REPORT_INCOMPLETE);
    } else if (!json_is_true(json_object_get(row, "supported"))) {
      report_keep(results, "unsupported_cases", row, "op", "shape", "precision", NULL);
    } else if (strcmp(op, "large copy") == 0) {
      json_object_set(results, "copy_bytes_per_second",
                      json_object_get(json_object_get(row, "bytes_per_second"), "median"));
    } else if (strcmp(op, "large product") == 0) {
      json_object_set(row, "flops_per_second", json_object_get(json_object_get(row, "flops_per_second"), "median"));
      report_keep(results, "products", row, "precision", "flops_per_second", "form", NULL);
    } else {
      report_keep(results, "rows", row, "op", "shape", "precision", "form", "of_product", "of_copy", "gflops",
                  "gb_per_second", NULL);
    }
  }
  json_decref(values);
}

/* ---- the base model ---------------------------------------------------------------------------------------------- */

typedef struct load {
  const char *batch, *beam;
} load;

static char *name_load(const load *l, const char *precision, char *what)
{
  const int is_greedy = strcmp(l->beam, "1") == 0;
  snprintf(what, WHAT, "%s, batch %s%s%s", precision, l->batch, is_greedy ? "" : ", beam ", is_greedy ? "" : l->beam);
  return what;
}

/* The seconds that it took; 0: nothing was measured. */
static double measure_model(report_run *run, json_t *results, const char *precision, const load *l)
{
  char what[WHAT];
  report_words words = {0};
  double seconds = 0.0;
  report_words_add(&words, "bench", "--transformer-base", "--device", run->device, "--precision", precision, "--batch",
                   l->batch, "--beam", l->beam, "--repeat", "3", "--json", NULL);
  json_t *values = report_step(run, name_load(l, precision, what), &words, &seconds);
  json_t *told = json_array_get(values, 0);
  if (told) {
    json_object_set(told, "tokens_per_second", json_object_get(json_object_get(told, "tokens_per_second"), "median"));
    json_object_set(told, "encode_ms", json_object_get(json_object_get(told, "encode_ms"), "median"));
    json_object_set(told, "step_ms", json_object_get(json_object_get(told, "step_ms"), "median"));
    report_keep(results, "rows", told, "precision", "batch", "beam", "source", "target", "tokens_per_second",
                "encode_ms", "step_ms", "peak_memory", NULL);
  }
  json_decref(values);
  return told ? seconds : 0.0;
}

/* Batch by batch, so that each precision is there where the time ends; and nothing that would take longer than what is
 * left, by what the first took. */
void report_speed(report_run *run, json_t *results)
{
  static const load loads[] = {{"1", "1"}, {"8", "1"}, {"32", "1"}, {"1", "4"}, {"32", "4"}, {"256", "1"}};
  double first[PRECISIONS] = {0};
  for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
    double rows = strtod(loads[i].batch, NULL) * strtod(loads[i].beam, NULL);
    for (size_t p = 0; p < PRECISIONS; p++) {
      char what[WHAT];
      if (i > 0 && (first[p] == 0.0 || first[p] * sqrt(rows) > report_left(run))) {
        report_note_cut(run, name_load(&loads[i], precisions[p], what));
        continue;
      }
      double seconds = measure_model(run, results, precisions[p], &loads[i]);
      first[p] = i == 0 ? seconds : first[p];
    }
  }
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static double measure_training(report_run *run, json_t *results, const char *precision, const char *batch)
{
  char what[NUMBER];
  report_words words = {0};
  double seconds = 0.0;
  snprintf(what, sizeof what, "%s, batch %s", precision, batch);
  report_words_add(&words, "bench", "train", "--device", run->device, "--precision", precision, "--batch", batch,
                   "--warm", "1", "--repeat", "2", "--json", NULL);
  json_t *values = report_step(run, what, &words, &seconds), *told = json_array_get(values, 0);
  if (told) {
    json_object_set(told, "step_ms", json_object_get(json_object_get(told, "step_ms"), "median"));
    report_keep(results, "rows", told, "precision", "batch", "source", "target", "step_ms", "tokens_per_second", "loss",
                "peak_memory", "state_bytes", "planned_bytes", NULL);
  }
  json_decref(values);
  return told ? seconds : 0.0;
}

void report_training(report_run *run, json_t *results)
{
  static const char *const batches[] = {"4", "100"}, *const types[] = {"f32", "f16", "bf16"};
  double before[sizeof types / sizeof types[0]] = {0};
  for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
    for (size_t p = 0; p < sizeof types / sizeof types[0]; p++) {
      char what[NUMBER];
      snprintf(what, sizeof what, "%s, batch %s", types[p], batches[b]);
      if (b > 0 && (before[p] == 0.0 || 10.0 * before[p] > report_left(run))) {
        report_note_cut(run, what);
      } else {
        before[p] = measure_training(run, results, types[p], batches[b]);
      }
    }
  }
}
