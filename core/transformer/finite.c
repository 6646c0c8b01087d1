/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are no numbers are found when they are loaded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transformer/model.h"

/* The magnitude's bits of the largest of n words of 16 bits. */
static uint32_t largest_of_16(const unsigned char *bytes, int64_t n)
{
  int16_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int16_t word;
    memcpy(&word, bytes + 2 * (size_t)i, sizeof word);
    word = (int16_t)(word & 0x7fff);
    largest = word > largest ? word : largest;
  }
  return (uint32_t)largest;
}

uint32_t tsr_largest_magnitude(tsr_dtype dtype, const void *elements, int64_t n)
{
  if (dtype == TSR_BF16) {
    return largest_of_16(elements, n) << 16;
  }
  if (dtype == TSR_F16) {
    uint32_t bits;
    float value = tsr_f16_to_f32((uint16_t)largest_of_16(elements, n));
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  const unsigned char *bytes = elements;
  int32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t word;
    memcpy(&word, bytes + 4 * (size_t)i, sizeof word);
    word &= 0x7fffffff;
    largest = word > largest ? word : largest;
  }
  return (uint32_t)largest;
}

/* What is not finite of a parameter. */
typedef struct census {
  int64_t n_nan, n_infinite; /* in the checkpoint */
  int64_t n_large;           /* finite there, and infinite or cut off as they are kept */
  const tsr_piece *piece;    /* of the first NaN, else the first of the others */
  int64_t element;           /* likewise, in its tensor */
} census;

static void count(census *c, const tsr_piece *piece, int64_t first, const float *values, int64_t n, tsr_dtype dtype)
{
  for (int64_t i = 0; i < n; i++) {
    int nan = isnan(values[i]);
    int infinite = isinf(values[i]) != 0;
    int large = dtype == TSR_I4    ? fabsf(values[i]) > TSR_I4_LARGEST
                : dtype == TSR_F16 ? isinf(tsr_f16_to_f32(tsr_f32_to_f16(values[i]))) != 0
                                   : 0;
    large = large && !infinite;
    if ((nan && c->n_nan == 0) || ((infinite || large) && !c->piece)) {
      c->piece = piece;
      c->element = piece->first + first + i;
    }
    c->n_nan += nan;
    c->n_infinite += infinite;
    c->n_large += large;
  }
}

static tsr_status take_census(const tsr_parameter *parameter, tsr_dtype dtype, census *c)
{
  enum { AT_ONCE = 1 << 16 };
  float *values = malloc(AT_ONCE * sizeof *values);
  if (!values) {
    return tsr_fail_memory(AT_ONCE * sizeof *values);
  }
  tsr_status status = TSR_OK;
  int64_t before = 0; /* elements of the pieces before */
  for (int32_t p = 0; p < parameter->n_pieces && status == TSR_OK; p++) {
    const tsr_piece *piece = &parameter->pieces[p];
    for (int64_t first = 0; first < piece->count && status == TSR_OK; first += AT_ONCE) {
      int64_t n = piece->count - first < AT_ONCE ? piece->count - first : AT_ONCE;
      status = tsr_parameter_read(parameter, before + first, n, TSR_F32, values);
      if (status == TSR_OK) {
        count(c, piece, first, values, n, dtype);
      }
    }
    before += piece->count;
  }
  free(values);
  return status;
}

tsr_status tsr_parameter_check(const tsr_parameter *parameter, tsr_dtype dtype, uint32_t largest)
{
  census c = {0};
  const float limit = dtype == TSR_I4 ? nextafterf(TSR_I4_LARGEST, INFINITY) : INFINITY;
  float magnitude;
  memcpy(&magnitude, &largest, sizeof magnitude);
  if (magnitude < limit) {
    return TSR_OK;
  }
  TSR_TRY(take_census(parameter, dtype, &c));
  if (!c.piece || !c.piece->tensor) {
    return TSR_OK; /* what stands for a tensor that the checkpoint lacks */
  }
  const tsr_checkpoint_tensor *tensor = c.piece->tensor;
  const char *as_stored = c.piece->transposed ? " of its transpose" : "";
  if (c.n_nan > 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is damaged: element %lld%s is NaN, the first of %lld",
                    tensor->path, tensor->name, (long long)c.element, as_stored, (long long)c.n_nan);
  }
  if (c.n_large > 0) {
    tsr_log(TSR_LOG_WARNING,
            "%s: tensor '%s': element %lld%s is beyond the range of %s, the first of %lld in the parameter %s, and "
            "%s: load the model as bf16 or f32",
            tensor->path, tensor->name, (long long)c.element, as_stored, dtype == TSR_I4 ? "int4" : "f16",
            (long long)c.n_large, parameter->name, dtype == TSR_I4 ? "is cut off" : "becomes an infinity");
  }
  if (c.n_infinite > 0 && parameter->matrix) {
    tsr_log(TSR_LOG_WARNING, "%s: tensor '%s': element %lld%s is an infinity, the first of %lld in the parameter %s",
            tensor->path, tensor->name, (long long)c.element, as_stored, (long long)c.n_infinite, parameter->name);
  }
  return TSR_OK;
}
