/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera trace: how large the numbers are that flow through a model, after every layer, norm and sum, on one device or
 * on two.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/sentence.h"

enum { SIDES = 2 };

typedef struct request {
  translator_settings settings[SIDES]; /* one for each device */
  tsr_names devices;
  int32_t n_sides;
  const char *text, *target;
  double tolerance;
  int as_json;
} request;

typedef struct session {
  const request *options;
  translator *sides[SIDES];
  sentence sentence;
  int32_t side; /* that is looked at */
  tsr_inspection seen[SIDES];
  char devices[SIDES][64]; /* names */
} session;

typedef struct statistics {
  double mean;
  double deviation;
  double largest; /* magnitude; NaN where an element is NaN */
} statistics;

static statistics measure(const tsr_inspected *tensor)
{
  int64_t n = tsr_shape_elements(&tensor->shape);
  statistics s = {0};
  double squares = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double x = (double)tensor->values[i];
    s.mean += x / (double)n;
    s.largest = isnan(x) || isnan(s.largest) ? NAN : fmax(s.largest, fabs(x));
  }
  for (int64_t i = 0; i < n; i++) {
    double x = (double)tensor->values[i] - s.mean;
    squares += x * x / (double)n;
  }
  s.deviation = sqrt(squares);
  return s;
}

/* Of two devices' tensors, relative to the largest magnitude; where only one of them is NaN, infinite. */
static double difference(const tsr_inspected *a, const tsr_inspected *b)
{
  int64_t n = tsr_shape_elements(&a->shape);
  double largest = 0.0, magnitude = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double x = (double)a->values[i], y = (double)b->values[i];
    double error = x == y || (isnan(x) && isnan(y)) ? 0.0 : fabs(x - y);
    largest = isnan(error) ? INFINITY : fmax(largest, error);
    magnitude = fmax(magnitude, fabs(x));
  }
  return largest > 0.0 ? largest / fmax(magnitude, 1e-30) : 0.0;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static double largest_difference(const session *s, int32_t *where)
{
  double largest = 0.0;
  *where = 0;
  for (int32_t i = 0; s->options->n_sides > 1 && i < s->seen[0].n; i++) {
    double error = difference(&s->seen[0].tensors[i], &s->seen[1].tensors[i]);
    if (error > largest) {
      largest = error;
      *where = i;
    }
  }
  return largest;
}

static int print_table(const session *s)
{
  int32_t n_sides = s->options->n_sides, where = 0;
  tsr_cli_table table;
  tsr_cli_table_init(&table, 1 + 3 * n_sides + (n_sides > 1), ~1u);
  tsr_cli_table_cell(&table, "tensor");
  for (int32_t side = 0; side < n_sides; side++) {
    tsr_cli_table_cell(&table, "mean");
    tsr_cli_table_cell(&table, "deviation");
    tsr_cli_table_cell(&table, "largest");
  }
  if (n_sides > 1) {
    tsr_cli_table_cell(&table, "difference");
  }
  for (int32_t i = 0; i < s->seen[0].n; i++) {
    tsr_cli_table_cell(&table, "%s", s->seen[0].tensors[i].name);
    for (int32_t side = 0; side < n_sides; side++) {
      statistics of = measure(&s->seen[side].tensors[i]);
      tsr_cli_table_cell(&table, "%.4f", of.mean);
      tsr_cli_table_cell(&table, "%.4f", of.deviation);
      tsr_cli_table_cell(&table, "%.4f", of.largest);
    }
    if (n_sides > 1) {
      tsr_cli_table_cell(&table, "%.2g", difference(&s->seen[0].tensors[i], &s->seen[1].tensors[i]));
    }
  }
  const char *target = s->sentence.target_text;
  printf("%s%s%s, on %s", s->sentence.text, target ? " -> " : "", target ? target : "", s->devices[0]);
  if (n_sides > 1) {
    printf(" and %s", s->devices[1]);
  }
  puts("");
  int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  if (n_sides > 1) {
    double largest = largest_difference(s, &where);
    printf("largest difference %.3g, relative to the largest magnitude, after %s: %s\n", largest,
           s->seen[0].tensors[where].name, largest <= s->options->tolerance ? "ok" : "DIFFERS");
  }
  return code;
}

static json_t *tensor_json(const session *s, int32_t index)
{
  json_t *sides = json_array();
  for (int32_t side = 0; side < s->options->n_sides; side++) {
    statistics of = measure(&s->seen[side].tensors[index]);
    json_array_append_new(sides, json_pack("{s:o, s:o, s:o}", "mean", tsr_cli_json_real(of.mean), "deviation",
                                           tsr_cli_json_real(of.deviation), "largest", tsr_cli_json_real(of.largest)));
  }
  json_t *difference_json = s->options->n_sides > 1
                                ? tsr_cli_json_real(difference(&s->seen[0].tensors[index], &s->seen[1].tensors[index]))
                                : json_null();
  return json_pack("{s:s, s:o, s:o}", "name", s->seen[0].tensors[index].name, "devices", sides, "difference",
                   difference_json);
}

