/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/safetensors_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors.h"
#include "tessera/files.h"

enum { LENGTH_SIZE = 8, ALIGNMENT = 8 };

/* An entry and its number in the caller's order. */
typedef struct place {
  const tsr_tensor_entry *entry;
  int32_t index;
  int64_t elements;
} place;

static int compare_places(const void *a, const void *b)
{
  const tsr_tensor_entry *x = ((const place *)a)->entry;
  const tsr_tensor_entry *y = ((const place *)b)->entry;
  size_t width_x = tsr_dtype_size(x->dtype), width_y = tsr_dtype_size(y->dtype);
  if (width_x != width_y) {
    return width_x > width_y ? -1 : 1;
  }
  return strcmp(x->name, y->name);
}

/* The order in which the tensors lie in the file; allocated. */
static tsr_status arrange(const char *path, const tsr_tensor_entry *entries, int32_t n_entries, place **places)
{
  place *list = calloc((size_t)n_entries + 1, sizeof *list);
  *places = list;
  if (!list) {
    return tsr_fail_memory(((size_t)n_entries + 1) * sizeof *list);
  }
  for (int32_t i = 0; i < n_entries; i++) {
    list[i] = (place){.entry = &entries[i], .index = i, .elements = tsr_shape_elements(&entries[i].shape)};
    size_t size = tsr_dtype_size(entries[i].dtype);
    if (size == 0) {
      return tsr_fail(TSR_ERR_DTYPE, "%s: tensor %s: there is no element type %d", path,
                      tsr_quote(entries[i].name).text, (int)entries[i].dtype);
    }
    if (list[i].elements < 0 || list[i].elements > INT64_MAX / (int64_t)size) {
      return tsr_fail(TSR_ERR_SHAPE, "%s: tensor %s: the shape is negative, or too large", path,
                      tsr_quote(entries[i].name).text);
    }
  }
  qsort(list, (size_t)n_entries, sizeof *list, compare_places);
  return TSR_OK;
}

/* The JSON of one tensor that begins at *offset, which is moved behind it; NULL without memory. */
static json_t *describe(const place *at, int64_t *offset)
{
  json_t *shape = json_array();
  for (int32_t axis = 0; axis < at->entry->shape.rank; axis++) {
    json_array_append_new(shape, json_integer(at->entry->shape.extent[axis]));
  }
  int64_t begin = *offset;
  *offset += at->elements * (int64_t)tsr_dtype_size(at->entry->dtype);
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tsr_safetensors_type(at->entry->dtype), "shape", shape,
                   "data_offsets", (json_int_t)begin, (json_int_t)*offset);
}

static tsr_status list_tensors(const char *path, const place *places, int32_t n_places, json_t *root)
{
  int64_t offset = 0;
  for (int32_t i = 0; i < n_places; i++) {
    const char *name = places[i].entry->name;
    int64_t size = places[i].elements * (int64_t)tsr_dtype_size(places[i].entry->dtype);
    if (size > INT64_MAX - offset) {
      return tsr_fail(TSR_ERR_SHAPE, "%s: tensor %s: with it the file has more than 2^63 - 1 bytes", path,
                      tsr_quote(name).text);
    }
    if (strcmp(name, TSR_SAFETENSORS_METADATA) == 0 || json_object_get(root, name)) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: tensor %s: the name is already taken", path, tsr_quote(name).text);
    }
    json_t *entry = describe(&places[i], &offset);
    if (!entry) {
      return tsr_fail_memory(sizeof(json_t));
    }
    if (json_object_set_new(root, name, entry) != 0) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: tensor %s: the name is not UTF-8", path, tsr_quote(name).text);
    }
  }
  return TSR_OK;
}

