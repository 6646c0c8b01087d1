/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/transformer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/transformer/ahead.h"

enum {
  DEFAULT_CACHE = 16, /* a search on a GPU may take ten in turn, as its batch becomes smaller */
  MIN_CACHE = 2       /* an encoder and a step are in use at the same time */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static tsr_status check_options(const tsr_transformer_options *options)
{
  tsr_dtype weights = options->weights;
  if (weights != 0 && weights != TSR_F32 && weights != TSR_F16 && weights != TSR_BF16 && weights != TSR_I8 &&
      weights != TSR_I4) {
    return tsr_fail(TSR_ERR_ARGUMENT, "weights are stored as f32, f16, bf16, i8 or i4, not as %s",
                    tsr_dtype_name(weights));
  }
  if (options->cache < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%d programs cannot be kept", (int)options->cache);
  }
  if (options->workers < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%d batches cannot be computed side by side", (int)options->workers);
  }
  return TSR_OK;
}

/* What siblings do not share. */
static tsr_status create_own(tsr_transformer *t)
{
  size_t states = 2 * (size_t)t->model->config.decoder_layers + 1;
  t->cross = (tsr_state_pool){.part = "cross_attention", .buffers = calloc(states, sizeof(tsr_buffer *))};
  t->self = (tsr_state_pool){.part = "self_attention", .buffers = calloc(states, sizeof(tsr_buffer *))};
  t->compiled = calloc((size_t)t->options.cache, sizeof(tsr_compiled *));
  return t->cross.buffers && t->self.buffers && t->compiled ? TSR_OK : tsr_fail_memory(states * sizeof(tsr_buffer *));
}

/* Takes the devices from the options, and decides what lies where. */
static tsr_status take_devices(tsr_transformer *t)
{
  uint64_t memory[TSR_MOST_DEVICES] = {0};
  const int32_t n = t->options.n_others;
  if (n < 0 || n >= TSR_MOST_DEVICES || (n > 0 && !t->options.others)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a model can be split over 1 to %d devices, not over %d", TSR_MOST_DEVICES,
                    (int)n + 1);
  }
  for (int32_t i = 0; i <= n; i++) {
    t->devices[i] = i == 0 ? t->device : t->options.others[i - 1];
    for (int32_t k = 0; k < i; k++) {
      if (!t->devices[i] || t->devices[i] == t->devices[k]) {
        return tsr_fail(TSR_ERR_ARGUMENT, "device %d of those that share the model is %s; each is to be another one",
                        (int)i + 1, t->devices[i] ? tsr_device_name(t->devices[i]) : "NULL");
      }
    }
    memory[i] = tsr_device_get_properties(t->devices[i])->memory;
  }
  t->n_devices = n + 1;
  t->options.others = NULL; /* the caller's */
  return tsr_split_make(t->model, t->options.weights, memory, t->n_devices, &t->split);
}

/* The type of the states, if all devices agree; else f32. */
static tsr_status choose_states(tsr_transformer *t)
{
  TSR_TRY(tsr_model_states(t->model, t->device, t->options.weights, &t->states));
  for (int32_t i = 1; i < t->n_devices; i++) {
    tsr_dtype wanted;
    TSR_TRY(tsr_model_states(t->model, t->devices[i], t->options.weights, &wanted));
    t->states = wanted == t->states ? wanted : TSR_F32;
  }
  return TSR_OK;
}

static tsr_status create(tsr_transformer *t)
{
  size_t n = (size_t)t->model->parameters.n + 1;
  TSR_TRY(create_own(t));
  t->parameters = calloc(n, sizeof(tsr_buffer *));
  t->scales = calloc(n, sizeof(tsr_buffer *));
  return t->parameters && t->scales ? tsr_transformer_upload(t) : tsr_fail_memory(n * sizeof(tsr_buffer *));
}

tsr_status tsr_transformer_create(const tsr_model *model, tsr_device *device, const tsr_transformer_options *options,
                                  tsr_transformer **transformer)
{
  if (!model || !device || !transformer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_create: model, device and transformer must not be NULL");
  }
  *transformer = NULL;
  TSR_TRY(tsr_model_check_weights(model));
  tsr_transformer *t = calloc(1, sizeof *t);
  if (!t) {
    return tsr_fail_memory(sizeof *t);
  }
  *t = (tsr_transformer){.model = model, .device = device};
  tsr_status status = TSR_SIZED_READ(tsr_transformer_options, profile, options, &t->options);
  if (status == TSR_OK) {
    status = check_options(&t->options);
  }
  if (status == TSR_OK) {
    status = take_devices(t);
  }
  if (status == TSR_OK) {
    status = choose_states(t);
  }
  if (status == TSR_OK) {
    t->options.cache = t->options.cache == 0          ? DEFAULT_CACHE
                       : t->options.cache < MIN_CACHE ? MIN_CACHE
                                                      : t->options.cache;
    status = create(t);
  }
  if (status != TSR_OK) {
    tsr_transformer_destroy(t);
    return status;
  }
  *transformer = t;
  return TSR_OK;
}

