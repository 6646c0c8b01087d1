/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera plan: how long a model's programs would take on a device that is described.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tessera/train.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/plan/card.h"
#include "tools/tessera/plan/many.h"
#include "tools/tessera/plan/measure.h"
#include "tools/tessera/programs/kinds.h"

enum { SEED = 1 };

typedef struct request {
  tsr_cli_kinds kinds;
  plan_many_options many;
  const char *folder;   /* or NULL */
  const char *card;     /* --device-json */
  const char *measured; /* --measure */
  const char *run;      /* --run */
  const char *product;  /* --product */
  int32_t extent[3];    /* of the product: rows, columns, depth */
  int is_training;
  double dropout;
  int recompute;
  int by_processor;
  int statistics;
  int as_json;
} request;

typedef struct session {
  const request *options;
  tsr_runtime *runtime;
  tsr_device *device; /* of --run, or NULL */
  tsr_model *model;
  tsr_transformer *transformer;
  plan_card card;
  json_t *list;
} session;

/* ---- a program's costs ------------------------------------------------------------------------------------------- */

/* Of a line, or of a whole program. */
typedef struct line_cost {
  double seconds;
  double longest; /* of its kernels' seconds; that one's bound is the line's */
  int32_t bound;
  int32_t kernels;
  int32_t stages;
  double weights; /* bytes of constants that are read */
  double rest;    /* of all else */
  double arena;   /* bytes of all temporaries, of a whole program */
  double by_bound[PLAN_BOUNDS];
} line_cost;

static void add_kernel(line_cost *line, const tsr_program_desc *desc, const tsr_plan_kernel *kernel,
                       const plan_cost *cost)
{
  line->seconds += cost->seconds;
  line->by_bound[cost->bound] += cost->seconds;
  line->kernels++;
  line->stages += kernel->waits;
  if (line->kernels == 1 || cost->seconds > line->longest) {
    line->longest = cost->seconds;
    line->bound = cost->bound;
  }
  for (int32_t i = 0; i < kernel->n_accesses; i++) {
    const tsr_kernel_access *access = &kernel->accesses[i];
    const int is_weight =
        access->tensor > 0 &&
        tsr_storage_at(desc, tsr_tensor_at(desc, access->tensor)->storage)->kind == TSR_STORAGE_CONSTANT;
    *(is_weight ? &line->weights : &line->rest) += access->bytes;
  }
}

/* lines: [lines + 1], the last one's sums. */
static tsr_status add_up(const session *s, const tsr_program_desc *desc, const tsr_device_plan *plan, line_cost *lines)
{
  const int32_t n = tsr_device_plan_count(plan);
  const tsr_plan_kernel **kernels = calloc((size_t)n + 1, sizeof *kernels);
  plan_cost *costs = calloc((size_t)n + 1, sizeof *costs);
  int32_t *storages = calloc((size_t)desc->n_tensors, sizeof *storages);
  double *scratch = calloc((size_t)desc->n_storages + 1, sizeof *scratch);
  tsr_status status =
      kernels && costs && storages && scratch ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    for (int32_t i = 1; i < desc->n_tensors; i++) {
      storages[i] = tsr_tensor_at(desc, i)->storage;
    }
    for (int32_t i = 0; i < n; i++) {
      kernels[i] = tsr_device_plan_kernel(plan, i);
    }
    const plan_places places = {storages, desc->n_tensors, desc->n_storages, (double)tsr_device_plan_arena(plan)};
    line_cost *all = &lines[desc->n_lines];
    const double seconds = plan_costs(&s->card.figures, &places, kernels, n, costs, scratch);
    for (int32_t i = 0; i < n; i++) {
      add_kernel(&lines[kernels[i]->last_line], desc, kernels[i], &costs[i]);
      add_kernel(all, desc, kernels[i], &costs[i]);
    }
    all->seconds = seconds;
    all->arena = places.arena;
  }
  free(kernels);
  free(costs);
  free(storages);
  free(scratch);
  return status;
}

static tsr_status find_costs(const session *s, const tsr_program *program, line_cost *lines)
{
  tsr_device_plan *plan;
  tsr_status status = tsr_device_plan_create(s->runtime, s->card.backend, &s->card.described, program, &plan);
  if (status == TSR_OK) {
    status = add_up(s, tsr_program_describe(program), plan, lines);
    tsr_device_plan_destroy(plan);
  }
  return status;
}

