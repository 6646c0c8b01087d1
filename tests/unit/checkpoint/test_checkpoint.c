/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files, good and bad, and checkpoints of several files.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/checkpoint/checkpoint.h"
#include "tests/support/bytes.h"
#include "tests/support/temporary.h"

/* The bytes of a file: 8 bytes of header length, the header, `data_size` bytes counting up. Freed by the caller. */
static unsigned char *make_file(uint64_t length, const char *header, size_t data_size, size_t *size)
{
  size_t header_size = strlen(header);
  *size = 8 + header_size + data_size;
  unsigned char *bytes = malloc(*size);
  assert_non_null(bytes);
  for (int i = 0; i < 8; i++) {
    bytes[i] = (unsigned char)(length >> (8 * i));
  }
  memcpy(bytes + 8, header, header_size);
  for (size_t i = 0; i < data_size; i++) {
    bytes[8 + header_size + i] = (unsigned char)i;
  }
  return bytes;
}

static void write_checkpoint(const char *path, const char *header, size_t data_size)
{
  size_t size;
  unsigned char *bytes = make_file(strlen(header), header, data_size, &size);
  write_file(path, bytes, size);
  free(bytes);
}

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

#define ONE_F32(name, begin, end)                                                                                      \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"

#define F32(name, elements, begin, end)                                                                                \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" #elements "],\"data_offsets\":[" #begin "," #end "]}"

struct bad_file {
  const char *what;
  uint64_t length; /* what the file claims; 0: the header's true length */
  const char *header;
  size_t data_size;
  const char *fragments[2];
};

