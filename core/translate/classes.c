/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/translate/translate.h"

/* The lists of ids that options point to. */
enum { N_LISTS = 4 };

typedef struct list {
  const int32_t **ids;
  int32_t n;
} list;

static void lists_of(tsr_generate_options *options, list lists[N_LISTS])
{
  lists[0] = (list){&options->eos, options->n_eos};
  lists[1] = (list){&options->suppressed, options->n_suppressed};
  lists[2] = (list){&options->begin_suppressed, options->n_begin_suppressed};
  lists[3] = (list){&options->words, options->n_words};
}

/* 1 if a search with the one is a search with the other. */
static int are_equal(const tsr_generate_options *a, const tsr_generate_options *b)
{
  tsr_generate_options x = *a, y = *b;
  list of_x[N_LISTS], of_y[N_LISTS];
  lists_of(&x, of_x);
  lists_of(&y, of_y);
  for (int32_t i = 0; i < N_LISTS; i++) {
    if (of_x[i].n != of_y[i].n ||
        (of_x[i].n > 0 && memcmp(*of_x[i].ids, *of_y[i].ids, (size_t)of_x[i].n * sizeof(int32_t)) != 0)) {
      return 0;
    }
    *of_x[i].ids = *of_y[i].ids = NULL;
  }
  /* What lies between the two is no field. */
  const size_t end = TSR_END_OF(tsr_generate_options, coverage_penalty),
               next = offsetof(tsr_generate_options, shortlist);
  const char *bytes_of_x = (const char *)&x, *bytes_of_y = (const char *)&y;
  return memcmp(bytes_of_x, bytes_of_y, end) == 0 && memcmp(bytes_of_x + next, bytes_of_y + next, sizeof x - next) == 0;
}

/* A copy with lists of its own. */
static tsr_class *copy(const tsr_generate_options *options)
{
  tsr_generate_options given = *options;
  list lists[N_LISTS];
  lists_of(&given, lists);
  size_t n = 0;
  for (int32_t i = 0; i < N_LISTS; i++) {
    n += (size_t)lists[i].n;
  }
  tsr_class *class = calloc(1, sizeof *class + n * sizeof(int32_t));
  if (!class) {
    return NULL;
  }
  int32_t *to = (int32_t *)(class + 1);
  for (int32_t i = 0; i < N_LISTS; i++) {
    size_t count = (size_t)lists[i].n;
    if (count > 0) {
      memcpy(to, *lists[i].ids, count * sizeof *to);
    }
    *lists[i].ids = count > 0 ? to : NULL;
    to += count;
  }
  class->options = given;
  return class;
}

tsr_status tsr_class_take(tsr_translator *t, const tsr_generate_options *options, tsr_class **class)
{
  tsr_class *found = t->classes;
  while (found && !are_equal(&found->options, options)) {
    found = found->next;
  }
  if (!found) {
    found = copy(options);
    if (!found) {
      return tsr_fail_memory(sizeof *found);
    }
    found->next = t->classes;
    t->classes = found;
  }
  found->users++;
  *class = found;
  return TSR_OK;
}

void tsr_class_leave(tsr_translator *t, tsr_class *class)
{
  if (--class->users > 0) {
    return;
  }
  tsr_class **link = &t->classes;
  while (*link != class) {
    link = &(*link)->next;
  }
  *link = class->next;
  free(class);
}
