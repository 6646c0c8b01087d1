/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps of small models, on every device that is found: gradients against the reference, updates against Adam
 * computed here, batches added up against one large batch.
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
                                              .attention_dropout = 0.15f,
                                              .activation_dropout = 0.05f,
                                              .label_smoothing = 0.1f,
                                              .max_norm = 0.5f,
                                              .average = 1};

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void check_gradients(tsr_runtime *runtime, const training_shape *shape, const char *device, double tolerance)
{
  training t, reference;
  training_batch batch;
  tsr_step_result result, expected;
  tsr_step_control control = training_control(1, 0x123456789abcdefu);
  training_open(runtime, device, shape, &dropping, &t);
  training_open(runtime, "reference", shape, &dropping, &reference);
  training_batch_make(t.model, 5, 9, 7, 3, &batch);
  float *found = training_gradients(&t, &batch.examples, &control, &result);
  float *again = training_gradients(&t, &batch.examples, &control, &result);
  float *wanted = training_gradients(&reference, &batch.examples, &control, &expected);
  const char *where;
  double difference = training_difference(&t, found, wanted, 1e-6, &where);
  if (!(difference <= tolerance)) {
    fail_msg("%s on %s: the gradient of %s is off by %g, relative", shape->name, device, where, difference);
  }
  assert_true(fabs(result.loss / expected.loss - 1.0) <= 1e-5);
  if (memcmp(found, again, (size_t)t.elements * sizeof *found) != 0) {
    fail_msg("%s on %s: a second run gives other bits", shape->name, device);
  }
  free(found);
  free(again);
  free(wanted);
  training_batch_free(&batch);
  training_close(&t);
  training_close(&reference);
}

static void test_devices_agree(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t i = 0; i < n_training_shapes; i++) {
    for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
      check_gradients(*state, &training_shapes[i], name, strcmp(info.backend, "reference") == 0 ? 0.0 : 1e-4);
    }
  }
}

/* Layers that are computed once more give the same bits. */
static void test_recomputed(void **state)
{
  for (int32_t i = 0; i < n_training_shapes; i++) {
    tsr_training_options again = dropping;
    again.recompute = 1;
    training plain, recomputing;
    training_batch batch;
    tsr_step_result result;
    tsr_step_control control = training_control(1, 77);
    training_open(*state, "reference", &training_shapes[i], &dropping, &plain);
    training_open(*state, "reference", &training_shapes[i], &again, &recomputing);
    training_batch_make(plain.model, 4, 6, 5, 9, &batch);
    float *a = training_gradients(&plain, &batch.examples, &control, &result);
    float *b = training_gradients(&recomputing, &batch.examples, &control, &result);
    assert_memory_equal(a, b, (size_t)plain.elements * sizeof *a);
    free(a);
    free(b);
    training_batch_free(&batch);
    training_close(&plain);
    training_close(&recomputing);
  }
}

/* Products that read 16-bit copies of the matrices: near the gradients of f32, and another dropout seed is another
 * gradient. */
