/* SPDX-License-Identifier: Apache-2.0
 *
 * T5Gemma (Zhang et al. 2025, arXiv:2504.06225), as Hugging Face folders hold it: an encoder and a decoder of the
 * layers of Gemma 2 (arXiv:2408.00118). Each sublayer stands between two norms with RMS, whose gains are stored less 1;
 * positions are rotary; heads share keys and values; scores and logits are squashed; every other layer has a window.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

/* ---- config.json ------------------------------------------------------------------------------------------------- */

enum { USUAL_PERIOD = 2, SIDES = 2, MOST_SOFTCAP = 10000 };

static const double least_softcap = 0.01;
static const char *const side_names[SIDES] = {"encoder", "decoder"};

/* What config.json says of one stack. */
typedef struct stack_config {
  int32_t layers, d_model, d_ff, heads, key_heads, head_size, vocabulary, positions, window, activation;
  float theta, epsilon, scalar, softcap, logits_softcap;
} stack_config;

/* null says that there is none; without the key the usual one stands. */
static void read_softcap(tsr_config *file, const char *key, float *softcap)
{
  if (json_is_null(json_object_get(file->root, key))) {
    *softcap = 0.0f;
  }
  tsr_config_float(file, key, least_softcap, MOST_SOFTCAP, softcap);
}

static tsr_status check_stack(const tsr_config *file, const stack_config *s)
{
  if (s->heads % s->key_heads != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key 'num_key_value_heads' is %d, which does not divide the %d heads",
                    file->path, (int)s->key_heads, (int)s->heads);
  }
  if (s->head_size % 2 != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key 'head_dim' is %d; rotary positions need an even number", file->path,
                    (int)s->head_size);
  }
  return TSR_OK;
}

/* Rotary positions of another kind than the usual one would be computed wrongly. */
static tsr_status read_rotary(tsr_config *file, float *theta)
{
  static const char *const keys[] = {"rope_scaling", "rope_parameters"};
  tsr_config_float(file, "rope_theta", 1.0, 1e12, theta);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    json_t *found = json_object_get(file->root, keys[i]);
    if (!found || json_is_null(found)) {
      continue;
    }
    const char *type = json_string_value(json_object_get(found, "rope_type"));
    if (!json_is_object(found) || !type || strcmp(type, "default") != 0) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build takes rope_type \"default\" alone",
                      file->path, keys[i], tsr_json_show(found).text);
    }
    tsr_config inner = {.path = file->path, .root = found};
    tsr_config_float(&inner, "rope_theta", 1.0, 1e12, theta);
    TSR_TRY(tsr_config_status(&inner));
  }
  return TSR_OK;
}

