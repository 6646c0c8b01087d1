/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device reaches: in copies of many sizes, in large products by type, in kernels that wait for one another.
 */
#include "tools/tessera/plan/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tessera/ops.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"

enum { MAX_CONSTANTS = 4 };

typedef struct session {
  tsr_runtime *runtime;
  tsr_device *device;
  plan_card *card;
} session;

/* ---- times ------------------------------------------------------------------------------------------------------- */

static int is_by_processor;

void plan_time_by_processor(int by_processor)
{
  is_by_processor = by_processor;
}

static double now(void)
{
  struct timespec time;
  if (!is_by_processor || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) {
    return tsr_cli_seconds();
  }
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_seconds(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

tsr_status plan_time_runs(tsr_executable *executable, double wanted, double *seconds)
{
  enum { LEAST_RUNS = 5, MOST_RUNS = 100000 };
  double *runs = malloc(MOST_RUNS * sizeof *runs);
  if (!runs) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  const double start = tsr_cli_seconds();
  tsr_status status = tsr_executable_run(executable); /* not timed */
  size_t n = 0;
  while (status == TSR_OK && n < MOST_RUNS && (n < LEAST_RUNS || tsr_cli_seconds() - start < wanted)) {
    const double begin = now();
    status = tsr_executable_run(executable);
    runs[n++] = now() - begin;
  }
  if (status == TSR_OK) {
    qsort(runs, n, sizeof *runs, compare_seconds);
    *seconds = runs[n / 2];
  }
  free(runs);
  return status;
}

/* A float of any width from bytes of it is a small number. Memory that was never written would show how fast one page
 * of zeros is read. */
static tsr_status make_bytes(int64_t size, char **bytes)
{
  enum { BYTE = 0x3c };
  *bytes = malloc((size_t)size + 1);
  if (!*bytes) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  memset(*bytes, BYTE, (size_t)size);
  return TSR_OK;
}

static tsr_status make_constant(tsr_device *device, int64_t size, tsr_buffer **buffer)
{
  char *bytes;
  tsr_status status = make_bytes(size, &bytes);
  if (status == TSR_OK) {
    status = tsr_buffer_create(device, size, TSR_BUFFER_DEVICE, buffer);
  }
  if (status == TSR_OK) {
    status = tsr_buffer_write(*buffer, 0, size, bytes);
  }
  free(bytes);
  return status;
}

static tsr_status fill_inputs(const tsr_program *program, tsr_executable *executable)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  tsr_status status = TSR_OK;
  for (int32_t t = 1; t < desc->n_tensors && status == TSR_OK; t++) {
    if (tsr_ref_kind(program, t) != TSR_STORAGE_INPUT || tsr_program_find(program, tsr_ref_name(program, t)) != t) {
      continue;
    }
    const int64_t size = tsr_storage_at(desc, tsr_tensor_at(desc, t)->storage)->size;
    char *bytes;
    status = make_bytes(size, &bytes);
    if (status == TSR_OK) {
      status = tsr_executable_write(executable, t, bytes, size);
    }
    free(bytes);
  }
  return status;
}

tsr_status plan_time_program(tsr_device *device, const tsr_program *program, double wanted, double *seconds)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  tsr_binding bindings[MAX_CONSTANTS];
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings};
  tsr_executable *executable = NULL;
  tsr_status status = tsr_program_status(program);
  for (int32_t t = 1; t < desc->n_tensors && status == TSR_OK; t++) {
    const char *name = tsr_ref_name(program, t);
    if (tsr_ref_kind(program, t) != TSR_STORAGE_CONSTANT || tsr_program_find(program, name) != t) {
      continue;
    }
    tsr_buffer *buffer = NULL;
    status = make_constant(device, tsr_storage_at(desc, tsr_tensor_at(desc, t)->storage)->size, &buffer);
    if (buffer) {
      bindings[options.n_bindings++] = (tsr_binding){.tensor = t, .buffer = buffer};
    }
  }
  if (status == TSR_OK) {
    status = tsr_executable_create(device, program, &options, &executable);
  }
  if (status == TSR_OK) {
    status = fill_inputs(program, executable);
  }
  if (status == TSR_OK) {
    status = plan_time_runs(executable, wanted, seconds);
  }
  tsr_executable_destroy(executable);
  for (int32_t i = 0; i < options.n_bindings; i++) {
    tsr_buffer_destroy(bindings[i].buffer);
  }
  return status;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

