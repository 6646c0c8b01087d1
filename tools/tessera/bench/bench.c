/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench: the speed of a model, configurations and devices taking turns.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/transformer.h"
#include "tools/random/random_model.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

enum { MAX_CONFIGURATIONS = 64 };

static const tsr_choice whats[] = {
    [BENCH_GENERATE] = {"generate", "whole translations"},
    [BENCH_ENCODE] = {"encode", "the encoder, with the keys and values that decoding attends to"},
    [BENCH_DECODE] = {"decode", "all positions at once: teacher forcing"},
    {NULL},
};

typedef struct request {
  const char *model;
  int transformer_base;
  tsr_names devices;
  tsr_integers what;
  tsr_integers batches;
  tsr_integers beams;
  tsr_integers precisions;
  tsr_integers threads;
  tsr_integers workers;
  int32_t sentences; /* 0: the batch */
  int32_t source;
  int hears; /* 1: a model of speech, whose windows have `source` positions */
  int32_t target;
  int32_t repeat;
  int profile;
  int as_json;
} request;

/* One configuration and what was measured. */
typedef struct subject {
  bench_model_task task;
  bench_model_sample last;
  double *rates;   /* [repeat] tokens per second; */
  double *encodes; /* [repeat] seconds of one run of the encoder */
  double *steps;   /* [repeat] seconds of a step */
  bench_model_profile profile;
} subject;

typedef struct session {
  const request *options;
  char folder[BENCH_PATH]; /* of the random model, or "" */
  subject *subjects;       /* [n] */
  int32_t n;
  double *numbers; /* of all subjects */
  bench_crew crew;
} session;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  request *options = opaque;
  bench_choose_device(&options->devices);
  return !options->model == !options->transformer_base
             ? tsr_cli_usage("bench", "one of --model FOLDER and --transformer-base is needed")
             : TSR_EXIT_OK;
}

/* ---- the configurations ------------------------------------------------------------------------------------------ */

/* Combination `index` of all lists. Returns 0 if it is to be left out: only generate has a beam and workers. */
static int make_task(const session *s, int32_t index, bench_model_task *task)
{
  const request *options = s->options;
  const int32_t worker = index % options->workers.n;
  index /= options->workers.n;
  const int32_t beam = index % options->beams.n;
  index /= options->beams.n;
  const int32_t batch = index % options->batches.n;
  index /= options->batches.n;
  const int32_t threads = index % options->threads.n;
  index /= options->threads.n;
  const int32_t precision = index % options->precisions.n;
  index /= options->precisions.n;
  const int32_t device = index % options->devices.n;
  *task = (bench_model_task){.what = options->what.values[index / options->devices.n],
                             .precision = options->precisions.values[precision],
                             .threads = options->threads.values[threads],
                             .batch = options->batches.values[batch],
                             .beam = options->beams.values[beam],
                             .workers = options->workers.values[worker],
                             .source = options->source,
                             .target = options->target};
  bench_give(task->folder, sizeof task->folder, options->model);
  bench_give(task->device, sizeof task->device, options->devices.values[device]);
  task->sentences = options->sentences ? options->sentences : task->batch;
  if (task->what != BENCH_GENERATE) {
    task->beam = task->workers = 0;
    task->sentences = task->batch;
  }
  return task->what == BENCH_GENERATE || (beam == 0 && worker == 0);
}

static int make_subjects(session *s)
{
  const request *options = s->options;
  int64_t combinations = (int64_t)options->what.n * options->devices.n * options->precisions.n * options->threads.n *
                         options->batches.n * options->beams.n * options->workers.n;
  if (combinations > MAX_CONFIGURATIONS) {
    return tsr_cli_usage("bench", "%lld configurations at once; at most %d", (long long)combinations,
                         (int)MAX_CONFIGURATIONS);
  }
  size_t repeat = (size_t)options->repeat;
  s->subjects = calloc((size_t)combinations, sizeof *s->subjects);
  s->numbers = calloc((size_t)combinations * 3 * repeat, sizeof *s->numbers);
  if (!s->subjects || !s->numbers) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < combinations; i++) {
    subject *one = &s->subjects[s->n];
    if (make_task(s, i, &one->task)) {
      one->rates = s->numbers + 3 * repeat * (size_t)s->n;
      one->encodes = one->rates + repeat;
      one->steps = one->encodes + repeat;
      s->n++;
    }
  }
  return TSR_EXIT_OK;
}

