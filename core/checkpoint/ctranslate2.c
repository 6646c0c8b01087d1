/* SPDX-License-Identifier: Apache-2.0
 *
 * model.bin, little-endian and without padding; a text is its size with the zero that ends it (u16), and its bytes:
 *
 *     u32 version; from 2 on: text specification, u32 revision
 *     u32 number of variables, each: text name, u8 axes, u32 each axis' extent,
 *                                    u8 type, u32 bytes; up to version 3: u8 bytes of an element, u32 elements
 *                                    elements
 *     from 3 on: u32 number of aliases, each: text alias, text name of a variable
 */
#include "core/checkpoint/ctranslate2.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/json.h"

enum {
  LAST_VERSION = 6,
  ANY_VERSION = 64, /* a file that begins with more is none */
  MIN_VARIABLE = 2 + 1 + 1 + 1 + 4,
  MIN_ALIAS = 2 * 3,
  SUFFIXES = 2
};

/* By the number that stands in a file. */
static const struct {
  const char *name; /* as safetensors spells it */
  int32_t size;
  tsr_dtype dtype;
} types[] = {{"F32", 4, TSR_F32}, {"I8", 1, TSR_I8},   {"I16", 2, 0},
             {"I32", 4, TSR_I32}, {"F16", 2, TSR_F16}, {"BF16", 2, TSR_BF16}};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* An alias stands for the scales of the variable, too. */
static const char *const suffixes[SUFFIXES] = {"_scale", "_zero"};

typedef struct reader {
  const tsr_tensor_file *file;
  size_t at;
  uint32_t version;
} reader;

static int is_printable(const unsigned char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    if (text[i] < 0x20 || text[i] > 0x7e) {
      return 0;
    }
  }
  return 1;
}

/* 1 if a text of printable characters begins at byte `at`. */
static int is_text(const unsigned char *bytes, size_t size, size_t at)
{
  size_t n = size >= at + 2 ? (size_t)tsr_read_unsigned(bytes + at, 2) : 0;
  return n > 0 && n <= size - at - 2 && bytes[at + 2 + n - 1] == 0 && is_printable(bytes + at + 2, n - 1);
}

int tsr_ctranslate2_is(const unsigned char *bytes, size_t size)
{
  const uint64_t version = size >= 8 ? tsr_read_unsigned(bytes, 4) : 0;
  if (version == 0 || version > ANY_VERSION) {
    return 0;
  }
  return version == 1 ? tsr_read_unsigned(bytes + 4, 4) > 0 && is_text(bytes, size, 8) : is_text(bytes, size, 4);
}

tsr_status tsr_ctranslate2_check(const char *path, const unsigned char *bytes, size_t size)
{
  if (size == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the file is empty; expected a model of CTranslate2", path);
  }
  return tsr_ctranslate2_is(bytes, size)
             ? TSR_OK
             : tsr_fail(TSR_ERR_FORMAT,
                        "%s: expected a model of CTranslate2, which begins with its version and the name of its "
                        "specification: the file is truncated, damaged or of another kind",
                        path);
}

/* ---- parts of a file --------------------------------------------------------------------------------------------- */

static tsr_status fail_end(const reader *r, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: the file ends at byte %zu within %s: it is truncated or damaged", r->file->path,
                  r->file->size, what);
}

static tsr_status take(reader *r, size_t count, const char *what, const unsigned char **bytes)
{
  if (count > r->file->size - r->at) {
    return fail_end(r, what);
  }
  TSR_TRY(tsr_tensor_file_need(r->file, r->at, count));
  *bytes = r->file->bytes + r->at;
  r->at += count;
  return TSR_OK;
}

static tsr_status take_number(reader *r, int size, const char *what, uint32_t *number)
{
  const unsigned char *bytes = NULL;
  TSR_TRY(take(r, (size_t)size, what, &bytes));
  *number = (uint32_t)tsr_read_unsigned(bytes, size);
  return TSR_OK;
}

/* *text lives in the arena. */
static tsr_status take_text(reader *r, tsr_arena *arena, const char *what, const char **text)
{
  const unsigned char *bytes = NULL;
  uint32_t size = 0;
  const size_t begin = r->at;
  TSR_TRY(take_number(r, 2, what, &size));
  TSR_TRY(take(r, size, what, &bytes));
  if (size == 0 || bytes[size - 1] != 0 || memchr(bytes, 0, size - 1)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %s at byte %zu: expected a text that ends with its only zero", r->file->path,
                    what, begin);
  }
  char *copy = tsr_arena_text(arena, (const char *)bytes);
  if (!copy) {
    return tsr_fail_memory(size);
  }
  *text = copy;
  return TSR_OK;
}

/* A number of things, which take so many bytes at least. */
static tsr_status take_count(reader *r, size_t least, const char *what, uint32_t *count)
{
  TSR_TRY(take_number(r, 4, what, count));
  if (*count > (r->file->size - r->at) / least) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: %s is %" PRIu32 ", for which the %zu bytes that follow are too few: the file is truncated or "
                    "damaged",
                    r->file->path, what, *count, r->file->size - r->at);
  }
  return TSR_OK;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

