/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that are killed while they write.
 */
#ifndef TESSERA_TESTS_KILLED_H
#define TESSERA_TESTS_KILLED_H

#include <stdint.h>

/* Does its work again and again, and calls killed_lap(laps) after each time; returns on an error only. */
typedef void (*killed_fn)(void *context, int laps);

void killed_lap(int laps);

/* Runs `work` in a process of its own and kills it (SIGKILL) at a random moment, after the first time and before about
 * the third. Fails the test if the process ended by itself. The moment follows from `seed` and from how long the work
 * takes. */
void kill_at_work(killed_fn work, void *context, uint32_t seed);

#endif
