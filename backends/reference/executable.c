/* SPDX-License-Identifier: Apache-2.0
 *
 * Executables: a copy of the program with its tensors resolved to memory; a run walks the lines in order.
 */
#include <stdlib.h>
#include <time.h>

#include "backend.h"
#include "kernel.h"

enum { NONE = 1, F32 = 1 << TSR_F32, F16 = 1 << TSR_F16, BF16 = 1 << TSR_BF16, I8 = 1 << TSR_I8, I32 = 1 << TSR_I32 };

/* The types that each slot takes; NONE: it may be absent. A slot that is not named must be. */
typedef struct operator_row {
  void (*run)(const ref_line *line);
  int64_t (*scratch)(const ref_line *line); /* doubles it needs; NULL: none */
  int32_t in[TSR_MAX_INPUTS];
  int32_t out[TSR_MAX_OUTPUTS];
} operator_row;

#define FLOATS  (F32 | F16 | BF16)
#define MASKING F32 | NONE, I32 | NONE, I32 | NONE, F32 | NONE /* additive, lengths, position, relative */
#define LATER   (F32 | I32 | NONE)                             /* an operand of concat after the first */

static const operator_row operators[TSR_OP_COUNT] = {
    [TSR_OP_MATMUL] = {ref_matmul, ref_matmul_scratch, {F32, FLOATS | I8, F32 | NONE, F32 | F16 | NONE}, {F32}},
    [TSR_OP_SOFTMAX] = {ref_softmax, ref_softmax_scratch, {F32, F32 | NONE}, {F32}},
    [TSR_OP_LOG_SOFTMAX] = {ref_log_softmax, ref_softmax_scratch, {F32}, {F32}},
    [TSR_OP_LAYERNORM] = {ref_layernorm, NULL, {F32, F32, F32 | NONE}, {F32}},
    [TSR_OP_RMSNORM] = {ref_rmsnorm, NULL, {F32, F32}, {F32}},
    [TSR_OP_MASK] = {ref_mask, NULL, {F32, MASKING}, {F32}},
    [TSR_OP_ADD] = {ref_add, NULL, {F32 | I32, F32 | I32}, {F32 | I32}},
    [TSR_OP_MUL] = {ref_mul, NULL, {F32 | I32, F32 | I32}, {F32 | I32}},
    [TSR_OP_RELU] = {ref_relu, NULL, {F32}, {F32}},
    [TSR_OP_GELU] = {ref_gelu, NULL, {F32}, {F32}},
    [TSR_OP_SILU] = {ref_silu, NULL, {F32}, {F32}},
    [TSR_OP_EMBEDDING] = {ref_embedding, NULL, {FLOATS | I8, I32, F32 | F16 | NONE}, {F32}},
    [TSR_OP_COPY] = {ref_copy, NULL, {FLOATS | I8 | I32}, {FLOATS | I8 | I32}},
    [TSR_OP_APPEND] = {ref_append, NULL, {FLOATS | I32, I32 | NONE}, {FLOATS | I32}},
    [TSR_OP_UPDATE] = {ref_update, NULL, {FLOATS | I32}, {FLOATS | I32}},
    [TSR_OP_GATHER] = {ref_gather, NULL, {FLOATS | I32, I32}, {FLOATS | I32}},
    [TSR_OP_TOPK] = {ref_topk, NULL, {F32}, {F32, I32}},
    [TSR_OP_REDUCE_SUM] = {ref_reduce_sum, NULL, {F32}, {F32}},
    [TSR_OP_ATTENTION] = {ref_attention,
                          ref_attention_scratch,
                          {F32, FLOATS, FLOATS, MASKING, I32 | NONE, I32 | NONE},
                          {F32, F32 | NONE, F32 | NONE}},
    [TSR_OP_DROPOUT] = {ref_dropout, NULL, {F32, I32}, {F32}},
    [TSR_OP_CROSS_ENTROPY] = {ref_cross_entropy, ref_softmax_scratch, {F32, I32}, {F32, F32}},
    [TSR_OP_CROSS_ENTROPY_GRADIENT] = {ref_cross_entropy_gradient, NULL, {F32, I32, F32, F32}, {F32}},
    [TSR_OP_SOFTMAX_GRADIENT] = {ref_softmax_gradient, NULL, {F32, F32}, {F32}},
    [TSR_OP_LOG_SOFTMAX_GRADIENT] = {ref_log_softmax_gradient, NULL, {F32, F32}, {F32}},
    [TSR_OP_LAYERNORM_GRADIENT] = {ref_layernorm_gradient,
                                   ref_norm_gradient_scratch,
                                   {F32, F32, F32},
                                   {F32, F32, F32 | NONE}},
    [TSR_OP_RMSNORM_GRADIENT] = {ref_rmsnorm_gradient, ref_norm_gradient_scratch, {F32, F32, F32}, {F32, F32}},
    [TSR_OP_ACTIVATION_GRADIENT] = {ref_activation_gradient, NULL, {F32, F32}, {F32}},
    [TSR_OP_MASK_GRADIENT] = {ref_mask_gradient, NULL, {F32, F32}, {F32}},
    [TSR_OP_RELATIVE_GRADIENT] = {ref_relative_gradient, ref_relative_gradient_scratch, {F32, I32 | NONE}, {F32}},
    [TSR_OP_ATTENTION_GRADIENT] = {ref_attention_gradient,
                                   ref_attention_gradient_scratch,
                                   {F32, F32, F32, MASKING, NONE, I32 | NONE, F32, F32, F32},
                                   {F32, F32, F32, F32 | NONE}},
    [TSR_OP_SCATTER_ADD] = {ref_scatter_add, ref_scatter_add_scratch, {F32, I32}, {F32}},
    [TSR_OP_CONCAT] = {ref_concat,
                       NULL,
                       {F32 | I32, LATER, LATER, LATER, LATER, LATER, LATER, LATER, LATER, LATER, LATER, LATER},
                       {F32 | I32}},
    [TSR_OP_SUM_OF_SQUARES] = {ref_sum_of_squares, NULL, {F32, F32 | NONE}, {F32}},
    [TSR_OP_ADAM] = {ref_adam, NULL, {F32, F32, F32 | NONE}, {F32, F32, F32, F32 | NONE}},
    [TSR_OP_CONV1D] = {ref_conv1d, NULL, {F32, FLOATS, F32 | NONE}, {F32}},
    [TSR_OP_ROTATE] = {ref_rotate, NULL, {F32, F32}, {F32}},
};

