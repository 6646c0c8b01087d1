/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/training_data.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/train/data.h"
#include "core/train/pool.h"

enum { MESSAGE_ROOM = 2048 };

struct tsr_training_data {
  tsr_pool_reader reader; /* the thread's while it runs */

  /* What the thread has made, under the lock. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  tsr_pool *ready;   /* the next pool; NULL: it is not made yet, or was taken */
  int32_t is_over;   /* 1: no pool follows the one that is ready: the end, or an error */
  tsr_status status; /* the error, and what it says */
  char message[MESSAGE_ROOM];

  /* The consumer's. */
  pthread_t thread;
  int32_t is_running;              /* the thread is there and has to be joined */
  tsr_training_data_position from; /* where it begins; without a pool in use also where the next batch comes from */
  tsr_pool *pool;                  /* in use, or NULL */
  int64_t batch_at;                /* of the pool: the next batch */
  int64_t index;                   /* of the stream */
  tsr_training_data_counts counts;
  int64_t counted_epoch;
  tsr_training_batch batch;
  int32_t *source; /* [batch_tokens], likewise target and labels: more no batch has */
  int32_t *target;
  int32_t *labels;
  float *features;         /* of sounds: [2 * batch_tokens * M]; else NULL */
  int32_t *source_lengths; /* [batch_tokens / step] */
  int64_t *lines;
};

/* ------------------------------------------------------------------------------------------------------------------
 * The thread
 */

/* Waits until the last pool was taken, so that no more than two are held. Returns 0 if the thread is to end. */
static int wait_for_room(tsr_training_data *data)
{
  pthread_mutex_lock(&data->lock);
  while (data->ready && !atomic_load(&data->reader.stop)) {
    pthread_cond_wait(&data->changed, &data->lock);
  }
  pthread_mutex_unlock(&data->lock);
  return !atomic_load(&data->reader.stop);
}

/* With the lock, or without the thread. Without a pool: nothing follows, because of the status. */
static void set_result(tsr_training_data *data, tsr_pool *pool, tsr_status status)
{
  data->ready = pool;
  data->is_over = !pool;
  data->status = status;
  if (status != TSR_OK) {
    snprintf(data->message, sizeof data->message, "%s", tsr_error_message());
  }
}

static void hand_over(tsr_training_data *data, tsr_pool *pool, tsr_status status)
{
  pthread_mutex_lock(&data->lock);
  set_result(data, pool, status);
  pthread_cond_broadcast(&data->changed);
  pthread_mutex_unlock(&data->lock);
}

static void *prefetch(void *argument)
{
  tsr_training_data *data = argument;
  tsr_training_data_position at = data->from;
  tsr_pool *pool;
  do {
    tsr_status status = tsr_pool_read(&data->reader, &at, &pool);
    if (pool) {
      at = pool->next;
    }
    hand_over(data, pool, status); /* from here on the pool is the consumer's */
  } while (pool && wait_for_room(data));
  return NULL;
}

static tsr_status start_thread(tsr_training_data *data)
{
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
  int failed = pthread_create(&data->thread, NULL, prefetch, data);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "training data: the system refuses a thread: %s", strerror(failed));
  }
  data->is_running = 1;
  return TSR_OK;
}

/* Afterwards nothing is ready. */
static void stop_thread(tsr_training_data *data)
{
  if (data->is_running) {
    pthread_mutex_lock(&data->lock);
    atomic_store(&data->reader.stop, 1);
    pthread_cond_broadcast(&data->changed);
    pthread_mutex_unlock(&data->lock);
    pthread_join(data->thread, NULL);
    data->is_running = 0;
  }
  atomic_store(&data->reader.stop, 0);
  tsr_pool_destroy(data->ready);
  data->ready = NULL;
  data->is_over = 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Making and unmaking
 */
static tsr_status make_room(tsr_training_data *data)
{
  size_t tokens = (size_t)data->reader.options.batch_tokens;
  size_t rows = tokens / (size_t)data->reader.options.step;
  if (data->reader.sounds.mel) {
    const size_t size = 2 * tokens * (size_t)data->reader.sounds.options.mels * sizeof *data->features;
    data->features = malloc(size);
    if (!data->features) {
      return tsr_fail_memory(size);
    }
  }
  data->source = malloc(tokens * sizeof *data->source);
  data->target = malloc(tokens * sizeof *data->target);
  data->labels = malloc(tokens * sizeof *data->labels);
  data->source_lengths = malloc(rows * sizeof *data->source_lengths);
  data->lines = malloc(rows * sizeof *data->lines);
  if (!data->source || !data->target || !data->labels || !data->source_lengths || !data->lines) {
    return tsr_fail_memory(3 * tokens * sizeof *data->source +
                           rows * (sizeof *data->source_lengths + sizeof *data->lines));
  }
  return TSR_OK;
}

tsr_status tsr_training_data_create(const tsr_training_data_options *options, tsr_training_data **data)
{
  if (!options || !data) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_data_create: options and data must not be NULL");
  }
  tsr_training_data_options known;
  *data = NULL;
  TSR_TRY(TSR_SIZED_READ(tsr_training_data_options, target_pad_id, options, &known));
  tsr_training_data *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  tsr_status status = tsr_pool_reader_open(&made->reader, &known);
  if (status == TSR_OK) {
    status = make_room(made);
  }
  if (status == TSR_OK) {
    status = start_thread(made);
  }
  if (status != TSR_OK) {
    tsr_training_data_destroy(made);
    return status;
  }
  *data = made;
  return TSR_OK;
}