static tsr_status fail_tensor(const reader *r, const tsr_checkpoint_tensor *tensor, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: %s", r->file->path, tsr_quote(tensor->name).text, what);
}

/* Fills in rank and shape, and the number of elements. */
static tsr_status take_shape(reader *r, tsr_checkpoint_tensor *tensor, uint64_t *elements)
{
  uint32_t rank = 0;
  int64_t extents[TSR_MAX_RANK] = {0};
  TSR_TRY(take_number(r, 1, "the shape of a tensor", &rank));
  *elements = 1;
  for (uint32_t axis = 0; axis < rank; axis++) {
    uint32_t extent = 0;
    TSR_TRY(take_number(r, 4, "the shape of a tensor", &extent));
    if (extent > 0 && *elements > UINT32_MAX / extent) {
      return fail_tensor(r, tensor, "its shape has more than 2^32 - 1 elements");
    }
    *elements *= extent;
    if (axis < TSR_MAX_RANK) {
      extents[axis] = (int64_t)extent;
    }
  }
  tensor->rank = (int32_t)rank;
  tensor->shape = tsr_shape_make(rank <= TSR_MAX_RANK ? tensor->rank : 0, extents);
  return TSR_OK;
}

/* Fills in type and size. */
static tsr_status take_type(reader *r, uint64_t elements, tsr_checkpoint_tensor *tensor)
{
  uint32_t number = 0, count = 0;
  TSR_TRY(take_number(r, 1, "the type of a tensor", &number));
  TSR_TRY(take_number(r, 4, "the size of a tensor", &count));
  uint32_t type = number;
  if (r->version < 4) { /* the bytes of an element in place of its type */
    type = number == 4 ? 0 : number == 1 ? 1 : number == 2 ? 2 : N_TYPES;
  }
  if (type >= N_TYPES) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: tensor %s: this build does not know the type number %" PRIu32,
                    r->file->path, tsr_quote(tensor->name).text, number);
  }
  const uint64_t size = elements * (uint64_t)types[type].size;
  const uint64_t found = r->version < 4 ? (uint64_t)count * (uint64_t)types[type].size : count;
  if (found != size) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: %" PRIu64 " bytes; its shape and type %s take %" PRIu64,
                    r->file->path, tsr_quote(tensor->name).text, found, types[type].name, size);
  }
  tensor->type = types[type].name;
  tensor->dtype = tensor->rank <= TSR_MAX_RANK ? types[type].dtype : 0;
  tensor->size = (size_t)size;
  return TSR_OK;
}

static tsr_status take_variable(reader *r, tsr_container *container)
{
  tsr_checkpoint_tensor *tensor = &container->tensors[container->count];
  uint64_t elements = 0;
  TSR_TRY(take_text(r, &container->arena, "the name of a tensor", &tensor->name));
  TSR_TRY(take_shape(r, tensor, &elements));
  TSR_TRY(take_type(r, elements, tensor));
  if (tensor->size > r->file->size - r->at) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: tensor %s: its %zu bytes reach beyond the file's %zu: the file is truncated or damaged",
                    r->file->path, tsr_quote(tensor->name).text, tensor->size, r->file->size);
  }
  tensor->path = r->file->path;
  tensor->bytes = r->file->bytes + r->at;
  r->at += tensor->size;
  tsr_container_pack(tensor);
  container->count++;
  return TSR_OK;
}

/* ---- aliases ----------------------------------------------------------------------------------------------------- */

/* Variables by name, while aliases are read. */
typedef struct name_index {
  tsr_checkpoint_tensor **sorted; /* [n] */
  size_t n;
} name_index;

static int compare_tensors(const void *a, const void *b)
{
  return strcmp((*(tsr_checkpoint_tensor *const *)a)->name, (*(tsr_checkpoint_tensor *const *)b)->name);
}

static int compare_key(const void *key, const void *tensor)
{
  return strcmp(key, (*(tsr_checkpoint_tensor *const *)tensor)->name);
}

static const tsr_checkpoint_tensor *find(const name_index *variables, const char *name)
{
  tsr_checkpoint_tensor **found =
      bsearch(name, variables->sorted, variables->n, sizeof *variables->sorted, compare_key);
  return found ? *found : NULL;
}

static tsr_status make_index(const tsr_container *container, name_index *variables)
{
  variables->n = (size_t)container->count;
  variables->sorted = malloc((variables->n + 1) * sizeof *variables->sorted);
  if (!variables->sorted) {
    return tsr_fail_memory((variables->n + 1) * sizeof *variables->sorted);
  }
  for (size_t i = 0; i < variables->n; i++) {
    variables->sorted[i] = &container->tensors[i];
  }
  qsort(variables->sorted, variables->n, sizeof *variables->sorted, compare_tensors);
  return TSR_OK;
}

static void add_alias(tsr_container *container, const char *alias, const tsr_checkpoint_tensor *of)
{
  tsr_checkpoint_tensor *tensor = &container->tensors[container->count++];
  *tensor = *of;
  tensor->name = alias;
}

