/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/transformer/positions.h"

tsr_status tsr_training_options_complete(const tsr_training_options *options, tsr_training_options *complete)
{
  TSR_TRY(TSR_SIZED_READ(tsr_training_options, products, options, complete));
  const struct {
    const char *name;
    float value;
  } rates[] = {{"dropout", complete->dropout},
               {"attention_dropout", complete->attention_dropout},
               {"activation_dropout", complete->activation_dropout},
               {"label_smoothing", complete->label_smoothing},
               {"beta1", complete->beta1},
               {"beta2", complete->beta2}};
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
    if (!(rates[i].value >= 0.0f && rates[i].value < 1.0f)) {
      return tsr_fail(TSR_ERR_ARGUMENT, "training: %s is %g; it should be at least 0 and below 1", rates[i].name,
                      (double)rates[i].value);
    }
  }
  if (!(complete->epsilon >= 0.0f) || !(complete->weight_decay >= 0.0f) || !(complete->max_norm >= 0.0f)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "training: epsilon is %g, weight_decay %g, max_norm %g; none should be below 0 or NaN",
                    (double)complete->epsilon, (double)complete->weight_decay, (double)complete->max_norm);
  }
  if (complete->products != 0 && complete->products != TSR_F32 && complete->products != TSR_F16 &&
      complete->products != TSR_BF16) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training: products are computed with f32, f16 or bf16, not with %s",
                    (int)complete->products == TSR_I4 ? "i4" : tsr_dtype_name(complete->products));
  }
  if (complete->beta1 == 0.0f && complete->beta2 == 0.0f) {
    complete->beta1 = 0.9f;
    complete->beta2 = 0.98f;
  }
  if (complete->epsilon == 0.0f) {
    complete->epsilon = 1e-9f;
  }
  if (complete->products == 0) {
    complete->products = TSR_F32;
  }
  return TSR_OK;
}

char *tsr_trained_name(char *name, const char *parameter, int32_t what)
{
  static const char *const endings[] = {"", ".m", ".v", ".average", ".sum"};
  snprintf(name, TSR_PARAMETER_NAME_ROOM, "%s%s", parameter, endings[what]);
  return name;
}

int tsr_step_updates(int32_t kind)
{
  return kind == TSR_STEP_UPDATE || kind == TSR_STEP_LAST || kind == TSR_STEP_APPLY;
}

int tsr_step_sums(int32_t kind)
{
  return kind == TSR_STEP_FIRST || kind == TSR_STEP_MORE || kind == TSR_STEP_LAST;
}

void tsr_step_layer_name(const tsr_transformer_config *config, int32_t layer, char *name, size_t size)
{
  int decoder = layer >= config->encoder_layers;
  snprintf(name, size, "%s.layers.%d", decoder ? "decoder" : "encoder",
           (int)(decoder ? layer - config->encoder_layers : layer));
}

static const tsr_program_size smallest_size = {.batch = 1, .source = 1, .target = 1};

/* A step under construction. */
typedef struct step {
  tsr_builder builder;
  tsr_builder_training training;
  const tsr_training_options *options;
  int32_t kind;
  int32_t n;          /* parameters */
  int32_t first, end; /* those that are updated */
  tsr_ref *parameter; /* [n] */
  tsr_ref *gradient;  /* [n]; TSR_NONE: the loss does not depend on it, or it is not trained */
  int32_t *trained;   /* [n] the numbers of those that are, one after another */
  tsr_ref *wanted;    /* [n] the same as references */
  tsr_ref *found;     /* [n] their gradients */
  int32_t n_trained;
} step;

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* What the encoder begins with, and *lengths of what it reads. Of a window of sound it reads all, silence too. */
static tsr_ref build_source(const tsr_builder *b, const tsr_stack *encoder, const tsr_program_size *size,
                            tsr_ref *lengths)
{
  const int32_t mels = b->model->config.mels;
  tsr_program *p = b->program;
  if (mels > 0) {
    *lengths = TSR_NONE;
    return tsr_build_speech_embedding(
        b, encoder, tsr_input(p, "features", TSR_F32, TSR_SHAPE(size->batch, mels, 2 * (int64_t)size->source)));
  }
  tsr_ref source = tsr_input(p, "source", TSR_I32, TSR_SHAPE(size->batch, size->source));
  *lengths = tsr_input(p, "source_lengths", TSR_I32, TSR_SHAPE(size->batch));
  return tsr_build_embedding(b, encoder, source, size->batch, size->source);
}

