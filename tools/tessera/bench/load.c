/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench load: many threads that translate a text each, against the whole file at once.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tessera/translator.h"
#include "tools/random/random.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"
#include "tools/tessera/text/search_options.h"

enum { LONE_TEXTS = 200 };

/* How the texts of the file come. */
enum { LOAD_FILE, LOAD_LONE, LOAD_CLOSED, LOAD_STATIC, LOAD_RATE, N_LOADS };

static const tsr_choice loads[] = {
    [LOAD_FILE] = {"file", "all at once"},
    [LOAD_LONE] = {"lone", "one after the other, the first 200 only"},
    [LOAD_CLOSED] = {"closed", "from all threads; each submits its next text when it has the answer to the last"},
    [LOAD_STATIC] = {"static", "as closed, but no text joins a running batch"},
    [LOAD_RATE] = {"rate", "at random times, --rate texts a second, even if earlier texts have no answer yet"},
    {NULL},
};

typedef struct request {
  const char *model;
  const char *file;
  tsr_names devices;
  search_settings search;
  unsigned loads; /* bit LOAD_*; 0: all */
  tsr_dtype precision;
  double rate; /* texts a second; 0: half of what the closed loop reached */
  int64_t most_texts;
  int32_t threads;
  int32_t batch;
  int32_t workers;
  int32_t repeat;
  int as_json;
} request;

/* What is measured of a load. */
enum {
  TEXTS, /* a second, likewise tokens */
  TOKENS,
  ASKED,   /* texts a second that were submitted; 0: as many as it went */
  ROWS,    /* texts of a step, on average */
  JOINED,  /* of the texts, the part that joined a running batch */
  WAITED,  /* seconds until the search of a text began, the median */
  LATENCY, /* seconds until the answer: the median, */
  LATENCY_95,
  LATENCY_99,
  N_MEASURES
};

static const char *const measure_names[N_MEASURES] = {
    "texts_per_second", "tokens_per_second", "asked_per_second",   "rows_per_step",      "joined",
    "waited_seconds",   "latency_seconds",   "latency_95_seconds", "latency_99_seconds",
};

typedef struct subject {
  tsr_device *probe; /* for its names */
  bench_device_text text;
  tsr_translator *translators[2]; /* continuous batches, static ones */
  double *samples;                /* [N_LOADS][N_MEASURES][repeat] */
} subject;

typedef struct session {
  request options;
  tsr_runtime *runtime;
  search_lists lists;
  tsr_generate_options search;
  char **texts;
  size_t *sizes;
  int32_t *order; /* in which the texts come */
  int32_t n;
  int32_t room;
  subject *subjects; /* [devices.n] */
} session;

/* ---- the texts --------------------------------------------------------------------------------------------------- */

static int add_text(session *s, const tsr_cli_lines *lines)
{
  if (s->n == s->room) {
    int32_t room = s->room ? 2 * s->room : 1024;
    char **texts = realloc(s->texts, (size_t)room * sizeof *texts);
    s->texts = texts ? texts : s->texts;
    size_t *sizes = realloc(s->sizes, (size_t)room * sizeof *sizes);
    s->sizes = sizes ? sizes : s->sizes;
    if (!texts || !sizes) {
      return tsr_cli_no_memory();
    }
    s->room = room;
  }
  char *text = malloc(lines->size + 1);
  if (!text) {
    return tsr_cli_no_memory();
  }
  memcpy(text, lines->text, lines->size + 1);
  s->sizes[s->n] = lines->size;
  s->texts[s->n++] = text;
  return TSR_EXIT_OK;
}

static int read_texts(session *s)
{
  tsr_cli_lines lines = {0};
  int code = tsr_cli_lines_open(&lines, s->options.file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; got && code == TSR_EXIT_OK && s->n < s->options.most_texts;) {
    code = tsr_cli_lines_next(&lines, &got);
    if (code == TSR_EXIT_OK && got && lines.size > 0) {
      code = add_text(s, &lines);
    }
  }
  if (code == TSR_EXIT_OK && s->n == 0) {
    tsr_cli_error("%s: no sentence in it", lines.name);
    code = TSR_EXIT_INPUT;
  }
  tsr_cli_lines_finish(&lines);
  return code;
}

