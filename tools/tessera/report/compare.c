/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera report compare: the devices of several reports side by side, a column each.
 */
#include <string.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/report/report.h"

enum { MATCHES = 3, CELL = 160 };

/* A number of a part: a member of its results, or of the row of an array within them that matches. */
typedef struct metric {
  const char *title, *part, *array, *member;
  struct {
    const char *member, *value;
  } match[MATCHES];
  const char *format;
  double factor;
} metric;

#define SPEED(precision_, batch_)                                                                                      \
  {                                                                                                                    \
    .title = "tokens/s " precision_ ", batch " batch_, .part = "speed", .array = "rows",                               \
    .member = "tokens_per_second", .match = {{"precision", precision_}, {"batch", batch_}, {"beam", "1"}},             \
    .format = "%.1f", .factor = 1                                                                                      \
  }

static const metric metrics[] = {
    {"cases", "conformance", NULL, "cases", {{0}}, "%.0f", 1},
    {".. failed", "conformance", NULL, "failed", {{0}}, "%.0f", 1},
    {".. not supported", "conformance", NULL, "unsupported", {{0}}, "%.0f", 1},
    {".. not reached", "conformance", NULL, "not_reached", {{0}}, "%.0f", 1},
    {"largest error / bound", "conformance", NULL, "largest_error", {{0}}, "%.3f", 1},
    {"forms of kernels", "forms", NULL, "forms", {{0}}, "%.0f", 1},
    {".. cases", "forms", NULL, "cases", {{0}}, "%.0f", 1},
    {".. failed", "forms", NULL, "failed", {{0}}, "%.0f", 1},
    {"recorded models", "models", NULL, "recorded", {{0}}, "%.0f", 1},
    {".. that agree", "models", NULL, "agree", {{0}}, "%.0f", 1},
    {"BLEU f32", "bleu", "rows", "bleu", {{"precision", "f32"}}, "%.2f", 1},
    {"BLEU f16", "bleu", "rows", "bleu", {{"precision", "f16"}}, "%.2f", 1},
    {"BLEU bf16", "bleu", "rows", "bleu", {{"precision", "bf16"}}, "%.2f", 1},
    {"BLEU int8", "bleu", "rows", "bleu", {{"precision", "int8"}}, "%.2f", 1},
    {"BLEU int4", "bleu", "rows", "bleu", {{"precision", "int4"}}, "%.2f", 1},
    {".. of sentences", "bleu", NULL, "sentences", {{0}}, "%.0f", 1},
    {"first token ms, cold", "start", "rows", "milliseconds", {{"cache", "cold"}}, "%.0f", 1},
    {"first token ms, warm", "start", "rows", "milliseconds", {{"cache", "warm"}}, "%.0f", 1},
    {"copy GB/s", "operators", NULL, "copy_bytes_per_second", {{0}}, "%.1f", 1e-9},
    {"product f32 GFLOP/s", "operators", "products", "flops_per_second", {{"precision", "f32"}}, "%.1f", 1e-9},
    {"product f16 GFLOP/s", "operators", "products", "flops_per_second", {{"precision", "f16"}}, "%.1f", 1e-9},
    {"product int8 GFLOP/s", "operators", "products", "flops_per_second", {{"precision", "int8"}}, "%.1f", 1e-9},
    {"product int4 GFLOP/s", "operators", "products", "flops_per_second", {{"precision", "int4"}}, "%.1f", 1e-9},
    SPEED("f32", "1"),
    SPEED("f16", "1"),
    SPEED("int8", "1"),
    SPEED("int4", "1"),
    SPEED("f32", "32"),
    SPEED("f16", "32"),
    SPEED("int8", "32"),
    SPEED("int4", "32"),
    {"training tokens/s f32, batch 4",
     "training",
     "rows",
     "tokens_per_second",
     {{"precision", "f32"}, {"batch", "4"}},
     "%.1f",
     1},
    {"training tokens/s f32, batch 100",
     "training",
     "rows",
     "tokens_per_second",
     {{"precision", "f32"}, {"batch", "100"}},
     "%.1f",
     1},
};
enum { METRICS = sizeof metrics / sizeof metrics[0] };

static const char none[] = "-";

static const json_t *part_of(const json_t *device, const char *name)
{
  size_t i;
  json_t *part;
  json_array_foreach(json_object_get(device, "parts"), i, part)
  {
    if (strcmp(report_text(part, "name"), name) == 0) {
      return part;
    }
  }
  return NULL;
}

static int matches(const metric *m, const json_t *row)
{
  for (int i = 0; i < MATCHES && m->match[i].member; i++) {
    const json_t *value = json_object_get(row, m->match[i].member);
    char number[32];
    snprintf(number, sizeof number, "%.0f", json_number_value(value));
    if (strcmp(m->match[i].value, json_is_string(value) ? json_string_value(value) : number) != 0) {
      return 0;
    }
  }
  return 1;
}

