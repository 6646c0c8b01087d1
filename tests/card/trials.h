/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer is tried with. Each trial runs in a process of its own.
 */
#ifndef TESTS_CARD_TRIALS_H
#define TESTS_CARD_TRIALS_H

#include <stddef.h>

typedef struct trial {
  const char *name;
  void (*function)(void);
  const char *profile;
  const char *told;  /* NULL: it has to end well */
  const char *fault; /* CARD_FAULT, or NULL */
  int validated;     /* 1: under the validation layer */
} trial;

extern const trial trials[];
extern const size_t n_trials;

#endif
