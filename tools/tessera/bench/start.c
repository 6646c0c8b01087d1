/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench start: from the start of the process to the first token, with and without what an earlier run compiled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

enum { PATH_ROOM = 4096, COLD = 0, WARM = 1 };

static const char *const state_names[] = {"cold", "warm"};

typedef struct request {
  const char *model;
  const char *file;
  tsr_names devices;
  tsr_integers precisions;
  int32_t repeat;
  int as_json;
} request;

typedef struct subject {
  const char *device;
  tsr_dtype precision;
  bench_device_text text;
  double seconds[2][BENCH_REPEATS]; /* to the first token, cold and warm */
} subject;

typedef struct session {
  const request *options;
  char line[PATH_ROOM];  /* a file that holds the first line, or "" */
  char cache[PATH_ROOM]; /* what is compiled; not there, or "" */
  subject *subjects;     /* [n] */
  int32_t n;
} session;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  request *options = opaque;
  bench_choose_device(&options->devices);
  return options->model ? TSR_EXIT_OK : tsr_cli_usage("bench", "%s", bench_missing_file);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* The folder that an earlier call made, with all in it, makes room for a new one. */
static int renew_cache(session *s)
{
  const int failed = s->cache[0] ? path_remove_all(s->cache) : 0;
  if (failed) {
    tsr_cli_error("bench: %s: %s", s->cache, strerror(failed));
    return TSR_EXIT_INPUT;
  }
  return bench_make_folder(s->cache, sizeof s->cache);
}

static void remove_cache(session *s)
{
  if (s->cache[0]) {
    path_remove_all(s->cache);
  }
}

static int run_one(const session *s, const subject *one, double *seconds)
{
  bench_command command = {.cache = s->cache};
  bench_outcome outcome;
  bench_add_words(&command, "tessera", "translate");
  bench_add_words(&command, "--model", s->options->model);
  bench_add_words(&command, "--device", one->text.device);
  bench_add_words(&command, "--beam", "1");
  bench_add_words(&command, "--max-new-tokens", "1");
  if (one->precision) {
    bench_add_words(&command, "--precision", tsr_cli_precision_name(one->precision));
  }
  bench_add_words(&command, s->line, NULL);
  int code = bench_run(&command, &outcome);
  *seconds = outcome.first;
  if (code == TSR_EXIT_OK && outcome.lines != 1) {
    tsr_cli_error("bench: one line became %lld", (long long)outcome.lines);
    code = TSR_EXIT_INTERNAL;
  }
  return code;
}

static int make_subjects(session *s)
{
  const request *options = s->options;
  int code = TSR_EXIT_OK;
  s->subjects = calloc((size_t)options->devices.n * (size_t)options->precisions.n, sizeof *s->subjects);
  if (!s->subjects) {
    return tsr_cli_no_memory();
  }
  for (int32_t d = 0; d < options->devices.n; d++) {
    for (int32_t p = 0; p < options->precisions.n && code == TSR_EXIT_OK; p++) {
      subject *one = &s->subjects[s->n++];
      one->device = options->devices.values[d];
      one->precision = options->precisions.values[p];
      code = bench_describe_device(one->device, 0, &one->text);
    }
  }
  return code;
}

static int measure_all(session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t r = 0; r < s->options->repeat; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      subject *one = &s->subjects[i];
      code = renew_cache(s);
      for (int32_t state = COLD; state <= WARM && code == TSR_EXIT_OK; state++) {
        code = run_one(s, one, &one->seconds[state][r]);
      }
    }
  }
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int tell_one(const session *s, subject *one, int32_t state, tsr_cli_table *table)
{
  bench_summary first = bench_summarise(one->seconds[state], s->options->repeat);
  const char *precision = tsr_cli_precision_name(one->precision);
  if (s->options->as_json) {
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:i, s:o}", "what", "start", "cache", state_names[state], "precision", precision,
                  "repeat", (int)s->options->repeat, "first_token_ms", bench_summary_json(&first, 1e3));
    if (root) {
      json_object_set_new(root, "model", tsr_cli_json_text(s->options->model, strlen(s->options->model)));
    }
    return tsr_cli_json_print(bench_device_json(root, &one->text), JSON_REAL_PRECISION(6));
  }
  tsr_cli_table_cell(table, "%s", one->text.device);
  tsr_cli_table_cell(table, "%s", precision);
  tsr_cli_table_cell(table, "%s", state_names[state]);
  tsr_cli_table_cell(table, "%.1f", 1e3 * first.median);
  tsr_cli_table_cell(table, "%.1f", 1e3 * first.least);
  tsr_cli_table_cell(table, "%.1f", 1e3 * first.most);
  return TSR_EXIT_OK;
}

static int tell(const session *s)
{
  static const char *const columns[] = {"device", "precision", "cache", "first token ms", "min", "max"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  tsr_cli_table table;
  int code = TSR_EXIT_OK;
  tsr_cli_table_begin(&table, columns, COLUMNS, 0x38);
  for (int32_t i = 0; i < s->n; i++) {
    for (int32_t state = COLD; state <= WARM && code == TSR_EXIT_OK; state++) {
      code = tell_one(s, &s->subjects[i], state, &table);
    }
  }
  if (code == TSR_EXIT_OK && !s->options->as_json) {
    code = tsr_cli_table_print(&table, stdout);
  }
  tsr_cli_table_finish(&table);
  return code;
}

static int run(void *opaque)
{
  const request *options = opaque;
  session s = {.options = options};
  int64_t sentences;
  int code = bench_first_line(options->file, s.line, sizeof s.line, &sentences);
  if (code == TSR_EXIT_OK) {
    code = make_subjects(&s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_all(&s);
  }
  remove_cache(&s);
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
    BENCH_PRECISIONS(request, .help = "type of the weights: f32, f16, bf16, int8, int4",
                     .otherwise = "as in the model's file"),
    BENCH_REPEAT(request, "5", .help = "samples of each"),
    BENCH_JSON(request, "print one JSON object a line"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"FILE", TSR_OPTION_FILE, offsetof(request, file)}, {NULL}};
static const request initial = {.precisions = {.n = 1}};

const tsr_command bench_start = {
    .name = "start",
    .parent = "bench",
    .usage = "--model FOLDER [OPTION]... FILE",
    .intro =
        "Runs `tessera translate` on the first line of FILE as a process of its own, for one token, and measures from "
        "outside how long that token takes, including opening the device, reading the model and compiling. Cold: the "
        "Vulkan backend and Mesa's drivers have a new and empty folder for compiled kernels (XDG_CACHE_HOME, "
        "MESA_SHADER_CACHE_DIR). Warm: they have the folder of the cold run. In both, files are in the system's cache.",
    .options = &options,
    .operands = operands,
    .missing = bench_missing_file,
    .session_size = sizeof(request),
    .initial = &initial,
    .check = check,
    .run = run,
};
