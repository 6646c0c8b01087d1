/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/ctranslate2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/ctranslate2.h"
#include "core/checkpoint/package.h"

enum {
  ENCODER = 0,
  DECODER = 1,
  POSITIONS = 4096, /* of computed sinusoids and of distances, which have no end */
  DISTANCES = 4096, /* with vectors of their own, on both sides together: a matrix of their square is made of them */
  LAST_REVISION = 7,
  NAME_LONGEST = 160
};

static const char *const stacks[] = {"encoder", "decoder"};

/* A model that is being read. */
typedef struct reader {
  const tsr_checkpoint *checkpoint;
  const char *path; /* of model.bin */
  long revision;
  const char *spec;
  tsr_transformer_config *config;
  tsr_model_side *sides;
} reader;

/* ---- scalars ----------------------------------------------------------------------------------------------------- */

/* Scalars that are read below, or that say nothing of what is computed: the last part of their names. */
static const char *const known[] = {
    "activation",
    "add_source_bos",
    "add_source_eos",
    "alignment_heads",
    "alignment_layer",
    "embeddings_merge", /* there is one embedding */
    "head_dim",
    "multiply_by_sqrt_depth",
    "num_heads",
    "num_heads_kv",
    "pre_norm",
    "queries_scale",
    "relative_attention_max_distance",
    "scale_alibi", /* without alibi it does nothing, likewise the next */
    "alibi_use_positive_positions",
    "scale_embeddings",
    "scale_outputs",
    "start_from_zero_embedding",
    "user_decoder_start_tokens",
    "weight_scale",
    "with_source_bos",
    "with_source_eos",
    "with_target_bos",
};

static tsr_status read_scalar(const tsr_checkpoint_tensor *tensor, double *value)
{
  unsigned char bytes[4] = {0};
  if (tensor->rank != 0 || tensor->size > sizeof bytes) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s': expected a single number", tensor->path, tensor->name);
  }
  TSR_TRY(tsr_checkpoint_copy(tensor, 0, tensor->size, bytes));
  const uint64_t raw = tsr_read_unsigned(bytes, (int)tensor->size);
  if (tensor->dtype == TSR_F32 || tensor->dtype == TSR_F16 || tensor->dtype == TSR_BF16) {
    float number = 0.0f;
    TSR_TRY(tsr_checkpoint_read(tensor, 0, 1, TSR_F32, &number));
    *value = (double)number;
  } else {
    *value = tensor->size == 1 ? (int8_t)raw : tensor->size == 2 ? (int16_t)raw : (int32_t)raw;
  }
  return isfinite(*value) ? TSR_OK
                          : tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is no finite number", tensor->path, tensor->name);
}

static int is_known(const char *name)
{
  const char *slash = strrchr(name, '/');
  const char *last = slash ? slash + 1 : name;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(last, known[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* A scalar that nobody here reads, and that is not 0, switches something on. */
static tsr_status refuse_unknown(const reader *r)
{
  for (int32_t i = 0; i < tsr_checkpoint_count(r->checkpoint); i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(r->checkpoint, i);
    double value = 0.0;
    if (tensor->rank != 0 || is_known(tensor->name)) {
      continue;
    }
    TSR_TRY(read_scalar(tensor, &value));
    if (value != 0.0) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: '%s' is %g; this build does not have that", tensor->path, tensor->name,
                      value);
    }
  }
  return TSR_OK;
}

/* *value stays as it is where there is no such scalar. */
static tsr_status scalar(const reader *r, const char *name, double low, double high, double *value)
{
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(r->checkpoint, name);
  double found = 0.0;
  if (!tensor) {
    return TSR_OK;
  }
  TSR_TRY(read_scalar(tensor, &found));
  if (found < low || found > high) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: '%s' is %g; expected %g to %g", tensor->path, name, found, low, high);
  }
  *value = found;
  return TSR_OK;
}

