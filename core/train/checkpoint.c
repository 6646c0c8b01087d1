/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/replace.h"
#include "core/checkpoint/safetensors_write.h"

/* What the header says beside the tensors: the version of what this file defines, and the scalars as JSON. Version 1
 * had no checksums. */
static const char version_key[] = "tessera.training";
static const char version[] = "2";
static const char version_without_checksums[] = "1";
static const char scalars_key[] = "scalars";

/* A tensor of bytes, the last of the file, as its type is the narrowest: CRC-32 numbers, little-endian, of the text of
 * the scalars and of the bytes of each other tensor, in the order of their names. */
static const char checksums_name[] = "tessera.checksums";
enum { CHECKSUM_BYTES = 4 };

/* "step-", digits, ".safetensors" */
static const char step_prefix[] = "step-";
static const char file_suffix[] = ".safetensors";
enum { STEP_DIGITS = 12 };

static int64_t largest(const tsr_state_tensor *tensors, int32_t n_tensors)
{
  int64_t most = 0;
  for (int32_t i = 0; i < n_tensors; i++) {
    int64_t elements = tsr_shape_elements(&tensors[i].shape);
    most = elements > most ? elements : most;
  }
  return most;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* Whole tensors on one side, pieces on the other. */
typedef struct source {
  const tsr_state_tensor *tensors;
  tsr_state_source_fn read;
  void *context;
  float *whole; /* room for the largest tensor */
  int32_t n_tensors;
  uint32_t of_scalars;
  uint32_t *checksums; /* by tensor, of those that were read */
  const char **names;  /* sorted */
} source;

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the tensors, sorted; allocated. NULL without memory, the message being set. */
static const char **sort_names(const tsr_state_tensor *tensors, int32_t n_tensors)
{
  const char **names = calloc((size_t)n_tensors + 1, sizeof *names);
  if (!names) {
    (void)tsr_fail_memory(((size_t)n_tensors + 1) * sizeof *names);
    return NULL;
  }
  for (int32_t i = 0; i < n_tensors; i++) {
    names[i] = tensors[i].name;
  }
  qsort(names, (size_t)n_tensors, sizeof *names, compare_names);
  return names;
}

static const char **find_name(const char *name, const char **names, int32_t n_names)
{
  return bsearch(&name, names, (size_t)n_names, sizeof *names, compare_names);
}

static void put_checksum(unsigned char *at, uint32_t checksum)
{
  for (int i = 0; i < CHECKSUM_BYTES; i++) {
    at[i] = (unsigned char)(checksum >> (8 * i));
  }
}

/* The content of the tensor of checksums, once all others were read. */
static void write_checksums(const source *from, unsigned char *bytes)
{
  put_checksum(bytes, from->of_scalars);
  for (int32_t i = 0; i < from->n_tensors; i++) {
    const char **place = find_name(from->tensors[i].name, from->names, from->n_tensors);
    put_checksum(bytes + (place - from->names + 1) * CHECKSUM_BYTES, from->checksums[i]);
  }
}

/* tsr_tensor_source_fn */
static tsr_status read_piece(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  const source *from = context;
  if (index == from->n_tensors) {
    unsigned char *bytes = calloc((size_t)from->n_tensors + 1, CHECKSUM_BYTES);
    if (!bytes) {
      return tsr_fail_memory(((size_t)from->n_tensors + 1) * CHECKSUM_BYTES);
    }
    write_checksums(from, bytes);
    memcpy(elements, bytes + first, (size_t)count);
    free(bytes);
    return TSR_OK;
  }
  const tsr_state_tensor *tensor = &from->tensors[index];
  if (first == 0) {
    const int64_t n = tsr_shape_elements(&tensor->shape);
    tsr_status status = from->read(from->context, index, from->whole, n);
    TSR_TRY(tsr_fail_context(status, "%s", tensor->name));
    from->checksums[index] = (uint32_t)crc32_z(0, (const unsigned char *)from->whole, (size_t)n * sizeof(float));
  }
  memcpy(elements, from->whole + first, (size_t)count * sizeof(float));
  return TSR_OK;
}

/* NULL without memory. */
static json_t *make_metadata(const json_t *scalars, uint32_t *checksum)
{
  char *text = json_dumps(scalars, JSON_COMPACT);
  *checksum = text ? (uint32_t)crc32_z(0, (const unsigned char *)text, strlen(text)) : 0;
  json_t *metadata = text ? json_pack("{s:s, s:s}", version_key, version, scalars_key, text) : NULL;
  free(text);
  return metadata;
}

tsr_status tsr_training_save(const char *path, const tsr_state_tensor *tensors, int32_t n_tensors,
                             const json_t *scalars, tsr_state_source_fn read, void *context)
{
  if (!json_is_object(scalars)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_save: the scalars should be a JSON object");
  }
  size_t room = ((size_t)largest(tensors, n_tensors) + 1) * sizeof(float);
  source from = {.tensors = tensors,
                 .read = read,
                 .context = context,
                 .whole = malloc(room),
                 .n_tensors = n_tensors,
                 .checksums = calloc((size_t)n_tensors + 1, sizeof *from.checksums),
                 .names = sort_names(tensors, n_tensors)};
  tsr_tensor_entry *entries = calloc((size_t)n_tensors + 1, sizeof *entries);
  json_t *metadata = make_metadata(scalars, &from.of_scalars);
  int has_memory = from.whole && from.checksums && from.names && entries && metadata;
  tsr_status status = has_memory ? TSR_OK : tsr_fail_memory(room);
  for (int32_t i = 0; i < n_tensors && status == TSR_OK; i++) {
    entries[i] = (tsr_tensor_entry){.name = tensors[i].name, .dtype = TSR_F32, .shape = tensors[i].shape};
  }
  if (status == TSR_OK) {
    entries[n_tensors] = (tsr_tensor_entry){
        .name = checksums_name, .dtype = TSR_I8, .shape = TSR_SHAPE(((int64_t)n_tensors + 1) * CHECKSUM_BYTES)};
    status = tsr_safetensors_write(path, metadata, entries, n_tensors + 1, read_piece, &from);
  }
  json_decref(metadata);
  free(entries);
  free(from.names);
  free(from.checksums);
  free(from.whole);
  return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static tsr_status checksum_of(const tsr_checkpoint_tensor *tensor, unsigned char *portion, size_t room,
                              uint32_t *checksum)
{
  uLong sum = 0;
  for (size_t at = 0; at < tensor->size;) {
    size_t n = tensor->size - at < room ? tensor->size - at : room;
    TSR_TRY(tsr_checkpoint_copy(tensor, at, n, portion));
    sum = crc32_z(sum, portion, n);
    at += n;
  }
  *checksum = (uint32_t)sum;
  return TSR_OK;
}

static tsr_status fail_damaged(const char *path, const char *what)
{
  return tsr_fail(
      TSR_ERR_FORMAT,
      "%s: %s: its checksum is not the one that was written: the file is damaged; take an older state, such as "
      "one of step-NUMBER.safetensors",
      path, what);
}

/* Holds the scalars and all tensors against their checksums. */
static tsr_status compare_checksums(const tsr_checkpoint *checkpoint, const tsr_checkpoint_tensor *table,
                                    unsigned char *checksums, unsigned char *portion, size_t room)
{
  const char *path = tsr_checkpoint_path(checkpoint);
  const char *scalars = tsr_checkpoint_metadata(checkpoint, scalars_key);
  TSR_TRY(tsr_checkpoint_copy(table, 0, table->size, checksums));
  if (!scalars || (uint32_t)crc32_z(0, (const unsigned char *)scalars, strlen(scalars)) !=
                      tsr_read_unsigned(checksums, CHECKSUM_BYTES)) {
    return fail_damaged(path, scalars_key);
  }
  for (int32_t i = 0, place = 1; i < tsr_checkpoint_count(checkpoint); i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    uint32_t found = 0;
    if (tensor == table) {
      continue;
    }
    TSR_TRY(checksum_of(tensor, portion, room, &found));
    if (found != tsr_read_unsigned(checksums + (size_t)place++ * CHECKSUM_BYTES, CHECKSUM_BYTES)) {
      return fail_damaged(path, tsr_quote(tensor->name).text);
    }
  }
  return TSR_OK;
}

static tsr_status check_content(const tsr_checkpoint *checkpoint)
{
  enum { PORTION = 1 << 20 };
  const tsr_checkpoint_tensor *table = tsr_checkpoint_find(checkpoint, checksums_name);
  size_t expected = (size_t)tsr_checkpoint_count(checkpoint) * CHECKSUM_BYTES; /* the table stands for the scalars */
  if (!table || table->dtype != TSR_I8 || table->size != expected) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the tensor %s is missing, or has not %zu bytes: the file is damaged",
                    tsr_checkpoint_path(checkpoint), checksums_name, expected);
  }
  unsigned char *checksums = malloc(table->size);
  unsigned char *portion = malloc(PORTION);
  tsr_status status = checksums && portion ? compare_checksums(checkpoint, table, checksums, portion, PORTION)
                                           : tsr_fail_memory(table->size + PORTION);
  free(portion);
  free(checksums);
  return status;
}

