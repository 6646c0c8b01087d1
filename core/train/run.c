/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/checkpoint.h"
#include "core/train/draws.h"
#include "core/train/run_parts.h"
#include "tessera/files.h"
#include "tessera/training_run.h"

enum { FAULT_LINES = 8 }; /* pairs of a batch that a message names */

static const double first_scale = 65536.0, largest_scale = 16777216.0, smallest_scale = 1.0 / 1024.0;

tsr_status tsr_run_examples(tsr_run *run, const tsr_training_data *data, const tsr_training_batch *batch,
                            tsr_examples *examples)
{
  const float *features = tsr_training_data_features(data);
  *examples = (tsr_examples){.rows = batch->rows,
                             .source_width = batch->source_width,
                             .target_width = batch->target_width,
                             .source = batch->source,
                             .source_lengths = batch->source_lengths,
                             .target = batch->target,
                             .labels = batch->labels,
                             .target_tokens = batch->target_tokens};
  return features ? tsr_trainer_set_features(run->trainer, features) : TSR_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int is_scaled(const tsr_run *run)
{
  return run->options->training->products == TSR_F16;
}

static tsr_status check_options(const tsr_training_run_options *o)
{
  if (!o->folder || !(o->average_decay >= 0.0 && o->average_decay < 1.0) || o->average_last < 0 || o->keep < 0 ||
      o->accumulate < 0 || o->steps < 0 || o->minutes < 0.0 || o->patience < 0 || o->log_every < 0 ||
      o->save_every < 0 || o->validate_every < 0 || o->sentences < 0 || o->beam < 0 ||
      (o->gradients != 0 && o->gradients != TSR_F32 && o->gradients != TSR_BF16)) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "a training needs a folder, an average below 1, gradients in f32 or bf16, and numbers that are not negative");
  }
  int has_validation = o->data->task || o->valid.source;
  if (!has_validation && (o->patience > 0 || o->until > 0.0 || o->criterion != 0 || o->valid.target)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "patience, until, criterion and valid_target need validations, but valid_source is missing");
  }
  TSR_TRY(tsr_schedule_check(&o->schedule));
  if (tsr_schedule_has_end(&o->schedule) && o->steps == 0 && o->minutes <= 0.0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "a learning rate that falls until the end needs to know the end: in steps or minutes");
  }
  return TSR_OK;
}

/* What would be overwritten. */
static tsr_status check_folder(const char *folder)
{
  static const char *const files[] = {"train/last.safetensors", "model.safetensors"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char *path = tsr_path_join(folder, files[i]);
    if (!path) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    int exists = tsr_path_exists(path);
    free(path);
    if (exists) {
      return tsr_fail(TSR_ERR_IO, "%s: holds a %s already: resume it, or choose another folder", folder,
                      i == 0 ? "training" : "model");
    }
  }
  return TSR_OK;
}

/* The options with those that they point to, as far as the caller knows them. Zero it. */
typedef struct known_options {
  tsr_training_run_options run;
  tsr_training_data_options data;
  tsr_training_sounds sounds;
  tsr_training_options training;
} known_options;

static tsr_status read_options(const tsr_training_run_options *given, known_options *known)
{
  TSR_TRY(TSR_SIZED_READ(tsr_training_run_options, is_stopping, given, &known->run));
  if (!known->run.data) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_run_options: data is missing");
  }
  TSR_TRY(TSR_SIZED_READ(tsr_training_data_options, target_pad_id, known->run.data, &known->data));
  TSR_TRY(TSR_SIZED_READ(tsr_training_options, products, known->run.training, &known->training));
  if (known->data.sounds) {
    TSR_TRY(TSR_SIZED_READ(tsr_training_sounds, plugins_path, known->data.sounds, &known->sounds));
    known->data.sounds = &known->sounds;
  }
  known->training.average = known->run.average_decay > 0.0;
  known->data.shuffle = 1;
  known->run.data = &known->data;
  known->run.training = &known->training;
  return check_options(&known->run);
}

/* Of the rank that writes to it. */
static tsr_status prepare_folder(const tsr_training_run_options *options)
{
  if (tsr_comm_rank(options->comm) != 0) {
    return TSR_OK;
  }
  if (!options->resume) {
    TSR_TRY(check_folder(options->folder));
  }
  char *path = tsr_path_join(options->folder, "train");
  tsr_status status = path ? tsr_folder_make(path) : TSR_ERR_OUT_OF_MEMORY;
  free(path);
  return status;
}

