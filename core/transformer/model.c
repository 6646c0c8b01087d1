/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/model.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/decoder_yml.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/package.h"
#include "core/transformer/ctranslate2.h"
#include "core/transformer/marian_npz.h"

/* The folder's weights, if it has any, and its parameters. */
static tsr_status open_weights(tsr_model *model)
{
  if (!model->checkpoint && tsr_checkpoint_exists(model->folder)) {
    TSR_TRY(tsr_checkpoint_open(model->folder, &model->checkpoint));
  }
  if (model->checkpoint) {
    TSR_TRY(tsr_parameters_untie(model));
  }
  TSR_TRY(tsr_parameters_list_model(model, &model->arena, &model->parameters));
  return model->checkpoint ? tsr_parameters_resolve(model) : TSR_OK;
}

/* Hands over a model that was made completely, and closes another. */
static tsr_status settle(tsr_status status, tsr_model *made, tsr_model **model)
{
  if (status != TSR_OK) {
    tsr_model_close(made);
    made = NULL;
  }
  *model = made;
  return status;
}

typedef struct tsr_model_list {
  struct tsr_model_list *before;
  int32_t n;
  int32_t ids[];
} tsr_model_list;

tsr_status tsr_model_keep_ids(const tsr_model *model, const int32_t *ids, int32_t n, const int32_t **kept)
{
  tsr_model_lists *lists = model->lists;
  size_t size = (size_t)n * sizeof *ids;
  *kept = NULL;
  if (n == 0) {
    return TSR_OK;
  }
  pthread_mutex_lock(&lists->lock);
  tsr_model_list *list = lists->last;
  while (list && (list->n != n || memcmp(list->ids, ids, size) != 0)) {
    list = list->before;
  }
  if (!list) {
    list = tsr_arena_take(&lists->arena, sizeof *list + size);
    if (list) {
      list->before = lists->last;
      list->n = n;
      memcpy(list->ids, ids, size);
      lists->last = list;
    }
  }
  pthread_mutex_unlock(&lists->lock);
  *kept = list ? list->ids : NULL;
  return list ? TSR_OK : tsr_fail_memory(sizeof *list + size);
}

/* An empty model that belongs to a folder. */
static tsr_status make(const char *folder, tsr_model **model)
{
  tsr_model *made = calloc(1, sizeof *made);
  *model = made;
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->folder = tsr_arena_text(&made->arena, folder);
  if (!made->folder) {
    return tsr_fail_memory(strlen(folder) + 1);
  }
  made->lists = calloc(1, sizeof *made->lists);
  if (!made->lists) {
    return tsr_fail_memory(sizeof *made->lists);
  }
  pthread_mutex_init(&made->lists->lock, NULL);
  return TSR_OK;
}

/* The original adds an adapter to the weights that it was trained beside. */
static tsr_status refuse_adapter(const char *folder)
{
  char *path = tsr_path_join(folder, "adapter_config.json");
  tsr_status status = path ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  if (path && tsr_path_exists(path)) {
    status = tsr_fail(TSR_ERR_UNSUPPORTED,
                      "%s: this build does not add adapters (LoRA) to weights: merge the adapter into the model "
                      "(merge_and_unload), and save that",
                      path);
  }
  free(path);
  return status;
}

static tsr_status read_config(const char *folder, tsr_model *model)
{
  if (tsr_package_is(folder)) {
    return tsr_ctranslate2_open(model);
  }
  TSR_TRY(tsr_folder_expect(folder, "a model's folder"));
  if (tsr_marian_npz_is(folder)) {
    return tsr_marian_npz_open(model);
  }
  TSR_TRY(refuse_adapter(folder));
  return tsr_transformer_config_read(folder, &model->config, &model->family);
}

tsr_status tsr_model_open(const char *folder, tsr_model **model)
{
  if (!folder || !model) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_open: folder and model must not be NULL");
  }
  *model = NULL;
  tsr_model *opened;
  tsr_status status = make(folder, &opened);
  if (status == TSR_OK) {
    status = read_config(folder, opened);
  }
  if (status == TSR_OK) {
    status = open_weights(opened);
  }
  return settle(status, opened, model);
}

/* A size of 0 means the usual one; one that cannot be is found later. */
static void choose_head_size(int32_t d_model, int32_t heads, int32_t *head_size)
{
  if (*head_size == 0 && heads > 0 && d_model % heads == 0) {
    *head_size = d_model / heads;
  }
}

