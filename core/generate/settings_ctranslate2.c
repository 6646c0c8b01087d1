/* SPDX-License-Identifier: Apache-2.0
 *
 * How folders of CTranslate2 and packages of Argos are searched: as their runtimes do unless they are told otherwise.
 */
#include "core/base/status.h"
#include "core/checkpoint/package.h"
#include "core/generate/settings.h"
#include "core/transformer/model.h"

enum { BEAM = 2, ARGOS_BEAM = 4, LENGTH = 256 /* tokens of an output, without the start token */ };

/* The token that a package has its outputs begin with, if it says one. */
static tsr_status read_prefix(const tsr_package *package, const tsr_model *model, int32_t *id)
{
  tsr_config metadata;
  tsr_package_vocabulary vocabulary = {0};
  TSR_TRY(tsr_package_config(package, TSR_PACKAGE_ROOT, "metadata.json", &metadata));
  const char *prefix = "";
  tsr_config_text(&metadata, "target_prefix", &prefix);
  tsr_status status = tsr_config_status(&metadata);
  if (status == TSR_OK && prefix[0]) {
    /* An unknown one is <unk>, as any piece is. */
    status = tsr_package_read_vocabulary(package, 1, "<unk>", &vocabulary);
    *id = status == TSR_OK ? tsr_package_vocabulary_find(&vocabulary, prefix) : -1;
    *id = *id < 0 || *id >= model->config.target_vocabulary ? model->config.unk_id : *id;
  }
  tsr_package_vocabulary_finish(&vocabulary);
  tsr_config_finish(&metadata);
  return status;
}

tsr_status tsr_generate_ctranslate2(const tsr_model *model, tsr_generate_options *options)
{
  tsr_package *package = NULL;
  TSR_TRY(tsr_package_open(model->folder, &package));
  const int is_argos = tsr_package_is_argos(package);
  tsr_status status = is_argos ? read_prefix(package, model, &options->forced_bos_id) : TSR_OK;
  tsr_package_close(package);
  TSR_TRY(status);
  options->search = TSR_SEARCH_CTRANSLATE2;
  options->beam = is_argos ? ARGOS_BEAM : BEAM;
  options->length_penalty = is_argos ? 0.2f : 1.0f;
  options->max_length = model->config.max_positions < LENGTH ? model->config.max_positions + 1 : LENGTH + 1;
  options->min_length = 2;
  return TSR_OK;
}