static int print_json(const session *s)
{
  int32_t where = 0;
  json_t *devices = json_array(), *tensors = json_array();
  for (int32_t side = 0; side < s->options->n_sides; side++) {
    json_array_append_new(devices, json_string(s->devices[side]));
  }
  int failed = 0;
  for (int32_t i = 0; i < s->seen[0].n; i++) {
    failed |= json_array_append_new(tensors, tensor_json(s, i)) != 0;
  }
  double largest = largest_difference(s, &where);
  const char *target = s->sentence.target_text;
  json_t *root = json_pack(
      "{s:o, s:o, s:o, s:o, s:o, s:o}", "source", tsr_cli_json_text(s->sentence.text, strlen(s->sentence.text)),
      "target", target ? tsr_cli_json_text(target, strlen(target)) : json_null(), "devices", devices, "tensors",
      tensors, "largest_difference", s->options->n_sides > 1 ? tsr_cli_json_real(largest) : json_null(), "passed",
      s->options->n_sides > 1 ? json_boolean(largest <= s->options->tolerance) : json_null());
  if (failed) {
    json_decref(root);
    root = NULL;
  }
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* A tsr_translator_use_fn. */
static tsr_status inspect(void *user, tsr_transformer *transformer)
{
  session *s = user;
  const sentence *of = &s->sentence;
  snprintf(s->devices[s->side], sizeof s->devices[0], "%s", tsr_device_name(tsr_transformer_device(transformer)));
  return tsr_transformer_inspect(transformer, TSR_INSPECT_LAYERS | TSR_INSPECT_NORMS | TSR_INSPECT_SUMS, 1,
                                 of->n_source, of->source, &of->n_source, of->n_target, of->target, &s->seen[s->side]);
}

/* Both devices read and write the same tokens: what the first one wrote. */
static int look(session *s)
{
  const request *r = s->options;
  int code = TSR_EXIT_OK;
  for (int32_t side = 0; side < r->n_sides && code == TSR_EXIT_OK; side++) {
    s->sides[side] = calloc(1, sizeof *s->sides[side]);
    if (!s->sides[side]) {
      return tsr_cli_no_memory();
    }
    code = translator_open(s->sides[side], &r->settings[side]);
    if (code == TSR_EXIT_OK && side == 0) {
      code = sentence_read(s->sides[0], r->text, r->target, &s->sentence);
    }
    if (code == TSR_EXIT_OK) {
      s->side = side;
      code = translator_use(s->sides[side], inspect, s);
    }
  }
  return code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  session s = {.options = r};
  int code = look(&s);
  if (code == TSR_EXIT_OK) {
    code = r->as_json ? print_json(&s) : print_table(&s);
  }
  int32_t where = 0;
  if (code == TSR_EXIT_OK && !(largest_difference(&s, &where) <= r->tolerance)) {
    code = TSR_EXIT_MISMATCH;
  }
  for (int32_t side = 0; side < SIDES; side++) {
    tsr_inspection_finish(&s.seen[side]);
    if (s.sides[side]) {
      translator_finish(s.sides[side]);
    }
    free(s.sides[side]);
  }
  sentence_finish(&s.sentence);
  return code;
}

static int check(void *opaque)
{
  request *r = opaque;
  r->n_sides = r->devices.n > 0 ? SIDES : 1;
  if (r->devices.n > 0 && r->devices.n != SIDES) {
    return tsr_cli_usage("trace", "--devices: two devices are compared, not %d", (int)r->devices.n);
  }
  r->settings[1] = r->settings[0];
  for (int32_t side = 0; side < r->devices.n; side++) {
    r->settings[side].devices = (tsr_names){.values = {r->devices.values[side]}, .n = 1};
  }
  return translator_settings_one_device("trace", &r->settings[0]);
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    {"target", "TEXT", TSR_OPTION_TEXT, FIELD(target), .help = "what the decoder writes",
     .otherwise = "the model's own translation"},
    {"devices", "A,B", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .help = "compute on two devices, and compare"},
    {"tolerance", "T", TSR_OPTION_NUMBER, FIELD(tolerance), 0, 1e9, .preset = "1e-4",
     .help = "with --devices: largest difference allowed, divided by the largest magnitude"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print one JSON object"},
    {.name = "device",
     .table = &translator_options,
     .offset = offsetof(request, settings),
     .help = TRANSLATOR_ONE_DEVICE},
    {.table = &translator_options, .offset = offsetof(request, settings)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(request, settings[0].model)},
    {"SENTENCE", TSR_OPTION_TEXT, offsetof(request, text)},
    {NULL},
};

const tsr_command tsr_command_trace = {
    .name = "trace",
    .summary = "show how large the numbers are after each layer and norm",
    .usage = "MODEL SENTENCE [OPTION]...",
    .intro =
        "Prints the mean, the standard deviation and the largest magnitude of the model's hidden states after every "
        "layer, every norm and every residual sum, while the model reads SENTENCE and writes its translation.",
    .options = &options,
    .operands = operands,
    .missing = "a model's folder and one sentence are needed",
    .notes = "Exit code: 1 if two devices differ by more than the tolerance; others as in `tessera help`.",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
