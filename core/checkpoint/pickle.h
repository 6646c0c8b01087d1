/* SPDX-License-Identifier: Apache-2.0
 *
 * The pickle in a file of torch.save: a state dict, that is, names of tensors and where their elements lie in which
 * storage.
 *
 * A pickle is a program that can call anything. This reader is no interpreter: it knows the values that a state dict
 * consists of, a list of names that stand for their constructors (none of which runs anything), and refuses whatever
 * else it meets, by name and by its place in the file.
 */
#ifndef TESSERA_CORE_PICKLE_H
#define TESSERA_CORE_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "tessera/tensor.h"

/* What the elements of a storage are. */
typedef struct tsr_pickle_type {
  const char *storage; /* "FloatStorage" */
  const char *type;    /* as safetensors spells it: "F32" */
  int32_t size;        /* bytes of an element */
  tsr_dtype dtype;     /* 0: nothing can be done with it */
} tsr_pickle_type;

typedef struct tsr_pickle_tensor {
  const char *name; /* valid UTF-8, unique; of the arena, likewise the next */
  const char *key;  /* of the storage */
  const tsr_pickle_type *type;
  uint64_t elements; /* of the storage */
  uint64_t offset;   /* of the first element in it */
  int32_t rank;
  const int64_t *extents; /* [rank]; of the arena, likewise the next; all within 0 .. 2^62 */
  const int64_t *strides; /* [rank] in elements */
} tsr_pickle_tensor;

/* Reads a state dict. *tensors is of the arena, in the pickle's order. `path` is for messages, in which offsets count
 * from the pickle's first byte. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (an opcode or a global that no state dict
 * needs), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_pickle_read(const char *path, const unsigned char *bytes, size_t size, tsr_arena *arena,
                           tsr_pickle_tensor **tensors, size_t *n_tensors) TSR_MUST_CHECK;

#endif