/* A random order: files often have their sentences by subject or length. */
static int shuffle(session *s)
{
  uint64_t random = 1;
  s->order = malloc((size_t)s->n * sizeof *s->order);
  if (!s->order) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < s->n; i++) {
    int32_t at = tsr_random_below(&random, i + 1);
    s->order[i] = s->order[at];
    s->order[at] = i;
  }
  return TSR_EXIT_OK;
}

static tsr_translation_request request_of(const session *s, int32_t index)
{
  return (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = s->texts[index],
                                   .text_size = s->sizes[index], .search = &s->search, .number = index};
}

/* ---- one load ---------------------------------------------------------------------------------------------------- */

/* What the threads of a load share. */
typedef struct load {
  const session *session;
  tsr_translator *translator;
  double rate; /* texts a second, of all threads; 0: each waits for its answer */
  int32_t n;
  pthread_mutex_t lock; /* of all below */
  int32_t next;
  int64_t tokens;
  double *latency; /* [n] seconds */
  double *waited;  /* [n] */
  int32_t n_done;
  tsr_status status; /* TSR_OK, or the first error */
  char message[512];
} load;

/* A text that was submitted. */
typedef struct sent {
  load *load;
  double asked;
} sent;

static void fail(load *l, tsr_status status, const char *message)
{
  if (l->status == TSR_OK) {
    l->status = status;
    snprintf(l->message, sizeof l->message, "%s", message);
  }
}

static void note(load *l, const tsr_translation *answer, double asked)
{
  double now = tsr_cli_seconds();
  pthread_mutex_lock(&l->lock);
  if (answer->status != TSR_OK) {
    fail(l, answer->status, answer->message);
  } else {
    l->latency[l->n_done] = now - asked;
    l->waited[l->n_done++] = answer->waiting_seconds;
    l->tokens += answer->hypotheses[0]->n_ids;
  }
  pthread_mutex_unlock(&l->lock);
}

static void on_answer(void *user, uint64_t ticket, const tsr_translation *answer)
{
  sent *text = user;
  (void)ticket;
  note(text->load, answer, text->asked);
  free(text);
}

/* The next text that nobody has, or -1. */
static int32_t take_next(load *l)
{
  pthread_mutex_lock(&l->lock);
  int32_t i = l->next < l->n && l->status == TSR_OK ? l->session->order[l->next++] : -1;
  pthread_mutex_unlock(&l->lock);
  return i;
}

static void fail_with_last(load *l, tsr_status status)
{
  pthread_mutex_lock(&l->lock);
  fail(l, status, tsr_error_message());
  pthread_mutex_unlock(&l->lock);
}

/* Each text after the answer to the one before. */
static void *run_closed(void *user)
{
  load *l = user;
  for (int32_t i = take_next(l); i >= 0; i = take_next(l)) {
    tsr_translation_request asked = request_of(l->session, i);
    tsr_translation *answer = NULL;
    uint64_t ticket;
    double start = tsr_cli_seconds();
    /* Through the queue: with static batches, what tsr_translator_translate is given is a batch of its own. */
    tsr_status status = tsr_translator_submit(l->translator, &asked, NULL, NULL, &ticket);
    status = status == TSR_OK ? tsr_translator_wait(l->translator, ticket, &answer) : status;
    if (status != TSR_OK) {
      fail_with_last(l, status);
    } else {
      note(l, answer, start);
      tsr_translation_free(answer);
    }
  }
  return NULL;
}

static void sleep_until(double when)
{
  double left = when - tsr_cli_seconds();
  if (left > 0.0) {
    struct timespec span = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - floor(left)) * 1e9)};
    while (nanosleep(&span, &span) != 0 && errno == EINTR) {
    }
  }
}

