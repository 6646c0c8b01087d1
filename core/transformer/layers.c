/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/layers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_ROOM = 96 };

tsr_stack tsr_stack_encoder(const tsr_transformer_config *config)
{
  return (tsr_stack){.name = "encoder",
                     .width = tsr_config_width(config, 0),
                     .layers = config->encoder_layers,
                     .heads = config->encoder_heads,
                     .key_heads = tsr_config_key_heads(config, 0),
                     .head_size = config->encoder_head_size,
                     .vocabulary = config->source_vocabulary};
}

tsr_stack tsr_stack_decoder(const tsr_transformer_config *config)
{
  return (tsr_stack){.name = "decoder",
                     .decoder = 1,
                     .width = config->d_model,
                     .layers = config->decoder_layers,
                     .heads = config->decoder_heads,
                     .key_heads = tsr_config_key_heads(config, 1),
                     .head_size = config->decoder_head_size,
                     .vocabulary = config->target_vocabulary};
}

tsr_dtype tsr_builder_states(const tsr_builder *b)
{
  return b->states != 0 ? b->states : TSR_F32;
}

char *tsr_state_name(char *name, int32_t layer, const char *part, const char *what)
{
  snprintf(name, NAME_ROOM, "decoder.layers.%d.%s.%s", (int)layer, part, what);
  return name;
}

/* Opens a scope for each part of a dotted path. Returns their number, for close_scopes. */
static int32_t open_scopes(const tsr_builder *b, const char *path)
{
  int32_t n = 0;
  while (*path) {
    int length = (int)strcspn(path, ".");
    tsr_scope_push(b->program, "%.*s", length, path);
    path += length + (path[length] == '.');
    n++;
  }
  return n;
}

static void close_scopes(const tsr_builder *b, int32_t n)
{
  while (n-- > 0) {
    tsr_scope_pop(b->program);
  }
}

