/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a report, and how they share a device's time: each gets its weight of what is left, so that what one
 * does not need is for those behind it.
 */
#include <stdarg.h>
#include <string.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/report/report.h"
#include "tools/tessera/report/scrub.h"

const char *const report_states[REPORT_STATES] = {[REPORT_PASSED] = "passed",
                                                  [REPORT_LEFT_OUT] = "left_out",
                                                  [REPORT_INCOMPLETE] = "incomplete",
                                                  [REPORT_ERROR] = "error",
                                                  [REPORT_FAILED] = "failed"};

/* Tuning comes before what it makes faster. */
const report_part report_parts[REPORT_PARTS + 1] = {
    {"start", "Start-up and memory", 6, report_start},
    {"conformance", "Every operator against the reference", 25, report_conformance},
    {"forms", "Every form of the kernels against the reference", 15, report_forms},
    {"models", "Models against recordings and against another device", 8, report_models},
    {"bleu", "Translations by precision", 8, report_bleu},
    {"tuning", "Tuning", 12, report_tuning},
    {"operators", "Operators beside the device's own copy and product", 10, report_operators},
    {"speed", "Tokens a second of the base model", 10, report_speed},
    {"training", "A training step", 6, report_training},
    {NULL},
};

const report_part *report_part_of(const char *name)
{
  for (const report_part *part = report_parts; part->name; part++) {
    if (strcmp(part->name, name) == 0) {
      return part;
    }
  }
  return NULL;
}

int report_state_of(const char *name)
{
  int state = 0;
  while (state < REPORT_STATES && strcmp(report_states[state], name) != 0) {
    state++;
  }
  return state;
}

double report_number(const json_t *object, const char *name)
{
  return json_number_value(json_object_get(object, name));
}

const char *report_text(const json_t *object, const char *name)
{
  const char *text = json_string_value(json_object_get(object, name));
  return text ? text : "";
}

/* ---- for parts --------------------------------------------------------------------------------------------------- */

double report_left(const report_run *run)
{
  return run->end - tsr_cli_seconds();
}

void report_worsen(report_run *run, int state)
{
  run->state = state > run->state ? state : run->state;
}

void report_note_cut(report_run *run, const char *what)
{
  report_worsen(run, REPORT_INCOMPLETE);
  json_array_append_new(json_object_get(run->part, "cut"), json_string(what));
}

void report_note_error(report_run *run, const char *what, const char *message)
{
  report_worsen(run, REPORT_ERROR);
  json_array_append_new(json_object_get(run->part, "errors"),
                        json_pack("{s:s, s:o}", "what", what, "message", report_scrub_json(message)));
}

void report_leave_out(report_run *run, const char *reason)
{
  report_worsen(run, REPORT_LEFT_OUT);
  json_object_set_new(run->part, "reason", json_string(reason));
}

void report_keep(json_t *results, const char *array, const json_t *object, ...)
{
  va_list names;
  json_t *list = json_object_get(results, array), *kept = json_object();
  if (!list) {
    list = json_array();
    json_object_set_new(results, array, list);
  }
  va_start(names, object);
  for (const char *name; (name = va_arg(names, const char *)) != NULL;) {
    if (json_object_get(object, name)) {
      json_object_set(kept, name, json_object_get(object, name));
    }
  }
  va_end(names);
  json_array_append_new(list, kept);
}

