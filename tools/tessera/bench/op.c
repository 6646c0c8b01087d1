/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures operators on one device: each in a program of its own, which shows what handing over a run
 * costs, and many times in one program, as within a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/random/random.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"

enum { SEED = 1, MAX_OPERANDS = 4, MAX_ROUNDS = 64 };

/* A sample is the mean over runs that take this long together. */
static const double sample_seconds = 0.01;

/* The long program has as many rounds as fit into this time. */
static const double chain_seconds = 0.02;

/* Operands of further rounds are others, until they take this much. */
static const int64_t operand_bytes = 64 << 20;

/* ---- the operators ----------------------------------------------------------------------------------------------- */

/* What a round reads. */
typedef struct operand {
  tsr_dtype dtype;
  tsr_shape shape;
  int32_t constant; /* 1: weights, which a device may lay out beforehand */
} operand;

typedef struct operator_kind {
  bench_op_info info;
  int32_t (*list)(const bench_op_case *c, operand *operands); /* returns how many */
  tsr_ref (*add)(tsr_program *p, const bench_op_case *c, const tsr_ref *operands);
} operator_kind;

static operand activations(int32_t rows, int32_t columns)
{
  return (operand){.dtype = TSR_F32, .shape = TSR_SHAPE(rows, columns)};
}

static operand vector(int32_t n)
{
  return (operand){.dtype = TSR_F32, .shape = TSR_SHAPE(n), .constant = 1};
}