void tsr_training_data_destroy(tsr_training_data *data)
{
  if (!data) {
    return;
  }
  stop_thread(data);
  tsr_pool_destroy(data->pool);
  tsr_pool_reader_finish(&data->reader);
  pthread_cond_destroy(&data->changed);
  pthread_mutex_destroy(&data->lock);
  free(data->features);
  free(data->source);
  free(data->target);
  free(data->labels);
  free(data->source_lengths);
  free(data->lines);
  free(data);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Batches
 */
/* The features of a row; pair -1: none. Returns how many labels of it do not count. */
static int32_t fill_features(tsr_training_data *data, int32_t row, int32_t pair)
{
  const tsr_sound_reader *reader = &data->reader.sounds;
  const int32_t mels = reader->options.mels, width = 2 * data->batch.source_width;
  float *features = data->features + (int64_t)row * mels * width;
  if (pair < 0) {
    memset(features, 0, (size_t)mels * (size_t)width * sizeof *features);
    return 0;
  }
  const tsr_pairs *pairs = data->pool->pairs;
  tsr_sound_fill(&pairs->sounds[pair], mels, width, features);
  tsr_sound_mask(&reader->options, data->reader.options.seed, data->pool->start.epoch, pairs->lines[pair],
                 &pairs->sounds[pair], width, features);
  return pairs->sounds[pair].prompt;
}

static void fill_row(tsr_training_data *data, int32_t row, int32_t pair)
{
  const tsr_training_data_options *o = &data->reader.options;
  const tsr_training_batch *batch = &data->batch;
  const tsr_pairs *pairs = data->pool->pairs;
  int32_t *source = data->source + (int64_t)row * batch->source_width;
  int32_t *target = data->target + (int64_t)row * batch->target_width;
  int32_t *labels = data->labels + (int64_t)row * batch->target_width;
  int32_t n_source = 0;
  int32_t n_target = 0;
  int32_t n_prompt = 0;
  if (pair >= 0) {
    n_source = tsr_pairs_source_length(pairs, pair);
    n_target = tsr_pairs_target_length(pairs, pair);
    const int32_t *ids = pairs->ids + pairs->bounds[2 * (int64_t)pair];
    const int32_t *target_ids = pairs->ids + pairs->bounds[2 * (int64_t)pair + 1];
    if (!pairs->sounds) {
      memcpy(source, ids, (size_t)n_source * sizeof *source);
    }
    memcpy(labels, target_ids, (size_t)n_target * sizeof *labels);
    target[0] = o->decoder_start_id;
    memcpy(target + 1, target_ids, ((size_t)n_target - 1) * sizeof *target);
    data->lines[row] = pairs->lines[pair];
  }
  if (pairs->sounds) {
    n_prompt = fill_features(data, row, pair);
  }
  for (int32_t i = n_source; i < batch->source_width && !pairs->sounds; i++) {
    source[i] = o->source_pad_id;
  }
  for (int32_t i = 0; i < n_prompt; i++) {
    labels[i] = -1;
  }
  for (int32_t i = n_target; i < batch->target_width; i++) {
    target[i] = o->target_pad_id;
    labels[i] = -1;
  }
  data->source_lengths[row] = n_source;
  data->batch.source_tokens += n_source;
  data->batch.target_tokens += n_target - n_prompt;
}

static void fill_batch(tsr_training_data *data, const tsr_planned_batch *planned)
{
  data->batch = (tsr_training_batch){
      .rows = tsr_batch_plan_rows(data->reader.options.batch_tokens, planned->source_width, planned->target_width),
      .sentences = planned->sentences,
      .source_width = planned->source_width,
      .target_width = planned->target_width,
      .source = data->features ? NULL : data->source,
      .source_lengths = data->features ? NULL : data->source_lengths,
      .target = data->target,
      .labels = data->labels,
      .index = data->index,
      .epoch = data->pool->start.epoch,
      .lines = data->lines,
  };
  for (int32_t row = 0; row < data->batch.rows; row++) {
    fill_row(data, row, row < planned->sentences ? data->pool->plan.order[planned->first + row] : -1);
  }
}

static void add_counts(tsr_training_data *data)
{
  const tsr_training_data_counts *of_pool = &data->pool->counts;
  if (data->pool->start.epoch != data->counted_epoch) {
    data->counts = (tsr_training_data_counts){0};
    data->counted_epoch = data->pool->start.epoch;
  }
  data->counts.read += of_pool->read;
  data->counts.kept += of_pool->kept;
  data->counts.empty += of_pool->empty;
  data->counts.too_long += of_pool->too_long;
  data->counts.uneven += of_pool->uneven;
}

/* The pool that was sought, if its batches are as many as the position says. */
static tsr_status check_sought(tsr_training_data *data)
{
  const tsr_training_data_position *from = &data->from;
  const tsr_pool *pool = data->pool;
  if (from->batch == 0 ||
      (pool->start.epoch == from->epoch && pool->start.pool == from->pool && from->batch <= pool->plan.n_batches)) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_ARGUMENT,
                  "training data: there is no batch %lld in pool %lld of epoch %lld: the position comes from other "
                  "files or options",
                  (long long)from->batch, (long long)from->pool, (long long)from->epoch);
}

