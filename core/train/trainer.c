/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a model on a device, and the programs that train them: one for each kind and extents, compiled when
 * they are first needed, with one arena for the temporaries of all.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/runtime/fault.h"
#include "core/train/step.h"
#include "core/transformer/positions.h"

enum {
  MAX_PROGRAMS = 256,       /* kept compiled */
  SUMS = TSR_TRAINED_COUNT, /* of gradients: one more kind of what is kept */
  LAYER_OUTPUTS = 3         /* sum, squares, norm */
};

/* A compiled program. Refs that its kind does not have are TSR_NONE. */
typedef struct compiled {
  int32_t kind;
  int32_t averaged; /* 1: its parameters are the averages */
  tsr_program_size size;
  tsr_executable *executable;
  uint64_t used; /* when it was asked for last, in calls */
  tsr_ref source, source_lengths, target, labels, seed, scale, control;
  tsr_ref loss, norm;
  tsr_ref *layers; /* [layers][LAYER_OUTPUTS]; NULL without statistics */
} compiled;

struct tsr_trainer {
  const tsr_model *model;
  tsr_device *device;
  tsr_device *fallback; /* or NULL */
  tsr_training_options options;
  int32_t n;                   /* parameters */
  int64_t *offset;             /* [n + 1]: bytes, of each in the buffers below; the last: their size */
  tsr_buffer *state[SUMS + 1]; /* by TSR_TRAINED_*; NULL: not kept (yet) */
  tsr_buffer *positions;       /* the computed table, or NULL */
  tsr_buffer **arena;          /* [n_pieces], all of one size but for the last */
  int32_t n_pieces;
  int64_t alignment;
  compiled programs[MAX_PROGRAMS];
  int32_t n_programs;
  uint64_t calls;
  int64_t temporary_bytes, planned_bytes; /* of the largest program so far */
  int64_t summed_tokens;                  /* of the batches whose gradients are in the sums */
  int32_t n_summed;
  int32_t is_spoiled; /* 1: the loss of one of these batches was not finite, which their gradients need not tell */
  int32_t n_layers;
  tsr_layer_statistics *layers; /* [n_layers] */
};

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int64_t elements_of(const tsr_trainer *t, int32_t index)
{
  return tsr_shape_elements(&t->model->parameters.items[index].shape);
}

static tsr_status make_state(tsr_trainer *t, int32_t what)
{
  return t->state[what] ? TSR_OK : tsr_buffer_create(t->device, t->offset[t->n], TSR_BUFFER_DEVICE, &t->state[what]);
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
    int64_t size = elements_of(t, i) * (int64_t)sizeof(float);
    t->offset[i + 1] = t->offset[i] + (size + t->alignment - 1) / t->alignment * t->alignment;
  }
  return TSR_OK;
}

/* Room for the largest parameter. *values is the caller's. */
static tsr_status take_room(const tsr_trainer *t, float **values)
{
  int64_t largest = 0;
  for (int32_t i = 0; i < t->n; i++) {
    int64_t elements = elements_of(t, i);
    largest = elements > largest ? elements : largest;
  }
  *values = malloc((size_t)(largest + 1) * sizeof **values);
  return *values ? TSR_OK : tsr_fail_memory((size_t)largest * sizeof **values);
}

/* The parameters as the model's folder has them; the averages begin with the same. */
static tsr_status read_model(tsr_trainer *t)
{
  float *values;
  tsr_status status = take_room(t, &values);
  for (int32_t i = 0; i < t->n && status == TSR_OK; i++) {
    const tsr_parameter *parameter = &t->model->parameters.items[i];
    status = tsr_parameter_read(parameter, 0, elements_of(t, i), TSR_F32, values);
    if (status == TSR_OK) {
      status = tsr_parameter_check(parameter, TSR_F32, tsr_largest_magnitude(TSR_F32, values, elements_of(t, i)));
      status = tsr_fail_context(status, "%s", parameter->name);
    }
    if (status == TSR_OK) {
      status = tsr_trainer_write(t, TSR_TRAINED_PARAMETER, i, values, elements_of(t, i));
    }
    if (status == TSR_OK && t->options.average) {
      status = tsr_trainer_write(t, TSR_TRAINED_AVERAGE, i, values, elements_of(t, i));
    }
  }
  free(values);
  return status;
}

