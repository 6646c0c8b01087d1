/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that have more than the configuration asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/checkpoint/safetensors_write.h"
#include "core/transformer/model.h"
#include "tests/support/configs.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

static char warnings[4096];
static int n_warnings;

static void on_log(void *user, int32_t level, const char *message)
{
  (void)user;
  if (level == TSR_LOG_WARNING) {
    snprintf(warnings, sizeof warnings, "%s", message);
    n_warnings++;
  }
}

static void assert_ok(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

static tsr_status zeros(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context, (void)parameter, (void)first;
  memset(elements, 0, (size_t)count * sizeof *elements);
  return TSR_OK;
}

static void save(const tsr_transformer_config *config, const char *folder)
{
  tsr_model *model;
  assert_ok(tsr_model_create(config, &model));
  assert_ok(tsr_model_save(model, folder, NULL, zeros, NULL));
  tsr_model_close(model);
}

/* Sets an integer of the folder's config.json. */
static void set_key(const char *folder, const char *key, int32_t value)
{
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "config.json"));
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  assert_int_equal(json_object_set_new(root, key, json_integer(value)), 0);
  remove(path); /* it may be a link to a recording */
  assert_int_equal(json_dump_file(root, path, 0), 0);
  json_decref(root);
}

static void expect_surplus(const char *folder, const char *key, int32_t layers, const char *tensor)
{
  tsr_model *model;
  char said[256];
  set_key(folder, key, layers);
  assert_int_equal(tsr_model_open(folder, &model), TSR_ERR_FORMAT);
  assert_message_has(path_in(folder, "model.safetensors: tensor "));
  assert_message_has(tensor);
  snprintf(said, sizeof said, "key '%s' of %s/config.json says %d", key, folder, (int)layers);
  assert_message_has(said);
}

static void test_surplus_layers(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  tsr_transformer_config config = marian_config();
  save(&config, folder);
  expect_surplus(folder, "encoder_layers", 1, "tensor 'model.encoder.layers.1.fc1.bias' is of the encoder's layer 2");
  expect_surplus(folder, "encoder_layers", 0, "'model.encoder.layers.0.");
  set_key(folder, "encoder_layers", 2);
  expect_surplus(folder, "decoder_layers", 0, "'model.decoder.layers.0.");
  remove_temporary_folder(folder);

  folder = make_temporary_folder();
  config = nn_config();
  save(&config, folder);
  expect_surplus(folder, "num_encoder_layers", 1,
                 "'transformer.encoder.layers.1.linear1.bias' is of the encoder's layer 2");
  remove_temporary_folder(folder);
}

/* The same for a family whose weights only the original wrote. */
static void test_recorded(void **state)
{
  (void)state;
  static const char original[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/models/t5_v1_1";
  char *folder = make_temporary_folder();
  assert_int_equal(symlink(path_in(original, "model.safetensors"), path_in(folder, "model.safetensors")), 0);
  copy_file(path_in(original, "config.json"), path_in(folder, "config.json"));
  expect_surplus(folder, "num_layers", 1,
                 "'encoder.block.1.layer.0.SelfAttention.k.weight' is of the encoder's layer 2");
  remove_temporary_folder(folder);
}

static tsr_status write_zeros(void *context, int32_t entry, int64_t first, int64_t count, void *elements)
{
  (void)context, (void)entry, (void)first;
  memset(elements, 0, (size_t)count * sizeof(float));
  return TSR_OK;
}

/* Writes the model's tensors and some more. */
static void add_tensors(const char *folder, const char *const *names, int32_t n)
{
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "model.safetensors"));
  tsr_checkpoint *checkpoint;
  assert_ok(tsr_checkpoint_open(path, &checkpoint));
  int32_t count = tsr_checkpoint_count(checkpoint);
  tsr_tensor_entry *entries = calloc((size_t)count + (size_t)n, sizeof *entries);
  assert_non_null(entries);
  for (int32_t i = 0; i < count; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    entries[i] = (tsr_tensor_entry){tensor->name, TSR_F32, tensor->shape};
  }
  for (int32_t i = 0; i < n; i++) {
    entries[count + i] = (tsr_tensor_entry){names[i], TSR_F32, TSR_SHAPE(1)};
  }
  assert_ok(tsr_safetensors_write(path, NULL, entries, count + n, write_zeros, NULL));
  free(entries);
  tsr_checkpoint_close(checkpoint);
}

