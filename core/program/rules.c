/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape rules: each checks what tessera/ops.h demands of its operator, expands what broadcasts, makes the results.
 */
#include "core/program/rules.h"

#include <math.h>

const tsr_tensor_desc *tsr_rule_operand(const tsr_program *program, const tsr_line_desc *line, int32_t slot)
{
  return &program->tensors[line->in[slot]];
}

tsr_shape tsr_rule_shape(const tsr_program *program, const tsr_line_desc *line, int32_t slot)
{
  return tsr_tensor_shape(tsr_rule_operand(program, line, slot));
}

int tsr_rule_result(tsr_program *program, tsr_line_desc *line, int32_t slot, tsr_dtype dtype, const tsr_shape *shape)
{
  line->out[slot] = tsr_program_new(program, line->op, TSR_STORAGE_TEMPORARY, "", dtype, shape);
  return line->out[slot] != TSR_INVALID;
}

int tsr_rule_expand(tsr_program *program, tsr_line_desc *line, int32_t slot, const tsr_shape *shape)
{
  if (line->in[slot] == TSR_NONE) {
    return 1;
  }
  tsr_ref view = tsr_program_expand(program, line->in[slot], shape);
  if (view == TSR_INVALID) {
    char from[128], to[128];
    tsr_shape own = tsr_rule_shape(program, line, slot);
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the operand '%s' of extents %s does not broadcast to %s",
                     tsr_op_describe(line->op)->in[slot].name, tsr_shape_print(&own, from, sizeof from),
                     tsr_shape_print(shape, to, sizeof to));
    return 0;
  }
  line->in[slot] = view;
  return 1;
}

int tsr_rule_exactly(tsr_program *program, tsr_line_desc *line, int32_t slot, const tsr_shape *shape)
{
  if (line->in[slot] == TSR_NONE) {
    return 1;
  }
  tsr_shape own = tsr_rule_shape(program, line, slot);
  if (tsr_shape_equal(&own, shape)) {
    return 1;
  }
  char from[128], to[128];
  tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the operand '%s' must have extents %s, not %s",
                   tsr_op_describe(line->op)->in[slot].name, tsr_shape_print(shape, to, sizeof to),
                   tsr_shape_print(&own, from, sizeof from));
  return 0;
}

int tsr_rule_rank(tsr_program *program, const tsr_line_desc *line, int32_t slot, int32_t low, int32_t high)
{
  int32_t rank = tsr_rule_operand(program, line, slot)->rank;
  if (rank >= low && rank <= high) {
    return 1;
  }
  tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the operand '%s' must have rank %d to %d, not %d",
                   tsr_op_describe(line->op)->in[slot].name, low, high, rank);
  return 0;
}

int tsr_rule_per_sentence(tsr_program *program, tsr_line_desc *line, int32_t slot, int64_t n_batch)
{
  if (line->in[slot] == TSR_NONE) {
    return 1;
  }
  tsr_shape shape = tsr_shape_make(1, &n_batch);
  return tsr_rule_rank(program, line, slot, 1, 1) && tsr_rule_expand(program, line, slot, &shape);
}

int tsr_rule_same_dtype(tsr_program *program, const tsr_line_desc *line, tsr_dtype a, tsr_dtype b)
{
  if (a == b) {
    return 1;
  }
  tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "its operands differ in type: %s and %s", tsr_dtype_name(a),
                   tsr_dtype_name(b));
  return 0;
}

/* 1 if weights have four bits: their scales, in that slot, are f16. */
static int has_four_bits(const tsr_program *program, const tsr_line_desc *line, int32_t scales)
{
  return line->in[scales] != TSR_NONE && tsr_rule_operand(program, line, scales)->dtype == TSR_F16;
}

/* Weights of i8 have scales [n], those of four bits have them of_groups, others have none. `weights` and `scales` are
 * slots. */
static int scaled(tsr_program *program, tsr_line_desc *line, int32_t weights, int32_t scales, int64_t n,
                  const tsr_shape *of_groups)
{
  tsr_dtype dtype = tsr_rule_operand(program, line, weights)->dtype;
  if ((dtype == TSR_I8) != (line->in[scales] != TSR_NONE)) {
    const tsr_op_info *info = tsr_op_describe(line->op);
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT,
                     "the operand '%s' is %s: '%s' must be given with i8, and with i8 alone", info->in[weights].name,
                     tsr_dtype_name(dtype), info->in[scales].name);
    return 0;
  }
  if (has_four_bits(program, line, scales)) {
    return tsr_rule_exactly(program, line, scales, of_groups);
  }
  tsr_shape shape = tsr_shape_make(1, &n);
  return tsr_rule_exactly(program, line, scales, &shape);
}

