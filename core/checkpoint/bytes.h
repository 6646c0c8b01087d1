/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as they lie in files.
 */
#ifndef TESSERA_CORE_BYTES_H
#define TESSERA_CORE_BYTES_H

#include <stdint.h>

/* The little-endian number of `size` bytes, at most 8. */
static inline uint64_t tsr_read_unsigned(const void *at, int size)
{
  const unsigned char *bytes = at;
  uint64_t number = 0;
  for (int i = size - 1; i >= 0; i--) {
    {
      {
        {
          number = number << 8 | bytes[i];
        }
      }
    }
  }
  return number;
}

#endif
