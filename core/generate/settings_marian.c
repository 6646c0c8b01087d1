/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of the search as Marian-NMT's decoder.yml has them.
 */
#include "core/base/status.h"
#include "core/checkpoint/decoder_yml.h"
#include "core/checkpoint/json.h"
#include "core/generate/settings.h"
#include "core/transformer/model.h"

/* Settings that change results and that this build does not have. */
static const char *const refused[] = {"force-decode", "output-approx-knn", "output-sampling", "shortlist"};

static tsr_status refuse(const tsr_config *file)
{
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    const json_t *value = json_object_get(file->root, refused[i]);
    int is_empty =
        !value || json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0);
    if (!is_empty) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' is %s; this build does not have this setting; remove it",
                      file->path, refused[i], tsr_json_show(value).text);
    }
  }
  return TSR_OK;
}

static tsr_status apply(tsr_config *file, const tsr_model *model, tsr_generate_options *options)
{
  const tsr_transformer_config *config = &model->config;
  int32_t allow_unk = 0;
  options->search = TSR_SEARCH_MARIAN;
  options->beam = 12;
  options->length_penalty = 0.0f;
  options->max_length = config->max_positions;
  tsr_config_int(file, "beam-size", 1, TSR_MAX_BEAM, &options->beam);
  tsr_config_float(file, "normalize", 0.0, 1e6, &options->length_penalty);
  tsr_config_float(file, "word-penalty", -1e6, 1e6, &options->word_penalty);
  tsr_config_float(file, "max-length-factor", 1e-3, 1e6, &options->max_length_factor);
  tsr_config_bool(file, "allow-unk", &allow_unk);
  if (!allow_unk && config->unk_id >= 0) {
    options->n_suppressed = 1;
    TSR_TRY(tsr_model_keep_ids(model, &config->unk_id, options->n_suppressed, &options->suppressed));
  }
  TSR_TRY(refuse(file));
  return tsr_config_status(file);
}

tsr_status tsr_generate_marian(const tsr_model *model, tsr_generate_options *options)
{
  tsr_config file;
  TSR_TRY(tsr_marian_npz_settings(model->folder, &file));
  tsr_status status = apply(&file, model, options);
  tsr_config_finish(&file);
  return status;
}
