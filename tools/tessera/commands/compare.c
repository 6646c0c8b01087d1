/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera compare: runs a model's programs on two devices and finds the first line whose results part.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/programs/kinds.h"

typedef struct request {
  const char *folder;
  tsr_names devices; /* 2 */
  double tolerance;
  int64_t seed;
  tsr_cli_kinds kinds;
  int strict;
  int as_json;
} request;

/* One of the two devices, with the model on it and the program that runs now. */
typedef struct side {
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_executable *executable;
} side;

/* Where two results part. */
typedef struct difference {
  double error; /* relative; infinite where one side is NaN or infinite and the other is not, or integers differ */
  double magnitude;
  double a, b;     /* the two elements */
  int64_t element; /* in the storage */
  int32_t ties;    /* topk: other indices for equal values */
} difference;

typedef struct comparison {
  const char *kind;
  int32_t lines;
  double largest; /* error of all lines, of those that do not part */
  int32_t largest_line;
  int32_t ties;
  int32_t parted; /* the first line that parts, or -1 */
  int32_t output; /* of it */
  difference difference;
  char text[512];   /* the line, as listings have it */
  char shapes[256]; /* of its operands */
  const char *operation;
  char label[160];
} comparison;

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void *read_storage(tsr_executable *executable, const tsr_program_desc *desc, tsr_ref tensor, tsr_status *status)
{
  int64_t size = tsr_storage_at(desc, tsr_tensor_at(desc, tensor)->storage)->size;
  void *bytes = malloc((size_t)size + 1);
  if (!bytes) {
    *status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  *status = tsr_executable_read(executable, tensor, bytes, size);
  return bytes;
}

static double element_at(const void *bytes, int32_t dtype, int64_t index)
{
  switch (dtype) {
  case TSR_F32:
    return (double)((const float *)bytes)[index];
  case TSR_F16:
    return (double)tsr_f16_to_f32(((const uint16_t *)bytes)[index]);
  case TSR_BF16:
    return (double)tsr_bf16_to_f32(((const uint16_t *)bytes)[index]);
  case TSR_I8:
    return (double)((const int8_t *)bytes)[index];
  default:
    return (double)((const int32_t *)bytes)[index];
  }
}

static int is_integer(int32_t dtype)
{
  return dtype == TSR_I32 || dtype == TSR_I8;
}

static difference compare_bytes(const tsr_program_desc *desc, tsr_ref tensor, const void *a, const void *b)
{
  const tsr_tensor_desc *t = tsr_tensor_at(desc, tensor);
  int64_t n = tsr_storage_at(desc, t->storage)->size / (int64_t)tsr_dtype_size(t->dtype);
  difference d = {.element = -1};
  double largest = -1.0;
  for (int64_t i = 0; i < n; i++) {
    double x = element_at(a, t->dtype, i);
    double y = element_at(b, t->dtype, i);
    double apart = x == y || (isnan(x) && isnan(y)) ? 0.0 : is_integer(t->dtype) ? INFINITY : fabs(x - y);
    apart = isnan(apart) ? INFINITY : apart;
    if (isfinite(x) && fabs(x) > d.magnitude) {
      d.magnitude = fabs(x);
    }
    if (apart > largest) {
      largest = apart;
      d.element = i;
      d.a = x;
      d.b = y;
    }
  }
  d.error = largest > 0.0 ? largest / (d.magnitude > 0.0 ? d.magnitude : 1.0) : 0.0;
  return d;
}

/* Element (row, column) of a view, rows counted over all but the last axis. */
static double view_element(const tsr_tensor_desc *t, const void *bytes, int64_t row, int64_t column)
{
  int64_t at = t->offset + column * t->stride[t->rank - 1];
  for (int32_t axis = t->rank - 2; axis >= 0; axis--) {
    at += row % t->extent[axis] * t->stride[axis];
    row /= t->extent[axis];
  }
  return element_at(bytes, t->dtype, at);
}

/* topk may choose other indices where rounding made values change places: no difference if what B chose is, on A, as
 * large as what A chose. */
static tsr_status compare_indices(const tsr_program_desc *desc, const tsr_line_desc *line, side *sides,
                                  const int32_t *a, const int32_t *b, double tolerance, difference *d)
{
  const tsr_tensor_desc *x = tsr_tensor_at(desc, line->in[0]);
  const tsr_tensor_desc *out = tsr_tensor_at(desc, line->out[1]);
  int64_t k = out->extent[out->rank - 1];
  int64_t n = tsr_storage_at(desc, out->storage)->size / (int64_t)sizeof *a;
  tsr_status status = TSR_OK;
  void *values = read_storage(sides[0].executable, desc, line->in[0], &status);
  *d = (difference){.element = -1};
  for (int64_t i = 0; i < n && status == TSR_OK; i++) {
    if (a[i] == b[i]) {
      continue;
    }
    int in_range = b[i] >= 0 && b[i] < x->extent[x->rank - 1];
    double mine = view_element(x, values, i / k, a[i]);
    double other = in_range ? view_element(x, values, i / k, b[i]) : NAN;
    if (mine == other || fabs(mine - other) <= tolerance * fmax(1.0, fabs(mine))) {
      d->ties++;
    } else if (d->element < 0) {
      *d = (difference){.error = INFINITY, .a = a[i], .b = b[i], .element = i, .ties = d->ties};
    }
  }
  free(values);
  return status;
}

static tsr_status compare_output(const tsr_program_desc *desc, int32_t line, int32_t output, side *sides,
                                 double tolerance, difference *d)
{
  const tsr_line_desc *l = tsr_line_at(desc, line);
  tsr_ref tensor = l->out[output];
  tsr_status status = TSR_OK;
  void *a = read_storage(sides[0].executable, desc, tensor, &status);
  void *b = status == TSR_OK ? read_storage(sides[1].executable, desc, tensor, &status) : NULL;
  if (status == TSR_OK) {
    if (l->op == TSR_OP_TOPK && output == 1) {
      status = compare_indices(desc, l, sides, a, b, tolerance, d);
    } else {
      *d = compare_bytes(desc, tensor, a, b);
    }
  }
  free(a);
  free(b);
  return status;
}

static void describe_line(const tsr_program *program, int32_t line, comparison *c)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  const tsr_line_desc *l = tsr_line_at(desc, line);
  const tsr_op_info *op = tsr_op_describe(l->op);
  c->operation = op ? op->name : "?";
  snprintf(c->label, sizeof c->label, "%s", l->label);
  tsr_program_print_line(program, line, c->text, sizeof c->text);
  size_t used = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS && op && op->in[i].name; i++) {
    if (l->in[i] == TSR_NONE || used >= sizeof c->shapes) {
      continue;
    }
    char text[96];
    tsr_shape shape = tsr_ref_shape(program, l->in[i]);
    used +=
        (size_t)snprintf(c->shapes + used, sizeof c->shapes - used, "%s%s %s%s", used > 0 ? ", " : "", op->in[i].name,
                         tsr_dtype_name(tsr_ref_dtype(program, l->in[i])), tsr_shape_print(&shape, text, sizeof text));
  }
}

