/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend gives the same bits on any number of threads, at each instruction level, and when several runs
 * share a device.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/generate.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary.h"
#include "tools/random/random.h"
#include "tools/random/random_model.h"

static const char *const thread_counts[] = {"1", "3", "2", "7"};

enum { N_THREAD_COUNTS = TEST_IS_SANITIZED ? 2 : 4, MAX_LEVELS = 8, MAX_TENSORS = 24 };
/* A sanitizer sees in one run what other runs see by chance. */
enum { ROUNDS = TEST_IS_SANITIZED ? 1 : 3, RUNS = TEST_IS_SANITIZED ? 1 : 5 };

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

/* The cpu backend with a device per instruction level; returns how many. */
static int32_t open_runtime(const char *threads, tsr_runtime **runtime)
{
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = CPU_FOLDER}, runtime));
  check(tsr_runtime_option(*runtime, "THREADS", threads));
  check(tsr_runtime_option(*runtime, "CPU_LEVEL", "all"));
  const int32_t n = tsr_runtime_device_count(*runtime);
  assert_in_range(n, 1, MAX_LEVELS);
  return n;
}

static tsr_device *open_level(tsr_runtime *runtime, int32_t index)
{
  tsr_device_info info;
  tsr_device *device;
  check(tsr_runtime_device_info(runtime, index, &info));
  assert_string_equal(info.backend, "cpu");
  check(tsr_device_open(runtime, info.name, &device));
  return device;
}

/* ---- operators ------------------------------------------------------------------------------------------------- */

/* A program whose lines are large enough to be shared among threads, and its results one after another. */
typedef struct sample {
  tsr_executable *executable;
  tsr_buffer *buffers[MAX_TENSORS]; /* of constants */
  tsr_binding bindings[MAX_TENSORS];
  int32_t n_constants;
  tsr_ref inputs[MAX_TENSORS], states[MAX_TENSORS], outputs[MAX_TENSORS];
  int64_t sizes[MAX_TENSORS]; /* of outputs, bytes */
  int32_t n_inputs, n_states, n_outputs;
  int64_t state_size;
  void *initial; /* values that every state has before each run */
  int64_t size;  /* of all outputs */
} sample;

static int64_t bytes_of(const tsr_program *p, tsr_ref x)
{
  const tsr_shape shape = tsr_ref_shape(p, x);
  int64_t bytes = tsr_ref_dtype(p, x) == TSR_F16 ? 2 : 4;
  for (int32_t i = 0; i < shape.rank; i++) {
    bytes *= shape.extent[i];
  }
  return bytes;
}

/* All states have the same extents. */
static tsr_ref state(tsr_program *p, sample *s, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "s%d", (int)s->n_states);
  return s->states[s->n_states++] = tsr_state(p, name, TSR_F32, shape);
}

/* Repeatable values: f32 from -1 to 1, i32 from 0 to 99, f16 of all finite signs and sizes below 2. */
static void *values_of(const tsr_program *p, tsr_ref x, uint64_t seed)
{
  const int64_t bytes = bytes_of(p, x);
  const tsr_dtype dtype = tsr_ref_dtype(p, x);
  void *values = malloc((size_t)bytes);
  assert_non_null(values);
  for (int64_t i = 0; dtype == TSR_F32 && i < bytes / 4; i++) {
    ((float *)values)[i] = (float)tsr_random_real(&seed);
  }
  for (int64_t i = 0; dtype == TSR_I32 && i < bytes / 4; i++) {
    ((int32_t *)values)[i] = tsr_random_below(&seed, 100);
  }
  for (int64_t i = 0; dtype == TSR_F16 && i < bytes / 2; i++) {
    ((uint16_t *)values)[i] = (uint16_t)(tsr_random_below(&seed, 0x3c00) | tsr_random_below(&seed, 2) << 15);
  }
  return values;
}

static tsr_ref input(tsr_program *p, sample *s, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "x%d", (int)s->n_inputs);
  return s->inputs[s->n_inputs++] = tsr_input(p, name, dtype, shape);
}

