/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/container_parse.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/tensor_file.h"

/* What a folder may hold: the first that is there is read. */
static const struct {
  const char *name;
  int is_index; /* 1: lists the files */
} places[] = {{"model.safetensors", 0},
              {"model.safetensors.index.json", 1},
              {"pytorch_model.bin", 0},
              {"pytorch_model.bin.index.json", 1}};

enum { N_PLACES = sizeof places / sizeof places[0] };

static const char index_map[] = "weight_map";

/* One file of a checkpoint. */
typedef struct part {
  char *path;
  tsr_tensor_file file;
  tsr_container content;
} part;

struct tsr_checkpoint {
  char *path;  /* what was opened */
  char *index; /* the file that lists the parts, or NULL */
  part *parts;
  int32_t n_parts;
  tsr_checkpoint_tensor *tensors; /* sorted by name */
  int32_t count;
};

static char *copy_text(const char *text)
{
  char *copy = strdup(text);
  if (!copy) {
    (void)tsr_fail_memory(strlen(text) + 1);
  }
  return copy;
}

static tsr_status create(const char *path, int32_t n_parts, tsr_checkpoint **checkpoint)
{
  tsr_checkpoint *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->path = copy_text(path);
  made->parts = calloc((size_t)n_parts + 1, sizeof *made->parts);
  made->n_parts = n_parts;
  *checkpoint = made;
  return made->path && made->parts ? TSR_OK : tsr_fail_memory(((size_t)n_parts + 1) * sizeof *made->parts);
}

void tsr_checkpoint_close(tsr_checkpoint *checkpoint)
{
  if (!checkpoint) {
    return;
  }
  for (int32_t i = 0; checkpoint->parts && i < checkpoint->n_parts; i++) {
    tsr_container_finish(&checkpoint->parts[i].content);
    tsr_tensor_file_close(&checkpoint->parts[i].file);
    free(checkpoint->parts[i].path);
  }
  free(checkpoint->parts);
  free(checkpoint->tensors);
  free(checkpoint->index);
  free(checkpoint->path);
  free(checkpoint);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(((const tsr_checkpoint_tensor *)a)->name, ((const tsr_checkpoint_tensor *)b)->name);
}

static int compare_key(const void *key, const void *tensor)
{
  return strcmp(key, ((const tsr_checkpoint_tensor *)tensor)->name);
}

/* Of what a map does not place, nothing tells which one counts. */
static tsr_status check_once(const tsr_checkpoint *checkpoint)
{
  for (int32_t i = 1; i < checkpoint->count; i++) {
    const tsr_checkpoint_tensor *a = &checkpoint->tensors[i - 1], *b = &checkpoint->tensors[i];
    if (strcmp(a->name, b->name) == 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s is also in %s, and %s of the index places it nowhere", b->path,
                      tsr_quote(b->name).text, a->path, index_map);
    }
  }
  return TSR_OK;
}

/* Makes the checkpoint's table from its parts. With a map (tensor -> file), what the map places elsewhere is left out
 * of a part; what it does not know is taken, as by the original, which reads whole parts. */
static tsr_status gather(tsr_checkpoint *checkpoint, const json_t *map)
{
  size_t total = 0;
  for (int32_t p = 0; p < checkpoint->n_parts; p++) {
    total += (size_t)checkpoint->parts[p].content.count;
  }
  checkpoint->tensors = calloc(total + 1, sizeof *checkpoint->tensors);
  if (!checkpoint->tensors) {
    return tsr_fail_memory((total + 1) * sizeof *checkpoint->tensors);
  }
  for (int32_t p = 0; p < checkpoint->n_parts; p++) {
    const part *from = &checkpoint->parts[p];
    const char *file_name = tsr_path_name(from->path);
    for (int32_t i = 0; i < from->content.count; i++) {
      const char *place = json_string_value(json_object_get(map, from->content.tensors[i].name));
      if (!place || strcmp(place, file_name) == 0) {
        checkpoint->tensors[checkpoint->count++] = from->content.tensors[i];
      }
    }
  }
  qsort(checkpoint->tensors, (size_t)checkpoint->count, sizeof *checkpoint->tensors, compare_names);
  return map ? check_once(checkpoint) : TSR_OK;
}

