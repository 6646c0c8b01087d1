/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench translate: the program itself from outside, from the start of the process to its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tessera/bench.h"

static const char help[] =
    "Usage: tessera bench translate --model FOLDER [OPTION]... FILE\n"
    "\n"
    "Runs `tessera translate` on the sentences of FILE as a process of its own, and measures it from\n"
    "outside: the time from its start to its end, its peak memory; and, with the first line of\n"
    "FILE alone, the time from its start to its first translated sentence.\n"
    "\n"
    "Lists such as 1,4 stand for several configurations; every combination is measured, in turns.\n"
    "\n"
    "  --model FOLDER    the model\n"
    "  --device D,..     where to compute (default: TESSERA_DEVICE, else auto); may be repeated\n"
    "  --beam N,..       hypotheses of the search (default 1,4)\n"
    "  --precision P,..  of the weights: f32, f16, bf16, int8 (default: as in the model's file)\n"
    "  --threads N,..    threads of the device, as TESSERA_THREADS (default: as it decides)\n"
    "  --batch N         sentences computed at once (default: as `tessera translate` has it)\n"
    "  --repeat R        runs of each, after one to warm up (default 5)\n"
    "  --json            print one JSON object a line\n"
    "  --help            print this text\n";

enum { MAX_CONFIGURATIONS = 64, MAX_ARGUMENTS = 24, NUMBER_ROOM = 16 };

typedef struct request {
  const char *model;
  const char *file;
  bench_names devices;
  bench_integers beams;
  bench_integers precisions;
  bench_integers threads;
  int32_t batch; /* 0: the default */
  int32_t repeat;
  int as_json;
} request;

typedef struct subject {
  const char *device;
  int32_t beam;
  tsr_dtype precision;
  int32_t threads;
  double whole[BENCH_REPEATS]; /* seconds */
  double first[BENCH_REPEATS]; /* seconds to the first sentence */
  int64_t peak_memory;         /* bytes, the most of any run */
} subject;

typedef struct session {
  const request *wish;
  char program[4096]; /* this one */
  char line[4096];    /* a file that holds the first line, or "" */
  int64_t sentences;
  subject *subjects; /* [n] */
  int32_t n;
} session;

/* What one run showed. */
typedef struct outcome {
  double whole;
  double first;
  int64_t peak_memory;
} outcome;

/* ---- one run ----------------------------------------------------------------------------------------------------- */

typedef struct command {
  const char *words[MAX_ARGUMENTS];
  int32_t n;
  char beam[NUMBER_ROOM];
  char batch[NUMBER_ROOM];
} command;

static void add_words(command *c, const char *option, const char *value)
{
  c->words[c->n++] = option;
  c->words[c->n++] = value;
}

static void make_command(const session *s, const subject *one, const char *file, command *c)
{
  const request *wish = s->wish;
  *c = (command){0};
  add_words(c, "tessera", "translate");
  add_words(c, "--model", wish->model);
  snprintf(c->beam, sizeof c->beam, "%d", (int)one->beam);
  add_words(c, "--beam", c->beam);
  if (one->device) {
    add_words(c, "--device", one->device);
  }
  if (one->precision) {
    add_words(c, "--precision", tsr_cli_precision_name(one->precision));
  }
  if (wish->batch) {
    snprintf(c->batch, sizeof c->batch, "%d", (int)wish->batch);
    add_words(c, "--batch", c->batch);
  }
  add_words(c, file, NULL);
}

/* In the new process. */
static void become(const session *s, const subject *one, const command *c, int output)
{
  if (bench_set_threads(one->threads) == TSR_EXIT_OK && dup2(output, STDOUT_FILENO) >= 0) {
    close(output);
    execv(s->program, (char *const *)c->words);
    tsr_cli_error("bench: %s: %s", s->program, strerror(errno));
  }
  _exit(TSR_EXIT_INTERNAL);
}

/* Reads to the end; *first is when the first line had ended. Returns the lines. */
static int64_t read_lines(int input, double *first)
{
  static char text[1 << 16];
  int64_t lines = 0;
  for (ssize_t got; (got = read(input, text, sizeof text)) > 0 || (got < 0 && errno == EINTR);) {
    for (ssize_t i = 0; i < got; i++) {
      if (text[i] == '\n' && lines++ == 0) {
        *first = tsr_cli_seconds();
      }
    }
  }
  return lines;
}

