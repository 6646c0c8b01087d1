/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera program: prints the programs that a model consists of.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tessera/train.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/programs/kinds.h"

/* Of temporaries in the arena: what GPUs ask for at most. */
enum { ALIGNMENT = 256 };

enum { RUNS = 5, SEED = 1 };

typedef struct request {
  tsr_cli_kinds kinds;
  const char *folder;
  const char *profiled; /* to profile on, or NULL */
  tsr_names devices;    /* whose commands are shown, or none */
  int split;            /* 1: the model is split over the devices */
  int statistics;
  int as_json;
  unsigned training; /* bit TSR_STEP_*: the programs of training that are shown */
  double dropout;
  int recompute;
} request;

/* The programs of training, by the names of their kinds. */
static const struct {
  const char *name;
  int32_t kind;
} training_kinds[] = {{"train", TSR_STEP_UPDATE}, {"train-gradients", TSR_STEP_GRADIENTS}};
enum { N_TRAINING_KINDS = sizeof training_kinds / sizeof training_kinds[0] };

/* What is open: without profiling, the model alone. */
typedef struct session {
  tsr_runtime *runtime;
  tsr_device *devices[TSR_NAMES]; /* [n_devices] */
  int32_t n_devices;
  tsr_model *model;
  tsr_transformer *transformer;
  json_t *list;
  json_t *parts; /* of a split, or NULL */
} session;

static void print_statistics(const char *kind, const tsr_program_statistics *s)
{
  char text[6][32];
  printf("%s: %lld operators, %lld views, %.4g Mflop, %.4g MB moved\n", kind, (long long)s->lines, (long long)s->views,
         s->flops * 1e-6, s->bytes * 1e-6);
  printf("  constants %s, inputs %s, outputs %s, states %s\n", tsr_cli_bytes((uint64_t)s->constant_bytes, text[0]),
         tsr_cli_bytes((uint64_t)s->input_bytes, text[1]), tsr_cli_bytes((uint64_t)s->output_bytes, text[2]),
         tsr_cli_bytes((uint64_t)s->state_bytes, text[3]));
  double saved = s->temporary_bytes > 0
                     ? 100.0 * (double)(s->temporary_bytes - s->planned_bytes) / (double)s->temporary_bytes
                     : 0.0;
  printf("  temporaries: %s in one buffer each, %s as planned: %.1f %% saved\n",
         tsr_cli_bytes((uint64_t)s->temporary_bytes, text[4]), tsr_cli_bytes((uint64_t)s->planned_bytes, text[5]),
         saved);
}

static json_t *statistics_json(const char *kind, const tsr_program_statistics *s)
{
  return json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "kind", kind, "lines",
                   (json_int_t)s->lines, "views", (json_int_t)s->views, "flops", s->flops, "bytes", s->bytes,
                   "constant_bytes", (json_int_t)s->constant_bytes, "input_bytes", (json_int_t)s->input_bytes,
                   "output_bytes", (json_int_t)s->output_bytes, "state_bytes", (json_int_t)s->state_bytes,
                   "temporary_bytes", (json_int_t)s->temporary_bytes, "planned_bytes", (json_int_t)s->planned_bytes);
}

/* ---- what a device is told --------------------------------------------------------------------------------------- */

/* Of a line, or of a whole program. */
typedef struct line_cost {
  tsr_line_commands commands;
  const tsr_device *device; /* that runs the line */
  double weights;           /* bytes of constants that are read */
  double rest;              /* of all else that is read or written */
} line_cost;

typedef struct program_costs {
  line_cost *lines;
  line_cost all;
  int is_told; /* 1: all backends tell their commands */
  tsr_executable_info info;
} program_costs;

