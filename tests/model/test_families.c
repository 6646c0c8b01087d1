/* SPDX-License-Identifier: Apache-2.0
 *
 * Each family: what its config.json leaves to defaults, what is refused, and folders of odd sizes with random weights,
 * written and read again, on which all devices agree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/transformer/model.h"
#include "tests/model/generation.h"
#include "tests/unit/temporary.h"

/* ---- configurations ---------------------------------------------------------------------------------------------- */

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
      {"{\"model_type\":\"bart\",\"activation_function\":\"quick_gelu\"}", TSR_ERR_UNSUPPORTED, "'quick_gelu'"},
      {"{\"model_type\":\"mbart\",\"pad_token_id\":50265}", TSR_ERR_FORMAT, "'pad_token_id' is 50265"},
      {"{\"model_type\":\"pegasus\",\"encoder_layers\":0,\"decoder_layers\":0}", TSR_ERR_FORMAT, "layers"},
      {"{\"model_type\":\"m2m_100\",\"d_model\":3,\"encoder_attention_heads\":1}", TSR_ERR_FORMAT, "'d_model' is 3"},
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
       "\"rotary\"; this build knows sinusoidal_interleaved, sinusoidal_halves, learned, none"},
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
    tsr_generate_options options;
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

/* ---- folders of odd sizes ---------------------------------------------------------------------------------------- */

enum { VOCABULARY = 131, D_MODEL = 48, BATCH = 3, WIDTH = 17 };

#define SIZES                                                                                                          \
  "\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":3,\"encoder_layers\":2,"                   \
  "\"decoder_layers\":1,\"encoder_ffn_dim\":56,\"decoder_ffn_dim\":40,\"vocab_size\":131,"                             \
  "\"max_position_embeddings\":24"
#define T5_SIZES                                                                                                       \
  "\"d_model\":48,\"num_heads\":3,\"d_kv\":10,\"num_layers\":2,\"num_decoder_layers\":1,\"d_ff\":56,"                  \
  "\"vocab_size\":131,\"relative_attention_num_buckets\":9,\"relative_attention_max_distance\":12"
#define NN_SIZES                                                                                                       \
  "\"model_type\":\"nn_transformer\",\"d_model\":48,\"nhead\":3,\"dim_feedforward\":56,\"vocab_size\":131,"            \
  "\"max_position_embeddings\":24,\"pad_token_id\":0,\"bos_token_id\":1,\"eos_token_id\":2"

static const char *const folders[] = {
    "{\"model_type\":\"bart\"," SIZES "}",
    "{\"model_type\":\"bart\",\"tie_word_embeddings\":false," SIZES "}",
    "{\"model_type\":\"mbart\",\"scale_embedding\":true,\"decoder_start_token_id\":130," SIZES "}",
    "{\"model_type\":\"m2m_100\"," SIZES "}",
    "{\"model_type\":\"pegasus\",\"activation_function\":\"relu\"," SIZES "}",
    "{\"model_type\":\"t5\"," T5_SIZES "}",
    "{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false," T5_SIZES "}",
    "{\"model_type\":\"mt5\",\"tie_word_embeddings\":true," T5_SIZES "}",
    "{\"model_type\":\"umt5\"," T5_SIZES "}",
    "{\"norm_first\":true,\"activation\":\"swiglu\",\"norm\":\"rmsnorm\",\"bias\":false,\"tie_word_embeddings\":true,"
    "\"share_encoder_decoder_embeddings\":true,\"num_encoder_layers\":1,\"num_decoder_layers\":1," NN_SIZES "}",
    "{\"activation\":\"geglu\",\"position_encoding\":\"learned\",\"num_encoder_layers\":1,\"num_decoder_layers\":2,"
    "\"final_norm\":false," NN_SIZES "}",
    "{\"norm\":\"layernorm_std\",\"layer_norm_eps\":1e-6,\"norm_first\":true,\"num_encoder_layers\":1,"
    "\"num_decoder_layers\":1," NN_SIZES "}",
    "{\"num_encoder_layers\":2,\"num_decoder_layers\":0,\"position_encoding\":\"sinusoidal_halves\"," NN_SIZES "}",
    "{\"num_encoder_layers\":0,\"num_decoder_layers\":2,\"norm_first\":true,\"activation\":\"gelu\"," NN_SIZES "}",
    "{\"num_encoder_layers\":0,\"num_decoder_layers\":1,\"position_encoding\":\"none\",\"tie_word_embeddings\":true,"
    "\"activation\":\"reglu\"," NN_SIZES "}",
};

