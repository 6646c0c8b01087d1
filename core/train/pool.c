/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"

enum {
  DEFAULT_EXAMPLES = 100000,
  DEFAULT_LENGTH = 256,
  DEFAULT_STEP = 4,
  DEFAULT_POOL = 131072,
  MAX_BATCH_TOKENS = 1 << 24,
  MAX_LENGTH = 1 << 14,
  MAX_POOL = 1 << 26
};

/* ------------------------------------------------------------------------------------------------------------------
 * Options
 */
static tsr_status check_range(const char *what, int64_t value, int64_t low, int64_t high)
{
  if (value < low || value > high) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: %s is %lld, expected %lld .. %lld", what, (long long)value,
                    (long long)low, (long long)high);
  }
  return TSR_OK;
}

/* Defaults for zeros, then checks. */
static tsr_status complete_options(tsr_training_data_options *o, const tsr_training_sounds *sounds)
{
  o->step = o->step ? o->step : DEFAULT_STEP;
  o->pool = o->pool ? o->pool : DEFAULT_POOL;
  o->task_examples = o->task_examples ? o->task_examples : DEFAULT_EXAMPLES;
  TSR_TRY(check_range("the step of widths", o->step, 1, MAX_LENGTH));
  TSR_TRY(check_range("the tokens of a batch", o->batch_tokens, o->step, MAX_BATCH_TOKENS));
  int32_t longest = o->batch_tokens / o->step * o->step;
  longest = longest < MAX_LENGTH ? longest : MAX_LENGTH;
  int32_t usual = longest < DEFAULT_LENGTH ? longest : DEFAULT_LENGTH;
  const int32_t longest_source = o->sounds ? o->batch_tokens : longest; /* no window is rounded up */
  o->max_source = o->max_source ? o->max_source : o->sounds ? sounds->positions : usual;
  o->max_target = o->max_target ? o->max_target : usual;
  TSR_TRY(check_range("the longest source, which has to fit into a batch,", o->max_source, 1, longest_source));
  TSR_TRY(check_range("the longest target, which has to fit into a batch,", o->max_target, 1, longest));
  TSR_TRY(check_range("the size of a pool", o->pool, 1, MAX_POOL));
  TSR_TRY(check_range("the examples of an epoch", o->task_examples, 1, INT64_MAX));
  TSR_TRY(check_range("the number of epochs", o->epochs, 0, INT64_MAX));
  if (!(o->max_ratio >= 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: the largest ratio of lengths is %g, expected 0 or more",
                    o->max_ratio);
  }
  return TSR_OK;
}

static tsr_status open_task(tsr_pool_reader *reader, const tsr_toy_task *task)
{
  TSR_TRY(tsr_toy_task_check(task));
  reader->task = *task;
  for (int side = 0; side < 2; side++) {
    size_t size = ((size_t)task->max_length + 1) * sizeof *reader->example[side];
    reader->example[side] = malloc(size);
    if (!reader->example[side]) {
      return tsr_fail_memory(size);
    }
  }
  return TSR_OK;
}

static tsr_status open_files(tsr_pool_reader *reader, const tsr_training_data_options *options)
{
  if (!options->files.source || !options->tokenizer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: expected files and a tokenizer, or a task");
  }
  reader->name = strdup(options->files.source);
  if (!reader->name) {
    return tsr_fail_memory(strlen(options->files.source) + 1);
  }
  if (options->sounds) {
    TSR_TRY(tsr_sound_reader_open(&reader->sounds, options, options->files.source));
  }
  return tsr_corpus_open(&options->files, &reader->corpus);
}

tsr_status tsr_pool_reader_open(tsr_pool_reader *reader, const tsr_training_data_options *options)
{
  reader->options = *options;
  if (options->sounds) {
    TSR_TRY(TSR_SIZED_READ(tsr_training_sounds, plugins_path, options->sounds, &reader->sounds.options));
  }
  TSR_TRY(complete_options(&reader->options, &reader->sounds.options));
  return options->task ? open_task(reader, options->task) : open_files(reader, options);
}