static void test_mixed_precision(void **state)
{
  const tsr_dtype types[] = {TSR_F16, TSR_BF16};
  for (int32_t i = 0; i < 2; i++) {
    tsr_training_options narrow = dropping;
    narrow.products = types[i];
    training plain, mixed;
    training_batch batch;
    tsr_step_result result;
    tsr_step_control control = training_control(1, 77), other = training_control(1, 78), scaled = control;
    scaled.loss_scale = 1024.0;
    training_open(*state, "cpu", &training_shapes[0], &dropping, &plain);
    training_open(*state, "cpu", &training_shapes[0], &narrow, &mixed);
    training_batch_make(plain.model, 4, 6, 5, 9, &batch);
    float *a = training_gradients(&plain, &batch.examples, &control, &result);
    float *b = training_gradients(&mixed, &batch.examples, &control, &result);
    float *c = training_gradients(&plain, &batch.examples, &other, &result);
    const char *where;
    double near = training_difference(&plain, b, a, 1e-6, &where),
           far = training_difference(&plain, c, a, 1e-6, &where);
    assert_true(near > 1e-6 && near < (i ? 0.2 : 0.03));
    assert_true(far > 0.2);
    /* The scale of the loss is taken out again. */
    tsr_step_result once, twice;
    require_ok(tsr_trainer_step(mixed.trainer, &batch.examples, &scaled, 0, &twice), "step");
    require_ok(tsr_trainer_step(mixed.trainer, &batch.examples, &scaled, 1, &twice), "step");
    require_ok(tsr_trainer_step(plain.trainer, &batch.examples, &control, 1, &once), "step");
    assert_true(fabs(twice.gradient_norm / once.gradient_norm - 1.0) < (i ? 0.1 : 0.02));
    free(a);
    free(b);
    free(c);
    training_batch_free(&batch);
    training_close(&plain);
    training_close(&mixed);
  }
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

typedef struct adam {
  double *p, *m, *v, *average;
} adam;

static void adam_begin(const training *t, adam *a)
{
  size_t n = (size_t)t->elements;
  float *values = training_read(t, TSR_TRAINED_PARAMETER);
  a->p = calloc(n, sizeof *a->p);
  a->m = calloc(n, sizeof *a->m);
  a->v = calloc(n, sizeof *a->v);
  a->average = calloc(n, sizeof *a->average);
  assert_true(a->p && a->m && a->v && a->average);
  for (size_t i = 0; i < n; i++) {
    a->p[i] = (double)values[i];
  }
  free(values);
}

static void adam_finish(adam *a)
{
  free(a->p);
  free(a->m);
  free(a->v);
  free(a->average);
}

/* As ops.h has it. Returns the norm of the gradient. */
static double adam_step(const training *t, const tsr_training_options *o, const tsr_step_control *control,
                        const float *gradient, adam *a)
{
  double squares = 0.0;
  for (int64_t i = 0; i < t->elements; i++) {
    squares += (double)gradient[i] * (double)gradient[i];
  }
  double norm = sqrt(squares), clip = o->max_norm > 0.0f ? fmin(1.0, (double)o->max_norm / (norm + 1e-6)) : 1.0;
  for (int32_t index = 0; index < t->n; index++) {
    tsr_parameter_info info;
    require_ok(tsr_model_parameter(t->model, index, &info), "parameter");
    /* All matrices here are tables or weights of products, but for two tables. */
    int is_matrix = info.shape.rank == 2 && !strstr(info.name, "positions") && !strstr(info.name, "relative");
    double decay = is_matrix ? (double)o->weight_decay : 0.0, rate = control->learning_rate;
    for (int64_t i = t->first[index]; i < t->first[index + 1]; i++) {
      double g = (double)gradient[i] * clip + (o->decoupled ? 0.0 : decay * a->p[i]);
      a->p[i] -= o->decoupled ? rate * decay * a->p[i] : 0.0;
      a->m[i] += (1.0 - (double)o->beta1) * (g - a->m[i]);
      a->v[i] = (double)o->beta2 * a->v[i] + (1.0 - (double)o->beta2) * g * g;
      a->p[i] -= rate * a->m[i] / (1.0 - pow((double)o->beta1, (double)control->step)) /
                 (sqrt(a->v[i] / (1.0 - pow((double)o->beta2, (double)control->step))) + (double)o->epsilon);
      a->average[i] += (1.0 - control->average_decay) * (a->p[i] - a->average[i]);
    }
  }
  return norm;
}

static void expect_state(const training *t, int32_t what, const double *expected, double tolerance, const char *name)
{
  float *found = training_read(t, what);
  for (int64_t i = 0; i < t->elements; i++) {
    if (!(fabs((double)found[i] - expected[i]) <= tolerance)) {
      fail_msg("%s: state %d, element %lld is %.9g, expected %.9g", name, (int)what, (long long)i, (double)found[i],
               expected[i]);
    }
  }
  free(found);
}

/* Four updates on each device, with the gradients that the device gave. */
static void check_updates(tsr_runtime *runtime, const char *device, const training_shape *shape,
                          const tsr_training_options *options)
{
  training t;
  training_batch batch;
  adam a;
  training_open(runtime, device, shape, options, &t);
  adam_begin(&t, &a);
  for (int64_t step = 1; step <= 4; step++) {
    tsr_step_control control = training_control(step, (uint64_t)step);
    tsr_step_result result, given;
    training_batch_make(t.model, 4, 7, 6, (uint64_t)step, &batch);
    float *gradient = training_gradients(&t, &batch.examples, &control, &given);
    require_ok(tsr_trainer_step(t.trainer, &batch.examples, &control, 1, &result), device);
    double norm = adam_step(&t, options, &control, gradient, &a);
    assert_true(result.is_finite);
    assert_int_equal(result.tokens, batch.examples.target_tokens);
    assert_true(fabs(result.gradient_norm / norm - 1.0) < 1e-5);
    assert_true(fabs(result.loss / given.loss - 1.0) < 1e-6);
    free(gradient);
    training_batch_free(&batch);
  }
  expect_state(&t, TSR_TRAINED_PARAMETER, a.p, 2e-6, device);
  expect_state(&t, TSR_TRAINED_M, a.m, 1e-6, device);
  expect_state(&t, TSR_TRAINED_V, a.v, 1e-6, device);
  expect_state(&t, TSR_TRAINED_AVERAGE, a.average, 2e-6, device);
  adam_finish(&a);
  training_close(&t);
}

static void test_updates(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    tsr_training_options options = dropping;
    options.beta1 = 0.8f;
    options.beta2 = 0.95f;
    options.epsilon = 1e-2f; /* so that gradients of about 0 move nothing much */
    options.weight_decay = 0.05f;
    check_updates(*state, name, &training_shapes[0], &options);
    options.decoupled = 1;
    options.max_norm = 0.0f;
    check_updates(*state, name, &training_shapes[4], &options);
  }
}

