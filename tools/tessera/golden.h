/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of `tessera golden` share.
 */
#ifndef TESSERA_TOOLS_GOLDEN_H
#define TESSERA_TOOLS_GOLDEN_H

#include "core/checkpoint/checkpoint.h"
#include "tessera/train.h"

/* What training of the recorded batch gave. */
typedef struct tsr_golden_training {
  int recorded;           /* 0: nothing is recorded; the rest is zero */
  double loss_error;      /* of the loss before the first step, relative */
  double gradient_error;  /* the largest of a tensor: largest error / largest magnitude */
  const char *gradient;   /* of that tensor; lives as long as the model's checkpoint */
  int32_t gradients;      /* tensors compared */
  int32_t steps;          /* Adam's, recorded; 0: none */
  double step_error;      /* the largest relative error of the losses of these steps */
  double parameter_error; /* the largest error of a parameter after them, in units of the learning rate */
  const char *parameter;
  int passed;
} tsr_golden_training;

/* Replays FOLDER/train.safetensors: the loss and every parameter's gradient; and, where `train` of golden.json tells of
 * Adam's steps, the losses on the way and the parameters after. */
tsr_status tsr_golden_train(const char *folder, const tsr_model *model, tsr_device *device, const json_t *golden,
                            const tsr_examples *examples, tsr_golden_training *training);

#endif