static void free_compiled(tsr_compiled *compiled)
{
  if (compiled->ahead) {
    tsr_ahead_destroy(compiled->ahead);
  } else {
    tsr_executable_destroy(compiled->executable);
  }
  tsr_program_destroy(compiled->program);
  free(compiled->times);
  free(compiled);
}

static void drop_compiled(tsr_transformer *t, int32_t index)
{
  if (t->compiled[index]) {
    tsr_times_keep(&t->times, t->compiled[index]);
    free_compiled(t->compiled[index]);
    t->compiled[index] = NULL;
  }
}

/* 1 if programs of that kind are bound to the cache of self-attention. */
static int has_cache(int32_t kind)
{
  return kind == TSR_PROGRAM_GREEDY || kind == TSR_PROGRAM_BEAM || kind == TSR_PROGRAM_MOVE ||
         kind == TSR_PROGRAM_PREFILL || kind == TSR_PROGRAM_GROW;
}

/* Drops the programs that are bound to a pool; NULL: all. */
static void drop_bound(tsr_transformer *t, const tsr_state_pool *pool)
{
  for (int32_t i = 0; t->compiled && i < t->options.cache; i++) {
    int32_t kind = t->compiled[i] ? t->compiled[i]->key.kind : 0;
    if (pool != &t->self || has_cache(kind)) {
      drop_compiled(t, i);
    }
  }
}

static void pool_clear(tsr_transformer *t, tsr_state_pool *pool)
{
  for (int32_t i = 0; pool->buffers && i < 2 * t->model->config.decoder_layers; i++) {
    tsr_buffer_destroy(pool->buffers[i]);
    pool->buffers[i] = NULL;
  }
  pool->rows = 0;
}

static void free_own(tsr_transformer *t)
{
  drop_bound(t, NULL);
  pool_clear(t, &t->cross);
  pool_clear(t, &t->self);
  tsr_buffer_destroy(t->shortlist);
  free(t->alignment);
  free(t->cross.buffers);
  free(t->self.buffers);
  free(t->compiled);
  tsr_times_finish(&t->times);
}

void tsr_transformer_destroy(tsr_transformer *transformer)
{
  if (!transformer) {
    return;
  }
  tsr_transformer *t = transformer;
  for (int32_t i = 0; i < t->n_siblings; i++) {
    free_own(t->siblings[i]);
    free(t->siblings[i]);
  }
  free_own(t);
  for (int32_t i = 0; t->parameters && t->scales && i < t->model->parameters.n; i++) {
    tsr_buffer_destroy(t->parameters[i]);
    tsr_buffer_destroy(t->scales[i]);
  }
  tsr_buffer_destroy(t->positions);
  tsr_buffer_destroy(t->one);
  tsr_split_finish(&t->split);
  free(t->parameters);
  free(t->scales);
  free(t->siblings);
  free(t);
}

static tsr_status add_sibling(tsr_transformer *first)
{
  size_t n = (size_t)first->n_siblings + 1;
  tsr_transformer **siblings = realloc(first->siblings, n * sizeof *siblings);
  if (!siblings) {
    return tsr_fail_memory(n * sizeof *siblings);
  }
  first->siblings = siblings;
  tsr_transformer *t = malloc(sizeof *t);
  if (!t) {
    return tsr_fail_memory(sizeof *t);
  }
  *t = *first;
  t->siblings = NULL;
  t->n_siblings = 0;
  t->calls = 0;
  t->alignment = NULL;
  t->n_alignment = 0;
  t->work = (tsr_work){0};
  t->shortlist = NULL;
  t->shortlist_rows = 0;
  t->times = (tsr_times){0};
  tsr_status status = create_own(t);
  if (status != TSR_OK) {
    free_own(t);
    free(t);
    return status;
  }
  siblings[first->n_siblings++] = t;
  return TSR_OK;
}