static tsr_status compare_lines(const tsr_program *program, side *sides, double tolerance, comparison *c)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  c->lines = desc->n_lines;
  c->parted = -1;
  for (int32_t line = 0; line < desc->n_lines && c->parted < 0; line++) {
    for (int32_t output = 0; output < TSR_MAX_OUTPUTS && c->parted < 0; output++) {
      if (tsr_line_at(desc, line)->out[output] == TSR_NONE) {
        continue;
      }
      difference d;
      tsr_status status = compare_output(desc, line, output, sides, tolerance, &d);
      if (status != TSR_OK) {
        return status;
      }
      c->ties += d.ties;
      if (d.error > tolerance) {
        c->parted = line;
        c->output = output;
        c->difference = d;
        describe_line(program, line, c);
      } else if (d.error > c->largest) {
        c->largest = d.error;
        c->largest_line = line;
      }
    }
  }
  return TSR_OK;
}

static tsr_status compile_on(const request *r, const tsr_program *program, side *s)
{
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .strict = r->strict, .keep_all = 1};
  return tsr_cli_compile(s->transformer, program, &options, &s->executable);
}

static tsr_status compare_kind(const request *r, const tsr_model *model, int32_t kind, side *sides, comparison *c)
{
  *c = (comparison){.kind = tsr_cli_kind_name(kind), .parted = -1};
  tsr_program *program = NULL;
  tsr_status status = tsr_transformer_program(sides[0].transformer, kind, &r->kinds.size, &program);
  for (int32_t i = 0; i < 2 && status == TSR_OK; i++) {
    status = compile_on(r, program, &sides[i]);
  }
  for (int32_t i = 0; i < 2 && status == TSR_OK; i++) {
    status = tsr_cli_fill(model, program, &r->kinds.size, (uint64_t)r->seed, sides[i].executable);
  }
  for (int32_t i = 0; i < 2 && status == TSR_OK; i++) {
    status = tsr_executable_run(sides[i].executable);
  }
  if (status == TSR_OK) {
    status = compare_lines(program, sides, r->tolerance, c);
  }
  for (int32_t i = 0; i < 2; i++) {
    tsr_executable_destroy(sides[i].executable);
    sides[i].executable = NULL;
  }
  tsr_program_destroy(program);
  return status;
}