/* Bytes of constants that a line reads; of a table, the rows that it takes. */
static double weight_bytes(const tsr_program_desc *desc, int32_t index)
{
  const tsr_line_desc *line = tsr_line_at(desc, index);
  double sum = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    const tsr_tensor_desc *tensor = line->in[i] > 0 ? tsr_tensor_at(desc, line->in[i]) : NULL;
    if (!tensor || tsr_storage_at(desc, tensor->storage)->kind != TSR_STORAGE_CONSTANT) {
      continue;
    }
    const int by_rows = i == 0 && (line->op == TSR_OP_GATHER || line->op == TSR_OP_EMBEDDING);
    const tsr_tensor_desc *read = by_rows ? tsr_tensor_at(desc, line->out[0]) : tensor;
    double elements = 1;
    for (int32_t axis = 0; axis < read->rank; axis++) {
      elements *= by_rows || tensor->stride[axis] != 0 ? (double)read->extent[axis] : 1.0;
    }
    sum += elements * (double)tsr_dtype_size(tensor->dtype);
  }
  return sum;
}

static tsr_status find_costs(const session *s, const tsr_program *program, program_costs *costs)
{
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options)};
  const tsr_program_desc *desc = tsr_program_describe(program);
  tsr_line_commands *commands = calloc((size_t)desc->n_lines + 1, sizeof *commands);
  tsr_executable *executable = NULL;
  tsr_status status = commands ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_cli_compile(s->transformer, program, &options, &executable);
  }
  if (status == TSR_OK) {
    status = tsr_executable_commands(executable, commands, desc->n_lines);
    costs->is_told = status == TSR_OK;
    status = status == TSR_ERR_UNSUPPORTED && s->n_devices > 1 ? TSR_OK : status;
  }
  line_cost *sum = &costs->all;
  for (int32_t i = 0; i < desc->n_lines && status == TSR_OK; i++) {
    const double weights = weight_bytes(desc, i);
    costs->lines[i] =
        (line_cost){commands[i], tsr_executable_line_device(executable, i), weights, tsr_line_bytes(desc, i) - weights};
    sum->commands.dispatches += commands[i].dispatches;
    sum->commands.barriers += commands[i].barriers;
    sum->weights += weights;
    sum->rest += costs->lines[i].rest;
  }
  if (status == TSR_OK) {
    tsr_executable_report(executable, &costs->info);
  }
  tsr_executable_destroy(executable);
  free(commands);
  return status;
}

/* Stages: groups of kernels of which each waits for the one before. */
static int32_t stages_of(const tsr_line_commands *all)
{
  return all->dispatches > 0 ? all->barriers + 1 : 0;
}

static void print_costs(const tsr_program *program, const program_costs *costs, int split)
{
  char text[512];
  printf("%s     weights          rest  %sline\n", costs->is_told ? "dispatches  barriers  " : "",
         split ? "device        " : "");
  for (int32_t i = 0; i < tsr_program_line_count(program); i++) {
    const line_cost *cost = &costs->lines[i];
    if (costs->is_told) {
      printf("%10d %9d ", (int)cost->commands.dispatches, (int)cost->commands.barriers);
    }
    printf("%*.1f KB %10.1f KB  ", costs->is_told ? 11 : 9, cost->weights * 1e-3, cost->rest * 1e-3);
    if (split) {
      printf("%-12s  ", tsr_device_name(cost->device));
    }
    printf("%s\n", tsr_program_print_line(program, i, text, sizeof text));
  }
}

static void print_cost(const session *s, const program_costs *costs)
{
  const line_cost *all = &costs->all;
  for (int32_t i = 0; i < s->n_devices; i++) {
    printf("%s%s", i == 0 ? "  on " : ", ", tsr_device_name(s->devices[i]));
  }
  if (costs->is_told) {
    printf(": %d dispatches in %d stages, %d barriers;", (int)all->commands.dispatches, (int)stages_of(&all->commands),
           (int)all->commands.barriers);
  }
  printf("%s %.4g MB of weights, %.4g MB of all else\n", costs->is_told ? "" : ":", all->weights * 1e-6,
         all->rest * 1e-6);
  if (s->n_devices > 1) {
    printf("  split: %d stretches of lines, %d copies of %.4g KB between the devices in a run\n",
           (int)costs->info.segments, (int)costs->info.copies, (double)costs->info.copy_bytes * 1e-3);
  }
}