static tsr_status open_state(const char *path, tsr_checkpoint **checkpoint)
{
  TSR_TRY(tsr_checkpoint_open(path, checkpoint));
  const char *found = tsr_checkpoint_metadata(*checkpoint, version_key);
  tsr_status status = TSR_OK;
  if (!found) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: not the state of a training: a safetensors file without the key %s", path,
                      version_key);
  } else if (strcmp(found, version) == 0) {
    status = check_content(*checkpoint);
  } else if (strcmp(found, version_without_checksums) != 0) {
    status =
        tsr_fail(TSR_ERR_FORMAT, "%s: the state of a training in version %s of the format: this build reads %s and %s",
                 path, tsr_quote(found).text, version_without_checksums, version);
  }
  if (status != TSR_OK) {
    tsr_checkpoint_close(*checkpoint);
    *checkpoint = NULL;
  }
  return status;
}

static tsr_status check_tensors(const tsr_checkpoint *checkpoint, const tsr_state_tensor *tensors, int32_t n_tensors)
{
  const char *path = tsr_checkpoint_path(checkpoint);
  for (int32_t i = 0; i < n_tensors; i++) {
    char wanted[96], has[96];
    const tsr_checkpoint_tensor *found = tsr_checkpoint_find(checkpoint, tensors[i].name);
    if (!found) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: the tensor %s is missing: the state is of another model or other settings",
                      path, tsr_quote(tensors[i].name).text);
    }
    if (found->dtype != TSR_F32 || !tsr_shape_equal(&found->shape, &tensors[i].shape)) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "%s: the tensor %s is %s %s; expected F32 %s: the state is of another model or other settings",
                      path, tsr_quote(found->name).text, found->type, tsr_shape_print(&found->shape, has, sizeof has),
                      tsr_shape_print(&tensors[i].shape, wanted, sizeof wanted));
    }
  }
  return TSR_OK;
}

