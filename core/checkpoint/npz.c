/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files of NumPy arrays. Each entry NAME.npy: the magic \x93NUMPY, the version (two bytes), the header's length
 * (two bytes in version 1, four afterwards), the header, which is a Python dictionary with "descr", "fortran_order" and
 * "shape", and the elements. Other entries are left alone.
 */
#include "core/checkpoint/npz.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/json.h"

static const char suffix[] = ".npy";

enum { MAGIC_SIZE = 6, PREFIX_SIZE = 10 /* of version 1 */, MAX_HEADER = 65536 };

/* '|' where the order of the bytes does not matter. */
static const struct {
  const char *descr;
  const char *type; /* as safetensors spells it */
  int32_t size;
  tsr_dtype dtype;
} types[] = {
    {"<f4", "F32", 4, TSR_F32}, {"<f2", "F16", 2, TSR_F16}, {"|i1", "I8", 1, TSR_I8}, {"<i4", "I32", 4, TSR_I32},
    {"<f8", "F64", 8, 0},       {"<i8", "I64", 8, 0},       {"<u8", "U64", 8, 0},     {"<u4", "U32", 4, 0},
    {"<i2", "I16", 2, 0},       {"<u2", "U16", 2, 0},       {"|u1", "U8", 1, 0},      {"|b1", "BOOL", 1, 0},
};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* The text of a header. */
typedef struct reader {
  const char *path;
  const char *name; /* of the tensor */
  const char *at;
  const char *end;
} reader;

/* What a header says. */
typedef struct header {
  int32_t type; /* number in `types`; -1: not said yet, likewise the next two */
  int32_t fortran;
  int32_t rank;
  int64_t extents[TSR_MAX_RANK];
  uint64_t elements;
} header;

static tsr_status fail_header(const reader *r, const char *expected)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: the header of its array: expected %s", r->path,
                  tsr_quote(r->name).text, expected);
}

static void skip_blanks(reader *r)
{
  while (r->at < r->end && strchr(" \n\t", *r->at) && *r->at) {
    r->at++;
  }
}

/* Skips a character if it comes next, blanks before it. */
static int skip(reader *r, char wanted)
{
  skip_blanks(r);
  if (r->at == r->end || *r->at != wanted) {
    return 0;
  }
  r->at++;
  return 1;
}

/* A text in quotes, without escapes. */
static int take_text(reader *r, const char **text, size_t *size)
{
  skip_blanks(r);
  char quote = r->at < r->end ? *r->at : 0;
  if (quote != '\'' && quote != '"') {
    return 0;
  }
  const char *close = memchr(r->at + 1, quote, (size_t)(r->end - r->at - 1));
  if (!close) {
    return 0;
  }
  *text = r->at + 1;
  *size = (size_t)(close - *text);
  r->at = close + 1;
  return 1;
}

static int is_text(const char *text, size_t size, const char *wanted)
{
  return size == strlen(wanted) && memcmp(text, wanted, size) == 0;
}

/* A single byte has no order: Marian writes "<i1" where NumPy writes "|i1". */
static int is_descr(const char *text, size_t size, const char *descr)
{
  int is_byte = size == 3 && text[2] == '1' && strchr("<>=|", text[0]) != NULL && text[0] != '\0';
  return is_byte ? memcmp(text + 1, descr + 1, 2) == 0 : is_text(text, size, descr);
}

static int skip_word(reader *r, const char *word)
{
  size_t size = strlen(word);
  skip_blanks(r);
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0) {
    return 0;
  }
  r->at += size;
  return 1;
}

static tsr_status read_descr(reader *r, header *h)
{
  const char *text = NULL;
  size_t size = 0;
  if (!take_text(r, &text, &size)) {
    return fail_header(r, "\"descr\" as a text");
  }
  for (h->type = 0; h->type < N_TYPES && !is_descr(text, size, types[h->type].descr); h->type++) {
    ;
  }
  if (h->type < N_TYPES) {
    return TSR_OK;
  }
  char shown[24] = {0};
  memcpy(shown, text, size < sizeof shown ? size : sizeof shown - 1);
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: tensor %s: this build does not know the type %s of NumPy", r->path,
                  tsr_quote(r->name).text, tsr_quote(shown).text);
}

static tsr_status read_extent(reader *r, header *h)
{
  uint64_t extent = 0;
  const char *first = r->at;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    if (extent > INT64_MAX / 16) {
      return fail_header(r, "a shape of sizes below 2^60");
    }
    extent = 10 * extent + (uint64_t)(*r->at - '0');
  }
  if (r->at == first) {
    return fail_header(r, "\"shape\" as a tuple of sizes");
  }
  (void)skip(r, 'L'); /* as Python 2 wrote long numbers */
  if (extent > 0 && h->elements > INT64_MAX / 16 / extent) {
    return fail_header(r, "a shape of fewer than 2^59 elements");
  }
  h->elements *= extent;
  if (h->rank < TSR_MAX_RANK) {
    h->extents[h->rank] = (int64_t)extent;
  }
  h->rank++;
  return TSR_OK;
}

static tsr_status read_shape(reader *r, header *h)
{
  if (!skip(r, '(')) {
    return fail_header(r, "\"shape\" as a tuple of sizes");
  }
  h->rank = 0;
  h->elements = 1;
  while (!skip(r, ')')) {
    TSR_TRY(read_extent(r, h));
    skip_blanks(r);
    if (!skip(r, ',') && (r->at == r->end || *r->at != ')')) {
      return fail_header(r, "\"shape\" as a tuple of sizes");
    }
    skip_blanks(r);
  }
  return TSR_OK;
}

