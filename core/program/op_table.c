/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operators: the single list. What a row means in full stands in tessera/ops.h.
 */
#include <string.h>

#include "core/program/program.h"

#define F32    (1u << TSR_F32)
#define I32    (1u << TSR_I32)
#define FLOATS (1u << TSR_F32 | 1u << TSR_F16 | 1u << TSR_BF16)
#define I8     (1u << TSR_I8)
#define ANY    (FLOATS | I8 | I32)

/* clang-format off */
static const tsr_op_row table[TSR_OP_COUNT] = {
    [TSR_OP_MATMUL] = {
        {.name = "matmul", .tolerance = TSR_CLASS_PRODUCT, .formula = "y = activation(alpha a @ b + bias)",
         .in = {{"a", F32, 0}, {"b", FLOATS | I8, 0}, {"bias", F32, 1}, {"scales", F32, 1, .since = 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_matmul, tsr_flops_matmul, NULL},
    [TSR_OP_SOFTMAX] = {
        {.name = "softmax", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = exp(z - max z) / sum exp(z - max z), z = x + mask",
         .in = {{"x", F32, 0}, {"mask", F32, 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_softmax, tsr_flops_per_input, NULL},
    [TSR_OP_LOG_SOFTMAX] = {
        {.name = "log_softmax", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = x - max x - ln sum exp(x - max x)",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_softmax, tsr_flops_per_input, NULL},
    [TSR_OP_LAYERNORM] = {
        {.name = "layernorm", .tolerance = TSR_CLASS_NORM, .formula = "y = gain (x - mean) / sqrt(variance + epsilon) + bias",
         .in = {{"x", F32, 0}, {"gain", F32, 0}, {"bias", F32, 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_norm, tsr_flops_per_input, NULL},
    [TSR_OP_RMSNORM] = {
        {.name = "rmsnorm", .tolerance = TSR_CLASS_NORM, .formula = "y = gain x / sqrt(mean(x^2) + epsilon)",
         .in = {{"x", F32, 0}, {"gain", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_norm, tsr_flops_per_input, NULL},
    [TSR_OP_MASK] = {
        {.name = "mask", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = x + additive + relative bias, -inf where a key is excluded",
         .in = {{"x", F32, 0}, {"additive", F32, 1}, {"lengths", I32, 1}, {"position", I32, 1}, {"relative", F32, 1}},
         .out = {{"y", F32, 0}}},
        tsr_rule_mask, tsr_flops_per_input, NULL},
    [TSR_OP_ADD] = {
        {.name = "add", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = a + b",
         .in = {{"a", F32 | I32, 0}, {"b", F32 | I32, 0}}, .out = {{"y", F32 | I32, 0}}},
        tsr_rule_binary, tsr_flops_per_input, NULL},
    [TSR_OP_MUL] = {
        {.name = "mul", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = a b",
         .in = {{"a", F32 | I32, 0}, {"b", F32 | I32, 0}}, .out = {{"y", F32 | I32, 0}}},
        tsr_rule_binary, tsr_flops_per_input, NULL},
    [TSR_OP_RELU] = {
        {.name = "relu", .tolerance = TSR_CLASS_EXACT, .formula = "y = max(x, 0)",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, NULL},
    [TSR_OP_GELU] = {
        {.name = "gelu", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = x Phi(x), by erf or by tanh",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, NULL},
    [TSR_OP_SILU] = {
        {.name = "silu", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y = x / (1 + exp(-x))",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, NULL},
    [TSR_OP_EMBEDDING] = {
        {.name = "embedding", .tolerance = TSR_CLASS_ELEMENTWISE, .formula = "y[.., :] = alpha table[ids[..], :]",
         .in = {{"table", FLOATS | I8, 0}, {"ids", I32, 0}, {"scales", F32, 1, .since = 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_embedding, tsr_flops_none, NULL},
    [TSR_OP_COPY] = {
        {.name = "copy", .tolerance = TSR_CLASS_EXACT, .formula = "y = x, contiguous, as another type",
         .in = {{"x", ANY, 0}}, .out = {{"y", ANY, 0}}},
        tsr_rule_copy, tsr_flops_none, NULL},
    [TSR_OP_APPEND] = {
        {.name = "append", .tolerance = TSR_CLASS_EXACT, .formula = "state[b, position[b] + l, ..] = x[b, l, ..]",
         .in = {{"x", F32 | I32, 0}, {"position", I32, 1}}, .out = {{"state", F32 | I32, 0}}},
        tsr_rule_append, tsr_flops_none, NULL},
    [TSR_OP_UPDATE] = {
        {.name = "update", .tolerance = TSR_CLASS_EXACT, .formula = "state = x",
         .in = {{"x", F32 | I32, 0}}, .out = {{"state", F32 | I32, 0}}},
        tsr_rule_update, tsr_flops_none, NULL},
    [TSR_OP_GATHER] = {
        {.name = "gather", .tolerance = TSR_CLASS_EXACT, .formula = "y[.., m, ..] = x[.., index[m], ..]",
         .in = {{"x", FLOATS | I32, 0}, {"index", I32, 0}}, .out = {{"y", FLOATS | I32, 0}}},
        tsr_rule_gather, tsr_flops_none, NULL},
    [TSR_OP_TOPK] = {
        {.name = "topk", .tolerance = TSR_CLASS_EXACT, .formula = "the k largest along the last axis, and where they stand",
         .in = {{"x", F32, 0}}, .out = {{"values", F32, 0}, {"indices", I32, 0}}},
        tsr_rule_topk, tsr_flops_none, NULL},
    [TSR_OP_REDUCE_SUM] = {
        {.name = "reduce_sum", .tolerance = TSR_CLASS_PRODUCT, .formula = "y = sum of x over some axes",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_reduce_sum, tsr_flops_per_input, NULL},
    [TSR_OP_ATTENTION] = {
        {.name = "attention", .tolerance = TSR_CLASS_PRODUCT, .formula = "y = softmax(mask(alpha q k^T)) v, per head",
         .in = {{"q", F32, 0}, {"k", F32, 0}, {"v", F32, 0}, {"additive", F32, 1}, {"lengths", I32, 1},
                {"position", I32, 1}, {"relative", F32, 1}, {"rows", I32, 1}},
         .out = {{"y", F32, 0}, {"weights", F32, 1}}},
        tsr_rule_attention, tsr_flops_attention, NULL},
};
/* clang-format on */

const tsr_op_row *tsr_op_row_of(int32_t op)
{
  return op >= 1 && op < TSR_OP_COUNT ? &table[op] : NULL;
}

const tsr_op_info *tsr_op_describe(int32_t op)
{
  const tsr_op_row *row = tsr_op_row_of(op);
  return row ? &row->info : NULL;
}

int tsr_op_differentiable(int32_t op)
{
  const tsr_op_row *row = tsr_op_row_of(op);
  return row && row->gradient;
}

int32_t tsr_op_find(const char *name)
{
  for (int32_t op = 1; op < TSR_OP_COUNT; op++)
    if (strcmp(table[op].info.name, name) == 0)
      return op;
  return 0;
}

static double elements(const tsr_program_desc *program, int32_t tensor)
{
  const tsr_tensor_desc *t = tsr_tensor_at(program, tensor);
  double product = 1;
  for (int32_t i = 0; i < t->rank; i++)
    product *= (double)t->extent[i];
  return product;
}

double tsr_flops_none(const tsr_program_desc *program, const tsr_line_desc *line)
{
  (void)program;
  (void)line;
  return 0;
}

/* How many operations an element costs; exponentials and the like count as one. */
static double cost_per_element(int32_t op)
{
  switch (op) {
  case TSR_OP_SOFTMAX:
  case TSR_OP_LOG_SOFTMAX:
    return 5; /* maximum, subtraction, exponential, sum, division */
  case TSR_OP_LAYERNORM:
    return 8; /* mean 1, variance 3, normalise 2, gain and bias 2 */
  case TSR_OP_RMSNORM:
    return 4;
  case TSR_OP_GELU:
  case TSR_OP_SILU:
    return 4;
  default:
    return 1;
  }
}

double tsr_flops_per_input(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return elements(program, line->in[0]) * cost_per_element(line->op);
}

double tsr_flops_matmul(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const tsr_tensor_desc *a = tsr_tensor_at(program, line->in[0]);
  return 2.0 * elements(program, line->out[0]) * (double)a->extent[a->rank - 1];
}

double tsr_flops_attention(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const tsr_tensor_desc *q = tsr_tensor_at(program, line->in[0]), *k = tsr_tensor_at(program, line->in[1]);
  const tsr_tensor_desc *v = tsr_tensor_at(program, line->in[2]);
  double scores = (double)q->extent[0] * (double)q->extent[1] * (double)q->extent[2] * (double)k->extent[1];
  return scores * (2.0 * (double)q->extent[3] + 2.0 * (double)v->extent[3] + 5.0);
}

double tsr_line_flops(const tsr_program_desc *program, int32_t line)
{
  const tsr_line_desc *at = tsr_line_at(program, line);
  return tsr_op_row_of(at->op)->flops(program, at);
}

/* Bytes of a tensor's elements, those that strides of 0 repeat counted once. */
static double tensor_bytes(const tsr_program_desc *program, int32_t tensor)
{
  const tsr_tensor_desc *t = tsr_tensor_at(program, tensor);
  double product = (double)tsr_dtype_size(t->dtype);
  for (int32_t i = 0; i < t->rank; i++)
    product *= t->stride[i] == 0 && t->extent[i] > 0 ? 1.0 : (double)t->extent[i];
  return product;
}

double tsr_line_bytes(const tsr_program_desc *program, int32_t line)
{
  const tsr_line_desc *at = tsr_line_at(program, line);
  double sum = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    /* Of a table only the rows that are asked for are read: as many elements as the result has. Of its scales one for
     * each. */
    int rows_only = i == 0 && (at->op == TSR_OP_EMBEDDING || at->op == TSR_OP_GATHER);
    int scales_of_rows = i == 2 && at->op == TSR_OP_EMBEDDING;
    if (at->in[i] && (rows_only || scales_of_rows))
      sum += elements(program, rows_only ? at->out[0] : at->in[1]) *
             (double)tsr_dtype_size(tsr_tensor_at(program, at->in[i])->dtype);
    else if (at->in[i])
      sum += tensor_bytes(program, at->in[i]);
  }
  int writes_part = at->op == TSR_OP_APPEND;
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++)
    if (at->out[i])
      sum += tensor_bytes(program, writes_part ? at->in[0] : at->out[i]);
  return sum;
}
