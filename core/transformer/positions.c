/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/positions.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/status.h"

enum { ROWS_AT_ONCE = 256 };

/* The angles by which the column pairs turn from one position to the next: 10000^(-2i/D), computed in double. */
static void fill_turns(int32_t d_model, double *turns)
{
  for (int32_t i = 0; i < (d_model + 1) / 2; i++) {
    turns[i] = pow(10000.0, -2.0 * i / d_model);
  }
}

/* 10000^(-i/(D/2 - 1)), in f32 as the original has them: at the thousandth token its roundings show. */
static void fill_tensor2tensor_turns(int32_t d_model, double *turns)
{
  const int32_t pairs = d_model / 2;
  float step = (float)-(log(10000.0) / (pairs - 1));
  for (int32_t i = 0; i < pairs; i++) {
    turns[i] = (double)expf((float)i * step);
  }
}

/* theta^(-2i/K), each step rounded to f32, as the original has it. */
static void fill_rotary_turns(const tsr_transformer_config *config, double *turns)
{
  const int32_t size = config->decoder_head_size;
  for (int32_t i = 0; i < size / 2; i++) {
    turns[i] = (double)(1.0f / (float)pow((double)config->rotary_theta, (double)((float)(2 * i) / (float)size)));
  }
}

/* The angles are rounded to f32, too. */
static void fill_rotary(const tsr_transformer_config *config, const double *turns, int64_t first, int64_t count,
                        float *out)
{
  const int32_t size = config->decoder_head_size, half = size / 2;
  for (int64_t row = 0; row < count; row++) {
    float *cosines = out + row * size, *sines = cosines + half;
    for (int32_t i = 0; i < half; i++) {
      const double angle = (double)(float)((double)(first + row) * turns[i]);
      cosines[i] = (float)cos(angle);
      sines[i] = (float)sin(angle);
    }
  }
}

int32_t tsr_positions_width(const tsr_transformer_config *config)
{
  return config->position == TSR_POSITION_ROTARY ? config->decoder_head_size : config->d_model;
}

static void fill_positions(const tsr_transformer_config *config, const double *turns, int64_t first, int64_t count,
                           float *out)
{
  if (config->position == TSR_POSITION_ROTARY) {
    fill_rotary(config, turns, first, count, out);
    return;
  }
  int tensor2tensor = config->position == TSR_POSITION_SINUSOID_TENSOR2TENSOR;
  int interleaved = config->position == TSR_POSITION_SINUSOID_INTERLEAVED;
  int32_t d_model = config->d_model;
  int32_t sines = tensor2tensor ? d_model / 2 : (d_model + 1) / 2;
  for (int64_t row = 0; row < count; row++) {
    float *columns = out + row * d_model;
    columns[d_model - 1] = 0.0f; /* of an odd number, the last may be neither */
    for (int32_t i = 0; i < sines; i++) {
      double angle = (double)(first + row) * turns[i];
      angle = tensor2tensor ? (double)(float)angle : angle;
      int32_t cosine = interleaved ? 2 * i + 1 : sines + i;
      columns[interleaved ? 2 * i : i] = (float)sin(angle);
      if (cosine < d_model) {
        columns[cosine] = (float)cos(angle);
      }
    }
  }
}

int tsr_positions_are_computed(const tsr_transformer_config *config)
{
  return config->position == TSR_POSITION_SINUSOID_HALVES || config->position == TSR_POSITION_SINUSOID_INTERLEAVED ||
         config->position == TSR_POSITION_SINUSOID_TENSOR2TENSOR || config->position == TSR_POSITION_ROTARY;
}

tsr_status tsr_positions_of_sound(int32_t d_model, int64_t first, int64_t count, float *rows)
{
  const tsr_transformer_config config = {.position = TSR_POSITION_SINUSOID_TENSOR2TENSOR, .d_model = d_model};
  double *turns = malloc((size_t)d_model * sizeof *turns);
  if (!turns) {
    return tsr_fail_memory((size_t)d_model * sizeof *turns);
  }
  fill_tensor2tensor_turns(d_model, turns);
  fill_positions(&config, turns, first, count, rows);
  free(turns);
  return TSR_OK;
}

static tsr_status upload(const tsr_transformer_config *config, tsr_buffer *buffer)
{
  int64_t rows = config->max_positions;
  int64_t row_size = tsr_positions_width(config) * (int64_t)sizeof(float);
  double *turns = malloc((size_t)row_size * sizeof *turns);
  float *elements = malloc((size_t)row_size * ROWS_AT_ONCE);
  tsr_status status = turns && elements ? TSR_OK : tsr_fail_memory((size_t)row_size * ROWS_AT_ONCE);
  if (status == TSR_OK && config->position == TSR_POSITION_SINUSOID_TENSOR2TENSOR) {
    fill_tensor2tensor_turns(config->d_model, turns);
  } else if (status == TSR_OK && config->position == TSR_POSITION_ROTARY) {
    fill_rotary_turns(config, turns);
  } else if (status == TSR_OK) {
    fill_turns(config->d_model, turns);
  }
  for (int64_t first = 0; first < rows && status == TSR_OK; first += ROWS_AT_ONCE) {
    int64_t count = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
    fill_positions(config, turns, config->position_offset + first, count, elements);
    status = tsr_buffer_write(buffer, first * row_size, count * row_size, elements);
  }
  free(turns);
  free(elements);
  return status;
}

tsr_status tsr_positions_upload(const tsr_transformer_config *config, tsr_device *device, tsr_buffer **positions)
{
  *positions = NULL;
  if (!tsr_positions_are_computed(config)) {
    return TSR_OK;
  }
  int64_t rows = config->max_positions;
  int64_t row_size = tsr_positions_width(config) * (int64_t)sizeof(float);
  TSR_TRY(tsr_buffer_create(device, rows * row_size, TSR_BUFFER_DEVICE, positions));
  return upload(config, *positions);
}
