/* SPDX-License-Identifier: Apache-2.0
 *
 * From the parameters of a model to the tensors of its family's checkpoints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/ctranslate2.h"
#include "core/checkpoint/file.h"
#include "core/transformer/names.h"

static size_t capture(char kind, const char *name, tsr_name_captures *found)
{
  size_t n = 0;
  char *to = NULL;
  size_t room = sizeof found->layer;
  if (kind == '@') {
    n = strncmp(name, "encoder", 7) == 0 || strncmp(name, "decoder", 7) == 0 ? 7 : 0;
    to = found->stack;
  } else if (kind == '#' || kind == '%') {
    n = strspn(name, "0123456789");
    to = found->layer;
  } else {
    n = strcmp(name, "weight") == 0 || strcmp(name, "bias") == 0 ? strlen(name) : 0;
    to = found->suffix;
  }
  if (n >= room) {
    return 0;
  }
  if (kind == '%') {
    snprintf(to, room, "%ld", strtol(name, NULL, 10) - 1);
  } else {
    memcpy(to, name, n);
    to[n] = '\0';
  }
  return n;
}

int tsr_name_match(const char *pattern, const char *name, tsr_name_captures *found)
{
  *found = (tsr_name_captures){{0}, {0}, {0}};
  for (; *pattern; pattern++) {
    if (strchr("@#%*", *pattern)) {
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

void tsr_name_expand(const char *pattern, const tsr_name_captures *found, char *name)
{
  size_t used = 0;
  name[0] = '\0';
  char from_one[16];
  snprintf(from_one, sizeof from_one, "%d", (int)(strtol(found->layer, NULL, 10) % TSR_MAX_LAYERS) + 1);
  for (; *pattern && used + 1 < TSR_NAME_ROOM; pattern++) {
    char one[2] = {*pattern, '\0'};
    const char *text = *pattern == '@'   ? found->stack
                       : *pattern == '#' ? found->layer
                       : *pattern == '%' ? from_one
                       : *pattern == '*' ? found->suffix
                                         : one;
    used += (size_t)snprintf(name + used, TSR_NAME_ROOM - used, "%s", text);
  }
}

const char *const tsr_name_wrappers[TSR_NAME_WRAPPERS] = {"", "module.", "_orig_mod.", "module._orig_mod.",
                                                          "_orig_mod.module."};

/* Looks a name up as it is, without the family's root, and behind the prefixes that wrappers put before it. */
static const tsr_checkpoint_tensor *find_tensor(const tsr_model *model, const char *name)
{
  size_t root = strlen(model->family->names->root);
  int rooted = root > 0 && strncmp(name, model->family->names->root, root) == 0;
  for (size_t i = 0; i < TSR_NAME_WRAPPERS; i++) {
    for (int bare = 0; bare <= rooted; bare++) {
      char full[2 * TSR_NAME_ROOM];
      snprintf(full, sizeof full, "%s%s", tsr_name_wrappers[i], name + (bare ? root : 0));
      const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(model->checkpoint, full);
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

static int32_t count_pieces(const tsr_name_rule *rule)
{
  int32_t n = 0;
  while (n < TSR_PIECES && rule->pieces[n].name) {
    n++;
  }
  return n;
}

/* The shape of the tensor in which one of a parameter's pieces lies. */
static tsr_shape whole_tensor(const tsr_parameter *parameter, const tsr_name_rule *rule, const tsr_name_piece *piece)
{
  tsr_shape shape = parameter->shape;
  shape.extent[0] = (shape.extent[0] - rule->added) / count_pieces(rule) * (piece->of > 0 ? piece->of : 1);
  return !piece->transposed ? shape
         : shape.rank == 3  ? TSR_SHAPE(shape.extent[0], shape.extent[2], shape.extent[1])
                            : TSR_SHAPE(shape.extent[1], shape.extent[0]);
}

/* What the whole numbers of a tensor of CTranslate2's are divided by: NAME_scale, f32, one number (I16) or one for each
 * row (I8). Old files lack the one number. Others have tensors of that name, too, and multiply by them. */
static tsr_status find_scales(const tsr_checkpoint *checkpoint, const tsr_checkpoint_tensor *tensor,
                              const tsr_parameter *parameter, tsr_piece *piece)
{
  char name[TSR_NAME_ROOM + 8];
  const float otherwise = 1000.0f;
  const int is_short = strcmp(tensor->type, "I16") == 0;
  const int is_ctranslate2 = tsr_checkpoint_metadata(checkpoint, TSR_CTRANSLATE2_VERSION) != NULL;
  snprintf(name, sizeof name, "%s_scale", tensor->name);
  const tsr_checkpoint_tensor *scales = tsr_checkpoint_find(checkpoint, name);
  if ((!is_short && tensor->dtype != TSR_I8) || parameter->matrix != TSR_MATRIX_PRODUCT || !is_ctranslate2) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the type %s; expected F32, F16 or BF16", tensor->path,
                    tensor->name, tensor->type);
  }
  const int64_t wanted = is_short || tensor->shape.rank == 0 ? 1 : tensor->shape.extent[0];
  if (!scales && !is_short) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is missing; expected %lld numbers of F32, which divide '%s'",
                    tensor->path, name, (long long)wanted, tensor->name);
  }
  const int64_t found = scales ? tsr_shape_elements(&scales->shape) : wanted;
  if (scales && (scales->dtype != TSR_F32 || found != wanted)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has %lld elements of the type %s; expected %lld of F32",
                    tensor->path, name, (long long)found, scales->type, (long long)wanted);
  }
  piece->scales = scales;
  piece->divided = 1;
  piece->scale = scales ? 0.0f : otherwise;
  return TSR_OK;
}

