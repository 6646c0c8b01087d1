/* SPDX-License-Identifier: Apache-2.0
 *
 * Each family's config.json: what it leaves to defaults, and what is refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/transformer/model.h"
#include "tests/model/generation.h"
#include "tests/support/temporary.h"

static tsr_status parse(const char *text, tsr_transformer_config *config)
{
  tsr_config file;
  const tsr_family *family;
  check(tsr_config_parse("config.json", text, strlen(text), &file));
  tsr_status status = tsr_transformer_config_parse(&file, config, &family);
  tsr_config_finish(&file);
  return status;
}

typedef struct defaults {
  const char *text;
  int32_t d_model, encoder_layers, decoder_layers, heads, head_size, d_ff, vocabulary, positions, offset;
  int32_t norm, norm_position, final_norm, embedding_norm, activation, gated, position, logits_bias, tied;
  int32_t pad, bos, eos, start;
  float embedding_scale, attention_scale, logits_scale, epsilon;
} defaults;

static const defaults rows[] = {
    {"{\"model_type\":\"bart\"}",
     1024,
     12,
     12,
     16,
     64,
     4096,
     50265,
     1024,
     2,
     TSR_NORM_LAYER,
     TSR_NORM_POST,
     0,
     1,
     TSR_ACTIVATION_GELU_ERF,
     0,
     TSR_POSITION_LEARNED,
     1,
     1,
     1,
     0,
     2,
     2,
     1.0f,
     0.0f,
     1.0f,
     1e-5f},
    /* The decoder starts with bos where nothing is said, as the original does. */
    {"{\"model_type\":\"mbart\",\"scale_embedding\":true}",
     1024,
     12,
     12,
     16,
     64,
     4096,
     50265,
     1024,
     2,
     TSR_NORM_LAYER,
     TSR_NORM_PRE,
     1,
     1,
     TSR_ACTIVATION_GELU_ERF,
     0,
     TSR_POSITION_LEARNED,
     1,
     1,
     1,
     0,
     2,
     0,
     32.0f,
     0.0f,
     1.0f,
     1e-5f},
    {"{\"model_type\":\"m2m_100\"}",
     1024,
     12,
     12,
     16,
     64,
     4096,
     128112,
     1024,
     2,
     TSR_NORM_LAYER,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_RELU,
     0,
     TSR_POSITION_SINUSOID_TENSOR2TENSOR,
     0,
     1,
     1,
     0,
     2,
     2,
     32.0f,
     0.0f,
     1.0f,
     1e-5f},
    {"{\"model_type\":\"m2m_100\",\"pad_token_id\":7,\"scale_embedding\":false}",
     1024,
     12,
     12,
     16,
     64,
     4096,
     128112,
     1024,
     8,
     TSR_NORM_LAYER,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_RELU,
     0,
     TSR_POSITION_SINUSOID_TENSOR2TENSOR,
     0,
     1,
     7,
     0,
     2,
     2,
     1.0f,
     0.0f,
     1.0f,
     1e-5f},
    {"{\"model_type\":\"pegasus\",\"tie_word_embeddings\":null}",
     1024,
     12,
     12,
     16,
     64,
     4096,
     50265,
     1024,
     0,
     TSR_NORM_LAYER,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_GELU_ERF,
     0,
     TSR_POSITION_SINUSOID_HALVES,
     1,
     1,
     0,
     -1,
     1,
     0,
     1.0f,
     0.0f,
     1.0f,
     1e-5f},
    {"{\"model_type\":\"t5\",\"d_model\":256}",
     256,
     6,
     6,
     8,
     64,
     2048,
     32128,
     16384,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_RELU,
     0,
     TSR_POSITION_RELATIVE,
     0,
     1,
     0,
     -1,
     1,
     0,
     1.0f,
     1.0f,
     0.0625f,
     1e-6f},
    {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false,\"num_layers\":3,"
     "\"num_decoder_layers\":5,\"d_kv\":16}",
     512,
     3,
     5,
     8,
     16,
     2048,
     32128,
     16384,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_GELU_TANH,
     1,
     TSR_POSITION_RELATIVE,
     0,
     0,
     0,
     -1,
     1,
     0,
     1.0f,
     1.0f,
     1.0f,
     1e-6f},
    {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-silu\",\"num_layers\":2}",
     512,
     2,
     2,
     8,
     64,
     2048,
     32128,
     16384,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_SILU,
     1,
     TSR_POSITION_RELATIVE,
     0,
     1,
     0,
     -1,
     1,
     0,
     1.0f,
     1.0f,
     0.044194173f,
     1e-6f},
    {"{\"model_type\":\"mt5\"}",
     512,
     8,
     8,
     6,
     64,
     1024,
     250112,
     16384,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_GELU_TANH,
     1,
     TSR_POSITION_RELATIVE,
     0,
     0,
     0,
     -1,
     1,
     0,
     1.0f,
     1.0f,
     1.0f,
     1e-6f},
    {"{\"model_type\":\"umt5\"}",
     512,
     8,
     8,
     6,
     64,
     1024,
     250112,
     16384,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     1,
     0,
     TSR_ACTIVATION_GELU_TANH,
     1,
     TSR_POSITION_RELATIVE,
     0,
     1,
     0,
     -1,
     1,
     0,
     1.0f,
     1.0f,
     0.044194173f,
     1e-6f},
    {"{\"model_type\":\"nn_transformer\",\"vocab_size\":9}",
     512,
     6,
     6,
     8,
     64,
     2048,
     9,
     5000,
     0,
     TSR_NORM_LAYER,
     TSR_NORM_POST,
     1,
     0,
     TSR_ACTIVATION_RELU,
     0,
     TSR_POSITION_SINUSOID_INTERLEAVED,
     1,
     0,
     -1,
     -1,
     -1,
     -1,
     22.627417f,
     0.0f,
     1.0f,
     1e-5f},
    {"{\"model_type\":\"nn_transformer\",\"tgt_vocab_size\":9,\"num_encoder_layers\":0,\"activation\":\"swiglu\","
     "\"norm\":"
     "\"rmsnorm\",\"norm_first\":true,\"bias\":false,\"position_encoding\":\"learned\",\"tie_word_embeddings\":true,"
     "\"scale_embedding\":false,\"final_norm\":false}",
     512,
     0,
     6,
     8,
     64,
     2048,
     9,
     5000,
     0,
     TSR_NORM_RMS,
     TSR_NORM_PRE,
     0,
     0,
     TSR_ACTIVATION_SILU,
     1,
     TSR_POSITION_LEARNED,
     1,
     1,
     -1,
     -1,
     -1,
     -1,
     1.0f,
     0.0f,
     1.0f,
     1e-5f},
};

