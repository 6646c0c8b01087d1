/* SPDX-License-Identifier: Apache-2.0
 *
 * Models made from a configuration, and models written as their family's original writes them.
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

#include "core/transformer/model.h"
#include "tessera/generate.h"
#include "tessera/philox.h"
#include "tests/support/bytes.h"
#include "tests/support/configs.h"
#include "tests/support/temporary.h"

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static void assert_ok(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

/* Numbers that f16 and bf16 hold exactly, different for every element of every parameter. */
static tsr_status random_numbers(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context;
  for (int64_t i = 0; i < count; i++) {
    uint32_t out[4];
    tsr_philox4x32((const uint32_t[4]){(uint32_t)(first + i), (uint32_t)parameter}, (const uint32_t[2]){7}, out);
    elements[i] = (float)((int32_t)(out[0] % 255) - 127) / 64.0f;
  }
  return TSR_OK;
}

/* The elements of a parameter as f32; freed by the caller. */
static float *read_parameter(const tsr_model *model, int32_t index, int64_t *n)
{
  const tsr_parameter *parameter = &model->parameters.items[index];
  *n = tsr_shape_elements(&parameter->shape);
  float *values = malloc((size_t)*n * sizeof *values);
  assert_non_null(values);
  assert_ok(tsr_parameter_read(parameter, 0, *n, TSR_F32, values));
  return values;
}

static void assert_same_config(const tsr_transformer_config *a, const tsr_transformer_config *b)
{
  assert_string_equal(a->family, b->family);
  assert_memory_equal((const char *)a + sizeof a->family, (const char *)b + sizeof b->family,
                      sizeof *a - sizeof a->family);
}

static void assert_same_parameters(const tsr_model *a, const tsr_model *b)
{
  assert_int_equal(tsr_model_parameter_count(a), tsr_model_parameter_count(b));
  for (int32_t p = 0; p < tsr_model_parameter_count(a); p++) {
    tsr_parameter_info x, y;
    assert_ok(tsr_model_parameter(a, p, &x));
    assert_ok(tsr_model_parameter(b, p, &y));
    assert_string_equal(x.name, y.name);
    assert_true(tsr_shape_equal(&x.shape, &y.shape));
    int64_t n;
    float *first = read_parameter(a, p, &n);
    float *second = read_parameter(b, p, &n);
    assert_memory_equal(first, second, (size_t)n * sizeof *first);
    free(first);
    free(second);
  }
}

/* The weights of two folders: the same names, shapes, types and bytes, but for tables of sinusoids. */
static void assert_same_tensors(const char *original, const char *saved)
{
  tsr_checkpoint *a, *b;
  assert_ok(tsr_checkpoint_open(original, &a));
  assert_ok(tsr_checkpoint_open(saved, &b));
  assert_string_equal(tsr_checkpoint_metadata(b, "format"), "pt");
  int32_t same = 0;
  for (int32_t i = 0; i < tsr_checkpoint_count(a); i++) {
    const tsr_checkpoint_tensor *x = tsr_checkpoint_at(a, i);
    if (strcmp(x->name, "positional_encoding.pos_embedding") == 0 ||
        (strstr(original, "pegasus") && strstr(x->name, "embed_positions"))) {
      continue;
    }
    const tsr_checkpoint_tensor *y = tsr_checkpoint_find(b, x->name);
    if (!y) {
      fail_msg("the tensor %s is missing", x->name);
    }
    assert_string_equal(x->type, y->type);
    assert_true(tsr_shape_equal(&x->shape, &y->shape));
    assert_same_bytes(x, y);
    same++;
  }
  assert_int_equal(same, tsr_checkpoint_count(b));
  tsr_checkpoint_close(a);
  tsr_checkpoint_close(b);
}

/* Each key of the original's file with its value, but for those of `left_out` and those that are null. */
static void assert_same_keys(const char *original, const char *saved, const char *name, const char *left_out)
{
  tsr_config a, b;
  assert_ok(tsr_config_open(path_in(original, name), &a));
  assert_ok(tsr_config_open(path_in(saved, name), &b));
  const char *key;
  json_t *value;
  json_object_foreach(a.root, key, value)
  {
    char word[80];
    snprintf(word, sizeof word, " %s ", key);
    if (strstr(left_out, word) || json_is_null(value)) {
      continue;
    }
    const json_t *found = json_object_get(b.root, key);
    if (!found) {
      fail_msg("%s: the key %s is missing", name, key);
    }
    if (json_is_real(value) ? json_real_value(value) != json_real_value(found) : !json_equal(value, (json_t *)found)) {
      fail_msg("%s: the key %s differs", name, key);
    }
  }
  tsr_config_finish(&a);
  tsr_config_finish(&b);
}