/* ---- report ------------------------------------------------------------------------------------------------------ */

static void print_text(const request *r, const comparison *c)
{
  if (c->parted < 0) {
    printf("%-7s %3d lines equal; largest error %.3g, in line %d", c->kind, (int)c->lines, c->largest,
           (int)c->largest_line);
    if (c->ties > 0) {
      printf("; %d indices of equal values differ", (int)c->ties);
    }
    printf("\n");
    return;
  }
  const difference *d = &c->difference;
  printf("%-7s the results of line %d of %d differ\n", c->kind, (int)c->parted, (int)c->lines);
  printf("  line      %s\n", c->text);
  printf("  operator  %s, result %d\n", c->operation, (int)c->output);
  printf("  from      %s\n", c->label[0] ? c->label : "(no scope)");
  printf("  operands  %s\n", c->shapes);
  printf("  error     %.3g (allowed: %.3g), largest at element %lld: %.9g on %s, %.9g on %s\n", d->error, r->tolerance,
         (long long)d->element, d->a, r->devices.values[0], d->b, r->devices.values[1]);
  printf("  before    %d lines equal, largest error %.3g\n", (int)c->parted, c->largest);
}

static json_t *comparison_json(const comparison *c)
{
  json_t *parted = json_null();
  if (c->parted >= 0) {
    parted =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:o, s:I, s:o, s:o}", "line", (int)c->parted, "operator",
                  c->operation, "label", c->label, "operands", c->shapes, "text", c->text, "result", (int)c->output,
                  "error", tsr_cli_json_real(c->difference.error), "element", (json_int_t)c->difference.element, "a",
                  tsr_cli_json_real(c->difference.a), "b", tsr_cli_json_real(c->difference.b));
  }
  return json_pack("{s:s, s:i, s:o, s:i, s:i, s:o}", "kind", c->kind, "lines", (int)c->lines, "largest_error",
                   tsr_cli_json_real(c->largest), "largest_line", (int)c->largest_line, "ties", (int)c->ties, "parted",
                   parted);
}

