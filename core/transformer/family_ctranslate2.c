/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of CTranslate2: the names of their tensors. What a configuration says elsewhere, here scalars and the shapes
 * of tensors say (ctranslate2.c).
 */
#include <math.h>

#include "core/base/status.h"
#include "core/transformer/ctranslate2.h"

/* clang-format off */
#define NORM_RULES(parameter, stem)                                                                                    \
  {parameter ".weight", {{.name = stem "/gamma"}}}, {parameter ".bias", {{.name = stem "/beta"}}}
#define LINEAR_RULES(parameter, stem)                                                                                  \
  {parameter ".weight", {{.name = stem "/weight"}}}, {parameter ".bias", {{.name = stem "/bias"}}, .may_lack = 1}
/* rows: that the tables of the target's tokens have beyond those of the file. */
#define RULES(rows)                                                                                                    \
  {"embedding.weight", {{.name = "decoder/embeddings/weight"}}, .added = (rows)},                                      \
  {"encoder.embedding.weight", {{.name = "encoder/embeddings_0/weight"}}},                                             \
  {"encoder.embedding.weight", {{.name = "encoder/embeddings/weight"}}},                                               \
  {"decoder.embedding.weight", {{.name = "decoder/embeddings/weight"}}, .added = (rows)},                              \
  {"logits.weight", {{.name = "decoder/projection/weight"}}, .added = (rows)},                                         \
  {"logits.bias", {{.name = "decoder/projection/bias"}}, .optional = 1, .added = (rows), .fill = -INFINITY},           \
  {"@.positions.weight", {{.name = "@/position_encodings/encodings"}}},                                                \
  NORM_RULES("@.embedding_norm", "@/layernorm_embedding"),                                                             \
  NORM_RULES("@.norm", "@/layer_norm"),                                                                                \
  {"@.relative.weight", {{.name = "@/layer_0/self_attention/relative_attention_bias"}}},                               \
  {"@.layers.#.relative_keys.weight", {{.name = "@/layer_#/self_attention/relative_position_keys"}}},                  \
  {"@.layers.#.relative_values.weight", {{.name = "@/layer_#/self_attention/relative_position_values"}}},              \
  LINEAR_RULES("@.layers.#.self_attention.qkv", "@/layer_#/self_attention/linear_0"),                                  \
  LINEAR_RULES("@.layers.#.self_attention.output", "@/layer_#/self_attention/linear_1"),                               \
  NORM_RULES("@.layers.#.self_attention_norm", "@/layer_#/self_attention/layer_norm"),                                 \
  LINEAR_RULES("decoder.layers.#.cross_attention.query", "decoder/layer_#/attention/linear_0"),                        \
  LINEAR_RULES("decoder.layers.#.cross_attention.kv", "decoder/layer_#/attention/linear_1"),                           \
  LINEAR_RULES("decoder.layers.#.cross_attention.output", "decoder/layer_#/attention/linear_2"),                       \
  NORM_RULES("decoder.layers.#.cross_attention_norm", "decoder/layer_#/attention/layer_norm"),                         \
  LINEAR_RULES("@.layers.#.feed_forward.gate", "@/layer_#/ffn/linear_0"),                                              \
  {"@.layers.#.feed_forward.in.weight", {{.name = "@/layer_#/ffn/linear_0/weight"}}, .when = TSR_RULE_NOT_GATED},      \
  {"@.layers.#.feed_forward.in.bias", {{.name = "@/layer_#/ffn/linear_0/bias"}}, .when = TSR_RULE_NOT_GATED,           \
   .may_lack = 1},                                                                                                     \
  {"@.layers.#.feed_forward.in.weight", {{.name = "@/layer_#/ffn/linear_0_noact/weight"}}, .when = TSR_RULE_GATED},    \
  {"@.layers.#.feed_forward.in.bias", {{.name = "@/layer_#/ffn/linear_0_noact/bias"}}, .when = TSR_RULE_GATED,         \
   .may_lack = 1},                                                                                                     \
  LINEAR_RULES("@.layers.#.feed_forward.out", "@/layer_#/ffn/linear_1"),                                               \
  NORM_RULES("@.layers.#.feed_forward_norm", "@/layer_#/ffn/layer_norm")
/* clang-format on */

static const tsr_name_rule rules[] = {RULES(0)};
static const tsr_name_rule rules_from_zero[] = {RULES(1)};

static const tsr_name_table names = {.root = "", .rules = rules, .n = sizeof rules / sizeof rules[0]};
static const tsr_name_table names_from_zero = {
    .root = "", .rules = rules_from_zero, .n = sizeof rules_from_zero / sizeof rules_from_zero[0]};

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  (void)config;
  return tsr_fail(TSR_ERR_UNSUPPORTED,
                  "%s: the family ctranslate2 is for folders with a model.bin, which have no model_type", file->path);
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  (void)config;
  (void)options;
  (void)file;
  return tsr_fail(TSR_ERR_UNSUPPORTED, "models of the family ctranslate2 are read, but neither written nor trained");
}

const tsr_family tsr_family_ctranslate2 = {
    .model_type = "ctranslate2",
    .names = &names,
    .is_exact = 1,
    .forced_eos_id = -1,
    .configure = configure,
    .describe = describe,
};

const tsr_family tsr_family_ctranslate2_from_zero = {
    .model_type = "ctranslate2",
    .names = &names_from_zero,
    .is_exact = 1,
    .forced_eos_id = -1,
    .configure = configure,
    .describe = describe,
};