static const struct bad_file bad_files[] = {
    {"a header longer than the file", 1000, "{}", 0, {"header's length is 1000 bytes, but only 2 follow"}},
    {"a header one byte longer than the file", 3, "{}", 0, {"but only 2 follow"}},
    {"a header of 2^63 bytes", (uint64_t)1 << 63, "{}", 0, {"9223372036854775808 bytes, but only 2"}},
    {"a header of 2^64 - 1 bytes", UINT64_MAX, "{}", 0, {"18446744073709551615 bytes, but only 2"}},
    {"a header of 2^64 - 8 bytes", UINT64_MAX - 7, "{}", 0, {"18446744073709551608 bytes"}},
    {"no header", 0, "", 0, {"does not begin with '{'"}},
    {"no JSON object", 0, "[1,2]", 0, {"does not begin with '{'"}},
    {"a blank before the header", 0, " {}", 0, {"does not begin with '{'"}},
    {"broken JSON", 0, "{\"a\":", 0, {"not valid JSON", "line 1"}},
    {"text after the JSON", 0, "{} x", 0, {"not valid JSON"}},
    {"invalid UTF-8", 0, "{\"a\xFF\":1}", 0, {"not valid JSON"}},
    {"NUL in a name", 0, "{\"a\\u0000b\":1}", 0, {"not valid JSON"}},
    {"NaN", 0, "{\"a\":NaN}", 0, {"NaN and Infinity are not JSON"}},
    {"a name twice", 0, "{" ONE_F32("a", 0, 4) "," ONE_F32("a", 4, 8) "}", 8, {"duplicate object key", "\"a\""}},
    {"a key twice",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"duplicate object key", "dtype"}},
    {"nested lists", 0, "{\"a\":[[[[[[[[[[1]]]]]]]]]]}", 0, {"tensor \"a\"", "expected an object"}},
    {"a tensor that is no object", 0, "{\"a\":7}", 0, {"tensor \"a\"", "found 7"}},
    {"no dtype", 0, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, {"tensor \"a\"", "\"dtype\" as a text"}},
    {"dtype a number",
     0,
     "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "\"dtype\""}},
    {"an unknown dtype",
     0,
     "{\"a\":{\"dtype\":\"Q4\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "found \"Q4\""}},
    {"dtype in small letters",
     0,
     "{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "found \"f32\""}},
    {"no shape", 0, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, {"tensor \"a\"", "found nothing"}},
    {"shape a number",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "\"shape\""}},
    {"a negative size",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "found [-1]"}},
    {"a fractional size",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "found [1.0]"}},
    {"a size of 2^63",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}",
     4,
     {"\"a\" \"shape\"", "number is too large"}},
    {"a size of 10^30",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000000000000000000000000],\"data_offsets\":[0,4]}}",
     4,
     {"\"a\" \"shape\"", "number is too large"}},
    {"an offset of 2^63",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775808]}}",
     4,
     {"\"a\" \"data_offsets\"", "number is too large"}},
    {"a product beyond 2^63",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "more than 2^63 - 1 elements"}},
    {"extents beyond 2^63 behind one of 0",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}",
     0,
     {"tensor \"a\"", "[0, 4294967296, 4294967296] is too large"}},
    {"a product beyond 2^63 that wraps to 1",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9223372036854775807],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "more than 2^63 - 1 elements"}},
    {"bytes beyond 2^64",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}",
     0,
     {"tensor \"a\"", "no whole number of bytes"}},
    {"half a byte",
     0,
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}",
     1,
     {"tensor \"a\"", "no whole number of bytes"}},
    {"no offsets", 0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, {"tensor \"a\"", "data_offsets"}},
    {"one offset",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
     4,
     {"tensor \"a\"", "two sizes"}},
    {"three offsets",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}",
     4,
     {"tensor \"a\"", "two sizes"}},
    {"offsets as texts",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[\"0\",\"4\"]}}",
     4,
     {"tensor \"a\"", "two sizes"}},
    {"negative offsets",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}",
     4,
     {"tensor \"a\"", "two sizes"}},
    {"reversed offsets", 0, "{" ONE_F32("a", 4, 0) "}", 4, {"tensor \"a\"", "[4, 0] are reversed"}},
    {"offsets beyond the data", 0, "{" ONE_F32("a", 0, 4) "}", 3, {"tensor \"a\"", "beyond the file's 3 bytes"}},
    {"offsets far beyond the data",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775803,9223372036854775807]}}",
     4,
     {"tensor \"a\"", "beyond the file's 4 bytes"}},
    {"too few bytes for the shape",
     0,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "expected 8 for type F32 and [2]"}},
    {"too many bytes for the shape",
     0,
     "{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"tensor \"a\"", "expected 2 for type F16 and [1]"}},
    {"the same bytes twice", 0, "{" ONE_F32("a", 0, 4) "," ONE_F32("b", 0, 4) "}", 4, {"overlap those of tensor"}},
    {"overlap",
     0,
     "{" ONE_F32("a", 0, 4) "," ONE_F32("b", 2, 6) "}",
     6,
     {"tensor \"b\"", "[2, 6] overlap those of tensor \"a\""}},
    {"a hole before the first", 0, "{" ONE_F32("a", 4, 8) "}", 8, {"tensor \"a\"", "4 bytes before"}},
    {"a hole between two",
     0,
     "{" ONE_F32("b", 8, 12) "," ONE_F32("a", 0, 4) "}",
     12,
     {"tensor \"b\"", "4 bytes before"}},
    {"bytes after the last", 0, "{" ONE_F32("a", 0, 4) "}", 5, {"1 bytes after the last tensor \"a\""}},
    {"bytes without a tensor", 0, "{}", 1, {"1 bytes after the last tensor belong to no tensor"}},
    {"metadata a text", 0, "{\"__metadata__\":\"x\"}", 0, {"__metadata__", "expected an object"}},
    {"metadata with a number", 0, "{\"__metadata__\":{\"k\":1}}", 0, {"__metadata__", "\"k\""}},
};