/* Of a side, a whole number: "encoder/num_heads"; before revision 5 "num_heads", of both. */
static tsr_status side_number(const reader *r, int side, const char *name, double low, double high, double *value)
{
  char full[NAME_LONGEST];
  snprintf(full, sizeof full, "%s", name);
  TSR_TRY(scalar(r, full, low, high, value));
  snprintf(full, sizeof full, "%s/%s", stacks[side], name);
  TSR_TRY(scalar(r, full, low, high, value));
  return *value == floor(*value) ? TSR_OK
                                 : tsr_fail(TSR_ERR_FORMAT, "%s: '%s' of the %s is %g; expected a whole number",
                                            r->path, name, stacks[side], *value);
}

/* A scalar that all layers of a side have, or none: "self_attention/queries_scale". */
static tsr_status layer_scalar(const reader *r, int side, int32_t layers, const char *name, double low, double high,
                               double *value)
{
  const double otherwise = *value;
  char full[NAME_LONGEST], before[NAME_LONGEST] = "";
  for (int32_t i = 0; i < layers; i++) {
    double found = otherwise;
    snprintf(full, sizeof full, "%s/layer_%d/%s", stacks[side], (int)i, name);
    TSR_TRY(scalar(r, full, low, high, &found));
    if (i > 0 && found != *value) {
      const int is_here = tsr_checkpoint_find(r->checkpoint, full) != NULL;
      const int was_there = tsr_checkpoint_find(r->checkpoint, before) != NULL;
      if (!is_here || !was_there) {
        return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is missing, but there is '%s'", r->path,
                        is_here ? before : full, is_here ? full : before);
      }
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: '%s' is %g, and %g in a layer before; this build needs the same in all",
                      r->path, full, found, *value);
    }
    *value = found;
    snprintf(before, sizeof before, "%s", full);
  }
  return TSR_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Of a side's layer; layer -1: of the side. */
static void name_of(int side, int32_t layer, const char *name, char full[NAME_LONGEST])
{
  if (layer < 0) {
    snprintf(full, NAME_LONGEST, "%s/%s", stacks[side], name);
  } else {
    snprintf(full, NAME_LONGEST, "%s/layer_%d/%s", stacks[side], (int)layer, name);
  }
}

static const tsr_checkpoint_tensor *find(const reader *r, int side, int32_t layer, const char *name)
{
  char full[NAME_LONGEST];
  name_of(side, layer, name, full);
  return tsr_checkpoint_find(r->checkpoint, full);
}

/* A matrix whose sizes are within what a model may have. */
static tsr_status matrix(const reader *r, int side, int32_t layer, const char *name, int64_t most_rows, int64_t *rows,
                         int64_t *columns)
{
  const tsr_checkpoint_tensor *tensor = find(r, side, layer, name);
  if (!tensor) {
    char full[NAME_LONGEST];
    name_of(side, layer, name, full);
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is missing", r->path, full);
  }
  const int64_t *extent = tensor->shape.extent;
  if (tensor->rank != 2 || extent[0] < 1 || extent[0] > most_rows || extent[1] < 1 || extent[1] > TSR_MAX_WIDTH) {
    char shape[96];
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor '%s' has the shape %s; expected a matrix of at most %lld rows and %d "
                    "columns",
                    r->path, tensor->name,
                    tensor->rank <= TSR_MAX_RANK ? tsr_shape_print(&tensor->shape, shape, sizeof shape)
                                                 : "of many axes",
                    (long long)most_rows, (int)TSR_MAX_WIDTH);
  }
  *rows = extent[0];
  *columns = extent[1];
  return TSR_OK;
}

/* 1 if both names stand for the same tensor. */
static int is_same(const tsr_checkpoint_tensor *a, const tsr_checkpoint_tensor *b)
{
  return a && b && a->at == b->at && a->bytes == b->bytes && a->file == b->file && a->size == b->size &&
         a->dtype == b->dtype;
}

/* ---- parts of the configuration ---------------------------------------------------------------------------------- */

static const char *embedding_name(const reader *r, int side)
{
  return side == DECODER || find(r, side, -1, "embeddings/weight") ? "embeddings/weight" : "embeddings_0/weight";
}

