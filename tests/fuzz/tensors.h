/* SPDX-License-Identifier: Apache-2.0
 *
 * What every reader of tensors has to stand: that they are read.
 */
#ifndef TESSERA_TESTS_FUZZ_TENSORS_H
#define TESSERA_TESTS_FUZZ_TENSORS_H

#include "core/checkpoint/checkpoint.h"

/* Parses the file; if it is accepted, reads the elements of every tensor, so that AddressSanitizer sees one that lies
 * outside. */
void parse_and_read(const void *file, size_t size);

#endif