/* source or features, target -> logits [B*L, V] */
static tsr_ref build_forward(step *s, const tsr_program_size *size)
{
  const tsr_builder *b = &s->builder;
  tsr_program *p = b->program;
  tsr_stack encoder = tsr_stack_encoder(&b->model->config), decoder = tsr_stack_decoder(&b->model->config);
  tsr_ref lengths;
  tsr_ref x = build_source(b, &encoder, size, &lengths);
  tsr_ref target = tsr_input(p, "target", TSR_I32, TSR_SHAPE(size->batch, size->target));
  tsr_self_attention seen = {.batch = size->batch, .queries = size->source, .lengths = lengths};
  x = tsr_build_stack(b, &encoder, x, &seen, NULL);
  tsr_self_attention past = {.batch = size->batch, .queries = size->target, .causal = 1};
  tsr_cross_attention cross = {
      .batch = size->batch, .queries = size->target, .keys = size->source, .lengths = lengths, .encoded = x};
  x = tsr_build_embedding(b, &decoder, target, size->batch, size->target);
  x = tsr_build_stack(b, &decoder, x, &past, &cross);
  return tsr_build_logits(b, x, NULL, TSR_NONE);
}

/* logits -> loss of each label [B*L]; its sum is an output. */
static tsr_ref build_loss(step *s, const tsr_program_size *size, tsr_ref logits)
{
  tsr_program *p = s->builder.program;
  float smoothing = s->kind == TSR_STEP_EVALUATE ? 0.0f : s->options->label_smoothing;
  tsr_scope_push(p, "loss");
  tsr_ref labels = tsr_input(p, "labels", TSR_I32, TSR_SHAPE((int64_t)size->batch * size->target));
  tsr_ref loss = tsr_cross_entropy(p, logits, labels, smoothing, NULL);
  tsr_output(p, "loss", tsr_reduce_sum(p, loss, 1));
  tsr_scope_pop(p);
  return loss;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static tsr_ref trained_state(step *s, int32_t index, int32_t what)
{
  const tsr_parameter *parameter = &s->builder.model->parameters.items[index];
  char name[TSR_PARAMETER_NAME_ROOM];
  tsr_trained_name(name, parameter->name, what);
  tsr_ref known = tsr_program_find(s->builder.program, name);
  return known != TSR_NONE ? known : tsr_state(s->builder.program, name, TSR_F32, parameter->shape);
}

/* 1 for what is not trained: constants, and the sinusoids that Whisper's encoder has as its table of positions. */
static int is_frozen(const step *s, int32_t index)
{
  const tsr_model *model = s->builder.model;
  const tsr_parameter *parameter = &model->parameters.items[index];
  return parameter->is_constant || (model->config.mels > 0 && strcmp(parameter->name, TSR_ENCODER_POSITIONS) == 0);
}

/* tsr_whole_gradient_fn: it becomes the sum. */
static void keep_gradient(void *context, int32_t index, tsr_ref gradient)
{
  step *s = context;
  tsr_program *p = s->builder.program;
  tsr_scope_push(p, "sums");
  tsr_update(p, trained_state(s, s->trained[index], TSR_TRAINED_COUNT), gradient);
  tsr_scope_pop(p);
}

static void build_gradients(step *s, tsr_ref loss)
{
  tsr_program *p = s->builder.program;
  tsr_ref scale = tsr_input(p, "scale", TSR_F32, TSR_SHAPE(1));
  tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options)};
  if (s->options->recompute) {
    options.recompute = s->training.layers;
    options.n_recompute = s->training.n_layers;
  }
  if (s->kind == TSR_STEP_SHARE) {
    options.whole = keep_gradient;
    options.user = s;
  }
  for (int32_t i = 0; i < s->n; i++) {
    s->gradient[i] = TSR_NONE;
    if (!is_frozen(s, i)) {
      s->wanted[s->n_trained] = s->parameter[i];
      s->trained[s->n_trained++] = i;
    }
  }
  tsr_status status = tsr_gradients(p, loss, scale, s->wanted, s->n_trained, &options, s->found);
  (void)status; /* the program keeps it */
  for (int32_t i = 0; i < s->n_trained; i++) {
    s->gradient[s->trained[i]] = s->found[i];
  }
}

/* Adds the gradients to the sums, or makes them the sums. */
static void build_sums(step *s)
{
  tsr_program *p = s->builder.program;
  tsr_scope_push(p, "sums");
  for (int32_t i = 0; i < s->n; i++) {
    if (s->gradient[i] == TSR_NONE) {
      continue;
    }
    tsr_ref sum = trained_state(s, i, TSR_TRAINED_COUNT);
    tsr_ref both = s->kind == TSR_STEP_FIRST ? s->gradient[i] : tsr_add(p, sum, s->gradient[i]);
    if (s->kind == TSR_STEP_LAST) {
      s->gradient[i] = both;
    } else {
      tsr_update(p, sum, both);
    }
  }
  tsr_scope_pop(p);
}

/* The sum of the squares of all gradients, an output: not finite where the loss is not, so that nothing is updated
 * then.
 * Gradients may be finite all the same: those of a logit of -inf, say. */
