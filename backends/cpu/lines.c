/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a program as lines of an executable: which can be run, where their tensors lie, and which neighbours
 * become one.
 *
 * Neighbours are fused where the first writes a temporary that only the second reads: its elements then never leave
 * the cache, or the registers.
 */
#include <assert.h>
#include <string.h>

#include "backend.h"

enum { NONE = 1, F32 = 1 << TSR_F32, F16 = 1 << TSR_F16, BF16 = 1 << TSR_BF16, I8 = 1 << TSR_I8, I32 = 1 << TSR_I32 };

#define FLOATS  (F32 | F16 | BF16)
#define MORE    (F32 | I32 | NONE)
#define MASKING F32 | NONE, I32 | NONE, I32 | NONE, F32 | NONE /* additive, lengths, position, relative */

/* The types that each slot takes; NONE: it may be absent. A slot that is not named must be. */
static const struct {
  int32_t in[TSR_MAX_INPUTS];
  int32_t out[TSR_MAX_OUTPUTS];
} types[TSR_OP_COUNT] = {
    [TSR_OP_MATMUL] = {{F32, FLOATS | I8, F32 | NONE, F32 | F16 | NONE}, {F32}},
    [TSR_OP_SOFTMAX] = {{F32, F32 | NONE}, {F32}},
    [TSR_OP_LOG_SOFTMAX] = {{F32}, {F32}},
    [TSR_OP_LAYERNORM] = {{F32, F32, F32 | NONE}, {F32}},
    [TSR_OP_RMSNORM] = {{F32, F32}, {F32}},
    [TSR_OP_MASK] = {{F32, MASKING}, {F32}},
    [TSR_OP_ADD] = {{F32 | I32, F32 | I32}, {F32 | I32}},
    [TSR_OP_MUL] = {{F32 | I32, F32 | I32}, {F32 | I32}},
    [TSR_OP_RELU] = {{F32}, {F32}},
    [TSR_OP_GELU] = {{F32}, {F32}},
    [TSR_OP_SILU] = {{F32}, {F32}},
    [TSR_OP_EMBEDDING] = {{FLOATS | I8, I32, F32 | F16 | NONE}, {F32}},
    [TSR_OP_COPY] = {{FLOATS | I8 | I32}, {FLOATS | I8 | I32}},
    [TSR_OP_APPEND] = {{FLOATS | I32, I32 | NONE}, {FLOATS | I32}},
    [TSR_OP_UPDATE] = {{FLOATS | I32}, {FLOATS | I32}},
    [TSR_OP_GATHER] = {{FLOATS | I32, I32}, {FLOATS | I32}},
    [TSR_OP_TOPK] = {{F32}, {F32, I32}},
    [TSR_OP_REDUCE_SUM] = {{F32}, {F32}},
    [TSR_OP_ATTENTION] = {{F32, FLOATS, FLOATS, MASKING, I32 | NONE, I32 | NONE}, {F32, F32 | NONE, F32 | NONE}},
    [TSR_OP_ATTENTION_GRADIENT] = {{F32, F32, F32, MASKING, NONE, I32 | NONE, F32, F32, F32},
                                   {F32, F32, F32, F32 | NONE}},
    [TSR_OP_DROPOUT] = {{F32, I32}, {F32}},
    [TSR_OP_CROSS_ENTROPY] = {{F32, I32}, {F32, F32}},
    [TSR_OP_CROSS_ENTROPY_GRADIENT] = {{F32, I32, F32, F32}, {F32}},
    [TSR_OP_SOFTMAX_GRADIENT] = {{F32, F32}, {F32}},
    [TSR_OP_LOG_SOFTMAX_GRADIENT] = {{F32, F32}, {F32}},
    [TSR_OP_LAYERNORM_GRADIENT] = {{F32, F32, F32}, {F32, F32, F32 | NONE}},
    [TSR_OP_RMSNORM_GRADIENT] = {{F32, F32, F32}, {F32, F32}},
    [TSR_OP_ACTIVATION_GRADIENT] = {{F32, F32}, {F32}},
    [TSR_OP_MASK_GRADIENT] = {{F32, F32}, {F32}},
    [TSR_OP_RELATIVE_GRADIENT] = {{F32, I32 | NONE}, {F32}},
    [TSR_OP_SCATTER_ADD] = {{F32, I32}, {F32}},
    [TSR_OP_CONCAT] = {{F32 | I32, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE}, {F32 | I32}},
    [TSR_OP_SUM_OF_SQUARES] = {{F32, F32 | NONE}, {F32}},
    [TSR_OP_ADAM] = {{F32, F32, F32 | NONE}, {F32, F32, F32, F32 | NONE}},
    [TSR_OP_CONV1D] = {{F32, FLOATS, F32 | NONE}, {F32}},
    [TSR_OP_ROTATE] = {{F32, F32}, {F32}},
};

