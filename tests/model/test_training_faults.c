/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer does when numbers cease to be finite, what it tells about layers, the loss without training's
 * additions, and what a step costs the device.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/model/training.h"

static const tsr_training_options dropping = {TSR_SIZED(tsr_training_options),
                                              .dropout = 0.1f,
                                              .attention_dropout = 0.1f,
                                              .activation_dropout = 0.1f,
                                              .label_smoothing = 0.2f,
                                              .max_norm = 1.0f,
                                              .average = 1};

/* ---- numbers that are not finite --------------------------------------------------------------------------------- */

/* What is planted, and what find_fault should say. */
typedef struct fault {
  const char *parameter;
  int64_t element; /* -1: all */
  float value;
  tsr_dtype products;
  const char *fragments[2];
} fault;

static const fault faults[] = {
    {"encoder.layers.1.feed_forward.in.bias",
     3,
     INFINITY,
     TSR_F32,
     {"'encoder.layers.1.feed_forward.in.bias' is not finite", ""}},
    {"decoder.layers.0.cross_attention_norm.weight",
     0,
     NAN,
     TSR_F32,
     {"cross_attention_norm.weight' is not finite", ""}},
    /* The gradient of a logit of -inf is finite: the loss alone tells. */
    {"logits.bias", 2, -INFINITY, TSR_F32, {"'logits.bias' is not finite", ""}},
    /* Overflows: to both infinities, to -inf, of a number that f16 has not. */
    {"encoder.layers.0.feed_forward.in.weight", 7, 3.4e38f, TSR_F32, {"matmul", "encoder.layers.0.feed_forward"}},
    {"encoder.layers.0.self_attention.output.bias", 2, -3.4e38f, TSR_F32, {"dropout", "encoder.layers.0"}},
    {"decoder.layers.1.self_attention.output.weight", 5, 1e5f, TSR_F16, {"copy", "decoder.layers.1.self_attention"}},
};

static void check_fault(tsr_runtime *runtime, const char *device, const fault *f)
{
  training t;
  training_batch batch;
  tsr_step_result result;
  tsr_step_control control = training_control(3, 5);
  tsr_training_options options = dropping;
  char text[512];
  options.products = f->products;
  training_open(runtime, device, &training_shapes[0], &options, &t);
  training_batch_make(t.model, 3, 6, 5, 4, &batch);
  require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), device);
  assert_true(result.is_finite);
  require_ok(tsr_trainer_find_fault(t.trainer, &batch.examples, &control, text, sizeof text), device);
  assert_string_equal(text, "");
  training_set(&t, f->parameter, f->element, f->value);
  float *before[TSR_TRAINED_COUNT];
  for (int32_t what = 0; what < TSR_TRAINED_COUNT; what++) {
    before[what] = training_read(&t, what);
  }
  require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), device);
  if (result.is_finite) {
    fail_msg("%s: %s = %g: loss %g, norm %g", device, f->parameter, (double)f->value, result.loss,
             result.gradient_norm);
  }
  for (int32_t what = 0; what < TSR_TRAINED_COUNT; what++) {
    float *after = training_read(&t, what);
    if (memcmp(before[what], after, (size_t)t.elements * sizeof *after) != 0) {
      fail_msg("%s: %s = %g: the step changed state %d", device, f->parameter, (double)f->value, (int)what);
    }
    free(after);
    free(before[what]);
  }
  require_ok(tsr_trainer_find_fault(t.trainer, &batch.examples, &control, text, sizeof text), device);
  if (!strstr(text, f->fragments[0]) || !strstr(text, f->fragments[1])) {
    fail_msg("%s: %s = %g: '%s' should hold '%s' and '%s'", device, f->parameter, (double)f->value, text,
             f->fragments[0], f->fragments[1]);
  }
  training_batch_free(&batch);
  training_close(&t);
}

static void test_faults(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
      check_fault(*state, name, &faults[i]);
    }
  }
}

/* A sentence without a source: attention's sums are -inf there, which is no fault. */
static void test_empty_source(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t;
    training_batch batch;
    tsr_step_result result;
    tsr_step_control control = training_control(1, 5);
    char text[512];
    training_open(*state, name, &training_shapes[0], &dropping, &t);
    training_batch_make(t.model, 3, 6, 5, 4, &batch);
    batch.ids[batch.examples.source_lengths - batch.ids] = 0;
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), name);
    assert_true(result.is_finite);
    training_set(&t, "decoder.layers.1.feed_forward.out.bias", 1, INFINITY);
    require_ok(tsr_trainer_find_fault(t.trainer, &batch.examples, &control, text, sizeof text), name);
    assert_non_null(strstr(text, "'decoder.layers.1.feed_forward.out.bias' is not finite"));
    training_batch_free(&batch);
    training_close(&t);
  }
}

