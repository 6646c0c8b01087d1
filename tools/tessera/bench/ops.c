/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench ops: operators on devices, beside what the device reaches in a large copy and a large product.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/help.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

typedef struct request {
  tsr_names devices;
  bench_case_options which;
  tsr_names variants;
  int no_roofline;
  int dry;
  int32_t threads;
  int32_t repeat;
  double minutes; /* 0: no limit */
  int as_json;
} request;

/* Medians of one clock in what each device does at most; 0: not measured. */
typedef struct roofline {
  double copy;            /* bytes per second, read and written */
  double product[TSR_I4]; /* flops per second, by precision - 1 */
} roofline;

/* A device, perhaps with a variant, and what it took for the case in hand. */
typedef struct side {
  bench_op_task task;
  roofline roof;
  bench_op_sample last;
  double single_host[BENCH_REPEATS], single_device[BENCH_REPEATS];
  double chained_host[BENCH_REPEATS], chained_device[BENCH_REPEATS];
} side;

typedef struct session {
  const request *options;
  bench_case_list cases;
  side *sides; /* [n], each variant of a device by itself */
  int32_t n;
  bench_crew crew;
  tsr_cli_table table;
  double start;         /* by tsr_cli_seconds */
  int32_t not_measured; /* cases, when the time was over */
} session;

_Static_assert(TSR_F32 >= 1 && (int)TSR_I8 <= (int)TSR_I4 && TSR_F16 <= TSR_I8 && TSR_BF16 <= TSR_I8,
               "roofline.product");

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  request *options = opaque;
  bench_choose_device(&options->devices);
  if (options->variants.n == 0) {
    options->variants.n = 1; /* NULL: the device's choice */
  }
  return TSR_EXIT_OK;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

/* What counts of a large product, and of a large copy. */
static const char flop_rate[] = "flops_per_second", byte_rate[] = "bytes_per_second";

static char *shape_name(const bench_op_case *test, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (int32_t i = 0; i < bench_op_describe(test->op)->n_extents && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%d", i > 0 ? "x" : "", (int)test->extent[i]);
  }
  return text;
}

typedef struct figures {
  bench_summary single_host, single_device, chained_host, chained_device;
  int timed; /* the device has times */
  double flops;
  double bytes;
  double of_product; /* 0: not known */
  double of_copy;
} figures;

static figures summarise(const session *s, side *one)
{
  int32_t n = s->options->repeat;
  figures f = {.single_host = bench_summarise(one->single_host, n),
               .single_device = bench_summarise(one->single_device, n),
               .chained_host = bench_summarise(one->chained_host, n),
               .chained_device = bench_summarise(one->chained_device, n)};
  f.timed = f.chained_device.median > 0.0;
  double host = f.chained_host.median, device = f.chained_device.median;
  double seconds = f.timed && device < host ? device : host;
  double product = one->roof.product[one->last.test.precision - 1];
  f.flops = one->last.flops / seconds;
  f.bytes = one->last.bytes / seconds;
  f.of_product = product > 0.0 ? f.flops / product : 0.0;
  f.of_copy = one->roof.copy > 0.0 ? f.bytes / one->roof.copy : 0.0;
  return f;
}

static json_t *time_json(const bench_summary *summary, int known)
{
  return known ? bench_summary_json(summary, 1e6) : json_null();
}

static json_t *share_json(double share)
{
  return share > 0.0 ? json_real(share) : json_null();
}

static json_t *scratch_json(const bench_op_sample *sample)
{
  return sample->scratch < 0 ? json_null() : json_integer(sample->scratch);
}

static json_t *times_json(const figures *f)
{
  return json_pack("{s:o, s:o, s:o, s:o}", "single_us", time_json(&f->single_host, 1), "single_device_us",
                   time_json(&f->single_device, f->timed), "each_us", time_json(&f->chained_host, 1), "each_device_us",
                   time_json(&f->chained_device, f->timed));
}

/* rate: what counts of a roofline, by its name in the line. */
static json_t *rate_json(const bench_op_sample *last, const figures *f, const char *rate)
{
  const double work = strcmp(rate, flop_rate) == 0 ? last->flops : last->bytes;
  const bench_summary *seconds = &f->chained_host;
  if (f->timed && f->chained_device.median < f->chained_host.median) {
    seconds = &f->chained_device;
  }
  const bench_summary summary = {work / seconds->median, work / seconds->most, work / seconds->least};
  return json_pack("{s:o}", rate, bench_summary_json(&summary, 1.0));
}

/* what: the operator, or which roofline. A roofline has a `rate` instead of times, and its size, which is found by
 * trial, is no shape by which two results are put side by side. */
