/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operators: the single list. What a row means in full stands in tessera/ops.h.
 */
#include <string.h>

#include "core/program/program.h"

#define F32    (1u << TSR_F32)
#define F16    (1u << TSR_F16)
#define I32    (1u << TSR_I32)
#define FLOATS (1u << TSR_F32 | 1u << TSR_F16 | 1u << TSR_BF16)
#define I8     (1u << TSR_I8)
#define ANY    (FLOATS | I8 | I32)
#define HALVES (1u << TSR_F16 | 1u << TSR_BF16)

#define LATE_OPERAND(number, types, minor)                                                                             \
  {                                                                                                                    \
    .slot = (number), .dtypes = (types), .since = (minor)                                                              \
  }
#define LATE_RESULT(number, types, minor)                                                                              \
  {                                                                                                                    \
    .is_result = 1, .slot = (number), .dtypes = (types), .since = (minor)                                              \
  }

/* The columns `attributes`, as they are written below. */
enum {
  ALPHA = TSR_READS_ALPHA,
  EPSILON = TSR_READS_EPSILON,
  UNBIASED = TSR_READS_UNBIASED,
  ACTIVATION = TSR_READS_ACTIVATION,
  REDUCED_PRECISION = TSR_READS_REDUCED_PRECISION,
  CAUSAL = TSR_READS_CAUSAL,
  RELATIVE = TSR_READS_RELATIVE,
  DROPOUT = TSR_READS_DROPOUT,
  SMOOTHING = TSR_READS_SMOOTHING,
  ADAM = TSR_READS_ADAM,
  AXIS = TSR_READS_AXIS,
  AXES = TSR_READS_AXES,
  K = TSR_READS_K,
  BUCKETS = TSR_READS_BUCKETS,
  EXTENT = TSR_READS_EXTENT,
  PADDING = TSR_READS_PADDING,
  DTYPE = TSR_READS_DTYPE,
  STRIDE = TSR_READS_STRIDE,
  SOFTCAP = TSR_READS_SOFTCAP
};