int64_t tsr_transformer_weights_size(const tsr_transformer *transformer)
{
  int64_t size = 0;
  for (int32_t i = 0; i < transformer->model->parameters.n; i++) {
    size += tsr_buffer_size(transformer->parameters[i]);
  }
  return size;
}

tsr_status tsr_transformer_sibling(tsr_transformer *first, int32_t index, tsr_transformer **sibling)
{
  while (index > first->n_siblings) {
    TSR_TRY(add_sibling(first));
  }
  *sibling = index == 0 ? first : first->siblings[index - 1];
  return TSR_OK;
}

const tsr_model *tsr_transformer_model(const tsr_transformer *transformer)
{
  return transformer->model;
}

tsr_device *tsr_transformer_device(const tsr_transformer *transformer)
{
  return transformer->device;
}

tsr_device *const *tsr_transformer_devices(const tsr_transformer *transformer, int32_t *n)
{
  *n = transformer->n_devices;
  return transformer->devices;
}

tsr_device *tsr_transformer_parameter_device(const tsr_transformer *transformer, int32_t parameter)
{
  return transformer->devices[tsr_split_parameter(&transformer->split, transformer->model, parameter)];
}

tsr_device *tsr_transformer_tables_device(const tsr_transformer *transformer)
{
  return transformer->devices[tsr_split_tables(&transformer->split, transformer->model)];
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int64_t state_row_size(const tsr_transformer *t)
{
  const tsr_transformer_config *config = &t->model->config;
  return (int64_t)tsr_config_key_heads(config, 1) * config->decoder_head_size * (int64_t)tsr_dtype_size(t->states);
}

/* What a pool has room for if it is to hold `rows` rows: powers of two, so that growing stays rare. */
static int64_t room_for(int64_t rows)
{
  int64_t room = 64;
  while (room < rows) {
    room *= 2;
  }
  return room;
}

/* The device of keys or values number `index` of a pool: that of their layer. */
static tsr_device *state_device(const tsr_transformer *t, int32_t index)
{
  return t->devices[tsr_split_decoder_layer(&t->split, t->model, index / 2)];
}

static tsr_status make_state(const tsr_transformer *t, const tsr_state_pool *pool, int32_t index, int64_t room,
                             tsr_buffer **buffer)
{
  return tsr_fail_context(
      tsr_buffer_create(state_device(t, index), room * state_row_size(t), TSR_BUFFER_DEVICE, buffer),
      "the %s state of layer %d for %lld positions (a smaller batch or beam needs less)", pool->part, (int)(index / 2),
      (long long)room);
}

/* Room for `rows` rows, what was in them lost if it grows. */
static tsr_status pool_reserve(tsr_transformer *t, tsr_state_pool *pool, int64_t rows)
{
  if (rows <= pool->rows) {
    return TSR_OK;
  }
  int64_t room = room_for(rows);
  drop_bound(t, pool);
  pool_clear(t, pool);
  for (int32_t i = 0; i < 2 * t->model->config.decoder_layers; i++) {
    TSR_TRY(make_state(t, pool, i, room, &pool->buffers[i]));
  }
  pool->rows = room;
  return TSR_OK;
}

tsr_status tsr_transformer_reserve(tsr_transformer *transformer, int64_t cross_rows, int64_t cache_rows)
{
  if (transformer->model->config.encoder_layers > 0) {
    TSR_TRY(pool_reserve(transformer, &transformer->cross, cross_rows));
  }
  return pool_reserve(transformer, &transformer->self, cache_rows);
}

tsr_status tsr_transformer_align(tsr_transformer *transformer, const int32_t *heads, int32_t n)
{
  tsr_transformer *t = transformer;
  const size_t size = 2 * (size_t)n * sizeof *heads;
  if (t->n_alignment == n && (n == 0 || memcmp(t->alignment, heads, size) == 0)) {
    return TSR_OK;
  }
  for (int32_t i = 0; i < t->options.cache; i++) {
    if (t->compiled[i] && t->compiled[i]->key.alignment > 0) {
      drop_compiled(t, i);
    }
  }
  free(t->alignment);
  t->n_alignment = 0;
  t->alignment = malloc(size + 1);
  if (!t->alignment) {
    return tsr_fail_memory(size);
  }
  memcpy(t->alignment, heads, size);
  t->n_alignment = n;
  return TSR_OK;
}

/* Room for that many rows of the logits' weights. */
static tsr_status reserve_shortlist(tsr_transformer *t, int64_t rows)
{
  if (rows <= t->shortlist_rows) {
    return TSR_OK;
  }
  for (int32_t i = 0; i < t->options.cache; i++) {
    if (t->compiled[i] && t->compiled[i]->key.shortlist > 0) {
      drop_compiled(t, i);
    }
  }
  tsr_buffer_destroy(t->shortlist);
  t->shortlist = NULL;
  t->shortlist_rows = 0;
  int64_t size = rows * t->model->config.d_model * (int64_t)tsr_dtype_size(t->states);
  tsr_device *device = t->devices[tsr_split_logits(&t->split, t->model)];
  TSR_TRY(tsr_fail_context(tsr_buffer_create(device, size, TSR_BUFFER_DEVICE, &t->shortlist),
                           "the weights of a shortlist of %lld tokens", (long long)rows));
  t->shortlist_rows = rows;
  return TSR_OK;
}

tsr_status tsr_transformer_copy_rows(const tsr_transformer *transformer, const tsr_state_pool *pool, int64_t capacity,
                                     int64_t used, int64_t from, int64_t to, int64_t n)
{
  int64_t row_size = state_row_size(transformer);
  int64_t size = used * row_size;
  char *host = malloc((size_t)size + 1);
  if (!host) {
    return tsr_fail_memory((size_t)size + 1);
  }
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < 2 * transformer->model->config.decoder_layers; i++) {
    for (int64_t r = 0; r < n && status == TSR_OK; r++) {
      status = tsr_buffer_read(pool->buffers[i], (from + r) * capacity * row_size, size, host);
      if (status == TSR_OK) {
        status = tsr_buffer_write(pool->buffers[i], (to + r) * capacity * row_size, size, host);
      }
    }
  }
  free(host);
  return status;
}

