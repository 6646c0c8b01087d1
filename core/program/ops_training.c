/* SPDX-License-Identifier: Apache-2.0
 *
 * The builders of the operators that training needs.
 */
#include "core/program/program.h"

/* Appends a line whose result `slot` is made if `wanted` is not NULL, and goes there. */
static tsr_ref append_with(tsr_program *p, tsr_line_desc *line, int32_t slot, tsr_ref *wanted)
{
  line->out[slot] = wanted ? TSR_INVALID : TSR_NONE;
  tsr_ref first = tsr_line_append(p, line);
  if (wanted) {
    *wanted = first == TSR_INVALID ? TSR_INVALID : line->out[slot];
  }
  return first;
}

tsr_ref tsr_concat(tsr_program *p, const tsr_ref *x, int32_t n, int32_t axis)
{
  tsr_line_desc line = {.op = TSR_OP_CONCAT, .attributes = {.axis = axis}};
  if (!x || n < 1 || n > TSR_MAX_INPUTS) {
    return tsr_program_fail(p, TSR_OP_CONCAT, TSR_ERR_ARGUMENT, "it takes 1 to %d operands, not %d", TSR_MAX_INPUTS, n);
  }
  for (int32_t i = 0; i < n; i++) {
    if (!tsr_program_has(p, TSR_OP_CONCAT, x[i])) {
      return TSR_INVALID;
    }
    line.in[i] = x[i];
  }
  return tsr_line_append(p, &line);
}

