/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in zip files: state dicts of torch.save, and arrays of NumPy; good ones, and whatever else may be in such a
 * file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/checkpoint.h"
#include "tests/support/bytes.h"
#include "tests/support/temporary.h"
#include "tests/support/zip_writer.h"

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static void expect_bad(const char *what, const void *bytes, size_t size, tsr_status status, const char *fragment)
{
  tsr_checkpoint *checkpoint;
  /* A copy of just that size, so that AddressSanitizer sees what is read beyond it. */
  unsigned char *copy = malloc(size + !size);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  tsr_status found = tsr_checkpoint_parse("bad.bin", copy, size, &checkpoint);
  free(copy);
  if (found != status || checkpoint) {
    fail_msg("%s: status %s (%s), expected %s", what, tsr_status_name(found), tsr_error_message(),
             tsr_status_name(status));
  }
  assert_message_has("bad.bin: ");
  assert_message_has(fragment);
}

static void expect_values(const tsr_checkpoint *checkpoint, const char *name, int32_t n, const float *values)
{
  float found[16];
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, name);
  if (!tensor) {
    fail_msg("%s: tensor %s is missing", tsr_checkpoint_path(checkpoint), name);
  }
  assert_int_equal(tsr_shape_elements(&tensor->shape), n);
  assert_int_equal(tsr_checkpoint_read(tensor, 0, n, TSR_F32, found), TSR_OK);
  for (int32_t i = 0; i < n; i++) {
    if (found[i] != values[i]) {
      fail_msg("%s: tensor %s: element %d is %g, expected %g", tsr_checkpoint_path(checkpoint), name, (int)i, found[i],
               values[i]);
    }
    float one;
    assert_int_equal(tsr_checkpoint_read(tensor, i, 1, TSR_F32, &one), TSR_OK);
    assert_true(one == values[i]);
  }
  assert_int_equal(tsr_checkpoint_read(tensor, n, 1, TSR_F32, found), TSR_ERR_ARGUMENT);
}

/* ---- files of Python's own pickle and zipfile -------------------------------------------------------------------- */

static void test_state_dicts(void **state)
{
  (void)state;
  static const char *const names[] = {"two.bin", "four.bin", "five.bin"};
  for (int i = 0; i < 3; i++) {
    tsr_checkpoint *c;
    tsr_status status = tsr_checkpoint_open(path_in(TORCH_FILES, names[i]), &c);
    if (status != TSR_OK) {
      fail_msg("%s: %s", names[i], tsr_error_message());
    }
    assert_int_equal(tsr_checkpoint_count(c), 12);
    expect_values(c, "whole", 6, (float[]){0, 1, 2, 3, 4, 5});
    expect_values(c, "tied", 6, (float[]){0, 1, 2, 3, 4, 5});
    expect_values(c, "turned", 6, (float[]){0, 3, 1, 4, 2, 5});
    expect_values(c, "tail", 2, (float[]){6, 7});
    expect_values(c, "skipping", 4, (float[]){1, 3, 5, 7});
    expect_values(c, "scalar", 1, (float[]){3});
    expect_values(c, "parameter", 8, (float[]){0, 1, 2, 3, 4, 5, 6, 7});
    expect_values(c, "half", 3, (float[]){0.5f, -2, 65504});
    expect_values(c, "brain", 2, (float[]){1, -2});
    assert_int_equal(tsr_checkpoint_find(c, "half")->dtype, TSR_F16);
    assert_int_equal(tsr_checkpoint_find(c, "brain")->dtype, TSR_BF16);
    assert_string_equal(tsr_checkpoint_find(c, "long")->type, "I64");
    assert_int_equal(tsr_checkpoint_find(c, "long")->dtype, 0);
    assert_int_equal(tsr_checkpoint_find(c, "empty")->size, 0);
    assert_int_equal(tsr_checkpoint_find(c, "deep")->rank, 5);
    assert_int_equal(tsr_checkpoint_find(c, "deep")->dtype, 0);
    /* What is stored is read where it lies; tied tensors are one. */
    assert_int_equal(tsr_checkpoint_find(c, "whole")->at, tsr_checkpoint_find(c, "tied")->at);
    assert_int_equal(tsr_checkpoint_find(c, "whole")->at, tsr_checkpoint_find(c, "turned")->at);
    tsr_checkpoint_tensor turned = tsr_checkpoint_transpose(tsr_checkpoint_find(c, "turned"));
    assert_int_equal(turned.shape.extent[0], 2);
    float back[6];
    assert_int_equal(tsr_checkpoint_read(&turned, 0, 6, TSR_F32, back), TSR_OK);
    assert_true(back[1] == 1 && back[3] == 3);
    tsr_checkpoint_close(c);
  }
}

