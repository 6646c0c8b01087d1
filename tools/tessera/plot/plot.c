/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera plot: the curves of trainings as one page that needs nothing else: a chart in SVG for each quantity, with its
 * best validation and the values under the pointer; and the recipes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/pages/html.h"
#include "tools/tessera/plot/recipes.h"
#include "tools/tessera/plot/training_log.h"

enum { MAX_LOGS = 8, MAX_SERIES = 64, WIDTH = 860, HEIGHT = 300, LEFT = 70, RIGHT = 12, TOP = 12, BOTTOM = 34 };

/* Which point of a column is its best: none is told, the least, the greatest. */
enum { BEST_NONE = 0, BEST_LEAST = -1, BEST_GREATEST = 1 };

typedef struct chart_column {
  const char *name; /* NULL ends them */
  int best;
} chart_column;

/* What is drawn together. */
typedef struct chart {
  const char *title;
  chart_column columns[4];
  int logarithmic;
} chart;

static const chart charts[] = {
    {"Loss per target token", {{"loss", BEST_NONE}, {"valid_loss", BEST_LEAST}}, 0},
    {"Perplexity of the validation set", {{"valid_perplexity", BEST_LEAST}}, 1},
    {"BLEU of the validation set", {{"valid_bleu", BEST_GREATEST}}, 0},
    {"Sequences that came out exactly", {{"valid_exact", BEST_GREATEST}}, 0},
    {"Learning rate", {{"learning_rate", BEST_NONE}}, 0},
    {"Gradient norm", {{"gradient_norm", BEST_NONE}}, 1},
    {"Target tokens per second", {{"tokens_per_second", BEST_NONE}}, 0},
    {"Loss scale", {{"scale", BEST_NONE}}, 1},
};

static const chart layer_charts[] = {
    {"Standard deviation of what leaves each layer", {{"deviation", BEST_NONE}}, 1},
    {"Mean of what leaves each layer", {{"mean", BEST_NONE}}, 0},
    {"Gradient norm of each layer", {{"gradient_norm", BEST_NONE}}, 1},
};

typedef struct series {
  char name[160];
  double *x, *y; /* [n] */
  int64_t n;
  int64_t best; /* -1: none is told */
} series;

typedef struct page {
  FILE *out;
  int by_time;
  training_log logs[MAX_LOGS], layers[MAX_LOGS];
  recipe_text recipes[MAX_LOGS]; /* empty for a CSV file */
  int32_t n_logs;
  int32_t n_charts;
} page;

/* A folder's file of the training's, allocated. */
static char *file_of(const char *folder, const char *name)
{
  char *inner = path_join(folder, "train");
  char *path = inner ? path_join(inner, name) : NULL;
  free(inner);
  return path;
}

static int read_log(page *p, const char *name)
{
  int is_folder = path_is_folder(name);
  training_log *log = &p->logs[p->n_logs], *layers = &p->layers[p->n_logs];
  recipe_text *recipe = &p->recipes[p->n_logs];
  p->n_logs++;
  int code = training_log_read(log, name, is_folder ? file_of(name, "log.csv") : strdup(name), 0);
  if (code != TSR_EXIT_OK || !is_folder) {
    return code;
  }
  char *path = file_of(name, "recipe.yaml");
  code = !path ? tsr_cli_no_memory() : path_exists(path) ? recipe_text_read(recipe, name, path) : TSR_EXIT_OK;
  free(path);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  path = file_of(name, "layers.csv");
  if (path && !path_exists(path)) {
    free(path);
    return TSR_EXIT_OK;
  }
  return training_log_read(layers, name, path, 1);
}

/* ---- series ------------------------------------------------------------------------------------------------------ */

/* When the training of a log was at a step: its time, or the step itself. */
static double position(const page *p, const training_log *t, int64_t row)
{
  int32_t seconds = training_log_column(t, "seconds");
  const double *cells = t->cells + row * t->n_columns;
  return p->by_time && seconds >= 0 ? cells[seconds] / 60.0 : cells[0];
}

/* The values of a column; label: of the rows that have it, NULL: of all. Returns 0 if there is nothing to draw, -1
 * without memory. */
static int make_series(const page *p, const training_log *t, int32_t column, const char *label, series *s)
{
  size_t room = (size_t)t->n_rows + 1;
  s->x = malloc(room * sizeof *s->x);
  s->y = malloc(room * sizeof *s->y);
  s->n = 0;
  if (!s->x || !s->y) {
    return -1;
  }
  for (int64_t i = 0; i < t->n_rows; i++) {
    double y = t->cells[i * t->n_columns + column], x = position(p, t, i);
    if (!isfinite(y) || !isfinite(x) || (label && strcmp(t->labels[i], label) != 0)) {
      continue;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
  }
  return s->n > 0;
}

/* The place of the best of a series; the first of equal ones. */
static int64_t best_of(const series *s, int best)
{
  int64_t found = best == BEST_NONE ? -1 : 0;
  for (int64_t i = 1; i < s->n && found >= 0; i++) {
    found = best * s->y[i] > best * s->y[found] ? i : found;
  }
  return found;
}

static void finish_series(series *all, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    free(all[i].x);
    free(all[i].y);
  }
}