static tsr_status read_stack(tsr_config *file, stack_config *s)
{
  int32_t has_bias = 0;
  *s = (stack_config){.layers = 26,
                      .d_model = 2304,
                      .d_ff = 9216,
                      .heads = 8,
                      .key_heads = 4,
                      .head_size = 256,
                      .vocabulary = 256000,
                      .positions = 8192,
                      .window = 4096,
                      .activation = TSR_ACTIVATION_GELU_TANH,
                      .theta = 10000.0f,
                      .epsilon = 1e-6f,
                      .scalar = 256.0f,
                      .softcap = 50.0f,
                      .logits_softcap = 30.0f};
  tsr_config_int(file, "num_hidden_layers", 1, TSR_MAX_LAYERS, &s->layers);
  tsr_config_int(file, "hidden_size", 1, TSR_MAX_WIDTH, &s->d_model);
  tsr_config_int(file, "intermediate_size", 1, TSR_MAX_WIDTH, &s->d_ff);
  tsr_config_int(file, "num_attention_heads", 1, TSR_MAX_HEADS, &s->heads);
  tsr_config_int(file, "num_key_value_heads", 1, TSR_MAX_HEADS, &s->key_heads);
  tsr_config_int(file, "head_dim", 1, TSR_MAX_WIDTH, &s->head_size);
  tsr_config_int(file, "vocab_size", 1, TSR_MAX_VOCABULARY, &s->vocabulary);
  tsr_config_int(file, "max_position_embeddings", TSR_MIN_POSITIONS, TSR_MAX_POSITIONS, &s->positions);
  if (json_is_null(json_object_get(file->root, "sliding_window"))) {
    s->window = 0;
  }
  tsr_config_int(file, "sliding_window", 1, TSR_MAX_POSITIONS, &s->window);
  tsr_config_float(file, "rms_norm_eps", 1e-12, 1.0, &s->epsilon);
  tsr_config_float(file, "query_pre_attn_scalar", 1e-3, 1e9, &s->scalar);
  read_softcap(file, "attn_logit_softcapping", &s->softcap);
  read_softcap(file, "final_logit_softcapping", &s->logits_softcap);
  tsr_config_bool(file, "attention_bias", &has_bias);
  TSR_TRY(tsr_config_activation(file, "hidden_activation", &s->activation));
  TSR_TRY(read_rotary(file, &s->theta));
  TSR_TRY(tsr_config_status(file));
  if (has_bias) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key 'attention_bias' is true; this build takes projections without",
                    file->path);
  }
  return check_stack(file, s);
}

/* 1 if a layer sees all keys, 0 if it has the window; -1: the file says neither. */
static int sees_all(const tsr_config *file, int32_t layer)
{
  const json_t *types = json_object_get(file->root, "layer_types");
  if (!types || json_is_null(types)) {
    return (layer + 1) % USUAL_PERIOD == 0;
  }
  const char *type = json_string_value(json_array_get(types, (size_t)layer));
  return !type ? -1 : strcmp(type, "full_attention") == 0 ? 1 : strcmp(type, "sliding_attention") == 0 ? 0 : -1;
}

/* The period with which layers see all keys. */
static tsr_status read_period(const tsr_config *files, const stack_config *stacks, int32_t *period)
{
  *period = 0;
  for (int32_t i = 0; i < SIDES; i++) {
    for (int32_t layer = 0; layer < stacks[i].layers; layer++) {
      const int all = sees_all(&files[i], layer);
      if (all < 0) {
        return tsr_fail(
            TSR_ERR_FORMAT,
            "%s: key 'layer_types': entry %d should be \"full_attention\" or \"sliding_attention\", one for "
            "each of %d layers",
            files[i].path, (int)layer, (int)stacks[i].layers);
      }
      *period = all && *period == 0 ? layer + 1 : *period;
    }
  }
  for (int32_t i = 0; i < SIDES; i++) {
    for (int32_t layer = 0; layer < stacks[i].layers; layer++) {
      if (sees_all(&files[i], layer) != (*period > 0 && (layer + 1) % *period == 0)) {
        return tsr_fail(TSR_ERR_UNSUPPORTED,
                        "%s: key 'layer_types': entry %d breaks the rule that every layer of a period, here %d, sees "
                        "all tokens; this build takes such lists alone, the same for encoder and decoder",
                        files[i].path, (int)layer, (int)*period);
      }
    }
  }
  return TSR_OK;
}

/* What the configuration has once for both. */
static tsr_status check_equal(const tsr_config *file, const stack_config *stacks)
{
  const struct {
    const char *key;
    double of[SIDES];
  } keys[] = {
#define BOTH(key, field)                                                                                               \
  {                                                                                                                    \
    key,                                                                                                               \
    {                                                                                                                  \
      (double)stacks[0].field, (double)stacks[1].field                                                                 \
    }                                                                                                                  \
  }
      BOTH("head_dim", head_size),
      BOTH("sliding_window", window),
      BOTH("rope_theta", theta),
      BOTH("rms_norm_eps", epsilon),
      BOTH("query_pre_attn_scalar", scalar),
      BOTH("attn_logit_softcapping", softcap),
      BOTH("hidden_activation", activation),
#undef BOTH
  };
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (keys[i].of[0] != keys[i].of[1]) {
      return tsr_fail(TSR_ERR_UNSUPPORTED,
                      "%s: key '%s' differs between encoder (%g) and decoder (%g); this build takes one for both",
                      file->path, keys[i].key, keys[i].of[0], keys[i].of[1]);
    }
  }
  return TSR_OK;
}

