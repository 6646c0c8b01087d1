/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that fails when it is told to: the reference, for tests that link it, as a backend `failing`. What it still
 * does is the same for all devices of the process.
 */
#ifndef TESSERA_TESTS_FAILING_H
#define TESSERA_TESTS_FAILING_H

#include <stdint.h>

#include "tessera/runtime.h"

enum { FAILING_NEVER = INT32_MAX };

/* Puts the backend into a runtime. */
void register_failing(tsr_runtime *runtime);

/* From now on n runs succeed; then the device is lost with each. FAILING_NEVER is what holds at first. Any thread. */
void fail_after_runs(int32_t n);

/* From now on n buffers are made; then there is no room for another. Likewise. */
void fail_after_buffers(int32_t n);

#endif
