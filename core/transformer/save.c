/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as its family's original would write it.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors_write.h"
#include "core/transformer/calibrate.h"
#include "tessera/files.h"

enum { JSON_STYLE = JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9) };

/* A tensor of the file: one of the family's, or its scales. */
typedef struct entry {
  const tsr_layout_tensor *tensor;
  tsr_dtype kept; /* of the tensor: f32, f16, bf16, or i8 and i4, where it has scales */
  int32_t is_scales;
  int64_t row_size, scales_size; /* bytes of a row of whole numbers, and of its scales */
  uint16_t *chosen; /* [rows][groups]: of TSR_I4, the scales that were chosen; shared with the tensor's other entry */
} entry;

/* What the writer of the tensors needs to know. */
typedef struct source {
  const tsr_model *model;
  tsr_dtype storage;
  int32_t matrices_alone; /* 1: all else is f32 */
  tsr_parameter_source_fn read;
  void *context;
  entry *entries;
  float *values; /* [room], before they are converted */
  int8_t *bytes; /* [room], rows of whole numbers, */
  float *scales; /* and their scales, [room] */
  int64_t room;
  const tsr_calibration *calibration; /* or NULL */
  tsr_factors factors;                /* with calibration, of the matrix that is being rounded */
  float *row;                         /* likewise, [room] */
} source;

static tsr_status read_own(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  const tsr_model *model = context;
  return tsr_parameter_read(&model->parameters.items[parameter], first, count, TSR_F32, elements);
}

/* A weight that turns into an infinity, or is cut off, would ruin the model unnoticed; one that is not finite has no
 * whole number. */
static tsr_status check_range(tsr_dtype kept, const tsr_parameter *parameter, int64_t first, int64_t count,
                              const float *values)
{
  const int is_whole = kept == TSR_I8 || kept == TSR_I4;
  const float most = kept == TSR_I4 ? TSR_I4_LARGEST : FLT_MAX;
  /* From here on a number rounds to infinity. */
  const float limit = kept == TSR_F16 ? 65520.0f : 0x1.FFp127f;
  for (int64_t i = 0; i < count && kept != TSR_F32; i++) {
    if (is_whole ? !(fabsf(values[i]) <= most) : isfinite(values[i]) && fabsf(values[i]) >= limit) {
      return tsr_fail(TSR_ERR_ARGUMENT, "parameter %s: element %lld is %g, beyond what %s holds: save the model as f32",
                      parameter->name, (long long)first + i, (double)values[i],
                      kept == TSR_I4 ? "int4" : tsr_dtype_name(kept));
    }
  }
  return TSR_OK;
}

/* Elements of a parameter that are a part of a tensor. A convolution's are [out, kernel, in], and [out, in, kernel] in
 * the tensor: row by row. */
static tsr_status read_part(const source *from, const tsr_part *part, int64_t first, int64_t count, float *to)
{
  const tsr_shape *shape = &from->model->parameters.items[part->parameter].shape;
  if (!part->transposed) {
    TSR_TRY(from->read(from->context, part->parameter, part->first + first, count, to));
    for (int64_t i = 0; part->minus != 0.0f && i < count; i++) {
      to[i] -= part->minus;
    }
    return TSR_OK;
  }
  const int64_t kernel = shape->extent[1], in = shape->extent[2], row = kernel * in;
  float *kept = malloc((size_t)row * sizeof *kept + 1);
  tsr_status status = kept ? TSR_OK : tsr_fail_memory((size_t)row * sizeof *kept);
  while (count > 0 && status == TSR_OK) {
    const int64_t begin = first % row, left = row - begin, n = left < count ? left : count;
    status = from->read(from->context, part->parameter, first - begin, row, kept);
    for (int64_t i = 0; i < n && status == TSR_OK; i++) {
      to[i] = kept[(begin + i) % kernel * in + (begin + i) / kernel];
    }
    to += n;
    first += n;
    count -= n;
  }
  free(kept);
  return status;
}

