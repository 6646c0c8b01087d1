/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fuzz target includes: libFuzzer's entry, and the check of what must hold.
 */
#ifndef TESSERA_TESTS_FUZZ_H
#define TESSERA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                             \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      abort();                                                                                                         \
  } while (0)

#endif