/* ---- what a device here takes ------------------------------------------------------------------------------------ */

static tsr_status time_here(const session *s, const tsr_program *program, double *seconds)
{
  const double wanted = 1.0;
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options)};
  tsr_executable *executable = NULL;
  if (!s->model) {
    return plan_time_program(s->device, program, wanted, seconds);
  }
  tsr_status status = tsr_cli_compile(s->transformer, program, &options, &executable);
  if (status == TSR_OK) {
    status = tsr_cli_fill(s->model, program, &s->options->kinds.size, SEED, executable);
  }
  if (status == TSR_OK) {
    status = plan_time_runs(executable, wanted, seconds);
  }
  tsr_executable_destroy(executable);
  return status;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void print_lines(const tsr_program *program, const line_cost *lines)
{
  char text[512];
  printf("        us  bound       kernels  stages       weights          rest  line\n");
  for (int32_t i = 0; i < tsr_program_line_count(program); i++) {
    printf("%10.2f  %-10s  %7d %7d %10.1f KB %10.1f KB  %s\n", 1e6 * lines[i].seconds,
           lines[i].kernels > 0 ? plan_bound_name(lines[i].bound) : "-", (int)lines[i].kernels, (int)lines[i].stages,
           lines[i].weights * 1e-3, lines[i].rest * 1e-3, tsr_program_print_line(program, i, text, sizeof text));
  }
}

/* here: seconds that were measured; 0: none were. */
static void print_sums(const session *s, const char *kind, const line_cost *all, double flops, double here)
{
  printf("%s: %.4g us on %s: %d kernels in %d stages; %.4g MB of weights, %.4g MB of all else; %.4g Gflop/s\n", kind,
         1e6 * all->seconds, s->card.name, (int)all->kernels, (int)all->stages, all->weights * 1e-6, all->rest * 1e-6,
         flops / all->seconds * 1e-9);
  printf("  bound by");
  for (int32_t i = 0; i < PLAN_BOUNDS; i++) {
    printf(" %s %.1f us,", plan_bound_name(i), 1e6 * all->by_bound[i]);
  }
  printf(" submit %.1f us\n", 1e6 * s->card.figures.submit_seconds);
  if (here > 0) {
    printf("  on %s: %.4g us, of which %.0f %% were predicted\n", s->options->run, 1e6 * here,
           100.0 * all->seconds / here);
  }
}

static json_t *bounds_json(const line_cost *all)
{
  json_t *bounds = json_object();
  for (int32_t i = 0; i < PLAN_BOUNDS; i++) {
    json_object_set_new(bounds, plan_bound_name(i), tsr_cli_json_real(1e6 * all->by_bound[i]));
  }
  return bounds;
}

static json_t *lines_json(const tsr_program *program, const line_cost *lines)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  json_t *list = json_array();
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:f, s:s, s:i, s:i, s:f, s:f}", "operator",
                                    tsr_op_describe(line->op)->name, "label", line->label, "us", 1e6 * lines[i].seconds,
                                    "bound", lines[i].kernels > 0 ? plan_bound_name(lines[i].bound) : "none", "kernels",
                                    (int)lines[i].kernels, "stages", (int)lines[i].stages, "weight_bytes",
                                    lines[i].weights, "other_bytes", lines[i].rest));
  }
  return list;
}

