/* SPDX-License-Identifier: Apache-2.0
 *
 * Whisper (Radford et al. 2022, arXiv:2212.04356), as Hugging Face folders hold it: an encoder that reads log-mel
 * features through two convolutions, and pre-norm layers with tables of positions.
 */
#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

enum { END_OF_TEXT = 50256, START_OF_TRANSCRIPT = 50257 };

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static int32_t id_within(int32_t id, int32_t vocabulary)
{
  return id < vocabulary ? id : -1;
}

/* scale_embedding is not read: the original keeps the factor and never uses it. */
static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  config->d_model = 384;
  config->encoder_layers = config->decoder_layers = 4;
  config->encoder_heads = config->decoder_heads = 6;
  config->encoder_d_ff = config->decoder_d_ff = 1536;
  config->target_vocabulary = 51865;
  config->max_positions = 448;
  config->source_positions = 1500;
  config->mels = 80;
  config->norm_position = TSR_NORM_PRE;
  config->final_norm = 1;
  config->activation = TSR_ACTIVATION_GELU_ERF;
  config->position = TSR_POSITION_LEARNED;
  config->tied_logits = 1;
  tsr_config_int(file, "d_model", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "encoder_layers", 1, TSR_MAX_LAYERS, &config->encoder_layers);
  tsr_config_int(file, "decoder_layers", 1, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "encoder_attention_heads", 1, TSR_MAX_HEADS, &config->encoder_heads);
  tsr_config_int(file, "decoder_attention_heads", 1, TSR_MAX_HEADS, &config->decoder_heads);
  tsr_config_int(file, "encoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->encoder_d_ff);
  tsr_config_int(file, "decoder_ffn_dim", 1, TSR_MAX_WIDTH, &config->decoder_d_ff);
  tsr_config_int(file, "vocab_size", 1, TSR_MAX_VOCABULARY, &config->target_vocabulary);
  tsr_config_int(file, "num_mel_bins", 1, TSR_MAX_MELS, &config->mels);
  tsr_config_int(file, "max_source_positions", 1, TSR_MAX_POSITIONS, &config->source_positions);
  tsr_config_int(file, "max_target_positions", TSR_MIN_POSITIONS, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  config->pad_id = config->bos_id = config->eos_id = id_within(END_OF_TEXT, config->target_vocabulary);
  config->decoder_start_id = id_within(START_OF_TRANSCRIPT, config->target_vocabulary);
  return tsr_config_activation(file, "activation_function", &config->activation);
}

/* What transformers 4.47 writes, the settings of fine-tuning among it. */
static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  const char *activation = tsr_activation_name(config->activation);
  json_t *keys = json_pack(
      "{s:[s], s:s*, s:o, s:o, s:o, s:f, s:f, s:f, s:b, s:b, s:b, s:b, s:i, s:i, s:s}", "architectures",
      "WhisperForConditionalGeneration", "activation_function", activation, "dropout", tsr_json_float(options->dropout),
      "attention_dropout", tsr_json_float(options->attention_dropout), "activation_dropout",
      tsr_json_float(options->activation_dropout), "encoder_layerdrop", 0.0, "decoder_layerdrop", 0.0, "init_std", 0.02,
      "is_encoder_decoder", 1, "use_cache", 1, "scale_embedding", 0, "use_weighted_layer_sum", 0, "num_hidden_layers",
      (int)config->encoder_layers, "median_filter_width", 7, "transformers_version", "4.47.1");
  json_t *sizes = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "d_model", (int)config->d_model,
                            "encoder_layers", (int)config->encoder_layers, "decoder_layers",
                            (int)config->decoder_layers, "encoder_attention_heads", (int)config->encoder_heads,
                            "decoder_attention_heads", (int)config->decoder_heads, "encoder_ffn_dim",
                            (int)config->encoder_d_ff, "decoder_ffn_dim", (int)config->decoder_d_ff, "vocab_size",
                            (int)config->target_vocabulary, "num_mel_bins", (int)config->mels, "max_source_positions",
                            (int)config->source_positions, "max_target_positions", (int)config->max_positions);
  json_t *masks = json_pack("{s:b, s:i, s:f, s:i, s:i, s:f, s:i, s:i}", "apply_spec_augment", 0, "classifier_proj_size",
                            256, "mask_time_prob", 0.05, "mask_time_length", 10, "mask_time_min_masks", 2,
                            "mask_feature_prob", 0.0, "mask_feature_length", 10, "mask_feature_min_masks", 0);
  int failed = json_object_update(file, keys) != 0 || json_object_update(file, sizes) != 0 ||
               json_object_update(file, masks) != 0;
  json_decref(keys);
  json_decref(sizes);
  json_decref(masks);
  if (!config->tied_logits) {
    failed |= json_object_set_new(file, "tie_word_embeddings", json_false()) != 0;
  }
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The keys' projections have no bias. */
static const tsr_name_rule rules[] = {
    {"decoder.embedding.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"decoder.embedding.weight", {{.name = "proj_out.weight"}}},
    {"@.positions.weight", {{.name = "model.@.embed_positions.weight"}}},
    {"encoder.conv1.weight", {{.name = "model.encoder.conv1.weight", .transposed = 1}}},
    {"encoder.conv1.bias", {{.name = "model.encoder.conv1.bias"}}},
    {"encoder.conv2.weight", {{.name = "model.encoder.conv2.weight", .transposed = 1}}},
    {"encoder.conv2.bias", {{.name = "model.encoder.conv2.bias"}}},
    {"@.norm.*", {{.name = "model.@.layer_norm.*"}}},
    {"logits.weight", {{.name = "proj_out.weight"}}},
    {"logits.weight", {{.name = "model.decoder.embed_tokens.weight"}}},
    {"@.layers.#.self_attention.qkv.weight",
     {{.name = "model.@.layers.#.self_attn.q_proj.weight"},
      {.name = "model.@.layers.#.self_attn.k_proj.weight"},
      {.name = "model.@.layers.#.self_attn.v_proj.weight"}}},
    {"@.layers.#.self_attention.qkv.bias",
     {{.name = "model.@.layers.#.self_attn.q_proj.bias"},
      {.name = "model.@.layers.#.self_attn.k_proj.bias", .absent = 1},
      {.name = "model.@.layers.#.self_attn.v_proj.bias"}}},
    {"@.layers.#.self_attention.output.*", {{.name = "model.@.layers.#.self_attn.out_proj.*"}}},
    {"@.layers.#.self_attention_norm.*", {{.name = "model.@.layers.#.self_attn_layer_norm.*"}}},
    {"decoder.layers.#.cross_attention.query.*", {{.name = "model.decoder.layers.#.encoder_attn.q_proj.*"}}},
    {"decoder.layers.#.cross_attention.kv.weight",
     {{.name = "model.decoder.layers.#.encoder_attn.k_proj.weight"},
      {.name = "model.decoder.layers.#.encoder_attn.v_proj.weight"}}},
    {"decoder.layers.#.cross_attention.kv.bias",
     {{.name = "model.decoder.layers.#.encoder_attn.k_proj.bias", .absent = 1},
      {.name = "model.decoder.layers.#.encoder_attn.v_proj.bias"}}},
    {"decoder.layers.#.cross_attention.output.*", {{.name = "model.decoder.layers.#.encoder_attn.out_proj.*"}}},
    {"decoder.layers.#.cross_attention_norm.*", {{.name = "model.decoder.layers.#.encoder_attn_layer_norm.*"}}},
    {"@.layers.#.feed_forward.in.*", {{.name = "model.@.layers.#.fc1.*"}}},
    {"@.layers.#.feed_forward.out.*", {{.name = "model.@.layers.#.fc2.*"}}},
    {"@.layers.#.feed_forward_norm.*", {{.name = "model.@.layers.#.final_layer_norm.*"}}},
};

static const tsr_name_table names = {.root = "model.",
                                     .rules = rules,
                                     .n = sizeof rules / sizeof rules[0],
                                     .layers = {"encoder_layers", "decoder_layers"}};

const tsr_family tsr_family_whisper = {
    .model_type = "whisper",
    .names = &names,
    .forced_eos_id = -1,
    .init_std = 0.02,
    .configure = configure,
    .describe = describe,
};
