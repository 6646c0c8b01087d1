/* SPDX-License-Identifier: Apache-2.0
 *
 * What the page shows of each part: charts of bars, and tables.
 */
#include <math.h>
#include <string.h>

#include "tools/tessera/pages/html.h"
#include "tools/tessera/report/report.h"

/* How a column of a table writes its values. */
enum { TEXT, YES_OR_NO, NUMBER, PERCENT, MIB, SMALL };

typedef struct column {
  const char *member, *title; /* NULL ends them */
  int kind;
} column;

enum { VALUE = 64, LABEL = 192 };

static void put_text(FILE *out, const char *before, const char *text, const char *after)
{
  fputs(before, out);
  tsr_cli_html_text(out, text);
  fputs(after, out);
}

/* ---- charts and tables ------------------------------------------------------------------------------------------- */

void report_bar(FILE *out, const char *what, const char *value, double share, const char *class)
{
  double width = isfinite(share) ? 100.0 * fmin(fmax(share, 0.0), 1.0) : 0.0;
  put_text(out, "<span class='w'>", what, "</span>");
  put_text(out, "<svg viewBox='0 0 100 8' preserveAspectRatio='none' role='img' aria-label='", value, "'>");
  fprintf(out, "<rect class='track' width='100' height='8'/><rect class='%s' width='%.2f' height='8'/></svg>", class,
          width);
  put_text(out, "<span class='v'>", value, "</span>\n");
}

static void put_cell(FILE *out, const json_t *row, const column *c)
{
  const json_t *value = json_object_get(row, c->member);
  char text[VALUE] = "-";
  if (c->kind == TEXT) {
    put_text(out, "<td>", report_text(row, c->member), "</td>");
    return;
  }
  if (c->kind == YES_OR_NO) {
    fputs(json_is_true(value) ? "<td>yes</td>" : "<td class='bad'>NO</td>", out);
    return;
  }
  if (json_is_number(value)) {
    double number = json_number_value(value);
    snprintf(text, sizeof text,
             c->kind == PERCENT ? "%.1f %%"
             : c->kind == MIB   ? "%.0f MiB"
             : c->kind == SMALL ? "%.2g"
                                : "%.6g",
             c->kind == PERCENT ? 100.0 * number
             : c->kind == MIB   ? number / (1 << 20)
                                : number);
  }
  fprintf(out, "<td class='n'>%s</td>", text);
}

static void put_table(FILE *out, const char *summary, const json_t *rows, const column *columns)
{
  size_t i;
  json_t *row;
  if (json_array_size(rows) == 0) {
    return;
  }
  fprintf(out, "<details><summary>%s</summary><div class='scroll'><table><tr>", summary);
  for (const column *c = columns; c->member; c++) {
    fprintf(out, c->kind == TEXT || c->kind == YES_OR_NO ? "<th>%s</th>" : "<th class='n'>%s</th>", c->title);
  }
  fputs("</tr>\n", out);
  json_array_foreach(rows, i, row)
  {
    fputs("<tr>", out);
    for (const column *c = columns; c->member; c++) {
      put_cell(out, row, c);
    }
    fputs("</tr>\n", out);
  }
  fputs("</table></div></details>\n", out);
}

/* The most of a member of all rows; 0 without one. */
static double most_of(const json_t *rows, const char *member)
{
  size_t i;
  json_t *row;
  double most = 0.0;
  json_array_foreach(rows, i, row)
  {
    most = fmax(most, report_number(row, member));
  }
  return most;
}

