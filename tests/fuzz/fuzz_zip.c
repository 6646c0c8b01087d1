/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files of torch.save and NumPy; the same input is also tried as the pickle and as the array of a good zip file, as
 * no checksum then keeps it from being read.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"
#include "tests/support/zip_writer.h"

static void read_within(const char *name, const uint8_t *data, size_t size)
{
  static const float eight[8] = {1};
  zip_writer zip = {0};
  size_t whole;
  zip_add(&zip, name, data, size, 0);
  zip_add(&zip, "data/0", eight, sizeof eight, 0);
  unsigned char *file = zip_finish(&zip, 0, &whole);
  parse_and_read(file, whole);
  free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  parse_and_read(data, size);
  read_within("data.pkl", data, size);
  read_within("w.npy", data, size);
  return 0;
}
