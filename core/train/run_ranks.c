/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run does that several ranks share: an update whose gradients leave the device, and what the ranks have to
 * agree on. Alone, a run does the same with nobody else where its gradients are rounded.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/status.h"
#include "core/train/data.h"
#include "core/train/run_parts.h"
#include "core/train/trainer.h"

/* Another rank has found an error, tells it and ends all. */
static tsr_status wait_for_end(const tsr_run *run, int32_t other)
{
  TSR_TRY(tsr_comm_barrier(run->options->comm));
  return tsr_fail(TSR_ERR_CANCELLED, "rank %d ended the training", (int)other);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* What has to be the same on all ranks, or they would wait for each other in vain. */
typedef struct settings {
  int64_t elements, buckets, accumulate, steps, epochs, save_every, log_every, averages, shards;
  uint64_t seed;
} settings;

static tsr_status compare_settings(const tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  const int32_t n_buckets = tsr_trainer_bucket_count(run->trainer);
  const settings mine = {.elements = tsr_trainer_bucket_ends(run->trainer)[n_buckets - 1],
                         .buckets = n_buckets,
                         .accumulate = run->accumulate,
                         .steps = o->steps,
                         .epochs = o->data->epochs,
                         .save_every = run->save_every,
                         .log_every = run->log_every,
                         .averages = o->training->average,
                         .shards = run->is_sharded,
                         .seed = o->seed};
  settings first = mine;
  TSR_TRY(tsr_comm_broadcast(o->comm, &first, sizeof first, 0));
  if (memcmp(&first, &mine, sizeof mine) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "this rank trains with other settings, or another model, than rank 0: all ranks "
                                      "need the same recipe");
  }
  return TSR_OK;
}

/* 1 if the state of a parameter is in this rank's trainer, up to date. */
static int has_state(const tsr_run *run, int32_t what, int32_t index)
{
  return !run->is_sharded || what == TSR_TRAINED_PARAMETER || tsr_trainer_owner(run->trainer, index) == run->rank;
}

/* One kind of what the trainers keep becomes that of rank 0, where a rank has room for it. */
static tsr_status share_kind(tsr_run *run, int32_t what)
{
  for (int32_t i = 0; i < run->n; i++) {
    float *values = run->weights + run->offset[i];
    const int64_t n = run->offset[i + 1] - run->offset[i];
    if (run->rank == 0) {
      TSR_TRY(tsr_trainer_read(run->trainer, what, i, values, n));
    }
    TSR_TRY(tsr_comm_broadcast(run->options->comm, values, n * (int64_t)sizeof *values, 0));
    if (run->rank != 0 && has_state(run, what, i)) {
      TSR_TRY(tsr_trainer_write(run->trainer, what, i, values, n));
    }
  }
  return TSR_OK;
}

tsr_status tsr_run_share_state(tsr_run *run, int32_t *found)
{
  tsr_comm *comm = run->options->comm;
  if (tsr_comm_size(comm) == 1) {
    return TSR_OK;
  }
  TSR_TRY(tsr_comm_broadcast(comm, found, sizeof *found, 0));
  TSR_TRY(tsr_comm_broadcast(comm, &run->progress, sizeof run->progress, 0));
  for (int32_t what = 0; what < TSR_TRAINED_COUNT; what++) {
    const int is_moment = what == TSR_TRAINED_M || what == TSR_TRAINED_V;
    const int is_kept = what != TSR_TRAINED_AVERAGE || run->options->training->average;
    /* Shares of the moments were sent as they were read. */
    if (is_kept && (!is_moment || (*found && !run->is_sharded))) {
      TSR_TRY(share_kind(run, what));
    }
  }
  return TSR_OK;
}

/* Elements of a bucket. Each costs a message, and a start of the device; the last one travels when nothing is left to
 * compute. */
