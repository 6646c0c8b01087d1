/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera info: a model's configuration, and its parameters by module.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/transformer.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

/* A module, such as encoder.layers.0: a beginning of parameters' names. */
typedef struct module {
  char *name;
  int32_t depth; /* dots in the name */
  int64_t parameters;
} module;

typedef struct module_list {
  module *items; /* as a tree is walked: parents first */
  int32_t n;
  int32_t room;
  int64_t parameters;
  int64_t bytes; /* as stored */
} module_list;

enum { MAX_DEPTH = 16 };

static int add_module(module_list *list, const char *name, size_t length, int32_t depth)
{
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 64;
    module *items = realloc(list->items, (size_t)room * sizeof *items);
    if (!items) {
      return 0;
    }
    list->items = items;
    list->room = room;
  }
  char *copy = malloc(length + 1);
  if (!copy) {
    return 0;
  }
  memcpy(copy, name, length);
  copy[length] = '\0';
  list->items[list->n++] = (module){.name = copy, .depth = depth};
  return 1;
}

static void finish_modules(module_list *list)
{
  for (int32_t i = 0; i < list->n; i++) {
    free(list->items[i].name);
  }
  free(list->items);
}

/* Of a parameter, with the scales of whole numbers. */
static int64_t stored_bytes(const tsr_parameter_info *info)
{
  const int64_t elements = tsr_shape_elements(&info->shape), rows = info->shape.rank > 0 ? info->shape.extent[0] : 1;
  const int64_t columns = rows > 0 ? elements / rows : 0, groups = (columns + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  switch (info->dtype) {
  case TSR_I4:
    return rows * groups * (TSR_I4_BYTES + (int64_t)tsr_dtype_size(TSR_F16));
  case TSR_I8:
    return elements + rows * (int64_t)tsr_dtype_size(TSR_F32);
  default:
    return elements * (int64_t)tsr_dtype_size(info->dtype);
  }
}

/* Counts a parameter for each module that its name runs through. open [depth] are the modules of the parameter before:
 * parameters are listed as the tree is walked, so a module that is not open is new. */
static int count_parameter(module_list *list, const tsr_parameter_info *info, int32_t *open)
{
  int64_t elements = tsr_shape_elements(&info->shape);
  list->parameters += elements;
  list->bytes += stored_bytes(info);
  int32_t depth = 0;
  for (const char *dot = strchr(info->name, '.'); dot && depth < MAX_DEPTH; dot = strchr(dot + 1, '.'), depth++) {
    size_t length = (size_t)(dot - info->name);
    int known = open[depth] >= 0 && strlen(list->items[open[depth]].name) == length &&
                memcmp(list->items[open[depth]].name, info->name, length) == 0;
    if (!known) {
      if (!add_module(list, info->name, length, depth)) {
        return 0;
      }
      open[depth] = list->n - 1;
    }
    list->items[open[depth]].parameters += elements;
  }
  return 1;
}

static int count_modules(const tsr_model *model, module_list *list)
{
  int32_t open[MAX_DEPTH];
  for (int32_t i = 0; i < MAX_DEPTH; i++) {
    open[i] = -1;
  }
  for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) {
    tsr_parameter_info info;
    int code = tsr_cli_fail(tsr_model_parameter(model, i, &info));
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (!count_parameter(list, &info, open)) {
      return tsr_cli_no_memory();
    }
  }
  return TSR_EXIT_OK;
}

/* ---- words for the configuration --------------------------------------------------------------------------------- */

static const char *word(const char *const *words, size_t n, int32_t index)
{
  return index >= 0 && (size_t)index < n && words[index] ? words[index] : "?";
}

