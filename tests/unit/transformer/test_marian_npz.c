/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of Marian-NMT's own: YAML, the configuration in an .npz, and where its tensors go.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/yaml.h"
#include "core/transformer/model.h"
#include "tessera/generate.h"
#include "tessera/text.h"
#include "tests/support/temporary.h"
#include "tests/support/zip_writer.h"

enum { D = 4, F = 6, SOURCE = 5, TARGET = 7 };

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

/* ---- YAML -------------------------------------------------------------------------------------------------------- */

static void test_yaml(void **state)
{
  (void)state;
  const char *text = "# words\n"
                     "\"</s>\": 0\n"
                     "'it''s': 1\n"
                     "\"\\\"\\\\\\u2581a\": 2\n"
                     "? key\n: 3\n"
                     "null: 4\n"
                     "~: 5\n"
                     "real: -1.5e3\n"
                     "quoted: \"7\"\n"
                     "yes: true\n"
                     "empty:\n"
                     "list: [1, 0x10, 99999999999999999999, {a: ~}]\n";
  json_t *root;
  assert_int_equal(tsr_yaml_parse("f.yml", text, strlen(text), &root), TSR_OK);
  /* A whole number beyond 64 bits is a text: nobody takes it for an id. */
  json_t *wanted = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:s,s:b,s:n,s:[i,s,s,{s:n}]}", "</s>", 0, "it's", 1,
                             "\"\\\xE2\x96\x81"
                             "a",
                             2, "key", 3, "null", 4, "~", 5, "real", -1500.0, "quoted", "7", "yes", 1, "empty", "list",
                             1, "0x10", "99999999999999999999", "a");
  assert_non_null(wanted);
  assert_true(json_equal(root, wanted));
  json_decref(wanted);
  json_decref(root);

  static const struct {
    const char *text;
    const char *fragment;
  } bad[] = {
      {"", "f.yml:1: the file is empty"},
      {"- a\n", "expected a mapping"},
      {"a: 1\na: 2\n", "f.yml:2: the key \"a\" is there twice"},
      {"a: [1\n", "f.yml:2: "},
      {"a: &x 1\n", "tags and anchors"},
      {"a: !!str 1\n", "tags and anchors"},
      {"b: *x\n", "aliases are not read"},
      {"? [1]\n: 2\n", "expected a scalar as a key"},
      {"a: 1\n---\nb: 2\n", "expected one document"},
      {"a: \"\\0\"\nb: \xff\n", "f.yml:"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (tsr_yaml_parse("f.yml", bad[i].text, strlen(bad[i].text), &root) != TSR_ERR_FORMAT || root) {
      fail_msg("accepted: %s", bad[i].text);
    }
    assert_message_has(bad[i].fragment);
  }
  char deep[200] = "a: ";
  memset(deep + 3, '[', 100);
  assert_int_equal(tsr_yaml_parse("f.yml", deep, strlen(deep), &root), TSR_ERR_FORMAT);
  assert_message_has("too many lists");
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

#define CONFIG                                                                                                         \
  "type: transformer\ndim-emb: 4\nenc-depth: 1\ndec-depth: 1\ntransformer-heads: 2\ntransformer-dim-ffn: 6\n"          \
  "transformer-ffn-activation: relu\ndim-rnn: 1024\nenc-type: bidirectional\nskip: false\nversion: v1.12\n"
#define APART "dim-vocabs: [5, 7]\n"
#define JOINT "dim-vocabs:\n  - 7\n  - 7\ntied-embeddings-all: true\n"
#define POST  "transformer-preprocess: \"\"\ntransformer-postprocess: dan\n"
#define PRE   "transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: \"n\"\n"

/* Elements count up from `first`. */
static void add_array(zip_writer *zip, const char *name, int rows, int columns, float first)
{
  float values[64];
  char header[128];
  char entry[128];
  byte_writer array = {0};
  for (int i = 0; i < rows * columns; i++) {
    values[i] = first + (float)i;
  }
  snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns);
  snprintf(entry, sizeof entry, "%.100s.npy", name);
  npy_write(&array, 1, header, values, (size_t)(rows * columns) * sizeof *values);
  zip_add(zip, entry, array.bytes, array.size, 0);
  free(array.bytes);
}

