/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps of a small model of speech, on every device that is found: gradients against the reference and, there,
 * against finite differences; batches added up against one large batch; windows that are cut.
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

#include "core/transformer/positions.h"
#include "tests/model/training.h"

enum { MELS = 5, POSITIONS = 9, ROWS = 3, TARGET_WIDTH = 6 };

static const training_shape shape = {.name = "whisper", .mels = MELS};
static const tsr_training_options dropping = {TSR_SIZED(tsr_training_options), .dropout = 0.1f,
                                              .attention_dropout = 0.15f, .activation_dropout = 0.05f,
                                              .label_smoothing = 0.1f};
static const tsr_training_options plain = {TSR_SIZED(tsr_training_options), .epsilon = 1e-2f, .average = 1};

static float *gradients_of(const training *t, const training_batch *batch, tsr_step_result *result)
{
  const tsr_step_control control = training_control(1, 0x123456789abcdefu);
  require_ok(tsr_trainer_set_features(t->trainer, batch->features), "features");
  return training_gradients(t, &batch->examples, &control, result);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void check_gradients(tsr_runtime *runtime, const char *device, int32_t width, double tolerance)
{
  training t, reference;
  training_batch batch;
  tsr_step_result result, expected;
  training_open(runtime, device, &shape, &dropping, &t);
  training_open(runtime, "reference", &shape, &dropping, &reference);
  training_batch_make(t.model, ROWS, width, TARGET_WIDTH, 3, &batch);
  float *found = gradients_of(&t, &batch, &result), *wanted = gradients_of(&reference, &batch, &expected);
  const char *where;
  /* The keys' biases change nothing: their gradients are nothing but rounding. */
  const double difference = training_difference(&t, found, wanted, 1e-5, &where);
  if (!(difference <= tolerance)) {
    fail_msg("%d positions on %s: the gradient of %s is off by %g, relative", (int)width, device, where, difference);
  }
  assert_true(fabs(result.loss / expected.loss - 1.0) <= 1e-5);
  free(found);
  free(wanted);
  training_batch_free(&batch);
  training_close(&t);
  training_close(&reference);
}

/* Whole windows, and windows that are cut. */
static void test_devices_agree(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    const double tolerance = strcmp(info.backend, "reference") == 0 ? 0.0 : 2e-4;
    check_gradients(*state, name, POSITIONS, tolerance);
    check_gradients(*state, name, 4, tolerance);
  }
}

static double loss_at(const training *t, const training_batch *batch, const char *name, int64_t element, float value)
{
  tsr_step_result result;
  training_set(t, name, element, value);
  require_ok(tsr_trainer_evaluate(t->trainer, &batch->examples, 0, &result), name);
  return result.loss / (double)result.tokens;
}

/* Of each part that text has not, and of what stands behind it. */
static void test_finite_differences(void **state)
{
  static const struct {
    const char *name;
    int64_t element;
  } of[] = {{"encoder.conv1.weight", 17},
            {"encoder.conv1.bias", 3},
            {"encoder.conv2.weight", 200},
            {"encoder.conv2.bias", 5},
            {"encoder.layers.0.feed_forward.in.weight", 7},
            {"encoder.norm.weight", 1},
            {"decoder.positions.weight", 30},
            {"decoder.layers.1.cross_attention.kv.weight", 9}};
  const float step = 4e-3f;
  training t;
  training_batch batch;
  tsr_step_result result;
  training_open(*state, "reference", &shape, &plain, &t);
  training_batch_make(t.model, ROWS, POSITIONS, TARGET_WIDTH, 5, &batch);
  float *gradient = gradients_of(&t, &batch, &result), *values = training_read(&t, TSR_TRAINED_PARAMETER);
  for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
    const int64_t at = t.first[training_find(&t, of[i].name)] + of[i].element;
    const double above = loss_at(&t, &batch, of[i].name, of[i].element, values[at] + step);
    const double below = loss_at(&t, &batch, of[i].name, of[i].element, values[at] - step);
    const double found = (above - below) / (2.0 * (double)step);
    (void)loss_at(&t, &batch, of[i].name, of[i].element, values[at]);
    if (!(fabs(found - (double)gradient[at]) <= 2e-4 + 0.02 * fabs(found))) {
      fail_msg("%s, element %lld: the gradient is %g, the difference %g", of[i].name, (long long)of[i].element,
               (double)gradient[at], found);
    }
  }
  free(gradient);
  free(values);
  training_batch_free(&batch);
  training_close(&t);
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* Three batches, one after the other, against all their rows in one. */
static void check_sums(tsr_runtime *runtime, const char *device)
{
  training together, apart;
  training_batch parts[3], all;
  tsr_step_result whole, part = {0};
  const tsr_step_control control = training_control(1, 1);
  training_open(runtime, device, &shape, &plain, &together);
  training_open(runtime, device, &shape, &plain, &apart);
  for (uint64_t i = 0; i < 3; i++) {
    training_batch_make(apart.model, 2 + (int32_t)i % 2, 7, TARGET_WIDTH - (int32_t)i, i, &parts[i]);
  }
  training_batch_join(parts, 3, MELS, &all);
  require_ok(tsr_trainer_set_features(together.trainer, all.features), device);
  require_ok(tsr_trainer_step(together.trainer, &all.examples, &control, 1, &whole), device);
  for (int32_t i = 0; i < 3; i++) {
    require_ok(tsr_trainer_set_features(apart.trainer, parts[i].features), device);
    require_ok(tsr_trainer_step(apart.trainer, &parts[i].examples, &control, i == 2, &part), device);
    training_batch_free(&parts[i]);
  }
  assert_true(fabs(part.gradient_norm / whole.gradient_norm - 1.0) < 1e-4);
  float *a = training_read(&together, TSR_TRAINED_PARAMETER), *b = training_read(&apart, TSR_TRAINED_PARAMETER);
  for (int64_t i = 0; i < apart.elements; i++) {
    assert_true(fabs((double)a[i] - (double)b[i]) <= 2e-6);
  }
  free(a);
  free(b);
  training_batch_free(&all);
  training_close(&together);
  training_close(&apart);
}

