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
#include <unistd.h>

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

/* A folder with the files of a tiny one, but for one whose content is given; without that one where it is NULL. */
static char *make_folder(const char *from, const char *changed, const void *at, size_t size)
{
  static const char *const names[] = {
      "config.json",           "model.bin", "shared_vocabulary.json", "shared_vocabulary.txt", "source_vocabulary.json",
      "target_vocabulary.json"};
  char *folder = make_temporary_folder(), path[PATH];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(path, sizeof path, "%s/%s/%s", folders, from, names[i]);
    if (strcmp(names[i], changed) == 0) {
      if (at) {
        write_all(folder, changed, at, size);
      }
    } else if (access(path, F_OK) == 0) {
      bytes b = read_all(from, names[i]);
      write_all(folder, names[i], b.at, b.size);
      free(b.at);
    }
  }
  return folder;
}

/* With the message, and the name of the file that is broken. */
static void expect_error_of(const char *from, const char *changed, const void *at, size_t size, const char *named,
                            const char *message)
{
  tsr_model *model = NULL;
  char *folder = make_folder(from, changed, at, size), start[PATH];
  tsr_status status = tsr_model_open(folder, &model);
  snprintf(start, sizeof start, "%s/%s: ", folder, named);
  if (status == TSR_OK || model || strncmp(tsr_error_message(), start, strlen(start)) != 0 ||
      !strstr(tsr_error_message(), message)) {
    fail_msg("expected an error with '%s' of %s, found %s: %s", message, named, tsr_status_name(status),
             tsr_error_message());
  }
  remove_temporary_folder(folder);
}

static void expect_error(const char *from, const char *changed, const void *at, size_t size, const char *message)
{
  expect_error_of(from, changed, at, size, changed, message);
}

/* Lengths within each part of the file, and at its beginning and end. */
static void test_truncated(void **state)
{
  static const char *const from[] = {"tiny-opennmt-py-int8", "tiny-old-v3-rev3-int8"};
  (void)state;
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
    bytes b = read_all(from[i], "model.bin");
    expect_error(from[i], "model.bin", b.at, 0, "the file is empty");
    for (size_t size = 1; size < b.size; size += size < 512 ? 1 : size < b.size - 512 ? 997 : 7) {
      expect_error(from[i], "model.bin", b.at, size, "truncated");
    }
    free(b.at);
  }
}

