/* SPDX-License-Identifier: Apache-2.0
 *
 * T5 (1.0, 1.1, Flan), mT5 and UMT5, as Hugging Face folders hold them: pre-norm with RMS, no biases, no positions but
 * a bias on the scores of self-attention.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

enum {
  /* The originals take any length, and no table depends on it. A key of other families sets another limit. */
  POSITIONS = 16384
};

/* What tells one from another. */
typedef struct kin {
  const tsr_family *family;
  const char *architecture;
  const char *feed_forward;
  int32_t vocabulary;
  int32_t d_ff;
  int32_t layers;
  int32_t heads;
  int32_t tied;
  int32_t relative_layers;
  int32_t never_scaled; /* 1: transformers 5 lets the logits be, whatever the file says of the embeddings */
} kin;

static const kin kins[] = {
    {&tsr_family_t5, "T5ForConditionalGeneration", "relu", 32128, 2048, 6, 8, 1, 0, 0},
    {&tsr_family_mt5, "MT5ForConditionalGeneration", "gated-gelu", 250112, 1024, 8, 6, 0, 0, 1},
    {&tsr_family_umt5, "UMT5ForConditionalGeneration", "gated-gelu", 250112, 1024, 8, 6, 1, 1, 0},
};

static const kin *find_kin(const char *model_type)
{
  size_t i = 0;
  while (i + 1 < sizeof kins / sizeof kins[0] && strcmp(kins[i].family->model_type, model_type) != 0) {
    i++;
  }
  return &kins[i];
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

/* "relu", "gated-gelu" (which means the one by tanh), "gated-silu". Where the file names the activation itself, that
 * counts. */
static tsr_status read_feed_forward(tsr_config *file, const char *otherwise, tsr_transformer_config *config)
{
  static const char gated[] = "gated-";
  const char *text = otherwise;
  tsr_config_text(file, "feed_forward_proj", &text);
  config->gated = strncmp(text, gated, sizeof gated - 1) == 0;
  const char *name = config->gated ? text + sizeof gated - 1 : text;
  TSR_TRY(tsr_activation_find(file, "feed_forward_proj", name, &config->activation));
  if (strcmp(text, "gated-gelu") == 0) {
    config->activation = TSR_ACTIVATION_GELU_TANH;
  }
  tsr_config_bool(file, "is_gated_act", &config->gated);
  return tsr_config_activation(file, "dense_act_fn", &config->activation);
}

/* The first number of the version that wrote the file; 0: it does not say. */
static long read_version(tsr_config *file)
{
  const char *version = "";
  tsr_config_text(file, "transformers_version", &version);
  return strtol(version, NULL, 10);
}

/* Up to transformers 4 one key says that the logits' matrix is the embedding, and that the logits are scaled for it;
 * whether the file holds weights of the logits does not count. From transformers 5 on that key is true of every model,
 * a second one says whether the logits are scaled, and a matrix of the logits that the file holds is used. */
static void read_logits(tsr_config *file, const kin *k, tsr_transformer_config *config)
{
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  int32_t is_scaled = config->tied_logits && !(k->never_scaled && read_version(file) >= 5);
  tsr_config_bool(file, "scale_decoder_outputs", &is_scaled);
  config->logits_scale = is_scaled ? (float)(1.0 / sqrt((double)config->d_model)) : 1.0f;
}

static int claims_ties(tsr_config *file)
{
  return tsr_config_has(file, "scale_decoder_outputs") || read_version(file) >= 5;
}

/* What the operators ask of the buckets. */
static tsr_status check_buckets(const tsr_config *file, const tsr_transformer_config *config)
{
  if (config->relative_distance <= config->relative_buckets / 2) {
    return tsr_fail(
        TSR_ERR_FORMAT, "%s: key 'relative_attention_max_distance' is %d; with %d buckets it should be more than %d",
        file->path, (int)config->relative_distance, (int)config->relative_buckets, (int)config->relative_buckets / 2);
  }
  return TSR_OK;
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  const kin *k = find_kin(config->family);
  int32_t heads = k->heads, head_size = 64, d_ff = k->d_ff;
  config->d_model = 512;
  config->encoder_layers = k->layers;
  config->source_vocabulary = k->vocabulary;
  config->max_positions = POSITIONS;
  config->norm = TSR_NORM_RMS;
  config->norm_position = TSR_NORM_PRE;
  config->final_norm = 1;
  config->position = TSR_POSITION_RELATIVE;
  config->relative_buckets = 32;
  config->relative_distance = 128;
  config->relative_layers = k->relative_layers;
  config->attention_bias = config->feed_forward_bias = 0;
  config->attention_scale = 1.0f;
  config->epsilon = 1e-6f;
  config->shared_embedding = 1;
  config->tied_logits = k->tied;
  tsr_config_int(file, "d_model", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "num_layers", 0, TSR_MAX_LAYERS, &config->encoder_layers);
  config->decoder_layers = config->encoder_layers;
  tsr_config_int(file, "num_decoder_layers", 0, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "num_heads", 1, TSR_MAX_HEADS, &heads);
  tsr_config_int(file, "d_kv", 1, TSR_MAX_WIDTH, &head_size);
  tsr_config_int(file, "d_ff", 1, TSR_MAX_WIDTH, &d_ff);
  tsr_config_int(file, "vocab_size", 1, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  tsr_config_int(file, "max_position_embeddings", TSR_MIN_POSITIONS, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_int(file, "relative_attention_num_buckets", 4, TSR_MAX_POSITIONS, &config->relative_buckets);
  tsr_config_int(file, "relative_attention_max_distance", 1, TSR_MAX_POSITIONS, &config->relative_distance);
  tsr_config_float(file, "layer_norm_epsilon", 1e-12, 1.0, &config->epsilon);
  read_logits(file, k, config);
  TSR_TRY(read_feed_forward(file, k->feed_forward, config));
  TSR_TRY(check_buckets(file, config));
  config->encoder_heads = config->decoder_heads = heads;
  config->encoder_head_size = config->decoder_head_size = head_size;
  config->encoder_d_ff = config->decoder_d_ff = d_ff;
  config->target_vocabulary = config->source_vocabulary;
  config->pad_id = config->decoder_start_id = 0;
  config->eos_id = config->target_vocabulary > 1 ? 1 : -1;
  return TSR_OK;
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  const kin *k = find_kin(config->family);
  const char *activation = tsr_activation_name(config->activation);
  char feed_forward[48];
  int is_tanh = config->activation == TSR_ACTIVATION_GELU_TANH;
  snprintf(feed_forward, sizeof feed_forward, "%s%s", config->gated ? "gated-" : "",
           config->gated && is_tanh ? "gelu"
           : activation             ? activation
                                    : "");
  json_t *keys =
      json_pack("{s:[s], s:s, s:s*, s:b, s:b, s:o, s:o, s:f, s:b, s:b, s:s}", "architectures", k->architecture,
                "feed_forward_proj", feed_forward, "dense_act_fn", activation, "is_gated_act", (int)config->gated,
                "tie_word_embeddings", (int)config->tied_logits, "dropout_rate", tsr_json_float(options->dropout),
                "layer_norm_epsilon", tsr_json_float(config->epsilon), "initializer_factor", 1.0, "is_encoder_decoder",
                1, "use_cache", 1, "transformers_version", "4.47.1");
  json_t *sizes =
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "d_model", (int)config->d_model, "num_layers",
                (int)config->encoder_layers, "num_decoder_layers", (int)config->decoder_layers, "num_heads",
                (int)config->encoder_heads, "d_kv", (int)config->encoder_head_size, "d_ff", (int)config->encoder_d_ff,
                "vocab_size", (int)config->source_vocabulary, "max_position_embeddings", (int)config->max_positions,
                "relative_attention_num_buckets", (int)config->relative_buckets, "relative_attention_max_distance",
                (int)config->relative_distance);
  int failed = json_object_update(file, keys) != 0 || json_object_update(file, sizes) != 0;
  json_decref(keys);
  json_decref(sizes);
  const int32_t is_scaled = config->logits_scale != 1.0f;
  if (is_scaled != config->tied_logits) {
    failed |= json_object_set_new(file, "scale_decoder_outputs", json_boolean(is_scaled)) != 0;
  }
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const tsr_name_rule rules[] = {
    {"embedding.weight", {{.name = "shared.weight"}}},
    {"embedding.weight", {{.name = "encoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "decoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "lm_head.weight"}}},
    {"@.relative.weight", {{.name = "@.block.0.layer.0.SelfAttention.relative_attention_bias.weight"}}},
    {"@.layers.#.relative.weight", {{.name = "@.block.#.layer.0.SelfAttention.relative_attention_bias.weight"}}},
    {"@.norm.weight", {{.name = "@.final_layer_norm.weight"}}},
    {"logits.weight", {{.name = "lm_head.weight"}}},
    {"logits.weight", {{.name = "decoder.embed_tokens.weight"}}},
    {"logits.weight", {{.name = "shared.weight"}}},
    {"@.layers.#.self_attention.qkv.weight",
     {{.name = "@.block.#.layer.0.SelfAttention.q.weight"},
      {.name = "@.block.#.layer.0.SelfAttention.k.weight"},
      {.name = "@.block.#.layer.0.SelfAttention.v.weight"}}},
    {"@.layers.#.self_attention.output.weight", {{.name = "@.block.#.layer.0.SelfAttention.o.weight"}}},
    {"@.layers.#.self_attention_norm.weight", {{.name = "@.block.#.layer.0.layer_norm.weight"}}},
    {"decoder.layers.#.cross_attention.query.weight", {{.name = "decoder.block.#.layer.1.EncDecAttention.q.weight"}}},
    {"decoder.layers.#.cross_attention.kv.weight",
     {{.name = "decoder.block.#.layer.1.EncDecAttention.k.weight"},
      {.name = "decoder.block.#.layer.1.EncDecAttention.v.weight"}}},
    {"decoder.layers.#.cross_attention.output.weight", {{.name = "decoder.block.#.layer.1.EncDecAttention.o.weight"}}},
    {"decoder.layers.#.cross_attention_norm.weight", {{.name = "decoder.block.#.layer.1.layer_norm.weight"}}},
    {"encoder.layers.#.feed_forward.in.weight",
     {{.name = "encoder.block.#.layer.1.DenseReluDense.wi.weight"}},
     .when = TSR_RULE_NOT_GATED},
    {"encoder.layers.#.feed_forward.gate.weight", {{.name = "encoder.block.#.layer.1.DenseReluDense.wi_0.weight"}}},
    {"encoder.layers.#.feed_forward.in.weight",
     {{.name = "encoder.block.#.layer.1.DenseReluDense.wi_1.weight"}},
     .when = TSR_RULE_GATED},
    {"encoder.layers.#.feed_forward.out.weight", {{.name = "encoder.block.#.layer.1.DenseReluDense.wo.weight"}}},
    {"encoder.layers.#.feed_forward_norm.weight", {{.name = "encoder.block.#.layer.1.layer_norm.weight"}}},
    {"decoder.layers.#.feed_forward.in.weight",
     {{.name = "decoder.block.#.layer.2.DenseReluDense.wi.weight"}},
     .when = TSR_RULE_NOT_GATED},
    {"decoder.layers.#.feed_forward.gate.weight", {{.name = "decoder.block.#.layer.2.DenseReluDense.wi_0.weight"}}},
    {"decoder.layers.#.feed_forward.in.weight",
     {{.name = "decoder.block.#.layer.2.DenseReluDense.wi_1.weight"}},
     .when = TSR_RULE_GATED},
    {"decoder.layers.#.feed_forward.out.weight", {{.name = "decoder.block.#.layer.2.DenseReluDense.wo.weight"}}},
    {"decoder.layers.#.feed_forward_norm.weight", {{.name = "decoder.block.#.layer.2.layer_norm.weight"}}},
};

static const tsr_name_table names = {
    .root = "", .rules = rules, .n = sizeof rules / sizeof rules[0], .layers = {"num_layers", "num_decoder_layers"}};

const tsr_family tsr_family_t5 = {
    .model_type = "t5",
    .names = &names,
    .forced_eos_id = -1,
    .claims_ties = claims_ties,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_mt5 = {
    .model_type = "mt5",
    .names = &names,
    .forced_eos_id = -1,
    .claims_ties = claims_ties,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_umt5 = {
    .model_type = "umt5",
    .names = &names,
    .forced_eos_id = -1,
    .claims_ties = claims_ties,
    .configure = configure,
    .describe = describe,
};