static tsr_status read_embeddings(const reader *r, int is_from_zero)
{
  tsr_transformer_config *c = r->config;
  int64_t rows[2] = {0}, columns[2] = {0};
  for (int side = 0; side < 2; side++) {
    TSR_TRY(matrix(r, side, -1, embedding_name(r, side), TSR_MAX_VOCABULARY - 1, &rows[side], &columns[side]));
  }
  if (columns[ENCODER] != columns[DECODER]) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: the encoder is %lld wide, the decoder %lld; this build needs the same width", r->path,
                    (long long)columns[ENCODER], (long long)columns[DECODER]);
  }
  const tsr_checkpoint_tensor *table = find(r, DECODER, -1, "embeddings/weight");
  c->d_model = (int32_t)columns[DECODER];
  c->shared_embedding = is_same(find(r, ENCODER, -1, embedding_name(r, ENCODER)), table);
  c->tied_logits = is_same(find(r, DECODER, -1, "projection/weight"), table);
  c->logits_bias = is_from_zero || find(r, DECODER, -1, "projection/bias") != NULL;
  c->target_vocabulary = (int32_t)rows[DECODER] + is_from_zero;
  c->source_vocabulary = c->shared_embedding ? c->target_vocabulary : (int32_t)rows[ENCODER];
  return TSR_OK;
}

static tsr_status read_activation(const reader *r, int side)
{
  static const int32_t activations[] = {TSR_ACTIVATION_RELU,     TSR_ACTIVATION_GELU_TANH,    TSR_ACTIVATION_SILU,
                                        TSR_ACTIVATION_GELU_ERF, TSR_ACTIVATION_GELU_SIGMOID, TSR_ACTIVATION_TANH,
                                        TSR_ACTIVATION_SIGMOID};
  const size_t last = sizeof activations / sizeof activations[0] - 1;
  double number = 0.0;
  TSR_TRY(side_number(r, side, "activation", 0, (double)last, &number));
  r->sides[side].activation = activations[(int)number];
  return TSR_OK;
}

/* A flag, or the factor itself. */
static tsr_status read_embedding_scale(const reader *r, int side)
{
  const double root = sqrt((double)r->config->d_model);
  const tsr_checkpoint_tensor *tensor = find(r, side, -1, "scale_embeddings");
  double value = 1.0;
  tensor = tensor ? tensor : find(r, side, -1, "embeddings/multiply_by_sqrt_depth");
  if (tensor) {
    TSR_TRY(scalar(r, tensor->name, -1e6, 1e6, &value));
  }
  const int is_factor = tensor && tensor->dtype == TSR_F32;
  r->sides[side].embedding_scale = is_factor ? (float)value : value != 0.0 ? (float)root : 1.0f;
  return TSR_OK;
}