/* ---- the random model -------------------------------------------------------------------------------------------- */

static int write_random_model(session *s)
{
  int32_t longest = s->options->source > s->options->target ? s->options->source : s->options->target;
  const random_model base = {.relu = 1,
                             .d_model = 512,
                             .heads = 8,
                             .d_ff = 2048,
                             .layers = 6,
                             .vocabulary = 37000,
                             .positions = longest < 512 ? 512 : longest + 1,
                             .seed = 1};
  int code = bench_make_folder(s->folder, sizeof s->folder);
  return code == TSR_EXIT_OK ? tsr_cli_fail(random_model_create(s->folder, &base)) : code;
}

/* The processes that opened the model keep it; on some systems it cannot be removed before their end. */
static void remove_random_model(session *s)
{
  if (s->folder[0] && path_remove_all(s->folder) == 0) {
    s->folder[0] = '\0';
  }
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int measure_all(session *s)
{
  int code = bench_crew_init(&s->crew, s->n);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    subject *one = &s->subjects[i];
    if (s->folder[0]) {
      memcpy(one->task.folder, s->folder, sizeof one->task.folder);
    }
    code = bench_crew_start(&s->crew, BENCH_MODEL, &one->task);
    if (code == TSR_EXIT_OK) {
      code = bench_crew_ask(&s->crew, i, BENCH_RUN, &one->last, sizeof one->last);
    }
  }
  remove_random_model(s);
  for (int32_t r = 0; r < s->options->repeat; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      subject *one = &s->subjects[i];
      code = bench_crew_ask(&s->crew, i, BENCH_RUN, &one->last, sizeof one->last);
      one->rates[r] = one->last.tokens / one->last.seconds;
      one->encodes[r] = one->last.encode_seconds;
      one->steps[r] = one->last.step_seconds;
    }
  }
  for (int32_t i = 0; i < s->n && s->options->profile && code == TSR_EXIT_OK; i++) {
    subject *one = &s->subjects[i];
    code = bench_crew_ask(&s->crew, i, BENCH_PROFILE, &one->profile, sizeof one->profile);
  }
  bench_crew_finish(&s->crew);
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

/* Seconds of products, of attention, and of everything else. */
typedef struct shares {
  double products;
  double attention;
  double other;
} shares;

static shares sum_shares(const bench_model_profile *profile)
{
  shares sum = {0};
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    double *to = op == TSR_OP_MATMUL ? &sum.products : op == TSR_OP_ATTENTION ? &sum.attention : &sum.other;
    *to += profile->seconds[op];
  }
  sum.products += profile->fused;
  sum.other -= profile->fused;
  return sum;
}

static json_t *profile_json(const bench_model_profile *profile)
{
  shares sum = sum_shares(profile);
  double total = sum.products + sum.attention + sum.other;
  json_t *operators = json_object();
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (profile->lines[op] > 0) {
      json_object_set_new(operators, tsr_op_describe(op)->name, json_real(1e6 * profile->seconds[op]));
    }
  }
  return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "microseconds", 1e6 * total, "products", 1e6 * sum.products,
                   "fused", 1e6 * profile->fused, "attention", 1e6 * sum.attention, "other", 1e6 * sum.other,
                   "other_percent", total > 0.0 ? 100.0 * sum.other / total : 0.0, "operators", operators);
}

static int print_json(const session *s, subject *one)
{
  const bench_model_task *task = &one->task;
  bench_summary rate = bench_summarise(one->rates, s->options->repeat);
  json_t *root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:I}", "what",
                           whats[task->what].name, "precision", tsr_cli_precision_name(task->precision), "threads",
                           (int)task->threads, "batch", (int)task->batch, "beam", (int)task->beam, "workers",
                           (int)one->last.workers, "sentences", (int)task->sentences, "source", (int)task->source,
                           "target", (int)task->target, "repeat", (int)s->options->repeat, "tokens_per_second",
                           bench_summary_json(&rate, 1.0), "peak_memory", (json_int_t)one->last.peak_memory);
  if (root && task->what == BENCH_GENERATE) {
    bench_summary encode = bench_summarise(one->encodes, s->options->repeat);
    bench_summary step = bench_summarise(one->steps, s->options->repeat);
    json_object_set_new(root, "encode_ms", bench_summary_json(&encode, 1e3));
    json_object_set_new(root, "step_ms", bench_summary_json(&step, 1e3));
  }
  if (root && s->options->profile) {
    json_object_set_new(root, "profile", profile_json(&one->profile));
  }
  if (root) {
    const char *model = s->options->model ? s->options->model : "transformer-base";
    json_object_set_new(root, "model", tsr_cli_json_text(model, strlen(model)));
  }
  return tsr_cli_json_print(bench_device_json(root, &one->last.device), JSON_REAL_PRECISION(6));
}

