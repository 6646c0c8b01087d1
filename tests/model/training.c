/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/transformer/model.h"
#include "tests/support/configs.h"
#include "tools/random/random.h"

enum { D_MODEL = 24, HEADS = 3, D_FF = 40, LAYERS = 2, SOURCE = 37, TARGET = 29, POSITIONS = 48, SOUND = 9 };

const training_shape training_shapes[] = {
    {.name = "marian silu", .activation = TSR_ACTIVATION_SILU},
    {.name = "marian relu, two vocabularies", .separate = 1},
    {.name = "nn relu", .nn = 1, .separate = 1},
    {.name = "nn pre-norm gelu", .nn = 1, .pre = 1, .activation = TSR_ACTIVATION_GELU_ERF},
    {.name = "gated tanh-gelu, rmsnorm, relative",
     .nn = 1,
     .pre = 1,
     .activation = TSR_ACTIVATION_GELU_TANH,
     .gated = 1,
     .rms = 1,
     .position = TSR_POSITION_RELATIVE},
    {.name = "nn pre-norm, clamped relative positions",
     .nn = 1,
     .pre = 1,
     .separate = 1,
     .position = TSR_POSITION_RELATIVE_CLAMPED},
    {.name = "learned positions", .activation = TSR_ACTIVATION_SILU, .position = TSR_POSITION_LEARNED},
    {.name = "t5gemma", .gemma = 1},
};
const int32_t n_training_shapes = sizeof training_shapes / sizeof training_shapes[0];

void require_ok(tsr_status status, const char *what)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s: %s", what, tsr_status_name(status), tsr_error_message());
  }
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static tsr_model *speech_model(const training_shape *shape)
{
  const tsr_transformer_config config = {TSR_SIZED(tsr_transformer_config),
                                         .family = "whisper",
                                         .d_model = D_MODEL,
                                         .encoder_layers = LAYERS,
                                         .decoder_layers = LAYERS,
                                         .encoder_heads = HEADS,
                                         .decoder_heads = HEADS,
                                         .encoder_d_ff = D_FF,
                                         .decoder_d_ff = D_FF,
                                         .target_vocabulary = TARGET,
                                         .max_positions = POSITIONS,
                                         .norm = TSR_NORM_LAYER,
                                         .norm_position = TSR_NORM_PRE,
                                         .final_norm = 1,
                                         .activation = TSR_ACTIVATION_GELU_ERF,
                                         .position = TSR_POSITION_LEARNED,
                                         .attention_bias = 1,
                                         .feed_forward_bias = 1,
                                         .tied_logits = 1,
                                         .embedding_scale = 1.0f,
                                         .logits_scale = 1.0f,
                                         .epsilon = 1e-5f,
                                         .pad_id = 2,
                                         .bos_id = 2,
                                         .eos_id = 2,
                                         .unk_id = -1,
                                         .decoder_start_id = 3,
                                         .mels = shape->mels,
                                         .source_positions = SOUND};
  tsr_model *model = NULL;
  require_ok(tsr_model_create(&config, &model), shape->name);
  return model;
}

/* Bounds that scores and logits reach; windows that are shorter than sentences. */
static tsr_model *gemma_model(const training_shape *shape)
{
  tsr_transformer_config config = gemma_config();
  config.encoder_key_heads = 1;
  config.decoder_layers = LAYERS;
  config.attention_softcap = 0.5f;
  config.logits_softcap = 2.0f;
  tsr_model *model = NULL;
  require_ok(tsr_model_create(&config, &model), shape->name);
  return model;
}

