/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient rules of the operators: from the gradients of a line's results, lines that compute those of its
 * operands. dx stands for the gradient of the loss with respect to x.
 */
#include "core/program/program.h"

static tsr_shape shape_of(const tsr_program *program, tsr_ref x)
{
  return tsr_tensor_shape(&program->tensors[x]);
}

tsr_ref tsr_program_as_shape(tsr_program *program, tsr_ref x, tsr_shape shape)
{
  tsr_ref view = tsr_program_reshape(program, x, &shape);
  return view != TSR_INVALID ? view : tsr_reshape(program, tsr_copy(program, x, tsr_ref_dtype(program, x)), shape);
}

tsr_ref tsr_program_as_rows(tsr_program *program, tsr_ref x, int64_t columns)
{
  tsr_shape shape = shape_of(program, x);
  return tsr_program_as_shape(program, x, TSR_SHAPE(columns > 0 ? tsr_shape_elements(&shape) / columns : 0, columns));
}

/* 1 if the products of a gradient may round their factors to bf16, as the product itself may. To f16 they may
 * not: what is beyond its range would be cut off, and no infinity would tell whoever scales the loss. */
static int rounds_gradient(const tsr_program *program, const tsr_line_desc *line)
{
  const int32_t reduced = line->attributes.reduced_precision;
  return reduced == TSR_BF16 || (reduced == 1 && tsr_ref_dtype(program, line->in[1]) == TSR_BF16);
}

/* alpha a b + bias, one of the products of a gradient. */
static tsr_ref product(tsr_program *program, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int rounds)
{
  if (!rounds) {
    return tsr_matmul(program, a, b, bias, alpha, TSR_ACTIVATION_NONE);
  }
  return tsr_ref_dtype(program, b) == TSR_F32
             ? tsr_matmul_rounded(program, a, b, bias, alpha, TSR_ACTIVATION_NONE, TSR_BF16)
             : tsr_matmul_reduced_precision(program, a, b, bias, alpha, TSR_ACTIVATION_NONE);
}

/* The gradient of what a product gave before its activation. */
static tsr_ref before_activation(tsr_program *program, const tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  switch (line->attributes.activation) {
  case TSR_ACTIVATION_NONE:
    return call->out[0];
  case TSR_ACTIVATION_RELU: /* positive where its result is */
    return tsr_activation_gradient(program, line->out[0], call->out[0], TSR_ACTIVATION_RELU);
  default: {
    /* The argument was not kept: the product is made once more. */
    tsr_ref z =
        product(program, line->in[0], line->in[1], line->in[2], line->attributes.alpha, rounds_gradient(program, line));
    return tsr_activation_gradient(program, z, call->out[0], line->attributes.activation);
  }
  }
}

/* y = alpha a b + bias: da = alpha dy b^T, db = alpha a^T dy, dbias = dy. */
void tsr_gradient_matmul(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  float alpha = line->attributes.alpha;
  const int rounds = rounds_gradient(program, line);
  if (line->in[3] != TSR_NONE) {
    tsr_program_fail(program, line->op, TSR_ERR_UNSUPPORTED, "a product with weights of i8 has no gradient");
    return;
  }
  tsr_ref a = line->in[0], b = line->in[1], dz = before_activation(program, call);
  if (dz == TSR_INVALID) {
    return;
  }
  call->in[2] = dz;
  if (call->wanted[0]) {
    call->in[0] = product(program, dz, tsr_transpose(program, b, -1, -2), TSR_NONE, alpha, rounds);
  }
  if (!call->wanted[1]) {
    return;
  }
  const tsr_tensor_desc *weights = &program->tensors[b];
  int is_transposed = weights->stride[weights->rank - 2] == 1 && weights->extent[weights->rank - 1] > 1;
  if (is_transposed) { /* W stored [N, K]: its gradient in the same layout */
    call->in[1] = tsr_transpose(
        program, product(program, tsr_transpose(program, dz, -1, -2), a, TSR_NONE, alpha, rounds), -1, -2);
  } else {
    call->in[1] = product(program, tsr_transpose(program, a, -1, -2), dz, TSR_NONE, alpha, rounds);
  }
}

void tsr_gradient_softmax(tsr_program *program, tsr_gradient_call *call)
{
  tsr_ref y = call->line.out[0], dy = call->out[0];
  call->in[0] =
      call->line.op == TSR_OP_SOFTMAX ? tsr_softmax_gradient(program, y, dy) : tsr_log_softmax_gradient(program, y, dy);
  call->in[1] = call->in[0];
}

void tsr_gradient_norm(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  float epsilon = line->attributes.epsilon;
  tsr_ref *dbias = call->wanted[2] ? &call->in[2] : NULL;
  if (line->op == TSR_OP_RMSNORM) {
    call->in[0] = tsr_rmsnorm_gradient(program, line->in[0], line->in[1], call->out[0], epsilon, &call->in[1]);
  } else if (line->attributes.unbiased) {
    call->in[0] =
        tsr_layernorm_std_gradient(program, line->in[0], line->in[1], call->out[0], epsilon, &call->in[1], dbias);
  } else {
    call->in[0] = tsr_layernorm_gradient(program, line->in[0], line->in[1], call->out[0], epsilon, &call->in[1], dbias);
  }
}

