/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs the cases of tessera check: the thread that chooses them, or several, each with devices of its own. A
 * driver's compiler works in one thread at a time for a device, and on a GPU most of a check's time is the compiler's.
 *
 * The cases and their results are the same either way, and come in the same order; only where --minutes ends a check
 * do several get further.
 */
#ifndef TESSERA_TOOLS_CHECK_WORKERS_H
#define TESSERA_TOOLS_CHECK_WORKERS_H

#include "tools/conformance/conformance.h"

/* A case on one device, in one variant. */
typedef struct check_try {
  int32_t device;  /* by its place among the devices that are checked */
  int32_t variant; /* forced; 0: none */
  int32_t is_run;  /* 0: the device was asked whether it executes the case, and no more */
  check_result result;
} check_try;

/* A case and all that is tried of it: one answer of the reference serves all tries. */
typedef struct check_unit {
  const check_case *test;
  tsr_program *program;
  check_try *tries;
  int32_t n_tries;
  int32_t is_over; /* 1: the results are there */
  struct check_unit *next;
} check_unit;

/* Appends a try. Returns NULL without memory. */
check_try *check_unit_add(check_unit *unit);
void check_unit_destroy(check_unit *unit);

typedef struct check_workers check_workers;

/* devices: [n_devices], which the calling thread uses, and where n_threads is 0 the cases run on; borrowed, as is
 * `runtime`, from which each thread opens its own devices of the same names. A thread that cannot open them does
 * nothing; without any, the calling thread runs all. Returns an exit code. *workers is the caller's. */
int check_workers_create(tsr_runtime *runtime, check_device *reference, check_device *const *devices, int32_t n_devices,
                         uint64_t seed, int32_t n_threads, check_workers **workers);

/* Ends the threads; units that nobody took are lost. NULL: nothing. */
void check_workers_destroy(check_workers *workers);

/* Takes a unit over and has it run. Waits until every unit before it was begun. */
void check_workers_give(check_workers *workers, check_unit *unit);

/* The unit that was given first, if it is over; is_patient: waits for that. The caller owns it. NULL: it is not over,
 * or there is none. */
check_unit *check_workers_take(check_workers *workers, int32_t is_patient);

#endif
