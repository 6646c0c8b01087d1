/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer does with a batch: steps, evaluations, gradients, and what it tells about them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/runtime/fault.h"
#include "core/train/step.h"
#include "core/train/trainer.h"
#include "core/train/trainer_parts.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static tsr_status check_ids(const char *what, const int32_t *ids, int64_t n, int32_t lowest, int32_t vocabulary)
{
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] < lowest || ids[i] >= vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s %lld of the batch is %d; the vocabulary has the ids 0 to %d", what,
                      (long long)i, (int)ids[i], (int)vocabulary - 1);
    }
  }
  return TSR_OK;
}

static tsr_status check_features(const tsr_trainer *t, const tsr_examples *e)
{
  if (!t->features || e->source || e->source_lengths) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a batch for a model of speech needs features (tsr_trainer_set_features), and "
                                      "neither source ids nor their lengths");
  }
  const int64_t frames = 2 * (int64_t)e->source_width, n = (int64_t)e->rows * t->model->config.mels * frames;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(t->features[i])) {
      return tsr_fail(TSR_ERR_ARGUMENT, "the feature of mel %lld and frame %lld in row %lld of the batch is not finite",
                      (long long)(i / frames % t->model->config.mels), (long long)(i % frames),
                      (long long)(i / frames / t->model->config.mels));
    }
  }
  return TSR_OK;
}

static tsr_status check_examples(const tsr_trainer *t, const tsr_examples *e)
{
  const tsr_transformer_config *config = &t->model->config;
  const int hears = config->mels > 0;
  if (!e || e->rows < 1 || e->source_width < 1 || e->target_width < 1 ||
      (!hears && (!e->source || !e->source_lengths)) || !e->target || !e->labels) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a batch needs rows, widths of at least 1, ids, lengths and labels");
  }
  int64_t n = 0, n_target = (int64_t)e->rows * e->target_width;
  TSR_TRY(hears ? check_features(t, e)
                : check_ids("source id", e->source, (int64_t)e->rows * e->source_width, 0, config->source_vocabulary));
  TSR_TRY(check_ids("target id", e->target, n_target, 0, config->target_vocabulary));
  TSR_TRY(check_ids("label", e->labels, n_target, INT32_MIN, config->target_vocabulary));
  for (int64_t i = 0; i < n_target; i++) {
    n += e->labels[i] >= 0;
  }
  for (int32_t i = 0; i < e->rows && !hears; i++) {
    if (e->source_lengths[i] < 0 || e->source_lengths[i] > e->source_width) {
      return tsr_fail(TSR_ERR_ARGUMENT, "source length %d of the batch is %d; the sources are %d ids wide", (int)i,
                      (int)e->source_lengths[i], (int)e->source_width);
    }
  }
  if (n == 0 || n != e->target_tokens) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the batch has %lld labels that count, and says %lld; it needs one", (long long)n,
                    (long long)e->target_tokens);
  }
  return TSR_OK;
}

static tsr_status write_input(const tsr_compiled *program, tsr_ref input, const void *bytes, int64_t size)
{
  return input == TSR_NONE ? TSR_OK : tsr_executable_write(program->executable, input, bytes, size);
}

static tsr_status write_examples(const tsr_trainer *t, const tsr_compiled *program, const tsr_examples *e)
{
  int64_t size = (int64_t)sizeof(int32_t), target = (int64_t)e->rows * e->target_width * size;
  TSR_TRY(write_input(program, program->features, t->features,
                      (int64_t)e->rows * t->model->config.mels * 2 * e->source_width * (int64_t)sizeof *t->features));
  TSR_TRY(write_input(program, program->source, e->source, (int64_t)e->rows * e->source_width * size));
  TSR_TRY(write_input(program, program->source_lengths, e->source_lengths, e->rows * size));
  TSR_TRY(write_input(program, program->target, e->target, target));
  return write_input(program, program->labels, e->labels, target);
}