static int run_command(const session *s, const subject *one, const command *c, int64_t sentences, outcome *result)
{
  int ends[2], how = 0;
  struct rusage usage;
  if (pipe(ends) != 0) {
    tsr_cli_error("bench: pipe: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  fflush(NULL);
  double start = tsr_cli_seconds(), first = start;
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    become(s, one, c, ends[1]);
  }
  close(ends[1]);
  int64_t lines = pid > 0 ? read_lines(ends[0], &first) : 0;
  close(ends[0]);
  if (pid < 0 || wait4(pid, &how, 0, &usage) < 0) {
    tsr_cli_error("bench: a process could not be run: %s", strerror(errno));
    return TSR_EXIT_MEMORY;
  }
  *result = (outcome){
      .whole = tsr_cli_seconds() - start, .first = first - start, .peak_memory = (int64_t)usage.ru_maxrss * 1024};
  if (!WIFEXITED(how)) {
    tsr_cli_error("bench: the translation was ended by signal %d", WTERMSIG(how));
    return TSR_EXIT_INTERNAL;
  }
  if (WEXITSTATUS(how) == TSR_EXIT_OK && lines != sentences) {
    tsr_cli_error("bench: %lld lines became %lld", (long long)sentences, (long long)lines);
    return TSR_EXIT_INTERNAL;
  }
  return WEXITSTATUS(how);
}

/* ---- the input --------------------------------------------------------------------------------------------------- */

static int write_line(session *s, const tsr_cli_lines *lines)
{
  const char *parent = getenv("TMPDIR");
  int length = snprintf(s->line, sizeof s->line, "%s/tessera-bench-XXXXXX", parent && parent[0] ? parent : "/tmp");
  errno = ENAMETOOLONG;
  int file = length < (int)sizeof s->line ? mkstemp(s->line) : -1;
  if (file < 0) {
    tsr_cli_error("bench: %s: cannot be made: %s", s->line, strerror(errno));
    s->line[0] = '\0';
    return TSR_EXIT_INPUT;
  }
  int failed = write(file, lines->text, lines->size) != (ssize_t)lines->size || write(file, "\n", 1) != 1;
  failed |= close(file) != 0;
  if (failed) {
    tsr_cli_error("bench: %s: %s", s->line, strerror(errno));
  }
  return failed ? TSR_EXIT_INPUT : TSR_EXIT_OK;
}

static int read_input(session *s)
{
  tsr_cli_lines lines;
  int code = tsr_cli_lines_open(&lines, s->wish->file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; code == TSR_EXIT_OK && got;) {
    code = tsr_cli_lines_next(&lines, &got);
    s->sentences += got;
    if (code == TSR_EXIT_OK && got && s->sentences == 1) {
      code = write_line(s, &lines);
    }
  }
  tsr_cli_lines_finish(&lines);
  if (code == TSR_EXIT_OK && s->sentences == 0) {
    tsr_cli_error("%s: no sentence in it", s->wish->file);
    code = TSR_EXIT_INPUT;
  }
  return code;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int take_option(int option, char *value, request *wish)
{
  switch (option) {
  case 'm':
    wish->model = value;
    return TSR_EXIT_OK;
  case 'd':
    return bench_names_option("--device", value, &wish->devices);
  case 'N':
    return bench_integers_option("--beam", value, 1, 64, &wish->beams);
  case 'P':
    return bench_precisions_option("--precision", value, &wish->precisions);
  case 'T':
    return bench_integers_option("--threads", value, 1, 1024, &wish->threads);
  case 'B':
    return tsr_cli_int32("bench", "--batch", value, 1, 1024, &wish->batch);
  case 'R':
    return tsr_cli_int32("bench", "--repeat", value, 1, BENCH_REPEATS, &wish->repeat);
  case 'j':
    wish->as_json = 1;
    return TSR_EXIT_OK;
  default:
    return TSR_EXIT_USAGE;
  }
}

static int parse(int argc, char **argv, request *wish, int *finished)
{
  static const struct option options[] = {
      {"model", required_argument, NULL, 'm'},   {"device", required_argument, NULL, 'd'},
      {"beam", required_argument, NULL, 'N'},    {"precision", required_argument, NULL, 'P'},
      {"threads", required_argument, NULL, 'T'}, {"batch", required_argument, NULL, 'B'},
      {"repeat", required_argument, NULL, 'R'},  {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    if (option == 'h') {
      *finished = 1;
      return tsr_cli_help(help);
    }
    code = take_option(option, optarg, wish);
  }
  if (code == TSR_EXIT_OK && (!wish->model || optind + 1 != argc)) {
    code = tsr_cli_usage(argv[0], "--model FOLDER and one file of sentences are needed");
  }
  wish->file = code == TSR_EXIT_OK ? argv[optind] : NULL;
  if (wish->devices.n == 0) {
    wish->devices.n = 1; /* NULL: the default */
  }
  return code;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int make_subjects(session *s)
{
  const request *wish = s->wish;
  int64_t n = (int64_t)wish->devices.n * wish->precisions.n * wish->threads.n * wish->beams.n;
  if (n > MAX_CONFIGURATIONS) {
    return tsr_cli_usage("bench", "%lld configurations at once; at most %d", (long long)n, (int)MAX_CONFIGURATIONS);
  }
  s->subjects = calloc((size_t)n, sizeof *s->subjects);
  if (!s->subjects) {
    return tsr_cli_no_memory();
  }
  for (s->n = 0; s->n < n; s->n++) {
    int32_t rest = s->n / wish->beams.n;
    subject *one = &s->subjects[s->n];
    one->beam = wish->beams.values[s->n % wish->beams.n];
    one->threads = wish->threads.values[rest % wish->threads.n];
    rest /= wish->threads.n;
    one->precision = wish->precisions.values[rest % wish->precisions.n];
    one->device = wish->devices.values[rest / wish->precisions.n];
  }
  return TSR_EXIT_OK;
}

/* Run r of a configuration, -1 to warm up. */
static int measure_one(const session *s, subject *one, int32_t r)
{
  command c;
  outcome whole = {0}, first = {0};
  make_command(s, one, s->line, &c);
  int code = run_command(s, one, &c, 1, &first);
  if (code == TSR_EXIT_OK) {
    make_command(s, one, s->wish->file, &c);
    code = run_command(s, one, &c, s->sentences, &whole);
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
  ssize_t length = readlink("/proc/self/exe", s->program, sizeof s->program - 1);
  if (length <= 0) {
    tsr_cli_error("bench: /proc/self/exe: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  s->program[length] = '\0';
  int code = TSR_EXIT_OK;
  for (int32_t r = -1; r < s->wish->repeat; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      code = measure_one(s, &s->subjects[i], r);
    }
  }
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int tell_one(const session *s, subject *one, tsr_cli_table *table)
{
  bench_summary whole = bench_summarise(one->whole, s->wish->repeat);
  bench_summary first = bench_summarise(one->first, s->wish->repeat);
  const char *device = one->device ? one->device : "default";
  const char *precision = tsr_cli_precision_name(one->precision);
  char text[32];
  if (s->wish->as_json) {
    return tsr_cli_json_print(json_pack("{s:s, s:s, s:i, s:i, s:I, s:i, s:o, s:o, s:I}", "device", device, "precision",
                                        precision, "threads", (int)one->threads, "beam", (int)one->beam, "sentences",
                                        (json_int_t)s->sentences, "repeat", (int)s->wish->repeat, "seconds",
                                        bench_summary_json(&whole, 1.0), "first_ms", bench_summary_json(&first, 1e3),
                                        "peak_memory", (json_int_t)one->peak_memory),
                              JSON_REAL_PRECISION(6));
  }
  tsr_cli_table_cell(table, "%s", device);
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
  tsr_cli_table_init(&table, COLUMNS, 0x3fc);
  for (int32_t i = 0; i < COLUMNS; i++) {
    tsr_cli_table_cell(&table, "%s", columns[i]);
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = tell_one(s, &s->subjects[i], &table);
  }
  if (code == TSR_EXIT_OK && !s->wish->as_json) {
    printf("%lld sentences, from the start of the process to its end, %d runs each\n", (long long)s->sentences,
           (int)s->wish->repeat);
    code = tsr_cli_table_print(&table, stdout);
  }
  tsr_cli_table_finish(&table);
  return code;
}

int tsr_bench_translate(int argc, char **argv)
{
  request wish = {.beams = {.values = {1, 4}, .n = 2}, .precisions = {.n = 1}, .threads = {.n = 1}, .repeat = 5};
  int finished = 0;
  int code = parse(argc, argv, &wish, &finished);
  if (code != TSR_EXIT_OK || finished) {
    return code;
  }
  session s = {.wish = &wish};
  code = read_input(&s);
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
