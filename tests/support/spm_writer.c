/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/spm_writer.h"

#include <stdlib.h>
#include <string.h>

void spm_add_piece(spm_writer *model, const char *text, size_t size, float score, int type)
{
  tsr_message_piece(model, text, size, score, type);
  if (model->failed) {
    abort();
  }
}

void spm_add_table(spm_writer *model, uint32_t claimed_size, const uint32_t *units, size_t n_units,
                   const char *replacements, size_t replacements_size)
{
  spm_writer table = {0};
  tsr_message_raw(&table, &claimed_size, sizeof claimed_size);
  tsr_message_raw(&table, units, n_units * sizeof *units);
  tsr_message_raw(&table, replacements, replacements_size);
  spm_writer normalizer = {0};
  tsr_message_bytes(&normalizer, TSR_NORMALIZER_TABLE, table.bytes, table.size);
  tsr_message_bytes(model, TSR_MODEL_NORMALIZER, normalizer.bytes, normalizer.size);
  if (table.failed || normalizer.failed || model->failed) {
    abort();
  }
  spm_finish(&normalizer);
  spm_finish(&table);
}

void spm_add_pieces(spm_writer *model, const char *const *texts, size_t n_texts)
{
  static const char unknown[] = "<unk>";
  spm_add_piece(model, unknown, sizeof unknown - 1, 0, SPM_UNKNOWN);
  for (size_t i = 0; i < n_texts; i++) {
    spm_add_piece(model, texts[i], strlen(texts[i]), -1.0f - 0.125f * (float)i, SPM_NORMAL);
  }
}

void spm_finish(spm_writer *model)
{
  tsr_message_finish(model);
}
