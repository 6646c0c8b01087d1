/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape rules of the operators that training needs.
 */
#include "core/program/rules.h"

int tsr_rule_seed(tsr_program *program, tsr_line_desc *line, int32_t slot)
{
  tsr_shape pair = tsr_shape_make(1, (int64_t[]){2});
  float rate = line->attributes.rate;
  if (line->in[slot] == TSR_NONE) {
    return 1;
  }
  if (!(rate >= 0.0f && rate < 1.0f)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "the rate of dropout is at least 0 and below 1, not %g",
                     (double)rate);
    return 0;
  }
  return tsr_rule_exactly(program, line, slot, &pair);
}

int tsr_rule_dropout(tsr_program *program, tsr_line_desc *line)
{
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  return tsr_rule_seed(program, line, 1) && tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

/* The loss and its gradient. */
int tsr_rule_cross_entropy(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 2, 2)) {
    return 0;
  }
  tsr_shape logits = tsr_rule_shape(program, line, 0), tokens = tsr_shape_make(1, logits.extent);
  float smoothing = line->attributes.smoothing;
  if (!(smoothing >= 0.0f && smoothing < 1.0f)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "label smoothing is at least 0 and below 1, not %g",
                     (double)smoothing);
    return 0;
  }
  if (logits.extent[1] == 0 || logits.extent[1] > INT32_MAX) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "there must be 1 to 2^31 - 1 logits to a row, not %lld",
                     (long long)logits.extent[1]);
    return 0;
  }
  if (!tsr_rule_exactly(program, line, 1, &tokens)) {
    return 0;
  }
  if (line->op == TSR_OP_CROSS_ENTROPY) {
    return tsr_rule_result(program, line, 0, TSR_F32, &tokens) && tsr_rule_result(program, line, 1, TSR_F32, &tokens);
  }
  return tsr_rule_exactly(program, line, 2, &tokens) && tsr_rule_exactly(program, line, 3, &tokens) &&
         tsr_rule_result(program, line, 0, TSR_F32, &logits);
}

/* dx from x, or y, and dy. */
int tsr_rule_unary_gradient(tsr_program *program, tsr_line_desc *line)
{
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  int32_t activation = line->attributes.activation;
  int by_rows = line->op == TSR_OP_SOFTMAX_GRADIENT || line->op == TSR_OP_LOG_SOFTMAX_GRADIENT;
  if (by_rows && !tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  if (line->op == TSR_OP_MASK_GRADIENT && !tsr_rule_rank(program, line, 0, 4, 4)) {
    return 0;
  }
  if (line->op == TSR_OP_ACTIVATION_GRADIENT &&
      (activation <= TSR_ACTIVATION_NONE || activation > TSR_ACTIVATION_SILU)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "%d is no activation with a gradient", activation);
    return 0;
  }
  return tsr_rule_exactly(program, line, 1, &shape) && tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_norm_gradient(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  tsr_shape row = tsr_shape_make(1, &shape.extent[shape.rank - 1]);
  int wants_bias = line->out[2] != TSR_NONE;
  line->out[2] = TSR_NONE;
  if (!(line->attributes.epsilon > 0)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "epsilon must be above 0, not %g",
                     (double)line->attributes.epsilon);
    return 0;
  }
  return tsr_rule_exactly(program, line, 1, &row) && tsr_rule_exactly(program, line, 2, &shape) &&
         tsr_rule_result(program, line, 0, TSR_F32, &shape) && tsr_rule_result(program, line, 1, TSR_F32, &row) &&
         (!wants_bias || tsr_rule_result(program, line, 2, TSR_F32, &row));
}

int tsr_rule_relative_gradient(tsr_program *program, tsr_line_desc *line)
{
  const tsr_op_attributes *attributes = &line->attributes;
  if (!tsr_rule_rank(program, line, 0, 4, 4)) {
    return 0;
  }
  tsr_shape scores = tsr_rule_shape(program, line, 0);
  tsr_shape table = tsr_shape_make(2, (int64_t[]){attributes->buckets, scores.extent[1]});
  return tsr_rule_per_sentence(program, line, 1, scores.extent[0]) &&
         tsr_rule_relative(program, line, attributes->buckets) && tsr_rule_result(program, line, 0, TSR_F32, &table);
}

