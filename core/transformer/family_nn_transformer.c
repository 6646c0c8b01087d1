/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.nn.Transformer between two embeddings and a linear generator: the paper's model and its variants, and each of
 * the two stacks alone. torch has no config.json: its keys are a convention of this project, told in
 * docs/nn-transformer.md.
 *
 * position_encoding relative: the scores of query i and key j in self-attention, of the encoder and of the decoder, are
 *
 *     q_i . k_j / sqrt(K) + bias[min(max(j - i, -m), m) + m][h]      m = max_distance, h = head
 *
 * in which bias [2 m + 1, nhead] is learned, one table a layer: the distances are clipped as Shaw et al. 2018
 * (arXiv:1803.02155) clip theirs, each layer learns its own as there, and what is learned is a number a head as in
 * Raffel et al. 2020 (arXiv:1910.10683). torch holds it as nn.Embedding(2 m + 1, nhead) in self_attn,
 * `self_attn.relative_attention_bias.weight`. Rows beyond m are for keys after the query: those of a decoder have no
 * effect. Cross-attention has no bias, and nothing is added to embeddings.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

/* A word of the file that stands for a value. */
typedef struct word {
  const char *name;
  int32_t value;
  int32_t gated;
} word;

/* Of several names for one, the first is what is written. */
static const word positions[] = {
    {"sinusoidal_interleaved", TSR_POSITION_SINUSOID_INTERLEAVED, 0},
    {"sinusoidal_halves", TSR_POSITION_SINUSOID_HALVES, 0},
    {"learned", TSR_POSITION_LEARNED, 0},
    {"relative", TSR_POSITION_RELATIVE_CLAMPED, 0},
    {"none", TSR_POSITION_NONE, 0},
};
static const word norms[] = {
    {"layernorm", TSR_NORM_LAYER, 0}, {"layernorm_std", TSR_NORM_LAYER_STD, 0}, {"rmsnorm", TSR_NORM_RMS, 0}};
/* Gated feed-forward blocks (Shazeer 2020, arXiv:2002.05202). */
static const word gates[] = {
    {"reglu", TSR_ACTIVATION_RELU, 1}, {"geglu", TSR_ACTIVATION_GELU_ERF, 1}, {"swiglu", TSR_ACTIVATION_SILU, 1}};

enum { N_POSITIONS = sizeof positions / sizeof positions[0] };
enum { N_NORMS = sizeof norms / sizeof norms[0] };
enum { N_GATES = sizeof gates / sizeof gates[0] };

static const word *find_name(const word *words, size_t n, const char *name)
{
  for (size_t i = 0; i < n; i++) {
    if (strcmp(words[i].name, name) == 0) {
      return &words[i];
    }
  }
  return NULL;
}

/* NULL: it has no name, which is left out of the file. */
static const char *find_value(const word *words, size_t n, int32_t value)
{
  for (size_t i = 0; i < n; i++) {
    if (words[i].value == value) {
      return words[i].name;
    }
  }
  return NULL;
}

/* One of the words, or the value as it is where the key is absent. */
static tsr_status read_word(tsr_config *file, const char *key, const word *words, size_t n, int32_t *value)
{
  const char *name = NULL;
  tsr_config_text(file, key, &name);
  const word *found = name ? find_name(words, n, name) : NULL;
  if (!name) {
    return TSR_OK;
  }
  if (!found) {
    char known[160] = "";
    for (size_t i = 0; i < n; i++) {
      size_t used = strlen(known);
      snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", words[i].name);
    }
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build knows %s", file->path, key,
                    tsr_quote(name).text, known);
  }
  *value = found->value;
  return TSR_OK;
}

static tsr_status read_activation(tsr_config *file, tsr_transformer_config *config)
{
  const char *name = "";
  tsr_config_text(file, "activation", &name);
  const word *gate = find_name(gates, N_GATES, name);
  if (!gate) {
    return tsr_config_activation(file, "activation", &config->activation);
  }
  config->activation = gate->value;
  config->gated = 1;
  return TSR_OK;
}

