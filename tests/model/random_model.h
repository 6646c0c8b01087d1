/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models with random weights, for tests.
 */
#ifndef TESSERA_TESTS_RANDOM_MODEL_H
#define TESSERA_TESTS_RANDOM_MODEL_H

#include "tools/random/random.h"
#include "tools/random/random_model.h"

/* Writes the model into an existing folder; fails the test if that does not work. */
void random_model_write(const char *folder, const random_model *model);

#endif