static tsr_ref constant(tsr_program *p, sample *s, tsr_device *device, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "w%d", (int)s->n_constants);
  const tsr_ref w = tsr_constant(p, name, dtype, shape);
  check(tsr_program_status(p));
  void *values = values_of(p, w, 100 + (uint64_t)s->n_constants);
  tsr_buffer **buffer = &s->buffers[s->n_constants];
  check(tsr_buffer_create(device, bytes_of(p, w), TSR_BUFFER_DEVICE, buffer));
  check(tsr_buffer_write(*buffer, 0, bytes_of(p, w), values));
  free(values);
  s->bindings[s->n_constants++] = (tsr_binding){.tensor = w, .buffer = *buffer};
  return w;
}

static void output(tsr_program *p, sample *s, tsr_ref y)
{
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)s->n_outputs);
  s->outputs[s->n_outputs++] = tsr_output(p, name, y);
}

static void build_products(tsr_program *p, sample *s, tsr_device *device)
{
  const tsr_ref w = constant(p, s, device, TSR_F32, TSR_SHAPE(700, 200));
  const tsr_ref half = constant(p, s, device, TSR_F16, TSR_SHAPE(2003, 131));
  const tsr_ref bias = constant(p, s, device, TSR_F32, TSR_SHAPE(700));
  const tsr_ref many = input(p, s, TSR_F32, TSR_SHAPE(150, 200)), one = input(p, s, TSR_F32, TSR_SHAPE(1, 131));
  const tsr_ref few = input(p, s, TSR_F32, TSR_SHAPE(17, 131));
  const tsr_ref a = input(p, s, TSR_F32, TSR_SHAPE(6, 40, 70)), b = input(p, s, TSR_F32, TSR_SHAPE(6, 70, 90));
  const tsr_ref y = tsr_matmul(p, many, tsr_transpose(p, w, 0, 1), bias, 0.25f, TSR_ACTIVATION_GELU_TANH);
  output(p, s, y);
  output(p, s, tsr_product(p, one, tsr_transpose(p, half, 0, 1)));
  const tsr_ref scores = tsr_product(p, few, tsr_transpose(p, half, 0, 1));
  tsr_ref indices = TSR_NONE;
  output(p, s, tsr_topk(p, tsr_log_softmax(p, scores), 8, &indices));
  output(p, s, indices);
  output(p, s, tsr_product(p, a, b));
}

/* As training multiplies: nothing is constant, and the gradients take transposed operands. */
static void build_training(tsr_program *p, sample *s, tsr_device *device)
{
  (void)device;
  const tsr_ref x = input(p, s, TSR_F32, TSR_SHAPE(700, 150)), dy = input(p, s, TSR_F32, TSR_SHAPE(700, 300));
  const tsr_ref w = input(p, s, TSR_F32, TSR_SHAPE(300, 150)), bias = input(p, s, TSR_F32, TSR_SHAPE(300));
  const tsr_ref deep = input(p, s, TSR_F32, TSR_SHAPE(2300, 70)), wide = input(p, s, TSR_F32, TSR_SHAPE(2300, 530));
  output(p, s, tsr_matmul(p, x, tsr_transpose(p, w, 0, 1), bias, 0.5f, TSR_ACTIVATION_RELU));
  output(p, s, tsr_product(p, dy, w));
  output(p, s, tsr_product(p, tsr_transpose(p, dy, 0, 1), x));
  output(p, s, tsr_product(p, tsr_transpose(p, deep, 0, 1), wide));
  output(p, s, tsr_matmul_rounded(p, dy, w, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE, TSR_BF16));
  output(p, s, tsr_matmul_rounded(p, tsr_transpose(p, dy, 0, 1), x, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE, TSR_BF16));
  output(p, s,
         tsr_matmul_reduced_precision(p, x, tsr_transpose(p, tsr_copy(p, w, TSR_BF16), 0, 1), bias, 1.0f,
                                      TSR_ACTIVATION_RELU));
}