/* Elements of a tensor as f32, to from->values. */
static tsr_status read_values(const source *from, const tsr_layout_tensor *tensor, tsr_dtype kept, int64_t first,
                              int64_t count)
{
  float *to = from->values;
  for (int32_t i = 0; i < tensor->n_parts && count > 0; i++) {
    const tsr_part *part = &tensor->parts[i];
    const tsr_parameter *parameter = &from->model->parameters.items[part->parameter];
    if (first >= part->count) {
      first -= part->count;
      continue;
    }
    const int64_t n = part->count - first < count ? part->count - first : count;
    TSR_TRY(tsr_fail_context(read_part(from, part, first, n, to), "%s", parameter->name));
    TSR_TRY(check_range(kept, parameter, part->first + first, n, to));
    to += n;
    count -= n;
    first = 0;
  }
  return TSR_OK;
}

/* 1 if the model's own weights are so already: they are taken as they are. */
static int32_t is_as_stored(const source *from, const entry *e)
{
  int32_t same = from->read == read_own;
  for (int32_t i = 0; i < e->tensor->n_parts; i++) {
    same &= from->model->parameters.items[e->tensor->parts[i].parameter].stored == e->kept;
  }
  return same;
}

/* Rows of a matrix of whole numbers as they are stored, to from->bytes and from->scales. */
static tsr_status copy_rows(const source *from, const entry *e, int64_t row, int64_t count)
{
  const int64_t columns = e->tensor->shape.extent[1];
  int8_t *bytes = from->bytes;
  char *scales = (char *)from->scales;
  for (int32_t i = 0; i < e->tensor->n_parts && count > 0; i++) {
    const tsr_part *part = &e->tensor->parts[i];
    const int64_t rows = part->count / columns;
    if (row >= rows) {
      row -= rows;
      continue;
    }
    const int64_t n = rows - row < count ? rows - row : count;
    TSR_TRY(tsr_parameter_read_rows(&from->model->parameters.items[part->parameter], part->first / columns + row, n,
                                    bytes, scales));
    bytes += n * e->row_size;
    scales += n * e->scales_size;
    count -= n;
    row = 0;
  }
  return TSR_OK;
}

/* from->values, rows of a matrix. To choose the scales takes longest: those that were written, which they are before
 * the numbers, are kept for these. */
static tsr_status round_to_four_bits(source *from, const entry *e, int64_t row, int64_t n)
{
  const int64_t columns = e->tensor->shape.extent[1];
  TSR_TRY(tsr_calibration_factors(from->calibration, e->tensor->parts[0].parameter, &from->factors));
  uint16_t *chosen = e->chosen + row * (e->scales_size / (int64_t)sizeof *e->chosen);
  if (e->is_scales) {
    tsr_four_bits_scales(from->values, n, columns, &from->factors, from->row, chosen);
    memcpy(from->scales, chosen, (size_t)(n * e->scales_size));
  } else {
    tsr_four_bits(from->values, n, columns, &from->factors, from->row, chosen, (uint8_t *)from->bytes);
  }
  return TSR_OK;
}

/* Rows of a matrix as whole numbers, likewise. */
static tsr_status make_rows(source *from, const entry *e, int64_t row, int64_t n)
{
  const int64_t columns = e->tensor->shape.extent[1];
  if (is_as_stored(from, e)) {
    return copy_rows(from, e, row, n);
  }
  TSR_TRY(read_values(from, e->tensor, e->kept, row * columns, n * columns));
  if (e->kept == TSR_I4) {
    return round_to_four_bits(from, e, row, n);
  }
  tsr_eight_bits(from->values, n, columns, from->bytes, from->scales);
  return TSR_OK;
}

/* Bytes at .. at+size-1 of a matrix of whole numbers, or of its scales. Rows are made as many at a time as there is
 * room for. */
