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
  if (l->config->norm == TSR_NORM_LAYER) {
    add(l, TSR_SHAPE(l->config->d_model), 0, "%s.bias", name);
  }
}

static void list_layer(lister *l, int32_t decoder)
{
  const tsr_transformer_config *c = l->config;
  int64_t d_model = c->d_model;
  int64_t inner =
      decoder ? (int64_t)c->decoder_heads * c->decoder_head_size : (int64_t)c->encoder_heads * c->encoder_head_size;
  int64_t d_ff = decoder ? c->decoder_d_ff : c->encoder_d_ff;
  add_linear(l, "self_attention.qkv", 3 * inner, d_model, c->attention_bias);
  add_linear(l, "self_attention.output", d_model, inner, c->attention_bias);
  add_norm(l, "self_attention_norm");
  if (decoder) {
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
  if (c->position == TSR_POSITION_RELATIVE) {
    int32_t heads = decoder ? c->decoder_heads : c->encoder_heads;
    add(l, TSR_SHAPE(c->relative_buckets, heads), 0, "relative.weight");
  }
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
    if (piece->tensor) {
      TSR_TRY(tsr_checkpoint_widen(piece->tensor, piece->first + first, n, dtype, to));
    } else {
      memset(to, 0, (size_t)n * size);
    }
    to += (size_t)n * size;
    count -= n;
    first = 0;
  }
  return TSR_OK;
}

/* ---- names in a checkpoint --------------------------------------------------------------------------------------- */

/* What the wildcards of a pattern stood for. */
typedef struct captures {
  char stack[16];
  char layer[16];
  char suffix[16];
} captures;

static size_t capture(char kind, const char *name, captures *found)
{
  size_t n = 0;
  char *to = NULL;
  size_t room = sizeof found->layer;
  if (kind == '@') {
    n = strncmp(name, "encoder", 7) == 0 || strncmp(name, "decoder", 7) == 0 ? 7 : 0;
    to = found->stack;
  } else if (kind == '#') {
    n = strspn(name, "0123456789");
    to = found->layer;
  } else {
    n = strcmp(name, "weight") == 0 || strcmp(name, "bias") == 0 ? strlen(name) : 0;
    to = found->suffix;
  }
  if (n >= room) {
    return 0;
  }
  memcpy(to, name, n);
  to[n] = '\0';
  return n;
}

static int match(const char *pattern, const char *name, captures *found)
{
  for (; *pattern; pattern++) {
    if (strchr("@#*", *pattern)) {
      size_t n = capture(*pattern, name, found);
      if (n == 0) {
        return 0;
      }
      name += n;
    } else if (*pattern != *name++) {
      return 0;
    }
  }
  return *name == '\0';
}

static void expand(const char *pattern, const captures *found, char *name)
{
  size_t used = 0;
  name[0] = '\0';
  for (; *pattern && used + 1 < NAME_ROOM; pattern++) {
    char one[2] = {*pattern, '\0'};
    const char *text = *pattern == '@'   ? found->stack
                       : *pattern == '#' ? found->layer
                       : *pattern == '*' ? found->suffix
                                         : one;
    used += (size_t)snprintf(name + used, NAME_ROOM - used, "%s", text);
  }
}

/* Looks a name up as it is, without the family's root, and behind the prefixes that wrappers put before it. */
static const tsr_checkpoint_tensor *find_tensor(const tsr_family *family, const tsr_checkpoint *checkpoint,
                                                const char *name)
{
  static const char *const wrappers[] = {"", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."};
  size_t root = strlen(family->root);
  int rooted = root > 0 && strncmp(name, family->root, root) == 0;
  for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
    for (int bare = 0; bare <= rooted; bare++) {
      char full[2 * NAME_ROOM];
      snprintf(full, sizeof full, "%s%s", wrappers[i], name + (bare ? root : 0));
      const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, full);
      if (tensor) {
        return tensor;
      }
    }
  }
  return NULL;
}