/* A bar for each row, the longest all of the width. format: of the value. */
static void put_bars(FILE *out, const json_t *rows, const char *member, const char *unit, int decimals)
{
  double most = most_of(rows, member);
  size_t i;
  json_t *row;
  if (most <= 0.0) {
    return;
  }
  fputs("<div class='bars'>\n", out);
  json_array_foreach(rows, i, row)
  {
    char label[LABEL], value[VALUE];
    double number = report_number(row, member);
    const char *first = report_text(row, "cache")[0] ? "cache" : "precision";
    snprintf(label, sizeof label, "%.60s", report_text(row, first));
    if (json_object_get(row, "batch")) {
      snprintf(label, sizeof label, "%.60s, batch %.0f", report_text(row, first), report_number(row, "batch"));
    }
    if (report_number(row, "beam") > 1) {
      size_t used = strlen(label);
      snprintf(label + used, sizeof label - used, ", beam %.0f", report_number(row, "beam"));
    }
    snprintf(value, sizeof value, "%.*f %s", decimals, number, unit);
    report_bar(out, label, value, number / most, "one");
  }
  fputs("</div>\n", out);
}

/* ---- the conformance suite --------------------------------------------------------------------------------------- */

static void put_failures(FILE *out, const json_t *failures)
{
  size_t i;
  json_t *row;
  json_array_foreach(failures, i, row)
  {
    put_text(out, "<div class='fault'><b>FAILED ", report_text(row, "variant"), "</b> ");
    put_text(out, "", report_text(row, "case"), "<br>");
    put_text(out, "", report_text(row, "message"), "<br>");
    put_text(out, "<code>", report_text(row, "again"), "</code></div>\n");
  }
}

static void section_conformance(FILE *out, const json_t *results)
{
  const char *name;
  json_t *row;
  const json_t *operators = json_object_get(results, "operators");
  put_failures(out, json_object_get(results, "failures"));
  if (json_object_size(operators) == 0) {
    return;
  }
  fputs("<p class='quiet'>The largest error of each operator, as a share of its bound:</p>\n<div class='bars'>\n", out);
  json_object_foreach((json_t *)operators, name, row)
  {
    char value[VALUE];
    double share = report_number(row, "error_of_bound"), failed = report_number(row, "failed");
    if (failed > 0) {
      snprintf(value, sizeof value, "%.0f of %.0f FAILED", failed, report_number(row, "cases"));
    } else {
      snprintf(value, sizeof value, "%.3f", share);
    }
    report_bar(out, name, value, failed > 0 ? 1.0 : share, failed > 0 ? "bad" : "good");
  }
  fputs("</div>\n", out);
}

