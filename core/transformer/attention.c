/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/attention.h"

#include <math.h>
#include <stdio.h>

char *tsr_state_name(char *name, int32_t layer, const char *part, const char *what)
{
  snprintf(name, TSR_PART_NAME_ROOM, "decoder.layers.%d.%s.%s", (int)layer, part, what);
  return name;
}
/* Columns first .. first+n*K-1 of x [T, ..] as n heads: [B, L, n, K]. No copy. */
static tsr_ref split_heads(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, int64_t first, int32_t n,
                           int64_t batch, int64_t length)
{
  tsr_ref part = tsr_slice(b->program, x, 1, first, (int64_t)n * stack->head_size);
  return tsr_reshape(b->program, part, TSR_SHAPE(batch, length, n, stack->head_size));
}

static tsr_ref query_heads(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, int64_t batch, int64_t length)
{
  return split_heads(b, stack, x, 0, stack->heads, batch, length);
}

/* Columns of keys and values. */
static int64_t key_width(const tsr_stack *stack)
{
  return (int64_t)stack->key_heads * stack->head_size;
}

static tsr_ref key_heads(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, int64_t first, int64_t batch,
                         int64_t length)
{
  return split_heads(b, stack, x, first, stack->key_heads, batch, length);
}

/* scale: that of the model; 0: it has none of its own. */
static float attention_scale(const tsr_stack *stack, float scale)
{
  return scale != 0.0f ? scale : (float)(1.0 / sqrt((double)stack->head_size));
}

/* The weights, if they are to be handed out: *weights receives them. */
static void ask_weights(const tsr_builder *b, int32_t what, tsr_attention_args *args, tsr_ref *weights)
{
  args->weights = (b->taps & what) != 0 ? weights : NULL;
}

/* The dropout of the weights. */
static void drop_weights(const tsr_builder *b, tsr_attention_args *args)
{
  if (b->training && b->training->attention_dropout > 0.0f) {
    args->seed = b->training->seed;
    args->rate = b->training->attention_dropout;
    args->stream = b->training->stream++;
  }
}

static tsr_ref merge_heads(const tsr_builder *b, const tsr_stack *stack, tsr_ref y, int64_t rows)
{
  return tsr_reshape(b->program, y, TSR_SHAPE(rows, (int64_t)stack->heads * stack->head_size));
}

static tsr_ref state(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *part, const char *what,
                     int64_t rows, int64_t length)
{
  char name[TSR_PART_NAME_ROOM];
  return tsr_state(b->program, tsr_state_name(name, layer, part, what), tsr_builder_states(b),
                   TSR_SHAPE(rows, length, stack->key_heads, stack->head_size));
}

/* Keeps keys or values [B, L, H, K] at the beginning of a cache. */
static void keep(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *what,
                 const tsr_self_attention *self, tsr_ref x)
{
  tsr_ref whole = state(b, stack, layer, "self_attention", what, self->batch * self->kept, self->room);
  tsr_ref sentences = tsr_reshape(b->program, whole,
                                  TSR_SHAPE(self->batch, self->kept * self->room, stack->key_heads, stack->head_size));
  for (int32_t n = 0; n < self->kept_rows; n++) {
    tsr_update(b->program, tsr_slice(b->program, sentences, 1, n * self->room, self->queries), x);
  }
}

/* 1 where key s is at distance r - m of query l, else 0: [B or 1, 2 m + 1, L, S]. Distances beyond m count as m. */
static tsr_ref distances(const tsr_builder *b, int32_t most, const tsr_attention_args *args)
{
  tsr_program *p = b->program;
  const tsr_shape q = tsr_ref_shape(p, args->q), k = tsr_ref_shape(p, args->k);
  const tsr_ref position = args->masking.position;
  const int64_t batch = position != TSR_NONE ? tsr_ref_shape(p, position).extent[0] : 1;
  tsr_ref zeros =
      tsr_expand(p, tsr_build_number(b, 0.0), TSR_SHAPE(batch, 2 * (int64_t)most + 1, q.extent[1], k.extent[1]));
  const tsr_masking masking = {.position = position,
                               .relative = tsr_build_parameter(b, TSR_DISTANCES_FORMAT, (int)most),
                               .clamped = 1,
                               .max_distance = most};
  return tsr_mask(p, zeros, &masking);
}

/* Attention whose keys and values have vectors for their distance from the query (Shaw et al. 2018, arXiv:1803.02155):
 *   z[b, h, l, s] = alpha q[b, l, h] . (k[b, s, h] + K[d]),  y[b, l, h] = sum_s w[b, h, l, s] (v[b, s, h] + V[d])
 * with d = min(max(s - l, -m), m) + m. Each query's products with all 2 m + 1 vectors are spread over the keys, and the
 * weights of keys at the same distance are put together. As queries of one place share their distances, both are
 * products of matrices, one for each place: [L, B*H, 2 m + 1] with [L, 2 m + 1, S]. In a step each row has its own. */