/* The step of a batch, and that nothing was updated by it. */
static void step_in_vain(const training *t, const training_batch *batch, const tsr_step_control *control,
                         const char *device)
{
  tsr_step_result result;
  float *before = training_read(t, TSR_TRAINED_PARAMETER);
  require_ok(tsr_trainer_step(t->trainer, &batch->examples, control, 1, &result), device);
  assert_false(result.is_finite);
  float *after = training_read(t, TSR_TRAINED_PARAMETER);
  assert_memory_equal(before, after, (size_t)t->elements * sizeof *after);
  free(before);
  free(after);
}

/* A loss that is not finite though its gradients are, in a batch that is not the last of its update; the next update is
 * made as if nothing had been. */
static void test_accumulated_loss(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t;
    training_batch batch;
    tsr_step_result result;
    tsr_step_control control = training_control(1, 5);
    training_open(*state, name, &training_shapes[0], &dropping, &t);
    training_batch_make(t.model, 3, 6, 5, 4, &batch);
    training_set(&t, "logits.bias", 2, -INFINITY);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 0, &result), name);
    assert_false(result.is_finite);
    training_set(&t, "logits.bias", 2, 0.0f);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 0, &result), name);
    assert_true(result.is_finite);
    step_in_vain(&t, &batch, &control, name);
    for (int32_t last = 0; last < 2; last++) {
      require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, last, &result), name);
      assert_true(result.is_finite);
    }
    training_batch_free(&batch);
    training_close(&t);
  }
}

/* Gradients that are finite, with squares that are not. */
static void test_norm_overflows(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t;
    training_batch batch;
    tsr_step_control control = training_control(1, 5);
    char text[512];
    control.loss_scale = 1e25;
    training_open(*state, name, &training_shapes[0], &dropping, &t);
    training_batch_make(t.model, 3, 6, 5, 4, &batch);
    step_in_vain(&t, &batch, &control, name);
    require_ok(tsr_trainer_find_fault(t.trainer, &batch.examples, &control, text, sizeof text), name);
    if (!strstr(text, "sum_of_squares") || !strstr(text, "norm")) {
      fail_msg("%s: '%s' should name the sum of the squares", name, text);
    }
    training_batch_free(&batch);
    training_close(&t);
  }
}

/* ---- the loss alone ---------------------------------------------------------------------------------------------- */

static void test_evaluate(void **state)
{
  static const tsr_training_options nothing = {TSR_SIZED(tsr_training_options), .average = 1};
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t, bare;
    training_batch batch;
    tsr_step_result evaluated, trained, averaged, again;
    training_open(*state, name, &training_shapes[1], &dropping, &t);
    training_open(*state, name, &training_shapes[1], &nothing, &bare);
    training_batch_make(t.model, 5, 8, 6, 8, &batch);
    tsr_step_control control = training_control(1, 5);
    float *gradients = training_gradients(&bare, &batch.examples, &control, &trained);
    free(gradients);
    require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &evaluated), name);
    assert_true(fabs(evaluated.loss / trained.loss - 1.0) < 1e-6);
    assert_int_equal(evaluated.tokens, batch.examples.target_tokens);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &trained), name);
    assert_true(fabs(trained.loss / evaluated.loss - 1.0) > 1e-3);
    /* The averages are parameters of their own. */
    for (int64_t step = 2; step < 5; step++) {
      control = training_control(step, (uint64_t)step);
      control.learning_rate = 3e-2;
      require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &trained), name);
    }
    require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 1, &averaged), name);
    require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &evaluated), name);
    assert_true(fabs(averaged.loss / evaluated.loss - 1.0) > 1e-3);
    float *averages = training_read(&t, TSR_TRAINED_AVERAGE);
    for (int32_t i = 0; i < t.n; i++) {
      require_ok(
          tsr_trainer_write(bare.trainer, TSR_TRAINED_PARAMETER, i, averages + t.first[i], t.first[i + 1] - t.first[i]),
          name);
    }
    free(averages);
    require_ok(tsr_trainer_evaluate(bare.trainer, &batch.examples, 0, &again), name);
    assert_true(again.loss == averaged.loss);
    training_batch_free(&batch);
    training_close(&t);
    training_close(&bare);
  }
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static void expect_near(double found, double expected, const char *what)
{
  if (!(fabs(found - expected) <= 1e-4 * fmax(1.0, fabs(expected)))) {
    fail_msg("%s is %.9g, expected %.9g", what, found, expected);
  }
}

