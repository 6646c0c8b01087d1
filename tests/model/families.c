/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/transformer/model.h"
#include "tessera/philox.h"
#include "tests/model/generation.h"
#include "tests/support/temporary.h"

#define SIZES                                                                                                          \
  "\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":3,\"encoder_layers\":2,"                   \
  "\"decoder_layers\":1,\"encoder_ffn_dim\":56,\"decoder_ffn_dim\":40,\"vocab_size\":131,"                             \
  "\"max_position_embeddings\":24"
#define T5_SIZES                                                                                                       \
  "\"d_model\":48,\"num_heads\":3,\"d_kv\":10,\"num_layers\":2,\"num_decoder_layers\":1,\"d_ff\":56,"                  \
  "\"vocab_size\":131,\"relative_attention_num_buckets\":9,\"relative_attention_max_distance\":12"
#define WHISPER_SIZES                                                                                                  \
  "\"model_type\":\"whisper\",\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":3,"             \
  "\"encoder_layers\":2,\"decoder_layers\":1,\"encoder_ffn_dim\":56,\"decoder_ffn_dim\":40,\"vocab_size\":131,"        \
  "\"max_source_positions\":17,\"max_target_positions\":24,\"pad_token_id\":0,\"bos_token_id\":2,\"eos_token_id\":2,"  \
  "\"decoder_start_token_id\":1"
#define GEMMA_SIDE                                                                                                     \
  "\"hidden_size\":48,\"num_attention_heads\":6,\"head_dim\":10,\"intermediate_size\":56,\"vocab_size\":131,"          \
  "\"max_position_embeddings\":24"
#define GEMMA(side)                                                                                                    \
  "{\"model_type\":\"t5gemma\",\"encoder\":{\"num_hidden_layers\":1," side GEMMA_SIDE                                  \
  "},\"decoder\":{\"num_hidden_layers\":2," side GEMMA_SIDE "}"
#define NN_SIZES                                                                                                       \
  "\"model_type\":\"nn_transformer\",\"d_model\":48,\"nhead\":3,\"dim_feedforward\":56,\"vocab_size\":131,"            \
  "\"max_position_embeddings\":24,\"pad_token_id\":0,\"bos_token_id\":1,\"eos_token_id\":2"

const char *const family_configs[N_FAMILY_CONFIGS] = {
    "{\"model_type\":\"bart\"," SIZES "}",
    "{\"model_type\":\"bart\",\"tie_word_embeddings\":false," SIZES "}",
    "{\"model_type\":\"mbart\",\"scale_embedding\":true,\"decoder_start_token_id\":130," SIZES "}",
    "{\"model_type\":\"m2m_100\"," SIZES "}",
    "{\"model_type\":\"m2m_100\",\"pad_token_id\":130,\"scale_embedding\":false," SIZES "}",
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
    "{\"num_encoder_layers\":1,\"num_decoder_layers\":2,\"position_encoding\":\"relative\",\"max_distance\":3," NN_SIZES
    "}",
    "{\"num_encoder_layers\":2,\"num_decoder_layers\":0,\"position_encoding\":\"relative\",\"max_distance\":2,"
    "\"norm_first\":true," NN_SIZES "}",
    "{\"num_encoder_layers\":0,\"num_decoder_layers\":2,\"position_encoding\":\"relative\",\"max_distance\":1," NN_SIZES
    "}",
    GEMMA("\"num_key_value_heads\":2,\"sliding_window\":3,\"attn_logit_softcapping\":2.0,") "}",
    GEMMA(
        "\"num_key_value_heads\":6,\"sliding_window\":4,\"attn_logit_softcapping\":null,"
        "\"final_logit_softcapping\":null,\"layer_types\":[\"sliding_attention\",\"sliding_attention\"],") ",\"tie_"
                                                                                                           "word_"
                                                                                                           "embeddings"
                                                                                                           "\":false}",
    "{\"num_mel_bins\":5," WHISPER_SIZES "}",
    "{\"num_mel_bins\":9,\"tie_word_embeddings\":false,\"activation_function\":\"gelu_new\"," WHISPER_SIZES "}",
};

/* Elements that a product sums up. */
static double depth_of(const tsr_parameter *parameter)
{
  return (double)tsr_shape_elements(&parameter->shape) / (double)parameter->shape.extent[0];
}

/* Rows of matrices keep a vector's size; gains are about 1. */
static tsr_status random_parameter(void *context, int32_t index, int64_t first, int64_t count, float *elements)
{
  const tsr_model *model = context;
  const tsr_parameter *parameter = &model->parameters.items[index];
  const char *end = strrchr(parameter->name, '.');
  int is_gain = parameter->shape.rank == 1 && strcmp(end, ".weight") == 0;
  int is_product = parameter->matrix && !strstr(parameter->name, "embedding");
  double size = is_product ? 1.7 / sqrt(depth_of(parameter)) : is_gain ? 0.2 : 0.5;
  for (int64_t i = 0; i < count; i++) {
    uint32_t out[4];
    tsr_philox4x32((const uint32_t[4]){(uint32_t)(first + i), (uint32_t)index}, (const uint32_t[2]){11}, out);
    elements[i] = (float)(((double)out[0] / 0x1p31 - 1.0) * size + (is_gain ? 1.0 : 0.0));
  }
  return TSR_OK;
}

void write_family(const char *folder, const char *config)
{
  tsr_model *described, *written;
  write_text(path_in(folder, "config.json"), config);
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
