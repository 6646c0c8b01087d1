/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a model on a device, and the programs that train them: one for each kind and extents, compiled when
 * they are first needed, with one arena for the temporaries of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/train/step.h"
#include "core/train/trainer.h"
#include "core/train/trainer_parts.h"
#include "core/transformer/positions.h"

/* ---- states ------------------------------------------------------------------------------------------------------ */

int64_t tsr_trainer_elements(const tsr_trainer *t, int32_t index)
{
  return tsr_shape_elements(&t->model->parameters.items[index].shape);
}

/* 1 for a state of which the trainer has its share alone. */
static int is_shared_out(const tsr_trainer *t, int32_t what)
{
  return what == TSR_TRAINED_M || what == TSR_TRAINED_V || (what == TSR_TRAINED_AVERAGE && t->rank > 0);
}

int32_t tsr_trainer_share(const tsr_trainer *trainer, int32_t rank)
{
  int32_t index = 0;
  while (index < trainer->n && trainer->offset[index] < trainer->offset[trainer->n] / trainer->size * rank) {
    index++;
  }
  return rank == trainer->size ? trainer->n : index;
}

int64_t tsr_trainer_share_first(const tsr_trainer *trainer, int32_t rank)
{
  return trainer->offset[tsr_trainer_share(trainer, rank)] / (int64_t)sizeof(float);
}

int32_t tsr_trainer_owner(const tsr_trainer *trainer, int32_t index)
{
  int32_t rank = 0;
  while (tsr_trainer_share(trainer, rank + 1) <= index) {
    rank++;
  }
  return rank;
}

/* Where a kind of state begins in the array of all parameters, and ends, in bytes. */
static int64_t state_begin(const tsr_trainer *t, int32_t what)
{
  return is_shared_out(t, what) ? t->offset[tsr_trainer_share(t, t->rank)] : 0;
}

static int64_t state_end(const tsr_trainer *t, int32_t what)
{
  return t->offset[is_shared_out(t, what) ? tsr_trainer_share(t, t->rank + 1) : t->n];
}

tsr_status tsr_trainer_make_state(tsr_trainer *t, int32_t what)
{
  if (what == TSR_TRAINED_SUM && t->buckets.n > 0) {
    return TSR_OK;
  }
  const int64_t bytes = state_end(t, what) - state_begin(t, what);
  return t->state[what] ? TSR_OK : tsr_buffer_create(t->device, bytes, TSR_BUFFER_DEVICE, &t->state[what]);
}

static tsr_status lay_out(tsr_trainer *t)
{
  t->alignment = tsr_device_get_properties(t->device)->buffer_alignment;
  if (t->alignment < 16) {
    t->alignment = 16;
  }
  t->offset = calloc((size_t)t->n + 1, sizeof *t->offset);
  if (!t->offset) {
    return tsr_fail_memory(((size_t)t->n + 1) * sizeof *t->offset);
  }
  for (int32_t i = 0; i < t->n; i++) {
    int64_t size = tsr_trainer_elements(t, i) * (int64_t)sizeof(float);
    t->offset[i + 1] = t->offset[i] + (size + t->alignment - 1) / t->alignment * t->alignment;
  }
  return TSR_OK;
}

/* Room for the largest parameter. *values is the caller's. */
tsr_status tsr_trainer_room(const tsr_trainer *t, float **values)
{
  int64_t largest = 0;
  for (int32_t i = 0; i < t->n; i++) {
    int64_t elements = tsr_trainer_elements(t, i);
    largest = elements > largest ? elements : largest;
  }
  *values = malloc((size_t)(largest + 1) * sizeof **values);
  return *values ? TSR_OK : tsr_fail_memory((size_t)largest * sizeof **values);
}