static int takes(const tsr_program_desc *program, int32_t tensor, int32_t wanted)
{
  const int32_t dtype = tensor == 0 ? 0 : tsr_tensor_at(program, tensor)->dtype;
  return dtype >= 0 && dtype <= TSR_I32 && ((wanted ? wanted : NONE) >> dtype & 1);
}

int32_t cpu_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  const tsr_line_desc *desc = tsr_line_at(program, line);
  if (desc->op < 1 || desc->op >= TSR_OP_COUNT || !device->level->operators[desc->op].run) {
    return 0;
  }
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (!takes(program, desc->in[i], types[desc->op].in[i])) {
      return 0;
    }
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (!takes(program, desc->out[i], types[desc->op].out[i])) {
      return 0;
    }
  }
  const int activates = desc->op == TSR_OP_MATMUL || desc->op == TSR_OP_GELU || desc->op == TSR_OP_ACTIVATION_GRADIENT;
  return !activates || desc->attributes.activation <= TSR_ACTIVATION_SILU;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* A tensor of the program in memory; index 0 is an absent one. */
static cpu_tensor resolve(const tsr_compile_args *args, int32_t index)
{
  cpu_tensor t = {.extent = {1, 1, 1, 1}};
  if (index == 0) {
    return t;
  }
  const tsr_tensor_desc *desc = tsr_tensor_at(args->program, index);
  const tsr_storage_desc *storage = tsr_storage_at(args->program, desc->storage);
  int64_t last = desc->offset; /* the view's last element */
  t.dtype = desc->dtype;
  t.rank = desc->rank;
  t.constant = storage->kind == TSR_STORAGE_CONSTANT;
  for (int32_t axis = 0; axis < desc->rank; axis++) {
    t.extent[axis] = desc->extent[axis];
    t.stride[axis] = desc->extent[axis] == 1 ? 0 : desc->stride[axis];
    last += (t.extent[axis] - 1) * t.stride[axis];
  }
  if (cpu_count(&t, t.rank) > 0) {
    tsr_backend_buffer *buffer = args->buffers[storage->buffer];
    const int64_t size = cpu_element_size(t.dtype);
    assert(storage->offset % CPU_ALIGNMENT == 0 && (last + 1) * size <= storage->size);
    assert((uint64_t)storage->offset + (uint64_t)storage->size <= buffer->size);
    t.data = buffer->bytes + storage->offset + desc->offset * size;
    if (t.constant) {
      buffer->constants = 1;
    }
  }
  return t;
}

static void resolve_line(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  const tsr_line_desc *desc = tsr_line_at(args->program, index);
  const uint32_t size = desc->attributes.struct_size;
  line->op = desc->op;
  line->index = index;
  memcpy(&line->attributes, &desc->attributes, size < sizeof(line->attributes) ? size : sizeof(line->attributes));
  for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
    line->in[j] = resolve(args, desc->in[j]);
  }
  for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
    line->out[j] = resolve(args, desc->out[j]);
  }
}