static void add_norm(zip_writer *zip, const char *stem, int pre)
{
  static const char *const parts[] = {"ln_scale", "ln_bias"};
  for (int i = 0; i < 2; i++) {
    char name[80];
    snprintf(name, sizeof name, "%.60s_%s%s", stem, parts[i], pre ? "_pre" : "");
    add_array(zip, name, 1, D, (float)i);
  }
}

static void add_attention(zip_writer *zip, const char *stem, int pre)
{
  static const char letters[] = "qkvo";
  char name[80];
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "%.60s_W%c", stem, letters[i]);
    add_array(zip, name, D, D, (float)(100 * i));
    snprintf(name, sizeof name, "%.60s_b%c", stem, letters[i]);
    add_array(zip, name, 1, D, (float)(10 * i));
  }
  snprintf(name, sizeof name, "%.60s_Wo", stem);
  add_norm(zip, name, pre);
}

static void add_layers(zip_writer *zip, int pre)
{
  static const char *const stacks[] = {"encoder", "decoder"};
  for (int i = 0; i < 2; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s_l1_self", stacks[i]);
    add_attention(zip, name, pre);
    snprintf(name, sizeof name, "%s_l1_ffn_W1", stacks[i]);
    add_array(zip, name, D, F, 0);
    snprintf(name, sizeof name, "%s_l1_ffn_b1", stacks[i]);
    add_array(zip, name, 1, F, 0);
    snprintf(name, sizeof name, "%s_l1_ffn_W2", stacks[i]);
    add_array(zip, name, F, D, 0);
    snprintf(name, sizeof name, "%s_l1_ffn_b2", stacks[i]);
    add_array(zip, name, 1, D, 0);
    snprintf(name, sizeof name, "%s_l1_ffn_ffn", stacks[i]);
    add_norm(zip, name, pre);
    snprintf(name, sizeof name, "%s_top", stacks[i]);
    add_norm(zip, name, 0);
    snprintf(name, sizeof name, "%s_emb", stacks[i]);
    add_norm(zip, name, 1);
  }
  add_attention(zip, "decoder_l1_context", pre);
}

static void write_model(const char *folder, const char *config, const char *settings, void (*add)(zip_writer *))
{
  zip_writer zip = {0};
  byte_writer text = {0};
  byte_writer array = {0};
  char header[96];
  size_t size;
  put_text(&text, config);
  put_number(&text, 0, 8);
  snprintf(header, sizeof header, "{'descr': '<i1', 'fortran_order': False, 'shape': (%zu,), }", text.size);
  npy_write(&array, 1, header, text.bytes, text.size);
  zip_add(&zip, "special:model.yml.npy", array.bytes, array.size, 0);
  add_layers(&zip, strstr(config, "transformer-preprocess: n") != NULL);
  add(&zip);
  unsigned char *bytes = zip_finish(&zip, 0, &size);
  write_file(path_in(folder, "model.npz"), bytes, size);
  free(bytes);
  free(array.bytes);
  free(text.bytes);
  write_text(path_in(folder, "v.yml"), "a: 2\n</s>: 3\n<unk>: 4\n");
  write_text(path_in(folder, "decoder.yml"),
             settings ? settings : "models: [model.npz]\nvocabs: [v.yml, v.yml]\nbeam-size: 6\nnormalize: 0.6\n");
}

static void add_joint(zip_writer *zip)
{
  add_array(zip, "Wemb", TARGET, D, 0);
  add_array(zip, "decoder_ff_logit_out_b", 1, TARGET, 0);
  add_array(zip, "Wpos", 9, D, 0);
}

static void add_apart(zip_writer *zip)
{
  add_array(zip, "encoder_Wemb", SOURCE, D, 0);
  add_array(zip, "decoder_Wemb", TARGET, D, 0);
  add_array(zip, "decoder_ff_logit_out_W", D, TARGET, 0);
}

static void add_second_layer(zip_writer *zip)
{
  add_apart(zip);
  add_array(zip, "encoder_l2_self_Wq", D, D, 0);
}

