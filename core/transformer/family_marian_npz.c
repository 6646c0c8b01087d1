/* SPDX-License-Identifier: Apache-2.0
 *
 * Marian-NMT's own models (.npz). What sets them apart from the same models in Hugging Face folders: names and layers
 * counted from 1, products stored [in, out], norms with an epsilon of 1e-6, frequencies of the positions down to
 * 1/10000 itself, and a decoder that starts with no token at all: a row of zeros. Here that row is one more row of the
 * target's
 * table, whose logit is -inf: it is never produced and has no part in the sum of probabilities.
 */
#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

enum { POSITIONS = 4096 /* the original's sinusoids have no end */ };

/* Keys that are read below, and those that say nothing of a Transformer as it computes. */
static const char *const known[] = {
    "bert-train-type-embeddings",
    "bert-type-vocab-size",
    "dec-cell",
    "dec-cell-base-depth",
    "dec-cell-high-depth",
    "dec-depth",
    "dim-emb",
    "dim-rnn",
    "dim-vocabs",
    "enc-cell",
    "enc-cell-depth",
    "enc-depth",
    "enc-type",
    "factors-combine",
    "lemma-dim-emb",
    "model_type",
    "output-omit-bias",
    "tied-embeddings",
    "tied-embeddings-all",
    "tied-embeddings-src",
    "transformer-aan-activation",
    "transformer-aan-depth",
    "transformer-aan-nogate",
    "transformer-decoder-autoreg",
    "transformer-decoder-dim-ffn",
    "transformer-decoder-ffn-depth",
    "transformer-depth-scaling",
    "transformer-dim-aan",
    "transformer-dim-ffn",
    "transformer-ffn-activation",
    "transformer-ffn-depth",
    "transformer-guided-alignment-layer",
    "transformer-heads",
    "transformer-postprocess",
    "transformer-postprocess-emb",
    "transformer-postprocess-top",
    "transformer-preprocess",
    "transformer-rnn-projection",
    "transformer-train-position-embeddings",
    "transformer-train-positions",
    "type",
    "ulr-trainable-transformation",
    "version",
};

static int is_known(const char *key)
{
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(key, known[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* What switches nothing on: false, 0, "", [] and null. */
static int is_neutral(const json_t *value)
{
  return json_is_null(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0.0) ||
         (json_is_string(value) && json_string_length(value) == 0) ||
         ((json_is_array(value) || json_is_object(value)) && json_array_size(value) + json_object_size(value) == 0);
}

static tsr_status refuse(const tsr_config *file, const char *key, const char *wanted)
{
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build knows %s", file->path, key,
                  tsr_json_show(json_object_get(file->root, key)).text, wanted);
}

static tsr_status refuse_unknown(const tsr_config *file)
{
  const char *key;
  json_t *value;
  json_object_foreach(file->root, key, value)
  {
    if (!is_known(key) && !is_neutral(value)) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build does not have that", file->path, key,
                      tsr_json_show(value).text);
    }
  }
  return TSR_OK;
}

static tsr_status expect_text(tsr_config *file, const char *key, const char *wanted)
{
  const char *text = wanted;
  tsr_config_text(file, key, &text);
  return strcmp(text, wanted) == 0 ? TSR_OK : refuse(file, key, wanted);
}

static tsr_status read_vocabularies(tsr_config *file, tsr_transformer_config *config)
{
  const json_t *list = json_object_get(file->root, "dim-vocabs");
  int32_t sizes[2];
  if (json_array_size(list) != 2) {
    return refuse(file, "dim-vocabs", "a list of two sizes, that of the source and that of the target");
  }
  for (size_t i = 0; i < 2; i++) {
    json_int_t size = json_integer_value(json_array_get(list, i));
    if (size < 1 || size >= TSR_MAX_VOCABULARY) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key 'dim-vocabs': expected two sizes from 1 to %d, found %s", file->path,
                      (int)TSR_MAX_VOCABULARY - 1, tsr_json_show(list).text);
    }
    sizes[i] = (int32_t)size;
  }
  int32_t tied = 0;
  int32_t tied_source = 0;
  int32_t tied_all = 0;
  tsr_config_bool(file, "tied-embeddings", &tied);
  tsr_config_bool(file, "tied-embeddings-src", &tied_source);
  tsr_config_bool(file, "tied-embeddings-all", &tied_all);
  config->shared_embedding = tied_source || tied_all;
  config->tied_logits = tied || tied_all;
  config->target_vocabulary = sizes[1] + 1;
  config->source_vocabulary = config->shared_embedding ? sizes[1] + 1 : sizes[0];
  if (config->shared_embedding && sizes[0] != sizes[1]) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key 'dim-vocabs' is %s, but source and target share one table", file->path,
                    tsr_json_show(list).text);
  }
  config->pad_id = config->decoder_start_id = sizes[1];
  config->eos_id = 0;
  config->unk_id = sizes[1] > 1 ? 1 : -1;
  return TSR_OK;
}

