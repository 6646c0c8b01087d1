/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/safetensors.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/json.h"

enum { LENGTH_SIZE = 8 };

/* Every type of the form; those without a tsr_dtype may lie in a file, but nothing can be done with them. */
static const struct {
  const char *name;
  int32_t bits;
  tsr_dtype dtype;
} types[] = {
    {"F32", 32, TSR_F32}, {"F16", 16, TSR_F16}, {"BF16", 16, TSR_BF16}, {"I8", 8, TSR_I8},     {"I32", 32, TSR_I32},
    {"F64", 64, 0},       {"I64", 64, 0},       {"U64", 64, 0},         {"U32", 32, 0},        {"I16", 16, 0},
    {"U16", 16, 0},       {"U8", 8, 0},         {"BOOL", 8, 0},         {"C64", 64, 0},        {"F8_E5M2", 8, 0},
    {"F8_E4M3", 8, 0},    {"F8_E8M0", 8, 0},    {"F8_E5M2FNUZ", 8, 0},  {"F8_E4M3FNUZ", 8, 0}, {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},    {"F4", 4, 0},
};

const char *tsr_safetensors_type(tsr_dtype dtype)
{
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (types[i].dtype == dtype && dtype != 0) {
      return types[i].name;
    }
  }
  return NULL;
}

typedef struct header {
  const char *path;
  const unsigned char *data; /* what follows the header */
  uint64_t data_size;
  json_t *json;
} header;

static tsr_status read_header(const tsr_tensor_file *file, header *out)
{
  const char *path = file->path;
  const unsigned char *bytes = file->bytes;
  size_t size = file->size;
  if (size < LENGTH_SIZE) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: %zu bytes are too few for a safetensors file: expected 8 bytes of header length first", path,
                    size);
  }
  TSR_TRY(tsr_tensor_file_need(file, 0, LENGTH_SIZE));
  uint64_t length = tsr_read_unsigned(bytes, LENGTH_SIZE);
  if (length > size - LENGTH_SIZE) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: the header's length is %" PRIu64
                    " bytes, but only %zu follow it: the file is truncated, or not a safetensors file",
                    path, length, size - LENGTH_SIZE);
  }
  if (length > TSR_SAFETENSORS_MAX_HEADER) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the header's length is %" PRIu64 " bytes: expected at most %" PRIu64, path,
                    length, TSR_SAFETENSORS_MAX_HEADER);
  }
  TSR_TRY(tsr_tensor_file_need(file, LENGTH_SIZE, length));
  if (length == 0 || bytes[LENGTH_SIZE] != '{') {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the header does not begin with '{': not a safetensors file", path);
  }
  out->path = path;
  out->data = bytes + LENGTH_SIZE + length;
  out->data_size = size - LENGTH_SIZE - length;
  return tsr_json_parse(path, bytes + LENGTH_SIZE, (size_t)length, &out->json);
}

static tsr_status check_metadata(const char *path, const json_t *metadata)
{
  if (!json_is_object(metadata)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %s: expected an object of texts, found %s", path, TSR_SAFETENSORS_METADATA,
                    tsr_json_show(metadata).text);
  }
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)metadata, key, value)
  {
    if (!json_is_string(value)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: %s: %s: expected a text, found %s", path, TSR_SAFETENSORS_METADATA,
                      tsr_quote(key).text, tsr_json_show(value).text);
    }
  }
  return TSR_OK;
}

static tsr_status fail_tensor(const char *path, const char *name, const char *expected, const json_t *found)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: expected %s, found %s", path, tsr_quote(name).text, expected,
                  tsr_json_show(found).text);
}

