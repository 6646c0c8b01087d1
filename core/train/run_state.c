/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints of a run. last.safetensors holds everything; best.safetensors and step-N.safetensors hold the
 * parameters of a candidate, which is all that is read from them.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/checkpoint.h"
#include "core/train/run_parts.h"
#include "core/train/step.h"
#include "core/transformer/model.h"

enum { NAME_ROOM = TSR_PARAMETER_NAME_ROOM };

/* The tensors of a state. kinds: how many of TSR_TRAINED_*, from the first. */
typedef struct tensor_list {
  tsr_state_tensor *tensors; /* [kinds * n]; those of a kind follow one another */
  char *names;
  int32_t n;
} tensor_list;

static void finish_list(tensor_list *list)
{
  free(list->tensors);
  free(list->names);
  *list = (tensor_list){0};
}

static tsr_status make_list(const tsr_run *run, int32_t kinds, tensor_list *list)
{
  list->n = kinds * run->n;
  list->tensors = calloc((size_t)list->n + 1, sizeof *list->tensors);
  list->names = calloc((size_t)list->n + 1, NAME_ROOM);
  if (!list->tensors || !list->names) {
    finish_list(list);
    return tsr_fail_memory((size_t)list->n * NAME_ROOM);
  }
  for (int32_t i = 0; i < list->n; i++) {
    const tsr_parameter *parameter = &run->model->parameters.items[i % run->n];
    char *name = list->names + (size_t)i * NAME_ROOM;
    list->tensors[i] =
        (tsr_state_tensor){.name = tsr_trained_name(name, parameter->name, i / run->n), .shape = parameter->shape};
  }
  return TSR_OK;
}

/* How many kinds last.safetensors has. */
static int32_t kinds_of(const tsr_run *run)
{
  return run->options->training->average ? TSR_TRAINED_COUNT : TSR_TRAINED_AVERAGE;
}

/* tsr_state_source_fn, tsr_state_sink_fn: the trainer's */
static tsr_status read_trainer(void *context, int32_t index, float *elements, int64_t n)
{
  tsr_run *run = context;
  return tsr_run_read_kept(run, index / run->n, index % run->n, elements, n);
}

static tsr_status write_trainer(void *context, int32_t index, const float *elements, int64_t n)
{
  tsr_run *run = context;
  return tsr_run_write_kept(run, index / run->n, index % run->n, elements, n);
}

/* The same: run->weights. */
static tsr_status read_weights(void *context, int32_t index, float *elements, int64_t n)
{
  const tsr_run *run = context;
  memcpy(elements, run->weights + run->offset[index], (size_t)n * sizeof *elements);
  return TSR_OK;
}

static tsr_status write_weights(void *context, int32_t index, const float *elements, int64_t n)
{
  tsr_run *run = context;
  memcpy(run->weights + run->offset[index], elements, (size_t)n * sizeof *elements);
  return TSR_OK;
}

tsr_status tsr_run_take_weights(tsr_run *run)
{
  int32_t what = run->options->training->average ? TSR_TRAINED_AVERAGE : TSR_TRAINED_PARAMETER;
  for (int32_t i = 0; i < run->n; i++) {
    TSR_TRY(tsr_run_read_kept(run, what, i, run->weights + run->offset[i], run->offset[i + 1] - run->offset[i]));
  }
  return TSR_OK;
}

/* ---- scalars ----------------------------------------------------------------------------------------------------- */

/* Every number of tsr_run_progress, whole ones and others, by its name. */
typedef struct number {
  const char *name;
  int64_t *whole;
  double *real;
  int32_t *small;
} number;

enum { MAX_NUMBERS = 40 };

static int32_t list_numbers(tsr_run_progress *p, number *numbers)
{
  tsr_training_data_position *at = &p->position;
  const number all[] = {
      {"step", &p->step, NULL, NULL},
      {"skipped", &p->skipped, NULL, NULL},
      {"epoch", &p->epoch, NULL, NULL},
      {"seconds", NULL, &p->seconds, NULL},
      {"scale", NULL, &p->scale, NULL},
      {"good", &p->good, NULL, NULL},
      {"warm_seconds", NULL, &p->warm_seconds, NULL},
      {"loss", NULL, &p->loss, NULL},
      {"tokens", &p->tokens, NULL, NULL},
      {"row_loss", NULL, &p->row_loss, NULL},
      {"has_best", NULL, NULL, &p->has_best},
      {"best", NULL, &p->best, NULL},
      {"best_step", &p->best_step, NULL, NULL},
      {"waiting", NULL, NULL, &p->waiting},
      {"validated_step", &p->validated_step, NULL, NULL},
      {"position.epoch", &at->epoch, NULL, NULL},
      {"position.pool", &at->pool, NULL, NULL},
      {"position.source", &at->corpus.source, NULL, NULL},
      {"position.target", &at->corpus.target, NULL, NULL},
      {"position.number", &at->corpus.number, NULL, NULL},
      {"position.batch", &at->batch, NULL, NULL},
      {"position.index", &at->index, NULL, NULL},
      {"log.csv", &p->log_sizes[0], NULL, NULL},
      {"log.jsonl", &p->log_sizes[1], NULL, NULL},
      {"layers.csv", &p->log_sizes[2], NULL, NULL},
  };
  memcpy(numbers, all, sizeof all);
  return (int32_t)(sizeof all / sizeof all[0]);
}

