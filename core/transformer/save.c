/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as its family's original would write it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors_write.h"
#include "core/transformer/model.h"
#include "tessera/files.h"

enum { JSON_STYLE = JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9) };

/* What the writer of the tensors needs to know. */
typedef struct source {
  const tsr_model *model;
  const tsr_layout_tensor *tensors;
  tsr_dtype storage;
  tsr_parameter_source_fn read;
  void *context;
  float *values; /* [TSR_WRITE_ELEMENTS], before they are converted */
} source;

static tsr_status read_own(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  const tsr_model *model = context;
  return tsr_parameter_read(&model->parameters.items[parameter], first, count, TSR_F32, elements);
}

/* A weight that turns into an infinity would ruin the model unnoticed. */
static tsr_status check_range(const source *from, const tsr_parameter *parameter, int64_t first, int64_t count,
                              const float *values)
{
  /* From here on a number rounds to infinity. */
  const float limit = from->storage == TSR_F16 ? 65520.0f : 0x1.FFp127f;
  for (int64_t i = 0; i < count && from->storage != TSR_F32; i++) {
    if (isfinite(values[i]) && fabsf(values[i]) >= limit) {
      return tsr_fail(TSR_ERR_ARGUMENT, "parameter %s: element %lld is %g, beyond what %s holds: save the model as f32",
                      parameter->name, (long long)first + i, (double)values[i], tsr_dtype_name(from->storage));
    }
  }
  return TSR_OK;
}

static tsr_status read_part(const source *from, const tsr_part *part, int64_t first, int64_t count, void *elements)
{
  const tsr_parameter *parameter = &from->model->parameters.items[part->parameter];
  TSR_TRY(tsr_fail_context(from->read(from->context, part->parameter, part->first + first, count, from->values), "%s",
                           parameter->name));
  TSR_TRY(check_range(from, parameter, part->first + first, count, from->values));
  return tsr_convert(TSR_F32, from->values, from->storage, elements, count);
}

/* tsr_tensor_source_fn */
static tsr_status read_tensor(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  const source *from = context;
  const tsr_layout_tensor *tensor = &from->tensors[index];
  char *to = elements;
  for (int32_t i = 0; i < tensor->n_parts && count > 0; i++) {
    const tsr_part *part = &tensor->parts[i];
    if (first >= part->count) {
      first -= part->count;
      continue;
    }
    int64_t n = part->count - first < count ? part->count - first : count;
    TSR_TRY(read_part(from, part, first, n, to));
    to += (size_t)n * tsr_dtype_size(from->storage);
    count -= n;
    first = 0;
  }
  return TSR_OK;
}

static tsr_status write_weights(const char *path, source *from)
{
  tsr_arena arena = {0};
  tsr_layout_tensor *tensors = NULL;
  int32_t n_tensors = 0;
  tsr_status status = tsr_parameters_layout(from->model, &arena, &tensors, &n_tensors);
  tsr_tensor_entry *entries = calloc((size_t)n_tensors + 1, sizeof *entries);
  json_t *metadata = json_pack("{s:s}", "format", "pt");
  from->tensors = tensors;
  from->values = malloc(TSR_WRITE_ELEMENTS * sizeof *from->values);
  if (status == TSR_OK && (!entries || !metadata || !from->values)) {
    status = tsr_fail_memory(TSR_WRITE_ELEMENTS * sizeof *from->values);
  }
  for (int32_t i = 0; i < n_tensors && status == TSR_OK; i++) {
    entries[i] = (tsr_tensor_entry){.name = tensors[i].name, .dtype = from->storage, .shape = tensors[i].shape};
  }
  if (status == TSR_OK) {
    status = tsr_safetensors_write(path, metadata, entries, n_tensors, read_tensor, from);
  }
  free(from->values);
  json_decref(metadata);
  free(entries);
  tsr_arena_finish(&arena);
  return status;
}

/* *file is taken over. */
static tsr_status write_json(const char *path, json_t *file)
{
  char *text = json_dumps(file, JSON_STYLE);
  json_decref(file);
  size_t length = text ? strlen(text) : 0;
  if (!text) {
    return tsr_fail_memory(sizeof(json_t));
  }
  text[length] = '\n'; /* in the place of the NUL */
  tsr_status status = tsr_file_replace(path, text, length + 1);
  free(text);
  return status;
}