static void test_goldens(void **state)
{
  (void)state;
  static const char recordings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/models";
  /* The folder; the type; what transformers notes about itself, old keys of the files, and search settings that
   * belong into the other file. */
  static const char noted[] = " _from_model_config add_final_layer_norm normalize_before normalize_embedding "
                              " bad_words_ids num_beams max_length classifier_dropout id2label label2id "
                              " suppress_tokens begin_suppress_tokens ";
  static const struct {
    const char *folder;
    tsr_dtype storage;
    int32_t beam, max_length;
  } cases[] = {
      {"marian", TSR_F32, 4, 22},
      {"marian_f16", TSR_F16, 4, 22},
      {"marian_sepvocab", TSR_F32, 0, 0},
      {"nn_postnorm_relu", TSR_F32, 0, 0},
      {"nn_prenorm_gelu", TSR_F32, 0, 0},
      {"nn_relative_postnorm", TSR_F32, 0, 0},
      {"nn_relative_prenorm", TSR_F32, 0, 0},
      {"bart", TSR_F32, 0, 0},
      {"mbart", TSR_F32, 0, 0},
      {"m2m_100", TSR_F32, 0, 0},
      {"pegasus", TSR_F32, 0, 0},
      {"t5_v1_0", TSR_F32, 0, 0},
      {"t5_v1_1", TSR_F32, 0, 0},
      {"t5_v1_1_bf16", TSR_BF16, 0, 0},
      {"../speech/models/whisper_tiny_random", TSR_F32, 0, 0},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    char original[sizeof recordings + 64];
    snprintf(original, sizeof original, "%s/%s", recordings, cases[c].folder);
    char *saved = make_temporary_folder();
    tsr_model *model, *again;
    assert_ok(tsr_model_open(original, &model));
    tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = cases[c].storage, .beam = cases[c].beam,
                                .max_length = cases[c].max_length};
    assert_ok(tsr_model_save(model, saved, &options, NULL, NULL));
    assert_ok(tsr_model_open(saved, &again));
    assert_same_config(tsr_model_config(model), tsr_model_config(again));
    assert_same_parameters(model, again);
    assert_same_tensors(original, saved);
    assert_same_keys(original, saved, "config.json", noted);
    if (strstr(cases[c].folder, "marian")) {
      assert_same_keys(original, saved, "generation_config.json", " _from_model_config transformers_version ");
    }
    /* The model's own folder, under its mapping: the same again. */
    assert_ok(tsr_model_save(again, saved, &options, NULL, NULL));
    assert_same_tensors(original, saved);
    assert_same_parameters(model, again);
    tsr_model_close(model);
    tsr_model_close(again);
    remove_temporary_folder(saved);
  }
}

/* Makes a model of the configuration, saves it with random numbers, and opens it. */
static void check_round_trip(const tsr_transformer_config *config, tsr_dtype storage)
{
  char *folder = make_temporary_folder();
  tsr_model *made, *opened;
  assert_ok(tsr_model_create(config, &made));
  assert_string_equal(tsr_model_folder(made), "");
  assert_int_equal(tsr_model_has_weights(made), 0);
  tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = storage, .beam = 4, .dropout = 0.1f};
  assert_ok(tsr_model_save(made, folder, &options, random_numbers, NULL));
  assert_ok(tsr_model_open(folder, &opened));
  assert_same_config(tsr_model_config(made), tsr_model_config(opened));
  assert_int_equal(tsr_model_parameter_count(made), tsr_model_parameter_count(opened));
  for (int32_t p = 0; p < tsr_model_parameter_count(opened); p++) {
    tsr_parameter_info a, b;
    assert_ok(tsr_model_parameter(made, p, &a));
    assert_ok(tsr_model_parameter(opened, p, &b));
    assert_string_equal(a.name, b.name);
    assert_int_equal(a.dtype, 0);
    assert_int_equal(b.dtype, storage);
    int64_t n;
    float *found = read_parameter(opened, p, &n);
    float *expected = malloc((size_t)n * sizeof *expected);
    assert_non_null(expected);
    assert_int_equal(random_numbers(NULL, p, 0, n, expected), TSR_OK);
    assert_memory_equal(found, expected, (size_t)n * sizeof *found);
    free(expected);
    free(found);
  }
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  assert_ok(tsr_generate_defaults(opened, &search));
  assert_int_equal(search.beam, 4);
  assert_int_equal(search.max_length, config->max_positions);
  assert_int_equal(search.n_suppressed, 1);
  assert_int_equal(search.suppressed[0], config->pad_id);
  assert_int_equal(search.forced_eos_id, strcmp(config->family, "marian") == 0 ? config->eos_id : -1);
  tsr_model_close(made);
  tsr_model_close(opened);
  remove_temporary_folder(folder);
}