/* ---- neighbours ------------------------------------------------------------------------------------------------ */

/* How many operands and results lie in a storage. */
static int32_t count_uses(const tsr_program_desc *program, int32_t storage)
{
  int32_t uses = 0;
  for (int32_t i = 0; i < program->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      uses += line->in[j] != 0 && tsr_tensor_at(program, line->in[j])->storage == storage;
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      uses += line->out[j] != 0 && tsr_tensor_at(program, line->out[j])->storage == storage;
    }
  }
  return uses;
}

/* 1 if line `index` exists, is that operator, and reads as operand `slot` the whole first result of the line before it,
 * in the same rows. */
static int follows(const tsr_program_desc *program, int32_t index, int32_t op, int32_t slot)
{
  if (index >= program->n_lines || tsr_line_at(program, index)->op != op) {
    return 0;
  }
  const int32_t from = tsr_line_at(program, index - 1)->out[0], to = tsr_line_at(program, index)->in[slot];
  const tsr_tensor_desc *a = tsr_tensor_at(program, from), *b = tsr_tensor_at(program, to);
  return from == to ||
         (a->storage == b->storage && a->offset == b->offset && a->rank == b->rank &&
          memcmp(a->extent, b->extent, sizeof a->extent) == 0 && memcmp(a->stride, b->stride, sizeof a->stride) == 0);
}

/* 1 if the first result of line `index` is read by the next line and by nothing else. */
static int is_passed_on(const tsr_program_desc *program, int32_t index)
{
  const int32_t storage = tsr_tensor_at(program, tsr_line_at(program, index)->out[0])->storage;
  return tsr_storage_at(program, storage)->kind == TSR_STORAGE_TEMPORARY && count_uses(program, storage) == 2;
}

static int64_t bytes_of(const cpu_tensor *t)
{
  int64_t last = 0;
  for (int32_t axis = 0; axis < t->rank; axis++) {
    last += (t->extent[axis] - 1) * t->stride[axis];
  }
  return cpu_count(t, t->rank) > 0 ? (last + 1) * cpu_element_size(t->dtype) : 0;
}

/* 1 if x and y share no byte, or if one of them is absent. */
static int keep_apart(const cpu_tensor *x, const cpu_tensor *y)
{
  const uintptr_t a = (uintptr_t)x->data, b = (uintptr_t)y->data;
  return !cpu_present(x) || !cpu_present(y) || a + (uintptr_t)bytes_of(x) <= b || b + (uintptr_t)bytes_of(y) <= a;
}

/* 1 if y may be written row by row while x is read row by row: they lie apart, or are the same rows. */
static int rows_keep_apart(const cpu_tensor *x, const cpu_tensor *y)
{
  const int same = x->data == y->data && x->rank == y->rank && memcmp(x->extent, y->extent, sizeof x->extent) == 0 &&
                   memcmp(x->stride, y->stride, sizeof x->stride) == 0;
  return same || keep_apart(x, y);
}

/* 1 if an operand of line `index` other than the first lies where the first result of the line before it does. */
static int reads_elsewhere(const tsr_program_desc *program, int32_t index)
{
  const int32_t storage = tsr_tensor_at(program, tsr_line_at(program, index - 1)->out[0])->storage;
  int32_t uses = 0;
  for (int32_t j = 1; j < TSR_MAX_INPUTS; j++) {
    const int32_t tensor = tsr_line_at(program, index)->in[j];
    uses += tensor != 0 && tsr_tensor_at(program, tensor)->storage == storage;
  }
  return uses > 0;
}

