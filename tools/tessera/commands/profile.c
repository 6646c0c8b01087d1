/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera profile: where the time goes while a file is translated, by part of the model and by operator, and how much
 * memory it takes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

/* What the time is told by. The first ones run on the device. */
enum {
  EMBEDDING,
  ENCODER,
  SELF_ATTENTION,
  CROSS_ATTENTION,
  FEED_FORWARD,
  SUMS,
  LOGITS,
  SEARCH,
  SUBMIT,
  COMPILE,
  TOKENIZATION,
  OTHER,
  PARTS
};
static const char *const part_names[PARTS] = {
    [EMBEDDING] = "embedding",
    [ENCODER] = "encoder",
    [SELF_ATTENTION] = "decoder self-attention",
    [CROSS_ATTENTION] = "cross-attention",
    [FEED_FORWARD] = "feed-forward",
    [SUMS] = "decoder sums and last norm",
    [LOGITS] = "logits",
    [SEARCH] = "search",
    [SUBMIT] = "submitting and waiting",
    [COMPILE] = "compiling programs",
    [TOKENIZATION] = "tokenization",
    [OTHER] = "other",
};

typedef struct operator_sum {
  int64_t runs;
  double seconds, flops, bytes;
} operator_sum;

typedef struct session {
  translator_settings settings;
  const char *file;
  int as_json;
  translator translator;
  double total;                         /* seconds */
  double tokenization;                  /* likewise */
  double parts[PARTS];                  /* likewise */
  operator_sum operators[TSR_OP_COUNT]; /* by TSR_OP_* */
  double device_seconds;
  char device[64]; /* name */
  tsr_profile profile;
  tsr_generate_statistics statistics;
  tsr_device_counters counters;
  int64_t host_peak; /* bytes */
} session;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int has(const char *label, const char *part)
{
  return strstr(label, part) != NULL;
}

/* The part that a label belongs to. A norm goes with the sublayer that it stands before or after. */
static int part_of(const char *label)
{
  if (has(label, ".embedding")) {
    return EMBEDDING;
  }
  if (strncmp(label, "encoder", strlen("encoder")) == 0) {
    return ENCODER;
  }
  if (strncmp(label, "decoder", strlen("decoder")) == 0) {
    return has(label, "self_attention")    ? SELF_ATTENTION
           : has(label, "cross_attention") ? CROSS_ATTENTION
           : has(label, "feed_forward")    ? FEED_FORWARD
                                           : SUMS;
  }
  return strncmp(label, "logits", strlen("logits")) == 0 ? LOGITS : SEARCH;
}

static int ignore(void *user, const translation *result)
{
  (void)user;
  (void)result;
  return TSR_EXIT_OK;
}

/* Translates what is in the chunk. What is not the library's search is text: tokens to characters. */
static int run_chunk(session *s)
{
  tsr_translator_statistics before, after;
  tsr_translator_measure(s->translator.translator, &before);
  double start = tsr_cli_seconds();
  int code = translator_run(&s->translator, ignore, s);
  double seconds = tsr_cli_seconds() - start;
  tsr_translator_measure(s->translator.translator, &after);
  s->tokenization += seconds - (after.search_seconds - before.search_seconds);
  return code;
}

static int translate(session *s, tsr_cli_lines *lines)
{
  int code = TSR_EXIT_OK;
  for (int got = 1; got && code == TSR_EXIT_OK;) {
    while (!translator_is_full(&s->translator, TRANSLATOR_CHUNK) && code == TSR_EXIT_OK) {
      code = tsr_cli_lines_next(lines, &got);
      if (code != TSR_EXIT_OK || !got) {
        break;
      }
      code = translator_add(&s->translator, lines->name, lines->number, lines->text, lines->size);
    }
    if (code == TSR_EXIT_OK && s->translator.n > 0) {
      code = run_chunk(s);
    }
  }
  return code;
}

