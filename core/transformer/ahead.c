/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/ahead.h"

#include <stdlib.h>

#include "core/base/status.h"

enum { N_SHARED = sizeof((tsr_ahead){0}.shared) / sizeof(tsr_buffer *), MOST_BINDINGS = N_SHARED + 2 };

static int64_t bytes_of(const tsr_program *program, tsr_ref tensor)
{
  tsr_shape shape = tsr_ref_shape(program, tensor);
  return tsr_shape_elements(&shape) * (int64_t)tsr_dtype_size(tsr_ref_dtype(program, tensor));
}

/* 1 if the device has all operators of the program. */
static int is_whole(tsr_device *device, const tsr_program *program)
{
  int32_t n = tsr_program_line_count(program), supported = 0;
  while (supported < n && tsr_device_supports(device, program, supported)) {
    supported++;
  }
  return supported == n;
}

/* A buffer for each tensor that both executables read, and its binding. */
static tsr_status make_shared(tsr_ahead *a, tsr_device *device, const tsr_program *program,
                              const tsr_program_refs *refs, tsr_binding *bindings, int32_t *n)
{
  const tsr_ref tensors[N_SHARED] = {refs->token,  refs->position,       refs->suppress, refs->phases,
                                     refs->chosen, refs->source_lengths, refs->log_step};
  for (int32_t i = 0; i < N_SHARED; i++) {
    if (tensors[i] == TSR_NONE) {
      continue;
    }
    int32_t is_input = tsr_ref_kind(program, tensors[i]) == TSR_STORAGE_INPUT;
    TSR_TRY(tsr_buffer_create(device, bytes_of(program, tensors[i]), is_input ? TSR_BUFFER_UPLOAD : TSR_BUFFER_DEVICE,
                              &a->shared[i]));
    bindings[(*n)++] = (tsr_binding){.tensor = tensors[i], .buffer = a->shared[i]};
  }
  return TSR_OK;
}

/* Temporaries of the one may lie where those of the other lie, for one runs after the other. */
static tsr_status make_arena(tsr_ahead *a, tsr_device *device, const tsr_program *program)
{
  const tsr_device_properties *properties = tsr_device_get_properties(device);
  tsr_program_statistics statistics;
  TSR_TRY(tsr_device_measure(device, program, properties->buffer_alignment, &statistics));
  uint64_t bytes = (uint64_t)statistics.planned_bytes;
  uint64_t most = properties->promised_buffer_size > 0 ? properties->promised_buffer_size : properties->max_buffer_size;
  if (bytes == 0 || bytes > most) {
    return TSR_OK;
  }
  return tsr_fail_context(tsr_buffer_create(device, (int64_t)bytes, TSR_BUFFER_DEVICE, &a->arena),
                          "the temporaries of a step");
}

static tsr_status make(tsr_ahead *a, tsr_transformer *t, const tsr_program *program, const tsr_compiled *compiled)
{
  const tsr_program_refs *refs = &compiled->refs;
  tsr_ref tokens = a->is_log ? refs->log_next : refs->next;
  tsr_ref logits = a->is_log ? refs->log_logit : refs->next_logit;
  int64_t alignment = tsr_device_get_properties(t->device)->buffer_alignment;
  int64_t size = bytes_of(program, tokens);
  a->logits_offset = (size + alignment - 1) / alignment * alignment;
  a->row = bytes_of(program, refs->token);
  tsr_binding bindings[MOST_BINDINGS];
  int32_t n = 0;
  TSR_TRY(make_shared(a, t->device, program, refs, bindings, &n));
  TSR_TRY(make_arena(a, t->device, program));
  for (int32_t set = 0; set < 2; set++) {
    TSR_TRY(tsr_buffer_create(t->device, a->logits_offset + size, TSR_BUFFER_READBACK, &a->results[set]));
    bindings[n] = (tsr_binding){.tensor = tokens, .buffer = a->results[set]};
    bindings[n + 1] = (tsr_binding){.tensor = logits, .buffer = a->results[set], .offset = a->logits_offset};
    const tsr_own_bindings own = {.bindings = bindings, .n = n + 2, .arena = a->arena};
    TSR_TRY(tsr_transformer_executable(t, program, &own, 0, &a->executables[set]));
  }
  return TSR_OK;
}

tsr_status tsr_ahead_make(tsr_transformer *transformer, const tsr_program *program, tsr_compiled *compiled,
                          int32_t *made)
{
  *made = transformer->n_devices == 1 && is_whole(transformer->device, program);
  if (!*made) {
    return TSR_OK;
  }
  tsr_ahead *a = calloc(1, sizeof *a);
  if (!a) {
    return tsr_fail_memory(sizeof *a);
  }
  a->is_log = compiled->key.ahead == TSR_AHEAD_MANY;
  tsr_status status = make(a, transformer, program, compiled);
  if (status != TSR_OK) {
    tsr_ahead_destroy(a);
    return status;
  }
  compiled->ahead = a;
  compiled->executable = a->executables[0];
  return TSR_OK;
}

void tsr_ahead_destroy(tsr_ahead *ahead)
{
  if (!ahead) {
    return;
  }
  for (int32_t set = 0; set < 2; set++) {
    tsr_executable_destroy(ahead->executables[set]);
    tsr_buffer_destroy(ahead->results[set]);
  }
  for (int32_t i = 0; i < N_SHARED; i++) {
    tsr_buffer_destroy(ahead->shared[i]);
  }
  tsr_buffer_destroy(ahead->arena);
  free(ahead);
}

tsr_status tsr_ahead_start(const tsr_ahead *ahead, int32_t set, int32_t n)
{
  return tsr_executable_start_many(ahead->executables[set], n);
}

tsr_status tsr_ahead_read(const tsr_ahead *ahead, int32_t set, int32_t first, int32_t n, int32_t *tokens, float *logits)
{
  tsr_buffer *results = ahead->results[set];
  int64_t begin = ahead->is_log ? first * ahead->row : 0;
  TSR_TRY(tsr_executable_wait(ahead->executables[set]));
  TSR_TRY(tsr_buffer_read(results, begin, n * ahead->row, tokens));
  return tsr_buffer_read(results, ahead->logits_offset + begin, n * ahead->row, logits);
}