static void test_arrays(void **state)
{
  (void)state;
  static const char *const names[] = {"stored.npz", "deflated.npz"};
  for (int i = 0; i < 2; i++) {
    tsr_checkpoint *c;
    tsr_status status = tsr_checkpoint_open(path_in(TORCH_FILES, names[i]), &c);
    if (status != TSR_OK) {
      fail_msg("%s: %s", names[i], tsr_error_message());
    }
    assert_int_equal(tsr_checkpoint_count(c), 6);
    expect_values(c, "a", 6, (float[]){0, 1, 2, 3, 4, 5});
    expect_values(c, "columns", 6, (float[]){0, 2, 4, 1, 3, 5});
    expect_values(c, "half", 2, (float[]){0.5f, -2});
    expect_values(c, "one", 1, (float[]){9});
    assert_string_equal(tsr_checkpoint_find(c, "scalar")->type, "F64");
    const tsr_checkpoint_tensor *text = tsr_checkpoint_find(c, "special:model.yml");
    assert_non_null(text);
    assert_int_equal(text->size, 4);
    char *letters = tensor_bytes(text);
    assert_memory_equal(letters, "a: 1", 4);
    free(letters);
    tsr_checkpoint_close(c);
  }
}

/* ---- zip files --------------------------------------------------------------------------------------------------- */

static const float eight[] = {0, 1, 2, 3, 4, 5, 6, 7};

static const pickle_tensor plain = {
    .name = "a", .storage = "FloatStorage", .key = "0", .elements = 8, .rank = 2, .extents = {2, 4}, .strides = {4, 1}};

/* A file with one storage, "0", of eight floats. */
static unsigned char *make_torch(const void *pickle, size_t pickle_size, int options, size_t *size)
{
  zip_writer zip = {0};
  zip_add(&zip, "archive/data.pkl", pickle, pickle_size, options);
  zip_add(&zip, "archive/data/0", eight, sizeof eight, options);
  return zip_finish(&zip, options & ZIP_WIDE, size);
}

static unsigned char *make_state_dict(const pickle_tensor *tensors, int32_t n, int options, size_t *size)
{
  byte_writer pickle = {0};
  pickle_begin(&pickle);
  for (int32_t i = 0; i < n; i++) {
    pickle_add(&pickle, &tensors[i]);
  }
  pickle_end(&pickle);
  unsigned char *bytes = make_torch(pickle.bytes, pickle.size, options, size);
  free(pickle.bytes);
  return bytes;
}

/* Every way in which an entry can be written, and each of these files cut at every length. */
static void test_zip_forms(void **state)
{
  (void)state;
  for (int options = 0; options < 16; options++) {
    size_t size;
    unsigned char *bytes = make_state_dict(&plain, 1, options, &size);
    tsr_checkpoint *c;
    if (tsr_checkpoint_parse("good.bin", bytes, size, &c) != TSR_OK) {
      fail_msg("options %d: %s", options, tsr_error_message());
    }
    expect_values(c, "a", 8, eight);
    const unsigned char *at = tsr_checkpoint_find(c, "a")->bytes;
    assert_int_equal(at >= bytes && at < bytes + size, !(options & ZIP_DEFLATED));
    tsr_checkpoint_close(c);
    for (size_t cut = 4; cut < size; cut++) {
      expect_bad("cut", bytes, cut, TSR_ERR_FORMAT, "truncated");
    }
    free(bytes);
  }
}