static void test_bad_files(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
    const struct bad_file *bad = &bad_files[i];
    size_t size;
    unsigned char *bytes =
        make_file(bad->length ? bad->length : strlen(bad->header), bad->header, bad->data_size, &size);
    tsr_checkpoint *checkpoint;
    tsr_status status = tsr_checkpoint_parse("bad.safetensors", bytes, size, &checkpoint);
    free(bytes);
    if (status != TSR_ERR_FORMAT || checkpoint) {
      fail_msg("%s: status %s", bad->what, tsr_status_name(status));
    }
    assert_message_has("bad.safetensors: ");
    for (int f = 0; f < 2 && bad->fragments[f]; f++) {
      assert_message_has(bad->fragments[f]);
    }
  }
}

/* A good file cut at every length: an error each time, and nothing read beyond the cut (under AddressSanitizer). */
static void test_truncated(void **state)
{
  (void)state;
  const char *header = "{" ONE_F32("a", 0, 4) "," ONE_F32("b", 4, 8) "}";
  size_t size;
  unsigned char *whole = make_file(strlen(header), header, 8, &size);
  for (size_t cut = 0; cut < size; cut++) {
    unsigned char *bytes = malloc(cut + !cut);
    assert_non_null(bytes);
    memcpy(bytes, whole, cut);
    tsr_checkpoint *checkpoint;
    assert_int_equal(tsr_checkpoint_parse("cut", bytes, cut, &checkpoint), TSR_ERR_FORMAT);
    assert_null(checkpoint);
    free(bytes);
  }
  free(whole);
}

static void test_header_limit(void **state)
{
  (void)state;
  size_t size = 100000001 + 8;
  unsigned char *bytes = calloc(size, 1);
  assert_non_null(bytes);
  const uint64_t length = size - 8;
  for (int i = 0; i < 8; i++) {
    bytes[i] = (unsigned char)(length >> (8 * i));
  }
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_parse("big", bytes, size, &checkpoint), TSR_ERR_FORMAT);
  assert_message_has("expected at most 100000000");
  free(bytes);
}

static void test_good_file(void **state)
{
  (void)state;
  /* Names out of order, a scalar, empty tensors at both ends, types that cannot be used, rank 5, metadata, an unknown
   * key, trailing blanks. */
  const char *header = "{\"__metadata__\":{\"format\":\"pt\"},"
                       "\"z\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                       "\"half\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[9,11],\"extra\":null},"
                       "\"byte\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"
                       "\"none\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[0,0]},"
                       "\"end\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[15,15]},"
                       "\"deep\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[11,15]}}   ";
  size_t size;
  unsigned char *bytes = make_file(strlen(header), header, 15, &size);
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_parse("good", bytes, size, &checkpoint), TSR_OK);
  assert_string_equal(tsr_checkpoint_path(checkpoint), "good");
  assert_int_equal(tsr_checkpoint_count(checkpoint), 6);
  for (int32_t i = 1; i < 6; i++) {
    assert_true(strcmp(tsr_checkpoint_at(checkpoint, i - 1)->name, tsr_checkpoint_at(checkpoint, i)->name) < 0);
  }

  const tsr_checkpoint_tensor *z = tsr_checkpoint_find(checkpoint, "z");
  assert_non_null(z);
  assert_int_equal(z->dtype, TSR_F32);
  assert_int_equal(z->size, 8);
  assert_int_equal(z->shape.rank, 2);
  assert_int_equal(z->shape.extent[0], 2);
  assert_memory_equal(z->bytes, bytes + size - 15, 8);
  assert_int_equal(tsr_checkpoint_find(checkpoint, "half")->dtype, TSR_BF16);

  const tsr_checkpoint_tensor *byte = tsr_checkpoint_find(checkpoint, "byte");
  assert_int_equal(byte->dtype, 0);
  assert_int_equal(byte->rank, 0);
  assert_string_equal(byte->type, "U8");
  const tsr_checkpoint_tensor *deep = tsr_checkpoint_find(checkpoint, "deep");
  assert_int_equal(deep->dtype, 0);
  assert_int_equal(deep->rank, 5);
  assert_null(tsr_checkpoint_find(checkpoint, "absent"));
  assert_null(tsr_checkpoint_find(checkpoint, "__metadata__"));

  float two[2];
  assert_int_equal(tsr_checkpoint_read(z, 0, 2, TSR_F32, two), TSR_OK);
  assert_memory_equal(two, z->bytes, 8);
  uint16_t narrow[2];
  assert_int_equal(tsr_checkpoint_read(z, 1, 1, TSR_BF16, narrow), TSR_OK);
  assert_int_equal(tsr_checkpoint_read(z, 2, 0, TSR_F32, two), TSR_OK);
  assert_int_equal(tsr_checkpoint_read(z, 1, 2, TSR_F32, two), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_checkpoint_read(z, -1, 1, TSR_F32, two), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_checkpoint_read(z, 1, INT64_MAX, TSR_F32, two), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_checkpoint_read(z, 0, 1, TSR_I32, two), TSR_ERR_DTYPE);
  assert_int_equal(tsr_checkpoint_read(deep, 0, 1, TSR_F32, two), TSR_ERR_DTYPE);
  assert_message_has("tensor \"deep\"");
  tsr_checkpoint_close(checkpoint);
  free(bytes);
}