int tsr_rule_matmul(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 2, TSR_MAX_RANK) || !tsr_rule_rank(program, line, 1, 2, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape a = tsr_rule_shape(program, line, 0), b = tsr_rule_shape(program, line, 1);
  char text_a[128], text_b[128];
  tsr_shape_print(&a, text_a, sizeof text_a);
  tsr_shape_print(&b, text_b, sizeof text_b);
  int64_t m = a.extent[a.rank - 2], k = a.extent[a.rank - 1], n = b.extent[b.rank - 1];
  const int64_t groups = (k + TSR_I4_GROUP - 1) / TSR_I4_GROUP, depth = b.extent[b.rank - 2];
  const int four_bits = has_four_bits(program, line, 3);
  if (four_bits && depth != TSR_I4_BYTES * groups) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE,
                     "a %s and b %s: with weights of four bits a depth of %lld takes %lld bytes", text_a, text_b,
                     (long long)k, (long long)(TSR_I4_BYTES * groups));
    return 0;
  }
  if (!four_bits && depth != k) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "a %s and b %s: the inner extents differ", text_a, text_b);
    return 0;
  }
  tsr_shape batch_a = tsr_shape_make(a.rank - 2, a.extent), batch_b = tsr_shape_make(b.rank - 2, b.extent), batch;
  if (!tsr_shape_broadcast(&batch_a, &batch_b, &batch)) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "a %s and b %s: the leading extents do not broadcast", text_a,
                     text_b);
    return 0;
  }
  int32_t activation = line->attributes.activation;
  if (activation < TSR_ACTIVATION_NONE || activation > TSR_ACTIVATION_SILU) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "%d is no activation", activation);
    return 0;
  }
  const tsr_shape scales = TSR_SHAPE(groups, n);
  if (!scaled(program, line, 1, 3, n, &scales)) {
    return 0;
  }
  tsr_dtype dtype = tsr_rule_operand(program, line, 1)->dtype;
  if (line->attributes.reduced_precision == 1 && dtype != TSR_F16 && dtype != TSR_BF16) {
    tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "a product of reduced precision has b of f16 or bf16, not %s",
                     tsr_dtype_name(dtype));
    return 0;
  }
  if (line->attributes.reduced_precision > 1 && dtype != TSR_F32) {
    tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "a product that rounds both factors has b of f32, not %s",
                     tsr_dtype_name(dtype));
    return 0;
  }
  if (line->in[3] != TSR_NONE && k > TSR_MAX_I8_DEPTH) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "a %s and b %s: the inner extent is at most %d where b is i8",
                     text_a, text_b, TSR_MAX_I8_DEPTH);
    return 0;
  }
  tsr_shape full = batch;
  full.rank = batch.rank + 2;
  full.extent[batch.rank] = m;
  full.extent[batch.rank + 1] = k;
  if (!tsr_rule_expand(program, line, 0, &full)) {
    return 0;
  }
  full.extent[batch.rank] = depth;
  full.extent[batch.rank + 1] = n;
  if (!tsr_rule_expand(program, line, 1, &full)) {
    return 0;
  }
  full.extent[batch.rank] = m;
  return tsr_rule_expand(program, line, 2, &full) && tsr_rule_result(program, line, 0, TSR_F32, &full);
}

int tsr_rule_conv1d(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 3, 3) || !tsr_rule_rank(program, line, 1, 3, 3)) {
    return 0;
  }
  const int32_t stride = line->attributes.stride;
  tsr_shape x = tsr_rule_shape(program, line, 0), weight = tsr_rule_shape(program, line, 1);
  const int64_t kernel = weight.extent[1], time = x.extent[1];
  char text_x[128], text_weight[128];
  tsr_shape_print(&x, text_x, sizeof text_x);
  tsr_shape_print(&weight, text_weight, sizeof text_weight);
  if (stride < 1) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "the stride is at least 1, not %d", stride);
    return 0;
  }
  if (x.extent[2] != weight.extent[2]) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "x %s and weight %s: the last extents differ", text_x,
                     text_weight);
    return 0;
  }
  if (kernel < 1 || time < kernel) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE,
                     "x %s, with its padding, and weight %s: the kernel has 1 to %lld rows, not %lld", text_x,
                     text_weight, (long long)time, (long long)kernel);
    return 0;
  }
  const tsr_shape y = TSR_SHAPE(x.extent[0], (time - kernel) / stride + 1, weight.extent[0]);
  const tsr_shape bias = TSR_SHAPE(weight.extent[0]);
  return tsr_rule_exactly(program, line, 2, &bias) && tsr_rule_expand(program, line, 2, &y) &&
         tsr_rule_result(program, line, 0, TSR_F32, &y);
}