/* The parameters as the model's folder has them, without one its constants alone; the averages begin with the same. */
static tsr_status read_model(tsr_trainer *t)
{
  float *values;
  tsr_status status = tsr_trainer_room(t, &values);
  for (int32_t i = 0; i < t->n && status == TSR_OK; i++) {
    const tsr_parameter *parameter = &t->model->parameters.items[i];
    if (!parameter->is_constant && !tsr_model_has_weights(t->model)) {
      continue;
    }
    status = tsr_parameter_read(parameter, 0, tsr_trainer_elements(t, i), TSR_F32, values);
    if (status == TSR_OK) {
      status =
          tsr_parameter_check(parameter, TSR_F32, tsr_largest_magnitude(TSR_F32, values, tsr_trainer_elements(t, i)));
      status = tsr_fail_context(status, "%s", parameter->name);
    }
    if (status == TSR_OK) {
      status = tsr_trainer_write(t, TSR_TRAINED_PARAMETER, i, values, tsr_trainer_elements(t, i));
    }
    if (status == TSR_OK && t->options.average && t->rank == 0) {
      status = tsr_trainer_write(t, TSR_TRAINED_AVERAGE, i, values, tsr_trainer_elements(t, i));
    }
  }
  free(values);
  return status;
}

static tsr_status create(tsr_trainer *t, const tsr_training_options *options)
{
  TSR_TRY(tsr_training_options_complete(options, &t->options));
  TSR_TRY(lay_out(t));
  TSR_TRY(tsr_trainer_make_state(t, TSR_TRAINED_PARAMETER));
  TSR_TRY(tsr_trainer_make_state(t, TSR_TRAINED_M));
  TSR_TRY(tsr_trainer_make_state(t, TSR_TRAINED_V));
  if (t->options.average) {
    TSR_TRY(tsr_trainer_make_state(t, TSR_TRAINED_AVERAGE));
  }
  TSR_TRY(tsr_positions_upload(&t->model->config, t->device, &t->positions));
  if (t->options.statistics) {
    t->n_layers = t->model->config.encoder_layers + t->model->config.decoder_layers;
    t->layers = calloc((size_t)t->n_layers + 1, sizeof *t->layers);
    if (!t->layers) {
      return tsr_fail_memory((size_t)t->n_layers * sizeof *t->layers);
    }
  }
  return read_model(t);
}

tsr_status tsr_trainer_create(const tsr_model *model, tsr_device *device, const tsr_training_options *options,
                              tsr_device *fallback, tsr_trainer **trainer)
{
  return tsr_trainer_create_share(model, device, options, fallback, 0, 1, 0, trainer);
}

tsr_status tsr_trainer_create_share(const tsr_model *model, tsr_device *device, const tsr_training_options *options,
                                    tsr_device *fallback, int32_t rank, int32_t size, int64_t bucket,
                                    tsr_trainer **trainer)
{
  if (!model || !device || !trainer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_create: model, device and trainer must not be NULL");
  }
  *trainer = NULL;
  TSR_TRY(tsr_training_check_model(model));
  tsr_trainer *t = calloc(1, sizeof *t);
  if (!t) {
    return tsr_fail_memory(sizeof *t);
  }
  t->model = model;
  t->device = device;
  t->fallback = fallback;
  t->n = model->parameters.n;
  t->rank = rank;
  t->size = size;
  tsr_status status = create(t, options);
  if (status == TSR_OK && bucket > 0) {
    status = tsr_trainer_make_buckets(t, bucket);
  }
  if (status != TSR_OK) {
    tsr_trainer_destroy(t);
    return status;
  }
  *trainer = t;
  return TSR_OK;
}

void tsr_compiled_finish(tsr_compiled *program)
{
  tsr_executable_destroy(program->executable);
  free(program->layers);
  free(program->whole);
  free(program->cuts);
}

static void drop_programs(tsr_trainer *t)
{
  for (int32_t i = 0; i < t->n_programs; i++) {
    tsr_compiled_finish(&t->programs[i]);
  }
  t->n_programs = 0;
}

static void drop_arena(tsr_trainer *t)
{
  for (int32_t i = 0; i < t->n_pieces; i++) {
    tsr_buffer_destroy(t->arena[i]);
  }
  free(t->arena);
  t->arena = NULL;
  t->n_pieces = 0;
}