/* A name can neither steer the terminal nor push the rest of the message out. */
static void test_names_in_messages(void **state)
{
  (void)state;
  char header[4096];
  char name[3001];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  snprintf(header, sizeof header, "{\"\\u001b[31m%s\":7}", name);
  size_t size;
  unsigned char *bytes = make_file(strlen(header), header, 0, &size);
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_parse("f", bytes, size, &checkpoint), TSR_ERR_FORMAT);
  assert_message_has("found 7");
  assert_null(strchr(tsr_error_message(), '\x1b'));
  free(bytes);
}

static void expect_open_error(const char *path, tsr_status expected, const char *fragment)
{
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), expected);
  assert_null(checkpoint);
  assert_message_has(fragment);
}

static void test_files(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "model.safetensors");
  expect_open_error(path, TSR_ERR_IO, "model.safetensors: cannot be opened");
  expect_open_error(folder, TSR_ERR_IO, "expected weights in model.safetensors");
  assert_int_equal(tsr_checkpoint_exists(folder), 0);

  write_text(path, "");
  expect_open_error(path, TSR_ERR_FORMAT, "model.safetensors: 0 bytes are too few");
  remove(path);

  assert_int_equal(mkdir(path, 0700), 0);
  expect_open_error(folder, TSR_ERR_IO, "model.safetensors: expected a file, found a folder");
  rmdir(path);

#ifndef _WIN32 /* whose pipes are no files */
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_open_error(path, TSR_ERR_IO, "found a device or a pipe");
  remove(path);
#endif

  write_checkpoint(path, "{" ONE_F32("a", 0, 4) "}", 4);
  assert_int_equal(tsr_checkpoint_exists(folder), 1);
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  assert_int_equal(tsr_checkpoint_find(checkpoint, "a")->size, 4);
  tsr_checkpoint_close(checkpoint);
  assert_int_equal(tsr_checkpoint_open(folder, &checkpoint), TSR_OK);
  assert_string_equal(tsr_checkpoint_path(checkpoint), path);
  assert_string_equal(tsr_checkpoint_find(checkpoint, "a")->path, path);
  tsr_checkpoint_close(checkpoint);

  if (geteuid() != 0) {
    assert_int_equal(chmod(path, 0), 0);
    expect_open_error(path, TSR_ERR_IO, "cannot be opened: Permission denied");
  }
  remove_temporary_folder(folder);
  tsr_checkpoint_close(NULL);
}