/* NaN is null. NULL without memory. */
static json_t *describe_progress(tsr_run_progress *p)
{
  number numbers[MAX_NUMBERS];
  int32_t n = list_numbers(p, numbers);
  json_t *root = json_object();
  int failed = !root;
  for (int32_t i = 0; i < n && !failed; i++) {
    const number *at = &numbers[i];
    json_t *value = at->whole             ? json_integer((json_int_t)*at->whole)
                    : at->small           ? json_integer((json_int_t)*at->small)
                    : isfinite(*at->real) ? json_real(*at->real)
                                          : json_null();
    failed = json_object_set_new(root, at->name, value) != 0;
  }
  if (failed) {
    json_decref(root);
    return NULL;
  }
  return root;
}

static tsr_status read_progress(const char *path, const json_t *root, tsr_run_progress *p)
{
  number numbers[MAX_NUMBERS];
  int32_t n = list_numbers(p, numbers);
  for (int32_t i = 0; i < n; i++) {
    const number *at = &numbers[i];
    const json_t *value = json_object_get(root, at->name);
    int fits = at->real ? json_is_number(value) || json_is_null(value) : json_is_integer(value);
    if (!fits) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: the state of a training lacks '%s': it was written by another version", path,
                      at->name);
    }
    if (at->whole) {
      *at->whole = (int64_t)json_integer_value(value);
    } else if (at->small) {
      *at->small = (int32_t)json_integer_value(value);
    } else {
      *at->real = json_is_null(value) ? (double)NAN : json_number_value(value);
    }
  }
  return TSR_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* step: as for tsr_training_path. Takes `scalars`, NULL being a failed allocation. */
static tsr_status save_state(tsr_run *run, int64_t step, int32_t kinds, json_t *scalars, tsr_state_source_fn read)
{
  tensor_list list = {0};
  char *path = tsr_training_path(run->folder, step);
  tsr_status status = !path ? TSR_ERR_OUT_OF_MEMORY : !scalars ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
  if (status == TSR_OK) {
    status = make_list(run, kinds, &list);
  }
  if (status == TSR_OK) {
    status = tsr_training_save(path, list.tensors, list.n, scalars, read, run);
  }
  finish_list(&list);
  json_decref(scalars);
  free(path);
  return status;
}

/* States whose mean may be taken in the end, and those that somebody wants to keep. */
static int32_t states_kept(const tsr_run *run)
{
  int32_t last = run->options->average_last, keep = run->options->keep;
  return last > keep ? last : keep;
}

tsr_status tsr_run_save(tsr_run *run)
{
  int32_t kept = states_kept(run);
  TSR_TRY(tsr_run_log_sync(&run->log, run->progress.log_sizes));
  run->progress.seconds = tsr_seconds() - run->start;
  if (kept > 0 && run->progress.step > 0 && run->progress.step % run->save_every == 0) {
    json_t *scalars = json_pack("{s:I}", "step", (json_int_t)run->progress.step);
    TSR_TRY(save_state(run, run->progress.step, 1, scalars, read_trainer));
  }
  TSR_TRY(save_state(run, TSR_TRAINING_LAST, kinds_of(run), describe_progress(&run->progress), read_trainer));
  run->saved_step = run->progress.step;
  return tsr_training_prune(run->folder, kept);
}

static json_t *real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

tsr_status tsr_run_save_best(tsr_run *run, const tsr_training_run_validation *v)
{
  json_t *scalars =
      json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "step", (json_int_t)v->step, "epoch", (json_int_t)v->epoch, "seconds",
                real(v->seconds), "loss", real(v->loss), "bleu", real(v->bleu), "exact", real(v->exact));
  return save_state(run, TSR_TRAINING_BEST, 1, scalars, read_weights);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static tsr_status load_state(tsr_run *run, const char *path, int32_t kinds, tsr_state_sink_fn write, json_t **scalars)
{
  tensor_list list = {0};
  TSR_TRY(make_list(run, kinds, &list));
  tsr_status status = tsr_training_load(path, list.tensors, list.n, write, run, scalars);
  finish_list(&list);
  return status;
}

