/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing safetensors files, tensor by tensor: what is written need never lie in memory as a whole.
 */
#ifndef TESSERA_CORE_SAFETENSORS_WRITE_H
#define TESSERA_CORE_SAFETENSORS_WRITE_H

#include <jansson.h>

#include "tessera/tensor.h"

/* A tensor to be written. */
typedef struct tsr_tensor_entry {
  const char *name; /* UTF-8 */
  tsr_dtype dtype;
  tsr_shape shape;
} tsr_tensor_entry;

/* Puts elements first .. first+count-1 of entries[index], in the entry's type, into `elements` (aligned for any type).
 * Each tensor is asked for once, from its first element to its last, in pieces of at most TSR_WRITE_ELEMENTS. */
typedef tsr_status (*tsr_tensor_source_fn)(void *context, int32_t index, int64_t first, int64_t count, void *elements);

enum { TSR_WRITE_ELEMENTS = 1 << 20 };

/* Writes a file that takes the place of `path` in one step (replace.h). As the form's own writer does, it puts the
 * widest types first, then goes by name, and pads the header so that the data begin at a multiple of 8. metadata: an
 * object of texts, or NULL. Errors: TSR_ERR_ARGUMENT (two tensors of one name, a name that is not UTF-8),
 * TSR_ERR_SHAPE, TSR_ERR_DTYPE, TSR_ERR_IO, and what `read` returns; `path` is as it was then. */
tsr_status tsr_safetensors_write(const char *path, const json_t *metadata, const tsr_tensor_entry *entries,
                                 int32_t n_entries, tsr_tensor_source_fn read, void *context) TSR_MUST_CHECK;

#endif