int tsr_rule_softmax(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  return tsr_rule_expand(program, line, 1, &shape) && tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_norm(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  tsr_shape row = tsr_shape_make(1, &shape.extent[shape.rank - 1]);
  if (!(line->attributes.epsilon > 0)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "epsilon must be above 0, not %g",
                     (double)line->attributes.epsilon);
    return 0;
  }
  return tsr_rule_exactly(program, line, 1, &row) && tsr_rule_exactly(program, line, 2, &row) &&
         tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_relative(tsr_program *program, const tsr_line_desc *line, int64_t rows)
{
  const tsr_op_attributes *attributes = &line->attributes;
  if ((attributes->bidirectional != 0 && attributes->bidirectional != 1) ||
      (attributes->clamped != 0 && attributes->clamped != 1) || (attributes->bidirectional && attributes->clamped)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "bidirectional and clamped are 0 or 1, and not both 1");
    return 0;
  }
  if (attributes->clamped) {
    if (attributes->max_distance >= 1 && rows == 2 * (int64_t)attributes->max_distance + 1) {
      return 1;
    }
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT,
                     "a clamped relative bias has 2 max_distance + 1 rows, max_distance at least 1; found %lld rows "
                     "and a max_distance of %d",
                     (long long)rows, attributes->max_distance);
    return 0;
  }
  int64_t buckets = attributes->bidirectional ? rows / 2 : rows;
  if (buckets >= 2 && buckets <= INT32_MAX && attributes->max_distance > buckets / 2) {
    return 1;
  }
  tsr_program_fail(
      program, line->op, TSR_ERR_ARGUMENT,
      "a relative bias of %lld buckets a direction needs at least 2 of them and max_distance above %lld, not %d",
      (long long)buckets, (long long)(buckets / 2), attributes->max_distance);
  return 0;
}

int tsr_rule_masking(tsr_program *program, tsr_line_desc *line, int32_t first, const tsr_shape *scores)
{
  const tsr_op_attributes *attributes = &line->attributes;
  if (!tsr_rule_expand(program, line, first, scores) ||
      !tsr_rule_per_sentence(program, line, first + 1, scores->extent[0]) ||
      !tsr_rule_per_sentence(program, line, first + 2, scores->extent[0])) {
    return 0;
  }
  if ((attributes->causal != 0 && attributes->causal != 1) ||
      (attributes->bidirectional != 0 && attributes->bidirectional != 1)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "causal and bidirectional are 0 or 1");
    return 0;
  }
  if (line->in[first + 3] == TSR_NONE) {
    return 1;
  }
  if (!tsr_rule_rank(program, line, first + 3, 2, 2)) {
    return 0;
  }
  const tsr_tensor_desc *relative = tsr_rule_operand(program, line, first + 3);
  if (relative->extent[1] != scores->extent[1]) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the relative bias has %lld heads, the scores %lld",
                     (long long)relative->extent[1], (long long)scores->extent[1]);
    return 0;
  }
  return tsr_rule_relative(program, line, relative->extent[0]);
}

int tsr_rule_mask(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 4, 4)) {
    return 0;
  }
  tsr_shape scores = tsr_rule_shape(program, line, 0);
  return tsr_rule_masking(program, line, 1, &scores) && tsr_rule_result(program, line, 0, TSR_F32, &scores);
}

int tsr_rule_heads(tsr_program *program, const tsr_line_desc *line)
{
  const int32_t reduced = line->attributes.reduced_precision;
  const float softcap = line->attributes.softcap;
  if (!(softcap >= 0.0f) || isinf(softcap)) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "softcap is a finite number of at least 0, not %g",
                     (double)softcap);
    return 0;
  }
  if (reduced != 0 && reduced != 1 && reduced != TSR_F16 && reduced != TSR_BF16) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "reduced_precision is 0, 1, TSR_F16 or TSR_BF16, not %d",
                     reduced);
    return 0;
  }
  for (int32_t i = 0; i < 3; i++) {
    if (!tsr_rule_rank(program, line, i, 4, 4)) {
      return 0;
    }
  }
  tsr_shape q = tsr_rule_shape(program, line, 0), k = tsr_rule_shape(program, line, 1),
            v = tsr_rule_shape(program, line, 2);
  int has_rows = line->in[7] != TSR_NONE;
  const int64_t groups = k.extent[2];
  const int is_grouped = line->op == TSR_OP_ATTENTION && groups > 0 && q.extent[2] % groups == 0;
  if (q.extent[3] == k.extent[3] && (q.extent[2] == groups || is_grouped) && groups == v.extent[2] &&
      k.extent[1] == v.extent[1] && k.extent[0] == v.extent[0] && (has_rows || q.extent[0] == k.extent[0])) {
    return 1;
  }
  char text_q[128], text_k[128], text_v[128];
  tsr_program_fail(program, line->op, TSR_ERR_SHAPE,
                   "q %s, k %s and v %s do not fit [B, L, H, K], [B, S, H, K], [B, S, H, J]%s",
                   tsr_shape_print(&q, text_q, sizeof text_q), tsr_shape_print(&k, text_k, sizeof text_k),
                   tsr_shape_print(&v, text_v, sizeof text_v),
                   line->op == TSR_OP_ATTENTION ? ", with the heads of k and v a divisor of H" : "");
  return 0;
}