/* ---- batches added up -------------------------------------------------------------------------------------------- */

static const tsr_training_options plain = {TSR_SIZED(tsr_training_options),
                                           .label_smoothing = 0.1f,
                                           .epsilon = 1e-2f,
                                           .max_norm = 0.3f,
                                           .average = 1,
                                           .weight_decay = 0.01f};

static void expect_same_states(const training *a, const training *b, const char *device)
{
  for (int32_t what = 0; what < TSR_TRAINED_COUNT; what++) {
    float *left = training_read(a, what), *right = training_read(b, what);
    for (int64_t i = 0; i < a->elements; i++) {
      if (!(fabs((double)left[i] - (double)right[i]) <= 2e-6)) {
        fail_msg("%s: state %d, element %lld is %.9g and %.9g", device, (int)what, (long long)i, (double)left[i],
                 (double)right[i]);
      }
    }
    free(left);
    free(right);
  }
}

/* Batches of different extents, one after the other, against all their rows in one; twice, so that nothing is left over
 * from the first update. */
static void check_sums(tsr_runtime *runtime, const char *device, const training_shape *shape)
{
  training together, apart;
  training_open(runtime, device, shape, &plain, &together);
  training_open(runtime, device, shape, &plain, &apart);
  for (int64_t step = 1; step <= 2; step++) {
    tsr_step_control control = training_control(step, 1);
    tsr_step_result whole, part;
    training_batch parts[3], all;
    double loss = 0.0;
    training_batch_make(apart.model, 3, 7, 5, (uint64_t)(10 * step), &parts[0]);
    training_batch_make(apart.model, 4, 4, 8, (uint64_t)(10 * step + 1), &parts[1]);
    training_batch_make(apart.model, 3, 7, 5, (uint64_t)(10 * step + 2), &parts[2]);
    training_batch_join(parts, 3, 0, &all);
    require_ok(tsr_trainer_step(together.trainer, &all.examples, &control, 1, &whole), device);
    for (int32_t i = 0; i < 3; i++) {
      require_ok(tsr_trainer_step(apart.trainer, &parts[i].examples, &control, i == 2, &part), device);
      assert_int_equal(part.tokens, parts[i].examples.target_tokens);
      assert_true(i == 2 || part.gradient_norm == 0.0);
      loss += part.loss;
      training_batch_free(&parts[i]);
    }
    assert_true(fabs(loss / whole.loss - 1.0) < 1e-5);
    assert_true(fabs(part.gradient_norm / whole.gradient_norm - 1.0) < 1e-4);
    assert_true(whole.gradient_norm > (double)plain.max_norm); /* it was clipped */
    training_batch_free(&all);
  }
  expect_same_states(&together, &apart, device);
  training_close(&together);
  training_close(&apart);
}

static void test_sums(void **state)
{
  tsr_device_info info;
  const char *name;
  for (int32_t d = 0; (name = training_device(*state, d, &info)) != NULL; d++) {
    check_sums(*state, name, &training_shapes[0]);
    check_sums(*state, name, &training_shapes[3]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices_agree), cmocka_unit_test(test_recomputed), cmocka_unit_test(test_mixed_precision),
      cmocka_unit_test(test_updates),       cmocka_unit_test(test_sums),
  };
  return cmocka_run_group_tests(tests, training_setup, training_teardown);
}
