/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures products of matrices: through a BLAS library or through a device.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/random/random.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"

enum { SEED = 1 };

/* A sample is the mean over rounds that take this long together. */
static const double sample_seconds = 0.02;

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANSPOSE = 111, CBLAS_TRANSPOSE = 112 };
typedef void (*sgemm_fn)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                         int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct session {
  const bench_product_task *task;
  char name[128];
  int32_t n_matrices; /* b of the product in hand */

  void *library;
  sgemm_fn sgemm;
  float *a, *b, *y; /* b: n_matrices after each other */

  tsr_runtime *runtime;
  tsr_device *device;
  tsr_buffer **buffers; /* [n_matrices] */
  tsr_executable *executable;
} session;

/* Of all a, all b and all y of one line. */
static int64_t elements_of_a(const bench_product *p)
{
  return (int64_t)p->batch * p->m * p->k;
}

static int64_t elements_of_b(const bench_product *p)
{
  return (int64_t)p->batch * p->n * p->k;
}

static int64_t elements_of_y(const bench_product *p)
{
  return (int64_t)p->batch * p->m * p->n;
}

/* Bytes of a column of four bits, as many as whole groups take. */
static int32_t four_bit_bytes(int32_t depth)
{
  return (depth + TSR_I4_GROUP - 1) / TSR_I4_GROUP * TSR_I4_BYTES;
}

static int64_t bytes_of_b(const session *s, const bench_product *p)
{
  if (!s->task->blas && s->task->precision == TSR_I4) {
    return (int64_t)p->batch * p->n * four_bit_bytes(p->k);
  }
  return elements_of_b(p) * (int64_t)(s->task->blas ? sizeof(float) : tsr_dtype_size(s->task->precision));
}

/* ---- a BLAS library ---------------------------------------------------------------------------------------------- */

/* Threads that sleep when there is nothing to do, and no settings from elsewhere. */
static int set_blas_environment(int32_t threads, const char *core)
{
  static const char *const names[] = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"};
  char text[16];
  snprintf(text, sizeof text, "%d", (int)threads);
  int failed = unsetenv("OPENBLAS_CORETYPE") | unsetenv("OPENBLAS_L2_SIZE") | setenv("OMP_WAIT_POLICY", "passive", 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0] && threads > 0; i++) {
    failed |= setenv(names[i], text, 1);
  }
  failed |= core && setenv("OPENBLAS_CORETYPE", core, 1);
  return failed ? tsr_cli_no_memory() : TSR_EXIT_OK;
}

static void name_blas(session *s, const char *file)
{
  char *(*config)(void) = NULL;
  *(void **)&config = dlsym(s->library, "openblas_get_config");
  snprintf(s->name, sizeof s->name, "%s%s%s", file, config ? ": " : "", config ? config() : "");
}

static int open_blas(session *s)
{
  static const char *const files[] = {"libopenblas.so.0", "libblas.so.3"};
  int code = set_blas_environment(s->task->threads, bench_given(s->task->blas_core));
  for (size_t i = 0; i < sizeof files / sizeof files[0] && !s->sgemm && code == TSR_EXIT_OK; i++) {
    s->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (s->library) {
      *(void **)&s->sgemm = dlsym(s->library, "cblas_sgemm");
      name_blas(s, files[i]);
    }
    if (s->library && !s->sgemm) {
      dlclose(s->library);
      s->library = NULL;
    }
  }
  if (code == TSR_EXIT_OK && !s->sgemm) {
    tsr_cli_error("bench: neither libopenblas.so.0 nor libblas.so.3 has cblas_sgemm; install libopenblas0-pthread, or "
                  "leave the BLAS out with --no-blas");
    code = TSR_EXIT_DEVICE;
  }
  return code;
}

static void fill(float *values, int64_t n, uint64_t *random)
{
  for (int64_t i = 0; i < n; i++) {
    values[i] = (float)tsr_random_real(random);
  }
}

static int prepare_blas(session *s, const bench_product *p)
{
  uint64_t random = SEED;
  size_t one = (size_t)elements_of_b(p);
  s->a = malloc((size_t)elements_of_a(p) * sizeof *s->a);
  s->b = malloc((size_t)s->n_matrices * one * sizeof *s->b);
  s->y = calloc((size_t)elements_of_y(p), sizeof *s->y);
  if (!s->a || !s->b || !s->y) {
    return tsr_cli_no_memory();
  }
  fill(s->a, elements_of_a(p), &random);
  fill(s->b, (int64_t)one, &random);
  for (int32_t i = 1; i < s->n_matrices; i++) {
    memcpy(s->b + (size_t)i * one, s->b, one * sizeof *s->b);
  }
  return TSR_EXIT_OK;
}

