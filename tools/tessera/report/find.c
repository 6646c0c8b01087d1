/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report begins with: the system, the devices, and why something is not there.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/report/report.h"
#include "tools/tessera/report/scrub.h"

enum { LINE = 512 };

/* ---- the system -------------------------------------------------------------------------------------------------- */

/* What stands behind `key` and its '=' or ':' in the first line of a file that begins so, without quotes, or "". */
static void value_in(const char *path, const char *key, char *value, size_t size)
{
  char line[LINE];
  FILE *file = fopen(path, "r");
  value[0] = '\0';
  while (file && !value[0] && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) == 0) {
      const char *at = line + strlen(key);
      at += strspn(at, " \t:=\"");
      snprintf(value, size, "%.*s", (int)strcspn(at, "\"\n"), at);
    }
  }
  if (file) {
    fclose(file);
  }
}

json_t *report_system(void)
{
  char name[LINE], processor[LINE], kernel[LINE];
  struct utsname system;
  value_in("/etc/os-release", "PRETTY_NAME", name, sizeof name);
  value_in("/proc/cpuinfo", "model name", processor, sizeof processor);
  if (uname(&system) != 0) {
    memset(&system, 0, sizeof system);
  }
  snprintf(kernel, sizeof kernel, "%s %s %s", system.sysname, system.release, system.machine);
  return json_pack("{s:o, s:o, s:o, s:i, s:I}", "name", report_scrub_json(name), "kernel", report_scrub_json(kernel),
                   "processor", report_scrub_json(processor), "processors", (int)sysconf(_SC_NPROCESSORS_ONLN),
                   "memory", (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static json_t *run_devices(report_run *run, const char *how, report_outcome *outcome)
{
  report_words words = {0};
  json_error_t error;
  report_words_add(&words, "devices", how, NULL);
  int code = report_process_run(&words, report_left(run), run->files->work, outcome);
  return code == TSR_EXIT_OK && outcome->out ? json_loadb(outcome->out, outcome->size, JSON_DISABLE_EOF_CHECK, &error)
                                             : NULL;
}

/* Without paths. */
static void keep_problems(json_t *report, const json_t *found)
{
  size_t i;
  json_t *problem, *kept = json_array();
  json_array_foreach(json_object_get(found, "problems"), i, problem)
  {
    json_array_append_new(kept, json_pack("{s:o, s:o, s:s}", "what",
                                          report_scrub_json(tsr_path_name(report_text(problem, "path"))), "message",
                                          report_scrub_json(report_text(problem, "message")), "status",
                                          report_text(problem, "status")));
  }
  json_object_set_new(report, "problems", kept);
}

static void add_problem(json_t *report, const char *what, const report_outcome *outcome)
{
  char message[64];
  snprintf(message, sizeof message, "the process ended with %s %d", outcome->signal ? "signal" : "exit code",
           outcome->signal ? outcome->signal : outcome->code);
  json_array_append_new(json_object_get(report, "problems"),
                        json_pack("{s:s, s:o, s:s}", "what", what, "message",
                                  report_scrub_json(outcome->message[0] ? outcome->message : message), "status",
                                  outcome->timed_out ? "timed out" : "failed"));
}

/* The forms of each device's kernels, "DEVICE FORM" a line. */
static void keep_forms(json_t *devices, char *text)
{
  size_t i;
  json_t *device;
  json_array_foreach(devices, i, device)
  {
    json_object_set_new(device, "forms", json_array());
  }
  for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *form = strchr(line, ' ');
    json_array_foreach(devices, i, device)
    {
      const char *name = report_text(device, "name");
      if (form && strlen(name) == (size_t)(form - line) && strncmp(line, name, strlen(name)) == 0) {
        json_array_append_new(json_object_get(device, "forms"), json_string(form + 1));
      }
    }
  }
}

/* 1 if the command line asks for the device; all but the reference if it names none. "cpu" stands for its first. */
static int is_wanted(const report_request *request, const json_t *device)
{
  const char *name = report_text(device, "name"), *backend = report_text(device, "backend");
  int is_first = strcmp(name + strcspn(name, ":"), ":0") == 0;
  for (int32_t i = 0; i < request->devices.n; i++) {
    const char *wanted = request->devices.values[i];
    if (strcmp(wanted, name) == 0 || (is_first && strcmp(wanted, backend) == 0) ||
        (strcmp(wanted, "all") == 0 && strcmp(backend, "reference") != 0)) {
      return 1;
    }
  }
  return request->devices.n == 0 && strcmp(backend, "reference") != 0;
}

static int is_found(const char *wanted, const json_t *devices)
{
  size_t i;
  json_t *device;
  tsr_names one = {.values = {wanted}, .n = 1};
  const report_request request = {.devices = one};
  json_array_foreach(devices, i, device)
  {
    if (is_wanted(&request, device)) {
      return 1;
    }
  }
  return strcmp(wanted, "all") == 0;
}

static int check_names(const report_request *request, const json_t *devices)
{
  for (int32_t i = 0; i < request->devices.n; i++) {
    if (!is_found(request->devices.values[i], devices)) {
      tsr_cli_error("report: there is no device '%s'; `tessera devices` tells what was found, and why others were not",
                    request->devices.values[i]);
      return TSR_EXIT_DEVICE;
    }
  }
  return TSR_EXIT_OK;
}

/* Where no file of the system has the processor's name, as the backend of CPUs gives it: up to the comma. */
static void keep_processor(json_t *system, const json_t *devices)
{
  size_t i;
  json_t *device;
  json_array_foreach(devices, i, device)
  {
    const char *name = report_text(device, "device");
    if (!report_text(system, "processor")[0] && strcmp(report_text(device, "backend"), "cpu") == 0) {
      json_object_set_new(system, "processor", tsr_cli_json_text(name, strcspn(name, ",")));
    }
  }
}

int report_find(const report_request *request, report_files *files, json_t *report)
{
  report_outcome outcome;
  report_run run = {.request = request, .files = files, .end = tsr_cli_seconds() + 60.0 * request->minutes + 5.0};
  json_t *found = run_devices(&run, "--json", &outcome), *wanted = json_array(), *device;
  json_t *devices = json_object_get(found, "devices");
  size_t i;
  keep_problems(report, found);
  if (outcome.code != TSR_EXIT_OK) {
    add_problem(report, "the list of devices", &outcome);
  }
  report_outcome_finish(&outcome);
  json_decref(run_devices(&run, "--variants", &outcome));
  if (outcome.code != TSR_EXIT_OK && json_array_size(devices) > 0) {
    add_problem(report, "the list of the kernels' forms", &outcome);
  }
  if (outcome.out) {
    keep_forms(devices, outcome.out);
  }
  report_outcome_finish(&outcome);
  json_array_foreach(devices, i, device)
  {
    json_object_del(device, "path");
    if (is_wanted(request, device)) {
      json_array_append(wanted, device);
    }
  }
  files->has_cpu = is_found("cpu", devices);
  keep_processor(json_object_get(report, "system"), devices);
  int code = check_names(request, devices);
  json_object_set_new(report, "devices", wanted);
  json_decref(found);
  return code;
}