/* At random times with exponential gaps, so that all threads together have the load's rate. */
static void *run_rate(void *user)
{
  load *l = user;
  double mean = (double)l->session->options.threads / l->rate, when = tsr_cli_seconds();
  pthread_mutex_lock(&l->lock);
  uint64_t random = (uint64_t)l->next + 1; /* another one for each thread */
  pthread_mutex_unlock(&l->lock);
  (void)tsr_random_next(&random);
  for (int32_t i = take_next(l); i >= 0; i = take_next(l)) {
    tsr_translation_request asked = request_of(l->session, i);
    uint64_t ticket;
    when -= mean * log(0.5 * (1.0 - tsr_random_real(&random)) + 1e-12);
    sleep_until(when);
    sent *text = malloc(sizeof *text);
    tsr_status status = text ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of host memory");
    if (text) {
      *text = (sent){.load = l, .asked = when};
      status = tsr_translator_submit(l->translator, &asked, on_answer, text, &ticket);
    }
    if (status != TSR_OK) {
      free(text);
      fail_with_last(l, status);
    }
  }
  return NULL;
}

static void run_file(load *l)
{
  const session *s = l->session;
  tsr_translation_request *asked = calloc((size_t)l->n, sizeof *asked);
  tsr_translation **answers = calloc((size_t)l->n, sizeof *answers);
  tsr_status status =
      asked && answers ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of host memory for %d requests", (int)l->n);
  double start = tsr_cli_seconds();
  for (int32_t i = 0; i < l->n && status == TSR_OK; i++) {
    asked[i] = request_of(s, i);
  }
  if (status == TSR_OK) {
    status = tsr_translator_translate(l->translator, l->n, asked, answers);
  }
  if (status != TSR_OK) {
    fail_with_last(l, status);
  }
  for (int32_t i = 0; i < l->n && status == TSR_OK; i++) {
    note(l, answers[i], start);
    tsr_translation_free(answers[i]);
  }
  free(asked);
  free(answers);
}

static void run_threads(load *l, int32_t n, void *(*body)(void *))
{
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  int32_t n_started = 0;
  while (threads && n_started < n && pthread_create(&threads[n_started], NULL, body, l) == 0) {
    n_started++;
  }
  for (int32_t i = 0; i < n_started; i++) {
    pthread_join(threads[i], NULL);
  }
  tsr_translator_drain(l->translator);
  free(threads);
  if (n_started < n) {
    fail(l, TSR_ERR_OUT_OF_MEMORY, "the threads cannot be started");
  }
}

static double percentile(double *sorted, int32_t n, double part)
{
  int32_t at = (int32_t)ceil(part * n) - 1;
  return sorted[at < 0 ? 0 : at];
}

static int run_load(const session *s, tsr_translator *translator, int32_t kind, double rate, double *result)
{
  load l = {.session = s, .translator = translator, .rate = rate, .n = s->n};
  l.n = kind == LOAD_LONE && l.n > LONE_TEXTS ? LONE_TEXTS : l.n;
  l.latency = calloc((size_t)l.n, 2 * sizeof *l.latency);
  if (!l.latency) {
    return tsr_cli_no_memory();
  }
  l.waited = l.latency + l.n;
  pthread_mutex_init(&l.lock, NULL);
  tsr_translator_statistics before, after;
  tsr_translator_measure(translator, &before);
  double start = tsr_cli_seconds();
  if (kind == LOAD_FILE) {
    run_file(&l);
  } else {
    run_threads(&l, kind == LOAD_LONE ? 1 : s->options.threads, rate > 0.0 ? run_rate : run_closed);
  }
  double seconds = tsr_cli_seconds() - start;
  tsr_translator_measure(translator, &after);
  int code = tsr_cli_fail(l.status == TSR_OK ? TSR_OK : tsr_fail(l.status, "%s", l.message));
  if (code == TSR_EXIT_OK) {
    double steps = (double)(after.step_runs - before.step_runs);
    result[TEXTS] = l.n / seconds;
    result[TOKENS] = (double)l.tokens / seconds;
    result[ASKED] = rate;
    result[ROWS] = steps > 0.0 ? (double)(after.rows - before.rows) / steps : 0.0;
    result[JOINED] = (double)(after.joined - before.joined) / l.n;
    result[WAITED] = bench_summarise(l.waited, l.n).median;
    result[LATENCY] = bench_summarise(l.latency, l.n).median;
    result[LATENCY_95] = percentile(l.latency, l.n, 0.95);
    result[LATENCY_99] = percentile(l.latency, l.n, 0.99);
  }
  pthread_mutex_destroy(&l.lock);
  free(l.latency);
  return code;
}

