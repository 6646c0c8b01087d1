/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/programs.h"

#include <string.h>

#include "core/base/status.h"
#include "core/transformer/transformer.h"

int tsr_program_key_equal(const tsr_program_key *a, const tsr_program_key *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

/* The tokens whose logits are computed, if not those of all are. */
static void chosen_input(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  if (key->shortlist > 0) {
    refs->chosen = tsr_input(b->program, "chosen", TSR_I32, TSR_SHAPE(key->shortlist));
  }
}

/* source [B, S], or features [B, M, 2 S], and source_lengths [B] -> encoder_output [B*S, D], and the states of
 * cross-attention. */
static void build_encode(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  const tsr_program_size *size = &key->size;
  tsr_program *p = b->program;
  tsr_stack stack = tsr_stack_encoder(&b->model->config);
  const int32_t mels = b->model->config.mels;
  if (mels > 0) {
    refs->features = tsr_input(p, "features", TSR_F32, TSR_SHAPE(size->batch, mels, 2 * (int64_t)size->source));
  } else {
    refs->source = tsr_input(p, "source", TSR_I32, TSR_SHAPE(size->batch, size->source));
  }
  refs->source_lengths = tsr_input(p, "source_lengths", TSR_I32, TSR_SHAPE(size->batch));
  refs->places = key->joined > 0 ? tsr_input(p, "places", TSR_I32, TSR_SHAPE(size->batch)) : TSR_NONE;
  tsr_self_attention self = {.batch = size->batch, .queries = size->source, .lengths = refs->source_lengths};
  tsr_ref x = mels > 0 ? tsr_build_speech_embedding(b, &stack, refs->features)
                       : tsr_build_embedding(b, &stack, refs->source, size->batch, size->source);
  x = tsr_build_stack(b, &stack, x, &self, NULL);
  x = refs->encoder_output = tsr_output(p, "encoder_output", x);
  const tsr_cross_states states = {.batch = size->batch,
                                   .keys = size->source,
                                   .room = key->source_room > 0 ? key->source_room : size->source,
                                   .joined = key->joined,
                                   .places = refs->places};
  tsr_build_cross_states(b, x, &states);
  if (key->shortlist > 0) {
    chosen_input(b, key, refs);
    tsr_build_shortlist(b, refs->chosen);
  }
}

/* What cross-attention looks at in a decoding program, whose keys are in states; *cross is filled. NULL for a decoder
 * alone. */
static const tsr_cross_attention *make_cross(const tsr_builder *b, const tsr_program_size *size, int64_t queries,
                                             tsr_cross_attention *cross, tsr_program_refs *refs)
{
  if (b->model->config.encoder_layers == 0) {
    return NULL;
  }
  refs->source_lengths = tsr_input(b->program, "source_lengths", TSR_I32, TSR_SHAPE(size->batch));
  *cross = (tsr_cross_attention){.batch = size->batch,
                                 .queries = queries,
                                 .keys = size->source,
                                 .lengths = refs->source_lengths,
                                 .attention = &refs->attention};
  return cross;
}

/* target [B, L], source_lengths [B] -> the logits of all positions, [B*L, V]. */
static tsr_ref build_forced(const tsr_builder *b, const tsr_program_size *size, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  tsr_stack stack = tsr_stack_decoder(&b->model->config);
  refs->target = tsr_input(p, "target", TSR_I32, TSR_SHAPE(size->batch, size->target));
  tsr_self_attention self = {.batch = size->batch, .queries = size->target, .causal = 1};
  tsr_cross_attention room;
  const tsr_cross_attention *cross = make_cross(b, size, size->target, &room, refs);
  tsr_ref x = tsr_build_embedding(b, &stack, refs->target, size->batch, size->target);
  x = tsr_build_stack(b, &stack, x, &self, cross);
  return tsr_build_logits(b, x, NULL, TSR_NONE);
}

/* -> logits [B*L, V]. */
static void build_decode(const tsr_builder *b, const tsr_program_size *size, tsr_program_refs *refs)
{
  refs->logits = tsr_output(b->program, "logits", build_forced(b, size, refs));
}

/* labels [B*L] -> losses [B*L]; 0 for a label that is none. The logits stay on the device. */
static void build_score(const tsr_builder *b, const tsr_program_size *size, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  refs->labels = tsr_input(p, "labels", TSR_I32, TSR_SHAPE((int64_t)size->batch * size->target));
  tsr_ref logits = build_forced(b, size, refs);
  tsr_scope_push(p, "score");
  refs->losses = tsr_output(p, "losses", tsr_cross_entropy(p, logits, refs->labels, 0.0f, NULL));
  tsr_scope_pop(p);
}

/* One step for R = B*N rows: token [R] at position [1] or [R] -> logits [R, V], with the mask added. What it reads is
 * there. */
static tsr_ref build_step(const tsr_builder *b, const tsr_program_key *key, int32_t beam, tsr_program_refs *refs)
{
  const tsr_program_size *size = &key->size;
  tsr_stack stack = tsr_stack_decoder(&b->model->config);
  tsr_self_attention self = {.batch = (int64_t)size->batch * beam,
                             .queries = 1,
                             .causal = 1,
                             .capacity = size->target,
                             .position = refs->position,
                             .rows = refs->rows};
  /* The hypotheses of a sentence are queries to the same keys: nothing is repeated for them. */
  tsr_cross_attention room = {0};
  const tsr_cross_attention *cross = make_cross(b, size, beam, &room, refs);
  room.shown = key->attention;
  room.shown_heads = (uint32_t)key->attention_heads;
  if (key->alignment > 0) {
    refs->alignment =
        tsr_state(b->program, "alignment", TSR_F32, TSR_SHAPE(size->batch, beam, key->alignment, size->source));
    room.aligned = refs->alignment;
  }
  const tsr_logits_mask mask = {
      .values = refs->suppress,
      .rows = refs->phases != TSR_NONE ? tsr_gather(b->program, refs->phases, refs->position, 0) : TSR_NONE};
  tsr_ref x = tsr_build_step_embedding(b, &stack, refs->token, refs->position);
  x = tsr_build_stack(b, &stack, x, &self, cross);
  return tsr_build_logits(b, x, &mask, refs->chosen);
}

/* Columns of the logits. */
static int32_t columns_of(const tsr_builder *b, const tsr_program_key *key)
{
  return key->shortlist > 0 ? key->shortlist : b->model->config.target_vocabulary;
}

static void mask_inputs(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  const int32_t n = key->masks > 0 ? key->masks : 1;
  refs->suppress = tsr_input(b->program, "suppress", TSR_F32, TSR_SHAPE(n, columns_of(b, key)));
  refs->phases = n > 1 ? tsr_input(b->program, "phases", TSR_I32, TSR_SHAPE(key->size.target)) : TSR_NONE;
}

/* The tokens that stand for columns of the logits, of any shape. */
static tsr_ref tokens_of(const tsr_builder *b, tsr_ref columns, tsr_ref chosen)
{
  if (chosen == TSR_NONE) {
    return columns;
  }
  tsr_shape shape = tsr_ref_shape(b->program, columns);
  tsr_ref flat = tsr_reshape(b->program, columns, TSR_SHAPE(tsr_shape_elements(&shape)));
  return tsr_reshape(b->program, tsr_gather(b->program, chosen, flat, 0), shape);
}

/* What each step finds, in the row of its number since the host began to count. */
static void build_log(tsr_program *p, const tsr_program_size *size, tsr_ref one, tsr_program_refs *refs)
{
  const tsr_shape log = TSR_SHAPE(1, size->target, size->batch), row = TSR_SHAPE(1, 1, size->batch);
  refs->log_next = tsr_state(p, "log_next", TSR_I32, log);
  refs->log_logit = tsr_state(p, "log_logit", TSR_F32, log);
  refs->log_step = tsr_state(p, "log_step", TSR_I32, TSR_SHAPE(1));
  tsr_append(p, refs->log_next, tsr_reshape(p, refs->next, row), refs->log_step);
  tsr_append(p, refs->log_logit, tsr_reshape(p, refs->next_logit, row), refs->log_step);
  tsr_update(p, refs->log_step, tsr_add(p, refs->log_step, one));
}

/* The position of all rows, or of each. */
static tsr_shape position_shape(const tsr_program_key *key, int64_t rows)
{
  return TSR_SHAPE(key->staggered ? rows : 1);
}

/* States token [B], position [1] or [B]; a row of suppress is added to the logits. -> next [B, 1], next_logit [B, 1];
 * the token is fed back and the position counted up on the device. */
static void build_greedy(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  const tsr_program_size *size = &key->size;
  refs->token = tsr_state(p, "token", TSR_I32, TSR_SHAPE(size->batch));
  refs->position = tsr_state(p, "position", TSR_I32, position_shape(key, size->batch));
  tsr_ref one = tsr_constant(p, TSR_ONE_NAME, TSR_I32, TSR_SHAPE(1));
  chosen_input(b, key, refs);
  mask_inputs(b, key, refs);
  tsr_scope_push(p, "search");
  /* First of all, where it is no stage of its own: what a GPU computes one after another counts. */
  tsr_ref after = tsr_add(p, refs->position, one);
  tsr_scope_pop(p);
  tsr_ref logits = build_step(b, key, 1, refs);
  tsr_scope_push(p, "search");
  tsr_ref next = TSR_NONE;
  tsr_ref value = tsr_topk(p, logits, 1, &next);
  refs->next = tsr_output(p, "next", tokens_of(b, next, refs->chosen));
  refs->next_logit = tsr_output(p, "next_logit", value);
  tsr_update(p, refs->token, tsr_reshape(p, refs->next, TSR_SHAPE(size->batch)));
  if (key->ahead == TSR_AHEAD_MANY) {
    build_log(p, size, one, refs);
  }
  tsr_update(p, refs->position, after);
  tsr_scope_pop(p);
}

/* Inputs token [R], position [1] or [R]; rows [R, C] and suppress as the key says.
 * -> values [R, k], indices [R, k], top_log_probability [R, 1] if the key asks for it; or scores [R, V]. */
static void build_beam(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  const tsr_program_size *size = &key->size;
  int64_t hypotheses = (int64_t)size->batch * size->beam;
  int32_t columns = columns_of(b, key);
  chosen_input(b, key, refs);
  refs->token = tsr_input(p, "token", TSR_I32, TSR_SHAPE(hypotheses));
  refs->position = tsr_input(p, "position", TSR_I32, position_shape(key, hypotheses));
  refs->rows = key->logits ? TSR_NONE : tsr_input(p, "rows", TSR_I32, TSR_SHAPE(hypotheses, size->target));
  if (key->masks > 0) {
    mask_inputs(b, key, refs);
  }
  tsr_ref logits = build_step(b, key, size->beam, refs);
  tsr_scope_push(p, "search");
  tsr_ref scores = key->logits ? logits : tsr_log_softmax(p, logits);
  if (key->candidates == TSR_WHOLE_ROWS) {
    refs->scores = tsr_output(p, "scores", scores);
  } else {
    int32_t k = key->candidates > 0 ? key->candidates : 2 * size->beam;
    tsr_ref indices = TSR_NONE;
    tsr_ref values = tsr_topk(p, scores, k < columns ? k : columns, &indices);
    refs->values = tsr_output(p, "values", values);
    refs->indices = tsr_output(p, "indices", tokens_of(b, indices, refs->chosen));
  }
  if (key->normaliser) {
    refs->top_log_probability = tsr_output(p, "top_log_probability", tsr_topk(p, tsr_log_softmax(p, logits), 1, NULL));
  }
  tsr_scope_pop(p);
}

/* A state of the decoder with room for `positions` rows of H*K. */
static tsr_ref state_of(const tsr_builder *b, const char *name, int64_t rows, int64_t positions)
{
  const tsr_transformer_config *config = &b->model->config;
  return tsr_state(b->program, name, tsr_builder_states(b),
                   TSR_SHAPE(rows, positions, tsr_config_key_heads(config, 1), config->decoder_head_size));
}

/* The rows `from` of a state [rows, length, H, K] take its first places. */
static void move_state(const tsr_builder *b, const char *name, int64_t rows, int64_t length, tsr_ref from)
{
  tsr_program *p = b->program;
  const tsr_transformer_config *config = &b->model->config;
  int64_t heads = tsr_config_key_heads(config, 1);
  int64_t size = config->decoder_head_size;
  int64_t moved = tsr_ref_shape(p, from).extent[0];
  tsr_ref state = state_of(b, name, rows, length);
  tsr_ref taken = tsr_reshape(p, tsr_gather(p, state, from, 0), TSR_SHAPE(1, moved * length, heads, size));
  tsr_append(p, tsr_reshape(p, state, TSR_SHAPE(1, rows * length, heads, size)), taken, TSR_NONE);
}

static void build_move(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  const tsr_program_size *size = &key->size;
  int32_t has_cross = b->model->config.encoder_layers > 0;
  refs->from = has_cross ? tsr_input(p, "from", TSR_I32, TSR_SHAPE(key->moved)) : TSR_NONE;
  refs->from_rows = tsr_input(p, "from_rows", TSR_I32, TSR_SHAPE((int64_t)key->moved * size->beam));
  tsr_scope_push(p, "search");
  for (int32_t i = 0; i < 2 * b->model->config.decoder_layers; i++) {
    const char *what = i % 2 == 0 ? "keys" : "values";
    char name[96];
    if (has_cross) {
      move_state(b, tsr_state_name(name, i / 2, "cross_attention", what), size->batch, size->source, refs->from);
    }
    move_state(b, tsr_state_name(name, i / 2, "self_attention", what), (int64_t)size->batch * size->beam, size->target,
               refs->from_rows);
  }
  tsr_scope_pop(p);
}

/* How far the states of GROW grow. */
typedef struct growth {
  const char *part;
  int64_t rows;
  int64_t from;
  int64_t to;
} growth;

static growth growth_of(const tsr_program_key *key)
{
  const tsr_program_size *size = &key->size;
  return size->source > 0 ? (growth){"cross_attention", size->batch, key->positions, size->source}
                          : (growth){"self_attention", (int64_t)size->batch * size->beam, key->positions, size->target};
}

/* Every row begins further behind than before, but for the first. A line that read and wrote one state would see what
 * it wrote already, so they pass through a temporary. */
static void build_grow(const tsr_builder *b, const tsr_program_key *key)
{
  tsr_program *p = b->program;
  const growth g = growth_of(key);
  tsr_scope_push(p, "search");
  for (int32_t i = 0; i < 2 * b->model->config.decoder_layers; i++) {
    char name[96];
    tsr_ref state = state_of(b, tsr_state_name(name, i / 2, g.part, i % 2 == 0 ? "keys" : "values"), g.rows, g.to);
    tsr_shape shape = tsr_ref_shape(p, state);
    tsr_ref flat = tsr_reshape(p, state, TSR_SHAPE(g.rows * g.to, shape.extent[2], shape.extent[3]));
    tsr_ref before = tsr_reshape(p, tsr_slice(p, flat, 0, g.from, (g.rows - 1) * g.from),
                                 TSR_SHAPE(g.rows - 1, g.from, shape.extent[2], shape.extent[3]));
    tsr_ref after = tsr_slice(p, tsr_slice(p, state, 0, 1, g.rows - 1), 1, 0, g.from);
    tsr_update(p, after, tsr_copy(p, before, tsr_builder_states(b)));
  }
  tsr_scope_pop(p);
}

tsr_status tsr_build_regrown(const tsr_builder *builder, const tsr_program_key *key)
{
  const growth g = growth_of(key);
  tsr_ref before = state_of(builder, TSR_BEFORE_NAME, g.rows, g.from);
  tsr_ref after = state_of(builder, TSR_AFTER_NAME, g.rows, g.to);
  tsr_update(builder->program, tsr_slice(builder->program, after, 1, 0, g.from), before);
  return tsr_program_status(builder->program);
}

static void build_prefill(const tsr_builder *b, const tsr_program_key *key, tsr_program_refs *refs)
{
  tsr_program *p = b->program;
  const tsr_program_size *size = &key->size;
  tsr_stack stack = tsr_stack_decoder(&b->model->config);
  refs->target = tsr_input(p, "target", TSR_I32, TSR_SHAPE(size->batch, key->positions));
  tsr_self_attention self = {.batch = size->batch,
                             .queries = key->positions,
                             .causal = 1,
                             .kept = size->beam,
                             .room = size->target,
                             .kept_rows = key->logits ? size->beam : 1};
  tsr_cross_attention room = {0};
  const tsr_cross_attention *cross = make_cross(b, size, key->positions, &room, refs);
  tsr_ref x = tsr_build_embedding(b, &stack, refs->target, size->batch, key->positions);
  tsr_build_stack(b, &stack, x, &self, cross);
}

static tsr_status check(const tsr_model *model, const tsr_program_key *key)
{
  const tsr_transformer_config *config = &model->config;
  const tsr_program_size *size = &key->size;
  int32_t decodes = key->kind != TSR_PROGRAM_ENCODE;
  int32_t has_encoder = tsr_config_encodes(config);
  int32_t has_source = has_encoder && key->kind != TSR_PROGRAM_GROW;
  int32_t has_target = decodes && (key->kind != TSR_PROGRAM_GROW || size->source == 0);
  if ((key->kind < TSR_PROGRAM_ENCODE || key->kind > TSR_PROGRAM_SCORE) &&
      (key->kind < TSR_PROGRAM_MOVE || key->kind > TSR_PROGRAM_GROW)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there is no kind %d of program", (int)key->kind);
  }
  if (decodes && (config->decoder_layers == 0 || config->target_vocabulary == 0)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the configuration has no decoder with a vocabulary", model->folder);
  }
  if (!has_encoder && (!decodes || config->encoder_layers > 0)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the configuration has no encoder with a vocabulary", model->folder);
  }
  if (config->mels > 0 && has_source && size->source != config->source_positions) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s reads windows of %d positions; the program is for %d", model->folder,
                    (int)config->source_positions, (int)size->source);
  }
  if (size->batch < 1 || (has_source && size->source < 1) || (has_target && size->target < 1) ||
      (key->kind == TSR_PROGRAM_BEAM &&
       (size->beam < 1 || key->candidates > TSR_MAX_CANDIDATES || 2 * (int64_t)size->beam > TSR_MAX_CANDIDATES))) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "the program's sizes are batch %d, source %d, target %d, beam %d; each should be at least 1, and the "
        "beam at most 512",
        (int)size->batch, (int)size->source, (int)size->target, (int)size->beam);
  }
  if (key->source_room != 0 && key->source_room < size->source) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%d source tokens do not fit into states for %d", (int)size->source,
                    (int)key->source_room);
  }
  const int32_t source_positions = tsr_config_source_positions(config);
  if ((has_encoder && size->source > source_positions) || (decodes && size->target > config->max_positions)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s has %d positions; the program is for %d source tokens and %d target tokens",
                    model->folder, (int)config->max_positions, config->mels > 0 ? 0 : (int)size->source,
                    decodes ? (int)size->target : 0);
  }
  return TSR_OK;
}