/* The number at `at` becomes another; the file is to be refused. */
static void expect_bad_byte(const char *what, size_t at, unsigned char byte, tsr_status status, const char *fragment)
{
  size_t size;
  unsigned char *bytes = make_state_dict(&plain, 1, 0, &size);
  bytes[at > size ? size + at : at] = byte; /* beyond the size: counted from the end, wrapping */
  expect_bad(what, bytes, size, status, fragment);
  free(bytes);
}

static void test_bad_zips(void **state)
{
  (void)state;
  enum { END = 22, CENTRAL = 46 + 14 /* of the last entry, archive/data/0 */ };
  const size_t last = (size_t)0 - END - CENTRAL;
  const size_t end = (size_t)0 - END;
  expect_bad_byte("another local signature", 0, 'Q', TSR_ERR_FORMAT, "not a safetensors file");
  expect_bad_byte("another name in the local header", 30, 'b', TSR_ERR_FORMAT, "tells of another entry");
  expect_bad_byte("another method in the local header", 8, 8, TSR_ERR_FORMAT, "tells of another entry");
  expect_bad_byte("a byte of the pickle", 30 + 16 + 4, 'x', TSR_ERR_FORMAT, "its checksum is");
  expect_bad_byte("an encrypted entry", last + 8, 1, TSR_ERR_UNSUPPORTED, "entry \"archive/data/0\" is encrypted");
  expect_bad_byte("sizes that differ", last + 20, 31, TSR_ERR_FORMAT, "cannot be");
  expect_bad_byte("a local header elsewhere", last + 42, 1, TSR_ERR_FORMAT, "no local header at byte");
  expect_bad_byte("a broken directory", last, 'x', TSR_ERR_FORMAT, "the zip directory is damaged");
  expect_bad_byte("a longer name", last + 28, 255, TSR_ERR_FORMAT, "the zip directory is damaged");
  expect_bad_byte("a name that is no text", last + 46, 0xFF, TSR_ERR_FORMAT, "a name that is not UTF-8");
  expect_bad_byte("several disks", end + 4, 1, TSR_ERR_UNSUPPORTED, "several disks");
  expect_bad_byte("more entries", end + 8, 3, TSR_ERR_UNSUPPORTED, "several disks");
  expect_bad_byte("a later directory", end + 18, 1, TSR_ERR_FORMAT, "reaches beyond");
  expect_bad_byte("a larger directory", end + 14, 1, TSR_ERR_FORMAT, "reaches beyond");

  size_t size;
  zip_writer zip = {0};
  zip_add(&zip, "data.pkl", "N.", 2, 0);
  zip_add(&zip, "data.pkl", "N.", 2, 0);
  unsigned char *bytes = zip_finish(&zip, 0, &size);
  expect_bad("one name twice", bytes, size, TSR_ERR_FORMAT, "entry \"data.pkl\" is there twice");
  free(bytes);

  /* Two entries of the directory for one content. */
  zip_add(&zip, "data.pkl", "N.", 2, 0);
  byte_writer twice = {0};
  put_bytes(&twice, zip.directory.bytes, zip.directory.size);
  put_bytes(&zip.directory, twice.bytes, twice.size);
  zip.count++;
  free(twice.bytes);
  bytes = zip_finish(&zip, 0, &size);
  expect_bad("one content twice", bytes, size, TSR_ERR_FORMAT, "overlap");
  free(bytes);

  zip_add(&zip, "a.txt", "hello", 5, 0);
  bytes = zip_finish(&zip, 0, &size);
  expect_bad("another zip file", bytes, size, TSR_ERR_FORMAT, "with data.pkl");
  free(bytes);

  zip_add(&zip, "x/data.pkl", "N.", 2, 0);
  zip_add(&zip, "y/data.pkl", "N.", 2, 0);
  bytes = zip_finish(&zip, 0, &size);
  expect_bad("two pickles", bytes, size, TSR_ERR_FORMAT, "expected one data.pkl");
  free(bytes);

  zip_add(&zip, "data.pkl", "}.", 2, 0);
  zip_add(&zip, "byteorder", "big", 3, 0);
  bytes = zip_finish(&zip, 0, &size);
  expect_bad("a big-endian file", bytes, size, TSR_ERR_UNSUPPORTED, "not little-endian");
  free(bytes);

  /* Damaged or lying compressed content: what comes out is not what was announced. */
  zip_add(&zip, "data.pkl", "}....................................", 37, ZIP_DEFLATED);
  bytes = zip_finish(&zip, 0, &size);
  bytes[size - END - 46 - 8 + 24]++; /* the size in the directory */
  expect_bad("another size", bytes, size, TSR_ERR_FORMAT, "compressed bytes are damaged");
  bytes[size - END - 46 - 8 + 27] = 0x40; /* a gigabyte */
  expect_bad("a size beyond any compression", bytes, size, TSR_ERR_FORMAT, "compressed bytes are damaged");
  free(bytes);
}

