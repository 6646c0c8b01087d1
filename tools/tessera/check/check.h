/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of tessera check share.
 */
#ifndef TESSERA_TOOLS_CHECK_H
#define TESSERA_TOOLS_CHECK_H

#include "tools/conformance/conformance.h"
#include "tools/tessera/options/options.h"

/* 1 if --variant, a glob or "all", asks for a form of the device. */
int check_wants_form(const char *variant, const tsr_device *device, int32_t form);

/* 1 if a line of the program would be executed in this form, which is forced. */
int check_takes_form(tsr_device *device, const tsr_program *program, int32_t form);

/* --mode compile (check_compile.c) */
typedef struct check_compile_request {
  const char *ops;     /* as in --help, each may be NULL */
  const char *only;    /* --case */
  const char *variant; /* --variant */
  int64_t share;
  int32_t verbose, as_json;
} check_compile_request;

/* Has the devices (none: all that are found but the reference) make the kernels of all cases and of the programs of
 * some models, and runs none. Returns an exit code. */
int check_compile(const check_compile_request *request, const check_table *table, tsr_runtime *runtime,
                  const tsr_names *names);

/* Programs of whole models, in the shapes of those that people use (check_models.c), numbered from 0. */
int32_t check_model_count(void);

/* Builds number `index` as the device is given it, and writes its name. *program is the caller's. Errors: what building returns. */
tsr_status check_model_program(int32_t index, tsr_device *device, char *name, size_t size,
                               tsr_program **program) TSR_MUST_CHECK;

#endif