/* `path` becomes the part's. */
static tsr_status open_part(char *path, part *into)
{
  into->path = path;
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  TSR_TRY(tsr_tensor_file_open(path, &into->file));
  return tsr_container_parse(&into->file, &into->content);
}

static tsr_status open_single(char *path, tsr_checkpoint *checkpoint)
{
  TSR_TRY(open_part(path, &checkpoint->parts[0]));
  return gather(checkpoint, NULL);
}

static int compare_texts(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of a map, checked and sorted. *names is allocated; the texts are the map's. */
static tsr_status list_shards(const char *path, const json_t *map, const char ***names, int32_t *n_names)
{
  const char **list = calloc(json_object_size(map) + 1, sizeof *list);
  if (!list) {
    return tsr_fail_memory((json_object_size(map) + 1) * sizeof *list);
  }
  *names = list;
  size_t count = 0;
  const char *tensor;
  json_t *value;
  json_object_foreach((json_t *)map, tensor, value)
  {
    if (!json_is_string(value) || !tsr_path_is_plain(json_string_value(value))) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: %s: tensor %s: expected the name of a file in the same folder, found %s",
                      path, index_map, tsr_quote(tensor).text, tsr_json_show(value).text);
    }
    list[count++] = json_string_value(value);
  }
  qsort(list, count, sizeof *list, compare_texts);
  int32_t distinct = 0;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || strcmp(list[i], list[i - 1]) != 0) {
      list[distinct++] = list[i];
    }
  }
  *n_names = distinct;
  return TSR_OK;
}

static tsr_status check_all_found(const tsr_checkpoint *checkpoint, const char *index, const json_t *map)
{
  const char *tensor;
  json_t *value;
  json_object_foreach((json_t *)map, tensor, value)
  {
    if (!tsr_checkpoint_find(checkpoint, tensor)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s/%s: tensor %s is missing: %s places it there", checkpoint->path,
                      json_string_value(value), tsr_quote(tensor).text, index);
    }
  }
  return TSR_OK;
}

static tsr_status open_shards(const char *folder, const char *index, const json_t *map, const char *const *names,
                              tsr_checkpoint *checkpoint)
{
  for (int32_t i = 0; i < checkpoint->n_parts; i++) {
    TSR_TRY(open_part(tsr_path_join(folder, names[i]), &checkpoint->parts[i]));
  }
  TSR_TRY(gather(checkpoint, map));
  return check_all_found(checkpoint, index, map);
}

/* path: FOLDER/name */
static tsr_status open_index(const char *folder, const char *name, const char *path, tsr_checkpoint **checkpoint)
{
  tsr_config index;
  TSR_TRY(tsr_config_open(path, &index));
  const json_t *map = json_object_get(index.root, index_map);
  const char **names = NULL;
  int32_t n_names = 0;
  tsr_status status = TSR_OK;
  if (!json_is_object(map)) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: %s: expected an object of tensors and file names, found %s", path, index_map,
                      tsr_json_show(map).text);
  }
  if (status == TSR_OK) {
    status = list_shards(path, map, &names, &n_names);
  }
  if (status == TSR_OK) {
    status = create(folder, n_names, checkpoint);
  }
  if (status == TSR_OK) {
    (*checkpoint)->index = copy_text(path);
    status = (*checkpoint)->index ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  }
  if (status == TSR_OK) {
    status = open_shards(folder, name, map, names, *checkpoint);
  }
  free(names);
  tsr_config_finish(&index);
  return status;
}

/* Where the folder's weights lie: FOLDER/places[*place].name, allocated. TSR_ERR_IO: nowhere. */
static tsr_status find_place(const char *folder, int32_t *place, char **path)
{
  for (*place = 0; *place < N_PLACES; ++*place) {
    *path = tsr_path_join(folder, places[*place].name);
    if (!*path) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    if (tsr_path_exists(*path)) {
      return TSR_OK;
    }
    free(*path);
    *path = NULL;
  }
  return tsr_fail(TSR_ERR_IO, "%s: expected weights in %s, %s, %s or %s, found none of them", folder, places[0].name,
                  places[1].name, places[2].name, places[3].name);
}