static json_t *costs_json(const tsr_program *program, const program_costs *costs)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  const line_cost *all = &costs->all;
  json_t *list = json_array();
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    const line_cost *cost = &costs->lines[i];
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "operator", tsr_op_describe(line->op)->name,
                                    "label", line->label, "device", tsr_device_name(cost->device), "dispatches",
                                    (int)cost->commands.dispatches, "barriers", (int)cost->commands.barriers,
                                    "weight_bytes", cost->weights, "other_bytes", cost->rest));
  }
  return json_pack("{s:i, s:i, s:i, s:f, s:f, s:i, s:i, s:I, s:o}", "dispatches", (int)all->commands.dispatches,
                   "stages", (int)stages_of(&all->commands), "barriers", (int)all->commands.barriers, "weight_bytes",
                   all->weights, "other_bytes", all->rest, "stretches", (int)costs->info.segments, "copies",
                   (int)costs->info.copies, "copy_bytes", (json_int_t)costs->info.copy_bytes, "lines", list);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static tsr_status profile_program(const session *s, const tsr_program *program, const tsr_program_size *size,
                                  uint64_t *least, uint64_t *scratch)
{
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .profile = 1};
  tsr_executable *executable = NULL;
  tsr_status status = tsr_cli_compile(s->transformer, program, &options, &executable);
  if (status == TSR_OK) {
    status = tsr_cli_fill(s->model, program, size, SEED, executable);
  }
  if (status == TSR_OK) {
    status = tsr_cli_time_lines(executable, tsr_program_line_count(program), RUNS, least, scratch);
  }
  tsr_executable_destroy(executable);
  return status;
}

static double microseconds(uint64_t nanoseconds)
{
  return (double)nanoseconds * 1e-3;
}

/* Sums by operator, for people. */
static void print_operators(const tsr_program_desc *desc, const uint64_t *times)
{
  uint64_t sums[TSR_OP_COUNT] = {0};
  int32_t lines[TSR_OP_COUNT] = {0};
  double flops[TSR_OP_COUNT] = {0};
  uint64_t total = 0;
  for (int32_t i = 0; i < desc->n_lines; i++) {
    int32_t op = tsr_line_at(desc, i)->op;
    sums[op] += times[i];
    flops[op] += tsr_line_flops(desc, i);
    lines[op]++;
    total += times[i];
  }
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (lines[op] > 0) {
      printf("  %-12s %4d lines %12.1f us %5.1f %%  %9.3g Gflop/s at full capacity\n", tsr_op_describe(op)->name,
             (int)lines[op], microseconds(sums[op]), total > 0 ? 100.0 * (double)sums[op] / (double)total : 0.0,
             sums[op] > 0 ? flops[op] / (double)sums[op] : 0.0);
    }
  }
  printf("  %-12s %4d lines %12.1f us\n", "all", (int)desc->n_lines, microseconds(total));
}

static void print_times(const tsr_program *program, const uint64_t *times)
{
  char text[512];
  for (int32_t i = 0; i < tsr_program_line_count(program); i++) {
    printf("%10.1f us  %s\n", microseconds(times[i]), tsr_program_print_line(program, i, text, sizeof text));
  }
}

static json_t *times_json(const tsr_program *program, const uint64_t *times)
{
  json_t *list = json_array();
  const tsr_program_desc *desc = tsr_program_describe(program);
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "operator", tsr_op_describe(line->op)->name, "label",
                                          line->label, "nanoseconds", (json_int_t)times[i]));
  }
  return list;
}

/* ---- one program ------------------------------------------------------------------------------------------------- */