static int tell(const session *s, const char *kind, const tsr_program *program, const line_cost *lines, double here)
{
  const int32_t n = tsr_program_line_count(program);
  const line_cost *all = &lines[n];
  double flops = 0;
  for (int32_t i = 0; i < n; i++) {
    flops += tsr_line_flops(tsr_program_describe(program), i);
  }
  if (s->options->as_json) {
    json_t *entry =
        json_pack("{s:s, s:f, s:i, s:i, s:f, s:f, s:f, s:o, s:f}", "kind", kind, "us", 1e6 * all->seconds, "kernels",
                  (int)all->kernels, "stages", (int)all->stages, "weight_bytes", all->weights, "other_bytes", all->rest,
                  "flops", flops, "bound_us", bounds_json(all), "submit_us", 1e6 * s->card.figures.submit_seconds);
    if (entry && here > 0) {
      json_object_set_new(entry, "measured_us", json_real(1e6 * here));
    }
    if (entry && !s->options->statistics) {
      json_object_set_new(entry, "lines", lines_json(program, lines));
    }
    return json_array_append_new(s->list, entry) == 0 ? TSR_EXIT_OK : tsr_cli_no_memory();
  }
  if (!s->options->statistics) {
    print_lines(program, lines);
  }
  print_sums(s, kind, all, flops, here);
  if (!s->options->statistics) {
    printf("\n");
  }
  return TSR_EXIT_OK;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* Predicts a program, and runs it with --run. *lines, of which the last one has the sums, is the caller's, after an
 * error too; *here: seconds that were measured; 0: none were. */
static int predict(const session *s, const tsr_program *program, line_cost **lines, double *here)
{
  *here = 0;
  *lines = calloc((size_t)tsr_program_line_count(program) + 1, sizeof **lines);
  tsr_status status = *lines ? find_costs(s, program, *lines) : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK && s->device) {
    status = time_here(s, program, here);
  }
  return tsr_cli_fail(status);
}

/* until [lines]: the part of the program's time that is over behind each. */
static void fill_until(const line_cost *lines, int32_t n, double *until)
{
  double sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += lines[i].seconds;
    until[i] = sum;
  }
  for (int32_t i = 0; i < n; i++) {
    until[i] = sum > 0 ? until[i] / sum : 1;
  }
}

/* A plan_many_pricer: what was measured, if anything was. */
static int price(const void *context, const tsr_program *program, double *seconds, double *arena, double *until)
{
  line_cost *lines;
  double here;
  const int code = predict(context, program, &lines, &here);
  if (code == TSR_EXIT_OK) {
    const line_cost *all = &lines[tsr_program_line_count(program)];
    *seconds = here > 0 ? here : all->seconds;
    *arena = all->arena;
    if (until) {
      fill_until(lines, tsr_program_line_count(program), until);
    }
  }
  free(lines);
  return code;
}

/* Predicts one program, and destroys it. */
static int show(const session *s, const char *kind, tsr_program *program)
{
  line_cost *lines;
  double here;
  int code = predict(s, program, &lines, &here);
  if (code == TSR_EXIT_OK) {
    code = tell(s, kind, program, lines, here);
  }
  free(lines);
  tsr_program_destroy(program);
  return code;
}

/* The type in which such a device keeps keys and values. */
static tsr_dtype states_of(const session *s)
{
  const tsr_dtype weights = s->options->kinds.weights;
  const int is_half = weights == TSR_F16 || weights == TSR_BF16;
  return is_half && s->card.described.f16_storage && !s->card.figures.one_by_one ? weights : TSR_F32;
}

static int show_kind(const session *s, int32_t kind)
{
  const tsr_cli_kinds *kinds = &s->options->kinds;
  tsr_program *program = NULL;
  const int code =
      tsr_cli_fail(tsr_model_program_with_states(s->model, kinds->weights, states_of(s), kind, &kinds->size, &program));
  return code == TSR_EXIT_OK ? show(s, tsr_cli_kind_name(kind), program) : code;
}

static tsr_training_options training_of(const request *r)
{
  return (tsr_training_options){TSR_SIZED(tsr_training_options),
                                .dropout = (float)r->dropout,
                                .attention_dropout = (float)r->dropout,
                                .activation_dropout = (float)r->dropout,
                                .max_norm = 1.0f,
                                .recompute = r->recompute,
                                .products = r->kinds.weights};
}

static int show_training(const session *s)
{
  const request *r = s->options;
  const tsr_training_options options = training_of(r);
  tsr_program *program = NULL;
  const int code = tsr_cli_fail(tsr_training_program(s->model, &options, TSR_STEP_UPDATE, &r->kinds.size, &program));
  return code == TSR_EXIT_OK ? show(s, "train", program) : code;
}

static int show_product(const session *s)
{
  const request *r = s->options;
  const tsr_dtype weights = r->kinds.weights ? r->kinds.weights : TSR_F32;
  tsr_program *program = NULL;
  const int code = tsr_cli_fail(plan_product(r->extent[0], r->extent[1], r->extent[2], weights, 1, &program));
  return code == TSR_EXIT_OK ? show(s, "product", program) : code;
}

