/* SPDX-License-Identifier: Apache-2.0
 *
 * BART, mBART, M2M100 (NLLB too) and Pegasus, as Hugging Face folders hold them.
 */
#include "core/transformer/family_bart.h"

#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"

/* What tells one from another. Ids are those that hold where config.json says nothing; -1: none. */
typedef struct kin {
  const tsr_family *family;
  const char *architecture;
  int32_t vocabulary;
  int32_t activation;
  int32_t scaled; /* 1: embeddings are multiplied by the root of d_model */
  int32_t norm_position;
  int32_t position;
  int32_t position_offset; /* for the first token; beside it, with TENSOR2TENSOR, the pad's id */
  int32_t embedding_norm;
  int32_t final_norm;
  int32_t logits_bias;
  int32_t pad, bos, eos, decoder_start;
} kin;

static const kin kins[] = {
    {.family = &tsr_family_bart,
     .architecture = "BartForConditionalGeneration",
     .vocabulary = 50265,
     .activation = TSR_ACTIVATION_GELU_ERF,
     .norm_position = TSR_NORM_POST,
     .position = TSR_POSITION_LEARNED,
     .position_offset = 2,
     .embedding_norm = 1,
     .logits_bias = 1,
     .pad = 1,
     .eos = 2,
     .decoder_start = 2},
    {.family = &tsr_family_mbart,
     .architecture = "MBartForConditionalGeneration",
     .vocabulary = 50265,
     .activation = TSR_ACTIVATION_GELU_ERF,
     .norm_position = TSR_NORM_PRE,
     .position = TSR_POSITION_LEARNED,
     .position_offset = 2,
     .embedding_norm = 1,
     .final_norm = 1,
     .logits_bias = 1,
     .pad = 1,
     .eos = 2,
     .decoder_start = -1}, /* a language, which the caller chooses */
    {.family = &tsr_family_m2m_100,
     .architecture = "M2M100ForConditionalGeneration",
     .vocabulary = 128112,
     .activation = TSR_ACTIVATION_RELU,
     .scaled = 1,
     .norm_position = TSR_NORM_PRE,
     .position = TSR_POSITION_SINUSOID_TENSOR2TENSOR,
     .position_offset = 1,
     .final_norm = 1,
     .pad = 1,
     .eos = 2,
     .decoder_start = 2},
    {.family = &tsr_family_pegasus,
     .architecture = "PegasusForConditionalGeneration",
     .vocabulary = 50265,
     .activation = TSR_ACTIVATION_GELU_ERF,
     .norm_position = TSR_NORM_PRE,
     .position = TSR_POSITION_SINUSOID_HALVES,
     .final_norm = 1,
     .logits_bias = 1,
     .pad = 0,
     .bos = -1,
     .eos = 1},
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

tsr_status tsr_bart_read(tsr_config *file, tsr_transformer_config *config)
{
  int32_t scaled = config->embedding_scale != 1.0f;
  config->d_model = 1024;
  config->encoder_layers = config->decoder_layers = 12;
  config->encoder_heads = config->decoder_heads = 16;
  config->encoder_d_ff = config->decoder_d_ff = 4096;
  config->max_positions = 1024;
  config->tied_logits = 1;
  tsr_config_int(file, "d_model", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "encoder_layers", 0, TSR_MAX_LAYERS, &config->encoder_layers);
  tsr_config_int(file, "decoder_layers", 0, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "encoder_attention_heads", 1, TSR_MAX_HEADS, &config->encoder_heads);
  tsr_config_int(file, "decoder_attention_heads", 1, TSR_MAX_HEADS, &config->decoder_heads);
  tsr_config_int(file, "encoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->encoder_d_ff);
  tsr_config_int(file, "decoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->decoder_d_ff);
  tsr_config_int(file, "vocab_size", 1, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  tsr_config_int(file, "max_position_embeddings", TSR_MIN_POSITIONS, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_bool(file, "scale_embedding", &scaled);
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  config->embedding_scale = scaled ? (float)sqrt((double)config->d_model) : 1.0f;
  config->target_vocabulary = config->source_vocabulary;
  return tsr_config_activation(file, "activation_function", &config->activation);
}

static int32_t id_within(int32_t id, int32_t vocabulary)
{
  return id < vocabulary ? id : -1;
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  const kin *k = find_kin(config->family);
  config->source_vocabulary = k->vocabulary;
  config->activation = k->activation;
  config->embedding_scale = k->scaled ? 0.0f : 1.0f; /* tsr_bart_read knows d_model */
  config->shared_embedding = 1;
  config->norm_position = k->norm_position;
  config->position = k->position;
  config->position_offset = k->position_offset;
  config->embedding_norm = k->embedding_norm;
  config->final_norm = k->final_norm;
  config->logits_bias = k->logits_bias;
  TSR_TRY(tsr_bart_read(file, config));
  int32_t pad = k->pad, vocabulary = config->target_vocabulary;
  TSR_TRY(tsr_config_id(file, "pad_token_id", vocabulary, &pad));
  config->pad_id = id_within(pad, vocabulary);
  config->bos_id = id_within(k->bos, vocabulary);
  config->eos_id = id_within(k->eos, vocabulary);
  config->decoder_start_id = id_within(k->decoder_start, vocabulary);
  if (config->position == TSR_POSITION_SINUSOID_TENSOR2TENSOR) {
    config->position_offset += pad;
    if (config->d_model < 4) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key 'd_model' is %d; the positions of '%s' need at least 4 columns",
                      file->path, (int)config->d_model, config->family);
    }
  }
  return TSR_OK;
}

tsr_status tsr_bart_describe(const tsr_transformer_config *config, const tsr_save_options *options,
                             const char *architecture, json_t *file)
{
  const char *activation = tsr_activation_name(config->activation);
  json_t *keys = json_pack("{s:[s], s:s*, s:o, s:o, s:o, s:f, s:f, s:f, s:b, s:b, s:i, s:s}", "architectures",
                           architecture, "activation_function", activation, "dropout", tsr_json_float(options->dropout),
                           "attention_dropout", tsr_json_float(options->attention_dropout), "activation_dropout",
                           tsr_json_float(options->activation_dropout), "encoder_layerdrop", 0.0, "decoder_layerdrop",
                           0.0, "init_std", TSR_BART_INIT_STD, "is_encoder_decoder", 1, "use_cache", 1,
                           "num_hidden_layers", (int)config->encoder_layers, "transformers_version", "4.47.1");
  json_t *sizes =
      json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "d_model", (int)config->d_model, "encoder_layers",
                (int)config->encoder_layers, "decoder_layers", (int)config->decoder_layers, "encoder_attention_heads",
                (int)config->encoder_heads, "decoder_attention_heads", (int)config->decoder_heads, "encoder_ffn_dim",
                (int)config->encoder_d_ff, "decoder_ffn_dim", (int)config->decoder_d_ff, "vocab_size",
                (int)config->source_vocabulary, "max_position_embeddings", (int)config->max_positions,
                "scale_embedding", config->embedding_scale != 1.0f);
  int failed = json_object_update(file, keys) != 0 || json_object_update(file, sizes) != 0;
  json_decref(keys);
  json_decref(sizes);
  /* The original leaves out what equals the default of all its families. */
  if (!config->tied_logits) {
    failed |= json_object_set_new(file, "tie_word_embeddings", json_false()) != 0;
  }
  failed |= json_object_set_new(file, "pad_token_id", json_null()) != 0; /* where there is none: it has a default */
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  const kin *k = find_kin(config->family);
  TSR_TRY(tsr_bart_describe(config, options, k->architecture, file));
  if (k->family->forced_eos_id >= 0 &&
      json_object_set_new(file, "forced_eos_token_id", json_integer(config->eos_id)) != 0) {
    return tsr_fail_memory(sizeof(json_t));
  }
  return TSR_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* What stands in a file and in no rule is not read: stored tables of sinusoids, encoder.version, and the like. */
static const tsr_name_rule rules[] = {
    {"embedding.weight", {{.name = "model.shared.weight"}}},
    {"embedding.weight", {{.name = "model.encoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "lm_head.weight"}}},
    {"encoder.embedding.weight", {{.name = "model.encoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "lm_head.weight"}}},
    {"@.positions.weight", {{.name = "model.@.embed_positions.weight"}}},
    {"@.embedding_norm.*", {{.name = "model.@.layernorm_embedding.*"}}},
    {"@.norm.*", {{.name = "model.@.layer_norm.*"}}},
    {"logits.weight", {{.name = "lm_head.weight"}}},
    {"logits.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"logits.weight", {{.name = "model.shared.weight"}}},
    {"logits.bias", {{.name = "final_logits_bias"}}, .optional = 1, .row = 1},
    {"@.layers.#.self_attention.qkv.*",
     {{.name = "model.@.layers.#.self_attn.q_proj.*"},
      {.name = "model.@.layers.#.self_attn.k_proj.*"},
      {.name = "model.@.layers.#.self_attn.v_proj.*"}}},
    {"@.layers.#.self_attention.output.*", {{.name = "model.@.layers.#.self_attn.out_proj.*"}}},
    {"@.layers.#.self_attention_norm.*", {{.name = "model.@.layers.#.self_attn_layer_norm.*"}}},
    {"decoder.layers.#.cross_attention.query.*", {{.name = "model.decoder.layers.#.encoder_attn.q_proj.*"}}},
    {"decoder.layers.#.cross_attention.kv.*",
     {{.name = "model.decoder.layers.#.encoder_attn.k_proj.*"},
      {.name = "model.decoder.layers.#.encoder_attn.v_proj.*"}}},
    {"decoder.layers.#.cross_attention.output.*", {{.name = "model.decoder.layers.#.encoder_attn.out_proj.*"}}},
    {"decoder.layers.#.cross_attention_norm.*", {{.name = "model.decoder.layers.#.encoder_attn_layer_norm.*"}}},
    {"@.layers.#.feed_forward.in.*", {{.name = "model.@.layers.#.fc1.*"}}},
    {"@.layers.#.feed_forward.out.*", {{.name = "model.@.layers.#.fc2.*"}}},
    {"@.layers.#.feed_forward_norm.*", {{.name = "model.@.layers.#.final_layer_norm.*"}}},
};

const tsr_name_table tsr_bart_names = {.root = "model.",
                                       .rules = rules,
                                       .n = sizeof rules / sizeof rules[0],
                                       .layers = {"encoder_layers", "decoder_layers"}};

const tsr_family tsr_family_bart = {
    .model_type = "bart",
    .names = &tsr_bart_names,
    .frozen_pad = 1,
    .forced_eos_id = 2,
    .forced_bos_older = "force_bos_token_to_be_generated",
    .init_std = TSR_BART_INIT_STD,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_mbart = {
    .model_type = "mbart",
    .names = &tsr_bart_names,
    .frozen_pad = 1,
    .forced_eos_id = 2,
    .init_std = TSR_BART_INIT_STD,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_m2m_100 = {
    .model_type = "m2m_100",
    .names = &tsr_bart_names,
    .frozen_pad = 1,
    .forced_eos_id = -1,
    .init_std = TSR_BART_INIT_STD,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_pegasus = {
    .model_type = "pegasus",
    .names = &tsr_bart_names,
    .frozen_pad = 1,
    .forced_eos_id = 1,
    .init_std = TSR_BART_INIT_STD,
    .configure = configure,
    .describe = describe,
};
