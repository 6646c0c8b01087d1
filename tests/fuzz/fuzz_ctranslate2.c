/* SPDX-License-Identifier: Apache-2.0
 *
 * model.bin of CTranslate2: each input as the file's tensors, and as the model of a folder, whose weights are read.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tests/fuzz/tensors.h"
#include "tests/fuzz/weights.h"
#include "tests/support/temporary.h"

static char *folder;

static void remove_folder(void)
{
  remove_temporary_folder(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char vocabulary[] = "<unk>\n<s>\n</s>\na\nb\n";
  tsr_model *model = NULL;
  if (!folder) {
    folder = make_temporary_folder();
    atexit(remove_folder);
    write_file(path_in(folder, "shared_vocabulary.txt"), vocabulary, sizeof vocabulary - 1);
  }
  parse_and_read(data, size);
  write_file(path_in(folder, "model.bin"), data, size);
  if (tsr_model_open(folder, &model) != TSR_OK) {
    REQUIRE(!model && tsr_error_message()[0]);
    return 0;
  }
  if (model->checkpoint) {
    read_weights(model);
  }
  tsr_model_close(model);
  return 0;
}