static int64_t bucket_of(const tsr_run *run)
{
  enum { MOST_BUCKETS = 8, LEAST = 1 << 16, MOST = 1 << 22 };
  const int64_t share = run->offset[run->n] / MOST_BUCKETS;
  if (tsr_comm_size(run->options->comm) == 1) {
    return INT64_MAX; /* there is nobody to whom they would travel */
  }
  if (run->options->bucket > 0) {
    return run->options->bucket;
  }
  return share < LEAST ? LEAST : share > MOST ? MOST : share;
}

tsr_status tsr_run_open_ranks(tsr_run *run)
{
  const tsr_training_run_options *o = run->options;
  const int32_t size = tsr_comm_size(o->comm);
  run->is_shared = size > 1 || o->gradients == TSR_BF16;
  run->is_sharded = size > 1 && o->shard;
  TSR_TRY(tsr_trainer_create_share(run->model, run->device, o->training, run->fallback, run->is_sharded ? run->rank : 0,
                                   run->is_sharded ? size : 1, run->is_shared ? bucket_of(run) : 0, &run->trainer));
  if (!run->is_shared) {
    return TSR_OK;
  }
  TSR_TRY(compare_settings(run));
  const tsr_dtype dtype = o->gradients ? o->gradients : TSR_F32;
  return tsr_sum_stream_open(&run->stream, o->comm, dtype, tsr_trainer_bucket_ends(run->trainer),
                             tsr_trainer_bucket_count(run->trainer), 0);
}

void tsr_run_finish_ranks(tsr_run *run)
{
  tsr_sum_stream_finish(&run->stream);
}

/* ---- an update --------------------------------------------------------------------------------------------------- */

/* What a rank tells of its batch in a round. */
typedef struct batch_report {
  double loss;
  int64_t tokens, epoch;
  int32_t is_finite, is_over; /* is_over: 1: there is no such batch */
} batch_report;

/* An update under way. */
typedef struct sharing {
  tsr_step_control *control;
  tsr_run_made *made;
  tsr_examples examples; /* of this rank's batch, likewise the next two */
  const tsr_training_batch *batch;
  tsr_step_result result;
  int32_t behind; /* batches of other ranks between this rank's place in the stream and the round's end */
  int32_t given;  /* buckets of the round */
} sharing;

/* What is in the function's user. */
typedef struct giving {
  tsr_run *run;
  sharing *sharing;
} giving;

/* The message of a batch that is not finite, from the rank that has the batch. */
static tsr_status fail_at(tsr_run *run, const sharing *s, int32_t rank)
{
  return rank == run->rank ? tsr_run_fail_at_fault(run, &s->examples, s->batch, s->control, &s->result)
                           : wait_for_end(run, rank);
}

/* A bucket's values in the stream. */
static float *values_of(const tsr_run *run, int32_t bucket)
{
  return run->stream.values + (bucket > 0 ? tsr_trainer_bucket_ends(run->trainer)[bucket - 1] : 0);
}

/* tsr_whole_bucket_fn */
static tsr_status give_bucket(void *user, int32_t bucket)
{
  const giving *g = user;
  TSR_TRY(tsr_trainer_bucket_read(g->run->trainer, bucket, values_of(g->run, bucket)));
  g->sharing->given++;
  return tsr_sum_stream_give(&g->run->stream);
}

/* This rank's batch of a round: the gradients are on their way then. */
static tsr_status compute_batch(tsr_run *run, sharing *s, batch_report *report)
{
  TSR_TRY(tsr_training_data_next(run->data, &s->batch));
  if (!s->batch) {
    report->is_over = 1;
    return TSR_OK;
  }
  TSR_TRY(tsr_run_examples(run, run->data, s->batch, &s->examples));
  s->control->seed = tsr_run_dropout_seed(run, s->batch);
  giving g = {run, s};
  TSR_TRY(tsr_trainer_differentiate(run->trainer, &s->examples, s->control, give_bucket, &g, &s->result));
  *report = (batch_report){
      .loss = s->result.loss, .tokens = s->result.tokens, .epoch = s->batch->epoch, .is_finite = s->result.is_finite};
  return TSR_OK;
}