tsr_status tsr_training_run_check(const tsr_training_run_options *options)
{
  known_options known;
  TSR_TRY(read_options(options, &known));
  return prepare_folder(&known.run);
}

static tsr_status lay_out(tsr_run *run)
{
  run->n = tsr_model_parameter_count(run->model);
  run->offset = calloc((size_t)run->n + 1, sizeof *run->offset);
  if (!run->offset) {
    return tsr_fail_memory(((size_t)run->n + 1) * sizeof *run->offset);
  }
  for (int32_t i = 0; i < run->n; i++) {
    tsr_parameter_info info;
    TSR_TRY(tsr_model_parameter(run->model, i, &info));
    run->offset[i + 1] = run->offset[i] + tsr_shape_elements(&info.shape);
  }
  run->weights = malloc(((size_t)run->offset[run->n] + 1) * sizeof *run->weights);
  return run->weights ? TSR_OK : tsr_fail_memory((size_t)run->offset[run->n] * sizeof *run->weights);
}

static tsr_status initialise(tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  for (int32_t i = 0; i < run->n && !tsr_model_has_weights(run->model); i++) {
    int64_t n = run->offset[i + 1] - run->offset[i];
    float *values = run->weights + run->offset[i];
    TSR_TRY(tsr_initialise(run->model, o->initial ? o->initial : TSR_INITIAL_XAVIER, o->seed, i, values, n));
    TSR_TRY(tsr_trainer_write(run->trainer, TSR_TRAINED_PARAMETER, i, values, n));
    if (o->training->average) {
      TSR_TRY(tsr_trainer_write(run->trainer, TSR_TRAINED_AVERAGE, i, values, n));
    }
  }
  return TSR_OK;
}

static void set_defaults(tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  run->rank = tsr_comm_rank(o->comm);
  run->accumulate = o->accumulate > 0 ? o->accumulate : tsr_comm_size(o->comm);
  run->scale_window = o->scale_window > 0 ? o->scale_window : 1000;
  run->beam = o->beam > 0 ? o->beam : 1;
  run->log_every = o->log_every > 0 ? o->log_every : 50;
  run->save_every = o->save_every > 0 ? o->save_every : 500;
  run->validate_every = o->validate_every > 0 ? o->validate_every : 500;
  run->saved_step = run->progress.validated_step = -1;
  run->progress.row_loss = (double)NAN;
  run->progress.scale = !is_scaled(run) ? 1.0 : o->loss_scale > 0.0 ? o->loss_scale : first_scale;
}

/* The folder of the rank that writes to it. */
static tsr_status open_folder(tsr_run *run)
{
  run->folder = tsr_path_join(run->options->folder, "train");
  if (!run->folder) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  if (run->rank == 0) {
    TSR_TRY(prepare_folder(run->options));
    TSR_TRY(tsr_run_log_open(&run->log, run->folder, run->options->training->statistics));
    run->is_locked = 1;
  }
  return TSR_OK;
}

/* *found: 1: the run goes on from a checkpoint. */
static tsr_status open_state(tsr_run *run, int32_t *found)
{
  *found = 0;
  if (run->rank == 0) {
    TSR_TRY(initialise(run));
    TSR_TRY(run->options->resume ? tsr_run_load(run, found) : TSR_OK);
    TSR_TRY(tsr_run_end_service(run));
  } else {
    TSR_TRY(tsr_run_serve(run));
  }
  TSR_TRY(tsr_run_share_state(run, found));
  if (*found) {
    TSR_TRY(tsr_training_data_seek(run->data, &run->progress.position));
    run->saved_step = run->progress.step;
  }
  return TSR_OK;
}

static tsr_status open_run(tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  int32_t found;
  set_defaults(run);
  TSR_TRY(open_folder(run));
  TSR_TRY(lay_out(run));
  TSR_TRY(tsr_training_data_create(o->data, &run->data));
  TSR_TRY(run->rank == 0 ? tsr_run_open_validation(run) : TSR_OK);
  TSR_TRY(tsr_run_open_ranks(run));
  TSR_TRY(open_state(run, &found));
  if (o->opened && run->rank == 0) {
    TSR_TRY(o->opened(o->user, run->progress.step));
  }
  TSR_TRY(run->rank == 0 ? tsr_run_log_begin(&run->log, found ? run->progress.log_sizes : NULL) : TSR_OK);
  run->start = tsr_seconds() - run->progress.seconds;
  run->window_start = tsr_seconds();
  return TSR_OK;
}

