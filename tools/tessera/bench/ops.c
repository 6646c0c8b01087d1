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

enum { MAX_CASES = 256, MAX_SHAPES = 32 };

typedef struct usual_case {
  const char *op;
  const char *shape;
  int32_t large;
} usual_case;

static const usual_case usual[] = {
    {"matmul", "512x512x512", 0},
    {"matmul", "1024x1024x1024", 0},
    {"matmul", "2048x64x512", 0},
    {"matmul", "512x64x2048", 0},
    {"matmul", "37000x8x512", 0},
    {"matmul", "512x1x512", 0},
    {"matmul", "2048x1x512", 0},
    {"matmul", "32000x1x512", 0},
    {"matmul", "4096x4096x4096", 1},
    {"logits_topk", "37000x4x512x8", 0},
    {"attention", "1x256x8x64", 0},
    {"attention", "512x512x8x64", 0},
    {"attention", "1024x1024x8x64", 1},
    {"attention", "8192x8192x8x64", 1},
    {"softmax", "1x512", 0},
    {"softmax", "64x512", 0},
    {"softmax", "512x512", 0},
    {"layernorm", "1x512", 0},
    {"layernorm", "64x512", 0},
    {"layernorm", "512x512", 0},
    {"rmsnorm", "1x512", 0},
    {"rmsnorm", "64x512", 0},
    {"rmsnorm", "512x512", 0},
    {"add", "8x512", 0},
    {"add", "64x512", 0},
    {"add", "512x512", 0},
    {"add_norm", "8x512", 0},
    {"add_norm", "512x512", 0},
    {"gelu", "64x2048", 0},
    {"topk", "4x37000x8", 0},
    {"copy", "512x512", 0},
};

enum { USUAL = sizeof usual / sizeof usual[0] };

typedef struct request {
  tsr_names devices;
  tsr_names ops;
  tsr_integers precisions;
  tsr_names shapes; /* none: the usual ones */
  tsr_names variants;
  int large;
  int no_roofline;
  int dry;
  int32_t threads;
  int32_t repeat;
  int as_json;
} request;

/* Medians of one clock in what each device does at most; 0: not measured. */
typedef struct roofline {
  double copy;            /* bytes per second, read and written */
  double product[TSR_I8]; /* flops per second, by precision - 1 */
} roofline;

/* A device, perhaps with a form, and what it took for the case in hand. */
typedef struct side {
  bench_op_task task;
  roofline roof;
  bench_op_sample last;
  double single_host[BENCH_REPEATS], single_device[BENCH_REPEATS];
  double chained_host[BENCH_REPEATS], chained_device[BENCH_REPEATS];
} side;

typedef struct session {
  const request *wish;
  bench_op_case cases[MAX_CASES];
  int32_t n_cases;
  side *sides; /* [n], each form of a device by itself */
  int32_t n;
  bench_crew crew;
  tsr_cli_table table;
} session;

_Static_assert(TSR_F32 >= 1 && TSR_F16 <= TSR_I8 && TSR_BF16 <= TSR_I8 && TSR_F32 <= TSR_I8, "roofline.product");

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* The operators, and what the numbers of a shape are. */
static void print_operators(FILE *out)
{
  enum { COLUMN = 15 };
  const bench_op_info *info;
  fputs("Operators, and what the numbers of a shape are:\n", out);
  for (int32_t op = 0; (info = bench_op_describe(op)) != NULL; op++) {
    char shapes[512] = "";
    fprintf(out, "  %-12s %s\n%*s", info->name, info->extents, COLUMN, "");
    for (int32_t i = 0; i < USUAL; i++) {
      size_t used = strlen(shapes);
      if (strcmp(usual[i].op, info->name) == 0) {
        snprintf(shapes + used, sizeof shapes - used, usual[i].large ? "%s(%s)" : "%s%s", used > 0 ? " " : "",
                 usual[i].shape);
      }
    }
    tsr_help_fill(out, shapes, COLUMN, COLUMN);
  }
}

static int check(void *opaque)
{
  request *wish = opaque;
  bench_choose_device(&wish->devices);
  if (wish->variants.n == 0) {
    wish->variants.n = 1; /* NULL: the device's choice */
  }
  return TSR_EXIT_OK;
}

