/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of the search as Hugging Face spells them: in a model's folder, or as the arguments of one call.
 */
#ifndef TESSERA_CORE_GENERATE_SETTINGS_H
#define TESSERA_CORE_GENERATE_SETTINGS_H

#include "core/checkpoint/checkpoint.h"
#include "tessera/generate.h"

enum {
  TSR_MAX_BEAM = 256,
  TSR_MAX_ALIGNMENT_HEADS = 1024,
  TSR_DEFAULT_LENGTH = 20, /* new tokens */
  TSR_DEFAULT_ROOM = 256   /* tokens in all, of a decoder alone */
};

/* What holds where nothing is said: greedy, 20 new tokens. */
tsr_generate_options tsr_generate_plain(const tsr_transformer_config *config);

/* The options with what the configuration, which outlives them, says in the places of what they leave to it. */
tsr_generate_options tsr_generate_resolve(const tsr_transformer_config *config, const tsr_generate_options *options);

/* Changes what the keys of `file` set and leaves the rest; lists become the model's. call: 1: arguments of a call,
 * where a max_length of 20 means 20; 0: a model's file, where it stands for the default. Errors: TSR_ERR_FORMAT,
 * TSR_ERR_UNSUPPORTED, naming file and key; TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_generate_apply(tsr_config *file, const tsr_model *model, int call,
                              tsr_generate_options *options) TSR_MUST_CHECK;

/* What decoder.yml says in a folder of Marian-NMT's own; <unk> is suppressed unless it says otherwise. Errors:
 * TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, naming file and key. */
tsr_status tsr_generate_marian(const tsr_model *model, tsr_generate_options *options) TSR_MUST_CHECK;

/* What the runtime of CTranslate2 does by default, or of a package Argos Translate. Errors: those of
 * tsr_package_open. */
tsr_status tsr_generate_ctranslate2(const tsr_model *model, tsr_generate_options *options) TSR_MUST_CHECK;

/* Errors: TSR_ERR_ARGUMENT, naming the option; TSR_ERR_UNSUPPORTED. */
tsr_status tsr_generate_check_options(const tsr_transformer_config *config,
                                      const tsr_generate_options *options) TSR_MUST_CHECK;

#endif