/* A stack without layers has no vocabulary; a decoder alone reads its source, the beginning of its output. */
static void read_vocabularies(tsr_config *file, tsr_transformer_config *config)
{
  tsr_config_int(file, "vocab_size", 0, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  config->target_vocabulary = config->source_vocabulary;
  tsr_config_int(file, "src_vocab_size", 0, TSR_MAX_VOCABULARY, &config->source_vocabulary);
  tsr_config_int(file, "tgt_vocab_size", 0, TSR_MAX_VOCABULARY, &config->target_vocabulary);
  if (config->encoder_layers == 0) {
    config->source_vocabulary = config->target_vocabulary;
    config->shared_embedding = 0;
  }
  if (config->decoder_layers == 0) {
    config->target_vocabulary = 0;
    config->shared_embedding = config->tied_logits = config->logits_bias = 0;
  }
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  int32_t heads = 8;
  int32_t d_ff = 2048;
  int32_t norm_first = 0;
  int32_t scale = 1;
  int32_t bias = 1;
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
  tsr_config_int(file, "max_position_embeddings", TSR_MIN_POSITIONS, TSR_MAX_POSITIONS, &config->max_positions);
  tsr_config_float(file, "layer_norm_eps", 1e-12, 1.0, &config->epsilon);
  tsr_config_bool(file, "norm_first", &norm_first);
  tsr_config_bool(file, "final_norm", &config->final_norm);
  tsr_config_bool(file, "scale_embedding", &scale);
  tsr_config_bool(file, "bias", &bias);
  tsr_config_bool(file, "tie_word_embeddings", &config->tied_logits);
  tsr_config_bool(file, "share_encoder_decoder_embeddings", &config->shared_embedding);
  TSR_TRY(read_activation(file, config));
  TSR_TRY(read_word(file, "norm", norms, N_NORMS, &config->norm));
  TSR_TRY(read_word(file, "position_encoding", positions, N_POSITIONS, &config->position));
  if (config->position == TSR_POSITION_RELATIVE_CLAMPED) {
    config->relative_layers = 1;
    config->relative_distance = 16; /* the paper's */
    tsr_config_int(file, "max_distance", 1, TSR_MAX_POSITIONS, &config->relative_distance);
  }
  read_vocabularies(file, config);
  TSR_TRY(tsr_config_status(file));
  if (config->shared_embedding && config->source_vocabulary != config->target_vocabulary) {
    return tsr_fail(
        TSR_ERR_FORMAT,
        "%s: key 'share_encoder_decoder_embeddings' is true; src_vocab_size %d and tgt_vocab_size %d should "
        "be the same",
        file->path, (int)config->source_vocabulary, (int)config->target_vocabulary);
  }
  config->encoder_heads = config->decoder_heads = heads;
  config->encoder_d_ff = config->decoder_d_ff = d_ff;
  config->attention_bias = config->feed_forward_bias = bias;
  config->norm_position = norm_first ? TSR_NORM_PRE : TSR_NORM_POST;
  config->embedding_scale = scale ? (float)sqrt((double)config->d_model) : 1.0f;
  return TSR_OK;
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  const char *activation =
      config->gated ? find_value(gates, N_GATES, config->activation) : tsr_activation_name(config->activation);
  const char *vocabulary = config->encoder_layers == 0 ? "tgt_vocab_size" : "src_vocab_size";
  json_t *keys = json_pack(
      "{s:[s], s:s*, s:s*, s:s*, s:o, s:o, s:b, s:b, s:b, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "architectures",
      "Seq2SeqTransformer", "activation", activation, "norm", find_value(norms, N_NORMS, config->norm),
      "position_encoding", find_value(positions, N_POSITIONS, config->position), "dropout",
      tsr_json_float(options->dropout), "layer_norm_eps", tsr_json_float(config->epsilon), "norm_first",
      config->norm_position == TSR_NORM_PRE, "final_norm", (int)config->final_norm, "scale_embedding",
      config->embedding_scale != 1.0f, "is_encoder_decoder", config->encoder_layers > 0 && config->decoder_layers > 0,
      "d_model", (int)config->d_model, "nhead", (int)config->encoder_heads, "num_encoder_layers",
      (int)config->encoder_layers, "num_decoder_layers", (int)config->decoder_layers, "dim_feedforward",
      (int)config->encoder_d_ff, "max_position_embeddings", (int)config->max_positions, vocabulary,
      (int)config->source_vocabulary);
  int failed = json_object_update(file, keys) != 0;
  json_decref(keys);
  if (config->encoder_layers > 0 && config->decoder_layers > 0) {
    failed |= json_object_set_new(file, "tgt_vocab_size", json_integer(config->target_vocabulary)) != 0;
  }
  if (config->position == TSR_POSITION_RELATIVE_CLAMPED) {
    failed |= json_object_set_new(file, "max_distance", json_integer(config->relative_distance)) != 0;
  }
  failed |= !config->attention_bias && json_object_set_new(file, "bias", json_false()) != 0;
  failed |= config->tied_logits && json_object_set_new(file, "tie_word_embeddings", json_true()) != 0;
  failed |= config->shared_embedding && json_object_set_new(file, "share_encoder_decoder_embeddings", json_true()) != 0;
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

/* The names outside "transformer." are the wrapper's choice: those of the PyTorch translation tutorial. A decoder alone
 * is what nn.TransformerEncoder computes under a causal mask, and its layers may be named so. */
static const tsr_name_rule rules[] = {
    {"embedding.weight", {{.name = "src_tok_emb.embedding.weight"}}},
    {"embedding.weight", {{.name = "src_tok_emb.weight"}}},
    {"embedding.weight", {{.name = "tgt_tok_emb.embedding.weight"}}},
    {"embedding.weight", {{.name = "tgt_tok_emb.weight"}}},
    {"encoder.embedding.weight", {{.name = "src_tok_emb.embedding.weight"}}},
    {"encoder.embedding.weight", {{.name = "src_tok_emb.weight"}}},
    {"decoder.embedding.weight", {{.name = "tgt_tok_emb.embedding.weight"}}},
    {"decoder.embedding.weight", {{.name = "tgt_tok_emb.weight"}}},
    {"decoder.embedding.weight", {{.name = "src_tok_emb.embedding.weight"}}, .when = TSR_RULE_NO_ENCODER},
    {"decoder.embedding.weight", {{.name = "src_tok_emb.weight"}}, .when = TSR_RULE_NO_ENCODER},
    {"encoder.positions.weight", {{.name = "src_pos_emb.weight"}}},
    {"decoder.positions.weight", {{.name = "tgt_pos_emb.weight"}}},
    {"decoder.positions.weight", {{.name = "src_pos_emb.weight"}}, .when = TSR_RULE_NO_ENCODER},
    {"@.layers.#.relative.weight", {{.name = "transformer.@.layers.#.self_attn.relative_attention_bias.weight"}}},
    {"decoder.layers.#.relative.weight",
     {{.name = "transformer.encoder.layers.#.self_attn.relative_attention_bias.weight"}},
     .when = TSR_RULE_NO_ENCODER},
    {"logits.weight", {{.name = "generator.weight"}}},
    {"logits.bias", {{.name = "generator.bias"}}, .optional = 1},
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
    {"@.layers.#.feed_forward.gate.*", {{.name = "transformer.@.layers.#.linear_gate.*"}}},
    {"@.layers.#.feed_forward.in.*", {{.name = "transformer.@.layers.#.linear1.*"}}},
    {"@.layers.#.feed_forward.out.*", {{.name = "transformer.@.layers.#.linear2.*"}}},
    {"encoder.layers.#.feed_forward_norm.*", {{.name = "transformer.encoder.layers.#.norm2.*"}}},
    {"decoder.layers.#.feed_forward_norm.*",
     {{.name = "transformer.decoder.layers.#.norm3.*"}},
     .when = TSR_RULE_ENCODER},
    {"decoder.layers.#.feed_forward_norm.*",
     {{.name = "transformer.decoder.layers.#.norm2.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"@.norm.*", {{.name = "transformer.@.norm.*"}}},
    {"decoder.layers.#.self_attention.qkv.*",
     {{.name = "transformer.encoder.layers.#.self_attn.in_proj_*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.self_attention.output.*",
     {{.name = "transformer.encoder.layers.#.self_attn.out_proj.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.self_attention_norm.*",
     {{.name = "transformer.encoder.layers.#.norm1.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.feed_forward.gate.*",
     {{.name = "transformer.encoder.layers.#.linear_gate.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.feed_forward.in.*",
     {{.name = "transformer.encoder.layers.#.linear1.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.feed_forward.out.*",
     {{.name = "transformer.encoder.layers.#.linear2.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.layers.#.feed_forward_norm.*",
     {{.name = "transformer.encoder.layers.#.norm2.*"}},
     .when = TSR_RULE_NO_ENCODER},
    {"decoder.norm.*", {{.name = "transformer.encoder.norm.*"}}, .when = TSR_RULE_NO_ENCODER},
};

static const tsr_name_table names = {.root = "transformer.",
                                     .rules = rules,
                                     .n = sizeof rules / sizeof rules[0],
                                     .layers = {"num_encoder_layers", "num_decoder_layers"}};

const tsr_family tsr_family_nn_transformer = {
    .model_type = "nn_transformer",
    .names = &names,
    .forced_eos_id = -1,
    .configure = configure,
    .describe = describe,
};