tsr_model *training_model(const training_shape *shape)
{
  if (shape->mels > 0 || shape->gemma) {
    return shape->gemma ? gemma_model(shape) : speech_model(shape);
  }
  int32_t nn = shape->nn;
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .d_model = D_MODEL,
      .encoder_layers = LAYERS,
      .decoder_layers = LAYERS,
      .encoder_heads = HEADS,
      .decoder_heads = HEADS,
      .encoder_d_ff = D_FF,
      .decoder_d_ff = D_FF,
      .source_vocabulary = shape->separate || nn ? SOURCE : TARGET,
      .target_vocabulary = TARGET,
      .max_positions = POSITIONS,
      .norm = TSR_NORM_LAYER,
      .norm_position = shape->pre ? TSR_NORM_PRE : TSR_NORM_POST,
      .final_norm = nn,
      .activation = nn && shape->activation ? TSR_ACTIVATION_GELU_ERF
                    : shape->activation     ? shape->activation
                                            : TSR_ACTIVATION_RELU,
      .position = nn ? TSR_POSITION_SINUSOID_INTERLEAVED : TSR_POSITION_SINUSOID_HALVES,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .logits_bias = 1,
      .shared_embedding = !shape->separate && !nn,
      .tied_logits = !nn,
      .embedding_scale = sqrtf((float)D_MODEL),
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = nn ? 0 : TARGET - 1,
      .bos_id = nn ? 1 : -1,
      .eos_id = nn ? 2 : 0,
      .unk_id = nn ? 3 : 1,
      .decoder_start_id = nn ? 1 : TARGET - 1,
  };
  snprintf(config.family, sizeof config.family, "%s", nn ? "nn_transformer" : "marian");
  int is_clamped = shape->position == TSR_POSITION_RELATIVE_CLAMPED;
  if (is_clamped) {
    config.position = shape->position;
    config.relative_distance = 2;
    config.relative_layers = 1;
  }
  tsr_model *model = NULL;
  require_ok(tsr_model_create(&config, &model), shape->name);
  if (shape->gated || shape->rms || (shape->position && !is_clamped)) {
    /* What no family's file can say yet: the parameters are listed anew. */
    model->config.gated = shape->gated;
    model->config.activation = shape->activation;
    model->config.norm = shape->rms ? TSR_NORM_RMS : TSR_NORM_LAYER;
    model->config.position = shape->position ? shape->position : model->config.position;
    model->config.relative_buckets = 8;
    model->config.relative_distance = 12;
    free(model->parameters.items);
    model->parameters = (tsr_parameter_list){0};
    require_ok(tsr_parameters_list(&model->config, &model->arena, &model->parameters), shape->name);
  }
  return model;
}

/* ---- trainers ---------------------------------------------------------------------------------------------------- */

int training_setup(void **state)
{
  static tsr_runtime *runtime;
  require_ok(tsr_runtime_create(NULL, &runtime), "runtime");
  if (tsr_runtime_device_count(runtime) < 2) {
    fail_msg("the reference and the cpu backend should be in TESSERA_BACKEND_PATH");
  }
  *state = runtime;
  return 0;
}

int training_teardown(void **state)
{
  tsr_runtime_destroy(*state);
  return 0;
}

const char *training_device(tsr_runtime *runtime, int32_t index, tsr_device_info *info)
{
  if (index >= tsr_runtime_device_count(runtime)) {
    return NULL;
  }
  require_ok(tsr_runtime_device_info(runtime, index, info), "device");
  return info->name;
}

static int ends_with(const char *text, const char *ending)
{
  size_t length = strlen(text), tail = strlen(ending);
  return length >= tail && strcmp(text + length - tail, ending) == 0;
}

/* As a trained model has them: matrices keep a vector's size, gains are near 1. Constants stay. */
static void fill_parameters(const training *t)
{
  uint64_t random = 99;
  for (int32_t i = 0; i < t->n; i++) {
    tsr_parameter_info info;
    require_ok(tsr_model_parameter(t->model, i, &info), "parameter");
    if (t->model->parameters.items[i].is_constant) {
      continue; /* the trainer has it */
    }
    int64_t n = tsr_shape_elements(&info.shape);
    double size = info.shape.rank > 1 ? 1.7 / sqrt((double)info.shape.extent[info.shape.rank - 1]) : 0.1;
    double middle = ends_with(info.name, "norm.weight") ? 1.0 : 0.0;
    float *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    for (int64_t j = 0; j < n; j++) {
      values[j] = (float)(middle + size * tsr_random_real(&random));
    }
    require_ok(tsr_trainer_write(t->trainer, TSR_TRAINED_PARAMETER, i, values, n), info.name);
    free(values);
  }
}

void training_open(tsr_runtime *runtime, const char *device, const training_shape *shape,
                   const tsr_training_options *options, training *t)
{
  *t = (training){.model = training_model(shape)};
  require_ok(tsr_device_open(runtime, device, &t->device), device);
  require_ok(tsr_trainer_create(t->model, t->device, options, NULL, &t->trainer), shape->name);
  t->n = tsr_model_parameter_count(t->model);
  t->first = calloc((size_t)t->n + 1, sizeof *t->first);
  assert_non_null(t->first);
  for (int32_t i = 0; i < t->n; i++) {
    tsr_parameter_info info;
    require_ok(tsr_model_parameter(t->model, i, &info), "parameter");
    t->first[i + 1] = t->first[i] + tsr_shape_elements(&info.shape);
  }
  t->elements = t->first[t->n];
  fill_parameters(t);
}