/* Adds a series that has points. */
static int add_series(const page *p, const training_log *t, int32_t column, const char *label, chart_column about,
                      series *all, int32_t *n)
{
  if (*n == MAX_SERIES) {
    return TSR_EXIT_OK;
  }
  series *s = &all[*n];
  int found = make_series(p, t, column, label, s);
  if (found <= 0) {
    finish_series(s, 1);
    return found < 0 ? tsr_cli_no_memory() : TSR_EXIT_OK;
  }
  s->best = best_of(s, about.best);
  snprintf(s->name, sizeof s->name, "%s%s%s", about.name, p->n_logs > 1 ? ", " : "", p->n_logs > 1 ? t->name : "");
  (*n)++;
  return TSR_EXIT_OK;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* A range and the distance between its ticks. */
typedef struct axis {
  double low, high, step;
  int logarithmic; /* low and high are powers of ten then */
} axis;

static axis make_axis(double low, double high, int logarithmic)
{
  if (logarithmic && low > 0.0) {
    double first = floor(log10(low)), last = ceil(log10(high));
    return (axis){first, last > first ? last : first + 1.0, 1.0, 1};
  }
  double span = high > low ? high - low : fmax(fabs(high), 1.0);
  double power = pow(10.0, floor(log10(span))), parts = span / power;
  double step = parts < 2.0 ? power / 4.0 : parts < 5.0 ? power / 2.0 : power;
  axis a = {floor(low / step) * step, ceil(high / step) * step, step, 0};
  a.high = a.high > a.low ? a.high : a.low + step;
  return a;
}

static double place(const axis *a, double value)
{
  double v = a->logarithmic ? log10(value) : value;
  return (v - a->low) / (a->high - a->low);
}

static double to_x(const axis *a, double value)
{
  return LEFT + place(a, value) * (WIDTH - LEFT - RIGHT);
}

static double to_y(const axis *a, double value)
{
  return HEIGHT - BOTTOM - place(a, value) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(const page *p, const axis *x, const axis *y)
{
  FILE *out = p->out;
  for (double v = x->low; v <= x->high + x->step / 2; v += x->step) {
    double at = to_x(x, v);
    fprintf(out, "<line class='g' x1='%.1f' y1='%d' x2='%.1f' y2='%d'/><text x='%.1f' y='%d' class='x'>%g</text>\n", at,
            TOP, at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 15, v);
  }
  for (double v = y->low; v <= y->high + y->step / 2; v += y->step) {
    double value = y->logarithmic ? pow(10.0, v) : v, at = to_y(y, value);
    fprintf(out, "<line class='g' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/><text x='%d' y='%.1f' class='y'>%g</text>\n",
            LEFT, at, WIDTH - RIGHT, at, LEFT - 6, at + 4, fabs(value) < y->step * 1e-9 ? 0.0 : value);
  }
  fprintf(out, "<text x='%d' y='%d' class='x'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3,
          p->by_time ? "minutes" : "steps");
}

static const char *color_of(int32_t index)
{
  static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b",
                                       "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#393b79", "#637939"};
  return colors[(size_t)index % (sizeof colors / sizeof colors[0])];
}

static void draw_series(const page *p, const axis *x, const axis *y, const series *s, int32_t index)
{
  FILE *out = p->out;
  fprintf(out, "<polyline fill='none' stroke='%s' stroke-width='1.5' points='", color_of(index));
  for (int64_t i = 0; i < s->n; i++) {
    fprintf(out, "%.1f,%.1f ", to_x(x, s->x[i]), to_y(y, s->y[i]));
  }
  fputs("'/>\n", out);
  for (int64_t i = 0; i < s->n && s->n <= 40; i++) {
    fprintf(out, "<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>\n", to_x(x, s->x[i]), to_y(y, s->y[i]),
            color_of(index));
  }
  if (s->best >= 0) {
    fprintf(out, "<circle class='best' cx='%.1f' cy='%.1f' r='6' stroke='%s'/>\n", to_x(x, s->x[s->best]),
            to_y(y, s->y[s->best]), color_of(index));
  }
}

/* The name of a curve, its last value, and its best. */
static void put_legend(const page *p, const series *s, int32_t index)
{
  FILE *out = p->out;
  fprintf(out, "<span><i style='background:%s'></i>", color_of(index));
  tsr_cli_html_text(out, s->name);
  fprintf(out, " <b>%.5g</b>", s->y[s->n - 1]);
  if (s->best >= 0) {
    fprintf(out,
            p->by_time ? " <span class='quiet'>(best %.5g after %.4g minutes)</span>"
                       : " <span class='quiet'>(best %.5g at step %.10g)</span>",
            s->y[s->best], s->x[s->best]);
  }
  fputs("</span>\n", out);
}

/* The points, for the values under the pointer. */
static void put_data(const page *p, const axis *x, const series *all, int32_t n)
{
  FILE *out = p->out;
  fprintf(out,
          "<script type='application/json' class='d'>{\"low\":%.9g,\"high\":%.9g,\"left\":%d,\"right\":%d,\"series\":[",
          x->low, x->high, LEFT, WIDTH - RIGHT);
  for (int32_t i = 0; i < n; i++) {
    fprintf(out, "%s{\"x\":[", i ? "," : "");
    for (int64_t k = 0; k < all[i].n; k++) {
      fprintf(out, "%s%.7g", k ? "," : "", all[i].x[k]);
    }
    fputs("],\"y\":[", out);
    for (int64_t k = 0; k < all[i].n; k++) {
      fprintf(out, "%s%.5g", k ? "," : "", all[i].y[k]);
    }
    fputs("]}", out);
  }
  fputs("]}</script>\n", out);
}

static void draw_chart(page *p, const chart *c, const series *all, int32_t n)
{
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
  int varies = 0;
  for (int32_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < all[i].n; k++) {
      x_low = fmin(x_low, all[i].x[k]);
      x_high = fmax(x_high, all[i].x[k]);
      varies |= y_high > -INFINITY && all[i].y[k] != y_high;
      y_low = fmin(y_low, all[i].y[k]);
      y_high = fmax(y_high, all[i].y[k]);
    }
  }
  axis x = make_axis(fmin(x_low, 0.0), x_high, 0);
  axis y = make_axis(y_low, y_high, c->logarithmic && y_low > 0.0 && varies);
  fputs("<figure><figcaption>", p->out);
  tsr_cli_html_text(p->out, c->title);
  fprintf(p->out, "</figcaption>\n<svg viewBox='0 0 %d %d' role='img'>\n", WIDTH, HEIGHT);
  draw_axes(p, &x, &y);
  for (int32_t i = 0; i < n; i++) {
    draw_series(p, &x, &y, &all[i], i);
  }
  fprintf(p->out, "<line class='c' y1='%d' y2='%d' x1='0' x2='0'/>\n</svg>\n<p>", TOP, HEIGHT - BOTTOM);
  for (int32_t i = 0; i < n; i++) {
    put_legend(p, &all[i], i);
  }
  fputs("</p>\n", p->out);
  put_data(p, &x, all, n);
  fputs("</figure>\n", p->out);
  p->n_charts++;
}

