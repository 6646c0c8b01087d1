/* SPDX-License-Identifier: Apache-2.0
 *
 * The type in which keys and values are kept.
 */
#include "core/base/status.h"
#include "core/transformer/transformer.h"

/* What the programs of a decoder do with states of that type. */
static void build_trial(tsr_program *p, const tsr_transformer_config *config, tsr_dtype type)
{
  enum { ROWS = 2, KEYS = 8 };
  const int32_t heads = tsr_config_key_heads(config, 1);
  const tsr_shape cache = TSR_SHAPE(ROWS, KEYS, heads, config->decoder_head_size);
  const tsr_shape step = TSR_SHAPE(ROWS, 1, heads, config->decoder_head_size);
  tsr_ref keys = tsr_state(p, "keys", type, cache), values = tsr_state(p, "values", type, cache);
  tsr_ref x = tsr_input(p, "x", TSR_F32, step), position = tsr_input(p, "position", TSR_I32, TSR_SHAPE(1));
  tsr_ref from = tsr_input(p, "from", TSR_I32, TSR_SHAPE(ROWS));
  tsr_append(p, keys, x, position);
  tsr_update(p, tsr_slice(p, values, 1, 0, 1), x);
  tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(ROWS, 1, config->decoder_heads, config->decoder_head_size));
  tsr_attention_args args = {.q = q, .k = keys, .v = values, .alpha = 1.0f, .reduced_precision = type == TSR_F16};
  args.softcap = config->attention_softcap;
  args.masking = (tsr_masking){.position = position, .causal = 1};
  args.rows = tsr_input(p, "rows", TSR_I32, TSR_SHAPE(ROWS, KEYS));
  tsr_attention(p, &args);
  args.masking = (tsr_masking){.lengths = tsr_input(p, "lengths", TSR_I32, TSR_SHAPE(ROWS))};
  args.rows = TSR_NONE;
  tsr_ref weights = TSR_NONE;
  args.weights = &weights;
  tsr_attention(p, &args);
  tsr_append(p, keys, tsr_gather(p, values, from, 0), TSR_NONE);
  tsr_ref list = tsr_state(p, "list", type, TSR_SHAPE(KEYS, config->d_model));
  tsr_ref row = tsr_input(p, "row", TSR_F32, TSR_SHAPE(ROWS, config->d_model));
  tsr_update(p, list, tsr_input(p, "chosen", TSR_F32, TSR_SHAPE(KEYS, config->d_model)));
  tsr_matmul_reduced_precision(p, row, tsr_transpose(p, list, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
}

/* 1 if the device wants to keep states in a half type. */
static int wants(const tsr_device *device, tsr_dtype type)
{
  return (tsr_device_get_properties(device)->state_types & 1u << type) != 0;
}

tsr_status tsr_model_states(const tsr_model *model, tsr_device *device, tsr_dtype weights, tsr_dtype *states)
{
  if (!model || !states) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_states: model and states must not be NULL");
  }
  *states = TSR_F32;
  int is_half = weights == TSR_F16 || weights == TSR_BF16;
  if (!is_half || model->config.decoder_layers == 0 || (device && !wants(device, weights))) {
    return TSR_OK;
  }
  if (!device) {
    *states = weights;
    return TSR_OK;
  }
  tsr_program *trial = NULL;
  TSR_TRY(tsr_program_create(&trial));
  build_trial(trial, &model->config, weights);
  tsr_status status = tsr_program_status(trial);
  int32_t n = status == TSR_OK ? tsr_program_line_count(trial) : 0, supported = 0;
  while (supported < n && tsr_device_supports(device, trial, supported)) {
    supported++;
  }
  if (status == TSR_OK && supported == n) {
    *states = weights;
  }
  tsr_program_destroy(trial);
  return status;
}