static tsr_ref attention_by_distance(const tsr_builder *b, const char *prefix, int32_t most, tsr_attention_args *args,
                                     tsr_ref *weights)
{
  static const int32_t by_place[] = {2, 0, 1, 3}, back[] = {1, 2, 0, 3};
  tsr_program *p = b->program;
  const tsr_shape q = tsr_ref_shape(p, args->q);
  const int64_t batch = q.extent[0], length = q.extent[1], heads = q.extent[2], n = 2 * (int64_t)most + 1;
  tsr_ref at = distances(b, most, args); /* [B or 1, n, L, S] */
  const int64_t room = tsr_ref_shape(p, at).extent[3];
  tsr_ref keys = tsr_transpose(p, tsr_build_parameter(b, "%s.relative_keys.weight", prefix), 0, 1);
  tsr_ref by_row = tsr_matmul(p, args->q, keys, TSR_NONE, args->alpha, TSR_ACTIVATION_NONE); /* [B, L, H, n] */
  if (length == 1) {
    at = tsr_transpose(p, at, 1, 2); /* [B or 1, 1, n, S] */
    args->masking.additive = tsr_transpose(p, tsr_product(p, by_row, at), 1, 2);
  } else {
    at = tsr_transpose(p, tsr_reshape(p, at, TSR_SHAPE(n, length, room)), 0, 1); /* [L, n, S] */
    by_row = tsr_copy(p, tsr_transpose(p, by_row, 0, 1), TSR_F32);
    by_row = tsr_reshape(p, by_row, TSR_SHAPE(length, batch * heads, n));
    tsr_ref bias = tsr_reshape(p, tsr_product(p, by_row, at), TSR_SHAPE(length, batch, heads, room));
    args->masking.additive = tsr_permute(p, bias, back);
  }
  args->weights = weights;
  tsr_ref y = tsr_attention(p, args), sums = TSR_NONE; /* [B, L, H, n] */
  if (length == 1) {
    sums = tsr_product(p, tsr_transpose(p, *weights, 1, 2), tsr_transpose(p, at, 2, 3));
  } else {
    tsr_ref spread = tsr_copy(p, tsr_permute(p, *weights, by_place), TSR_F32);
    spread = tsr_reshape(p, spread, TSR_SHAPE(length, batch * heads, room));
    sums = tsr_product(p, spread, tsr_transpose(p, at, 1, 2));
    sums = tsr_transpose(p, tsr_reshape(p, sums, TSR_SHAPE(length, batch, heads, n)), 0, 1);
  }
  return tsr_add(p, y, tsr_product(p, sums, tsr_build_parameter(b, "%s.relative_values.weight", prefix)));
}

/* Rows of the table of rotary positions for the queries of a program, to be spread over their heads: [.., 1, K]. */
static tsr_ref rotary_rows(const tsr_builder *b, const tsr_stack *stack, const tsr_self_attention *self)
{
  tsr_program *p = b->program;
  const tsr_transformer_config *config = &b->model->config;
  const int64_t width = stack->head_size;
  tsr_ref table = tsr_program_find(p, TSR_POSITIONS_NAME);
  if (table == TSR_NONE) {
    table = tsr_constant(p, TSR_POSITIONS_NAME, TSR_F32, TSR_SHAPE(config->max_positions, width));
  }
  if (self->position == TSR_NONE) {
    return tsr_reshape(p, tsr_slice(p, table, 0, 0, self->queries), TSR_SHAPE(1, self->queries, 1, width));
  }
  tsr_ref rows = tsr_embedding(p, table, self->position, 1.0f);
  return tsr_reshape(p, rows, TSR_SHAPE(tsr_ref_shape(p, rows).extent[0], 1, 1, width));
}

/* Hides the keys beyond a layer's window, where there may be such. */
static void apply_window(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const tsr_self_attention *self,
                         tsr_masking *masking)
{
  const tsr_transformer_config *config = &b->model->config;
  const int64_t keys = self->capacity > 0 ? self->capacity : self->queries;
  const int32_t period = config->window_period;
  if (keys <= config->window || config->window == 0 || (period > 0 && (layer + 1) % period == 0)) {
    return;
  }
  tsr_ref biases = tsr_build_parameter(b, TSR_WINDOW_FORMAT, (int)config->window);
  masking->relative = tsr_expand(b->program, biases, TSR_SHAPE(2 * (int64_t)config->window + 1, stack->heads));
  masking->clamped = 1;
  masking->max_distance = config->window;
}