tsr_status tsr_trainer_set_features(tsr_trainer *trainer, const float *features)
{
  if (!trainer || !features) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_set_features: trainer and features must not be NULL");
  }
  TSR_TRY(tsr_model_check_reads_sound(trainer->model, "tsr_trainer_set_features"));
  trainer->features = features;
  return TSR_OK;
}

static double scale_of(const tsr_step_control *control)
{
  return control->loss_scale != 0.0 ? control->loss_scale : 1.0;
}

/* tokens: of all batches of the update. */
static tsr_status write_control(const tsr_compiled *program, const tsr_training_options *options,
                                const tsr_step_control *control, int64_t tokens)
{
  double t = (double)control->step, scale = scale_of(control);
  const uint32_t seed[2] = {(uint32_t)control->seed, (uint32_t)(control->seed >> 32)};
  const float factor = (float)scale;
  const float values[5] = {
      (float)control->learning_rate,
      (float)(1.0 / (1.0 - pow((double)options->beta1, t))),
      (float)(1.0 / (1.0 - pow((double)options->beta2, t))),
      (float)(1.0 / (scale * (double)tokens)),
      (float)(1.0 - control->average_decay),
  };
  TSR_TRY(write_input(program, program->seed, seed, sizeof seed));
  TSR_TRY(write_input(program, program->scale, &factor, sizeof factor));
  return write_input(program, program->control, values, sizeof values);
}

static tsr_status read_number(const tsr_compiled *program, tsr_ref output, double *number)
{
  float value;
  TSR_TRY(tsr_executable_read(program->executable, output, &value, sizeof value));
  *number = (double)value;
  return TSR_OK;
}

/* What the outputs say about a layer. factor: of the gradients. */
static tsr_status read_layer(tsr_trainer *t, const tsr_compiled *program, int32_t index, double factor)
{
  const tsr_transformer_config *config = &t->model->config;
  tsr_layer_statistics *layer = &t->layers[index];
  const int32_t is_decoder = index >= config->encoder_layers;
  const int32_t length = is_decoder ? program->size.target : program->size.source;
  const double n = (double)program->size.batch * length * tsr_config_width(config, is_decoder);
  double sum, squares, norm = 0.0;
  const tsr_ref *refs = &program->layers[(size_t)index * TSR_LAYER_OUTPUTS];
  tsr_step_layer_name(config, index, layer->name, sizeof layer->name);
  TSR_TRY(read_number(program, refs[0], &sum));
  TSR_TRY(read_number(program, refs[1], &squares));
  if (refs[2] != TSR_NONE) {
    TSR_TRY(read_number(program, refs[2], &norm));
  }
  layer->mean = sum / n;
  layer->deviation = sqrt(fmax(squares / n - layer->mean * layer->mean, 0.0));
  layer->gradient_norm = sqrt(norm) * factor;
  return TSR_OK;
}

static tsr_status read_results(tsr_trainer *t, const tsr_compiled *program, const tsr_step_control *control,
                               int64_t tokens, tsr_step_result *result)
{
  double scale = scale_of(control), squares;
  TSR_TRY(read_number(program, program->loss, &result->loss));
  result->is_finite = isfinite(result->loss) != 0;
  if (program->norm != TSR_NONE) {
    TSR_TRY(read_number(program, program->norm, &squares));
    result->gradient_norm = sqrt(squares) / (scale * (double)tokens);
    result->is_finite &= isfinite(squares) != 0;
  }
  for (int32_t i = 0; i < t->n_layers; i++) {
    TSR_TRY(read_layer(t, program, i, 1.0 / (scale * (double)result->tokens)));
  }
  return TSR_OK;
}

static int32_t kind_of_step(const tsr_trainer *t, int32_t last)
{
  if (t->n_summed == 0) {
    return last ? TSR_STEP_UPDATE : TSR_STEP_FIRST;
  }
  return last ? TSR_STEP_LAST : TSR_STEP_MORE;
}

static tsr_program_size size_of(const tsr_examples *e)
{
  return (tsr_program_size){.batch = e->rows, .source = e->source_width, .target = e->target_width};
}