/* What 1 is worth in a tensor of whole numbers that tsr_model_save wrote: NAME.scales, of each row (f32), or of each
 * group of a row whose numbers have four bits (f16). NULL: there is no such tensor. */
static const tsr_checkpoint_tensor *find_worth(const tsr_checkpoint *checkpoint, const tsr_checkpoint_tensor *tensor)
{
  char name[TSR_PARAMETER_NAME_ROOM];
  return tensor->dtype == TSR_I8 ? tsr_checkpoint_find(checkpoint, tsr_scales_name(name, tensor->name)) : NULL;
}

/* Such scales, for a matrix of the shape `whole`. The tensor's own shape should be *expected. */
static tsr_status take_worth(const tsr_checkpoint_tensor *tensor, const tsr_checkpoint_tensor *scales,
                             const tsr_parameter *parameter, const tsr_shape *whole, tsr_piece *piece,
                             tsr_dtype *stored, tsr_shape *expected)
{
  const tsr_parameter matrix = {.shape = *whole, .matrix = TSR_MATRIX_PRODUCT};
  const int four_bits = scales->dtype == TSR_F16;
  tsr_kept kept;
  char wanted[96], found[96];
  if (parameter->matrix != TSR_MATRIX_PRODUCT || piece->transposed || whole->rank != 2) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the type %s; expected F32, F16 or BF16", tensor->path,
                    tensor->name, tensor->type);
  }
  *stored = four_bits ? TSR_I4 : TSR_I8;
  *expected = tsr_parameter_kept(&matrix, *stored, &kept).shape;
  if ((scales->dtype != TSR_F16 && scales->dtype != TSR_F32) || !same_extents(&scales->shape, &kept.shape)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the type %s and the shape %s; expected %s of the shape %s",
                    tensor->path, scales->name, scales->type, tsr_shape_print(&scales->shape, found, sizeof found),
                    four_bits ? "F16" : "F32", tsr_shape_print(&kept.shape, wanted, sizeof wanted));
  }
  piece->scales = scales;
  piece->columns = four_bits ? whole->extent[1] : 0;
  return TSR_OK;
}

