/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from folders: configurations, tensor names, and what is said of those that are wrong.
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

#include "core/generate/settings.h"
#include "core/transformer/model.h"
#include "tessera/generate.h"
#include "tests/model/random_model.h"
#include "tests/support/temporary.h"

static int make_folder(void **state)
{
  *state = make_temporary_folder();
  return 0;
}

static int remove_folder(void **state)
{
  remove_temporary_folder(*state);
  return 0;
}

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

/* Opening fails with that status and a message that holds each fragment. */
static void assert_refused(const char *folder, tsr_status status, const char *first, const char *second)
{
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(folder, &model), status);
  assert_null(model);
  assert_message_has(first);
  assert_message_has(second);
}

static int64_t count_under(const tsr_model *model, const char *prefix)
{
  int64_t sum = 0;
  for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) {
    tsr_parameter_info info;
    assert_int_equal(tsr_model_parameter(model, i, &info), TSR_OK);
    if (strncmp(info.name, prefix, strlen(prefix)) == 0) {
      sum += tsr_shape_elements(&info.shape);
    }
  }
  return sum;
}

/* The counts of the paper's encoder, from config.json alone. */
static void test_counts_without_weights(void **state)
{
  const char *folder = *state;
  write_text(path_in(folder, "config.json"),
             "{\"model_type\":\"nn_transformer\",\"d_model\":512,\"nhead\":8,\"num_encoder_layers\":6,"
             "\"num_decoder_layers\":0,\"dim_feedforward\":2048,\"src_vocab_size\":null}");
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
  assert_false(tsr_model_has_weights(model));
  assert_int_equal(count_under(model, "encoder.layers."), 18914304);
  assert_int_equal(count_under(model, "encoder.layers.3."), 3152384);
  assert_int_equal(count_under(model, "encoder.layers.5.feed_forward."), 2099712);
  assert_int_equal(count_under(model, ""), 18914304 + 1024);
  tsr_transformer *transformer = NULL;
  assert_int_equal(tsr_transformer_create(model, (tsr_device *)(void *)model, NULL, &transformer), TSR_ERR_IO);
  assert_message_has("model.safetensors");
  tsr_model_close(model);
}

/* Sum of a parameter's elements, to see that pieces were found and put together. */
static double parameter_sum(const tsr_model *model, const char *name)
{
  const tsr_parameter *parameter = tsr_model_find(model, name);
  assert_non_null(parameter);
  int64_t n = tsr_shape_elements(&parameter->shape);
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  assert_int_equal(tsr_parameter_read(parameter, 0, n, TSR_F32, values), TSR_OK);
  /* The same in two parts that end inside a piece. */
  float *again = malloc((size_t)n * sizeof *again);
  assert_non_null(again);
  assert_int_equal(tsr_parameter_read(parameter, 0, n / 2 + 1, TSR_F32, again), TSR_OK);
  assert_int_equal(tsr_parameter_read(parameter, n / 2 + 1, n - n / 2 - 1, TSR_F32, again + n / 2 + 1), TSR_OK);
  assert_memory_equal(values, again, (size_t)n * sizeof *values);
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) {
    sum += (double)values[i];
  }
  free(values);
  free(again);
  return sum;
}

/* Wrappers' prefixes, and a root that is missing, change nothing. */
static void test_prefixes(void **state)
{
  static const struct {
    int32_t nn;
    const char *prefix;
    const char *unrooted;
  } rows[] = {{0, NULL, NULL}, {0, "module.", NULL}, {0, NULL, "model."},       {0, "_orig_mod.", "model."},
              {1, NULL, NULL}, {1, "module.", NULL}, {1, NULL, "transformer."}, {1, "_orig_mod.", NULL}};
  double sums[2] = {0.0, 0.0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    random_model tiny = {.nn = rows[i].nn, .prefix = rows[i].prefix, .unrooted = rows[i].unrooted, .seed = 7};
    random_model_write(*state, &tiny);
    tsr_model *model = NULL;
    assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
    double sum = parameter_sum(model, "decoder.layers.1.cross_attention.kv.weight") +
                 parameter_sum(model, "encoder.layers.0.self_attention.qkv.bias");
    if (rows[i].prefix || rows[i].unrooted) {
      assert_true(sum == sums[rows[i].nn]);
    } else {
      sums[rows[i].nn] = sum;
    }
    tsr_model_close(model);
  }
}

