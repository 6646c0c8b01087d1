/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of tessera check share.
 */
#ifndef TESSERA_TOOLS_CHECK_H
#define TESSERA_TOOLS_CHECK_H

#include "tools/conformance/conformance.h"
#include "tools/tessera/options/options.h"

/* 1 if --variant, a glob or "all", asks for a variant of the device. */
int check_wants_variant(const char *wanted, const tsr_device *device, int32_t variant);

/* 1 if a line of the program would be executed in this variant, which is forced. */
int check_takes_variant(tsr_device *device, const tsr_program *program, int32_t variant);

/* --share and --part: number `part` of `n` parts of the cases. */
typedef struct check_share {
  int64_t n, part;
} check_share;

/* What no share leaves out on a device (largest.c). */
typedef struct check_largest {
  unsigned char *kept; /* [cases][variants + 1]; [0]: where the device chooses. NULL: nothing is kept */
  int32_t variants;    /* of the device */
} check_largest;

/* wanted: --variant, or NULL. Returns an exit code. *largest is the caller's, whatever that is. */
int check_largest_find(check_largest *largest, const check_table *table, const check_share *share, tsr_device *device,
                       const char *wanted);
int check_largest_keeps(const check_largest *largest, int32_t index, int32_t variant);
void check_largest_finish(check_largest *largest);

/* --mode compile (compile.c) */
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

/* Programs of whole models, in the shapes of those that people use (models.c), numbered from 0. */
int32_t check_model_count(void);

/* Builds number `index` as the device is given it, and writes its name. *program is the caller's. Errors: what building
 * returns. */
tsr_status check_model_program(int32_t index, tsr_device *device, char *name, size_t size,
                               tsr_program **program) TSR_MUST_CHECK;

#endif
