/* SPDX-License-Identifier: Apache-2.0
 *
 * Where recordings lie: in tests/data/goldens, or in the folder that TESSERA_GOLDENS names.
 */
#ifndef TESSERA_TESTS_GOLDENS_H
#define TESSERA_TESTS_GOLDENS_H

/* The path of a recording, valid until the next call. NULL if the folder that TESSERA_GOLDENS names lacks it, which may
 * have some of the recordings alone. */
const char *golden_path(const char *source_root, const char *name);

#endif
