/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

void *tensor_bytes(const tsr_checkpoint_tensor *tensor)
{
  void *bytes = malloc(tensor->size + 1);
  assert_non_null(bytes);
  assert_int_equal(tsr_checkpoint_copy(tensor, 0, tensor->size, bytes), TSR_OK);
  return bytes;
}

void assert_same_bytes(const tsr_checkpoint_tensor *a, const tsr_checkpoint_tensor *b)
{
  assert_int_equal(a->size, b->size);
  void *left = tensor_bytes(a);
  void *right = tensor_bytes(b);
  assert_memory_equal(left, right, a->size);
  free(left);
  free(right);
}
