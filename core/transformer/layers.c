/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/layers.h"

#include <stdio.h>
#include <string.h>

/* What a sublayer, or an embedding, gives. */
static tsr_ref dropped_result(const tsr_builder *b, tsr_ref x)
{
  return tsr_build_dropped(b, x, b->training ? b->training->dropout : 0.0f);
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
    table = tsr_build_parameter(b, "%s.positions.weight", stack->name);
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
  tsr_ref table = config->shared_embedding ? tsr_build_parameter(b, "embedding.weight")
                                           : tsr_build_parameter(b, "%s.embedding.weight", stack->name);
  const float factor = tsr_model_side_of(b->model, stack->decoder).embedding_scale;
  return tsr_build_rows(b, table, stack->width, ids, factor, b->model->family->frozen_pad ? config->pad_id : -1);
}

static tsr_ref embedding_norm(const tsr_builder *b, const tsr_stack *stack, tsr_ref x)
{
  return tsr_model_side_of(b->model, stack->decoder).embedding_norm
             ? tsr_build_norm(b, x, stack->name, "embedding_norm")
             : x;
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
  tsr_build_tap(b, TSR_INSPECT_LAYERS, x, "%s.embedding", stack->name);
  tsr_builder_close_scopes(b, 2);
  return x;
}

/* gelu(conv1d(x)) with a kernel of three rows and a row of zeros at either end: x [B, T, ..] -> [B, .., D]. */
static tsr_ref convolution(const tsr_builder *b, tsr_ref x, const char *name, int32_t stride)
{
  tsr_scope_push(b->program, "%s", name);
  tsr_ref weight = tsr_build_parameter(b, "encoder.%s.weight", name),
          bias = tsr_build_parameter(b, "encoder.%s.bias", name);
  tsr_ref y = tsr_conv1d(b->program, x, weight, bias, stride, 1);
  y = tsr_gelu(b->program, y, TSR_ACTIVATION_GELU_ERF);
  tsr_scope_pop(b->program);
  tsr_build_tap(b, TSR_INSPECT_CONVOLUTIONS, y, "encoder.%s", name);
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
  tsr_build_tap(b, TSR_INSPECT_LAYERS, x, "%s.embedding", stack->name);
  tsr_builder_close_scopes(b, 2);
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
  tsr_builder_close_scopes(b, 2);
  return x;
}
static tsr_ref feed_forward(const tsr_builder *b, const tsr_stack *stack, const char *prefix, tsr_ref x)
{
  const tsr_model_side side = tsr_model_side_of(b->model, stack->decoder);
  tsr_scope_push(b->program, "feed_forward");
  tsr_ref y = TSR_NONE;
  if (side.gated) {
    tsr_ref gate = tsr_build_linear(b, x, prefix, "feed_forward.gate", side.activation);
    y = tsr_mul(b->program, gate, tsr_build_linear(b, x, prefix, "feed_forward.in", TSR_ACTIVATION_NONE));
  } else {
    y = tsr_build_linear(b, x, prefix, "feed_forward.in", side.activation);
  }
  y = tsr_build_dropped(b, y, b->training ? b->training->activation_dropout : 0.0f);
  y = tsr_build_linear(b, y, prefix, "feed_forward.out", TSR_ACTIVATION_NONE);
  tsr_scope_pop(b->program);
  return y;
}
/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* What a sublayer reads: the stream, normalised first unless only the sum is. */
static tsr_ref before(const tsr_builder *b, const tsr_stack *stack, const char *prefix, const char *name, tsr_ref x)
{
  return tsr_model_side_of(b->model, stack->decoder).norm_position != TSR_NORM_POST ? tsr_build_norm(b, x, prefix, name)
                                                                                    : x;
}

/* The stream after a sublayer gave y: the sum, normalised in a post-norm model; where there are two norms y is. */
static tsr_ref after(const tsr_builder *b, const tsr_stack *stack, const char *prefix, const char *name, tsr_ref x,
                     tsr_ref y)
{
  const int32_t norm_position = tsr_model_side_of(b->model, stack->decoder).norm_position;
  const int of_name = (int)(strlen(name) - strlen("_norm"));
  if (norm_position == TSR_NORM_SANDWICH) {
    char other[TSR_PART_NAME_ROOM];
    snprintf(other, sizeof other, "%.*s_post_norm", of_name, name);
    y = tsr_build_norm(b, y, prefix, other);
  }
  tsr_ref sum = tsr_add(b->program, x, dropped_result(b, y));
  tsr_build_tap(b, TSR_INSPECT_SUMS, sum, "%s.%.*s_sum", prefix, of_name, name);
  return norm_position == TSR_NORM_POST ? tsr_build_norm(b, sum, prefix, name) : sum;
}