static void test_old_forms(void **state)
{
  (void)state;
  static const unsigned char magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                        0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.',  0x80};
  expect_bad("before 1.6", magic, sizeof magic, TSR_ERR_UNSUPPORTED, "convert it with a newer PyTorch");
  unsigned char tar[512] = "sys_info";
  memcpy(tar + 257, "ustar", 5);
  expect_bad("before 0.1.10", tar, sizeof tar, TSR_ERR_UNSUPPORTED, "convert it with a newer PyTorch");
  const char *pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  expect_bad("a pointer", pointer, strlen(pointer), TSR_ERR_FORMAT, "git lfs pull");
}

/* ---- pickles ----------------------------------------------------------------------------------------------------- */

/* size 0: the text's length. */
static void expect_bad_pickle(const char *what, const char *pickle, size_t length, tsr_status status,
                              const char *fragment)
{
  size_t size;
  unsigned char *bytes = make_torch(pickle, length ? length : strlen(pickle), 0, &size);
  expect_bad(what, bytes, size, status, fragment);
  free(bytes);
}

#define STORAGE                                                                                                        \
  "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"                                                              \
  "0X\x03\0\0\0cpuK\x08tQ"
#define TENSOR(offset, sizes, strides) "ctorch._utils\n_rebuild_tensor_v2\n" STORAGE "K" offset sizes strides "\x89}tR"

static void test_refused_pickles(void **state)
{
  (void)state;
  const tsr_status refused = TSR_ERR_UNSUPPORTED;
  expect_bad_pickle("a command",
                    "\x80\x02"
                    "cos\nsystem\n(X\x02\0\0\0lstR.",
                    0, refused, "opcode GLOBAL at byte 2: the global \"os.system\" is refused");
  expect_bad_pickle("a command of protocol 4",
                    "\x80\x04\x8c\x05"
                    "posix\x8c\x06system\x93.",
                    0, refused, "opcode STACK_GLOBAL at byte 17: the global \"posix.system\" is refused");
  expect_bad_pickle("eval", "c__builtin__\neval\n.", 0, refused, "\"__builtin__.eval\" is refused");
  expect_bad_pickle("another global of torch", "ctorch._utils\n_rebuild_sparse_tensor\n.", 0, refused,
                    "\"torch._utils._rebuild_sparse_tensor\" is refused");
  expect_bad_pickle("a longer name", "ctorch\nFloatStorageX\n.", 0, refused, "\"torch.FloatStorageX\" is refused");
  expect_bad_pickle("a terminal's codes", "ctorch\n\x1b[31m\n.", 0, refused, "is refused");
  assert_null(strchr(tsr_error_message(), '\x1b'));
  expect_bad_pickle("INST", "(ios\nsystem\n.", 0, refused, "opcode INST (0x69) at byte 1 is refused");
  expect_bad_pickle("OBJ", "(o.", 0, refused, "opcode OBJ (0x6f) at byte 1 is refused");
  expect_bad_pickle("NEWOBJ", ")\x81.", 0, refused, "opcode NEWOBJ (0x81) at byte 1 is refused");
  expect_bad_pickle("EXT1", "\x82\x01.", 0, refused, "opcode EXT1 (0x82) at byte 0 is refused");
  expect_bad_pickle("PERSID", "P1\n.", 0, refused, "opcode PERSID (0x50) at byte 0 is refused");
  expect_bad_pickle("STRING", "S'a'\n.", 0, refused, "opcode STRING (0x53) at byte 0 is refused");
  expect_bad_pickle("no opcode", "\xff.", 0, refused, "opcode unknown (0xff) at byte 0 is refused");
}