/* layernorm(a + b); the sum too where it is needed later. 0: not fused. */
static int32_t fuse_add_layernorm(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  const tsr_program_desc *program = args->program;
  if (line->op != TSR_OP_ADD || line->out[0].dtype != TSR_F32 || !follows(program, index + 1, TSR_OP_LAYERNORM, 0) ||
      reads_elsewhere(program, index + 1)) {
    return 0;
  }
  cpu_line norm = {0};
  resolve_line(args, index + 1, &norm);
  if (!rows_keep_apart(&line->in[0], &norm.out[0]) || !rows_keep_apart(&line->in[1], &norm.out[0])) {
    return 0;
  }
  norm.op = CPU_OP_ADD_LAYERNORM;
  norm.in[3] = norm.in[2];
  norm.in[2] = norm.in[1];
  norm.in[0] = line->in[0];
  norm.in[1] = line->in[1];
  norm.out[1] = is_passed_on(program, index) ? (cpu_tensor){0} : line->out[0];
  *line = norm;
  return 2;
}

/* A line takes over the dropout of another: its seed, and what its attributes say. */
static void take_dropout(cpu_line *line, int32_t slot, const cpu_line *dropout)
{
  line->in[slot] = dropout->in[1];
  line->attributes.rate = dropout->attributes.rate;
  line->attributes.stream = dropout->attributes.stream;
}

/* A dropout and what reads its result alone. */

static int32_t fuse_dropout_add_layernorm(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  const tsr_program_desc *program = args->program;
  const int32_t slot = follows(program, index + 1, TSR_OP_ADD, 1);
  cpu_line norm = {0};
  if (!slot && !follows(program, index + 1, TSR_OP_ADD, 0)) {
    return 0;
  }
  resolve_line(args, index + 1, &norm);
  if (fuse_add_layernorm(args, index + 1, &norm) == 0) {
    return 0;
  }
  norm.in[0] = norm.in[1 - slot];
  norm.in[1] = line->in[0];
  take_dropout(&norm, 4, line);
  for (int32_t i = 0; i < 2; i++) {
    if (!rows_keep_apart(&norm.in[1], &norm.out[i]) || !keep_apart(&norm.in[4], &norm.out[i])) {
      return 0;
    }
  }
  *line = norm;
  return 3;
}

static int32_t fuse_dropout_slope(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  cpu_line slope = {0};
  if (!follows(args->program, index + 1, TSR_OP_ACTIVATION_GRADIENT, 1)) {
    return 0;
  }
  resolve_line(args, index + 1, &slope);
  slope.in[1] = line->in[0];
  take_dropout(&slope, CPU_IN_SLOPE_SEED, line);
  if (!rows_keep_apart(&slope.in[1], &slope.out[0]) || !keep_apart(&slope.in[CPU_IN_SLOPE_SEED], &slope.out[0])) {
    return 0;
  }
  *line = slope;
  return 2;
}

/* An activation and the dropout of its result. */
static int32_t fuse_activation_dropout(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  cpu_line dropout = {0};
  if (!follows(args->program, index + 1, TSR_OP_DROPOUT, 0) || !is_passed_on(args->program, index)) {
    return 0;
  }
  resolve_line(args, index + 1, &dropout);
  if (!rows_keep_apart(&line->in[0], &dropout.out[0])) {
    return 0;
  }
  take_dropout(line, CPU_IN_ACTIVATION_SEED, &dropout);
  line->out[0] = dropout.out[0];
  line->index = dropout.index;
  return 2;
}

/* The gradient of a norm, with the sum before it that makes its dy (line `index` is that sum if `sums` is 1) and the
 * dropout of its dx after it. dgain and dbias are written in the end, when all rows are done. */
