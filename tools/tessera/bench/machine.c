/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench machine: what the machine itself reaches, memory, matrix units and a BLAS, and what a device makes of
 * the same products.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

enum { MAX_SIDES = 64 };

static const char default_products[] =
    "512x512x512n,800x2048x512n,800x37000x512,32x2048x512,1x2048x512,1x2048x512s,1x37000x512s";

typedef struct request {
  tsr_names devices;
  int no_device;
  int no_blas;
  tsr_integers precisions;
  tsr_integers threads;
  bench_product products[BENCH_MOST_PRODUCTS];
  int32_t n_products;
  tsr_names product_names;
  int32_t megabytes; /* 0: chosen */
  int32_t repeat;
  int as_json;
} request;

/* A library or a device with a number of threads, and what it took for the product in hand. */
typedef struct side {
  bench_product_task task;
  bench_product_sample last;
  double seconds[BENCH_REPEATS];
  double median;
} side;

typedef struct session {
  const request *options;
  bench_memory_task reading;
  double rates[TSR_INTEGERS][BENCH_REPEATS]; /* bytes read per second, of each number of threads */
  bench_summary bandwidth[TSR_INTEGERS];     /* of the rates measured last */
  bench_crew memory;
  double peaks[TSR_INTEGERS][BENCH_TILES_KINDS]; /* operations a second of matrix units, of each number of threads */
  side *sides;                                   /* [n] */
  int32_t n;
  bench_crew crew;
  tsr_cli_table table;
} session;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int parse_product(const char *text, bench_product *p)
{
  static const char form[] = "is not of the form MxNxK or BxMxNxK, followed by any of the letters n, t, v, s";
  int end = 0;
  *p = (bench_product){0};
  if (sscanf(text, "%5dx%5dx%6dx%5d%n", &p->batch, &p->m, &p->n, &p->k, &end) != 4) {
    p->batch = 1;
    if (sscanf(text, "%5dx%6dx%5d%n", &p->m, &p->n, &p->k, &end) != 3) {
      return tsr_cli_usage("bench", "--product: '%s' %s", text, form);
    }
  }
  p->plain = strchr(text, 'n') != NULL;
  p->transposed = strchr(text, 't') != NULL;
  p->varies = strchr(text, 'v') != NULL;
  p->stream = strchr(text, 's') != NULL;
  if (p->batch < 1 || p->m < 1 || p->n < 1 || p->k < 1 || text[end + (int)strspn(text + end, "ntvs")] != '\0') {
    return tsr_cli_usage("bench", "--product: '%s' %s", text, form);
  }
  return TSR_EXIT_OK;
}

static int parse_products(request *options)
{
  const tsr_names *names = &options->product_names;
  if (names->n > BENCH_MOST_PRODUCTS) {
    return tsr_cli_usage("bench", "--product: more than %d", (int)BENCH_MOST_PRODUCTS);
  }
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < names->n && code == TSR_EXIT_OK; i++) {
    code = parse_product(names->values[i], &options->products[options->n_products++]);
  }
  return code;
}

static int check(void *opaque)
{
  request *options = opaque;
  if (options->threads.n == 0) {
    int32_t all = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    options->threads = (tsr_integers){.values = {1, all}, .n = all > 1 ? 2 : 1};
  }
  bench_choose_device(&options->devices);
  if (options->no_device) {
    options->devices.n = 0;
  }
  return parse_products(options);
}

/* ---- the memory -------------------------------------------------------------------------------------------------- */

/* One sample of each number of threads into rates[r]; r -1: to warm up. */
static int measure_bandwidth(session *s, int32_t r)
{
  int code = TSR_EXIT_OK;
  for (int32_t t = 0; t < s->options->threads.n && code == TSR_EXIT_OK; t++) {
    double seconds = 0.0;
    code = bench_crew_ask(&s->memory, 0, s->options->threads.values[t], &seconds, sizeof seconds);
    if (r >= 0) {
      s->rates[t][r] = seconds > 0.0 ? (double)s->reading.bytes / seconds : 0.0;
    }
  }
  return code;
}