static void test_unknown_tensors(void **state)
{
  (void)state;
  static const char *const known[] = {
      "model.encoder.embed_positions.weight", "encoder.embed_positions.weights", "lm_head.weight",
      "model.decoder.embed_tokens.weight",    "bert.embeddings.position_ids",    "bn.num_batches_tracked"};
  static const char *const unknown[] = {
      "model.encoder.adapter.down.weight", "model.encoder.adapter.up.weight", "a.b", "a.c", "a.d", "a.e"};
  char *folder = make_temporary_folder();
  tsr_transformer_config config = marian_config();
  save(&config, folder);
  tsr_model *model;
  tsr_log_set(on_log, NULL);
  add_tensors(folder, known, sizeof known / sizeof known[0]);
  assert_ok(tsr_model_open(folder, &model));
  tsr_model_close(model);
  if (n_warnings > 0) {
    fail_msg("%s", warnings);
  }
  add_tensors(folder, unknown, 2);
  assert_ok(tsr_model_open(folder, &model));
  tsr_model_close(model);
  assert_int_equal(n_warnings, 1);
  assert_non_null(strstr(warnings, path_in(folder, "model.safetensors: 2 tensors are in no part of the model")));
  assert_non_null(strstr(warnings, "model.encoder.adapter.down.weight, model.encoder.adapter.up.weight"));
  add_tensors(folder, unknown + 2, 4);
  assert_ok(tsr_model_open(folder, &model));
  tsr_model_close(model);
  assert_non_null(strstr(warnings, "6 tensors are in no part"));
  assert_non_null(strstr(warnings, " and 2 more"));
  tsr_log_set(NULL, NULL);
  remove_temporary_folder(folder);
}

/* What a file holds beside the model's tensors, which are all 0: one more table, all of one number. */
typedef struct table {
  int32_t entry;
  float value;
} table;

static tsr_status write_table(void *context, int32_t entry, int64_t first, int64_t count, void *elements)
{
  (void)first;
  const table *t = context;
  float *to = elements;
  for (int64_t i = 0; i < count; i++) {
    to[i] = entry == t->entry ? t->value : 0.0f;
  }
  return TSR_OK;
}

/* Adds a table of the shape of `like`. */
static void add_table(const char *folder, const char *name, const char *like, float value)
{
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "model.safetensors"));
  tsr_checkpoint *checkpoint;
  assert_ok(tsr_checkpoint_open(path, &checkpoint));
  const int32_t count = tsr_checkpoint_count(checkpoint);
  tsr_tensor_entry *entries = calloc((size_t)count + 1, sizeof *entries);
  assert_non_null(entries);
  for (int32_t i = 0; i < count; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    entries[i] = (tsr_tensor_entry){tensor->name, TSR_F32, tensor->shape};
  }
  entries[count] = (tsr_tensor_entry){name, TSR_F32, tsr_checkpoint_find(checkpoint, like)->shape};
  table t = {.entry = count, .value = value};
  assert_ok(tsr_safetensors_write(path, NULL, entries, count + 1, write_table, &t));
  free(entries);
  tsr_checkpoint_close(checkpoint);
}

static tsr_status write_bytes(void *context, int32_t entry, int64_t first, int64_t count, void *elements)
{
  (void)first;
  const tsr_tensor_entry *entries = context;
  memset(elements, 0, (size_t)count * tsr_dtype_size(entries[entry].dtype));
  return TSR_OK;
}

/* Whole numbers of another program's, whose scales have the names of CTranslate2's and mean the opposite. */
static void test_foreign_scales(void **state)
{
  (void)state;
  static const char matrix[] = "model.encoder.layers.0.fc1.weight";
  static const char scales[] = "model.encoder.layers.0.fc1.weight_scale";
  char *folder = make_temporary_folder();
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "model.safetensors"));
  tsr_transformer_config config = marian_config();
  save(&config, folder);
  tsr_checkpoint *checkpoint;
  assert_ok(tsr_checkpoint_open(path, &checkpoint));
  const int32_t count = tsr_checkpoint_count(checkpoint);
  tsr_tensor_entry *entries = calloc((size_t)count + 1, sizeof *entries);
  assert_non_null(entries);
  for (int32_t i = 0; i < count; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    const int is_matrix = strcmp(tensor->name, matrix) == 0;
    entries[i] = (tsr_tensor_entry){tensor->name, is_matrix ? TSR_I8 : TSR_F32, tensor->shape};
    if (is_matrix) {
      entries[count] = (tsr_tensor_entry){scales, TSR_F32, TSR_SHAPE(tensor->shape.extent[0], 1)};
    }
  }
  assert_ok(tsr_safetensors_write(path, NULL, entries, count + 1, write_bytes, entries));
  free(entries);
  tsr_checkpoint_close(checkpoint);
  tsr_model *model;
  assert_int_equal(tsr_model_open(folder, &model), TSR_ERR_FORMAT);
  assert_message_has("tensor 'model.encoder.layers.0.fc1.weight' has the type I8; expected F32, F16 or BF16");
  remove_temporary_folder(folder);
}