static void assert_float(float found, float expected)
{
  if (fabsf(found - expected) > 1e-6f * fabsf(expected)) {
    fail_msg("%g instead of %g", (double)found, (double)expected);
  }
}

static void test_defaults(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const defaults *row = &rows[i];
    tsr_transformer_config c;
    check(parse(row->text, &c));
    assert_int_equal(c.d_model, row->d_model);
    assert_int_equal(c.encoder_layers, row->encoder_layers);
    assert_int_equal(c.decoder_layers, row->decoder_layers);
    assert_int_equal(c.encoder_heads, row->heads);
    assert_int_equal(c.decoder_heads, row->heads);
    assert_int_equal(c.encoder_head_size, row->head_size);
    assert_int_equal(c.decoder_head_size, row->head_size);
    assert_int_equal(c.encoder_d_ff, row->d_ff);
    assert_int_equal(c.decoder_d_ff, row->d_ff);
    assert_int_equal(c.source_vocabulary, row->vocabulary);
    assert_int_equal(c.target_vocabulary, row->vocabulary);
    assert_int_equal(c.max_positions, row->positions);
    assert_int_equal(c.position_offset, row->offset);
    assert_int_equal(c.norm, row->norm);
    assert_int_equal(c.norm_position, row->norm_position);
    assert_int_equal(c.final_norm, row->final_norm);
    assert_int_equal(c.embedding_norm, row->embedding_norm);
    assert_int_equal(c.activation, row->activation);
    assert_int_equal(c.gated, row->gated);
    assert_int_equal(c.position, row->position);
    assert_int_equal(c.logits_bias, row->logits_bias);
    assert_int_equal(c.tied_logits, row->tied);
    assert_int_equal(c.pad_id, row->pad);
    assert_int_equal(c.bos_id, row->bos);
    assert_int_equal(c.eos_id, row->eos);
    assert_int_equal(c.decoder_start_id, row->start);
    assert_float(c.embedding_scale, row->embedding_scale);
    assert_float(c.attention_scale, row->attention_scale);
    assert_float(c.logits_scale, row->logits_scale);
    assert_float(c.epsilon, row->epsilon);
    if (c.position == TSR_POSITION_RELATIVE) {
      assert_int_equal(c.relative_buckets, 32);
      assert_int_equal(c.relative_distance, 128);
      assert_int_equal(c.relative_layers, strcmp(c.family, "umt5") == 0);
      assert_int_equal(c.attention_bias + c.feed_forward_bias, 0);
    }
  }
}