/* ---- all loads --------------------------------------------------------------------------------------------------- */

static int is_wanted(const session *s, int32_t kind)
{
  return s->options.loads == 0 || (s->options.loads & (1u << kind)) != 0;
}

static double *samples_of(const session *s, const subject *one, int32_t kind, int32_t measure)
{
  return &one->samples[(kind * N_MEASURES + measure) * s->options.repeat];
}

static int open_translator(session *s, const char *device, int32_t static_batches, tsr_translator **translator)
{
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options),
                                          .n_devices = 1,
                                          .devices = &device,
                                          .runtime = s->runtime,
                                          .weights = s->options.precision,
                                          .batch = s->options.batch,
                                          .workers = s->options.workers,
                                          .static_batches = static_batches};
  tsr_status status = tsr_translator_open(s->options.model, &options, translator);
  return status == TSR_ERR_NO_DEVICE ? tsr_cli_fail(status) : tsr_cli_fail_input(status);
}

static int choose_search(session *s, const tsr_translator *translator)
{
  s->search = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  const tsr_model *model = tsr_translator_model(translator);
  tsr_status status = tsr_generate_defaults(model, &s->search);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  s->search.n_best = 1;
  search_lists_finish(&s->lists);
  const int code = search_settings_apply(&s->options.search, &s->lists, &s->search);
  return code == TSR_EXIT_OK
             ? tsr_cli_fail_input(search_settings_check_file(&s->options.search, tsr_model_folder(model), &s->search))
             : code;
}

static int open_subject(session *s, int32_t index)
{
  subject *one = &s->subjects[index];
  const char *name = s->options.devices.values[index];
  one->samples = calloc((size_t)N_LOADS * N_MEASURES * (size_t)s->options.repeat, sizeof *one->samples);
  if (!one->samples) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_device(s->runtime, name, &one->probe);
  if (code == TSR_EXIT_OK) {
    bench_describe(one->probe, &one->text);
    code = open_translator(s, one->text.device, 0, &one->translators[0]);
  }
  if (code == TSR_EXIT_OK && is_wanted(s, LOAD_STATIC)) {
    code = open_translator(s, one->text.device, 1, &one->translators[1]);
  }
  return code == TSR_EXIT_OK && index == 0 ? choose_search(s, one->translators[0]) : code;
}

static int measure(const session *s, const subject *one, int32_t kind, int32_t repeat)
{
  double rate = 0.0, result[N_MEASURES];
  if (kind == LOAD_RATE) {
    rate = s->options.rate > 0.0 ? s->options.rate : 0.5 * samples_of(s, one, LOAD_CLOSED, TEXTS)[repeat];
  }
  int code = run_load(s, one->translators[kind == LOAD_STATIC], kind, rate, result);
  for (int32_t i = 0; i < N_MEASURES && code == TSR_EXIT_OK; i++) {
    samples_of(s, one, kind, i)[repeat] = result[i];
  }
  return code;
}

/* Devices and loads take turns. The first round, which is not counted, compiles what is needed. */
static int measure_all(session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t r = -1; r < s->options.repeat; r++) {
    for (int32_t i = 0; i < s->options.devices.n; i++) {
      for (int32_t kind = 0; kind < N_LOADS && code == TSR_EXIT_OK; kind++) {
        code = is_wanted(s, kind) ? measure(s, &s->subjects[i], kind, r < 0 ? 0 : r) : TSR_EXIT_OK;
      }
    }
  }
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static bench_summary summarise(const session *s, const subject *one, int32_t kind, int32_t measure)
{
  return bench_summarise(samples_of(s, one, kind, measure), s->options.repeat);
}

