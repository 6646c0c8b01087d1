/* SPDX-License-Identifier: Apache-2.0
 *
 * How folders of CTranslate2 and packages of Argos are searched: as their runtimes do unless they are told otherwise.
 */
#include "core/base/status.h"
#include "core/checkpoint/package.h"
#include "core/generate/settings.h"
#include "core/transformer/model.h"

enum { BEAM = 2, ARGOS_BEAM = 4, LENGTH = 256 /* tokens of an output, without the start token */ };

tsr_status tsr_generate_ctranslate2(const tsr_model *model, tsr_generate_options *options)
{
  tsr_package *package = NULL;
  TSR_TRY(tsr_package_open(model->folder, &package));
  const int is_argos = tsr_package_is_argos(package);
  tsr_package_close(package);
  options->search = TSR_SEARCH_CTRANSLATE2;
  options->beam = is_argos ? ARGOS_BEAM : BEAM;
  options->length_penalty = is_argos ? 0.2f : 1.0f;
  options->max_length = model->config.max_positions < LENGTH ? model->config.max_positions + 1 : LENGTH + 1;
  options->min_length = 2;
  return TSR_OK;
}
