/* SPDX-License-Identifier: Apache-2.0
 *
 * Broken files of CTranslate2: each is an error that names the file, and nothing else happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/text.h"
#include "tests/support/temporary.h"

enum { PATH = 4096 };

static const char *folders;

typedef struct bytes {
  unsigned char *at;
  size_t size;
} bytes;

static bytes read_all(const char *folder, const char *name)
{
  char path[PATH];
  bytes b = {malloc(1 << 20), 0};
  snprintf(path, sizeof path, "%s/%s/%s", folders, folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  b.size = fread(b.at, 1, 1 << 20, file);
  fclose(file);
  return b;
}

static void write_all(const char *folder, const char *name, const void *at, size_t size)
{
  char path[PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(at, 1, size, file), size);
  fclose(file);
}

/* A folder with the files of a tiny one, but for one whose content is given. */
static char *make_folder(const char *from, const char *changed, const void *at, size_t size)
{
  static const char *const names[] = {"config.json", "model.bin", "shared_vocabulary.json"};
  char *folder = make_temporary_folder();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i], changed) == 0) {
      write_all(folder, changed, at, size);
    } else {
      bytes b = read_all(from, names[i]);
      write_all(folder, names[i], b.at, b.size);
      free(b.at);
    }
  }
  return folder;
}

static void expect_error(const char *from, const char *changed, const void *at, size_t size, const char *message)
{
  tsr_model *model = NULL;
  char *folder = make_folder(from, changed, at, size);
  tsr_status status = tsr_model_open(folder, &model);
  if (status == TSR_OK || model || !strstr(tsr_error_message(), message)) {
    fail_msg("expected an error with '%s', found %s: %s", message, tsr_status_name(status), tsr_error_message());
  }
  remove_temporary_folder(folder);
}

/* Every length: an error, or the whole. */
static void test_truncated(void **state)
{
  (void)state;
  bytes b = read_all("tiny-opennmt-py-int8", "model.bin");
  for (size_t size = 8; size < b.size; size += size < 4096 ? 7 : 997) {
    tsr_model *model = NULL;
    char *folder = make_folder("tiny-opennmt-py-int8", "model.bin", b.at, size);
    assert_int_not_equal(tsr_model_open(folder, &model), TSR_OK);
    assert_null(model);
    remove_temporary_folder(folder);
  }
  free(b.at);
}

/* Where a text stands in a file, the zero that ends it included. */
static size_t find(const bytes *b, const char *text)
{
  size_t n = strlen(text) + 1;
  for (size_t i = 0; i + n <= b->size; i++) {
    if (memcmp(b->at + i, text, n) == 0) {
      return i;
    }
  }
  fail_msg("'%s' is not there", text);
  return 0;
}

static void change(const char *text, size_t behind, uint32_t value, int size, const char *message)
{
  bytes b = read_all("tiny-opennmt-py-int8", "model.bin");
  size_t at = text ? find(&b, text) + strlen(text) + 1 + behind : behind;
  for (int i = 0; i < size; i++) {
    b.at[at + (size_t)i] = (unsigned char)(value >> (8 * i));
  }
  expect_error("tiny-opennmt-py-int8", "model.bin", b.at, b.size, message);
  free(b.at);
}

static void test_numbers(void **state)
{
  static const char bias[] = "decoder/layer_0/attention/linear_0/bias";
  (void)state;
  change(NULL, 0, 7, 4, "binary version 7");
  change("TransformerSpec", 0, 8, 4, "revision 8");
  change("TransformerSpec", 0, 1, 4, "revision 1");
  change("TransformerSpec", 4, UINT32_MAX, 4, "the number of tensors");
  change("TransformerSpec", 4, 3, 4, "aliases");
  change(bias, 0, 255, 1, bias);
  change(bias, 1, UINT32_MAX, 4, bias);
  change(bias, 5, 17, 1, "type number 17");
  change(bias, 6, UINT32_MAX, 4, bias);
  change("decoder/num_heads", 1 + 4 + 1, 0, 2, "num_heads");
  change("decoder/num_heads", 1 + 4 + 1, 5, 2, "linear_0");
  change("decoder/activation", 1 + 4 + 1, 99, 1, "activation");
}

