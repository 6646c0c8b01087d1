/* SPDX-License-Identifier: Apache-2.0
 *
 * From a configuration to the config.json of its family.
 *
 * What a family can express is not written down a second time: its config.json is made and read again, and every field
 * that comes back changed is one that it cannot express.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/transformer/model.h"

static const char source[] = "the configuration"; /* in the place of a file's name */

enum { MAX_ID = TSR_MAX_VOCABULARY - 1 };

/* Every field of tsr_transformer_config but the family. */
typedef struct field {
  const char *name;
  size_t offset;
  int32_t low; /* of a whole number; low > high: a float */
  int32_t high;
  int32_t optional; /* 1: `low` leaves it to its default */
} field;

#define INTEGER(name, low, high)                                                                                       \
  {                                                                                                                    \
#name, offsetof(tsr_transformer_config, name), low, high, 0                                                        \
  }
#define OPTIONAL(name, low, high)                                                                                      \
  {                                                                                                                    \
#name, offsetof(tsr_transformer_config, name), low, high, 1                                                        \
  }
#define FLAG(name) INTEGER(name, 0, 1)
#define FLOAT(name)                                                                                                    \
  {                                                                                                                    \
#name, offsetof(tsr_transformer_config, name), 1, 0, 0                                                             \
  }

static const field fields[] = {
    INTEGER(d_model, 1, TSR_MAX_WIDTH),
    INTEGER(encoder_layers, 0, TSR_MAX_LAYERS),
    INTEGER(decoder_layers, 0, TSR_MAX_LAYERS),
    INTEGER(encoder_heads, 1, TSR_MAX_HEADS),
    INTEGER(decoder_heads, 1, TSR_MAX_HEADS),
    OPTIONAL(encoder_head_size, 0, TSR_MAX_WIDTH),
    OPTIONAL(decoder_head_size, 0, TSR_MAX_WIDTH),
    INTEGER(encoder_d_ff, 1, TSR_MAX_WIDTH),
    INTEGER(decoder_d_ff, 1, TSR_MAX_WIDTH),
    INTEGER(source_vocabulary, 0, TSR_MAX_VOCABULARY),
    INTEGER(target_vocabulary, 0, TSR_MAX_VOCABULARY),
    INTEGER(max_positions, TSR_MIN_POSITIONS, TSR_MAX_POSITIONS),
    INTEGER(norm, TSR_NORM_LAYER, TSR_NORM_LAYER_STD),
    INTEGER(norm_position, TSR_NORM_POST, TSR_NORM_SANDWICH),
    FLAG(final_norm),
    FLAG(embedding_norm),
    INTEGER(activation, TSR_ACTIVATION_NONE, TSR_ACTIVATION_SILU),
    FLAG(gated),
    INTEGER(position, TSR_POSITION_NONE, TSR_POSITION_ROTARY),
    INTEGER(position_offset, 0, TSR_MAX_VOCABULARY),
    INTEGER(relative_buckets, 0, TSR_MAX_POSITIONS),
    INTEGER(relative_distance, 0, TSR_MAX_POSITIONS),
    FLAG(relative_layers),
    FLAG(attention_bias),
    FLAG(feed_forward_bias),
    FLAG(logits_bias),
    FLAG(shared_embedding),
    FLAG(tied_logits),
    FLOAT(embedding_scale),
    FLOAT(attention_scale),
    FLOAT(logits_scale),
    FLOAT(epsilon),
    INTEGER(pad_id, -1, MAX_ID),
    INTEGER(bos_id, -1, MAX_ID),
    INTEGER(eos_id, -1, MAX_ID),
    INTEGER(unk_id, -1, MAX_ID),
    OPTIONAL(decoder_start_id, -1, MAX_ID),
    INTEGER(mels, 0, TSR_MAX_MELS),
    INTEGER(source_positions, 0, TSR_MAX_POSITIONS),
    OPTIONAL(encoder_key_heads, 0, TSR_MAX_HEADS),
    OPTIONAL(decoder_key_heads, 0, TSR_MAX_HEADS),
    INTEGER(window, 0, TSR_MAX_POSITIONS),
    INTEGER(window_period, 0, TSR_MAX_LAYERS),
    FLOAT(rotary_theta),
    FLOAT(attention_softcap),
    FLOAT(logits_softcap),
    OPTIONAL(encoder_d_model, 0, TSR_MAX_WIDTH),
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static int is_float(const field *f)
{
  return f->low > f->high;
}

static int32_t integer_of(const tsr_transformer_config *config, const field *f)
{
  int32_t value;
  memcpy(&value, (const char *)config + f->offset, sizeof value);
  return value;
}

static float float_of(const tsr_transformer_config *config, const field *f)
{
  float value;
  memcpy(&value, (const char *)config + f->offset, sizeof value);
  return value;
}

static tsr_status check_id(const char *name, int32_t id, int32_t vocabulary)
{
  if (id >= vocabulary) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: field '%s' is %d; the vocabulary has the ids 0 to %d", source, name, (int)id,
                    (int)vocabulary - 1);
  }
  return TSR_OK;
}

