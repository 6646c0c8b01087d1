/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of text, and numbers as people read them.
 */
#ifndef TESSERA_TOOLS_TABLE_H
#define TESSERA_TOOLS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tessera/status.h"

/* A table of text: columns as wide as their widest cell, two spaces between. Zero it, add cells row by row, print. */
enum { TSR_TABLE_COLUMNS = 16 };
typedef struct tsr_cli_table {
  int32_t n_columns; /* 1 .. TSR_TABLE_COLUMNS */
  unsigned right;    /* bit c: column c is aligned to the right */
  char **cells;      /* [n_cells], row by row */
  size_t n_cells;
  size_t room;
  int failed; /* an allocation failed: print says so */
} tsr_cli_table;
void tsr_cli_table_init(tsr_cli_table *table, int32_t n_columns, unsigned right);

/* The same, with a first row of names. */
void tsr_cli_table_begin(tsr_cli_table *table, const char *const *names, int32_t n_columns, unsigned right);

void tsr_cli_table_cell(tsr_cli_table *table, const char *format, ...) TSR_PRINTF(2, 3);
int tsr_cli_table_print(const tsr_cli_table *table, FILE *out);
void tsr_cli_table_finish(tsr_cli_table *table);

/* "1,234,567": writes into text (at least 32 bytes) and returns it. */
char *tsr_cli_grouped(int64_t value, char *text);

/* "1.5 MiB" and so on: writes into text (at least 32 bytes) and returns it. */
char *tsr_cli_bytes(uint64_t bytes, char *text);

#endif