static void close_run(tsr_run *run)
{
  tsr_run_finish_validation(run);
  tsr_run_log_finish(&run->log);
  tsr_run_finish_ranks(run);
  tsr_trainer_destroy(run->trainer);
  tsr_training_data_destroy(run->data);
  free(run->folder);
  free(run->offset);
  free(run->weights);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static double share_of(double part, double whole)
{
  return whole > 0.0 ? fmin(fmax(part / whole, 0.0), 1.0) : 0.0;
}

/* The share of what follows the warm-up that is over at a step. */
static double decayed(tsr_run *run, int64_t step)
{
  const tsr_training_run_options *o = run->options;
  if (o->steps > 0) {
    return tsr_schedule_decayed(&o->schedule, step, o->steps);
  }
  double seconds = tsr_seconds() - run->start;
  if (step <= o->schedule.warmup || o->minutes <= 0.0) {
    return 0.0;
  }
  if (run->progress.warm_seconds <= 0.0) {
    run->progress.warm_seconds = seconds;
  }
  return share_of(seconds - run->progress.warm_seconds, 60.0 * o->minutes - run->progress.warm_seconds);
}

uint64_t tsr_run_dropout_seed(const tsr_run *run, const tsr_training_batch *batch)
{
  const uint64_t number = (uint64_t)batch->index;
  tsr_draws draws =
      tsr_draws_make(run->options->seed, TSR_DRAWS_DROPOUT, 0, (uint32_t)number, (uint32_t)(number >> 32));
  uint64_t high = tsr_draw(&draws);
  return high << 32 | tsr_draw(&draws);
}

tsr_status tsr_run_fail_at_fault(tsr_run *run, const tsr_examples *examples, const tsr_training_batch *batch,
                                 const tsr_step_control *control, const tsr_step_result *result)
{
  char fault[512], lines[FAULT_LINES * 24 + 1];
  size_t used = 0;
  TSR_TRY(tsr_trainer_find_fault(run->trainer, examples, control, fault, sizeof fault));
  for (int32_t i = 0; i < batch->sentences && i < FAULT_LINES; i++) {
    used +=
        (size_t)snprintf(lines + used, sizeof lines - used, "%s%lld", i > 0 ? ", " : "", (long long)batch->lines[i]);
  }
  const char *corpus = run->options->data->task ? "the task" : run->options->data->files.source;
  return tsr_fail(
      TSR_ERR_FORMAT,
      "step %lld: the %s is not finite; a lower learning rate or max_norm may help. Batch %lld, %d pairs of "
      "%s: %s%s. %s%s",
      (long long)control->step, isfinite(result->loss) ? "gradients' norm" : "loss", (long long)batch->index,
      (int)batch->sentences, corpus, lines, batch->sentences > FAULT_LINES ? ", ..." : "",
      fault[0] ? "It begins in " : "No single line of the program causes it", fault);
}

int tsr_run_can_skip(const tsr_run *run, const tsr_step_result *result)
{
  return is_scaled(run) && isfinite(result->loss) && run->progress.scale > smallest_scale;
}

static void adapt_scale(tsr_run *run, int32_t overflowed)
{
  tsr_run_progress *p = &run->progress;
  if (!is_scaled(run)) {
    return;
  }
  p->good = overflowed ? 0 : p->good + 1;
  if (overflowed) {
    p->scale *= 0.5;
    p->skipped++;
  } else if (p->good >= run->scale_window) {
    p->scale = fmin(2.0 * p->scale, largest_scale);
    p->good = 0;
  }
}

/* The batches of one update, on the device from the first to the last. */
static tsr_status compute(tsr_run *run, tsr_step_control *control, tsr_run_made *made)
{
  for (int32_t i = 0; i < run->accumulate; i++) {
    const tsr_training_batch *batch;
    tsr_step_result result;
    TSR_TRY(tsr_training_data_next(run->data, &batch));
    if (!batch) {
      made->is_over = 1;
      return TSR_OK;
    }
    tsr_examples examples;
    TSR_TRY(tsr_run_examples(run, run->data, batch, &examples));
    control->seed = tsr_run_dropout_seed(run, batch);
    TSR_TRY(tsr_trainer_step(run->trainer, &examples, control, i + 1 == run->accumulate, &result));
    if (!result.is_finite && !tsr_run_can_skip(run, &result)) {
      return tsr_run_fail_at_fault(run, &examples, batch, control, &result);
    }
    made->is_finite = result.is_finite;
    made->loss += result.loss;
    made->tokens += result.tokens;
    made->epoch = batch->epoch;
    made->gradient_norm = result.gradient_norm;
  }
  return TSR_OK;
}

/* One update. *updated: 1: it was made; 0: it was left out, or the data are over (can_go_on is 0). */
static tsr_status update(tsr_run *run, double decay, tsr_training_run_step *row, int32_t *updated)
{
  const tsr_training_run_options *o = run->options;
  tsr_run_progress *p = &run->progress;
  int64_t step = p->step + 1;
  tsr_run_made made = {0};
  tsr_step_control control = {.step = step,
                              .learning_rate = tsr_schedule_rate(&o->schedule, step, decay),
                              .average_decay = fmin(o->average_decay, (1.0 + (double)step) / (10.0 + (double)step)),
                              .loss_scale = p->scale};
  *updated = 0;
  TSR_TRY(run->is_shared ? tsr_run_compute_shared(run, &control, &made) : compute(run, &control, &made));
  if (made.is_over) {
    run->can_go_on = 0;
    return TSR_OK;
  }
  adapt_scale(run, !made.is_finite);
  tsr_training_data_tell(run->data, &p->position);
  if (!made.is_finite) {
    return TSR_OK;
  }
  p->step = step;
  p->epoch = made.epoch;
  p->loss += made.loss;
  p->tokens += made.tokens;
  run->window_tokens += made.tokens;
  row->gradient_norm = made.gradient_norm;
  row->rate = control.learning_rate;
  row->scale = control.loss_scale;
  *updated = 1;
  return TSR_OK;
}

/* The share of the training that is over; -1: only the data or the scores tell. */
static double share_done(const tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  double by_steps = o->steps > 0 ? share_of((double)run->progress.step, (double)o->steps) : -1.0;
  double by_time = o->minutes > 0.0 ? share_of(tsr_seconds() - run->start, 60.0 * o->minutes) : -1.0;
  return by_steps > by_time ? by_steps : by_time;
}

static tsr_status report_step(tsr_run *run, tsr_training_run_step *row)
{
  tsr_run_progress *p = &run->progress;
  double now = tsr_seconds();
  row->is_row = p->step % run->log_every == 0;
  row->trainer = run->trainer;
  row->step = p->step;
  row->epoch = p->epoch;
  row->seconds = now - run->start;
  row->loss = p->loss / (double)p->tokens;
  row->tokens_per_second = (double)run->window_tokens / fmax(now - run->window_start, 1e-9);
  row->skipped = p->skipped;
  row->done = share_done(run);
  if (row->is_row) {
    TSR_TRY(tsr_run_log_step(&run->log, row, run->trainer));
    p->row_loss = row->loss;
    p->loss = 0.0;
    p->tokens = 0;
    run->window_start = now;
    run->window_tokens = 0;
  }
  if (run->options->step) {
    run->options->step(run->options->user, row);
  }
  return TSR_OK;
}

/* ---- validation -------------------------------------------------------------------------------------------------- */

static tsr_status announce(tsr_run *run, const tsr_training_run_validation *v)
{
  TSR_TRY(tsr_run_log_validation(&run->log, v));
  if (run->options->validation) {
    run->options->validation(run->options->user, v);
  }
  return TSR_OK;
}

static tsr_status validate(tsr_run *run)
{
  tsr_run_progress *p = &run->progress;
  tsr_training_run_validation v;
  double begin = tsr_seconds();
  TSR_TRY(tsr_run_take_weights(run));
  TSR_TRY(tsr_run_validate(run, run->options->training->average, &v));
  double score = tsr_run_score(run, &v);
  v.is_best = !p->has_best || score > p->best || isnan(p->best);
  p->waiting = v.is_best ? 0 : p->waiting + 1;
  if (v.is_best) {
    p->has_best = 1;
    p->best = score;
    p->best_step = p->step;
    TSR_TRY(tsr_run_save_best(run, &v));
  }
  p->validated_step = p->step;
  run->saved_step = -1;
  run->window_start += tsr_seconds() - begin;
  return announce(run, &v);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Why there is no further step, or 0. */
static int32_t reason_to_end(const tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  const tsr_run_progress *p = &run->progress;
  if (o->steps > 0 && p->step >= o->steps) {
    return TSR_TRAINING_END_STEPS;
  }
  if (!run->can_go_on) {
    return TSR_TRAINING_END_EPOCHS;
  }
  if (o->minutes > 0.0 && tsr_seconds() - run->start >= 60.0 * o->minutes) {
    return TSR_TRAINING_END_MINUTES;
  }
  if (o->patience > 0 && p->waiting >= o->patience) {
    return TSR_TRAINING_END_PATIENCE;
  }
  if (o->until > 0.0 && p->has_best && run->criterion != TSR_CRITERION_LOSS && p->best >= o->until) {
    return TSR_TRAINING_END_UNTIL;
  }
  return o->is_stopping && o->is_stopping(o->user) ? TSR_TRAINING_END_STOPPED : 0;
}

static tsr_status plan_step(tsr_run *run, tsr_run_plan *plan)
{
  *plan = (tsr_run_plan){.reason = reason_to_end(run)};
  if (plan->reason == 0) {
    plan->decayed = decayed(run, run->progress.step + 1);
  }
  return tsr_run_agree(run, plan);
}

/* What the first rank does after an update. */
static tsr_status follow_up(tsr_run *run, tsr_training_run_step *row)
{
  const tsr_run_progress *p = &run->progress;
  TSR_TRY(report_step(run, row));
  int validates = run->valid && p->step % run->validate_every == 0;
  if (validates) {
    TSR_TRY(validate(run));
  }
  if (validates || p->step % run->save_every == 0) {
    double begin = tsr_seconds();
    TSR_TRY(tsr_run_save(run));
    run->window_start += tsr_seconds() - begin;
  }
  return TSR_OK;
}

/* 1 after a step that rank 0 validates or saves. */
static int is_due(const tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  const int has_validation = o->data->task || o->valid.source;
  return run->progress.step % run->save_every == 0 || (has_validation && run->progress.step % run->validate_every == 0);
}

/* One update, and what follows it. */
static tsr_status make_step(tsr_run *run, const tsr_run_plan *plan)
{
  tsr_training_run_step row = {0};
  int32_t updated;
  TSR_TRY(update(run, plan->decayed, &row, &updated));
  if (!updated) {
    return TSR_OK;
  }
  if (run->is_shared && run->progress.step % run->log_every == 0) {
    TSR_TRY(tsr_run_share_layers(run));
  }
  if (run->is_shared && run->progress.step % run->save_every == 0) {
    TSR_TRY(tsr_run_compare_parameters(run));
  }
  TSR_TRY(run->rank == 0 ? follow_up(run, &row) : TSR_OK);
  if (!is_due(run)) {
    return TSR_OK;
  }
  return run->rank == 0 ? tsr_run_end_service(run) : tsr_run_serve(run);
}

static tsr_status loop(tsr_run *run, int32_t *reason)
{
  tsr_run_plan plan;
  TSR_TRY(plan_step(run, &plan));
  while (plan.reason == 0) {
    TSR_TRY(make_step(run, &plan));
    TSR_TRY(plan_step(run, &plan));
  }
  *reason = plan.reason;
  return TSR_OK;
}

/* What the first rank does after the last update. */
static tsr_status end_loop(tsr_run *run, int32_t reason)
{
  const tsr_run_progress *p = &run->progress;
  if (p->step == 0 && reason == TSR_TRAINING_END_EPOCHS) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "the data end before the first update, which takes the gradients of %d batches (accumulate): "
                    "expected more pairs, more epochs, or fewer batches",
                    (int)run->accumulate);
  }
  if (run->valid && reason != TSR_TRAINING_END_STOPPED && p->validated_step != p->step && p->step > 0) {
    TSR_TRY(validate(run));
  }
  return run->saved_step == p->step ? TSR_OK : tsr_run_save(run);
}