/* Extents of 1 are left out: a bias may be stored as [1, V]. */
static int same_extents(const tsr_shape *a, const tsr_shape *b)
{
  int32_t i = 0;
  int32_t j = 0;
  for (;;) {
    while (i < a->rank && a->extent[i] == 1) {
      i++;
    }
    while (j < b->rank && b->extent[j] == 1) {
      j++;
    }
    if (i == a->rank || j == b->rank) {
      return i == a->rank && j == b->rank;
    }
    if (a->extent[i++] != b->extent[j++]) {
      return 0;
    }
  }
}

static tsr_status resolve_piece(const tsr_checkpoint *checkpoint, const tsr_name_piece *rule,
                                const tsr_checkpoint_tensor *tensor, const char *name, int32_t n_pieces,
                                tsr_parameter *parameter, tsr_piece *piece)
{
  int32_t of = rule->of > 0 ? rule->of : 1;
  tsr_shape expected = parameter->shape;
  expected.extent[0] = expected.extent[0] / n_pieces * of;
  char wanted[96];
  tsr_shape_print(&expected, wanted, sizeof wanted);
  if (!tensor) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is missing; its shape should be %s (for the parameter %s)",
                    tsr_checkpoint_path(checkpoint), name, wanted, parameter->name);
  }
  if (tensor->rank > TSR_MAX_RANK) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has %d axes; its shape should be %s", tensor->path, tensor->name,
                    (int)tensor->rank, wanted);
  }
  if (tensor->dtype != TSR_F32 && tensor->dtype != TSR_F16 && tensor->dtype != TSR_BF16) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the type %s; expected F32, F16 or BF16", tensor->path,
                    tensor->name, tensor->type);
  }
  if (!same_extents(&tensor->shape, &expected)) {
    char found[96];
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the shape %s; expected %s", tensor->path, tensor->name,
                    tsr_shape_print(&tensor->shape, found, sizeof found), wanted);
  }
  int64_t count = tsr_shape_elements(&expected) / of;
  *piece = (tsr_piece){.tensor = tensor, .first = rule->part * count, .count = count};
  parameter->stored = parameter->stored == 0 || parameter->stored == tensor->dtype ? tensor->dtype : TSR_F32;
  return TSR_OK;
}

static tsr_status resolve_parameter(const tsr_family *family, const tsr_checkpoint *checkpoint,
                                    tsr_parameter *parameter)
{
  /* The rule whose first tensor exists; if none does, the first one serves for the message. */
  const tsr_name_rule *rule = NULL;
  captures found = {{0}, {0}, {0}};
  char name[NAME_ROOM];
  for (int32_t i = 0; i < family->n_rules; i++) {
    captures now = {{0}, {0}, {0}};
    if (!match(family->rules[i].parameter, parameter->name, &now)) {
      continue;
    }
    expand(family->rules[i].pieces[0].name, &now, name);
    int exists = find_tensor(family, checkpoint, name) != NULL;
    if (exists || !rule) {
      rule = &family->rules[i];
      found = now;
    }
    if (exists) {
      break;
    }
  }
  if (!rule) {
    return tsr_fail(TSR_ERR_INTERNAL, "the family '%s' has no name for the parameter %s", family->model_type,
                    parameter->name);
  }
  int32_t n_pieces = 0;
  while (n_pieces < TSR_PIECES && rule->pieces[n_pieces].name) {
    n_pieces++;
  }
  for (int32_t i = 0; i < n_pieces; i++) {
    expand(rule->pieces[i].name, &found, name);
    const tsr_checkpoint_tensor *tensor = find_tensor(family, checkpoint, name);
    if (!tensor && rule->optional) {
      parameter->pieces[i] = (tsr_piece){.count = tsr_shape_elements(&parameter->shape) / n_pieces};
      parameter->stored = parameter->stored != 0 ? parameter->stored : TSR_F32;
    } else {
      TSR_TRY(resolve_piece(checkpoint, &rule->pieces[i], tensor, name, n_pieces, parameter, &parameter->pieces[i]));
    }
  }
  parameter->n_pieces = n_pieces;
  return TSR_OK;
}

tsr_status tsr_parameters_resolve(const tsr_family *family, const tsr_checkpoint *checkpoint, tsr_parameter_list *list)
{
  for (int32_t i = 0; i < list->n; i++) {
    TSR_TRY(resolve_parameter(family, checkpoint, &list->items[i]));
  }
  return TSR_OK;
}