static tsr_ref build_norm(step *s)
{
  tsr_program *p = s->builder.program;
  tsr_scope_push(p, "norm");
  tsr_ref total = tsr_program_find(p, "loss");
  tsr_ref zero = tsr_reduce_sum(p, tsr_slice(p, total, 0, 0, 0), 1);
  tsr_ref sum = tsr_mul(p, total, zero);
  for (int32_t i = 0; i < s->n; i++) {
    if (s->gradient[i] != TSR_NONE) {
      sum = tsr_sum_of_squares(p, s->gradient[i], sum);
    }
  }
  sum = tsr_output(p, "norm", sum);
  tsr_scope_pop(p);
  return sum;
}

static void build_update(step *s, tsr_ref norm)
{
  tsr_program *p = s->builder.program;
  const tsr_training_options *o = s->options;
  tsr_scope_push(p, "adam");
  tsr_ref control = tsr_input(p, "control", TSR_F32, TSR_SHAPE(5));
  for (int32_t i = s->first; i < s->end; i++) {
    if (s->gradient[i] == TSR_NONE) {
      continue;
    }
    tsr_adam_args args = {
        .parameter = s->parameter[i],
        .m = trained_state(s, i, TSR_TRAINED_M),
        .v = trained_state(s, i, TSR_TRAINED_V),
        .average = o->average ? trained_state(s, i, TSR_TRAINED_AVERAGE) : TSR_NONE,
        .gradient = s->gradient[i],
        .control = control,
        .norm = norm,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = o->epsilon,
        .decay = s->builder.model->parameters.items[i].matrix ? o->weight_decay : 0.0f,
        .decoupled = o->decoupled,
        .max_norm = o->max_norm,
    };
    tsr_adam(p, &args);
  }
  tsr_scope_pop(p);
}

/* The update alone: gradients are the sums of the parameters that a batch's loss depends on. */
static tsr_status build_apply(step *s)
{
  tsr_program *batch;
  TSR_TRY(tsr_training_program(s->builder.model, s->options, TSR_STEP_FIRST, &smallest_size, &batch));
  for (int32_t i = 0; i < s->n; i++) {
    char name[TSR_PARAMETER_NAME_ROOM];
    tsr_trained_name(name, s->builder.model->parameters.items[i].name, TSR_TRAINED_COUNT);
    const int is_summed = tsr_program_find(batch, name) != TSR_NONE;
    s->parameter[i] = trained_state(s, i, TSR_TRAINED_PARAMETER);
    s->gradient[i] = is_summed ? trained_state(s, i, TSR_TRAINED_COUNT) : TSR_NONE;
  }
  tsr_program_destroy(batch);
  (void)tsr_input(s->builder.program, "loss", TSR_F32, TSR_SHAPE(1));
  build_update(s, build_norm(s));
  return TSR_OK;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void build_layer_statistics(step *s, int32_t layer)
{
  tsr_program *p = s->builder.program;
  const tsr_program_desc *description = tsr_program_describe(p);
  char prefix[64], name[96];
  tsr_step_layer_name(&s->builder.model->config, layer, prefix, sizeof prefix);
  /* A layer's last line gives the stream that leaves it. */
  tsr_ref x = tsr_line_at(description, s->training.layers[layer].last - 1)->out[0];
  snprintf(name, sizeof name, "%s.sum", prefix);
  tsr_output(p, name, tsr_reshape(p, tsr_reduce_sum(p, x, 3), TSR_SHAPE(1)));
  snprintf(name, sizeof name, "%s.squares", prefix);
  tsr_output(p, name, tsr_sum_of_squares(p, x, TSR_NONE));
  size_t length = strlen(prefix);
  tsr_ref sum = TSR_NONE;
  for (int32_t i = 0; i < s->n; i++) {
    const char *parameter = s->builder.model->parameters.items[i].name;
    if (s->gradient[i] != TSR_NONE && strncmp(parameter, prefix, length) == 0 && parameter[length] == '.') {
      sum = tsr_sum_of_squares(p, s->gradient[i], sum);
    }
  }
  if (sum != TSR_NONE) {
    snprintf(name, sizeof name, "%s.norm", prefix);
    tsr_output(p, name, sum);
  }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void build_outputs_of_gradients(step *s)
{
  char name[TSR_PARAMETER_NAME_ROOM];
  for (int32_t i = 0; i < s->n; i++) {
    if (s->gradient[i] != TSR_NONE) {
      snprintf(name, sizeof name, "%s.gradient", s->builder.model->parameters.items[i].name);
      tsr_output(s->builder.program, name, s->gradient[i]);
    }
  }
}

static void build(step *s, const tsr_program_size *size)
{
  tsr_program *p = s->builder.program;
  if (s->kind != TSR_STEP_EVALUATE) {
    s->training.seed = tsr_input(p, "seed", TSR_I32, TSR_SHAPE(2));
    s->training.dropout = s->options->dropout;
    s->training.attention_dropout = s->options->attention_dropout;
    s->training.activation_dropout = s->options->activation_dropout;
  }
  tsr_ref loss = build_loss(s, size, build_forward(s, size));
  if (s->kind == TSR_STEP_EVALUATE) {
    return;
  }
  for (int32_t i = 0; i < s->n; i++) {
    s->parameter[i] = trained_state(s, i, TSR_TRAINED_PARAMETER);
  }
  build_gradients(s, loss);
  if (tsr_program_status(p) != TSR_OK) {
    return;
  }
  if (s->options->statistics) {
    for (int32_t i = 0; i < s->training.n_layers; i++) {
      build_layer_statistics(s, i);
    }
  }
  if (tsr_step_sums(s->kind)) {
    build_sums(s);
  }
  if (tsr_step_updates(s->kind)) {
    build_update(s, build_norm(s));
  }
  if (s->kind == TSR_STEP_GRADIENTS) {
    build_outputs_of_gradients(s);
    (void)build_norm(s);
  }
}

tsr_status tsr_training_check_model(const tsr_model *model)
{
  const tsr_transformer_config *config = &model->config;
  if (!tsr_config_encodes(config) || config->decoder_layers == 0 || config->target_vocabulary == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "training takes a model with an encoder, a decoder and their vocabularies");
  }
  return TSR_OK;
}

static tsr_status check(const tsr_model *model, int32_t kind, const tsr_program_size *size)
{
  const tsr_transformer_config *config = &model->config;
  const int32_t source_positions = tsr_config_source_positions(config);
  if (kind < TSR_STEP_UPDATE || kind > TSR_STEP_SHARE) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there is no kind %d of training program", (int)kind);
  }
  if (size->batch < 1 || size->source < 1 || size->target < 1 || size->source > source_positions ||
      size->target > config->max_positions) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "a training program for %d sentences of %d source and %d target tokens; each should be at least 1, "
                    "and the model has %d and %d positions",
                    (int)size->batch, (int)size->source, (int)size->target, (int)source_positions,
                    (int)config->max_positions);
  }
  return tsr_training_check_model(model);
}

