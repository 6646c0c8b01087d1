/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of models as people use them: the shapes that large kernels are chosen by. They are built without weights.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tessera/train.h"
#include "tools/tessera/check/check.h"

typedef struct model_row {
  const char *name;
  const char *family;
  int32_t d_model;
  int32_t heads;
  int32_t head_size;
  int32_t d_ff;
  int32_t vocabulary;
} model_row;

/* One layer in each stack: more would need the same kernels. */
static const model_row models[] = {
    {"demo", "marian", 192, 6, 32, 768, 5001},         {"base", "marian", 512, 8, 64, 2048, 37000},
    {"big", "marian", 1024, 16, 64, 4096, 256206},     {"heads16", "marian", 256, 16, 16, 1024, 8000},
    {"heads128", "marian", 1024, 8, 128, 4096, 37000}, {"heads256", "marian", 1024, 4, 256, 4096, 37000},
    {"odd", "nn_transformer", 510, 6, 85, 1022, 9997}, /* no multiple of four */
    {"t5-base", "t5", 768, 12, 64, 3072, 32128},       {"mt5-small", "mt5", 512, 6, 64, 1024, 250112},
};

typedef struct program_row {
  const char *name;
  int32_t training; /* 1: kind is a TSR_STEP_*, else a TSR_PROGRAM_* */
  int32_t kind;
  tsr_program_size size;
} program_row;

static const program_row programs[] = {
    {"encode", 0, TSR_PROGRAM_ENCODE, {1, 25, 0, 0}},   {"encode", 0, TSR_PROGRAM_ENCODE, {32, 64, 0, 0}},
    {"encode", 0, TSR_PROGRAM_ENCODE, {4, 1000, 0, 0}}, {"decode", 0, TSR_PROGRAM_DECODE, {32, 64, 64, 1}},
    {"greedy", 0, TSR_PROGRAM_GREEDY, {1, 25, 64, 1}},  {"greedy", 0, TSR_PROGRAM_GREEDY, {64, 64, 64, 1}},
    {"beam", 0, TSR_PROGRAM_BEAM, {1, 25, 64, 4}},      {"beam", 0, TSR_PROGRAM_BEAM, {32, 64, 64, 4}},
    {"score", 0, TSR_PROGRAM_SCORE, {32, 64, 64, 1}},   {"update", 1, TSR_STEP_UPDATE, {64, 64, 64, 0}},
    {"update", 1, TSR_STEP_UPDATE, {2, 7, 9, 0}},       {"gradients", 1, TSR_STEP_GRADIENTS, {16, 33, 31, 0}},
};

/* Models of speech: the smallest, and one with the sizes of the largest, whose windows are all of 1,500 positions. */
static const model_row speech_models[] = {
    {"whisper-tiny", "whisper", 384, 6, 64, 1536, 51865},
    {"whisper-large", "whisper", 1280, 20, 64, 5120, 51866},
};

static const program_row speech_programs[] = {
    {"encode", 0, TSR_PROGRAM_ENCODE, {1, 1500, 0, 0}},   {"encode", 0, TSR_PROGRAM_ENCODE, {4, 1500, 0, 0}},
    {"decode", 0, TSR_PROGRAM_DECODE, {1, 1500, 224, 1}}, {"greedy", 0, TSR_PROGRAM_GREEDY, {4, 1500, 224, 1}},
    {"beam", 0, TSR_PROGRAM_BEAM, {1, 1500, 448, 5}},
};

static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};

enum {
  MODELS = sizeof models / sizeof models[0],
  PROGRAMS = sizeof programs / sizeof programs[0],
  SPEECH_MODELS = sizeof speech_models / sizeof speech_models[0],
  SPEECH_PROGRAMS = sizeof speech_programs / sizeof speech_programs[0],
  DTYPES = sizeof dtypes / sizeof dtypes[0],
  OF_TEXT = MODELS * PROGRAMS * DTYPES
};

int32_t check_model_count(void)
{
  return OF_TEXT + SPEECH_MODELS * SPEECH_PROGRAMS * DTYPES;
}