/* Clamped relative positions: a table in each layer, of 2 max_distance + 1 rows. */
static void test_relative(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int32_t distance;
  } relative[] = {
      {"{\"model_type\":\"nn_transformer\",\"vocab_size\":9,\"position_encoding\":\"relative\"}", 16},
      {"{\"model_type\":\"nn_transformer\",\"vocab_size\":9,\"position_encoding\":\"relative\",\"max_distance\":5}", 5},
      {"{\"model_type\":\"nn_transformer\",\"vocab_size\":9,\"position_encoding\":\"none\",\"max_distance\":5}", 0},
  };
  for (size_t i = 0; i < sizeof relative / sizeof relative[0]; i++) {
    tsr_transformer_config c;
    check(parse(relative[i].text, &c));
    assert_int_equal(c.position, relative[i].distance ? TSR_POSITION_RELATIVE_CLAMPED : TSR_POSITION_NONE);
    assert_int_equal(c.relative_distance, relative[i].distance);
    assert_int_equal(c.relative_layers, relative[i].distance != 0);
    assert_int_equal(c.relative_buckets, 0);
  }
}

/* Whether the logits of T5's kin are scaled, as transformers 4 and 5 say it. What is read is written so that it is read
 * as the same again. */
static void test_scaled_logits(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int32_t tied, scaled;
  } forms[] = {
      {"{\"model_type\":\"t5\"}", 1, 1},
      {"{\"model_type\":\"t5\",\"tie_word_embeddings\":false}", 0, 0},
      {"{\"model_type\":\"t5\",\"tie_word_embeddings\":true,\"scale_decoder_outputs\":true}", 1, 1},
      {"{\"model_type\":\"t5\",\"tie_word_embeddings\":true,\"scale_decoder_outputs\":false}", 1, 0},
      {"{\"model_type\":\"t5\",\"tie_word_embeddings\":false,\"scale_decoder_outputs\":true}", 0, 1},
      {"{\"model_type\":\"mt5\",\"tie_word_embeddings\":true,\"transformers_version\":\"4.47.1\"}", 1, 1},
      {"{\"model_type\":\"mt5\",\"tie_word_embeddings\":true,\"transformers_version\":\"5.2.0\"}", 1, 0},
      {"{\"model_type\":\"umt5\",\"tie_word_embeddings\":true,\"transformers_version\":\"5.2.0\"}", 1, 1},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    tsr_transformer_config c, again;
    const tsr_family *family;
    json_t *file;
    check(parse(forms[i].text, &c));
    assert_int_equal(c.tied_logits, forms[i].tied);
    assert_float(c.logits_scale, forms[i].scaled ? 1.0f / sqrtf(512.0f) : 1.0f);
    again = c;
    check(tsr_transformer_config_describe(&(tsr_save_options){TSR_SIZED(tsr_save_options)}, &again, &family, &file));
    assert_int_equal(json_object_get(file, "scale_decoder_outputs") != NULL, forms[i].tied != forms[i].scaled);
    assert_float(again.logits_scale, c.logits_scale);
    json_decref(file);
  }
}