/* What happens around a sublayer, one letter a step: d dropout (left out here), a addition, n layer norm. */
static tsr_status read_steps(tsr_config *file, const char *key, const char *fallback, char steps[8])
{
  const char *text = fallback;
  size_t n = 0;
  tsr_config_text(file, key, &text);
  for (; *text; text++) {
    if (*text == 'd') {
      continue;
    }
    if (n + 1 == 8) {
      return refuse(file, key, "fewer steps");
    }
    steps[n++] = *text;
  }
  steps[n] = '\0';
  return TSR_OK;
}

/* A place where a layer norm may stand, or nothing. */
static tsr_status read_norm(tsr_config *file, const char *key, int32_t *norm)
{
  char steps[8];
  TSR_TRY(read_steps(file, key, "", steps));
  *norm = strcmp(steps, "n") == 0;
  return *norm || steps[0] == '\0' ? TSR_OK : refuse(file, key, "\"\", \"d\", \"n\" and \"nd\"");
}

static tsr_status read_norms(tsr_config *file, tsr_transformer_config *config)
{
  char before[8];
  char after[8];
  TSR_TRY(read_steps(file, "transformer-preprocess", "", before));
  TSR_TRY(read_steps(file, "transformer-postprocess", "dan", after));
  if (strcmp(before, "") != 0 && strcmp(before, "n") != 0) {
    return refuse(file, "transformer-preprocess", "\"\" and \"n\"");
  }
  config->norm_position = before[0] ? TSR_NORM_PRE : TSR_NORM_POST;
  if (strcmp(after, before[0] ? "a" : "an") != 0) {
    return refuse(file, "transformer-postprocess",
                  before[0] ? "\"da\" beside a transformer-preprocess of \"n\""
                            : "\"dan\" without a transformer-preprocess");
  }
  TSR_TRY(read_norm(file, "transformer-postprocess-emb", &config->embedding_norm));
  return read_norm(file, "transformer-postprocess-top", &config->final_norm);
}

static tsr_status read_feed_forward(tsr_config *file, tsr_transformer_config *config)
{
  static const char *const depths[] = {"transformer-ffn-depth", "transformer-decoder-ffn-depth"};
  int32_t decoder = 0;
  for (size_t i = 0; i < 2; i++) {
    int32_t depth = 2;
    tsr_config_int(file, depths[i], 0, INT32_MAX, &depth);
    if (depth != 2 && !(i == 1 && depth == 0)) {
      return refuse(file, depths[i], "2");
    }
  }
  config->activation = TSR_ACTIVATION_SILU;
  TSR_TRY(tsr_config_activation(file, "transformer-ffn-activation", &config->activation));
  config->encoder_d_ff = 2048;
  tsr_config_int(file, "transformer-dim-ffn", 1, TSR_MAX_WIDTH, &config->encoder_d_ff);
  tsr_config_int(file, "transformer-decoder-dim-ffn", 0, TSR_MAX_WIDTH, &decoder);
  config->decoder_d_ff = decoder > 0 ? decoder : config->encoder_d_ff;
  return TSR_OK;
}

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  int32_t heads = 8;
  int32_t trained = 0;
  TSR_TRY(expect_text(file, "type", "transformer"));
  TSR_TRY(expect_text(file, "transformer-decoder-autoreg", "self-attention"));
  TSR_TRY(refuse_unknown(file));
  config->d_model = 512;
  config->encoder_layers = config->decoder_layers = 6;
  tsr_config_int(file, "dim-emb", 1, TSR_MAX_WIDTH, &config->d_model);
  tsr_config_int(file, "enc-depth", 1, TSR_MAX_LAYERS, &config->encoder_layers);
  tsr_config_int(file, "dec-depth", 1, TSR_MAX_LAYERS, &config->decoder_layers);
  tsr_config_int(file, "transformer-heads", 1, TSR_MAX_HEADS, &heads);
  tsr_config_bool(file, "transformer-train-positions", &trained);
  tsr_config_bool(file, "transformer-train-position-embeddings", &trained);
  config->encoder_heads = config->decoder_heads = heads;
  config->position = trained ? TSR_POSITION_LEARNED : TSR_POSITION_SINUSOID_TENSOR2TENSOR;
  config->max_positions = POSITIONS;
  config->embedding_scale = trained ? 1.0f : sqrtf((float)config->d_model);
  config->epsilon = 1e-6f;
  config->logits_bias = 1; /* also without one: the row that was added has its own */
  TSR_TRY(read_feed_forward(file, config));
  TSR_TRY(read_norms(file, config));
  return read_vocabularies(file, config);
}

