/* SPDX-License-Identifier: Apache-2.0
 *
 * This program, started again as another process.
 */
#ifndef TESSERA_TOOLS_CHILD_H
#define TESSERA_TOOLS_CHILD_H

#include <sys/types.h>

typedef struct child_setup {
  const char *const *words;     /* its arguments: the program's name first, NULL at the end */
  const char *const *variables; /* set in its environment: name, value, name .., NULL at the end; NULL: none */
  int input, output, errors;    /* descriptors that become its standard streams */
  int is_bound;                 /* 1: a group of its own, which ends when this program ends */
} child_setup;

/* Returns 0, or an errno. If a dynamic loader was started with the program's path (as tools/lab/with does), it is
 * started again, with the same options. */
int child_start(const child_setup *setup, pid_t *child);

/* A pipe whose ends no child gets but as a standard stream. Returns 0, or an errno. */
int child_pipe(int ends[2]);

/* What `main` begins with: of a child that is bound, takes the mark of that out of the arguments. */
void child_begin(int *argc, char **argv);

#endif