struct tsr_backend_executable {
  tsr_backend_device *device;
  int32_t n_lines;
  int32_t profile;
  int32_t *ops;          /* [n_lines] */
  ref_line *lines;       /* [n_lines] */
  uint64_t *nanoseconds; /* [n_lines], of the last run */
  double *scratch;       /* as much as the neediest line takes */
};

static int takes(const tsr_program_desc *program, int32_t tensor, int32_t types)
{
  const int32_t dtype = tensor == 0 ? 0 : tsr_tensor_at(program, tensor)->dtype;
  return dtype >= 0 && dtype <= TSR_I32 && ((types ? types : NONE) >> dtype & 1);
}

int32_t ref_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  const tsr_line_desc *desc = tsr_line_at(program, line);
  if (desc->op < 1 || desc->op >= TSR_OP_COUNT) {
    return 0;
  }
  const operator_row *row = &operators[desc->op];
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (!takes(program, desc->in[i], row->in[i])) {
      return 0;
    }
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (!takes(program, desc->out[i], row->out[i])) {
      return 0;
    }
  }
  return (desc->op != TSR_OP_MATMUL && desc->op != TSR_OP_GELU && desc->op != TSR_OP_ACTIVATION_GRADIENT) ||
         desc->attributes.activation <= TSR_ACTIVATION_SILU;
}