/* All that the file holds is expected. */
static tsr_status check_no_more(const tsr_checkpoint *checkpoint, const tsr_state_tensor *tensors, int32_t n_tensors)
{
  const char **names = sort_names(tensors, n_tensors);
  tsr_status status = names ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  for (int32_t i = 0; i < tsr_checkpoint_count(checkpoint) && status == TSR_OK; i++) {
    const char *name = tsr_checkpoint_at(checkpoint, i)->name;
    if (strcmp(name, checksums_name) != 0 && !find_name(name, names, n_tensors)) {
      status =
          tsr_fail(TSR_ERR_FORMAT, "%s: the tensor %s is not expected: the state is of another model or other settings",
                   tsr_checkpoint_path(checkpoint), tsr_quote(name).text);
    }
  }
  free(names);
  return status;
}

static tsr_status read_scalars(const tsr_checkpoint *checkpoint, json_t **scalars)
{
  const char *text = tsr_checkpoint_metadata(checkpoint, scalars_key);
  if (!text) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the key %s is missing", tsr_checkpoint_path(checkpoint), scalars_key);
  }
  return tsr_fail_context(tsr_json_parse(scalars_key, text, strlen(text), scalars), "%s",
                          tsr_checkpoint_path(checkpoint));
}

/* The mean of one tensor in all files. */
static tsr_status read_mean(tsr_checkpoint *const *files, int32_t n_files, const char *name, int64_t n, double *sums,
                            float *elements)
{
  for (int32_t f = 0; f < n_files; f++) {
    TSR_TRY(tsr_checkpoint_read(tsr_checkpoint_find(files[f], name), 0, n, TSR_F32, elements));
    for (int64_t i = 0; i < n && n_files > 1; i++) {
      sums[i] = (f > 0 ? sums[i] : 0.0) + (double)elements[i];
    }
  }
  for (int64_t i = 0; i < n && n_files > 1; i++) {
    elements[i] = (float)(sums[i] / n_files);
  }
  return TSR_OK;
}