tsr_ref tsr_build_self_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                                 tsr_ref x, const tsr_self_attention *self)
{
  const tsr_transformer_config *config = &b->model->config;
  const tsr_model_side side = tsr_model_side_of(b->model, stack->decoder);
  const int is_grouped = stack->key_heads != stack->heads;
  const int64_t inner = is_grouped ? 0 : (int64_t)stack->heads * stack->head_size; /* columns before the keys' */
  tsr_scope_push(b->program, "self_attention");
  const char *first = is_grouped ? "self_attention.query" : "self_attention.qkv";
  tsr_ref queries = tsr_build_linear(b, x, prefix, first, TSR_ACTIVATION_NONE);
  tsr_ref kv = is_grouped ? tsr_build_linear(b, x, prefix, "self_attention.kv", TSR_ACTIVATION_NONE) : queries;
  tsr_attention_args args = {
      .q = query_heads(b, stack, queries, self->batch, self->queries),
      .k = key_heads(b, stack, kv, inner, self->batch, self->queries),
      .v = key_heads(b, stack, kv, inner + key_width(stack), self->batch, self->queries),
      .rows = self->rows,
      .softcap = config->attention_softcap,
      .masking = {.lengths = self->lengths, .position = self->position, .causal = self->causal},
      .alpha = attention_scale(stack, side.self_scale),
      .reduced_precision = tsr_builder_reduced_attention(b),
  };
  if (side.position == TSR_POSITION_ROTARY) {
    tsr_ref rows = rotary_rows(b, stack, self);
    args.q = tsr_rotate(b->program, args.q, rows, 1.0f);
    args.k = tsr_rotate(b->program, args.k, rows, 1.0f);
  }
  if (self->capacity > 0) {
    tsr_ref keys = state(b, stack, layer, "self_attention", "keys", self->batch, self->capacity);
    tsr_ref values = state(b, stack, layer, "self_attention", "values", self->batch, self->capacity);
    args.k = tsr_append(b->program, keys, args.k, self->position);
    args.v = tsr_append(b->program, values, args.v, self->position);
  }
  if (self->kept > 0) {
    keep(b, stack, layer, "keys", self, args.k);
    keep(b, stack, layer, "values", self, args.v);
  }
  int clamped = side.relative == TSR_POSITION_RELATIVE_CLAMPED;
  if (side.relative != TSR_POSITION_NONE) {
    args.masking.relative =
        tsr_build_parameter(b, "%s.relative.weight", config->relative_layers ? prefix : stack->name);
    args.masking.bidirectional = !clamped && !stack->decoder;
    args.masking.clamped = clamped;
    args.masking.max_distance = side.relative_distance;
  }
  apply_window(b, stack, layer, self, &args.masking);
  drop_weights(b, &args);
  tsr_ref weights = TSR_NONE;
  ask_weights(b, TSR_INSPECT_SELF_ATTENTION, &args, &weights);
  tsr_ref y = side.vectors > 0 ? attention_by_distance(b, prefix, side.vectors, &args, &weights)
                               : tsr_attention(b->program, &args);
  y = merge_heads(b, stack, y, self->batch * self->queries);
  tsr_build_tap(b, TSR_INSPECT_SELF_ATTENTION, weights, "%s.self_attention.weights", prefix);
  y = tsr_build_linear(b, y, prefix, "self_attention.output", TSR_ACTIVATION_NONE);
  tsr_scope_pop(b->program);
  return y;
}

/* The sum of weights [B, H, L, S] over the heads, or over those whose bits are set: [B, 1, L, S]. */
static tsr_ref sum_heads(const tsr_builder *b, tsr_ref weights, uint32_t chosen)
{
  enum { HEADS = 1 << 1 };
  tsr_ref sum = TSR_NONE;
  if (chosen == 0) {
    return tsr_reduce_sum(b->program, weights, HEADS);
  }
  for (int32_t head = 0; chosen != 0; head++, chosen >>= 1) {
    if ((chosen & 1) != 0) {
      tsr_ref one = tsr_reduce_sum(b->program, tsr_slice(b->program, weights, 1, head, 1), HEADS);
      sum = sum == TSR_NONE ? one : tsr_add(b->program, sum, one);
    }
  }
  return sum;
}

/* Heads of the layer among those whose weights are kept. */
static int32_t is_aligned(const tsr_builder *b, const tsr_cross_attention *cross, int32_t layer)
{
  int32_t n = 0;
  for (int32_t i = 0; cross->aligned != TSR_NONE && i < b->n_alignment; i++) {
    n += b->alignment[2 * i] == layer;
  }
  return n > 0;
}