tsr_status tsr_model_create(const tsr_transformer_config *config, tsr_model **model)
{
  if (!config || !model) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_create: config and model must not be NULL");
  }
  *model = NULL;
  tsr_model *made;
  json_t *file = NULL;
  tsr_status status = make("", &made);
  if (status == TSR_OK) {
    status = TSR_SIZED_READ(tsr_transformer_config, decoder_start_id, config, &made->config);
  }
  if (status == TSR_OK) {
    tsr_transformer_config *made_of = &made->config;
    made_of->encoder_d_model = made_of->encoder_d_model == made_of->d_model ? 0 : made_of->encoder_d_model;
    choose_head_size(tsr_config_width(made_of, 0), made_of->encoder_heads, &made_of->encoder_head_size);
    choose_head_size(made_of->d_model, made_of->decoder_heads, &made_of->decoder_head_size);
    status = tsr_transformer_config_describe(&(tsr_save_options){TSR_SIZED(tsr_save_options)}, &made->config,
                                             &made->family, &file);
  }
  json_decref(file);
  if (status == TSR_OK) {
    status = tsr_parameters_list(&made->config, &made->arena, &made->parameters);
  }
  return settle(status, made, model);
}

void tsr_model_close(tsr_model *model)
{
  if (!model) {
    return;
  }
  tsr_checkpoint_close(model->checkpoint);
  free(model->parameters.items);
  tsr_arena_finish(&model->arena);
  if (model->lists) {
    pthread_mutex_destroy(&model->lists->lock);
    tsr_arena_finish(&model->lists->arena);
    free(model->lists);
  }
  free(model);
}

const tsr_transformer_config *tsr_model_config(const tsr_model *model)
{
  return &model->config;
}

const char *tsr_model_folder(const tsr_model *model)
{
  return model->folder;
}

tsr_status tsr_model_check_weights(const tsr_model *model)
{
  if (!model) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_check_weights: model must not be NULL");
  }
  if (!model->checkpoint && model->folder[0] == '\0') {
    return tsr_fail(TSR_ERR_ARGUMENT, "the model was made from a configuration: it has no weights");
  }
  return model->checkpoint ? TSR_OK
                           : tsr_fail(TSR_ERR_IO,
                                      "%s: there are no weights in this folder: neither model.safetensors nor "
                                      "pytorch_model.bin, nor an index of parts of one",
                                      model->folder);
}

int tsr_model_has_weights(const tsr_model *model)
{
  return model->checkpoint != NULL;
}

tsr_status tsr_model_check_reads_text(const tsr_model *model, const char *function, const char *sibling)
{
  if (model->config.mels == 0) {
    return TSR_OK;
  }
  return sibling
             ? tsr_fail(TSR_ERR_UNSUPPORTED,
                        "%s: %s is a model of speech, which reads features of sound and no text: use %s", function,
                        model->folder, sibling)
             : tsr_fail(TSR_ERR_UNSUPPORTED, "%s: %s is a model of speech, which reads features of sound and no text",
                        function, model->folder);
}

tsr_status tsr_model_check_reads_sound(const tsr_model *model, const char *function)
{
  return model->config.mels > 0
             ? TSR_OK
             : tsr_fail(TSR_ERR_UNSUPPORTED, "%s: %s reads text, not sound: it is no model of speech", function,
                        model->folder);
}

int32_t tsr_model_parameter_count(const tsr_model *model)
{
  return model->parameters.n;
}

const tsr_checkpoint *tsr_model_checkpoint(const tsr_model *model)
{
  return model->checkpoint;
}

tsr_status tsr_model_parameter_sized(const tsr_model *model, int32_t index, tsr_parameter_info *info, size_t size)
{
  if (!model || !info || index < 0 || index >= model->parameters.n) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there is no parameter number %d; the model has %d", (int)index,
                    model ? (int)model->parameters.n : 0);
  }
  const tsr_parameter *parameter = &model->parameters.items[index];
  const tsr_parameter_info known = {
      .name = parameter->name, .shape = parameter->shape, .dtype = parameter->stored, .n_pieces = parameter->n_pieces};
  tsr_sized_fill(&known, sizeof known, info, size);
  return TSR_OK;
}

tsr_status tsr_model_parameter_piece_sized(const tsr_model *model, int32_t index, int32_t piece,
                                           tsr_parameter_piece *info, size_t size)
{
  const int32_t n = model && index >= 0 && index < model->parameters.n ? model->parameters.items[index].n_pieces : 0;
  if (!info || piece < 0 || piece >= n) {
    return tsr_fail(TSR_ERR_ARGUMENT, "there is no piece number %d of parameter number %d, which has %d", (int)piece,
                    (int)index, (int)n);
  }
  const tsr_piece *of = &model->parameters.items[index].pieces[piece];
  const tsr_parameter_piece known = {.tensor = of->tensor ? of->tensor->name : NULL,
                                     .first = of->first,
                                     .count = of->count,
                                     .transposed = of->transposed,
                                     .fill = of->fill,
                                     .plus = of->plus};
  tsr_sized_fill(&known, sizeof known, info, size);
  return TSR_OK;
}