/* "512x64x2048" into extent. Returns how many numbers there were; 0 if it is no shape. */
static int32_t parse_shape(const char *text, int32_t *extent)
{
  for (int32_t n = 0; n < BENCH_EXTENTS; n++) {
    int end = 0;
    if (sscanf(text, "%7d%n", &extent[n], &end) != 1 || extent[n] < 1 || text[0] == '+') {
      return 0;
    }
    text += end;
    if (*text == '\0') {
      return n + 1;
    }
    if (*text++ != 'x') {
      return 0;
    }
  }
  return 0;
}

static int is_wanted(const request *wish, const char *op)
{
  int wanted = wish->ops.n == 0;
  for (int32_t i = 0; i < wish->ops.n; i++) {
    wanted |= strcmp(wish->ops.values[i], op) == 0;
  }
  return wanted;
}

static int check_ops(const request *wish)
{
  for (int32_t i = 0; i < wish->ops.n; i++) {
    const bench_op_info *info;
    int32_t op = 0;
    while ((info = bench_op_describe(op)) != NULL && strcmp(info->name, wish->ops.values[i]) != 0) {
      op++;
    }
    if (!info) {
      return tsr_cli_usage("bench", "--op: there is no '%s'; `tessera bench ops --help` lists the operators",
                           wish->ops.values[i]);
    }
  }
  return TSR_EXIT_OK;
}

/* The case of one shape, once for each precision. */
static int add_cases(session *s, int32_t op, const int32_t *extent)
{
  const tsr_integers *precisions = &s->wish->precisions;
  const bench_op_info *info = bench_op_describe(op);
  for (int32_t p = 0; p < (info->narrows ? precisions->n : 1); p++) {
    if (info->narrows && !info->quantises && precisions->values[p] == TSR_I8) {
      continue;
    }
    if (s->n_cases == MAX_CASES) {
      return tsr_cli_usage("bench", "more than %d cases", (int)MAX_CASES);
    }
    bench_op_case *test = &s->cases[s->n_cases++];
    *test = (bench_op_case){.op = op, .precision = info->narrows ? precisions->values[p] : TSR_F32};
    memcpy(test->extent, extent, (size_t)info->n_extents * sizeof *extent);
  }
  return TSR_EXIT_OK;
}

static int add_usual(session *s)
{
  const bench_op_info *info;
  int code = TSR_EXIT_OK;
  for (int32_t op = 0; (info = bench_op_describe(op)) != NULL; op++) {
    for (int32_t i = 0; i < USUAL && code == TSR_EXIT_OK; i++) {
      int32_t extent[BENCH_EXTENTS];
      if (strcmp(usual[i].op, info->name) == 0 && is_wanted(s->wish, info->name) && usual[i].large <= s->wish->large &&
          parse_shape(usual[i].shape, extent) == info->n_extents) {
        code = add_cases(s, op, extent);
      }
    }
  }
  return code;
}

/* The shapes of one operator. matched[i] is raised where shape i is one. */
static int add_shapes_of(session *s, int32_t op, const tsr_names *shapes, int32_t *matched)
{
  const bench_op_info *info = bench_op_describe(op);
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < shapes->n && code == TSR_EXIT_OK; i++) {
    int32_t extent[BENCH_EXTENTS];
    if (is_wanted(s->wish, info->name) && parse_shape(shapes->values[i], extent) == info->n_extents) {
      matched[i]++;
      code = add_cases(s, op, extent);
    }
  }
  return code;
}

/* What the builders of an operator refuse, such as the 8 largest of 5, they tell themselves. */
static int add_shapes(session *s)
{
  const tsr_names *shapes = &s->wish->shapes;
  int32_t matched[MAX_SHAPES] = {0};
  int code = TSR_EXIT_OK;
  if (shapes->n > MAX_SHAPES) {
    code = tsr_cli_usage("bench", "--shapes: more than %d", (int)MAX_SHAPES);
  }
  for (int32_t op = 0; bench_op_describe(op) != NULL && code == TSR_EXIT_OK; op++) {
    code = add_shapes_of(s, op, shapes, matched);
  }
  for (int32_t i = 0; i < shapes->n && code == TSR_EXIT_OK; i++) {
    if (!matched[i]) {
      code = tsr_cli_usage("bench", "--shapes: '%s' is a shape of none of the operators", shapes->values[i]);
    }
  }
  return code;
}

