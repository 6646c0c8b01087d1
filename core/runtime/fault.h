/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a program's numbers stop to be numbers.
 */
#ifndef TESSERA_CORE_RUNTIME_FAULT_H
#define TESSERA_CORE_RUNTIME_FAULT_H

#include "tessera/runtime.h"

/* The first line of a program that makes something that is not finite out of finite numbers, or reads something that is
 * not. A masked score of -inf is no fault. */
typedef struct tsr_fault {
  int32_t line;      /* -1: there is none */
  tsr_ref tensor;    /* the tensor that is not finite */
  int32_t is_result; /* 1: a result of the line; 0: a constant, input or state that it reads */
  float value;       /* NaN, if the tensor has one; else an infinity */
  float largest;     /* magnitude of what is finite in that tensor, and in all that was looked at before */
} tsr_fault;

/* Looks for it after a run of an executable that was compiled with keep_all. states: 1: they hold numbers all of which
 * count; 0: they are not looked at, for they may hold what earlier runs left behind. Errors: the runtime's,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_fault_find(const tsr_program *program, tsr_executable *executable, int32_t states,
                          tsr_fault *fault) TSR_MUST_CHECK;

#endif
