/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/tensors.h"

#include "tests/fuzz/fuzz.h"

static void read_tensor(const tsr_checkpoint_tensor *tensor)
{
  enum { AT_ONCE = 256, MOST = 1 << 16 };
  if (tensor->dtype == 0)
    return;
  float values[AT_ONCE];
  int numbers = tensor->dtype == TSR_F32 || tensor->dtype == TSR_F16 || tensor->dtype == TSR_BF16;
  tsr_dtype dtype = numbers ? TSR_F32 : tensor->dtype;
  int64_t elements = tsr_shape_elements(&tensor->shape);
  REQUIRE((uint64_t)elements * tsr_dtype_size(tensor->dtype) == tensor->size);
  for (int64_t first = 0; first < elements && first < MOST; first += AT_ONCE) {
    int64_t n = elements - first < AT_ONCE ? elements - first : AT_ONCE;
    REQUIRE(tsr_checkpoint_read(tensor, first, n, dtype, values) == TSR_OK);
  }
  int64_t last = elements < AT_ONCE ? elements : AT_ONCE;
  REQUIRE(tsr_checkpoint_read(tensor, elements - last, last, dtype, values) == TSR_OK);
  REQUIRE(tsr_checkpoint_read(tensor, elements, 1, dtype, values) == TSR_ERR_ARGUMENT);
}

void parse_and_read(const void *file, size_t size)
{
  tsr_checkpoint *checkpoint;
  if (tsr_checkpoint_parse("fuzz", file, size, &checkpoint) != TSR_OK) {
    REQUIRE(!checkpoint && tsr_error_message()[0]);
    return;
  }
  for (int32_t i = 0; i < tsr_checkpoint_count(checkpoint); i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    REQUIRE(tsr_checkpoint_find(checkpoint, tensor->name) == tensor);
    read_tensor(tensor);
  }
  tsr_checkpoint_close(checkpoint);
}