static void test_layers(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t;
    training_batch batch;
    tsr_step_result result;
    tsr_step_control control = training_control(1, 5);
    tsr_training_options options = dropping;
    options.statistics = 1;
    training_open(*state, name, &training_shapes[0], &options, &t);
    training_batch_make(t.model, 5, 8, 6, 8, &batch);
    assert_int_equal(tsr_trainer_layer_count(t.trainer), 4);
    float *gradients = training_gradients(&t, &batch.examples, &control, &result);
    /* After a post-norm layer: rows of mean (sum of biases) / D, where the gains are 1. */
    for (int32_t i = 0; i < 4; i++) {
      char gain[96], bias[96];
      snprintf(gain, sizeof gain, "%s.layers.%d.feed_forward_norm.weight", i < 2 ? "encoder" : "decoder", (int)i % 2);
      snprintf(bias, sizeof bias, "%s.layers.%d.feed_forward_norm.bias", i < 2 ? "encoder" : "decoder", (int)i % 2);
      training_set(&t, gain, -1, 1.0f + (float)i);
      training_set(&t, bias, -1, 0.25f * (float)i);
    }
    free(gradients);
    gradients = training_gradients(&t, &batch.examples, &control, &result);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), name);
    for (int32_t i = 0; i < 4; i++) {
      tsr_layer_statistics layer;
      char prefix[64];
      double squares = 0.0;
      snprintf(prefix, sizeof prefix, "%s.layers.%d.", i < 2 ? "encoder" : "decoder", (int)i % 2);
      for (int32_t j = 0; j < t.n; j++) {
        tsr_parameter_info parameter;
        require_ok(tsr_model_parameter(t.model, j, &parameter), name);
        for (int64_t k = t.first[j]; k < t.first[j + 1] && strncmp(parameter.name, prefix, strlen(prefix)) == 0; k++) {
          squares += (double)gradients[k] * (double)gradients[k];
        }
      }
      require_ok(tsr_trainer_layer(t.trainer, i, &layer), name);
      assert_int_equal(strlen(layer.name) + 1, strlen(prefix));
      assert_memory_equal(layer.name, prefix, strlen(layer.name));
      expect_near(layer.mean, 0.25 * i, "the mean");
      expect_near(layer.deviation, 1.0 + i, "the deviation");
      expect_near(layer.gradient_norm, sqrt(squares), "the norm");
    }
    assert_int_equal(tsr_trainer_layer(t.trainer, 4, &(tsr_layer_statistics){.mean = 0.0}), TSR_ERR_ARGUMENT);
    free(gradients);
    training_batch_free(&batch);
    training_close(&t);
  }
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

static tsr_device_counters counters_of(const training *t)
{
  tsr_device_counters counters = {.struct_size = sizeof counters};
  require_ok(tsr_device_get_counters(t->device, &counters), "counters");
  return counters;
}

/* A step of extents that were met before is one submit, and nothing else is made. */
static void test_counters(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    training t;
    training_batch batch;
    tsr_step_result result;
    training_open(*state, name, &training_shapes[0], &dropping, &t);
    training_batch_make(t.model, 5, 8, 6, 8, &batch);
    for (int64_t step = 1; step <= 12; step++) {
      tsr_step_control control = training_control(step, (uint64_t)step);
      tsr_device_counters before = counters_of(&t);
      /* Updates, then batches added up: three programs, each known after the first four rounds. */
      int32_t last = step <= 3 || step % 3 == 0;
      require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, last, &result), name);
      tsr_device_counters after = counters_of(&t);
      if (step == 1 || (step > 3 && step <= 6)) {
        continue;
      }
      assert_int_equal(after.runs - before.runs, 1);
      assert_int_equal(after.submits - before.submits, 1);
      assert_int_equal(after.allocations - before.allocations, 0);
      assert_int_equal(after.recordings - before.recordings, 0);
      assert_int_equal(after.pipelines - before.pipelines, 0);
      assert_int_equal(after.bytes_in_use, before.bytes_in_use);
    }
    training_batch_free(&batch);
    training_close(&t);
  }
}