void training_close(training *t)
{
  tsr_trainer_destroy(t->trainer);
  tsr_device_close(t->device);
  tsr_model_close(t->model);
  free(t->first);
}

int32_t training_find(const training *t, const char *name)
{
  for (int32_t i = 0; i < t->n; i++) {
    tsr_parameter_info info;
    require_ok(tsr_model_parameter(t->model, i, &info), name);
    if (strcmp(info.name, name) == 0) {
      return i;
    }
  }
  fail_msg("there is no parameter %s", name);
  return -1;
}

void training_set(const training *t, const char *name, int64_t element, float value)
{
  int32_t index = training_find(t, name);
  int64_t n = t->first[index + 1] - t->first[index];
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  require_ok(tsr_trainer_read(t->trainer, TSR_TRAINED_PARAMETER, index, values, n), name);
  for (int64_t i = 0; i < n; i++) {
    values[i] = element < 0 || element == i ? value : values[i];
  }
  require_ok(tsr_trainer_write(t->trainer, TSR_TRAINED_PARAMETER, index, values, n), name);
  free(values);
}

float *training_read(const training *t, int32_t what)
{
  float *values = malloc((size_t)t->elements * sizeof *values);
  assert_non_null(values);
  for (int32_t i = 0; i < t->n; i++) {
    require_ok(tsr_trainer_read(t->trainer, what, i, values + t->first[i], t->first[i + 1] - t->first[i]), "read");
  }
  return values;
}

typedef struct receiver {
  const training *t;
  float *values;
} receiver;

static void receive(void *context, int32_t index, const float *values, int64_t n)
{
  receiver *r = context;
  assert_int_equal(n, r->t->first[index + 1] - r->t->first[index]);
  memcpy(r->values + r->t->first[index], values, (size_t)n * sizeof *values);
}

float *training_gradients(const training *t, const tsr_examples *examples, const tsr_step_control *control,
                          tsr_step_result *result)
{
  receiver r = {.t = t, .values = calloc((size_t)t->elements, sizeof *r.values)};
  assert_non_null(r.values);
  require_ok(tsr_trainer_gradients(t->trainer, examples, control, receive, &r, result), "gradients");
  return r.values;
}

