/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tensors of a checkpoint are made of.
 */
#ifndef TESSERA_TESTS_BYTES_H
#define TESSERA_TESTS_BYTES_H

#include "core/checkpoint/checkpoint.h"

/* A tensor's bytes as they are stored, which the caller frees. The tensor is packed. */
void *tensor_bytes(const tsr_checkpoint_tensor *tensor);

void assert_same_bytes(const tsr_checkpoint_tensor *a, const tsr_checkpoint_tensor *b);

#endif