/* Models of speech: the official sizes differ in numbers alone. */
static void test_speech(void **state)
{
  (void)state;
  static const char large[] =
      "{\"model_type\":\"whisper\",\"d_model\":1280,\"encoder_layers\":32,\"decoder_layers\":4,\"encoder_attention_"
      "heads\":20,"
      "\"decoder_attention_heads\":20,\"encoder_ffn_dim\":5120,\"decoder_ffn_dim\":5120,\"vocab_size\":51866,"
      "\"num_mel_bins\":128,\"scale_embedding\":true,\"tie_word_embeddings\":false,\"activation_function\":\"relu\"}";
  tsr_transformer_config c;
  check(parse("{\"model_type\":\"whisper\"}", &c));
  assert_int_equal(c.d_model, 384);
  assert_int_equal(c.encoder_layers, 4);
  assert_int_equal(c.decoder_layers, 4);
  assert_int_equal(c.encoder_heads, 6);
  assert_int_equal(c.decoder_head_size, 64);
  assert_int_equal(c.encoder_d_ff, 1536);
  assert_int_equal(c.source_vocabulary, 0);
  assert_int_equal(c.target_vocabulary, 51865);
  assert_int_equal(c.max_positions, 448);
  assert_int_equal(c.source_positions, 1500);
  assert_int_equal(c.mels, 80);
  assert_int_equal(c.norm_position, TSR_NORM_PRE);
  assert_int_equal(c.final_norm, 1);
  assert_int_equal(c.activation, TSR_ACTIVATION_GELU_ERF);
  assert_int_equal(c.position, TSR_POSITION_LEARNED);
  assert_int_equal(c.tied_logits, 1);
  assert_int_equal(c.eos_id, 50256);
  assert_int_equal(c.decoder_start_id, 50257);
  check(parse(large, &c));
  assert_int_equal(c.encoder_layers, 32);
  assert_int_equal(c.decoder_layers, 4);
  assert_int_equal(c.mels, 128);
  assert_int_equal(c.tied_logits, 0);
  assert_int_equal(c.activation, TSR_ACTIVATION_RELU);
  assert_float(c.embedding_scale, 1.0f);
}

#define GEMMA(encoder, decoder, rest)                                                                                  \
  "{\"model_type\":\"t5gemma\",\"encoder\":{" encoder "},\"decoder\":{" decoder "}" rest "}"

/* The keys of Gemma 2 stand in an object for each stack. */
static void test_gemma(void **state)
{
  (void)state;
  tsr_transformer_config c;
  check(parse(GEMMA("", "", ""), &c));
  assert_int_equal(c.d_model, 2304);
  assert_int_equal(c.encoder_layers, 26);
  assert_int_equal(c.decoder_heads, 8);
  assert_int_equal(c.decoder_key_heads, 4);
  assert_int_equal(c.encoder_head_size, 256);
  assert_int_equal(c.decoder_d_ff, 9216);
  assert_int_equal(c.source_vocabulary, 256000);
  assert_int_equal(c.max_positions, 8192);
  assert_int_equal(c.norm, TSR_NORM_RMS);
  assert_int_equal(c.norm_position, TSR_NORM_SANDWICH);
  assert_int_equal(c.activation, TSR_ACTIVATION_GELU_TANH);
  assert_int_equal(c.gated, 1);
  assert_int_equal(c.position, TSR_POSITION_ROTARY);
  assert_float(c.rotary_theta, 10000.0f);
  assert_int_equal(c.window, 4096);
  assert_int_equal(c.window_period, 2);
  assert_float(c.attention_softcap, 50.0f);
  assert_float(c.logits_softcap, 30.0f);
  assert_float(c.attention_scale, 0.0625f);
  assert_float(c.embedding_scale, 48.0f);
  assert_int_equal(c.tied_logits, 1);
  assert_int_equal(c.shared_embedding, 0);
  assert_int_equal(c.eos_id, 1);
  assert_int_equal(c.decoder_start_id, 2);
  check(
      parse(GEMMA("\"num_hidden_layers\":3,\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\"]",
                  "\"num_hidden_layers\":1,\"layer_types\":[\"full_attention\"]", ""),
            &c));
  assert_int_equal(c.window, 0);
  assert_int_equal(c.window_period, 0);
  check(parse(GEMMA("\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500.0}",
                    "\"rope_theta\":500.0,\"final_logit_softcapping\":null", ",\"tie_word_embeddings\":false"),
              &c));
  assert_float(c.rotary_theta, 500.0f);
  assert_float(c.logits_softcap, 0.0f);
  assert_int_equal(c.tied_logits, 0);
  assert_int_equal(c.encoder_d_model, 0);
  check(parse(GEMMA("\"hidden_size\":3584,\"num_attention_heads\":16", "\"cross_attention_hidden_size\":3584", ""),
              &c)); /* 9B-2B */
  assert_int_equal(c.encoder_d_model, 3584);
  assert_int_equal(c.d_model, 2304);
}

