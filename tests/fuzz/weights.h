/* SPDX-License-Identifier: Apache-2.0
 *
 * What the targets share that open a model's folder.
 */
#ifndef TESSERA_TESTS_FUZZ_WEIGHTS_H
#define TESSERA_TESTS_FUZZ_WEIGHTS_H

#include "core/transformer/model.h"

/* Reads the first and the last elements of each parameter, and its last row as it is stored, after it made sure that
 * the tensors have so many. */
void read_weights(const tsr_model *model);

/* Writes the folder of a small model whose matrices are stored as `storage`. */
void write_small_model(const char *folder, tsr_dtype storage);

#endif