/* Nothing that CTranslate2 writes. */
static void test_other_weights(void **state)
{
  static const char zeros[64] = {0}, text[] = "weights, but as a text that somebody wrote";
  static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n";
  (void)state;
  expect_error("tiny-opennmt-py-int8", "model.bin", zeros, sizeof zeros, "expected a model of CTranslate2");
  expect_error("tiny-opennmt-py-int8", "model.bin", text, sizeof text, "expected a model of CTranslate2");
  expect_error("tiny-opennmt-py-int8", "model.bin", pointer, sizeof pointer - 1, "git lfs pull");
  expect_error("tiny-opennmt-py-int8", "model.bin", NULL, 0, "cannot be opened");
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

/* Variables of a file of the newest version. */
enum { MOST_VARIABLES = 256 };

typedef struct entry {
  const char *name;
  size_t begin, end; /* in the file */
} entry;

static size_t read_number(const bytes *b, size_t at, int size)
{
  size_t number = 0;
  for (int i = 0; i < size; i++) {
    number |= (size_t)b->at[at + (size_t)i] << (8 * i);
  }
  return number;
}

/* Returns how many there are. *first: where their number stands. */
static int list_variables(const bytes *b, entry list[MOST_VARIABLES], size_t *first)
{
  *first = find(b, "TransformerSpec") + sizeof "TransformerSpec" + 4;
  const int n = (int)read_number(b, *first, 4);
  size_t at = *first + 4;
  assert_in_range(n, 1, MOST_VARIABLES);
  for (int i = 0; i < n; i++) {
    const size_t behind = at + 2 + read_number(b, at, 2);
    const size_t size = behind + 1 + 4 * b->at[behind] + 1;
    list[i] = (entry){.name = (const char *)b->at + at + 2, .begin = at};
    at = list[i].end = size + 4 + read_number(b, size, 4);
  }
  return n;
}

/* The file without the variables for which is_left_out says so. */
static bytes leave_out(const bytes *b, int (*is_left_out)(const char *name, const char *which), const char *which)
{
  entry list[MOST_VARIABLES];
  size_t first = 0;
  const int n = list_variables(b, list, &first);
  bytes left = {malloc(b->size), first + 4};
  int n_left = 0;
  memcpy(left.at, b->at, first + 4);
  for (int i = 0; i < n; i++) {
    if (!is_left_out(list[i].name, which)) {
      memcpy(left.at + left.size, b->at + list[i].begin, list[i].end - list[i].begin);
      left.size += list[i].end - list[i].begin;
      n_left++;
    }
  }
  for (int i = 0; i < 4; i++) {
    left.at[first + (size_t)i] = (unsigned char)(n_left >> (8 * i));
  }
  memcpy(left.at + left.size, b->at + list[n - 1].end, b->size - list[n - 1].end);
  left.size += b->size - list[n - 1].end;
  return left;
}

static int is_it(const char *name, const char *which)
{
  return strcmp(name, which) == 0;
}

static int is_within(const char *name, const char *which)
{
  return strncmp(name, which, strlen(which)) == 0;
}

static int ends_with(const char *name, const char *end)
{
  return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* What models may lack: biases, scalars with a default, saved positions. */
static int may_lack(const bytes *b, const entry *v)
{
  const int is_scalar = b->at[v->begin + 2 + strlen(v->name) + 1] == 0;
  return ends_with(v->name, "/bias") || ends_with(v->name, "position_encodings/encodings") ||
         (is_scalar && !ends_with(v->name, "num_heads") && !ends_with(v->name, "queries_scale"));
}

/* Each tensor alone is missing: the message names it. */
static void test_missing_tensors(void **state)
{
  static const char *const from[] = {"tiny-opennmt-py-int8", "tiny-shaw-float16", "tiny-bart-float16"};
  (void)state;
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
    entry list[MOST_VARIABLES];
    size_t first = 0;
    int n_missed = 0;
    bytes b = read_all(from[i], "model.bin");
    const int n = list_variables(&b, list, &first);
    for (int k = 0; k < n; k++) {
      bytes left = leave_out(&b, is_it, list[k].name);
      if (!may_lack(&b, &list[k])) {
        expect_error(from[i], "model.bin", left.at, left.size, list[k].name);
        n_missed++;
      }
      free(left.at);
    }
    assert_true(n_missed > 40);
    free(b.at);
  }
}

/* A layer of which nothing is there, but the next one is. */
static void test_missing_layers(void **state)
{
  static const struct {
    const char *from, *layer;
  } rows[] = {{"tiny-options-float16", "encoder/layer_0/"}, {"tiny-options-float16", "encoder/layer_1/"},
              {"tiny-shaw-kv-int8", "encoder/layer_0/"},    {"tiny-shaw-kv-int8", "decoder/layer_0/"},
              {"tiny-options-float16", "decoder/layer_0/"}, {"tiny-options-float16", "encoder/layer_"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char message[PATH];
    bytes b = read_all(rows[i].from, "model.bin"), left = leave_out(&b, is_within, rows[i].layer);
    snprintf(message, sizeof message, "tensor '%s%sself_attention/linear_0/weight' is missing", rows[i].layer,
             ends_with(rows[i].layer, "/") ? "" : "0/");
    expect_error(rows[i].from, "model.bin", left.at, left.size, message);
    free(left.at);
    free(b.at);
  }
}

/* A layer whose number no model has. */
static void test_far_layer(void **state)
{
  static const char name[] = "encoder/layer_1/self_attention/linear_0/bias";
  (void)state;
  bytes b = read_all("tiny-opennmt-py-int8", "model.bin");
  memcpy(b.at + find(&b, name), "encoder/layer_9999999999", sizeof "encoder/layer_9999999999" - 1);
  expect_error("tiny-opennmt-py-int8", "model.bin", b.at, b.size, "expected layers 0 to");
  free(b.at);
}

/* Distances of whose square no memory holds a matrix. */
static void test_far_distances(void **state)
{
  static const char name[] = "encoder/layer_0/self_attention/relative_position_keys";
  enum { ROWS = 65535, COLUMNS = 16, OLD = 9 * COLUMNS * 2, NEW = ROWS * COLUMNS * 2 };
  (void)state;
  bytes b = read_all("tiny-shaw-float16", "model.bin");
  /* Behind the name the rank, two extents, the type and the number of bytes. */
  const size_t at = find(&b, name) + sizeof name, data = at + 1 + 4 + 4 + 1 + 4, size = b.size - OLD + NEW;
  unsigned char *grown = calloc(1, size);
  assert_non_null(grown);
  memcpy(grown, b.at, data);
  memcpy(grown + data + NEW, b.at + data + OLD, b.size - data - OLD);
  for (int i = 0; i < 4; i++) {
    grown[at + 1 + (size_t)i] = (unsigned char)(ROWS >> (8 * i));
    grown[data - 4 + (size_t)i] = (unsigned char)(NEW >> (8 * i));
  }
  expect_error("tiny-shaw-float16", "model.bin", grown, size, "expected a matrix of at most 4096 rows");
  free(grown);
  free(b.at);
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
  static const char two[] = "[\"<unk>\", 5]", few[] = "[\"</s>\", \"<s>\"]", text[] = "{\"add_source_bos\": 3}";
  static const char other[] = "{\"eos_token\": \"<end>\"}";
  (void)state;
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", two, sizeof two - 1, "element 1");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", few, sizeof few - 1,
               "3 tokens, but the model has 101");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", "[", 1, "line 1");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", "", 0, "the file is empty");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", "{}", 2, "expected a list of tokens");
  expect_error("tiny-opennmt-py-int8", "shared_vocabulary.json", NULL, 0, "the vocabulary is missing");
  expect_error("tiny-old-v3-rev3-int8", "shared_vocabulary.txt", "", 0, "the file is empty");
  expect_error("tiny-old-v3-rev3-int8", "shared_vocabulary.txt", "</s>\n<s>\n", 9, "3 tokens, but the model has 101");
  expect_error("tiny-sepvocab-int8-bfloat16", "target_vocabulary.json", "", 0, "the file is empty");
  expect_error_of("tiny-sepvocab-int8-bfloat16", "target_vocabulary.json", NULL, 0, "shared_vocabulary.json",
                  "target_vocabulary.json");
  expect_error("tiny-opennmt-py-int8", "config.json", text, sizeof text - 1, "add_source_bos");
  expect_error("tiny-opennmt-py-int8", "config.json", "", 0, "the file is empty");
  expect_error("tiny-opennmt-py-int8", "config.json", "[]", 2, "expected a JSON object");
  expect_error_of("tiny-opennmt-py-int8", "config.json", other, sizeof other - 1, "shared_vocabulary.json", "<end>");
  expect_error_of("tiny-opennmt-py-int8", "config.json", NULL, 0, "model.bin", "config.json");
}

/* A configuration without keys has the defaults. */
static void test_no_keys(void **state)
{
  tsr_model *model = NULL;
  (void)state;
  char *folder = make_folder("tiny-opennmt-py-int8", "config.json", "{}", 2);
  assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
  assert_true(tsr_model_config(model)->eos_id >= 0);
  tsr_model_close(model);
  remove_temporary_folder(folder);
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
      cmocka_unit_test(test_truncated),       cmocka_unit_test(test_other_weights),
      cmocka_unit_test(test_numbers),         cmocka_unit_test(test_aliases),
      cmocka_unit_test(test_missing_tensors), cmocka_unit_test(test_missing_layers),
      cmocka_unit_test(test_far_layer),       cmocka_unit_test(test_far_distances),
      cmocka_unit_test(test_layers),          cmocka_unit_test(test_other_files),
      cmocka_unit_test(test_no_keys),         cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_tokenizer),
  };
  if (argc < 2) {
    return 2;
  }
  folders = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
