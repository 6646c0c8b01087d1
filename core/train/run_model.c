/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a model that was trained.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/run_parts.h"
#include "core/transformer/model.h"
#include "tessera/files.h"

/* tsr_parameter_source_fn */
static tsr_status read_weights(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  const tsr_run *run = context;
  memcpy(elements, run->weights + run->offset[parameter] + first, (size_t)count * sizeof *elements);
  return TSR_OK;
}

/* Copies a file from one folder to another, if it is there. */
static tsr_status copy_file(const char *from, const char *to, const char *name)
{
  char *source = tsr_path_join(from, name), *target = tsr_path_join(to, name);
  tsr_status status = source && target ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  tsr_file file = {0};
  if (status == TSR_OK && tsr_path_exists(source)) {
    status = tsr_file_read(source, &file);
    if (status == TSR_OK) {
      status = tsr_file_replace(target, file.bytes, file.size);
    }
  }
  tsr_file_free(&file);
  free(source);
  free(target);
  return status;
}

static tsr_status copy_tokenizer(const char *from, const char *to)
{
  static const char *const files[] = {"source.spm",
                                      "target.spm",
                                      "vocab.json",
                                      "target_vocab.json",
                                      "tokenizer_config.json",
                                      "merges.txt",
                                      "spiece.model",
                                      "tokenizer.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "sentencepiece.bpe.model",
                                      "spm.model",
                                      "normalizer.json"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    TSR_TRY(copy_file(from, to, files[i]));
  }
  return TSR_OK;
}

tsr_status tsr_run_write_model(tsr_run *run, const char *folder, tsr_dtype storage, int32_t beam)
{
  const tsr_training_options *training = run->options->training;
  tsr_save_options options = {TSR_SIZED(tsr_save_options),
                              .storage = storage,
                              .beam = beam,
                              .dropout = training->dropout,
                              .attention_dropout = training->attention_dropout,
                              .activation_dropout = training->activation_dropout};
  if (folder == run->options->folder && run->options->tokenizer_folder) {
    TSR_TRY(copy_tokenizer(run->options->tokenizer_folder, folder));
  }
  TSR_TRY(tsr_model_save(run->model, folder, &options, read_weights, run));
  return run->model->config.mels > 0 ? tsr_run_write_speech(run, folder, beam) : TSR_OK;
}