tsr_status plan_product(int32_t rows, int32_t columns, int32_t depth, tsr_dtype weights, int32_t times,
                        tsr_program **program)
{
  tsr_status status = tsr_program_create(program);
  if (status != TSR_OK) {
    return status;
  }
  tsr_program *p = *program;
  const int four_bits = weights == TSR_I4;
  const int32_t groups = (depth + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  const tsr_ref w = four_bits ? tsr_constant(p, "weights", TSR_I8, TSR_SHAPE(columns, groups * TSR_I4_BYTES))
                              : tsr_constant(p, "weights", weights, TSR_SHAPE(columns, depth));
  const tsr_ref transposed = tsr_transpose(p, w, -2, -1);
  const tsr_ref scales = four_bits
                             ? tsr_transpose(p, tsr_constant(p, "scales", TSR_F16, TSR_SHAPE(columns, groups)), -2, -1)
                         : weights == TSR_I8 ? tsr_constant(p, "scales", TSR_F32, TSR_SHAPE(columns))
                                             : TSR_NONE;
  for (int32_t i = 0; i < times; i++) {
    char name[32];
    snprintf(name, sizeof name, "x%d", (int)i);
    const tsr_ref x = tsr_input(p, name, TSR_F32, TSR_SHAPE(rows, depth));
    const tsr_ref y = four_bits           ? tsr_matmul_i4(p, x, transposed, scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE)
                      : weights == TSR_I8 ? tsr_matmul_i8(p, x, transposed, scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE)
                      : weights == TSR_F32
                          ? tsr_product(p, x, transposed)
                          : tsr_matmul_reduced_precision(p, x, transposed, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
    snprintf(name, sizeof name, "y%d", (int)i);
    tsr_output(p, name, y);
  }
  status = tsr_program_status(p);
  if (status != TSR_OK) {
    tsr_program_destroy(p);
    *program = NULL;
  }
  return status;
}

/* A line that each chain consists of. */
typedef tsr_ref (*add_line)(tsr_program *p, tsr_ref x);

static tsr_ref add_copy(tsr_program *p, tsr_ref x)
{
  return tsr_copy(p, x, TSR_F32);
}

static tsr_ref add_sum(tsr_program *p, tsr_ref x)
{
  return tsr_add(p, x, x);
}

static tsr_ref add_softmax(tsr_program *p, tsr_ref x)
{
  return tsr_softmax(p, x, TSR_NONE);
}

static tsr_ref add_gelu(tsr_program *p, tsr_ref x)
{
  return tsr_gelu(p, x, TSR_ACTIVATION_GELU_ERF);
}

static tsr_ref add_norm(tsr_program *p, tsr_ref x)
{
  const tsr_shape shape = tsr_ref_shape(p, x);
  tsr_ref gain = tsr_program_find(p, "gain");
  if (!gain) {
    gain = tsr_constant(p, "gain", TSR_F32, TSR_SHAPE(shape.extent[shape.rank - 1]));
  }
  return tsr_rmsnorm(p, x, gain, 1e-5f);
}

/* n lines, each of which reads what the one before wrote, or all the same input. */
static tsr_status time_lines(const session *s, add_line add, tsr_shape shape, int32_t n, int chained, double wanted,
                             double *seconds)
{
  tsr_program *p;
  tsr_status status = tsr_program_create(&p);
  if (status != TSR_OK) {
    return status;
  }
  const tsr_ref x = tsr_input(p, "x", TSR_F32, shape);
  tsr_ref y = x;
  for (int32_t i = 0; i < n; i++) {
    y = add(p, chained ? y : x);
    if (!chained || i == n - 1) {
      char name[32];
      snprintf(name, sizeof name, "y%d", (int)i);
      tsr_output(p, name, y);
    }
  }
  status = plan_time_program(s->device, p, wanted, seconds);
  tsr_program_destroy(p);
  return status;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Tiny lines that wait, that do not, and a run of one. */
static tsr_status measure_latencies(const session *s)
{
  enum { FEW = 8, MANY = 72, ELEMENTS = 256 };
  plan_figures *f = &s->card->figures;
  double few, many, apart_few, apart_many;
  tsr_status status = time_lines(s, add_sum, TSR_SHAPE(1, ELEMENTS), FEW, 1, 0.2, &few);
  if (status == TSR_OK) {
    status = time_lines(s, add_sum, TSR_SHAPE(1, ELEMENTS), MANY, 1, 0.2, &many);
  }
  if (status == TSR_OK) {
    status = time_lines(s, add_sum, TSR_SHAPE(1, ELEMENTS), FEW, 0, 0.2, &apart_few);
  }
  if (status == TSR_OK) {
    status = time_lines(s, add_sum, TSR_SHAPE(1, ELEMENTS), MANY, 0, 0.2, &apart_many);
  }
  if (status == TSR_OK) {
    f->stage_seconds = fmax(0, (many - few) / (MANY - FEW));
    f->dispatch_seconds = fmin(f->stage_seconds, fmax(0, (apart_many - apart_few) / (MANY - FEW)));
    f->submit_seconds = fmax(0, few - FEW * f->stage_seconds);
  }
  return status;
}

/* Of a chain of copies: bytes a second, each read once and written once. */
static tsr_status measure_copy(const session *s, int64_t bytes, double *rate)
{
  enum { ROW = 1024, MOST_LINES = 64 };
  const int64_t rows = bytes / ROW / 4;
  const int64_t wanted = (256 << 20) / bytes;
  const int32_t n = wanted < 4 ? 4 : wanted > MOST_LINES ? MOST_LINES : (int32_t)wanted;
  double seconds;
  tsr_status status = time_lines(s, add_copy, TSR_SHAPE(rows, ROW), n, 1, 0.2, &seconds);
  if (status == TSR_OK) {
    seconds -= s->card->figures.submit_seconds + n * s->card->figures.stage_seconds;
    *rate = 2.0 * (double)bytes * n / fmax(seconds, 1e-9);
  }
  return status;
}

static tsr_status time_product(const session *s, int32_t rows, int32_t columns, int32_t depth, tsr_dtype weights,
                               double *seconds)
{
  tsr_program *program;
  tsr_status status = plan_product(rows, columns, depth, weights, 1, &program);
  if (status == TSR_OK) {
    status = plan_time_program(s->device, program, 0.3, seconds);
    tsr_program_destroy(program);
  }
  *seconds = fmax(1e-9, *seconds - s->card->figures.submit_seconds - s->card->figures.stage_seconds);
  return status;
}

/* Copies of growing size. The last cache ends where their rate falls below the middle of the fastest and of that of the
 * largest copy, between two sizes. */
static tsr_status measure_memory(const session *s)
{
  enum { LEAST = 128 << 10, DOUBLINGS = 9, SIZES_A_DOUBLING = 2, SIZES = DOUBLINGS * SIZES_A_DOUBLING + 1 };
  const int64_t between[SIZES_A_DOUBLING] = {32, 45}; /* 32nds of the last power of two */
  plan_figures *f = &s->card->figures;
  double touched[SIZES], rates[SIZES];
  f->l2_bandwidth = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < SIZES && status == TSR_OK; i++) {
    const int64_t bytes = ((int64_t)LEAST << i / SIZES_A_DOUBLING) / 32 * between[i % SIZES_A_DOUBLING];
    touched[i] = 2.0 * (double)bytes;
    status = measure_copy(s, bytes, &rates[i]);
    f->l2_bandwidth = fmax(f->l2_bandwidth, rates[i]);
  }
  if (status != TSR_OK) {
    return status;
  }
  const double last = rates[SIZES - 1], middle = sqrt(f->l2_bandwidth * last);
  f->memory_bandwidth = f->one_by_one ? 1.5 * last : last; /* a CPU fetches what it is going to write */
  f->l2_bytes = touched[0];
  for (int32_t i = 1; i < SIZES; i++) {
    if (rates[i - 1] >= middle && rates[i] < middle) {
      const double part = log(rates[i - 1] / middle) / log(rates[i - 1] / rates[i]);
      f->l2_bytes = touched[i - 1] * pow(touched[i] / touched[i - 1], part);
    }
  }
  return TSR_OK;
}

/* A product so large that it takes a while, and one of one row, whose weights no cache holds: where they come faster
 * than a copy, half of which is written, this is what the memory gives. */
static tsr_status measure_product(const session *s, tsr_dtype weights, double *rate, double *one_row)
{
  enum { LEAST = 512, MOST = 8192, DEPTH = 512, WEIGHT_BYTES = 128 << 20 };
  plan_figures *f = &s->card->figures;
  const double long_enough = f->one_by_one ? 0.01 : 0.001; /* a core's own cache would hold a product of 1 ms */
  double seconds = 0;
  tsr_status status = TSR_OK;
  for (int32_t n = LEAST; n <= MOST && seconds < long_enough && status == TSR_OK; n *= 2) {
    status = time_product(s, n, n, n, weights, &seconds);
    *rate = 2.0 * n * (double)n * n / seconds;
  }
  if (status == TSR_OK) {
    const int32_t columns = WEIGHT_BYTES / DEPTH / (int32_t)tsr_dtype_size(weights);
    status = time_product(s, 1, columns, DEPTH, weights, &seconds);
    *one_row = fmin(*rate, 2.0 * columns * DEPTH / seconds);
    f->memory_bandwidth = fmax(f->memory_bandwidth, WEIGHT_BYTES / seconds);
  }
  return status;
}

static int has_shape(const tsr_described_device *described, int32_t dtype)
{
  for (int32_t i = 0; i < described->n_shapes; i++) {
    if (described->shapes[i].dtype == dtype) {
      return 1;
    }
  }
  return 0;
}

static tsr_status measure_products(const session *s)
{
  plan_figures *f = &s->card->figures;
  const int f16 = has_shape(&s->card->described, TSR_F16), i8 = has_shape(&s->card->described, TSR_I8);
  tsr_status status = measure_product(s, TSR_F32, &f->rate[TSR_RATE_F32], &f->one_row[TSR_RATE_F32]);
  if (status == TSR_OK) {
    status =
        measure_product(s, TSR_F16, &f->rate[f16 ? TSR_RATE_COOPERATIVE_F16 : TSR_RATE_F16], &f->one_row[TSR_RATE_F16]);
  }
  if (status == TSR_OK) {
    status = measure_product(s, TSR_I8, &f->rate[i8 ? TSR_RATE_COOPERATIVE_I8 : TSR_RATE_I8], &f->one_row[TSR_RATE_I8]);
  }
  f->l2_bandwidth = fmax(f->l2_bandwidth, f->memory_bandwidth);
  return status;
}

/* The operations of lines that are no products, as the backend counts them. */
static tsr_status count_operations(const session *s, add_line add, tsr_shape shape, double *operations)
{
  tsr_program *p;
  tsr_device_plan *plan = NULL;
  tsr_status status = tsr_program_create(&p);
  if (status != TSR_OK) {
    return status;
  }
  tsr_output(p, "y", add(p, tsr_input(p, "x", TSR_F32, shape)));
  status = tsr_device_plan_create(s->runtime, s->card->backend, &s->card->described, p, &plan);
  for (int32_t i = 0; i < tsr_device_plan_count(plan); i++) {
    *operations += tsr_device_plan_kernel(plan, i)->operations;
  }
  tsr_device_plan_destroy(plan);
  tsr_program_destroy(p);
  return status;
}

static tsr_status measure_other(const session *s)
{
  enum { ROWS = 512, COLUMNS = 512, LINES = 8 };
  static const add_line lines[] = {add_softmax, add_gelu, add_norm};
  plan_figures *f = &s->card->figures;
  double operations = 0, all = 0;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0] && status == TSR_OK; i++) {
    double seconds = 0;
    status = time_lines(s, lines[i], TSR_SHAPE(ROWS, COLUMNS), LINES, 1, 0.2, &seconds);
    if (status == TSR_OK) {
      status = count_operations(s, lines[i], TSR_SHAPE(ROWS, COLUMNS), &operations);
      all += fmax(1e-9, (seconds - f->submit_seconds) / LINES - f->stage_seconds);
    }
  }
  f->rate[TSR_RATE_OTHER] = operations / fmax(all, 1e-9);
  return status;
}

