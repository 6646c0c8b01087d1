/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.nn.Transformer between two embeddings and a linear generator: the paper's model, and its pre-norm variant.
 */
#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

static tsr_status refuse(const tsr_config *file, const char *key, const char *value, const char *known)
{
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build knows %s", file->path, key, value, known);
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  int32_t heads = 8;
  int32_t d_ff = 2048;
  int32_t norm_first = 0;
  int32_t scale = 1;
  int32_t bias = 1;
  int32_t tied = 0;
  const char *positions = NULL;
  config->d_model = 512;
  config->encoder_layers = config->decoder_layers = 6;
  config->max_positions = 5000;
  config->position = TSR_POSITION_SINUSOID_INTERLEAVED;
  config->final_norm = 1;
  config->logits_bias = 1;
  tsr_config_int(file, "d_model", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "num_encoder_layers", 0, TSR_MAX_LAYERS, &config->encoder_layers);
  tsr_config_int(file, "num_decoder_layers", 0, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "nhead", 1, TSR_MAX_HEADS, &heads);
  tsr_config_int(file, "dim_feedforward", 1, TSR_MAX_WIDTH, &d_ff);
  tsr_config_int(file, "src_vocab_size", 0, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  tsr_config_int(file, "tgt_vocab_size", 0, TSR_MAX_VOCABULARY, &config->target_vocabulary);
  tsr_config_int(file, "max_position_embeddings", 1, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_float(file, "layer_norm_eps", 1e-12, 1.0, &config->epsilon);
  tsr_config_bool(file, "norm_first", &norm_first);
  tsr_config_bool(file, "scale_embedding", &scale);
  tsr_config_bool(file, "bias", &bias);
  tsr_config_bool(file, "tie_word_embeddings", &tied);
  tsr_config_text(file, "position_encoding", &positions);
  TSR_TRY(tsr_config_activation(file, "activation", &config->activation));
  if (positions && strcmp(positions, "sinusoidal_interleaved") != 0) {
    return refuse(file, "position_encoding", positions, "sinusoidal_interleaved");
  }
  if (!bias) {
    return refuse(file, "bias", "false", "true");
  }
  if (tied) {
    return refuse(file, "tie_word_embeddings", "true", "false");
  }
  config->encoder_heads = config->decoder_heads = heads;
  config->encoder_d_ff = config->decoder_d_ff = d_ff;
  config->norm_position = norm_first ? TSR_NORM_PRE : TSR_NORM_POST;
  config->embedding_scale = scale ? (float)sqrt((double)config->d_model) : 1.0f;
  return TSR_OK;
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  json_t *keys =
      json_pack("{s:[s], s:s*, s:o, s:o, s:b, s:b, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "architectures",
                "Seq2SeqTransformer", "activation", tsr_activation_name(config->activation), "dropout",
                tsr_json_float(options->dropout), "layer_norm_eps", tsr_json_float(config->epsilon), "norm_first",
                config->norm_position == TSR_NORM_PRE, "scale_embedding", config->embedding_scale != 1.0f,
                "is_encoder_decoder", 1, "position_encoding", "sinusoidal_interleaved", "d_model", (int)config->d_model,
                "nhead", (int)config->encoder_heads, "num_encoder_layers", (int)config->encoder_layers,
                "num_decoder_layers", (int)config->decoder_layers, "dim_feedforward", (int)config->encoder_d_ff,
                "src_vocab_size", (int)config->source_vocabulary, "tgt_vocab_size", (int)config->target_vocabulary,
                "max_position_embeddings", (int)config->max_positions);
  int failed = json_object_update(file, keys) != 0;
  json_decref(keys);
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* The names outside "transformer." are the wrapper's choice: those of the PyTorch translation tutorial. */
static const tsr_name_rule rules[] = {
    {"encoder.embedding.weight", {{.name = "src_tok_emb.embedding.weight"}}},
    {"encoder.embedding.weight", {{.name = "src_tok_emb.weight"}}},
    {"decoder.embedding.weight", {{.name = "tgt_tok_emb.embedding.weight"}}},
    {"decoder.embedding.weight", {{.name = "tgt_tok_emb.weight"}}},
    {"logits.*", {{.name = "generator.*"}}},
    {"@.layers.#.self_attention.qkv.*", {{.name = "transformer.@.layers.#.self_attn.in_proj_*"}}},
    {"@.layers.#.self_attention.output.*", {{.name = "transformer.@.layers.#.self_attn.out_proj.*"}}},
    {"@.layers.#.self_attention_norm.*", {{.name = "transformer.@.layers.#.norm1.*"}}},
    {"decoder.layers.#.cross_attention.query.*",
     {{.name = "transformer.decoder.layers.#.multihead_attn.in_proj_*", .part = 0, .of = 3}}},
    {"decoder.layers.#.cross_attention.kv.*",
     {{.name = "transformer.decoder.layers.#.multihead_attn.in_proj_*", .part = 1, .of = 3},
      {.name = "transformer.decoder.layers.#.multihead_attn.in_proj_*", .part = 2, .of = 3}}},
    {"decoder.layers.#.cross_attention.output.*", {{.name = "transformer.decoder.layers.#.multihead_attn.out_proj.*"}}},
    {"decoder.layers.#.cross_attention_norm.*", {{.name = "transformer.decoder.layers.#.norm2.*"}}},
    {"@.layers.#.feed_forward.in.*", {{.name = "transformer.@.layers.#.linear1.*"}}},
    {"@.layers.#.feed_forward.out.*", {{.name = "transformer.@.layers.#.linear2.*"}}},
    {"encoder.layers.#.feed_forward_norm.*", {{.name = "transformer.encoder.layers.#.norm2.*"}}},
    {"decoder.layers.#.feed_forward_norm.*", {{.name = "transformer.decoder.layers.#.norm3.*"}}},
    {"@.norm.*", {{.name = "transformer.@.norm.*"}}},
};

static const tsr_name_table names = {.root = "transformer.", .rules = rules, .n = sizeof rules / sizeof rules[0]};

const tsr_family tsr_family_nn_transformer = {
    .model_type = "nn_transformer",
    .names = &names,
    .forced_eos_id = -1,
    .configure = configure,
    .describe = describe,
};