static void build_rows(tsr_program *p, sample *s, tsr_device *device)
{
  const tsr_ref gain = constant(p, s, device, TSR_F32, TSR_SHAPE(509));
  const tsr_ref x = input(p, s, TSR_F32, TSR_SHAPE(300, 509)), z = input(p, s, TSR_F32, TSR_SHAPE(300, 509));
  const tsr_ref ids = input(p, s, TSR_I32, TSR_SHAPE(1000));
  const tsr_ref table = constant(p, s, device, TSR_F32, TSR_SHAPE(100, 509));
  output(p, s, tsr_softmax(p, x, TSR_NONE));
  output(p, s, tsr_layernorm(p, tsr_add(p, x, z), gain, gain, 1e-5f));
  output(p, s, tsr_rmsnorm(p, x, gain, 1e-5f));
  output(p, s, tsr_silu(p, tsr_mul(p, x, z)));
  output(p, s, tsr_reduce_sum(p, x, 1));
  output(p, s, tsr_reduce_sum(p, x, 3));
  output(p, s, tsr_embedding(p, table, ids, 2.0f));
  output(p, s, tsr_copy(p, tsr_transpose(p, x, 0, 1), TSR_F32));
}

static void build_attention(tsr_program *p, sample *s, tsr_device *device)
{
  (void)device;
  const tsr_ref lengths = input(p, s, TSR_I32, TSR_SHAPE(4));
  const tsr_ref wide = input(p, s, TSR_F32, TSR_SHAPE(4, 130, 5, 40));
  const tsr_ref k = input(p, s, TSR_F32, TSR_SHAPE(4, 130, 5, 40)), v = input(p, s, TSR_F32, TSR_SHAPE(4, 130, 5, 40));
  tsr_attention_args args = {.q = wide, .k = k, .v = v, .alpha = 0.2f, .masking = {.causal = 1, .lengths = lengths}};
  output(p, s, tsr_attention(p, &args));
  args.q = tsr_slice(p, wide, 1, 3, 1);
  args.masking.causal = 0;
  output(p, s, tsr_attention(p, &args));
  args.q = tsr_slice(p, wide, 1, 7, 4);
  args.masking.lengths = TSR_NONE;
  output(p, s, tsr_attention(p, &args));
}

/* What training does: a dropout of the weights, and the gradient. */
static void build_attention_gradient(tsr_program *p, sample *s, tsr_device *device)
{
  (void)device;
  const tsr_ref seed = input(p, s, TSR_I32, TSR_SHAPE(2));
  for (int32_t few = 0; few < 2; few++) {
    const int64_t n_queries = few ? 3 : 90, width = few ? 20 : 32;
    const tsr_ref lengths = input(p, s, TSR_I32, TSR_SHAPE(7));
    const tsr_ref q = input(p, s, TSR_F32, TSR_SHAPE(7, n_queries, 3, width));
    const tsr_ref k = input(p, s, TSR_F32, TSR_SHAPE(7, 70, 3, width));
    const tsr_ref v = input(p, s, TSR_F32, TSR_SHAPE(7, 70, 3, width));
    const tsr_ref dy = input(p, s, TSR_F32, TSR_SHAPE(7, n_queries, 3, width));
    tsr_ref lse, dk, dv, dscores;
    tsr_attention_args args = {.q = q, .k = k, .v = v, .alpha = 0.2f, .seed = seed, .rate = 0.1f, .lse = &lse};
    args.masking = (tsr_masking){.causal = !few, .lengths = lengths};
    const tsr_ref y = tsr_attention(p, &args);
    args.lse = NULL;
    output(p, s, y);
    output(p, s, lse);
    output(p, s, tsr_attention_gradient(p, &args, y, dy, lse, &dk, &dv, few ? &dscores : NULL));
    output(p, s, dk);
    output(p, s, dv);
    if (few) {
      output(p, s, dscores);
    }
  }
}

