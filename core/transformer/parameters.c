/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/transformer/model.h"

enum { NAME_ROOM = 160 };

/* The list under construction; the first error is kept, so that the listing below reads without checks. */
typedef struct lister {
  const tsr_transformer_config *config;
  tsr_model_side side; /* of the stack that is listed */
  int64_t width;       /* likewise */
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
  add(l, TSR_SHAPE(out, in), TSR_MATRIX_PRODUCT, "%s.weight", name);
  if (bias) {
    add(l, TSR_SHAPE(out), TSR_MATRIX_NONE, "%s.bias", name);
  }
}

static void add_norm(lister *l, const char *name)
{
  add(l, TSR_SHAPE(l->width), TSR_MATRIX_NONE, "%s.weight", name);
  if (l->config->norm != TSR_NORM_RMS && l->config->feed_forward_bias) {
    add(l, TSR_SHAPE(l->width), TSR_MATRIX_NONE, "%s.bias", name);
  }
}

/* The norm of what a sublayer gives, where there is one. */
static void add_norm_after(lister *l, const char *name)
{
  if (l->side.norm_position == TSR_NORM_SANDWICH) {
    add_norm(l, name);
  }
}

/* A convolution of three frames. */
static void add_convolution(lister *l, const char *name, int64_t in)
{
  enum { KERNEL = 3 };
  add(l, TSR_SHAPE(l->config->d_model, KERNEL, in), TSR_MATRIX_CONVOLUTION, "%s.weight", name);
  add(l, TSR_SHAPE(l->config->d_model), TSR_MATRIX_NONE, "%s.bias", name);
}

/* The biases on the scores of self-attention, of a stack or of a layer. */
static void add_relative(lister *l, int32_t decoder, int32_t of_layer)
{
  const tsr_transformer_config *c = l->config;
  const tsr_model_side *side = &l->side;
  if (side->relative == TSR_POSITION_NONE || c->relative_layers != of_layer) {
    return;
  }
  int32_t clamped = side->relative == TSR_POSITION_RELATIVE_CLAMPED;
  int64_t rows = clamped ? 2 * (int64_t)side->relative_distance + 1 : side->relative_buckets;
  add(l, TSR_SHAPE(rows, decoder ? c->decoder_heads : c->encoder_heads), TSR_MATRIX_NONE, "relative.weight");
}