/* Rows of matrices keep a vector's size; gains are about 1. */
static tsr_status random_parameter(void *context, int32_t index, int64_t first, int64_t count, float *elements)
{
  const tsr_model *model = context;
  const tsr_parameter *parameter = &model->parameters.items[index];
  const char *end = strrchr(parameter->name, '.');
  int is_gain = parameter->shape.rank == 1 && strcmp(end, ".weight") == 0;
  int is_product = parameter->matrix && !strstr(parameter->name, "embedding");
  double size = is_product ? 1.7 / sqrt((double)parameter->shape.extent[1]) : is_gain ? 0.2 : 0.5;
  for (int64_t i = 0; i < count; i++) {
    uint32_t out[4];
    tsr_philox4x32((const uint32_t[4]){(uint32_t)(first + i), (uint32_t)index}, (const uint32_t[2]){11}, out);
    elements[i] = (float)(((double)out[0] / 0x1p31 - 1.0) * size + (is_gain ? 1.0 : 0.0));
  }
  return TSR_OK;
}

/* Writes the folder of a configuration: first its config.json alone, then all of it, as the library writes it. */
static void write_folder(const char *folder, const char *text)
{
  tsr_model *described, *written;
  write_text(path_in(folder, "config.json"), text);
  remove(path_in(folder, "generation_config.json"));
  remove(path_in(folder, "model.safetensors"));
  check(tsr_model_open(folder, &described));
  assert_false(tsr_model_has_weights(described));
  check(tsr_model_save(described, folder, NULL, random_parameter, described));
  check(tsr_model_open(folder, &written));
  assert_true(tsr_model_has_weights(written));
  assert_memory_equal(tsr_model_config(described), tsr_model_config(written), sizeof(tsr_transformer_config));
  tsr_model_close(written);
  tsr_model_close(described);
}

/* What a device makes of a batch of sentences of 17, 1 and 9 tokens. */
typedef struct outcome {
  float encoded[BATCH * WIDTH * D_MODEL];
  float logits[BATCH * WIDTH * VOCABULARY];
} outcome;

static const int32_t lengths[BATCH] = {WIDTH, 1, 9};

static void forward(const fixture *f, const char *device, outcome *result)
{
  setup s;
  int32_t ids[BATCH * WIDTH];
  uint32_t x = 12345;
  for (int32_t i = 0; i < BATCH * WIDTH; i++) {
    x = x * 1664525u + 1013904223u;
    ids[i] = (int32_t)(3 + (x >> 8) % (VOCABULARY - 3));
  }
  memset(result, 0, sizeof *result);
  open_setup(f, device, &(tsr_transformer_options){.strict = 1}, &s);
  const tsr_transformer_config *config = tsr_model_config(s.model);
  int encodes = config->encoder_layers > 0, decodes = config->decoder_layers > 0;
  check(tsr_transformer_forward(s.transformer, BATCH, WIDTH, encodes ? ids : NULL, encodes ? lengths : NULL, WIDTH,
                                decodes ? ids : NULL, encodes ? result->encoded : NULL,
                                decodes ? result->logits : NULL));
  /* What a model has not is refused. */
  if (!encodes) {
    assert_int_equal(tsr_transformer_forward(s.transformer, 1, 0, NULL, NULL, 1, ids, result->encoded, NULL),
                     TSR_ERR_UNSUPPORTED);
  }
  if (!decodes) {
    assert_int_equal(tsr_transformer_forward(s.transformer, 1, 1, ids, lengths, 1, ids, NULL, result->logits),
                     TSR_ERR_UNSUPPORTED);
  }
  close_setup(&s);
}

