/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a model of NLLB's family with random weights: write_large_model FOLDER [VOCABULARY [D_MODEL [LAYERS]]]. The
 * defaults are NLLB-200's (600M): 256206, 1024, 12. To translate with it, put a tokenizer beside it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/model/large_model.h"

static int32_t argument(int argc, char **argv, int index, int32_t fallback)
{
  return argc > index ? (int32_t)strtol(argv[index], NULL, 10) : fallback;
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    fprintf(stderr, "Usage: write_large_model FOLDER [VOCABULARY [D_MODEL [LAYERS]]]\n");
    return 2;
  }
  int32_t d_model = argument(argc, argv, 3, 1024);
  large_model model = {.vocabulary = argument(argc, argv, 2, 256206),
                       .d_model = d_model,
                       .d_ff = 4 * d_model,
                       .heads = d_model % 64 == 0 ? d_model / 64 : 1,
                       .layers = argument(argc, argv, 4, 12),
                       .positions = 1024};
  if (large_model_write(argv[1], &model) != TSR_OK) {
    fprintf(stderr, "%s\n", tsr_error_message());
    return 1;
  }
  return 0;
}