static int print_json(const session *s, const subject *one, int32_t kind)
{
  const request *options = &s->options;
  json_t *root =
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "what", "load", "load", loads[kind].name, "precision",
                tsr_cli_precision_name(options->precision), "threads",
                (int)(kind == LOAD_FILE || kind == LOAD_LONE ? 1 : options->threads), "texts",
                (int)(kind == LOAD_LONE && s->n > LONE_TEXTS ? LONE_TEXTS : s->n), "batch", (int)options->batch,
                "workers", (int)options->workers, "beam", (int)s->search.beam, "repeat", (int)options->repeat);
  for (int32_t i = 0; i < N_MEASURES && root; i++) {
    bench_summary summary = summarise(s, one, kind, i);
    int is_result = i == TEXTS || i == TOKENS || i >= LATENCY; /* the others are no better for being less or more */
    json_object_set_new(root, measure_names[i],
                        is_result ? bench_summary_json(&summary, 1.0) : json_real(summary.median));
  }
  if (root) {
    json_object_set_new(root, "model", tsr_cli_json_text(options->model, strlen(options->model)));
  }
  return tsr_cli_json_print(bench_device_json(root, &one->text), JSON_REAL_PRECISION(6));
}

static void add_row(const session *s, const subject *one, int32_t kind, tsr_cli_table *table)
{
  double medians[N_MEASURES];
  for (int32_t i = 0; i < N_MEASURES; i++) {
    medians[i] = summarise(s, one, kind, i).median;
  }
  tsr_cli_table_cell(table, "%s", one->text.device);
  if (medians[ASKED] > 0.0) {
    tsr_cli_table_cell(table, "%s %.4g", loads[kind].name, medians[ASKED]);
  } else {
    tsr_cli_table_cell(table, "%s", loads[kind].name);
  }
  tsr_cli_table_cell(table, "%.1f", medians[TEXTS]);
  tsr_cli_table_cell(table, "%.1f", medians[TOKENS]);
  if (is_wanted(s, LOAD_FILE)) {
    tsr_cli_table_cell(table, "%.3f", medians[TOKENS] / summarise(s, one, LOAD_FILE, TOKENS).median);
  } else {
    tsr_cli_table_cell(table, "-");
  }
  tsr_cli_table_cell(table, "%.1f", medians[ROWS]);
  tsr_cli_table_cell(table, "%.0f %%", 100.0 * medians[JOINED]);
  for (int32_t i = WAITED; i < N_MEASURES; i++) {
    tsr_cli_table_cell(table, "%.1f", 1e3 * medians[i]);
  }
}

