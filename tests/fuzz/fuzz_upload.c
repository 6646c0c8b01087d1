/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms with a file that clients send to `tessera serve`, piece by piece: the first byte chooses the pieces' size. What
 * comes out does not depend on it; fields are UTF-8 without NUL, and the file has the bytes that the reader of whole
 * forms finds, where both find one.
 */
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#include "tools/tessera/serve/upload.h"

static const char type[] = "multipart/form-data; boundary=x";

typedef struct result {
  parameters fields;
  upload upload;
  int is_whole;
} result;

static void take(result *r, const uint8_t *data, size_t size, size_t piece)
{
  int fine = 1;
  r->fields = (parameters){0};
  REQUIRE(upload_begin(&r->upload, type, &r->fields));
  for (size_t at = 0; at < size; at += piece) {
    const size_t n = size - at < piece ? size - at : piece;
    fine = upload_take(&r->upload, (const char *)data + at, n);
    REQUIRE(fine == (r->upload.status == 0));
  }
  r->is_whole = upload_end(&r->upload);
  REQUIRE(r->is_whole == (r->upload.status == 0));
  REQUIRE(r->is_whole || r->upload.problem[0]);
}

static void compare(const result *a, const result *b)
{
  REQUIRE(a->is_whole == b->is_whole && a->upload.status == b->upload.status);
  REQUIRE(a->upload.has_file == b->upload.has_file && (!a->is_whole || a->upload.size == b->upload.size));
  REQUIRE(a->fields.n == b->fields.n);
  for (int32_t i = 0; i < a->fields.n; i++) {
    const parameter *one = &a->fields.items[i], *other = &b->fields.items[i];
    REQUIRE(strcmp(one->name, other->name) == 0);
    REQUIRE(one->size == other->size && strlen(one->value) == one->size);
    REQUIRE(memcmp(one->value, other->value, one->size) == 0);
  }
}

/* The file as it is read back, against the same of the reader of whole forms. */
static void compare_whole(result *r, const uint8_t *data, size_t size)
{
  parameters list;
  const char *problem = NULL;
  const int code = parameters_read(type, (const char *)data, size, NULL, &list, &problem);
  const parameter *file = NULL;
  for (int32_t i = 0; i < list.n; i++) {
    file = list.items[i].kind == PARAMETER_FILE ? &list.items[i] : file;
  }
  if (code == PARAMETERS_OK && file) {
    REQUIRE((size_t)r->upload.size == file->size);
    tsr_audio_source source = upload_source(&r->upload);
    char byte;
    size_t got = 0;
    for (size_t i = 0; i < file->size; i++) {
      REQUIRE(source.read(source.context, &byte, 1, &got) == TSR_OK && got == 1 && byte == file->value[i]);
    }
    REQUIRE(source.read(source.context, &byte, 1, &got) == TSR_OK && got == 0);
    REQUIRE(source.seek(source.context, 0) == TSR_OK);
  }
  parameters_finish(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0) {
    return 0;
  }
  result whole, cut;
  take(&whole, data + 1, size - 1, size);
  take(&cut, data + 1, size - 1, (size_t)data[0] % 16 + 1);
  compare(&whole, &cut);
  if (whole.is_whole && whole.upload.has_file) {
    compare_whole(&whole, data + 1, size - 1);
  }
  upload_finish(&whole.upload);
  upload_finish(&cut.upload);
  parameters_finish(&whole.fields);
  parameters_finish(&cut.fields);
  return 0;
}