/* A chart of the logs' columns. */
static int plot_columns(page *p, const chart *c)
{
  series all[MAX_SERIES];
  int32_t n = 0;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < p->n_logs; i++) {
    for (int32_t k = 0; k < 4 && c->columns[k].name && code == TSR_EXIT_OK; k++) {
      int32_t column = training_log_column(&p->logs[i], c->columns[k].name);
      if (column >= 0) {
        code = add_series(p, &p->logs[i], column, NULL, c->columns[k], all, &n);
      }
    }
  }
  /* A scale that never moved says nothing. */
  int constant = n > 0 && strcmp(c->columns[0].name, "scale") == 0;
  for (int32_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < all[i].n; k++) {
      constant &= all[i].y[k] == all[0].y[0];
    }
  }
  if (code == TSR_EXIT_OK && n > 0 && !constant) {
    draw_chart(p, c, all, n);
  }
  finish_series(all, n);
  return code;
}

/* 1 if an earlier row has the same label. */
static int is_known(const training_log *t, int64_t row)
{
  for (int64_t i = 0; i < row; i++) {
    if (strcmp(t->labels[i], t->labels[row]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* A chart with a curve for each layer. */
static int plot_layers(page *p, const chart *c)
{
  series all[MAX_SERIES];
  int32_t n = 0;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < p->n_logs; i++) {
    const training_log *t = &p->layers[i];
    int32_t column = training_log_column(t, c->columns[0].name);
    /* Each step has a row for each layer, in the same order: what is new is new within the first of them. */
    for (int64_t row = 0; column >= 0 && row < t->n_rows && !is_known(t, row) && code == TSR_EXIT_OK; row++) {
      code = add_series(p, t, column, t->labels[row], (chart_column){t->labels[row], BEST_NONE}, all, &n);
    }
  }
  if (code == TSR_EXIT_OK && n > 0) {
    draw_chart(p, c, all, n);
  }
  finish_series(all, n);
  return code;
}

static const char style[] =
#include "tools/tessera/pages/plot.css.inc"
    ;
static const char script[] =
#include "tools/tessera/pages/plot.html.inc"
    ;

static int write_page(page *p, const char *title)
{
  FILE *out = p->out;
  int code = TSR_EXIT_OK;
  tsr_cli_html_begin(out, title, style);
  fputs("<h1>", out);
  tsr_cli_html_text(out, title);
  fputs("</h1>\n", out);
  for (size_t i = 0; i < sizeof charts / sizeof charts[0] && code == TSR_EXIT_OK; i++) {
    code = plot_columns(p, &charts[i]);
  }
  for (size_t i = 0; i < sizeof layer_charts / sizeof layer_charts[0] && code == TSR_EXIT_OK; i++) {
    code = plot_layers(p, &layer_charts[i]);
  }
  if (code == TSR_EXIT_OK) {
    code = recipes_print(out, p->recipes, p->n_logs);
  }
  fputs(script, out);
  tsr_cli_html_end(out);
  return code;
}

static int plot(page *p, const char *title, const char *path)
{
  tsr_cli_page html;
  int code = tsr_cli_page_open(&html);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  p->out = html.out;
  code = write_page(p, title);
  if (code == TSR_EXIT_OK && p->n_charts == 0) {
    tsr_cli_error("plot: %s: nothing in it can be drawn", p->logs[0].path);
    code = TSR_EXIT_INPUT;
  }
  code = tsr_cli_page_close(&html, path, code);
  if (code == TSR_EXIT_OK) {
    printf("%s: %d charts\n", path, (int)p->n_charts);
  }
  return code;
}

typedef struct request {
  tsr_names logs;
  const char *out, *title;
  int by_time;
} request;

static int check(void *opaque)
{
  const request *r = opaque;
  int n = (int)r->logs.n;
  if (n < 1 || n > MAX_LOGS) {
    return tsr_cli_usage("plot", "1 to %d logs are drawn, not %d", MAX_LOGS, n);
  }
  for (int i = 0; i < n; i++) {
    if (!path_exists(r->logs.values[i])) {
      tsr_cli_error("%s: there is no such folder, or file", r->logs.values[i]);
      return TSR_EXIT_INPUT;
    }
  }
  if (!r->out && (n > 1 || !path_is_folder(r->logs.values[0]))) {
    return tsr_cli_usage("plot", "--out is needed for a file, and for several logs");
  }
  return TSR_EXIT_OK;
}

static int run(void *opaque)
{
  const request *r = opaque;
  page p = {.by_time = r->by_time};
  char *path = r->out ? strdup(r->out) : path_join(r->logs.values[0], "curves.html");
  int code = path ? TSR_EXIT_OK : tsr_cli_no_memory();
  for (int32_t i = 0; i < r->logs.n && code == TSR_EXIT_OK; i++) {
    code = read_log(&p, r->logs.values[i]);
  }
  if (code == TSR_EXIT_OK) {
    code = plot(&p, r->title ? r->title : r->logs.values[0], path);
  }
  for (int32_t i = 0; i < p.n_logs; i++) {
    training_log_finish(&p.logs[i]);
    training_log_finish(&p.layers[i]);
    recipe_text_finish(&p.recipes[i]);
  }
  free(path);
  return code;
}

static const tsr_option rows[] = {
    {"out", "FILE", TSR_OPTION_FILE, TSR_FIELD(request, out),
     .help = "the page; required for CSV files and several logs", .otherwise = "FOLDER/curves.html"},
    {"title", "TEXT", TSR_OPTION_TEXT, TSR_FIELD(request, title), .help = "title of the page",
     .otherwise = "the names of the logs"},
    {"by-time", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, by_time), .low = 1,
     .help = "draw curves over the time of training instead of steps, if the log has times"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"LOG", TSR_OPTION_FILE, offsetof(request, logs), .optional = 1, .repeats = 1},
    {NULL},
};

const tsr_command tsr_command_plot = {
    .name = "plot",
    .summary = "draw the curves of a training",
    .usage = "LOG... [OPTION]...",
    .intro =
        "Draws the curves of one or several trainings into one HTML file that needs no other: loss, validation, "
        "learning rate, gradient norm, speed and, if they were logged, the statistics of the layers. It marks the best "
        "of each validation, and shows the recipes with the keys that differ. LOG is a model's folder that `tessera "
        "train` wrote (its train/log.csv and train/recipe.yaml are read) or a CSV file whose first column is `step`.",
    .options = &options,
    .operands = operands,
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