/* Half of a number of heads; a stack without layers. */
static void test_layers(void **state)
{
  static const char layer[] = "encoder/layer_0/self_attention/linear_0/weight";
  (void)state;
  bytes b = read_all("tiny-opennmt-py-int8", "model.bin");
  /* What follows the name, rank 0, type 2 and two bytes, becomes an f32 of 4.5. */
  static const unsigned char half[] = {0, 0, 4, 0, 0, 0, 0, 0, 0x90, 0x40};
  size_t at = find(&b, "encoder/num_heads") + sizeof "encoder/num_heads", old = 1 + 1 + 4 + 2;
  memmove(b.at + at + sizeof half, b.at + at + old, b.size - at - old);
  memcpy(b.at + at, half, sizeof half);
  b.size += sizeof half - old;
  expect_error("tiny-opennmt-py-int8", "model.bin", b.at, b.size, "'num_heads' of the encoder is 4.5");
  free(b.at);
  b = read_all("tiny-opennmt-py-int8", "model.bin");
  b.at[find(&b, layer)] = 'x';
  expect_error("tiny-opennmt-py-int8", "model.bin", b.at, b.size, layer);
  free(b.at);
}

/* An alias that stands for an alias, for itself, for nothing, or has a variable's name. */
static void test_aliases(void **state)
{
  static const char *const alias = "encoder/embeddings_0/weight", *const variable = "decoder/embeddings/weight";
  (void)state;
  for (int i = 0; i < 2; i++) {
    bytes b = read_all("tiny-opennmt-py-int8", "model.bin");
    size_t at = find(&b, alias), behind = at + strlen(alias) + 1;
    assert_int_equal(b.at[behind], strlen(variable) + 1);
    if (i == 0) { /* itself */
      size_t tail = b.size - behind - 2 - strlen(variable) - 1;
      memmove(b.at + behind + 2 + strlen(alias) + 1, b.at + behind + 2 + strlen(variable) + 1, tail);
      b.at[behind] = (unsigned char)(strlen(alias) + 1);
      memcpy(b.at + behind + 2, alias, strlen(alias) + 1);
      b.size += strlen(alias) - strlen(variable);
    } else {
      b.at[behind + 2] = 'x';
    }
    expect_error("tiny-opennmt-py-int8", "model.bin", b.at, b.size, "alias");
    free(b.at);
  }
}

static void test_other_files(void **state)
{
  static const char two[] = "[\"<unk>\", 5]", few[] = "[\"a\", \"b\"]", text[] = "{\"add_source_bos\": 3}";
  (void)state;
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", two, sizeof two - 1, "element 1");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", few, sizeof few - 1, "</s>");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", "[", 1, "line 1");
  expect_error("tiny-opennmt-py-int8", "config.json", text, sizeof text - 1, "add_source_bos");
}

static void test_refused(void **state)
{
  char path[PATH];
  tsr_model *model = NULL;
  (void)state;
  snprintf(path, sizeof path, "%s/tiny-multiquery-int8", folders);
  assert_int_equal(tsr_model_open(path, &model), TSR_ERR_UNSUPPORTED);
  assert_non_null(strstr(tsr_error_message(), "multi_query_attention"));
  assert_non_null(strstr(tsr_error_message(), "model.bin"));
}

/* A folder has no tokenizer, and says which files it could have. */
static void test_no_tokenizer(void **state)
{
  char path[PATH];
  tsr_model *model = NULL;
  tsr_tokenizer *tokenizer = NULL;
  (void)state;
  snprintf(path, sizeof path, "%s/tiny-bart-float16", folders);
  assert_int_equal(tsr_model_open(path, &model), TSR_OK);
  assert_int_equal(tsr_tokenizer_open(model, &tokenizer), TSR_ERR_IO);
  assert_non_null(strstr(tsr_error_message(), "source.spm"));
  tsr_model_close(model);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_truncated),    cmocka_unit_test(test_numbers),     cmocka_unit_test(test_aliases),
      cmocka_unit_test(test_layers),       cmocka_unit_test(test_other_files), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_tokenizer),
  };
  if (argc < 2) {
    return 2;
  }
  folders = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