static void summarise_bandwidth(session *s)
{
  for (int32_t t = 0; t < s->options->threads.n; t++) {
    s->bandwidth[t] = bench_summarise(s->rates[t], s->options->repeat);
  }
}

/* Starts the process that reads, which stays until the end. */
static int start_memory(session *s)
{
  int code = bench_crew_init(&s->memory, 1);
  if (code == TSR_EXIT_OK) {
    code = bench_crew_start(&s->memory, BENCH_MEMORY, &s->reading);
  }
  for (int32_t r = -1; r < s->options->repeat && code == TSR_EXIT_OK; r++) {
    code = measure_bandwidth(s, r);
  }
  if (code == TSR_EXIT_OK) {
    summarise_bandwidth(s);
  }
  return code;
}

/* ---- matrix units ------------------------------------------------------------------------------------------------ */

static int measure_tiles(session *s)
{
  const request *options = s->options;
  bench_crew crew;
  int code = bench_crew_init(&crew, 1);
  if (code == TSR_EXIT_OK) {
    code = bench_crew_start(&crew, BENCH_TILES, &(int32_t){0});
  }
  for (int32_t t = 0; t < options->threads.n && code == TSR_EXIT_OK; t++) {
    for (int32_t kind = 0; kind < BENCH_TILES_KINDS && code == TSR_EXIT_OK; kind++) {
      double rates[BENCH_REPEATS];
      for (int32_t r = 0; r < options->repeat && code == TSR_EXIT_OK; r++) {
        const int32_t wanted = BENCH_TILES_KINDS * options->threads.values[t] + kind;
        code = bench_crew_ask(&crew, 0, wanted, &rates[r], sizeof rates[r]);
      }
      s->peaks[t][kind] = code == TSR_EXIT_OK ? bench_summarise(rates, options->repeat).median : 0.0;
    }
  }
  bench_crew_finish(&crew);
  return code;
}

static int tell_tiles(const session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t t = 0; t < s->options->threads.n && s->peaks[t][0] > 0.0 && code == TSR_EXIT_OK; t++) {
    const int threads = (int)s->options->threads.values[t];
    const double bf16 = 1e-9 * s->peaks[t][BENCH_TILES_BF16], i8 = 1e-9 * s->peaks[t][BENCH_TILES_I8];
    if (s->options->as_json) {
      code = tsr_cli_json_print(
          json_pack("{s:i, s:f, s:f}", "threads", threads, "tiles_bf16_gflops", bf16, "tiles_int8_gflops", i8),
          JSON_REAL_PRECISION(6));
    } else {
      printf("matrix units, %d thread%s: %.0f GFLOP/s in bf16, %.0f in int8\n", threads, threads == 1 ? "" : "s", bf16,
             i8);
    }
  }
  return code;
}

/* ---- the kernels of the BLAS ------------------------------------------------------------------------------------- */

/* Names of OPENBLAS_CORETYPE, and what the system must tell of the processor for each. */
static const struct {
  const char *core;
  const char *flag;
} cores[] = {{NULL, NULL}, {"Haswell", " avx2 "}, {"SkylakeX", " avx512bw "}, {"Cooperlake", " avx512_bf16 "}};

enum { CORES = sizeof cores / sizeof cores[0] };

/* The processor's flags as Linux lists them, with a blank at each end; "" where it does not. */
static void read_flags(char *flags, size_t size)
{
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen("/proc/cpuinfo", "r");
  flags[0] = '\0';
  while (file && !flags[0] && getline(&line, &room, file) > 0) {
    if (strncmp(line, "flags", 5) == 0) {
      line[strcspn(line, "\n")] = ' ';
      snprintf(flags, size, "%s", line + 5);
    }
  }
  free(line);
  if (file) {
    fclose(file);
  }
}