static void test_broken(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    tsr_status status;
    const char *fragment;
  } broken[] = {
      {"{\"model_type\":\"nllb-moe\"}", TSR_ERR_UNSUPPORTED, "does not know the family 'nllb-moe'; it knows bart"},
      {"{\"model_type\":\"bart\",\"d_model\":30}", TSR_ERR_FORMAT, "16 encoder heads do not divide d_model 30"},
      {"{\"model_type\":\"whisper\",\"num_mel_bins\":0}", TSR_ERR_FORMAT,
       "key \"num_mel_bins\": expected an integer from 1 to 1024, found 0"},
      {"{\"model_type\":\"whisper\",\"encoder_layers\":0}", TSR_ERR_FORMAT, "\"encoder_layers\""},
      {"{\"model_type\":\"whisper\",\"max_source_positions\":0}", TSR_ERR_FORMAT, "\"max_source_positions\""},
      {"{\"model_type\":\"whisper\",\"max_target_positions\":1}", TSR_ERR_FORMAT, "\"max_target_positions\""},
      {"{\"model_type\":\"bart\",\"activation_function\":\"quick_gelu\"}", TSR_ERR_UNSUPPORTED, "'quick_gelu'"},
      {"{\"model_type\":\"mbart\",\"pad_token_id\":50265}", TSR_ERR_FORMAT, "'pad_token_id' is 50265"},
      {"{\"model_type\":\"pegasus\",\"encoder_layers\":0,\"decoder_layers\":0}", TSR_ERR_FORMAT, "layers"},
      {"{\"model_type\":\"m2m_100\",\"d_model\":3,\"encoder_attention_heads\":1}", TSR_ERR_FORMAT, "'d_model' is 3"},
      {"{\"model_type\":\"t5gemma\",\"encoder\":{}}", TSR_ERR_FORMAT,
       "key 'decoder' should be an object; found nothing"},
      {GEMMA("\"num_key_value_heads\":3", "", ""), TSR_ERR_FORMAT, "encoder: key 'num_key_value_heads' is 3"},
      {GEMMA("", "\"head_dim\":5", ""), TSR_ERR_FORMAT, "decoder: key 'head_dim' is 5; rotary positions need an even"},
      {GEMMA("\"head_dim\":8", "", ""), TSR_ERR_UNSUPPORTED,
       "key 'head_dim' differs between encoder (8) and decoder (256); this build takes one for both"},
      {GEMMA("\"hidden_size\":8", "\"cross_attention_hidden_size\":2304", ""), TSR_ERR_FORMAT,
       "\"cross_attention_hidden_size\""},
      {GEMMA("\"rope_scaling\":{\"rope_type\":\"yarn\"}", "", ""), TSR_ERR_UNSUPPORTED, "rope_type \"default\" alone"},
      {GEMMA("\"attention_bias\":true", "", ""), TSR_ERR_UNSUPPORTED, "'attention_bias' is true"},
      {GEMMA("", "\"attn_logit_softcapping\":0.001", ""), TSR_ERR_FORMAT, "a number from 0.01 to 10000, found 0.001"},
      {GEMMA("\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]", "", ""), TSR_ERR_FORMAT,
       "encoder: key 'layer_types': entry 1 should be"},
      {GEMMA("\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"sliding_attention\"]", "", ""),
       TSR_ERR_UNSUPPORTED, "entry 1 breaks the rule"},
      {GEMMA("", "\"cross_attention_hidden_size\":7", ""), TSR_ERR_FORMAT, "\"cross_attention_hidden_size\""},
      {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-tanhshrink\"}", TSR_ERR_UNSUPPORTED, "'tanhshrink'"},
      {"{\"model_type\":\"t5\",\"feed_forward_proj\":3}", TSR_ERR_FORMAT, "feed_forward_proj"},
      {"{\"model_type\":\"t5\",\"relative_attention_num_buckets\":3}", TSR_ERR_FORMAT,
       "relative_attention_num_buckets"},
      {"{\"model_type\":\"t5\",\"relative_attention_max_distance\":16}", TSR_ERR_FORMAT, "should be more than 16"},
      {"{\"model_type\":\"t5\",\"d_kv\":0}", TSR_ERR_FORMAT, "d_kv"},
      {"{\"model_type\":\"t5\",\"d_kv\":65536}", TSR_ERR_FORMAT, "8 encoder heads of size 65536"},
      {"{\"model_type\":\"nn_transformer\",\"norm\":\"batchnorm\"}", TSR_ERR_UNSUPPORTED,
       "'norm' is \"batchnorm\"; this build knows layernorm, layernorm_std, rmsnorm"},
      {"{\"model_type\":\"nn_transformer\",\"position_encoding\":\"rotary\"}", TSR_ERR_UNSUPPORTED,
       "\"rotary\"; this build knows sinusoidal_interleaved, sinusoidal_halves, learned, relative, none"},
      {"{\"model_type\":\"nn_transformer\",\"position_encoding\":\"relative\",\"max_distance\":0}", TSR_ERR_FORMAT,
       "key \"max_distance\": expected an integer from 1 to 1048576, found 0"},
      {"{\"model_type\":\"nn_transformer\",\"position_encoding\":\"relative\",\"max_distance\":1048577}",
       TSR_ERR_FORMAT, "found 1048577"},
      {"{\"model_type\":\"nn_transformer\",\"position_encoding\":\"relative\",\"max_distance\":\"far\"}",
       TSR_ERR_FORMAT, "\"max_distance\""},
      {"{\"model_type\":\"nn_transformer\",\"src_vocab_size\":8,\"tgt_vocab_size\":9,"
       "\"share_encoder_decoder_embeddings\":true}",
       TSR_ERR_FORMAT, "src_vocab_size 8 and tgt_vocab_size 9 should be the same"},
  };
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    tsr_transformer_config config;
    tsr_status status = parse(broken[i].text, &config);
    if (status != broken[i].status || !strstr(tsr_error_message(), broken[i].fragment)) {
      fail_msg("%s: %s: %s", broken[i].text, tsr_status_name(status), tsr_error_message());
    }
  }
}