tsr_ref tsr_scatter_add(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis, int64_t extent, float alpha)
{
  if (extent < 0 || extent > INT32_MAX) {
    return tsr_program_fail(p, TSR_OP_SCATTER_ADD, TSR_ERR_SHAPE, "the axis' extent is 0 to 2^31 - 1, not %lld",
                            (long long)extent);
  }
  tsr_line_desc line = {.op = TSR_OP_SCATTER_ADD,
                        .in = {x, index},
                        .attributes = {.alpha = alpha, .axis = axis, .extent = (int32_t)extent}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_sum_of_squares(tsr_program *p, tsr_ref x, tsr_ref plus)
{
  tsr_line_desc line = {.op = TSR_OP_SUM_OF_SQUARES, .in = {x, plus}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_dropout(tsr_program *p, tsr_ref x, tsr_ref seed, float rate, int32_t stream)
{
  tsr_line_desc line = {.op = TSR_OP_DROPOUT, .in = {x, seed}, .attributes = {.rate = rate, .stream = stream}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_cross_entropy(tsr_program *p, tsr_ref logits, tsr_ref labels, float smoothing, tsr_ref *lse)
{
  tsr_line_desc line = {.op = TSR_OP_CROSS_ENTROPY, .in = {logits, labels}, .attributes = {.smoothing = smoothing}};
  tsr_ref loss = tsr_line_append(p, &line);
  if (lse) {
    *lse = loss == TSR_INVALID ? TSR_INVALID : line.out[1];
  }
  return loss;
}

tsr_ref tsr_cross_entropy_gradient(tsr_program *p, tsr_ref logits, tsr_ref labels, tsr_ref lse, tsr_ref dloss,
                                   float smoothing)
{
  tsr_line_desc line = {
      .op = TSR_OP_CROSS_ENTROPY_GRADIENT, .in = {logits, labels, lse, dloss}, .attributes = {.smoothing = smoothing}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_adam(tsr_program *p, const tsr_adam_args *args)
{
  if (!args) {
    return tsr_program_fail(p, TSR_OP_ADAM, TSR_ERR_ARGUMENT, "tsr_adam: args must not be NULL");
  }
  tsr_line_desc line = {
      .op = TSR_OP_ADAM,
      .in = {args->gradient, args->control, args->norm},
      .out = {args->parameter, args->m, args->v, args->average},
      .attributes = {.epsilon = args->epsilon,
                     .beta1 = args->beta1,
                     .beta2 = args->beta2,
                     .decay = args->decay,
                     .decoupled = args->decoupled,
                     .max_norm = args->max_norm},
  };
  return tsr_line_append(p, &line);
}

tsr_ref tsr_softmax_gradient(tsr_program *p, tsr_ref y, tsr_ref dy)
{
  tsr_line_desc line = {.op = TSR_OP_SOFTMAX_GRADIENT, .in = {y, dy}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_log_softmax_gradient(tsr_program *p, tsr_ref y, tsr_ref dy)
{
  tsr_line_desc line = {.op = TSR_OP_LOG_SOFTMAX_GRADIENT, .in = {y, dy}};
  return tsr_line_append(p, &line);
}

static tsr_ref append_layernorm_gradient(tsr_program *p, tsr_line_desc line, tsr_ref *dgain, tsr_ref *dbias)
{
  tsr_ref dx = append_with(p, &line, 2, dbias);
  if (dgain) {
    *dgain = dx == TSR_INVALID ? TSR_INVALID : line.out[1];
  }
  return dx;
}

tsr_ref tsr_layernorm_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon, tsr_ref *dgain,
                               tsr_ref *dbias)
{
  tsr_line_desc line = {.op = TSR_OP_LAYERNORM_GRADIENT, .in = {x, gain, dy}, .attributes = {.epsilon = epsilon}};
  return append_layernorm_gradient(p, line, dgain, dbias);
}

tsr_ref tsr_layernorm_std_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon, tsr_ref *dgain,
                                   tsr_ref *dbias)
{
  tsr_line_desc line = {
      .op = TSR_OP_LAYERNORM_GRADIENT, .in = {x, gain, dy}, .attributes = {.epsilon = epsilon, .unbiased = 1}};
  return append_layernorm_gradient(p, line, dgain, dbias);
}

tsr_ref tsr_rmsnorm_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon, tsr_ref *dgain)
{
  tsr_line_desc line = {.op = TSR_OP_RMSNORM_GRADIENT, .in = {x, gain, dy}, .attributes = {.epsilon = epsilon}};
  tsr_ref dx = tsr_line_append(p, &line);
  if (dgain) {
    *dgain = dx == TSR_INVALID ? TSR_INVALID : line.out[1];
  }
  return dx;
}

tsr_ref tsr_activation_gradient(tsr_program *p, tsr_ref x, tsr_ref dy, int32_t activation)
{
  tsr_line_desc line = {.op = TSR_OP_ACTIVATION_GRADIENT, .in = {x, dy}, .attributes = {.activation = activation}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_mask_gradient(tsr_program *p, tsr_ref y, tsr_ref dy)
{
  tsr_line_desc line = {.op = TSR_OP_MASK_GRADIENT, .in = {y, dy}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_relative_gradient(tsr_program *p, tsr_ref dscores, const tsr_masking *masking, int64_t buckets)
{
  if (!masking || buckets < 0 || buckets > INT32_MAX) {
    return tsr_program_fail(p, TSR_OP_RELATIVE_GRADIENT, TSR_ERR_ARGUMENT,
                            "the masking must not be NULL, and there are 0 to 2^31 - 1 buckets");
  }
  tsr_line_desc line = {.op = TSR_OP_RELATIVE_GRADIENT,
                        .in = {dscores, masking->position},
                        .attributes = {.bidirectional = masking->bidirectional,
                                       .max_distance = masking->max_distance,
                                       .clamped = masking->clamped,
                                       .buckets = (int32_t)buckets}};
  return tsr_line_append(p, &line);
}

tsr_ref tsr_attention_gradient(tsr_program *p, const tsr_attention_args *args, tsr_ref y, tsr_ref dy, tsr_ref lse,
                               tsr_ref *dk, tsr_ref *dv, tsr_ref *dscores)
{
  if (!args || !dk || !dv) {
    return tsr_program_fail(p, TSR_OP_ATTENTION_GRADIENT, TSR_ERR_ARGUMENT, "args, dk and dv must not be NULL");
  }
  const tsr_masking *masking = &args->masking;
  tsr_line_desc line = {
      .op = TSR_OP_ATTENTION_GRADIENT,
      .in = {args->q, args->k, args->v, masking->additive, masking->lengths, masking->position, masking->relative,
             args->rows, args->seed, y, dy, lse},
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
  tsr_ref dq = append_with(p, &line, 3, dscores);
  *dk = dq == TSR_INVALID ? TSR_INVALID : line.out[1];
  *dv = dq == TSR_INVALID ? TSR_INVALID : line.out[2];
  return dq;
}
