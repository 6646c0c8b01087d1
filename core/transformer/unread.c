/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a checkpoint that no parameter of the model reads: a sign that the configuration is not the weights'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transformer/names.h"

/* How names end of what checkpoints carry along and nothing needs: tables that are computed, counters, a configuration
 * that was read already. */
static const char *const harmless[] = {
    "position_ids",
    "num_batches_tracked",
    "inv_freq",
    "_float_tensor",
    "embed_positions.weight",
    "embed_positions.weights",
    "pos_embedding",
    "EncDecAttention.relative_attention_bias.weight", /* T5's first release: never used */
    "special:model.yml",
};

/* Parameters that some models have twice: the copy is not read where the configuration says that they are one. */
static const char *const shared[] = {"embedding.weight", "encoder.embedding.weight", "decoder.embedding.weight",
                                     "logits.weight"};

static int is_among(const char *name, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (strcmp(name, names[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

static int is_harmless(const char *name)
{
  size_t size = strlen(name);
  for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
    size_t end = strlen(harmless[i]);
    if (size >= end && strcmp(name + size - end, harmless[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* The rule of which one tensor has this name, as it is or behind the family's root. Of several, one that is for models
 * without an encoder goes first, as those have the decoder where others have the encoder. NULL: none. */
static const tsr_name_rule *find_rule(const tsr_model *model, const char *name, tsr_name_captures *found)
{
  const tsr_name_table *table = model->family->names;
  const tsr_name_rule *best = NULL;
  char rooted[2 * TSR_NAME_ROOM];
  snprintf(rooted, sizeof rooted, "%s%s", table->root, name);
  for (int32_t i = 0; i < table->n; i++) {
    const tsr_name_rule *rule = &table->rules[i];
    if (!tsr_name_rule_holds(rule, &model->config) || (best && !(rule->when & TSR_RULE_NO_ENCODER))) {
      continue;
    }
    for (int32_t piece = 0; piece < TSR_PIECES && rule->pieces[piece].name; piece++) {
      tsr_name_captures now;
      if (tsr_name_match(rule->pieces[piece].name, name, &now) ||
          tsr_name_match(rule->pieces[piece].name, rooted, &now)) {
        best = rule;
        *found = now;
      }
    }
  }
  return best;
}

/* The name without what a wrapper put before it. */
static const char *unwrap(const char *name)
{
  size_t longest = 0;
  for (size_t i = 0; i < TSR_NAME_WRAPPERS; i++) {
    size_t size = strlen(tsr_name_wrappers[i]);
    if (size > longest && strncmp(name, tsr_name_wrappers[i], size) == 0) {
      longest = size;
    }
  }
  return name + longest;
}

/* 1 if the tensor lies where one lies that is read: it is the same under another name. */
static int is_twin(const tsr_model *model, const tsr_checkpoint_tensor *tensor, const unsigned char *is_read)
{
  for (int32_t i = 0; i < tsr_checkpoint_count(model->checkpoint); i++) {
    const tsr_checkpoint_tensor *other = tsr_checkpoint_at(model->checkpoint, i);
    if (is_read[i] && other->at == tensor->at && other->bytes == tensor->bytes && other->file == tensor->file &&
        other->size == tensor->size) {
      return 1;
    }
  }
  return 0;
}

static tsr_status fail_surplus(const tsr_model *model, const tsr_checkpoint_tensor *tensor, int is_decoder, long number,
                               int32_t layers)
{
  const char *key = model->family->names->layers[is_decoder];
  const char *file = tsr_checkpoint_path(model->checkpoint);
  int is_inside = model->family == &tsr_family_marian_npz;
  return tsr_fail(TSR_ERR_FORMAT,
                  "%s: tensor '%s' is of the %s's layer %ld (from 1 on), but key '%s' of %s%s says %d: the weights are "
                  "of another model",
                  tensor->path, tensor->name, is_decoder ? "decoder" : "encoder", number + 1, key,
                  is_inside ? file : model->folder, is_inside ? ": special:model.yml" : "/config.json", (int)layers);
}

/* A second table of embeddings that is not the one that is read, where the original may read both. That of the logits
 * was looked at before. */
static tsr_status warn_of_copy(const tsr_model *model, const tsr_checkpoint_tensor *tensor, const char *parameter)
{
  static const char *const tables[] = {"embedding.weight", "decoder.embedding.weight"};
  const tsr_parameter *read = tsr_model_find(model, parameter);
  int differ = 0;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0] && !read; i++) {
    read = tsr_model_find(model, tables[i]);
  }
  const tsr_checkpoint_tensor *other = read ? read->pieces[0].tensor : NULL;
  if (!other || strcmp(parameter, "logits.weight") == 0 ||
      !is_among(parameter, shared, sizeof shared / sizeof *shared)) {
    return TSR_OK;
  }
  TSR_TRY(tsr_tensors_compare(tensor, other, &differ));
  if (differ) {
    tsr_log(TSR_LOG_WARNING, "%s: tensor '%s' is not '%s', which is read in its place", tensor->path, tensor->name,
            other->name);
  }
  return TSR_OK;
}

/* *is_surprise: 1 if nothing explains the tensor. */
static tsr_status look_at(const tsr_model *model, const tsr_checkpoint_tensor *tensor, int *is_surprise)
{
  const char *name = unwrap(tensor->name);
  tsr_name_captures found;
  const tsr_name_rule *rule = find_rule(model, name, &found);
  *is_surprise = !is_harmless(name);
  if (!rule) {
    return TSR_OK;
  }
  char parameter[TSR_NAME_ROOM];
  tsr_name_expand(rule->parameter, &found, parameter);
  if (found.layer[0]) {
    int is_decoder = strncmp(parameter, "decoder", 7) == 0;
    int32_t layers = is_decoder ? model->config.decoder_layers : model->config.encoder_layers;
    long number = strtol(found.layer, NULL, 10);
    if (number >= layers) {
      return fail_surplus(model, tensor, is_decoder, number, layers);
    }
  }
  /* Another name of what was read under the first one. */
  if (tsr_model_find(model, parameter) || is_among(parameter, shared, sizeof shared / sizeof shared[0])) {
    *is_surprise = 0;
    return warn_of_copy(model, tensor, parameter);
  }
  return TSR_OK;
}

/* Of a family that knows what all tensors mean. Its scalars, and texts that are stored as bytes, were looked at
 * before. */
static tsr_status look_exactly(const tsr_model *model, const tsr_checkpoint_tensor *tensor,
                               const unsigned char *is_read)
{
  if (tensor->rank == 0 || !strchr(tensor->name, '/') || is_twin(model, tensor, is_read)) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: this build does not know what the tensor '%s' is for", tensor->path,
                  tensor->name);
}

/* Marks the tensors that the parameters read. */
static void mark_read(const tsr_model *model, unsigned char *is_read)
{
  const tsr_checkpoint_tensor *first = tsr_checkpoint_at(model->checkpoint, 0);
  for (int32_t i = 0; i < model->parameters.n; i++) {
    const tsr_parameter *parameter = &model->parameters.items[i];
    for (int32_t piece = 0; piece < parameter->n_pieces; piece++) {
      if (parameter->pieces[piece].tensor) {
        is_read[parameter->pieces[piece].tensor - first] = 1;
      }
      if (parameter->pieces[piece].scales) {
        is_read[parameter->pieces[piece].scales - first] = 1;
      }
    }
  }
}

tsr_status tsr_parameters_check_unread(const tsr_model *model)
{
  enum { NAMED = 4 };
  const tsr_checkpoint *checkpoint = model->checkpoint;
  const int32_t count = tsr_checkpoint_count(checkpoint);
  unsigned char *is_read = calloc((size_t)count + 1, 1);
  if (!is_read) {
    return tsr_fail_memory((size_t)count + 1);
  }
  mark_read(model, is_read);
  char names[1024] = "";
  int32_t n = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < count && status == TSR_OK; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    int is_surprise = 0;
    if (!is_read[i] && model->family->is_exact) {
      status = look_exactly(model, tensor, is_read);
    } else if (!is_read[i]) {
      status = look_at(model, tensor, &is_surprise);
    }
    if (is_surprise && n++ < NAMED) {
      size_t used = strlen(names);
      snprintf(names + used, sizeof names - used, "%s%.160s", used > 0 ? ", " : "", tensor->name);
    }
  }
  free(is_read);
  if (status == TSR_OK && n > 0) {
    char others[32] = "";
    if (n > NAMED) {
      snprintf(others, sizeof others, " and %d more", (int)(n - NAMED));
    }
    tsr_log(TSR_LOG_WARNING, "%s: %d tensor%s in no part of the model that its configuration describes: %s%s",
            tsr_checkpoint_path(checkpoint), (int)n, n == 1 ? " is" : "s are", names, others);
  }
  return status;
}