int tsr_rule_attention(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_heads(program, line)) {
    return 0;
  }
  if (!tsr_rule_same_dtype(program, line, tsr_rule_operand(program, line, 1)->dtype,
                           tsr_rule_operand(program, line, 2)->dtype)) {
    return 0;
  }
  tsr_shape q = tsr_rule_shape(program, line, 0), k = tsr_rule_shape(program, line, 1),
            v = tsr_rule_shape(program, line, 2);
  tsr_shape rows = tsr_shape_make(2, (int64_t[]){q.extent[0], k.extent[1]});
  tsr_shape scores = tsr_shape_make(4, (int64_t[]){q.extent[0], q.extent[2], q.extent[1], k.extent[1]});
  tsr_shape y = q;
  y.extent[3] = v.extent[3];
  tsr_shape sums = tsr_shape_make(3, scores.extent);
  int wants_weights = line->out[1] != TSR_NONE, wants_lse = line->out[2] != TSR_NONE;
  line->out[1] = TSR_NONE;
  line->out[2] = TSR_NONE;
  return tsr_rule_exactly(program, line, 7, &rows) && tsr_rule_masking(program, line, 3, &scores) &&
         tsr_rule_seed(program, line, 8) && tsr_rule_result(program, line, 0, TSR_F32, &y) &&
         (!wants_weights || tsr_rule_result(program, line, 1, TSR_F32, &scores)) &&
         (!wants_lse || tsr_rule_result(program, line, 2, TSR_F32, &sums));
}

int tsr_rule_binary(tsr_program *program, tsr_line_desc *line)
{
  tsr_shape a = tsr_rule_shape(program, line, 0), b = tsr_rule_shape(program, line, 1), shape;
  tsr_dtype dtype = tsr_rule_operand(program, line, 0)->dtype;
  if (!tsr_rule_same_dtype(program, line, dtype, tsr_rule_operand(program, line, 1)->dtype)) {
    return 0;
  }
  if (!tsr_shape_broadcast(&a, &b, &shape)) {
    char text_a[128], text_b[128];
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "%s and %s do not broadcast",
                     tsr_shape_print(&a, text_a, sizeof text_a), tsr_shape_print(&b, text_b, sizeof text_b));
    return 0;
  }
  return tsr_rule_expand(program, line, 0, &shape) && tsr_rule_expand(program, line, 1, &shape) &&
         tsr_rule_result(program, line, 0, dtype, &shape);
}

int tsr_rule_unary(tsr_program *program, tsr_line_desc *line)
{
  int32_t activation = line->attributes.activation;
  if (line->op == TSR_OP_GELU && activation != TSR_ACTIVATION_GELU_ERF && activation != TSR_ACTIVATION_GELU_TANH) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "%d is no form of gelu", activation);
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  return tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_rotate(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  const tsr_shape shape = tsr_rule_shape(program, line, 0);
  const int64_t columns = shape.extent[shape.rank - 1];
  if (columns % 2 != 0) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the last extent of x is even, not %lld", (long long)columns);
    return 0;
  }
  return tsr_rule_expand(program, line, 1, &shape) && tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

int tsr_rule_embedding(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 2, 2) || !tsr_rule_rank(program, line, 1, 0, TSR_MAX_RANK - 1)) {
    return 0;
  }
  const tsr_shape table = tsr_rule_shape(program, line, 0);
  const tsr_shape scales = TSR_SHAPE(table.extent[0], table.extent[1] / TSR_I4_BYTES);
  const int four_bits = has_four_bits(program, line, 2);
  if (four_bits && table.extent[1] % TSR_I4_BYTES != 0) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "a row of weights of four bits takes %d bytes a group, not %lld",
                     TSR_I4_BYTES, (long long)table.extent[1]);
    return 0;
  }
  if (!scaled(program, line, 0, 2, table.extent[0], &scales)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 1);
  shape.extent[shape.rank++] = four_bits ? scales.extent[1] * TSR_I4_GROUP : table.extent[1];
  return tsr_rule_result(program, line, 0, TSR_F32, &shape);
}