/* Takes what the ranks tell, in the order of their batches. */
static tsr_status take_reports(tsr_run *run, const sharing *s, const batch_report *reports, int32_t n_batches)
{
  for (int32_t i = 0; i < n_batches; i++) {
    if (reports[i].is_over) {
      s->made->is_over = 1;
      return TSR_OK;
    }
    if (!reports[i].is_finite) {
      return fail_at(run, s, i);
    }
    s->made->loss += reports[i].loss;
    s->made->tokens += reports[i].tokens;
    s->made->epoch = reports[i].epoch;
  }
  return TSR_OK;
}

/* Gives what this rank did not compute, as the data are over or the round has fewer batches: the others do not read it,
 * or the update is not made. Then waits until all is added. After the last round the sums come to the device one by
 * one. */
static tsr_status end_round(tsr_run *run, sharing *s, int32_t is_last)
{
  const int32_t n = tsr_trainer_bucket_count(run->trainer);
  for (; s->given < n; s->given++) {
    TSR_TRY(tsr_sum_stream_give(&run->stream));
  }
  for (int32_t i = 0; i < n; i++) {
    TSR_TRY(tsr_sum_stream_await(&run->stream, i));
    TSR_TRY(is_last ? tsr_trainer_bucket_write(run->trainer, i, values_of(run, i)) : TSR_OK);
  }
  return TSR_OK;
}

/* One batch of each rank, or of the first n_batches ranks. */
static tsr_status compute_round(tsr_run *run, sharing *s, int32_t n_batches, int32_t is_first, int32_t is_last)
{
  const int32_t size = tsr_comm_size(run->options->comm), has_batch = run->rank < n_batches;
  batch_report mine = {.is_finite = 1}, *reports = calloc((size_t)size, sizeof *reports);
  if (!reports) {
    return tsr_fail_memory((size_t)size * sizeof *reports);
  }
  tsr_status status = tsr_training_data_skip(run->data, s->behind + (has_batch ? run->rank : n_batches), &mine.is_over);
  s->behind = has_batch ? n_batches - 1 - run->rank : 0;
  s->given = 0;
  tsr_sum_stream_begin(&run->stream, n_batches, is_first, is_last);
  if (status == TSR_OK && has_batch && !mine.is_over) {
    status = compute_batch(run, s, &mine);
  }
  if (status == TSR_OK) {
    status = end_round(run, s, is_last);
  }
  if (status == TSR_OK) {
    status = tsr_comm_gather(run->options->comm, &mine, sizeof mine, reports);
  }
  if (status == TSR_OK) {
    status = take_reports(run, s, reports, n_batches);
  }
  free(reports);
  return status;
}

/* Each rank sends the parameters that it has updated. */
static tsr_status gather_parameters(tsr_run *run)
{
  const int32_t size = tsr_comm_size(run->options->comm);
  for (int32_t rank = 0; rank < size; rank++) {
    const int64_t end = tsr_trainer_share_first(run->trainer, rank + 1), most = run->offset[run->n];
    for (int64_t at = tsr_trainer_share_first(run->trainer, rank); at < end; at += most) {
      float *values = run->weights;
      const int64_t n = end - at < most ? end - at : most;
      if (rank == run->rank) {
        TSR_TRY(tsr_trainer_array_read(run->trainer, TSR_TRAINED_PARAMETER, at, n, values));
      }
      TSR_TRY(tsr_comm_broadcast(run->options->comm, values, n * (int64_t)sizeof *values, rank));
      if (rank != run->rank) {
        TSR_TRY(tsr_trainer_array_write(run->trainer, TSR_TRAINED_PARAMETER, at, n, values));
      }
    }
  }
  return TSR_OK;
}

