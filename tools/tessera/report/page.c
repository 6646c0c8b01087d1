/* SPDX-License-Identifier: Apache-2.0
 *
 * A report as a page: what was found, a verdict for each device, and its parts.
 */
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/pages/html.h"
#include "tools/tessera/report/report.h"

static const char style[] =
#include "tools/tessera/pages/report.css.inc"
    ;

static void put(FILE *out, const char *before, const char *text, const char *after)
{
  fputs(before, out);
  tsr_cli_html_text(out, text);
  fputs(after, out);
}

static const char *state_word(const char *state)
{
  static const char *const words[REPORT_STATES + 1] = {"right", "left out", "incomplete", "error", "WRONG", "unknown"};
  return words[report_state_of(state)];
}

/* The state as a class: of a known one alone. */
static const char *state_class(const char *state)
{
  int number = report_state_of(state);
  return number < REPORT_STATES ? report_states[number] : "unknown";
}

static void put_state(FILE *out, const char *state)
{
  fprintf(out, "<span class='state %s'>%s</span>", state_class(state), state_word(state));
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static void put_system(FILE *out, const json_t *report)
{
  const json_t *system = json_object_get(report, "system");
  fputs("<header><h1>Tessera ", out);
  put(out, "", report_text(report, "tessera"), " on this machine's devices</h1>\n<p>");
  put(out, "", report_text(report, "date"), "; at most ");
  fprintf(out, "%g minutes for each device</p>\n<p>", report_number(report, "minutes"));
  put(out, "", report_text(system, "name"), ", ");
  put(out, "", report_text(system, "kernel"), "</p>\n<p>");
  put(out, "", report_text(system, "processor"), ", ");
  fprintf(out, "%.0f processors, %.1f GiB of memory</p>\n", report_number(system, "processors"),
          report_number(system, "memory") / (1 << 30));
  if (report_text(report, "note")[0]) {
    put(out, "<p><b>", report_text(report, "note"), "</b></p>\n");
  }
  fputs("</header>\n", out);
}

static void put_verdicts(FILE *out, const json_t *devices)
{
  size_t i;
  json_t *device;
  json_array_foreach(devices, i, device)
  {
    const char *state = report_text(device, "state");
    fprintf(out, "<section class='card %s'><h2><a href='#d%d'>", state_class(state), (int)i);
    put(out, "", report_text(device, "name"), "</a>: ");
    put(out, "", report_text(device, "device"), "</h2>\n");
    put(out, "<p class='driver'>", report_text(device, "driver"), "</p>\n<p>");
    put_state(out, state);
    put(out, "<span class='words'>", report_text(device, "words"), "</span></p></section>\n");
  }
  if (json_array_size(devices) == 0) {
    fputs("<section class='card error'><p class='words'>No device was found.</p></section>\n", out);
  }
}

static void put_problems(FILE *out, const json_t *problems)
{
  size_t i;
  json_t *problem;
  if (json_array_size(problems) == 0) {
    fputs("<p>Every backend was loaded, and no driver was refused.</p>\n", out);
    return;
  }
  fputs("<h2>What is not there, and why</h2>\n", out);
  json_array_foreach(problems, i, problem)
  {
    put(out, "<div class='fault'><b>", report_text(problem, "what"), "</b><br>");
    put(out, "", report_text(problem, "message"), "</div>\n");
  }
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

static void put_size(FILE *out, const char *what, double bytes)
{
  if (bytes > 0) {
    fprintf(out, "<tr><th>%s</th><td>%.4g %s</td></tr>\n", what, bytes >= (1 << 20) ? bytes / (1 << 20) : bytes,
            bytes >= (1 << 20) ? "MiB" : "bytes");
  }
}

static void put_properties(FILE *out, const json_t *device)
{
  static const char *const texts[] = {"type", "interface", "backend", "description"};
  size_t i;
  json_t *capability;
  fputs("<details><summary>what it is</summary><table>\n", out);
  for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
    if (report_text(device, texts[k])[0]) {
      fprintf(out, "<tr><th>%s</th><td>", texts[k]);
      put(out, "", report_text(device, texts[k]), "</td></tr>\n");
    }
  }
  put_size(out, "memory", report_number(device, "memory"));
  put_size(out, "largest buffer", report_number(device, "max_buffer_size"));
  put_size(out, "shared memory", report_number(device, "shared_memory"));
  fprintf(out, "<tr><th>invocations</th><td>%.0f</td></tr>\n<tr><th>subgroup size</th><td>%.0f</td></tr>\n",
          report_number(device, "max_invocations"), report_number(device, "subgroup_size"));
  fputs("<tr><th>capabilities</th><td>", out);
  json_array_foreach(json_object_get(device, "capabilities"), i, capability)
  {
    put(out, i > 0 ? ", " : "", json_string_value(capability) ? json_string_value(capability) : "", "");
  }
  fprintf(out, "</td></tr>\n<tr><th>forms of kernels</th><td>%d</td></tr>\n</table></details>\n",
          (int)json_array_size(json_object_get(device, "forms")));
}

static void put_faults(FILE *out, const json_t *part)
{
  size_t i;
  json_t *row;
  json_array_foreach(json_object_get(part, "errors"), i, row)
  {
    put(out, "<div class='fault'><b>", report_text(row, "what"), "</b><br>");
    put(out, "", report_text(row, "message"), "</div>\n");
  }
  if (json_array_size(json_object_get(part, "cut")) > 0) {
    fputs("<p class='quiet'>There was no time for: ", out);
    json_array_foreach(json_object_get(part, "cut"), i, row)
    {
      put(out, i > 0 ? "; " : "", json_string_value(row) ? json_string_value(row) : "", "");
    }
    fputs("</p>\n", out);
  }
}

static void put_device(FILE *out, const json_t *device, int index)
{
  size_t i;
  json_t *part;
  fprintf(out, "<h2 id='d%d'>", index);
  put(out, "", report_text(device, "name"), ": ");
  put(out, "", report_text(device, "device"), "</h2>\n");
  put_properties(out, device);
  json_array_foreach(json_object_get(device, "parts"), i, part)
  {
    const char *state = report_text(part, "state");
    const report_part *known = report_part_of(report_text(part, "name"));
    fprintf(out, "<section class='part %s'><h3>", state_class(state));
    put(out, "", known ? known->title : report_text(part, "name"), "</h3>\n<p class='words'>");
    put_state(out, state);
    put(out, "", report_text(part, "words"), "");
    fprintf(out, " <span class='quiet'>(%.1f s)</span></p>\n", report_number(part, "seconds"));
    put_faults(out, part);
    report_section(out, part);
    fputs("</section>\n", out);
  }
}

int report_write_page(const json_t *report, const char *path)
{
  tsr_cli_page page;
  const json_t *devices = json_object_get(report, "devices");
  size_t i;
  json_t *device;
  int code = tsr_cli_page_open(&page);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_html_begin(page.out, "Tessera: a report", style);
  put_system(page.out, report);
  put_verdicts(page.out, devices);
  put_problems(page.out, json_object_get(report, "problems"));
  json_array_foreach(devices, i, device)
  {
    put_device(page.out, device, (int)i);
  }
  tsr_cli_html_end(page.out);
  return tsr_cli_page_close(&page, path, code);
}

/* ---- several reports --------------------------------------------------------------------------------------------- */

int report_write_comparison(const json_t *table, const char *path)
{
  tsr_cli_page page;
  size_t i, k;
  json_t *row, *cell;
  int code = tsr_cli_page_open(&page);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_html_begin(page.out, "Tessera: reports side by side", style);
  fputs("<header><h1>Tessera: reports side by side</h1></header>\n<div class='scroll'><table>\n", page.out);
  json_array_foreach(table, i, row)
  {
    fputs("<tr>", page.out);
    json_array_foreach(row, k, cell)
    {
      const char *text = json_string_value(cell) ? json_string_value(cell) : "";
      int bad = strcmp(text, "WRONG") == 0 || strcmp(text, "error") == 0;
      put(page.out,
          i == 0 || k == 0 ? "<th>"
          : bad            ? "<td class='bad'>"
                           : "<td>",
          text, i == 0 || k == 0 ? "</th>" : "</td>");
    }
    fputs("</tr>\n", page.out);
  }
  fputs("</table></div>\n", page.out);
  tsr_cli_html_end(page.out);
  return tsr_cli_page_close(&page, path, code);
}