/* Keeps the weights [B, H, L, S] of these heads. */
static void align(const tsr_builder *b, const tsr_cross_attention *cross, int32_t layer, tsr_ref weights)
{
  tsr_program *p = b->program;
  for (int32_t i = 0; cross->aligned != TSR_NONE && i < b->n_alignment; i++) {
    if (b->alignment[2 * i] == layer) {
      tsr_ref head = tsr_slice(p, weights, 1, b->alignment[2 * i + 1], 1);
      tsr_update(p, tsr_slice(p, cross->aligned, 2, i, 1), tsr_transpose(p, head, 1, 2));
    }
  }
}

tsr_ref tsr_build_cross_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                                  tsr_ref x, const tsr_cross_attention *cross)
{
  tsr_scope_push(b->program, "cross_attention");
  tsr_ref query = tsr_build_linear(b, x, prefix, "cross_attention.query", TSR_ACTIVATION_NONE);
  tsr_attention_args args = {
      .q = query_heads(b, stack, query, cross->batch, cross->queries),
      .masking = {.lengths = cross->lengths},
      .softcap = b->model->config.attention_softcap,
      .alpha = attention_scale(stack, tsr_model_side_of(b->model, stack->decoder).cross_scale),
      .reduced_precision = tsr_builder_reduced_attention(b),
  };
  if (cross->encoded != TSR_NONE) {
    tsr_ref kv = tsr_build_linear(b, cross->encoded, prefix, "cross_attention.kv", TSR_ACTIVATION_NONE);
    args.k = key_heads(b, stack, kv, 0, cross->batch, cross->keys);
    args.v = key_heads(b, stack, kv, key_width(stack), cross->batch, cross->keys);
  } else {
    args.k = state(b, stack, layer, "cross_attention", "keys", cross->batch, cross->keys);
    args.v = state(b, stack, layer, "cross_attention", "values", cross->batch, cross->keys);
  }
  drop_weights(b, &args);
  tsr_ref weights = TSR_NONE;
  ask_weights(b, TSR_INSPECT_CROSS_ATTENTION, &args, &weights);
  if (cross->shown == layer + 1 || is_aligned(b, cross, layer)) {
    args.weights = &weights;
  }
  tsr_ref y = merge_heads(b, stack, tsr_attention(b->program, &args), cross->batch * cross->queries);
  tsr_build_tap(b, TSR_INSPECT_CROSS_ATTENTION, weights, "%s.cross_attention.weights", prefix);
  if (cross->shown == layer + 1) {
    *cross->attention = tsr_output(b->program, "attention", sum_heads(b, weights, cross->shown_heads));
  }
  align(b, cross, layer, weights);
  y = tsr_build_linear(b, y, prefix, "cross_attention.output", TSR_ACTIVATION_NONE);
  tsr_scope_pop(b->program);
  return y;
}
/* Keys or values x [B, S, H, K] of all sentences. */
static void put_together(const tsr_builder *b, tsr_ref state, tsr_ref x, const tsr_cross_states *to)
{
  tsr_update(b->program, to->keys < to->room ? tsr_slice(b->program, state, 1, 0, to->keys) : state, x);
}

/* Of each sentence, where its place is. */
static void put_apart(const tsr_builder *b, tsr_ref state, tsr_ref x, const tsr_cross_states *to)
{
  tsr_shape shape = tsr_ref_shape(b->program, state);
  tsr_ref row = tsr_reshape(b->program, state, TSR_SHAPE(1, to->joined * to->room, shape.extent[2], shape.extent[3]));
  for (int64_t i = 0; i < to->batch; i++) {
    tsr_append(b->program, row, tsr_slice(b->program, x, 0, i, 1), tsr_slice(b->program, to->places, 0, i, 1));
  }
}

void tsr_build_cross_states(const tsr_builder *b, tsr_ref x, const tsr_cross_states *states)
{
  tsr_stack stack = tsr_stack_decoder(&b->model->config);
  for (int32_t i = 0; i < stack.layers; i++) {
    char prefix[TSR_PART_NAME_ROOM];
    snprintf(prefix, sizeof prefix, "decoder.layers.%d", (int)i);
    int32_t scopes = tsr_builder_open_scopes(b, prefix);
    tsr_scope_push(b->program, "cross_attention");
    tsr_ref kv = tsr_build_linear(b, x, prefix, "cross_attention.kv", TSR_ACTIVATION_NONE);
    static const char *const parts[] = {"keys", "values"};
    for (int32_t j = 0; j < 2; j++) {
      int64_t rows = states->joined > 0 ? states->joined : states->batch;
      tsr_ref whole = state(b, &stack, i, "cross_attention", parts[j], rows, states->room);
      tsr_ref part = key_heads(b, &stack, kv, j * key_width(&stack), states->batch, states->keys);
      (states->joined > 0 ? put_apart : put_together)(b, whole, part, states);
    }
    tsr_builder_close_scopes(b, scopes + 1);
  }
}
