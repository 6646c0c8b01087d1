/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera golden: recorded gradients and steps of training.
 */
#include "tools/tessera/golden/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/path.h"

/* What may differ: the original's own f32 noise is a tenth of it or less. */
static const double LOSS_TOLERANCE = 1e-6, GRADIENT_TOLERANCE = 1e-4, STEP_TOLERANCE = 1e-5;
/* In learning rates: after three steps an element whose gradient is about 0 may have gone either way, which the
 * recording in f64 shows; others stay within a hundredth of a step. */
static const double PARAMETER_TOLERANCE = 0.02;

typedef struct comparison {
  const tsr_model *model;
  const tsr_checkpoint *recorded;
  const char *prefix; /* of the recorded names */
  tsr_golden_training *training;
  tsr_status status;
  float *expected; /* of the largest tensor */
} comparison;

static const tsr_checkpoint_tensor *find(const comparison *c, const char *prefix, const char *name)
{
  char full[512];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  return tsr_checkpoint_find(c->recorded, full);
}

static const tsr_checkpoint_tensor *of_extents(const tsr_checkpoint_tensor *tensor, int64_t elements)
{
  tsr_checkpoint_tensor_info info;
  if (!tensor) {
    return NULL;
  }
  tsr_checkpoint_describe(tensor, &info);
  return info.dtype == TSR_F32 && tsr_shape_elements(&info.shape) == elements ? tensor : NULL;
}

/* Where the recorded tensor of a piece of a parameter is; NULL if there is none, or it has another number of
 * elements than the model's. */
static const tsr_checkpoint_tensor *recorded_piece(const comparison *c, const char *prefix,
                                                   const tsr_parameter_piece *piece)
{
  const tsr_checkpoint_tensor *own =
      piece->tensor ? tsr_checkpoint_find(tsr_model_checkpoint(c->model), piece->tensor) : NULL;
  tsr_checkpoint_tensor_info info;
  if (!own) {
    return NULL;
  }
  tsr_checkpoint_describe(own, &info);
  return of_extents(find(c, prefix, piece->tensor), tsr_shape_elements(&info.shape));
}

/* Calls body for each recorded tensor that a parameter's values belong to. */
typedef void (*piece_fn)(comparison *c, const tsr_parameter_piece *piece, const float *found, const float *expected);

static void each_piece(comparison *c, int32_t index, const float *values, piece_fn body)
{
  tsr_parameter_info parameter;
  c->status = c->status == TSR_OK ? tsr_model_parameter(c->model, index, &parameter) : c->status;
  for (int32_t i = 0; c->status == TSR_OK && i < parameter.n_pieces; i++) {
    tsr_parameter_piece piece;
    c->status = tsr_model_parameter_piece(c->model, index, i, &piece);
    const tsr_checkpoint_tensor *tensor = c->status == TSR_OK ? recorded_piece(c, c->prefix, &piece) : NULL;
    if (tensor) {
      c->status = tsr_checkpoint_read(tensor, piece.first, piece.count, TSR_F32, c->expected);
    }
    if (tensor && c->status == TSR_OK) {
      body(c, &piece, values, c->expected);
    }
    values += piece.count;
  }
}

static void compare_gradient(comparison *c, const tsr_parameter_piece *piece, const float *found, const float *expected)
{
  double largest = 0.0, magnitude = 0.0;
  for (int64_t i = 0; i < piece->count; i++) {
    double error = fabs((double)found[i] - (double)expected[i]);
    largest = isnan(error) ? INFINITY : fmax(largest, error);
    magnitude = fmax(magnitude, fabs((double)expected[i]));
  }
  /* A gradient that is nothing but rounding noise, as that of the bias of keys, has no relative error. */
  double relative = magnitude > 1e-7 ? largest / magnitude : largest;
  c->training->gradients++;
  if (!c->training->gradient || relative > c->training->gradient_error) {
    c->training->gradient_error = relative;
    c->training->gradient = piece->tensor;
  }
}