static json_t *metric_cell(const metric *m, const json_t *device)
{
  const json_t *results = json_object_get(part_of(device, m->part), "results"), *found = NULL;
  char text[CELL];
  size_t i;
  json_t *row;
  if (!m->array) {
    found = json_object_get(results, m->member);
  }
  json_array_foreach(m->array ? json_object_get(results, m->array) : NULL, i, row)
  {
    found = !found && matches(m, row) ? json_object_get(row, m->member) : found;
  }
  if (!json_is_number(found)) {
    return json_string(none);
  }
  snprintf(text, sizeof text, m->format, m->factor * json_number_value(found));
  return json_string(text);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const char *verdict(const json_t *device)
{
  static const char *const words[REPORT_STATES] = {"right", "right", "right, as far as seen", "error", "WRONG"};
  return words[report_state_of(report_text(device, "state"))];
}

/* What is the same of all devices of a report, from the report's side of a device. */
static json_t *head_cell(int row, const json_t *report, const json_t *device)
{
  char text[CELL];
  switch (row) {
  case 0:
    return json_string(report_text(device, "device"));
  case 1:
    return json_string(report_text(device, "driver"));
  case 2:
    return json_string(verdict(device));
  case 3:
    snprintf(text, sizeof text, "%.10s", report_text(report, "date"));
    return json_string(text);
  case 4:
    snprintf(text, sizeof text, "%g", report_number(report, "minutes"));
    return json_string(text);
  default:
    return json_string(report_text(report, "note")[0] ? report_text(report, "note") : none);
  }
}

static const char *const heads[] = {"device", "driver", "verdict", "date", "minutes at most", "note"};
enum { HEADS = sizeof heads / sizeof heads[0] };

static int says_nothing(const json_t *row)
{
  for (size_t i = 1; i < json_array_size(row); i++) {
    if (strcmp(json_string_value(json_array_get(row, i)), none) != 0) {
      return 0;
    }
  }
  return 1;
}

/* An array of rows, each an array of texts: its title, then a cell for each device. */
static json_t *make_table(const json_t *reports)
{
  json_t *table = json_array();
  for (int i = 0; i < HEADS + METRICS; i++) {
    json_t *row = json_array(), *report, *device;
    size_t r, d;
    json_array_append_new(row, json_string(i < HEADS ? heads[i] : metrics[i - HEADS].title));
    json_array_foreach(reports, r, report)
    {
      json_array_foreach(json_object_get(report, "devices"), d, device)
      {
        json_array_append_new(row, i < HEADS ? head_cell(i, report, device) : metric_cell(&metrics[i - HEADS], device));
      }
    }
    if (!says_nothing(row)) {
      json_array_append(table, row);
    }
    json_decref(row);
  }
  return table;
}

static int print_text(const json_t *table)
{
  tsr_cli_table text;
  size_t i, k;
  json_t *row, *cell;
  int32_t columns = (int32_t)json_array_size(json_array_get(table, 0));
  tsr_cli_table_init(&text, columns, 0);
  json_array_foreach(table, i, row)
  {
    json_array_foreach(row, k, cell)
    {
      tsr_cli_table_cell(&text, "%s", json_string_value(cell));
    }
  }
  int code = tsr_cli_table_print(&text, stdout);
  tsr_cli_table_finish(&text);
  return code;
}

/* '|' ends a cell. */
static void print_markdown_cell(const char *text)
{
  fputs(" ", stdout);
  for (; *text; text++) {
    fputs(*text == '|' ? "\\|" : (const char[]){*text, '\0'}, stdout);
  }
  fputs(" |", stdout);
}

static int print_markdown(const json_t *table)
{
  size_t i, k;
  json_t *row, *cell;
  json_array_foreach(table, i, row)
  {
    fputs("|", stdout);
    json_array_foreach(row, k, cell)
    {
      print_markdown_cell(json_string_value(cell));
    }
    fputs("\n", stdout);
    for (k = 0; i == 0 && k < json_array_size(row); k++) {
      fputs(k == 0 ? "|---|" : "---|", stdout);
    }
    fputs(i == 0 ? "\n" : "", stdout);
  }
  return tsr_cli_flush();
}

typedef struct request {
  tsr_names files;
  const char *out;
  int markdown;
} request;

static int run(void *opaque)
{
  const request *r = opaque;
  json_t *reports = json_array();
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < r->files.n && code == TSR_EXIT_OK; i++) {
    json_t *report = NULL;
    code = report_read(r->files.values[i], &report);
    json_array_append_new(reports, report);
  }
  json_t *table = code == TSR_EXIT_OK ? make_table(reports) : NULL;
  if (code == TSR_EXIT_OK && r->out) {
    code = report_write_comparison(table, r->out);
  } else if (code == TSR_EXIT_OK) {
    code = r->markdown ? print_markdown(table) : print_text(table);
  }
  json_decref(table);
  json_decref(reports);
  return code;
}

static const tsr_option rows[] = {
    {"out", "FILE", TSR_OPTION_FILE, TSR_FIELD(request, out), .help = "write an HTML page instead"},
    {"markdown", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, markdown), .low = 1, .help = "print a table of Markdown"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"REPORT", TSR_OPTION_FILE, offsetof(request, files), .repeats = 1},
    {NULL},
};

const tsr_command report_compare = {
    .name = "compare",
    .parent = "report",
    .usage = "REPORT... [OPTION]...",
    .intro = "Puts the devices of several reports side by side, a column each. REPORT is a JSON file that `tessera "
             "report` wrote. What no report has is left out; a dash stands for what one of them lacks.",
    .options = &options,
    .operands = operands,
    .missing = "a report's JSON file is needed",
    .session_size = sizeof(request),
    .run = run,
};