static void sum_up(session *s)
{
  const tsr_profile *profile = &s->profile;
  for (int32_t i = 0; i < profile->n; i++) {
    const tsr_profile_row *row = &profile->rows[i];
    operator_sum *of = &s->operators[row->op];
    of->runs += row->runs;
    of->seconds += row->seconds;
    of->flops += row->flops;
    of->bytes += row->bytes;
    s->parts[part_of(row->label)] += row->seconds;
    s->device_seconds += row->seconds;
  }
  s->parts[SEARCH] += fmax(0.0, s->statistics.seconds - profile->run_seconds - profile->compile_seconds);
  s->parts[SUBMIT] = fmax(0.0, profile->run_seconds - s->device_seconds);
  s->parts[COMPILE] = profile->compile_seconds;
  s->parts[TOKENIZATION] = s->tokenization;
  double named = 0.0;
  for (int part = 0; part < OTHER; part++) {
    named += s->parts[part];
  }
  s->parts[OTHER] = fmax(0.0, s->total - named);
}

/* A tsr_translator_use_fn. */
static tsr_status read_times(void *user, tsr_transformer *transformer)
{
  session *s = user;
  tsr_device *device = tsr_transformer_device(transformer);
  snprintf(s->device, sizeof s->device, "%s", tsr_device_name(device));
  tsr_generate_measure(transformer, &s->statistics);
  tsr_status status = tsr_transformer_profile(transformer, &s->profile);
  return status == TSR_OK ? tsr_device_get_counters(device, &s->counters) : status;
}

static int measure(session *s)
{
  tsr_cli_lines lines;
  int code = tsr_cli_lines_open(&lines, s->file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = translator_open(&s->translator, &s->settings);
  if (code == TSR_EXIT_OK) {
    double start = tsr_cli_seconds();
    code = translate(s, &lines);
    s->total = tsr_cli_seconds() - start;
  }
  tsr_cli_lines_finish(&lines);
  if (code == TSR_EXIT_OK) {
    code = translator_use(&s->translator, read_times, s);
  }
  if (code == TSR_EXIT_OK) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    s->host_peak = (int64_t)usage.ru_maxrss * 1024;
    sum_up(s);
  }
  return code;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static double share(double part, double whole)
{
  return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

/* Billions a second. */
static double rate(double amount, double seconds)
{
  return seconds > 0.0 ? 1e-9 * amount / seconds : 0.0;
}

static int print_parts(const session *s)
{
  tsr_cli_table table;
  tsr_cli_table_init(&table, 3, ~1u);
  tsr_cli_table_cell(&table, "part");
  tsr_cli_table_cell(&table, "ms");
  tsr_cli_table_cell(&table, "%s", "%");
  for (int part = 0; part < PARTS; part++) {
    tsr_cli_table_cell(&table, "%s", part_names[part]);
    tsr_cli_table_cell(&table, "%.1f", 1e3 * s->parts[part]);
    tsr_cli_table_cell(&table, "%.1f", share(s->parts[part], s->total));
  }
  tsr_cli_table_cell(&table, "all");
  tsr_cli_table_cell(&table, "%.1f", 1e3 * s->total);
  tsr_cli_table_cell(&table, "%.1f", 100.0);
  int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

static int print_operators(const session *s)
{
  tsr_cli_table table;
  tsr_cli_table_init(&table, 6, ~1u);
  static const char *const head[] = {"operator", "runs", "ms", "%", "GFLOP/s", "GB/s"};
  for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) {
    tsr_cli_table_cell(&table, "%s", head[i]);
  }
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    const operator_sum *of = &s->operators[op];
    if (of->runs > 0) {
      tsr_cli_table_cell(&table, "%s", tsr_op_describe(op)->name);
      tsr_cli_table_cell(&table, "%lld", (long long)of->runs);
      tsr_cli_table_cell(&table, "%.1f", 1e3 * of->seconds);
      tsr_cli_table_cell(&table, "%.1f", share(of->seconds, s->device_seconds));
      tsr_cli_table_cell(&table, "%.2f", rate(of->flops, of->seconds));
      tsr_cli_table_cell(&table, "%.2f", rate(of->bytes, of->seconds));
    }
  }
  int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

static int print_text(const session *s)
{
  char text[2][32];
  const tsr_generate_statistics *of = &s->statistics;
  printf("%s on %s: %lld sentences, %lld tokens read, %lld written, in %.3f s (loading: %.3f s)\n\n", s->file,
         s->device, (long long)of->sentences, (long long)of->source_tokens, (long long)of->target_tokens, s->total,
         s->translator.loaded - s->translator.start);
  int code = print_parts(s);
  puts("");
  if (code == TSR_EXIT_OK) {
    code = print_operators(s);
  }
  printf("\n%.1f tokens a second written; peak memory: host %s, device %s\n", (double)of->target_tokens / s->total,
         tsr_cli_bytes((uint64_t)s->host_peak, text[0]),
         s->counters.bytes_peak > 0 ? tsr_cli_bytes(s->counters.bytes_peak, text[1]) : "not told");
  return code;
}

static json_t *operators_json(const session *s)
{
  json_t *list = json_array();
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    const operator_sum *of = &s->operators[op];
    if (of->runs > 0) {
      json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:f}", "operator", tsr_op_describe(op)->name, "runs",
                                            (json_int_t)of->runs, "seconds", of->seconds, "gflops",
                                            rate(of->flops, of->seconds), "gbytes", rate(of->bytes, of->seconds)));
    }
  }
  return list;
}

