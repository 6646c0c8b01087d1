/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ADAM_H
#define SHADERS_CONTRACT_ADAM_H

#include "contract.h"

CONSTANT(adam, 2, flags, 0u);  /* ADAM_* */
CONSTANT(adam, 3, repeat, 0u); /* with QUADS: 1: the gradient repeats one element */

#define ADAM_DECOUPLED 1u /* AdamW */
#define ADAM_NORM      2u /* the gradients' norm is given */
#define ADAM_AVERAGE   4u /* an average is kept */

PUSH(adam)
{
  uvec4 extent;
  uvec4 gradient_stride;
  uint gradient_offset;
  uint parameter_offset;
  uint m_offset;
  uint v_offset;
  uint average_offset;
  uint control_offset;
  uint control_stride;
  uint norm_offset;
  uint count;
  float beta1;
  float beta2;
  float epsilon;
  float decay;
  float max_norm;
}
PUSH_END(adam);

#endif