/* The mean of the last states, and what it is worth. The trainer's parameters are overwritten. */
static tsr_status try_mean(tsr_run *run, tsr_training_run_validation *v)
{
  int32_t n_states;
  TSR_TRY(tsr_run_load_mean(run, &n_states));
  *v = (tsr_training_run_validation){.averaged = n_states};
  if (n_states == 0 || !run->valid) {
    return TSR_OK;
  }
  for (int32_t i = 0; i < run->n; i++) {
    TSR_TRY(tsr_trainer_write(run->trainer, TSR_TRAINED_PARAMETER, i, run->weights + run->offset[i],
                              run->offset[i + 1] - run->offset[i]));
  }
  TSR_TRY(tsr_run_validate(run, 0, v));
  v->averaged = n_states;
  v->is_best = !run->progress.has_best || tsr_run_score(run, v) > run->progress.best;
  return announce(run, v);
}

/* Chooses the parameters of the model that is written: the best that were validated; without validation the mean of the
 * last states, or the last. */
static tsr_status choose_weights(tsr_run *run, int32_t reason, tsr_training_run_result *result)
{
  tsr_training_run_validation mean = {0};
  if (run->options->average_last > 0 && reason != TSR_TRAINING_END_STOPPED) {
    TSR_TRY(try_mean(run, &mean));
  }
  if (mean.averaged > 0 && (mean.is_best || !run->valid)) {
    result->has_validation = run->valid != NULL;
    result->validation = mean;
    return TSR_OK;
  }
  if (run->progress.has_best) {
    result->has_validation = 1;
    return tsr_run_load_best(run, &result->validation);
  }
  return tsr_run_take_weights(run);
}

