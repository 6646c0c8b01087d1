/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 16384 };

struct tsr_arena_block {
  tsr_arena_block *previous;
  size_t used; /* bytes of `bytes` */
  size_t size;
  max_align_t bytes[];
};

void *tsr_arena_take(tsr_arena *arena, size_t size)
{
  size_t step = sizeof(max_align_t);
  if (size > SIZE_MAX - BLOCK_SIZE) {
    return NULL;
  }
  size = (size + step - 1) / step * step;
  tsr_arena_block *block = arena->last;
  if (!block || block->size - block->used < size) {
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    block = calloc(1, sizeof *block + room);
    if (!block) {
      return NULL;
    }
    block->size = room;
    block->previous = arena->last;
    arena->last = block;
  }
  void *bytes = (char *)block->bytes + block->used;
  block->used += size;
  return bytes;
}

char *tsr_arena_text(tsr_arena *arena, const char *text)
{
  size_t size = strlen(text) + 1;
  char *copy = tsr_arena_take(arena, size);
  if (copy) {
    memcpy(copy, text, size);
  }
  return copy;
}

void tsr_arena_finish(tsr_arena *arena)
{
  while (arena->last) {
    tsr_arena_block *block = arena->last;
    arena->last = block->previous;
    free(block);
  }
}