static void section_forms(FILE *out, const json_t *results)
{
  const char *name;
  json_t *cases;
  section_conformance(out, results);
  if (json_object_size(json_object_get(results, "variants")) == 0) {
    return;
  }
  fputs("<details><summary>cases of each form</summary><div class='scroll'><table>\n", out);
  json_object_foreach((json_t *)json_object_get(results, "variants"), name, cases)
  {
    put_text(out, "<tr><td>", name, "</td>");
    if (json_integer_value(cases) > 0) {
      fprintf(out, "<td class='n'>%d</td></tr>\n", (int)json_integer_value(cases));
    } else {
      fputs("<td>none: the device cannot, or no case was reached</td></tr>\n", out);
    }
  }
  fputs("</table></div></details>\n", out);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static void section_models(FILE *out, const json_t *results)
{
  static const column recorded[] = {{"model", "model", TEXT},
                                    {"passed", "agrees", YES_OR_NO},
                                    {"largest_error", "hidden states: relative error", SMALL},
                                    {"logits_error", "logits: relative error", SMALL},
                                    {NULL}};
  static const column lines[] = {{"kind", "program", TEXT},
                                 {"beside", "beside", TEXT},
                                 {"lines", "lines", NUMBER},
                                 {"largest_error", "largest error", SMALL},
                                 {NULL}};
  put_table(out, "recordings", json_object_get(results, "recordings"), recorded);
  put_table(out, "line by line", json_object_get(results, "programs"), lines);
}

static void section_bleu(FILE *out, const json_t *results)
{
  fputs("<p class='quiet'>Model ", out);
  put_text(out, "", report_text(results, "model"), ", text ");
  put_text(out, "", report_text(results, "text"), "</p>\n");
  put_bars(out, json_object_get(results, "rows"), "bleu", "BLEU", 2);
}

static void section_tuning(FILE *out, const json_t *results)
{
  static const column columns[] = {{"precision", "type", TEXT},
                                   {"operator", "operator", TEXT},
                                   {"class", "shapes", TEXT},
                                   {"usual", "by the rules", TEXT},
                                   {"best", "tuned", TEXT},
                                   {"best_of_rules", "time of the rules'", PERCENT},
                                   {NULL}};
  put_table(out, "all classes", json_object_get(results, "rows"), columns);
}

/* Each operator as what it is limited by: its share of the product, or of the copy. */
static void section_operators(FILE *out, const json_t *results)
{
  const json_t *rows = json_object_get(results, "rows");
  size_t i;
  json_t *row;
  if (json_array_size(rows) == 0) {
    return;
  }
  fputs("<details open><summary>shares of the device's own large product (blue) or large copy (violet), whichever is "
        "more</summary><div class='bars'>\n",
        out);
  json_array_foreach(rows, i, row)
  {
    char label[LABEL], value[VALUE];
    double product = report_number(row, "of_product"), copy = report_number(row, "of_copy");
    snprintf(label, sizeof label, "%.60s %.60s %.20s", report_text(row, "op"), report_text(row, "shape"),
             report_text(row, "precision"));
    snprintf(value, sizeof value, "%.0f %% of the %s", 100.0 * fmax(product, copy),
             product >= copy ? "product" : "copy");
    report_bar(out, label, value, fmax(product, copy), product >= copy ? "one" : "two");
  }
  fputs("</div></details>\n", out);
}

static void section_speed(FILE *out, const json_t *results)
{
  static const column columns[] = {{"precision", "type", TEXT},
                                   {"batch", "batch", NUMBER},
                                   {"beam", "beam", NUMBER},
                                   {"tokens_per_second", "tokens/s", NUMBER},
                                   {"encode_ms", "encoder ms", NUMBER},
                                   {"step_ms", "step ms", NUMBER},
                                   {"peak_memory", "host memory", MIB},
                                   {NULL}};
  put_bars(out, json_object_get(results, "rows"), "tokens_per_second", "tokens/s", 0);
  put_table(out, "numbers", json_object_get(results, "rows"), columns);
}

static void section_start(FILE *out, const json_t *results)
{
  put_bars(out, json_object_get(results, "rows"), "milliseconds", "ms", 0);
}

static void section_training(FILE *out, const json_t *results)
{
  static const column columns[] = {{"precision", "products", TEXT},
                                   {"batch", "batch", NUMBER},
                                   {"step_ms", "step ms", NUMBER},
                                   {"tokens_per_second", "target tokens/s", NUMBER},
                                   {"loss", "loss", NUMBER},
                                   {"peak_memory", "host memory", MIB},
                                   {"state_bytes", "parameters and states", MIB},
                                   {"planned_bytes", "temporaries", MIB},
                                   {NULL}};
  put_bars(out, json_object_get(results, "rows"), "tokens_per_second", "tokens/s", 0);
  put_table(out, "numbers", json_object_get(results, "rows"), columns);
}

static const struct {
  const char *name;
  void (*put)(FILE *out, const json_t *results);
} sections[] = {
    {"start", section_start},       {"conformance", section_conformance},
    {"forms", section_forms},       {"models", section_models},
    {"bleu", section_bleu},         {"tuning", section_tuning},
    {"speed", section_speed},       {"operators", section_operators},
    {"training", section_training},
};

void report_section(FILE *out, const json_t *part)
{
  const json_t *results = json_object_get(part, "results");
  for (size_t i = 0; i < sizeof sections / sizeof sections[0] && json_object_size(results) > 0; i++) {
    if (strcmp(sections[i].name, report_text(part, "name")) == 0) {
      sections[i].put(out, results);
    }
  }
}