/* times: NULL without profiling; costs: NULL without a device. */
static int print_program(const request *r, session *s, const char *kind, const tsr_program *program,
                         const uint64_t *times, const program_costs *costs)
{
  tsr_program_statistics statistics;
  int code = tsr_cli_fail(tsr_program_measure(program, ALIGNMENT, &statistics));
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (r->as_json) {
    json_t *entry = statistics_json(kind, &statistics);
    if (times) {
      json_object_set_new(entry, "times", times_json(program, times));
    }
    if (costs) {
      json_object_set_new(entry, "commands", costs_json(program, costs));
    }
    return json_array_append_new(s->list, entry) == 0 ? TSR_EXIT_OK : tsr_cli_no_memory();
  }
  if (!r->statistics && times) {
    print_times(program, times);
  } else if (!r->statistics && costs) {
    print_costs(program, costs, s->n_devices > 1);
  } else if (!r->statistics) {
    tsr_program_print(program, stdout);
  }
  print_statistics(kind, &statistics);
  if (costs) {
    print_cost(s, costs);
  }
  if (times) {
    print_operators(tsr_program_describe(program), times);
  }
  if (!r->statistics) {
    printf("\n");
  }
  return TSR_EXIT_OK;
}

static int show(const request *r, session *s, int32_t kind)
{
  const tsr_program_size *size = &r->kinds.size;
  tsr_program *program = NULL;
  uint64_t *times = NULL;
  program_costs costs = {0};
  tsr_dtype states;
  tsr_status status;
  if (s->transformer) {
    status = tsr_transformer_program(s->transformer, kind, size, &program);
  } else {
    status = tsr_model_states(s->model, NULL, r->kinds.weights, &states);
    status = status == TSR_OK ? tsr_model_program_with_states(s->model, r->kinds.weights, states, kind, size, &program)
                              : status;
  }
  if (status == TSR_OK && r->devices.n > 0) {
    costs.lines = calloc((size_t)tsr_program_line_count(program) + 1, sizeof *costs.lines);
    status = costs.lines ? find_costs(s, program, &costs) : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  if (status == TSR_OK && r->profiled) {
    size_t n = (size_t)tsr_program_line_count(program);
    times = calloc(2 * n + 1, sizeof *times);
    status =
        times ? profile_program(s, program, size, times, times + n) : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  int code = tsr_cli_fail(status);
  if (code == TSR_EXIT_OK) {
    code = print_program(r, s, tsr_cli_kind_name(kind), program, times, costs.lines ? &costs : NULL);
  }
  free(costs.lines);
  free(times);
  tsr_program_destroy(program);
  return code;
}

/* The program of training number `index` above. */
static int show_training(const request *r, session *s, int32_t index)
{
  const tsr_training_options options = {TSR_SIZED(tsr_training_options),
                                        .dropout = (float)r->dropout,
                                        .attention_dropout = (float)r->dropout,
                                        .activation_dropout = (float)r->dropout,
                                        .max_norm = 1.0f,
                                        .recompute = r->recompute,
                                        .products = r->kinds.weights};
  tsr_program *program = NULL;
  int code =
      tsr_cli_fail(tsr_training_program(s->model, &options, training_kinds[index].kind, &r->kinds.size, &program));
  if (code == TSR_EXIT_OK) {
    code = print_program(r, s, training_kinds[index].name, program, NULL, NULL);
  }
  tsr_program_destroy(program);
  return code;
}

/* ---- what lies on which device ----------------------------------------------------------------------------------- */

/* "encoder layers 0 to 5", if there are any. */
static void print_layers(const char *stack, int32_t first, int32_t n, const char **separator)
{
  if (n > 0) {
    printf("%s%s layer%s %d", *separator, stack, n > 1 ? "s" : "", (int)first);
    if (n > 1) {
      printf(" to %d", (int)(first + n - 1));
    }
    *separator = ", ";
  }
}

static json_t *part_json(const tsr_device *device, const tsr_model_part *part)
{
  return json_pack("{s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:b, s:b}", "device", tsr_device_name(device), "memory_bytes",
                   (json_int_t)tsr_device_get_properties(device)->memory, "weight_bytes",
                   (json_int_t)part->weight_bytes, "first_encoder_layer", (int)part->first_encoder_layer,
                   "encoder_layers", (int)part->encoder_layers, "first_decoder_layer", (int)part->first_decoder_layer,
                   "decoder_layers", (int)part->decoder_layers, "tables", part->has_tables, "logits", part->has_logits);
}

static void print_part(const tsr_device *device, const tsr_model_part *part)
{
  const uint64_t memory = tsr_device_get_properties(device)->memory;
  char text[2][32];
  const char *separator = "";
  printf("  %-12s  ", tsr_device_name(device));
  print_layers("encoder", part->first_encoder_layer, part->encoder_layers, &separator);
  if (part->has_tables) {
    printf("%sembedding tables", separator);
    separator = ", ";
  }
  print_layers("decoder", part->first_decoder_layer, part->decoder_layers, &separator);
  if (part->has_logits) {
    printf("%slogits", separator);
    separator = ", ";
  }
  printf("%s: %s of weights", *separator ? "" : "nothing", tsr_cli_bytes((uint64_t)part->weight_bytes, text[0]));
  if (memory > 0) {
    printf(", %.1f %% of its %s", 100.0 * (double)part->weight_bytes / (double)memory, tsr_cli_bytes(memory, text[1]));
  }
  printf("\n");
}

static int show_split(const request *r, session *s)
{
  s->parts = json_array();
  if (!r->as_json) {
    printf("split over %d devices:\n", (int)s->n_devices);
  }
  for (int32_t i = 0; i < s->n_devices; i++) {
    tsr_model_part part;
    int code = tsr_cli_fail(tsr_model_get_part(s->model, r->kinds.weights, s->devices, s->n_devices, i, &part));
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (r->as_json) {
      json_array_append_new(s->parts, part_json(s->devices[i], &part));
    } else {
      print_part(s->devices[i], &part);
    }
  }
  if (!r->as_json) {
    printf("\n");
  }
  return TSR_EXIT_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int load(const request *r, session *s)
{
  const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = r->kinds.weights,
                                           .others = s->devices + 1, .n_others = s->n_devices - 1};
  return tsr_cli_fail(tsr_transformer_create(s->model, s->devices[0], &options, &s->transformer));
}

static int open_session(const request *r, session *s)
{
  const int32_t n = r->profiled ? 1 : r->devices.n;
  s->list = json_array();
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &s->model));
  if (code == TSR_EXIT_OK && n > 0) {
    code = tsr_cli_runtime(&s->runtime);
    if (code == TSR_EXIT_OK) {
      const char *const *names = r->profiled ? &r->profiled : r->devices.values;
      code = tsr_cli_devices(s->runtime, names, n, s->devices, &s->n_devices);
    }
    if (code == TSR_EXIT_OK && r->split) {
      code = show_split(r, s);
    }
    if (code == TSR_EXIT_OK && (!r->split || tsr_model_has_weights(s->model))) {
      code = load(r, s);
    }
  }
  return code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  session s = {0};
  int code = open_session(r, &s);
  int is_asked = r->kinds.chosen != 0 || r->training == 0;
  int32_t kind = code == TSR_EXIT_OK && is_asked ? tsr_cli_kinds_next(&r->kinds, s.model, 0) : 0;
  for (; kind != 0 && code == TSR_EXIT_OK; kind = tsr_cli_kinds_next(&r->kinds, s.model, kind)) {
    code = show(r, &s, kind);
  }
  for (int32_t i = 0; i < N_TRAINING_KINDS && code == TSR_EXIT_OK; i++) {
    if (r->training & (1u << training_kinds[i].kind)) {
      code = show_training(r, &s, i);
    }
  }
  if (code == TSR_EXIT_OK && r->as_json) {
    json_t *all = json_pack("{s:o, s:O}", "model", tsr_cli_json_text(r->folder, strlen(r->folder)), "programs", s.list);
    if (s.parts) {
      json_object_set(all, "split", s.parts);
    }
    code = tsr_cli_json_print(all, JSON_INDENT(2));
  }
  json_decref(s.list);
  json_decref(s.parts);
  tsr_transformer_destroy(s.transformer);
  tsr_model_close(s.model);
  tsr_cli_devices_close(s.devices, s.n_devices);
  tsr_runtime_destroy(s.runtime);
  return code;
}

