/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/split.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static int32_t tables_block(const tsr_model *model)
{
  return model->config.encoder_layers;
}

static int32_t decoder_block(const tsr_model *model, int32_t layer)
{
  return model->config.encoder_layers + 1 + layer;
}

static int32_t logits_block(const tsr_model *model)
{
  return model->config.tied_logits ? tables_block(model) : decoder_block(model, model->config.decoder_layers);
}

/* The rest of a name that begins so, or NULL. */
static const char *after(const char *name, const char *prefix)
{
  size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* What belongs to no layer lies with the layer next to it, or with the tables. */
static int32_t block_of(const tsr_model *model, const char *name)
{
  const tsr_transformer_config *config = &model->config;
  const char *rest;
  if ((rest = after(name, "encoder.layers.")) != NULL) {
    return (int32_t)strtol(rest, NULL, 10);
  }
  if ((rest = after(name, "decoder.layers.")) != NULL) {
    return decoder_block(model, (int32_t)strtol(rest, NULL, 10));
  }
  if (after(name, "encoder.norm.")) {
    return config->encoder_layers - 1;
  }
  if (after(name, "encoder.")) {
    return 0;
  }
  if (after(name, "decoder.norm.")) {
    return decoder_block(model, config->decoder_layers - 1);
  }
  if (after(name, "decoder.relative.")) {
    return decoder_block(model, 0);
  }
  return after(name, "logits.") ? logits_block(model) : tables_block(model);
}

/* ---- the split --------------------------------------------------------------------------------------------------- */

/* How full a device is with blocks first .. end-1. */
static double fullness(const tsr_split *split, const uint64_t *memory, int32_t device, int32_t first, int32_t end)
{
  int64_t sum = 0;
  for (int32_t i = first; i < end; i++) {
    sum += split->bytes[i];
  }
  return (double)sum / (double)memory[device];
}

/* Contiguous stretches of blocks, one for each device, of which the fullest is as empty as can be: least[d][e], that of
 * the first d + 1 devices with the first e blocks, grows from that of one device fewer. */
static tsr_status stretch(tsr_split *split, const uint64_t *memory, int32_t n)
{
  const size_t row = (size_t)split->n_blocks + 1;
  double *least = malloc((size_t)n * row * sizeof *least);
  int32_t *begin = malloc((size_t)n * row * sizeof *begin);
  if (!least || !begin) {
    free(least);
    free(begin);
    return tsr_fail_memory((size_t)n * row * (sizeof *least + sizeof *begin));
  }
  for (int32_t d = 0; d < n; d++) {
    for (int32_t end = 0; end <= split->n_blocks; end++) {
      double *best = &least[(size_t)d * row + (size_t)end];
      *best = fullness(split, memory, d, 0, end);
      begin[(size_t)d * row + (size_t)end] = 0;
      for (int32_t first = 1; d > 0 && first <= end; first++) {
        const double before = least[(size_t)(d - 1) * row + (size_t)first];
        const double own = fullness(split, memory, d, first, end);
        const double fullest = own > before ? own : before;
        if (fullest < *best) {
          *best = fullest;
          begin[(size_t)d * row + (size_t)end] = first;
        }
      }
    }
  }
  int32_t end = split->n_blocks;
  for (int32_t d = n - 1; d >= 0; d--) {
    const int32_t first = begin[(size_t)d * row + (size_t)end];
    for (int32_t i = first; i < end; i++) {
      split->device[i] = (uint8_t)d;
      split->total[d] += split->bytes[i];
    }
    end = first;
  }
  free(least);
  free(begin);
  return TSR_OK;
}

/* One device says itself what it lacks when it loads the weights. */
static tsr_status check_room(const tsr_split *split, const uint64_t *memory, int32_t n)
{
  for (int32_t d = 0; n > 1 && d < n; d++) {
    if (memory[d] > 0 && (uint64_t)split->total[d] > memory[d]) {
      return tsr_fail(TSR_ERR_DEVICE_MEMORY,
                      "the model does not fit into the memory of %d devices: device %d of them would take %" PRId64
                      " bytes of weights, and has %" PRIu64
                      " bytes: use more devices, or weights of fewer bits (--precision int8)",
                      (int)n, (int)d + 1, split->total[d], memory[d]);
    }
  }
  return TSR_OK;
}

tsr_status tsr_split_make(const tsr_model *model, tsr_dtype weights, const uint64_t *memory, int32_t n,
                          tsr_split *split)
{
  uint64_t known[TSR_MOST_DEVICES], most = 1;
  *split = (tsr_split){.n_blocks = decoder_block(model, model->config.decoder_layers) + 1};
  split->device = calloc((size_t)split->n_blocks, sizeof *split->device);
  split->bytes = calloc((size_t)split->n_blocks, sizeof *split->bytes);
  if (!split->device || !split->bytes) {
    return tsr_fail_memory((size_t)split->n_blocks * sizeof *split->bytes);
  }
  for (int32_t i = 0; i < model->parameters.n; i++) {
    const tsr_parameter *parameter = &model->parameters.items[i];
    split->bytes[block_of(model, parameter->name)] += tsr_parameter_bytes(parameter, weights);
  }
  for (int32_t d = 0; d < n; d++) {
    most = memory[d] > most ? memory[d] : most;
  }
  for (int32_t d = 0; d < n; d++) {
    known[d] = memory[d] > 0 ? memory[d] : most;
  }
  TSR_TRY(stretch(split, known, n));
  return check_room(split, memory, n);
}

void tsr_split_finish(tsr_split *split)
{
  free(split->device);
  free(split->bytes);
  *split = (tsr_split){0};
}

int32_t tsr_split_parameter(const tsr_split *split, const tsr_model *model, int32_t parameter)
{
  return split->device[block_of(model, model->parameters.items[parameter].name)];
}

int32_t tsr_split_logits(const tsr_split *split, const tsr_model *model)
{
  return split->device[logits_block(model)];
}

int32_t tsr_split_tables(const tsr_split *split, const tsr_model *model)
{
  return split->device[tables_block(model)];
}

int32_t tsr_split_decoder_layer(const tsr_split *split, const tsr_model *model, int32_t layer)
{
  return split->device[decoder_block(model, layer)];
}

/* ---- told to callers --------------------------------------------------------------------------------------------- */

/* Counts the layers that lie on a device: of the encoder (from block 0) or the decoder. */
static void count_layers(const tsr_split *split, int32_t index, int32_t begin, int32_t n, int32_t *first,
                         int32_t *count)
{
  *first = *count = 0;
  for (int32_t i = 0; i < n; i++) {
    if (split->device[begin + i] == index) {
      *first = *count == 0 ? i : *first;
      ++*count;
    }
  }
}

tsr_status tsr_model_get_part_sized(const tsr_model *model, tsr_dtype weights, tsr_device *const *devices,
                                    int32_t n_devices, int32_t index, tsr_model_part *part, size_t size)
{
  if (!model || !devices || n_devices < 1 || n_devices > TSR_MOST_DEVICES || index < 0 || index >= n_devices || !part) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_model_get_part: model, part and one of 1 to %d devices are needed, not %d of %d",
                    TSR_MOST_DEVICES, (int)index, (int)n_devices);
  }
  uint64_t memory[TSR_MOST_DEVICES];
  for (int32_t d = 0; d < n_devices; d++) {
    if (!devices[d]) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_model_get_part: device %d is NULL", (int)d);
    }
    memory[d] = tsr_device_get_properties(devices[d])->memory;
  }
  tsr_split split;
  tsr_status status = tsr_split_make(model, weights, memory, n_devices, &split);
  if (status == TSR_OK) {
    const tsr_transformer_config *config = &model->config;
    tsr_model_part found = {.weight_bytes = split.total[index],
                            .has_tables = tsr_split_tables(&split, model) == index,
                            .has_logits = tsr_split_logits(&split, model) == index};
    count_layers(&split, index, 0, config->encoder_layers, &found.first_encoder_layer, &found.encoder_layers);
    count_layers(&split, index, decoder_block(model, 0), config->decoder_layers, &found.first_decoder_layer,
                 &found.decoder_layers);
    tsr_sized_fill(&found, sizeof found, part, size);
  }
  tsr_split_finish(&split);
  return status;
}
