/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded results of other programs, which lie beside the project, not in it.
 */
#ifndef TESSERA_TESTS_SHARED_H
#define TESSERA_TESTS_SHARED_H

/* The folder `name` under TESSERA_SHARED, or under ../shared from the project's root; NULL if it is not there: the test
 * is skipped then. Valid until the next call. */
const char *shared_folder(const char *name);

#endif