/* Makes x an output of that name, if the program is to hand out such tensors. */
static void tap(const tsr_builder *b, int32_t what, tsr_ref x, const char *format, ...) TSR_PRINTF(4, 5);
static void tap(const tsr_builder *b, int32_t what, tsr_ref x, const char *format, ...)
{
  if ((b->taps & what) == 0) {
    return;
  }
  char name[2 * NAME_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  tsr_output(b->program, name, x);
}

/* The constant of that name, made when it is first asked for; TSR_NONE if the model has no such parameter. */
static tsr_ref parameter(const tsr_builder *b, const char *format, ...) TSR_PRINTF(2, 3);
static tsr_ref parameter(const tsr_builder *b, const char *format, ...)
{
  char name[2 * NAME_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  tsr_ref known = tsr_program_find(b->program, name);
  if (known != TSR_NONE) {
    return known;
  }
  const tsr_parameter *found = tsr_model_find(b->model, name);
  if (found && b->training) {
    return tsr_state(b->program, name, TSR_F32, found->shape);
  }
  if (!found) {
    return TSR_NONE;
  }
  tsr_kept scales;
  const tsr_kept elements = tsr_parameter_kept(found, tsr_parameter_dtype(found, b->weights), &scales);
  return tsr_constant(b->program, name, elements.dtype, elements.shape);
}

/* x with a part of its elements dropped, in training. */
static tsr_ref dropped(const tsr_builder *b, tsr_ref x, float rate)
{
  if (!b->training || rate <= 0.0f) {
    return x;
  }
  return tsr_dropout(b->program, x, b->training->seed, rate, b->training->stream++);
}

/* What a sublayer, or an embedding, gives. */
static tsr_ref dropped_result(const tsr_builder *b, tsr_ref x)
{
  return dropped(b, x, b->training ? b->training->dropout : 0.0f);
}

/* A number, [1], that the model has among its parameters. */
static tsr_ref number(const tsr_builder *b, double value)
{
  return parameter(b, TSR_NUMBER_FORMAT, 1e6 * value);
}

/* y = 1 / (1 + exp(-x)), x [T, F]: the softmax of x and 0. */
static tsr_ref sigmoid(const tsr_builder *b, tsr_ref x)
{
  tsr_program *p = b->program;
  const tsr_shape shape = tsr_ref_shape(p, x), pairs = TSR_SHAPE(shape.extent[0], shape.extent[1], 1);
  const tsr_ref operands[2] = {tsr_reshape(p, x, pairs), tsr_expand(p, number(b, 0.0), pairs)};
  tsr_ref both = tsr_softmax(p, tsr_concat(p, operands, 2, 2), TSR_NONE);
  return tsr_reshape(p, tsr_copy(p, tsr_slice(p, both, 2, 0, 1), TSR_F32), shape);
}

/* y = activation(x). */
static tsr_ref activated(const tsr_builder *b, tsr_ref x, int32_t activation)
{
  tsr_program *p = b->program;
  switch (activation) {
  case TSR_ACTIVATION_GELU_SIGMOID:
    x = tsr_silu(p, tsr_mul(p, x, number(b, TSR_GELU_SIGMOID)));
    return tsr_mul(p, x, number(b, 1.0 / TSR_GELU_SIGMOID));
  case TSR_ACTIVATION_SIGMOID:
    return sigmoid(b, x);
  case TSR_ACTIVATION_TANH: /* 2 / (1 + exp(-2 x)) - 1 */
    x = tsr_mul(p, sigmoid(b, tsr_mul(p, x, number(b, 2.0))), number(b, 2.0));
    return tsr_add(p, x, number(b, -1.0));
  case TSR_ACTIVATION_NONE:
    return x;
  case TSR_ACTIVATION_RELU:
    return tsr_relu(b->program, x);
  case TSR_ACTIVATION_SILU:
    return tsr_silu(b->program, x);
  default:
    return tsr_gelu(b->program, x, activation);
  }
}

/* The scales of a matrix that is kept as i8 or in four bits; TSR_NONE for one that is not. */
static tsr_ref scales_of(const tsr_builder *b, tsr_ref matrix)
{
  if (tsr_ref_dtype(b->program, matrix) != TSR_I8) {
    return TSR_NONE;
  }
  char name[TSR_PARAMETER_NAME_ROOM];
  const char *of = tsr_ref_name(b->program, matrix);
  const tsr_parameter *found = tsr_model_find(b->model, of);
  tsr_kept scales;
  tsr_scales_name(name, of);
  tsr_ref known = tsr_program_find(b->program, name);
  tsr_parameter_kept(found, tsr_parameter_dtype(found, b->weights), &scales);
  return known != TSR_NONE ? known : tsr_constant(b->program, name, scales.dtype, scales.shape);
}

/* Rows of a table of `width` in whatever type it is kept, [.., D]. padding: as of tsr_embedding_padded. */
static tsr_ref rows_of(const tsr_builder *b, tsr_ref table, int32_t width, tsr_ref ids, float alpha, int32_t padding)
{
  tsr_ref scales = scales_of(b, table);
  if (scales == TSR_NONE) {
    return tsr_embedding_padded(b->program, table, ids, alpha, padding);
  }
  if (tsr_ref_dtype(b->program, scales) != TSR_F16) {
    return tsr_embedding_i8(b->program, table, scales, ids, alpha);
  }
  tsr_ref rows = tsr_embedding_i4(b->program, table, scales, ids, alpha);
  return tsr_slice(b->program, rows, -1, 0, width);
}

/* 1 if what is multiplied with matrices of 16 bits may be rounded to their type: who asks for such a type, rather than
 * for the model as it is stored, asks for its speed. In training not to f16: of numbers beyond its range the loss's
 * scale has to learn. */
static int reduces_precision(const tsr_builder *b, tsr_dtype type)
{
  if (b->training) {
    return type == TSR_BF16 && type == b->training->products;
  }
  return (type == TSR_F16 || type == TSR_BF16) && type == b->weights;
}

/* Likewise of attention's factors: the attribute. bf16 has too few bits for a model that only translates to gain by
 * it; in training the products around attention round to it anyway. */
static int32_t reduced_attention(const tsr_builder *b)
{
  return b->training && reduces_precision(b, TSR_BF16) ? TSR_BF16 : reduces_precision(b, TSR_F16);
}

/* y = activation(alpha x W^T + bias), W [out, in] in whatever type it is kept. The activation is an operator's. */
static tsr_ref product(const tsr_builder *b, tsr_ref x, tsr_ref weight, tsr_ref bias, float alpha, int32_t activation)
{
  if (b->training && b->training->products != TSR_F32) {
    weight = tsr_copy(b->program, weight, b->training->products);
  }
  tsr_ref scales = scales_of(b, weight), transposed = tsr_transpose(b->program, weight, 0, 1);
  tap(b, TSR_INSPECT_INPUTS, x, "%s.input", tsr_ref_name(b->program, weight));
  if (scales != TSR_NONE && tsr_ref_dtype(b->program, scales) == TSR_F16) {
    scales = tsr_transpose(b->program, scales, 0, 1);
    return tsr_matmul_i4(b->program, x, transposed, scales, bias, alpha, activation);
  }
  if (scales != TSR_NONE) {
    return tsr_matmul_i8(b->program, x, transposed, scales, bias, alpha, activation);
  }
  /* A gradient needs the argument of the activation; of relu the result is enough. */
  const int apart = b->training && activation != TSR_ACTIVATION_NONE && activation != TSR_ACTIVATION_RELU;
  const int32_t fused = apart ? TSR_ACTIVATION_NONE : activation;
  tsr_ref y = reduces_precision(b, tsr_ref_dtype(b->program, weight))
                  ? tsr_matmul_reduced_precision(b->program, x, transposed, bias, alpha, fused)
                  : tsr_matmul(b->program, x, transposed, bias, alpha, fused);
  return apart ? activated(b, y, activation) : y;
}

/* y = activation(x W^T + b), W and b being NAME.weight and NAME.bias under `prefix`. */
static tsr_ref linear(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name, int32_t activation)
{
  tsr_ref weight = parameter(b, "%s.%s.weight", prefix, name), bias = parameter(b, "%s.%s.bias", prefix, name);
  const int is_composed = activation >= TSR_ACTIVATION_COMPOSED;
  tsr_ref y = product(b, x, weight, bias, 1.0f, is_composed ? TSR_ACTIVATION_NONE : activation);
  return is_composed ? activated(b, y, activation) : y;
}

static tsr_ref norm(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name)
{
  const tsr_transformer_config *config = &b->model->config;
  tsr_scope_push(b->program, "%s", name);
  tsr_ref gain = parameter(b, "%s.%s.weight", prefix, name);
  tsr_ref bias = parameter(b, "%s.%s.bias", prefix, name);
  tsr_ref y = config->norm == TSR_NORM_RMS         ? tsr_rmsnorm(b->program, x, gain, config->epsilon)
              : config->norm == TSR_NORM_LAYER_STD ? tsr_layernorm_std(b->program, x, gain, bias, config->epsilon)
                                                   : tsr_layernorm(b->program, x, gain, bias, config->epsilon);
  tsr_scope_pop(b->program);
  tap(b, TSR_INSPECT_NORMS, y, "%s.%s", prefix, name);
  return y;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* Rows of the position table from the first token's on, or TSR_NONE for a family without one. */
static tsr_ref positions(const tsr_builder *b, const tsr_stack *stack)
{
  const tsr_transformer_config *config = &b->model->config;
  const tsr_model_side side = tsr_model_side_of(b->model, stack->decoder);
  tsr_ref table = TSR_NONE;
  switch (side.position) {
  case TSR_POSITION_LEARNED:
    table = parameter(b, "%s.positions.weight", stack->name);
    return tsr_slice(b->program, table, 0, side.position_offset,
                     stack->decoder ? config->max_positions : tsr_config_source_positions(config));
  case TSR_POSITION_SINUSOID_HALVES:
  case TSR_POSITION_SINUSOID_INTERLEAVED:
  case TSR_POSITION_SINUSOID_TENSOR2TENSOR:
    table = tsr_program_find(b->program, TSR_POSITIONS_NAME);
    if (table == TSR_NONE) {
      table = tsr_constant(b->program, TSR_POSITIONS_NAME, TSR_F32, TSR_SHAPE(config->max_positions, config->d_model));
    }
    return table;
  default:
    return TSR_NONE;
  }
}

static tsr_ref token_rows(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids)
{
  const tsr_transformer_config *config = &b->model->config;
  tsr_ref table =
      config->shared_embedding ? parameter(b, "embedding.weight") : parameter(b, "%s.embedding.weight", stack->name);
  const float factor = tsr_model_side_of(b->model, stack->decoder).embedding_scale;
  return rows_of(b, table, stack->width, ids, factor, b->model->family->frozen_pad ? config->pad_id : -1);
}

static tsr_ref embedding_norm(const tsr_builder *b, const tsr_stack *stack, tsr_ref x)
{
  return tsr_model_side_of(b->model, stack->decoder).embedding_norm ? norm(b, x, stack->name, "embedding_norm") : x;
}

tsr_ref tsr_build_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, int64_t batch, int64_t length)
{
  tsr_scope_push(b->program, "%s", stack->name);
  tsr_scope_push(b->program, "embedding");
  tsr_ref x = token_rows(b, stack, ids);
  tsr_ref table = positions(b, stack);
  if (table != TSR_NONE) {
    x = tsr_add(b->program, x, tsr_slice(b->program, table, 0, 0, length));
  }
  x = tsr_reshape(b->program, x, TSR_SHAPE(batch * length, stack->width));
  x = dropped_result(b, embedding_norm(b, stack, x));
  tap(b, TSR_INSPECT_LAYERS, x, "%s.embedding", stack->name);
  close_scopes(b, 2);
  return x;
}

/* gelu(conv1d(x)) with a kernel of three rows and a row of zeros at either end: x [B, T, ..] -> [B, .., D]. */
static tsr_ref convolution(const tsr_builder *b, tsr_ref x, const char *name, int32_t stride)
{
  tsr_scope_push(b->program, "%s", name);
  tsr_ref weight = parameter(b, "encoder.%s.weight", name), bias = parameter(b, "encoder.%s.bias", name);
  tsr_ref y = tsr_conv1d(b->program, x, weight, bias, stride, 1);
  y = tsr_gelu(b->program, y, TSR_ACTIVATION_GELU_ERF);
  tsr_scope_pop(b->program);
  tap(b, TSR_INSPECT_CONVOLUTIONS, y, "encoder.%s", name);
  return y;
}

tsr_ref tsr_build_speech_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref features)
{
  const tsr_transformer_config *config = &b->model->config;
  const int64_t batch = tsr_ref_shape(b->program, features).extent[0];
  const int64_t length = tsr_ref_shape(b->program, features).extent[2] / 2;
  tsr_scope_push(b->program, "%s", stack->name);
  tsr_scope_push(b->program, "embedding");
  tsr_ref x = convolution(b, tsr_transpose(b->program, features, 1, 2), "conv1", 1);
  x = convolution(b, x, "conv2", 2);
  const tsr_ref table = positions(b, stack);
  x = tsr_add(b->program, x, length < config->source_positions ? tsr_slice(b->program, table, 0, 0, length) : table);
  x = tsr_reshape(b->program, x, TSR_SHAPE(batch * length, config->d_model));
  x = dropped_result(b, x);
  tap(b, TSR_INSPECT_LAYERS, x, "%s.embedding", stack->name);
  close_scopes(b, 2);
  return x;
}

tsr_ref tsr_build_step_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, tsr_ref position)
{
  tsr_scope_push(b->program, "%s", stack->name);
  tsr_scope_push(b->program, "embedding");
  tsr_ref x = token_rows(b, stack, ids);
  tsr_ref table = positions(b, stack);
  if (table != TSR_NONE) {
    x = tsr_add(b->program, x, tsr_embedding(b->program, table, position, 1.0f));
  }
  x = embedding_norm(b, stack, x);
  close_scopes(b, 2);
  return x;
}

