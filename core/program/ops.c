/* SPDX-License-Identifier: Apache-2.0
 *
 * The builders of tessera/ops.h: each fills a line and hands it over.
 */
#include "core/program/program.h"

/* Whether a product is one of two matrices: b is a matrix, a has leading axes that can be folded into its rows, and the
 * bias is the same for each row. A backend then sees one large product instead of a batch of small ones. */
static int folds(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias)
{
  int has_bias = bias != TSR_NONE;
  if (!tsr_program_has(p, TSR_OP_MATMUL, a) || !tsr_program_has(p, TSR_OP_MATMUL, b) ||
      (has_bias && !tsr_program_has(p, TSR_OP_MATMUL, bias))) {
    return 0;
  }
  return p->tensors[a].rank > 2 && p->tensors[b].rank == 2 && (!has_bias || p->tensors[bias].rank <= 1);
}

/* Appends a line of TSR_OP_MATMUL, folded where it can be. */
static tsr_ref append_product(tsr_program *p, tsr_line_desc line)
{
  tsr_ref a = line.in[0];
  if (!folds(p, a, line.in[1], line.in[2])) {
    return tsr_line_append(p, &line);
  }
  tsr_shape shape = tsr_tensor_shape(&p->tensors[a]), matrix = tsr_shape_make(2, (int64_t[]){1, 1});
  for (int32_t i = 0; i + 1 < shape.rank; i++) {
    matrix.extent[0] *= shape.extent[i]; /* no overflow: a exists */
  }
  matrix.extent[1] = shape.extent[shape.rank - 1];
  tsr_ref folded = tsr_program_reshape(p, a, &matrix);
  if (folded == TSR_INVALID) {
    return tsr_line_append(p, &line);
  }
  line.in[0] = folded;
  tsr_ref y = tsr_line_append(p, &line);
  if (y == TSR_INVALID) {
    return y;
  }
  shape.extent[shape.rank - 1] = p->tensors[y].extent[1];
  return tsr_reshape(p, y, shape);
}

tsr_ref tsr_matmul(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation)
{
  return append_product(p, (tsr_line_desc){.op = TSR_OP_MATMUL,
                                           .in = {a, b, bias},
                                           .attributes = {.alpha = alpha, .activation = activation}});
}

tsr_ref tsr_matmul_reduced_precision(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha,
                                     int32_t activation)
{
  return append_product(
      p, (tsr_line_desc){.op = TSR_OP_MATMUL,
                         .in = {a, b, bias},
                         .attributes = {.alpha = alpha, .activation = activation, .reduced_precision = 1}});
}

tsr_ref tsr_matmul_rounded(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation,
                           tsr_dtype factors)
{
  if (factors != TSR_F16 && factors != TSR_BF16) {
    tsr_program_fail(p, TSR_OP_MATMUL, TSR_ERR_DTYPE, "factors are rounded to f16 or bf16, not to %s",
                     tsr_dtype_name(factors));
    return TSR_INVALID;
  }
  return append_product(
      p, (tsr_line_desc){.op = TSR_OP_MATMUL,
                         .in = {a, b, bias},
                         .attributes = {.alpha = alpha, .activation = activation, .reduced_precision = factors}});
}

tsr_ref tsr_matmul_i8(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref scales, tsr_ref bias, float alpha,
                      int32_t activation)
{
  return append_product(p, (tsr_line_desc){.op = TSR_OP_MATMUL,
                                           .in = {a, b, bias, scales},
                                           .attributes = {.alpha = alpha, .activation = activation}});
}

tsr_ref tsr_matmul_i4(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref scales, tsr_ref bias, float alpha,
                      int32_t activation)
{
  return tsr_matmul_i8(p, a, b, scales, bias, alpha, activation);
}

