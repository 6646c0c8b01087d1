/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files: each input once as a whole file, and once as the header of a file with a little data.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/checkpoint/checkpoint.h"

enum { DATA_SIZE = 64 };

/* Reads every byte of every tensor, so that AddressSanitizer sees one that lies outside. */
static void read_all(const tsr_checkpoint *checkpoint, const uint8_t *file, size_t size)
{
  static volatile unsigned char last;
  for (int32_t i = 0; i < tsr_checkpoint_count(checkpoint); i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    const uint8_t *bytes = tensor->bytes;
    REQUIRE(bytes >= file && bytes <= file + size && tensor->size <= (size_t)(file + size - bytes));
    REQUIRE(tsr_checkpoint_find(checkpoint, tensor->name) == tensor);
    for (size_t b = 0; b < tensor->size; b++)
      last = bytes[b];
    if (tensor->dtype != TSR_F32 && tensor->dtype != TSR_F16 && tensor->dtype != TSR_BF16)
      continue;
    (void)last;
    float values[16];
    int64_t elements = tsr_shape_elements(&tensor->shape);
    REQUIRE((uint64_t)elements * tsr_dtype_size(tensor->dtype) == tensor->size);
    int64_t count = elements < 16 ? elements : 16;
    REQUIRE(tsr_checkpoint_widen(tensor, elements - count, count, TSR_F32, values) == TSR_OK);
    REQUIRE(tsr_checkpoint_widen(tensor, elements, 1, TSR_F32, values) == TSR_ERR_ARGUMENT);
  }
}

static void parse(const uint8_t *file, size_t size)
{
  tsr_checkpoint *checkpoint;
  if (tsr_checkpoint_parse("fuzz", file, size, &checkpoint) == TSR_OK) {
    read_all(checkpoint, file, size);
  } else {
    REQUIRE(!checkpoint && tsr_error_message()[0]);
  }
  tsr_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  parse(data, size);
  uint8_t *file = calloc(8 + size + DATA_SIZE, 1);
  REQUIRE(file);
  for (int i = 0; i < 8; i++)
    file[i] = (uint8_t)((uint64_t)size >> (8 * i));
  if (size > 0)
    memcpy(file + 8, data, size);
  parse(file, 8 + size + DATA_SIZE);
  free(file);
  return 0;
}