static void test_sums(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    check_sums(*state, name);
  }
}

/* The encoder's positions stay as they are, and all else that sound goes through is moved. */
static void test_positions_are_frozen(void **state)
{
  static const char *const moved[] = {"encoder.conv1.weight", "encoder.conv2.bias", "decoder.positions.weight"};
  training t;
  training_batch batch;
  tsr_step_result result;
  const tsr_step_control control = training_control(1, 1);
  training_open(*state, "cpu", &shape, &plain, &t);
  training_batch_make(t.model, ROWS, POSITIONS, TARGET_WIDTH, 5, &batch);
  float *before = training_read(&t, TSR_TRAINED_PARAMETER);
  require_ok(tsr_trainer_set_features(t.trainer, batch.features), "features");
  require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), "step");
  float *after = training_read(&t, TSR_TRAINED_PARAMETER);
  const int32_t frozen = training_find(&t, TSR_ENCODER_POSITIONS);
  const size_t size = (size_t)(t.first[frozen + 1] - t.first[frozen]) * sizeof *after;
  assert_memory_equal(before + t.first[frozen], after + t.first[frozen], size);
  for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
    const int32_t index = training_find(&t, moved[i]);
    assert_true(before[t.first[index]] != after[t.first[index]]);
  }
  free(before);
  free(after);
  training_batch_free(&batch);
  training_close(&t);
}

/* A window that is cut has the first positions. */
static void test_positions_of_a_cut_window(void **state)
{
  enum { CUT = 4, D_MODEL = 24 };
  training t;
  training_batch batch;
  tsr_step_result before, after;
  training_open(*state, "reference", &shape, &plain, &t);
  training_batch_make(t.model, ROWS, CUT, TARGET_WIDTH, 5, &batch);
  require_ok(tsr_trainer_set_features(t.trainer, batch.features), "features");
  require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &before), "evaluate");
  for (int64_t row = POSITIONS - 1; row >= 0; row--) {
    training_set(&t, TSR_ENCODER_POSITIONS, row * D_MODEL, 3.0f);
    require_ok(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &after), "evaluate");
    assert_true((before.loss == after.loss) == (row >= CUT));
  }
  training_batch_free(&batch);
  training_close(&t);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
  static const training_shape text = {.name = "marian"};
  training t;
  training_batch batch;
  tsr_step_result result;
  training_open(*state, "reference", &text, &plain, &t);
  assert_int_equal(tsr_trainer_set_features(t.trainer, (const float[]){0}), TSR_ERR_UNSUPPORTED);
  training_close(&t);
  training_open(*state, "reference", &shape, &plain, &t);
  training_batch_make(t.model, ROWS, POSITIONS, TARGET_WIDTH, 5, &batch);
  assert_int_equal(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &result), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "tsr_trainer_set_features"));
  batch.features[(2 * MELS + 1) * 2 * POSITIONS + 4] = NAN;
  require_ok(tsr_trainer_set_features(t.trainer, batch.features), "features");
  assert_int_equal(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &result), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "mel 1 and frame 4 in row 2"));
  training_batch_free(&batch);
  training_batch_make(t.model, 1, POSITIONS + 1, TARGET_WIDTH, 5, &batch);
  require_ok(tsr_trainer_set_features(t.trainer, batch.features), "features");
  assert_int_equal(tsr_trainer_evaluate(t.trainer, &batch.examples, 0, &result), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "10 source"));
  training_batch_free(&batch);
  training_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices_agree),
      cmocka_unit_test(test_finite_differences),
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_positions_are_frozen),
      cmocka_unit_test(test_positions_of_a_cut_window),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, training_setup, training_teardown);
}