static tsr_transformer_config config_of(const model_row *row)
{
  const int is_t5 = strcmp(row->family, "t5") == 0 || strcmp(row->family, "mt5") == 0;
  const int is_mt5 = strcmp(row->family, "mt5") == 0;
  const int is_nn = strcmp(row->family, "nn_transformer") == 0;
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .d_model = row->d_model,
      .encoder_layers = 1,
      .decoder_layers = 1,
      .encoder_heads = row->heads,
      .decoder_heads = row->heads,
      .encoder_head_size = row->head_size,
      .decoder_head_size = row->head_size,
      .encoder_d_ff = row->d_ff,
      .decoder_d_ff = row->d_ff,
      .source_vocabulary = row->vocabulary,
      .target_vocabulary = row->vocabulary,
      .max_positions = 1024,
      .norm = is_t5 ? TSR_NORM_RMS : TSR_NORM_LAYER,
      .norm_position = is_t5 || is_nn ? TSR_NORM_PRE : TSR_NORM_POST,
      .final_norm = is_t5 || is_nn,
      .activation = is_mt5           ? TSR_ACTIVATION_GELU_TANH
                    : is_t5 || is_nn ? TSR_ACTIVATION_RELU
                                     : TSR_ACTIVATION_SILU,
      .gated = is_mt5,
      .position = is_t5   ? TSR_POSITION_RELATIVE
                  : is_nn ? TSR_POSITION_SINUSOID_INTERLEAVED
                          : TSR_POSITION_SINUSOID_HALVES,
      .relative_buckets = is_t5 ? 32 : 0,
      .relative_distance = is_t5 ? 128 : 0,
      .attention_bias = !is_t5,
      .feed_forward_bias = !is_t5,
      .logits_bias = !is_t5,
      .shared_embedding = !is_nn,
      .tied_logits = !is_nn && !is_mt5,
      .embedding_scale = is_t5 ? 1.0f : sqrtf((float)row->d_model),
      .attention_scale = is_t5 ? 1.0f : 0.0f,
      .logits_scale = is_t5 && !is_mt5 ? 1.0f / sqrtf((float)row->d_model) : 1.0f,
      .epsilon = is_t5 ? 1e-6f : 1e-5f,
      .pad_id = is_t5 || is_nn ? 0 : row->vocabulary - 1,
      .bos_id = is_nn ? 1 : -1,
      .eos_id = is_t5   ? 1
                : is_nn ? 2
                        : 0,
      .unk_id = is_t5   ? 2
                : is_nn ? 3
                        : 1,
      .decoder_start_id = is_t5   ? 0
                          : is_nn ? 1
                                  : row->vocabulary - 1,
  };

  snprintf(config.family, sizeof(config.family), "%s", row->family);
  return config;
}

static tsr_transformer_config speech_config_of(const model_row *row)
{
  tsr_transformer_config config = config_of(row);
  config.source_vocabulary = 0;
  config.max_positions = 448;
  config.norm_position = TSR_NORM_PRE;
  config.final_norm = 1;
  config.activation = TSR_ACTIVATION_GELU_ERF;
  config.position = TSR_POSITION_LEARNED;
  config.logits_bias = 0;
  config.shared_embedding = 0;
  config.embedding_scale = 1.0f;
  config.pad_id = config.bos_id = config.eos_id = 50256;
  config.unk_id = -1;
  config.decoder_start_id = 50257;
  config.mels = row->d_model > 1024 ? 128 : 80;
  config.source_positions = 1500;
  return config;
}

tsr_status check_model_program(int32_t index, tsr_device *device, char *name, size_t size, tsr_program **program)
{
  const int is_speech = index >= OF_TEXT;
  const int32_t at = is_speech ? index - OF_TEXT : index;
  const model_row *shape =
      is_speech ? &speech_models[at / (SPEECH_PROGRAMS * DTYPES)] : &models[at / (PROGRAMS * DTYPES)];
  const program_row *row =
      is_speech ? &speech_programs[at / DTYPES % SPEECH_PROGRAMS] : &programs[at / DTYPES % PROGRAMS];
  const tsr_dtype dtype = dtypes[at % DTYPES];
  const tsr_transformer_config config = is_speech ? speech_config_of(shape) : config_of(shape);
  const int is_wide = dtype == TSR_F32 || dtype == TSR_I8;
  tsr_model *model = NULL;
  tsr_training_options options = {
      TSR_SIZED(tsr_training_options),
      .dropout = 0.1f,
      .attention_dropout = 0.1f,
      .activation_dropout = 0.1f,
      .label_smoothing = 0.1f,
      .max_norm = dtype == TSR_I8 ? 0.0f : 1.0f, /* a training in eight bits there is not: plain options instead */
      .average = dtype == TSR_F32,
      .statistics = dtype == TSR_BF16,
      .products = is_wide ? TSR_F32 : dtype,
  };
  tsr_status status = tsr_model_create(&config, &model);

  *program = NULL;
  snprintf(name, size, "model(%s,%s,batch=%d,source=%d,target=%d,beam=%d,weights=%s)", shape->name, row->name,
           (int)row->size.batch, (int)row->size.source, (int)row->size.target, (int)row->size.beam,
           tsr_dtype_name(dtype));
  if (status == TSR_OK && row->training) {
    status = tsr_training_program(model, &options, row->kind, &row->size, program);
  } else if (status == TSR_OK) {
    tsr_dtype states;
    status = tsr_model_states(model, device, dtype, &states);
    if (status == TSR_OK) {
      status = tsr_model_program_with_states(model, dtype, states, row->kind, &row->size, program);
    }
  }
  tsr_model_close(model);
  return status;
}