/* Saved ones; else none beside distances; else computed. */
static tsr_status read_positions(const reader *r, int side, int32_t layers, int32_t head_size)
{
  tsr_model_side *s = &r->sides[side];
  int64_t rows = 0, columns = 0;
  const int has_bias = find(r, side, 0, "self_attention/relative_attention_bias") != NULL;
  const int has_vectors = find(r, side, 0, "self_attention/relative_position_keys") ||
                          find(r, side, 0, "self_attention/relative_position_values");
  if (has_bias) {
    double distance = 128.0;
    TSR_TRY(matrix(r, side, 0, "self_attention/relative_attention_bias", TSR_MAX_POSITIONS, &rows, &columns));
    TSR_TRY(layer_scalar(r, side, layers, "self_attention/relative_attention_max_distance", 1, TSR_MAX_POSITIONS,
                         &distance));
    s->relative = TSR_POSITION_RELATIVE;
    s->relative_buckets = (int32_t)rows;
    s->relative_distance = (int32_t)distance;
    const int64_t exact = side == ENCODER ? rows / 4 : rows / 2;
    if (rows < 4 || s->relative_distance <= exact) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "%s: %s: %lld buckets for distances up to %d; expected 4 or more, and distances "
                      "beyond the %lld that have one each",
                      r->path, stacks[side], (long long)rows, (int)s->relative_distance, (long long)exact);
    }
  }
  if (has_vectors) {
    TSR_TRY(matrix(r, side, 0, "self_attention/relative_position_keys", DISTANCES, &rows, &columns));
    if (rows % 2 == 0 || rows < 3 || columns != head_size) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "%s: the %s's relative_position_keys have %lld rows of %lld; expected an odd "
                      "number of rows, 3 or more, of %d",
                      r->path, stacks[side], (long long)rows, (long long)columns, (int)head_size);
    }
    s->vectors = (int32_t)(rows / 2);
  }
  if (find(r, side, -1, "position_encodings/encodings")) {
    TSR_TRY(matrix(r, side, -1, "position_encodings/encodings", TSR_MAX_POSITIONS, &rows, &columns));
    s->position = TSR_POSITION_LEARNED;
    s->positions = (int32_t)rows;
    return rows >= TSR_MIN_POSITIONS ? TSR_OK
                                     : tsr_fail(TSR_ERR_FORMAT, "%s: the %s has %lld positions; expected %d or more",
                                                r->path, stacks[side], (long long)rows, (int)TSR_MIN_POSITIONS);
  }
  s->positions = POSITIONS;
  s->position = has_bias || has_vectors ? TSR_POSITION_NONE : TSR_POSITION_SINUSOID_TENSOR2TENSOR;
  return TSR_OK;
}

static tsr_status read_heads(const reader *r, int side, int32_t layers, int32_t *heads, int32_t *head_size)
{
  int64_t rows = 0, columns = 0;
  double number = r->revision >= 3 ? 0.0 : strcmp(r->spec, "TransformerBig") == 0 ? 16.0 : 8.0;
  TSR_TRY(side_number(r, side, "num_heads", 1, TSR_MAX_HEADS, &number));
  if (number == 0.0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: '%s/num_heads' is missing", r->path, stacks[side]);
  }
  *heads = (int32_t)number;
  static const char *const attentions[] = {"self_attention", "attention"};
  for (int i = 0; i <= side; i++) {
    char name[64];
    double kv = number;
    snprintf(name, sizeof name, "%s/num_heads_kv", attentions[i]);
    TSR_TRY(layer_scalar(r, side, layers, name, 0, TSR_MAX_HEADS, &kv));
    if (kv != number) {
      return tsr_fail(TSR_ERR_UNSUPPORTED,
                      "%s: the %s's num_heads_kv is %g beside %g heads: this build does not have multi-query or "
                      "grouped-query attention",
                      r->path, stacks[side], kv, number);
    }
  }
  TSR_TRY(matrix(r, side, 0, "self_attention/linear_0/weight", 3 * (int64_t)TSR_MAX_WIDTH, &rows, &columns));
  if (rows % (3 * (int64_t)*heads) != 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: %lld rows in the %s's linear_0 of self_attention; expected a multiple of 3 "
                    "for each of %d heads",
                    r->path, (long long)rows, stacks[side], (int)*heads);
  }
  *head_size = (int32_t)(rows / 3 / *heads);
  double width = *head_size;
  for (int i = 0; i <= side; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s/head_dim", attentions[i]);
    TSR_TRY(layer_scalar(r, side, layers, name, *head_size, *head_size, &width));
  }
  return TSR_OK;
}

/* As many as the highest number says; each has its first tensor. */
static tsr_status read_layers(const reader *r, int side, int32_t *layers)
{
  char begin[NAME_LONGEST];
  int64_t rows = 0, columns = 0;
  *layers = 1;
  snprintf(begin, sizeof begin, "%s/layer_", stacks[side]);
  for (int32_t i = 0; i < tsr_checkpoint_count(r->checkpoint); i++) {
    const char *name = tsr_checkpoint_at(r->checkpoint, i)->name;
    if (strncmp(name, begin, strlen(begin)) == 0) {
      const long number = strtol(name + strlen(begin), NULL, 10);
      if (number < 0 || number >= TSR_MAX_LAYERS) {
        return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s': expected layers 0 to %d", r->path, name,
                        (int)TSR_MAX_LAYERS - 1);
      }
      *layers = number >= *layers ? (int32_t)number + 1 : *layers;
    }
  }
  for (int32_t i = 0; i < *layers; i++) {
    TSR_TRY(matrix(r, side, i, "self_attention/linear_0/weight", 3 * (int64_t)TSR_MAX_WIDTH, &rows, &columns));
  }
  return TSR_OK;
}