tsr_status tsr_trainer_step(tsr_trainer *trainer, const tsr_examples *examples, const tsr_step_control *control,
                            int32_t last, tsr_step_result *result)
{
  if (!trainer || !control || !result || control->step < 1) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_step: no argument may be NULL, and steps count from 1");
  }
  tsr_compiled *program;
  *result = (tsr_step_result){0};
  TSR_TRY(check_examples(trainer, examples));
  tsr_program_size size = size_of(examples);
  TSR_TRY(tsr_trainer_program(trainer, kind_of_step(trainer, last), 0, &size, &program));
  int64_t tokens = trainer->summed_tokens + examples->target_tokens;
  TSR_TRY(write_examples(trainer, program, examples));
  TSR_TRY(write_control(program, &trainer->options, control, tokens));
  if (last && trainer->is_spoiled) {
    /* The norm becomes NaN, and nothing is updated. */
    const float none = NAN;
    TSR_TRY(write_input(program, program->scale, &none, sizeof none));
  }
  TSR_TRY(tsr_executable_run(program->executable));
  result->tokens = examples->target_tokens;
  trainer->summed_tokens = last ? 0 : tokens;
  trainer->n_summed = last ? 0 : trainer->n_summed + 1;
  TSR_TRY(read_results(trainer, program, control, tokens, result));
  trainer->is_spoiled = !last && (trainer->is_spoiled || !result->is_finite);
  return TSR_OK;
}

/* ---- gradients that leave the device ----------------------------------------------------------------------------- */

static void forget_sums(tsr_trainer *t)
{
  t->summed_tokens = 0;
  t->n_summed = 0;
  t->is_spoiled = 0;
}

/* Runs the parts, and tells of the buckets that each makes whole. A device that returns before a part has ended gets
 * the next one meanwhile. */
static tsr_status run_parts(const tsr_trainer *t, const tsr_compiled *program, tsr_whole_bucket_fn whole, void *user)
{
  const int32_t n = program->n_cuts + 1;
  const int32_t ahead = tsr_device_get_properties(t->device)->runs_in_hand > 0;
  int32_t n_started = 0, bucket = 0;
  for (int32_t i = 0; i < n; i++) {
    tsr_executable *part = program->n_cuts > 0 ? tsr_executable_part(program->executable, i) : program->executable;
    for (; n_started < n && n_started <= i + ahead; n_started++) {
      TSR_TRY(tsr_executable_start(program->n_cuts > 0 ? tsr_executable_part(program->executable, n_started) : part));
    }
    TSR_TRY(tsr_executable_wait(part));
    for (; bucket < t->buckets.n && program->whole[bucket] <= i; bucket++) {
      TSR_TRY(whole(user, bucket));
    }
  }
  return TSR_OK;
}

tsr_status tsr_trainer_differentiate(tsr_trainer *trainer, const tsr_examples *examples,
                                     const tsr_step_control *control, tsr_whole_bucket_fn whole, void *user,
                                     tsr_step_result *result)
{
  tsr_compiled *program;
  *result = (tsr_step_result){.tokens = examples->target_tokens};
  forget_sums(trainer);
  TSR_TRY(check_examples(trainer, examples));
  const tsr_program_size size = size_of(examples);
  TSR_TRY(tsr_trainer_program(trainer, TSR_STEP_SHARE, 0, &size, &program));
  TSR_TRY(write_examples(trainer, program, examples));
  TSR_TRY(write_control(program, &trainer->options, control, examples->target_tokens));
  TSR_TRY(run_parts(trainer, program, whole, user));
  return read_results(trainer, program, control, examples->target_tokens, result);
}

tsr_status tsr_trainer_apply(tsr_trainer *trainer, const tsr_step_control *control, double loss, int64_t tokens,
                             tsr_step_result *result)
{
  static const tsr_program_size any = {.batch = 1, .source = 1, .target = 1};
  tsr_compiled *program;
  double squares;
  const float told = isfinite(loss) ? 0.0f : NAN; /* NaN becomes the norm, and nothing is updated */
  *result = (tsr_step_result){.loss = loss, .tokens = tokens};
  forget_sums(trainer);
  TSR_TRY(tsr_trainer_program(trainer, TSR_STEP_APPLY, 0, &any, &program));
  TSR_TRY(write_control(program, &trainer->options, control, tokens));
  TSR_TRY(write_input(program, program->loss, &told, sizeof told));
  TSR_TRY(tsr_executable_run(program->executable));
  TSR_TRY(read_number(program, program->norm, &squares));
  result->gradient_norm = sqrt(squares) / (scale_of(control) * (double)tokens);
  result->is_finite = isfinite(squares) != 0;
  return TSR_OK;
}