static int make_cases(session *s)
{
  int code = check_ops(s->wish);
  if (code == TSR_EXIT_OK) {
    code = s->wish->shapes.n > 0 ? add_shapes(s) : add_usual(s);
  }
  return code;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

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
  int32_t n = s->wish->repeat;
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

/* what: the operator, or which roofline */
static int print_json(const session *s, side *one, const char *what)
{
  const bench_op_sample *last = &one->last;
  const char *precision = tsr_cli_precision_name(last->test.precision);
  char shape[64];
  json_t *root = json_pack("{s:s, s:s, s:s, s:b}", "op", what, "shape", shape_name(&last->test, shape, sizeof shape),
                           "precision", precision, "supported", (int)last->supported);
  if (root && last->supported && s->wish->dry) {
    json_object_update_new(root, json_pack("{s:f, s:f, s:o}", "flops", last->flops, "bytes", last->bytes,
                                           "scratch_bytes", scratch_json(last)));
  } else if (root && last->supported) {
    figures f = summarise(s, one);
    json_t *numbers =
        json_pack("{s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:o}", "lines", (int)last->lines,
                  "repeat", (int)s->wish->repeat, "flops", last->flops, "bytes", last->bytes, "scratch_bytes",
                  scratch_json(last), "single_us", time_json(&f.single_host, 1), "single_device_us",
                  time_json(&f.single_device, f.timed), "each_us", time_json(&f.chained_host, 1), "each_device_us",
                  time_json(&f.chained_device, f.timed), "gflops", 1e-9 * f.flops, "gb_per_second", 1e-9 * f.bytes,
                  "of_product", share_json(f.of_product), "of_copy", share_json(f.of_copy));
    json_object_update_new(root, numbers);
  }
  if (root && one->task.variant) {
    json_object_set_new(root, "variant", json_string(one->task.variant));
  }
  if (root && last->supported && last->form[0]) {
    json_object_set_new(root, "form", json_string(last->form));
  }
  if (root && s->wish->threads > 0) {
    json_object_set_new(root, "threads", json_integer(s->wish->threads));
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
    for (int32_t i = 0; i < (s->wish->dry ? 1 : 8); i++) {
      tsr_cli_table_cell(&s->table, "-");
    }
    return;
  }
  if (s->wish->dry) {
    tsr_cli_table_cell(&s->table, "%s", last->form[0] ? last->form : "-");
    tsr_cli_table_cell(&s->table, "%s", last->scratch < 0 ? "-" : tsr_cli_bytes((uint64_t)last->scratch, text));
    return;
  }
  figures f = summarise(s, one);
  tsr_cli_table_cell(&s->table, "%s", last->form[0] ? last->form : "-");
  time_cell(&s->table, &f.single_host, 1);
  time_cell(&s->table, &f.single_device, f.timed);
  time_cell(&s->table, &f.chained_host, 1);
  time_cell(&s->table, &f.chained_device, f.timed);
  tsr_cli_table_cell(&s->table, "%.2f", 1e-9 * f.flops);
  share_cell(&s->table, f.of_product);
  tsr_cli_table_cell(&s->table, "%.2f", 1e-9 * f.bytes);
  share_cell(&s->table, f.of_copy);
}

static int tell(session *s, const char *what)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    if (s->wish->as_json) {
      code = print_json(s, &s->sides[i], what);
    } else {
      add_row(s, &s->sides[i], what);
    }
  }
  return code == TSR_EXIT_OK && s->wish->as_json ? tsr_cli_flush() : code;
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
  const request *wish = s->wish;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = ask(s, i, preparing);
  }
  for (int32_t r = -1; r < wish->repeat && !wish->dry; r++) {
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
    code = tell(s, precision ? "large product" : "large copy");
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
  for (int32_t p = 0; p < s->wish->precisions.n && code == TSR_EXIT_OK; p++) {
    if (s->wish->precisions.values[p] != TSR_F32) {
      code = measure_roofline(s, s->wish->precisions.values[p]);
    }
  }
  return code;
}

static int measure_cases(session *s)
{
  tsr_cli_progress progress;
  int code = TSR_EXIT_OK;
  tsr_cli_progress_start(&progress, "measuring");
  for (int32_t i = 0; i < s->n_cases && code == TSR_EXIT_OK; i++) {
    tsr_cli_progress_update(&progress, i, s->n_cases);
    code = measure(s, BENCH_OPS * BENCH_OP_PREPARE + i);
    if (code == TSR_EXIT_OK && s->wish->as_json) {
      tsr_cli_progress_clear(&progress);
    }
    if (code == TSR_EXIT_OK) {
      code = tell(s, bench_op_describe(s->cases[i].op)->name);
    }
    if (code == TSR_EXIT_OK) {
      code = release(s);
    }
  }
  tsr_cli_progress_clear(&progress);
  return code;
}