static int print_json(const session *s, side *one, const char *what, const char *rate)
{
  const bench_op_sample *last = &one->last;
  const char *precision = tsr_cli_precision_name(last->test.precision);
  char shape[64];
  json_t *root = json_pack("{s:s, s:s, s:s, s:b}", "op", what, rate ? "size" : "shape",
                           shape_name(&last->test, shape, sizeof shape), "precision", precision, "supported",
                           (int)last->supported);
  if (root && last->supported && s->options->dry) {
    json_object_update_new(root, json_pack("{s:f, s:f, s:o}", "flops", last->flops, "bytes", last->bytes,
                                           "scratch_bytes", scratch_json(last)));
  } else if (root && last->supported) {
    figures f = summarise(s, one);
    json_object_update_new(root, rate ? rate_json(last, &f, rate) : times_json(&f));
    json_t *numbers = json_pack("{s:i, s:i, s:f, s:f, s:o, s:f, s:f, s:o, s:o}", "lines", (int)last->lines, "repeat",
                                (int)s->options->repeat, "flops", last->flops, "bytes", last->bytes, "scratch_bytes",
                                scratch_json(last), "gflops", 1e-9 * f.flops, "gb_per_second", 1e-9 * f.bytes,
                                "of_product", share_json(f.of_product), "of_copy", share_json(f.of_copy));
    json_object_update_new(root, numbers);
  }
  if (root && one->task.variant[0]) {
    json_object_set_new(root, "variant", json_string(one->task.variant));
  }
  if (root && last->supported && last->variant[0]) {
    json_object_set_new(root, "form", json_string(last->variant));
  }
  if (root && s->options->threads > 0) {
    json_object_set_new(root, "threads", json_integer(s->options->threads));
  }
  return tsr_cli_json_print(bench_device_json(root, &last->device), JSON_REAL_PRECISION(6));
}

static void time_cell(tsr_cli_table *table, const bench_summary *summary, int known)
{
  if (known) {
    tsr_cli_table_cell(table, "%.1f", 1e6 * summary->median);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

static void share_cell(tsr_cli_table *table, double share)
{
  if (share > 0.0) {
    tsr_cli_table_cell(table, "%.1f %%", 100.0 * share);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

static void add_row(session *s, side *one, const char *what)
{
  const bench_op_sample *last = &one->last;
  char shape[64], text[32];
  tsr_cli_table_cell(&s->table, "%s", what);
  tsr_cli_table_cell(&s->table, "%s", shape_name(&last->test, shape, sizeof shape));
  tsr_cli_table_cell(&s->table, "%s", tsr_cli_precision_name(last->test.precision));
  tsr_cli_table_cell(&s->table, "%s", last->device.device);
  if (!last->supported) {
    tsr_cli_table_cell(&s->table, "not supported");
    for (int32_t i = 0; i < (s->options->dry ? 1 : 8); i++) {
      tsr_cli_table_cell(&s->table, "-");
    }
    return;
  }
  if (s->options->dry) {
    tsr_cli_table_cell(&s->table, "%s", last->variant[0] ? last->variant : "-");
    tsr_cli_table_cell(&s->table, "%s", last->scratch < 0 ? "-" : tsr_cli_bytes((uint64_t)last->scratch, text));
    return;
  }
  figures f = summarise(s, one);
  tsr_cli_table_cell(&s->table, "%s", last->variant[0] ? last->variant : "-");
  time_cell(&s->table, &f.single_host, 1);
  time_cell(&s->table, &f.single_device, f.timed);
  time_cell(&s->table, &f.chained_host, 1);
  time_cell(&s->table, &f.chained_device, f.timed);
  tsr_cli_table_cell(&s->table, "%.2f", 1e-9 * f.flops);
  share_cell(&s->table, f.of_product);
  tsr_cli_table_cell(&s->table, "%.2f", 1e-9 * f.bytes);
  share_cell(&s->table, f.of_copy);
}

static int tell(session *s, const char *what, const char *rate)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    if (s->options->as_json) {
      code = print_json(s, &s->sides[i], what, rate);
    } else {
      add_row(s, &s->sides[i], what);
    }
  }
  return code == TSR_EXIT_OK && s->options->as_json ? tsr_cli_flush() : code;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int ask(session *s, int32_t device, int32_t what)
{
  side *one = &s->sides[device];
  return bench_crew_ask(&s->crew, device, what, &one->last, sizeof one->last);
}

/* One case, or a roofline, on all devices, which take turns. */
static int measure(session *s, int32_t preparing)
{
  const request *options = s->options;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = ask(s, i, preparing);
  }
  for (int32_t r = -1; r < options->repeat && !options->dry; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      side *one = &s->sides[i];
      code = one->last.supported ? ask(s, i, BENCH_OPS * BENCH_OP_SAMPLE) : TSR_EXIT_OK;
      if (r >= 0) {
        one->single_host[r] = one->last.single.host;
        one->single_device[r] = one->last.single.device;
        one->chained_host[r] = one->last.chained.host;
        one->chained_device[r] = one->last.chained.device;
      }
    }
  }
  return code;
}

static int release(session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = ask(s, i, BENCH_OPS * BENCH_OP_RELEASE);
  }
  return code;
}