static tsr_status hand_over(tsr_checkpoint *const *files, int32_t n_files, const tsr_state_tensor *tensors,
                            int32_t n_tensors, tsr_state_sink_fn write, void *context)
{
  size_t most = (size_t)largest(tensors, n_tensors) + 1;
  float *elements = malloc(most * sizeof *elements);
  double *sums = malloc((n_files > 1 ? most : 1) * sizeof *sums);
  tsr_status status = elements && sums ? TSR_OK : tsr_fail_memory(most * sizeof *sums);
  for (int32_t i = 0; i < n_tensors && status == TSR_OK; i++) {
    int64_t n = tsr_shape_elements(&tensors[i].shape);
    status = read_mean(files, n_files, tensors[i].name, n, sums, elements);
    if (status == TSR_OK) {
      status = tsr_fail_context(write(context, i, elements, n), "%s", tensors[i].name);
    }
  }
  free(sums);
  free(elements);
  return status;
}

tsr_status tsr_training_load(const char *path, const tsr_state_tensor *tensors, int32_t n_tensors,
                             tsr_state_sink_fn write, void *context, json_t **scalars)
{
  *scalars = NULL;
  tsr_checkpoint *file = NULL;
  TSR_TRY(open_state(path, &file));
  json_t *read = NULL;
  tsr_status status = check_tensors(file, tensors, n_tensors);
  if (status == TSR_OK) {
    status = check_no_more(file, tensors, n_tensors);
  }
  if (status == TSR_OK) {
    status = read_scalars(file, &read);
  }
  if (status == TSR_OK) {
    status = hand_over(&file, 1, tensors, n_tensors, write, context);
  }
  tsr_checkpoint_close(file);
  if (status != TSR_OK) {
    json_decref(read);
    read = NULL;
  }
  *scalars = read;
  return status;
}

tsr_status tsr_training_average(const char *const *paths, int32_t n_paths, const tsr_state_tensor *tensors,
                                int32_t n_tensors, tsr_state_sink_fn write, void *context)
{
  if (n_paths < 1) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_average: there is nothing to average");
  }
  tsr_checkpoint **files = calloc((size_t)n_paths, sizeof *files);
  tsr_status status = files ? TSR_OK : tsr_fail_memory((size_t)n_paths * sizeof *files);
  for (int32_t i = 0; i < n_paths && status == TSR_OK; i++) {
    status = open_state(paths[i], &files[i]);
    if (status == TSR_OK) {
      status = check_tensors(files[i], tensors, n_tensors);
    }
  }
  if (status == TSR_OK) {
    status = hand_over(files, n_paths, tensors, n_tensors, write, context);
  }
  for (int32_t i = 0; files && i < n_paths; i++) {
    tsr_checkpoint_close(files[i]);
  }
  free(files);
  return status;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

