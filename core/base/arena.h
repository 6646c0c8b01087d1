/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: many small allocations that are freed together.
 */
#ifndef TESSERA_CORE_ARENA_H
#define TESSERA_CORE_ARENA_H

#include <stddef.h>

typedef struct tsr_arena_block tsr_arena_block;

/* Zero-initialise. One thread at a time. */
typedef struct tsr_arena {
  tsr_arena_block *last; /* the block that is being filled; blocks form a list */
} tsr_arena;

/* `size` zeroed bytes, aligned for any type, that live until tsr_arena_finish; NULL without memory. */
void *tsr_arena_take(tsr_arena *arena, size_t size);

/* A copy of a string; NULL without memory. */
char *tsr_arena_text(tsr_arena *arena, const char *text);

void tsr_arena_finish(tsr_arena *arena);

#endif