/* ---- compiled programs ------------------------------------------------------------------------------------------- */

static tsr_status bind_constant(const tsr_program *program, const char *name, tsr_dtype dtype, tsr_buffer *buffer,
                                tsr_binding *bindings, int32_t room, int32_t *n)
{
  tsr_ref tensor = tsr_program_find(program, name);
  if (tensor == TSR_NONE || !buffer || tsr_ref_kind(program, tensor) != TSR_STORAGE_CONSTANT) {
    return TSR_OK;
  }
  if (tsr_ref_dtype(program, tensor) != dtype) {
    return tsr_fail(TSR_ERR_DTYPE, "the program has %s as %s, the transformer keeps it as %s", name,
                    tsr_dtype_name(tsr_ref_dtype(program, tensor)), tsr_dtype_name(dtype));
  }
  if (*n >= room) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the program has more constants than the %d that there is room for", (int)room);
  }
  bindings[(*n)++] = (tsr_binding){.tensor = tensor, .buffer = buffer};
  return TSR_OK;
}

tsr_status tsr_transformer_bind(tsr_transformer *transformer, const tsr_program *program, tsr_binding *bindings,
                                int32_t room, int32_t *n)
{
  if (!transformer || !program || !bindings || !n) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_bind: no argument may be NULL");
  }
  *n = 0;
  const tsr_parameter_list *list = &transformer->model->parameters;
  for (int32_t i = 0; i < list->n; i++) {
    const tsr_parameter *parameter = &list->items[i];
    tsr_kept scales;
    const tsr_kept elements =
        tsr_parameter_kept(parameter, tsr_parameter_dtype(parameter, transformer->options.weights), &scales);
    TSR_TRY(bind_constant(program, parameter->name, elements.dtype, transformer->parameters[i], bindings, room, n));
    if (transformer->scales[i]) {
      char name[TSR_PARAMETER_NAME_ROOM];
      TSR_TRY(bind_constant(program, tsr_scales_name(name, parameter->name), scales.dtype, transformer->scales[i],
                            bindings, room, n));
    }
  }
  TSR_TRY(bind_constant(program, TSR_POSITIONS_NAME, TSR_F32, transformer->positions, bindings, room, n));
  return bind_constant(program, TSR_ONE_NAME, TSR_I32, transformer->one, bindings, room, n);
}

static void bind_states(const tsr_transformer *t, const tsr_program *program, const tsr_state_pool *pool,
                        tsr_binding *bindings, int32_t *n)
{
  for (int32_t i = 0; i < 2 * t->model->config.decoder_layers; i++) {
    char name[96];
    tsr_ref tensor = tsr_program_find(program, tsr_state_name(name, i / 2, pool->part, i % 2 == 0 ? "keys" : "values"));
    if (tensor != TSR_NONE) {
      bindings[(*n)++] = (tsr_binding){.tensor = tensor, .buffer = pool->buffers[i]};
    }
  }
}