/* clang-format off */
static const tsr_op_row table[TSR_OP_COUNT] = {
    [TSR_OP_MATMUL] = {
        {.name = "matmul", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y = activation(alpha a @ b + bias)",
         .in = {{"a", F32, 0}, {"b", FLOATS | I8, 0}, {"bias", F32, 1},
                {"scales", F32 | F16, 1, .since = 1}},
         .out = {{"y", F32, 0}}},
        tsr_rule_matmul, tsr_flops_matmul, tsr_gradient_matmul,
        .attributes = ALPHA | ACTIVATION | REDUCED_PRECISION, .late = {LATE_OPERAND(3, F16, 7)}},
    [TSR_OP_SOFTMAX] = {
        {.name = "softmax", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = exp(z - max z) / sum exp(z - max z), z = x + mask",
         .in = {{"x", F32, 0}, {"mask", F32, 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_softmax, tsr_flops_per_input, tsr_gradient_softmax,
        .cost = 5},
    [TSR_OP_LOG_SOFTMAX] = {
        {.name = "log_softmax", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = x - max x - ln sum exp(x - max x)",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_softmax, tsr_flops_per_input, tsr_gradient_softmax,
        .cost = 5},
    [TSR_OP_LAYERNORM] = {
        {.name = "layernorm", .tolerance = TSR_CLASS_NORM,
         .formula = "y = gain (x - mean) / sqrt(variance + epsilon) + bias",
         .in = {{"x", F32, 0}, {"gain", F32, 0}, {"bias", F32, 1}}, .out = {{"y", F32, 0}}},
        tsr_rule_norm, tsr_flops_per_input, tsr_gradient_norm,
        .attributes = EPSILON | UNBIASED, .cost = 8},
    [TSR_OP_RMSNORM] = {
        {.name = "rmsnorm", .tolerance = TSR_CLASS_NORM,
         .formula = "y = gain x / sqrt(mean(x^2) + epsilon)",
         .in = {{"x", F32, 0}, {"gain", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_norm, tsr_flops_per_input, tsr_gradient_norm,
        .attributes = EPSILON, .cost = 4},
    [TSR_OP_MASK] = {
        {.name = "mask", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = x + additive + relative bias, -inf where a key is excluded",
         .in = {{"x", F32, 0}, {"additive", F32, 1}, {"lengths", I32, 1}, {"position", I32, 1}, {"relative", F32, 1}},
         .out = {{"y", F32, 0}}},
        tsr_rule_mask, tsr_flops_per_input, tsr_gradient_mask,
        .attributes = CAUSAL | RELATIVE, .cost = 1},
    [TSR_OP_ADD] = {
        {.name = "add", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = a + b",
         .in = {{"a", F32 | I32, 0}, {"b", F32 | I32, 0}}, .out = {{"y", F32 | I32, 0}}},
        tsr_rule_binary, tsr_flops_per_input, tsr_gradient_add,
        .cost = 1},
    [TSR_OP_MUL] = {
        {.name = "mul", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = a b",
         .in = {{"a", F32 | I32, 0}, {"b", F32 | I32, 0}}, .out = {{"y", F32 | I32, 0}}},
        tsr_rule_binary, tsr_flops_per_input, tsr_gradient_mul,
        .cost = 1},
    [TSR_OP_RELU] = {
        {.name = "relu", .tolerance = TSR_CLASS_EXACT,
         .formula = "y = max(x, 0)",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, tsr_gradient_activation,
        .cost = 1},
    [TSR_OP_GELU] = {
        {.name = "gelu", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = x Phi(x), by erf or by tanh",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, tsr_gradient_activation,
        .attributes = ACTIVATION, .cost = 4},
    [TSR_OP_SILU] = {
        {.name = "silu", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = x / (1 + exp(-x))",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_unary, tsr_flops_per_input, tsr_gradient_activation,
        .cost = 4},
    [TSR_OP_EMBEDDING] = {
        {.name = "embedding", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y[.., :] = alpha table[ids[..], :]",
         .in = {{"table", FLOATS | I8, 0}, {"ids", I32, 0}, {"scales", F32 | F16, 1, .since = 1}},
         .out = {{"y", F32, 0}}},
        tsr_rule_embedding, tsr_flops_none, tsr_gradient_embedding,
        .attributes = ALPHA | PADDING, .bytes = tsr_bytes_embedding, .late = {LATE_OPERAND(2, F16, 7)}},
    [TSR_OP_COPY] = {
        {.name = "copy", .tolerance = TSR_CLASS_EXACT,
         .formula = "y = x, contiguous, as another type",
         .in = {{"x", ANY, 0}}, .out = {{"y", ANY, 0}}},
        tsr_rule_copy, tsr_flops_none, tsr_gradient_copy,
        .attributes = DTYPE},
    [TSR_OP_APPEND] = {
        {.name = "append", .tolerance = TSR_CLASS_EXACT,
         .formula = "state[b, position[b] + l, ..] = x[b, l, ..]",
         .in = {{"x", FLOATS | I32, 0}, {"position", I32, 1}}, .out = {{"state", FLOATS | I32, 0}}},
        tsr_rule_append, tsr_flops_none, NULL,
        .bytes = tsr_bytes_append, .writes_states = 1, .late = {LATE_RESULT(0, HALVES, 4)}},
    [TSR_OP_UPDATE] = {
        {.name = "update", .tolerance = TSR_CLASS_EXACT,
         .formula = "state = x",
         .in = {{"x", FLOATS | I32, 0}}, .out = {{"state", FLOATS | I32, 0}}},
        tsr_rule_update, tsr_flops_none, NULL,
        .writes_states = 1, .late = {LATE_RESULT(0, HALVES, 4)}},
    [TSR_OP_GATHER] = {
        {.name = "gather", .tolerance = TSR_CLASS_EXACT,
         .formula = "y[.., m, ..] = x[.., index[m], ..]",
         .in = {{"x", FLOATS | I32, 0}, {"index", I32, 0}}, .out = {{"y", FLOATS | I32, 0}}},
        tsr_rule_gather, tsr_flops_none, tsr_gradient_gather,
        .attributes = AXIS, .bytes = tsr_bytes_gather},
    [TSR_OP_TOPK] = {
        {.name = "topk", .tolerance = TSR_CLASS_EXACT,
         .formula = "the k largest along the last axis, and where they stand",
         .in = {{"x", F32, 0}}, .out = {{"values", F32, 0}, {"indices", I32, 0}}},
        tsr_rule_topk, tsr_flops_none, NULL,
        .attributes = K},
    [TSR_OP_REDUCE_SUM] = {
        {.name = "reduce_sum", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y = sum of x over some axes",
         .in = {{"x", F32, 0}}, .out = {{"y", F32, 0}}},
        tsr_rule_reduce_sum, tsr_flops_per_input, tsr_gradient_reduce_sum,
        .attributes = AXES, .cost = 1},
    [TSR_OP_ATTENTION] = {
        {.name = "attention", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y = softmax(mask(cap(alpha q k^T))) v, per head",
         .in = {{"q", F32, 0}, {"k", FLOATS, 0}, {"v", FLOATS, 0}, {"additive", F32, 1}, {"lengths", I32, 1},
                {"position", I32, 1}, {"relative", F32, 1}, {"rows", I32, 1}, {"seed", I32, 1, .since = 2}},
         .out = {{"y", F32, 0}, {"weights", F32, 1}, {"lse", F32, 1, .since = 2}}},
        tsr_rule_attention, tsr_flops_attention, tsr_gradient_attention,
        .attributes = ALPHA | CAUSAL | RELATIVE | DROPOUT | REDUCED_PRECISION | SOFTCAP,
        .late = {LATE_OPERAND(1, HALVES, 4), LATE_OPERAND(2, HALVES, 4)}},
    [TSR_OP_DROPOUT] = {
        {.name = "dropout", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "y = keep ? scale x : 0, keep by Philox 4x32-10",
         .in = {{"x", F32, 0, 2}, {"seed", I32, 0, 2}}, .out = {{"y", F32, 0, 2}}},
        tsr_rule_dropout, tsr_flops_per_input, tsr_gradient_dropout,
        .attributes = DROPOUT, .cost = 10},
    [TSR_OP_CROSS_ENTROPY] = {
        {.name = "cross_entropy", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "loss = -sum target log_softmax(logits)",
         .in = {{"logits", F32, 0, 2}, {"labels", I32, 0, 2}}, .out = {{"loss", F32, 0, 2}, {"lse", F32, 0, 2}}},
        tsr_rule_cross_entropy, tsr_flops_per_input, tsr_gradient_cross_entropy,
        .attributes = SMOOTHING, .cost = 5},
    [TSR_OP_CROSS_ENTROPY_GRADIENT] = {
        {.name = "cross_entropy_gradient", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "dlogits = dloss (exp(logits - lse) - target)",
         .in = {{"logits", F32, 0, 2}, {"labels", I32, 0, 2}, {"lse", F32, 0, 2}, {"dloss", F32, 0, 2}},
         .out = {{"dlogits", F32, 0, 2}}},
        tsr_rule_cross_entropy, tsr_flops_per_input, NULL,
        .attributes = SMOOTHING, .cost = 5},
    [TSR_OP_SOFTMAX_GRADIENT] = {
        {.name = "softmax_gradient", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "dx = y (dy - sum y dy)",
         .in = {{"y", F32, 0, 2}, {"dy", F32, 0, 2}}, .out = {{"dx", F32, 0, 2}}},
        tsr_rule_unary_gradient, tsr_flops_per_input, NULL,
        .cost = 4},
    [TSR_OP_LOG_SOFTMAX_GRADIENT] = {
        {.name = "log_softmax_gradient", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "dx = dy - exp(y) sum dy",
         .in = {{"y", F32, 0, 2}, {"dy", F32, 0, 2}}, .out = {{"dx", F32, 0, 2}}},
        tsr_rule_unary_gradient, tsr_flops_per_input, NULL,
        .cost = 4},
    [TSR_OP_LAYERNORM_GRADIENT] = {
        {.name = "layernorm_gradient", .tolerance = TSR_CLASS_NORM,
         .formula = "dx = r (h - mean h - n mean(h n)), dgain = sum dy n, dbias = sum dy",
         .in = {{"x", F32, 0, 2}, {"gain", F32, 0, 2}, {"dy", F32, 0, 2}},
         .out = {{"dx", F32, 0, 2}, {"dgain", F32, 0, 2}, {"dbias", F32, 1, 2}}},
        tsr_rule_norm_gradient, tsr_flops_per_input, NULL,
        .attributes = EPSILON | UNBIASED, .cost = 14},
    [TSR_OP_RMSNORM_GRADIENT] = {
        {.name = "rmsnorm_gradient", .tolerance = TSR_CLASS_NORM,
         .formula = "dx = r (h - x r^2 mean(h x)), dgain = sum dy x r",
         .in = {{"x", F32, 0, 2}, {"gain", F32, 0, 2}, {"dy", F32, 0, 2}},
         .out = {{"dx", F32, 0, 2}, {"dgain", F32, 0, 2}}},
        tsr_rule_norm_gradient, tsr_flops_per_input, NULL,
        .attributes = EPSILON, .cost = 14},
    [TSR_OP_ACTIVATION_GRADIENT] = {
        {.name = "activation_gradient", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "dx = dy activation'(x)",
         .in = {{"x", F32, 0, 2}, {"dy", F32, 0, 2}}, .out = {{"dx", F32, 0, 2}}},
        tsr_rule_unary_gradient, tsr_flops_per_input, NULL,
        .attributes = ACTIVATION, .cost = 5},
    [TSR_OP_MASK_GRADIENT] = {
        {.name = "mask_gradient", .tolerance = TSR_CLASS_EXACT,
         .formula = "dx = y is -inf ? 0 : dy",
         .in = {{"y", F32, 0, 2}, {"dy", F32, 0, 2}}, .out = {{"dx", F32, 0, 2}}},
        tsr_rule_unary_gradient, tsr_flops_none, NULL},
    [TSR_OP_RELATIVE_GRADIENT] = {
        {.name = "relative_gradient", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "drelative = sum of dscores over each bucket",
         .in = {{"dscores", F32, 0, 2}, {"position", I32, 1, 2}}, .out = {{"drelative", F32, 0, 2}}},
        tsr_rule_relative_gradient, tsr_flops_per_input, NULL,
        .attributes = RELATIVE | BUCKETS, .cost = 1},
    [TSR_OP_ATTENTION_GRADIENT] = {
        {.name = "attention_gradient", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "the gradients of attention's q, k, v and scores",
         .in = {{"q", F32, 0, 2}, {"k", F32, 0, 2}, {"v", F32, 0, 2}, {"additive", F32, 1, 2}, {"lengths", I32, 1, 2},
                {"position", I32, 1, 2}, {"relative", F32, 1, 2}, {"rows", 0, 1, 2}, {"seed", I32, 1, 2},
                {"y", F32, 0, 2}, {"dy", F32, 0, 2}, {"lse", F32, 0, 2}},
         .out = {{"dq", F32, 0, 2}, {"dk", F32, 0, 2}, {"dv", F32, 0, 2}, {"dscores", F32, 1, 2}}},
        tsr_rule_attention_gradient, tsr_flops_attention_gradient, NULL,
        .attributes = ALPHA | CAUSAL | RELATIVE | DROPOUT | REDUCED_PRECISION | SOFTCAP},
    [TSR_OP_SCATTER_ADD] = {
        {.name = "scatter_add", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y[.., i, ..] = alpha sum of x[.., m, ..], index[m] = i",
         .in = {{"x", F32, 0, 2}, {"index", I32, 0, 2}}, .out = {{"y", F32, 0, 2}}},
        tsr_rule_scatter_add, tsr_flops_per_input, NULL,
        .attributes = ALPHA | AXIS | EXTENT, .cost = 1},
    [TSR_OP_CONCAT] = {
        {.name = "concat", .tolerance = TSR_CLASS_EXACT,
         .formula = "y = the operands one after another along an axis",
         .in = {{"x0", F32 | I32, 0, 2}, {"x1", F32 | I32, 1, 2}, {"x2", F32 | I32, 1, 2}, {"x3", F32 | I32, 1, 2},
                {"x4", F32 | I32, 1, 2}, {"x5", F32 | I32, 1, 2}, {"x6", F32 | I32, 1, 2}, {"x7", F32 | I32, 1, 2},
                {"x8", F32 | I32, 1, 2}, {"x9", F32 | I32, 1, 2}, {"x10", F32 | I32, 1, 2}, {"x11", F32 | I32, 1, 2}},
         .out = {{"y", F32 | I32, 0, 2}}},
        tsr_rule_concat, tsr_flops_none, tsr_gradient_concat,
        .attributes = AXIS},
    [TSR_OP_SUM_OF_SQUARES] = {
        {.name = "sum_of_squares", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y = sum x^2 + plus",
         .in = {{"x", F32, 0, 2}, {"plus", F32, 1, 2}}, .out = {{"y", F32, 0, 2}}},
        tsr_rule_sum_of_squares, tsr_flops_per_input, tsr_gradient_sum_of_squares,
        .cost = 1},
    [TSR_OP_ADAM] = {
        {.name = "adam", .tolerance = TSR_CLASS_ELEMENTWISE,
         .formula = "m, v: moments of g; p = p - rate m / (sqrt v + epsilon)",
         .in = {{"gradient", F32, 0, 2}, {"control", F32, 0, 2}, {"norm", F32, 1, 2}},
         .out = {{"parameter", F32, 0, 2}, {"m", F32, 0, 2}, {"v", F32, 0, 2}, {"average", F32, 1, 2}}},
        tsr_rule_adam, tsr_flops_per_input, NULL,
        .attributes = ADAM, .cost = 14, .writes_states = 1},
    [TSR_OP_CONV1D] = {
        {.name = "conv1d", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y[b, t, o] = sum of x[b, stride t + k, i] weight[o, k, i] + bias[o]",
         .in = {{"x", F32, 0, 8}, {"weight", FLOATS, 0, 8}, {"bias", F32, 1, 8}}, .out = {{"y", F32, 0, 8}}},
        tsr_rule_conv1d, tsr_flops_conv1d, tsr_gradient_conv1d,
        .attributes = STRIDE},
    [TSR_OP_ROTATE] = {
        {.name = "rotate", .tolerance = TSR_CLASS_PRODUCT,
         .formula = "y = x turned in pairs of its halves, by cosines and alpha sines",
         .in = {{"x", F32, 0, 9}, {"turns", F32, 0, 9}}, .out = {{"y", F32, 0, 9}}},
        tsr_rule_rotate, tsr_flops_per_input, tsr_gradient_rotate,
        .attributes = ALPHA, .cost = 3},
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
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (strcmp(table[op].info.name, name) == 0) {
      return op;
    }
  }
  return 0;
}

static double elements(const tsr_program_desc *program, int32_t tensor)
{
  const tsr_tensor_desc *t = tsr_tensor_at(program, tensor);
  double product = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    product *= (double)t->extent[i];
  }
  return product;
}

double tsr_flops_none(const tsr_program_desc *program, const tsr_line_desc *line)
{
  (void)program;
  (void)line;
  return 0;
}

double tsr_flops_per_input(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return elements(program, line->in[0]) * tsr_op_row_of(line->op)->cost;
}

double tsr_flops_matmul(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const tsr_tensor_desc *a = tsr_tensor_at(program, line->in[0]);
  return 2.0 * elements(program, line->out[0]) * (double)a->extent[a->rank - 1];
}

double tsr_flops_conv1d(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const tsr_tensor_desc *weight = tsr_tensor_at(program, line->in[1]);
  return 2.0 * elements(program, line->out[0]) * (double)weight->extent[1] * (double)weight->extent[2];
}

/* products: pairs of products of the scores' size, one with the keys' width and one with the values'. */
static double attention_flops(const tsr_program_desc *program, const tsr_line_desc *line, double products)
{
  const tsr_tensor_desc *q = tsr_tensor_at(program, line->in[0]), *k = tsr_tensor_at(program, line->in[1]);
  const tsr_tensor_desc *v = tsr_tensor_at(program, line->in[2]);
  double scores = (double)q->extent[0] * (double)q->extent[1] * (double)q->extent[2] * (double)k->extent[1];
  return scores * (2.0 * products * ((double)q->extent[3] + (double)v->extent[3]) + 5.0);
}

double tsr_flops_attention(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return attention_flops(program, line, 1.0);
}

/* It makes the scores anew, and four further products: of v with dy, and those of dq, dk, dv. */
double tsr_flops_attention_gradient(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return attention_flops(program, line, 2.5);
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
  for (int32_t i = 0; i < t->rank; i++) {
    product *= t->stride[i] == 0 && t->extent[i] > 0 ? 1.0 : (double)t->extent[i];
  }
  return product;
}

/* Bytes of so many elements of a tensor; 0 for one that is absent. */
static double part_bytes(const tsr_program_desc *program, int32_t tensor, double n)
{
  return tensor ? n * (double)tsr_dtype_size(tsr_tensor_at(program, tensor)->dtype) : 0.0;
}

static double whole_bytes(const tsr_program_desc *program, const int32_t *tensors, int32_t n)
{
  double sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += tensors[i] ? tensor_bytes(program, tensors[i]) : 0.0;
  }
  return sum;
}

/* Of the table and of its scales only the rows that are asked for are read. */
double tsr_bytes_embedding(const tsr_program_desc *program, const tsr_line_desc *line)
{
  const tsr_tensor_desc *rows_of = tsr_tensor_at(program, line->in[0]);
  const tsr_tensor_desc *scales = line->in[2] ? tsr_tensor_at(program, line->in[2]) : NULL;
  const double rows = elements(program, line->in[1]);
  return part_bytes(program, line->in[0], rows * (double)rows_of->extent[1]) + tensor_bytes(program, line->in[1]) +
         part_bytes(program, line->in[2], rows * (scales && scales->rank == 2 ? (double)scales->extent[1] : 1.0)) +
         tensor_bytes(program, line->out[0]);
}

double tsr_bytes_gather(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return part_bytes(program, line->in[0], elements(program, line->out[0])) + tensor_bytes(program, line->in[1]) +
         tensor_bytes(program, line->out[0]);
}

/* Of the state only what x fills is written. */
double tsr_bytes_append(const tsr_program_desc *program, const tsr_line_desc *line)
{
  return whole_bytes(program, line->in, TSR_MAX_INPUTS) +
         part_bytes(program, line->out[0], elements(program, line->in[0]));
}

double tsr_line_bytes(const tsr_program_desc *program, int32_t line)
{
  const tsr_line_desc *at = tsr_line_at(program, line);
  tsr_bytes_rule bytes = tsr_op_row_of(at->op)->bytes;
  return bytes ? bytes(program, at)
               : whole_bytes(program, at->in, TSR_MAX_INPUTS) + whole_bytes(program, at->out, TSR_MAX_OUTPUTS);
}

static uint32_t later(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

static int64_t heads_of(const tsr_program_desc *program, const tsr_line_desc *line, int32_t slot)
{
  return tsr_tensor_at(program, line->in[slot])->extent[2];
}

uint32_t tsr_line_since(const tsr_program_desc *program, int32_t line)
{
  /* attributes of later minors that no backend may ignore, or take for something else */
  enum { UNBIASED_SINCE = 3, CLAMPED_SINCE = 5, FACTORS_SINCE = 6, GROUPED_SINCE = 9 };
  const tsr_line_desc *at = tsr_line_at(program, line);
  const tsr_op_row *row = tsr_op_row_of(at->op);
  uint32_t since = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    since = later(since, at->in[i] ? row->info.in[i].since : 0);
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    since = later(since, at->out[i] ? row->info.out[i].since : 0);
  }
  for (int32_t i = 0; i < TSR_MAX_LATE; i++) {
    const tsr_late_types *late = &row->late[i];
    int32_t tensor = late->is_result ? at->out[late->slot] : at->in[late->slot];
    int is_late = tensor && late->dtypes & 1u << tsr_tensor_at(program, tensor)->dtype;
    since = later(since, is_late ? late->since : 0);
  }
  if (row->attributes & TSR_READS_UNBIASED && at->attributes.unbiased) {
    since = later(since, UNBIASED_SINCE);
  }
  if (row->attributes & TSR_READS_RELATIVE && at->attributes.clamped) {
    since = later(since, CLAMPED_SINCE);
  }
  if (at->op == TSR_OP_ATTENTION && at->attributes.reduced_precision > 1) { /* before, it meant f16 whatever it was */
    since = later(since, FACTORS_SINCE);
  }
  const int is_attention = at->op == TSR_OP_ATTENTION || at->op == TSR_OP_ATTENTION_GRADIENT;
  if (is_attention && (at->attributes.softcap != 0.0f || heads_of(program, at, 0) != heads_of(program, at, 1))) {
    since = later(since, GROUPED_SINCE);
  }
  return since;
}