static void test_shards(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_checkpoint(path_in(folder, "one.safetensors"), "{" ONE_F32("a", 0, 4) "," ONE_F32("c", 4, 8) "}", 8);
  write_checkpoint(path_in(folder, "two.safetensors"), "{" ONE_F32("b", 0, 4) "," ONE_F32("a", 4, 8) "}", 8);
  const char *index = path_in(folder, "model.safetensors.index.json");

  write_text(index, "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"b\":\"two.safetensors\","
                    "\"a\":\"one.safetensors\",\"c\":\"one.safetensors\"}}");
  assert_int_equal(tsr_checkpoint_exists(folder), 1);
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(folder, &checkpoint), TSR_OK);
  assert_int_equal(tsr_checkpoint_count(checkpoint), 3);
  /* "a" is in both files; the map says which one counts. */
  assert_string_equal(tsr_checkpoint_find(checkpoint, "a")->path, path_in(folder, "one.safetensors"));
  assert_string_equal(tsr_checkpoint_find(checkpoint, "b")->path, path_in(folder, "two.safetensors"));
  tsr_checkpoint_close(checkpoint);
  /* What the map does not know is there all the same. */
  write_text(index, "{\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
  assert_int_equal(tsr_checkpoint_open(folder, &checkpoint), TSR_OK);
  assert_int_equal(tsr_checkpoint_count(checkpoint), 3);
  assert_string_equal(tsr_checkpoint_find(checkpoint, "c")->path, path_in(folder, "one.safetensors"));
  tsr_checkpoint_close(checkpoint);

  static const struct {
    const char *index;
    tsr_status status;
    const char *fragments[2];
  } bad[] = {
      {"{\"weight_map\":{\"b\":\"two.safetensors\",\"c\":\"one.safetensors\"}}",
       TSR_ERR_FORMAT,
       {"tensor \"a\" is also in", "weight_map of the index places it nowhere"}},
      {"", TSR_ERR_FORMAT, {"index.json: the file is empty"}},
      {"[]", TSR_ERR_FORMAT, {"expected a JSON object, found []"}},
      {"{}", TSR_ERR_FORMAT, {"weight_map: expected an object", "found nothing"}},
      {"{\"weight_map\":[]}", TSR_ERR_FORMAT, {"weight_map: expected an object"}},
      {"{\"weight_map\":{\"a\":1}}", TSR_ERR_FORMAT, {"tensor \"a\"", "found 1"}},
      {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"sub/one.safetensors\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"..\\\\one.safetensors\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\".one.safetensors\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", TSR_ERR_FORMAT, {"duplicate"}},
      {"{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}",
       TSR_ERR_FORMAT,
       {"index.json: the header's length"}},
      {"{\"weight_map\":{\"a\":\"..\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"\"}}", TSR_ERR_FORMAT, {"tensor \"a\"", "in the same folder"}},
      {"{\"weight_map\":{\"a\":\"three.safetensors\"}}", TSR_ERR_IO, {"three.safetensors: cannot be opened"}},
      {"{\"weight_map\":{\"c\":\"two.safetensors\"}}", TSR_ERR_FORMAT, {"two.safetensors: tensor \"c\" is missing"}},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    write_text(index, bad[i].index);
    for (int f = 0; f < 2 && bad[i].fragments[f]; f++) {
      expect_open_error(folder, bad[i].status, bad[i].fragments[f]);
    }
  }
  remove(index);
  write_text(path_in(folder, "pytorch_model.bin"), "");
  expect_open_error(folder, TSR_ERR_FORMAT, "pytorch_model.bin: 0 bytes are too few");
  remove_temporary_folder(folder);
}

/* Files that are written to after they were opened: each tensor gives its elements or an error that names the file,
 * never a signal; and what was written to is noticed even where nothing is missing. */
