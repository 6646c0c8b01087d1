/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading checkpoints: tensors by name; and the JSON that lies beside them.
 *
 * Files come from strangers. Every size and offset is checked before it is used, a file may shrink while it is read,
 * and every error names the file and the tensor or key.
 */
#ifndef TESSERA_CORE_CHECKPOINT_H
#define TESSERA_CORE_CHECKPOINT_H

#include <jansson.h>

#include "tessera/tensor.h"

typedef struct tsr_checkpoint tsr_checkpoint;

typedef struct tsr_checkpoint_tensor {
  const char *name; /* lives as long as the checkpoint */
  tsr_dtype dtype;  /* TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32; 0: listed, but nothing can be done with it */
  const char *type; /* "F32", "F64": as safetensors spells it; static */
  int32_t rank;     /* as stored; above TSR_MAX_RANK, dtype is 0 */
  tsr_shape shape;  /* of rank 0 if the stored rank is above TSR_MAX_RANK */
  const void
      *bytes;  /* the first element, if the elements are in memory; may be unaligned. NULL: they are in the file */
  uint64_t at; /* of the first element in the file; 0 if `bytes` is set */
  size_t size; /* of all elements; they follow one another, unless the strides say otherwise */
  int64_t strides[TSR_MAX_RANK];      /* in elements; a tensor of PyTorch may be a transposed view of what is stored */
  const char *path;                   /* the file that holds it */
  const struct tsr_tensor_file *file; /* likewise, open; NULL if `bytes` is set */
} tsr_checkpoint_tensor;

/* Opens a file of tensors, whose form its first bytes tell: safetensors, what torch.save (1.6 or newer) makes of a
 * state dict, or NumPy's npz. Or the weights of a folder: model.safetensors, else the parts that
 * model.safetensors.index.json lists, else pytorch_model.bin, else the parts that pytorch_model.bin.index.json lists.
 * What lies in the files as it is (all but deflated entries of zip files) stays there until somebody reads it.
 * *checkpoint is the caller's until tsr_checkpoint_close;
 * immutable: any number of threads. Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_checkpoint_open(const char *path, tsr_checkpoint **checkpoint) TSR_MUST_CHECK;

/* The same for the bytes of one file, in memory that the caller keeps (tests, fuzzing). `name` stands for the file in
 * messages. */
tsr_status tsr_checkpoint_parse(const char *name, const void *bytes, size_t size,
                                tsr_checkpoint **checkpoint) TSR_MUST_CHECK;

void tsr_checkpoint_close(tsr_checkpoint *checkpoint); /* takes NULL */

/* Whether the files are still those that were opened: to be asked when all tensors that are needed were read. Any
 * thread.
 * Errors: TSR_ERR_IO, naming the file that was written to. */
tsr_status tsr_checkpoint_check(const tsr_checkpoint *checkpoint) TSR_MUST_CHECK;

/* 1 if the folder holds weights that tsr_checkpoint_open would try to read. */
int tsr_checkpoint_exists(const char *folder);

/* The file that tells which tensors there are: the weights themselves, or the index of several files. */
const char *tsr_checkpoint_path(const tsr_checkpoint *checkpoint);

/* The tensors, sorted by name. index: 0 .. count - 1. */
int32_t tsr_checkpoint_count(const tsr_checkpoint *checkpoint);
const tsr_checkpoint_tensor *tsr_checkpoint_at(const tsr_checkpoint *checkpoint, int32_t index);

/* The tensor of that name, or NULL. */
const tsr_checkpoint_tensor *tsr_checkpoint_find(const tsr_checkpoint *checkpoint, const char *name);

/* What the file's header says beside its tensors (of several files: the first that says it), or NULL. Lives as long as
 * the checkpoint. */
const char *tsr_checkpoint_metadata(const tsr_checkpoint *checkpoint, const char *key);

/* A tensor of rank 2 with its axes exchanged: a view, which lives as long as the checkpoint. */
tsr_checkpoint_tensor tsr_checkpoint_transpose(const tsr_checkpoint_tensor *tensor);

/* Copies bytes at .. at+size-1 of a tensor's elements as they are stored, of whatever type; they lie within its
 * storage. Any
 * thread. Errors: TSR_ERR_IO. */
tsr_status tsr_checkpoint_copy(const tsr_checkpoint_tensor *tensor, uint64_t at, size_t size, void *out) TSR_MUST_CHECK;

/* Elements first .. first+count-1 of a tensor, counted row-major, as `dtype` (between f32, f16 and bf16; another type
 * only as itself).
 * Any thread. Errors: TSR_ERR_DTYPE, TSR_ERR_ARGUMENT, TSR_ERR_IO (the file shrank, or cannot be read),
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_checkpoint_widen(const tsr_checkpoint_tensor *tensor, int64_t first, int64_t count, tsr_dtype dtype,
                                void *out) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * JSON objects read from a file (config.json). Duplicate keys, trailing text and broken UTF-8 are errors. A key that is
 * absent or null keeps *value as it was (the default). The first error is kept: after it the getters do nothing, and
 * tsr_config_status tells. A config belongs to one thread at a time.
 */
typedef struct tsr_config {
  char *path; /* for messages */
  json_t *root;
  tsr_status status; /* first error of the getters */
  char message[512]; /* of that error */
} tsr_config;

/* *config is zeroed on failure, and to be finished after success. Errors: TSR_ERR_IO, TSR_ERR_FORMAT. */
tsr_status tsr_config_open(const char *path, tsr_config *config) TSR_MUST_CHECK;
tsr_status tsr_config_parse(const char *name, const char *text, size_t size, tsr_config *config) TSR_MUST_CHECK;
void tsr_config_finish(tsr_config *config); /* takes a zeroed one */

/* Getters: each checks the type and the range low .. high; the message names file, key, what was expected and what was
 * found. */
void tsr_config_int(tsr_config *config, const char *key, int64_t low, int64_t high, int32_t *value);
void tsr_config_float(tsr_config *config, const char *key, double low, double high, float *value);
void tsr_config_bool(tsr_config *config, const char *key, int32_t *value);
/* *value points into the config and lives as long. */
void tsr_config_text(tsr_config *config, const char *key, const char **value);
int tsr_config_has(const tsr_config *config, const char *key); /* 1: present and not null */
/* The getters' first error, with its message as the thread's. */
tsr_status tsr_config_status(const tsr_config *config) TSR_MUST_CHECK;

#endif
