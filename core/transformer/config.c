/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/transformer/model.h"

static const tsr_family *const families[] = {
    &tsr_family_bart,       &tsr_family_ctranslate2, &tsr_family_m2m_100, &tsr_family_marian,
    &tsr_family_marian_npz, &tsr_family_mbart,       &tsr_family_mt5,     &tsr_family_nn_transformer,
    &tsr_family_pegasus,    &tsr_family_t5,          &tsr_family_t5gemma, &tsr_family_umt5,
    &tsr_family_whisper,
};

/* Of several names for one, the first is what is written. */
static const struct {
  const char *name;
  int32_t activation;
} activations[] = {
    {"relu", TSR_ACTIVATION_RELU},           {"gelu", TSR_ACTIVATION_GELU_ERF},
    {"gelu_new", TSR_ACTIVATION_GELU_TANH},  {"gelu_pytorch_tanh", TSR_ACTIVATION_GELU_TANH},
    {"gelu_fast", TSR_ACTIVATION_GELU_TANH}, {"swish", TSR_ACTIVATION_SILU},
    {"silu", TSR_ACTIVATION_SILU},
};

const char *tsr_activation_name(int32_t activation)
{
  for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
    if (activations[i].activation == activation) {
      return activations[i].name;
    }
  }
  return NULL;
}

tsr_status tsr_config_activation(tsr_config *file, const char *key, int32_t *activation)
{
  const char *name = NULL;
  tsr_config_text(file, key, &name);
  return name ? tsr_activation_find(file, key, name, activation) : TSR_OK;
}

tsr_status tsr_activation_find(const tsr_config *file, const char *key, const char *name, int32_t *activation)
{
  for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
    if (strcmp(name, activations[i].name) == 0) {
      *activation = activations[i].activation;
      return TSR_OK;
    }
  }
  return tsr_fail(TSR_ERR_UNSUPPORTED,
                  "%s: key '%s': this build does not know the activation '%s'; it knows relu, gelu, gelu_new, "
                  "gelu_pytorch_tanh, gelu_fast, swish and silu",
                  file->path, key, name);
}

/* The first of a list. */
static tsr_status read_first_id(const tsr_config *file, const char *key, int32_t vocabulary, int32_t *id)
{
  const json_t *value = json_object_get(file->root, key);
  if (!value || json_is_null(value)) {
    return TSR_OK;
  }
  if (json_is_array(value)) {
    value = json_array_get(value, 0);
  }
  if (!value || !json_is_integer(value)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s' should be a token id", file->path, key);
  }
  json_int_t number = json_integer_value(value);
  if (number < 0 || number >= vocabulary) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s' is %lld; the vocabulary has the ids 0 to %d", file->path, key,
                    (long long)number, (int)vocabulary - 1);
  }
  *id = (int32_t)number;
  return TSR_OK;
}

tsr_status tsr_config_id(const tsr_config *file, const char *key, int32_t vocabulary, int32_t *id)
{
  const json_t *value = json_object_get(file->root, key);
  if (json_array_size(value) > 1) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' lists %zu ids; this build takes one", file->path, key,
                    json_array_size(value));
  }
  return read_first_id(file, key, vocabulary, id);
}

static tsr_status read_ids(const tsr_config *file, tsr_transformer_config *config)
{
  int32_t vocabulary =
      config->target_vocabulary > config->source_vocabulary ? config->target_vocabulary : config->source_vocabulary;
  if (vocabulary == 0) {
    return TSR_OK; /* described without embeddings: no token exists */
  }
  TSR_TRY(tsr_config_id(file, "pad_token_id", vocabulary, &config->pad_id));
  TSR_TRY(tsr_config_id(file, "bos_token_id", vocabulary, &config->bos_id));
  TSR_TRY(tsr_config_id(file, "unk_token_id", vocabulary, &config->unk_id));
  /* These two are the decoder's. */
  int32_t target = config->target_vocabulary > 0 ? config->target_vocabulary : vocabulary;
  TSR_TRY(read_first_id(file, "eos_token_id", target, &config->eos_id)); /* the others are the search's */
  return tsr_config_id(file, "decoder_start_token_id", target, &config->decoder_start_id);
}