char *tsr_training_path(const char *folder, int64_t step)
{
  char name[64];
  if (step >= 0) {
    snprintf(name, sizeof name, "%s%0*" PRId64 "%s", step_prefix, STEP_DIGITS, step, file_suffix);
  } else {
    snprintf(name, sizeof name, "%s%s", step == TSR_TRAINING_BEST ? "best" : "last", file_suffix);
  }
  return tsr_path_join(folder, name);
}

/* The step of a file's name, or -1. end: what follows the name's digits. */
static int64_t step_of(const char *name, const char *end)
{
  size_t prefix = sizeof step_prefix - 1;
  if (strncmp(name, step_prefix, prefix) != 0) {
    return -1;
  }
  size_t digits = strspn(name + prefix, "0123456789");
  int is_ours = digits == STEP_DIGITS || (digits > STEP_DIGITS && digits <= 18 && name[prefix] != '0');
  if (!is_ours || strcmp(name + prefix + digits, end) != 0) {
    return -1;
  }
  return strtoll(name + prefix, NULL, 10);
}

static int compare_steps(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* The steps of the files whose names end so, ascending. */
static tsr_status list_steps(const char *folder, const char *end, int64_t **steps, int32_t *n_steps)
{
  *steps = NULL;
  *n_steps = 0;
  DIR *listing = opendir(folder);
  if (!listing && errno == ENOENT) {
    return TSR_OK;
  }
  if (!listing) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be listed: %s", folder, strerror(errno));
  }
  tsr_status status = TSR_OK;
  int32_t room = 0;
  const struct dirent *entry;
  while (status == TSR_OK && (entry = readdir(listing))) {
    int64_t step = step_of(entry->d_name, end);
    if (step < 0) {
      continue;
    }
    if (*n_steps == room) {
      room = room ? 2 * room : 16;
      int64_t *longer = realloc(*steps, (size_t)room * sizeof *longer);
      status = longer ? TSR_OK : tsr_fail_memory((size_t)room * sizeof *longer);
      *steps = longer ? longer : *steps;
    }
    if (status == TSR_OK) {
      (*steps)[(*n_steps)++] = step;
    }
  }
  closedir(listing);
  if (status != TSR_OK) {
    free(*steps);
    *steps = NULL;
    *n_steps = 0;
  } else if (*n_steps > 0) {
    qsort(*steps, (size_t)*n_steps, sizeof **steps, compare_steps);
  }
  return status;
}

tsr_status tsr_training_steps(const char *folder, int64_t **steps, int32_t *n_steps)
{
  return list_steps(folder, file_suffix, steps, n_steps);
}

/* Removes the first n of the files whose names end so. */
static tsr_status remove_steps(const char *folder, const char *end, const int64_t *steps, int32_t n)
{
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    char name[96];
    snprintf(name, sizeof name, "%s%0*" PRId64 "%s", step_prefix, STEP_DIGITS, steps[i], end);
    char *path = tsr_path_join(folder, name);
    if (!path) {
      status = TSR_ERR_OUT_OF_MEMORY;
    } else if (unlink(path) != 0 && errno != ENOENT) {
      status = tsr_fail(TSR_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    }
    free(path);
  }
  return status;
}

/* Removes all but the `kept` latest of the files whose names end so. */
static tsr_status prune(const char *folder, const char *end, int32_t kept)
{
  int64_t *steps;
  int32_t n_steps;
  TSR_TRY(list_steps(folder, end, &steps, &n_steps));
  tsr_status status = remove_steps(folder, end, steps, n_steps > kept ? n_steps - kept : 0);
  free(steps);
  return status;
}

tsr_status tsr_training_prune(const char *folder, int32_t kept)
{
  char partial[64];
  snprintf(partial, sizeof partial, "%s%s", file_suffix, TSR_PARTIAL_SUFFIX);
  TSR_TRY(prune(folder, partial, 0));
  return prune(folder, file_suffix, kept > 0 ? kept : 0);
}