static const char *torch_name(tsr_dtype dtype)
{
  return dtype == TSR_F16 ? "float16" : dtype == TSR_BF16 ? "bfloat16" : "float32";
}

static tsr_status write_config(const char *path, const tsr_model *model, const tsr_save_options *options)
{
  tsr_transformer_config config = model->config;
  const tsr_family *family;
  json_t *file;
  TSR_TRY(tsr_transformer_config_describe(options, &config, &family, &file));
  if (json_object_set_new(file, "torch_dtype", json_string(torch_name(options->storage))) != 0) {
    json_decref(file);
    return tsr_fail_memory(sizeof(json_t));
  }
  return write_json(path, file);
}

/* How to search: the last token is forced to be the end, and what fills up is never produced. */
static tsr_status write_generation_config(const char *path, const tsr_model *model, const tsr_save_options *options)
{
  const tsr_transformer_config *config = &model->config;
  json_t *file = json_pack("{s:i, s:i}", "num_beams", options->beam > 0 ? (int)options->beam : 1, "max_length",
                           options->max_length > 0 ? (int)options->max_length : (int)config->max_positions);
  int failed = !file;
  if (model->family->forced_eos_id >= 0 && config->eos_id >= 0) {
    failed |= json_object_set_new(file, "forced_eos_token_id", json_integer(config->eos_id)) != 0;
  }
  if (config->pad_id >= 0 && config->pad_id != config->eos_id && config->pad_id < config->target_vocabulary) {
    failed |= json_object_set_new(file, "bad_words_ids", json_pack("[[i]]", (int)config->pad_id)) != 0;
  }
  tsr_status status = failed ? tsr_fail_memory(sizeof(json_t)) : tsr_config_set_ids(config, file);
  if (status != TSR_OK) {
    json_decref(file);
    return status;
  }
  return write_json(path, file);
}

static tsr_status check_arguments(const tsr_model *model, const tsr_save_options *options, int own_weights)
{
  if (options->storage != TSR_F32 && options->storage != TSR_F16 && options->storage != TSR_BF16) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_save: a model is stored as f32, f16 or bf16, not as %s",
                    tsr_dtype_name(options->storage));
  }
  const float dropouts[] = {options->dropout, options->attention_dropout, options->activation_dropout};
  for (size_t i = 0; i < sizeof dropouts / sizeof dropouts[0]; i++) {
    if (!(dropouts[i] >= 0.0f && dropouts[i] <= 1.0f)) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_save: a dropout is %g; it should be 0 to 1", (double)dropouts[i]);
    }
  }
  if (options->beam < 0 || options->max_length < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_save: beam and max_length should be at least 0");
  }
  if (own_weights && !model->checkpoint) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_save: the model has no weights of its own, and no source is given");
  }
  return TSR_OK;
}

tsr_status tsr_model_save(const tsr_model *model, const char *folder, const tsr_save_options *options,
                          tsr_parameter_source_fn read, void *context)
{
  if (!model || !folder || folder[0] == '\0') {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_save: model and folder must not be NULL, nor the folder empty");
  }
  tsr_save_options chosen;
  TSR_TRY(TSR_SIZED_READ(tsr_save_options, activation_dropout, options, &chosen));
  chosen.storage = chosen.storage != 0 ? chosen.storage : TSR_F32;
  TSR_TRY(check_arguments(model, &chosen, !read));
  source from = {.model = model, .storage = chosen.storage, .read = read, .context = context};
  if (!read) {
    from.read = read_own;
    from.context = (void *)model;
  }
  char *config = tsr_path_join(folder, "config.json");
  char *generation = tsr_path_join(folder, "generation_config.json");
  char *weights = tsr_path_join(folder, "model.safetensors");
  tsr_status status = config && generation && weights ? tsr_folder_make(folder) : TSR_ERR_OUT_OF_MEMORY;
  if (status == TSR_OK) {
    status = write_config(config, model, &chosen);
  }
  if (status == TSR_OK) {
    status = write_generation_config(generation, model, &chosen);
  }
  if (status == TSR_OK) {
    status = write_weights(weights, &from);
  }
  free(weights);
  free(generation);
  free(config);
  return status == TSR_OK && !read ? tsr_checkpoint_check(model->checkpoint) : status;
}
