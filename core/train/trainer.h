/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run with several ranks asks of its trainer: the gradients of one batch, their sums in and out, and the update
 * that the sums give.
 */
#ifndef TESSERA_CORE_TRAIN_TRAINER_H
#define TESSERA_CORE_TRAIN_TRAINER_H

#include "tessera/train.h"

/* The sums, in buckets: their number, at least 1, and the elements until the end of each, gaps that count for nothing
 * among them. */
int32_t tsr_trainer_bucket_count(const tsr_trainer *trainer);
const int64_t *tsr_trainer_bucket_ends(const tsr_trainer *trainer);

/* Copies a whole bucket out or in. Errors: the device's. */
tsr_status tsr_trainer_bucket_read(tsr_trainer *trainer, int32_t bucket, float *values) TSR_MUST_CHECK;
tsr_status tsr_trainer_bucket_write(tsr_trainer *trainer, int32_t bucket, const float *values) TSR_MUST_CHECK;

/* Told of each bucket as soon as it is whole and can be read, in their order; the device may be computing the next
 * ones. An error ends the step. */
typedef tsr_status (*tsr_whole_bucket_fn)(void *user, int32_t bucket);

/* Forward and backward of one batch, whose gradients become the sums. *result as after tsr_trainer_step. */
tsr_status tsr_trainer_differentiate(tsr_trainer *trainer, const tsr_examples *examples,
                                     const tsr_step_control *control, tsr_whole_bucket_fn whole, void *user,
                                     tsr_step_result *result) TSR_MUST_CHECK;

/* The update with the sums, of batches with so many tokens and that loss, all together: what the last tsr_trainer_step
 * of an update does, bit for bit. *result has the loss and the tokens of all. */
tsr_status tsr_trainer_apply(tsr_trainer *trainer, const tsr_step_control *control, double loss, int64_t tokens,
                             tsr_step_result *result) TSR_MUST_CHECK;

/* One kind of what is kept, of all parameters, as one array with gaps that count for nothing: its elements, and copies
 * out and in. what: TSR_TRAINED_PARAMETER. first + n is at most their number. Errors: the device's. */
int64_t tsr_trainer_array_count(const tsr_trainer *trainer);
tsr_status tsr_trainer_array_read(tsr_trainer *trainer, int32_t what, int64_t first, int64_t n,
                                  float *values) TSR_MUST_CHECK;
tsr_status tsr_trainer_array_write(tsr_trainer *trainer, int32_t what, int64_t first, int64_t n,
                                   const float *values) TSR_MUST_CHECK;

/* ---- optimizer's states that are shared out ---------------------------------------------------------------------- */

/* As tsr_trainer_create, for rank `rank` of `size`: it updates its share of the parameters, those whose bytes lie in
 * that part of the array, and keeps the moments and averages of these alone. Rank 0 has room for all averages, so that
 * it can evaluate them. bucket: elements of a bucket, at least, but for the last: of steps, only
 * tsr_trainer_differentiate and tsr_trainer_apply work then; 0: gradients stay on the device, and these two do not
 * work. */
tsr_status tsr_trainer_create_share(const tsr_model *model, tsr_device *device, const tsr_training_options *options,
                                    tsr_device *fallback, int32_t rank, int32_t size, int64_t bucket,
                                    tsr_trainer **trainer) TSR_MUST_CHECK;

/* The rank whose share has a parameter. */
int32_t tsr_trainer_owner(const tsr_trainer *trainer, int32_t index);

/* Where the share of a rank begins in the array, in elements; for rank `size`: its end. */
int64_t tsr_trainer_share_first(const tsr_trainer *trainer, int32_t rank);

/* The statistics of the layers [tsr_trainer_layer_count], to be sent or replaced. */
tsr_layer_statistics *tsr_trainer_layers(tsr_trainer *trainer);

#endif