static int compare_all(const request *r, const tsr_model *model, side *sides)
{
  json_t *list = json_array();
  int equal = 1;
  int code = TSR_EXIT_OK;
  int32_t kind = tsr_cli_kinds_next(&r->kinds, model, 0);
  for (; kind != 0 && code == TSR_EXIT_OK; kind = tsr_cli_kinds_next(&r->kinds, model, kind)) {
    comparison c;
    code = tsr_cli_fail(compare_kind(r, model, kind, sides, &c));
    if (code != TSR_EXIT_OK) {
      break;
    }
    equal = equal && c.parted < 0;
    if (r->as_json) {
      json_array_append_new(list, comparison_json(&c));
    } else {
      print_text(r, &c);
    }
  }
  if (code == TSR_EXIT_OK && r->as_json) {
    code = tsr_cli_json_print(json_pack("{s:o, s:[s, s], s:f, s:I, s:o, s:b}", "model",
                                        tsr_cli_json_text(r->folder, strlen(r->folder)), "devices",
                                        r->devices.values[0], r->devices.values[1], "tolerance", r->tolerance, "seed",
                                        (json_int_t)r->seed, "programs", list, "equal", equal),
                              JSON_INDENT(2));
  } else {
    json_decref(list);
  }
  return code == TSR_EXIT_OK && !equal ? TSR_EXIT_MISMATCH : code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  side sides[2] = {{0}};
  tsr_runtime *runtime = NULL;
  tsr_model *model = NULL;
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &model));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&runtime);
  }
  for (int32_t i = 0; i < 2 && code == TSR_EXIT_OK; i++) {
    code = tsr_cli_device(runtime, r->devices.values[i], &sides[i].device);
    if (code == TSR_EXIT_OK) {
      const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = r->kinds.weights,
                                               .strict = r->strict};
      code = tsr_cli_fail(tsr_transformer_create(model, sides[i].device, &options, &sides[i].transformer));
    }
  }
  if (code == TSR_EXIT_OK) {
    code = compare_all(r, model, sides);
  }
  for (int32_t i = 0; i < 2; i++) {
    tsr_transformer_destroy(sides[i].transformer);
    tsr_device_close(sides[i].device);
  }
  tsr_runtime_destroy(runtime);
  tsr_model_close(model);
  return code;
}

static int check(void *opaque)
{
  request *r = opaque;
  if (r->devices.n != 2) {
    return tsr_cli_usage("compare", "--devices with two devices is needed, such as --devices reference,vulkan:0");
  }
  if (r->tolerance < 0.0) {
    r->tolerance = r->kinds.weights == TSR_F16 ? 0.002 : r->kinds.weights == TSR_BF16 ? 0.016 : 1e-4;
  }
  return TSR_EXIT_OK;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_choice kinds[] = {TSR_CLI_KIND_CHOICES, {NULL}};

static const tsr_option rows[] = {
    {"devices", "A,B", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .help = "the two devices"},
    {"tolerance", "T", TSR_OPTION_NUMBER, FIELD(tolerance), 0, 1e9, .help = "largest error of a line allowed",
     .otherwise = "1e-4; with --precision f16 0.002 and with bf16 0.016, two units in the last place of keys and "
                  "values of that type"},
    {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), 0, (double)INT64_MAX, .help = "of the random tokens", .preset = "1"},
    {"strict", NULL, TSR_OPTION_FLAG, FIELD(strict), .low = 1,
     .help = "refuse to run operators on another device than the ones named"},
    {"kind", "K", TSR_OPTION_SET, FIELD(kinds.chosen), TSR_PROGRAM_ENCODE, .choices = kinds,
     .help = "the programs of this kind", .otherwise = "all"},
    {.table = &tsr_cli_kind_options, .offset = offsetof(request, kinds)},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print one JSON object"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder)}, {NULL}};
static const request initial = {.tolerance = -1.0};

const tsr_command tsr_command_compare = {
    .name = "compare",
    .summary = "run a model on two devices and find the first line whose results differ",
    .usage = "MODEL --devices A,B [OPTION]...",
    .intro = "Runs the programs of a model on two devices with the same random tokens and states, keeps every result, "
             "and compares line by line. If results differ, it shows the first line that does: its operator, its place "
             "in the model, the shapes of its operands and the error. The error of a line is its largest difference, "
             "divided by its largest magnitude on A.",
    .options = &options,
    .operands = operands,
    .missing = "one model's folder is needed",
    .notes = "Exit code: 0 if the devices agree; 1 if they differ; others as in `tessera help`.",
    .session_size = sizeof(request),
    .initial = &initial,
    .check = check,
    .run = run,
};
