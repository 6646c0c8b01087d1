/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of tensors of any form, told by its first bytes.
 */
#ifndef TESSERA_CORE_CONTAINER_PARSE_H
#define TESSERA_CORE_CONTAINER_PARSE_H

#include "core/checkpoint/container.h"
#include "core/checkpoint/tensor_file.h"

/* Reads the head of a file of any form. It checks everything: after success, every element of each tensor lies within
 * the file or in the arena. The file outlives *container, which is to be finished after success, and is zeroed
 * after an error. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (what a form may hold and this build does not read),
 * TSR_ERR_IO, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_container_parse(tsr_tensor_file *file, tsr_container *container) TSR_MUST_CHECK;

/* TSR_ERR_FORMAT if a file holds what Git LFS has in place of it. */
tsr_status tsr_container_refuse_pointer(const char *path, const unsigned char *bytes, size_t size) TSR_MUST_CHECK;

#endif
