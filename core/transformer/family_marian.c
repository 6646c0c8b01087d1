/* SPDX-License-Identifier: Apache-2.0
 *
 * Marian, as Hugging Face folders hold it (OPUS-MT): post-norm, sinusoids in halves.
 */
#include "core/base/status.h"
#include "core/transformer/family_bart.h"

enum { DEFAULT_PAD = 58100 };

static tsr_status configure(tsr_config *file, tsr_transformer_config *config)
{
  int32_t share = 1;
  config->source_vocabulary = DEFAULT_PAD + 1;
  config->activation = TSR_ACTIVATION_GELU_ERF;
  config->position = TSR_POSITION_SINUSOID_HALVES;
  config->logits_bias = 1;
  TSR_TRY(tsr_bart_read(file, config));
  tsr_config_bool(file, "share_encoder_decoder_embeddings", &share);
  config->shared_embedding = share;
  if (!share) {
    tsr_config_int(file, "decoder_vocab_size", 1, TSR_MAX_VOCABULARY, &config->target_vocabulary);
  }
  config->eos_id = 0;
  if (config->target_vocabulary > DEFAULT_PAD) {
    config->pad_id = config->decoder_start_id = DEFAULT_PAD;
    return TSR_OK;
  }
  /* The default would be no token of this vocabulary; the decoder of every Marian model starts with the pad. */
  int32_t pad = -1;
  TSR_TRY(tsr_config_id(file, "pad_token_id", INT32_MAX, &pad));
  if (pad < config->target_vocabulary) {
    config->decoder_start_id = pad;
  }
  return TSR_OK;
}

/* What transformers 4.47 writes for a MarianMTModel. */
static tsr_status describe(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file)
{
  TSR_TRY(tsr_bart_describe(config, options, "MarianMTModel", file));
  json_t *keys = json_pack("{s:i, s:b, s:b, s:i}", "decoder_vocab_size", (int)config->target_vocabulary,
                           "share_encoder_decoder_embeddings", (int)config->shared_embedding,
                           "static_position_embeddings", 1, "forced_eos_token_id", (int)config->eos_id);
  int failed = json_object_update(file, keys) != 0;
  json_decref(keys);
  return failed ? tsr_fail_memory(sizeof(json_t)) : TSR_OK;
}

const tsr_family tsr_family_marian = {
    .model_type = "marian",
    .names = &tsr_bart_names,
    .frozen_pad = 1,
    .forced_eos_id = 0,
    .init_std = TSR_BART_INIT_STD,
    .configure = configure,
    .describe = describe,
};