static int show_model(const session *s)
{
  const request *r = s->options;
  const int chosen = r->kinds.chosen != 0 || r->is_training;
  int code = TSR_EXIT_OK;
  int32_t kind = chosen && r->kinds.chosen == 0 ? 0 : tsr_cli_kinds_next(&r->kinds, s->model, 0);
  for (; kind != 0 && code == TSR_EXIT_OK; kind = tsr_cli_kinds_next(&r->kinds, s->model, kind)) {
    code = show_kind(s, kind);
  }
  return code == TSR_EXIT_OK && (r->is_training || !chosen) ? show_training(s) : code;
}

static int wants_many(const request *r)
{
  return r->many.sentences > 0 || r->many.tokens > 0;
}

/* Processes that run at once on a machine's processors share its last cache. */
static void share_cache(session *s)
{
  const plan_many_options *o = &s->options->many;
  plan_figures *f = &s->card.figures;
  const int32_t ranks = o->ranks > 0 && o->ranks < o->devices ? o->ranks : o->devices;
  f->l2_bytes /= f->one_by_one ? ranks : 1;
}

static int show_many(const session *s)
{
  const request *r = s->options;
  const tsr_training_options training = training_of(r);
  const plan_many many = {.options = &r->many,
                          .model = s->model,
                          .folder = r->folder,
                          .card = &s->card,
                          .kinds = &r->kinds,
                          .states = states_of(s),
                          .training = &training,
                          .as_json = r->as_json,
                          .price = price,
                          .context = s};
  return plan_many_tell(&many);
}

static int print_list(const session *s)
{
  const request *r = s->options;
  json_t *root = json_pack("{s:s, s:s, s:O}", "device", s->card.name, "backend", s->card.backend, "programs", s->list);
  if (root && r->folder) {
    json_object_set_new(root, "model", tsr_cli_json_text(r->folder, strlen(r->folder)));
  }
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

static int show_programs(const session *s)
{
  const int code = s->options->product ? show_product(s) : show_model(s);
  return code == TSR_EXIT_OK && s->options->as_json ? print_list(s) : code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int open_session(const request *r, session *s)
{
  int code = r->card ? plan_card_read(r->card, &s->card) : TSR_EXIT_OK;
  if (code == TSR_EXIT_OK && r->folder) {
    code = tsr_cli_fail_input(tsr_model_open(r->folder, &s->model));
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&s->runtime);
  }
  const char *device = r->measured ? r->measured : r->run;
  if (code == TSR_EXIT_OK && device) {
    code = tsr_cli_device(s->runtime, device, &s->device);
  }
  if (code == TSR_EXIT_OK && r->run && r->folder) {
    const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = r->kinds.weights};
    code = tsr_cli_fail(tsr_transformer_create(s->model, s->device, &options, &s->transformer));
  }
  return code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  session s = {.options = r, .list = json_array()};
  plan_time_by_processor(r->by_processor);
  int code = open_session(r, &s);
  if (code == TSR_EXIT_OK && r->measured) {
    code = plan_measure(s.runtime, s.device, &s.card);
    if (code == TSR_EXIT_OK) {
      code = tsr_cli_json_print(plan_card_json(&s.card, "measured: tessera plan --measure"),
                                JSON_INDENT(2) | JSON_REAL_PRECISION(4));
    }
  } else if (code == TSR_EXIT_OK) {
    if (wants_many(r)) {
      share_cache(&s);
      code = show_many(&s);
    } else {
      code = show_programs(&s);
    }
  }
  json_decref(s.list);
  tsr_transformer_destroy(s.transformer);
  tsr_model_close(s.model);
  tsr_device_close(s.device);
  tsr_runtime_destroy(s.runtime);
  return code;
}

/* "4096x4096x4096" */
static int read_product(request *r)
{
  const char *text = r->product;
  for (int i = 0; i < 3; i++) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || value < 1 || value > 1 << 20 || *end != (i < 2 ? 'x' : '\0')) {
      return tsr_cli_usage("plan", "--product: '%s' is not MxNxK, three whole numbers from 1 to 1048576", r->product);
    }
    r->extent[i] = (int32_t)value;
    text = end + 1;
  }
  return TSR_EXIT_OK;
}

