/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera report: all about Tessera on this machine's devices, as one page and one JSON file.
 */
#include <stdlib.h>
#include <string.h>

#include "tessera/files.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/report/report.h"

static int write_json(const json_t *report, const char *path)
{
  char *text = json_dumps(report, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
  size_t size = text ? strlen(text) : 0;
  if (!text) {
    return tsr_cli_no_memory();
  }
  text[size] = '\n'; /* in place of its end, which a file does not need */
  int code = tsr_cli_fail(tsr_file_replace(path, text, size + 1));
  free(text);
  return code;
}

/* The page's name with another ending, allocated. */
static char *json_beside(const char *page)
{
  static const char ending[] = ".json";
  size_t length = strlen(page);
  const char *dot = strrchr(page, '.');
  length = dot && !strchr(dot, '/') ? (size_t)(dot - page) : length;
  char *path = malloc(length + sizeof ending);
  if (path) {
    memcpy(path, page, length);
    memcpy(path + length, ending, sizeof ending);
  }
  return path;
}

static int write_both(const report_request *request, const json_t *report)
{
  char *beside = request->json ? NULL : json_beside(request->out);
  const char *json = request->json ? request->json : beside;
  int code = json ? write_json(report, json) : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    code = report_write_page(report, request->out);
  }
  if (code == TSR_EXIT_OK) {
    printf("%s: the page; %s: the numbers\n", request->out, json);
    code = tsr_cli_flush();
  }
  free(beside);
  return code;
}

/* The devices one after the other. What a device's parts showed is the exit code, unless writing failed; it is written
 * in any case. */
static int report_all(const report_request *request, report_files *files)
{
  char now[TSR_DATE_ROOM];
  json_t *report = json_pack("{s:i, s:s, s:s, s:o, s:f}", "format", REPORT_FORMAT, "tessera", TSR_VERSION, "date",
                             tsr_cli_date(now), "system", report_system(), "minutes", request->minutes);
  size_t i;
  json_t *device;
  int worst = TSR_EXIT_OK;
  if (request->note) {
    json_object_set_new(report, "note", tsr_cli_json_text(request->note, strlen(request->note)));
  }
  int code = report_find(request, files, report);
  if (code == TSR_EXIT_OK) {
    json_array_foreach(json_object_get(report, "devices"), i, device)
    {
      int found = report_device_run(request, files, device);
      worst = worst == TSR_EXIT_OK || found == TSR_EXIT_MISMATCH ? found : worst;
    }
    if (json_array_size(json_object_get(report, "devices")) == 0) {
      tsr_cli_error("report: no device was found; the page tells what was tried");
      worst = TSR_EXIT_DEVICE;
    }
    code = write_both(request, report);
  }
  json_decref(report);
  return code == TSR_EXIT_OK ? worst : code;
}

static int run(void *opaque)
{
  const report_request *request = opaque;
  report_files files = {0};
  int code = report_files_find(request, &files);
  if (code == TSR_EXIT_OK) {
    code = report_all(request, &files);
  }
  report_files_finish(&files);
  return code;
}

static int check(void *opaque)
{
  const report_request *request = opaque;
  char *beside = json_beside(request->out);
  const char *json = request->json ? request->json : beside;
  int code = beside ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && strcmp(request->out, json) == 0) {
    code = tsr_cli_usage("report", "%s cannot be both the page and the numbers; --json names another file for these",
                         json);
  } else if (code == TSR_EXIT_OK && !request->source != !request->reference) {
    code = tsr_cli_usage("report", "--source and --reference belong together");
  }
  code = code == TSR_EXIT_OK ? tsr_cli_check_output(request->out) : code;
  code = code == TSR_EXIT_OK ? tsr_cli_check_output(json) : code;
  free(beside);
  return code;
}

#define FIELD(member) TSR_FIELD(report_request, member)

/* By the numbers of report_parts. */
static const tsr_choice parts[] = {
    {"start", "start-up cold and warm, and memory"},
    {"conformance", "every operator against the reference: the table and drawn cases"},
    {"forms", "the same with each form of the kernels"},
    {"models", "recorded models, and a model line by line beside another device"},
    {"bleu", "BLEU by precision"},
    {"tuning", "`tessera tune`, which is kept"},
    {"operators", "operators beside the device's own copy and product"},
    {"speed", "tokens a second of the base model by batch and precision"},
    {"training", "a training step"},
    {NULL},
};
_Static_assert(sizeof parts / sizeof parts[0] == REPORT_PARTS + 1, "a choice for each part");

static const tsr_option rows[] = {
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .repeats = 1,
     .help = "the devices; `all` are all that are found but the reference", .otherwise = "all"},
    {"minutes", "M", TSR_OPTION_NUMBER, FIELD(minutes), 0.001, 10000,
     .help = "time for each device, which its parts share", .preset = "10"},
    {"out", "FILE", TSR_OPTION_FILE, FIELD(out), .help = "the page", .preset = "tessera-report.html"},
    {"json", "FILE", TSR_OPTION_FILE, FIELD(json), .help = "the numbers",
     .otherwise = "beside the page, ending in .json"},
    {"part", "P", TSR_OPTION_SET, FIELD(parts), .choices = parts, .help = "only these parts; may be given again",
     .otherwise = "all"},
    {"ops", "A,B", TSR_OPTION_TEXT, FIELD(ops),
     .help = "of the conformance suite, only the cases of these operators: names or globs", .otherwise = "all"},
    {"no-tuning", NULL, TSR_OPTION_FLAG, FIELD(no_tuning), .low = 1,
     .help = "leave tuning out: what the device takes for its kernels stays as it is"},
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(model), .help = "a model that translates",
     .otherwise = "the demo model, if it is at hand"},
    {"source", "FILE", TSR_OPTION_FILE, FIELD(source), .help = "sentences for the model, one a line",
     .otherwise = "with the demo model, those that lie with it"},
    {"reference", "FILE", TSR_OPTION_FILE, FIELD(reference), .help = "their translations"},
    {"recorded", "FOLDER", TSR_OPTION_FOLDER, FIELD(recorded),
     .help = "a folder of folders with recorded models, as `tessera golden` takes them",
     .otherwise = "those of the source tree, if they are at hand"},
    {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), 1, (double)INT32_MAX, .preset = "1",
     .help = "where the random numbers of the conformance suite start"},
    {"note", "TEXT", TSR_OPTION_TEXT, FIELD(note),
     .help = "a sentence for the page, such as what else the machine did"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_command *const commands[] = {&report_compare, NULL};

const tsr_command tsr_command_report = {
    .name = "report",
    .summary = "tell all about Tessera on this machine's devices, as a page",
    .usage = "[OPTION]...",
    .intro =
        "Finds out how right and how fast Tessera is on each device, in at most --minutes for each, and writes one "
        "HTML "
        "page that needs nothing else, and one JSON file. Each part runs the program's own commands (check, golden, "
        "compare, eval, tune, bench) as processes: one that fails becomes a row in red, and the report goes on. What "
        "there was no time for is told.\n"
        "\n"
        "Neither file has anything personal in it: no name of host or user, no path, no serial number. A --note is "
        "written as it is given.",
    .options = &options,
    .notes = "Exit code: 0; 1 if a result was wrong; 4 if a device failed, or if none was found; the files are written "
             "in these cases, too.",
    .commands = commands,
    .session_size = sizeof(report_request),
    .check = check,
    .run = run,
};
