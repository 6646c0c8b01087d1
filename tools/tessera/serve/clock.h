/* SPDX-License-Identifier: Apache-2.0
 *
 * A steady clock, and waiting by it.
 */
#ifndef TESSERA_SERVE_CLOCK_H
#define TESSERA_SERVE_CLOCK_H

#include <pthread.h>
#include <time.h>

double clock_seconds(void);

/* The time so many seconds from now, for conditions of clock_condition. */
struct timespec clock_until(double seconds);

/* Initialises a condition that waits by the steady clock. */
void clock_condition(pthread_cond_t *condition);

#endif