void tsr_trainer_destroy(tsr_trainer *trainer)
{
  if (!trainer) {
    return;
  }
  drop_programs(trainer);
  for (int32_t i = 0; i <= TSR_TRAINED_SUM; i++) {
    tsr_buffer_destroy(trainer->state[i]);
  }
  tsr_trainer_finish_buckets(trainer);
  tsr_buffer_destroy(trainer->positions);
  drop_arena(trainer);
  free(trainer->offset);
  free(trainer->layers);
  free(trainer);
}

/* Where a copy of a parameter's state goes; NULL after an error. */
static tsr_buffer *state_of(const tsr_trainer *t, int32_t what, int32_t index, const float *values, int64_t n)
{
  if (what < 0 || what >= TSR_TRAINED_COUNT || index < 0 || index >= t->n || !values) {
    (void)tsr_fail(TSR_ERR_ARGUMENT, "a trainer has %d parameters; it was asked for part %d of parameter %d", (int)t->n,
                   (int)what, (int)index);
    return NULL;
  }
  if (!t->state[what]) {
    (void)tsr_fail(TSR_ERR_ARGUMENT, "the trainer was made without averages");
    return NULL;
  }
  if (n != tsr_trainer_elements(t, index)) {
    (void)tsr_fail(TSR_ERR_ARGUMENT, "the parameter %s has %lld elements, not %lld",
                   t->model->parameters.items[index].name, (long long)tsr_trainer_elements(t, index), (long long)n);
    return NULL;
  }
  if (t->offset[index] < state_begin(t, what) || t->offset[index + 1] > state_end(t, what)) {
    (void)tsr_fail(TSR_ERR_ARGUMENT, "part %d of the parameter %s is that of rank %d, and this is rank %d", (int)what,
                   t->model->parameters.items[index].name, (int)tsr_trainer_owner(t, index), (int)t->rank);
    return NULL;
  }
  return t->state[what];
}

tsr_status tsr_trainer_read(tsr_trainer *trainer, int32_t what, int32_t index, float *values, int64_t n)
{
  tsr_buffer *state = state_of(trainer, what, index, values, n);
  return state ? tsr_buffer_read(state, trainer->offset[index] - state_begin(trainer, what),
                                 n * (int64_t)sizeof *values, values)
               : TSR_ERR_ARGUMENT;
}