/* Compares the first `used` of a batch's rows of each sentence. */
static void assert_near(const char *what, const float *expected, const float *found, int32_t width, int all)
{
  double largest = 0.0, magnitude = 0.0;
  for (int32_t b = 0; b < BATCH; b++) {
    for (int32_t i = 0; i < (all ? WIDTH : lengths[b]) * width; i++) {
      double a = (double)expected[b * WIDTH * width + i], z = (double)found[b * WIDTH * width + i];
      largest = isnan(z) ? INFINITY : fmax(largest, fabs(a - z));
      magnitude = fmax(magnitude, fabs(a));
    }
  }
  if (!(largest <= 2e-5 * magnitude)) {
    fail_msg("%s: off by %g of %g", what, largest, magnitude);
  }
}

static void test_folders(void **state)
{
  const fixture *f = *state;
  outcome *expected = malloc(sizeof *expected), *found = malloc(sizeof *found);
  assert_true(expected && found);
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    write_folder(f->folder, folders[i]);
    forward(f, "reference", expected);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      const char *device = device_name(f, d);
      char what[512];
      snprintf(what, sizeof what, "%s on %s", folders[i], device);
      if (strncmp(device, "reference", 9) == 0) {
        continue;
      }
      forward(f, device, found);
      assert_near(what, expected->encoded, found->encoded, D_MODEL, 0);
      assert_near(what, expected->logits, found->logits, VOCABULARY, 1);
    }
  }
  free(expected);
  free(found);
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

enum { MAX_LENGTH = 22 };

/* The most probable token behind each of a row's positions, by teacher forcing: what a step of greedy search finds. */
static void assert_greedy(tsr_transformer *t, const int32_t *source, int32_t length, const tsr_hypothesis *found,
                          int32_t start, int32_t n_given)
{
  const tsr_transformer_config *config = tsr_model_config(tsr_transformer_model(t));
  int encodes = config->encoder_layers > 0;
  int32_t ids[MAX_LENGTH] = {start};
  float *logits = malloc((size_t)MAX_LENGTH * VOCABULARY * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i + 1 < found->n_ids; i++) {
    ids[i + 1] = found->ids[i];
  }
  check(tsr_transformer_forward(t, 1, encodes ? length : 0, encodes ? source : NULL, encodes ? &length : NULL,
                                found->n_ids, ids, NULL, logits));
  for (int32_t i = 0; i < found->n_ids; i++) {
    const float *row = logits + (size_t)i * VOCABULARY;
    float best = -INFINITY;
    for (int32_t v = 0; v < VOCABULARY; v++) {
      best = fmaxf(best, row[v]);
    }
    if (i >= n_given && best - row[found->ids[i]] > 1e-4f) {
      fail_msg("token %d of %d is %d, whose logit is %g; the best is %g", (int)i, (int)found->n_ids, (int)found->ids[i],
               (double)row[found->ids[i]], (double)best);
    }
  }
  free(logits);
}

static void search_all(const fixture *f, const char *device, int32_t beam, tsr_generation *generation)
{
  setup s;
  int32_t pool[BATCH * WIDTH];
  const int32_t *source[BATCH] = {pool, pool + WIDTH, pool + 2 * WIDTH};
  for (int32_t i = 0; i < BATCH * WIDTH; i++) {
    pool[i] = 3 + (i * 37 + i * i) % (VOCABULARY - 3);
  }
  pool[2 * WIDTH] = 1; /* bos: the start token of a decoder alone */
  open_setup(f, device, &(tsr_transformer_options){.strict = 1}, &s);
  const tsr_transformer_config *config = tsr_model_config(s.model);
  int is_alone = config->encoder_layers == 0;
  tsr_generate_options options;
  check(tsr_generate_defaults(s.model, &options));
  options.beam = options.n_best = beam;
  options.max_length = MAX_LENGTH;
  options.forced_eos_id = -1;
  options.n_suppressed = options.n_words = 0;
  check(tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, generation));
  for (int32_t b = 0; b < BATCH && beam == 1; b++) {
    const tsr_hypothesis *found = &generation->hypotheses[b];
    int32_t has_start = is_alone && source[b][0] == config->decoder_start_id;
    int32_t n_given = is_alone ? lengths[b] - has_start : 0;
    assert_true(found->n_ids > n_given);
    assert_memory_equal(found->ids, source[b] + has_start, (size_t)n_given * sizeof *found->ids);
    assert_greedy(s.transformer, source[b], lengths[b], found, config->decoder_start_id, n_given);
  }
  if (is_alone) {
    tsr_generation none;
    options.attention = 1;
    assert_int_equal(tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, &none),
                     TSR_ERR_UNSUPPORTED);
    options.attention = 0;
    options.max_length = WIDTH;
    assert_int_equal(tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, &none),
                     TSR_ERR_ARGUMENT);
  }
  close_setup(&s);
}