static int32_t fuse_norm_gradient(const tsr_compile_args *args, int32_t index, int32_t sums, cpu_line *line)
{
  cpu_line norm = *line, dropout = {0};
  int32_t lines = 1;
  if (sums) {
    norm = (cpu_line){0};
    resolve_line(args, index + 1, &norm);
    norm.in[2] = line->in[0];
    norm.in[CPU_IN_NORM_MORE] = line->in[1];
    lines = 2;
    if (!rows_keep_apart(&norm.in[2], &norm.out[0]) || !rows_keep_apart(&norm.in[CPU_IN_NORM_MORE], &norm.out[0])) {
      return 0;
    }
  }
  *line = norm;
  if (!follows(args->program, index + lines, TSR_OP_DROPOUT, 0)) {
    return lines;
  }
  resolve_line(args, index + lines, &dropout);
  const cpu_tensor *dropped = &dropout.out[0];
  if (!rows_keep_apart(&norm.in[0], dropped) || !rows_keep_apart(&norm.in[2], dropped) ||
      (sums && !rows_keep_apart(&norm.in[CPU_IN_NORM_MORE], dropped)) || !keep_apart(&norm.in[1], dropped) ||
      !keep_apart(&norm.out[1], dropped) || !keep_apart(&norm.out[2], dropped)) {
    return lines;
  }
  take_dropout(line, CPU_IN_NORM_SEED, &dropout);
  line->out[CPU_OUT_NORM_DROPPED] = *dropped;
  line->index = dropout.index;
  return lines + 1;
}

/* What training repeats: 0: not fused. */
static int32_t fuse_training(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  const tsr_program_desc *program = args->program;
  switch (line->op) {
  case TSR_OP_DROPOUT: {
    if (!is_passed_on(program, index)) {
      return 0;
    }
    const int32_t lines = fuse_dropout_add_layernorm(args, index, line);
    return lines > 0 ? lines : fuse_dropout_slope(args, index, line);
  }
  case TSR_OP_RELU:
  case TSR_OP_GELU:
  case TSR_OP_SILU:
    return fuse_activation_dropout(args, index, line);
  case TSR_OP_ADD:
    return line->out[0].dtype == TSR_F32 && is_passed_on(program, index) &&
                   (follows(program, index + 1, TSR_OP_LAYERNORM_GRADIENT, 2) ||
                    follows(program, index + 1, TSR_OP_RMSNORM_GRADIENT, 2))
               ? fuse_norm_gradient(args, index, 1, line)
               : 0;
  case TSR_OP_LAYERNORM_GRADIENT:
  case TSR_OP_RMSNORM_GRADIENT:
    return fuse_norm_gradient(args, index, 0, line);
  default:
    return 0;
  }
}

/* The k largest of a product's columns, or of their log-probabilities: the product's rows are never written. */
static int32_t fuse_matmul_topk(const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  const tsr_program_desc *program = args->program;
  if (line->op != TSR_OP_MATMUL || line->out[0].rank != 2) {
    return 0;
  }
  const int32_t logs = follows(program, index + 1, TSR_OP_LOG_SOFTMAX, 0) && is_passed_on(program, index);
  const int32_t last = index + 1 + logs;
  if (!follows(program, last, TSR_OP_TOPK, 0) || !is_passed_on(program, last - 1) ||
      tsr_line_at(program, last)->attributes.k > CPU_TOPK_FUSED) {
    return 0;
  }
  cpu_line top = {0};
  resolve_line(args, last, &top);
  line->op = logs ? CPU_OP_MATMUL_LOG_TOPK : CPU_OP_MATMUL_TOPK;
  line->index = last;
  line->out[0] = top.out[0];
  line->out[1] = top.out[1];
  line->attributes.k = top.attributes.k;
  return last - index + 1;
}

int32_t cpu_resolve_lines(const cpu_operator *operators, const tsr_compile_args *args, int32_t index, cpu_line *line)
{
  int32_t lines = 0;
  resolve_line(args, index, line);
  if (operators[CPU_OP_ADD_LAYERNORM].run) {
    lines = fuse_add_layernorm(args, index, line);
  }
  if (lines == 0) {
    lines = fuse_training(args, index, line);
  }
  if (lines == 0 && operators[CPU_OP_MATMUL_TOPK].run) {
    lines = fuse_matmul_topk(args, index, line);
  }
  return lines > 0 ? lines : 1;
}
