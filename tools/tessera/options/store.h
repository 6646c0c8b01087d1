/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the value of an option where its row says.
 */
#ifndef TESSERA_TOOLS_STORE_H
#define TESSERA_TOOLS_STORE_H

#include "tools/tessera/options/options.h"

/* text: NULL for a flag, or a switch without a value. Of names that are a list the commas are cut. Returns an exit
 * code. */
int tsr_option_store(const tsr_option_given *given, char *text);

/* The choice of that name: its index; -1: none. */
int32_t tsr_choice_find(const tsr_choice *choices, const char *name);

/* Adds a word to a list of them. Returns an exit code. */
int tsr_names_add(const char *command, const char *what, const char *word, tsr_names *names);

#endif
