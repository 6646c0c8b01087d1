/* SPDX-License-Identifier: Apache-2.0
 *
 * What torch.save makes of a state dict (pytorch_model.bin): a zip file, in one folder of which lie data.pkl, which
 * tells of the tensors, and data/KEY, the elements of each storage. Tensors may be views: several of one storage, from
 * any place on, with any strides.
 */
#include "core/checkpoint/torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/pickle.h"

static const char pickle_name[] = "data.pkl";

typedef struct source {
  const char *path;
  const tsr_zip *zip;
  const char *folder; /* within the zip file, with the slash at its end */
  tsr_container *into;
} source;

/* The entry FOLDER + name; NULL if there is none. */
static tsr_status find_entry(source *from, const char *name, tsr_zip_entry **entry)
{
  size_t room = strlen(from->folder) + strlen(name) + 1;
  char *path = malloc(room);
  if (!path) {
    return tsr_fail_memory(room);
  }
  snprintf(path, room, "%s%s", from->folder, name);
  *entry = tsr_zip_find(from->zip, path);
  free(path);
  return TSR_OK;
}

/* The one data.pkl; its folder becomes the source's. */
static tsr_status find_pickle(source *from, tsr_zip_entry **entry)
{
  size_t suffix = strlen(pickle_name);
  *entry = NULL;
  for (size_t i = 0; i < from->zip->count; i++) {
    const char *name = from->zip->entries[i].name;
    size_t size = strlen(name);
    size_t lead = size >= suffix ? size - suffix : 0;
    if (strcmp(name + lead, pickle_name) != 0 || (lead > 0 && name[lead - 1] != '/')) {
      continue;
    }
    if (*entry) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: entries %s and %s: expected one %s", from->path,
                      tsr_quote((*entry)->name).text, tsr_quote(name).text, pickle_name);
    }
    char *folder = tsr_arena_text(&from->into->arena, name);
    if (!folder) {
      return tsr_fail_memory(size + 1);
    }
    folder[lead] = 0;
    from->folder = folder;
    *entry = &from->zip->entries[i];
  }
  if (!*entry) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: this zip file holds no %s: it is none of torch.save", from->path, pickle_name);
  }
  return TSR_OK;
}

/* Files of a machine of the other kind say so. */
static tsr_status check_byte_order(source *from)
{
  tsr_zip_entry *entry = NULL;
  const unsigned char *content = NULL;
  TSR_TRY(find_entry(from, "byteorder", &entry));
  if (!entry) {
    return TSR_OK;
  }
  TSR_TRY(tsr_zip_content(from->zip, entry, &content));
  if (entry->size != 6 || memcmp(content, "little", 6) != 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: entry %s: the file's numbers are not little-endian", from->path,
                    tsr_quote(entry->name).text);
  }
  return TSR_OK;
}

static tsr_status fail_tensor(const source *from, const tsr_pickle_tensor *tensor, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: %s", from->path, tsr_quote(tensor->name).text, what);
}

static tsr_status fail_beyond(const source *from, const tsr_pickle_tensor *tensor, uint64_t element)
{
  return tsr_fail(TSR_ERR_FORMAT,
                  "%s: tensor %s: it reaches to element %" PRIu64 " of its storage %s, which has %" PRIu64, from->path,
                  tsr_quote(tensor->name).text, element, tsr_quote(tensor->key).text, tensor->elements);
}

/* The elements of the storage. */
static tsr_status find_storage(source *from, const tsr_pickle_tensor *tensor, const unsigned char **bytes)
{
  char name[64];
  tsr_zip_entry *entry = NULL;
  int size = snprintf(name, sizeof name, "data/%s", tensor->key);
  if (size > 0 && (size_t)size < sizeof name) {
    TSR_TRY(find_entry(from, name, &entry));
  }
  if (!entry) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: its storage %s is not in the file", from->path,
                    tsr_quote(tensor->name).text, tsr_quote(tensor->key).text);
  }
  uint64_t width = (uint64_t)tensor->type->size;
  if (entry->size / width != tensor->elements || entry->size % width != 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor %s: its storage %s has %zu bytes; expected %" PRIu64 " elements of type %s", from->path,
                    tsr_quote(tensor->name).text, tsr_quote(tensor->key).text, entry->size, tensor->elements,
                    tensor->type->type);
  }
  return tsr_zip_place(from->zip, entry, bytes);
}