static void receive_gradient(void *context, int32_t index, const float *values, int64_t n)
{
  (void)n;
  each_piece(context, index, values, compare_gradient);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

typedef struct recorded_steps {
  tsr_training_options options;
  double learning_rate;
  int32_t steps;
  const json_t *losses; /* before each step */
  double loss_after;
} recorded_steps;

static double number_of(const json_t *object, const char *key, double otherwise)
{
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : otherwise;
}

static recorded_steps read_steps(const json_t *train)
{
  const json_t *optimizer = json_object_get(train, "optimizer"), *betas = json_object_get(optimizer, "betas");
  return (recorded_steps){
      .options = {TSR_SIZED(tsr_training_options), .label_smoothing = (float)number_of(train, "label_smoothing", 0.0),
                  .beta1 = (float)json_number_value(json_array_get(betas, 0)),
                  .beta2 = (float)json_number_value(json_array_get(betas, 1)),
                  .epsilon = (float)number_of(optimizer, "eps", 0.0),
                  .weight_decay = (float)number_of(optimizer, "weight_decay", 0.0)},
      .learning_rate = number_of(optimizer, "lr", 0.0),
      .steps = (int32_t)number_of(train, "steps", 0.0),
      .losses = json_object_get(train, "loss_before_steps_1_2_3"),
      .loss_after = number_of(train, "loss_after_3_steps", NAN),
  };
}

/* Elements for which the recordings in f32 and f64 differ say nothing. */
static int is_noise(const comparison *c, const tsr_parameter_piece *piece, int64_t index, float expected)
{
  const tsr_checkpoint_tensor *precise = recorded_piece(c, "after3_float64.", piece);
  float value;
  return precise && tsr_checkpoint_read(precise, piece->first + index, 1, TSR_F32, &value) == TSR_OK &&
         fabs((double)value - (double)expected) > 1e-6;
}

static void compare_parameter(comparison *c, const tsr_parameter_piece *piece, const float *found,
                              const float *expected)
{
  tsr_golden_training *training = c->training;
  for (int64_t i = 0; i < piece->count; i++) {
    double error = fabs((double)found[i] - (double)expected[i]);
    error = isnan(error) ? INFINITY : error;
    if (error > training->parameter_error && !is_noise(c, piece, i, expected[i])) {
      training->parameter_error = error;
      training->parameter = piece->tensor;
    }
  }
}

static tsr_status replay_steps(comparison *c, tsr_trainer *trainer, const tsr_examples *examples,
                               const recorded_steps *steps, float *values)
{
  tsr_golden_training *training = c->training;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i <= steps->steps && status == TSR_OK; i++) {
    tsr_step_control control = {.step = i + 1, .learning_rate = steps->learning_rate};
    tsr_step_result result;
    status = tsr_trainer_step(trainer, examples, &control, 1, &result);
    double loss = result.loss / (double)examples->target_tokens;
    double expected =
        i < steps->steps ? json_number_value(json_array_get(steps->losses, (size_t)i)) : steps->loss_after;
    double error = fabs(loss - expected) / fabs(expected);
    training->step_error = isnan(error) ? INFINITY : fmax(training->step_error, error);
    for (int32_t p = 0; i == steps->steps - 1 && p < tsr_model_parameter_count(c->model) && status == TSR_OK; p++) {
      tsr_parameter_info info;
      status = tsr_model_parameter(c->model, p, &info);
      int64_t n = status == TSR_OK ? tsr_shape_elements(&info.shape) : 0;
      status = status == TSR_OK ? tsr_trainer_read(trainer, TSR_TRAINED_PARAMETER, p, values, n) : status;
      if (status == TSR_OK) {
        each_piece(c, p, values, compare_parameter);
        status = c->status;
      }
    }
  }
  training->steps = steps->steps;
  training->parameter_error /= steps->learning_rate;
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tsr_status replay(comparison *c, tsr_trainer *trainer, const json_t *golden, const tsr_examples *examples,
                         const recorded_steps *steps, float *values)
{
  tsr_golden_training *training = c->training;
  tsr_step_control control = {.step = 1};
  tsr_step_result result;
  tsr_status status = tsr_trainer_gradients(trainer, examples, &control, receive_gradient, c, &result);
  if (status != TSR_OK || c->status != TSR_OK) {
    return status != TSR_OK ? status : c->status;
  }
  double expected =
      steps->steps > 0 ? json_number_value(json_array_get(steps->losses, 0)) : number_of(golden, "loss", NAN);
  training->loss_error = fabs(result.loss / (double)examples->target_tokens - expected) / fabs(expected);
  if (steps->steps > 0) {
    c->prefix = "after3.";
    status = replay_steps(c, trainer, examples, steps, values);
  }
  training->passed = training->loss_error <= LOSS_TOLERANCE && training->gradients > 0 &&
                     training->gradient_error <= GRADIENT_TOLERANCE && training->step_error <= STEP_TOLERANCE &&
                     training->parameter_error <= PARAMETER_TOLERANCE;
  return status;
}

tsr_status tsr_golden_train(const char *folder, const tsr_model *model, tsr_device *device, const json_t *golden,
                            const tsr_examples *examples, tsr_golden_training *training)
{
  char path[1024];
  tsr_checkpoint *recorded = NULL;
  tsr_trainer *trainer = NULL;
  *training = (tsr_golden_training){.passed = 1};
  snprintf(path, sizeof path, "%s/train.safetensors", folder);
  if (!path_exists(path)) {
    return TSR_OK;
  }
  training->recorded = 1;
  recorded_steps steps = read_steps(json_object_get(golden, "train"));
  tsr_status status = tsr_checkpoint_open(path, &recorded);
  if (status == TSR_OK) {
    status = tsr_trainer_create(model, device, &steps.options, NULL, &trainer);
  }
  int64_t largest = 0;
  for (int32_t i = 0; i < tsr_model_parameter_count(model) && status == TSR_OK; i++) {
    tsr_parameter_info info;
    status = tsr_model_parameter(model, i, &info);
    int64_t n = status == TSR_OK ? tsr_shape_elements(&info.shape) : 0;
    largest = n > largest ? n : largest;
  }
  comparison c = {.model = model, .recorded = recorded, .prefix = "grad.", .training = training};
  c.expected = malloc((size_t)(largest + 1) * sizeof *c.expected);
  float *values = malloc((size_t)(largest + 1) * sizeof *values);
  if (status == TSR_OK && (!c.expected || !values)) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  if (status == TSR_OK) {
    status = replay(&c, trainer, golden, examples, &steps, values);
  }
  free(values);
  free(c.expected);
  tsr_trainer_destroy(trainer);
  tsr_checkpoint_close(recorded);
  return status;
}
