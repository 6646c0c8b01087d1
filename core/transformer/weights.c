/* SPDX-License-Identifier: Apache-2.0
 *
 * A transformer's constants: read from the checkpoint, converted in pieces, written to the device.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/transformer/positions.h"
#include "core/transformer/transformer.h"

enum { UPLOAD_ELEMENTS = 1 << 20 /* converted at a time */ };
_Static_assert((int)TSR_MAX_WIDTH <= (int)UPLOAD_ELEMENTS, "a row is quantised as a whole");

/* Memory for one piece of a parameter. */
typedef struct staging_area {
  char *elements; /* UPLOAD_ELEMENTS of the largest type */
  int8_t *bytes;  /* [UPLOAD_ELEMENTS], where matrices become whole numbers; else NULL */
  float *scales;  /* [UPLOAD_ELEMENTS], likewise */
} staging_area;

static uint32_t larger(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

/* A matrix as i8 and a scale for each of its rows, or in four bits and a scale for each group of a row. */
static tsr_status upload_quantised(tsr_transformer *t, int32_t index, tsr_dtype kept, const staging_area *staging)
{
  const tsr_parameter *parameter = &t->model->parameters.items[index];
  const int64_t columns = parameter->shape.extent[parameter->shape.rank - 1];
  tsr_kept scales;
  const tsr_kept elements = tsr_parameter_kept(parameter, kept, &scales);
  const int64_t rows = columns > 0 ? parameter->shape.extent[0] : 0, row_size = elements.shape.extent[1];
  const int64_t size = scales.shape.extent[1] * (int64_t)tsr_dtype_size(scales.dtype);
  const int64_t widest = row_size > columns ? row_size : columns, at_once = widest > 0 ? UPLOAD_ELEMENTS / widest : 1;
  float *values = (float *)(void *)staging->elements;
  uint32_t largest = 0;
  tsr_device *device = tsr_transformer_parameter_device(t, index);
  TSR_TRY(tsr_buffer_create(device, rows * row_size, TSR_BUFFER_DEVICE, &t->parameters[index]));
  TSR_TRY(tsr_buffer_create(device, rows * size, TSR_BUFFER_DEVICE, &t->scales[index]));
  for (int64_t first = 0; first < rows; first += at_once) {
    int64_t n = rows - first < at_once ? rows - first : at_once;
    if (parameter->stored == kept) {
      TSR_TRY(tsr_parameter_read_rows(parameter, first, n, staging->bytes, staging->scales));
    } else {
      TSR_TRY(tsr_parameter_read(parameter, first * columns, n * columns, TSR_F32, values));
      largest = larger(largest, tsr_largest_magnitude(TSR_F32, values, n * columns));
      if (kept == TSR_I4) {
        uint16_t *chosen = (uint16_t *)(void *)staging->scales;
        tsr_four_bits_scales(values, n, columns, NULL, NULL, chosen);
        tsr_four_bits(values, n, columns, NULL, NULL, chosen, (uint8_t *)staging->bytes);
      } else {
        tsr_eight_bits(values, n, columns, staging->bytes, staging->scales);
      }
    }
    TSR_TRY(tsr_buffer_write(t->parameters[index], first * row_size, n * row_size, staging->bytes));
    TSR_TRY(tsr_buffer_write(t->scales[index], first * size, n * size, staging->scales));
  }
  return tsr_parameter_check(parameter, kept, largest);
}

static tsr_status upload_converted(tsr_transformer *t, int32_t index, tsr_dtype dtype, char *elements)
{
  const tsr_parameter *parameter = &t->model->parameters.items[index];
  int64_t size = (int64_t)tsr_dtype_size(dtype);
  int64_t total = tsr_shape_elements(&parameter->shape);
  uint32_t largest = 0;
  tsr_device *device = tsr_transformer_parameter_device(t, index);
  TSR_TRY(tsr_buffer_create(device, total * size, TSR_BUFFER_DEVICE, &t->parameters[index]));
  for (int64_t first = 0; first < total; first += UPLOAD_ELEMENTS) {
    int64_t n = total - first < UPLOAD_ELEMENTS ? total - first : UPLOAD_ELEMENTS;
    TSR_TRY(tsr_parameter_read(parameter, first, n, dtype, elements));
    largest = larger(largest, tsr_largest_magnitude(dtype, elements, n));
    TSR_TRY(tsr_buffer_write(t->parameters[index], first * size, n * size, elements));
  }
  return tsr_parameter_check(parameter, dtype, largest);
}

static tsr_status upload_parameter(tsr_transformer *t, int32_t index, const staging_area *staging)
{
  const tsr_parameter *parameter = &t->model->parameters.items[index];
  tsr_dtype dtype = tsr_parameter_dtype(parameter, t->options.weights);
  tsr_status status = dtype == TSR_I8 || dtype == TSR_I4 ? upload_quantised(t, index, dtype, staging)
                                                         : upload_converted(t, index, dtype, staging->elements);
  return tsr_fail_context(status, "%s", parameter->name);
}

static tsr_status upload(tsr_transformer *t, const staging_area *staging)
{
  const int32_t one = 1;
  TSR_TRY(tsr_buffer_create(tsr_transformer_tables_device(t), sizeof one, TSR_BUFFER_DEVICE, &t->one));
  TSR_TRY(tsr_buffer_write(t->one, 0, sizeof one, &one));
  for (int32_t i = 0; i < t->model->parameters.n; i++) {
    TSR_TRY(upload_parameter(t, i, staging));
  }
  return tsr_positions_upload(&t->model->config, tsr_transformer_tables_device(t), &t->positions);
}

tsr_status tsr_transformer_upload(tsr_transformer *transformer)
{
  size_t room = UPLOAD_ELEMENTS * sizeof(float);
  int quantised = transformer->options.weights == TSR_I8 || transformer->options.weights == TSR_I4;
  for (int32_t i = 0; i < transformer->model->parameters.n && transformer->options.weights == 0; i++) {
    const tsr_dtype stored = transformer->model->parameters.items[i].stored;
    quantised |= stored == TSR_I8 || stored == TSR_I4;
  }
  staging_area staging = {.elements = malloc(room)};
  tsr_status status = TSR_OK;
  if (quantised) {
    staging.bytes = malloc(UPLOAD_ELEMENTS);
    staging.scales = malloc(room);
  }
  if (staging.elements && (!quantised || (staging.bytes && staging.scales))) {
    status = upload(transformer, &staging);
  } else {
    status = tsr_fail_memory(room);
  }
  free(staging.scales);
  free(staging.bytes);
  free(staging.elements);
  return status == TSR_OK ? tsr_checkpoint_check(transformer->model->checkpoint) : status;
}