/* The header as text, padded with blanks; *header is allocated. */
static tsr_status print_header(const char *path, const json_t *metadata, const place *places, int32_t n_places,
                               char **header, size_t *size)
{
  json_t *root = json_object();
  if (!root) {
    return tsr_fail_memory(sizeof(json_t));
  }
  tsr_status status = TSR_OK;
  if (metadata && json_object_set(root, TSR_SAFETENSORS_METADATA, (json_t *)metadata) != 0) {
    status = tsr_fail_memory(sizeof(json_t));
  }
  if (status == TSR_OK) {
    status = list_tensors(path, places, n_places, root);
  }
  char *text = status == TSR_OK ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  if (status != TSR_OK) {
    return status;
  }
  if (!text) {
    return tsr_fail_memory(sizeof(json_t));
  }

  size_t length = strlen(text);
  size_t padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  char *longer = padded > TSR_SAFETENSORS_MAX_HEADER ? NULL : realloc(text, padded + 1);
  if (!longer) {
    free(text);
    return padded > TSR_SAFETENSORS_MAX_HEADER
               ? tsr_fail(TSR_ERR_ARGUMENT, "%s: the header would take %zu bytes: expected at most %" PRIu64, path,
                          padded, TSR_SAFETENSORS_MAX_HEADER)
               : tsr_fail_memory(padded + 1);
  }
  memset(longer + length, ' ', padded - length);
  *header = longer;
  *size = padded;
  return TSR_OK;
}

static tsr_status write_header(tsr_file_writer *file, const char *header, size_t size)
{
  unsigned char length[LENGTH_SIZE];
  for (int i = 0; i < LENGTH_SIZE; i++) {
    length[i] = (unsigned char)((uint64_t)size >> (8 * i));
  }
  TSR_TRY(tsr_file_writer_write(file, length, sizeof length));
  return tsr_file_writer_write(file, header, size);
}

static tsr_status write_tensors(tsr_file_writer *file, const place *places, int32_t n_places, void *elements,
                                tsr_tensor_source_fn read, void *context)
{
  for (int32_t i = 0; i < n_places; i++) {
    size_t size = tsr_dtype_size(places[i].entry->dtype);
    for (int64_t first = 0; first < places[i].elements; first += TSR_WRITE_ELEMENTS) {
      int64_t left = places[i].elements - first;
      int64_t count = left < TSR_WRITE_ELEMENTS ? left : TSR_WRITE_ELEMENTS;
      TSR_TRY(read(context, places[i].index, first, count, elements));
      TSR_TRY(tsr_file_writer_write(file, elements, (size_t)count * size));
    }
  }
  return TSR_OK;
}

static tsr_status write_file(const char *path, const char *header, size_t header_size, const place *places,
                             int32_t n_places, tsr_tensor_source_fn read, void *context)
{
  size_t room = TSR_WRITE_ELEMENTS * sizeof(float); /* of the widest type */
  void *elements = malloc(room);
  if (!elements) {
    return tsr_fail_memory(room);
  }
  tsr_file_writer *file = NULL;
  tsr_status status = tsr_file_writer_open(path, &file);
  if (status == TSR_OK) {
    status = write_header(file, header, header_size);
  }
  if (status == TSR_OK) {
    status = write_tensors(file, places, n_places, elements, read, context);
  }
  if (status == TSR_OK) {
    status = tsr_file_writer_commit(&file);
  }
  tsr_file_writer_abandon(file);
  free(elements);
  return status;
}

tsr_status tsr_safetensors_write(const char *path, const json_t *metadata, const tsr_tensor_entry *entries,
                                 int32_t n_entries, tsr_tensor_source_fn read, void *context)
{
  place *places = NULL;
  char *header = NULL;
  size_t header_size = 0;
  tsr_status status = arrange(path, entries, n_entries, &places);
  if (status == TSR_OK) {
    status = print_header(path, metadata, places, n_entries, &header, &header_size);
  }
  if (status == TSR_OK) {
    status = write_file(path, header, header_size, places, n_entries, read, context);
  }
  free(header);
  free(places);
  return status;
}