static void add_row(const session *s, subject *one, tsr_cli_table *table)
{
  const bench_model_task *task = &one->task;
  bench_summary rate = bench_summarise(one->rates, s->options->repeat);
  char text[32];
  tsr_cli_table_cell(table, "%s", one->last.device.device);
  tsr_cli_table_cell(table, "%s", whats[task->what].name);
  tsr_cli_table_cell(table, "%s", tsr_cli_precision_name(task->precision));
  bench_count_cell(table, task->threads);
  tsr_cli_table_cell(table, "%d", (int)task->batch);
  bench_count_cell(table, task->beam);
  bench_count_cell(table, one->last.workers);
  tsr_cli_table_cell(table, "%.1f", rate.median);
  tsr_cli_table_cell(table, "%.1f", rate.least);
  tsr_cli_table_cell(table, "%.1f", rate.most);
  if (task->what == BENCH_GENERATE) {
    tsr_cli_table_cell(table, "%.3f", 1e3 * bench_summarise(one->encodes, s->options->repeat).median);
    tsr_cli_table_cell(table, "%.3f", 1e3 * bench_summarise(one->steps, s->options->repeat).median);
  } else {
    tsr_cli_table_cell(table, "-");
    tsr_cli_table_cell(table, "-");
  }
  tsr_cli_table_cell(table, "%s", tsr_cli_bytes((uint64_t)one->last.peak_memory, text));
}