static void test_broken_pickles(void **state)
{
  (void)state;
  static const struct {
    const char *what;
    const char *pickle;
    size_t size; /* 0: the text's length */
    const char *fragment;
  } bad[] = {
      {"no end", "}", 0, "end without the opcode STOP"},
      {"nothing", ".", 0, "the stack holds too little"},
      {"too much", "}}.", 0, "more than one value is left"},
      {"no dictionary", "N.", 0, "expected a state dict, found None"},
      {"a tensor alone", TENSOR("\0", "K\x08\x85", "K\1\x85") ".", sizeof(TENSOR("\0", "K\x08\x85", "K\1\x85") ".") - 1,
       "expected a state dict, found a tensor"},
      {"a text cut", "X\xff\xff\xff\x7f.", 0, "the pickle ends within it"},
      {"a text of 2^64 - 1 bytes", "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 0, "the pickle ends within it"},
      {"a global cut", "ctorch\nFloat", 0, "the pickle ends within it"},
      {"a protocol to come", "\x80\x09}.", 0, "a protocol that this build does not know"},
      {"a frame beyond the end", "\x95\xff\xff\0\0\0\0\0\0}.", 11, "a frame longer than the pickle"},
      {"a long number", "\x8a\x09\1\1\1\1\1\1\1\1\1.", 0, "a number of more than 64 bits"},
      {"an empty memo", "h\5.", 0, "the memo has no such place"},
      {"a memo of 2^32 places", "Nr\xff\xff\xff\xff.", 0, "the memo has no such place"},
      {"no mark", "Nt.", 0, "there is no mark"},
      {"items below a mark", "N(\x85.", 0, "the stack holds too little"},
      {"a key alone", "}(Nu.", 0, "a key without a value"},
      {"items of no dictionary", "N(NNu.", 0, "expected a dictionary to put values into, found None"},
      {"a state of no dictionary", "N}b.", 0, "expected a dictionary with a state, found None"},
      {"items of no list", "}(Ne.", 0, "expected a list to append to, found a dictionary"},
      {"a called text", "X\0\0\0\0)R.", 8, "expected a global to call, found a text"},
      {"a called class", "ctorch\nFloatStorage\n)R.", 0, "no function to call"},
      {"an OrderedDict of a list", "ccollections\nOrderedDict\n]\x85R.", 0, "an OrderedDict without arguments"},
      {"a tensor of nothing", "ctorch._utils\n_rebuild_tensor_v2\n)R.", 0, "not those of a tensor"},
      {"a parameter of nothing", "ctorch._utils\n_rebuild_parameter\n)R.", 0, "not those of a parameter"},
      {"an id of a text", "X\0\0\0\0Q.", 7, "expected a tuple as the persistent id"},
      {"an id of no storage", ")Q.", 0, "not that of a storage"},
      {"a key that is no text", "}K\1Ns.", 0, "whose keys are texts; found a number"},
      {"a value that is no tensor", "}X\1\0\0\0aK\1s.", 11, "key \"a\": expected a tensor, found a number"},
      {"a name that is no text", "}X\1\0\0\0\xff" TENSOR("\0", "K\x08\x85", "K\1\x85") "s.",
       sizeof("}X\1\0\0\0\xff" TENSOR("\0", "K\x08\x85", "K\1\x85") "s.") - 1, "is not UTF-8"},
      {"negative sizes", "}X\1\0\0\0a" TENSOR("\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "s.",
       sizeof("}X\1\0\0\0a" TENSOR("\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "s.") - 1, "not those of a tensor"},
      {"other strides", "}X\1\0\0\0a" TENSOR("\0", "K\x08\x85", "K\1K\1\x86") "s.",
       sizeof("}X\1\0\0\0a" TENSOR("\0", "K\x08\x85", "K\1K\1\x86") "s.") - 1, "not those of a tensor"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    expect_bad_pickle(bad[i].what, bad[i].pickle, bad[i].size, TSR_ERR_FORMAT, bad[i].fragment);
  }
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void test_bad_tensors(void **state)
{
  (void)state;
  static const struct {
    pickle_tensor tensor;
    const char *fragment;
  } bad[] = {
      {{.storage = "FloatStorage", .key = "1", .elements = 8}, "its storage \"1\" is not in the file"},
      {{.storage = "FloatStorage", .key = "../data.pkl", .elements = 8}, "its storage \"../data.pkl\" is not in"},
      {{.storage = "FloatStorage", .key = "0", .elements = 7}, "has 32 bytes; expected 7 elements of type F32"},
      {{.storage = "HalfStorage", .key = "0", .elements = 8}, "has 32 bytes; expected 8 elements of type F16"},
      {{.storage = "FloatStorage", .key = "0", .elements = INT64_MAX}, "expected 9223372036854775807 elements"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .offset = 8}, "it reaches to element 8"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .offset = INT64_MAX}, "it reaches to element 92233"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .rank = 1, .extents = {9}, .strides = {1}},
       "it reaches to element 8"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .rank = 2, .extents = {2, 4}, .strides = {5, 1}},
       "it reaches to element 8"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .rank = 1, .extents = {9}, .strides = {0}},
       "more elements than its storage"},
      {{.storage = "FloatStorage",
        .key = "0",
        .elements = 8,
        .rank = 2,
        .extents = {INT64_MAX / 4, INT64_MAX / 4},
        .strides = {0, 0}},
       "beyond any memory"},
      {{.storage = "FloatStorage", .key = "0", .elements = 8, .rank = 1, .extents = {2}, .strides = {INT64_MAX / 2}},
       "beyond any memory"},
      {{.storage = "FloatStorage",
        .key = "0",
        .elements = 8,
        .rank = 3,
        .extents = {3, 1, 0},
        .strides = {1, 1, 1},
        .offset = 9},
       "it reaches to element 9"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    pickle_tensor tensor = bad[i].tensor;
    tensor.name = "a";
    size_t size;
    unsigned char *bytes = make_state_dict(&tensor, 1, 0, &size);
    expect_bad("a tensor", bytes, size, TSR_ERR_FORMAT, "tensor \"a\"");
    assert_message_has(bad[i].fragment);
    free(bytes);
  }
  pickle_tensor twice[] = {plain, plain};
  size_t size;
  unsigned char *bytes = make_state_dict(twice, 2, 0, &size);
  expect_bad("one name twice", bytes, size, TSR_ERR_FORMAT, "the tensor \"a\" is there twice");
  free(bytes);
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static void test_bad_arrays(void **state)
{
  (void)state;
  static const struct {
    int version;
    const char *header;
    size_t size;
    tsr_status status;
    const char *fragment;
  } bad[] = {
      {1, "", 0, TSR_ERR_FORMAT, "expected a dictionary"},
      {9, "{}", 0, TSR_ERR_FORMAT, "version 1, 2 or 3"},
      {1, "{}", 0, TSR_ERR_FORMAT, "each once"},
      {1, "{'descr': '<f4', 'shape': (8,)}", 32, TSR_ERR_FORMAT, "each once"},
      {1, "{'descr': '<f4', 'descr': '<f4'}", 32, TSR_ERR_FORMAT, "each once"},
      {1, "{'descr': '<f4', 'color': 1}", 32, TSR_ERR_FORMAT, "each once"},
      {1, "{'descr': [('a', '<f4')]}", 32, TSR_ERR_FORMAT, "\"descr\" as a text"},
      {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (8,)}", 32, TSR_ERR_UNSUPPORTED, "type \">f4\" of NumPy"},
      {1, "{'descr': '|O', 'fortran_order': False, 'shape': (8,)}", 32, TSR_ERR_UNSUPPORTED, "type \"|O\" of NumPy"},
      {1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (8,)}", 32, TSR_ERR_FORMAT, "as True or False"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': 8}", 32, TSR_ERR_FORMAT, "as a tuple"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (8 8)}", 32, TSR_ERR_FORMAT, "as a tuple"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-8,)}", 32, TSR_ERR_FORMAT, "as a tuple"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (8,)", 32, TSR_ERR_FORMAT, "','"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (8,)} x", 32, TSR_ERR_FORMAT, "nothing after"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", 32, TSR_ERR_FORMAT,
       "32 bytes of elements; expected 36"},
      {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", 32, TSR_ERR_FORMAT,
       "32 bytes of elements; expected 28"},
      {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 2)}", 32, TSR_ERR_FORMAT,
       "fewer than"},
      {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", 32, TSR_ERR_FORMAT,
       "below 2^60"},
      {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 99999999999999999, 99999999999999999)}", 0,
       TSR_ERR_FORMAT, "[0, 99999999999999999, 99999999999999999] is too large"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    byte_writer array = {0};
    zip_writer zip = {0};
    size_t size;
    npy_write(&array, bad[i].version, bad[i].header, eight, bad[i].size);
    zip_add(&zip, "w.npy", array.bytes, array.size, 0);
    unsigned char *bytes = zip_finish(&zip, 0, &size);
    expect_bad(bad[i].header, bytes, size, bad[i].status, "tensor \"w\"");
    assert_message_has(bad[i].fragment);
    free(bytes);
    free(array.bytes);
  }
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void write_state_dict(const char *path, const char *first, const char *second)
{
  pickle_tensor tensors[] = {plain, plain};
  tensors[0].name = first;
  tensors[1].name = second;
  size_t size;
  unsigned char *bytes = make_state_dict(tensors, second ? 2 : 1, ZIP_PADDED, &size);
  write_file(path, bytes, size);
  free(bytes);
}