static int measure_all(session *s)
{
  static const char *const columns[] = {"operator",   "shape",     "type",    "device",         "form",
                                        "single us",  "on device", "each us", "each on device", "GFLOP/s",
                                        "of product", "GB/s",      "of copy"};
  enum { COLUMNS = sizeof columns / sizeof columns[0], DRY_COLUMNS = 6 };
  const request *wish = s->wish;
  const int32_t n_columns = wish->dry ? DRY_COLUMNS : COLUMNS;
  int code = bench_crew_init(&s->crew, s->n);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_table_init(&s->table, n_columns, 0x1fe0);
  for (int32_t i = 0; i < n_columns; i++) {
    tsr_cli_table_cell(&s->table, "%s", wish->dry && i == DRY_COLUMNS - 1 ? "memory" : columns[i]);
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    one->task = (bench_op_task){.cases = s->cases,
                                .device = wish->devices.values[i / wish->variants.n],
                                .variant = wish->variants.values[i % wish->variants.n],
                                .threads = wish->threads,
                                .dry = wish->dry};
    code = bench_crew_start(&s->crew, bench_op_body, &one->task);
  }
  if (code == TSR_EXIT_OK && !wish->no_roofline && !wish->dry) {
    code = measure_rooflines(s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_cases(s);
  }
  bench_crew_finish(&s->crew);
  if (code == TSR_EXIT_OK && !wish->as_json) {
    for (int32_t i = 0; i < s->n; i += wish->variants.n) {
      const bench_device_text *device = &s->sides[i].last.device;
      printf("%s: %s, %s\n", device->device, device->name, device->driver);
    }
    code = tsr_cli_table_print(&s->table, stdout);
  }
  tsr_cli_table_finish(&s->table);
  return code;
}

static int run(void *opaque)
{
  const request *wish = opaque;
  session *s = calloc(1, sizeof *s);
  int32_t n_sides = wish->devices.n * wish->variants.n;
  side *sides = calloc((size_t)n_sides, sizeof *sides);
  int code = TSR_EXIT_OK;
  if (!s || !sides) {
    code = tsr_cli_no_memory();
  } else {
    s->wish = wish;
    s->sides = sides;
    s->n = n_sides;
    code = make_cases(s);
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
    {"op", "O,..", TSR_OPTION_TEXT, FIELD(ops), .is_list = 1, .repeats = 1, .help = "these operators",
     .otherwise = "all"},
    {"shapes", "S,..", TSR_OPTION_TEXT, FIELD(shapes), .is_list = 1,
     .help = "these shapes instead of the usual ones, for the operators that have as many extents; all listed below"},
    BENCH_PRECISIONS(request,
                     .help = "of the matrices, and of attention's keys and values: f32, f16, bf16, int8 (matrices "
                             "alone). With f16 and bf16 what they are multiplied with may be rounded to the same type, "
                             "as in a model of that precision",
                     .preset = "f32"),
    {"large", NULL, TSR_OPTION_FLAG, FIELD(large), .low = 1,
     .help = "the usual shapes that take seconds on a CPU, too"},
    {"variant", "F,..", TSR_OPTION_VARIANT, FIELD(variants), .is_list = 1, .repeats = 1,
     .help = "forms of kernels (`tessera devices --variants` lists them), each forced in turn wherever it can be had; "
             "which form was taken is told",
     .otherwise = "the device's choice"},
    {"dry", NULL, TSR_OPTION_FLAG, FIELD(dry), .low = 1,
     .help = "compile, run nothing, and tell what memory a program takes besides its operands and its result"},
    {"no-roofline", NULL, TSR_OPTION_FLAG, FIELD(no_roofline), .low = 1,
     .help = "without the large copy and the large product"},
    {"threads", "N", TSR_OPTION_INTEGER, FIELD(threads), 1, 1024, .help = "threads of the devices, as TESSERA_THREADS",
     .otherwise = "as they decide"},
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
        "Measures operators at given shapes, devices taking turns. Each is a program of its own (single us: handing "
        "it over and waiting are included), and many times in one program, each waiting for the one before, as "
        "within a model (each us). By the host's clock and, where the device has times, by its own. GFLOP/s and "
        "GB/s are those of the long program by the clock that shows less (times between small lines may themselves "
        "cost more than the lines); beside them stands what part that is of what the same device reached in the "
        "same run in a large product (of the same type) and in a large copy.",
    .options = &options,
    .print_notes = print_operators,
    .notes = "Rounds of the long program read other operands each, up to 64 MiB of them. An operator that the device "
             "lacks is told as not supported.",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