/* Steps with a cache give what teacher forcing gives, and scores of a beam are the same on every device. */
static void test_searches(void **state)
{
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    write_folder(f->folder, folders[i]);
    if (strstr(folders[i], "\"num_decoder_layers\":0")) {
      continue;
    }
    tsr_generation expected = {0};
    search_all(f, "reference", 3, &expected);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      char device[64];
      snprintf(device, sizeof device, "%s", device_name(f, d));
      tsr_generation found = {0};
      search_all(f, device, 1, &found);
      tsr_generation_finish(&found);
      search_all(f, device, 3, &found);
      for (int32_t h = 0; h < BATCH * 3; h++) {
        if (!(fabsf(found.hypotheses[h].score - expected.hypotheses[h].score) <= 1e-4f)) {
          fail_msg("%s on %s: score %d is %g instead of %g", folders[i], device, (int)h,
                   (double)found.hypotheses[h].score, (double)expected.hypotheses[h].score);
        }
      }
      tsr_generation_finish(&found);
    }
    tsr_generation_finish(&expected);
  }
}

/* A decoder alone without a start token takes the first token of its source; an encoder alone generates nothing. */
static void test_alone(void **state)
{
  const fixture *f = *state;
  const int32_t ids[] = {9, 7, 5}, length = 3;
  const int32_t *source = ids;
  tsr_generate_options options;
  tsr_generation generation;
  setup s;
  write_folder(f->folder,
               "{\"model_type\":\"nn_transformer\",\"num_encoder_layers\":0,\"num_decoder_layers\":1,\"d_model\":48,"
               "\"nhead\":3,\"dim_feedforward\":8,\"tgt_vocab_size\":131,\"eos_token_id\":2}");
  open_setup(f, "reference", NULL, &s);
  remove(path_in(f->folder, "generation_config.json"));
  check(tsr_generate_defaults(s.model, &options));
  assert_int_equal(options.max_length, 256);
  options.max_length = 8;
  check(tsr_generate(s.transformer, 1, &source, &length, 0, &options, NULL, NULL, &generation));
  assert_true(generation.hypotheses[0].n_ids > 2 && generation.hypotheses[0].n_ids <= 7);
  assert_int_equal(generation.hypotheses[0].ids[0], 7);
  assert_greedy(s.transformer, source, length, &generation.hypotheses[0], 9, 2);
  tsr_generation_finish(&generation);
  close_setup(&s);
  write_text(path_in(f->folder, "generation_config.json"), "{\"max_new_tokens\":5}");
  tsr_model *model;
  check(tsr_model_open(f->folder, &model));
  assert_int_equal(tsr_generate_defaults(model, &options), TSR_ERR_UNSUPPORTED);
  tsr_model_close(model);

  write_folder(f->folder,
               "{\"model_type\":\"nn_transformer\",\"num_encoder_layers\":1,\"num_decoder_layers\":0,\"d_model\":48,"
               "\"nhead\":3,\"dim_feedforward\":8,\"src_vocab_size\":131,\"eos_token_id\":2}");
  open_setup(f, "reference", NULL, &s);
  options = (tsr_generate_options){.beam = 1, .n_best = 1, .max_length = 8};
  assert_int_equal(tsr_generate(s.transformer, 1, &source, &length, 0, &options, NULL, NULL, &generation),
                   TSR_ERR_UNSUPPORTED);
  close_setup(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults), cmocka_unit_test(test_broken),   cmocka_unit_test(test_forced_tokens),
      cmocka_unit_test(test_folders),  cmocka_unit_test(test_searches), cmocka_unit_test(test_alone),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