double training_difference(const training *t, const float *a, const float *b, double least, const char **where)
{
  double worst = 0.0;
  *where = NULL;
  for (int32_t i = 0; i < t->n; i++) {
    double difference = 0.0, magnitude = least;
    for (int64_t j = t->first[i]; j < t->first[i + 1]; j++) {
      double apart = fabs((double)a[j] - (double)b[j]);
      difference = isnan(apart) ? INFINITY : fmax(difference, apart);
      magnitude = fmax(magnitude, fabs((double)b[j]));
    }
    if (difference / magnitude > worst) {
      tsr_parameter_info info;
      require_ok(tsr_model_parameter(t->model, i, &info), "parameter");
      worst = difference / magnitude;
      *where = info.name;
    }
  }
  return worst;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static void allocate_batch(int32_t rows, int32_t source_width, int32_t target_width, training_batch *batch)
{
  size_t sources = (size_t)rows * (size_t)source_width, targets = (size_t)rows * (size_t)target_width;
  batch->features = NULL;
  batch->ids = calloc(sources + 2 * targets + (size_t)rows, sizeof *batch->ids);
  assert_non_null(batch->ids);
  batch->examples = (tsr_examples){.rows = rows,
                                   .source_width = source_width,
                                   .target_width = target_width,
                                   .source = batch->ids,
                                   .target = batch->ids + sources,
                                   .labels = batch->ids + sources + targets,
                                   .source_lengths = batch->ids + sources + 2 * targets};
}

static void allocate_features(int32_t mels, training_batch *batch)
{
  tsr_examples *e = &batch->examples;
  batch->features = calloc((size_t)e->rows * (size_t)mels * 2 * (size_t)e->source_width, sizeof *batch->features);
  assert_non_null(batch->features);
  e->source = e->source_lengths = NULL;
}

static void make_speech(const tsr_transformer_config *config, int32_t rows, int32_t width, int32_t target_width,
                        uint64_t seed, training_batch *batch)
{
  allocate_batch(rows, width, target_width, batch);
  allocate_features(config->mels, batch);
  tsr_examples *e = &batch->examples;
  int32_t *target = batch->ids + (size_t)rows * (size_t)width, *labels = target + (size_t)rows * (size_t)target_width;
  for (int64_t i = 0; i < (int64_t)rows * config->mels * 2 * width; i++) {
    batch->features[i] = (float)tsr_random_real(&seed);
  }
  for (int32_t i = 0; i < rows; i++) {
    const int32_t length = 2 + tsr_random_below(&seed, target_width - 1);
    for (int32_t j = 0; j < target_width; j++) {
      const int32_t id = tsr_random_below(&seed, config->target_vocabulary);
      target[i * target_width + j] = j < length ? id : config->pad_id;
      labels[i * target_width + j] = j > 0 && j < length ? tsr_random_below(&seed, config->target_vocabulary) : -1;
    }
    e->target_tokens += length - 1;
  }
}

void training_batch_make(const tsr_model *model, int32_t rows, int32_t source_width, int32_t target_width,
                         uint64_t seed, training_batch *batch)
{
  const tsr_transformer_config *config = tsr_model_config(model);
  if (config->mels > 0) {
    make_speech(config, rows, source_width, target_width, seed, batch);
    return;
  }
  allocate_batch(rows, source_width, target_width, batch);
  tsr_examples *e = &batch->examples;
  int32_t *source = batch->ids, *target = source + (e->target - e->source), *labels = source + (e->labels - e->source),
          *lengths = source + (e->source_lengths - e->source);
  for (int32_t i = 0; i < rows; i++) {
    int32_t length = 1 + tsr_random_below(&seed, target_width);
    lengths[i] = 1 + tsr_random_below(&seed, source_width);
    for (int32_t j = 0; j < source_width; j++) {
      source[i * source_width + j] =
          j < lengths[i] ? tsr_random_below(&seed, config->source_vocabulary) : config->pad_id;
    }
    for (int32_t j = 0; j < target_width; j++) {
      target[i * target_width + j] = j < length ? tsr_random_below(&seed, config->target_vocabulary) : config->pad_id;
      labels[i * target_width + j] = j < length ? tsr_random_below(&seed, config->target_vocabulary) : -1;
    }
    e->target_tokens += length;
  }
}

void training_batch_join(const training_batch *parts, int32_t n, int32_t mels, training_batch *batch)
{
  int32_t rows = 0, source_width = 0, target_width = 0;
  for (int32_t i = 0; i < n; i++) {
    const tsr_examples *e = &parts[i].examples;
    rows += e->rows;
    source_width = e->source_width > source_width ? e->source_width : source_width;
    target_width = e->target_width > target_width ? e->target_width : target_width;
  }
  allocate_batch(rows, source_width, target_width, batch);
  tsr_examples *all = &batch->examples;
  int32_t *source = batch->ids, *target = source + (all->target - all->source),
          *labels = source + (all->labels - all->source), *lengths = source + (all->source_lengths - all->source);
  memset(labels, 0xff, (size_t)rows * (size_t)target_width * sizeof *labels); /* -1 */
  int64_t sounds = 0;
  if (parts[0].features) {
    allocate_features(mels, batch);
  }
  for (int32_t i = 0; i < n; i++) {
    const tsr_examples *e = &parts[i].examples;
    all->target_tokens += e->target_tokens;
    if (batch->features) {
      const int64_t size = (int64_t)e->rows * mels * 2 * e->source_width;
      memcpy(batch->features + sounds, parts[i].features, (size_t)size * sizeof *batch->features);
      sounds += size;
    }
    for (int32_t row = 0; row < e->rows; row++) {
      size_t width = (size_t)e->target_width;
      if (!batch->features) {
        memcpy(source, e->source + row * e->source_width, (size_t)e->source_width * sizeof *source);
        *lengths++ = e->source_lengths[row];
      }
      memcpy(target, e->target + row * e->target_width, width * sizeof *target);
      memcpy(labels, e->labels + row * e->target_width, width * sizeof *labels);
      source += source_width;
      target += target_width;
      labels += target_width;
    }
  }
}

void training_batch_free(training_batch *batch)
{
  free(batch->ids);
  free(batch->features);
}

tsr_step_control training_control(int64_t step, uint64_t seed)
{
  return (tsr_step_control){.step = step, .learning_rate = 1e-3, .average_decay = 0.75, .seed = seed};
}
