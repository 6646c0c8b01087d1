/* SPDX-License-Identifier: Apache-2.0
 *
 * Model folders with one thing wrong: each is refused with one message that names the file and the key, tensor or
 * token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/text.h"
#include "tests/model/tiny_model.h"
#include "tests/support/temporary.h"

static void expect_message(const char *what, const char *const *fragments, int n_fragments)
{
  for (int i = 0; i < n_fragments && fragments[i]; i++) {
    if (!strstr(tsr_error_message(), fragments[i])) {
      fail_msg("%s: the message \"%s\" lacks \"%s\"", what, tsr_error_message(), fragments[i]);
    }
  }
}

static void test_sound_model(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_tiny_model(folder, NULL);
  tsr_model *model;
  assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
  assert_int_equal(tsr_model_has_weights(model), 1);
  const tsr_transformer_config *config = tsr_model_config(model);
  assert_string_equal(config->family, "marian");
  assert_int_equal(config->d_model, TINY_D_MODEL);
  assert_int_equal(config->decoder_start_id, TINY_PAD);
  int64_t elements = 0;
  for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) {
    tsr_parameter_info info;
    assert_int_equal(tsr_model_parameter(model, i, &info), TSR_OK);
    assert_int_equal(info.dtype, TSR_F32);
    elements += tsr_shape_elements(&info.shape);
  }
  const int64_t attention = 4 * (TINY_D_MODEL + 1) * TINY_D_MODEL + 2 * TINY_D_MODEL;
  const int64_t feed_forward = 2 * TINY_D_MODEL * TINY_D_FF + TINY_D_MODEL + TINY_D_FF + 2 * TINY_D_MODEL;
  assert_int_equal(elements, TINY_VOCABULARY * (TINY_D_MODEL + 1) + TINY_LAYERS * (3 * attention + 2 * feed_forward));

  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open(model, &tokenizer), TSR_OK);
  tsr_model_close(model);
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "a bcz", 5, &ids, &n_ids), TSR_OK);
  const char *const tokens[] = {"\xE2\x96\x81\x61", "\xE2\x96\x81", "b", "c", "<unk>", "</s>"};
  assert_int_equal(n_ids, 6);
  for (int32_t i = 0; i < n_ids; i++) {
    assert_string_equal(tsr_tokenizer_token(tokenizer, 0, ids[i]), tokens[i]);
  }
  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &text), TSR_OK);
  assert_string_equal(text, "a bc");
  tsr_free(text);
  tsr_free(ids);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

struct broken {
  tiny_change change;
  tsr_status status;
  const char *fragments[3];
};

#define CONFIG(key, value)                                                                                             \
  {                                                                                                                    \
    .config_key = key, .config_value = value                                                                           \
  }
#define TENSOR(name, shape, type)                                                                                      \
  {                                                                                                                    \
    .tensor = name, .tensor_shape = shape, .tensor_type = type                                                         \
  }

static const struct broken broken_models[] = {
    {{.without_file = "config.json"}, TSR_ERR_IO, {"config.json", "No such file"}},
    {{.file = "config.json", .file_text = ""}, TSR_ERR_FORMAT, {"config.json", "empty"}},
    {{.file = "config.json", .file_text = "{\"d_model\":8,\"d_model\":8}"},
     TSR_ERR_FORMAT,
     {"config.json", "duplicate", "d_model"}},
    {{.file = "config.json", .file_text = "{\"d_model\":NaN}"}, TSR_ERR_FORMAT, {"config.json", "NaN"}},
    {{.file = "config.json", .file_text = "{\"d_model\":9223372036854775808}"},
     TSR_ERR_FORMAT,
     {"config.json", "d_model"}},
    {{.file = "adapter_config.json", .file_text = "{}"}, TSR_ERR_UNSUPPORTED, {"adapter_config.json", "merge"}},
    {CONFIG("model_type", NULL), TSR_ERR_FORMAT, {"config.json", "model_type"}},
    {CONFIG("model_type", "7"), TSR_ERR_FORMAT, {"config.json", "model_type"}},
    {CONFIG("model_type", "\"bert\""), TSR_ERR_UNSUPPORTED, {"config.json", "model_type", "bert"}},
    {CONFIG("activation_function", "\"tanhshrink\""),
     TSR_ERR_UNSUPPORTED,
     {"config.json", "activation_function", "tanhshrink"}},
    {CONFIG("d_model", "0"), TSR_ERR_FORMAT, {"config.json", "d_model", "0"}},
    {CONFIG("d_model", "-8"), TSR_ERR_FORMAT, {"config.json", "d_model", "-8"}},
    {CONFIG("d_model", "9"), TSR_ERR_FORMAT, {"config.json", "heads", "9"}},
    {CONFIG("d_model", "8.0"), TSR_ERR_FORMAT, {"config.json", "d_model", "8.0"}},
    {CONFIG("d_model", "\"8\""), TSR_ERR_FORMAT, {"config.json", "d_model", "\"8\""}},
    {CONFIG("d_model", "9223372036854775807"), TSR_ERR_FORMAT, {"config.json", "d_model", "9223372036854775807"}},
    {CONFIG("d_model", "16"), TSR_ERR_FORMAT, {"model.safetensors", "model.shared.weight", "[16, 8]"}},
    {CONFIG("encoder_layers", "-1"), TSR_ERR_FORMAT, {"config.json", "encoder_layers", "-1"}},
    {CONFIG("encoder_layers", "2147483648"), TSR_ERR_FORMAT, {"config.json", "encoder_layers"}},
    {CONFIG("encoder_layers", "3"), TSR_ERR_FORMAT, {"model.encoder.layers.2.", "missing"}},
    {CONFIG("decoder_layers", "1000"), TSR_ERR_FORMAT, {"model.decoder.layers.2.", "missing"}},
    {CONFIG("encoder_attention_heads", "0"), TSR_ERR_FORMAT, {"config.json", "encoder_attention_heads", "0"}},
    {CONFIG("decoder_attention_heads", "3"), TSR_ERR_FORMAT, {"config.json", "decoder heads", "3"}},
    {CONFIG("encoder_ffn_dim", "0"), TSR_ERR_FORMAT, {"config.json", "encoder_ffn_dim", "0"}},
    {CONFIG("encoder_ffn_dim", "13"),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.encoder.layers.0.fc1.weight", "[12, 8]"}},
    {CONFIG("vocab_size", "0"), TSR_ERR_FORMAT, {"config.json", "vocab_size", "0"}},
    {CONFIG("vocab_size", "2000000000"), TSR_ERR_FORMAT, {"config.json", "vocab_size"}},
    {CONFIG("vocab_size", "17"), TSR_ERR_FORMAT, {"model.safetensors", "model.shared.weight", "[16, 8]"}},
    {CONFIG("max_position_embeddings", "0"), TSR_ERR_FORMAT, {"config.json", "max_position_embeddings", "0"}},
    {CONFIG("scale_embedding", "1"), TSR_ERR_FORMAT, {"config.json", "scale_embedding", "true or false"}},
    {CONFIG("eos_token_id", "16"), TSR_ERR_FORMAT, {"config.json", "eos_token_id", "16"}},
    {CONFIG("decoder_start_token_id", "-1"), TSR_ERR_FORMAT, {"config.json", "decoder_start_token_id", "-1"}},
    {TENSOR("model.shared.weight", NULL, NULL), TSR_ERR_FORMAT, {"model.shared.weight", "missing"}},
    {TENSOR("model.encoder.layers.1.fc2.bias", NULL, NULL),
     TSR_ERR_FORMAT,
     {"model.encoder.layers.1.fc2.bias", "missing"}},
    {TENSOR("model.decoder.layers.0.encoder_attn.k_proj.weight", NULL, NULL),
     TSR_ERR_FORMAT,
     {"model.decoder.layers.0.encoder_attn.k_proj.weight", "missing"}},
    {TENSOR("model.shared.weight", "[8, 16]", NULL),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.shared.weight", "[8, 16]"}},
    {TENSOR("model.shared.weight", "[128]", NULL),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.shared.weight", "[128]"}},
    {TENSOR("model.shared.weight", "[0, 8]", NULL),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.shared.weight", "[0, 8]"}},
    {TENSOR("model.shared.weight", "[1, 1, 1, 16, 8]", NULL),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.shared.weight", "5 axes; its shape should be [16, 8]"}},
    {TENSOR("model.decoder.layers.1.fc1.bias", "[11]", NULL),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.decoder.layers.1.fc1.bias", "[11]"}},
    {TENSOR("model.encoder.layers.0.self_attn.q_proj.weight", NULL, "F64"),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.encoder.layers.0.self_attn.q_proj.weight", "F64"}},
    {TENSOR("model.encoder.layers.0.self_attn.q_proj.weight", NULL, "I32"),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.encoder.layers.0.self_attn.q_proj.weight", "I32"}},
    {TENSOR("model.encoder.layers.0.self_attn.q_proj.weight", NULL, "Q32"),
     TSR_ERR_FORMAT,
     {"model.safetensors", "model.encoder.layers.0.self_attn.q_proj.weight", "Q32"}},
    {{.checkpoint_size = 7}, TSR_ERR_FORMAT, {"model.safetensors", "7 bytes are too few"}},
    {{.checkpoint_size = 100}, TSR_ERR_FORMAT, {"model.safetensors", "truncated"}},
    {{.checkpoint_size = -1}, TSR_ERR_FORMAT, {"model.safetensors", "tensor", "truncated"}},
    {{.file = "model.safetensors", .file_text = ""}, TSR_ERR_FORMAT, {"model.safetensors", "0 bytes are too few"}},
    {{.file = "generation_config.json", .file_text = "{\"eos_token_id\":99}"},
     TSR_ERR_FORMAT,
     {"generation_config.json", "eos_token_id", "99"}},
};

static void test_broken_models(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof broken_models / sizeof broken_models[0]; i++) {
    const struct broken *broken = &broken_models[i];
    char what[32];
    snprintf(what, sizeof what, "broken model %zu", i);
    char *folder = make_temporary_folder();
    write_tiny_model(folder, &broken->change);
    tsr_model *model;
    tsr_status status = tsr_model_open(folder, &model);
    if (status != broken->status || model) {
      fail_msg("%s (%s): %s: %s", what, broken->fragments[0], tsr_status_name(status), tsr_error_message());
    }
    expect_message(what, broken->fragments, 3);
    remove_temporary_folder(folder);
  }
}

static const struct broken broken_tokenizers[] = {
    {{.without_file = "source.spm"}, TSR_ERR_IO, {"source.spm", "No such file"}},
    {{.without_file = "target.spm"}, TSR_ERR_IO, {"target.spm", "No such file"}},
    {{.without_file = "vocab.json"}, TSR_ERR_IO, {"vocab.json", "No such file"}},
    {{.file = "source.spm", .file_text = ""}, TSR_ERR_FORMAT, {"source.spm", "no pieces"}},
    {{.file = "target.spm", .file_text = "garbage"}, TSR_ERR_FORMAT, {"target.spm", "not a SentencePiece model"}},
    {{.file = "vocab.json", .file_text = "{\"a\":0,\"a\":1}"}, TSR_ERR_FORMAT, {"vocab.json", "duplicate", "a"}},
    {{.file = "tokenizer_config.json", .file_text = "{\"separate_vocabs\":true}"},
     TSR_ERR_IO,
     {"target_vocab.json", "No such file"}},
    {{.token = "</s>"}, TSR_ERR_FORMAT, {"vocab.json", "\"</s>\"", "missing"}},
    {{.token = "<unk>"}, TSR_ERR_FORMAT, {"vocab.json", "\"<unk>\"", "missing"}},
    {{.token = "x", .token_value = "16"}, TSR_ERR_FORMAT, {"vocab.json", "\"x\"", "16"}},
    {{.token = "x", .token_value = "-1"}, TSR_ERR_FORMAT, {"vocab.json", "\"x\"", "-1"}},
    {{.token = "x", .token_value = "0"}, TSR_ERR_FORMAT, {"vocab.json", "\"</s>\" and \"x\"", "0"}},
    {{.token = "x", .token_value = "\"13\""}, TSR_ERR_FORMAT, {"vocab.json", "\"x\"", "\"13\""}},
    {CONFIG("eos_token_id", "1"), TSR_ERR_FORMAT, {"\"</s>\"", "eos_token_id is 1"}},
};

static void test_broken_tokenizers(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof broken_tokenizers / sizeof broken_tokenizers[0]; i++) {
    const struct broken *broken = &broken_tokenizers[i];
    char what[32];
    snprintf(what, sizeof what, "broken tokenizer %zu", i);
    char *folder = make_temporary_folder();
    write_tiny_model(folder, &broken->change);
    tsr_model *model;
    assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
    tsr_tokenizer *tokenizer;
    tsr_status status = tsr_tokenizer_open(model, &tokenizer);
    if (status != broken->status || tokenizer) {
      fail_msg("%s (%s): %s: %s", what, broken->fragments[0], tsr_status_name(status), tsr_error_message());
    }
    expect_message(what, broken->fragments, 3);
    tsr_model_close(model);
    remove_temporary_folder(folder);
  }
}

/* What may lack or differ: a missing bias of the logits is zero, weights may be narrow, ids may have gaps. */
static void test_tolerated(void **state)
{
  (void)state;
  static const tiny_change changes[] = {
      {.tensor = "final_logits_bias"},
      {.tensor = "final_logits_bias", .tensor_shape = "[16]"},
      {.tensor = "model.shared.weight", .tensor_type = "F16"},
      {.token = "x"},
      {.token = "<pad>"},
      {.without_file = "tokenizer_config.json"},
      {.without_file = "model.safetensors"},
      {.config_key = "eos_token_id", .config_value = "[0]"},
      {.config_key = "bos_token_id", .config_value = "null"},
      {.config_key = "max_position_embeddings"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    char *folder = make_temporary_folder();
    write_tiny_model(folder, &changes[i]);
    tsr_model *model = NULL;
    tsr_tokenizer *tokenizer = NULL;
    if (tsr_model_open(folder, &model) != TSR_OK || tsr_tokenizer_open(model, &tokenizer) != TSR_OK) {
      fail_msg("case %zu: %s", i, tsr_error_message());
    }
    int without = changes[i].without_file && strcmp(changes[i].without_file, "model.safetensors") == 0;
    assert_int_equal(tsr_model_has_weights(model), !without);
    tsr_tokenizer_close(tokenizer);
    tsr_model_close(model);
    remove_temporary_folder(folder);
  }
}

/* Tokens that were added to a vocabulary stand for themselves in texts, as tokenizer_config.json or added_tokens.json
 * numbers them; one that is special is left out of texts. */
static void test_added_tokens(void **state)
{
  (void)state;
  static const tiny_change changes[] = {
      {.file = "tokenizer_config.json",
       .file_text = "{\"added_tokens_decoder\":{\"13\":{\"content\":\"<in>\"},"
                    "\"14\":{\"content\":\"<out>\",\"special\":true}}}"},
      {.file = "added_tokens.json", .file_text = "{\"<in>\":13,\"<out>\":14}"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    char *folder = make_temporary_folder();
    write_tiny_model(folder, NULL);
    write_text(path_in(folder, "vocab.json"),
               "{\"</s>\":0,\"<unk>\":1,\"\xE2\x96\x81\":2,\"a\":3,\"\xE2\x96\x81\x61\":10,\"<pad>\":15}");
    write_text(path_in(folder, changes[i].file), changes[i].file_text);
    tsr_model *model = NULL;
    tsr_tokenizer *tokenizer = NULL;
    if (tsr_model_open(folder, &model) != TSR_OK || tsr_tokenizer_open(model, &tokenizer) != TSR_OK) {
      fail_msg("case %zu: %s", i, tsr_error_message());
    }
    static const char text[] = "a<in>a<out>";
    static const char *const tokens[] = {"\xE2\x96\x81\x61", "<in>", "\xE2\x96\x81\x61", "<out>", "</s>"};
    int32_t *ids;
    int32_t n_ids;
    assert_int_equal(tsr_tokenizer_encode(tokenizer, text, sizeof text - 1, &ids, &n_ids), TSR_OK);
    assert_int_equal(n_ids, 5);
    for (int32_t k = 0; k < n_ids; k++) {
      assert_string_equal(tsr_tokenizer_token(tokenizer, 0, ids[k]), tokens[k]);
    }
    assert_int_equal(ids[1], 13);
    assert_int_equal(ids[3], 14);
    char *decoded;
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded), TSR_OK);
    assert_non_null(strstr(decoded, "<in>"));
    assert_int_equal(strstr(decoded, "<out>") != NULL, i == 1);
    tsr_free(decoded);
    tsr_free(ids);
    tsr_tokenizer_close(tokenizer);
    tsr_model_close(model);
    remove_temporary_folder(folder);
  }
}

/* Without weights a model can be described, but not be brought to a device. */
static void test_without_weights(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_tiny_model(folder, &(tiny_change){.without_file = "model.safetensors"});
  tsr_runtime *runtime;
  assert_int_equal(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &runtime),
                   TSR_OK);
  assert_int_equal(tsr_runtime_register(runtime, tessera_backend_query), TSR_OK);
  tsr_device *device;
  assert_int_equal(tsr_device_open(runtime, "reference", &device), TSR_OK);
  tsr_model *model;
  assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
  tsr_transformer *transformer;
  assert_int_equal(tsr_transformer_create(model, device, NULL, &transformer), TSR_ERR_IO);
  assert_null(transformer);
  const char *const fragments[] = {folder, "model.safetensors"};
  expect_message("without weights", fragments, 2);
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sound_model),       cmocka_unit_test(test_broken_models),
      cmocka_unit_test(test_broken_tokenizers), cmocka_unit_test(test_tolerated),
      cmocka_unit_test(test_without_weights),   cmocka_unit_test(test_added_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