tsr_status tsr_trainer_write(tsr_trainer *trainer, int32_t what, int32_t index, const float *values, int64_t n)
{
  tsr_buffer *state = state_of(trainer, what, index, values, n);
  return state ? tsr_buffer_write(state, trainer->offset[index] - state_begin(trainer, what),
                                  n * (int64_t)sizeof *values, values)
               : TSR_ERR_ARGUMENT;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static tsr_status bind(tsr_trainer *t, const tsr_compiled *entry, const tsr_program *program, tsr_binding *bindings,
                       int32_t *n)
{
  *n = 0;
  for (int32_t i = 0; i < t->n; i++) {
    for (int32_t what = 0; what <= TSR_TRAINED_SUM; what++) {
      char name[TSR_PARAMETER_NAME_ROOM];
      tsr_ref state = tsr_program_find(program, tsr_trained_name(name, t->model->parameters.items[i].name, what));
      if (state == TSR_NONE) {
        continue;
      }
      if (what == TSR_TRAINED_SUM && t->buckets.n > 0) {
        bindings[(*n)++] =
            (tsr_binding){.tensor = state, .buffer = t->buckets.sums[t->buckets.of[i]], .offset = t->buckets.offset[i]};
        continue;
      }
      int32_t kept = entry->averaged && what == TSR_TRAINED_PARAMETER ? TSR_TRAINED_AVERAGE : what;
      TSR_TRY(tsr_trainer_make_state(t, kept));
      bindings[(*n)++] =
          (tsr_binding){.tensor = state, .buffer = t->state[kept], .offset = t->offset[i] - state_begin(t, kept)};
    }
  }
  tsr_ref positions = tsr_program_find(program, TSR_POSITIONS_NAME);
  if (positions != TSR_NONE) {
    bindings[(*n)++] = (tsr_binding){.tensor = positions, .buffer = t->positions};
  }
  return TSR_OK;
}

/* An arena of so many bytes, in pieces of `piece` bytes; none after an error. */
static tsr_status make_arena(tsr_trainer *t, int64_t bytes, int64_t piece)
{
  const int64_t n = bytes > piece ? (bytes + piece - 1) / piece : 1;
  t->arena = calloc((size_t)n, sizeof *t->arena);
  if (!t->arena) {
    return tsr_fail_memory((size_t)n * sizeof *t->arena);
  }
  tsr_status status = TSR_OK;
  while (t->n_pieces < n && status == TSR_OK) {
    const int64_t left = bytes - t->n_pieces * piece;
    status = tsr_buffer_create(t->device, left < piece ? left : piece, TSR_BUFFER_DEVICE, &t->arena[t->n_pieces]);
    t->n_pieces += status == TSR_OK;
  }
  if (status != TSR_OK) {
    drop_arena(t);
  }
  return status;
}

/* The bytes of an arena for the program, divided as the trainer's is. */
static tsr_status measure(tsr_trainer *t, const tsr_program *program, int64_t piece, int64_t *bytes)
{
  if (piece > 0) {
    return tsr_device_measure_pieces(t->device, program, t->alignment, piece, bytes);
  }
  tsr_program_statistics statistics;
  TSR_TRY(tsr_device_measure(t->device, program, t->alignment, &statistics));
  if (statistics.planned_bytes > t->planned_bytes) {
    t->planned_bytes = statistics.planned_bytes;
    t->temporary_bytes = statistics.temporary_bytes;
  }
  *bytes = statistics.planned_bytes;
  if (t->buckets.n > 1) { /* fewer lines of a program with cuts are computed as one */
    TSR_TRY(tsr_program_measure(program, t->alignment, &statistics));
    *bytes = statistics.planned_bytes > *bytes ? statistics.planned_bytes : *bytes;
  }
  return TSR_OK;
}

/* Makes the arena large enough for a program: in one buffer where the device gives that, else in as many as it takes of
 * what the device promises. */
static tsr_status make_room(tsr_trainer *t, const tsr_program *program)
{
  int64_t bytes, in_pieces, have = 0;
  TSR_TRY(measure(t, program, 0, &bytes));
  const int64_t first = t->n_pieces > 1 ? tsr_buffer_size(t->arena[0]) : 0;
  for (int32_t i = 0; i < t->n_pieces; i++) {
    have += tsr_buffer_size(t->arena[i]);
  }
  if (t->n_pieces == 1 && have >= bytes) {
    return TSR_OK;
  }
  if (t->n_pieces > 1) {
    TSR_TRY(measure(t, program, first, &in_pieces));
    if (have >= in_pieces) {
      return TSR_OK;
    }
  }
  drop_programs(t);
  drop_arena(t);
  tsr_status status = make_arena(t, bytes, bytes);
  const uint64_t promised = tsr_device_get_properties(t->device)->promised_buffer_size;
  const int64_t piece = (int64_t)(promised - promised % (uint64_t)t->alignment);
  if (status == TSR_ERR_DEVICE_MEMORY && piece > 0 && piece < bytes) {
    TSR_TRY(measure(t, program, piece, &in_pieces));
    status = make_arena(t, in_pieces, piece);
  }
  return status;
}

static void find_refs(tsr_compiled *entry, const tsr_program *program)
{
  const struct {
    const char *name;
    tsr_ref *ref;
  } refs[] = {{"source", &entry->source},     {"source_lengths", &entry->source_lengths},
              {"features", &entry->features}, {"target", &entry->target},
              {"labels", &entry->labels},     {"seed", &entry->seed},
              {"scale", &entry->scale},       {"control", &entry->control},
              {"loss", &entry->loss},         {"norm", &entry->norm}};
  for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++) {
    *refs[i].ref = tsr_program_find(program, refs[i].name);
  }
}

