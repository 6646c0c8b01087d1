/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy by size: the largest temporary first, each at the lowest offset where it meets no placed one that is alive at
 * the same time. For the straight-line programs of Transformers this comes within a few per cent of the largest sum of
 * what is alive at one line, which no plan can beat.
 */
#include "core/program/plan.h"

#include <stdlib.h>

#include "core/base/status.h"

typedef struct lifetime {
  int32_t storage;
  int32_t first, last; /* lines; first > last: never used */
  int64_t offset, size;
} lifetime;

static void touch(const tsr_program_desc *program, lifetime *lives, int32_t tensor, int32_t line)
{
  if (tensor <= 0) {
    return;
  }
  lifetime *life = &lives[tsr_tensor_at(program, tensor)->storage];
  if (line < life->first) {
    life->first = line;
  }
  if (line > life->last) {
    life->last = line;
  }
}

static int by_size(const void *left, const void *right)
{
  const lifetime *a = left, *b = right;
  if (a->size != b->size) {
    return a->size > b->size ? -1 : 1;
  }
  return a->storage < b->storage ? -1 : 1;
}

static int by_offset(const void *left, const void *right)
{
  const lifetime *const *a = left, *const *b = right;
  if ((*a)->offset != (*b)->offset) {
    return (*a)->offset < (*b)->offset ? -1 : 1;
  }
  return 0;
}

/* The lowest offset from this one on at which `size` bytes do not lie in two pieces. */
static int64_t within_piece(int64_t offset, int64_t size, int64_t piece)
{
  return piece > 0 && size > 0 && offset / piece != (offset + size - 1) / piece ? (offset / piece + 1) * piece : offset;
}

/* The lowest offset at which `life` fits beside those of lives[0 .. n-1] that are alive with it. */
static int64_t lowest_offset(const lifetime *life, lifetime *lives, int32_t n, lifetime **meets, int64_t piece)
{
  int32_t n_meets = 0;
  for (int32_t i = 0; i < n; i++) {
    if (lives[i].first <= life->last && life->first <= lives[i].last) {
      meets[n_meets++] = &lives[i];
    }
  }
  qsort(meets, (size_t)n_meets, sizeof meets[0], by_offset);
  int64_t offset = 0;
  for (int32_t i = 0; i < n_meets; i++) {
    if (meets[i]->offset - offset >= life->size) {
      break;
    }
    int64_t end = meets[i]->offset + meets[i]->size;
    if (end > offset) {
      offset = within_piece(end, life->size, piece);
    }
  }
  return offset;
}

tsr_status tsr_memory_plan_make(const tsr_program_desc *program, const tsr_plan_options *options, tsr_memory_plan *plan)
{
  const int64_t alignment = options->alignment;
  size_t n_storages = (size_t)program->n_storages;
  tsr_status status = TSR_OK;
  lifetime *lives = calloc(n_storages + 1, sizeof *lives);
  lifetime **meets = calloc(n_storages + 1, sizeof(lifetime *));
  *plan = (tsr_memory_plan){.offset = calloc(n_storages + 1, sizeof(int64_t))};
  if (!lives || !meets || !plan->offset) {
    status = tsr_fail_memory(n_storages * sizeof *lives);
    goto done;
  }
  for (int32_t i = 0; i < program->n_storages; i++) {
    lives[i] = (lifetime){.storage = i, .first = INT32_MAX, .last = -1, .size = tsr_storage_at(program, i)->size};
    plan->offset[i] = -1;
  }
  for (int32_t i = 0; i < program->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      touch(program, lives, line->in[j], i);
      touch(program, lives, line->in[j], options->operands_until ? options->operands_until[i] : i);
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      touch(program, lives, line->out[j], i);
    }
  }
  int32_t n = 0;
  for (int32_t i = 1; i < program->n_storages; i++) {
    if (tsr_storage_at(program, i)->kind != TSR_STORAGE_TEMPORARY) {
      continue;
    }
    lifetime life = lives[i];
    if (life.size > INT64_MAX - alignment - plan->unplanned) {
      status = tsr_fail(TSR_ERR_SHAPE, "the temporaries of the program take more than 2^63 bytes");
      goto done;
    }
    life.size = (life.size + alignment - 1) / alignment * alignment;
    if (options->piece > 0 && life.size > options->piece) {
      status =
          tsr_fail(TSR_ERR_DEVICE_MEMORY,
                   "a temporary of the program takes %lld bytes, and the device has no buffer larger than %lld: use "
                   "a smaller batch or shorter sequences",
                   (long long)life.size, (long long)options->piece);
      goto done;
    }
    if (options->keep_all) {
      life.first = 0;
      life.last = INT32_MAX;
    }
    if (life.last >= 0) { /* one that no line touches would not be there at all */
      plan->unplanned += life.size;
    }
    lives[n++] = life; /* n < i: what is overwritten was read already */
  }
  qsort(lives, (size_t)n, sizeof lives[0], by_size);
  for (int32_t i = 0; i < n; i++) {
    lives[i].offset = lowest_offset(&lives[i], lives, i, meets, options->piece);
    plan->offset[lives[i].storage] = lives[i].offset;
    if (lives[i].offset + lives[i].size > plan->size) {
      plan->size = lives[i].offset + lives[i].size;
    }
  }
done:
  free(lives);
  free(meets);
  if (status != TSR_OK) {
    tsr_memory_plan_finish(plan);
  }
  return status;
}

void tsr_memory_plan_finish(tsr_memory_plan *plan)
{
  free(plan->offset);
  *plan = (tsr_memory_plan){0};
}