/* 1 if the side or one of its layers has a tensor whose name ends so. */
static int has_any(const reader *r, int side, const char *end)
{
  for (int32_t i = 0; i < tsr_checkpoint_count(r->checkpoint); i++) {
    const char *name = tsr_checkpoint_at(r->checkpoint, i)->name;
    const size_t size = strlen(name), tail = strlen(end);
    if (strncmp(name, stacks[side], strlen(stacks[side])) == 0 && size > tail && strcmp(name + size - tail, end) == 0) {
      return 1;
    }
  }
  return 0;
}

/* 1 if the side has one of two tensors, which belong together. */
static int has_either(const reader *r, int side, const char *one, const char *other)
{
  return find(r, side, -1, one) || find(r, side, -1, other);
}

static tsr_status read_side(const reader *r, int side)
{
  tsr_transformer_config *c = r->config;
  tsr_model_side *s = &r->sides[side];
  int64_t rows = 0, columns = 0;
  double pre_norm = 1.0, scale = 0.0;
  int32_t layers = 0, heads = 0, head_size = 0;
  TSR_TRY(read_layers(r, side, &layers));
  TSR_TRY(read_heads(r, side, layers, &heads, &head_size));
  TSR_TRY(side_number(r, side, "pre_norm", 0, 1, &pre_norm));
  TSR_TRY(read_activation(r, side));
  TSR_TRY(read_embedding_scale(r, side));
  TSR_TRY(read_positions(r, side, layers, head_size));
  TSR_TRY(layer_scalar(r, side, layers, "self_attention/queries_scale", -1e6, 1e6, &scale));
  s->self_scale = (float)scale;
  scale = 0.0;
  if (side == DECODER) {
    TSR_TRY(layer_scalar(r, side, layers, "attention/queries_scale", -1e6, 1e6, &scale));
  }
  s->cross_scale = (float)scale;
  s->norm_position = pre_norm != 0.0 ? TSR_NORM_PRE : TSR_NORM_POST;
  s->embedding_norm = has_either(r, side, "layernorm_embedding/gamma", "layernorm_embedding/beta");
  s->final_norm = has_either(r, side, "layer_norm/gamma", "layer_norm/beta");
  s->gated = has_any(r, side, "ffn/linear_0_noact/weight");
  TSR_TRY(matrix(r, side, 0, "ffn/linear_0/weight", TSR_MAX_WIDTH, &rows, &columns));
  *(side == ENCODER ? &c->encoder_layers : &c->decoder_layers) = layers;
  *(side == ENCODER ? &c->encoder_heads : &c->decoder_heads) = heads;
  *(side == ENCODER ? &c->encoder_head_size : &c->decoder_head_size) = head_size;
  *(side == ENCODER ? &c->encoder_d_ff : &c->decoder_d_ff) = (int32_t)rows;
  return (int64_t)heads * head_size <= TSR_MAX_WIDTH
             ? TSR_OK
             : tsr_fail(TSR_ERR_FORMAT, "%s: %d %s heads of size %d are more than %d columns", r->path, (int)heads,
                        stacks[side], (int)head_size, (int)TSR_MAX_WIDTH);
}

/* Norms without a beta are those by the root of the mean square. One kind for all. */
static void read_norm(const reader *r, float epsilon)
{
  const int has_beta = has_any(r, ENCODER, "layer_norm/beta");
  r->config->norm = has_beta ? TSR_NORM_LAYER : TSR_NORM_RMS;
  r->config->epsilon = epsilon > 0.0f ? epsilon : has_beta ? 1e-5f : 1e-6f;
}

