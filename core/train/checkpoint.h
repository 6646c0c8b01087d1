/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a training on disk: named f32 tensors (parameters, moments, averages) and a JSON object of scalars
 * (step, seeds, place in the data) in one safetensors file, with a checksum of each, which takes the place of an older
 * one in one step (replace.h): what is there after a crash is complete, and fits together.
 *
 * A training's folder holds last.safetensors, best.safetensors and, to be averaged, step-NUMBER.safetensors of the
 * latest steps that were kept.
 */
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_H
#define TESSERA_CORE_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "tessera/tensor.h"

typedef struct tsr_state_tensor {
  const char *name;
  tsr_shape shape;
} tsr_state_tensor;

/* Puts the n elements of tensors[index] into `elements`. */
typedef tsr_status (*tsr_state_source_fn)(void *context, int32_t index, float *elements, int64_t n);

/* Takes them. */
typedef tsr_status (*tsr_state_sink_fn)(void *context, int32_t index, const float *elements, int64_t n);

/* Writes a state. Memory: the largest tensor and a few MB. scalars: numbers, texts and what else JSON has; integers
 * beyond 63 bits have to be texts. Errors: TSR_ERR_IO, TSR_ERR_ARGUMENT, what `read` returns; the old file stands
 * then. */
tsr_status tsr_training_save(const char *path, const tsr_state_tensor *tensors, int32_t n_tensors,
                             const json_t *scalars, tsr_state_source_fn read, void *context) TSR_MUST_CHECK;

/* Reads one that holds exactly these tensors. Nothing is handed over before everything was checked. *scalars
 * (json_decref) is the caller's after success. Errors: TSR_ERR_IO; TSR_ERR_FORMAT (a torn, damaged or foreign file, a
 * tensor that is missing, not expected, or of another shape or type, by name); what `write` returns. */
tsr_status tsr_training_load(const char *path, const tsr_state_tensor *tensors, int32_t n_tensors,
                             tsr_state_sink_fn write, void *context, json_t **scalars) TSR_MUST_CHECK;

/* Reads the mean of these tensors in several states, summed in double in the order of the paths; tensors beside them
 * are left alone. One state: its tensors as they are. Errors: as above. */
tsr_status tsr_training_average(const char *const *paths, int32_t n_paths, const tsr_state_tensor *tensors,
                                int32_t n_tensors, tsr_state_sink_fn write, void *context) TSR_MUST_CHECK;

/* "folder/step-000000000123.safetensors", or the last or the best; allocated, the caller frees it. NULL without memory,
 * the message being set. */
enum { TSR_TRAINING_LAST = -1, TSR_TRAINING_BEST = -2 };
char *tsr_training_path(const char *folder, int64_t step);

/* The steps whose files are in the folder, ascending. *steps is allocated (free). A folder that is not there has none.
 * Errors: TSR_ERR_IO. */
tsr_status tsr_training_steps(const char *folder, int64_t **steps, int32_t *n_steps) TSR_MUST_CHECK;

/* Removes the files of all steps but the `kept` latest, and what killed processes left of such files. Errors:
 * TSR_ERR_IO. */
tsr_status tsr_training_prune(const char *folder, int32_t kept) TSR_MUST_CHECK;

#endif