/* Models of speech: convolutions are stored as the original has them, and the keys' projections have no bias. */
static void test_speech(void **state)
{
  (void)state;
  static const struct {
    tsr_dtype storage, of_convolutions;
  } cases[] = {{TSR_F32, TSR_F32}, {TSR_F16, TSR_F16}, {TSR_BF16, TSR_BF16}, {TSR_I8, TSR_F32}};
  const tsr_transformer_config config = whisper_config();
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    char *folder = make_temporary_folder();
    tsr_model *made, *opened;
    tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = cases[c].storage};
    assert_ok(tsr_model_create(&config, &made));
    assert_ok(tsr_model_save(made, folder, &options, random_numbers, NULL));
    assert_ok(tsr_model_open(folder, &opened));
    assert_same_config(tsr_model_config(made), tsr_model_config(opened));
    const tsr_checkpoint *files = tsr_model_checkpoint(opened);
    assert_null(tsr_checkpoint_find(files, "model.decoder.layers.0.self_attn.k_proj.bias"));
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(files, "model.encoder.conv1.weight");
    assert_non_null(tensor);
    const tsr_shape expected = TSR_SHAPE(24, 7, 3);
    assert_true(tsr_shape_equal(&tensor->shape, &expected));
    assert_int_equal(tensor->dtype, cases[c].of_convolutions);
    for (int32_t p = 0; p < tsr_model_parameter_count(opened); p++) {
      tsr_parameter_info info;
      assert_ok(tsr_model_parameter(opened, p, &info));
      int64_t n;
      float *found = read_parameter(opened, p, &n), *given = malloc((size_t)n * sizeof *given);
      assert_non_null(given);
      assert_ok(random_numbers(NULL, p, 0, n, given));
      const int is_kv = strstr(info.name, ".kv.bias") != NULL, is_qkv = strstr(info.name, ".qkv.bias") != NULL;
      const int64_t third = is_qkv ? n / 3 : 0, keys = is_kv ? n / 2 : third;
      for (int64_t i = third; i < third + keys; i++) {
        given[i] = 0.0f;
      }
      if (info.dtype != TSR_I8) {
        assert_memory_equal(found, given, (size_t)n * sizeof *found);
        assert_int_equal(info.dtype, cases[c].storage == TSR_I8 ? TSR_F32 : cases[c].storage);
      }
      free(given);
      free(found);
    }
    /* Once more in its own type, and in another: what is a matrix changes. */
    if (cases[c].storage != TSR_I8) {
      tsr_model *again;
      char *narrow = make_temporary_folder();
      assert_ok(tsr_model_save(opened, narrow, &options, NULL, NULL));
      assert_same_tensors(folder, narrow);
      assert_ok(tsr_model_save_weights(opened, narrow, TSR_F16, NULL));
      assert_ok(tsr_model_open(narrow, &again));
      assert_int_equal(tsr_model_find(again, "encoder.conv2.weight")->stored, TSR_F16);
      assert_int_equal(tsr_model_find(again, "encoder.conv2.bias")->stored, TSR_F32);
      tsr_model_close(again);
      remove_temporary_folder(narrow);
    }
    tsr_model_close(made);
    tsr_model_close(opened);
    remove_temporary_folder(folder);
  }
}

