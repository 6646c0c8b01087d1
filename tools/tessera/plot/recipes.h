/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipes of trainings, side by side on a page. Functions that return int return exit codes (message.h).
 */
#ifndef TESSERA_TOOLS_RECIPES_H
#define TESSERA_TOOLS_RECIPES_H

#include <stdint.h>
#include <stdio.h>

/* A recipe as `tessera train` writes it: a key and its value a line. */
typedef struct recipe_text {
  const char *name; /* of the training: borrowed from the command line */
  char **keys;      /* [n], likewise the next; allocated */
  char **values;
  int32_t n;
} recipe_text;

/* Reads the file `path` of a training; lines that are no key with a value are left out. Finish it after a failure, too. */
int recipe_text_read(recipe_text *recipe, const char *name, const char *path);
void recipe_text_finish(recipe_text *recipe);

/* Prints a table of the n recipes, without those that are empty: a row for each key; rows whose values differ come
 * first, and are marked. Nothing, if all are empty. */
int recipes_print(FILE *out, const recipe_text *recipes, int32_t n);

#endif