int tsr_rule_attention_gradient(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_heads(program, line)) {
    return 0;
  }
  tsr_shape q = tsr_rule_shape(program, line, 0), k = tsr_rule_shape(program, line, 1),
            v = tsr_rule_shape(program, line, 2);
  tsr_shape scores = tsr_shape_make(4, (int64_t[]){q.extent[0], q.extent[2], q.extent[1], k.extent[1]});
  tsr_shape sums = tsr_shape_make(3, scores.extent), y = q;
  y.extent[3] = v.extent[3];
  int wants_scores = line->out[3] != TSR_NONE;
  line->out[3] = TSR_NONE;
  return tsr_rule_masking(program, line, 3, &scores) && tsr_rule_seed(program, line, 8) &&
         tsr_rule_exactly(program, line, 9, &y) && tsr_rule_exactly(program, line, 10, &y) &&
         tsr_rule_exactly(program, line, 11, &sums) && tsr_rule_result(program, line, 0, TSR_F32, &q) &&
         tsr_rule_result(program, line, 1, TSR_F32, &k) && tsr_rule_result(program, line, 2, TSR_F32, &v) &&
         (!wants_scores || tsr_rule_result(program, line, 3, TSR_F32, &scores));
}

int tsr_rule_scatter_add(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK) || !tsr_rule_axis(program, line)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  int32_t axis = line->attributes.axis;
  tsr_shape index = tsr_shape_make(1, &shape.extent[axis]);
  if (!tsr_rule_exactly(program, line, 1, &index)) {
    return 0;
  }
  if (line->attributes.extent < 0) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "an axis cannot have the extent %d", line->attributes.extent);
    return 0;
  }
  shape.extent[axis] = line->attributes.extent;
  return tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_concat(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK) || !tsr_rule_axis(program, line)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  tsr_dtype dtype = tsr_rule_operand(program, line, 0)->dtype;
  int32_t axis = line->attributes.axis;
  for (int32_t i = 1; i < TSR_MAX_INPUTS && line->in[i] != TSR_NONE; i++) {
    if (!tsr_rule_rank(program, line, i, shape.rank, shape.rank)) {
      return 0;
    }
    tsr_shape wanted = shape;
    wanted.extent[axis] = tsr_rule_operand(program, line, i)->extent[axis];
    if (!tsr_rule_exactly(program, line, i, &wanted) ||
        !tsr_rule_same_dtype(program, line, dtype, tsr_rule_operand(program, line, i)->dtype)) {
      return 0;
    }
    shape.extent[axis] += wanted.extent[axis];
  }
  return tsr_rule_result(program, line, 0, dtype, &shape);
}

int tsr_rule_sum_of_squares(tsr_program *program, tsr_line_desc *line)
{
  tsr_shape one = tsr_shape_make(1, (int64_t[]){1});
  return tsr_rule_exactly(program, line, 1, &one) && tsr_rule_result(program, line, 0, TSR_F32, &one);
}

static int fraction(tsr_program *program, const tsr_line_desc *line, const char *what, float value)
{
  if (value >= 0.0f && value < 1.0f) {
    return 1;
  }
  tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "%s is at least 0 and below 1, not %g", what, (double)value);
  return 0;
}

int tsr_rule_adam(tsr_program *program, tsr_line_desc *line)
{
  const tsr_op_attributes *attributes = &line->attributes;
  tsr_shape shape = tsr_rule_shape(program, line, 0), one = tsr_shape_make(1, (int64_t[]){1}),
            control = tsr_shape_make(1, (int64_t[]){5});
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (line->out[i] == TSR_NONE) {
      continue;
    }
    const tsr_tensor_desc *state = &program->tensors[line->out[i]];
    tsr_shape own = tsr_tensor_shape(state);
    if (!tsr_shape_equal(&own, &shape) || !tsr_tensor_contiguous(state)) {
      char text[128], wanted[128];
      tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the state '%s' must be contiguous, of extents %s, not %s",
                       tsr_op_describe(line->op)->out[i].name, tsr_shape_print(&shape, wanted, sizeof wanted),
                       tsr_shape_print(&own, text, sizeof text));
      return 0;
    }
  }
  if (!(attributes->epsilon > 0) || !(attributes->decay >= 0) || !(attributes->max_norm >= 0) ||
      (attributes->decoupled != 0 && attributes->decoupled != 1)) {
    tsr_program_fail(
        program, line->op, TSR_ERR_ARGUMENT,
        "epsilon must be above 0, decay and max_norm at least 0, decoupled 0 or 1; they are %g, %g, %g, %d",
        (double)attributes->epsilon, (double)attributes->decay, (double)attributes->max_norm, attributes->decoupled);
    return 0;
  }
  if (attributes->max_norm > 0 && line->in[2] == TSR_NONE) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "max_norm is given without the operand 'norm'");
    return 0;
  }
  return fraction(program, line, "beta1", attributes->beta1) && fraction(program, line, "beta2", attributes->beta2) &&
         tsr_rule_exactly(program, line, 1, &control) && tsr_rule_exactly(program, line, 2, &one);
}