static void list_layer(lister *l, int32_t decoder)
{
  const tsr_transformer_config *c = l->config;
  const int64_t d_model = l->width;
  int64_t inner =
      decoder ? (int64_t)c->decoder_heads * c->decoder_head_size : (int64_t)c->encoder_heads * c->encoder_head_size;
  int64_t d_ff = decoder ? c->decoder_d_ff : c->encoder_d_ff;
  add_relative(l, decoder, 1);
  if (l->side.vectors > 0) {
    tsr_shape vectors =
        TSR_SHAPE(2 * (int64_t)l->side.vectors + 1, decoder ? c->decoder_head_size : c->encoder_head_size);
    add(l, vectors, TSR_MATRIX_NONE, "relative_keys.weight");
    add(l, vectors, TSR_MATRIX_NONE, "relative_values.weight");
  }
  const int64_t shared = (int64_t)tsr_config_key_heads(c, decoder) *
                         (decoder ? c->decoder_head_size : c->encoder_head_size); /* columns of the keys */
  if (shared == inner) {
    add_linear(l, "self_attention.qkv", 3 * inner, d_model, c->attention_bias);
  } else {
    add_linear(l, "self_attention.query", inner, d_model, c->attention_bias);
    add_linear(l, "self_attention.kv", 2 * shared, d_model, c->attention_bias);
  }
  add_linear(l, "self_attention.output", d_model, inner, c->attention_bias);
  add_norm(l, "self_attention_norm");
  add_norm_after(l, "self_attention_post_norm");
  if (decoder && c->encoder_layers > 0) {
    add_linear(l, "cross_attention.query", inner, d_model, c->attention_bias);
    add_linear(l, "cross_attention.kv", 2 * shared, tsr_config_width(c, 0), c->attention_bias);
    add_linear(l, "cross_attention.output", d_model, inner, c->attention_bias);
    add_norm(l, "cross_attention_norm");
    add_norm_after(l, "cross_attention_post_norm");
  }
  if (l->side.gated) {
    add_linear(l, "feed_forward.gate", d_ff, d_model, c->feed_forward_bias);
  }
  add_linear(l, "feed_forward.in", d_ff, d_model, c->feed_forward_bias);
  add_linear(l, "feed_forward.out", d_model, d_ff, c->feed_forward_bias);
  add_norm(l, "feed_forward_norm");
  add_norm_after(l, "feed_forward_post_norm");
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
  l->width = tsr_config_width(c, decoder);
  snprintf(l->prefix, sizeof l->prefix, "%s.", stack);
  if (!c->shared_embedding && vocabulary > 0) {
    add(l, TSR_SHAPE(vocabulary, l->width), TSR_MATRIX_PRODUCT, "embedding.weight");
  }
  if (!decoder && c->mels > 0) {
    add_convolution(l, "conv1", c->mels);
    add_convolution(l, "conv2", c->d_model);
  }
  if (l->side.position == TSR_POSITION_LEARNED) {
    add(l, TSR_SHAPE(l->side.positions, c->d_model), TSR_MATRIX_NONE, "positions.weight");
  }
  add_relative(l, decoder, 0);
  if (l->side.embedding_norm) {
    add_norm(l, "embedding_norm");
  }
  for (int32_t i = 0; i < layers; i++) {
    snprintf(l->prefix, sizeof l->prefix, "%s.layers.%d.", stack, (int)i);
    list_layer(l, decoder);
  }
  snprintf(l->prefix, sizeof l->prefix, "%s.", stack);
  if (l->side.final_norm) {
    add_norm(l, "norm");
  }
  l->prefix[0] = '\0';
}

int32_t tsr_config_source_positions(const tsr_transformer_config *config)
{
  return config->mels > 0 ? config->source_positions : config->max_positions;
}

int32_t tsr_config_key_heads(const tsr_transformer_config *config, int32_t decoder)
{
  const int32_t shared = decoder ? config->decoder_key_heads : config->encoder_key_heads;
  return shared > 0 ? shared : decoder ? config->decoder_heads : config->encoder_heads;
}

int32_t tsr_config_width(const tsr_transformer_config *config, int32_t decoder)
{
  return decoder || config->encoder_d_model == 0 ? config->d_model : config->encoder_d_model;
}

/* Where the encoder has another width than the decoder, the factor follows its root. */
static float embedding_scale(const tsr_transformer_config *config, int32_t decoder)
{
  const int32_t width = tsr_config_width(config, decoder);
  return width == config->d_model ? config->embedding_scale
                                  : (float)(config->embedding_scale * sqrt((double)width / config->d_model));
}

int32_t tsr_config_encodes(const tsr_transformer_config *config)
{
  return config->encoder_layers > 0 && (config->source_vocabulary > 0 || config->mels > 0);
}

tsr_model_side tsr_config_side(const tsr_transformer_config *config, int32_t decoder)
{
  const int32_t is_relative =
      config->position == TSR_POSITION_RELATIVE || config->position == TSR_POSITION_RELATIVE_CLAMPED;
  return (tsr_model_side){.embedding_scale = embedding_scale(config, decoder),
                          .self_scale = config->attention_scale,
                          .cross_scale = config->attention_scale,
                          .position = is_relative ? TSR_POSITION_NONE : config->position,
                          .positions = config->position_offset +
                                       (decoder ? config->max_positions : tsr_config_source_positions(config)),
                          .position_offset = config->position_offset,
                          .relative = is_relative ? config->position : TSR_POSITION_NONE,
                          .relative_buckets = config->relative_buckets,
                          .relative_distance = config->relative_distance,
                          .activation = config->activation,
                          .gated = config->gated,
                          .norm_position = config->norm_position,
                          .embedding_norm = config->embedding_norm,
                          .final_norm = config->final_norm};
}