int64_t tsr_trainer_array_count(const tsr_trainer *trainer)
{
  return trainer->offset[trainer->n] / (int64_t)sizeof(float);
}

tsr_status tsr_trainer_array_read(tsr_trainer *trainer, int32_t what, int64_t first, int64_t n, float *values)
{
  const int64_t size = (int64_t)sizeof *values;
  TSR_TRY(tsr_trainer_make_state(trainer, what));
  return tsr_buffer_read(trainer->state[what], first * size, n * size, values);
}

tsr_status tsr_trainer_array_write(tsr_trainer *trainer, int32_t what, int64_t first, int64_t n, const float *values)
{
  const int64_t size = (int64_t)sizeof *values;
  TSR_TRY(tsr_trainer_make_state(trainer, what));
  return tsr_buffer_write(trainer->state[what], first * size, n * size, values);
}

/* ---- evaluations ------------------------------------------------------------------------------------------------- */

tsr_status tsr_trainer_evaluate(tsr_trainer *trainer, const tsr_examples *examples, int32_t averaged,
                                tsr_step_result *result)
{
  if (!trainer || !result) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_evaluate: no argument may be NULL");
  }
  if (averaged && !trainer->options.average) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the trainer was made without averages");
  }
  tsr_compiled *program;
  *result = (tsr_step_result){0};
  TSR_TRY(check_examples(trainer, examples));
  tsr_program_size size = size_of(examples);
  TSR_TRY(tsr_trainer_program(trainer, TSR_STEP_EVALUATE, averaged != 0, &size, &program));
  TSR_TRY(write_examples(trainer, program, examples));
  TSR_TRY(tsr_executable_run(program->executable));
  result->tokens = examples->target_tokens;
  TSR_TRY(read_number(program, program->loss, &result->loss));
  result->is_finite = isfinite(result->loss) != 0;
  return TSR_OK;
}

/* Hands out the gradients that the last run of a program gave. */
static tsr_status give_gradients(const tsr_trainer *t, const tsr_compiled *entry, const tsr_program *program,
                                 tsr_gradient_fn receive, void *context)
{
  float *values;
  char name[TSR_PARAMETER_NAME_ROOM];
  tsr_status status = tsr_trainer_room(t, &values);
  for (int32_t i = 0; i < t->n && status == TSR_OK; i++) {
    snprintf(name, sizeof name, "%s.gradient", t->model->parameters.items[i].name);
    tsr_ref gradient = tsr_program_find(program, name);
    if (gradient == TSR_NONE) {
      continue;
    }
    status =
        tsr_executable_read(entry->executable, gradient, values, tsr_trainer_elements(t, i) * (int64_t)sizeof *values);
    if (status == TSR_OK) {
      receive(context, i, values, tsr_trainer_elements(t, i));
    }
  }
  free(values);
  return status;
}

/* Runs the gradients of a batch once, by a program of its own. keep_all: as in tsr_compile_options. *program is the
 * caller's, and *entry to be finished, after an error too. */
static tsr_status run_gradients(tsr_trainer *t, const tsr_examples *examples, const tsr_step_control *control,
                                double scale, int32_t keep_all, tsr_program **program, tsr_compiled *entry)
{
  tsr_program_size size = size_of(examples);
  const float factor = (float)scale;
  *entry = (tsr_compiled){.kind = TSR_STEP_GRADIENTS, .size = size};
  *program = NULL;
  TSR_TRY(tsr_training_program(t->model, &t->options, TSR_STEP_GRADIENTS, &size, program));
  TSR_TRY(tsr_trainer_compile(t, entry, *program, keep_all));
  TSR_TRY(write_examples(t, entry, examples));
  TSR_TRY(write_control(entry, &t->options, control, examples->target_tokens));
  TSR_TRY(write_input(entry, entry->scale, &factor, sizeof factor));
  return tsr_executable_run(entry->executable);
}