/* A tensor of the program in memory; index 0 is an absent one. */
static ref_tensor resolve(const tsr_compile_args *args, int32_t index)
{
  ref_tensor t = {.extent = {1, 1, 1, 1}};
  if (index == 0) {
    return t;
  }
  const tsr_tensor_desc *desc = tsr_tensor_at(args->program, index);
  const tsr_storage_desc *storage = tsr_storage_at(args->program, desc->storage);
  int64_t last = desc->offset; /* the view's last element */
  t.dtype = desc->dtype;
  t.rank = desc->rank;
  for (int32_t axis = 0; axis < desc->rank; axis++) {
    t.extent[axis] = desc->extent[axis];
    t.stride[axis] = desc->extent[axis] == 1 ? 0 : desc->stride[axis];
    last += (t.extent[axis] - 1) * t.stride[axis];
  }
  if (ref_count(&t, t.rank) > 0) {
    const tsr_backend_buffer *buffer = args->buffers[storage->buffer];
    const int64_t size = ref_element_size(t.dtype);
    assert(storage->offset % REF_ALIGNMENT == 0 && (last + 1) * size <= storage->size);
    assert((uint64_t)storage->offset + (uint64_t)storage->size <= buffer->size);
    t.data = buffer->bytes + storage->offset + desc->offset * size;
  }
  return t;
}

static void *allocate(tsr_backend_device *device, int64_t count, size_t size)
{
  ref_raise(device, &device->counters.allocations);
  return calloc(count > 0 ? (size_t)count : 1, size);
}

int32_t ref_compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  const int32_t n_lines = args->program->n_lines;
  int64_t scratch = 0; /* doubles */
  tsr_backend_executable *compiled = allocate(device, 1, sizeof(*compiled));
  if (!compiled) {
    goto out_of_memory;
  }
  compiled->device = device;
  compiled->n_lines = n_lines;
  compiled->profile = args->profile;
  compiled->ops = allocate(device, n_lines, sizeof(*compiled->ops));
  compiled->lines = allocate(device, n_lines, sizeof(*compiled->lines));
  compiled->nanoseconds = allocate(device, n_lines, sizeof(*compiled->nanoseconds));
  if (!compiled->ops || !compiled->lines || !compiled->nanoseconds) {
    goto out_of_memory;
  }
  for (int32_t i = 0; i < n_lines; i++) {
    const tsr_line_desc *desc = tsr_line_at(args->program, i);
    ref_line *line = &compiled->lines[i];
    const uint32_t size = desc->attributes.struct_size;
    compiled->ops[i] = desc->op;
    memcpy(&line->attributes, &desc->attributes, size < sizeof(line->attributes) ? size : sizeof(line->attributes));
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      line->in[j] = resolve(args, desc->in[j]);
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      line->out[j] = resolve(args, desc->out[j]);
    }
    const operator_row *row = &operators[desc->op];
    const int64_t needed = row->scratch ? row->scratch(line) : 0;
    scratch = scratch > needed ? scratch : needed;
  }
  compiled->scratch = allocate(device, scratch, sizeof(*compiled->scratch));
  if (!compiled->scratch) {
    goto out_of_memory;
  }
  for (int32_t i = 0; i < n_lines; i++) {
    compiled->lines[i].scratch = compiled->scratch;
  }
  *executable = compiled;
  return TSR_OK;

out_of_memory:
  ref_executable_destroy(compiled);
  return ref_fail(device->context, TSR_ERR_OUT_OF_MEMORY, "out of memory while compiling a program of %d lines",
                  n_lines);
}

void ref_executable_destroy(tsr_backend_executable *executable)
{
  if (!executable) {
    return;
  }
  free(executable->scratch);
  free(executable->nanoseconds);
  free(executable->lines);
  free(executable->ops);
  free(executable);
}

static uint64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int32_t ref_run(tsr_backend_executable *executable)
{
  for (int32_t i = 0; i < executable->n_lines; i++) {
    const uint64_t begin = executable->profile ? now() : 0;
    operators[executable->ops[i]].run(&executable->lines[i]);
    executable->nanoseconds[i] = executable->profile ? now() - begin : 0;
  }
  ref_raise(executable->device, &executable->device->counters.runs);
  ref_raise(executable->device, &executable->device->counters.submits);
  return TSR_OK;
}

int32_t ref_wait(tsr_backend_executable *executable)
{
  (void)executable; /* run returns when it has ended */
  return TSR_OK;
}

int32_t ref_profile(tsr_backend_executable *executable, uint64_t *nanoseconds)
{
  if (!executable->profile) {
    return ref_fail(executable->device->context, TSR_ERR_UNSUPPORTED,
                    "no times were kept: compile the program with profile");
  }
  memcpy(nanoseconds, executable->nanoseconds, (size_t)executable->n_lines * sizeof(*nanoseconds));
  return TSR_OK;
}