static int print_table(const session *s)
{
  static const char *const columns[] = {"device",    "what",    "precision",  "threads", "batch",
                                        "beam",      "workers", "tokens/s",   "min",     "max",
                                        "encode ms", "step ms", "peak memory"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  tsr_cli_table table;
  tsr_cli_table_begin(&table, columns, COLUMNS, 0x1ff8);
  for (int32_t i = 0; i < s->n; i++) {
    add_row(s, &s->subjects[i], &table);
  }
  int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

static void print_profile(const subject *one)
{
  const bench_model_task *task = &one->task;
  shares sum = sum_shares(&one->profile);
  double total = sum.products + sum.attention + sum.other;
  double percent = total > 0.0 ? 100.0 / total : 0.0;
  printf("\n%s, %s, ", one->last.device.device, tsr_cli_precision_name(task->precision));
  if (task->threads > 0) {
    printf("%d thread%s, ", (int)task->threads, task->threads == 1 ? "" : "s");
  }
  printf("batch %d, %s", (int)task->batch, task->what == BENCH_GENERATE ? "one step" : whats[task->what].name);
  if (task->what == BENCH_GENERATE) {
    printf(" of beam %d", (int)task->beam);
  }
  printf(": %.1f us\n  outside products and attention: %.1f %% (products %.1f %%, attention %.1f %%)\n", 1e6 * total,
         percent * sum.other, percent * sum.products, percent * sum.attention);
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (one->profile.lines[op] > 0) {
      printf("  %-12s %4d lines %10.1f us %5.1f %%\n", tsr_op_describe(op)->name, (int)one->profile.lines[op],
             1e6 * one->profile.seconds[op], percent * one->profile.seconds[op]);
    }
  }
  if (one->profile.fused > 0.0) {
    printf("  of which %.1f us in lines of other operators that include a product, counted as products\n",
           1e6 * one->profile.fused);
  }
}

static int tell(const session *s)
{
  int code = TSR_EXIT_OK;
  if (!s->options->as_json) {
    printf("%d %s, %d target tokens, %d samples each\n", (int)s->options->source,
           s->options->hears ? "positions of a window" : "source tokens", (int)s->options->target,
           (int)s->options->repeat);
    code = print_table(s);
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    if (s->options->as_json) {
      code = print_json(s, &s->subjects[i]);
    } else if (s->options->profile) {
      print_profile(&s->subjects[i]);
    }
  }
  return code;
}

/* A model of speech has sources of one length. */
static int find_windows(request *options)
{
  tsr_model *model = NULL;
  if (!options->model) {
    return TSR_EXIT_OK;
  }
  const int code = tsr_cli_fail_input(tsr_model_open(options->model, &model));
  if (code == TSR_EXIT_OK && tsr_model_config(model)->mels > 0) {
    options->hears = 1;
    options->source = tsr_model_config(model)->source_positions;
  }
  tsr_model_close(model);
  return code;
}

static int run(void *opaque)
{
  request *options = opaque;
  session s = {.options = options};
  int code = find_windows(options);
  if (code == TSR_EXIT_OK) {
    code = make_subjects(&s);
  }
  if (code == TSR_EXIT_OK && options->transformer_base) {
    code = write_random_model(&s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_all(&s);
  }
  remove_random_model(&s);
  if (code == TSR_EXIT_OK) {
    code = tell(&s);
  }
  free(s.subjects);
  free(s.numbers);
  return code;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(model), .help = "the model: config.json and model.safetensors"},
    {"transformer-base", NULL, TSR_OPTION_FLAG, FIELD(transformer_base), .low = 1,
     .help = "instead of a folder: random weights, 6+6 layers, d_model 512, d_ff 2048, 8 heads, a shared vocabulary of "
             "37,000, as in Vaswani et al. 2017"},
    BENCH_DEVICES(request),
    {"what", "W,..", TSR_OPTION_CHOICE, FIELD(what), .choices = whats, .is_list = 1, .help = "what to measure",
     .preset = "generate"},
    {"batch", "N,..", TSR_OPTION_INTEGER, FIELD(batches), 1, 4096, .is_list = 1, .help = "sentences at once",
     .preset = "1"},
    {"beam", "N,..", TSR_OPTION_INTEGER, FIELD(beams), 1, 64, .is_list = 1,
     .help = "hypotheses of generate; 1 is greedy search", .preset = "1"},
    {"sentences", "N", TSR_OPTION_INTEGER, FIELD(sentences), 1, 1 << 20,
     .help = "sentences that one call of generate gets", .otherwise = "as many as the batch"},
    {"workers", "N,..", TSR_OPTION_INTEGER, FIELD(workers), 1, 1024, .is_list = 1,
     .help = "batches that generate computes side by side, each on a thread",
     .otherwise = "as the library decides; the table tells what it chose"},
    BENCH_PRECISIONS(request, .help = "storage of the matrices: f32, f16, bf16, int8, int4",
                     .otherwise = "as in the model's file"),
    BENCH_THREADS(request, .help = "threads of the device, as TESSERA_THREADS", .otherwise = "as it decides"),
    {"source", "N", TSR_OPTION_INTEGER, FIELD(source), 1, 1 << 16,
     .help = "tokens of a source; a model of speech has windows of its own length", .preset = "25"},
    {"target", "N", TSR_OPTION_INTEGER, FIELD(target), 1, 1 << 16,
     .help = "tokens of a target, all of which are generated", .preset = "25"},
    BENCH_REPEAT(request, "5",
                 .help = "samples of each, after one to warm up; a sample is the mean over rounds of at least 0.1 s "
                         "together"),
    {"profile", NULL, TSR_OPTION_FLAG, FIELD(profile), .low = 1,
     .help =
         "then time the operators of one decoding step (or of the program), and print the part outside products and "
         "attention"},
    BENCH_JSON(request, "print one JSON object a line"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_command *const commands[] = {&bench_ops,   &bench_machine, &bench_translate, &bench_load, &bench_start,
                                              &bench_train, &bench_compare, &bench_worker,    NULL};
static const request initial = {.precisions = {.n = 1}, .threads = {.n = 1}, .workers = {.n = 1}};

const tsr_command tsr_command_bench = {
    .name = "bench",
    .summary = "measure speed: of a model, of the machine, of translating from start to end",
    .usage = "--model FOLDER [OPTION]...\n"
             "--transformer-base [OPTION]...",
    .intro = "The first two forms measure a model on sentences of fixed lengths. The others have a help text each. "
             "They measure operators; the machine itself; the program from outside, to its end or to its first token; "
             "and training steps; or they compare two files that --json wrote.\n"
             "\n"
             "Lists such as 1,32 stand for several configurations; every combination is measured. Each configuration "
             "has a process of its own, which stays until the end, and the processes take turns. So all of them hold "
             "the model's weights at the same time.",
    .options = &options,
    .notes = "Tokens per second count the tokens that are generated (generate), read (encode) or given (decode).",
    .commands = commands,
    .session_size = sizeof(request),
    .initial = &initial,
    .check = check,
    .run = run,
};
