/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/checkpoint.h: tensors in files, by name: safetensors, state dicts written by torch.save (1.6 or newer), and
 * NumPy's npz.
 *
 * Files may come from strangers. Every size and offset is checked before it is used, a file may shrink while it is
 * read, and every error names the file and the tensor. Nothing in a file is executed: the reader of pickles understands
 * only what builds tensors.
 */
#ifndef TESSERA_CHECKPOINT_H
#define TESSERA_CHECKPOINT_H

#include "tessera/tensor.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_checkpoint tsr_checkpoint;
typedef struct tsr_checkpoint_tensor tsr_checkpoint_tensor; /* lives as long as its checkpoint */

/* Opens a file of tensors, whose first bytes say which format it has. Or the weights of a folder: model.safetensors,
 * else the parts that model.safetensors.index.json lists, else pytorch_model.bin, else the parts that
 * pytorch_model.bin.index.json lists. Data stays in the files until somebody reads it, except deflated entries of zip
 * files. *checkpoint is the caller's until tsr_checkpoint_close, and never changes: any number of threads. Errors:
 * TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_checkpoint_open(const char *path, tsr_checkpoint **checkpoint) TSR_MUST_CHECK;
TSR_API void tsr_checkpoint_close(tsr_checkpoint *checkpoint); /* takes NULL */

/* Checks that the files are still those that were opened. Call it after reading all tensors that you need. Any thread.
 * Errors: TSR_ERR_IO, naming the file that was written to. */
TSR_API tsr_status tsr_checkpoint_check(const tsr_checkpoint *checkpoint) TSR_MUST_CHECK;

/* The file that lists the tensors: the weights themselves, or the index of several files. */
TSR_API const char *tsr_checkpoint_path(const tsr_checkpoint *checkpoint);

/* The tensors, sorted by name. index: 0 .. count - 1. */
TSR_API int32_t tsr_checkpoint_count(const tsr_checkpoint *checkpoint);
TSR_API const tsr_checkpoint_tensor *tsr_checkpoint_at(const tsr_checkpoint *checkpoint, int32_t index);

/* The tensor of that name, or NULL. */
TSR_API const tsr_checkpoint_tensor *tsr_checkpoint_find(const tsr_checkpoint *checkpoint, const char *name);

/* The text that the file's header has under `key` (of several files: the first that has it), or NULL. Lives as long as
 * the checkpoint. */
TSR_API const char *tsr_checkpoint_metadata(const tsr_checkpoint *checkpoint, const char *key);

typedef struct tsr_checkpoint_tensor_info {
  const char *name; /* lives as long as the checkpoint */
  const char *type; /* "F32", "F64": as safetensors spells it; static */
  tsr_dtype dtype;  /* TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32; 0: listed, but it cannot be read */
  int32_t rank;     /* as stored; above TSR_MAX_RANK, dtype is 0 */
  tsr_shape shape;  /* of rank 0 if the stored rank is above TSR_MAX_RANK */
} tsr_checkpoint_tensor_info;
TSR_API void tsr_checkpoint_describe_sized(const tsr_checkpoint_tensor *tensor, tsr_checkpoint_tensor_info *info,
                                           size_t size);
static inline void tsr_checkpoint_describe(const tsr_checkpoint_tensor *tensor, tsr_checkpoint_tensor_info *info)
{
  tsr_checkpoint_describe_sized(tensor, info, sizeof *info);
}

/* Copies elements first .. first+count-1 of a tensor, counted row-major, as `dtype` (between f32, f16 and bf16; another
 * type only as itself). Any thread. Errors: TSR_ERR_DTYPE, TSR_ERR_ARGUMENT, TSR_ERR_IO (the file shrank, or cannot be
 * read), TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_checkpoint_read(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count,
                                       tsr_dtype dtype, void *out) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