static void name_core(bench_product_task *task, int32_t core)
{
  bench_give(task->blas_core, sizeof task->blas_core, cores[core].core);
}

/* Asks OpenBLAS for each kind of kernels that the processor can execute, and takes the fastest; its own choice, if that
 * is within 5 % of it. */
static int choose_blas_core(session *s)
{
  static const bench_product product = {.batch = 1, .m = 512, .n = 512, .k = 512};
  bench_product_task task;
  double seconds[CORES];
  char flags[8192];
  int32_t best = 0;
  bench_crew crew;
  int code = bench_crew_init(&crew, CORES);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  read_flags(flags, sizeof flags);
  for (int32_t i = 0; i < CORES && code == TSR_EXIT_OK; i++) {
    bench_product_sample sample;
    task = (bench_product_task){.products = {product}, .blas = 1, .threads = 1};
    name_core(&task, i);
    seconds[i] = INFINITY;
    if (i > 0 && !strstr(flags, cores[i].flag)) {
      continue;
    }
    int32_t process = crew.n;
    code = bench_crew_start(&crew, BENCH_PRODUCT, &task);
    int32_t requests[] = {BENCH_PREPARE, BENCH_MULTIPLY, BENCH_MULTIPLY, BENCH_MULTIPLY};
    for (size_t r = 0; r < sizeof requests / sizeof requests[0] && code == TSR_EXIT_OK; r++) {
      code = bench_crew_ask(&crew, process, requests[r] * BENCH_PRODUCTS, &sample, sizeof sample);
      seconds[i] = r > 0 && sample.seconds < seconds[i] ? sample.seconds : seconds[i];
    }
    best = seconds[i] < 0.95 * seconds[best] ? i : best;
  }
  bench_crew_finish(&crew);
  for (int32_t i = 0; i < s->n; i++) {
    name_core(&s->sides[i].task, best);
  }
  if (code == TSR_EXIT_OK && best > 0) {
    tsr_cli_warning("OpenBLAS chooses kernels that reach %.0f %% of those for %s, which OPENBLAS_CORETYPE=%s makes it "
                    "take; the latter are measured",
                    100.0 * seconds[best] / seconds[0], cores[best].core, cores[best].core);
  }
  return code;
}

/* ---- the products ------------------------------------------------------------------------------------------------ */

static int measure_product(session *s, int32_t product)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    code = bench_crew_ask(&s->crew, i, BENCH_PREPARE * BENCH_PRODUCTS + product, &one->last, sizeof one->last);
  }
  for (int32_t r = 0; r < s->options->repeat; r++) {
    for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
      side *one = &s->sides[i];
      code = bench_crew_ask(&s->crew, i, BENCH_MULTIPLY * BENCH_PRODUCTS + product, &one->last, sizeof one->last);
      one->seconds[r] = one->last.seconds;
    }
    if (s->options->products[product].stream && code == TSR_EXIT_OK) {
      code = measure_bandwidth(s, r);
    }
  }
  if (code == TSR_EXIT_OK) {
    summarise_bandwidth(s);
  }
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    one->median = bench_summarise(one->seconds, s->options->repeat).median;
    code = bench_crew_ask(&s->crew, i, BENCH_RELEASE * BENCH_PRODUCTS + product, &one->last, sizeof one->last);
  }
  return code;
}

/* The sides of one number of threads lie together, the BLAS first. */
static int make_sides(session *s)
{
  const request *options = s->options;
  int32_t one = !options->no_blas + options->devices.n * options->precisions.n;
  if ((int64_t)one * options->threads.n > MAX_SIDES) {
    return tsr_cli_usage("bench", "more than %d combinations of devices, types and threads", (int)MAX_SIDES);
  }
  s->sides = calloc((size_t)one * (size_t)options->threads.n + 1, sizeof *s->sides);
  if (!s->sides) {
    return tsr_cli_no_memory();
  }
  for (int32_t t = 0; t < options->threads.n; t++) {
    for (int32_t i = options->no_blas; i <= options->devices.n * options->precisions.n; i++) {
      bench_product_task *task = &s->sides[s->n++].task;
      *task = (bench_product_task){.blas = i == 0, .threads = options->threads.values[t]};
      memcpy(task->products, options->products, sizeof task->products);
      if (i > 0) {
        bench_give(task->device, sizeof task->device, options->devices.values[(i - 1) / options->precisions.n]);
        task->precision = options->precisions.values[(i - 1) % options->precisions.n];
      }
    }
  }
  return TSR_EXIT_OK;
}