/* What training adds: sums over rows and over all elements, elements that are dropped out by their index. */
static void build_loss(tsr_program *p, sample *s, tsr_device *device)
{
  const tsr_ref logits = input(p, s, TSR_F32, TSR_SHAPE(300, 509)), dloss = input(p, s, TSR_F32, TSR_SHAPE(300));
  const tsr_ref labels = input(p, s, TSR_I32, TSR_SHAPE(300)), x = input(p, s, TSR_F32, TSR_SHAPE(300, 509));
  const tsr_ref gain = constant(p, s, device, TSR_F32, TSR_SHAPE(509)), seed = input(p, s, TSR_I32, TSR_SHAPE(2));
  tsr_ref lse, dgain, dbias, parts[] = {x, logits, x};
  output(p, s, tsr_cross_entropy(p, logits, labels, 0.1f, &lse));
  output(p, s, tsr_cross_entropy_gradient(p, logits, labels, lse, dloss, 0.1f));
  output(p, s, tsr_dropout(p, x, seed, 0.1f, 3));
  output(p, s, tsr_layernorm_gradient(p, x, gain, logits, 1e-5f, &dgain, &dbias));
  output(p, s, dgain);
  output(p, s, dbias);
  output(p, s, tsr_rmsnorm_gradient(p, x, gain, logits, 1e-5f, &dgain));
  output(p, s, dgain);
  output(p, s, tsr_softmax_gradient(p, x, logits));
  output(p, s, tsr_log_softmax_gradient(p, x, logits));
  output(p, s, tsr_activation_gradient(p, x, logits, TSR_ACTIVATION_GELU_TANH));
  output(p, s, tsr_concat(p, parts, 3, 1));
  output(p, s, tsr_scatter_add(p, x, labels, 0, 90, 0.5f));
}

static void build_step(tsr_program *p, sample *s, tsr_device *device)
{
  (void)device;
  const tsr_ref gradient = input(p, s, TSR_F32, TSR_SHAPE(301, 509)), control = input(p, s, TSR_F32, TSR_SHAPE(5));
  const tsr_ref scores = input(p, s, TSR_F32, TSR_SHAPE(4, 5, 30, 70)),
                y = input(p, s, TSR_F32, TSR_SHAPE(4, 5, 30, 70));
  const tsr_masking masking = {.bidirectional = 1, .max_distance = 50};
  const tsr_ref norm = tsr_sum_of_squares(p, gradient, TSR_NONE), turned = tsr_transpose(p, gradient, 0, 1);
  tsr_adam_args args = {.gradient = gradient, .control = tsr_mul(p, control, control), .norm = norm};
  args.parameter = state(p, s, TSR_SHAPE(301, 509));
  args.m = state(p, s, TSR_SHAPE(301, 509));
  args.v = state(p, s, TSR_SHAPE(301, 509));
  args.average = state(p, s, TSR_SHAPE(301, 509));
  args.beta1 = 0.9f;
  args.beta2 = 0.98f;
  args.epsilon = 1e-9f;
  args.max_norm = 1.0f;
  output(p, s, norm);
  output(p, s, tsr_sum_of_squares(p, tsr_slice(p, turned, 1, 7, 200), norm));
  output(p, s, tsr_relative_gradient(p, scores, &masking, 32));
  output(p, s, tsr_relative_gradient(p, scores, &(tsr_masking){.clamped = 1, .max_distance = 20}, 41));
  output(p, s, tsr_mask_gradient(p, y, scores));
  tsr_adam(p, &args);
  for (int32_t i = 0; i < s->n_states; i++) {
    s->outputs[s->n_outputs++] = s->states[i];
  }
}

static void build_convolutions(tsr_program *p, sample *s, tsr_device *device)
{
  const tsr_ref x = input(p, s, TSR_F32, TSR_SHAPE(2, 300, 80)), varies = input(p, s, TSR_F32, TSR_SHAPE(65, 3, 80));
  const tsr_ref weight = constant(p, s, device, TSR_F32, TSR_SHAPE(130, 3, 80));
  const tsr_ref bias = constant(p, s, device, TSR_F32, TSR_SHAPE(130));
  output(p, s, tsr_conv1d(p, x, weight, bias, 1, 1));
  output(p, s, tsr_conv1d(p, x, weight, TSR_NONE, 2, 1));
  output(p, s, tsr_conv1d(p, x, varies, TSR_NONE, 2, 0));
}

typedef void (*build_fn)(tsr_program *p, sample *s, tsr_device *device);
static const build_fn builders[] = {build_products,           build_training, build_rows, build_attention,
                                    build_attention_gradient, build_loss,     build_step, build_convolutions};

enum { N_SAMPLES = sizeof builders / sizeof builders[0] };

