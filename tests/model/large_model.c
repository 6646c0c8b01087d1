/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/large_model.h"

#include <math.h>
#include <string.h>

#include "tools/random/random.h"

static int ends_with(const char *text, const char *end)
{
  size_t size = strlen(text);
  size_t lead = strlen(end);
  return size >= lead && strcmp(text + size - lead, end) == 0;
}

/* Matrices keep a vector's size, gains are near 1, biases near 0. The same for the same pieces. */
static tsr_status read_random(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  tsr_parameter_info info;
  tsr_status status = tsr_model_parameter(context, parameter, &info);
  if (status != TSR_OK) {
    return status;
  }
  int is_matrix = info.shape.rank == 2;
  double size = is_matrix ? 1.7 / sqrt((double)info.shape.extent[1]) : 0.1;
  float middle = !is_matrix && ends_with(info.name, "norm.weight") ? 1.0f : 0.0f;
  float step = (float)(size / 2147483648.0);
  uint64_t state = (uint64_t)parameter << 40 ^ (uint64_t)first;
  for (int64_t i = 0; i < count; i += 2) {
    uint64_t bits = tsr_random_next(&state);
    elements[i] = middle + step * (float)(int32_t)(uint32_t)bits;
    if (i + 1 < count) {
      elements[i + 1] = middle + step * (float)(int32_t)(uint32_t)(bits >> 32);
    }
  }
  return TSR_OK;
}

tsr_status large_model_write(const char *folder, const large_model *m)
{
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .family = "m2m_100",
      .d_model = m->d_model,
      .encoder_layers = m->layers,
      .decoder_layers = m->layers,
      .encoder_heads = m->heads,
      .decoder_heads = m->heads,
      .encoder_d_ff = m->d_ff,
      .decoder_d_ff = m->d_ff,
      .source_vocabulary = m->vocabulary,
      .target_vocabulary = m->vocabulary,
      .max_positions = m->positions,
      .norm = TSR_NORM_LAYER,
      .norm_position = TSR_NORM_PRE,
      .final_norm = 1,
      .activation = TSR_ACTIVATION_RELU,
      .position = TSR_POSITION_SINUSOID_TENSOR2TENSOR,
      .position_offset = 2,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .shared_embedding = 1,
      .tied_logits = 1,
      .embedding_scale = sqrtf((float)m->d_model),
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = 1,
      .bos_id = 0,
      .eos_id = 2,
      .unk_id = -1,
      .decoder_start_id = 2,
  };
  tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = TSR_F16, .beam = 4, .max_length = 32};
  tsr_model *model = NULL;
  tsr_status status = tsr_model_create(&config, &model);
  if (status == TSR_OK) {
    status = tsr_model_save(model, folder, &options, read_random, model);
  }
  tsr_model_close(model);
  return status;
}
