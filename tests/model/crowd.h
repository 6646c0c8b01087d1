/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences, and many threads that have them translated.
 */
#ifndef TESSERA_TESTS_CROWD_H
#define TESSERA_TESTS_CROWD_H

#include <stdint.h>

enum { CROWD = 64 /* threads */, EXIT_SKIPPED = 77 /* as meson has it */ };

/* TESSERA_SEED, else the time; printed. */
uint64_t draw_seed(void);

/* 1 if there is such a device; else it is told that the test is skipped. */
int has_device(const char *name);

/* "SOURCE_ROOT/name", to be freed. */
char *path_in_tree(const char *name);

/* The first n of the English test sentences. Free them. */
char **read_test_sentences(int32_t n);
void free_test_sentences(char **sentences, int32_t n);

/* Calls ask(user, i) for each i below n, from CROWD threads, in an order drawn from the seed, which moves on. */
void ask_in_a_crowd(int32_t n, uint64_t *seed, void (*ask)(void *user, int32_t i), void *user);

#endif
