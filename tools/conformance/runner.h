/* SPDX-License-Identifier: Apache-2.0
 *
 * One case in one device's memory: what oracle.c and measure.c build on.
 */
#ifndef TESSERA_CONFORMANCE_RUNNER_H
#define TESSERA_CONFORMANCE_RUNNER_H

#include "tools/conformance/conformance.h"

/* What operands hold in one run: bytes per storage of the program, NULL for those that nobody writes. */
typedef struct check_contents {
  void **bytes;
  int32_t count;
} check_contents;

tsr_status check_contents_init(check_contents *contents, const check_build *build, uint64_t seed,
                               int32_t run) TSR_MUST_CHECK;
void check_contents_finish(check_contents *contents);

/* A case compiled for a device, and where its tensors lie in the device's arena. */
typedef struct check_execution {
  check_device *device;
  tsr_executable *executable;
  int64_t *offset;      /* of each storage in the arena; -1: the runtime placed it */
  int64_t size;         /* bytes of the arena in use */
  unsigned char *image; /* what was written to the arena */
  unsigned char *found; /* what it holds after the last run */
  int32_t pattern;      /* of the image */
  int32_t has_operands; /* 1: the image holds those of run 0 */
  int32_t is_written;   /* 1: the arena holds the image; a run may change it */
} check_execution;

/* Writes the operands of run 0 and compiles. */
tsr_status check_execution_init(check_execution *execution, const check_build *build, const check_contents *contents,
                                check_device *device, int32_t keep_all, int32_t profile) TSR_MUST_CHECK;
void check_execution_finish(check_execution *execution);

/* Writes the pattern (0 or 1) everywhere and the operands of run 0 over it. */
tsr_status check_execution_start(check_execution *execution, const check_build *build, const check_contents *contents,
                                 int32_t pattern) TSR_MUST_CHECK;

/* Runs, with new inputs where `fresh` is 1, and reads the arena back. */
tsr_status check_execution_run(check_execution *execution, const check_build *build, const check_contents *contents,
                               int32_t fresh) TSR_MUST_CHECK;

/* The bytes of a storage after a run, within `found`; NULL if the runtime placed it. */
const void *check_execution_found(const check_execution *execution, int32_t storage);

/* The bytes of a storage after a run, wherever it lies. */
tsr_status check_execution_result(check_execution *execution, const check_build *build, int32_t storage,
                                  void *bytes) TSR_MUST_CHECK;

/* 1 if everything but the results is as it was written. */
int check_execution_guards(const check_execution *execution, const check_build *build, char *message, size_t size);

/* The tensor that is the whole of a storage. */
tsr_ref check_storage_tensor(const tsr_program_desc *program, int32_t storage);

#endif
