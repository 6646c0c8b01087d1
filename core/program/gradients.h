/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient contributions: what several readers of a storage add to its gradient, put together.
 */
#ifndef TESSERA_CORE_PROGRAM_GRADIENTS_H
#define TESSERA_CORE_PROGRAM_GRADIENTS_H

#include "core/program/program.h"

/* The gradient of one view of a storage. */
typedef struct tsr_contribution {
  int32_t storage;
  tsr_ref view;     /* what was read */
  tsr_ref gradient; /* f32, of the view's extents */
} tsr_contribution;

/* The contributions so far, in no order. */
typedef struct tsr_contributions {
  tsr_contribution *items;
  int32_t n, room;
  tsr_ref zero; /* a scalar of 0, made when it is first needed; TSR_NONE until then */
} tsr_contributions;

/* Adds one. Sets the program's error where there is no memory. */
void tsr_contribute(tsr_program *program, tsr_contributions *contributions, tsr_ref view, tsr_ref gradient);

/* Takes all contributions to a storage out of the list and appends the lines that put them together: the gradient of the
 * whole storage, seen with the extents of `shape`. TSR_NONE if there are none; TSR_INVALID after an error. */
tsr_ref tsr_contributions_collect(tsr_program *program, tsr_contributions *contributions, int32_t storage,
                                  const tsr_shape *shape);

void tsr_contributions_finish(tsr_contributions *contributions);

#endif