/* in_proj rows are query, key, value; cross-attention takes the first third for queries, the rest for keys and
 * values. */
static void test_row_blocks(void **state)
{
  random_model tiny = {.nn = 1, .seed = 3};
  random_model_write(*state, &tiny);
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
  const tsr_checkpoint_tensor *whole =
      tsr_checkpoint_find(model->checkpoint, "transformer.decoder.layers.0.multihead_attn.in_proj_weight");
  const tsr_parameter *query = tsr_model_find(model, "decoder.layers.0.cross_attention.query.weight");
  const tsr_parameter *kv = tsr_model_find(model, "decoder.layers.0.cross_attention.kv.weight");
  float expected[72 * 24];
  float found[72 * 24];
  assert_int_equal(tsr_checkpoint_read(whole, 0, 72 * 24, TSR_F32, expected), TSR_OK);
  assert_int_equal(tsr_parameter_read(query, 0, 24 * 24, TSR_F32, found), TSR_OK);
  assert_int_equal(tsr_parameter_read(kv, 0, 48 * 24, TSR_F32, found + 24 * 24), TSR_OK);
  assert_memory_equal(expected, found, sizeof expected);
  tsr_model_close(model);
}

static void test_optional_bias(void **state)
{
  random_model tiny = {.drop = "final_logits_bias"};
  random_model_write(*state, &tiny);
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
  assert_true(parameter_sum(model, "logits.bias") == 0.0);
  tsr_model_close(model);
}

/* Logits of their own that are not in the file are the decoder's embedding after all. */
static void test_logits_fall_back(void **state)
{
  random_model untied = {.extra = "\"tie_word_embeddings\":false,"};
  random_model_write(*state, &untied);
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
  assert_int_equal(tsr_model_config(model)->tied_logits, 0);
  assert_true(parameter_sum(model, "logits.weight") == parameter_sum(model, "embedding.weight"));
  tsr_model_close(model);
}

static void test_bad_tensors(void **state)
{
  random_model missing = {.drop = "model.decoder.layers.1.encoder_attn.v_proj.weight"};
  random_model_write(*state, &missing);
  assert_refused(*state, TSR_ERR_FORMAT, "model.decoder.layers.1.encoder_attn.v_proj.weight", "[24, 24]");
  random_model shape = {.reshape = "model.encoder.layers.0.fc1.weight"};
  random_model_write(*state, &shape);
  assert_refused(*state, TSR_ERR_FORMAT, "model.encoder.layers.0.fc1.weight", "[40, 25]");
  assert_message_has("[40, 24]");
  random_model table = {.drop = "model.shared.weight"};
  random_model_write(*state, &table);
  assert_refused(*state, TSR_ERR_FORMAT, "'model.shared.weight' is missing", "[37, 24]");
}