static tsr_masking masking_of(const tsr_line_desc *line, int32_t first)
{
  return (tsr_masking){
      .additive = line->in[first],
      .lengths = line->in[first + 1],
      .position = line->in[first + 2],
      .relative = line->in[first + 3],
      .causal = line->attributes.causal,
      .bidirectional = line->attributes.bidirectional,
      .max_distance = line->attributes.max_distance,
      .clamped = line->attributes.clamped,
  };
}

/* The gradients of the biases on scores, whose operands begin in slot `first`. */
static void gradient_of_biases(tsr_program *program, tsr_gradient_call *call, int32_t first, tsr_ref dscores)
{
  call->in[first] = dscores;
  if (call->wanted[first + 3] && program->status == TSR_OK) {
    tsr_masking masking = masking_of(&call->line, first);
    int64_t buckets = shape_of(program, masking.relative).extent[0];
    call->in[first + 3] = tsr_relative_gradient(program, dscores, &masking, buckets);
  }
}

void tsr_gradient_mask(tsr_program *program, tsr_gradient_call *call)
{
  call->in[0] = tsr_mask_gradient(program, call->line.out[0], call->out[0]);
  gradient_of_biases(program, call, 1, call->in[0]);
}

/* k or v [B, S, G, K] with a head for each of q's: [B, S, H, K]. */
static tsr_ref each_head(tsr_program *program, tsr_ref x, int64_t heads)
{
  const tsr_shape s = shape_of(program, x);
  const int64_t rows = s.extent[0] * s.extent[1], groups = s.extent[2], width = s.extent[3];
  if (groups == heads) {
    return x;
  }
  tsr_ref shared = tsr_program_as_shape(program, x, TSR_SHAPE(rows, groups, 1, width));
  shared = tsr_expand(program, shared, TSR_SHAPE(rows, groups, heads / groups, width));
  return tsr_reshape(program, tsr_copy(program, shared, tsr_ref_dtype(program, x)),
                     TSR_SHAPE(s.extent[0], s.extent[1], heads, width));
}

/* The gradient of x, from that of each_head's result: the sum over the heads that share one. */
static tsr_ref shared_head(tsr_program *program, tsr_ref dx, tsr_ref x)
{
  enum { SHARING = 1 << 2 };
  const tsr_shape s = shape_of(program, x);
  const int64_t rows = s.extent[0] * s.extent[1], groups = s.extent[2], width = s.extent[3];
  const int64_t heads = program->status == TSR_OK ? shape_of(program, dx).extent[2] : groups;
  if (groups == heads) {
    return dx;
  }
  tsr_ref each = tsr_reshape(program, dx, TSR_SHAPE(rows, groups, heads / groups, width));
  return tsr_reshape(program, tsr_reduce_sum(program, each, SHARING), s);
}

void tsr_gradient_attention(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  if (line->in[7] != TSR_NONE || call->out[1] != TSR_NONE || call->out[2] != TSR_NONE || call->out[0] == TSR_NONE) {
    tsr_program_fail(program, line->op, TSR_ERR_UNSUPPORTED,
                     "attention has a gradient of its first result, without 'rows', and none of its weights and sums");
    return;
  }
  const int64_t heads = shape_of(program, line->in[0]).extent[2];
  tsr_attention_args args = {
      .q = line->in[0],
      .k = each_head(program, line->in[1], heads),
      .v = each_head(program, line->in[2], heads),
      .masking = masking_of(line, 3),
      .alpha = line->attributes.alpha,
      .seed = line->in[8],
      .rate = line->attributes.rate,
      .stream = line->attributes.stream,
      .softcap = line->attributes.softcap,
      .reduced_precision = line->attributes.reduced_precision == TSR_BF16 ? TSR_BF16 : 0, /* as of a product */
  };
  int wants_scores = call->wanted[3] || call->wanted[6];
  tsr_ref dscores = TSR_NONE;
  call->in[0] = tsr_attention_gradient(program, &args, line->out[0], call->out[0], line->out[2], &call->in[1],
                                       &call->in[2], wants_scores ? &dscores : NULL);
  call->in[1] = shared_head(program, call->in[1], line->in[1]);
  call->in[2] = shared_head(program, call->in[2], line->in[2]);
  if (wants_scores && program->status == TSR_OK) {
    gradient_of_biases(program, call, 3, dscores);
  }
}

void tsr_gradient_add(tsr_program *program, tsr_gradient_call *call)
{
  (void)program;
  call->in[0] = call->out[0];
  call->in[1] = call->out[0];
}

