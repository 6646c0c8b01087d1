/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transformer/model.h"

enum { NAME_ROOM = 160 };

/* The list under construction; the first error is kept, so that the listing below reads without checks. */
typedef struct lister {
  const tsr_transformer_config *config;
  tsr_arena *arena;
  tsr_parameter_list *list;
  tsr_status status;
  char prefix[NAME_ROOM];
} lister;

static void add(lister *l, tsr_shape shape, int32_t matrix, const char *format, ...) TSR_PRINTF(4, 5);
static void add(lister *l, tsr_shape shape, int32_t matrix, const char *format, ...)
{
  if (l->status != TSR_OK) {
    return;
  }
  tsr_parameter_list *list = l->list;
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 64;
    tsr_parameter *items = realloc(list->items, (size_t)room * sizeof *items);
    if (!items) {
      l->status = tsr_fail_memory((size_t)room * sizeof *items);
      return;
    }
    list->items = items;
    list->room = room;
  }
  char name[NAME_ROOM];
  size_t used = (size_t)snprintf(name, sizeof name, "%s", l->prefix);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name + used, sizeof name - used, format, arguments);
  va_end(arguments);
  char *copy = tsr_arena_text(l->arena, name);
  if (!copy) {
    l->status = tsr_fail_memory(strlen(name) + 1);
    return;
  }
  list->items[list->n++] = (tsr_parameter){.name = copy, .shape = shape, .matrix = matrix};
}

static void add_linear(lister *l, const char *name, int64_t out, int64_t in, int32_t bias)
{
  add(l, TSR_SHAPE(out, in), 1, "%s.weight", name);
  if (bias) {
    add(l, TSR_SHAPE(out), 0, "%s.bias", name);
  }
}

static void add_norm(lister *l, const char *name)
{
  add(l, TSR_SHAPE(l->config->d_model), 0, "%s.weight", name);
  if (l->config->norm != TSR_NORM_RMS && l->config->feed_forward_bias) {
    add(l, TSR_SHAPE(l->config->d_model), 0, "%s.bias", name);
  }
}

/* The biases on the scores of self-attention, of a stack or of a layer. */
static void add_relative(lister *l, int32_t decoder, int32_t of_layer)
{
  const tsr_transformer_config *c = l->config;
  int32_t clamped = c->position == TSR_POSITION_RELATIVE_CLAMPED;
  if ((!clamped && c->position != TSR_POSITION_RELATIVE) || c->relative_layers != of_layer) {
    return;
  }
  int64_t rows = clamped ? 2 * (int64_t)c->relative_distance + 1 : c->relative_buckets;
  add(l, TSR_SHAPE(rows, decoder ? c->decoder_heads : c->encoder_heads), 0, "relative.weight");
}

static void list_layer(lister *l, int32_t decoder)
{
  const tsr_transformer_config *c = l->config;
  int64_t d_model = c->d_model;
  int64_t inner =
      decoder ? (int64_t)c->decoder_heads * c->decoder_head_size : (int64_t)c->encoder_heads * c->encoder_head_size;
  int64_t d_ff = decoder ? c->decoder_d_ff : c->encoder_d_ff;
  add_relative(l, decoder, 1);
  add_linear(l, "self_attention.qkv", 3 * inner, d_model, c->attention_bias);
  add_linear(l, "self_attention.output", d_model, inner, c->attention_bias);
  add_norm(l, "self_attention_norm");
  if (decoder && c->encoder_layers > 0) {
    add_linear(l, "cross_attention.query", inner, d_model, c->attention_bias);
    add_linear(l, "cross_attention.kv", 2 * inner, d_model, c->attention_bias);
    add_linear(l, "cross_attention.output", d_model, inner, c->attention_bias);
    add_norm(l, "cross_attention_norm");
  }
  if (c->gated) {
    add_linear(l, "feed_forward.gate", d_ff, d_model, c->feed_forward_bias);
  }
  add_linear(l, "feed_forward.in", d_ff, d_model, c->feed_forward_bias);
  add_linear(l, "feed_forward.out", d_model, d_ff, c->feed_forward_bias);
  add_norm(l, "feed_forward_norm");
}

