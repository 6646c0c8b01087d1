/* SPDX-License-Identifier: Apache-2.0
 *
 * model.bin of CTranslate2: each input as the file's tensors, and as the model of a folder, whose weights are read.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/transformer/model.h"
#include "tests/fuzz/tensors.h"
#include "tests/support/temporary.h"

static char *folder;

static void remove_folder(void)
{
  remove_temporary_folder(folder);
}

/* The first elements of each parameter, and its first row as it is stored. */
static void read_weights(const tsr_model *model)
{
  enum { MOST = 64 };
  float values[MOST], scale;
  for (int32_t i = 0; i < model->parameters.n; i++) {
    const tsr_parameter *p = &model->parameters.items[i];
    const int64_t elements = tsr_shape_elements(&p->shape), columns = p->shape.extent[p->shape.rank - 1];
    (void)tsr_parameter_read(p, 0, elements < MOST ? elements : MOST, TSR_F32, values);
    (void)tsr_parameter_read(p, elements - (elements < MOST ? elements : MOST), elements < MOST ? elements : MOST,
                             TSR_F32, values);
    if (p->stored == TSR_I8) {
      int8_t *row = malloc((size_t)columns + 1);
      REQUIRE(row);
      (void)tsr_parameter_read_rows(p, elements / columns - 1, 1, row, &scale);
      free(row);
    }
  }
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