static tsr_status resolve_piece(const tsr_checkpoint *checkpoint, const tsr_name_rule *rule,
                                const tsr_name_piece *place, const tsr_checkpoint_tensor *tensor, const char *name,
                                tsr_parameter *parameter, tsr_piece *piece)
{
  int32_t of = place->of > 0 ? place->of : 1;
  tsr_shape expected = whole_tensor(parameter, rule, place);
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
  *piece = (tsr_piece){.tensor = tensor, .transposed = place->transposed, .plus = rule->plus};
  tsr_dtype stored = tensor->dtype;
  tsr_shape extents = expected;
  const tsr_checkpoint_tensor *worth = find_worth(checkpoint, tensor);
  if (worth) {
    TSR_TRY(take_worth(tensor, worth, parameter, &expected, piece, &stored, &extents));
  } else if (tensor->dtype != TSR_F32 && tensor->dtype != TSR_F16 && tensor->dtype != TSR_BF16) {
    TSR_TRY(find_scales(checkpoint, tensor, parameter, piece));
    stored = tensor->dtype == TSR_I8 ? TSR_I8 : TSR_F32;
  }
  if (!same_extents(&tensor->shape, &extents) || (place->transposed && tensor->rank != expected.rank)) {
    char found[96];
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has the shape %s; expected %s", tensor->path, tensor->name,
                    tsr_shape_print(&tensor->shape, found, sizeof found),
                    tsr_shape_print(&extents, wanted, sizeof wanted));
  }
  int64_t count = tsr_shape_elements(&expected) / of;
  piece->first = place->part * count;
  piece->count = count;
  parameter->stored = parameter->stored == 0 || parameter->stored == stored ? stored : TSR_F32;
  return TSR_OK;
}

int tsr_name_rule_holds(const tsr_name_rule *rule, const tsr_transformer_config *config)
{
  int32_t holds = (config->gated ? TSR_RULE_GATED : TSR_RULE_NOT_GATED) |
                  (config->encoder_layers > 0 ? TSR_RULE_ENCODER : TSR_RULE_NO_ENCODER);
  return (rule->when & ~holds) == 0;
}

/* 1 if a rule is one for that parameter of that model; then `found` is what its wildcards stand for. */
static int applies(const tsr_name_rule *rule, const tsr_model *model, const tsr_parameter *parameter,
                   tsr_name_captures *found)
{
  return tsr_name_rule_holds(rule, &model->config) && tsr_name_match(rule->parameter, parameter->name, found);
}

static tsr_status fail_nameless(tsr_status status, const tsr_model *model, const tsr_parameter *parameter)
{
  return tsr_fail(status, "the family '%s' has no name for the parameter %s", model->family->model_type,
                  parameter->name);
}

/* *is_there: 0 if the checkpoint lacks it, and may. */
static tsr_status resolve_parameter(const tsr_model *model, tsr_parameter *parameter, int *is_there)
{
  *is_there = 1;
  if (parameter->n_pieces > 0) {
    return TSR_OK; /* what no tensor has */
  }
  /* The rule whose first tensor exists; if none does, the first one serves for the message. */
  const tsr_name_table *table = model->family->names;
  const tsr_name_rule *rule = NULL;
  tsr_name_captures found = {{0}, {0}, {0}};
  char name[TSR_NAME_ROOM];
  for (int32_t i = 0; i < table->n; i++) {
    tsr_name_captures now;
    if (!applies(&table->rules[i], model, parameter, &now)) {
      continue;
    }
    tsr_name_expand(table->rules[i].pieces[0].name, &now, name);
    int exists = find_tensor(model, name) != NULL;
    if (exists || !rule) {
      rule = &table->rules[i];
      found = now;
    }
    if (exists) {
      break;
    }
  }
  if (!rule) {
    return fail_nameless(TSR_ERR_INTERNAL, model, parameter);
  }
  tsr_name_expand(rule->pieces[0].name, &found, name);
  if (rule->may_lack && !find_tensor(model, name)) {
    *is_there = 0;
    return TSR_OK;
  }
  int32_t n_pieces = count_pieces(rule);
  int64_t elements = tsr_shape_elements(&parameter->shape);
  int64_t added = parameter->shape.extent[0] > 0 ? elements / parameter->shape.extent[0] * rule->added : 0;
  for (int32_t i = 0; i < n_pieces; i++) {
    tsr_name_expand(rule->pieces[i].name, &found, name);
    const tsr_checkpoint_tensor *tensor = find_tensor(model, name);
    if (!tensor && rule->pieces[i].absent) {
      parameter->pieces[i] = (tsr_piece){.count = (elements - added) / n_pieces};
    } else if (!tensor && (rule->optional || (rule->may_lack && i > 0))) {
      parameter->pieces[i] = (tsr_piece){.count = (elements - added) / n_pieces};
      parameter->stored = parameter->stored != 0 ? parameter->stored : TSR_F32;
    } else {
      TSR_TRY(resolve_piece(model->checkpoint, rule, &rule->pieces[i], tensor, name, parameter, &parameter->pieces[i]));
    }
  }
  if (added > 0) {
    parameter->pieces[n_pieces++] = (tsr_piece){.count = added, .fill = rule->fill};
  }
  parameter->n_pieces = n_pieces;
  return TSR_OK;
}

