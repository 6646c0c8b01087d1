/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/training_data.h"

#include <stdlib.h>
#include <string.h>

#include "core/train/draws.h"

enum {
  SPECIAL_IDS = 3,
  MAX_VOCABULARY = 1 << 20,
  MAX_LENGTH = 1 << 16,
  SETS_SHARE = 8,       /* one sequence in so many is held out */
  LEAST_SEQUENCES = 512 /* with so many, a set without any is out of the question */
};

tsr_status tsr_toy_task_find(const char *name, int32_t *kind)
{
  static const struct {
    const char *name;
    int32_t kind;
  } kinds[] = {{"copy", TSR_TOY_TASK_COPY}, {"reverse", TSR_TOY_TASK_REVERSE}, {"sort", TSR_TOY_TASK_SORT}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(name, kinds[i].name) == 0) {
      *kind = kinds[i].kind;
      return TSR_OK;
    }
  }
  return tsr_fail(TSR_ERR_ARGUMENT, "there is no task '%s': expected copy, reverse or sort", name);
}

/* 1 if there are fewer sequences than LEAST_SEQUENCES. */
static int has_few_sequences(const tsr_toy_task *task)
{
  int64_t tokens = task->vocabulary - SPECIAL_IDS;
  int64_t sequences = 0;
  int64_t of_length = 1;
  for (int32_t length = 1; length <= task->max_length; length++) {
    of_length *= tokens;
    sequences += length >= task->min_length ? of_length : 0;
    if (of_length >= LEAST_SEQUENCES || sequences >= LEAST_SEQUENCES) {
      return 0; /* longer ones are not fewer */
    }
  }
  return 1;
}

tsr_status tsr_toy_task_check(const tsr_toy_task *task)
{
  if (task->kind < TSR_TOY_TASK_COPY || task->kind > TSR_TOY_TASK_SORT || task->set < TSR_TOY_TASK_TRAINING ||
      task->set > TSR_TOY_TASK_HELD_OUT) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a task of kind %d, set %d: there is none", (int)task->kind, (int)task->set);
  }
  if (task->vocabulary <= SPECIAL_IDS || task->vocabulary > MAX_VOCABULARY) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a task with a vocabulary of %d: expected %d .. %d", (int)task->vocabulary,
                    (int)SPECIAL_IDS + 1, (int)MAX_VOCABULARY);
  }
  if (task->min_length < 1 || task->max_length < task->min_length || task->max_length > MAX_LENGTH) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a task with sequences of %d to %d tokens: expected at least 1, at most %d",
                    (int)task->min_length, (int)task->max_length, (int)MAX_LENGTH);
  }
  if (has_few_sequences(task)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "a task with a vocabulary of %d and at most %d tokens has fewer than %d sequences: too few to "
                    "hold some out",
                    (int)task->vocabulary, (int)task->max_length, (int)LEAST_SEQUENCES);
  }
  return TSR_OK;
}

/* The set of a sequence: a function of its tokens and the seed, so that the same sequence is never in both. */
static int32_t set_of(const tsr_toy_task *task, const int32_t *tokens, int32_t length)
{
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
  for (int32_t i = 0; i < length; i++) {
    hash = (hash ^ (uint32_t)tokens[i]) * 0x100000001B3u;
  }
  tsr_draws draws = tsr_draws_make(task->seed, TSR_DRAWS_MEMBERSHIP, 0, (uint32_t)hash, (uint32_t)(hash >> 32));
  return tsr_draw(&draws) % SETS_SHARE == 0 ? TSR_TOY_TASK_HELD_OUT : TSR_TOY_TASK_TRAINING;
}

static int compare_ids(const void *a, const void *b)
{
  int32_t left = *(const int32_t *)a;
  int32_t right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

int32_t tsr_toy_task_example(const tsr_toy_task *task, uint64_t index, int32_t *source, int32_t *target)
{
  const uint32_t n_tokens = (uint32_t)(task->vocabulary - SPECIAL_IDS);
  const uint32_t n_lengths = (uint32_t)(task->max_length - task->min_length + 1);
  tsr_draws draws =
      tsr_draws_make(task->seed, TSR_DRAWS_TASK, (uint32_t)task->set, (uint32_t)index, (uint32_t)(index >> 32));
  int32_t length;
  do {
    length = task->min_length + (int32_t)tsr_draw_below(&draws, n_lengths);
    for (int32_t i = 0; i < length; i++) {
      source[i] = TSR_TOY_TASK_FIRST_TOKEN + (int32_t)tsr_draw_below(&draws, n_tokens);
    }
  } while (set_of(task, source, length) != task->set);
  for (int32_t i = 0; i < length; i++) {
    target[i] = source[task->kind == TSR_TOY_TASK_REVERSE ? length - 1 - i : i];
  }
  if (task->kind == TSR_TOY_TASK_SORT) {
    qsort(target, (size_t)length, sizeof *target, compare_ids);
  }
  source[length] = target[length] = TSR_TOY_TASK_EOS;
  return length + 1;
}