/* All values of a text, one after the other; what is none ends them. */
static json_t *read_values(const char *text, size_t size)
{
  json_t *values = json_array();
  for (size_t at = 0; at < size;) {
    json_error_t error;
    json_t *value = json_loadb(text + at, size - at, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
    if (!value) {
      break;
    }
    json_array_append_new(values, value);
    at += (size_t)error.position;
  }
  return values;
}

json_t *report_step(report_run *run, const char *what, const report_words *words, double *seconds)
{
  report_outcome outcome;
  double left = report_left(run);
  if (left <= 0.0) {
    report_note_cut(run, what);
    return json_array();
  }
  int code = report_process_run(words, left + run->grace, run->files->work, &outcome);
  json_t *values = read_values(outcome.out, outcome.size);
  if (code != TSR_EXIT_OK) {
    report_note_error(run, what, "the process could not be started");
  } else if (outcome.timed_out) {
    report_note_cut(run, what);
  } else if (outcome.signal) {
    char message[64];
    snprintf(message, sizeof message, "the process was ended by signal %d (%s)", outcome.signal,
             strsignal(outcome.signal));
    report_note_error(run, what, message);
  } else if (outcome.code == TSR_EXIT_MISMATCH) {
    report_worsen(run, REPORT_FAILED);
  } else if (outcome.code != TSR_EXIT_OK) {
    report_note_error(run, what, outcome.message[0] ? outcome.message : "the process failed without a message");
  }
  if (seconds) {
    *seconds = outcome.seconds;
  }
  report_outcome_finish(&outcome);
  return values;
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

static int is_wanted(const report_request *request, int part)
{
  int is_tuning = strcmp(report_parts[part].name, "tuning") == 0;
  return (request->parts == 0 || (request->parts >> part & 1u)) && !(is_tuning && request->no_tuning);
}

/* On the terminal. */
static const char *const told[REPORT_STATES] = {"right", "left out", "incomplete", "ERROR", "WRONG"};

static void run_part(report_run *run, const report_part *part, double seconds)
{
  char sentence[REPORT_SENTENCE];
  double start = tsr_cli_seconds();
  json_t *results = json_object();
  run->end = start + seconds;
  run->grace = 0.0;
  run->state = REPORT_PASSED;
  run->part = json_pack("{s:s, s:s, s:f, s:f, s:[], s:[], s:o}", "name", part->name, "state", "", "budget", seconds,
                        "seconds", 0.0, "errors", "cut", "results", results);
  part->run(run, results);
  json_object_set_new(run->part, "state", json_string(report_states[run->state]));
  json_object_set_new(run->part, "seconds", json_real(tsr_cli_seconds() - start));
  json_object_set_new(run->part, "words", json_string(report_words_of_part(run->part, sentence)));
  printf("%-10s %-12s %-10s %s\n", run->device, part->name, told[run->state], sentence);
  tsr_cli_flush();
}

int report_device_run(const report_request *request, const report_files *files, json_t *device)
{
  char sentence[REPORT_SENTENCE];
  report_run run = {.request = request, .files = files, .device = report_text(device, "name"), .about = device};
  double start = tsr_cli_seconds(), end = start + 60.0 * request->minutes, weights = 0.0;
  json_t *parts = json_array();
  int worst = REPORT_PASSED;
  for (int i = 0; i < REPORT_PARTS; i++) {
    weights += is_wanted(request, i) ? report_parts[i].weight : 0.0;
  }
  for (int i = 0; i < REPORT_PARTS; i++) {
    if (is_wanted(request, i)) {
      double left = end - tsr_cli_seconds();
      run_part(&run, &report_parts[i], left > 0.0 ? left * report_parts[i].weight / weights : 0.0);
      weights -= report_parts[i].weight;
      worst = run.state > worst ? run.state : worst;
      json_array_append_new(parts, run.part);
    }
  }
  json_object_set_new(device, "parts", parts);
  json_object_set_new(device, "seconds", json_real(tsr_cli_seconds() - start));
  json_object_set_new(device, "state", json_string(report_states[worst]));
  json_object_set_new(device, "words", json_string(report_words_of_device(device, sentence)));
  printf("%-10s %-12s %-10s %s\n", run.device, "in all", told[worst], sentence);
  return worst == REPORT_FAILED ? TSR_EXIT_MISMATCH : worst == REPORT_ERROR ? TSR_EXIT_DEVICE : TSR_EXIT_OK;
}
