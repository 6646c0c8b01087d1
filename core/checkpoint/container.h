/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file of tensors holds, whatever its form. The forms fill it (safetensors.h, torch.h, npz.h); container_parse.h
 * tells which of them a file has.
 */
#ifndef TESSERA_CORE_CONTAINER_H
#define TESSERA_CORE_CONTAINER_H

#include "core/base/arena.h"
#include "core/checkpoint/checkpoint.h"

typedef struct tsr_container {
  tsr_checkpoint_tensor *tensors; /* in the file's order */
  int32_t count;
  tsr_arena arena;  /* names, and contents that the file holds compressed */
  json_t *metadata; /* an object of texts, or NULL */
} tsr_container;

void tsr_container_finish(tsr_container *container); /* takes a zeroed one */

/* Room for so many tensors, zeroed; of the arena. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_container_reserve(tsr_container *container, size_t count) TSR_MUST_CHECK;

/* Sets the strides of a row-major tensor of its shape. */
void tsr_container_pack(tsr_checkpoint_tensor *tensor);

#endif
