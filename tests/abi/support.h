/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of core/runtime share.
 */
#ifndef TESSERA_TESTS_ABI_SUPPORT_H
#define TESSERA_TESTS_ABI_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/ops.h"
#include "tessera/runtime.h"

/* The file of a plugin that the build made: "template", "reference", or "broken-NAME". TESSERA_TEST_TEMPLATE stands in
 * for the template's. Valid until the eighth call after this one. */
const char *plugin_file(const char *name);

/* The folder of that file. Likewise. */
const char *plugin_folder(const char *name);

/* A runtime with these plugins and no others; NULL ends the list. Never fails. */
tsr_runtime *runtime_with(const char *first, ...);

/* The device must open. */
tsr_device *open_device(tsr_runtime *runtime, const char *name);

/* Fails unless the calling thread's message holds the fragment. */
void assert_message(const char *fragment);
void assert_status(tsr_status status, tsr_status expected);
#define assert_ok(status) assert_status((status), TSR_OK)

/* Fails unless a problem of that status holds the fragment in its message. */
void assert_problem(const tsr_runtime *runtime, tsr_status status, const char *fragment);

/* Runs relu(a + b) on a device and checks the result: the process is healthy. */
void assert_device_works(tsr_device *device);

/* The same on template:0 of a runtime of its own. */
void assert_healthy(void);

#endif