/* What config.json says of the first and last tokens counts where there is no generation_config.json. */
static void test_forced_tokens(void **state)
{
  static const struct {
    const char *config, *generation;
    int32_t bos, eos;
  } forced[] = {
      {"{\"model_type\":\"bart\",\"force_bos_token_to_be_generated\":true}", NULL, 0, 2},
      {"{\"model_type\":\"bart\",\"force_bos_token_to_be_generated\":true,\"forced_bos_token_id\":9}", NULL, 9, 2},
      {"{\"model_type\":\"bart\",\"force_bos_token_to_be_generated\":true}", "{}", -1, -1},
      {"{\"model_type\":\"bart\",\"force_bos_token_to_be_generated\":false}", NULL, -1, 2},
      {"{\"model_type\":\"mbart\",\"force_bos_token_to_be_generated\":true}", NULL, -1, 2},
      {"{\"model_type\":\"pegasus\"}", NULL, -1, 1},
      {"{\"model_type\":\"m2m_100\"}", NULL, -1, -1},
      {"{\"model_type\":\"t5\"}", NULL, -1, -1},
      {"{\"model_type\":\"t5\",\"forced_eos_token_id\":1}", NULL, -1, 1},
  };
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof forced / sizeof forced[0]; i++) {
    tsr_model *model;
    tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
    write_text(path_in(f->folder, "config.json"), forced[i].config);
    remove(path_in(f->folder, "generation_config.json"));
    if (forced[i].generation) {
      write_text(path_in(f->folder, "generation_config.json"), forced[i].generation);
    }
    check(tsr_model_open(f->folder, &model));
    check(tsr_generate_defaults(model, &options));
    assert_int_equal(options.forced_bos_id, forced[i].bos);
    assert_int_equal(options.forced_eos_id, forced[i].eos);
    tsr_model_close(model);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),      cmocka_unit_test(test_speech),   cmocka_unit_test(test_gemma),
      cmocka_unit_test(test_scaled_logits), cmocka_unit_test(test_relative), cmocka_unit_test(test_broken),
      cmocka_unit_test(test_forced_tokens),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
