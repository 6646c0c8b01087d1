/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_CORE_CLOCK_H
#define TESSERA_CORE_CLOCK_H

/* Seconds of a monotonic clock, from any start. Any thread. */
double tsr_seconds(void);

#endif
