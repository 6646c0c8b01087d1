/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/marian_npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/decoder_yml.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/yaml.h"

static const char special_name[] = "special:model.yml";

/* The configuration that the .npz holds as the bytes of a text; *file is to be finished after success. */
static tsr_status open_special(const tsr_checkpoint *checkpoint, tsr_config *file)
{
  *file = (tsr_config){0};
  const char *path = tsr_checkpoint_path(checkpoint);
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, special_name);
  if (!tensor || strcmp(tensor->type, "I8") != 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor '%s' is missing: expected a model of Marian-NMT, which holds its "
                    "configuration there",
                    path, special_name);
  }
  size_t room = strlen(path) + sizeof special_name + 2;
  file->path = malloc(room);
  if (!file->path) {
    return tsr_fail_memory(room);
  }
  snprintf(file->path, room, "%s: %s", path, special_name);
  char *text = calloc(tensor->size + 1, 1); /* which ends it */
  tsr_status status =
      text ? tsr_checkpoint_read(tensor, 0, (int64_t)tensor->size, TSR_I8, text) : tsr_fail_memory(tensor->size + 1);
  if (status == TSR_OK) {
    status = tsr_yaml_parse(file->path, text, strlen(text), &file->root);
  }
  free(text);
  if (status == TSR_OK && json_object_set_new(file->root, "model_type", json_string("marian_npz")) != 0) {
    status = tsr_fail_memory(sizeof(json_t));
  }
  if (status != TSR_OK) {
    tsr_config_finish(file);
  }
  return status;
}

static tsr_status find_token(const tsr_config *file, const char *name, const char *older, int32_t vocabulary,
                             int32_t *id)
{
  const json_t *value = json_object_get(file->root, name);
  value = value ? value : json_object_get(file->root, older);
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= vocabulary) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token '%s': expected an id from 0 to %d, found %s", file->path, name,
                    (int)vocabulary - 1, tsr_json_show(value).text);
  }
  *id = (int32_t)json_integer_value(value);
  return TSR_OK;
}

/* The ids of </s> and <unk> as the target's vocabulary has them, if it is in YAML. */
static tsr_status read_tokens(const char *folder, const tsr_config *settings, tsr_transformer_config *config)
{
  char *path = NULL;
  TSR_TRY(tsr_marian_npz_file(folder, settings, "vocabs", 1, &path));
  const char *dot = strrchr(path, '.');
  tsr_config vocabulary = {0};
  tsr_status status = TSR_OK;
  if (dot && (strcmp(dot, ".yml") == 0 || strcmp(dot, ".yaml") == 0 || strcmp(dot, ".json") == 0)) {
    status = tsr_yaml_open(path, &vocabulary);
    if (status == TSR_OK) {
      status = find_token(&vocabulary, "</s>", "eos", config->decoder_start_id, &config->eos_id);
    }
    if (status == TSR_OK) {
      status = find_token(&vocabulary, "<unk>", "UNK", config->decoder_start_id, &config->unk_id);
    }
  }
  tsr_config_finish(&vocabulary);
  free(path);
  return status;
}

/* A trained table of positions says itself how long it is. */
static tsr_status count_positions(const tsr_checkpoint *checkpoint, tsr_transformer_config *config)
{
  if (config->position != TSR_POSITION_LEARNED) {
    return TSR_OK;
  }
  const tsr_checkpoint_tensor *table = tsr_checkpoint_find(checkpoint, "Wpos");
  if (!table || table->rank != 2 || table->shape.extent[0] < TSR_MIN_POSITIONS ||
      table->shape.extent[0] > TSR_MAX_POSITIONS) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor 'Wpos' is missing, or no table of %d to %d positions",
                    tsr_checkpoint_path(checkpoint), (int)TSR_MIN_POSITIONS, (int)TSR_MAX_POSITIONS);
  }
  config->max_positions = (int32_t)table->shape.extent[0];
  return TSR_OK;
}

static tsr_status open_model(tsr_model *model, const tsr_config *settings)
{
  char *path = NULL;
  tsr_config file;
  TSR_TRY(tsr_marian_npz_file(model->folder, settings, "models", 0, &path));
  tsr_status status = tsr_checkpoint_open(path, &model->checkpoint);
  free(path);
  TSR_TRY(status);
  TSR_TRY(open_special(model->checkpoint, &file));
  status = tsr_transformer_config_parse(&file, &model->config, &model->family);
  tsr_config_finish(&file);
  TSR_TRY(status);
  TSR_TRY(count_positions(model->checkpoint, &model->config));
  return read_tokens(model->folder, settings, &model->config);
}

tsr_status tsr_marian_npz_open(tsr_model *model)
{
  tsr_config settings;
  TSR_TRY(tsr_marian_npz_settings(model->folder, &settings));
  tsr_status status = open_model(model, &settings);
  tsr_config_finish(&settings);
  return status;
}