void tsr_gradient_mul(tsr_program *program, tsr_gradient_call *call)
{
  for (int32_t i = 0; i < 2; i++) {
    if (call->wanted[i]) {
      call->in[i] = tsr_mul(program, call->out[0], call->line.in[1 - i]);
    }
  }
}

void tsr_gradient_activation(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  int32_t activation = line->op == TSR_OP_RELU   ? TSR_ACTIVATION_RELU
                       : line->op == TSR_OP_SILU ? TSR_ACTIVATION_SILU
                                                 : line->attributes.activation;
  /* relu's result tells as much as its argument, and is more likely to be needed anyway. */
  tsr_ref x = line->op == TSR_OP_RELU ? line->out[0] : line->in[0];
  call->in[0] = tsr_activation_gradient(program, x, call->out[0], activation);
}

/* A turn's gradient is turned back. */
void tsr_gradient_rotate(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  if (call->wanted[1]) {
    tsr_program_fail(program, line->op, TSR_ERR_UNSUPPORTED, "the operand 'turns' has no gradient");
    return;
  }
  call->in[0] = tsr_rotate(program, call->out[0], line->in[1], -line->attributes.alpha);
}

/* x with zeros in one row. */
static tsr_ref without_row(tsr_program *program, tsr_ref x, int64_t row)
{
  tsr_shape shape = shape_of(program, x);
  tsr_ref nothing = tsr_reduce_sum(program, tsr_slice(program, x, 0, 0, 0), 1);
  tsr_ref pieces[3] = {tsr_slice(program, x, 0, 0, row), nothing,
                       tsr_slice(program, x, 0, row + 1, shape.extent[0] - row - 1)};
  return tsr_concat(program, pieces, 3, 0);
}

void tsr_gradient_embedding(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  if (line->in[2] != TSR_NONE) {
    tsr_program_fail(program, line->op, TSR_ERR_UNSUPPORTED, "a table of i8 has no gradient");
    return;
  }
  tsr_shape table = shape_of(program, line->in[0]), ids = shape_of(program, line->in[1]);
  tsr_ref rows = tsr_program_as_rows(program, call->out[0], table.extent[1]);
  tsr_ref list = program->status == TSR_OK ? tsr_program_as_rows(program, line->in[1], 1) : TSR_INVALID;
  list = program->status == TSR_OK ? tsr_reshape(program, list, TSR_SHAPE(tsr_shape_elements(&ids))) : TSR_INVALID;
  call->in[0] = tsr_scatter_add(program, rows, list, 0, table.extent[0], line->attributes.alpha);
  int64_t padding = (int64_t)line->attributes.padding - 1;
  if (padding >= 0 && padding < table.extent[0] && program->status == TSR_OK) {
    call->in[0] = without_row(program, call->in[0], padding);
  }
}

/* A cast: gradients are f32, whatever they belong to. */
void tsr_gradient_copy(tsr_program *program, tsr_gradient_call *call)
{
  (void)program;
  call->in[0] = call->out[0];
}

void tsr_gradient_gather(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  int32_t axis = line->attributes.axis;
  int64_t extent = program->tensors[line->in[0]].extent[axis];
  call->in[0] = tsr_scatter_add(program, call->out[0], line->in[1], axis, extent, 1.0f);
}

void tsr_gradient_reduce_sum(tsr_program *program, tsr_gradient_call *call)
{
  call->in[0] = tsr_expand(program, call->out[0], shape_of(program, call->line.in[0]));
}

void tsr_gradient_concat(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  int32_t axis = line->attributes.axis;
  int64_t start = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS && line->in[i] != TSR_NONE; i++) {
    int64_t extent = program->tensors[line->in[i]].extent[axis];
    if (call->wanted[i]) {
      call->in[i] = tsr_slice(program, call->out[0], axis, start, extent);
    }
    start += extent;
  }
}

void tsr_gradient_dropout(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  call->in[0] = tsr_dropout(program, call->out[0], line->in[1], line->attributes.rate, line->attributes.stream);
}

void tsr_gradient_cross_entropy(tsr_program *program, tsr_gradient_call *call)
{
  const tsr_line_desc *line = &call->line;
  if (call->out[1] != TSR_NONE || call->out[0] == TSR_NONE) {
    tsr_program_fail(program, line->op, TSR_ERR_UNSUPPORTED, "the log of the sums has no gradient, the loss has");
    return;
  }
  call->in[0] = tsr_cross_entropy_gradient(program, line->in[0], line->in[1], line->out[1], call->out[0],
                                           line->attributes.smoothing);
}

void tsr_gradient_sum_of_squares(tsr_program *program, tsr_gradient_call *call)
{
  tsr_ref x = call->line.in[0], dy = call->out[0];
  if (call->wanted[0]) {
    tsr_ref half = tsr_mul(program, x, tsr_reshape(program, dy, tsr_shape_make(0, NULL)));
    call->in[0] = tsr_add(program, half, half);
  }
  call->in[1] = dy;
}