static void fill_config(const stack_config *stacks, tsr_transformer_config *config)
{
  const stack_config *encoder = &stacks[0], *decoder = &stacks[1];
  config->d_model = decoder->d_model;
  config->encoder_d_model = encoder->d_model == decoder->d_model ? 0 : encoder->d_model;
  config->encoder_layers = encoder->layers;
  config->decoder_layers = decoder->layers;
  config->encoder_heads = encoder->heads;
  config->decoder_heads = decoder->heads;
  config->encoder_key_heads = encoder->key_heads;
  config->decoder_key_heads = decoder->key_heads;
  config->encoder_head_size = encoder->head_size;
  config->decoder_head_size = decoder->head_size;
  config->encoder_d_ff = encoder->d_ff;
  config->decoder_d_ff = decoder->d_ff;
  config->source_vocabulary = encoder->vocabulary;
  config->target_vocabulary = decoder->vocabulary;
  config->max_positions = encoder->positions < decoder->positions ? encoder->positions : decoder->positions;
  config->activation = decoder->activation;
  config->window = decoder->window;
  config->rotary_theta = decoder->theta;
  config->attention_softcap = decoder->softcap;
  config->logits_softcap = decoder->logits_softcap;
  config->attention_scale = (float)(1.0 / sqrt((double)decoder->scalar));
  config->embedding_scale = sqrtf((float)decoder->d_model);
  config->epsilon = decoder->epsilon;
}

static int32_t id_within(int32_t id, int32_t vocabulary)
{
  return id < vocabulary ? id : -1;
}

static tsr_status read_sides(const tsr_config *file, tsr_config *files, tsr_transformer_config *config)
{
  stack_config stacks[SIDES];
  int32_t period = 0;
  for (int32_t i = 0; i < SIDES; i++) {
    TSR_TRY(read_stack(&files[i], &stacks[i]));
  }
  TSR_TRY(check_equal(file, stacks));
  int32_t of_encoder = stacks[0].d_model;
  tsr_config_int(&files[1], "cross_attention_hidden_size", stacks[0].d_model, stacks[0].d_model, &of_encoder);
  TSR_TRY(tsr_config_status(&files[1]));
  TSR_TRY(read_period(files, stacks, &period));
  fill_config(stacks, config);
  config->window = period == 1 ? 0 : config->window;
  config->window_period = config->window > 0 ? period : 0;
  const int32_t vocabulary = config->target_vocabulary;
  config->pad_id = 0;
  config->eos_id = id_within(1, vocabulary);
  config->bos_id = id_within(2, vocabulary);
  config->unk_id = id_within(3, vocabulary);
  TSR_TRY(tsr_config_id(&files[1], "bos_token_id", vocabulary, &config->bos_id));
  config->decoder_start_id = config->bos_id;
  return TSR_OK;
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  tsr_config files[SIDES];
  char paths[SIDES][1024];
  config->norm = TSR_NORM_RMS;
  config->norm_position = TSR_NORM_SANDWICH;
  config->final_norm = 1;
  config->gated = 1;
  config->position = TSR_POSITION_ROTARY;
  config->attention_bias = config->feed_forward_bias = 0;
  config->tied_logits = 1;
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  for (int32_t i = 0; i < SIDES; i++) {
    json_t *found = json_object_get(file->root, side_names[i]);
    if (!json_is_object(found)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s' should be an object; found %s", file->path, side_names[i],
                      tsr_json_show(found).text);
    }
    snprintf(paths[i], sizeof paths[i], "%s: %s", file->path, side_names[i]);
    files[i] = (tsr_config){.path = paths[i], .root = found};
  }
  return read_sides(file, files, config);
}