static tsr_status describe(const session *s)
{
  plan_card *card = s->card;
  const char *device = tsr_device_name(s->device);
  *card = (plan_card){.described = {.struct_size = sizeof card->described}};
  const tsr_status status = tsr_device_describe(s->device, &card->described);
  snprintf(card->backend, sizeof card->backend, "%.*s", (int)strcspn(device, ":"), device);
  snprintf(card->name, sizeof card->name, "%.*s", (int)sizeof card->name - 1,
           tsr_device_get_properties(s->device)->name);
  const int32_t type = card->described.type;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const int is_cpu = type == TSR_DEVICE_CPU || type == TSR_DEVICE_SOFTWARE_GPU || type == TSR_DEVICE_REFERENCE;
  card->described.type = type == TSR_DEVICE_REFERENCE ? TSR_DEVICE_CPU : type;
  card->figures.one_by_one = is_cpu;
  const int is_known = is_cpu && online > 0 && !is_by_processor; /* a GPU does not tell */
  card->figures.processors = is_known ? (int32_t)online : 1;
  return status;
}

int plan_measure(tsr_runtime *runtime, tsr_device *device, plan_card *card)
{
  const session s = {runtime, device, card};
  tsr_status (*const steps[])(const session *) = {describe, measure_latencies, measure_memory, measure_products,
                                                  measure_other};
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == TSR_OK; i++) {
    status = steps[i](&s);
  }
  return tsr_cli_fail(status);
}