/* No two tensors have one name. */
static tsr_status check_names(const reader *r, const tsr_container *container)
{
  name_index all = {NULL, 0};
  tsr_status status = make_index(container, &all);
  for (size_t i = 1; i < all.n && status == TSR_OK; i++) {
    if (strcmp(all.sorted[i - 1]->name, all.sorted[i]->name) == 0) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: two tensors have the name %s", r->file->path,
                        tsr_quote(all.sorted[i]->name).text);
    }
  }
  free(all.sorted);
  return status;
}

/* "a_scale" beside the alias "a", if the variable has such. */
static tsr_status add_suffix(tsr_container *container, const name_index *variables, const char *alias,
                             const tsr_checkpoint_tensor *of, const char *suffix)
{
  const size_t room = strlen(alias) + strlen(of->name) + strlen(suffix) + 1;
  char *name = tsr_arena_take(&container->arena, room);
  if (!name) {
    return tsr_fail_memory(room);
  }
  snprintf(name, room, "%s%s", of->name, suffix);
  const tsr_checkpoint_tensor *scale = find(variables, name);
  snprintf(name, room, "%s%s", alias, suffix);
  if (scale && !find(variables, name)) {
    add_alias(container, name, scale);
  }
  return TSR_OK;
}

/* An alias names a variable, never another alias: no circle can be. */
static tsr_status take_alias(reader *r, const name_index *variables, tsr_container *container)
{
  const char *alias = NULL, *name = NULL;
  TSR_TRY(take_text(r, &container->arena, "the name of an alias", &alias));
  TSR_TRY(take_text(r, &container->arena, "what an alias stands for", &name));
  const tsr_checkpoint_tensor *of = find(variables, name);
  if (!of || find(variables, alias)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the alias %s stands for %s: %s", r->file->path, tsr_quote(alias).text,
                    tsr_quote(name).text,
                    of ? "a variable has the alias' name" : "expected the name of a variable of the file");
  }
  add_alias(container, alias, of);
  for (int i = 0; i < SUFFIXES; i++) {
    TSR_TRY(add_suffix(container, variables, alias, of, suffixes[i]));
  }
  return TSR_OK;
}

/* The container has room for its variables alone: it gets more. */
static tsr_status take_aliases(reader *r, tsr_container *container)
{
  uint32_t n = 0;
  name_index variables = {NULL, 0};
  if (r->version < 3) {
    return TSR_OK;
  }
  TSR_TRY(take_count(r, MIN_ALIAS, "the number of aliases", &n));
  const tsr_checkpoint_tensor *known = container->tensors;
  const int32_t n_known = container->count;
  TSR_TRY(tsr_container_reserve(container, (size_t)n_known + (size_t)n * (1 + SUFFIXES)));
  memcpy(container->tensors, known, (size_t)n_known * sizeof *known);
  tsr_status status = make_index(container, &variables);
  for (uint32_t i = 0; i < n && status == TSR_OK; i++) {
    status = take_alias(r, &variables, container);
  }
  free(variables.sorted);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tsr_status keep_metadata(tsr_container *container, uint32_t version, const char *spec, uint32_t revision)
{
  char numbers[2][16];
  snprintf(numbers[0], sizeof numbers[0], "%" PRIu32, version);
  snprintf(numbers[1], sizeof numbers[1], "%" PRIu32, revision);
  container->metadata = json_pack("{s:s, s:s, s:s}", TSR_CTRANSLATE2_VERSION, numbers[0], TSR_CTRANSLATE2_SPEC, spec,
                                  TSR_CTRANSLATE2_REVISION, numbers[1]);
  return container->metadata ? TSR_OK : tsr_fail_memory(sizeof(json_t));
}

tsr_status tsr_ctranslate2_parse(const tsr_tensor_file *file, tsr_container *container)
{
  reader r = {.file = file};
  uint32_t revision = 1, n = 0;
  const char *spec = "";
  TSR_TRY(take_number(&r, 4, "the version", &r.version));
  if (r.version == 0 || r.version > LAST_VERSION) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: a model of CTranslate2 of the binary version %" PRIu32 "; this build reads 1 to %d",
                    file->path, r.version, (int)LAST_VERSION);
  }
  if (r.version >= 2) {
    TSR_TRY(take_text(&r, &container->arena, "the name of the specification", &spec));
    TSR_TRY(take_number(&r, 4, "the revision", &revision));
  }
  if (!tsr_utf8_is_valid(spec, strlen(spec))) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the name of the specification is not UTF-8", file->path);
  }
  TSR_TRY(keep_metadata(container, r.version, spec, revision));
  TSR_TRY(take_count(&r, MIN_VARIABLE, "the number of tensors", &n));
  TSR_TRY(tsr_container_reserve(container, n));
  for (uint32_t i = 0; i < n; i++) {
    TSR_TRY(take_variable(&r, container));
  }
  TSR_TRY(take_aliases(&r, container));
  TSR_TRY(check_names(&r, container));
  if (r.at != file->size) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu bytes after the last %s belong to nothing", file->path, file->size - r.at,
                    r.version < 3 ? "tensor" : "alias");
  }
  return TSR_OK;
}