static int is_size(const json_t *value)
{
  return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Fills in rank and shape, and the number of elements. */
static tsr_status read_shape(const char *path, const char *name, const json_t *list, tsr_checkpoint_tensor *tensor,
                             uint64_t *elements)
{
  static const char expected[] = "\"shape\" as a list of sizes";
  if (!json_is_array(list) || json_array_size(list) > INT32_MAX) {
    return fail_tensor(path, name, expected, list);
  }
  tensor->rank = (int32_t)json_array_size(list);
  int64_t extent[TSR_MAX_RANK] = {0};
  *elements = 1;
  for (int32_t axis = 0; axis < tensor->rank; axis++) {
    const json_t *value = json_array_get(list, (size_t)axis);
    if (!is_size(value)) {
      return fail_tensor(path, name, expected, list);
    }
    uint64_t size = (uint64_t)json_integer_value(value);
    if (size > 0 && *elements > INT64_MAX / size) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: the shape %s has more than 2^63 - 1 elements", path,
                      tsr_quote(name).text, tsr_json_show(list).text);
    }
    *elements *= size;
    if (axis < TSR_MAX_RANK) {
      extent[axis] = (int64_t)size;
    }
  }
  tensor->shape = tsr_shape_make(tensor->rank <= TSR_MAX_RANK ? tensor->rank : 0, extent);
  return TSR_OK;
}

/* Fills in type and dtype, and the bytes that so many elements take. */
static tsr_status read_type(const char *path, const char *name, const json_t *value, uint64_t elements,
                            tsr_checkpoint_tensor *tensor, uint64_t *size)
{
  if (!json_is_string(value)) {
    return fail_tensor(path, name, "\"dtype\" as a text", value);
  }
  size_t i = 0;
  while (i < sizeof types / sizeof types[0] && strcmp(types[i].name, json_string_value(value)) != 0) {
    i++;
  }
  if (i == sizeof types / sizeof types[0]) {
    return fail_tensor(path, name, "a known \"dtype\" such as \"F32\"", value);
  }
  uint64_t bits = (uint64_t)types[i].bits;
  if (elements > UINT64_MAX / bits || elements * bits % CHAR_BIT != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: %" PRIu64 " elements of type %s are no whole number of bytes", path,
                    tsr_quote(name).text, elements, types[i].name);
  }
  *size = elements * bits / CHAR_BIT;
  tensor->type = types[i].name;
  tensor->dtype = tensor->rank <= TSR_MAX_RANK ? types[i].dtype : 0;
  return TSR_OK;
}

static tsr_status read_offsets(const header *from, const char *name, const json_t *list, uint64_t expected_size,
                               tsr_checkpoint_tensor *tensor)
{
  const json_t *first = json_array_get(list, 0);
  const json_t *second = json_array_get(list, 1);
  if (json_array_size(list) != 2 || !is_size(first) || !is_size(second)) {
    return fail_tensor(from->path, name, "\"data_offsets\" as a list of two sizes", list);
  }
  uint64_t begin = (uint64_t)json_integer_value(first);
  uint64_t end = (uint64_t)json_integer_value(second);
  if (end < begin) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: data_offsets [%" PRIu64 ", %" PRIu64 "] are reversed", from->path,
                    tsr_quote(name).text, begin, end);
  }
  if (end > from->data_size) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor %s: data_offsets [%" PRIu64 ", %" PRIu64 "] reach beyond the file's %" PRIu64
                    " bytes of data: the file is truncated or damaged",
                    from->path, tsr_quote(name).text, begin, end, from->data_size);
  }
  if (end - begin != expected_size) {
    char shape[96];
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor %s: data_offsets [%" PRIu64 ", %" PRIu64 "] span %" PRIu64 " bytes: expected %" PRIu64
                    " for type %s and %s",
                    from->path, tsr_quote(name).text, begin, end, end - begin, expected_size, tensor->type,
                    tensor->rank <= TSR_MAX_RANK ? tsr_shape_print(&tensor->shape, shape, sizeof shape) : "its shape");
  }
  tensor->bytes = from->data + begin;
  tensor->size = (size_t)expected_size;
  tsr_container_pack(tensor);
  return TSR_OK;
}

static tsr_status read_tensor(const header *from, const char *name, const json_t *entry, tsr_checkpoint_tensor *tensor)
{
  if (!json_is_object(entry)) {
    return fail_tensor(from->path, name, "an object with dtype, shape and data_offsets", entry);
  }
  uint64_t elements = 0;
  uint64_t size = 0;
  TSR_TRY(read_shape(from->path, name, json_object_get(entry, "shape"), tensor, &elements));
  TSR_TRY(read_type(from->path, name, json_object_get(entry, "dtype"), elements, tensor, &size));
  return read_offsets(from, name, json_object_get(entry, "data_offsets"), size, tensor);
}