tsr_status tsr_trainer_gradients(tsr_trainer *trainer, const tsr_examples *examples, const tsr_step_control *control,
                                 tsr_gradient_fn receive, void *context, tsr_step_result *result)
{
  if (!trainer || !control || !receive || !result) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_gradients: no argument but the context may be NULL");
  }
  tsr_program *program;
  tsr_compiled entry;
  *result = (tsr_step_result){0};
  TSR_TRY(check_examples(trainer, examples));
  result->tokens = examples->target_tokens;
  tsr_status status =
      run_gradients(trainer, examples, control, 1.0 / (double)examples->target_tokens, 0, &program, &entry);
  if (status == TSR_OK) {
    status = read_number(&entry, entry.loss, &result->loss);
  }
  if (status == TSR_OK) {
    result->is_finite = isfinite(result->loss) != 0;
    status = give_gradients(trainer, &entry, program, receive, context);
  }
  tsr_compiled_finish(&entry);
  tsr_program_destroy(program);
  return status;
}

/* ---- finding a fault --------------------------------------------------------------------------------------------- */

tsr_status tsr_trainer_find_fault(tsr_trainer *trainer, const tsr_examples *examples, const tsr_step_control *control,
                                  char *text, size_t size)
{
  if (!trainer || !control || !text || size == 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_find_fault: no argument may be NULL");
  }
  text[0] = '\0';
  TSR_TRY(check_examples(trainer, examples));
  tsr_program *program;
  tsr_compiled entry;
  tsr_status status = run_gradients(trainer, examples, control, scale_of(control), 1, &program, &entry);
  tsr_fault fault = {.line = -1};
  if (status == TSR_OK) {
    status = tsr_fault_find(program, entry.executable, 1, &fault);
  }
  if (status == TSR_OK && fault.line >= 0 && fault.is_result) {
    char listing[512];
    snprintf(text, size, "line %s", tsr_program_print_line(program, fault.line, listing, sizeof listing));
  } else if (status == TSR_OK && fault.line >= 0) {
    snprintf(text, size, "the parameter or input '%s' is not finite", tsr_ref_name(program, fault.tensor));
  }
  tsr_compiled_finish(&entry);
  tsr_program_destroy(program);
  return status;
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

tsr_layer_statistics *tsr_trainer_layers(tsr_trainer *trainer)
{
  return trainer->layers;
}

int32_t tsr_trainer_layer_count(const tsr_trainer *trainer)
{
  return trainer->n_layers;
}

tsr_status tsr_trainer_layer_sized(const tsr_trainer *trainer, int32_t index, tsr_layer_statistics *statistics,
                                   size_t size)
{
  if (!trainer || !statistics || index < 0 || index >= trainer->n_layers) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the trainer keeps statistics of %d layers, and was asked for number %d",
                    trainer ? (int)trainer->n_layers : 0, (int)index);
  }
  tsr_sized_fill(&trainer->layers[index], sizeof trainer->layers[index], statistics, size);
  return TSR_OK;
}

void tsr_trainer_get_memory_sized(const tsr_trainer *trainer, tsr_trainer_memory *memory, size_t size)
{
  tsr_trainer_memory sum = {.temporary_bytes = trainer->temporary_bytes,
                            .planned_bytes = trainer->planned_bytes,
                            .programs = trainer->n_programs};
  for (int32_t i = 0; i <= TSR_TRAINED_SUM; i++) {
    sum.state_bytes += trainer->state[i] ? tsr_buffer_size(trainer->state[i]) : 0;
  }
  for (int32_t i = 0; i < trainer->buckets.n; i++) {
    sum.state_bytes += tsr_buffer_size(trainer->buckets.sums[i]);
  }
  tsr_sized_fill(&sum, sizeof sum, memory, size);
}