static int is_float(tsr_dtype dtype)
{
  return dtype == TSR_F32 || dtype == TSR_F16 || dtype == TSR_BF16;
}

int tsr_rule_copy(tsr_program *program, tsr_line_desc *line)
{
  tsr_dtype from = tsr_rule_operand(program, line, 0)->dtype, to = line->attributes.dtype;
  if (from != to && !(is_float(from) && is_float(to))) {
    tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "%s cannot be copied as %s", tsr_dtype_name(from),
                     tsr_dtype_name(to));
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  return tsr_rule_result(program, line, 0, to, &shape);
}

/* x is written into a state of its own type, or narrowed. */
static int writable(tsr_program *program, const tsr_line_desc *line)
{
  tsr_dtype state = program->tensors[line->out[0]].dtype, x = tsr_rule_operand(program, line, 0)->dtype;
  if (state == x || (x == TSR_F32 && (state == TSR_F16 || state == TSR_BF16))) {
    return 1;
  }
  tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "x of %s cannot be written into a state of %s", tsr_dtype_name(x),
                   tsr_dtype_name(state));
  return 0;
}

int tsr_rule_append(tsr_program *program, tsr_line_desc *line)
{
  const tsr_tensor_desc *state = &program->tensors[line->out[0]];
  tsr_shape wanted = tsr_tensor_shape(state);
  if (state->rank < 2) {
    tsr_program_fail(program, line->op, TSR_ERR_SHAPE, "the state must have rank 2 to 4, not %d", state->rank);
    return 0;
  }
  if (!tsr_rule_rank(program, line, 0, state->rank, state->rank) || !writable(program, line)) {
    return 0;
  }
  wanted.extent[1] = tsr_rule_operand(program, line, 0)->extent[1];
  return tsr_rule_exactly(program, line, 0, &wanted) && tsr_rule_per_sentence(program, line, 1, wanted.extent[0]);
}

int tsr_rule_update(tsr_program *program, tsr_line_desc *line)
{
  tsr_shape wanted = tsr_tensor_shape(&program->tensors[line->out[0]]);
  return writable(program, line) && tsr_rule_expand(program, line, 0, &wanted);
}

int tsr_rule_axis(tsr_program *program, tsr_line_desc *line)
{
  int32_t rank = tsr_rule_operand(program, line, 0)->rank, axis = line->attributes.axis;
  if (axis < -rank || axis >= rank) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "a tensor of rank %d has no axis %d", rank, axis);
    return 0;
  }
  line->attributes.axis = axis < 0 ? axis + rank : axis;
  return 1;
}

int tsr_rule_gather(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK) || !tsr_rule_rank(program, line, 1, 1, 1) ||
      !tsr_rule_axis(program, line)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  shape.extent[line->attributes.axis] = tsr_rule_operand(program, line, 1)->extent[0];
  return tsr_rule_result(program, line, 0, tsr_rule_operand(program, line, 0)->dtype, &shape);
}

int tsr_rule_topk(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  int32_t k = line->attributes.k;
  if (k < 1 || k > 1024 || k > shape.extent[shape.rank - 1]) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "k = %d must lie between 1 and the smaller of 1024 and %lld",
                     k, (long long)shape.extent[shape.rank - 1]);
    return 0;
  }
  shape.extent[shape.rank - 1] = k;
  return tsr_rule_result(program, line, 0, TSR_F32, &shape) && tsr_rule_result(program, line, 1, TSR_I32, &shape);
}

int tsr_rule_reduce_sum(tsr_program *program, tsr_line_desc *line)
{
  if (!tsr_rule_rank(program, line, 0, 1, TSR_MAX_RANK)) {
    return 0;
  }
  tsr_shape shape = tsr_rule_shape(program, line, 0);
  int32_t axes = line->attributes.axes;
  if (axes < 0 || axes >= 1 << shape.rank) {
    tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "the axes 0x%x are not those of a tensor of rank %d",
                     (unsigned)axes, shape.rank);
    return 0;
  }
  for (int32_t i = 0; i < shape.rank; i++) {
    if (axes & 1 << i) {
      shape.extent[i] = 1;
    }
  }
  return tsr_rule_result(program, line, 0, TSR_F32, &shape);
}