/* A step of training is a choice, too, behind the others. */
static int check(void *opaque)
{
  request *r = opaque;
  const unsigned bit = 1u << (TSR_PROGRAM_SCORE + 1);
  r->is_training = (r->kinds.chosen & bit) != 0;
  r->kinds.chosen &= ~bit;
  const int code = plan_many_check(&r->many);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (r->measured) {
    return r->folder || r->card || r->run || r->product || wants_many(r)
               ? tsr_cli_usage("plan", "--measure takes no model, and none of --device-json, --run, --product, "
                                       "--sentences and --tokens")
               : TSR_EXIT_OK;
  }
  if (!r->card) {
    return tsr_cli_usage("plan", "--device-json is needed: a file that describes a device, or a name such as h100");
  }
  if (r->product) {
    return r->folder || wants_many(r)
               ? tsr_cli_usage("plan", "--product takes no model, no --sentences and no --tokens")
               : read_product(r);
  }
  return r->folder ? TSR_EXIT_OK : tsr_cli_usage("plan", "one model's folder is needed");
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_choice kinds[] = {TSR_CLI_KIND_CHOICES, {"train"}, {NULL}};

static const tsr_option rows[] = {
    {"device-json", "FILE", TSR_OPTION_FILE, FIELD(card),
     .help = "a description of the device: a file, or the name of one that is installed, such as h100"},
    {"kind", "K", TSR_OPTION_SET, FIELD(kinds.chosen), TSR_PROGRAM_ENCODE, .choices = kinds,
     .help = "the programs of this kind", .otherwise = "all"},
    {.table = &tsr_cli_kind_options, .offset = offsetof(request, kinds)},
    {"dropout", "R", TSR_OPTION_NUMBER, FIELD(dropout), 0, 0.999, .help = "rate of all dropouts in training",
     .preset = "0.1"},
    {"recompute", NULL, TSR_OPTION_FLAG, FIELD(recompute), .low = 1,
     .help = "in training, compute once more what is within a layer, instead of keeping it"},
    {"product", "MxNxK", TSR_OPTION_TEXT, FIELD(product),
     .help = "instead of a model, a product of M rows by a matrix of N columns and depth K, of the type that "
             "--precision says (f32)"},
    {"run", "D", TSR_OPTION_DEVICE, FIELD(run),
     .help = "run each program on device D, too, with random input, and print the least time that it took"},
    {"measure", "D", TSR_OPTION_DEVICE, FIELD(measured),
     .help = "instead of a prediction, measure device D, and print its description"},
    {"processor-time", NULL, TSR_OPTION_FLAG, FIELD(by_processor), .low = 1,
     .help = "with --run and --measure: count processor time instead of the clock's, for a device that has one thread "
             "(TESSERA_THREADS, or LP_NUM_THREADS of Mesa's CPU driver) of a busy machine"},
    {"statistics", NULL, TSR_OPTION_FLAG, FIELD(statistics), .low = 1, .help = "print only the sums, no listing"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print the predictions as one JSON object"},
    {.table = &plan_many_table, .offset = offsetof(request, many)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder), .optional = 1}, {NULL}};

const tsr_command tsr_command_plan = {
    .name = "plan",
    .summary = "predict the speed of a model on a device that need not be here",
    .usage = "MODEL --device-json FILE [OPTION]...\n"
             "MODEL --device-json FILE --sentences N|--tokens N [--machines N,..] [OPTION]...\n"
             "--product MxNxK --device-json FILE [OPTION]...\n"
             "--measure D",
    .intro =
        "Predicts how long a model's programs take on a device that a JSON file describes by a few figures: "
        "bandwidths, operations a second, latencies, and the properties by which the backend chooses its kernels. For "
        "each line of a program it prints the time and what bounds it: memory, the last cache (l2), operations, the "
        "latency of stages, or too few workgroups. Weights are not needed, unless --run is given.\n"
        "\n"
        "The times are those of a program at full capacity, run again and again. The backend has to start on this "
        "machine (for vulkan, any driver will do).\n"
        "\n"
        "--measure takes some seconds. It cannot find out how many processors a GPU has.",
    .options = &options,
    .operands = operands,
    .takes = "one model",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