static tsr_status read_alignment(const reader *r, tsr_model_alignment *alignment)
{
  const int32_t layers = r->config->decoder_layers, heads = r->config->decoder_heads;
  double layer = -1.0, first = 1.0;
  TSR_TRY(side_number(r, DECODER, "alignment_layer", -layers, layers - 1, &layer));
  TSR_TRY(side_number(r, DECODER, "alignment_heads", 0, heads, &first));
  alignment->layer = (int32_t)(layer < 0.0 ? layers + layer : layer) + 1;
  alignment->heads = first == 0.0 || first >= heads ? 0 : first > 31.0 ? 0 : (1u << (unsigned)first) - 1u;
  return TSR_OK;
}

/* What the configuration tells of both sides is the encoder's. */
static void summarise(const reader *r)
{
  tsr_transformer_config *c = r->config;
  const tsr_model_side *encoder = &r->sides[ENCODER], *decoder = &r->sides[DECODER];
  int is_computed = 0, is_learned = 0;
  c->max_positions = encoder->positions < decoder->positions ? encoder->positions : decoder->positions;
  for (int side = 0; side < 2; side++) {
    is_computed |= r->sides[side].position == TSR_POSITION_SINUSOID_TENSOR2TENSOR;
    is_learned |= r->sides[side].position == TSR_POSITION_LEARNED;
  }
  c->position = is_computed             ? TSR_POSITION_SINUSOID_TENSOR2TENSOR
                : is_learned            ? TSR_POSITION_LEARNED
                : encoder->vectors > 0  ? TSR_POSITION_RELATIVE_VECTORS
                : encoder->relative > 0 ? TSR_POSITION_RELATIVE
                                        : decoder->relative;
  c->position_offset = is_computed; /* the first position is 1 */
  c->relative_buckets = encoder->relative_buckets;
  c->relative_distance = encoder->vectors > 0 ? encoder->vectors : encoder->relative_distance;
  c->norm_position = encoder->norm_position;
  c->final_norm = encoder->final_norm;
  c->embedding_norm = encoder->embedding_norm;
  c->activation = encoder->activation;
  c->gated = encoder->gated;
  c->embedding_scale = encoder->embedding_scale;
  c->attention_scale = encoder->self_scale;
}

static tsr_status read_model(const reader *r, int is_from_zero)
{
  double scale = 1.0;
  TSR_TRY(refuse_unknown(r));
  TSR_TRY(read_embeddings(r, is_from_zero));
  TSR_TRY(read_side(r, ENCODER));
  TSR_TRY(read_side(r, DECODER));
  TSR_TRY(scalar(r, "decoder/scale_outputs", -1e6, 1e6, &scale));
  r->config->logits_scale = scale == 0.0 ? 1.0f : (float)scale;
  if (r->sides[ENCODER].gated != r->sides[DECODER].gated) {
    return tsr_fail(
        TSR_ERR_UNSUPPORTED,
        "%s: one of encoder and decoder has gated feed-forward blocks (linear_0_noact); this build needs both or none",
        r->path);
  }
  summarise(r);
  return TSR_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static tsr_status find_token(const tsr_package_vocabulary *vocabulary, const char *token, int32_t rows, int32_t *id)
{
  *id = tsr_package_vocabulary_find(vocabulary, token);
  if (*id >= 0 && *id < rows) {
    return TSR_OK;
  }
  *id = -1;
  return tsr_fail(TSR_ERR_FORMAT, "%s: the token '%s' is not among the first %d, which the model has", vocabulary->path,
                  token, (int)rows);
}

static tsr_status read_ids(const tsr_package *package, const tsr_package_tokens *tokens, int is_from_zero,
                           tsr_transformer_config *config)
{
  const int32_t rows = config->target_vocabulary - is_from_zero;
  tsr_package_vocabulary vocabulary;
  tsr_status status = tsr_package_read_vocabulary(package, DECODER, tokens->unk, &vocabulary);
  if (status == TSR_OK && vocabulary.n < rows) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: %d tokens, but the model has %d: the file is truncated or another model's",
                      vocabulary.path, (int)vocabulary.n, (int)rows);
  }
  if (status == TSR_OK) {
    status = find_token(&vocabulary, tokens->eos, rows, &config->eos_id);
  }
  if (status == TSR_OK && tokens->decoder_start && !is_from_zero) {
    status = find_token(&vocabulary, tokens->decoder_start, rows, &config->decoder_start_id);
  }
  if (status == TSR_OK) {
    const int32_t unk = tsr_package_vocabulary_find(&vocabulary, tokens->unk);
    const int32_t bos = tsr_package_vocabulary_find(&vocabulary, tokens->bos);
    config->unk_id = unk < rows ? unk : -1;
    config->bos_id = bos < rows ? bos : -1;
    config->pad_id = is_from_zero ? rows : -1;
    config->decoder_start_id = is_from_zero ? rows : config->decoder_start_id;
  }
  tsr_package_vocabulary_finish(&vocabulary);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tsr_status check_spec(const reader *r)
{
  static const char *const specs[] = {"", "TransformerSpec", "TransformerBase", "TransformerBig"};
  int found = 0;
  for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
    found |= strcmp(r->spec, specs[i]) == 0;
  }
  if (!found) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: a model of the specification '%s'; this build reads TransformerSpec",
                    r->path, r->spec);
  }
  if (r->revision < 2 || r->revision > LAST_REVISION) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: revision %ld of the specification; this build reads 2 to %d", r->path,
                    r->revision, (int)LAST_REVISION);
  }
  return TSR_OK;
}

