/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench translate: the program itself from outside, from the start of the process to its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

enum { MAX_CONFIGURATIONS = 64 };

typedef struct request {
  const char *model;
  const char *file;
  tsr_names devices;
  tsr_integers beams;
  tsr_integers precisions;
  tsr_integers threads;
  int32_t batch; /* 0: the default */
  int32_t repeat;
  int as_json;
} request;

typedef struct subject {
  const char *device;
  int32_t beam;
  tsr_dtype precision;
  int32_t threads;
  bench_device_text text;
  double whole[BENCH_REPEATS]; /* seconds */
  double first[BENCH_REPEATS]; /* seconds to the first sentence */
  int64_t peak_memory;         /* bytes, the most of any run */
} subject;

typedef struct session {
  const request *options;
  char line[4096]; /* a file that holds the first line, or "" */
  int64_t sentences;
  subject *subjects; /* [n] */
  int32_t n;
} session;

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* The words of a command that are made. */
typedef struct numbers {
  char beam[BENCH_NUMBER];
  char batch[BENCH_NUMBER];
} numbers;

static void make_command(const session *s, const subject *one, const char *file, bench_command *c, numbers *n)
{
  const request *options = s->options;
  *c = (bench_command){.threads = one->threads};
  bench_add_words(c, "tessera", "translate");
  bench_add_words(c, "--model", options->model);
  snprintf(n->beam, sizeof n->beam, "%d", (int)one->beam);
  bench_add_words(c, "--beam", n->beam);
  if (one->device) {
    bench_add_words(c, "--device", one->device);
  }
  if (one->precision) {
    bench_add_words(c, "--precision", tsr_cli_precision_name(one->precision));
  }
  if (options->batch) {
    snprintf(n->batch, sizeof n->batch, "%d", (int)options->batch);
    bench_add_words(c, "--batch", n->batch);
  }
  bench_add_words(c, file, NULL);
}

static int translate(const session *s, const subject *one, const char *file, int64_t sentences, bench_outcome *result)
{
  bench_command command;
  numbers made;
  make_command(s, one, file, &command, &made);
  int code = bench_run(&command, result);
  if (code == TSR_EXIT_OK && result->lines != sentences) {
    tsr_cli_error("bench: %lld lines became %lld", (long long)sentences, (long long)result->lines);
    code = TSR_EXIT_INTERNAL;
  }
  return code;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  request *options = opaque;
  bench_choose_device(&options->devices);
  return options->model ? TSR_EXIT_OK : tsr_cli_usage("bench", "%s", bench_missing_file);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int make_subjects(session *s)
{
  const request *options = s->options;
  int64_t n = (int64_t)options->devices.n * options->precisions.n * options->threads.n * options->beams.n;
  if (n > MAX_CONFIGURATIONS) {
    return tsr_cli_usage("bench", "%lld configurations at once; at most %d", (long long)n, (int)MAX_CONFIGURATIONS);
  }
  s->subjects = calloc((size_t)n, sizeof *s->subjects);
  if (!s->subjects) {
    return tsr_cli_no_memory();
  }
  for (s->n = 0; s->n < n; s->n++) {
    int32_t rest = s->n / options->beams.n;
    subject *one = &s->subjects[s->n];
    one->beam = options->beams.values[s->n % options->beams.n];
    one->threads = options->threads.values[rest % options->threads.n];
    rest /= options->threads.n;
    one->precision = options->precisions.values[rest % options->precisions.n];
    one->device = options->devices.values[rest / options->precisions.n];
  }
  return TSR_EXIT_OK;
}

/* Run r of a configuration, -1 to warm up. */
static int measure_one(const session *s, subject *one, int32_t r)
{
  bench_outcome whole = {0}, first = {0};
  int code = translate(s, one, s->line, 1, &first);
  if (code == TSR_EXIT_OK) {
    code = translate(s, one, s->options->file, s->sentences, &whole);
  }
  if (r >= 0) {
    one->whole[r] = whole.whole;
    one->first[r] = first.first;
    one->peak_memory = whole.peak_memory > one->peak_memory ? whole.peak_memory : one->peak_memory;
  }
  return code;
}

static int measure_all(session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = bench_describe_device(s->subjects[i].device, s->subjects[i].threads, &s->subjects[i].text);
  }
  for (int32_t r = -1; r < s->options->repeat; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      code = measure_one(s, &s->subjects[i], r);
    }
  }
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int tell_one(const session *s, subject *one, tsr_cli_table *table)
{
  bench_summary whole = bench_summarise(one->whole, s->options->repeat);
  bench_summary first = bench_summarise(one->first, s->options->repeat);
  const char *precision = tsr_cli_precision_name(one->precision);
  char text[32];
  if (s->options->as_json) {
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:I, s:i, s:o, s:o, s:I}", "what", "translate", "precision", precision,
                  "threads", (int)one->threads, "beam", (int)one->beam, "sentences", (json_int_t)s->sentences, "repeat",
                  (int)s->options->repeat, "seconds", bench_summary_json(&whole, 1.0), "first_ms",
                  bench_summary_json(&first, 1e3), "peak_memory", (json_int_t)one->peak_memory);
    if (root) {
      json_object_set_new(root, "model", tsr_cli_json_text(s->options->model, strlen(s->options->model)));
    }
    return tsr_cli_json_print(bench_device_json(root, &one->text), JSON_REAL_PRECISION(6));
  }
  tsr_cli_table_cell(table, "%s", one->text.device);
  tsr_cli_table_cell(table, "%s", precision);
  bench_count_cell(table, one->threads);
  tsr_cli_table_cell(table, "%d", (int)one->beam);
  tsr_cli_table_cell(table, "%.3f", whole.median);
  tsr_cli_table_cell(table, "%.3f", whole.least);
  tsr_cli_table_cell(table, "%.3f", whole.most);
  tsr_cli_table_cell(table, "%.1f", (double)s->sentences / whole.median);
  tsr_cli_table_cell(table, "%.1f", 1e3 * first.median);
  tsr_cli_table_cell(table, "%s", tsr_cli_bytes((uint64_t)one->peak_memory, text));
  return TSR_EXIT_OK;
}

