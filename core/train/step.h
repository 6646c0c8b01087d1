/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a training step, and the names of what they hold.
 */
#ifndef TESSERA_CORE_TRAIN_STEP_H
#define TESSERA_CORE_TRAIN_STEP_H

#include "core/transformer/layers.h"
#include "tessera/train.h"

/* The options with the defaults in place. Errors: TSR_ERR_ARGUMENT, naming the field. */
tsr_status tsr_training_options_complete(const tsr_training_options *options,
                                         tsr_training_options *complete) TSR_MUST_CHECK;

/* What a parameter's state is called: NAME, NAME.m, NAME.v, NAME.average; NAME.sum for what is TSR_TRAINED_COUNT.
 * Writes into name (of TSR_PARAMETER_NAME_ROOM bytes) and returns it. */
char *tsr_trained_name(char *name, const char *parameter, int32_t what);

/* Errors: TSR_ERR_UNSUPPORTED (one stack alone, or no vocabulary). */
tsr_status tsr_training_check_model(const tsr_model *model) TSR_MUST_CHECK;

/* "encoder.layers.0": layers are counted through both stacks. */
void tsr_step_layer_name(const tsr_transformer_config *config, int32_t layer, char *name, size_t size);

/* A program of TSR_STEP_APPLY that updates the parameters first .. end - 1 alone; the norm is that of all. */
tsr_status tsr_step_apply_program(const tsr_model *model, const tsr_training_options *options, int32_t first,
                                  int32_t end, tsr_program **program) TSR_MUST_CHECK;

/* 1 if a program of that kind updates the parameters; 1 if it reads or writes the sums of gradients. */
int tsr_step_updates(int32_t kind);
int tsr_step_sums(int32_t kind);

#endif