static void expect_parameter(const tsr_model *model, const char *name, int32_t n, const float *values)
{
  float found[64];
  const tsr_parameter *parameter = tsr_model_find(model, name);
  if (!parameter) {
    fail_msg("there is no parameter %s", name);
  }
  assert_int_equal(tsr_shape_elements(&parameter->shape), n);
  assert_int_equal(tsr_parameter_read(parameter, 0, n, TSR_F32, found), TSR_OK);
  for (int32_t i = 0; i < n; i++) {
    float one;
    assert_int_equal(tsr_parameter_read(parameter, i, 1, TSR_F32, &one), TSR_OK);
    if (found[i] != values[i] || one != values[i]) {
      fail_msg("%s: element %d is %g, expected %g", name, (int)i, (double)found[i], (double)values[i]);
    }
  }
}

static tsr_model *open_model(const char *folder)
{
  tsr_model *model;
  if (tsr_model_open(folder, &model) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return model;
}

static void test_joint(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_model(folder, CONFIG JOINT POST, NULL, add_joint);
  tsr_model *model = open_model(folder);
  const tsr_transformer_config *c = tsr_model_config(model);
  assert_string_equal(c->family, "marian_npz");
  assert_int_equal(c->source_vocabulary, TARGET + 1);
  assert_int_equal(c->target_vocabulary, TARGET + 1);
  assert_int_equal(c->decoder_start_id, TARGET);
  assert_int_equal(c->eos_id, 3);
  assert_int_equal(c->unk_id, 4);
  assert_int_equal(c->norm_position, TSR_NORM_POST);
  assert_int_equal(c->final_norm + c->embedding_norm, 0);
  assert_int_equal(c->activation, TSR_ACTIVATION_RELU);
  assert_int_equal(c->position, TSR_POSITION_SINUSOID_TENSOR2TENSOR);
  assert_true(c->embedding_scale == 2.0f && c->epsilon == 1e-6f);
  /* A row of zeros more, with a bias that bans it. */
  expect_parameter(model, "embedding.weight", 32, (float[32]){0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                                              14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
  expect_parameter(model, "logits.bias", 8, (float[]){0, 1, 2, 3, 4, 5, 6, -INFINITY});
  /* [in, out] becomes [out, in]; queries, keys and values lie one behind the other. */
  expect_parameter(model, "encoder.layers.0.self_attention.qkv.weight", 48,
                   (float[]){0,   4,   8,   12,  1,   5,   9,   13,  2,   6,   10,  14,  3,   7,   11,  15,
                             100, 104, 108, 112, 101, 105, 109, 113, 102, 106, 110, 114, 103, 107, 111, 115,
                             200, 204, 208, 212, 201, 205, 209, 213, 202, 206, 210, 214, 203, 207, 211, 215});
  expect_parameter(model, "decoder.layers.0.cross_attention.kv.bias", 8, (float[]){10, 11, 12, 13, 20, 21, 22, 23});
  expect_parameter(model, "encoder.layers.0.feed_forward.in.weight", 24,
                   (float[]){0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23});
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  assert_int_equal(tsr_generate_defaults(model, &options), TSR_OK);
  assert_int_equal(options.search, TSR_SEARCH_MARIAN);
  assert_int_equal(options.beam, 6);
  assert_true(options.length_penalty == 0.6f);
  assert_int_equal(options.n_suppressed, 1);
  assert_int_equal(options.suppressed[0], 4);
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

static void test_apart(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_model(folder, CONFIG APART PRE "transformer-postprocess-emb: nd\noutput-omit-bias: true\n", NULL, add_apart);
  tsr_model *model = open_model(folder);
  const tsr_transformer_config *c = tsr_model_config(model);
  assert_int_equal(c->source_vocabulary, SOURCE);
  assert_int_equal(c->target_vocabulary, TARGET + 1);
  assert_int_equal(c->norm_position, TSR_NORM_PRE);
  assert_int_equal(c->final_norm, 1);
  assert_int_equal(c->embedding_norm, 1);
  assert_int_equal(c->tied_logits, 0);
  expect_parameter(model, "logits.weight", 32, (float[32]){0,  7,  14, 21, 1,  8,  15, 22, 2,  9,  16, 23, 3,  10,
                                                           17, 24, 4,  11, 18, 25, 5,  12, 19, 26, 6,  13, 20, 27});
  expect_parameter(model, "logits.bias", 8, (float[]){0, 0, 0, 0, 0, 0, 0, -INFINITY});
  expect_parameter(model, "encoder.embedding_norm.bias", 4, (float[]){1, 2, 3, 4});
  tsr_model_close(model);

  write_model(folder, CONFIG JOINT POST "transformer-train-position-embeddings: true\n", NULL, add_joint);
  model = open_model(folder);
  c = tsr_model_config(model);
  assert_int_equal(c->position, TSR_POSITION_LEARNED);
  assert_int_equal(c->max_positions, 9);
  assert_true(c->embedding_scale == 1.0f);
  expect_parameter(model, "decoder.positions.weight", 36,
                   (float[]){0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                             18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35});
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

/* Each key that changes what is computed, and that is not read here, is refused by its name. */
static void test_refused(void **state)
{
  (void)state;
  static const struct {
    const char *config;
    const char *settings;
    tsr_status status;
    const char *fragment;
  } bad[] = {
      {"type: s2s\n", NULL, TSR_ERR_UNSUPPORTED, "key 'type' is \"s2s\""},
      {CONFIG APART POST "transformer-decoder-autoreg: rnn\n", NULL, TSR_ERR_UNSUPPORTED,
       "'transformer-decoder-autoreg'"},
      {CONFIG APART POST "transformer-ffn-depth: 3\n", NULL, TSR_ERR_UNSUPPORTED, "'transformer-ffn-depth' is 3"},
      {CONFIG APART POST "transformer-tied-layers: [1, 1]\n", NULL, TSR_ERR_UNSUPPORTED, "'transformer-tied-layers'"},
      {CONFIG APART POST "transformer-no-projection: true\n", NULL, TSR_ERR_UNSUPPORTED, "'transformer-no-projection'"},
      {CONFIG APART POST "right-left: true\n", NULL, TSR_ERR_UNSUPPORTED, "key 'right-left' is true"},
      {CONFIG APART POST "some-new-thing: 3\n", NULL, TSR_ERR_UNSUPPORTED, "key 'some-new-thing' is 3"},
      {CONFIG APART "transformer-postprocess: dar\n", NULL, TSR_ERR_UNSUPPORTED,
       "'transformer-postprocess' is \"dar\""},
      {CONFIG APART "transformer-preprocess: n\n", NULL, TSR_ERR_UNSUPPORTED, "'transformer-postprocess'"},
      {CONFIG APART POST "transformer-postprocess-top: h\n", NULL, TSR_ERR_UNSUPPORTED,
       "'transformer-postprocess-top'"},
      {CONFIG "dim-vocabs: [5]\n", NULL, TSR_ERR_UNSUPPORTED, "'dim-vocabs'"},
      {CONFIG "dim-vocabs: [5, x]\n", NULL, TSR_ERR_FORMAT, "'dim-vocabs'"},
      {CONFIG "dim-vocabs: [5, 7]\ntied-embeddings-all: true\n", NULL, TSR_ERR_FORMAT, "share one table"},
      {CONFIG "dim-vocabs: [5, 8]\n" POST, NULL, TSR_ERR_FORMAT,
       "'decoder_Wemb' has the shape [7, 4]; expected [8, 4]"},
      {CONFIG APART "transformer-heads: many\n", NULL, TSR_ERR_FORMAT, "is there twice"},
      {CONFIG APART POST "enc-depth: {}\n", NULL, TSR_ERR_FORMAT, "is there twice"},
      {CONFIG APART POST, "models: [../model.npz]\nvocabs: [a, b]\n", TSR_ERR_FORMAT, "in the same folder"},
      {CONFIG APART POST, "models: [/model.npz]\nvocabs: [a, b]\n", TSR_ERR_FORMAT, "in the same folder"},
      {CONFIG APART POST, "models: [a.npz, b.npz]\nvocabs: [a, b]\n", TSR_ERR_UNSUPPORTED, "'models' lists 2 files"},
      {CONFIG APART POST, "models: [model.npz]\nvocabs: [a]\n", TSR_ERR_UNSUPPORTED, "'vocabs' lists 1 files"},
      {CONFIG APART POST, "vocabs: [a, b]\n", TSR_ERR_FORMAT, "'models': expected a list"},
      {CONFIG APART POST, "models: [none.npz]\nvocabs: [a, b]\n", TSR_ERR_IO, "none.npz: cannot be opened"},
      {CONFIG APART POST, "models: [model.npz]\nvocabs: [a.yml, b.yml]\n", TSR_ERR_IO, "b.yml: cannot be opened"},
      {CONFIG APART POST, "models: [model.npz]\nvocabs: [v.yml, decoder.yml]\n", TSR_ERR_FORMAT, "token '</s>'"},
  };
  char *folder = make_temporary_folder();
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_model *model;
    write_model(folder, bad[i].config, bad[i].settings, add_apart);
    tsr_status status = tsr_model_open(folder, &model);
    if (status != bad[i].status || model) {
      fail_msg("case %zu (%s): status %s: %s", i, bad[i].fragment, tsr_status_name(status), tsr_error_message());
    }
    assert_message_has(bad[i].fragment);
  }
  tsr_model *model;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  write_model(folder, CONFIG APART POST, NULL, add_second_layer);
  assert_int_equal(tsr_model_open(folder, &model), TSR_ERR_FORMAT);
  assert_message_has("tensor 'encoder_l2_self_Wq' is of the encoder's layer 2 (from 1 on), but key 'enc-depth' of ");
  assert_message_has("model.npz: special:model.yml says 1");
  write_model(folder, CONFIG JOINT POST, "models: [model.npz]\nvocabs: [v.yml, v.yml]\nshortlist: [lex.s2t]\n",
              add_joint);
  model = open_model(folder);
  assert_int_equal(tsr_generate_defaults(model, &options), TSR_ERR_UNSUPPORTED);
  assert_message_has("decoder.yml: key 'shortlist'");
  assert_int_equal(tsr_model_save(model, folder, NULL, NULL, NULL), TSR_ERR_UNSUPPORTED);
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void expect_text(const tsr_tokenizer *tokenizer, const char *text, int32_t n, const int32_t *ids,
                        const char *decoded)
{
  int32_t *found = NULL;
  int32_t n_found = 0;
  char *back = NULL;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, text, strlen(text), &found, &n_found), TSR_OK);
  assert_int_equal(n_found, n);
  assert_memory_equal(found, ids, (size_t)n * sizeof *ids);
  assert_int_equal(tsr_tokenizer_decode(tokenizer, found, n_found, &back), TSR_OK);
  assert_string_equal(back, decoded);
  tsr_free(found);
  tsr_free(back);
}

static void test_texts(void **state)
{
  (void)state;
  static const char *const settings[] = {"models: [model.npz]\nvocabs: [v.yml, v.yml]\n",
                                         "models: [model.npz]\nvocabs: [lines.txt, v.yml]\n",
                                         "models: [model.npz]\nvocabs: [older.yml, older.yml]\n"};
  char *folder = make_temporary_folder();
  write_text(path_in(folder, "lines.txt"), "b\nc\na\r\n</s>\n<unk>\n");
  write_text(path_in(folder, "older.yml"), "{a: 2, eos: 3, UNK: 4}");
  for (int i = 0; i < 3; i++) {
    write_model(folder, i == 1 ? CONFIG APART POST : CONFIG JOINT POST, settings[i], i == 1 ? add_apart : add_joint);
    tsr_model *model = open_model(folder);
    tsr_tokenizer *tokenizer;
    if (tsr_tokenizer_open(model, &tokenizer) != TSR_OK) {
      fail_msg("%s", tsr_error_message());
    }
    tsr_model_close(model);
    expect_text(tokenizer, " a  a", 3, (int32_t[]){2, 2, 3}, "a a");
    expect_text(tokenizer, "zz a", 3, (int32_t[]){4, 2, 3}, "a");
    expect_text(tokenizer, "", 1, (int32_t[]){3}, "");
    tsr_tokenizer_close(tokenizer);
  }
  tsr_tokenizer *tokenizer;
  write_text(path_in(folder, "lines.txt"), "a\na\n");
  write_model(folder, CONFIG APART POST, settings[1], add_apart);
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_FORMAT);
  assert_message_has("lines.txt");
  write_model(folder, CONFIG APART POST, "models: [model.npz]\nvocabs: [none, v.yml]\n", add_apart);
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_IO);
  assert_message_has("none: cannot be opened");
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_yaml), cmocka_unit_test(test_joint),
                                     cmocka_unit_test(test_apart), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
