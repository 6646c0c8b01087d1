/* SPDX-License-Identifier: Apache-2.0
 *
 * Public structs that grow at their end (tessera/status.h, TSR_SIZED): how the library reads one that a caller filled,
 * and how it fills one that a caller owns. Both sides may have been compiled against headers of different ages.
 */
#ifndef TESSERA_CORE_SIZED_H
#define TESSERA_CORE_SIZED_H

#include <stddef.h>

#include "tessera/status.h"

/* Where a field ends: with the last field of the first version, the smallest size that a caller can have. */
#define TSR_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Copies the caller's struct; fields that the caller does not know are zero in the copy, which has today's struct_size.
 * given: NULL: all fields are zero. last: the last field of the struct's first version.
 * Errors: TSR_ERR_ARGUMENT (struct_size is no size that the struct ever had, or the caller knows more fields than this
 * library and uses one of them). */
#define TSR_SIZED_READ(type, last, given, copy)                                                                        \
  tsr_sized_read(#type, TSR_END_OF(type, last), sizeof(type), (given), (copy))
tsr_status tsr_sized_read(const char *type, size_t first, size_t now, const void *given, void *copy) TSR_MUST_CHECK;

/* Checks the struct_size of a struct that the library is about to fill, so that no work is done in vain. target: NULL
 * is an error, too. Errors: TSR_ERR_ARGUMENT. */
#define TSR_SIZED_CHECK(type, last, target) tsr_sized_check(#type, TSR_END_OF(type, last), (target))
tsr_status tsr_sized_check(const char *type, size_t first, const void *target) TSR_MUST_CHECK;

/* Fills the caller's struct as far as the caller knows it, and leaves its struct_size alone; fields that this library
 * does not know become zero. Errors: as TSR_SIZED_CHECK. */
#define TSR_SIZED_WRITE(type, last, filled, target)                                                                    \
  tsr_sized_write(#type, TSR_END_OF(type, last), sizeof(type), (filled), (target))
tsr_status tsr_sized_write(const char *type, size_t first, size_t now, const void *filled, void *target) TSR_MUST_CHECK;

/* Fills the caller's `size` bytes with what was found, of which there are `now`: as far as both know the struct; the
 * rest becomes zero. */
void tsr_sized_fill(const void *filled, size_t now, void *target, size_t size);

#endif