static tsr_ref layer(const tsr_builder *b, const tsr_stack *stack, int32_t index, tsr_ref x,
                     const tsr_self_attention *self, const tsr_cross_attention *cross)
{
  char prefix[TSR_PART_NAME_ROOM];
  snprintf(prefix, sizeof prefix, "%s.layers.%d", stack->name, (int)index);
  int32_t scopes = tsr_builder_open_scopes(b, prefix), first = tsr_program_line_count(b->program);
  tsr_ref y =
      tsr_build_self_attention(b, stack, index, prefix, before(b, stack, prefix, "self_attention_norm", x), self);
  x = after(b, stack, prefix, "self_attention_norm", x, y);
  if (cross) {
    y = tsr_build_cross_attention(b, stack, index, prefix, before(b, stack, prefix, "cross_attention_norm", x), cross);
    x = after(b, stack, prefix, "cross_attention_norm", x, y);
  }
  y = feed_forward(b, stack, prefix, before(b, stack, prefix, "feed_forward_norm", x));
  x = after(b, stack, prefix, "feed_forward_norm", x, y);
  tsr_build_tap(b, TSR_INSPECT_LAYERS, x, "%s", prefix);
  tsr_builder_close_scopes(b, scopes);
  if (b->training) {
    b->training->layers[b->training->n_layers++] = (tsr_line_range){first, tsr_program_line_count(b->program)};
  }
  return x;
}

tsr_ref tsr_build_stack(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, const tsr_self_attention *self,
                        const tsr_cross_attention *cross)
{
  for (int32_t i = 0; i < stack->layers; i++) {
    tsr_build_tap(b, TSR_INSPECT_HIDDEN, x, "%s.hidden.%d", stack->name, (int)i);
    x = layer(b, stack, i, x, self, cross);
  }
  if (tsr_model_side_of(b->model, stack->decoder).final_norm) {
    tsr_scope_push(b->program, "%s", stack->name);
    x = tsr_build_norm(b, x, stack->name, "norm");
    tsr_scope_pop(b->program);
  }
  tsr_build_tap(b, TSR_INSPECT_HIDDEN, x, "%s.hidden.%d", stack->name, (int)stack->layers);
  return x;
}
/* [V, D] */
static tsr_ref logits_table(const tsr_builder *b)
{
  const tsr_transformer_config *config = &b->model->config;
  return !config->tied_logits       ? tsr_build_parameter(b, "logits.weight")
         : config->shared_embedding ? tsr_build_parameter(b, "embedding.weight")
                                    : tsr_build_parameter(b, "decoder.embedding.weight");
}

static tsr_ref shortlist_state(const tsr_builder *b, tsr_ref chosen)
{
  int64_t rows = tsr_ref_shape(b->program, chosen).extent[0];
  return tsr_state(b->program, TSR_SHORTLIST_NAME, tsr_builder_states(b), TSR_SHAPE(rows, b->model->config.d_model));
}

void tsr_build_shortlist(const tsr_builder *b, tsr_ref chosen)
{
  tsr_scope_push(b->program, "logits");
  tsr_ref rows = tsr_build_rows(b, logits_table(b), b->model->config.d_model, chosen, 1.0f, -1);
  tsr_update(b->program, shortlist_state(b, chosen), rows);
  tsr_scope_pop(b->program);
}

tsr_ref tsr_build_logits(const tsr_builder *b, tsr_ref x, const tsr_logits_mask *mask, tsr_ref chosen)
{
  const tsr_transformer_config *config = &b->model->config;
  tsr_scope_push(b->program, "logits");
  tsr_ref table = chosen != TSR_NONE ? shortlist_state(b, chosen) : logits_table(b);
  tsr_ref bias = tsr_build_parameter(b, "logits.bias");
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
    y = tsr_build_product(b, x, table, bias, config->logits_scale, TSR_ACTIVATION_NONE);
    y = tsr_build_activated(b, tsr_mul(b->program, y, tsr_build_number(b, 1.0 / (double)softcap)), TSR_ACTIVATION_TANH);
    y = tsr_mul(b->program, y, tsr_build_number(b, (double)softcap));
    y = hidden != TSR_NONE ? tsr_add(b->program, y, hidden) : y;
  } else {
    y = tsr_build_product(b, x, table, hidden != TSR_NONE ? hidden : bias, config->logits_scale, TSR_ACTIVATION_NONE);
  }
  tsr_scope_pop(b->program);
  return y;
}
