/* SPDX-License-Identifier: Apache-2.0
 *
 * Marian, as Hugging Face folders hold it (OPUS-MT): post-norm, sinusoids in halves.
 */
#include <math.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

enum { DEFAULT_PAD = 58100 };
static const double init_std = 0.02;

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  int32_t share = 1;
  int32_t scale = 0;
  config->d_model = 1024;
  config->encoder_layers = config->decoder_layers = 12;
  config->encoder_heads = config->decoder_heads = 16;
  config->encoder_d_ff = config->decoder_d_ff = 4096;
  config->source_vocabulary = 58101;
  config->max_positions = 1024;
  config->activation = TSR_ACTIVATION_GELU_ERF;
  config->position = TSR_POSITION_SINUSOID_HALVES;
  config->tied_logits = 1;
  config->logits_bias = 1;
  tsr_config_int(file, "d_model", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "encoder_layers", 0, TSR_MAX_LAYERS, &config->encoder_layers);
  tsr_config_int(file, "decoder_layers", 0, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "encoder_attention_heads", 1, TSR_MAX_HEADS, &config->encoder_heads);
  tsr_config_int(file, "decoder_attention_heads", 1, TSR_MAX_HEADS, &config->decoder_heads);
  tsr_config_int(file, "encoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->encoder_d_ff);
  tsr_config_int(file, "decoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->decoder_d_ff);
  tsr_config_int(file, "vocab_size", 1, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  tsr_config_int(file, "max_position_embeddings", 1, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_bool(file, "scale_embedding", &scale);
  tsr_config_bool(file, "share_encoder_decoder_embeddings", &share);
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  TSR_TRY(tsr_config_activation(file, "activation_function", &config->activation));
  config->shared_embedding = share;
  config->embedding_scale = scale ? (float)sqrt((double)config->d_model) : 1.0f;
  config->target_vocabulary = config->source_vocabulary;
  if (!share) {
    tsr_config_int(file, "decoder_vocab_size", 1, TSR_MAX_VOCABULARY, &config->target_vocabulary);
  }
  config->eos_id = 0;
  if (config->target_vocabulary > DEFAULT_PAD) {
    config->pad_id = config->decoder_start_id = DEFAULT_PAD;
    return TSR_OK;
  }
  /* The default would be no token of this vocabulary; the decoder of every Marian model starts with the pad. */
  int32_t pad = -1;
  TSR_TRY(tsr_config_id(file, "pad_token_id", INT32_MAX, &pad));
  if (pad < config->target_vocabulary) {
    config->decoder_start_id = pad;
  }
  return TSR_OK;
}

/* What transformers 4.47 writes for a MarianMTModel. */
static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  const char *activation = tsr_activation_name(config->activation);
  json_t *keys = json_pack(
      "{s:[s], s:s*, s:o, s:o, s:o, s:f, s:f, s:f, s:b, s:b, s:i, s:s}", "architectures", "MarianMTModel",
      "activation_function", activation, "dropout", tsr_json_float(options->dropout), "attention_dropout",
      tsr_json_float(options->attention_dropout), "activation_dropout", tsr_json_float(options->activation_dropout),
      "encoder_layerdrop", 0.0, "decoder_layerdrop", 0.0, "init_std", init_std, "is_encoder_decoder", 1, "use_cache", 1,
      "num_hidden_layers", (int)config->encoder_layers, "transformers_version", "4.47.1");
  json_t *sizes = json_pack(
      "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b}", "d_model", (int)config->d_model,
      "encoder_layers", (int)config->encoder_layers, "decoder_layers", (int)config->decoder_layers,
      "encoder_attention_heads", (int)config->encoder_heads, "decoder_attention_heads", (int)config->decoder_heads,
      "encoder_ffn_dim", (int)config->encoder_d_ff, "decoder_ffn_dim", (int)config->decoder_d_ff, "vocab_size",
      (int)config->source_vocabulary, "decoder_vocab_size", (int)config->target_vocabulary, "max_position_embeddings",
      (int)config->max_positions, "scale_embedding", config->embedding_scale != 1.0f,
      "share_encoder_decoder_embeddings", (int)config->shared_embedding, "static_position_embeddings", 1);
  int failed = json_object_update(file, keys) != 0 || json_object_update(file, sizes) != 0;
  json_decref(keys);
  json_decref(sizes);
  /* The original leaves out what equals the default of all its families. */
  if (!config->tied_logits) {
    failed |= json_object_set_new(file, "tie_word_embeddings", json_false()) != 0;
  }
  failed |= json_object_set_new(file, "pad_token_id", json_null()) != 0; /* where there is none: it has a default */
  failed |= json_object_set_new(file, "forced_eos_token_id", json_integer(config->eos_id)) != 0;
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* BART and its relatives share these names; what differs between them is in the configuration. */
static const tsr_name_rule rules[] = {
    {"embedding.weight", {{.name = "model.shared.weight"}}},
    {"embedding.weight", {{.name = "model.encoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"embedding.weight", {{.name = "lm_head.weight"}}},
    {"encoder.embedding.weight", {{.name = "model.encoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "lm_head.weight"}}},
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

const tsr_family tsr_family_marian = {
    .model_type = "marian",
    .root = "model.",
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
    .forced_eos_id = 0,
    .init_std = init_std,
    .frozen_pad = 1,
    .configure = configure,
    .describe = describe,
};