static void test_bad_configs(void **state)
{
  static const struct {
    const char *text;
    tsr_status status;
    const char *fragment;
  } rows[] = {
      {"{}", TSR_ERR_FORMAT, "model_type"},
      {"{\"model_type\":null}", TSR_ERR_FORMAT, "model_type"},
      {"{\"model_type\":\"resnet\"}", TSR_ERR_UNSUPPORTED, "resnet"},
      {"{\"model_type\":\"marian\",\"activation_function\":\"foo\"}", TSR_ERR_UNSUPPORTED, "activation_function"},
      {"{\"model_type\":\"marian\",\"activation_function\":3}", TSR_ERR_FORMAT, "activation_function"},
      {"{\"model_type\":\"marian\",\"d_model\":0}", TSR_ERR_FORMAT, "d_model"},
      {"{\"model_type\":\"marian\",\"d_model\":1e30}", TSR_ERR_FORMAT, "d_model"},
      {"{\"model_type\":\"marian\",\"d_model\":100,\"encoder_attention_heads\":16}", TSR_ERR_FORMAT, "heads"},
      {"{\"model_type\":\"marian\",\"vocab_size\":9223372036854775807}", TSR_ERR_FORMAT, "vocab_size"},
      {"{\"model_type\":\"marian\",\"vocab_size\":10,\"eos_token_id\":10}", TSR_ERR_FORMAT, "eos_token_id"},
      {"{\"model_type\":\"marian\",\"vocab_size\":10,\"share_encoder_decoder_embeddings\":false,"
       "\"decoder_vocab_size\":8,\"decoder_start_token_id\":8}",
       TSR_ERR_FORMAT, "decoder_start_token_id"},
      {"{\"model_type\":\"marian\",\"vocab_size\":10,\"share_encoder_decoder_embeddings\":false,"
       "\"decoder_vocab_size\":8,\"eos_token_id\":9}",
       TSR_ERR_FORMAT, "eos_token_id"},
      {"{\"model_type\":\"marian\",\"pad_token_id\":[0,2]}", TSR_ERR_UNSUPPORTED, "pad_token_id"},
      {"{\"model_type\":\"marian\",\"encoder_layers\":0,\"decoder_layers\":0}", TSR_ERR_FORMAT, "layers"},
      {"{\"model_type\":\"nn_transformer\",\"position_encoding\":\"rotary\"}", TSR_ERR_UNSUPPORTED,
       "position_encoding"},
      {"{\"model_type\":\"nn_transformer\",\"bias\":1}", TSR_ERR_FORMAT, "bias"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    write_text(path_in(*state, "config.json"), rows[i].text);
    assert_refused(*state, rows[i].status, "config.json", rows[i].fragment);
  }
}

/* ---- settings of the search -------------------------------------------------------------------------------------- */

static tsr_status read_settings(const char *folder, const char *text, tsr_generate_options *options)
{
  random_model tiny = {.positions = 64};
  random_model_write(folder, &tiny);
  write_text(path_in(folder, "generation_config.json"), text);
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(folder, &model), TSR_OK);
  tsr_status status = tsr_generate_defaults(model, options);
  static int32_t ends[4]; /* the lists are the model's */
  for (int32_t i = 0; status == TSR_OK && i < options->n_eos && i < 4; i++) {
    ends[i] = options->eos[i];
  }
  options->eos = ends;
  tsr_model_close(model);
  return status;
}

