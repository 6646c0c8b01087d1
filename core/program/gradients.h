/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient contributions: what several readers of a storage add to its gradient, put together.
 */
#ifndef TESSERA_CORE_PROGRAM_GRADIENTS_H
#define TESSERA_CORE_PROGRAM_GRADIENTS_H

#include "core/program/program.h"

/* Where a block lies in its storage, seen as an array of `n` axes, outermost first: elements digit .. digit + extent -
 * 1 of each axis of `room` elements. */
typedef struct tsr_placement {
  int32_t n;
  int64_t room[TSR_MAX_RANK + 1], digit[TSR_MAX_RANK + 1], extent[TSR_MAX_RANK + 1];
  int64_t stride[TSR_MAX_RANK + 1]; /* of the gradient along the axis */
  tsr_ref gradient;                 /* f32, whose first element is that of the block */
} tsr_placement;

/* The gradient of a part of a storage. */
typedef struct tsr_contribution {
  int32_t storage;
  tsr_placement place;
} tsr_contribution;

/* The contributions so far, in no order. */
typedef struct tsr_contributions {
  tsr_contribution *items;
  int32_t n, room;
  tsr_ref zero; /* a scalar of 0, made when it is first needed; TSR_NONE until then */
} tsr_contributions;

/* Adds the gradient of a view. What the view repeats is summed at once, and so are gradients of whole storages. Sets
 * the program's error where there is no memory, and where the view is no block of its storage. */
void tsr_contribute(tsr_program *program, tsr_contributions *contributions, tsr_ref view, tsr_ref gradient);

/* How many there are to a storage. */
int tsr_contributions_to(const tsr_contributions *contributions, int32_t storage);

/* Takes all contributions to a storage out of the list and appends the lines that put them together: the gradient of
 * the whole storage, seen with the extents of `shape`. TSR_NONE if there are none; TSR_INVALID after an error. */
tsr_ref tsr_contributions_collect(tsr_program *program, tsr_contributions *contributions, int32_t storage,
                                  const tsr_shape *shape);

void tsr_contributions_finish(tsr_contributions *contributions);

#endif
