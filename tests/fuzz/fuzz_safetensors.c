/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files: each input once as a whole file, and once as the header of a file with a little data.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tests/fuzz/tensors.h"

enum { DATA_SIZE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  parse_and_read(data, size);
  uint8_t *file = calloc(8 + size + DATA_SIZE, 1);
  REQUIRE(file);
  for (int i = 0; i < 8; i++)
    file[i] = (uint8_t)((uint64_t)size >> (8 * i));
  if (size > 0)
    memcpy(file + 8, data, size);
  parse_and_read(file, 8 + size + DATA_SIZE);
  free(file);
  return 0;
}