tsr_model_side tsr_model_side_of(const tsr_model *model, int32_t decoder)
{
  return model->sides ? model->sides[decoder] : tsr_config_side(&model->config, decoder);
}

/* A number that composed operators need, filled in where the list is. */
static void add_number(lister *l, double number)
{
  add(l, TSR_SHAPE(1), 0, TSR_NUMBER_FORMAT, 1e6 * number);
  if (l->status == TSR_OK) {
    tsr_parameter *made = &l->list->items[l->list->n - 1];
    made->is_constant = 1;
    made->stored = TSR_F32;
    made->n_pieces = 1;
    made->pieces[0] = (tsr_piece){.count = 1, .fill = (float)number};
  }
}

static int has_parameter(const lister *l, const char *name)
{
  for (int32_t i = 0; i < l->list->n; i++) {
    if (strcmp(l->list->items[i].name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

/* What a side's composed operators need, once for both. */
static void need_number(lister *l, double number)
{
  char name[NAME_ROOM];
  snprintf(name, sizeof name, TSR_NUMBER_FORMAT, 1e6 * number);
  if (!has_parameter(l, name)) {
    add_number(l, number);
  }
}

static void add_distances(lister *l, int32_t most)
{
  char name[NAME_ROOM];
  const int64_t n = 2 * (int64_t)most + 1;
  snprintf(name, sizeof name, TSR_DISTANCES_FORMAT, (int)most);
  if (most == 0 || has_parameter(l, name)) {
    return;
  }
  add(l, TSR_SHAPE(n, n), TSR_MATRIX_NONE, "%s", name);
  if (l->status == TSR_OK) {
    tsr_parameter *made = &l->list->items[l->list->n - 1];
    made->is_identity = made->is_constant = 1;
    made->stored = TSR_F32;
    made->n_pieces = 1;
    made->pieces[0] = (tsr_piece){.count = n * n};
  }
}

/* The biases of a window, whose ends stand for all keys beyond it. */
static void add_window(lister *l)
{
  const int64_t window = l->config->window;
  if (window == 0) {
    return;
  }
  add(l, TSR_SHAPE(2 * window + 1, 1), TSR_MATRIX_NONE, TSR_WINDOW_FORMAT, (int)window);
  if (l->status == TSR_OK) {
    tsr_parameter *made = &l->list->items[l->list->n - 1];
    made->is_constant = 1;
    made->stored = TSR_F32;
    made->n_pieces = 3;
    made->pieces[0] = made->pieces[2] = (tsr_piece){.count = 1, .fill = -INFINITY};
    made->pieces[1] = (tsr_piece){.count = 2 * window - 1};
  }
}

/* What a softcap of the logits needs. */
static void add_softcap(lister *l)
{
  if (l->config->logits_softcap > 0.0f) {
    need_number(l, 0.0);
    need_number(l, 2.0);
    need_number(l, -1.0);
    need_number(l, (double)l->config->logits_softcap);
    need_number(l, 1.0 / (double)l->config->logits_softcap);
  }
}

static void add_numbers(lister *l, const tsr_model_side *side)
{
  l->prefix[0] = '\0';
  if (side->activation == TSR_ACTIVATION_GELU_SIGMOID) {
    need_number(l, TSR_GELU_SIGMOID);
    need_number(l, 1.0 / TSR_GELU_SIGMOID);
  }
  if (side->activation == TSR_ACTIVATION_TANH) {
    need_number(l, 2.0);
    need_number(l, -1.0);
  }
  if (side->activation == TSR_ACTIVATION_TANH || side->activation == TSR_ACTIVATION_SIGMOID || side->vectors > 0) {
    need_number(l, 0.0);
  }
  add_distances(l, side->vectors);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp((*(const tsr_parameter *const *)a)->name, (*(const tsr_parameter *const *)b)->name);
}

static int compare_with_name(const void *name, const void *parameter)
{
  return strcmp(name, (*(const tsr_parameter *const *)parameter)->name);
}

tsr_status tsr_parameters_sort(tsr_parameter_list *list, tsr_arena *arena)
{
  const size_t size = (size_t)list->n * sizeof(const tsr_parameter *);
  const tsr_parameter **sorted = tsr_arena_take(arena, size);
  if (!sorted) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < list->n; i++) {
    sorted[i] = &list->items[i];
  }
  qsort(sorted, (size_t)list->n, sizeof(const tsr_parameter *), compare_names);
  list->by_name = sorted;
  return TSR_OK;
}

const tsr_parameter *tsr_model_find(const tsr_model *model, const char *name)
{
  const tsr_parameter_list *list = &model->parameters;
  if (list->n == 0) {
    return NULL;
  }
  const tsr_parameter *const *found =
      bsearch(name, list->by_name, (size_t)list->n, sizeof(const tsr_parameter *), compare_with_name);
  return found ? *found : NULL;
}

static tsr_status list_all(const tsr_transformer_config *config, const tsr_model_side *encoder,
                           const tsr_model_side *decoder, tsr_arena *arena, tsr_parameter_list *list)
{
  lister l = {.config = config, .arena = arena, .list = list};
  if (config->shared_embedding && config->source_vocabulary > 0) {
    add(&l, TSR_SHAPE(config->source_vocabulary, config->d_model), TSR_MATRIX_PRODUCT, "embedding.weight");
  }
  l.side = *encoder;
  list_stack(&l, 0);
  l.side = *decoder;
  list_stack(&l, 1);
  if (config->decoder_layers > 0 && config->target_vocabulary > 0) {
    if (!config->tied_logits) {
      add(&l, TSR_SHAPE(config->target_vocabulary, config->d_model), TSR_MATRIX_PRODUCT, "logits.weight");
    }
    if (config->logits_bias) {
      add(&l, TSR_SHAPE(config->target_vocabulary), TSR_MATRIX_NONE, "logits.bias");
    }
  }
  add_numbers(&l, encoder);
  add_numbers(&l, decoder);
  add_softcap(&l);
  add_window(&l);
  return l.status == TSR_OK ? tsr_parameters_sort(list, arena) : l.status;
}

tsr_status tsr_parameters_list(const tsr_transformer_config *config, tsr_arena *arena, tsr_parameter_list *list)
{
  const tsr_model_side encoder = tsr_config_side(config, 0), decoder = tsr_config_side(config, 1);
  return list_all(config, &encoder, &decoder, arena, list);
}

tsr_status tsr_parameters_list_model(const tsr_model *model, tsr_arena *arena, tsr_parameter_list *list)
{
  const tsr_model_side encoder = tsr_model_side_of(model, 0), decoder = tsr_model_side_of(model, 1);
  return list_all(&model->config, &encoder, &decoder, arena, list);
}

tsr_dtype tsr_parameter_dtype(const tsr_parameter *parameter, tsr_dtype wanted)
{
  const int32_t is_whole = wanted == TSR_I8 || wanted == TSR_I4;
  if (parameter->matrix == TSR_MATRIX_NONE || (parameter->matrix == TSR_MATRIX_CONVOLUTION && is_whole)) {
    return TSR_F32;
  }
  if (wanted != 0) {
    return wanted;
  }
  return parameter->stored != 0 ? parameter->stored : TSR_F32;
}

tsr_kept tsr_parameter_kept(const tsr_parameter *parameter, tsr_dtype kept, tsr_kept *scales)
{
  tsr_kept elements = {.dtype = kept, .shape = parameter->shape};
  *scales = (tsr_kept){0};
  if (kept == TSR_I8) {
    *scales = (tsr_kept){.dtype = TSR_F32, .shape = TSR_SHAPE(parameter->shape.extent[0])};
  } else if (kept == TSR_I4) {
    const int64_t rows = parameter->shape.extent[0];
    const int64_t groups = (parameter->shape.extent[1] + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
    elements = (tsr_kept){.dtype = TSR_I8, .shape = TSR_SHAPE(rows, groups * TSR_I4_BYTES)};
    *scales = (tsr_kept){.dtype = TSR_F16, .shape = TSR_SHAPE(rows, groups)};
  }
  return elements;
}

int64_t tsr_parameter_bytes(const tsr_parameter *parameter, tsr_dtype wanted)
{
  tsr_kept scales;
  const tsr_kept elements = tsr_parameter_kept(parameter, tsr_parameter_dtype(parameter, wanted), &scales);
  const int64_t n_scales = scales.dtype != 0 ? tsr_shape_elements(&scales.shape) : 0;
  return tsr_shape_elements(&elements.shape) * (int64_t)tsr_dtype_size(elements.dtype) +
         n_scales * (int64_t)tsr_dtype_size(scales.dtype);
}

int64_t tsr_model_weight_bytes(const tsr_model *model, tsr_dtype weights)
{
  int64_t sum = 0;
  for (int32_t i = 0; i < model->parameters.n; i++) {
    sum += tsr_parameter_bytes(&model->parameters.items[i], weights);
  }
  return sum;
}

char *tsr_scales_name(char *name, const char *parameter)
{
  snprintf(name, TSR_PARAMETER_NAME_ROOM, "%s.scales", parameter);
  return name;
}

/* Of a row of a piece. A tensor of four bits holds fewer bytes. */
static int64_t columns_of(const tsr_piece *piece)
{
  const tsr_shape *shape = &piece->tensor->shape;
  return piece->columns > 0                                      ? piece->columns
         : shape->rank > 0 && shape->extent[shape->rank - 1] > 0 ? shape->extent[shape->rank - 1]
                                                                 : 1;
}

/* The scale of a row of a tensor of whole numbers, or of a group of a row. */
static tsr_status read_scale(const tsr_piece *piece, int64_t at, float *scale)
{
  const tsr_checkpoint_tensor *scales = piece->scales;
  if (!scales) {
    *scale = piece->scale;
    return TSR_OK;
  }
  TSR_TRY(tsr_checkpoint_read(scales, tsr_shape_elements(&scales->shape) > 1 ? at : 0, 1, TSR_F32, scale));
  return isfinite(*scale) && (!piece->divided || *scale > 0.0f)
             ? TSR_OK
             : tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s': element %lld is %g; expected a %s", scales->path,
                        scales->name, (long long)at, (double)*scale, piece->divided ? "scale above 0" : "number");
}

/* Elements at .. at+n-1 of a tensor of whole numbers of 1 or 2 bytes, as f32. */
static tsr_status read_whole_numbers(const tsr_checkpoint_tensor *tensor, int64_t at, int64_t n, float *out)
{
  enum { PORTION = 1024 };
  const int is_short = tensor->dtype != TSR_I8;
  int8_t bytes[2 * PORTION];
  for (int64_t done = 0; done < n;) {
    const int64_t count = n - done < PORTION ? n - done : PORTION;
    const size_t size = is_short ? 2 : 1;
    TSR_TRY(tsr_checkpoint_copy(tensor, (uint64_t)(at + done) * size, (size_t)count * size, bytes));
    for (int64_t i = 0; i < count; i++) {
      out[done + i] = is_short ? (float)(int16_t)tsr_read_unsigned(bytes + 2 * i, 2) : (float)bytes[i];
    }
    done += count;
  }
  return TSR_OK;
}

/* What a part of a row of whole numbers is worth: columns column .. column+n-1. */
static tsr_status read_part_of_row(const tsr_piece *piece, int64_t row, int64_t column, int64_t n, float *values)
{
  float scale;
  TSR_TRY(read_scale(piece, row, &scale));
  TSR_TRY(read_whole_numbers(piece->tensor, row * columns_of(piece) + column, n, values));
  for (int64_t i = 0; i < n; i++) {
    values[i] = piece->divided ? values[i] / scale : values[i] * scale;
  }
  return TSR_OK;
}

/* The same in four bits, of one group. */
static tsr_status read_part_of_group(const tsr_piece *piece, int64_t row, int64_t column, int64_t n, float *values)
{
  const int64_t groups = (piece->columns + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  const int64_t group = row * groups + column / TSR_I4_GROUP;
  uint8_t bytes[TSR_I4_BYTES];
  float scale;
  TSR_TRY(read_scale(piece, group, &scale));
  TSR_TRY(tsr_checkpoint_copy(piece->tensor, (uint64_t)(group * TSR_I4_BYTES), sizeof bytes, bytes));
  for (int64_t i = 0; i < n; i++) {
    values[i] = (float)tsr_four_bits_at(bytes, column % TSR_I4_GROUP + i) * scale;
  }
  return TSR_OK;
}

/* Whole numbers with their scales, a part of a row or of a group at a time. */
static tsr_status read_scaled(const tsr_piece *piece, int64_t first, int64_t count, tsr_dtype dtype, char *out)
{
  enum { PORTION = 4096 };
  float values[PORTION];
  const int32_t four_bits = piece->columns > 0;
  const int64_t columns = columns_of(piece);
  for (int64_t done = 0; done < count;) {
    const int64_t at = piece->first + first + done, row = at / columns, column = at % columns;
    const int64_t left = columns - column, most = four_bits ? TSR_I4_GROUP - column % TSR_I4_GROUP : PORTION;
    int64_t n = count - done < left ? count - done : left;
    n = n < most ? n : most;
    TSR_TRY(four_bits ? read_part_of_group(piece, row, column, n, values)
                      : read_part_of_row(piece, row, column, n, values));
    TSR_TRY(tsr_convert(TSR_F32, values, dtype, out + done * (int64_t)tsr_dtype_size(dtype), n));
    done += n;
  }
  return TSR_OK;
}

/* Of a tensor [out, in, kernel], as elements of [out, kernel, in]: row by row. */
static tsr_status read_convolution(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, tsr_dtype dtype,
                                   char *out)
{
  const int64_t in = tensor->shape.extent[1], kernel = tensor->shape.extent[2], row = in * kernel;
  const size_t size = tsr_dtype_size(dtype);
  char *stored = malloc((size_t)row * size + 1);
  tsr_status status = stored ? TSR_OK : tsr_fail_memory((size_t)row * size);
  while (count > 0 && status == TSR_OK) {
    const int64_t begin = first % row, left = row - begin, n = left < count ? left : count;
    status = tsr_checkpoint_read(tensor, first - begin, row, dtype, stored);
    for (int64_t i = 0; i < n && status == TSR_OK; i++) {
      const int64_t k = (begin + i) / in, column = (begin + i) % in;
      memcpy(out + (size_t)i * size, stored + (size_t)(column * kernel + k) * size, size);
    }
    out += (size_t)n * size;
    first += n;
    count -= n;
  }
  free(stored);
  return status;
}

static tsr_status read_piece(const tsr_piece *piece, int64_t first, int64_t count, tsr_dtype dtype, char *out);

/* With a number added to each element, in f32. */
static tsr_status read_sums(const tsr_piece *piece, int64_t first, int64_t count, tsr_dtype dtype, char *out)
{
  enum { PORTION = 1024 };
  tsr_piece plain = *piece;
  float values[PORTION];
  plain.plus = 0.0f;
  for (int64_t done = 0; done < count;) {
    const int64_t n = count - done < PORTION ? count - done : PORTION;
    TSR_TRY(read_piece(&plain, first + done, n, TSR_F32, (char *)values));
    for (int64_t i = 0; i < n; i++) {
      values[i] += piece->plus;
    }
    TSR_TRY(tsr_convert(TSR_F32, values, dtype, out + done * (int64_t)tsr_dtype_size(dtype), n));
    done += n;
  }
  return TSR_OK;
}

static tsr_status read_piece(const tsr_piece *piece, int64_t first, int64_t count, tsr_dtype dtype, char *out)
{
  if (piece->plus != 0.0f) {
    return read_sums(piece, first, count, dtype, out);
  }
  if (piece->scales || piece->divided) {
    return read_scaled(piece, first, count, dtype, out);
  }
  if (piece->tensor && piece->transposed && piece->tensor->shape.rank == 3) {
    return read_convolution(piece->tensor, first, count, dtype, out);
  }
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

static tsr_status read_identity(const tsr_parameter *parameter, int64_t first, int64_t count, tsr_dtype dtype,
                                char *out)
{
  const int64_t columns = parameter->shape.extent[1];
  for (int64_t i = 0; i < count; i++) {
    const float element = (first + i) / columns == (first + i) % columns ? 1.0f : 0.0f;
    TSR_TRY(tsr_convert(TSR_F32, &element, dtype, out + i * (int64_t)tsr_dtype_size(dtype), 1));
  }
  return TSR_OK;
}

/* Rows of a piece of four bits as they are. */
static tsr_status copy_four_bits(const tsr_piece *piece, int64_t row, int64_t n, int64_t groups, int8_t *bytes,
                                 uint16_t *scales)
{
  const size_t row_size = (size_t)groups * TSR_I4_BYTES, scales_size = (size_t)groups * sizeof *scales;
  TSR_TRY(tsr_checkpoint_copy(piece->tensor, (uint64_t)row * row_size, (size_t)n * row_size, bytes));
  TSR_TRY(tsr_checkpoint_copy(piece->scales, (uint64_t)row * scales_size, (size_t)n * scales_size, scales));
  for (int64_t i = 0; i < n * groups; i++) {
    float scale = tsr_f16_to_f32(scales[i]);
    if (!isfinite(scale)) {
      return read_scale(piece, row * groups + i, &scale);
    }
  }
  return TSR_OK;
}

/* Likewise, of one byte. */
static tsr_status copy_eight_bits(const tsr_piece *piece, int64_t row, int64_t n, int64_t columns, int8_t *bytes,
                                  float *scales)
{
  TSR_TRY(tsr_checkpoint_copy(piece->tensor, (uint64_t)(row * columns), (size_t)(n * columns), bytes));
  for (int64_t r = 0; r < n; r++) {
    TSR_TRY(read_scale(piece, row + r, &scales[r]));
    scales[r] = piece->divided ? 1.0f / scales[r] : scales[r];
  }
  return TSR_OK;
}

tsr_status tsr_parameter_read_rows(const tsr_parameter *parameter, int64_t first, int64_t count, int8_t *bytes,
                                   void *scales)
{
  const int64_t columns = parameter->shape.extent[parameter->shape.rank - 1];
  const int32_t four_bits = parameter->stored == TSR_I4;
  const int64_t groups = (columns + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  const int64_t row_size = four_bits ? groups * TSR_I4_BYTES : columns;
  const int64_t scales_size = four_bits ? groups * (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
  for (int32_t i = 0; i < parameter->n_pieces && count > 0 && columns > 0; i++) {
    const tsr_piece *piece = &parameter->pieces[i];
    const int64_t rows = piece->count / columns;
    if (first >= rows) {
      first -= rows;
      continue;
    }
    const int64_t n = rows - first < count ? rows - first : count, row = piece->first / columns + first;
    if (!piece->tensor) {
      memset(bytes, 0, (size_t)(n * row_size));
      memset(scales, 0, (size_t)(n * scales_size));
    } else if (four_bits) {
      TSR_TRY(copy_four_bits(piece, row, n, groups, bytes, scales));
    } else {
      TSR_TRY(copy_eight_bits(piece, row, n, columns, bytes, scales));
    }
    bytes += n * row_size;
    scales = (char *)scales + n * scales_size;
    count -= n;
    first = 0;
  }
  return TSR_OK;
}

tsr_status tsr_parameter_read(const tsr_parameter *parameter, int64_t first, int64_t count, tsr_dtype dtype, void *out)
{
  if (parameter->is_identity) {
    return read_identity(parameter, first, count, dtype, out);
  }
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
