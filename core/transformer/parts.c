/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tsr_stack tsr_stack_encoder(const tsr_transformer_config *config)
{
  return (tsr_stack){.name = "encoder",
                     .width = tsr_config_width(config, 0),
                     .layers = config->encoder_layers,
                     .heads = config->encoder_heads,
                     .key_heads = tsr_config_key_heads(config, 0),
                     .head_size = config->encoder_head_size,
                     .vocabulary = config->source_vocabulary};
}

tsr_stack tsr_stack_decoder(const tsr_transformer_config *config)
{
  return (tsr_stack){.name = "decoder",
                     .decoder = 1,
                     .width = config->d_model,
                     .layers = config->decoder_layers,
                     .heads = config->decoder_heads,
                     .key_heads = tsr_config_key_heads(config, 1),
                     .head_size = config->decoder_head_size,
                     .vocabulary = config->target_vocabulary};
}

tsr_dtype tsr_builder_states(const tsr_builder *b)
{
  return b->states != 0 ? b->states : TSR_F32;
}

int32_t tsr_builder_open_scopes(const tsr_builder *b, const char *path)
{
  int32_t n = 0;
  while (*path) {
    int length = (int)strcspn(path, ".");
    tsr_scope_push(b->program, "%.*s", length, path);
    path += length + (path[length] == '.');
    n++;
  }
  return n;
}

void tsr_builder_close_scopes(const tsr_builder *b, int32_t n)
{
  while (n-- > 0) {
    tsr_scope_pop(b->program);
  }
}