static int tell(const session *s)
{
  static const char *const columns[] = {"device",  "load",    "texts/s",   "tokens/s", "of the file's", "texts/step",
                                        "joining", "wait ms", "median ms", "95 % ms",  "99 % ms"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  tsr_cli_table table;
  int code = TSR_EXIT_OK;
  tsr_cli_table_begin(&table, columns, COLUMNS, 0x7fc);
  for (int32_t i = 0; i < s->options.devices.n; i++) {
    for (int32_t kind = 0; kind < N_LOADS && code == TSR_EXIT_OK; kind++) {
      if (is_wanted(s, kind) && s->options.as_json) {
        code = print_json(s, &s->subjects[i], kind);
      } else if (is_wanted(s, kind)) {
        add_row(s, &s->subjects[i], kind, &table);
      }
    }
  }
  if (!s->options.as_json && code == TSR_EXIT_OK) {
    printf("%d texts, %d threads, medians of %d\n", (int)s->n, (int)s->options.threads, (int)s->options.repeat);
    code = tsr_cli_table_print(&table, stdout);
  }
  tsr_cli_table_finish(&table);
  return code;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  request *options = &((session *)opaque)->options;
  bench_choose_device(&options->devices);
  if (options->loads & (1u << LOAD_RATE) && options->rate == 0.0) { /* it is half of what the closed loop reaches */
    options->loads |= 1u << LOAD_CLOSED;
  }
  return options->model ? TSR_EXIT_OK : tsr_cli_usage("bench load", "%s", bench_missing_file);
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = read_texts(s);
  if (code == TSR_EXIT_OK) {
    code = shuffle(s);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&s->runtime);
  }
  s->subjects = calloc((size_t)s->options.devices.n, sizeof *s->subjects);
  if (code == TSR_EXIT_OK && !s->subjects) {
    code = tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < s->options.devices.n && code == TSR_EXIT_OK; i++) {
    code = open_subject(s, i);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_all(s);
  }
  return code == TSR_EXIT_OK ? tell(s) : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  for (int32_t i = 0; i < s->options.devices.n && s->subjects; i++) {
    tsr_translator_close(s->subjects[i].translators[0]);
    tsr_translator_close(s->subjects[i].translators[1]);
    tsr_device_close(s->subjects[i].probe);
    free(s->subjects[i].samples);
  }
  for (int32_t i = 0; i < s->n; i++) {
    free(s->texts[i]);
  }
  free(s->subjects);
  free(s->texts);
  free(s->sizes);
  free(s->order);
  search_lists_finish(&s->lists);
  tsr_runtime_destroy(s->runtime);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(model), .help = "the model"},
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .repeats = 1, .help = "where to compute",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"load", "L", TSR_OPTION_SET, FIELD(loads), .choices = loads, .help = "how the texts come",
     .otherwise = "each of these"},
    {"closed", NULL, TSR_OPTION_FLAG, FIELD(loads), .low = 1 << LOAD_FILE | 1 << LOAD_CLOSED,
     .help = "--load file --load closed"},
    {"rate", "R", TSR_OPTION_NUMBER, FIELD(rate), 1e-3, 1e9, .help = "texts a second of the load `rate`",
     .otherwise = "half of what the closed loop reached"},
    {"threads", "N", TSR_OPTION_INTEGER, FIELD(threads), 1, 4096, .help = "threads that submit texts", .preset = "64"},
    {"texts", "N", TSR_OPTION_INTEGER, FIELD(most_texts), 1, INT32_MAX, .help = "maximum texts of the file",
     .preset = "10000"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1024, .help = "texts computed at once",
     .otherwise = "32, and fewer with a wide beam on a CPU"},
    {"workers", "N", TSR_OPTION_INTEGER, FIELD(workers), 1, 1024, .help = "batches computed side by side",
     .otherwise = "as many as the device executes side by side"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(precision), .help = "type of the weights, as for `translate`"},
    {.table = &search_options, .offset = offsetof(session, options.search)},
    {"repeat", "R", TSR_OPTION_INTEGER, FIELD(repeat), 1, BENCH_REPEATS, .preset = "3",
     .help = "rounds, after one to warm up"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print one JSON object a line"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"FILE", TSR_OPTION_FILE, offsetof(session, options.file), .optional = 1},
    {NULL},
};

const tsr_command bench_load = {
    .name = "load",
    .parent = "bench",
    .usage = "--model FOLDER [OPTION]... [FILE]",
    .intro = "Measures a model as a service uses it: many threads submit the sentences of FILE (or of standard input) "
             "one by one, in random order, and share batches (tessera/translator.h). For comparison, the same run also "
             "translates the whole file at once.\n"
             "\n"
             "Prints texts and tokens per second, the texts that a step computes on average, the share of the texts "
             "that joined a running batch, and how long texts waited for their search and for their answer: the "
             "median, the 95th and the 99th percentile. With the load `rate`, a text's time counts from the moment "
             "when it should have been submitted.",
    .options = &options,
    .operands = operands,
    .takes = "one file",
    .examples = "tessera bench load --model tools/demo-model --device cpu --closed tests/data/tatoeba/test.en",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