static void sample_open(tsr_device *device, int32_t which, sample *s)
{
  tsr_program *p;
  *s = (sample){0};
  check(tsr_program_create(&p));
  builders[which](p, s, device);
  check(tsr_program_status(p));
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = s->bindings,
                                       .n_bindings = s->n_constants, .strict = 1};
  check(tsr_executable_create(device, p, &options, &s->executable));
  for (int32_t i = 0; i < s->n_inputs; i++) {
    void *values = values_of(p, s->inputs[i], (uint64_t)i);
    check(tsr_executable_write(s->executable, s->inputs[i], values, bytes_of(p, s->inputs[i])));
    free(values);
  }
  for (int32_t i = 0; i < s->n_outputs; i++) {
    s->sizes[i] = bytes_of(p, s->outputs[i]);
    s->size += s->sizes[i];
  }
  if (s->n_states > 0) {
    s->state_size = bytes_of(p, s->states[0]);
    s->initial = values_of(p, s->states[0], 77);
    for (int64_t i = 0; i < s->state_size / 4; i++) {
      ((float *)s->initial)[i] += 1.0f; /* a second moment is not below 0 */
    }
  }
  tsr_program_destroy(p);
}

static void sample_close(sample *s)
{
  tsr_executable_destroy(s->executable);
  free(s->initial);
  for (int32_t i = 0; i < s->n_constants; i++) {
    tsr_buffer_destroy(s->buffers[i]);
  }
}

/* Runs once; all results one after another, the caller's. No assertions: threads call it. */
static unsigned char *sample_run(sample *s)
{
  unsigned char *results = malloc((size_t)s->size);
  tsr_status status = results ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  int64_t at = 0;
  for (int32_t i = 0; status == TSR_OK && i < s->n_states; i++) {
    status = tsr_executable_write(s->executable, s->states[i], s->initial, s->state_size);
  }
  if (status == TSR_OK) {
    status = tsr_executable_run(s->executable);
  }
  for (int32_t i = 0; status == TSR_OK && i < s->n_outputs; i++) {
    status = tsr_executable_read(s->executable, s->outputs[i], results + at, s->sizes[i]);
    at += s->sizes[i];
  }
  if (status != TSR_OK) {
    free(results);
    return NULL;
  }
  return results;
}

static void test_operators(void **state)
{
  (void)state;
  unsigned char *expected[MAX_LEVELS][N_SAMPLES] = {{NULL}};
  for (int32_t t = 0; t < N_THREAD_COUNTS; t++) {
    tsr_runtime *runtime;
    const int32_t n_levels = open_runtime(thread_counts[t], &runtime);
    for (int32_t level = 0; level < n_levels; level++) {
      tsr_device *device = open_level(runtime, level);
      for (int32_t which = 0; which < N_SAMPLES; which++) {
        sample s;
        sample_open(device, which, &s);
        for (int32_t round = 0; round < ROUNDS; round++) {
          unsigned char *found = sample_run(&s);
          assert_non_null(found);
          if (!expected[level][which]) {
            expected[level][which] = found;
          } else if (memcmp(found, expected[level][which], (size_t)s.size) != 0) {
            fail_msg("sample %d, %s: other results on %s threads", (int)which,
                     tsr_device_get_properties(device)->driver, thread_counts[t]);
          } else {
            free(found);
          }
        }
        sample_close(&s);
      }
      tsr_device_close(device);
    }
    tsr_runtime_destroy(runtime);
  }
  for (int32_t level = 0; level < MAX_LEVELS; level++) {
    for (int32_t which = 0; which < N_SAMPLES; which++) {
      free(expected[level][which]);
    }
  }
}

/* ---- several executables of one device, each on a thread --------------------------------------------------------- */

enum { WORKERS = N_SAMPLES };

typedef struct worker {
  pthread_t thread;
  sample sample;
  unsigned char *expected;
  int32_t runs, wrong;
} worker;

static void *run_repeatedly(void *argument)
{
  worker *w = argument;
  for (int32_t run = 0; run < w->runs && !w->wrong; run++) {
    unsigned char *found = sample_run(&w->sample);
    w->wrong = !found || memcmp(found, w->expected, (size_t)w->sample.size) != 0;
    free(found);
  }
  return NULL;
}