tsr_status tsr_transformer_executable(tsr_transformer *transformer, const tsr_program *program,
                                      const tsr_own_bindings *own, int32_t keep_all, tsr_executable **executable)
{
  tsr_transformer *t = transformer;
  int32_t constants = 2 * t->model->parameters.n + 2; /* each with its scales; positions, one */
  int32_t room = constants + 4 * t->model->config.decoder_layers + 1 + (own ? own->n : 0);
  int32_t n = 0;
  tsr_binding *bindings = malloc((size_t)room * sizeof *bindings);
  if (!bindings) {
    return tsr_fail_memory((size_t)room * sizeof *bindings);
  }
  tsr_status status = tsr_transformer_bind(t, program, bindings, constants, &n);
  if (status == TSR_OK) {
    bind_states(t, program, &t->cross, bindings, &n);
    bind_states(t, program, &t->self, bindings, &n);
    tsr_ref shortlist = tsr_program_find(program, TSR_SHORTLIST_NAME);
    if (shortlist != TSR_NONE) {
      bindings[n++] = (tsr_binding){.tensor = shortlist, .buffer = t->shortlist};
    }
    for (int32_t i = 0; own && i < own->n; i++) {
      bindings[n++] = own->bindings[i];
    }
    tsr_compile_options options = {TSR_SIZED(tsr_compile_options),
                                   .bindings = bindings,
                                   .n_bindings = n,
                                   .strict = t->options.strict,
                                   .profile = t->options.profile && !keep_all,
                                   .fallback = t->options.fallback,
                                   .keep_all = keep_all,
                                   .n_others = t->n_devices - 1,
                                   .others = t->devices + 1,
                                   .arena = own ? own->arena : NULL};
    status = tsr_executable_create(t->device, program, &options, executable);
  }
  free(bindings);
  return status;
}

static tsr_status make_executables(tsr_transformer *t, const tsr_program *program, int32_t keep_all,
                                   tsr_compiled *compiled)
{
  int32_t made = 0;
  if (compiled->key.ahead && !keep_all) {
    TSR_TRY(tsr_ahead_make(t, program, compiled, &made));
  }
  return made ? TSR_OK : tsr_transformer_executable(t, program, NULL, keep_all, &compiled->executable);
}

/* keep_all: 1: everything that the program computes is kept, and the program itself. */
static tsr_status compile(tsr_transformer *t, const tsr_program_key *key, int32_t keep_all, tsr_compiled *compiled)
{
  tsr_builder builder = {.model = t->model,
                         .weights = t->options.weights,
                         .states = t->states,
                         .taps = key->taps,
                         .alignment = t->alignment,
                         .n_alignment = key->alignment};
  TSR_TRY(tsr_program_create(&builder.program));
  tsr_program *program = builder.program;
  tsr_status status = tsr_build_program(&builder, key, &compiled->refs);
  if (status == TSR_OK) {
    compiled->key = *key;
    status = make_executables(t, program, keep_all, compiled);
  }
  if (status == TSR_OK && (key->taps != 0 || keep_all || t->options.profile)) {
    compiled->program = program;
    return t->options.profile && !keep_all ? tsr_times_start(compiled) : TSR_OK;
  }
  tsr_program_destroy(program);
  return status;
}

tsr_status tsr_transformer_compile(tsr_transformer *transformer, const tsr_program_key *key, tsr_compiled **compiled)
{
  tsr_transformer *t = transformer;
  int64_t rows = (int64_t)key->size.batch * (key->size.beam > 0 ? key->size.beam : 1);
  int64_t sentences = key->joined > key->size.batch ? key->joined : key->size.batch;
  int32_t room = key->source_room > key->size.source ? key->source_room : key->size.source;
  TSR_TRY(tsr_transformer_reserve(t, sentences * room, has_cache(key->kind) ? rows * key->size.target : 0));
  TSR_TRY(reserve_shortlist(t, key->shortlist));
  int32_t slot = 0;
  for (int32_t i = 0; i < t->options.cache; i++) {
    if (t->compiled[i] && tsr_program_key_equal(&t->compiled[i]->key, key)) {
      t->compiled[i]->used = ++t->calls;
      *compiled = t->compiled[i];
      return TSR_OK;
    }
    if (!t->compiled[i] || (t->compiled[slot] && t->compiled[i]->used < t->compiled[slot]->used)) {
      slot = i;
    }
  }
  drop_compiled(t, slot);
  tsr_compiled *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  double start = tsr_seconds();
  tsr_status status = compile(t, key, 0, made);
  if (status != TSR_OK) {
    free_compiled(made);
    return status;
  }
  t->times.compile_seconds += tsr_seconds() - start;
  t->times.compiled++;
  made->used = ++t->calls;
  t->compiled[slot] = made;
  *compiled = made;
  return TSR_OK;
}