static json_t *labels_json(const session *s)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < s->profile.n; i++) {
    const tsr_profile_row *row = &s->profile.rows[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f}", "operator",
                                          tsr_op_describe(row->op)->name, "label", row->label, "part",
                                          part_names[part_of(row->label)], "runs", (json_int_t)row->runs, "seconds",
                                          row->seconds, "flops", row->flops, "bytes", row->bytes));
  }
  return list;
}

static int print_json(const session *s)
{
  const tsr_generate_statistics *of = &s->statistics;
  json_t *parts = json_object();
  for (int part = 0; part < PARTS; part++) {
    json_object_set_new(parts, part_names[part], json_real(s->parts[part]));
  }
  json_t *root = json_pack(
      "{s:o, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "file",
      tsr_cli_json_text(s->file, strlen(s->file)), "device", s->device, "sentences", (json_int_t)of->sentences,
      "source_tokens", (json_int_t)of->source_tokens, "target_tokens", (json_int_t)of->target_tokens, "load_seconds",
      s->translator.loaded - s->translator.start, "seconds", s->total, "tokens_per_second",
      (double)of->target_tokens / s->total, "parts", parts, "operators", operators_json(s), "labels", labels_json(s),
      "programs_compiled", (json_int_t)s->profile.compiled, "programs_run", (json_int_t)s->profile.runs,
      "host_peak_bytes", (json_int_t)s->host_peak, "device_peak_bytes", (json_int_t)s->counters.bytes_peak);
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  session *s = opaque;
  if (s->settings.workers > 1) {
    return tsr_cli_usage("profile", "--workers %d: times add up only if batches run one after the other",
                         (int)s->settings.workers);
  }
  s->settings.workers = 1;
  s->settings.profile = 1;
  return translator_settings_one_device("profile", &s->settings);
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = measure(s);
  if (code == TSR_EXIT_OK) {
    code = s->as_json ? print_json(s) : print_text(s);
  }
  return code != TSR_EXIT_OK ? code : s->translator.outcome;
}

static void finish(void *opaque)
{
  session *s = opaque;
  tsr_profile_finish(&s->profile);
  translator_finish(&s->translator);
}

static const tsr_option rows[] = {
    {"json", NULL, TSR_OPTION_FLAG, TSR_FIELD(session, as_json), .low = 1,
     .help = "print one JSON object, which also has the times of every label"},
    {.name = "device",
     .table = &translator_options,
     .offset = offsetof(session, settings),
     .help = TRANSLATOR_ONE_DEVICE},
    {.table = &translator_options, .offset = offsetof(session, settings)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(session, settings.model)},
    {"FILE", TSR_OPTION_FILE, offsetof(session, file)},
    {NULL},
};

const tsr_command tsr_command_profile = {
    .name = "profile",
    .summary = "measure where time and memory go while a file is translated",
    .usage = "MODEL FILE [OPTION]...",
    .intro = "Translates FILE, one batch at a time, and prints how long that took: by part, from tokenization to "
             "search; and by operator, with the arithmetic and the memory traffic that were achieved. It also prints "
             "the peak of memory, and separately the time to load the model. Measuring makes a device somewhat slower.",
    .options = &options,
    .operands = operands,
    .missing = "a model's folder and a file of sentences are needed",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
