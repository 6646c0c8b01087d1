/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/memory_source.h"

#include <string.h>

static tsr_status take(void *context, void *bytes, size_t size, size_t *got)
{
  memory_source *memory = context;
  const size_t most = memory->piece > 0 && memory->piece < size ? memory->piece : size;
  *got = most < memory->size ? most : memory->size;
  memcpy(bytes, memory->bytes, *got);
  memory->bytes += *got;
  memory->size -= *got;
  return TSR_OK;
}

tsr_byte_source source_in_memory(memory_source *memory)
{
  return (tsr_byte_source){take, memory};
}