/* y [tokens, n] = x [tokens, depth] @ w^T: extents n, tokens, depth */
static int32_t list_matmul(const bench_op_case *c, operand *operands)
{
  operands[0] = activations(c->extent[1], c->extent[2]);
  operands[1] = (operand){.dtype = c->precision, .shape = TSR_SHAPE(c->extent[0], c->extent[2]), .constant = 1};
  operands[2] = vector(c->extent[0]); /* scales of int8 */
  if (c->precision == TSR_I4) {
    const int32_t groups = (c->extent[2] + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
    operands[1].dtype = TSR_I8;
    operands[1].shape = TSR_SHAPE(c->extent[0], groups * TSR_I4_BYTES);
    operands[2].dtype = TSR_F16;
    operands[2].shape = TSR_SHAPE(c->extent[0], groups);
  }
  return c->precision == TSR_I8 || c->precision == TSR_I4 ? 3 : 2;
}

/* As models multiply with weights of that type: with those of 16 bits the activations may be rounded, too. */
static tsr_ref add_matmul(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  tsr_ref w = tsr_transpose(p, operands[1], -2, -1);
  switch (c->precision) {
  case TSR_F32:
    return tsr_product(p, operands[0], w);
  case TSR_I8:
    return tsr_matmul_i8(p, operands[0], w, operands[2], TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  case TSR_I4:
    return tsr_matmul_i4(p, operands[0], w, tsr_transpose(p, operands[2], -2, -1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  default:
    return tsr_matmul_reduced_precision(p, operands[0], w, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  }
}

/* The same, then the largest ones of each row: extents n, tokens, depth, how many. */
static tsr_ref add_logits_topk(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  tsr_ref indices;
  return tsr_topk(p, add_matmul(p, c, operands), c->extent[3], &indices);
}

/* Extents rows, columns, how many. */
static tsr_ref add_topk(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  tsr_ref indices;
  return tsr_topk(p, operands[0], c->extent[2], &indices);
}

/* Below: extents rows, columns. */

static int32_t list_unary(const bench_op_case *c, operand *operands)
{
  operands[0] = activations(c->extent[0], c->extent[1]);
  return 1;
}

static int32_t list_binary(const bench_op_case *c, operand *operands)
{
  operands[0] = operands[1] = activations(c->extent[0], c->extent[1]);
  return 2;
}

static int32_t list_norm(const bench_op_case *c, operand *operands)
{
  operands[0] = activations(c->extent[0], c->extent[1]);
  operands[1] = operands[2] = vector(c->extent[1]);
  return 3;
}

static int32_t list_add_norm(const bench_op_case *c, operand *operands)
{
  operands[3] = activations(c->extent[0], c->extent[1]);
  return list_norm(c, operands) + 1;
}

static tsr_ref add_softmax(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_softmax(p, operands[0], TSR_NONE);
}

static tsr_ref add_layernorm(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_layernorm(p, operands[0], operands[1], operands[2], 1e-5f);
}

static tsr_ref add_rmsnorm(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_rmsnorm(p, operands[0], operands[1], 1e-5f);
}

static tsr_ref add_add(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_add(p, operands[0], operands[1]);
}

static tsr_ref add_gelu(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_gelu(p, operands[0], TSR_ACTIVATION_GELU_ERF);
}

static tsr_ref add_add_norm(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_layernorm(p, tsr_add(p, operands[0], operands[3]), operands[1], operands[2], 1e-5f);
}

static tsr_ref add_copy(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  (void)c;
  return tsr_copy(p, operands[0], TSR_F32);
}

/* Extents queries, keys, heads, head size. */
static int32_t list_attention(const bench_op_case *c, operand *operands)
{
  tsr_shape keys = TSR_SHAPE(1, c->extent[1], c->extent[2], c->extent[3]);
  operands[0] = (operand){.dtype = TSR_F32, .shape = TSR_SHAPE(1, c->extent[0], c->extent[2], c->extent[3])};
  operands[1] = operands[2] = (operand){.dtype = c->precision, .shape = keys};
  return 3;
}

static tsr_ref add_attention(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  return tsr_attention(p, &(tsr_attention_args){.q = operands[0],
                                                .k = operands[1],
                                                .v = operands[2],
                                                .alpha = 0.125f,
                                                .reduced_precision = c->precision == TSR_F16});
}

/* A kernel of three rows, and a row of zeros on each side. Extents channels out, rows, channels in, stride. */
static int32_t list_conv1d(const bench_op_case *c, operand *operands)
{
  enum { KERNEL = 3 };
  const tsr_shape weight = TSR_SHAPE(c->extent[0], KERNEL, c->extent[2]);
  operands[0] = (operand){.dtype = TSR_F32, .shape = TSR_SHAPE(1, c->extent[1], c->extent[2])};
  operands[1] = (operand){.dtype = c->precision, .shape = weight, .constant = 1};
  operands[2] = vector(c->extent[0]);
  return 3;
}

static tsr_ref add_conv1d(tsr_program *p, const bench_op_case *c, const tsr_ref *operands)
{
  return tsr_conv1d(p, operands[0], operands[1], operands[2], c->extent[3], 1);
}

static const operator_kind kinds[] = {
    {{"matmul", "rows of the weights x tokens x depth", 3, 1, 1}, list_matmul, add_matmul},
    {{"logits_topk", "vocabulary x tokens x depth x how many", 4, 1, 1}, list_matmul, add_logits_topk},
    {{"attention", "queries x keys x heads x head size", 4, 1}, list_attention, add_attention},
    {{"conv1d", "channels out x rows x channels in x stride", 4, 1}, list_conv1d, add_conv1d},
    {{"softmax", "rows x columns", 2}, list_unary, add_softmax},
    {{"layernorm", "rows x columns", 2}, list_norm, add_layernorm},
    {{"rmsnorm", "rows x columns", 2}, list_norm, add_rmsnorm},
    {{"add", "rows x columns", 2}, list_binary, add_add},
    {{"add_norm", "rows x columns", 2}, list_add_norm, add_add_norm},
    {{"gelu", "rows x columns", 2}, list_unary, add_gelu},
    {{"topk", "rows x columns x how many", 3}, list_unary, add_topk},
    {{"copy", "rows x columns", 2}, list_unary, add_copy},
};

enum { KINDS = sizeof kinds / sizeof kinds[0], KIND_MATMUL = 0, KIND_COPY = KINDS - 1 };

const bench_op_info *bench_op_describe(int32_t index)
{
  return index >= 0 && index < KINDS ? &kinds[index].info : NULL;
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

/* A program of some rounds, without times of its lines and with them. */
typedef struct chain {
  tsr_executable *plain;
  tsr_executable *timed; /* NULL: the device has no times */
  uint64_t *nanoseconds; /* [n_lines] */
  int32_t n_lines;
  int32_t rounds;
} chain;

typedef struct session {
  const bench_op_task *task;
  tsr_runtime *runtime;
  tsr_device *device;
  bench_op_sample sample;
  const operator_kind *kind;
  operand operands[MAX_OPERANDS]; /* of one round */
  int32_t n_operands;
  tsr_buffer *buffers[MAX_ROUNDS][MAX_OPERANDS]; /* of each set */
  int32_t n_sets;
  chain single;
  chain chained; /* rounds 0: a round takes so long that it would show nothing new */
} session;

static int64_t elements(const operand *one)
{
  int64_t n = 1;
  for (int32_t i = 0; i < one->shape.rank; i++) {
    n *= one->shape.extent[i];
  }
  return n;
}

static int64_t operand_size(const operand *one)
{
  return elements(one) * (int64_t)tsr_dtype_size(one->dtype);
}

/* Random numbers of -1 .. 1, or of the whole range of i8, into a new buffer. */
static tsr_status make_buffer(const session *s, const operand *one, uint64_t *random, tsr_buffer **buffer)
{
  int64_t n = elements(one), size = operand_size(one);
  float *values = malloc((size_t)n * sizeof *values);
  int8_t *stored = malloc((size_t)size);
  tsr_status status = values && stored ? tsr_buffer_create(s->device, size, TSR_BUFFER_DEVICE, buffer)
                                       : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  for (int64_t i = 0; i < n && status == TSR_OK; i++) {
    values[i] = (float)tsr_random_real(random);
  }
  if (status == TSR_OK && one->dtype != TSR_I8) {
    status = tsr_convert(TSR_F32, values, one->dtype, stored, n);
  }
  for (int64_t i = 0; i < n && status == TSR_OK && one->dtype == TSR_I8; i++) {
    stored[i] = (int8_t)(127.0f * values[i]);
  }
  if (status == TSR_OK) {
    status = tsr_buffer_write(*buffer, 0, size, stored);
  }
  free(values);
  free(stored);
  return status;
}

static tsr_status make_sets(session *s, int32_t n)
{
  tsr_status status = TSR_OK;
  for (; s->n_sets < n && status == TSR_OK; s->n_sets++) {
    uint64_t random = SEED + (uint64_t)s->n_sets;
    for (int32_t i = 0; i < s->n_operands && status == TSR_OK; i++) {
      status = make_buffer(s, &s->operands[i], &random, &s->buffers[s->n_sets][i]);
    }
  }
  return status;
}

/* What the rounds compute but for the last one is not read again, so that all use the same memory, one after
 * another. */
static tsr_status build(const session *s, int32_t rounds, tsr_program *program, tsr_binding *bindings)
{
  tsr_ref operands[MAX_ROUNDS][MAX_OPERANDS], y = TSR_NONE;
  int32_t n_sets = rounds < s->n_sets ? rounds : s->n_sets;
  for (int32_t set = 0; set < n_sets; set++) {
    for (int32_t i = 0; i < s->n_operands; i++) {
      const operand *one = &s->operands[i];
      char name[32];
      snprintf(name, sizeof name, "operand%d.%d", (int)i, (int)set);
      operands[set][i] = one->constant ? tsr_constant(program, name, one->dtype, one->shape)
                                       : tsr_input(program, name, one->dtype, one->shape);
      *bindings++ = (tsr_binding){.tensor = operands[set][i], .buffer = s->buffers[set][i]};
    }
  }
  for (int32_t round = 0; round < rounds; round++) {
    y = s->kind->add(program, &s->sample.test, operands[round % n_sets]);
  }
  tsr_output(program, "y", y);
  return tsr_program_status(program);
}

static tsr_status compile_timed(const session *s, const tsr_program *program, tsr_compile_options options, chain *c)
{
  options.profile = 1;
  c->n_lines = tsr_program_line_count(program);
  c->nanoseconds = malloc(((size_t)c->n_lines + 1) * sizeof *c->nanoseconds);
  tsr_status status = c->nanoseconds ? tsr_executable_create(s->device, program, &options, &c->timed)
                                     : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_executable_run(c->timed);
  }
  if (status == TSR_OK && tsr_executable_profile(c->timed, c->nanoseconds, c->n_lines) != TSR_OK) {
    tsr_executable_destroy(c->timed);
    c->timed = NULL;
  }
  return status;
}

/* Bytes that the device holds, with operands in it; -1 where it does not tell: then it never held any. */
static int64_t bytes_in_use(const session *s)
{
  tsr_device_counters counters;
  tsr_status status = tsr_device_get_counters(s->device, &counters);
  return status == TSR_OK && counters.bytes_peak > 0 ? (int64_t)counters.bytes_in_use : -1;
}

/* Makes, and runs, a chain of some rounds; the first one of a case tells about the operator, too. */
static tsr_status make_chain(session *s, int32_t rounds, chain *c)
{
  int32_t n_sets = rounds < s->n_sets ? rounds : s->n_sets;
  tsr_binding bindings[MAX_ROUNDS * MAX_OPERANDS];
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings,
                                 .n_bindings = n_sets * s->n_operands, .strict = 1};
  tsr_program_statistics statistics = {0};
  tsr_program *program = NULL;
  c->rounds = rounds;
  tsr_status status = tsr_program_create(&program);
  if (status == TSR_OK) {
    status = build(s, rounds, program, bindings);
  }
  if (status == TSR_OK) {
    status = tsr_program_measure(program, 16, &statistics);
  }
  int64_t before = bytes_in_use(s);
  if (status == TSR_OK) {
    status = tsr_executable_create(s->device, program, &options, &c->plain);
  }
  if (status == TSR_OK && rounds == 1) {
    const char *variant = tsr_device_variant_name(s->device, tsr_device_variant_of(s->device, program, 0));
    snprintf(s->sample.variant, sizeof s->sample.variant, "%s", variant ? variant : "");
    int64_t held = bytes_in_use(s) - before - statistics.output_bytes;
    s->sample.scratch = before < 0 ? -1 : held > 0 ? held : 0;
    s->sample.flops = statistics.flops;
    s->sample.bytes = statistics.bytes;
  }
  if (status == TSR_OK && !s->task->dry) {
    status = tsr_executable_run(c->plain);
  }
  if (status == TSR_OK && !s->task->dry) {
    status = compile_timed(s, program, options, c);
  }
  tsr_program_destroy(program);
  return status;
}

static void finish_chain(chain *c)
{
  tsr_executable_destroy(c->plain);
  tsr_executable_destroy(c->timed);
  free(c->nanoseconds);
  *c = (chain){0};
}

static void release(session *s)
{
  finish_chain(&s->single);
  finish_chain(&s->chained);
  for (int32_t set = 0; set < MAX_ROUNDS; set++) {
    for (int32_t i = 0; i < MAX_OPERANDS; i++) {
      tsr_buffer_destroy(s->buffers[set][i]);
      s->buffers[set][i] = NULL;
    }
  }
  s->n_sets = 0;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static double sum_lines(const chain *c)
{
  double sum = 0.0;
  for (int32_t i = 0; i < c->n_lines; i++) {
    sum += 1e-9 * (double)c->nanoseconds[i];
  }
  return sum;
}

/* One run that is not timed, because the process just slept; then means over some. */
static tsr_status time_chain(const chain *c, bench_op_time *result)
{
  double start, taken = 0.0, sum = 0.0;
  int32_t runs = 0;
  tsr_status status = tsr_executable_run(c->plain);
  for (start = tsr_cli_seconds(); taken < sample_seconds && status == TSR_OK; runs++) {
    status = tsr_executable_run(c->plain);
    taken = tsr_cli_seconds() - start;
  }
  *result = (bench_op_time){.host = taken / runs / c->rounds, .device = -1.0};
  if (!c->timed || status != TSR_OK) {
    return status;
  }
  status = tsr_executable_run(c->timed);
  runs = 0;
  for (start = tsr_cli_seconds(), taken = 0.0; taken < sample_seconds && status == TSR_OK; runs++) {
    status = tsr_executable_run(c->timed);
    taken = tsr_cli_seconds() - start;
    if (status == TSR_OK) {
      status = tsr_executable_profile(c->timed, c->nanoseconds, c->n_lines);
      sum += sum_lines(c);
    }
  }
  result->device = sum / runs / c->rounds;
  return status;
}

/* Runs a case untimed, on a GPU, until its clocks are up. */
static tsr_status wake(const session *s)
{
  const chain *c = s->chained.rounds > 0 ? &s->chained : &s->single;
  const double start = tsr_cli_seconds();
  tsr_status status = TSR_OK;
  while (tsr_cli_is_gpu(tsr_device_get_properties(s->device)->type) && status == TSR_OK &&
         tsr_cli_seconds() - start < BENCH_WAKING_SECONDS) {
    status = tsr_executable_run(c->plain);
  }
  return status;
}

/* Buffers and programs of a case. An operator that the device lacks is no error. */
static tsr_status prepare(session *s, const bench_op_case *test)
{
  s->sample.test = *test;
  s->sample.supported = 1;
  s->sample.lines = 1;
  s->kind = &kinds[test->op];
  s->n_operands = s->kind->list(test, s->operands);
  tsr_status status = make_sets(s, 1);
  if (status == TSR_OK) {
    status = make_chain(s, 1, &s->single);
  }
  if (status == TSR_ERR_UNSUPPORTED) {
    s->sample.supported = 0;
    return TSR_OK;
  }
  if (s->task->dry) {
    return status;
  }
  double start = tsr_cli_seconds();
  if (status == TSR_OK) {
    status = tsr_executable_run(s->single.plain);
  }
  double rounds = chain_seconds / (tsr_cli_seconds() - start);
  if (status != TSR_OK || rounds < 2.0) {
    return status == TSR_OK ? wake(s) : status;
  }
  int64_t set_bytes = 1;
  for (int32_t i = 0; i < s->n_operands; i++) {
    set_bytes += operand_size(&s->operands[i]);
  }
  int64_t sets = operand_bytes / set_bytes, least = 1;
  if (test->precision == TSR_I8 || test->precision == TSR_I4) {
    least = 2; /* of one, a is quantised once */
  }
  s->sample.lines = rounds < MAX_ROUNDS ? (int32_t)rounds : MAX_ROUNDS;
  status = make_sets(s, sets < least ? (int32_t)least : sets < s->sample.lines ? (int32_t)sets : s->sample.lines);
  if (status == TSR_OK) {
    status = make_chain(s, s->sample.lines, &s->chained);
  }
  return status == TSR_OK ? wake(s) : status;
}

static tsr_status measure(session *s)
{
  tsr_status status = time_chain(&s->single, &s->sample.single);
  s->sample.chained = s->sample.single;
  if (status == TSR_OK && s->chained.rounds > 0) {
    status = time_chain(&s->chained, &s->sample.chained);
  }
  return status;
}

/* ---- rooflines --------------------------------------------------------------------------------------------------- */

static int64_t case_bytes(const bench_op_case *test)
{
  operand operands[MAX_OPERANDS];
  int64_t sum = 0;
  for (int32_t i = kinds[test->op].list(test, operands) - 1; i >= 0; i--) {
    int64_t size = operand_size(&operands[i]);
    sum = size > sum ? size : sum;
  }
  return sum;
}

/* Prepares ever larger ones, until one takes `enough` seconds by the device's clock, or the next might be too large. */
static tsr_status prepare_large(session *s, bench_op_case test, int32_t growing, int32_t largest, double enough)
{
  const tsr_device_properties *properties = tsr_device_get_properties(s->device);
  for (;;) {
    tsr_status status = prepare(s, &test);
    if (status == TSR_OK && s->sample.supported) {
      status = time_chain(&s->single, &s->sample.single);
    }
    double taken = s->sample.single.device > 0.0 ? s->sample.single.device : s->sample.single.host;
    bench_op_case next = test;
    for (int32_t i = 0; i < growing; i++) {
      next.extent[i] *= 2;
    }
    double factor = growing == 3 ? 8.0 : 2.0;
    int ends = status != TSR_OK || !s->sample.supported || next.extent[0] > largest || factor * taken > enough ||
               (properties->max_buffer_size > 0 && (uint64_t)case_bytes(&next) > properties->max_buffer_size) ||
               (properties->memory > 0 && (uint64_t)case_bytes(&next) > properties->memory / 16);
    if (ends) {
      return status;
    }
    release(s);
    test = next;
  }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static tsr_status answer(session *s, int32_t request)
{
  int32_t index = request % BENCH_OPS;
  switch (request / BENCH_OPS) {
  case BENCH_OP_PREPARE:
    return prepare(s, &s->task->cases[index]);
  case BENCH_OP_SAMPLE:
    return measure(s);
  case BENCH_OP_LARGE_COPY:
    return prepare_large(s, (bench_op_case){KIND_COPY, TSR_F32, {256, 1024}}, 1, 65536, 0.1);
  case BENCH_OP_LARGE_PRODUCT:
    return prepare_large(s, (bench_op_case){KIND_MATMUL, index, {128, 128, 128}}, 3, 8192, 0.4);
  default:
    release(s);
    return TSR_OK;
  }
}

static int force_variant(session *s)
{
  const int32_t count = tsr_device_variant_count(s->device);
  int32_t variant = 1;
  while (variant <= count && strcmp(tsr_device_variant_name(s->device, variant), s->task->variant) != 0) {
    variant++;
  }
  if (variant > count) {
    return tsr_cli_usage("bench", "--variant: %s has no variant '%s'; `tessera devices --variants` lists them",
                         tsr_device_name(s->device), s->task->variant);
  }
  return tsr_cli_fail(tsr_device_force_variant(s->device, variant));
}

static int open_device(session *s)
{
  int code = bench_open_device(s->task->threads, bench_given(s->task->device), &s->runtime, &s->device);
  if (code == TSR_EXIT_OK) {
    bench_describe(s->device, &s->sample.device);
  }
  return code == TSR_EXIT_OK && s->task->variant[0] ? force_variant(s) : code;
}

int bench_op_body(const void *task)
{
  session *s = calloc(1, sizeof *s);
  if (!s) {
    return tsr_cli_no_memory();
  }
  s->task = task;
  int code = open_device(s);
  for (int32_t request; code == TSR_EXIT_OK && bench_next(&request);) {
    code = tsr_cli_fail(answer(s, request));
    if (code == TSR_EXIT_OK) {
      bench_reply(&s->sample, sizeof s->sample);
    }
  }
  release(s);
  tsr_device_close(s->device);
  tsr_runtime_destroy(s->runtime);
  free(s);
  return code;
}