/* A number of JSON, null where there is none. */
static json_t *softcap_json(float softcap)
{
  return softcap > 0.0f ? tsr_json_float(softcap) : json_null();
}

/* NULL: the usual ones, which the file need not name. */
static json_t *layer_types(const tsr_transformer_config *config, int32_t layers)
{
  const int32_t period = config->window > 0 ? config->window_period : 1;
  json_t *list = period == USUAL_PERIOD ? NULL : json_array();
  for (int32_t i = 0; list && i < layers; i++) {
    const int all = period > 0 && (i + 1) % period == 0;
    json_array_append_new(list, json_string(all ? "full_attention" : "sliding_attention"));
  }
  return list;
}

static json_t *describe_stack(const tsr_transformer_config *config, const tsr_save_options *options, int32_t decoder)
{
  const int32_t layers = decoder ? config->decoder_layers : config->encoder_layers;
  const double scalar = config->attention_scale > 0.0f
                            ? 1.0 / ((double)config->attention_scale * (double)config->attention_scale)
                            : (double)config->decoder_head_size;
  const int is_whole = fabs(scalar - round(scalar)) < 1e-6 * scalar;
  json_t *keys = json_pack(
      "{s:s, s:b, s:o, s:o, s:o, s:o, s:s*, s:f, s:b, s:o, s:o, s:o, s:b, s:o*}", "model_type", "t5_gemma_module",
      "attention_bias", 0, "attention_dropout", tsr_json_float(options->attention_dropout), "dropout_rate",
      tsr_json_float(options->dropout), "attn_logit_softcapping", softcap_json(config->attention_softcap),
      "final_logit_softcapping", softcap_json(config->logits_softcap), "hidden_activation",
      config->activation == TSR_ACTIVATION_GELU_TANH ? "gelu_pytorch_tanh" : tsr_activation_name(config->activation),
      "initializer_range", 0.02, "is_decoder", (int)decoder, "rms_norm_eps", tsr_json_float(config->epsilon),
      "rope_theta", tsr_json_float(config->rotary_theta), "query_pre_attn_scalar",
      is_whole ? json_integer((json_int_t)round(scalar)) : json_real(scalar), "use_cache", 1, "layer_types",
      layer_types(config, layers));
  json_t *sizes = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "hidden_size",
                            (int)tsr_config_width(config, decoder), "num_hidden_layers", (int)layers,
                            "num_attention_heads", (int)(decoder ? config->decoder_heads : config->encoder_heads),
                            "num_key_value_heads", (int)tsr_config_key_heads(config, decoder), "head_dim",
                            (int)(decoder ? config->decoder_head_size : config->encoder_head_size), "intermediate_size",
                            (int)(decoder ? config->decoder_d_ff : config->encoder_d_ff), "vocab_size",
                            (int)(decoder ? config->target_vocabulary : config->source_vocabulary),
                            "max_position_embeddings", (int)config->max_positions, "sliding_window",
                            config->window > 0 ? json_integer(config->window) : json_null());
  if (decoder) {
    json_object_set_new(sizes, "cross_attention_hidden_size", json_integer(tsr_config_width(config, 0)));
  }
  const int failed = json_object_update(keys, sizes) != 0;
  json_decref(sizes);
  if (failed) {
    json_decref(keys);
    return NULL;
  }
  return keys;
}