static void test_settings(void **state)
{
  tsr_generate_options o = {TSR_SIZED(tsr_generate_options)};
  assert_int_equal(read_settings(*state, "{}", &o), TSR_OK);
  assert_int_equal(o.beam, 1);
  assert_int_equal(o.max_length, 21);
  assert_int_equal(read_settings(*state, "{\"max_length\":20,\"num_beams\":null}", &o), TSR_OK);
  assert_int_equal(o.max_length, 21);
  assert_int_equal(read_settings(*state, "{\"max_length\":512}", &o), TSR_OK);
  assert_int_equal(o.max_length, 64);
  assert_int_equal(read_settings(*state, "{\"max_new_tokens\":9,\"max_length\":30,\"min_new_tokens\":3}", &o), TSR_OK);
  assert_int_equal(o.max_length, 10);
  assert_int_equal(o.min_length, 4);
  assert_int_equal(read_settings(*state,
                                 "{\"num_beams\":4,\"length_penalty\":-0.5,\"early_stopping\":\"never\","
                                 "\"bad_words_ids\":[[36],[0],[5],[36]],\"suppress_tokens\":[7],"
                                 "\"forced_bos_token_id\":4,\"forced_eos_token_id\":[0],\"do_sample\":false,"
                                 "\"repetition_penalty\":1.0,\"temperature\":0.7,\"no_repeat_ngram_size\":3}",
                                 &o),
                   TSR_OK);
  assert_int_equal(o.beam, 4);
  assert_true(o.length_penalty == -0.5f);
  assert_int_equal(o.early_stopping, TSR_EARLY_NEVER);
  assert_int_equal(o.n_suppressed, 3); /* </s> is no bad word, and 36 counts once */
  assert_int_equal(o.forced_bos_id, 4);
  assert_int_equal(o.forced_eos_id, 0);
  assert_int_equal(o.no_repeat_ngram, 3);
  assert_int_equal(o.n_eos, 0);
  assert_int_equal(read_settings(*state,
                                 "{\"do_sample\":true,\"temperature\":0.5,\"top_k\":7,\"top_p\":0.9,\"typical_p\":1.0,"
                                 "\"eos_token_id\":[0,3],\"bad_words_ids\":[[3],[4]],\"begin_suppress_tokens\":[5,6],"
                                 "\"repetition_penalty\":1.3,\"encoder_repetition_penalty\":0.8,"
                                 "\"encoder_no_repeat_ngram_size\":2}",
                                 &o),
                   TSR_OK);
  assert_int_equal(o.sample, 1);
  assert_true(o.temperature == 0.5f && o.top_p == 0.9f && o.top_k == 7);
  assert_int_equal(o.n_eos, 2);
  assert_int_equal(o.eos[1], 3);
  assert_int_equal(o.n_suppressed, 1); /* nor is another token that ends a sentence */
  assert_int_equal(o.n_begin_suppressed, 2);
  assert_true(o.repetition_penalty == 1.3f && o.encoder_repetition_penalty == 0.8f);
  assert_int_equal(o.encoder_no_repeat_ngram, 2);
  /* A search that is not there may still be overridden. */
  assert_int_equal(
      read_settings(*state, "{\"do_sample\":true,\"top_h\":null,\"num_beams\":2,\"min_new_tokens\":0}", &o), TSR_OK);
  assert_int_equal(o.sample, 1);
  assert_int_equal(o.beam, 2);
  assert_int_equal(o.min_length, 1);
}

/* Lists are as long as a file has them, and those of a model are the same as often as they are read. */
static void test_long_lists(void **state)
{
  enum { N = 300, TOKENS = 37 };
  char text[N * 16 + 256] = "{\"bad_words_ids\":[";
  size_t used = strlen(text);
  for (int i = 0; i < N; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s[%d,%d]", i > 0 ? "," : "", i % TOKENS, i / TOKENS);
  }
  used += (size_t)snprintf(text + used, sizeof text - used, "],\"suppress_tokens\":[");
  for (int i = 1; i < TOKENS; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i > 1 ? "," : "", i);
  }
  used += (size_t)snprintf(text + used, sizeof text - used, "],\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11]}");
  assert_true(used < sizeof text);
  random_model tiny = {.positions = 64};
  random_model_write(*state, &tiny);
  write_text(path_in(*state, "generation_config.json"), text);
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
  tsr_generate_options o = {TSR_SIZED(tsr_generate_options)};
  tsr_generate_options again = {TSR_SIZED(tsr_generate_options)};
  assert_int_equal(tsr_generate_defaults(model, &o), TSR_OK);
  assert_int_equal(tsr_generate_defaults(model, &again), TSR_OK);
  assert_int_equal(o.n_words, 3 * N);
  for (int i = 0; i < N; i++) {
    const int32_t word[] = {2, i % TOKENS, i / TOKENS};
    assert_memory_equal(o.words + 3 * (size_t)i, word, sizeof word);
  }
  assert_int_equal(o.n_suppressed, TOKENS - 1);
  assert_int_equal(o.suppressed[TOKENS - 2], TOKENS - 1);
  assert_int_equal(o.n_eos, 12);
  assert_int_equal(o.eos[11], 11);
  assert_ptr_equal(o.words, again.words);
  assert_ptr_equal(o.eos, again.eos);
  tsr_model_close(model);
}