/* head_size 0 stands for d_model / heads. */
static tsr_status check_heads(const tsr_config *file, const char *stack, int32_t d_model, int32_t heads,
                              int32_t *head_size)
{
  if (*head_size == 0) {
    if (d_model % heads != 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: %d %s heads do not divide d_model %d", file->path, (int)heads, stack,
                      (int)d_model);
    }
    *head_size = d_model / heads;
  }
  if ((int64_t)heads * *head_size > TSR_MAX_WIDTH) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %d %s heads of size %d are more than %d columns", file->path, (int)heads,
                    stack, (int)*head_size, (int)TSR_MAX_WIDTH);
  }
  return TSR_OK;
}

const tsr_family *tsr_family_find(const char *model_type)
{
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    if (strcmp(model_type, families[i]->model_type) == 0) {
      return families[i];
    }
  }
  return NULL;
}

char *tsr_family_list(char *text, size_t size)
{
  text[0] = '\0';
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", families[i]->model_type);
  }
  return text;
}

/* What the file leaves unsaid once every file was read. */
static void complete(tsr_transformer_config *config)
{
  if (config->decoder_start_id < 0 && config->bos_id < config->target_vocabulary) {
    config->decoder_start_id = config->bos_id; /* as the original does where nothing is said */
  }
}

static tsr_status read_family(tsr_config *file, tsr_transformer_config *config, const tsr_family **family)
{
  const char *type = NULL;
  tsr_config_text(file, "model_type", &type);
  TSR_TRY(tsr_config_status(file));
  if (!type) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key 'model_type' is missing", file->path);
  }
  *family = tsr_family_find(type);
  if (!*family) {
    char known[192];
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key 'model_type': this build does not know the family '%s'; it knows %s",
                    file->path, type, tsr_family_list(known, sizeof known));
  }
  *config = (tsr_transformer_config){
      TSR_SIZED(tsr_transformer_config),
      .norm = TSR_NORM_LAYER,
      .norm_position = TSR_NORM_POST,
      .activation = TSR_ACTIVATION_RELU,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .embedding_scale = 1.0f,
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = -1,
      .bos_id = -1,
      .eos_id = -1,
      .unk_id = -1,
      .decoder_start_id = -1,
  };
  snprintf(config->family, sizeof config->family, "%s", type);
  TSR_TRY((*family)->configure(file, config));
  TSR_TRY(tsr_config_status(file));
  if (config->encoder_layers == 0 && config->decoder_layers == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: neither encoder nor decoder layers", file->path);
  }
  TSR_TRY(check_heads(file, "encoder", tsr_config_width(config, 0), config->encoder_heads, &config->encoder_head_size));
  TSR_TRY(check_heads(file, "decoder", config->d_model, config->decoder_heads, &config->decoder_head_size));
  return read_ids(file, config);
}

tsr_status tsr_transformer_config_parse(tsr_config *file, tsr_transformer_config *config, const tsr_family **family)
{
  tsr_status status = read_family(file, config, family);
  complete(config);
  return status;
}

static tsr_status read_generation_ids(const char *path, tsr_transformer_config *config)
{
  tsr_config file = {0};
  tsr_status status = tsr_config_open(path, &file);
  if (status == TSR_OK) {
    status = read_ids(&file, config);
  }
  tsr_config_finish(&file);
  return status;
}

tsr_status tsr_transformer_config_read(const char *folder, tsr_transformer_config *config, const tsr_family **family)
{
  size_t room = strlen(folder) + 32;
  char *path = malloc(room);
  if (!path) {
    return tsr_fail_memory(room);
  }
  tsr_config file = {0};
  snprintf(path, room, "%s/config.json", folder);
  tsr_status status = tsr_config_open(path, &file);
  if (status == TSR_OK) {
    status = read_family(&file, config, family);
  }
  tsr_config_finish(&file);
  snprintf(path, room, "%s/generation_config.json", folder);
  if (status == TSR_OK && access(path, F_OK) == 0) {
    status = read_generation_ids(path, config);
  }
  complete(config);
  free(path);
  return status;
}