static tsr_status open_folder(const char *folder, tsr_checkpoint **checkpoint)
{
  int32_t place = 0;
  char *path = NULL;
  TSR_TRY(find_place(folder, &place, &path));
  tsr_status status;
  if (places[place].is_index) {
    status = open_index(folder, places[place].name, path, checkpoint);
  } else {
    status = create(folder, 1, checkpoint);
    if (status == TSR_OK) {
      status = open_single(path, *checkpoint);
      path = NULL;
    }
  }
  free(path);
  return status;
}

/* Hands over a checkpoint that was made completely, and closes another. */
static tsr_status settle(tsr_status status, tsr_checkpoint *made, tsr_checkpoint **checkpoint)
{
  if (status != TSR_OK) {
    tsr_checkpoint_close(made);
    made = NULL;
  }
  *checkpoint = made;
  return status;
}

tsr_status tsr_checkpoint_open(const char *path, tsr_checkpoint **checkpoint)
{
  tsr_checkpoint *made = NULL;
  tsr_status status;
  if (tsr_path_is_folder(path)) {
    status = open_folder(path, &made);
  } else {
    status = create(path, 1, &made);
    if (status == TSR_OK) {
      status = open_single(copy_text(path), made);
    }
  }
  return settle(status, made, checkpoint);
}