tsr_status tsr_parameters_resolve(tsr_model *model)
{
  tsr_parameter_list *list = &model->parameters;
  int32_t n = 0;
  for (int32_t i = 0; i < list->n; i++) {
    int is_there = 0;
    TSR_TRY(resolve_parameter(model, &list->items[i], &is_there));
    list->items[n] = list->items[i];
    n += is_there;
  }
  if (n < list->n) {
    list->n = n;
    TSR_TRY(tsr_parameters_sort(list, &model->arena));
  }
  return tsr_parameters_check_unread(model);
}

/* ---- one matrix or two ------------------------------------------------------------------------------------------- */

/* The tensor of a parameter by the first of its `most` first rules that has one; NULL: none has. */
static const tsr_checkpoint_tensor *find_first(const tsr_model *model, const char *parameter, int32_t most)
{
  const tsr_name_table *table = model->family->names;
  const tsr_checkpoint_tensor *found = NULL;
  for (int32_t i = 0; i < table->n && most > 0 && !found; i++) {
    const tsr_name_rule *rule = &table->rules[i];
    if (strcmp(rule->parameter, parameter) == 0 && tsr_name_rule_holds(rule, &model->config)) {
      found = find_tensor(model, rule->pieces[0].name);
      most--;
    }
  }
  return found;
}

static int is_float(const tsr_checkpoint_tensor *tensor)
{
  return tensor->dtype == TSR_F32 || tensor->dtype == TSR_F16 || tensor->dtype == TSR_BF16;
}

tsr_status tsr_tensors_compare(const tsr_checkpoint_tensor *a, const tsr_checkpoint_tensor *b, int *differ)
{
  enum { PORTION = 4096 };
  float x[PORTION], y[PORTION];
  const int is_same_place = a->at == b->at && a->bytes == b->bytes && a->file == b->file && a->size == b->size;
  *differ = 0;
  if (a == b || is_same_place || a->rank != b->rank || !same_extents(&a->shape, &b->shape)) {
    return TSR_OK;
  }
  if (!is_float(a) || !is_float(b)) {
    *differ = 1; /* whole numbers, whose scales lie elsewhere: nobody writes the same ones twice */
    return TSR_OK;
  }
  const int64_t n = tsr_shape_elements(&a->shape);
  for (int64_t first = 0; first < n && !*differ; first += PORTION) {
    const int64_t count = n - first < PORTION ? n - first : PORTION;
    TSR_TRY(tsr_checkpoint_read(a, first, count, TSR_F32, x));
    TSR_TRY(tsr_checkpoint_read(b, first, count, TSR_F32, y));
    *differ = memcmp(x, y, (size_t)count * sizeof *x) != 0;
  }
  return TSR_OK;
}

/* 1 if nobody is surprised that config.json says so. */
static int is_usual(const tsr_model *model)
{
  char *path = model->family->claims_ties ? tsr_path_join(model->folder, "config.json") : NULL;
  tsr_config file = {0};
  const int usual = path && tsr_config_open(path, &file) == TSR_OK && model->family->claims_ties(&file);
  tsr_config_finish(&file);
  free(path);
  return usual;
}