static tsr_status create(tsr_trainer *t, const tsr_training_options *options)
{
  TSR_TRY(tsr_training_options_complete(options, &t->options));
  TSR_TRY(lay_out(t));
  TSR_TRY(make_state(t, TSR_TRAINED_PARAMETER));
  TSR_TRY(make_state(t, TSR_TRAINED_M));
  TSR_TRY(make_state(t, TSR_TRAINED_V));
  if (t->options.average) {
    TSR_TRY(make_state(t, TSR_TRAINED_AVERAGE));
  }
  TSR_TRY(tsr_positions_upload(&t->model->config, t->device, &t->positions));
  if (t->options.statistics) {
    t->n_layers = t->model->config.encoder_layers + t->model->config.decoder_layers;
    t->layers = calloc((size_t)t->n_layers + 1, sizeof *t->layers);
    if (!t->layers) {
      return tsr_fail_memory((size_t)t->n_layers * sizeof *t->layers);
    }
  }
  return tsr_model_has_weights(t->model) ? read_model(t) : TSR_OK;
}

tsr_status tsr_trainer_create(const tsr_model *model, tsr_device *device, const tsr_training_options *options,
                              tsr_device *fallback, tsr_trainer **trainer)
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
  tsr_status status = create(t, options);
  if (status != TSR_OK) {
    tsr_trainer_destroy(t);
    return status;
  }
  *trainer = t;
  return TSR_OK;
}

static void finish_program(compiled *program)
{
  tsr_executable_destroy(program->executable);
  free(program->layers);
}