static void test_families(void **state)
{
  (void)state;
  static const int32_t activations[] = {TSR_ACTIVATION_RELU, TSR_ACTIVATION_GELU_ERF, TSR_ACTIVATION_GELU_TANH,
                                        TSR_ACTIVATION_SILU};
  static const tsr_dtype types[] = {TSR_F32, TSR_F16, TSR_BF16};
  for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
    tsr_transformer_config config = marian_config();
    config.activation = activations[i];
    check_round_trip(&config, types[i % 3]);
    config = nn_config();
    config.activation = activations[i];
    config.norm_position = i % 2 ? TSR_NORM_PRE : TSR_NORM_POST;
    config.embedding_scale = i < 2 ? 1.0f : config.embedding_scale;
    config.epsilon = i < 2 ? 1e-6f : config.epsilon;
    check_round_trip(&config, types[i % 3]);
    config.position = TSR_POSITION_RELATIVE_CLAMPED;
    config.relative_distance = 1 + (int32_t)i * 7;
    config.relative_layers = 1;
    check_round_trip(&config, types[i % 3]);
  }
  for (int32_t tied = 0; tied < 2; tied++) {
    tsr_transformer_config config = marian_config();
    config.tied_logits = tied;
    check_round_trip(&config, TSR_F32);
    config.shared_embedding = 0;
    config.source_vocabulary = 60;
    config.embedding_scale = 1.0f;
    check_round_trip(&config, TSR_F32);
  }
  /* More than one piece of a tensor is read at a time. */
  tsr_transformer_config config = nn_config();
  config.d_model = 3 * 256;
  config.encoder_layers = 1;
  config.embedding_scale = sqrtf(768.0f);
  check_round_trip(&config, TSR_F16);
}

/* Gains are stored less 1, with the bits of what was read; the names are the original's. */
static void test_gemma(void **state)
{
  (void)state;
  tsr_transformer_config config = gemma_config();
  for (int32_t i = 0; i < 4; i++) {
    char *folder = make_temporary_folder();
    tsr_model *made, *opened;
    config.window_period = i == 1 ? 0 : 2;
    config.window = i == 2 ? 0 : 3;
    config.window_period = config.window > 0 ? config.window_period : 0;
    config.attention_softcap = i == 3 ? 0.0f : 50.0f;
    config.tied_logits = i != 3;
    assert_ok(tsr_model_create(&config, &made));
    assert_ok(tsr_model_save(made, folder, NULL, random_numbers, NULL));
    assert_ok(tsr_model_open(folder, &opened));
    assert_same_config(tsr_model_config(made), tsr_model_config(opened));
    const tsr_checkpoint *files = tsr_model_checkpoint(opened);
    assert_non_null(tsr_checkpoint_find(files, "model.encoder.layers.0.self_attn.v_proj.weight"));
    assert_int_equal(tsr_checkpoint_find(files, "lm_head.out_proj.weight") != NULL, i == 3);
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(files, "model.encoder.norm.weight");
    for (int32_t p = 0; p < tsr_model_parameter_count(opened); p++) {
      tsr_parameter_info info;
      assert_ok(tsr_model_parameter(opened, p, &info));
      if (strcmp(info.name, "encoder.norm.weight") == 0) {
        tsr_parameter_piece piece;
        int64_t n;
        float stored, saved, *gains = read_parameter(opened, p, &n);
        assert_ok(tsr_model_parameter_piece(opened, p, 0, &piece));
        assert_true(piece.plus == 1.0f);
        assert_ok(tsr_checkpoint_read(tensor, 3, 1, TSR_F32, &stored));
        assert_int_equal(random_numbers(NULL, p, 3, 1, &saved), TSR_OK);
        assert_true(gains[3] == saved && stored == saved - 1.0f);
        free(gains);
      }
    }
    tsr_model_close(made);
    tsr_model_close(opened);
    remove_temporary_folder(folder);
  }
}

static void test_defaults(void **state)
{
  (void)state;
  tsr_transformer_config config = marian_config();
  config.decoder_start_id = -1;
  config.encoder_head_size = 8;
  tsr_model *model;
  assert_ok(tsr_model_create(&config, &model));
  assert_int_equal(tsr_model_config(model)->decoder_start_id, 49);
  assert_int_equal(tsr_model_config(model)->encoder_head_size, 8);
  assert_int_equal(tsr_model_config(model)->decoder_head_size, 12);
  assert_int_equal(tsr_model_parameter_count(model), 46);
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  assert_ok(tsr_generate_defaults(model, &search));
  assert_int_equal(search.beam, 1);
  tsr_model_close(model);
}

/* Sets one field of a configuration that is otherwise right. */
#define WRONG(base, name, value, code, fragment)                                                                       \
  do {                                                                                                                 \
    tsr_transformer_config config = base();                                                                            \
    config.name = value;                                                                                               \
    tsr_model *model;                                                                                                  \
    assert_int_equal(tsr_model_create(&config, &model), code);                                                         \
    assert_null(model);                                                                                                \
    assert_message_has(fragment);                                                                                      \
  } while (0)

