/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for errors that the library uses itself.
 */
#ifndef TESSERA_CORE_STATUS_H
#define TESSERA_CORE_STATUS_H

#include "tessera/status.h"

/* TSR_ERR_OUT_OF_MEMORY, for an allocation of `size` bytes that failed. */
tsr_status tsr_fail_memory(size_t size);

/* Puts "WHATsentence N: " before the calling thread's message, and lets tsr_error_sentence tell the number. what: "",
 * or "source of ". Returns `status` unchanged; TSR_OK passes through. */
tsr_status tsr_fail_sentence(tsr_status status, const char *what, int64_t sentence);

/* Returns from the function with the status of the expression if it is an error. For functions with nothing to clean
 * up. */
#define TSR_TRY(expression)                                                                                            \
  do {                                                                                                                 \
    tsr_status tsr_try_status = (expression);                                                                          \
    if (tsr_try_status != TSR_OK)                                                                                      \
      return tsr_try_status;                                                                                           \
  } while (0)

#endif