static void run_blas(const session *s, const bench_product *p)
{
  for (int32_t i = 0; i < s->n_matrices; i++) {
    for (int64_t j = 0; j < p->batch; j++) {
      s->sgemm(CBLAS_ROW_MAJOR, p->transposed ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE,
               p->plain ? CBLAS_NO_TRANSPOSE : CBLAS_TRANSPOSE, p->m, p->n, p->k, 1.0f, s->a + j * p->m * p->k,
               p->transposed ? p->m : p->k, s->b + i * elements_of_b(p) + j * p->n * p->k, p->plain ? p->n : p->k, 0.0f,
               s->y + j * p->m * p->n, p->n);
    }
  }
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

static int open_device(session *s)
{
  int code = bench_open_device(s->task->threads, bench_given(s->task->device), &s->runtime, &s->device);
  if (code == TSR_EXIT_OK) {
    snprintf(s->name, sizeof s->name, "%s", tsr_device_name(s->device));
  }
  return code;
}

/* Without an axis for the batch where there is one matrix. */
static tsr_shape matrix_shape(const bench_product *p, int32_t rows, int32_t columns)
{
  return p->batch == 1 ? TSR_SHAPE(rows, columns) : TSR_SHAPE(p->batch, rows, columns);
}

/* As a model of that precision has it: f16 and bf16 permit that what they are multiplied with is rounded. */
static tsr_ref add_product(tsr_program *program, tsr_ref a, tsr_ref b, tsr_ref scales)
{
  if (scales != TSR_NONE && tsr_ref_dtype(program, scales) == TSR_F16) {
    return tsr_matmul_i4(program, a, b, tsr_transpose(program, scales, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  }
  if (scales != TSR_NONE) {
    return tsr_matmul_i8(program, a, b, scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  }
  return tsr_ref_dtype(program, b) == TSR_F32
             ? tsr_product(program, a, b)
             : tsr_matmul_reduced_precision(program, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
}

/* A line for each matrix, all of them with the same left-hand side. */
static tsr_status build_program(const session *s, const bench_product *p, tsr_program *program, tsr_binding *bindings)
{
  tsr_ref a =
      tsr_input(program, "a", TSR_F32, p->transposed ? matrix_shape(p, p->k, p->m) : matrix_shape(p, p->m, p->k));
  tsr_ref left = p->transposed ? tsr_transpose(program, a, -2, -1) : a, scales = TSR_NONE;
  if (s->task->precision == TSR_I8) {
    scales = tsr_input(program, "scales", TSR_F32, TSR_SHAPE(p->n));
  }
  const int four_bits = s->task->precision == TSR_I4;
  const tsr_dtype dtype = four_bits ? TSR_I8 : s->task->precision;
  const int32_t depth = four_bits ? four_bit_bytes(p->k) : p->k;
  if (four_bits) {
    scales = tsr_input(program, "scales", TSR_F16, TSR_SHAPE(p->n, depth / TSR_I4_BYTES));
  }
  for (int32_t i = 0; i < s->n_matrices; i++) {
    char name[32];
    snprintf(name, sizeof name, "b%d", (int)i);
    tsr_shape shape = p->plain ? matrix_shape(p, depth, p->n) : matrix_shape(p, p->n, depth);
    tsr_ref b = (p->varies ? tsr_input : tsr_constant)(program, name, dtype, shape);
    bindings[i] = (tsr_binding){.tensor = b, .buffer = s->buffers[i]};
    snprintf(name, sizeof name, "y%d", (int)i);
    b = p->plain ? b : tsr_transpose(program, b, -2, -1);
    tsr_output(program, name, add_product(program, left, b, scales));
  }
  return tsr_program_status(program);
}

/* The same content in every buffer; what matters is that they are different memory. */
static tsr_status make_buffers(session *s, const bench_product *p, const void *content)
{
  int64_t size = bytes_of_b(s, p);
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < s->n_matrices && status == TSR_OK; i++) {
    status = tsr_buffer_create(s->device, size, TSR_BUFFER_DEVICE, &s->buffers[i]);
    if (status == TSR_OK) {
      status = tsr_buffer_write(s->buffers[i], 0, size, content);
    }
  }
  return status;
}

static tsr_status compile_product(session *s, const bench_product *p, const float *a, const void *b,
                                  tsr_program *program, tsr_binding *bindings)
{
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = s->n_matrices};
  tsr_status status = make_buffers(s, p, b);
  if (status == TSR_OK) {
    status = build_program(s, p, program, bindings);
  }
  if (status == TSR_OK) {
    status = tsr_executable_create(s->device, program, &options, &s->executable);
  }
  if (status == TSR_OK) {
    status =
        tsr_executable_write(s->executable, tsr_program_find(program, "a"), a, elements_of_a(p) * (int64_t)sizeof *a);
  }
  return status;
}

/* values, in -1 .. 1, as the matrices are kept, of int4 any of them; of int8 and int4 the scales stay 0, which changes
 * no time. */
static tsr_status store(const float *values, int64_t n, tsr_dtype precision, void *stored)
{
  if (precision != TSR_I8 && precision != TSR_I4) {
    return tsr_convert(TSR_F32, values, precision, stored, n);
  }
  for (int64_t i = 0; i < n; i++) {
    ((int8_t *)stored)[i] = (int8_t)(127.0f * values[i]);
  }
  return TSR_OK;
}

static int prepare_device(session *s, const bench_product *p)
{
  uint64_t random = SEED;
  int64_t one = elements_of_b(p);
  float *values = malloc((size_t)one * sizeof *values);
  float *a = malloc((size_t)elements_of_a(p) * sizeof *a);
  void *stored = calloc((size_t)(bytes_of_b(s, p) > one ? bytes_of_b(s, p) : one), 1);
  tsr_binding *bindings = calloc((size_t)s->n_matrices, sizeof *bindings);
  tsr_program *program = NULL;
  s->buffers = calloc((size_t)s->n_matrices, sizeof(tsr_buffer *));
  tsr_status status = values && a && stored && bindings && s->buffers
                          ? tsr_program_create(&program)
                          : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    fill(a, elements_of_a(p), &random);
    fill(values, one, &random);
    const int64_t bytes = bytes_of_b(s, p);
    status = store(values, s->task->precision == TSR_I4 && bytes < one ? bytes : one, s->task->precision, stored);
  }
  if (status == TSR_OK) {
    status = compile_product(s, p, a, stored, program, bindings);
  }
  tsr_program_destroy(program);
  free(values);
  free(a);
  free(stored);
  free(bindings);
  return tsr_cli_fail(status);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static void release(session *s)
{
  tsr_executable_destroy(s->executable);
  s->executable = NULL;
  for (int32_t i = 0; s->buffers && i < s->n_matrices; i++) {
    tsr_buffer_destroy(s->buffers[i]);
  }
  free(s->buffers);
  s->buffers = NULL;
  free(s->a);
  free(s->b);
  free(s->y);
  s->a = s->b = s->y = NULL;
}

static int run_round(const session *s, const bench_product *p)
{
  if (!s->task->blas) {
    return tsr_cli_fail(tsr_executable_run(s->executable));
  }
  run_blas(s, p);
  return TSR_EXIT_OK;
}

static int prepare(session *s, const bench_product *p)
{
  int64_t size = bytes_of_b(s, p);
  s->n_matrices =
      p->stream && s->task->stream_bytes > 2 * size ? (int32_t)(s->task->stream_bytes / size) : 1 + p->stream;
  int code = s->task->blas ? prepare_blas(s, p) : prepare_device(s, p);
  return code == TSR_EXIT_OK ? run_round(s, p) : code;
}

/* One round that is not timed, because the process just slept; then the mean of some. */
static int multiply(const session *s, const bench_product *p, double *seconds)
{
  int code = run_round(s, p);
  double start = tsr_cli_seconds(), taken = 0.0;
  int32_t rounds = 0;
  for (; taken < sample_seconds && code == TSR_EXIT_OK; rounds++) {
    code = run_round(s, p);
    taken = tsr_cli_seconds() - start;
  }
  *seconds = taken / rounds / s->n_matrices;
  return code;
}

static int answer(session *s, int32_t request, bench_product_sample *sample)
{
  const bench_product *p = &s->task->products[request % BENCH_PRODUCTS];
  int code = TSR_EXIT_OK;
  *sample = (bench_product_sample){0};
  snprintf(sample->name, sizeof sample->name, "%s", s->name);
  switch (request / BENCH_PRODUCTS) {
  case BENCH_PREPARE:
    code = prepare(s, p);
    break;
  case BENCH_MULTIPLY:
    code = multiply(s, p, &sample->seconds);
    break;
  default:
    release(s);
  }
  return code;
}

int bench_product_body(const void *task)
{
  session s = {.task = task};
  int code = s.task->blas ? open_blas(&s) : open_device(&s);
  for (int32_t request; code == TSR_EXIT_OK && bench_next(&request);) {
    bench_product_sample sample;
    code = answer(&s, request, &sample);
    if (code == TSR_EXIT_OK) {
      bench_reply(&sample, sizeof sample);
    }
  }
  release(&s);
  tsr_device_close(s.device);
  tsr_runtime_destroy(s.runtime);
  if (s.library) {
    dlclose(s.library);
  }
  return code;
}