/* The large copy (precision 0), or the large product. */
static int measure_roofline(session *s, tsr_dtype precision)
{
  int code =
      measure(s, precision ? BENCH_OPS * BENCH_OP_LARGE_PRODUCT + (int32_t)precision : BENCH_OPS * BENCH_OP_LARGE_COPY);
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    if (one->last.supported) {
      figures f = summarise(s, one);
      one->roof.copy = precision ? one->roof.copy : f.bytes;
      one->roof.product[precision ? precision - 1 : 0] = precision ? f.flops : 0.0;
    }
  }
  if (code == TSR_EXIT_OK) {
    code = precision ? tell(s, "large product", flop_rate) : tell(s, "large copy", byte_rate);
  }
  return code == TSR_EXIT_OK ? release(s) : code;
}

/* The products' rooflines are those of f32, and of the types that are asked for. */
static int measure_rooflines(session *s)
{
  int code = measure_roofline(s, 0);
  if (code == TSR_EXIT_OK) {
    code = measure_roofline(s, TSR_F32);
  }
  for (int32_t p = 0; p < s->options->which.precisions.n && code == TSR_EXIT_OK; p++) {
    if (s->options->which.precisions.values[p] != TSR_F32) {
      code = measure_roofline(s, s->options->which.precisions.values[p]);
    }
  }
  return code;
}

/* The first case of each operator, then the second of each, and so on. */
static void take_turns(bench_case_list *list)
{
  bench_case_list turns = {.n = 0};
  for (int32_t turn = 0; turns.n < list->n; turn++) {
    for (int32_t i = 0; i < list->n; i++) {
      int32_t before = 0;
      for (int32_t k = 0; k < i; k++) {
        before += list->cases[k].op == list->cases[i].op;
      }
      if (before == turn) {
        turns.cases[turns.n++] = list->cases[i];
      }
    }
  }
  *list = turns;
}

static int time_is_over(const session *s)
{
  return s->options->minutes > 0.0 && tsr_cli_seconds() - s->start >= 60.0 * s->options->minutes;
}

static int measure_cases(session *s)
{
  tsr_cli_progress progress;
  int code = TSR_EXIT_OK;
  tsr_cli_progress_start(&progress, "measuring");
  for (int32_t i = 0; i < s->cases.n && code == TSR_EXIT_OK; i++) {
    if (time_is_over(s)) {
      s->not_measured = s->cases.n - i;
      break;
    }
    tsr_cli_progress_update(&progress, i, s->cases.n);
    code = measure(s, BENCH_OPS * BENCH_OP_PREPARE + i);
    if (code == TSR_EXIT_OK && s->options->as_json) {
      tsr_cli_progress_clear(&progress);
    }
    if (code == TSR_EXIT_OK) {
      code = tell(s, bench_op_describe(s->cases.cases[i].op)->name, NULL);
    }
    if (code == TSR_EXIT_OK) {
      code = release(s);
    }
  }
  tsr_cli_progress_clear(&progress);
  return code;
}

static int tell_not_measured(const session *s)
{
  if (s->options->as_json) {
    return tsr_cli_json_print(json_pack("{s:i}", "not_measured", (int)s->not_measured), 0);
  }
  printf("%d cases were not measured in %g minutes\n", (int)s->not_measured, s->options->minutes);
  return TSR_EXIT_OK;
}

