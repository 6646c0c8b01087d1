/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"

void tsr_cli_table_init(tsr_cli_table *table, int32_t n_columns, unsigned right)
{
  memset(table, 0, sizeof *table);
  table->n_columns = n_columns;
  table->right = right;
}

void tsr_cli_table_cell(tsr_cli_table *table, const char *format, ...)
{
  if (table->failed) {
    return;
  }
  if (table->n_cells == table->room) {
    size_t room = table->room ? table->room * 2 : 64;
    char **cells = realloc(table->cells, room * sizeof *cells);
    if (!cells) {
      table->failed = 1;
      return;
    }
    table->cells = cells;
    table->room = room;
  }
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *cell = length < 0 ? NULL : malloc((size_t)length + 1);
  if (!cell) {
    table->failed = 1;
    return;
  }
  va_start(arguments, format);
  vsnprintf(cell, (size_t)length + 1, format, arguments);
  va_end(arguments);
  table->cells[table->n_cells++] = cell;
}

void tsr_cli_table_begin(tsr_cli_table *table, const char *const *names, int32_t n_columns, unsigned right)
{
  tsr_cli_table_init(table, n_columns, right);
  for (int32_t i = 0; i < n_columns; i++) {
    tsr_cli_table_cell(table, "%s", names[i]);
  }
}

/* Code points, which is what a terminal's columns are for the scripts that appear here. */
static int text_width(const char *text)
{
  int width = 0;
  for (; *text; text++) {
    width += ((unsigned char)*text & 0xC0) != 0x80;
  }
  return width;
}

int tsr_cli_table_print(const tsr_cli_table *table, FILE *out)
{
  if (table->failed) {
    return tsr_cli_no_memory();
  }
  int width[TSR_TABLE_COLUMNS] = {0};
  size_t n_columns = (size_t)table->n_columns;
  for (size_t i = 0; i < table->n_cells; i++) {
    int cell = text_width(table->cells[i]);
    if (cell > width[i % n_columns]) {
      width[i % n_columns] = cell;
    }
  }
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t column = i % n_columns;
    int last = column + 1 == n_columns || i + 1 == table->n_cells;
    int right = (table->right >> column) & 1u;
    int padding = width[column] - text_width(table->cells[i]);
    fprintf(out, "%*s%s", right ? padding : 0, "", table->cells[i]);
    if (last) {
      fputc('\n', out);
    } else {
      fprintf(out, "%*s", (right ? 0 : padding) + 2, "");
    }
  }
  return TSR_EXIT_OK;
}

void tsr_cli_table_finish(tsr_cli_table *table)
{
  for (size_t i = 0; i < table->n_cells; i++) {
    free(table->cells[i]);
  }
  free(table->cells);
  memset(table, 0, sizeof *table);
}

char *tsr_cli_grouped(int64_t value, char *text)
{
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
  int negative = value < 0;
  char *to = text;
  for (int i = 0; i < length; i++) {
    if (i > negative && (length - i) % 3 == 0) {
      *to++ = ',';
    }
    *to++ = digits[i];
  }
  *to = '\0';
  return text;
}

char *tsr_cli_bytes(uint64_t bytes, char *text)
{
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(text, 32, "%d B", (int)bytes);
    return text;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
    value /= 1024;
    unit++;
  }
  snprintf(text, 32, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}
