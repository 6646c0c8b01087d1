/* SPDX-License-Identifier: Apache-2.0
 *
 * Toy tasks: sequences of random tokens, to be copied, reversed or sorted. What a Transformer that learns has to learn
 * within minutes, from examples of which each follows from the seed and its number alone.
 *
 * Ids are laid out as in a Marian folder: </s> 0, <unk> 1 (never used), the tokens, <pad> last.
 */
#ifndef TESSERA_CORE_TRAIN_TASKS_H
#define TESSERA_CORE_TRAIN_TASKS_H

#include "tessera/status.h"

enum { TSR_TASK_COPY = 1, TSR_TASK_REVERSE = 2, TSR_TASK_SORT = 3 };

/* Each sequence belongs to one of the sets, one in eight to the second: what is held out is never trained on. */
enum { TSR_TASK_TRAINING = 0, TSR_TASK_HELD_OUT = 1 };

enum { TSR_TASK_EOS = 0, TSR_TASK_FIRST_TOKEN = 2 };

typedef struct tsr_task {
  int32_t kind;       /* TSR_TASK_COPY, TSR_TASK_REVERSE, TSR_TASK_SORT */
  int32_t set;        /* TSR_TASK_TRAINING, TSR_TASK_HELD_OUT */
  int32_t vocabulary; /* V: ids in all, the three special ones included */
  int32_t min_length; /* tokens of a sequence, </s> not counted; at least 1 */
  int32_t max_length;
  uint64_t seed;
} tsr_task;

/* "copy", "reverse", "sort". Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_task_find(const char *name, int32_t *kind) TSR_MUST_CHECK;

/* TSR_ERR_ARGUMENT where a field is out of range, or where there are too few sequences to hold some out. */
tsr_status tsr_task_check(const tsr_task *task) TSR_MUST_CHECK;

static inline int32_t tsr_task_pad(const tsr_task *task)
{
  return task->vocabulary - 1;
}

/* Example number `index` of a task that passes the check: writes source and target, each with room for max_length + 1
 * ids, and returns how many each has, the closing </s> included. Lengths are drawn evenly, then tokens. Any thread. */
int32_t tsr_task_example(const tsr_task *task, uint64_t index, int32_t *source, int32_t *target);

#endif