/* Counts the elements, and checks that all of them lie in the storage. */
static tsr_status check_view(const source *from, const tsr_pickle_tensor *tensor, uint64_t *elements)
{
  uint64_t last = tensor->offset; /* the place of the last element */
  *elements = 1;
  if (tensor->offset > tensor->elements) {
    return fail_beyond(from, tensor, tensor->offset);
  }
  for (int32_t axis = 0; axis < tensor->rank; axis++) {
    if (tensor->extents[axis] == 0) {
      *elements = 0;
    }
  }
  for (int32_t axis = 0; axis<tensor->rank && * elements> 0; axis++) {
    uint64_t extent = (uint64_t)tensor->extents[axis];
    uint64_t stride = (uint64_t)tensor->strides[axis];
    if (*elements > INT64_MAX / 16 / extent || (stride > 0 && extent - 1 > (INT64_MAX / 16 - last) / stride)) {
      return fail_tensor(from, tensor, "its sizes and strides are beyond any memory");
    }
    *elements *= extent;
    last += (extent - 1) * stride;
  }
  if (*elements > 0 && last >= tensor->elements) {
    return fail_beyond(from, tensor, last);
  }
  /* An expanded tensor repeats its elements: honest weights do not, and a small file could claim any size. */
  if (*elements > tensor->elements) {
    return fail_tensor(from, tensor, "it has more elements than its storage");
  }
  return TSR_OK;
}

static tsr_status read_tensor(source *from, const tsr_pickle_tensor *tensor, tsr_checkpoint_tensor *out)
{
  const unsigned char *storage = NULL;
  uint64_t elements = 0;
  TSR_TRY(find_storage(from, tensor, &storage));
  TSR_TRY(check_view(from, tensor, &elements));
  int usable = tensor->rank <= TSR_MAX_RANK;
  *out = (tsr_checkpoint_tensor){.name = tensor->name,
                                 .dtype = usable ? tensor->type->dtype : 0,
                                 .type = tensor->type->type,
                                 .rank = tensor->rank,
                                 .shape = tsr_shape_make(usable ? tensor->rank : 0, tensor->extents),
                                 .bytes = storage + tensor->offset * (uint64_t)tensor->type->size,
                                 .size = (size_t)(elements * (uint64_t)tensor->type->size),
                                 .path = from->path};
  for (int32_t axis = 0; usable && axis < tensor->rank; axis++) {
    out->strides[axis] = tensor->strides[axis];
  }
  return TSR_OK;
}

tsr_status tsr_torch_parse(const tsr_zip *zip, tsr_container *container)
{
  source from = {.path = zip->path, .zip = zip, .into = container};
  tsr_zip_entry *entry = NULL;
  const unsigned char *pickle = NULL;
  tsr_pickle_tensor *tensors = NULL;
  size_t n = 0;
  TSR_TRY(find_pickle(&from, &entry));
  TSR_TRY(check_byte_order(&from));
  TSR_TRY(tsr_zip_content(zip, entry, &pickle));
  TSR_TRY(tsr_zip_verify(zip, entry, pickle));
  TSR_TRY(tsr_pickle_read(zip->path, pickle, entry->size, &container->arena, &tensors, &n));
  TSR_TRY(tsr_container_reserve(container, n));
  for (size_t i = 0; i < n; i++) {
    TSR_TRY(read_tensor(&from, &tensors[i], &container->tensors[container->count++]));
  }
  return TSR_OK;
}