/* Everybody who takes turns holds a stream, and a backend perhaps a copy of it. */
static void choose_memory(session *s)
{
  int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  int64_t most = memory / 3 / (s->n + 1);
  s->reading.bytes = s->options->megabytes ? (int64_t)s->options->megabytes << 20 : (int64_t)1 << 30;
  if (!s->options->megabytes && s->reading.bytes > most) {
    s->reading.bytes = most;
  }
  for (int32_t i = 0; i < s->n; i++) {
    s->sides[i].task.stream_bytes = s->reading.bytes;
  }
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static char *product_name(const bench_product *p, char *text, size_t size)
{
  char batch[16] = "";
  if (p->batch > 1) {
    snprintf(batch, sizeof batch, "%dx", (int)p->batch);
  }
  snprintf(text, size, "%s%dx%dx%d%s%s%s%s", batch, (int)p->m, (int)p->n, (int)p->k, p->plain ? "n" : "",
           p->transposed ? "t" : "", p->varies ? "v" : "", p->stream ? "s" : "");
  return text;
}

/* What one side reaches with one product; 0 where there is nothing to compare with. */
typedef struct figures {
  double flops; /* per second */
  double bytes; /* of b, per second */
  double of_blas;
  double of_memory;
  double of_tiles;
} figures;

static figures compute_figures(const session *s, const bench_product *p, int32_t index)
{
  const side *one = &s->sides[index];
  int32_t per_threads = s->n / s->options->threads.n, group = index / per_threads;
  const side *blas = s->options->no_blas ? NULL : &s->sides[group * per_threads];
  /* Of four bits with their scales. */
  const double size = one->task.blas                  ? sizeof(float)
                      : one->task.precision == TSR_I4 ? (TSR_I4_BYTES + 2.0) / TSR_I4_GROUP
                                                      : (double)tsr_dtype_size(one->task.precision);
  figures f = {.flops = 2.0 * p->batch * p->m * p->n * p->k / one->median,
               .bytes = (double)p->batch * p->n * p->k * size / one->median};
  if (blas && blas != one) {
    f.of_blas = blas->median / one->median;
  }
  if (p->stream && s->bandwidth[group].median > 0.0) {
    f.of_memory = f.bytes / s->bandwidth[group].median;
  }
  if (!one->task.blas && (one->task.precision == TSR_BF16 || one->task.precision == TSR_I8)) {
    const double peak = s->peaks[group][one->task.precision == TSR_BF16 ? BENCH_TILES_BF16 : BENCH_TILES_I8];
    f.of_tiles = peak > 0.0 ? f.flops / peak : 0.0;
  }
  return f;
}

static void percent_cell(tsr_cli_table *table, double part)
{
  if (part > 0.0) {
    tsr_cli_table_cell(table, "%.1f %%", 100.0 * part);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

static int tell_product(session *s, const bench_product *p)
{
  char text[64], date[TSR_DATE_ROOM];
  int code = TSR_EXIT_OK;
  product_name(p, text, sizeof text);
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    side *one = &s->sides[i];
    figures f = compute_figures(s, p, i);
    const char *name = one->task.blas ? "BLAS" : one->last.name;
    const char *precision = tsr_cli_precision_name(one->task.blas ? TSR_F32 : one->task.precision);
    if (s->options->as_json) {
      bench_summary seconds = bench_summarise(one->seconds, s->options->repeat);
      code = tsr_cli_json_print(
          json_pack("{s:s, s:s, s:s, s:i, s:f, s:o, s:f, s:f, s:o, s:o, s:o, s:s}", "product", text, "side", name,
                    "precision", precision, "threads", (int)one->task.threads, "seconds", one->median, "us",
                    bench_summary_json(&seconds, 1e6), "gflops", 1e-9 * f.flops, "gb_per_second", 1e-9 * f.bytes,
                    "of_blas", f.of_blas > 0.0 ? json_real(f.of_blas) : json_null(), "of_memory",
                    f.of_memory > 0.0 ? json_real(f.of_memory) : json_null(), "of_tiles",
                    f.of_tiles > 0.0 ? json_real(f.of_tiles) : json_null(), "date", tsr_cli_date(date)),
          JSON_REAL_PRECISION(6));
      continue;
    }
    tsr_cli_table_cell(&s->table, "%s", text);
    tsr_cli_table_cell(&s->table, "%d", (int)one->task.threads);
    tsr_cli_table_cell(&s->table, "%s", name);
    tsr_cli_table_cell(&s->table, "%s", precision);
    tsr_cli_table_cell(&s->table, "%.1f", 1e6 * one->median);
    tsr_cli_table_cell(&s->table, "%.1f", 1e-9 * f.flops);
    percent_cell(&s->table, f.of_blas);
    tsr_cli_table_cell(&s->table, "%.1f", 1e-9 * f.bytes);
    percent_cell(&s->table, f.of_memory);
    percent_cell(&s->table, f.of_tiles);
  }
  return code;
}

/* Bytes of the largest cache that the system tells of; 0: unknown. */
static int64_t largest_cache(void)
{
  long size = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return size > 0 ? size : 0;
}

static int tell_machine(const session *s)
{
  char text[3][32];
  int64_t cache = largest_cache(), memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  int code = TSR_EXIT_OK;
  if (cache > 0 && s->reading.bytes < 3 * cache) {
    tsr_cli_warning("the last cache is %s: reading %s over and over may be reading from it; see --memory",
                    tsr_cli_bytes((uint64_t)cache, text[0]), tsr_cli_bytes((uint64_t)s->reading.bytes, text[1]));
  }
  if (!s->options->as_json) {
    printf("%d processors, last cache %s, memory %s\n", (int)sysconf(_SC_NPROCESSORS_ONLN),
           cache > 0 ? tsr_cli_bytes((uint64_t)cache, text[0]) : "unknown", tsr_cli_bytes((uint64_t)memory, text[1]));
  }
  for (int32_t t = 0; t < s->options->threads.n && code == TSR_EXIT_OK; t++) {
    int threads = (int)s->options->threads.values[t];
    if (s->options->as_json) {
      code = tsr_cli_json_print(json_pack("{s:I, s:i, s:f, s:f}", "memory_read", (json_int_t)s->reading.bytes,
                                          "threads", threads, "gb_per_second", 1e-9 * s->bandwidth[t].median, "best",
                                          1e-9 * s->bandwidth[t].most),
                                JSON_REAL_PRECISION(6));
    } else {
      printf("reading %s, %d thread%s: %.1f GB/s, %.1f at best\n", tsr_cli_bytes((uint64_t)s->reading.bytes, text[2]),
             threads, threads == 1 ? "" : "s", 1e-9 * s->bandwidth[t].median, 1e-9 * s->bandwidth[t].most);
    }
  }
  return code;
}

static int measure_products(session *s)
{
  static const char *const columns[] = {"product", "threads", "side",      "b",         "us",
                                        "GFLOP/s", "of BLAS", "GB/s of b", "of memory", "of tiles"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  const request *options = s->options;
  int code = bench_crew_init(&s->crew, s->n + 1);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_table_begin(&s->table, columns, COLUMNS, 0x3f2);
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    code = bench_crew_start(&s->crew, BENCH_PRODUCT, &s->sides[i].task);
  }
  for (int32_t p = 0; p < options->n_products && s->n > 0 && code == TSR_EXIT_OK; p++) {
    code = measure_product(s, p);
    if (code == TSR_EXIT_OK) {
      code = tell_product(s, &options->products[p]);
    }
  }
  bench_crew_finish(&s->crew);
  if (code == TSR_EXIT_OK && !options->as_json && s->n > 0) {
    if (!options->no_blas) {
      printf("BLAS: %s\n", s->sides[0].last.name);
    }
    code = tsr_cli_table_print(&s->table, stdout);
  }
  tsr_cli_table_finish(&s->table);
  return code;
}

static int run(void *opaque)
{
  const request *options = opaque;
  session *s = calloc(1, sizeof *s);
  if (!s) {
    return tsr_cli_no_memory();
  }
  s->options = options;
  int code = make_sides(s);
  if (code == TSR_EXIT_OK) {
    choose_memory(s);
    code = start_memory(s);
  }
  if (code == TSR_EXIT_OK) {
    code = tell_machine(s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_tiles(s);
  }
  if (code == TSR_EXIT_OK && !options->as_json) {
    code = tell_tiles(s);
  }
  if (code == TSR_EXIT_OK && !options->no_blas) {
    code = choose_blas_core(s);
  }
  if (code == TSR_EXIT_OK) {
    code = measure_products(s);
  }
  if (code == TSR_EXIT_OK && options->as_json) {
    code = tell_tiles(s);
  }
  bench_crew_finish(&s->memory);
  free(s->sides);
  free(s);
  return code;
}

static const tsr_option rows[] = {
    BENCH_DEVICES(request),
    {"no-device", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, no_device), .low = 1, .help = "measure only the machine"},
    {"no-blas", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, no_blas), .low = 1,
     .help = "use no BLAS; otherwise libopenblas.so.0, or libblas.so.3 if that is not installed"},
    BENCH_PRECISIONS(request, .help = "type of b on the devices: f32, f16, bf16, int8, int4", .preset = "f32"),
    BENCH_THREADS(request, .help = "threads of the BLAS and of the devices", .otherwise = "1 and all processors"),
    {"product", "P,..", TSR_OPTION_TEXT, TSR_FIELD(request, product_names), .is_list = 1,
     .help = "MxNxK, or BxMxNxK for a batch of B, followed by letters. n: b is stored as [K, N]; without n as [N, K], "
             "as models store weights. t: a is stored as [K, M]; without t as [M, K]. v: b may change from run to run, "
             "as in training; without v it is constant. s: another b each time, so that none is in a cache",
     .preset = default_products},
    {"memory", "MB", TSR_OPTION_INTEGER, TSR_FIELD(request, megabytes), 1, 1 << 20,
     .help =
         "megabytes read at a time, and taken by all b of a product with s; should be several times the largest cache",
     .otherwise = "1024, or less if the processes that take turns would need more than a third of the memory together"},
    BENCH_REPEAT(request, "7",
                 .help = "samples of each, after one to warm up; a sample is the mean over rounds of at least 0.02 s "
                         "together"),
    BENCH_JSON(request, "print one JSON object a line"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command bench_machine = {
    .name = "machine",
    .parent = "bench",
    .usage = "[OPTION]...",
    .intro =
        "Measures how fast memory is read, what matrix units of the CPU (AMX) reach at most, and products y [M, N] = "
        "a [M, K] @ b in f32 through a BLAS library and through Tessera's devices, taking turns. Prints what share "
        "of the BLAS' speed, of the memory's, and in bf16 and int8 of the matrix units', a device reaches with the "
        "same number of threads.",
    .options = &options,
    .notes = "The BLAS runs at its best: with OMP_WAIT_POLICY=passive, and with the fastest kernels that OpenBLAS has "
             "for this processor, whatever the environment says (an OpenBLAS older than the processor chooses slow "
             "ones). Devices follow the environment.",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