static int measure_all(session *s)
{
  static const char *const columns[] = {"operator",   "shape",     "type",    "device",         "form",
                                        "single us",  "on device", "each us", "each on device", "GFLOP/s",
                                        "of product", "GB/s",      "of copy"};
  enum { COLUMNS = sizeof columns / sizeof columns[0], DRY_COLUMNS = 6 };
  const request *options = s->options;
  const int32_t n_columns = options->dry ? DRY_COLUMNS : COLUMNS;
  int code = bench_crew_init(&s->crew, s->n);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_table_init(&s->table, n_columns, 0x1fe0);
  for (int32_t i = 0; i < n_columns; i++) {
    tsr_cli_table_cell(&s->table, "%s", options->dry && i == DRY_COLUMNS - 1 ? "memory" : columns[i]);
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    one->task = (bench_op_task){.threads = options->threads, .dry = options->dry};
    memcpy(one->task.cases, s->cases.cases, sizeof one->task.cases);
    bench_give(one->task.device, sizeof one->task.device, options->devices.values[i / options->variants.n]);
    bench_give(one->task.variant, sizeof one->task.variant, options->variants.values[i % options->variants.n]);
    code = bench_crew_start(&s->crew, BENCH_OP, &one->task);
  }
  if (code == TSR_EXIT_OK && !options->no_roofline && !options->dry) {
    code = measure_rooflines(s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_cases(s);
  }
  bench_crew_finish(&s->crew);
  if (code == TSR_EXIT_OK && !options->as_json) {
    for (int32_t i = 0; i < s->n; i += options->variants.n) {
      const bench_device_text *device = &s->sides[i].last.device;
      printf("%s: %s, %s\n", device->device, device->name, device->driver);
    }
    code = tsr_cli_table_print(&s->table, stdout);
  }
  tsr_cli_table_finish(&s->table);
  if (code == TSR_EXIT_OK && s->not_measured > 0) {
    code = tell_not_measured(s);
  }
  return code;
}

static int run(void *opaque)
{
  const request *options = opaque;
  session *s = calloc(1, sizeof *s);
  int32_t n_sides = options->devices.n * options->variants.n;
  side *sides = calloc((size_t)n_sides, sizeof *sides);
  int code = TSR_EXIT_OK;
  if (!s || !sides) {
    code = tsr_cli_no_memory();
  } else {
    s->options = options;
    s->sides = sides;
    s->n = n_sides;
    s->start = tsr_cli_seconds();
    code = bench_list_cases(&options->which, &s->cases);
    if (options->minutes > 0.0) {
      take_turns(&s->cases);
    }
    if (code == TSR_EXIT_OK) {
      code = measure_all(s);
    }
  }
  free(sides);
  free(s);
  return code;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    BENCH_DEVICES(request),
    {"op", "O,..", TSR_OPTION_TEXT, FIELD(which.ops), .is_list = 1, .repeats = 1, .help = "these operators",
     .otherwise = "all"},
    {"shapes", "S,..", TSR_OPTION_TEXT, FIELD(which.shapes), .is_list = 1,
     .help =
         "these shapes instead of the usual ones, for the operators with as many extents; all shapes are listed below"},
    BENCH_PRECISIONS_AT(
        request, which.precisions,
        .help =
            "type of the matrices, and of attention's keys and values: f32, f16, bf16, int8, int4 (these matrices "
            "only). With f16 "
            "and bf16, what is multiplied with them may be rounded to the same type, as in a model of that precision",
        .preset = "f32"),
    {"large", NULL, TSR_OPTION_FLAG, FIELD(which.large), .low = 1,
     .help = "also measure the usual shapes that take seconds on a CPU"},
    {"variant", "V,..", TSR_OPTION_VARIANT, FIELD(variants), .is_list = 1, .repeats = 1,
     .help = "variants of kernels (`tessera devices --variants` lists them), each forced in turn wherever it exists; "
             "the output names the variant that was used",
     .otherwise = "the device's choice"},
    {"dry", NULL, TSR_OPTION_FLAG, FIELD(dry), .low = 1,
     .help = "compile, run nothing, and print how much memory a program takes besides its operands and its result"},
    {"no-roofline", NULL, TSR_OPTION_FLAG, FIELD(no_roofline), .low = 1,
     .help = "do not measure the large copy and the large product"},
    {"threads", "N", TSR_OPTION_INTEGER, FIELD(threads), 1, 1024, .help = "threads of the devices, as TESSERA_THREADS",
     .otherwise = "as they decide"},
    {"minutes", "M", TSR_OPTION_NUMBER, FIELD(minutes), 0.001, 10000,
     .help =
         "begin no case after so long, and tell how many there were left. Operators take turns then, the first case "
         "of each, then the second",
     .otherwise = "no limit"},
    BENCH_REPEAT(request, "9",
                 .help = "samples of each, after one to warm up; a sample is the mean over runs of at least 0.01 s "
                         "together"),
    BENCH_JSON(request, "print one JSON object a line"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command bench_ops = {
    .name = "ops",
    .parent = "bench",
    .usage = "[OPTION]...",
    .intro =
        "Measures operators at given shapes; devices take turns. Each operator is measured twice: alone in a program "
        "(single us: submitting and waiting are included), and many times in one program, each waiting for the one "
        "before, as within a model (each us). Times are by the host's clock and, if the device measures time, by its "
        "own. GFLOP/s and GB/s are those of the long program, by the clock that shows less time (measuring between "
        "small lines may itself cost more than the lines). The percentages beside them compare with a large product "
        "(of the same type) and with a large copy on the same device, in the same run.",
    .options = &options,
    .print_notes = bench_print_operators,
    .notes = "Each round of the long program reads other operands, up to 64 MiB of them. An operator that the device "
             "lacks is shown as not supported.",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