static int compare_places(const void *a, const void *b)
{
  const tsr_checkpoint_tensor *x = *(const tsr_checkpoint_tensor *const *)a;
  const tsr_checkpoint_tensor *y = *(const tsr_checkpoint_tensor *const *)b;
  if (x->bytes != y->bytes) {
    return (const char *)x->bytes < (const char *)y->bytes ? -1 : 1;
  }
  return x->size < y->size ? -1 : x->size > y->size;
}

/* The tensors fill the data: no overlap, and no byte that belongs to none (where a second file could hide). */
static tsr_status check_tiling(const header *from, const tsr_container *file)
{
  const tsr_checkpoint_tensor **order = malloc(((size_t)file->count + 1) * sizeof *order);
  if (!order) {
    return tsr_fail_memory(((size_t)file->count + 1) * sizeof *order);
  }
  for (int32_t i = 0; i < file->count; i++) {
    order[i] = &file->tensors[i];
  }
  qsort(order, (size_t)file->count, sizeof *order, compare_places);

  tsr_status status = TSR_OK;
  uint64_t filled = 0;
  for (int32_t i = 0; i < file->count && status == TSR_OK; i++) {
    uint64_t begin = (uint64_t)((const unsigned char *)order[i]->bytes - from->data);
    const char *name = order[i]->name;
    if (begin < filled) {
      status =
          tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: data_offsets [%" PRIu64 ", %" PRIu64 "] overlap those of tensor %s",
                   from->path, tsr_quote(name).text, begin, begin + order[i]->size, tsr_quote(order[i - 1]->name).text);
    } else if (begin > filled) {
      status = tsr_fail(TSR_ERR_FORMAT,
                        "%s: tensor %s: %" PRIu64 " bytes before its data_offsets [%" PRIu64 ", %" PRIu64
                        "] belong to no tensor",
                        from->path, tsr_quote(name).text, begin - filled, begin, begin + order[i]->size);
    }
    filled = begin + order[i]->size;
  }
  if (status == TSR_OK && filled != from->data_size) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: %" PRIu64 " bytes after the last tensor%s%s belong to no tensor", from->path,
                      from->data_size - filled, file->count > 0 ? " " : "",
                      file->count > 0 ? tsr_quote(order[file->count - 1]->name).text : "");
  }
  free(order);
  return status;
}

/* Makes the table and copies the names, so that the JSON can go. */
static tsr_status copy_names(const json_t *root, tsr_container *file)
{
  TSR_TRY(tsr_container_reserve(file, json_object_size(root)));
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)root, key, value)
  {
    if (strcmp(key, TSR_SAFETENSORS_METADATA) == 0) {
      continue;
    }
    const char *name = tsr_arena_text(&file->arena, key);
    if (!name) {
      return tsr_fail_memory(strlen(key) + 1);
    }
    file->tensors[file->count++].name = name;
  }
  return TSR_OK;
}

static tsr_status read_tensors(const header *from, tsr_container *file)
{
  json_t *metadata = json_object_get(from->json, TSR_SAFETENSORS_METADATA);
  if (metadata) {
    TSR_TRY(check_metadata(from->path, metadata));
  }
  file->metadata = json_incref(metadata);
  TSR_TRY(copy_names(from->json, file));
  for (int32_t i = 0; i < file->count; i++) {
    tsr_checkpoint_tensor *tensor = &file->tensors[i];
    tensor->path = from->path;
    TSR_TRY(read_tensor(from, tensor->name, json_object_get(from->json, tensor->name), tensor));
  }
  return check_tiling(from, file);
}

tsr_status tsr_safetensors_parse(const tsr_tensor_file *file, tsr_container *container)
{
  header from = {0};
  tsr_status status = read_header(file, &from);
  if (status == TSR_OK) {
    status = read_tensors(&from, container);
  }
  json_decref(from.json);
  return status;
}