/* Updates the parameters first .. end - 1. */
static tsr_status make_program(const tsr_model *model, const tsr_training_options *options, int32_t kind,
                               const tsr_program_size *size, int32_t first, int32_t end, tsr_program **program)
{
  *program = NULL;
  tsr_training_options complete;
  TSR_TRY(tsr_training_options_complete(options, &complete));
  TSR_TRY(check(model, kind, size));
  step s = {.options = &complete, .kind = kind, .n = model->parameters.n, .first = first, .end = end};
  size_t n = (size_t)s.n + 1;
  size_t n_layers = (size_t)model->config.encoder_layers + (size_t)model->config.decoder_layers;
  s.builder = (tsr_builder){.model = model, .training = &s.training};
  s.training.products = complete.products;
  s.training.layers = calloc(n_layers, sizeof *s.training.layers);
  s.parameter = calloc(n, sizeof *s.parameter);
  s.gradient = calloc(n, sizeof *s.gradient);
  s.trained = calloc(n, sizeof *s.trained);
  s.wanted = calloc(n, sizeof *s.wanted);
  s.found = calloc(n, sizeof *s.found);
  const int has_room = s.training.layers && s.parameter && s.gradient && s.trained && s.wanted && s.found;
  tsr_status status = has_room ? TSR_OK : tsr_fail_memory(n * sizeof *s.parameter);
  if (status == TSR_OK) {
    status = tsr_program_create(&s.builder.program);
  }
  if (status == TSR_OK && kind == TSR_STEP_APPLY) {
    status = build_apply(&s);
  } else if (status == TSR_OK) {
    build(&s, size);
  }
  if (status == TSR_OK) {
    status = tsr_program_status(s.builder.program);
  }
  if (status == TSR_OK) {
    *program = s.builder.program;
  } else {
    tsr_program_destroy(s.builder.program);
  }
  free(s.training.layers);
  free(s.parameter);
  free(s.gradient);
  free(s.trained);
  free(s.wanted);
  free(s.found);
  return status;
}

tsr_status tsr_training_program(const tsr_model *model, const tsr_training_options *options, int32_t kind,
                                const tsr_program_size *size, tsr_program **program)
{
  if (!model || !size || !program) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_program: model, size and program must not be NULL");
  }
  return make_program(model, options, kind, size, 0, model->parameters.n, program);
}

tsr_status tsr_step_apply_program(const tsr_model *model, const tsr_training_options *options, int32_t first,
                                  int32_t end, tsr_program **program)
{
  return make_program(model, options, TSR_STEP_APPLY, &smallest_size, first, end, program);
}