static void drop_programs(tsr_trainer *t)
{
  for (int32_t i = 0; i < t->n_programs; i++) {
    finish_program(&t->programs[i]);
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
  for (int32_t i = 0; i <= SUMS; i++) {
    tsr_buffer_destroy(trainer->state[i]);
  }
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
  if (n != elements_of(t, index)) {
    (void)tsr_fail(TSR_ERR_ARGUMENT, "the parameter %s has %lld elements, not %lld",
                   t->model->parameters.items[index].name, (long long)elements_of(t, index), (long long)n);
    return NULL;
  }
  return t->state[what];
}

tsr_status tsr_trainer_read(tsr_trainer *trainer, int32_t what, int32_t index, float *values, int64_t n)
{
  tsr_buffer *state = state_of(trainer, what, index, values, n);
  return state ? tsr_buffer_read(state, trainer->offset[index], n * (int64_t)sizeof *values, values) : TSR_ERR_ARGUMENT;
}

tsr_status tsr_trainer_write(tsr_trainer *trainer, int32_t what, int32_t index, const float *values, int64_t n)
{
  tsr_buffer *state = state_of(trainer, what, index, values, n);
  return state ? tsr_buffer_write(state, trainer->offset[index], n * (int64_t)sizeof *values, values)
               : TSR_ERR_ARGUMENT;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static tsr_status bind(tsr_trainer *t, const compiled *entry, const tsr_program *program, tsr_binding *bindings,
                       int32_t *n)
{
  *n = 0;
  for (int32_t i = 0; i < t->n; i++) {
    for (int32_t what = 0; what <= SUMS; what++) {
      char name[TSR_PARAMETER_NAME_ROOM];
      tsr_ref state = tsr_program_find(program, tsr_trained_name(name, t->model->parameters.items[i].name, what));
      if (state == TSR_NONE) {
        continue;
      }
      int32_t kept = entry->averaged && what == TSR_TRAINED_PARAMETER ? TSR_TRAINED_AVERAGE : what;
      TSR_TRY(make_state(t, kept));
      bindings[(*n)++] = (tsr_binding){.tensor = state, .buffer = t->state[kept], .offset = t->offset[i]};
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

static void find_refs(compiled *entry, const tsr_program *program)
{
  const struct {
    const char *name;
    tsr_ref *ref;
  } refs[] = {{"source", &entry->source},   {"source_lengths", &entry->source_lengths},
              {"target", &entry->target},   {"labels", &entry->labels},
              {"seed", &entry->seed},       {"scale", &entry->scale},
              {"control", &entry->control}, {"loss", &entry->loss},
              {"norm", &entry->norm}};
  for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++) {
    *refs[i].ref = tsr_program_find(program, refs[i].name);
  }
}

static tsr_status find_layers(const tsr_trainer *t, compiled *entry, const tsr_program *program)
{
  static const char *const outputs[LAYER_OUTPUTS] = {"sum", "squares", "norm"};
  if (t->n_layers == 0 || entry->kind == TSR_STEP_EVALUATE) {
    return TSR_OK;
  }
  entry->layers = calloc((size_t)t->n_layers * LAYER_OUTPUTS, sizeof *entry->layers);
  if (!entry->layers) {
    return tsr_fail_memory((size_t)t->n_layers * LAYER_OUTPUTS * sizeof *entry->layers);
  }
  for (int32_t i = 0; i < t->n_layers * LAYER_OUTPUTS; i++) {
    char layer[64], name[96];
    tsr_step_layer_name(&t->model->config, i / LAYER_OUTPUTS, layer, sizeof layer);
    snprintf(name, sizeof name, "%s.%s", layer, outputs[i % LAYER_OUTPUTS]);
    entry->layers[i] = tsr_program_find(program, name);
  }
  return TSR_OK;
}

/* *entry is to be finished, after an error too. */
static tsr_status compile_program(tsr_trainer *t, compiled *entry, const tsr_program *program, int32_t keep_all)
{
  int32_t room = t->n * (SUMS + 1) + 1, n;
  tsr_binding *bindings = calloc((size_t)room, sizeof *bindings);
  tsr_status status = bindings ? TSR_OK : tsr_fail_memory((size_t)room * sizeof *bindings);
  if (status == TSR_OK) {
    status = bind(t, entry, program, bindings, &n);
  }
  if (status == TSR_OK) {
    tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = n,
                                   .fallback = t->fallback, .keep_all = keep_all};
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
static compiled *free_entry(tsr_trainer *t)
{
  if (t->n_programs < MAX_PROGRAMS) {
    return &t->programs[t->n_programs++];
  }
  compiled *oldest = &t->programs[0];
  for (int32_t i = 1; i < t->n_programs; i++) {
    if (t->programs[i].used < oldest->used) {
      oldest = &t->programs[i];
    }
  }
  finish_program(oldest);
  return oldest;
}

static tsr_status get_program(tsr_trainer *t, int32_t kind, int32_t averaged, const tsr_program_size *size,
                              compiled **found)
{
  for (int32_t i = 0; i < t->n_programs; i++) {
    compiled *entry = &t->programs[i];
    if (entry->kind == kind && entry->averaged == averaged && entry->size.batch == size->batch &&
        entry->size.source == size->source && entry->size.target == size->target) {
      entry->used = ++t->calls;
      *found = entry;
      return TSR_OK;
    }
  }
  tsr_program *program = NULL;
  compiled made = {.kind = kind, .averaged = averaged, .size = *size, .used = ++t->calls};
  TSR_TRY(tsr_training_program(t->model, &t->options, kind, size, &program));
  tsr_status status = make_room(t, program);
  if (status == TSR_OK) {
    status = compile_program(t, &made, program, 0);
  }
  tsr_program_destroy(program);
  if (status != TSR_OK) {
    finish_program(&made);
    return status;
  }
  *found = free_entry(t);
  **found = made;
  return TSR_OK;
}

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

static tsr_status check_examples(const tsr_trainer *t, const tsr_examples *e)
{
  const tsr_transformer_config *config = &t->model->config;
  if (!e || e->rows < 1 || e->source_width < 1 || e->target_width < 1 || !e->source || !e->source_lengths ||
      !e->target || !e->labels) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a batch needs rows, widths of at least 1, ids, lengths and labels");
  }
  int64_t n = 0, n_target = (int64_t)e->rows * e->target_width;
  TSR_TRY(check_ids("source id", e->source, (int64_t)e->rows * e->source_width, 0, config->source_vocabulary));
  TSR_TRY(check_ids("target id", e->target, n_target, 0, config->target_vocabulary));
  TSR_TRY(check_ids("label", e->labels, n_target, INT32_MIN, config->target_vocabulary));
  for (int64_t i = 0; i < n_target; i++) {
    n += e->labels[i] >= 0;
  }
  for (int32_t i = 0; i < e->rows; i++) {
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

static tsr_status write_input(const compiled *program, tsr_ref input, const void *bytes, int64_t size)
{
  return input == TSR_NONE ? TSR_OK : tsr_executable_write(program->executable, input, bytes, size);
}

static tsr_status write_examples(const compiled *program, const tsr_examples *e)
{
  int64_t size = (int64_t)sizeof(int32_t), target = (int64_t)e->rows * e->target_width * size;
  TSR_TRY(write_input(program, program->source, e->source, (int64_t)e->rows * e->source_width * size));
  TSR_TRY(write_input(program, program->source_lengths, e->source_lengths, e->rows * size));
  TSR_TRY(write_input(program, program->target, e->target, target));
  return write_input(program, program->labels, e->labels, target);
}

static double scale_of(const tsr_step_control *control)
{
  return control->loss_scale != 0.0 ? control->loss_scale : 1.0;
}

/* tokens: of all batches of the update. */
static tsr_status write_control(const compiled *program, const tsr_training_options *options,
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

static tsr_status read_number(const compiled *program, tsr_ref output, double *number)
{
  float value;
  TSR_TRY(tsr_executable_read(program->executable, output, &value, sizeof value));
  *number = (double)value;
  return TSR_OK;
}

/* What the outputs say about a layer. factor: of the gradients. */
static tsr_status read_layer(tsr_trainer *t, const compiled *program, int32_t index, double factor)
{
  const tsr_transformer_config *config = &t->model->config;
  tsr_layer_statistics *layer = &t->layers[index];
  int32_t width = index < config->encoder_layers ? program->size.source : program->size.target;
  double n = (double)program->size.batch * (double)width * (double)config->d_model, sum, squares, norm = 0.0;
  const tsr_ref *refs = &program->layers[(size_t)index * LAYER_OUTPUTS];
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

static tsr_status read_results(tsr_trainer *t, const compiled *program, const tsr_step_control *control, int64_t tokens,
                               tsr_step_result *result)
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
  compiled *program;
  *result = (tsr_step_result){0};
  TSR_TRY(check_examples(trainer, examples));
  tsr_program_size size = size_of(examples);
  TSR_TRY(get_program(trainer, kind_of_step(trainer, last), 0, &size, &program));
  int64_t tokens = trainer->summed_tokens + examples->target_tokens;
  TSR_TRY(write_examples(program, examples));
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

tsr_status tsr_trainer_evaluate(tsr_trainer *trainer, const tsr_examples *examples, int32_t averaged,
                                tsr_step_result *result)
{
  if (!trainer || !result) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_trainer_evaluate: no argument may be NULL");
  }
  if (averaged && !trainer->options.average) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the trainer was made without averages");
  }
  compiled *program;
  *result = (tsr_step_result){0};
  TSR_TRY(check_examples(trainer, examples));
  tsr_program_size size = size_of(examples);
  TSR_TRY(get_program(trainer, TSR_STEP_EVALUATE, averaged != 0, &size, &program));
  TSR_TRY(write_examples(program, examples));
  TSR_TRY(tsr_executable_run(program->executable));
  result->tokens = examples->target_tokens;
  TSR_TRY(read_number(program, program->loss, &result->loss));
  result->is_finite = isfinite(result->loss) != 0;
  return TSR_OK;
}

/* Hands out the gradients that the last run of a program gave. */
static tsr_status give_gradients(const tsr_trainer *t, const compiled *entry, const tsr_program *program,
                                 tsr_gradient_fn receive, void *context)
{
  float *values;
  char name[TSR_PARAMETER_NAME_ROOM];
  tsr_status status = take_room(t, &values);
  for (int32_t i = 0; i < t->n && status == TSR_OK; i++) {
    snprintf(name, sizeof name, "%s.gradient", t->model->parameters.items[i].name);
    tsr_ref gradient = tsr_program_find(program, name);
    if (gradient == TSR_NONE) {
      continue;
    }
    status = tsr_executable_read(entry->executable, gradient, values, elements_of(t, i) * (int64_t)sizeof *values);
    if (status == TSR_OK) {
      receive(context, i, values, elements_of(t, i));
    }
  }
  free(values);
  return status;
}

/* Runs the gradients of a batch once, by a program of its own. keep_all: as in tsr_compile_options. *program is the
 * caller's, and *entry to be finished, after an error too. */
static tsr_status run_gradients(tsr_trainer *t, const tsr_examples *examples, const tsr_step_control *control,
                                double scale, int32_t keep_all, tsr_program **program, compiled *entry)
{
  tsr_program_size size = size_of(examples);
  const float factor = (float)scale;
  *entry = (compiled){.kind = TSR_STEP_GRADIENTS, .size = size};
  *program = NULL;
  TSR_TRY(tsr_training_program(t->model, &t->options, TSR_STEP_GRADIENTS, &size, program));
  TSR_TRY(make_room(t, *program));
  TSR_TRY(compile_program(t, entry, *program, keep_all));
  TSR_TRY(write_examples(entry, examples));
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
  compiled entry;
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
  finish_program(&entry);
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
  compiled entry;
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
  finish_program(&entry);
  tsr_program_destroy(program);
  return status;
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

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
  for (int32_t i = 0; i <= SUMS; i++) {
    sum.state_bytes += trainer->state[i] ? tsr_buffer_size(trainer->state[i]) : 0;
  }
  tsr_sized_fill(&sum, sizeof sum, memory, size);
}