/* ---- sublayers --------------------------------------------------------------------------------------------------- */

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
  char name[NAME_ROOM];
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
  tsr_ref zeros = tsr_expand(p, number(b, 0.0), TSR_SHAPE(batch, 2 * (int64_t)most + 1, q.extent[1], k.extent[1]));
  const tsr_masking masking = {.position = position,
                               .relative = parameter(b, TSR_DISTANCES_FORMAT, (int)most),
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
  tsr_ref keys = tsr_transpose(p, parameter(b, "%s.relative_keys.weight", prefix), 0, 1);
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
  return tsr_add(p, y, tsr_product(p, sums, parameter(b, "%s.relative_values.weight", prefix)));
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
  tsr_ref biases = parameter(b, TSR_WINDOW_FORMAT, (int)config->window);
  masking->relative = tsr_expand(b->program, biases, TSR_SHAPE(2 * (int64_t)config->window + 1, stack->heads));
  masking->clamped = 1;
  masking->max_distance = config->window;
}

static tsr_ref self_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                              tsr_ref x, const tsr_self_attention *self)
{
  const tsr_transformer_config *config = &b->model->config;
  const tsr_model_side side = tsr_model_side_of(b->model, stack->decoder);
  const int is_grouped = stack->key_heads != stack->heads;
  const int64_t inner = is_grouped ? 0 : (int64_t)stack->heads * stack->head_size; /* columns before the keys' */
  tsr_scope_push(b->program, "self_attention");
  tsr_ref queries =
      linear(b, x, prefix, is_grouped ? "self_attention.query" : "self_attention.qkv", TSR_ACTIVATION_NONE);
  tsr_ref kv = is_grouped ? linear(b, x, prefix, "self_attention.kv", TSR_ACTIVATION_NONE) : queries;
  tsr_attention_args args = {
      .q = query_heads(b, stack, queries, self->batch, self->queries),
      .k = key_heads(b, stack, kv, inner, self->batch, self->queries),
      .v = key_heads(b, stack, kv, inner + key_width(stack), self->batch, self->queries),
      .rows = self->rows,
      .softcap = config->attention_softcap,
      .masking = {.lengths = self->lengths, .position = self->position, .causal = self->causal},
      .alpha = attention_scale(stack, side.self_scale),
      .reduced_precision = reduced_attention(b),
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
    args.masking.relative = parameter(b, "%s.relative.weight", config->relative_layers ? prefix : stack->name);
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
  tap(b, TSR_INSPECT_SELF_ATTENTION, weights, "%s.self_attention.weights", prefix);
  y = linear(b, y, prefix, "self_attention.output", TSR_ACTIVATION_NONE);
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

static tsr_ref cross_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                               tsr_ref x, const tsr_cross_attention *cross)
{
  tsr_scope_push(b->program, "cross_attention");
  tsr_ref query = linear(b, x, prefix, "cross_attention.query", TSR_ACTIVATION_NONE);
  tsr_attention_args args = {
      .q = query_heads(b, stack, query, cross->batch, cross->queries),
      .masking = {.lengths = cross->lengths},
      .softcap = b->model->config.attention_softcap,
      .alpha = attention_scale(stack, tsr_model_side_of(b->model, stack->decoder).cross_scale),
      .reduced_precision = reduced_attention(b),
  };
  if (cross->encoded != TSR_NONE) {
    tsr_ref kv = linear(b, cross->encoded, prefix, "cross_attention.kv", TSR_ACTIVATION_NONE);
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
  tap(b, TSR_INSPECT_CROSS_ATTENTION, weights, "%s.cross_attention.weights", prefix);
  if (cross->shown == layer + 1) {
    *cross->attention = tsr_output(b->program, "attention", sum_heads(b, weights, cross->shown_heads));
  }
  align(b, cross, layer, weights);
  y = linear(b, y, prefix, "cross_attention.output", TSR_ACTIVATION_NONE);
  tsr_scope_pop(b->program);
  return y;
}

static tsr_ref feed_forward(const tsr_builder *b, const tsr_stack *stack, const char *prefix, tsr_ref x)
{
  const tsr_model_side side = tsr_model_side_of(b->model, stack->decoder);
  tsr_scope_push(b->program, "feed_forward");
  tsr_ref y = TSR_NONE;
  if (side.gated) {
    tsr_ref gate = linear(b, x, prefix, "feed_forward.gate", side.activation);
    y = tsr_mul(b->program, gate, linear(b, x, prefix, "feed_forward.in", TSR_ACTIVATION_NONE));
  } else {
    y = linear(b, x, prefix, "feed_forward.in", side.activation);
  }
  y = dropped(b, y, b->training ? b->training->activation_dropout : 0.0f);
  y = linear(b, y, prefix, "feed_forward.out", TSR_ACTIVATION_NONE);
  tsr_scope_pop(b->program);
  return y;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* What a sublayer reads: the stream, normalised first unless only the sum is. */
static tsr_ref before(const tsr_builder *b, const tsr_stack *stack, const char *prefix, const char *name, tsr_ref x)
{
  return tsr_model_side_of(b->model, stack->decoder).norm_position != TSR_NORM_POST ? norm(b, x, prefix, name) : x;
}

/* The stream after a sublayer gave y: the sum, normalised in a post-norm model; where there are two norms y is. */
static tsr_ref after(const tsr_builder *b, const tsr_stack *stack, const char *prefix, const char *name, tsr_ref x,
                     tsr_ref y)
{
  const int32_t norm_position = tsr_model_side_of(b->model, stack->decoder).norm_position;
  const int of_name = (int)(strlen(name) - strlen("_norm"));
  if (norm_position == TSR_NORM_SANDWICH) {
    char other[NAME_ROOM];
    snprintf(other, sizeof other, "%.*s_post_norm", of_name, name);
    y = norm(b, y, prefix, other);
  }
  tsr_ref sum = tsr_add(b->program, x, dropped_result(b, y));
  tap(b, TSR_INSPECT_SUMS, sum, "%s.%.*s_sum", prefix, of_name, name);
  return norm_position == TSR_NORM_POST ? norm(b, sum, prefix, name) : sum;
}

static tsr_ref layer(const tsr_builder *b, const tsr_stack *stack, int32_t index, tsr_ref x,
                     const tsr_self_attention *self, const tsr_cross_attention *cross)
{
  char prefix[NAME_ROOM];
  snprintf(prefix, sizeof prefix, "%s.layers.%d", stack->name, (int)index);
  int32_t scopes = open_scopes(b, prefix), first = tsr_program_line_count(b->program);
  tsr_ref y = self_attention(b, stack, index, prefix, before(b, stack, prefix, "self_attention_norm", x), self);
  x = after(b, stack, prefix, "self_attention_norm", x, y);
  if (cross) {
    y = cross_attention(b, stack, index, prefix, before(b, stack, prefix, "cross_attention_norm", x), cross);
    x = after(b, stack, prefix, "cross_attention_norm", x, y);
  }
  y = feed_forward(b, stack, prefix, before(b, stack, prefix, "feed_forward_norm", x));
  x = after(b, stack, prefix, "feed_forward_norm", x, y);
  tap(b, TSR_INSPECT_LAYERS, x, "%s", prefix);
  close_scopes(b, scopes);
  if (b->training) {
    b->training->layers[b->training->n_layers++] = (tsr_line_range){first, tsr_program_line_count(b->program)};
  }
  return x;
}

tsr_ref tsr_build_stack(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, const tsr_self_attention *self,
                        const tsr_cross_attention *cross)
{
  for (int32_t i = 0; i < stack->layers; i++) {
    tap(b, TSR_INSPECT_HIDDEN, x, "%s.hidden.%d", stack->name, (int)i);
    x = layer(b, stack, i, x, self, cross);
  }
  if (tsr_model_side_of(b->model, stack->decoder).final_norm) {
    tsr_scope_push(b->program, "%s", stack->name);
    x = norm(b, x, stack->name, "norm");
    tsr_scope_pop(b->program);
  }
  tap(b, TSR_INSPECT_HIDDEN, x, "%s.hidden.%d", stack->name, (int)stack->layers);
  return x;
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
    char prefix[NAME_ROOM];
    snprintf(prefix, sizeof prefix, "decoder.layers.%d", (int)i);
    int32_t scopes = open_scopes(b, prefix);
    tsr_scope_push(b->program, "cross_attention");
    tsr_ref kv = linear(b, x, prefix, "cross_attention.kv", TSR_ACTIVATION_NONE);
    static const char *const parts[] = {"keys", "values"};
    for (int32_t j = 0; j < 2; j++) {
      int64_t rows = states->joined > 0 ? states->joined : states->batch;
      tsr_ref whole = state(b, &stack, i, "cross_attention", parts[j], rows, states->room);
      tsr_ref part = key_heads(b, &stack, kv, j * key_width(&stack), states->batch, states->keys);
      (states->joined > 0 ? put_apart : put_together)(b, whole, part, states);
    }
    close_scopes(b, scopes + 1);
  }
}

/* [V, D] */
static tsr_ref logits_table(const tsr_builder *b)
{
  const tsr_transformer_config *config = &b->model->config;
  return !config->tied_logits       ? parameter(b, "logits.weight")
         : config->shared_embedding ? parameter(b, "embedding.weight")
                                    : parameter(b, "decoder.embedding.weight");
}

static tsr_ref shortlist_state(const tsr_builder *b, tsr_ref chosen)
{
  int64_t rows = tsr_ref_shape(b->program, chosen).extent[0];
  return tsr_state(b->program, TSR_SHORTLIST_NAME, tsr_builder_states(b), TSR_SHAPE(rows, b->model->config.d_model));
}

void tsr_build_shortlist(const tsr_builder *b, tsr_ref chosen)
{
  tsr_scope_push(b->program, "logits");
  tsr_ref rows = rows_of(b, logits_table(b), b->model->config.d_model, chosen, 1.0f, -1);
  tsr_update(b->program, shortlist_state(b, chosen), rows);
  tsr_scope_pop(b->program);
}

tsr_ref tsr_build_logits(const tsr_builder *b, tsr_ref x, const tsr_logits_mask *mask, tsr_ref chosen)
{
  const tsr_transformer_config *config = &b->model->config;
  tsr_scope_push(b->program, "logits");
  tsr_ref table = chosen != TSR_NONE ? shortlist_state(b, chosen) : logits_table(b);
  tsr_ref bias = parameter(b, "logits.bias");
  if (bias != TSR_NONE && chosen != TSR_NONE) {
    bias = tsr_gather(b->program, bias, chosen, 0);
  }
  const float softcap = config->logits_softcap;
  tsr_ref hidden = mask ? mask->values : TSR_NONE;
  if (hidden != TSR_NONE) {
    /* With the bias first they give the same bits, for a few rows instead of all. */
    hidden = bias != TSR_NONE && softcap == 0.0f ? tsr_add(b->program, hidden, bias) : hidden;
    hidden = mask->rows != TSR_NONE ? tsr_gather(b->program, hidden, mask->rows, 0) : hidden;
  }
  tsr_ref y = TSR_NONE;
  if (softcap > 0.0f) { /* what is hidden is so after the cap, which makes finite numbers of all */
    y = product(b, x, table, bias, config->logits_scale, TSR_ACTIVATION_NONE);
    y = activated(b, tsr_mul(b->program, y, number(b, 1.0 / (double)softcap)), TSR_ACTIVATION_TANH);
    y = tsr_mul(b->program, y, number(b, (double)softcap));
    y = hidden != TSR_NONE ? tsr_add(b->program, y, hidden) : y;
  } else {
    y = product(b, x, table, hidden != TSR_NONE ? hidden : bias, config->logits_scale, TSR_ACTIVATION_NONE);
  }
  tsr_scope_pop(b->program);
  return y;
}
