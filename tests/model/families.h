/* SPDX-License-Identifier: Apache-2.0
 *
 * Small folders of odd sizes of every family, with random weights.
 */
#ifndef TESSERA_TESTS_FAMILIES_H
#define TESSERA_TESTS_FAMILIES_H

#include <stdint.h>

/* Of each of them. */
enum { FAMILY_VOCABULARY = 131, FAMILY_D_MODEL = 48, FAMILY_SOURCE_POSITIONS = 17 /* of models of speech */ };

/* Contents of config.json. */
enum { N_FAMILY_CONFIGS = 23 };
extern const char *const family_configs[N_FAMILY_CONFIGS];

/* Writes the folder of a configuration: first its config.json alone, then all of it, as the library writes it. Fails
 * the test if that does not work, or what is read again differs. */
void write_family(const char *folder, const char *config);

#endif
