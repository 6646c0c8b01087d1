/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of records in a random order, in bounded memory, by way of the disk.
 *
 * Each record has a random key, which seed and number alone give, and the order is that of the keys. On their way in,
 * records are distributed over files by the first bits of their keys. On their way out, a file that fits into memory is
 * sorted there; another is distributed once more, by the next bits. So the order does not depend on the memory, nor on
 * how large the files were expected to be. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_CORPUS_RANDOM_ORDER_H
#define TESSERA_TOOLS_CORPUS_RANDOM_ORDER_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

typedef struct random_order_options {
  const char *folder; /* of the files, empty; borrowed */
  uint64_t seed;
  uint64_t memory;                   /* bytes that the records of one file may take; beside them a few MiB are needed */
  uint64_t expected;                 /* about as many bytes of text will come; 0: unknown */
  const volatile sig_atomic_t *stop; /* gives up once this is not 0 */
} random_order_options;

enum { RANDOM_ORDER_TEXTS = 2 };

/* The texts are borrowed until the call that takes or gives them ends. */
typedef struct random_order_record {
  int64_t number; /* each record has another */
  const char *texts[RANDOM_ORDER_TEXTS];
  size_t sizes[RANDOM_ORDER_TEXTS]; /* bytes, less than 2^32 */
} random_order_record;

typedef struct random_order random_order;

/* Close it after a failure, too. */
int random_order_open(const random_order_options *options, random_order **order);
int random_order_add(random_order *order, const random_order_record *record);

/* Hands out all records in their order, once; what `take` returns ends that, unless it is TSR_EXIT_OK. The files are
 * removed as they are used up. */
int random_order_give(random_order *order, int (*take)(void *user, const random_order_record *record), void *user);

/* Removes the files that an order left in a folder, and no others. */
void random_order_clear(const char *folder);

/* Takes NULL. What is left in the folder is the caller's to remove. */
void random_order_close(random_order *order);

#endif
