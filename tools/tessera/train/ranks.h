/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a training: whether there are others, and what of the machine each takes.
 */
#ifndef TESSERA_TOOLS_RANKS_H
#define TESSERA_TOOLS_RANKS_H

#include "tessera/comm.h"
#include "tessera/runtime.h"
#include "tools/tessera/train/recipe.h"

/* To be called before the first message: that of one rank is enough where all have the same error. */
void ranks_begin(void);

/* Joins the other ranks, if mpirun or srun started several, or the recipe says so; *comm is NULL without. The number
 * of batches of an update, where nothing is said, becomes that of the ranks. */
int ranks_join(recipe *r, tsr_comm **comm);

/* The runtime, of which this rank takes its share of the machine's processors. */
int ranks_runtime(const tsr_comm *comm, tsr_runtime **runtime);

/* Opens the device of this rank: of several names, the one of its number on the machine; of none, one of the machine's
 * GPUs that are alike. */
int ranks_device(const tsr_comm *comm, tsr_runtime *runtime, const char *names, tsr_device **device);

#endif
