/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/configs.h"

#include <math.h>
#include <stdio.h>

tsr_transformer_config marian_config(void)
{
  return (tsr_transformer_config){
      TSR_SIZED(tsr_transformer_config),
      .family = "marian",
      .d_model = 24,
      .encoder_layers = 2,
      .decoder_layers = 1,
      .encoder_heads = 3,
      .decoder_heads = 2,
      .encoder_d_ff = 40,
      .decoder_d_ff = 20,
      .source_vocabulary = 50,
      .target_vocabulary = 50,
      .max_positions = 77,
      .norm = TSR_NORM_LAYER,
      .norm_position = TSR_NORM_POST,
      .activation = TSR_ACTIVATION_SILU,
      .position = TSR_POSITION_SINUSOID_HALVES,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .logits_bias = 1,
      .shared_embedding = 1,
      .tied_logits = 1,
      .embedding_scale = sqrtf(24.0f),
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = 49,
      .bos_id = -1,
      .eos_id = 0,
      .unk_id = 1,
      .decoder_start_id = 49,
  };
}

tsr_transformer_config nn_config(void)
{
  tsr_transformer_config config = marian_config();
  snprintf(config.family, sizeof config.family, "nn_transformer");
  config.decoder_heads = 3;
  config.decoder_d_ff = 40;
  config.source_vocabulary = 31;
  config.position = TSR_POSITION_SINUSOID_INTERLEAVED;
  config.final_norm = 1;
  config.shared_embedding = config.tied_logits = 0;
  config.activation = TSR_ACTIVATION_RELU;
  config.pad_id = 0;
  config.bos_id = config.decoder_start_id = 1;
  config.eos_id = 2;
  config.unk_id = 3;
  return config;
}

tsr_transformer_config whisper_config(void)
{
  tsr_transformer_config config = marian_config();
  snprintf(config.family, sizeof config.family, "whisper");
  config.source_vocabulary = 0;
  config.norm_position = TSR_NORM_PRE;
  config.final_norm = 1;
  config.activation = TSR_ACTIVATION_GELU_ERF;
  config.position = TSR_POSITION_LEARNED;
  config.logits_bias = 0;
  config.shared_embedding = 0;
  config.embedding_scale = 1.0f;
  config.bos_id = config.eos_id;
  config.unk_id = -1;
  config.decoder_start_id = 1;
  config.mels = 7;
  config.source_positions = 5;
  return config;
}

tsr_transformer_config gemma_config(void)
{
  tsr_transformer_config config = marian_config();
  snprintf(config.family, sizeof config.family, "t5gemma");
  config.encoder_heads = config.decoder_heads = 4;
  config.encoder_head_size = config.decoder_head_size = 6;
  config.encoder_d_model = 32;
  config.encoder_key_heads = 4;
  config.decoder_key_heads = 2;
  config.norm = TSR_NORM_RMS;
  config.norm_position = TSR_NORM_SANDWICH;
  config.final_norm = 1;
  config.activation = TSR_ACTIVATION_GELU_TANH;
  config.gated = 1;
  config.position = TSR_POSITION_ROTARY;
  config.rotary_theta = 10000.0f;
  config.window = 3;
  config.window_period = 2;
  config.attention_softcap = 50.0f;
  config.logits_softcap = 30.0f;
  config.attention_scale = 0.25f;
  config.attention_bias = config.feed_forward_bias = config.logits_bias = 0;
  config.shared_embedding = 0;
  config.epsilon = 1e-6f;
  config.pad_id = 0;
  config.eos_id = 1;
  config.bos_id = config.decoder_start_id = 2;
  config.unk_id = 3;
  return config;
}