static tsr_status read_whole(source *from, const entry *e, int64_t at, int64_t size, char *out)
{
  const int64_t columns = e->tensor->shape.extent[1], wanted = e->is_scales ? e->scales_size : e->row_size;
  const int64_t rows = e->tensor->shape.extent[0], widest = columns > e->row_size ? columns : e->row_size;
  while (size > 0) {
    const int64_t row = at / wanted, most = from->room / widest, left = rows - row;
    const int64_t needed = (at % wanted + size + wanted - 1) / wanted;
    int64_t n = needed < most ? needed : most;
    n = n < left ? n : left;
    TSR_TRY(make_rows(from, e, row, n));
    const char *made = e->is_scales ? (const char *)from->scales : (const char *)from->bytes;
    const int64_t here = n * wanted - at % wanted, some = here < size ? here : size;
    memcpy(out, made + at % wanted, (size_t)some);
    out += some;
    at += some;
    size -= some;
  }
  return TSR_OK;
}

/* tsr_tensor_source_fn */
static tsr_status read_tensor(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  source *from = context;
  const entry *e = &from->entries[index];
  if (e->kept == TSR_I8 || e->kept == TSR_I4) {
    const int64_t size = !e->is_scales ? 1 : e->kept == TSR_I4 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
    return read_whole(from, e, first * size, count * size, elements);
  }
  TSR_TRY(read_values(from, e->tensor, e->kept, first, count));
  return tsr_convert(TSR_F32, from->values, e->kept, elements, count);
}

static tsr_dtype kept_as(const source *from, const tsr_layout_tensor *tensor)
{
  const int32_t is_whole = from->storage == TSR_I8 || from->storage == TSR_I4;
  int32_t is_product = tensor->shape.rank == 2, is_convolution = tensor->shape.rank == 3;
  for (int32_t i = 0; i < tensor->n_parts; i++) {
    const int32_t matrix = from->model->parameters.items[tensor->parts[i].parameter].matrix;
    is_product &= matrix == TSR_MATRIX_PRODUCT;
    is_convolution &= matrix == TSR_MATRIX_CONVOLUTION;
  }
  return !from->matrices_alone || is_product || (is_convolution && !is_whole) ? from->storage : TSR_F32;
}

/* What the file holds of the tensors: [2 n_tensors]. */
static tsr_status list_entries(const source *from, tsr_arena *arena, const tsr_layout_tensor *tensors,
                               int32_t n_tensors, tsr_tensor_entry *entries, int32_t *n_entries)
{
  int32_t n = 0;
  for (int32_t i = 0; i < n_tensors; i++) {
    const tsr_dtype kept = kept_as(from, &tensors[i]);
    const tsr_parameter matrix = {.shape = tensors[i].shape, .matrix = TSR_MATRIX_PRODUCT};
    tsr_kept scales = {0};
    const tsr_kept own = tsr_parameter_kept(&matrix, kept, &scales);
    entries[n] = (tsr_tensor_entry){.name = tensors[i].name, .dtype = own.dtype, .shape = own.shape};
    entry made = {.tensor = &tensors[i],
                  .kept = kept,
                  .row_size = own.shape.extent[1],
                  .scales_size = scales.shape.extent[1] * (int64_t)tsr_dtype_size(scales.dtype)};
    from->entries[n++] = made;
    if (scales.dtype != 0) {
      char name[TSR_PARAMETER_NAME_ROOM];
      const char *copy = tsr_arena_text(arena, tsr_scales_name(name, tensors[i].name));
      const size_t size = (size_t)(scales.shape.extent[0] * made.scales_size);
      const int32_t chooses = kept == TSR_I4 && !is_as_stored(from, &made);
      made.chosen = chooses ? malloc(size + 1) : NULL;
      from->entries[n - 1].chosen = made.chosen;
      if (!copy || (chooses && !made.chosen)) {
        return tsr_fail_memory(size);
      }
      entries[n] = (tsr_tensor_entry){.name = copy, .dtype = scales.dtype, .shape = scales.shape};
      from->entries[n] = made;
      from->entries[n++].is_scales = 1;
    }
  }
  *n_entries = n;
  return TSR_OK;
}