static void tell_memory(const tsr_run *run, tsr_training_run_result *result)
{
  tsr_trainer_memory memory;
  tsr_trainer_get_memory(run->trainer, &memory);
  result->state_bytes = memory.state_bytes;
  result->temporary_bytes = memory.temporary_bytes;
  result->planned_bytes = memory.planned_bytes;
  result->programs = memory.programs;
}

/* The first rank's model. */
static tsr_status write_model(tsr_run *run, tsr_training_run_result *result)
{
  const tsr_training_run_options *o = run->options;
  const tsr_run_progress *p = &run->progress;
  tsr_training_data_get_counts(run->data, &result->counts);
  TSR_TRY(choose_weights(run, result->reason, result));
  TSR_TRY(tsr_run_end_service(run));
  result->seconds = tsr_seconds() - run->start;
  result->loss = p->tokens > 0 && isnan(p->row_loss) ? p->loss / (double)p->tokens : p->row_loss;
  return tsr_run_write_model(run, o->folder, o->storage, o->saved_beam);
}

static tsr_status train(tsr_run *run, tsr_training_run_result *result)
{
  const tsr_run_progress *p = &run->progress;
  run->can_go_on = 1;
  TSR_TRY(open_run(run));
  TSR_TRY(loop(run, &result->reason));
  TSR_TRY(run->rank == 0 ? end_loop(run, result->reason) : tsr_run_serve(run));
  tell_memory(run, result);
  result->step = p->step;
  result->epoch = p->epoch;
  result->skipped = p->skipped;
  return run->rank == 0 ? write_model(run, result) : TSR_OK;
}

