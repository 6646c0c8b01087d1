/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors form: 8 bytes with the header's length (unsigned, little-endian), a JSON header, data. The header
 * maps names to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from the end of the header.
 */
#ifndef TESSERA_CORE_SAFETENSORS_H
#define TESSERA_CORE_SAFETENSORS_H

#include "core/checkpoint/container.h"
#include "core/checkpoint/tensor_file.h"

#define TSR_SAFETENSORS_METADATA   "__metadata__"      /* the key of the header that names no tensor */
#define TSR_SAFETENSORS_MAX_HEADER UINT64_C(100000000) /* bytes */

/* A type as the form spells it: "F32"; NULL for a number that is none. Static. */
const char *tsr_safetensors_type(tsr_dtype dtype);

/* Fills a zeroed container, which is to be finished after an error, too. Tensors have addresses of the file, which is
 * not forgotten before. Errors: as tsr_container_parse. */
tsr_status tsr_safetensors_parse(const tsr_tensor_file *file, tsr_container *container) TSR_MUST_CHECK;

#endif