void tsr_pool_reader_finish(tsr_pool_reader *reader)
{
  tsr_corpus_close(reader->corpus);
  tsr_pairs_finish(&reader->whole);
  tsr_sound_reader_finish(&reader->sounds);
  free(reader->name);
  for (int side = 0; side < 2; side++) {
    free(reader->example[side]);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Pairs
 */

/* Adds the pair to the pool, or counts why not. */
static tsr_status add_pair(const tsr_training_data_options *o, tsr_pool *pool, const int32_t *source, int32_t n_source,
                           const int32_t *target, int32_t n_target, int64_t line)
{
  pool->counts.read++;
  if (n_source <= 1 || n_target <= 1) { /* no more than </s> */
    pool->counts.empty++;
    return TSR_OK;
  }
  if (n_source > o->max_source || n_target > o->max_target) {
    pool->counts.too_long++;
    return TSR_OK;
  }
  int32_t longer = n_source > n_target ? n_source : n_target;
  int32_t shorter = n_source > n_target ? n_target : n_source;
  if (o->max_ratio > 0 && longer > o->max_ratio * shorter) {
    pool->counts.uneven++;
    return TSR_OK;
  }
  pool->counts.kept++;
  return tsr_pairs_add(&pool->own, source, n_source, target, n_target, line);
}

static tsr_status add_text(const tsr_pool_reader *reader, tsr_pool *pool, const tsr_corpus_pair *pair)
{
  const tsr_tokenizer *tokenizer = reader->options.tokenizer;
  int32_t *source = NULL;
  int32_t *target = NULL;
  int32_t n_source;
  int32_t n_target;
  tsr_status status = tsr_tokenizer_encode(tokenizer, pair->source, pair->source_size, &source, &n_source);
  if (status == TSR_OK) {
    status = tsr_tokenizer_encode_target(tokenizer, pair->target, pair->target_size, &target, &n_target);
  }
  if (status == TSR_OK) {
    status = add_pair(&reader->options, pool, source, n_source, target, n_target, pair->number);
  } else {
    status = tsr_fail_context(status, "%s, pair %lld", reader->name, (long long)pair->number);
  }
  tsr_free(source);
  tsr_free(target);
  return status;
}

/* The sound's values are taken over, or freed. */
static tsr_status add_sound(const tsr_training_data_options *o, tsr_pool *pool, tsr_pair_sound *sound, int32_t is_long,
                            const int32_t *target, int32_t n_target, int64_t line)
{
  tsr_status status = TSR_OK;
  pool->counts.read++;
  if (is_long || (sound->frames + 1) / 2 > o->max_source || n_target > o->max_target) {
    pool->counts.too_long++;
  } else if (n_target - sound->prompt <= 1) {
    pool->counts.empty++;
  } else {
    pool->counts.kept++;
    status = tsr_pairs_add_sound(&pool->own, sound, target, n_target, line);
    sound->values = status == TSR_OK ? NULL : sound->values;
  }
  free(sound->values);
  return status;
}

static tsr_status add_heard(tsr_pool_reader *reader, tsr_pool *pool, const tsr_corpus_pair *pair)
{
  tsr_span language, task;
  tsr_pair_sound sound;
  int32_t *target, n_target, is_long;
  tsr_corpus_column(reader->corpus, 3, &language.bytes, &language.size);
  tsr_corpus_column(reader->corpus, 4, &task.bytes, &task.size);
  tsr_status status = tsr_sound_read(&reader->sounds, pair, language, task, &sound, &is_long, &target, &n_target);
  if (status != TSR_OK) {
    return tsr_fail_context(status, "%s, pair %lld", reader->name, (long long)pair->number);
  }
  status = add_sound(&reader->options, pool, &sound, is_long, target, n_target, pair->number);
  free(target);
  return status;
}

static int is_full(const tsr_pool_reader *reader, const tsr_pool *pool)
{
  return pool->own.n == reader->options.pool || atomic_load(&reader->stop);
}

/* Both fill a pool from its start, and set where the next one begins and whether the data ended. */
static tsr_status read_corpus(tsr_pool_reader *reader, tsr_pool *pool, int32_t *end)
{
  tsr_corpus_position *at = &pool->next.corpus;
  tsr_corpus_tell(reader->corpus, at);
  if (at->source != pool->start.corpus.source || at->target != pool->start.corpus.target ||
      at->number != pool->start.corpus.number) {
    TSR_TRY(tsr_corpus_seek(reader->corpus, &pool->start.corpus));
  }
  while (!is_full(reader, pool)) {
    tsr_corpus_pair pair;
    TSR_TRY(tsr_corpus_next(reader->corpus, &pair, end));
    if (*end) {
      break;
    }
    TSR_TRY(reader->sounds.mel ? add_heard(reader, pool, &pair) : add_text(reader, pool, &pair));
  }
  tsr_corpus_tell(reader->corpus, at);
  return TSR_OK;
}

static tsr_status read_task(tsr_pool_reader *reader, tsr_pool *pool, int32_t *end)
{
  const tsr_training_data_options *o = &reader->options;
  uint64_t first =
      reader->task.set == TSR_TOY_TASK_TRAINING ? (uint64_t)pool->start.epoch * (uint64_t)o->task_examples : 0;
  int64_t number = pool->start.corpus.number;
  for (; !is_full(reader, pool) && number < o->task_examples; number++) {
    int32_t length =
        tsr_toy_task_example(&reader->task, first + (uint64_t)number, reader->example[0], reader->example[1]);
    TSR_TRY(add_pair(o, pool, reader->example[0], length, reader->example[1], length, number + 1));
  }
  *end = number >= o->task_examples;
  pool->next.corpus.number = number;
  return TSR_OK;
}

/* A corpus that ended in the pool it began in need not be read again. */
static void keep_whole(tsr_pool_reader *reader, tsr_pool *pool)
{
  if (reader->whole.n == 0) {
    reader->whole = pool->own;
    reader->whole_counts = pool->counts;
    pool->own = (tsr_pairs){0};
    pool->pairs = &reader->whole;
  }
}

static tsr_status fill(tsr_pool_reader *reader, tsr_pool *pool)
{
  int is_first = pool->start.pool == 0;
  int32_t end = 0;
  pool->pairs = &pool->own;
  if (is_first && reader->whole.n > 0) {
    pool->pairs = &reader->whole;
    pool->counts = reader->whole_counts;
    end = 1;
  } else if (reader->corpus) {
    TSR_TRY(read_corpus(reader, pool, &end));
    if (is_first && end && pool->own.n > 0) {
      keep_whole(reader, pool);
    }
  } else {
    TSR_TRY(read_task(reader, pool, &end));
  }
  if (end) {
    pool->next = (tsr_training_data_position){.epoch = pool->start.epoch + 1};
  } else {
    pool->next.epoch = pool->start.epoch;
    pool->next.pool = pool->start.pool + 1;
  }
  return TSR_OK;
}

static tsr_status plan(const tsr_pool_reader *reader, tsr_pool *pool)
{
  const tsr_batch_plan_options options = {
      .batch_tokens = reader->options.batch_tokens,
      .step = reader->options.step,
      .shuffle = reader->options.shuffle,
      .seed = reader->options.seed,
      .epoch = (uint32_t)pool->start.epoch,
      .pool = (uint32_t)pool->start.pool,
      .widest_source = reader->sounds.mel ? reader->options.max_source : 0,
      .whole = reader->sounds.options.whole,
  };
  return tsr_batch_plan_make(pool->pairs, &options, &pool->plan);
}

/* Why a whole pass gave not one pair. */
static tsr_status fail_without_pairs(const tsr_pool_reader *reader, const tsr_training_data_counts *counts)
{
  const char *name = reader->name ? reader->name : "the task";
  if (counts->read == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: there are no sentence pairs in it", name);
  }
  if (reader->sounds.mel) {
    return tsr_fail(
        TSR_ERR_FORMAT,
        "%s: of %lld pairs none is left: %lld have no text, %lld a sound longer than %.2f s or more than %d "
        "target tokens",
        name, (long long)counts->read, (long long)counts->empty, (long long)counts->too_long,
        0.02 * reader->options.max_source, (int)reader->options.max_target);
  }
  char uneven[96] = "";
  if (reader->options.max_ratio > 0) {
    snprintf(uneven, sizeof uneven, ", %lld sides whose lengths differ by more than a factor of %g",
             (long long)counts->uneven, reader->options.max_ratio);
  }
  return tsr_fail(TSR_ERR_FORMAT,
                  "%s: of %lld pairs none is left: %lld have an empty side, %lld more than %d source or %d target "
                  "tokens%s",
                  name, (long long)counts->read, (long long)counts->empty, (long long)counts->too_long,
                  (int)reader->options.max_source, (int)reader->options.max_target, uneven);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Pools
 */
void tsr_pool_destroy(tsr_pool *pool)
{
  if (!pool) {
    return;
  }
  tsr_pairs_finish(&pool->own);
  tsr_batch_plan_finish(&pool->plan);
  free(pool);
}

/* Makes *pool where there is something at that place; NULL, and the next place in *at, where there is nothing. */
static tsr_status read_at(tsr_pool_reader *reader, tsr_training_data_position *at, tsr_pool **pool)
{
  tsr_pool *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->start = *at;
  tsr_status status = fill(reader, made);
  int stopped = atomic_load(&reader->stop);
  if (status == TSR_OK && !stopped) {
    *at = made->next;
    if (made->pairs->n > 0) {
      status = plan(reader, made);
    } else if (made->start.pool == 0) {
      status = fail_without_pairs(reader, &made->counts);
    }
  }
  if (status == TSR_OK && !stopped && made->pairs->n > 0) {
    *pool = made;
  } else {
    tsr_pool_destroy(made);
  }
  return status;
}

tsr_status tsr_pool_read(tsr_pool_reader *reader, const tsr_training_data_position *start, tsr_pool **pool)
{
  tsr_training_data_position at = *start;
  int64_t epochs = reader->options.epochs;
  *pool = NULL;
  while (!*pool && !atomic_load(&reader->stop) && (epochs == 0 || at.epoch < epochs)) {
    TSR_TRY(read_at(reader, &at, pool));
  }
  return TSR_OK;
}