tsr_ref tsr_product(tsr_program *p, tsr_ref a, tsr_ref b)
{
  return tsr_matmul(p, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
}

/* x, copied unless its rows lie side by side. */
static tsr_ref in_rows(tsr_program *p, tsr_ref x)
{
  const tsr_tensor_desc *t = &p->tensors[x];
  return t->rank < 2 || tsr_tensor_in_rows(t) ? x : tsr_copy(p, x, t->dtype);
}

tsr_ref tsr_program_zero_rows(tsr_program *p, tsr_ref x, int64_t rows)
{
  const tsr_shape own = tsr_ref_shape(p, x);
  tsr_ref zeros = tsr_reduce_sum(p, tsr_slice(p, x, 1, 0, 0), 1 << 1); /* a sum over nothing */
  return tsr_expand(p, zeros, TSR_SHAPE(own.extent[0], rows, own.extent[2]));
}

/* x [B, T, I] between so many rows of zeros on each side; what is no such tensor is for the rule to refuse. */
static tsr_ref padded(tsr_program *p, tsr_ref x, int64_t padding)
{
  const tsr_tensor_desc *t = &p->tensors[x];
  if (t->rank != 3 || t->dtype != TSR_F32 || padding == 0) {
    return in_rows(p, x);
  }
  const tsr_ref zeros = tsr_program_zero_rows(p, x, padding);
  return tsr_concat(p, (const tsr_ref[]){zeros, x, zeros}, 3, 1);
}

tsr_ref tsr_conv1d(tsr_program *p, tsr_ref x, tsr_ref weight, tsr_ref bias, int32_t stride, int32_t padding)
{
  if (!tsr_program_has(p, TSR_OP_CONV1D, x) || !tsr_program_has(p, TSR_OP_CONV1D, weight)) {
    return TSR_INVALID;
  }
  if (padding < 0) {
    return tsr_program_fail(p, TSR_OP_CONV1D, TSR_ERR_ARGUMENT, "the padding is at least 0, not %d", padding);
  }
  x = padded(p, x, padding);
  tsr_line_desc line = {.op = TSR_OP_CONV1D, .in = {x, in_rows(p, weight), bias}, .attributes = {.stride = stride}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_softmax(tsr_program *p, tsr_ref x, tsr_ref mask)
{
  tsr_line_desc line = {.op = TSR_OP_SOFTMAX, .in = {x, mask}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_log_softmax(tsr_program *p, tsr_ref x)
{
  tsr_line_desc line = {.op = TSR_OP_LOG_SOFTMAX, .in = {x}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_layernorm(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon)
{
  tsr_line_desc line = {.op = TSR_OP_LAYERNORM, .in = {x, gain, bias}, .attributes = {.epsilon = epsilon}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_layernorm_std(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon)
{
  tsr_line_desc line = {
      .op = TSR_OP_LAYERNORM, .in = {x, gain, bias}, .attributes = {.epsilon = epsilon, .unbiased = 1}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_rmsnorm(tsr_program *p, tsr_ref x, tsr_ref gain, float epsilon)
{
  tsr_line_desc line = {.op = TSR_OP_RMSNORM, .in = {x, gain}, .attributes = {.epsilon = epsilon}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_mask(tsr_program *p, tsr_ref x, const tsr_masking *masking)
{
  if (!masking) {
    return tsr_program_fail(p, TSR_OP_MASK, TSR_ERR_ARGUMENT, "tsr_mask: masking must not be NULL");
  }
  tsr_line_desc line = {
      .op = TSR_OP_MASK,
      .in = {x, masking->additive, masking->lengths, masking->position, masking->relative},
      .attributes = {.causal = masking->causal,
                     .bidirectional = masking->bidirectional,
                     .max_distance = masking->max_distance,
                     .clamped = masking->clamped},
  };
  return tsr_line_append(p, &line);
}

tsr_ref tsr_attention(tsr_program *p, const tsr_attention_args *args)
{
  if (!args) {
    return tsr_program_fail(p, TSR_OP_ATTENTION, TSR_ERR_ARGUMENT, "tsr_attention: args must not be NULL");
  }
  const tsr_masking *masking = &args->masking;
  tsr_line_desc line = {
      .op = TSR_OP_ATTENTION,
      .in = {args->q, args->k, args->v, masking->additive, masking->lengths, masking->position, masking->relative,
             args->rows, args->seed},
      /* The rule makes the results whose slots are not empty. */
      .out = {TSR_NONE, args->weights ? TSR_INVALID : TSR_NONE, args->lse ? TSR_INVALID : TSR_NONE},
      .attributes = {.alpha = args->alpha,
                     .causal = masking->causal,
                     .bidirectional = masking->bidirectional,
                     .max_distance = masking->max_distance,
                     .clamped = masking->clamped,
                     .rate = args->rate,
                     .stream = args->stream,
                     .reduced_precision = args->reduced_precision,
                     .softcap = args->softcap},
  };
  tsr_ref y = tsr_line_append(p, &line);
  if (args->weights) {
    *args->weights = y == TSR_INVALID ? TSR_INVALID : line.out[1];
  }
  if (args->lse) {
    *args->lse = y == TSR_INVALID ? TSR_INVALID : line.out[2];
  }
  return y;
}

tsr_ref tsr_add(tsr_program *p, tsr_ref a, tsr_ref b)
{
  tsr_line_desc line = {.op = TSR_OP_ADD, .in = {a, b}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_mul(tsr_program *p, tsr_ref a, tsr_ref b)
{
  tsr_line_desc line = {.op = TSR_OP_MUL, .in = {a, b}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_relu(tsr_program *p, tsr_ref x)
{
  tsr_line_desc line = {.op = TSR_OP_RELU, .in = {x}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_gelu(tsr_program *p, tsr_ref x, int32_t activation)
{
  tsr_line_desc line = {.op = TSR_OP_GELU, .in = {x}, .attributes = {.activation = activation}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_silu(tsr_program *p, tsr_ref x)
{
  tsr_line_desc line = {.op = TSR_OP_SILU, .in = {x}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_rotate(tsr_program *p, tsr_ref x, tsr_ref turns, float alpha)
{
  tsr_line_desc line = {.op = TSR_OP_ROTATE, .in = {x, turns}, .attributes = {.alpha = alpha}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_embedding(tsr_program *p, tsr_ref table, tsr_ref ids, float alpha)
{
  tsr_line_desc line = {.op = TSR_OP_EMBEDDING, .in = {table, ids}, .attributes = {.alpha = alpha}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_embedding_padded(tsr_program *p, tsr_ref table, tsr_ref ids, float alpha, int32_t padding)
{
  tsr_line_desc line = {
      .op = TSR_OP_EMBEDDING,
      .in = {table, ids},
      .attributes = {.alpha = alpha, .padding = padding >= 0 && padding < INT32_MAX ? padding + 1 : 0}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_embedding_i8(tsr_program *p, tsr_ref table, tsr_ref scales, tsr_ref ids, float alpha)
{
  tsr_line_desc line = {.op = TSR_OP_EMBEDDING, .in = {table, ids, scales}, .attributes = {.alpha = alpha}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_embedding_i4(tsr_program *p, tsr_ref table, tsr_ref scales, tsr_ref ids, float alpha)
{
  return tsr_embedding_i8(p, table, scales, ids, alpha);
}

tsr_ref tsr_copy(tsr_program *p, tsr_ref x, tsr_dtype dtype)
{
  tsr_line_desc line = {.op = TSR_OP_COPY, .in = {x}, .attributes = {.dtype = dtype}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_append(tsr_program *p, tsr_ref state, tsr_ref x, tsr_ref position)
{
  tsr_line_desc line = {.op = TSR_OP_APPEND, .in = {x, position}, .out = {state}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_update(tsr_program *p, tsr_ref state, tsr_ref x)
{
  tsr_line_desc line = {.op = TSR_OP_UPDATE, .in = {x}, .out = {state}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_gather(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis)
{
  tsr_line_desc line = {.op = TSR_OP_GATHER, .in = {x, index}, .attributes = {.axis = axis}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_topk(tsr_program *p, tsr_ref x, int32_t k, tsr_ref *indices)
{
  tsr_line_desc line = {.op = TSR_OP_TOPK, .in = {x}, .attributes = {.k = k}};
  tsr_ref values = tsr_line_append(p, &line);
  if (indices) {
    *indices = values == TSR_INVALID ? TSR_INVALID : line.out[1];
  }
  return values;
}

tsr_ref tsr_reduce_sum(tsr_program *p, tsr_ref x, int32_t axes)
{
  tsr_line_desc line = {.op = TSR_OP_REDUCE_SUM, .in = {x}, .attributes = {.axes = axes}};
  return tsr_line_append(p, &line);
}