/* A run whose best.safetensors somebody removed begins to compare anew. */
static tsr_status find_best(tsr_run *run)
{
  tsr_run_progress *p = &run->progress;
  char *path = tsr_training_path(run->folder, TSR_TRAINING_BEST);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  if (p->has_best && !tsr_path_exists(path)) {
    p->has_best = 0;
    p->waiting = 0;
    p->validated_step = -1;
  }
  free(path);
  return TSR_OK;
}

/* What was written after the checkpoint will be written again. */
static tsr_status remove_later(const tsr_run *run)
{
  int64_t *steps;
  int32_t n_steps;
  tsr_status status = tsr_training_steps(run->folder, &steps, &n_steps);
  for (int32_t i = 0; i < n_steps && status == TSR_OK; i++) {
    char *path = steps[i] > run->progress.step ? tsr_training_path(run->folder, steps[i]) : NULL;
    if (path && unlink(path) != 0 && errno != ENOENT) {
      status = tsr_fail(TSR_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    }
    free(path);
  }
  free(steps);
  return status;
}

tsr_status tsr_run_load(tsr_run *run, int32_t *found)
{
  *found = 0;
  char *path = tsr_training_path(run->folder, TSR_TRAINING_LAST);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  json_t *scalars = NULL;
  tsr_status status = TSR_OK;
  if (tsr_path_exists(path)) {
    status = load_state(run, path, kinds_of(run), write_trainer, &scalars);
    if (status == TSR_OK) {
      status = read_progress(path, scalars, &run->progress);
    }
    *found = status == TSR_OK;
  }
  json_decref(scalars);
  free(path);
  if (status == TSR_OK) {
    status = find_best(run);
  }
  if (status == TSR_OK) {
    status = remove_later(run);
  }
  /* Whoever wrote the last state may have come to its end before it removed the earlier ones. */
  return status == TSR_OK && *found ? tsr_training_prune(run->folder, states_kept(run)) : status;
}

static double read_real(const json_t *root, const char *name)
{
  const json_t *value = json_object_get(root, name);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

tsr_status tsr_run_load_best(tsr_run *run, tsr_training_run_validation *v)
{
  char *path = tsr_training_path(run->folder, TSR_TRAINING_BEST);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  json_t *scalars = NULL;
  tsr_status status = load_state(run, path, 1, write_weights, &scalars);
  if (status == TSR_OK) {
    *v = (tsr_training_run_validation){.step = (int64_t)json_integer_value(json_object_get(scalars, "step")),
                                       .epoch = (int64_t)json_integer_value(json_object_get(scalars, "epoch")),
                                       .seconds = read_real(scalars, "seconds"),
                                       .loss = read_real(scalars, "loss"),
                                       .bleu = read_real(scalars, "bleu"),
                                       .exact = read_real(scalars, "exact"),
                                       .is_best = 1};
    v->perplexity = exp(v->loss);
  }
  json_decref(scalars);
  free(path);
  return status;
}

static tsr_status load_mean(tsr_run *run, const int64_t *steps, int32_t n)
{
  tensor_list list = {0};
  char **paths = calloc((size_t)n, sizeof *paths);
  tsr_status status = paths ? make_list(run, 1, &list) : tsr_fail_memory((size_t)n * sizeof *paths);
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    paths[i] = tsr_training_path(run->folder, steps[i]);
    status = paths[i] ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  }
  if (status == TSR_OK) {
    status = tsr_training_average((const char *const *)paths, n, list.tensors, list.n, write_weights, run);
  }
  for (int32_t i = 0; paths && i < n; i++) {
    free(paths[i]);
  }
  free(paths);
  finish_list(&list);
  return status;
}

tsr_status tsr_run_load_mean(tsr_run *run, int32_t *n_states)
{
  int64_t *steps;
  int32_t n_steps;
  *n_states = 0;
  TSR_TRY(tsr_training_steps(run->folder, &steps, &n_steps));
  int32_t n = n_steps < run->options->average_last ? n_steps : run->options->average_last;
  tsr_status status = n > 0 ? load_mean(run, steps + (n_steps - n), n) : TSR_OK;
  *n_states = status == TSR_OK ? n : 0;
  free(steps);
  return status;
}