static tsr_status check_fields(const tsr_transformer_config *config)
{
  for (int32_t i = 0; i < N_FIELDS; i++) {
    const field *f = &fields[i];
    if (is_float(f) && !isfinite(float_of(config, f))) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: field '%s' should be a finite number", source, f->name);
    }
    if (!is_float(f) && (integer_of(config, f) < f->low || integer_of(config, f) > f->high)) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: field '%s' is %d; it should be %d to %d", source, f->name,
                      (int)integer_of(config, f), (int)f->low, (int)f->high);
    }
  }
  int32_t target = config->decoder_layers > 0 ? config->target_vocabulary : config->source_vocabulary;
  int32_t larger = target > config->source_vocabulary ? target : config->source_vocabulary;
  TSR_TRY(check_id("pad_id", config->pad_id, larger));
  TSR_TRY(check_id("bos_id", config->bos_id, larger));
  TSR_TRY(check_id("unk_id", config->unk_id, larger));
  TSR_TRY(check_id("eos_id", config->eos_id, target));
  return check_id("decoder_start_id", config->decoder_start_id, target);
}

static tsr_status set_id(json_t *file, const char *key, int32_t id)
{
  if (id >= 0 && json_object_set_new(file, key, json_integer(id)) != 0) {
    return tsr_fail_memory(sizeof(json_t));
  }
  return TSR_OK;
}

tsr_status tsr_config_set_ids(const tsr_transformer_config *config, json_t *file)
{
  TSR_TRY(set_id(file, "pad_token_id", config->pad_id));
  TSR_TRY(set_id(file, "bos_token_id", config->bos_id));
  TSR_TRY(set_id(file, "eos_token_id", config->eos_id));
  TSR_TRY(set_id(file, "decoder_start_token_id", config->decoder_start_id));
  return set_id(file, "unk_token_id", config->unk_id);
}

static tsr_status describe(const tsr_family *family, const tsr_transformer_config *config,
                           const tsr_save_options *options, json_t *file)
{
  if (json_object_set_new(file, "model_type", json_string(family->model_type)) != 0) {
    return tsr_fail_memory(sizeof(json_t));
  }
  TSR_TRY(family->describe(config, options, file));
  return tsr_config_set_ids(config, file);
}

/* Nearly equal floats count as equal: a root may have been rounded another way. */
static int same_field(const field *f, const tsr_transformer_config *wanted, const tsr_transformer_config *found)
{
  if (is_float(f)) {
    float a = float_of(wanted, f), b = float_of(found, f);
    return fabsf(a - b) <= 1e-6f * fmaxf(fabsf(a), fabsf(b));
  }
  return integer_of(wanted, f) == integer_of(found, f) || (f->optional && integer_of(wanted, f) == f->low);
}

static tsr_status compare_fields(const tsr_transformer_config *wanted, const tsr_transformer_config *found)
{
  for (int32_t i = 0; i < N_FIELDS; i++) {
    const field *f = &fields[i];
    if (same_field(f, wanted, found)) {
      continue;
    }
    char asked[32], had[32];
    snprintf(asked, sizeof asked, is_float(f) ? "%g" : "%.0f",
             is_float(f) ? (double)float_of(wanted, f) : (double)integer_of(wanted, f));
    snprintf(had, sizeof had, is_float(f) ? "%g" : "%.0f",
             is_float(f) ? (double)float_of(found, f) : (double)integer_of(found, f));
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: field '%s' is %s; the config.json of the family '%s' cannot express that, and would be read "
                    "as %s",
                    source, f->name, asked, wanted->family, had);
  }
  return TSR_OK;
}

tsr_status tsr_transformer_config_describe(const tsr_save_options *options, tsr_transformer_config *config,
                                           const tsr_family **family, json_t **file)
{
  *file = NULL;
  *family = memchr(config->family, '\0', sizeof config->family) ? tsr_family_find(config->family) : NULL;
  if (!*family) {
    char known[192];
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: field 'family' is '%.*s'; this build knows %s", source,
                    (int)sizeof config->family, config->family, tsr_family_list(known, sizeof known));
  }
  TSR_TRY(check_fields(config));
  json_t *root = json_object();
  if (!root) {
    return tsr_fail_memory(sizeof(json_t));
  }
  tsr_status status = describe(*family, config, options, root);
  tsr_transformer_config found = {0};
  if (status == TSR_OK) {
    tsr_config written = {.path = (char *)source, .root = root};
    status = tsr_transformer_config_parse(&written, &found, family);
    /* What is wrong with the file is wrong with what it was made from. */
    status = status == TSR_ERR_FORMAT ? tsr_fail(TSR_ERR_ARGUMENT, "%s", tsr_error_message()) : status;
  }
  if (status == TSR_OK) {
    status = compare_fields(config, &found);
  }
  if (status != TSR_OK) {
    json_decref(root);
    return status;
  }
  *config = found;
  *file = root;
  return TSR_OK;
}