/* The kinds of training are choices, too, behind the others. */
static int check(void *opaque)
{
  request *r = opaque;
  for (int32_t i = 0; i < N_TRAINING_KINDS; i++) {
    unsigned bit = 1u << (TSR_PROGRAM_SCORE + 1 + i);
    r->training |= r->kinds.chosen & bit ? 1u << training_kinds[i].kind : 0u;
    r->kinds.chosen &= ~bit;
  }
  int code = tsr_cli_check_split("program", r->devices.n, r->split);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (r->training && (r->profiled || r->devices.n > 0)) {
    return tsr_cli_usage("program", "--profile and --device take no program of training");
  }
  return r->profiled && r->devices.n > 0 ? tsr_cli_usage("program", "--profile and --device exclude each other")
                                         : TSR_EXIT_OK;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_choice kinds[] = {TSR_CLI_KIND_CHOICES, {"train"}, {"train-gradients"}, {NULL}};

static const tsr_option rows[] = {
    {"kind", "K", TSR_OPTION_SET, FIELD(kinds.chosen), TSR_PROGRAM_ENCODE, .choices = kinds,
     .help = "the programs of this kind", .otherwise = "all but the last two"},
    {.table = &tsr_cli_kind_options, .offset = offsetof(request, kinds)},
    {"dropout", "R", TSR_OPTION_NUMBER, FIELD(dropout), 0, 0.999, .help = "rate of all dropouts in training",
     .preset = "0.1"},
    {"recompute", NULL, TSR_OPTION_FLAG, FIELD(recompute), .low = 1,
     .help = "in training, compute once more what is within a layer, instead of keeping it"},
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1,
     .help = "for each line, print how many kernels device D has to start, how many of them wait for all earlier ones, "
             "and how many bytes of weights and of other data they read and write; nothing is run"},
    {"split", NULL, TSR_OPTION_FLAG, FIELD(split), .low = 1,
     .help = "print how the model is split over the devices of --device by their memory, and on which each line runs; "
             "without weights, the split alone"},
    {"profile", "D", TSR_OPTION_DEVICE, FIELD(profiled),
     .help =
         "run each program on device D with random input, and print the microseconds that each line took (the least "
         "of five runs)"},
    {"statistics", NULL, TSR_OPTION_FLAG, FIELD(statistics), .low = 1, .help = "print the numbers alone, no listing"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print the numbers as one JSON object"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder)}, {NULL}};

const tsr_command tsr_command_program = {
    .name = "program",
    .summary = "print the programs that a model consists of",
    .usage = "MODEL [OPTION]...",
    .intro = "Prints the programs that a model consists of, one operator a line, and how much memory their plan saves "
             "compared with one buffer for each temporary tensor. Weights are not needed, unless a device is named. "
             "With a precision of 16 bits, keys and values have the type in which a GPU with 16-bit storage keeps "
             "them; with --device or --profile, the type in which that device keeps them.\n"
             "\n"
             "Two kinds are shown only if --kind names them: train, a training step, and train-gradients, a training "
             "step that outputs the gradients. For these, --precision is the type in which products read the matrices.",
    .options = &options,
    .operands = operands,
    .missing = "one model's folder is needed",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