static void test_wrong_fields(void **state)
{
  (void)state;
  WRONG(marian_config, family[0], 'x', TSR_ERR_ARGUMENT,
        "'xarian'; this build knows bart, ctranslate2, m2m_100, marian");
  WRONG(marian_config, d_model, 0, TSR_ERR_ARGUMENT, "field 'd_model' is 0; it should be 1 to");
  WRONG(marian_config, encoder_layers, -1, TSR_ERR_ARGUMENT, "'encoder_layers'");
  WRONG(marian_config, decoder_layers, 5000, TSR_ERR_ARGUMENT, "'decoder_layers'");
  WRONG(marian_config, encoder_heads, 5, TSR_ERR_ARGUMENT, "5 encoder heads do not divide d_model 24");
  WRONG(marian_config, decoder_d_ff, 0, TSR_ERR_ARGUMENT, "'decoder_d_ff'");
  WRONG(marian_config, max_positions, 0, TSR_ERR_ARGUMENT, "'max_positions'");
  WRONG(marian_config, tied_logits, 2, TSR_ERR_ARGUMENT, "'tied_logits'");
  WRONG(marian_config, epsilon, NAN, TSR_ERR_ARGUMENT, "'epsilon' should be a finite number");
  WRONG(marian_config, eos_id, 50, TSR_ERR_ARGUMENT, "'eos_id' is 50; the vocabulary has the ids 0 to 49");
  WRONG(marian_config, pad_id, -2, TSR_ERR_ARGUMENT, "'pad_id'");
  WRONG(marian_config, norm, TSR_NORM_RMS, TSR_ERR_UNSUPPORTED, "field 'norm' is 2");
  WRONG(marian_config, norm_position, TSR_NORM_PRE, TSR_ERR_UNSUPPORTED, "of the family 'marian' cannot express that");
  WRONG(marian_config, final_norm, 1, TSR_ERR_UNSUPPORTED, "'final_norm'");
  WRONG(marian_config, embedding_norm, 1, TSR_ERR_UNSUPPORTED, "'embedding_norm'");
  WRONG(marian_config, gated, 1, TSR_ERR_UNSUPPORTED, "'gated'");
  WRONG(marian_config, activation, TSR_ACTIVATION_NONE, TSR_ERR_UNSUPPORTED, "'activation'");
  WRONG(marian_config, position, TSR_POSITION_LEARNED, TSR_ERR_UNSUPPORTED, "'position'");
  WRONG(marian_config, position_offset, 2, TSR_ERR_UNSUPPORTED, "'position_offset'");
  WRONG(marian_config, attention_bias, 0, TSR_ERR_UNSUPPORTED, "'attention_bias'");
  WRONG(marian_config, logits_bias, 0, TSR_ERR_UNSUPPORTED, "'logits_bias'");
  WRONG(marian_config, epsilon, 1e-6f, TSR_ERR_UNSUPPORTED, "field 'epsilon' is 1e-06");
  WRONG(marian_config, embedding_scale, 3.0f, TSR_ERR_UNSUPPORTED, "'embedding_scale' is 3;");
  WRONG(marian_config, attention_scale, 1.0f, TSR_ERR_UNSUPPORTED, "'attention_scale'");
  WRONG(marian_config, encoder_head_size, 4, TSR_ERR_UNSUPPORTED, "'encoder_head_size' is 4");
  WRONG(marian_config, source_vocabulary, 60, TSR_ERR_UNSUPPORTED, "'target_vocabulary' is 50");
  WRONG(marian_config, eos_id, -1, TSR_ERR_UNSUPPORTED, "'eos_id' is -1");
  WRONG(nn_config, decoder_heads, 2, TSR_ERR_UNSUPPORTED, "'decoder_heads' is 2");
  WRONG(nn_config, decoder_d_ff, 7, TSR_ERR_UNSUPPORTED, "'decoder_d_ff' is 7");
  WRONG(nn_config, embedding_norm, 1, TSR_ERR_UNSUPPORTED, "'embedding_norm'");
  WRONG(nn_config, attention_bias, 0, TSR_ERR_UNSUPPORTED, "'feed_forward_bias'");
  WRONG(nn_config, shared_embedding, 1, TSR_ERR_ARGUMENT, "src_vocab_size 31 and tgt_vocab_size 50 should be the same");
  WRONG(nn_config, position, TSR_POSITION_RELATIVE, TSR_ERR_UNSUPPORTED, "'position'");
  WRONG(nn_config, position, TSR_POSITION_RELATIVE_CLAMPED, TSR_ERR_ARGUMENT, "max_distance");
  WRONG(nn_config, relative_distance, 3, TSR_ERR_UNSUPPORTED, "'relative_distance' is 3");
  WRONG(marian_config, position, TSR_POSITION_RELATIVE_CLAMPED, TSR_ERR_UNSUPPORTED, "'position'");
  WRONG(nn_config, epsilon, 0.0f, TSR_ERR_ARGUMENT, "layer_norm_eps");
  WRONG(nn_config, mels, 80, TSR_ERR_UNSUPPORTED, "'mels' is 80");
  WRONG(whisper_config, mels, 0, TSR_ERR_ARGUMENT, "num_mel_bins");
  WRONG(whisper_config, mels, 1025, TSR_ERR_ARGUMENT, "'mels' is 1025; it should be 0 to 1024");
  WRONG(whisper_config, source_positions, 0, TSR_ERR_ARGUMENT, "max_source_positions");
  WRONG(whisper_config, source_vocabulary, 50, TSR_ERR_UNSUPPORTED, "'source_vocabulary' is 50");
  WRONG(whisper_config, norm_position, TSR_NORM_POST, TSR_ERR_UNSUPPORTED, "'norm_position'");
}