/* The update with the gradients of all rounds. */
static tsr_status apply(tsr_run *run, sharing *s)
{
  tsr_step_result result;
  TSR_TRY(tsr_trainer_apply(run->trainer, s->control, s->made->loss, s->made->tokens, &result));
  s->made->gradient_norm = result.gradient_norm;
  s->made->is_finite = result.is_finite;
  if (!result.is_finite && !tsr_run_can_skip(run, &result)) {
    return fail_at(run, s, (run->accumulate - 1) % tsr_comm_size(run->options->comm));
  }
  return run->is_sharded && result.is_finite ? gather_parameters(run) : TSR_OK;
}

tsr_status tsr_run_compute_shared(tsr_run *run, tsr_step_control *control, tsr_run_made *made)
{
  const int32_t size = tsr_comm_size(run->options->comm);
  sharing s = {.control = control, .made = made};
  for (int32_t first = 0; first < run->accumulate; first += size) {
    const int32_t left = run->accumulate - first;
    TSR_TRY(compute_round(run, &s, left < size ? left : size, first == 0, left <= size));
    if (made->is_over) {
      return TSR_OK;
    }
  }
  TSR_TRY(apply(run, &s));
  int32_t is_over;
  return tsr_training_data_skip(run->data, s.behind, &is_over);
}

tsr_status tsr_run_share_layers(tsr_run *run)
{
  const int32_t size = tsr_comm_size(run->options->comm);
  const int64_t bytes = tsr_trainer_layer_count(run->trainer) * (int64_t)sizeof(tsr_layer_statistics);
  return tsr_comm_broadcast(run->options->comm, tsr_trainer_layers(run->trainer), bytes, (run->accumulate - 1) % size);
}

/* ---- what the ranks agree on ------------------------------------------------------------------------------------- */

tsr_status tsr_run_agree(tsr_run *run, tsr_run_plan *plan)
{
  tsr_comm *comm = run->options->comm;
  const int32_t size = tsr_comm_size(comm);
  const int32_t is_stopping = plan->reason == TSR_TRAINING_END_STOPPED;
  if (size == 1) {
    return TSR_OK;
  }
  tsr_run_plan *plans = calloc((size_t)size, sizeof *plans);
  if (!plans) {
    return tsr_fail_memory((size_t)size * sizeof *plans);
  }
  plan->is_stopping = is_stopping;
  tsr_status status = tsr_comm_gather(comm, plan, sizeof *plan, plans);
  if (status == TSR_OK) {
    *plan = plans[0];
  }
  for (int32_t i = 0; i < size && status == TSR_OK && plan->reason == 0; i++) {
    plan->reason = plans[i].is_stopping ? TSR_TRAINING_END_STOPPED : 0;
  }
  free(plans);
  return status;
}

static tsr_status checksum_parameters(tsr_run *run, uint64_t *checksum)
{
  uLong sum = 0;
  for (int32_t i = 0; i < run->n; i++) {
    float *values = run->weights + run->offset[i];
    const int64_t n = run->offset[i + 1] - run->offset[i];
    TSR_TRY(tsr_trainer_read(run->trainer, TSR_TRAINED_PARAMETER, i, values, n));
    sum = crc32_z(sum, (const unsigned char *)values, (size_t)n * sizeof *values);
  }
  *checksum = sum;
  return TSR_OK;
}

tsr_status tsr_run_compare_parameters(tsr_run *run)
{
  tsr_comm *comm = run->options->comm;
  const int32_t size = tsr_comm_size(comm);
  if (size == 1) {
    return TSR_OK;
  }
  uint64_t mine = 0, *all = calloc((size_t)size, sizeof *all);
  if (!all) {
    return tsr_fail_memory((size_t)size * sizeof *all);
  }
  tsr_status status = checksum_parameters(run, &mine);
  if (status == TSR_OK) {
    status = tsr_comm_gather(comm, &mine, sizeof mine, all);
  }
  for (int32_t i = 1; i < size && status == TSR_OK; i++) {
    if (all[i] != all[0]) {
      status = i == run->rank
                   ? tsr_fail(TSR_ERR_UNSUPPORTED,
                              "step %lld: the parameters of this rank, on %s, are no longer those of rank 0: the "
                              "ranks' devices compute differently; they have to be of one kind, with one driver",
                              (long long)run->progress.step, tsr_device_name(run->device))
                   : wait_for_end(run, i);
    }
  }
  free(all);
  return status;
}