/* Programs share one arena, as large as the largest needs. */
static void test_arena(void **state)
{
  training t;
  training_batch batch;
  tsr_step_result result;
  tsr_trainer_memory memory;
  training_open(*state, "reference", &training_shapes[0], &dropping, &t);
  int64_t states = 0, planned = 0;
  static const int32_t widths[][2] = {{12, 12}, {4, 5}, {12, 3}, {9, 9}, {12, 12}};
  for (int64_t i = 0; i < 5; i++) {
    tsr_step_control control = training_control(i + 1, 1);
    training_batch_make(t.model, 5, widths[i][0], widths[i][1], 8, &batch);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), "step");
    require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &result), "evaluate");
    tsr_trainer_get_memory(t.trainer, &memory);
    states = i == 0 ? memory.state_bytes : states;
    planned = i == 0 ? memory.planned_bytes : planned;
    assert_int_equal(memory.state_bytes, states);
    assert_int_equal(memory.planned_bytes, planned);
    assert_int_equal(memory.programs, i < 4 ? 2 * (i + 1) : 8);
    training_batch_free(&batch);
  }
  assert_true(states >= 4 * t.elements * (int64_t)sizeof(float)); /* parameters, two moments, averages */
  tsr_device_counters counters = counters_of(&t);
  if (counters.bytes_in_use > 0) {
    assert_true(counters.bytes_in_use < (uint64_t)(states + planned) + 400000);
  }
  assert_true(memory.planned_bytes < memory.temporary_bytes / 2);
  training_close(&t);
}

/* The reference, which promises buffers of `refused` bytes, and refuses those that are larger and no state. */
static tsr_backend refusing;
static const tsr_backend *reference;
static uint64_t promised, states_are;

static int32_t refusing_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const int32_t status = reference->device_properties(context, index, properties);
  properties->promised_buffer_size = promised;
  return status;
}

static int32_t refusing_buffer(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  return usage == TSR_BUFFER_DEVICE && size > promised && size != states_are
             ? TSR_ERR_DEVICE_MEMORY
             : reference->buffer_create(device, size, usage, buffer);
}

static const tsr_backend *query_refusing(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  refusing = *reference;
  refusing.name = "refusing";
  refusing.device_properties = refusing_properties;
  refusing.buffer_create = refusing_buffer;
  return &refusing;
}

/* Four steps of changing shapes, among them one whose arena is larger than what was there; the parameters. */
static float *train_on(tsr_runtime *runtime, const char *device, tsr_trainer_memory *memory, int64_t *state_bytes)
{
  static const int32_t widths[][2] = {{4, 5}, {12, 12}, {9, 9}, {14, 13}};
  training t;
  training_open(runtime, device, &training_shapes[0], &dropping, &t);
  for (int64_t i = 0; i < 4; i++) {
    training_batch batch;
    tsr_step_result result;
    const tsr_step_control control = training_control(i + 1, 1);
    training_batch_make(t.model, 5, widths[i][0], widths[i][1], 8, &batch);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), device);
    training_batch_free(&batch);
  }
  float *parameters = training_read(&t, TSR_TRAINED_PARAMETER);
  tsr_trainer_get_memory(t.trainer, memory);
  *state_bytes = t.elements * (int64_t)sizeof(float);
  training_close(&t);
  return parameters;
}

/* A device that gives no buffer as large as the arena: training goes on in pieces of it, with the same bits. */
static void test_divided_arena(void **state)
{
  tsr_trainer_memory memory;
  int64_t bytes;
  float *expected = train_on(*state, "reference", &memory, &bytes);
  for (uint64_t parts = 2; parts <= 5; parts++) {
    tsr_runtime *runtime;
    tsr_trainer_memory divided;
    promised = (uint64_t)memory.planned_bytes / parts;
    states_are = (uint64_t)memory.state_bytes / 4; /* parameters, two moments, averages */
    require_ok(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &runtime),
               "runtime");
    require_ok(tsr_runtime_register(runtime, query_refusing), "refusing");
    float *found = train_on(runtime, "refusing", &divided, &bytes);
    assert_memory_equal(expected, found, (size_t)bytes);
    assert_int_equal(divided.planned_bytes, memory.planned_bytes);
    free(found);
    tsr_runtime_destroy(runtime);
  }
  free(expected);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),           cmocka_unit_test(test_empty_source),
      cmocka_unit_test(test_accumulated_loss), cmocka_unit_test(test_norm_overflows),
      cmocka_unit_test(test_evaluate),         cmocka_unit_test(test_layers),
      cmocka_unit_test(test_counters),         cmocka_unit_test(test_arena),
      cmocka_unit_test(test_divided_arena),
  };
  return cmocka_run_group_tests(tests, training_setup, training_teardown);
}
