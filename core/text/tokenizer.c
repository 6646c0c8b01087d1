/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokenizer a model has.
 */
#include <string.h>

#include "core/text/marian.h"

tsr_status tsr_tokenizer_open(const tsr_model *model, tsr_tokenizer **tokenizer)
{
  static const char *const families[] = {"marian", "nn_transformer"};
  if (!model || !tokenizer)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_open: model and tokenizer must not be NULL");
  const tsr_transformer_config *config = tsr_model_config(model);
  const char *folder = tsr_model_folder(model);
  *tokenizer = NULL;
  if (folder[0] == '\0')
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_tokenizer_open: the model was made from a configuration: it has no folder to "
                    "read a tokenizer from");
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    if (strcmp(config->family, families[i]) == 0)
      return tsr_marian_open(folder, config, tokenizer);
  }
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: this build has no tokenizer for models of the family %s", folder,
                  config->family);
}

tsr_status tsr_tokenizer_open_folder(const char *folder, tsr_tokenizer **tokenizer)
{
  if (!folder || !tokenizer)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_open_folder: folder and tokenizer must not be NULL");
  return tsr_marian_open(folder, NULL, tokenizer);
}
