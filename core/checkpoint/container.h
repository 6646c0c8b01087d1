/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file of tensors holds, whatever its form.
 */
#ifndef TESSERA_CORE_CONTAINER_H
#define TESSERA_CORE_CONTAINER_H

#include "core/base/arena.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/source.h"
#include "core/checkpoint/zip.h"

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

/* Reads the head of a file of any form. It checks everything: after success, every element of each tensor lies within the
 * source or in the arena. The source outlives *container, which is to be finished after success, and is zeroed after an
 * error. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (what a form may hold and this build does not read), TSR_ERR_IO,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_container_parse(tsr_source *source, tsr_container *container) TSR_MUST_CHECK;

/* The forms, by which a zeroed container is filled; it is to be finished after an error, too. Tensors have addresses of the
 * source, which is not forgotten before. */
tsr_status tsr_safetensors_parse(const tsr_source *source, tsr_container *container) TSR_MUST_CHECK;
/* A state dict that torch.save of version 1.6 or newer wrote: a zip file with a pickle and the storages of tensors. */
tsr_status tsr_torch_parse(const tsr_zip *zip, tsr_container *container) TSR_MUST_CHECK;
/* A zip file of NumPy arrays. */
tsr_status tsr_npz_parse(const tsr_zip *zip, tsr_container *container) TSR_MUST_CHECK;

#endif
