/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/checkpoint.h from inside, and the JSON that lies beside checkpoints.
 */
#ifndef TESSERA_CORE_CHECKPOINT_H
#define TESSERA_CORE_CHECKPOINT_H

#include <jansson.h>

#include "tessera/checkpoint.h"

struct tsr_checkpoint_tensor {
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
};

/* tsr_checkpoint_open for the bytes of one file, in memory that the caller keeps (tests, fuzzing). `name` stands for
 * the file in messages. */
tsr_status tsr_checkpoint_parse(const char *name, const void *bytes, size_t size,
                                tsr_checkpoint **checkpoint) TSR_MUST_CHECK;

/* 1 if the folder holds weights that tsr_checkpoint_open would try to read. */
int tsr_checkpoint_exists(const char *folder);

/* A tensor of rank 2 with its axes exchanged: a view, which lives as long as the checkpoint. */
tsr_checkpoint_tensor tsr_checkpoint_transpose(const tsr_checkpoint_tensor *tensor);

/* Copies bytes at .. at+size-1 of a tensor's elements as they are stored, of whatever type; they lie within its
 * storage. Any thread. Errors: TSR_ERR_IO. */
tsr_status tsr_checkpoint_copy(const tsr_checkpoint_tensor *tensor, uint64_t at, size_t size, void *out) TSR_MUST_CHECK;

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