static const char *activation_word(int32_t activation)
{
  static const char *const words[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
  return word(words, sizeof words / sizeof words[0], activation);
}

static const char *position_word(int32_t position)
{
  static const char *const words[] = {
      "none",     "sinusoid, halves",        "sinusoid, interleaved", "learned",
      "relative", "sinusoid, tensor2tensor", "relative, clamped",     "relative, vectors",
      "rotary"};
  return word(words, sizeof words / sizeof words[0], position);
}

static const char *norm_word(const tsr_transformer_config *c)
{
  return c->norm == TSR_NORM_RMS ? "rmsnorm" : c->norm == TSR_NORM_LAYER_STD ? "layernorm_std" : "layernorm";
}

static const char *norm_position_word(const tsr_transformer_config *c)
{
  return c->norm_position == TSR_NORM_SANDWICH ? "sandwich" : c->norm_position == TSR_NORM_PRE ? "pre" : "post";
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static void print_stack(const char *name, int32_t layers, int32_t heads, int32_t head_size, int32_t d_ff)
{
  if (layers == 0) {
    printf("  %-18s none\n", name);
  } else {
    printf("  %-18s %d layers, %d heads of %d, d_ff %d\n", name, (int)layers, (int)heads, (int)head_size, (int)d_ff);
  }
}

static void print_logits(const tsr_transformer_config *c)
{
  printf("  %-18s %s, %s", "logits", c->tied_logits ? "tied to the decoder's embedding" : "weights of their own",
         c->logits_bias ? "with a bias" : "no bias");
  if (c->logits_scale != 1.0f) {
    printf(", scale %g", (double)c->logits_scale);
  }
  printf("\n");
}

static void print_positions(const tsr_transformer_config *c)
{
  printf("  %-18s %s", "positions", position_word(c->position));
  if (c->position == TSR_POSITION_RELATIVE) {
    printf(" bias of %d buckets up to %d tokens, %s", (int)c->relative_buckets, (int)c->relative_distance,
           c->relative_layers ? "in each layer" : "one for each stack");
  }
  if (c->position == TSR_POSITION_RELATIVE_CLAMPED) {
    printf(" at %d tokens, a bias in each layer", (int)c->relative_distance);
  }
  if (c->position == TSR_POSITION_ROTARY) {
    printf(", theta %g", (double)c->rotary_theta);
  }
  if (c->position_offset != 0) {
    printf(" from row %d", (int)c->position_offset);
  }
  printf(", at most %d tokens\n", (int)c->max_positions);
}

/* What few families have. */
static void print_attention(const tsr_transformer_config *c)
{
  if (c->encoder_key_heads > 0 || c->decoder_key_heads > 0) {
    printf("  %-18s %d in the encoder, %d in the decoder\n", "heads of keys", (int)c->encoder_key_heads,
           (int)c->decoder_key_heads);
  }
  if (c->window > 0 && c->window_period > 0) {
    printf("  %-18s %d tokens, but in layer %d and every %d after it\n", "window", (int)c->window,
           (int)c->window_period, (int)c->window_period);
  } else if (c->window > 0) {
    printf("  %-18s %d tokens\n", "window", (int)c->window);
  }
  if (c->attention_softcap > 0.0f || c->logits_softcap > 0.0f) {
    printf("  %-18s %g of scores, %g of logits (0: none)\n", "softcap", (double)c->attention_softcap,
           (double)c->logits_softcap);
  }
}

static void print_config(const tsr_model *model)
{
  const tsr_transformer_config *c = tsr_model_config(model);
  printf("%s\n", tsr_model_folder(model));
  printf("  %-18s %s\n", "family", c->family);
  printf("  %-18s %d", "d_model", (int)c->d_model);
  if (c->encoder_d_model > 0) {
    printf(", %d in the encoder", (int)c->encoder_d_model);
  }
  printf("\n");
  print_stack("encoder", c->encoder_layers, c->encoder_heads, c->encoder_head_size, c->encoder_d_ff);
  print_stack("decoder", c->decoder_layers, c->decoder_heads, c->decoder_head_size, c->decoder_d_ff);
  if (c->mels > 0) {
    printf("  %-18s %d mels of each frame, windows of %d frames (%d positions)\n", "sound", (int)c->mels,
           2 * (int)c->source_positions, (int)c->source_positions);
    printf("  %-18s target %d\n", "vocabulary", (int)c->target_vocabulary);
  } else {
    printf("  %-18s source %d, target %d%s\n", "vocabulary", (int)c->source_vocabulary, (int)c->target_vocabulary,
           c->shared_embedding ? ", one table" : "");
  }
  print_positions(c);
  print_attention(c);
  printf("  %-18s %s, %s, epsilon %g%s%s\n", "norm", norm_position_word(c), norm_word(c), (double)c->epsilon,
         c->final_norm ? ", one after each stack" : "", c->embedding_norm ? ", one after each embedding" : "");
  printf("  %-18s %s%s\n", "activation", activation_word(c->activation), c->gated ? ", gated" : "");
  printf("  %-18s %g\n", "embedding scale", (double)c->embedding_scale);
  if (c->decoder_layers > 0) {
    print_logits(c);
  }
  printf("  %-18s pad %d, bos %d, eos %d, unk %d, decoder start %d (-1: none)\n", "token ids", (int)c->pad_id,
         (int)c->bos_id, (int)c->eos_id, (int)c->unk_id, (int)c->decoder_start_id);
}

/* A layer is named by a number. */
static int is_layer(const module *m)
{
  const char *last = strrchr(m->name, '.');
  return last && strspn(last + 1, "0123456789") == strlen(last + 1);
}

static void print_modules(const module_list *list, int all)
{
  char text[32];
  const module *shown = NULL; /* the last layer whose modules were printed */
  int32_t hidden = INT32_MAX; /* depth of a layer whose modules are left out */
  for (int32_t i = 0; i < list->n; i++) {
    const module *m = &list->items[i];
    if (m->depth > hidden) {
      continue;
    }
    hidden = INT32_MAX;
    if (is_layer(m) && !all) {
      int same_parent = shown && shown->depth == m->depth &&
                        strrchr(m->name, '.') - m->name == strrchr(shown->name, '.') - shown->name &&
                        strncmp(m->name, shown->name, (size_t)(strrchr(m->name, '.') - m->name)) == 0;
      if (same_parent && shown->parameters == m->parameters) {
        hidden = m->depth;
      } else {
        shown = m;
      }
    }
    int indent = 2 + 2 * m->depth;
    printf("%*s%-*s %15s\n", indent, "", 52 - indent, m->name, tsr_cli_grouped(m->parameters, text));
  }
  printf("  %-50s %15s\n", "all", tsr_cli_grouped(list->parameters, text));
}

/* That the weights take with the precision of that index. */
static int64_t precision_bytes(const tsr_model *model, int32_t index)
{
  tsr_dtype weights = 0;
  const int code = tsr_cli_precision("info", "precision", tsr_cli_precision_at(index), &weights);
  return code == TSR_EXIT_OK ? tsr_model_weight_bytes(model, weights) : 0;
}

static void print_text(const tsr_model *model, const module_list *list, int all)
{
  char text[32];
  print_config(model);
  if (tsr_model_has_weights(model)) {
    printf("  %-18s %s\n", "weights", tsr_cli_bytes((uint64_t)list->bytes, text));
    for (int32_t i = 0; tsr_cli_precision_at(i); i++) {
      char label[32];
      snprintf(label, sizeof label, "as %s", tsr_cli_precision_at(i));
      printf("  %-18s %s\n", label, tsr_cli_bytes((uint64_t)precision_bytes(model, i), text));
    }
  } else {
    printf("  %-18s not in the folder: the model can be described, not run\n", "weights");
  }
  printf("\nparameters by module\n");
  print_modules(list, all);
}

/* The keys are those of tsr_transformer_config. */
static json_t *config_json(const tsr_transformer_config *c)
{
  json_t *sizes = json_pack(
      "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i}", "d_model",
      (int)c->d_model, "encoder_layers", (int)c->encoder_layers, "decoder_layers", (int)c->decoder_layers,
      "encoder_heads", (int)c->encoder_heads, "decoder_heads", (int)c->decoder_heads, "encoder_head_size",
      (int)c->encoder_head_size, "decoder_head_size", (int)c->decoder_head_size, "encoder_d_ff", (int)c->encoder_d_ff,
      "decoder_d_ff", (int)c->decoder_d_ff, "source_vocabulary", (int)c->source_vocabulary, "target_vocabulary",
      (int)c->target_vocabulary, "max_positions", (int)c->max_positions, "position_offset", (int)c->position_offset,
      "relative_buckets", (int)c->relative_buckets, "relative_distance", (int)c->relative_distance, "relative_layers",
      c->relative_layers, "mels", (int)c->mels, "source_positions", (int)c->source_positions);
  json_t *form = json_pack("{s:s, s:s, s:s, s:f, s:b, s:b, s:s, s:b, s:s, s:b, s:b, s:b, s:b, s:b, s:f, s:f, s:f}",
                           "family", c->family, "norm", norm_word(c), "norm_position", norm_position_word(c), "epsilon",
                           (double)c->epsilon, "final_norm", c->final_norm, "embedding_norm", c->embedding_norm,
                           "activation", activation_word(c->activation), "gated", c->gated, "positions",
                           position_word(c->position), "attention_bias", c->attention_bias, "feed_forward_bias",
                           c->feed_forward_bias, "shared_embedding", c->shared_embedding, "tied_logits", c->tied_logits,
                           "logits_bias", c->logits_bias, "embedding_scale", (double)c->embedding_scale,
                           "attention_scale", (double)c->attention_scale, "logits_scale", (double)c->logits_scale);
  json_t *ids = json_pack("{s:i, s:i, s:i, s:i, s:i}", "pad_id", (int)c->pad_id, "bos_id", (int)c->bos_id, "eos_id",
                          (int)c->eos_id, "unk_id", (int)c->unk_id, "decoder_start_id", (int)c->decoder_start_id);
  json_t *attention = json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "encoder_d_model", (int)c->encoder_d_model,
                                "encoder_key_heads", (int)c->encoder_key_heads, "decoder_key_heads",
                                (int)c->decoder_key_heads, "window", (int)c->window, "window_period",
                                (int)c->window_period, "rotary_theta", (double)c->rotary_theta, "attention_softcap",
                                (double)c->attention_softcap, "logits_softcap", (double)c->logits_softcap);
  json_object_update(form, sizes);
  json_object_update(form, attention);
  json_decref(attention);
  json_object_update(form, ids);
  json_decref(sizes);
  json_decref(ids);
  return form;
}

static int print_json(const tsr_model *model, const module_list *list)
{
  json_t *modules = json_object();
  for (int32_t i = 0; i < list->n; i++) {
    json_object_set_new(modules, list->items[i].name, json_integer((json_int_t)list->items[i].parameters));
  }
  json_t *precisions = json_object();
  for (int32_t i = 0; tsr_cli_precision_at(i); i++) {
    json_object_set_new(precisions, tsr_cli_precision_at(i), json_integer((json_int_t)precision_bytes(model, i)));
  }
  const char *folder = tsr_model_folder(model);
  return tsr_cli_json_print(json_pack("{s:o, s:o, s:b, s:I, s:o, s:I, s:o}", "model",
                                      tsr_cli_json_text(folder, strlen(folder)), "config",
                                      config_json(tsr_model_config(model)), "weights", tsr_model_has_weights(model),
                                      "weight_bytes", (json_int_t)list->bytes, "precision_bytes", precisions,
                                      "parameters", (json_int_t)list->parameters, "modules", modules),
                            JSON_INDENT(2));
}

typedef struct request {
  const char *folder;
  int all, as_json;
} request;

static int run(void *opaque)
{
  const request *r = opaque;
  tsr_model *model = NULL;
  module_list list = {0};
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &model));
  if (code == TSR_EXIT_OK) {
    code = count_modules(model, &list);
  }
  if (code == TSR_EXIT_OK && r->as_json) {
    code = print_json(model, &list);
  } else if (code == TSR_EXIT_OK) {
    print_text(model, &list, r->all);
  }
  finish_modules(&list);
  tsr_model_close(model);
  return code;
}

static const tsr_option rows[] = {
    {"all", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, all), .low = 1, .help = "list the modules of every layer"},
    {"json", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, as_json), .low = 1,
     .help = "print one JSON object: config, weights, parameters, modules"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder)}, {NULL}};

const tsr_command tsr_command_info = {
    .name = "info",
    .summary = "print a model's configuration and its parameters by module",
    .usage = "MODEL [OPTION]...",
    .intro = "Prints the configuration that a model's folder holds, and how many parameters each of its modules has. "
             "config.json is enough; weights are not needed. A layer with the same counts as the one before is not "
             "printed again.",
    .options = &options,
    .operands = operands,
    .missing = "one model's folder is needed",
    .session_size = sizeof(request),
    .run = run,
};