static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  (void)config;
  (void)options;
  (void)file;
  return tsr_fail(TSR_ERR_UNSUPPORTED, "models of the family marian_npz are read, but neither written nor trained");
}

/* clang-format off */
#define NORM_RULES(parameter, stem)                                                                                    \
  {parameter ".weight", {{.name = stem "_ln_scale"}}}, {parameter ".weight", {{.name = stem "_ln_scale_pre"}}},        \
  {parameter ".bias", {{.name = stem "_ln_bias"}}}, {parameter ".bias", {{.name = stem "_ln_bias_pre"}}}
#define LINEAR_RULES(parameter, matrix, vector)                                                                        \
  {parameter ".weight", {{.name = matrix, .transposed = 1}}}, {parameter ".bias", {{.name = vector}}}
/* clang-format on */

static const tsr_name_rule rules[] = {
    {"embedding.weight", {{.name = "Wemb"}}, .added = 1},
    {"encoder.embedding.weight", {{.name = "encoder_Wemb"}}},
    {"decoder.embedding.weight", {{.name = "decoder_Wemb"}}, .added = 1},
    {"@.positions.weight", {{.name = "Wpos"}}},
    {"logits.weight", {{.name = "decoder_ff_logit_out_Wt"}}, .added = 1},
    {"logits.weight", {{.name = "decoder_ff_logit_out_W", .transposed = 1}}, .added = 1},
    {"logits.bias", {{.name = "decoder_ff_logit_out_b"}}, .optional = 1, .added = 1, .fill = -INFINITY},
    {"@.layers.#.self_attention.qkv.weight",
     {{.name = "@_l%_self_Wq", .transposed = 1},
      {.name = "@_l%_self_Wk", .transposed = 1},
      {.name = "@_l%_self_Wv", .transposed = 1}}},
    {"@.layers.#.self_attention.qkv.bias",
     {{.name = "@_l%_self_bq"}, {.name = "@_l%_self_bk"}, {.name = "@_l%_self_bv"}}},
    LINEAR_RULES("@.layers.#.self_attention.output", "@_l%_self_Wo", "@_l%_self_bo"),
    LINEAR_RULES("@.layers.#.cross_attention.query", "@_l%_context_Wq", "@_l%_context_bq"),
    {"@.layers.#.cross_attention.kv.weight",
     {{.name = "@_l%_context_Wk", .transposed = 1}, {.name = "@_l%_context_Wv", .transposed = 1}}},
    {"@.layers.#.cross_attention.kv.bias", {{.name = "@_l%_context_bk"}, {.name = "@_l%_context_bv"}}},
    LINEAR_RULES("@.layers.#.cross_attention.output", "@_l%_context_Wo", "@_l%_context_bo"),
    LINEAR_RULES("@.layers.#.feed_forward.in", "@_l%_ffn_W1", "@_l%_ffn_b1"),
    LINEAR_RULES("@.layers.#.feed_forward.out", "@_l%_ffn_W2", "@_l%_ffn_b2"),
    NORM_RULES("@.layers.#.self_attention_norm", "@_l%_self_Wo"),
    NORM_RULES("@.layers.#.cross_attention_norm", "@_l%_context_Wo"),
    NORM_RULES("@.layers.#.feed_forward_norm", "@_l%_ffn_ffn"),
    NORM_RULES("@.embedding_norm", "@_emb"),
    NORM_RULES("@.norm", "@_top"),
};

static const tsr_name_table names = {
    .root = "", .rules = rules, .n = sizeof rules / sizeof rules[0], .layers = {"enc-depth", "dec-depth"}};

const tsr_family tsr_family_marian_npz = {
    .model_type = "marian_npz",
    .names = &names,
    .forced_eos_id = -1,
    .configure = configure,
    .describe = describe,
};