static const char *piece_of(const tsr_model *model, const char *parameter)
{
  const tsr_parameter *found = tsr_model_find(model, parameter);
  return found && found->pieces[0].tensor ? found->pieces[0].tensor->name : "";
}

/* The logits are computed with a matrix of their own that the file holds, whatever config.json says; an equal one is
 * the embedding. Of embeddings one table is read, and a warning tells if another is not the same. */
static void test_second_table(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    float value;
    int tied;
    const char *warning; /* "": none */
  } rows[] = {
      {"lm_head.weight", 0.0f, 1, ""},
      {"lm_head.weight", 0.5f, 0, "tensor 'lm_head.weight' is not 'model.shared.weight', though by config.json"},
      {"model.encoder.embed_tokens.weight", 0.0f, 1, ""},
      {"model.encoder.embed_tokens.weight", 0.5f, 1,
       "tensor 'model.encoder.embed_tokens.weight' is not 'model.shared.weight', which is read in its place"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *folder = make_temporary_folder();
    tsr_transformer_config config = marian_config();
    tsr_model *model;
    save(&config, folder);
    add_table(folder, rows[i].name, "model.shared.weight", rows[i].value);
    warnings[0] = '\0';
    n_warnings = 0;
    tsr_log_set(on_log, NULL);
    assert_ok(tsr_model_open(folder, &model));
    tsr_log_set(NULL, NULL);
    assert_int_equal(model->config.tied_logits, rows[i].tied);
    assert_string_equal(piece_of(model, "embedding.weight"), "model.shared.weight");
    assert_string_equal(piece_of(model, "logits.weight"), rows[i].tied ? "" : "lm_head.weight");
    assert_int_equal(n_warnings, rows[i].warning[0] != '\0');
    if (!strstr(warnings, rows[i].warning)) {
      fail_msg("%s", warnings);
    }
    tsr_model_close(model);
    remove_temporary_folder(folder);
  }
}

/* As transformers 5 writes a T5 whose logits have a matrix of their own, and as it is converted. */
static void test_written_anew(void **state)
{
  (void)state;
  static const char original[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/models/t5_v1_1";
  static const tsr_dtype types[] = {TSR_F32, TSR_I8, TSR_I4};
  char *folder = make_temporary_folder();
  char path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "config.json"));
  json_t *root = json_load_file(path_in(original, "config.json"), 0, NULL);
  assert_non_null(root);
  assert_int_equal(json_object_set_new(root, "tie_word_embeddings", json_true()), 0);
  assert_int_equal(json_object_set_new(root, "scale_decoder_outputs", json_false()), 0);
  assert_int_equal(json_dump_file(root, path, 0), 0);
  json_decref(root);
  assert_int_equal(symlink(path_in(original, "model.safetensors"), path_in(folder, "model.safetensors")), 0);
  n_warnings = 0;
  tsr_log_set(on_log, NULL);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    tsr_model *model, *again;
    char *converted = make_temporary_folder();
    assert_ok(tsr_model_open(folder, &model));
    assert_int_equal(model->config.tied_logits, 0);
    assert_true(model->config.logits_scale == 1.0f);
    assert_string_equal(piece_of(model, "logits.weight"), "lm_head.weight");
    assert_ok(tsr_model_save_weights(model, converted, types[i], NULL));
    copy_file(path, path_in(converted, "config.json"));
    assert_ok(tsr_model_open(converted, &again));
    assert_int_equal(again->config.tied_logits, 0);
    assert_string_equal(piece_of(again, "logits.weight"), "lm_head.weight");
    tsr_model_close(again);
    tsr_model_close(model);
    remove_temporary_folder(converted);
  }
  assert_int_equal(n_warnings, 0);
  /* The same of transformers 4, which would not have used the matrix. */
  root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  assert_int_equal(json_object_del(root, "scale_decoder_outputs"), 0);
  assert_int_equal(json_dump_file(root, path, 0), 0);
  json_decref(root);
  tsr_model *older;
  assert_ok(tsr_model_open(folder, &older));
  assert_int_equal(older->config.tied_logits, 0);
  assert_true(older->config.logits_scale < 1.0f);
  assert_int_equal(n_warnings, 1);
  assert_non_null(strstr(warnings, "tensor 'lm_head.weight' is not 'shared.weight'"));
  tsr_model_close(older);
  tsr_log_set(NULL, NULL);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_surplus_layers),  cmocka_unit_test(test_recorded),
      cmocka_unit_test(test_unknown_tensors), cmocka_unit_test(test_second_table),
      cmocka_unit_test(test_foreign_scales),  cmocka_unit_test(test_written_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