tsr_status tsr_transformer_again(tsr_transformer *transformer, const tsr_program_key *key, tsr_compiled *again)
{
  *again = (tsr_compiled){0};
  return compile(transformer, key, 1, again);
}

void tsr_transformer_again_finish(tsr_compiled *again)
{
  tsr_executable_destroy(again->executable);
  tsr_program_destroy(again->program);
  *again = (tsr_compiled){0};
}

/* ---- states that grow -------------------------------------------------------------------------------------------- */

/* In the buffers that there are: one program for all states, which is kept. */
static tsr_status grow_in_place(tsr_transformer *t, const tsr_program_key *key)
{
  tsr_compiled *grow = NULL;
  TSR_TRY(tsr_transformer_compile(t, key, &grow));
  return tsr_transformer_run(t, grow, 1.0);
}

/* Runs a program of tsr_build_regrown between two buffers of a device. */
static tsr_status run_between(const tsr_transformer *t, tsr_device *device, const tsr_program *program,
                              tsr_buffer *before, tsr_buffer *after)
{
  const tsr_binding bindings[] = {{.tensor = tsr_program_find(program, TSR_BEFORE_NAME), .buffer = before},
                                  {.tensor = tsr_program_find(program, TSR_AFTER_NAME), .buffer = after}};
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = 2,
                                       .strict = t->options.strict, .fallback = t->options.fallback};
  tsr_executable *executable = NULL;
  TSR_TRY(tsr_executable_create(device, program, &options, &executable));
  tsr_status status = tsr_executable_run(executable);
  tsr_executable_destroy(executable);
  return status;
}

/* Into larger buffers, one state after another, so that only one of them is there twice. */
static tsr_status grow_pool(tsr_transformer *t, tsr_state_pool *pool, const tsr_program_key *key, int64_t rows)
{
  tsr_builder builder = {.model = t->model, .states = t->states};
  TSR_TRY(tsr_program_create(&builder.program));
  tsr_status status = tsr_build_regrown(&builder, key);
  int64_t room = room_for(rows);
  drop_bound(t, pool);
  for (int32_t i = 0; status == TSR_OK && i < 2 * t->model->config.decoder_layers; i++) {
    tsr_buffer *buffer = NULL;
    status = make_state(t, pool, i, room, &buffer);
    if (status == TSR_OK) {
      status = run_between(t, state_device(t, i), builder.program, pool->buffers[i], buffer);
    }
    tsr_buffer_destroy(status == TSR_OK ? pool->buffers[i] : buffer);
    pool->buffers[i] = status == TSR_OK ? buffer : pool->buffers[i];
  }
  if (status == TSR_OK) {
    pool->rows = room; /* else some have more room than that, which does no harm */
  }
  tsr_program_destroy(builder.program);
  return status;
}

/* rows: of the pool, afterwards. */
static tsr_status grow(tsr_transformer *t, tsr_state_pool *pool, const tsr_program_key *key, int64_t rows)
{
  if (rows > pool->rows) {
    return grow_pool(t, pool, key, rows);
  }
  /* The first row lies where it lay. */
  return key->size.batch * key->size.beam > 1 ? grow_in_place(t, key) : TSR_OK;
}

tsr_status tsr_transformer_grow_cache(tsr_transformer *transformer, int32_t batch, int32_t beam, int32_t from,
                                      int32_t to)
{
  const tsr_program_key key = {
      .kind = TSR_PROGRAM_GROW, .size = {.batch = batch, .target = to, .beam = beam}, .positions = from};
  return grow(transformer, &transformer->self, &key, (int64_t)batch * beam * to);
}

tsr_status tsr_transformer_grow_cross(tsr_transformer *transformer, int32_t batch, int32_t from, int32_t to)
{
  const tsr_program_key key = {
      .kind = TSR_PROGRAM_GROW, .size = {.batch = batch, .source = to, .beam = 1}, .positions = from};
  return grow(transformer, &transformer->cross, &key, (int64_t)batch * to);
}