static tsr_status open_with(tsr_model *model, const tsr_package *package)
{
  tsr_package_tokens tokens = {0};
  TSR_TRY(tsr_package_checkpoint(package, &model->checkpoint));
  tsr_model_side *sides = tsr_arena_take(&model->arena, 2 * sizeof *sides);
  if (!sides) {
    return tsr_fail_memory(2 * sizeof *sides);
  }
  const char *spec = tsr_checkpoint_metadata(model->checkpoint, TSR_CTRANSLATE2_SPEC);
  const char *revision = tsr_checkpoint_metadata(model->checkpoint, TSR_CTRANSLATE2_REVISION);
  const reader r = {.checkpoint = model->checkpoint,
                    .path = tsr_checkpoint_path(model->checkpoint),
                    .revision = revision ? strtol(revision, NULL, 10) : 0,
                    .spec = spec ? spec : "",
                    .config = &model->config,
                    .sides = sides};
  double from_zero = 0.0;
  model->config = (tsr_transformer_config){
      TSR_SIZED(tsr_transformer_config),
      .family = "ctranslate2",
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .pad_id = -1,
      .bos_id = -1,
      .eos_id = -1,
      .unk_id = -1,
      .decoder_start_id = -1,
  };
  TSR_TRY(check_spec(&r));
  TSR_TRY(scalar(&r, "decoder/start_from_zero_embedding", 0, 1, &from_zero));
  const int is_from_zero = from_zero != 0.0;
  model->sides = sides;
  model->family = is_from_zero ? &tsr_family_ctranslate2_from_zero : &tsr_family_ctranslate2;
  TSR_TRY(read_model(&r, is_from_zero));
  TSR_TRY(read_alignment(&r, &model->alignment));
  model->alignment.replaces_unknown = tsr_package_is_argos(package);
  tsr_status status = tsr_package_read_tokens(package, model->checkpoint, &tokens);
  if (status == TSR_OK) {
    read_norm(&r, tokens.epsilon);
    status = read_ids(package, &tokens, is_from_zero, &model->config);
  }
  tsr_package_tokens_finish(&tokens);
  return status;
}

tsr_status tsr_ctranslate2_open(tsr_model *model)
{
  tsr_package *package = NULL;
  TSR_TRY(tsr_package_open(model->folder, &package));
  tsr_status status = open_with(model, package);
  tsr_package_close(package);
  return status;
}