static int tell(const session *s)
{
  static const char *const columns[] = {"device", "precision", "threads",     "beam",     "seconds",
                                        "min",    "max",       "sentences/s", "first ms", "peak memory"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  tsr_cli_table table;
  int code = TSR_EXIT_OK;
  tsr_cli_table_begin(&table, columns, COLUMNS, 0x3fc);
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = tell_one(s, &s->subjects[i], &table);
  }
  if (code == TSR_EXIT_OK && !s->options->as_json) {
    printf("%lld sentences, from the start of the process to its end, %d runs each\n", (long long)s->sentences,
           (int)s->options->repeat);
    code = tsr_cli_table_print(&table, stdout);
  }
  tsr_cli_table_finish(&table);
  return code;
}

static int run(void *opaque)
{
  const request *options = opaque;
  session s = {.options = options};
  int code = bench_first_line(options->file, s.line, sizeof s.line, &s.sentences);
  if (code == TSR_EXIT_OK) {
    code = make_subjects(&s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_all(&s);
  }
  if (s.line[0]) {
    unlink(s.line);
  }
  if (code == TSR_EXIT_OK) {
    code = tell(&s);
  }
  free(s.subjects);
  return code;
}

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, TSR_FIELD(request, model), .help = "the model"},
    BENCH_DEVICES(request),
    {"beam", "N,..", TSR_OPTION_INTEGER, TSR_FIELD(request, beams), 1, 64, .is_list = 1,
     .help = "hypotheses of the search", .preset = "1,4"},
    BENCH_PRECISIONS(request, .help = "type of the weights: f32, f16, bf16, int8, int4",
                     .otherwise = "as in the model's file"),
    BENCH_THREADS(request, .help = "threads of the device, as TESSERA_THREADS", .otherwise = "as it decides"),
    {"batch", "N", TSR_OPTION_INTEGER, TSR_FIELD(request, batch), 1, 1024, .help = "sentences computed at once",
     .otherwise = "as in `tessera translate`"},
    BENCH_REPEAT(request, "5", .help = "runs of each, after one to warm up"),
    BENCH_JSON(request, "print one JSON object a line"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"FILE", TSR_OPTION_FILE, offsetof(request, file)}, {NULL}};
static const request initial = {.precisions = {.n = 1}, .threads = {.n = 1}};

const tsr_command bench_translate = {
    .name = "translate",
    .parent = "bench",
    .usage = "--model FOLDER [OPTION]... FILE",
    .intro = "Runs `tessera translate` on the sentences of FILE as a process of its own, and measures from outside the "
             "time from its start to its end, and its peak memory. With only the first line of FILE, it measures the "
             "time from the start to the translation.\n"
             "\n"
             "Lists such as 1,4 stand for several configurations; every combination is measured, and they take turns.",
    .options = &options,
    .operands = operands,
    .missing = bench_missing_file,
    .session_size = sizeof(request),
    .initial = &initial,
    .check = check,
    .run = run,
};