tsr_status tsr_parameters_untie(tsr_model *model)
{
  tsr_transformer_config *config = &model->config;
  const int has_logits = config->decoder_layers > 0 && config->target_vocabulary > 0;
  if (!has_logits || !config->tied_logits || model->family->is_exact || model->family == &tsr_family_marian_npz) {
    return TSR_OK;
  }
  const tsr_checkpoint_tensor *own = find_first(model, "logits.weight", 1);
  const tsr_checkpoint_tensor *embedding =
      find_first(model, config->shared_embedding ? "embedding.weight" : "decoder.embedding.weight", INT32_MAX);
  int differ = 0;
  if (own && embedding) {
    TSR_TRY(tsr_tensors_compare(own, embedding, &differ));
  }
  if (!differ) {
    return TSR_OK;
  }
  config->tied_logits = 0;
  if (!is_usual(model)) {
    tsr_log(TSR_LOG_WARNING,
            "%s: tensor '%s' is not '%s', though by config.json (tie_word_embeddings) they are one: the logits are "
            "computed with the former",
            own->path, own->name, embedding->name);
  }
  return TSR_OK;
}

/* ---- the other way round ----------------------------------------------------------------------------------------- */

/* The tensors under construction. */
typedef struct layout {
  tsr_layout_tensor *tensors;
  int32_t n;
  tsr_arena *arena;
} layout;

/* The tensor of that name, new if it is not there; NULL without memory. Only tensors of several parts occur twice. */
static tsr_layout_tensor *open_tensor(layout *to, const char *name, int32_t of)
{
  for (int32_t i = to->n - 1; i >= 0 && of > 0; i--) {
    if (strcmp(to->tensors[i].name, name) == 0) {
      return &to->tensors[i];
    }
  }
  tsr_layout_tensor *tensor = &to->tensors[to->n];
  *tensor = (tsr_layout_tensor){.name = tsr_arena_text(to->arena, name), .n_parts = of > 0 ? of : 1};
  if (!tensor->name) {
    (void)tsr_fail_memory(strlen(name) + 1);
    return NULL;
  }
  to->n++;
  return tensor;
}

static tsr_status lay_out_parameter(const tsr_model *model, int32_t index, layout *to)
{
  const tsr_name_table *table = model->family->names;
  const tsr_parameter *parameter = &model->parameters.items[index];
  tsr_name_captures found = {{0}, {0}, {0}};
  const tsr_name_rule *rule = NULL;
  for (int32_t i = 0; i < table->n && !rule; i++) {
    rule = applies(&table->rules[i], model, parameter, &found) ? &table->rules[i] : NULL;
  }
  if (!rule && parameter->n_pieces > 0 && !parameter->pieces[0].tensor) {
    return TSR_OK; /* what no tensor has */
  }
  if (!rule) {
    return fail_nameless(TSR_ERR_UNSUPPORTED, model, parameter);
  }
  int32_t n_pieces = count_pieces(rule);
  int64_t count = tsr_shape_elements(&parameter->shape) / n_pieces;
  for (int32_t i = 0; i < n_pieces; i++) {
    if (rule->pieces[i].absent) {
      continue;
    }
    char name[TSR_NAME_ROOM];
    tsr_name_expand(rule->pieces[i].name, &found, name);
    tsr_layout_tensor *tensor = open_tensor(to, name, rule->pieces[i].of);
    if (!tensor) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    tsr_shape shape = whole_tensor(parameter, rule, &rule->pieces[i]);
    tensor->shape = rule->row ? TSR_SHAPE(1, shape.extent[0]) : shape;
    tensor->parts[rule->pieces[i].part] = (tsr_part){.parameter = index,
                                                     .first = i * count,
                                                     .count = count,
                                                     .transposed = rule->pieces[i].transposed,
                                                     .minus = rule->plus};
  }
  return TSR_OK;
}

tsr_status tsr_parameters_layout(const tsr_model *model, tsr_arena *arena, tsr_layout_tensor **tensors,
                                 int32_t *n_tensors)
{
  size_t room = ((size_t)model->parameters.n * TSR_PIECES + 1) * sizeof(tsr_layout_tensor);
  layout to = {.tensors = tsr_arena_take(arena, room), .arena = arena};
  if (!to.tensors) {
    return tsr_fail_memory(room);
  }
  for (int32_t i = 0; i < model->parameters.n; i++) {
    TSR_TRY(lay_out_parameter(model, i, &to));
  }
  *tensors = to.tensors;
  *n_tensors = to.n;
  return TSR_OK;
}
