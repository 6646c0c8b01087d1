/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors form: 8 bytes with the header's length (unsigned, little-endian), a JSON header, data. The header
 * maps names to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from the end of the header.
 */
#ifndef TESSERA_CORE_SAFETENSORS_H
#define TESSERA_CORE_SAFETENSORS_H

#include "core/checkpoint/checkpoint.h"

#define TSR_SAFETENSORS_METADATA   "__metadata__"      /* the key of the header that names no tensor */
#define TSR_SAFETENSORS_MAX_HEADER UINT64_C(100000000) /* bytes */

typedef struct tsr_safetensors {
  tsr_checkpoint_tensor *tensors; /* in the header's order */
  int32_t count;
  char *names;      /* what tensors[].name point into */
  json_t *metadata; /* an object of texts, or NULL */
} tsr_safetensors;

/* Checks everything: after success each tensor's bytes lie within bytes[0 .. size), no two overlap, and together they
 * fill the data. `path` (for messages) and `bytes` outlive *file. Call tsr_safetensors_finish after success. Errors:
 * TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_safetensors_parse(const char *path, const void *bytes, size_t size,
                                 tsr_safetensors *file) TSR_MUST_CHECK;
void tsr_safetensors_finish(tsr_safetensors *file); /* takes a zeroed one */

/* A type as the form spells it: "F32"; NULL for a number that is none. Static. */
const char *tsr_safetensors_type(tsr_dtype dtype);

#endif