static void list_stack(lister *l, int32_t decoder)
{
  const tsr_transformer_config *c = l->config;
  const char *stack = decoder ? "decoder" : "encoder";
  int32_t layers = decoder ? c->decoder_layers : c->encoder_layers;
  int32_t vocabulary = decoder ? c->target_vocabulary : c->source_vocabulary;
  if (layers == 0) {
    return;
  }
  snprintf(l->prefix, sizeof l->prefix, "%s.", stack);
  if (!c->shared_embedding && vocabulary > 0) {
    add(l, TSR_SHAPE(vocabulary, c->d_model), 1, "embedding.weight");
  }
  if (c->position == TSR_POSITION_LEARNED) {
    add(l, TSR_SHAPE((int64_t)c->max_positions + c->position_offset, c->d_model), 0, "positions.weight");
  }
  add_relative(l, decoder, 0);
  if (c->embedding_norm) {
    add_norm(l, "embedding_norm");
  }
  for (int32_t i = 0; i < layers; i++) {
    snprintf(l->prefix, sizeof l->prefix, "%s.layers.%d.", stack, (int)i);
    list_layer(l, decoder);
  }
  snprintf(l->prefix, sizeof l->prefix, "%s.", stack);
  if (c->final_norm) {
    add_norm(l, "norm");
  }
  l->prefix[0] = '\0';
}

tsr_status tsr_parameters_list(const tsr_transformer_config *config, tsr_arena *arena, tsr_parameter_list *list)
{
  lister l = {.config = config, .arena = arena, .list = list};
  if (config->shared_embedding && config->source_vocabulary > 0) {
    add(&l, TSR_SHAPE(config->source_vocabulary, config->d_model), 1, "embedding.weight");
  }
  list_stack(&l, 0);
  list_stack(&l, 1);
  if (config->decoder_layers > 0 && config->target_vocabulary > 0) {
    if (!config->tied_logits) {
      add(&l, TSR_SHAPE(config->target_vocabulary, config->d_model), 1, "logits.weight");
    }
    if (config->logits_bias) {
      add(&l, TSR_SHAPE(config->target_vocabulary), 0, "logits.bias");
    }
  }
  return l.status;
}

tsr_dtype tsr_parameter_dtype(const tsr_parameter *parameter, tsr_dtype wanted)
{
  if (!parameter->matrix) {
    return TSR_F32;
  }
  if (wanted != 0) {
    return wanted;
  }
  return parameter->stored != 0 ? parameter->stored : TSR_F32;
}

char *tsr_scales_name(char *name, const char *parameter)
{
  snprintf(name, TSR_PARAMETER_NAME_ROOM, "%s.scales", parameter);
  return name;
}

static tsr_status read_piece(const tsr_piece *piece, int64_t first, int64_t count, tsr_dtype dtype, char *out)
{
  if (piece->tensor && piece->transposed) {
    tsr_checkpoint_tensor turned = tsr_checkpoint_transpose(piece->tensor);
    return tsr_checkpoint_read(&turned, first, count, dtype, out);
  }
  if (piece->tensor) {
    return tsr_checkpoint_read(piece->tensor, piece->first + first, count, dtype, out);
  }
  for (int64_t i = 0; i < count; i++) {
    TSR_TRY(tsr_convert(TSR_F32, &piece->fill, dtype, out + i * (int64_t)tsr_dtype_size(dtype), 1));
  }
  return TSR_OK;
}

tsr_status tsr_parameter_read(const tsr_parameter *parameter, int64_t first, int64_t count, tsr_dtype dtype, void *out)
{
  size_t size = tsr_dtype_size(dtype);
  char *to = out;
  for (int32_t i = 0; i < parameter->n_pieces && count > 0; i++) {
    const tsr_piece *piece = &parameter->pieces[i];
    if (first >= piece->count) {
      first -= piece->count;
      continue;
    }
    int64_t n = piece->count - first < count ? piece->count - first : count;
    TSR_TRY(read_piece(piece, first, n, dtype, to));
    to += (size_t)n * size;
    count -= n;
    first = 0;
  }
  return TSR_OK;
}