static tsr_status write_weights(const char *path, source *from)
{
  tsr_arena arena = {0};
  tsr_layout_tensor *tensors = NULL;
  int32_t n_tensors = 0, n_entries = 0;
  const int32_t is_whole = from->storage == TSR_I8 || from->storage == TSR_I4;
  tsr_status status = tsr_parameters_layout(from->model, &arena, &tensors, &n_tensors);
  tsr_tensor_entry *entries = calloc(2 * (size_t)n_tensors + 1, sizeof *entries);
  json_t *metadata = json_pack("{s:s}", "format", "pt");
  from->entries = calloc(2 * (size_t)n_tensors + 1, sizeof *from->entries);
  from->room = TSR_WRITE_ELEMENTS;
  from->values = malloc((size_t)from->room * sizeof *from->values);
  from->bytes = is_whole ? malloc((size_t)from->room) : NULL;
  from->scales = is_whole ? malloc((size_t)from->room * sizeof *from->scales) : NULL;
  from->row = from->calibration ? malloc((size_t)from->room * sizeof *from->row) : NULL;
  const int32_t has_room = entries && metadata && from->entries && from->values && (!from->calibration || from->row);
  if (status == TSR_OK && (!has_room || (is_whole && (!from->bytes || !from->scales)))) {
    status = tsr_fail_memory(TSR_WRITE_ELEMENTS * sizeof *from->values);
  }
  if (status == TSR_OK) {
    status = list_entries(from, &arena, tensors, n_tensors, entries, &n_entries);
  }
  if (status == TSR_OK) {
    status = tsr_safetensors_write(path, metadata, entries, n_entries, read_tensor, from);
  }
  tsr_factors_finish(&from->factors);
  free(from->row);
  free(from->scales);
  free(from->bytes);
  free(from->values);
  for (int32_t i = 0; from->entries && i < 2 * n_tensors; i++) {
    free(from->entries[i].is_scales ? NULL : from->entries[i].chosen); /* it stands in both entries */
  }
  free(from->entries);
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

static tsr_status check_storage(const char *function, tsr_dtype storage)
{
  static const tsr_dtype known[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I4};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (storage == known[i]) {
      return TSR_OK;
    }
  }
  return tsr_fail(TSR_ERR_ARGUMENT, "%s: a model is stored as f32, f16, bf16, i8 or i4, not as %s", function,
                  tsr_dtype_name(storage));
}

static tsr_status check_arguments(const tsr_model *model, const tsr_save_options *options, int own_weights)
{
  TSR_TRY(check_storage("tsr_model_save", options->storage));
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
  const int32_t is_whole = chosen.storage == TSR_I8 || chosen.storage == TSR_I4;
  source from = {
      .model = model, .storage = chosen.storage, .matrices_alone = is_whole, .read = read, .context = context};
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

tsr_status tsr_model_save_weights(const tsr_model *model, const char *folder, tsr_dtype storage,
                                  const tsr_calibration *calibration)
{
  if (!model || !folder || folder[0] == '\0') {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_model_save_weights: model and folder must not be NULL, nor the folder empty");
  }
  TSR_TRY(check_storage("tsr_model_save_weights", storage));
  TSR_TRY(tsr_model_check_weights(model));
  if (model->family == &tsr_family_ctranslate2 || model->family == &tsr_family_marian_npz) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: weights of %s have no form in model.safetensors", model->folder,
                    model->config.family);
  }
  char *weights = tsr_path_join(folder, "model.safetensors");
  source from = {.model = model,
                 .storage = storage,
                 .matrices_alone = 1,
                 .read = read_own,
                 .context = (void *)model,
                 .calibration = calibration};
  tsr_status status = weights ? tsr_folder_make(folder) : TSR_ERR_OUT_OF_MEMORY;
  if (status == TSR_OK) {
    status = write_weights(weights, &from);
  }
  free(weights);
  return status == TSR_OK ? tsr_checkpoint_check(model->checkpoint) : status;
}