/* ---- states that are with other ranks ---------------------------------------------------------------------------- */

enum { REQUEST_END, REQUEST_READ, REQUEST_WRITE };

/* What rank 0 asks of the others. */
typedef struct request {
  int32_t kind; /* REQUEST_* */
  int32_t what, index;
} request;

static tsr_status ask(tsr_run *run, int32_t kind, int32_t what, int32_t index)
{
  request asked = {.kind = kind, .what = what, .index = index};
  return tsr_comm_broadcast(run->options->comm, &asked, sizeof asked, 0);
}

/* The values of a parameter go from the owner to rank 0, or from rank 0 to the owner; all ranks see them. */
static tsr_status answer(tsr_run *run, const request *asked)
{
  float *values = run->weights + run->offset[asked->index];
  const int64_t n = run->offset[asked->index + 1] - run->offset[asked->index];
  const int32_t owner = tsr_trainer_owner(run->trainer, asked->index), is_reading = asked->kind == REQUEST_READ;
  if (is_reading && owner == run->rank) {
    TSR_TRY(tsr_trainer_read(run->trainer, asked->what, asked->index, values, n));
  }
  TSR_TRY(tsr_comm_broadcast(run->options->comm, values, n * (int64_t)sizeof *values, is_reading ? owner : 0));
  return !is_reading && owner == run->rank ? tsr_trainer_write(run->trainer, asked->what, asked->index, values, n)
                                           : TSR_OK;
}

tsr_status tsr_run_serve(tsr_run *run)
{
  request asked = {.kind = REQUEST_READ};
  while (run->is_sharded && asked.kind != REQUEST_END) {
    TSR_TRY(tsr_comm_broadcast(run->options->comm, &asked, sizeof asked, 0));
    TSR_TRY(asked.kind != REQUEST_END ? answer(run, &asked) : TSR_OK);
  }
  return TSR_OK;
}

tsr_status tsr_run_end_service(tsr_run *run)
{
  return run->is_sharded ? ask(run, REQUEST_END, 0, 0) : TSR_OK;
}

tsr_status tsr_run_read_kept(tsr_run *run, int32_t what, int32_t index, float *values, int64_t n)
{
  if (has_state(run, what, index)) {
    return tsr_trainer_read(run->trainer, what, index, values, n);
  }
  TSR_TRY(ask(run, REQUEST_READ, what, index));
  TSR_TRY(tsr_comm_broadcast(run->options->comm, values, n * (int64_t)sizeof *values,
                             tsr_trainer_owner(run->trainer, index)));
  /* Rank 0 evaluates the averages. */
  return what == TSR_TRAINED_AVERAGE ? tsr_trainer_write(run->trainer, what, index, values, n) : TSR_OK;
}

tsr_status tsr_run_write_kept(tsr_run *run, int32_t what, int32_t index, const float *values, int64_t n)
{
  if (has_state(run, what, index) || what == TSR_TRAINED_AVERAGE) {
    return tsr_trainer_write(run->trainer, what, index, values, n);
  }
  float *copy = run->weights + run->offset[index]; /* what is sent may not be const */
  memcpy(copy, values, (size_t)n * sizeof *copy);
  TSR_TRY(ask(run, REQUEST_WRITE, what, index));
  return tsr_comm_broadcast(run->options->comm, copy, n * (int64_t)sizeof *copy, 0);
}