static tsr_status one_large(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  for (int64_t i = 0; i < count; i++) {
    elements[i] = parameter == 3 && first + i == 5 ? *(const float *)context : 0.0f;
  }
  return TSR_OK;
}

static tsr_status failing(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context, (void)parameter, (void)first, (void)count, (void)elements;
  return tsr_fail(TSR_ERR_DEVICE_LOST, "the device is gone");
}

static void test_refusals(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  tsr_transformer_config config = marian_config();
  tsr_model *model;
  assert_ok(tsr_model_create(&config, &model));
  assert_int_equal(tsr_model_save(model, folder, NULL, NULL, NULL), TSR_ERR_ARGUMENT);
  assert_message_has("no weights of its own");
  assert_int_equal(tsr_model_save(model, "", NULL, random_numbers, NULL), TSR_ERR_ARGUMENT);
  tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = TSR_I32};
  assert_int_equal(tsr_model_save(model, folder, &options, random_numbers, NULL), TSR_ERR_ARGUMENT);
  options = (tsr_save_options){TSR_SIZED(tsr_save_options), .dropout = 2.0f};
  assert_int_equal(tsr_model_save(model, folder, &options, random_numbers, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_save(model, folder, NULL, failing, NULL), TSR_ERR_DEVICE_LOST);
  assert_message_has("the device is gone");
  write_text(path_in(folder, "file"), "");
  assert_int_equal(tsr_model_save(model, path_in(folder, "file/x"), NULL, random_numbers, NULL), TSR_ERR_IO);

  static const struct {
    tsr_dtype storage;
    float value;
    int fits;
  } cases[] = {
      {TSR_F16, 65519.996f, 1}, {TSR_F16, -65520.0f, 0}, {TSR_F16, INFINITY, 1}, {TSR_F16, NAN, 1},
      {TSR_F32, 3e38f, 1},      {TSR_BF16, 3.39e38f, 1}, {TSR_BF16, 3.4e38f, 0}, {TSR_I8, 3.4e38f, 1},
      {TSR_I8, INFINITY, 0},    {TSR_I4, NAN, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    float value = cases[i].value;
    options = (tsr_save_options){TSR_SIZED(tsr_save_options), .storage = cases[i].storage};
    tsr_status status = tsr_model_save(model, folder, &options, one_large, &value);
    assert_int_equal(status, cases[i].fits ? TSR_OK : TSR_ERR_ARGUMENT);
    if (!cases[i].fits) {
      assert_message_has("element 5 is");
    }
  }
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

/* Element number `at` of a tensor with its last two axes exchanged, counted row-major. */
static float transposed(const tsr_checkpoint_tensor *tensor, int64_t at)
{
  tsr_checkpoint_tensor_info info;
  float value;
  tsr_checkpoint_describe(tensor, &info);
  assert_true(info.rank == 2 || info.rank == 3);
  const int64_t rows = info.shape.extent[info.rank - 2], columns = info.shape.extent[info.rank - 1];
  const int64_t matrix = at / (rows * columns) * rows * columns, within = at - matrix;
  assert_ok(tsr_checkpoint_read(tensor, matrix + within % rows * columns + within / rows, 1, TSR_F32, &value));
  return value;
}

/* The pieces of each parameter, read from the files, are the parameter. Returns how many parameters have several. */
static int32_t check_pieces(const char *folder)
{
  tsr_model *model;
  int32_t n_joined = 0;
  assert_ok(tsr_model_open(folder, &model));
  const tsr_checkpoint *files = tsr_model_checkpoint(model);
  for (int32_t p = 0; p < tsr_model_parameter_count(model); p++) {
    tsr_parameter_info info;
    tsr_parameter_piece piece;
    int64_t n, done = 0;
    float *values = read_parameter(model, p, &n);
    assert_ok(tsr_model_parameter(model, p, &info));
    n_joined += info.n_pieces > 1;
    for (int32_t i = 0; i < info.n_pieces; i++) {
      assert_ok(tsr_model_parameter_piece(model, p, i, &piece));
      const tsr_checkpoint_tensor *tensor = piece.tensor ? tsr_checkpoint_find(files, piece.tensor) : NULL;
      for (int64_t k = 0; k < piece.count; k += 1 + k / 16) { /* fewer and fewer of them */
        float value = piece.fill;
        if (tensor && piece.transposed) {
          value = transposed(tensor, piece.first + k);
        } else if (tensor) {
          assert_ok(tsr_checkpoint_read(tensor, piece.first + k, 1, TSR_F32, &value));
        }
        assert_true(values[done + k] == value);
      }
      done += piece.count;
    }
    assert_int_equal(done, n);
    assert_int_equal(tsr_model_parameter_piece(model, p, info.n_pieces, &piece), TSR_ERR_ARGUMENT);
    free(values);
  }
  tsr_model_close(model);
  return n_joined;
}

static void test_pieces(void **state)
{
  (void)state;
  static const char *const folders[] = {
      "marian", "t5_v1_1", "marian_npz", "bart", "nn_postnorm_relu", "../speech/models/whisper_tiny_random",
  };
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    char folder[512];
    snprintf(folder, sizeof folder, TESSERA_SOURCE_ROOT "/tests/data/goldens/models/%s", folders[i]);
    const int32_t n_joined = check_pieces(folder);
    assert_true(n_joined > 0 || strncmp(folders[i], "nn_", 3) == 0);
  }
}

static void test_parse(void **state)
{
  (void)state;
  static const char json[] = "{\"num_beams\": 3, \"length_penalty\": 0.5, \"bad_words_ids\": [[5], [6, 7]]}";
  tsr_model *model;
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  const tsr_transformer_config config = marian_config();
  assert_ok(tsr_model_create(&config, &model));
  assert_ok(tsr_generate_defaults(model, &search));
  const int32_t max_length = search.max_length;
  assert_ok(tsr_generate_parse(model, "a call", json, sizeof json - 1, &search));
  assert_int_equal(search.beam, 3);
  assert_true(search.length_penalty == 0.5f);
  assert_int_equal(search.n_suppressed, 1);
  assert_int_equal(search.suppressed[0], 5);
  assert_int_equal(search.n_words, 3);
  assert_int_equal(search.max_length, max_length);
  static const struct {
    const char *json, *fragment;
    tsr_status status;
  } wrong[] = {{"{\"num_beams\": \"3\"}", "num_beams", TSR_ERR_FORMAT},
               {"{\"num_beams\": 3", "a call", TSR_ERR_FORMAT},
               {"[]", "a call", TSR_ERR_FORMAT},
               {"{\"num_beam_groups\": 2}", "num_beam_groups", TSR_ERR_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(tsr_generate_parse(model, "a call", wrong[i].json, strlen(wrong[i].json), &search),
                     wrong[i].status);
    assert_message_has(wrong[i].fragment);
    assert_int_equal(search.beam, 3);
  }
  tsr_model_close(model);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_goldens),  cmocka_unit_test(test_speech),   cmocka_unit_test(test_gemma),
      cmocka_unit_test(test_families), cmocka_unit_test(test_defaults), cmocka_unit_test(test_wrong_fields),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_pieces),   cmocka_unit_test(test_parse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