/* What transformers 4.53 writes. */
static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  json_t *keys = json_pack("{s:[s], s:o, s:o, s:o, s:b, s:b, s:b, s:f, s:i, s:s}", "architectures",
                           "T5GemmaForConditionalGeneration", "encoder", describe_stack(config, options, 0), "decoder",
                           describe_stack(config, options, 1), "dropout_rate", tsr_json_float(options->dropout),
                           "tie_word_embeddings", (int)config->tied_logits, "is_encoder_decoder", 1, "use_cache", 1,
                           "initializer_range", 0.02, "vocab_size", (int)config->target_vocabulary,
                           "transformers_version", "4.53.0");
  const int failed = json_object_update(file, keys) != 0;
  json_decref(keys);
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const tsr_name_rule rules[] = {
    {"encoder.embedding.weight", {{.name = "model.encoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "lm_head.out_proj.weight"}}},
    {"logits.weight", {{.name = "lm_head.out_proj.weight"}}},
    {"@.norm.weight", {{.name = "model.@.norm.weight"}}, .plus = 1.0f},
    {"@.layers.#.self_attention.qkv.weight",
     {{.name = "model.@.layers.#.self_attn.q_proj.weight"},
      {.name = "model.@.layers.#.self_attn.k_proj.weight"},
      {.name = "model.@.layers.#.self_attn.v_proj.weight"}}},
    {"@.layers.#.self_attention.query.weight", {{.name = "model.@.layers.#.self_attn.q_proj.weight"}}},
    {"@.layers.#.self_attention.kv.weight",
     {{.name = "model.@.layers.#.self_attn.k_proj.weight"}, {.name = "model.@.layers.#.self_attn.v_proj.weight"}}},
    {"@.layers.#.self_attention.output.weight", {{.name = "model.@.layers.#.self_attn.o_proj.weight"}}},
    {"@.layers.#.self_attention_norm.weight",
     {{.name = "model.@.layers.#.pre_self_attn_layernorm.weight"}},
     .plus = 1.0f},
    {"@.layers.#.self_attention_post_norm.weight",
     {{.name = "model.@.layers.#.post_self_attn_layernorm.weight"}},
     .plus = 1.0f},
    {"decoder.layers.#.cross_attention.query.weight", {{.name = "model.decoder.layers.#.cross_attn.q_proj.weight"}}},
    {"decoder.layers.#.cross_attention.kv.weight",
     {{.name = "model.decoder.layers.#.cross_attn.k_proj.weight"},
      {.name = "model.decoder.layers.#.cross_attn.v_proj.weight"}}},
    {"decoder.layers.#.cross_attention.output.weight", {{.name = "model.decoder.layers.#.cross_attn.o_proj.weight"}}},
    {"decoder.layers.#.cross_attention_norm.weight",
     {{.name = "model.decoder.layers.#.pre_cross_attn_layernorm.weight"}},
     .plus = 1.0f},
    {"decoder.layers.#.cross_attention_post_norm.weight",
     {{.name = "model.decoder.layers.#.post_cross_attn_layernorm.weight"}},
     .plus = 1.0f},
    {"@.layers.#.feed_forward.gate.weight", {{.name = "model.@.layers.#.mlp.gate_proj.weight"}}},
    {"@.layers.#.feed_forward.in.weight", {{.name = "model.@.layers.#.mlp.up_proj.weight"}}},
    {"@.layers.#.feed_forward.out.weight", {{.name = "model.@.layers.#.mlp.down_proj.weight"}}},
    {"@.layers.#.feed_forward_norm.weight",
     {{.name = "model.@.layers.#.pre_feedforward_layernorm.weight"}},
     .plus = 1.0f},
    {"@.layers.#.feed_forward_post_norm.weight",
     {{.name = "model.@.layers.#.post_feedforward_layernorm.weight"}},
     .plus = 1.0f},
};

static const tsr_name_table names = {.root = "model.",
                                     .rules = rules,
                                     .n = sizeof rules / sizeof rules[0],
                                     .layers = {"encoder.num_hidden_layers", "decoder.num_hidden_layers"}};

const tsr_family tsr_family_t5gemma = {
    .model_type = "t5gemma",
    .names = &names,
    .forced_eos_id = -1,
    .init_std = 0.02,
    .configure = configure,
    .describe = describe,
};
