/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment variables of the project, in one table: `tessera help environment`, README.md and CONTRIBUTING.md say
 * what stands here.
 */
#ifndef TESSERA_TOOLS_ENVIRONMENT_H
#define TESSERA_TOOLS_ENVIRONMENT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Who reads a variable. */
enum {
  TSR_READER_PROGRAM, /* the library or the program */
  TSR_READER_CPU,     /* the backend */
  TSR_READER_VULKAN,
  TSR_READER_PYTHON, /* the package */
  TSR_READER_SOURCE, /* scripts and tests of the source tree */
  TSR_READERS
};

typedef struct tsr_variable {
  const char *name; /* NULL ends the table */
  int32_t reader;
  int32_t is_usual; /* 1: `tessera help` tells of it, too */
  const char *meaning;
} tsr_variable;

extern const tsr_variable tsr_variables[];

/* Prints the variables, all or the usual ones alone. */
void tsr_environment_print(FILE *out, int usual_alone);

/* A list of objects: name, reader, meaning; NULL: out of memory. */
json_t *tsr_environment_json(void);

#endif