static tsr_status read_pair(reader *r, header *h)
{
  const char *key = NULL;
  size_t size = 0;
  if (!take_text(r, &key, &size) || !skip(r, ':')) {
    return fail_header(r, "a dictionary with texts as keys");
  }
  if (is_text(key, size, "descr") && h->type < 0) {
    return read_descr(r, h);
  }
  if (is_text(key, size, "shape") && h->rank < 0) {
    return read_shape(r, h);
  }
  if (!is_text(key, size, "fortran_order") || h->fortran >= 0) {
    return fail_header(r, "\"descr\", \"fortran_order\" and \"shape\", each once");
  }
  h->fortran = skip_word(r, "True");
  return h->fortran || skip_word(r, "False") ? TSR_OK : fail_header(r, "\"fortran_order\" as True or False");
}

static tsr_status read_header(reader *r, header *h)
{
  *h = (header){.type = -1, .fortran = -1, .rank = -1};
  if (!skip(r, '{')) {
    return fail_header(r, "a dictionary");
  }
  while (!skip(r, '}')) {
    TSR_TRY(read_pair(r, h));
    if (skip(r, ',')) {
      continue;
    }
    skip_blanks(r);
    if (r->at == r->end || *r->at != '}') {
      return fail_header(r, "',' or '}'");
    }
  }
  skip_blanks(r);
  if (r->at != r->end) {
    return fail_header(r, "nothing after the dictionary");
  }
  return h->type >= 0 && h->fortran >= 0 && h->rank >= 0
             ? TSR_OK
             : fail_header(r, "\"descr\", \"fortran_order\" and \"shape\", each once");
}

/* Finds the header's text in an array of `size` bytes, and the elements behind it. */
static tsr_status open_array(const tsr_zip *zip, const tsr_zip_entry *entry, const unsigned char *array, reader *r,
                             const unsigned char **data)
{
  enum { LONGEST_PREFIX = PREFIX_SIZE + 2 };
  size_t size = entry->size;
  TSR_TRY(tsr_zip_need(zip, entry, LONGEST_PREFIX));
  if (size < PREFIX_SIZE || memcmp(array, "\x93NUMPY", MAGIC_SIZE) != 0) {
    return fail_header(r, "an array of NumPy");
  }
  int major = array[MAGIC_SIZE];
  int width = major == 1 ? 2 : 4;
  if (major < 1 || major > 3) {
    return fail_header(r, "version 1, 2 or 3 of the form");
  }
  size_t begin = (size_t)MAGIC_SIZE + 2 + (size_t)width;
  uint64_t length = size >= begin ? tsr_read_unsigned(array + MAGIC_SIZE + 2, width) : 0;
  if (size < begin || length > size - begin || length > MAX_HEADER) {
    return fail_header(r, "a header within the array");
  }
  TSR_TRY(tsr_zip_need(zip, entry, begin + (size_t)length));
  r->at = (const char *)array + begin;
  r->end = r->at + length;
  *data = array + begin + length;
  return TSR_OK;
}

/* Columns first: the strides of a shape read backwards. */
static void pack_fortran(tsr_checkpoint_tensor *tensor)
{
  int64_t stride = tsr_shape_elements(&tensor->shape) > 0;
  for (int32_t axis = 0; axis < tensor->shape.rank; axis++) {
    tensor->strides[axis] = stride;
    stride *= tensor->shape.extent[axis];
  }
}

static tsr_status read_array(const tsr_zip *zip, tsr_zip_entry *entry, tsr_checkpoint_tensor *tensor)
{
  const char *path = zip->path;
  const unsigned char *array = NULL;
  TSR_TRY(tsr_zip_place(zip, entry, &array));
  reader r = {.path = path, .name = tensor->name};
  header h;
  const unsigned char *data = NULL;
  TSR_TRY(open_array(zip, entry, array, &r, &data));
  TSR_TRY(read_header(&r, &h));
  size_t found = entry->size - (size_t)(data - array);
  uint64_t expected = h.elements * (uint64_t)types[h.type].size;
  if (found != expected) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: its array has %zu bytes of elements; expected %" PRIu64, path,
                    tsr_quote(tensor->name).text, found, expected);
  }
  int usable = h.rank <= TSR_MAX_RANK;
  tensor->type = types[h.type].type;
  tensor->dtype = usable ? types[h.type].dtype : 0;
  tensor->rank = h.rank;
  tensor->shape = tsr_shape_make(usable ? h.rank : 0, h.extents);
  tensor->bytes = data;
  tensor->size = found;
  tensor->path = path;
  if (h.fortran) {
    pack_fortran(tensor);
  } else {
    tsr_container_pack(tensor);
  }
  return TSR_OK;
}

tsr_status tsr_npz_parse(const tsr_zip *zip, tsr_container *container)
{
  TSR_TRY(tsr_container_reserve(container, zip->count));
  for (size_t i = 0; i < zip->count; i++) {
    tsr_zip_entry *entry = &zip->entries[i];
    size_t length = strlen(entry->name);
    if (length < strlen(suffix) || strcmp(entry->name + length - strlen(suffix), suffix) != 0) {
      continue;
    }
    char *name = tsr_arena_text(&container->arena, entry->name);
    if (!name) {
      return tsr_fail_memory(length + 1);
    }
    name[length - strlen(suffix)] = 0;
    container->tensors[container->count].name = name;
    TSR_TRY(read_array(zip, entry, &container->tensors[container->count++]));
  }
  return TSR_OK;
}