static void test_side_by_side(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  open_runtime("3", &runtime);
  tsr_device *device = open_level(runtime, 0);
  worker workers[WORKERS] = {{0}};
  for (int32_t i = 0; i < WORKERS; i++) {
    sample_open(device, i % N_SAMPLES, &workers[i].sample);
    workers[i].expected = sample_run(&workers[i].sample);
    workers[i].runs = RUNS * (i + 1); /* the last one is alone in the end */
    assert_non_null(workers[i].expected);
  }
  for (int32_t i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_create(&workers[i].thread, NULL, run_repeatedly, &workers[i]), 0);
  }
  for (int32_t i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_int_equal(workers[i].wrong, 0);
  }
  for (int32_t i = 0; i < WORKERS; i++) {
    free(workers[i].expected);
    sample_close(&workers[i].sample);
  }
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

/* ---- a model --------------------------------------------------------------------------------------------------- */

enum { N_SENTENCES = 6, LENGTH = 21, VOCABULARY = 3001 };

static void generate(const tsr_model *model, tsr_device *device, tsr_dtype weights, int32_t beam,
                     tsr_generation *generation)
{
  tsr_transformer *transformer;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  int32_t ids[N_SENTENCES][LENGTH], lengths[N_SENTENCES];
  const int32_t *source[N_SENTENCES];
  uint64_t seed = 5;
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    for (int32_t t = 0; t < LENGTH; t++) {
      ids[i][t] = 1 + tsr_random_below(&seed, VOCABULARY - 1);
    }
    lengths[i] = LENGTH - 3 * i;
    source[i] = ids[i];
  }
  check(tsr_transformer_create(
      model, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = weights, .workers = 1},
      &transformer));
  check(tsr_generate_defaults(model, &options));
  options.beam = beam;
  options.n_best = beam;
  options.max_length = 24;
  check(tsr_generate(transformer, N_SENTENCES, source, lengths, 0, &options, NULL, NULL, generation));
  tsr_transformer_destroy(transformer);
}

static void assert_same(const tsr_generation *a, const tsr_generation *b)
{
  assert_int_equal(a->n_sentences, b->n_sentences);
  assert_int_equal(a->n_best, b->n_best);
  for (int32_t i = 0; i < a->n_sentences * a->n_best; i++) {
    const tsr_hypothesis *x = &a->hypotheses[i], *y = &b->hypotheses[i];
    assert_int_equal(x->n_ids, y->n_ids);
    assert_memory_equal(x->ids, y->ids, (size_t)x->n_ids * sizeof *x->ids);
    assert_memory_equal(&x->score, &y->score, sizeof x->score);
  }
}

static void test_model(void **state)
{
  (void)state;
  static const struct {
    tsr_dtype weights;
    int32_t beam;
  } ways[] = {{TSR_F32, 1}, {TSR_F32, 4}, {TSR_I8, 4}};
  enum { N_WAYS = sizeof ways / sizeof ways[0] };
  tsr_generation expected[MAX_LEVELS][N_WAYS] = {{{0}}};
  const random_model random = {.d_model = 96, .heads = 3, .d_ff = 200, .vocabulary = VOCABULARY, .seed = 77};
  char *folder = make_temporary_folder();
  tsr_model *model;
  check(random_model_create(folder, &random));
  check(tsr_model_open(folder, &model));
  for (int32_t t = 0; t < N_THREAD_COUNTS; t++) {
    tsr_runtime *runtime;
    const int32_t n_levels = open_runtime(thread_counts[t], &runtime);
    for (int32_t level = 0; level < n_levels; level++) {
      tsr_device *device = open_level(runtime, level);
      for (int32_t way = 0; way < N_WAYS; way++) {
        tsr_generation found;
        generate(model, device, ways[way].weights, ways[way].beam, &found);
        if (t == 0) {
          expected[level][way] = found;
        } else {
          assert_same(&found, &expected[level][way]);
          tsr_generation_finish(&found);
        }
      }
      tsr_device_close(device);
    }
    tsr_runtime_destroy(runtime);
  }
  for (int32_t level = 0; level < MAX_LEVELS; level++) {
    for (int32_t way = 0; way < N_WAYS; way++) {
      tsr_generation_finish(&expected[level][way]);
    }
  }
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_operators),
      cmocka_unit_test(test_side_by_side),
      cmocka_unit_test(test_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