tsr_status tsr_build_program(const tsr_builder *builder, const tsr_program_key *key, tsr_program_refs *refs)
{
  *refs = (tsr_program_refs){TSR_NONE};
  TSR_TRY(check(builder->model, key));
  switch (key->kind) {
  case TSR_PROGRAM_ENCODE:
    build_encode(builder, key, refs);
    break;
  case TSR_PROGRAM_DECODE:
    build_decode(builder, &key->size, refs);
    break;
  case TSR_PROGRAM_SCORE:
    build_score(builder, &key->size, refs);
    break;
  case TSR_PROGRAM_GREEDY:
    build_greedy(builder, key, refs);
    break;
  case TSR_PROGRAM_PREFILL:
    build_prefill(builder, key, refs);
    break;
  case TSR_PROGRAM_GROW:
    build_grow(builder, key);
    break;
  case TSR_PROGRAM_MOVE:
    build_move(builder, key, refs);
    break;
  default:
    build_beam(builder, key, refs);
    break;
  }
  return tsr_program_status(builder->program);
}

static tsr_status make_program(const tsr_model *model, tsr_dtype weights, tsr_dtype states, int32_t kind,
                               const tsr_program_size *size, tsr_program **program)
{
  tsr_builder builder = {.model = model, .weights = weights, .states = states};
  TSR_TRY(tsr_program_create(&builder.program));
  tsr_program_key key = {.kind = kind, .size = *size};
  if (model->config.mels > 0) {
    key.size.source = model->config.source_positions;
  }
  tsr_program_refs refs;
  tsr_status status = tsr_build_program(&builder, &key, &refs);
  if (status != TSR_OK) {
    tsr_program_destroy(builder.program);
    return status;
  }
  *program = builder.program;
  return TSR_OK;
}

tsr_status tsr_model_program(const tsr_model *model, tsr_dtype weights, int32_t kind, const tsr_program_size *size,
                             tsr_program **program)
{
  if (!model || !size || !program) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_program: no argument may be NULL");
  }
  *program = NULL;
  return make_program(model, weights, TSR_F32, kind, size, program);
}

tsr_status tsr_model_program_with_states(const tsr_model *model, tsr_dtype weights, tsr_dtype states, int32_t kind,
                                         const tsr_program_size *size, tsr_program **program)
{
  if (!model || !size || !program) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_program_with_states: no argument may be NULL");
  }
  *program = NULL;
  if (states != TSR_F32 && (states != weights || (states != TSR_F16 && states != TSR_BF16))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_program_with_states: states are f32, or weights' f16 or bf16, not %s",
                    tsr_dtype_name(states));
  }
  return make_program(model, weights, states, kind, size, program);
}

tsr_status tsr_transformer_program(const tsr_transformer *transformer, int32_t kind, const tsr_program_size *size,
                                   tsr_program **program)
{
  if (!transformer || !size || !program) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_program: no argument may be NULL");
  }
  *program = NULL;
  return make_program(transformer->model, transformer->options.weights, transformer->states, kind, size, program);
}