/* What Marian's files leave out stands for its defaults; what generation_config.json leaves out stands for nothing. */
static void test_marian_defaults(void **state)
{
  static const struct {
    const char *config;
    const char *generation; /* NULL: no such file */
    int32_t start, forced_eos, length;
  } rows[] = {
      {"\"vocab_size\":58101", NULL, 58100, 0, 21},
      {"\"vocab_size\":131,\"pad_token_id\":130,\"eos_token_id\":[7],\"max_length\":20", NULL, 130, 0, 21},
      {"\"pad_token_id\":5,\"decoder_start_token_id\":null,\"forced_eos_token_id\":2,\"max_length\":30", NULL, 58100, 2,
       30},
      {"\"vocab_size\":131,\"pad_token_id\":130,\"num_beams\":6,\"max_length\":30", "{}", 130, -1, 21},
      {"\"vocab_size\":131,\"pad_token_id\":130,\"share_encoder_decoder_embeddings\":false,\"decoder_vocab_size\":97,"
       "\"decoder_start_token_id\":96",
       NULL, 96, 0, 21},
      {"\"vocab_size\":131,\"max_position_embeddings\":16", "{\"decoder_start_token_id\":9}", 9, -1, 16},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[256];
    snprintf(text, sizeof text, "{\"model_type\":\"marian\",%s}", rows[i].config);
    write_text(path_in(*state, "config.json"), text);
    remove(path_in(*state, "generation_config.json"));
    if (rows[i].generation) {
      write_text(path_in(*state, "generation_config.json"), rows[i].generation);
    }
    tsr_model *model = NULL;
    tsr_generate_options o = {TSR_SIZED(tsr_generate_options)};
    assert_int_equal(tsr_model_open(*state, &model), TSR_OK);
    assert_int_equal(tsr_generate_defaults(model, &o), TSR_OK);
    assert_int_equal(tsr_model_config(model)->decoder_start_id, rows[i].start);
    assert_int_equal(o.forced_eos_id, rows[i].forced_eos);
    assert_int_equal(o.max_length, rows[i].length);
    assert_int_equal(o.beam, 1);
    tsr_model_close(model);
  }
}

static void test_refused_settings(void **state)
{
  static const struct {
    const char *text;
    tsr_status status;
    const char *key;
  } rows[] = {
      {"{\"do_sample\":true,\"typical_p\":0.9}", TSR_ERR_UNSUPPORTED, "typical_p"},
      {"{\"do_sample\":true,\"top_h\":0.4}", TSR_ERR_UNSUPPORTED, "top_h"},
      {"{\"repetition_penalty\":0}", TSR_ERR_FORMAT, "repetition_penalty"},
      {"{\"top_p\":1.5}", TSR_ERR_FORMAT, "top_p"},
      {"{\"eos_token_id\":[0,37]}", TSR_ERR_FORMAT, "eos_token_id"},
      {"{\"begin_suppress_tokens\":[-1]}", TSR_ERR_FORMAT, "begin_suppress_tokens"},
      {"{\"num_beam_groups\":2}", TSR_ERR_UNSUPPORTED, "num_beam_groups"},
      {"{\"sequence_bias\":{\"a\":1}}", TSR_ERR_UNSUPPORTED, "sequence_bias"},
      {"{\"bad_words_ids\":[[1,37]]}", TSR_ERR_FORMAT, "bad_words_ids"},
      {"{\"bad_words_ids\":[[]]}", TSR_ERR_FORMAT, "bad_words_ids"},
      {"{\"bad_words_ids\":[[37]]}", TSR_ERR_FORMAT, "bad_words_ids"},
      {"{\"num_beams\":0}", TSR_ERR_FORMAT, "num_beams"},
      {"{\"early_stopping\":\"soon\"}", TSR_ERR_FORMAT, "early_stopping"},
      {"{\"forced_eos_token_id\":99}", TSR_ERR_FORMAT, "forced_eos_token_id"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_generate_options o = {TSR_SIZED(tsr_generate_options)};
    assert_int_equal(read_settings(*state, rows[i].text, &o), rows[i].status);
    assert_message_has("generation_config.json");
    assert_message_has(rows[i].key);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_counts_without_weights, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_prefixes, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_row_blocks, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_optional_bias, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_logits_fall_back, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_bad_tensors, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_bad_configs, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_marian_defaults, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_settings, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_long_lists, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_refused_settings, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