static tsr_status parse_single(const void *bytes, size_t size, tsr_checkpoint *checkpoint)
{
  part *only = &checkpoint->parts[0];
  only->path = copy_text(checkpoint->path);
  if (!only->path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  only->file = tsr_tensor_file_of_memory(only->path, bytes, size);
  TSR_TRY(tsr_container_parse(&only->file, &only->content));
  return gather(checkpoint, NULL);
}

tsr_status tsr_checkpoint_parse(const char *name, const void *bytes, size_t size, tsr_checkpoint **checkpoint)
{
  tsr_checkpoint *made = NULL;
  tsr_status status = create(name, 1, &made);
  if (status == TSR_OK) {
    status = parse_single(bytes, size, made);
  }
  return settle(status, made, checkpoint);
}

tsr_status tsr_checkpoint_check(const tsr_checkpoint *checkpoint)
{
  for (int32_t i = 0; i < checkpoint->n_parts; i++) {
    TSR_TRY(tsr_tensor_file_check(&checkpoint->parts[i].file));
  }
  return TSR_OK;
}

int tsr_checkpoint_exists(const char *folder)
{
  int32_t place = 0;
  char *path = NULL;
  int found = find_place(folder, &place, &path) == TSR_OK;
  free(path);
  return found;
}

void tsr_checkpoint_describe_sized(const tsr_checkpoint_tensor *tensor, tsr_checkpoint_tensor_info *info, size_t size)
{
  const tsr_checkpoint_tensor_info known = {
      .name = tensor->name, .type = tensor->type, .dtype = tensor->dtype, .rank = tensor->rank, .shape = tensor->shape};
  tsr_sized_fill(&known, sizeof known, info, size);
}

const char *tsr_checkpoint_path(const tsr_checkpoint *checkpoint)
{
  return checkpoint->index ? checkpoint->index : checkpoint->parts[0].path;
}

int32_t tsr_checkpoint_count(const tsr_checkpoint *checkpoint)
{
  return checkpoint->count;
}

const tsr_checkpoint_tensor *tsr_checkpoint_at(const tsr_checkpoint *checkpoint, int32_t index)
{
  return &checkpoint->tensors[index];
}

const tsr_checkpoint_tensor *tsr_checkpoint_find(const tsr_checkpoint *checkpoint, const char *name)
{
  return bsearch(name, checkpoint->tensors, (size_t)checkpoint->count, sizeof *checkpoint->tensors, compare_key);
}

const char *tsr_checkpoint_metadata(const tsr_checkpoint *checkpoint, const char *key)
{
  const char *value = NULL;
  for (int32_t i = 0; i < checkpoint->n_parts && !value; i++) {
    value = json_string_value(json_object_get(checkpoint->parts[i].content.metadata, key));
  }
  return value;
}

tsr_checkpoint_tensor tsr_checkpoint_transpose(const tsr_checkpoint_tensor *tensor)
{
  tsr_checkpoint_tensor turned = *tensor;
  for (int32_t axis = 0; axis < 2; axis++) {
    turned.shape.extent[axis] = tensor->shape.extent[1 - axis];
    turned.strides[axis] = tensor->strides[1 - axis];
  }
  return turned;
}

static int is_packed(const tsr_checkpoint_tensor *tensor)
{
  int64_t stride = 1;
  for (int32_t axis = tensor->shape.rank - 1; axis >= 0; axis--) {
    if (tensor->shape.extent[axis] > 1 && tensor->strides[axis] != stride) {
      return 0;
    }
    stride *= tensor->shape.extent[axis];
  }
  return 1;
}

tsr_status tsr_checkpoint_copy(const tsr_checkpoint_tensor *tensor, uint64_t at, size_t size, void *out)
{
  if (tensor->bytes) {
    memcpy(out, (const char *)tensor->bytes + at, size);
    return TSR_OK;
  }
  return tsr_tensor_file_read(tensor->file, tensor->at + at, size, out);
}

/* Elements that follow one another. */
static tsr_status widen_packed(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, size_t element,
                               tsr_dtype dtype, void *out)
{
  enum { PORTION = 1 << 18, SMALL = 1024 }; /* bytes that are converted at a time; that need no allocation */
  char few[SMALL];
  if (tensor->bytes) {
    return tsr_convert(tensor->dtype, (const char *)tensor->bytes + (size_t)first * element, dtype, out, count);
  }
  if (tensor->dtype == dtype) {
    return tsr_checkpoint_copy(tensor, (uint64_t)first * element, (size_t)count * element, out);
  }
  const size_t all = (size_t)count * element, room = all < PORTION ? all : PORTION;
  char *portion = room <= sizeof few ? few : malloc(room);
  tsr_status status = portion ? TSR_OK : tsr_fail_memory(room);
  char *to = out;
  for (int64_t done = 0; done < count && status == TSR_OK;) {
    int64_t n = (int64_t)(room / element);
    n = n < count - done ? n : count - done;
    status = tsr_checkpoint_copy(tensor, (uint64_t)(first + done) * element, (size_t)n * element, portion);
    if (status == TSR_OK) {
      status = tsr_convert(tensor->dtype, portion, dtype, to, n);
    }
    to += (size_t)n * tsr_dtype_size(dtype);
    done += n;
  }
  if (portion != few) {
    free(portion);
  }
  return status;
}

/* A box of a tensor that lies apart: whole but for the range of rows [begin, end) of axis 0, of which elements
 * number first .. first+count-1 (row-major, of the tensor) are wanted. */
typedef struct box {
  const tsr_checkpoint_tensor *tensor;
  size_t element;
  int64_t first;
  int64_t count;
  int64_t begin[TSR_MAX_RANK];
  int64_t end[TSR_MAX_RANK];
  int64_t step[TSR_MAX_RANK]; /* from one index of an axis to the next, in elements of the row-major tensor */
  int32_t inner;              /* the axis along which the elements are nearest to each other */
} box;

static box box_of(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, size_t element)
{
  box b = {.tensor = tensor, .element = element, .first = first, .count = count, .inner = -1};
  int64_t step = 1;
  for (int32_t axis = tensor->shape.rank - 1; axis >= 0; axis--) {
    b.end[axis] = tensor->shape.extent[axis];
    b.step[axis] = step;
    step *= tensor->shape.extent[axis];
    if (tensor->shape.extent[axis] > 1 && (b.inner < 0 || tensor->strides[axis] < tensor->strides[b.inner])) {
      b.inner = axis;
    }
  }
  b.begin[0] = first / b.step[0];
  b.end[0] = (first + count - 1) / b.step[0] + 1;
  return b;
}

/* Reads the run of elements along the inner axis at index `at` of the others, and puts each to its place in `out`. */
static tsr_status collect_run(const box *b, const int64_t *at, char *run, char *out)
{
  const int64_t stride = b->tensor->strides[b->inner];
  const int64_t n = b->end[b->inner] - b->begin[b->inner];
  uint64_t place = 0;
  int64_t number = -b->first;
  for (int32_t axis = 0; axis < b->tensor->shape.rank; axis++) {
    int64_t index = axis == b->inner ? b->begin[axis] : at[axis];
    place += (uint64_t)(index * b->tensor->strides[axis]);
    number += index * b->step[axis];
  }
  TSR_TRY(tsr_checkpoint_copy(b->tensor, place * b->element, (size_t)((n - 1) * stride + 1) * b->element, run));
  for (int64_t i = 0; i < n; i++, number += b->step[b->inner]) {
    if (number >= 0 && number < b->count) {
      memcpy(out + (size_t)number * b->element, run + (size_t)(i * stride) * b->element, b->element);
    }
  }
  return TSR_OK;
}

/* Collects elements that lie apart, in the order in which they lie in the file. run: room for a run of the box. */
static tsr_status collect(const box *b, char *run, char *out)
{
  int64_t at[TSR_MAX_RANK];
  memcpy(at, b->begin, sizeof at);
  int32_t axis = 0;
  while (axis >= 0) {
    TSR_TRY(collect_run(b, at, run, out));
    for (axis = b->tensor->shape.rank - 1; axis >= 0; axis--) {
      if (axis != b->inner && ++at[axis] < b->end[axis]) {
        break;
      }
      at[axis] = b->begin[axis];
    }
  }
  return TSR_OK;
}

static tsr_status widen_apart(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, size_t element,
                              tsr_dtype dtype, void *out)
{
  enum { AT_ONCE = 1 << 18 }; /* elements that are collected at a time */
  int64_t most = count < AT_ONCE ? count : AT_ONCE;
  int64_t reach = 0; /* elements of the longest run */
  for (int64_t done = 0; done < count; done += most) {
    box b = box_of(tensor, first + done, count - done < most ? count - done : most, element);
    int64_t run = (b.end[b.inner] - b.begin[b.inner] - 1) * tensor->strides[b.inner] + 1;
    reach = run > reach ? run : reach;
  }
  char *together = malloc((size_t)most * element);
  char *run = malloc((size_t)reach * element);
  char *to = out;
  tsr_status status = together && run ? TSR_OK : tsr_fail_memory((size_t)(most + reach) * element);
  for (int64_t done = 0; done < count && status == TSR_OK; done += most) {
    int64_t n = count - done < most ? count - done : most;
    box b = box_of(tensor, first + done, n, element);
    status = collect(&b, run, together);
    if (status == TSR_OK) {
      status = tsr_convert(tensor->dtype, together, dtype, to, n);
    }
    to += (size_t)n * tsr_dtype_size(dtype);
  }
  free(run);
  free(together);
  return status;
}

tsr_status tsr_checkpoint_read(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, tsr_dtype dtype,
                               void *out)
{
  size_t element = tsr_dtype_size(tensor->dtype);
  if (element == 0) {
    return tsr_fail(TSR_ERR_DTYPE, "%s: tensor %s: type %s of rank %d cannot be read", tensor->path,
                    tsr_quote(tensor->name).text, tensor->type, (int)tensor->rank);
  }
  int64_t elements = (int64_t)(tensor->size / element);
  if (first < 0 || count < 0 || first > elements || count > elements - first) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: tensor %s: %" PRId64 " elements from %" PRId64 " on: it has %" PRId64,
                    tensor->path, tsr_quote(tensor->name).text, count, first, elements);
  }
  if (count == 0) {
    return TSR_OK;
  }
  tsr_status status = is_packed(tensor) ? widen_packed(tensor, first, count, element, dtype, out)
                                        : widen_apart(tensor, first, count, element, dtype, out);
  return status == TSR_ERR_IO ? status
                              : tsr_fail_context(status, "%s: tensor %s", tensor->path, tsr_quote(tensor->name).text);
}