/* Rows are filled up with ids that count for nothing, but have to be in the vocabulary. */
static int32_t padding(int32_t pad_id, int32_t vocabulary)
{
  return pad_id >= 0 && pad_id < vocabulary ? pad_id : 0;
}

tsr_status tsr_training_run_sized(const tsr_model *model, tsr_device *device, tsr_device *fallback,
                                  const tsr_training_run_options *options, tsr_training_run_result *result, size_t size)
{
  if (!model || !device || !options || !result) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_run: no argument but the fallback may be NULL");
  }
  known_options known;
  tsr_training_run_result found = {0};
  tsr_sized_fill(&found, sizeof found, result, size);
  TSR_TRY(read_options(options, &known));
  const tsr_transformer_config *config = tsr_model_config(model);
  if ((config->mels > 0) != (known.data.sounds != NULL)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "a model of speech is trained on sounds, and another model is not: the model of "
                    "this run reads %s",
                    config->mels > 0 ? "sound" : "text");
  }
  known.sounds.mels = config->mels;
  known.sounds.positions = config->source_positions;
  known.data.decoder_start_id = config->decoder_start_id;
  known.data.source_pad_id = padding(config->pad_id, config->source_vocabulary);
  known.data.target_pad_id = padding(config->pad_id, config->target_vocabulary);
  tsr_run run = {.model = model, .device = device, .fallback = fallback, .options = &known.run};
  tsr_status status = train(&run, &found);
  close_run(&run);
  tsr_sized_fill(&found, sizeof found, result, size);
  return status;
}