static void drop_pool(tsr_training_data *data)
{
  tsr_pool_destroy(data->pool);
  data->pool = NULL;
}

/* Waits for the next pool and puts it into use. At the end, and after an error, none is in use. */
static tsr_status next_pool(tsr_training_data *data)
{
  if (data->pool) {
    data->from = data->pool->next;
    drop_pool(data);
  }
  pthread_mutex_lock(&data->lock);
  while (!data->ready && !data->is_over) {
    pthread_cond_wait(&data->changed, &data->lock);
  }
  data->pool = data->ready;
  data->ready = NULL;
  tsr_status status = data->pool ? TSR_OK : data->status;
  pthread_cond_broadcast(&data->changed);
  pthread_mutex_unlock(&data->lock);
  if (!data->pool && status == TSR_OK) {
    data->from = (tsr_training_data_position){.epoch = data->reader.options.epochs};
    return TSR_OK;
  }
  if (!data->pool) {
    return tsr_fail(status, "%s", data->message);
  }
  status = check_sought(data);
  if (status != TSR_OK) {
    stop_thread(data);
    drop_pool(data);
    set_result(data, NULL, status);
    return status;
  }
  data->batch_at = data->from.batch;
  add_counts(data);
  return TSR_OK;
}

/* Goes on to the next batch, which is *planned; NULL after the last epoch. */
static tsr_status advance(tsr_training_data *data, const tsr_planned_batch **planned)
{
  *planned = NULL;
  while (!data->pool || data->batch_at >= data->pool->plan.n_batches) {
    TSR_TRY(next_pool(data));
    if (!data->pool) {
      return TSR_OK;
    }
  }
  *planned = &data->pool->plan.batches[data->batch_at++];
  return TSR_OK;
}

tsr_status tsr_training_data_next(tsr_training_data *data, const tsr_training_batch **batch)
{
  if (!data || !batch) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_data_next: data and batch must not be NULL");
  }
  const tsr_planned_batch *planned;
  *batch = NULL;
  TSR_TRY(advance(data, &planned));
  if (planned) {
    fill_batch(data, planned);
    data->index++;
    *batch = &data->batch;
  }
  return TSR_OK;
}

tsr_status tsr_training_data_skip(tsr_training_data *data, int32_t n, int32_t *is_over)
{
  *is_over = 0;
  for (int32_t i = 0; i < n && !*is_over; i++) {
    const tsr_planned_batch *planned;
    TSR_TRY(advance(data, &planned));
    *is_over = !planned;
    data->index += planned != NULL;
  }
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Places
 */
void tsr_training_data_tell(const tsr_training_data *data, tsr_training_data_position *position)
{
  const tsr_pool *pool = data->pool;
  if (!pool) {
    *position = data->from;
  } else if (data->batch_at < pool->plan.n_batches) {
    *position = pool->start;
    position->batch = data->batch_at;
  } else {
    *position = pool->next;
  }
  position->index = data->index;
}

tsr_status tsr_training_data_seek(tsr_training_data *data, const tsr_training_data_position *position)
{
  if (!data || !position) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_data_seek: data and position must not be NULL");
  }
  const tsr_corpus_position *corpus = &position->corpus;
  if (position->epoch < 0 || position->pool < 0 || position->batch < 0 || position->index < 0 || corpus->source < 0 ||
      corpus->target < 0 || corpus->number < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: a position with negative numbers");
  }
  stop_thread(data);
  drop_pool(data);
  data->from = *position;
  data->index = position->index;
  data->counts = (tsr_training_data_counts){0};
  data->counted_epoch = position->epoch;
  tsr_status status = start_thread(data);
  if (status != TSR_OK) {
    set_result(data, NULL, status);
  }
  return status;
}

const float *tsr_training_data_features(const tsr_training_data *data)
{
  return data && data->batch.rows > 0 ? data->features : NULL;
}

void tsr_training_data_get_counts(const tsr_training_data *data, tsr_training_data_counts *counts)
{
  *counts = data->counts;
}