void tsr_build_tap(const tsr_builder *b, int32_t what, tsr_ref x, const char *format, ...)
{
  if ((b->taps & what) == 0) {
    return;
  }
  char name[2 * TSR_PART_NAME_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  tsr_output(b->program, name, x);
}

tsr_ref tsr_build_parameter(const tsr_builder *b, const char *format, ...)
{
  char name[2 * TSR_PART_NAME_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  tsr_ref known = tsr_program_find(b->program, name);
  if (known != TSR_NONE) {
    return known;
  }
  const tsr_parameter *found = tsr_model_find(b->model, name);
  if (found && b->training) {
    return tsr_state(b->program, name, TSR_F32, found->shape);
  }
  if (!found) {
    return TSR_NONE;
  }
  tsr_kept scales;
  const tsr_kept elements = tsr_parameter_kept(found, tsr_parameter_dtype(found, b->weights), &scales);
  return tsr_constant(b->program, name, elements.dtype, elements.shape);
}

tsr_ref tsr_build_dropped(const tsr_builder *b, tsr_ref x, float rate)
{
  if (!b->training || rate <= 0.0f) {
    return x;
  }
  return tsr_dropout(b->program, x, b->training->seed, rate, b->training->stream++);
}

tsr_ref tsr_build_number(const tsr_builder *b, double value)
{
  return tsr_build_parameter(b, TSR_NUMBER_FORMAT, 1e6 * value);
}

/* y = 1 / (1 + exp(-x)), x [T, F]: the softmax of x and 0. */
static tsr_ref sigmoid(const tsr_builder *b, tsr_ref x)
{
  tsr_program *p = b->program;
  const tsr_shape shape = tsr_ref_shape(p, x), pairs = TSR_SHAPE(shape.extent[0], shape.extent[1], 1);
  const tsr_ref operands[2] = {tsr_reshape(p, x, pairs), tsr_expand(p, tsr_build_number(b, 0.0), pairs)};
  tsr_ref both = tsr_softmax(p, tsr_concat(p, operands, 2, 2), TSR_NONE);
  return tsr_reshape(p, tsr_copy(p, tsr_slice(p, both, 2, 0, 1), TSR_F32), shape);
}

tsr_ref tsr_build_activated(const tsr_builder *b, tsr_ref x, int32_t activation)
{
  tsr_program *p = b->program;
  switch (activation) {
  case TSR_ACTIVATION_GELU_SIGMOID:
    x = tsr_silu(p, tsr_mul(p, x, tsr_build_number(b, TSR_GELU_SIGMOID)));
    return tsr_mul(p, x, tsr_build_number(b, 1.0 / TSR_GELU_SIGMOID));
  case TSR_ACTIVATION_SIGMOID:
    return sigmoid(b, x);
  case TSR_ACTIVATION_TANH: /* 2 / (1 + exp(-2 x)) - 1 */
    x = tsr_mul(p, sigmoid(b, tsr_mul(p, x, tsr_build_number(b, 2.0))), tsr_build_number(b, 2.0));
    return tsr_add(p, x, tsr_build_number(b, -1.0));
  case TSR_ACTIVATION_NONE:
    return x;
  case TSR_ACTIVATION_RELU:
    return tsr_relu(b->program, x);
  case TSR_ACTIVATION_SILU:
    return tsr_silu(b->program, x);
  default:
    return tsr_gelu(b->program, x, activation);
  }
}

/* The scales of a matrix that is kept as i8 or in four bits; TSR_NONE for one that is not. */
static tsr_ref scales_of(const tsr_builder *b, tsr_ref matrix)
{
  if (tsr_ref_dtype(b->program, matrix) != TSR_I8) {
    return TSR_NONE;
  }
  char name[TSR_PARAMETER_NAME_ROOM];
  const char *of = tsr_ref_name(b->program, matrix);
  const tsr_parameter *found = tsr_model_find(b->model, of);
  tsr_kept scales;
  tsr_scales_name(name, of);
  tsr_ref known = tsr_program_find(b->program, name);
  tsr_parameter_kept(found, tsr_parameter_dtype(found, b->weights), &scales);
  return known != TSR_NONE ? known : tsr_constant(b->program, name, scales.dtype, scales.shape);
}

tsr_ref tsr_build_rows(const tsr_builder *b, tsr_ref table, int32_t width, tsr_ref ids, float alpha, int32_t padding)
{
  tsr_ref scales = scales_of(b, table);
  if (scales == TSR_NONE) {
    return tsr_embedding_padded(b->program, table, ids, alpha, padding);
  }
  if (tsr_ref_dtype(b->program, scales) != TSR_F16) {
    return tsr_embedding_i8(b->program, table, scales, ids, alpha);
  }
  tsr_ref rows = tsr_embedding_i4(b->program, table, scales, ids, alpha);
  return tsr_slice(b->program, rows, -1, 0, width);
}

/* 1 if what is multiplied with matrices of 16 bits may be rounded to their type: who asks for such a type, rather than
 * for the model as it is stored, asks for its speed. In training not to f16: of numbers beyond its range the loss's
 * scale has to learn. */
static int reduces_precision(const tsr_builder *b, tsr_dtype type)
{
  if (b->training) {
    return type == TSR_BF16 && type == b->training->products;
  }
  return (type == TSR_F16 || type == TSR_BF16) && type == b->weights;
}

int32_t tsr_builder_reduced_attention(const tsr_builder *b)
{
  return b->training && reduces_precision(b, TSR_BF16) ? TSR_BF16 : reduces_precision(b, TSR_F16);
}

tsr_ref tsr_build_product(const tsr_builder *b, tsr_ref x, tsr_ref weight, tsr_ref bias, float alpha,
                          int32_t activation)
{
  if (b->training && b->training->products != TSR_F32) {
    weight = tsr_copy(b->program, weight, b->training->products);
  }
  tsr_ref scales = scales_of(b, weight), transposed = tsr_transpose(b->program, weight, 0, 1);
  tsr_build_tap(b, TSR_INSPECT_INPUTS, x, "%s.input", tsr_ref_name(b->program, weight));
  if (scales != TSR_NONE && tsr_ref_dtype(b->program, scales) == TSR_F16) {
    scales = tsr_transpose(b->program, scales, 0, 1);
    return tsr_matmul_i4(b->program, x, transposed, scales, bias, alpha, activation);
  }
  if (scales != TSR_NONE) {
    return tsr_matmul_i8(b->program, x, transposed, scales, bias, alpha, activation);
  }
  /* A gradient needs the argument of the activation; of relu the result is enough. */
  const int apart = b->training && activation != TSR_ACTIVATION_NONE && activation != TSR_ACTIVATION_RELU;
  const int32_t fused = apart ? TSR_ACTIVATION_NONE : activation;
  tsr_ref y = reduces_precision(b, tsr_ref_dtype(b->program, weight))
                  ? tsr_matmul_reduced_precision(b->program, x, transposed, bias, alpha, fused)
                  : tsr_matmul(b->program, x, transposed, bias, alpha, fused);
  return apart ? tsr_build_activated(b, y, activation) : y;
}

tsr_ref tsr_build_linear(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name, int32_t activation)
{
  tsr_ref weight = tsr_build_parameter(b, "%s.%s.weight", prefix, name),
          bias = tsr_build_parameter(b, "%s.%s.bias", prefix, name);
  const int is_composed = activation >= TSR_ACTIVATION_COMPOSED;
  tsr_ref y = tsr_build_product(b, x, weight, bias, 1.0f, is_composed ? TSR_ACTIVATION_NONE : activation);
  return is_composed ? tsr_build_activated(b, y, activation) : y;
}

tsr_ref tsr_build_norm(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name)
{
  const tsr_transformer_config *config = &b->model->config;
  tsr_scope_push(b->program, "%s", name);
  tsr_ref gain = tsr_build_parameter(b, "%s.%s.weight", prefix, name);
  tsr_ref bias = tsr_build_parameter(b, "%s.%s.bias", prefix, name);
  tsr_ref y = config->norm == TSR_NORM_RMS         ? tsr_rmsnorm(b->program, x, gain, config->epsilon)
              : config->norm == TSR_NORM_LAYER_STD ? tsr_layernorm_std(b->program, x, gain, bias, config->epsilon)
                                                   : tsr_layernorm(b->program, x, gain, bias, config->epsilon);
  tsr_scope_pop(b->program);
  tsr_build_tap(b, TSR_INSPECT_NORMS, y, "%s.%s", prefix, name);
  return y;
}