static tsr_status find_layers(const tsr_trainer *t, tsr_compiled *entry, const tsr_program *program)
{
  static const char *const outputs[TSR_LAYER_OUTPUTS] = {"sum", "squares", "norm"};
  if (t->n_layers == 0 || entry->kind == TSR_STEP_EVALUATE || entry->kind == TSR_STEP_APPLY) {
    return TSR_OK;
  }
  entry->layers = calloc((size_t)t->n_layers * TSR_LAYER_OUTPUTS, sizeof *entry->layers);
  if (!entry->layers) {
    return tsr_fail_memory((size_t)t->n_layers * TSR_LAYER_OUTPUTS * sizeof *entry->layers);
  }
  for (int32_t i = 0; i < t->n_layers * TSR_LAYER_OUTPUTS; i++) {
    char layer[64], name[96];
    tsr_step_layer_name(&t->model->config, i / TSR_LAYER_OUTPUTS, layer, sizeof layer);
    snprintf(name, sizeof name, "%s.%s", layer, outputs[i % TSR_LAYER_OUTPUTS]);
    entry->layers[i] = tsr_program_find(program, name);
  }
  return TSR_OK;
}

tsr_status tsr_trainer_compile(tsr_trainer *t, tsr_compiled *entry, const tsr_program *program, int32_t keep_all)
{
  TSR_TRY(make_room(t, program));
  int32_t room = t->n * (TSR_TRAINED_SUM + 1) + 1, n;
  tsr_binding *bindings = calloc((size_t)room, sizeof *bindings);
  tsr_status status = bindings ? TSR_OK : tsr_fail_memory((size_t)room * sizeof *bindings);
  if (status == TSR_OK) {
    status = bind(t, entry, program, bindings, &n);
  }
  if (status == TSR_OK && entry->kind == TSR_STEP_SHARE) {
    status = tsr_trainer_find_cuts(t, program, entry);
  }
  if (status == TSR_OK) {
    tsr_compile_options options = {
        TSR_SIZED(tsr_compile_options), .bindings = bindings,    .n_bindings = n,    .fallback = t->fallback,
        .keep_all = keep_all,           .n_cuts = entry->n_cuts, .cuts = entry->cuts};
    if (!keep_all) {
      options.arena = t->arena[0];
      options.arena_rest = t->arena + 1;
      options.n_arena_rest = t->n_pieces - 1;
    }
    status = tsr_executable_create(t->device, program, &options, &entry->executable);
  }
  free(bindings);
  find_refs(entry, program);
  return status == TSR_OK ? find_layers(t, entry, program) : status;
}

/* A free place for one more program. */
static tsr_compiled *free_entry(tsr_trainer *t)
{
  if (t->n_programs < TSR_TRAINER_PROGRAMS) {
    return &t->programs[t->n_programs++];
  }
  tsr_compiled *oldest = &t->programs[0];
  for (int32_t i = 1; i < t->n_programs; i++) {
    if (t->programs[i].used < oldest->used) {
      oldest = &t->programs[i];
    }
  }
  tsr_compiled_finish(oldest);
  return oldest;
}

tsr_status tsr_trainer_program(tsr_trainer *t, int32_t kind, int32_t averaged, const tsr_program_size *size,
                               tsr_compiled **found)
{
  for (int32_t i = 0; i < t->n_programs; i++) {
    tsr_compiled *entry = &t->programs[i];
    if (entry->kind == kind && entry->averaged == averaged && entry->size.batch == size->batch &&
        entry->size.source == size->source && entry->size.target == size->target) {
      entry->used = ++t->calls;
      *found = entry;
      return TSR_OK;
    }
  }
  tsr_program *program = NULL;
  tsr_compiled made = {.kind = kind, .averaged = averaged, .size = *size, .used = ++t->calls};
  TSR_TRY(kind == TSR_STEP_APPLY ? tsr_step_apply_program(t->model, &t->options, tsr_trainer_share(t, t->rank),
                                                          tsr_trainer_share(t, t->rank + 1), &program)
                                 : tsr_training_program(t->model, &t->options, kind, size, &program));
  tsr_status status = tsr_trainer_compile(t, &made, program, 0);
  tsr_program_destroy(program);
  if (status != TSR_OK) {
    tsr_compiled_finish(&made);
    return status;
  }
  *found = free_entry(t);
  **found = made;
  return TSR_OK;
}
