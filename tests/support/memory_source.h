/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of sound in memory.
 */
#ifndef TESSERA_TESTS_MEMORY_SOURCE_H
#define TESSERA_TESTS_MEMORY_SOURCE_H

#include "core/audio/wav.h"

/* What is left. piece: as many bytes come at once; 0: as many as are asked for. */
typedef struct memory_source {
  const unsigned char *bytes;
  size_t size, piece;
} memory_source;

/* The source reads from *memory, which it counts down. */
tsr_byte_source source_in_memory(memory_source *memory);

#endif