static void test_files_that_change(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "model.safetensors"));
  tsr_checkpoint *checkpoint;
  float values[2048];
  write_checkpoint(path, "{" ONE_F32("a", 0, 4) "," F32("b", 2047, 4, 8192) "}", 8192);
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  const tsr_checkpoint_tensor *a = tsr_checkpoint_find(checkpoint, "a");
  const tsr_checkpoint_tensor *b = tsr_checkpoint_find(checkpoint, "b");
  assert_int_equal(tsr_checkpoint_check(checkpoint), TSR_OK);
  assert_int_equal(tsr_checkpoint_read(b, 0, 2047, TSR_F32, values), TSR_OK);
  assert_int_equal(truncate(path, (off_t)(b->at + 5000)), 0);
  assert_int_equal(tsr_checkpoint_read(a, 0, 1, TSR_F32, values), TSR_OK);
  for (int dtype = TSR_F32; dtype <= TSR_BF16; dtype++) {
    assert_int_equal(tsr_checkpoint_read(b, 0, 2047, dtype, values), TSR_ERR_IO);
    assert_non_null(strstr(tsr_error_message(), path));
    assert_non_null(strstr(tsr_error_message(), "the file ends at byte"));
  }
  tsr_checkpoint_tensor column = {.dtype = TSR_F32, .name = "b", .path = path, .file = b->file, .at = b->at};
  column.shape = TSR_SHAPE(2, 1000); /* elements that lie apart */
  column.size = 8000;
  column.strides[0] = 1;
  column.strides[1] = 2;
  assert_int_equal(tsr_checkpoint_read(&column, 0, 2000, TSR_F32, values), TSR_ERR_IO);
  assert_int_equal(tsr_checkpoint_check(checkpoint), TSR_ERR_IO);
  assert_non_null(strstr(tsr_error_message(), path));
  tsr_checkpoint_close(checkpoint);

  /* Other bytes, as many: nothing is missing, but what was read is of two files. */
  write_checkpoint(path, "{" ONE_F32("a", 0, 4) "}", 4);
  const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  write_checkpoint(path, "{" ONE_F32("a", 0, 4) "}", 4);
  assert_int_equal(tsr_checkpoint_read(tsr_checkpoint_find(checkpoint, "a"), 0, 1, TSR_F32, values), TSR_OK);
  assert_int_equal(tsr_checkpoint_check(checkpoint), TSR_ERR_IO);
  assert_non_null(strstr(tsr_error_message(), "was written to while it was read"));
  tsr_checkpoint_close(checkpoint);

#ifndef _WIN32 /* Windows does so since 2017, Wine does not */
  /* A file that takes the place of the other leaves it as it was. */
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  const char *other = path_in(folder, "other.safetensors");
  write_checkpoint(other, "{" ONE_F32("c", 0, 4) "}", 4);
  assert_int_equal(rename(other, path), 0);
  assert_int_equal(tsr_checkpoint_read(tsr_checkpoint_find(checkpoint, "a"), 0, 1, TSR_F32, values), TSR_OK);
  assert_int_equal(tsr_checkpoint_check(checkpoint), TSR_OK);
  tsr_checkpoint_close(checkpoint);
#endif
  remove_temporary_folder(folder);
}

/* A model that the original wrote once in one file and once in three. */
static void test_recorded_shards(void **state)
{
  (void)state;
  static const char recordings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/models";
  tsr_checkpoint *whole;
  tsr_checkpoint *sharded;
  assert_int_equal(tsr_checkpoint_open(path_in(recordings, "bart"), &whole), TSR_OK);
  assert_int_equal(tsr_checkpoint_open(path_in(recordings, "bart_sharded"), &sharded), TSR_OK);
  assert_true(tsr_checkpoint_count(whole) > 10);
  assert_int_equal(tsr_checkpoint_count(sharded), tsr_checkpoint_count(whole));
  for (int32_t i = 0; i < tsr_checkpoint_count(whole); i++) {
    const tsr_checkpoint_tensor *a = tsr_checkpoint_at(whole, i);
    const tsr_checkpoint_tensor *b = tsr_checkpoint_at(sharded, i);
    assert_string_equal(a->name, b->name);
    assert_true(tsr_shape_equal(&a->shape, &b->shape));
    assert_int_equal(a->size, b->size);
    assert_same_bytes(a, b);
  }
  tsr_checkpoint_close(whole);
  tsr_checkpoint_close(sharded);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_header_limit),
      cmocka_unit_test(test_good_file),
      cmocka_unit_test(test_names_in_messages),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_shards),
      cmocka_unit_test(test_recorded_shards),
      cmocka_unit_test(test_files_that_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