static void expect_weights(const char *folder, const char *name, const char *file)
{
  tsr_checkpoint *c;
  if (tsr_checkpoint_open(folder, &c) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(c, name);
  assert_non_null(tensor);
  assert_string_equal(tensor->path, path_in(folder, file));
  expect_values(c, name, 8, eight);
  tsr_checkpoint_close(c);
}

/* Which file of a folder is read. */
static void test_folders(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  tsr_checkpoint *c;
  write_state_dict(path_in(folder, "part-1.bin"), "a", "b");
  write_state_dict(path_in(folder, "part-2.bin"), "c", NULL);
  write_text(path_in(folder, "pytorch_model.bin.index.json"),
             "{\"weight_map\":{\"a\":\"part-1.bin\",\"c\":\"part-2.bin\"}}");
  assert_int_equal(tsr_checkpoint_exists(folder), 1);
  expect_weights(folder, "c", "part-2.bin");
  assert_int_equal(tsr_checkpoint_open(folder, &c), TSR_OK);
  assert_int_equal(tsr_checkpoint_count(c), 3); /* b, which the map does not place, comes along */
  tsr_checkpoint_close(c);
  write_text(path_in(folder, "pytorch_model.bin.index.json"), "{\"weight_map\":{\"b\":\"part-2.bin\"}}");
  assert_int_equal(tsr_checkpoint_open(folder, &c), TSR_ERR_FORMAT);
  assert_message_has("part-2.bin: tensor \"b\" is missing: pytorch_model.bin.index.json places it there");

  write_state_dict(path_in(folder, "pytorch_model.bin"), "a", NULL);
  expect_weights(folder, "a", "pytorch_model.bin");

  const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}";
  byte_writer file = {0};
  put_number(&file, sizeof header - 1, 8);
  put_text(&file, header);
  put_bytes(&file, eight, sizeof eight);
  write_file(path_in(folder, "model.safetensors"), file.bytes, file.size);
  free(file.bytes);
  expect_weights(folder, "a", "model.safetensors");
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_state_dicts),    cmocka_unit_test(test_arrays),      cmocka_unit_test(test_zip_forms),
      cmocka_unit_test(test_bad_zips),       cmocka_unit_test(test_old_forms),   cmocka_unit_test(test_refused_pickles),
      cmocka_unit_test(test_broken_pickles), cmocka_unit_test(test_bad_tensors), cmocka_unit_test(test_bad_arrays),
      cmocka_unit_test(test_folders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
