/* SPDX-License-Identifier: Apache-2.0 */
#include "core/runtime/fault.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/status.h"

/* What is known of a storage. */
enum {
  LOOKED_AT = 1,
  FAULTY = 2,  /* it holds NaN, or an infinity that it should not hold */
  EXCLUDES = 4 /* it holds -inf, which excludes */
};

typedef struct search {
  const tsr_program *program;
  tsr_executable *executable;
  int32_t states;
  uint8_t *known; /* [n_storages] */
  void *bytes;    /* of the largest storage */
  float *values;
  tsr_fault *fault;
} search;

static int32_t storage_of(const search *s, tsr_ref tensor)
{
  return tsr_tensor_at(tsr_program_describe(s->program), tensor)->storage;
}

static int is_known_as(const search *s, tsr_ref tensor, int what)
{
  return (s->known[storage_of(s, tensor)] & what) != 0;
}

/* may_exclude: 1: -inf is no fault. */
static void look_at_values(search *s, const float *values, int64_t n, int may_exclude, uint8_t *known)
{
  tsr_fault *fault = s->fault;
  for (int64_t i = 0; i < n; i++) {
    if (isfinite(values[i])) {
      fault->largest = fmaxf(fault->largest, fabsf(values[i]));
    } else if (values[i] == -INFINITY && may_exclude) {
      *known |= EXCLUDES;
    } else {
      fault->value = (*known & FAULTY) && isnan(fault->value) ? fault->value : values[i];
      *known |= FAULTY;
    }
  }
}

static tsr_status look_at(search *s, tsr_ref tensor, int may_exclude)
{
  const tsr_program_desc *description = tsr_program_describe(s->program);
  const tsr_tensor_desc *desc = tsr_tensor_at(description, tensor);
  int64_t size = tsr_storage_at(description, desc->storage)->size;
  int is_real = desc->dtype == TSR_F32 || desc->dtype == TSR_F16 || desc->dtype == TSR_BF16;
  int is_left_out = !s->states && tsr_ref_kind(s->program, tensor) == TSR_STORAGE_STATE;
  uint8_t *known = &s->known[desc->storage];
  if (!is_real || is_left_out || *known) {
    return TSR_OK;
  }
  *known = LOOKED_AT;
  int64_t n = size / (int64_t)tsr_dtype_size(desc->dtype);
  TSR_TRY(tsr_executable_read(s->executable, tensor, s->bytes, size));
  TSR_TRY(tsr_convert(desc->dtype, s->bytes, TSR_F32, s->values, n));
  look_at_values(s, s->values, n, may_exclude, known);
  return TSR_OK;
}

static void found(search *s, int32_t line, tsr_ref tensor, int32_t is_result)
{
  s->fault->line = line;
  s->fault->tensor = tensor;
  s->fault->is_result = is_result;
}

/* Finds the line's fault, if it has one of its own making or reads a faulty constant. */
static tsr_status look_at_line(search *s, int32_t index)
{
  const tsr_line_desc *line = tsr_line_at(tsr_program_describe(s->program), index);
  /* Masking excludes; so does what is made of something that is excluded. */
  int may_exclude = line->op == TSR_OP_MASK || line->op == TSR_OP_ATTENTION;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (line->in[i] == TSR_NONE) {
      continue;
    }
    TSR_TRY(look_at(s, line->in[i], tsr_ref_kind(s->program, line->in[i]) != TSR_STORAGE_STATE));
    may_exclude |= is_known_as(s, line->in[i], EXCLUDES);
    if (is_known_as(s, line->in[i], FAULTY)) {
      found(s, index, line->in[i], 0);
      return TSR_OK;
    }
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (line->out[i] == TSR_NONE) {
      continue;
    }
    TSR_TRY(look_at(s, line->out[i], may_exclude));
    if (is_known_as(s, line->out[i], FAULTY)) {
      found(s, index, line->out[i], 1);
      return TSR_OK;
    }
  }
  return TSR_OK;
}

tsr_status tsr_fault_find(const tsr_program *program, tsr_executable *executable, int32_t states, tsr_fault *fault)
{
  const tsr_program_desc *description = tsr_program_describe(program);
  *fault = (tsr_fault){.line = -1};
  int64_t largest = 0;
  for (int32_t i = 1; i < description->n_storages; i++) {
    int64_t bytes = tsr_storage_at(description, i)->size;
    largest = bytes > largest ? bytes : largest;
  }
  search s = {.program = program,
              .executable = executable,
              .states = states,
              .known = calloc((size_t)description->n_storages, 1),
              .bytes = malloc((size_t)largest + 1),
              .values = malloc(2 * (size_t)largest + 1), /* f16 takes twice the bytes */
              .fault = fault};
  tsr_status status = s.known && s.bytes && s.values ? TSR_OK : tsr_fail_memory(3 * (size_t)largest);
  for (int32_t i = 0; i < description->n_lines && status == TSR_OK && fault->line < 0; i++) {
    status = look_at_line(&s, i);
  }
  free(s.known);
  free(s.bytes);
  free(s.values);
  return status;
}
