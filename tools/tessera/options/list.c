/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"

const char *tsr_option_kind_name(int32_t kind)
{
  static const char *const names[TSR_OPTION_KINDS] = {
      [TSR_OPTION_FLAG] = "flag",         [TSR_OPTION_SWITCH] = "switch",       [TSR_OPTION_INTEGER] = "integer",
      [TSR_OPTION_NUMBER] = "number",     [TSR_OPTION_PRECISION] = "precision", [TSR_OPTION_CHOICE] = "choice",
      [TSR_OPTION_SET] = "choice",        [TSR_OPTION_TEXT] = "text",           [TSR_OPTION_FILE] = "file",
      [TSR_OPTION_FOLDER] = "folder",     [TSR_OPTION_DEVICE] = "device",       [TSR_OPTION_VARIANT] = "variant",
      [TSR_OPTION_LANGUAGE] = "language",
  };
  return names[kind];
}

const tsr_option *tsr_option_at(const tsr_option_table *table, int32_t index)
{
  size_t size = table->row_size ? table->row_size : sizeof(tsr_option);
  const tsr_option *row = (const void *)((const char *)table->rows + size * (size_t)index);
  return row->name || row->table ? row : NULL;
}

static int add_entry(tsr_option_list *list, const tsr_option_entry *entry)
{
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 64;
    tsr_option_entry *entries = realloc(list->entries, (size_t)room * sizeof *entries);
    if (!entries) {
      return tsr_cli_no_memory();
    }
    list->entries = entries;
    list->room = room;
  }
  list->entries[list->n++] = *entry;
  return TSR_EXIT_OK;
}

/* 1 if a row that named this one option was there before. */
static int is_listed(const tsr_option_list *list, const tsr_option_table *table, int32_t index, size_t offset)
{
  int found = 0;
  for (int32_t i = 0; i < list->n; i++) {
    const tsr_option_entry *entry = &list->entries[i];
    found |= entry->table == table && entry->index == index && entry->offset == offset;
  }
  return found;
}

/* `only`: a row that names the one option that is wanted, or NULL. */
static int add_table(tsr_option_list *list, const tsr_option_table *table, size_t offset, const char *title,
                     const tsr_option *only)
{
  const tsr_option *row;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; code == TSR_EXIT_OK && (row = tsr_option_at(table, i)) != NULL; i++) {
    if (row->table) {
      const tsr_option *wanted = row->name ? row : only;
      const char *inner = row->table->title && !wanted ? row->table->title : title;
      code = add_table(list, row->table, offset + row->offset, inner, wanted);
    } else if ((!only || strcmp(only->name, row->name) == 0) && !is_listed(list, table, i, offset)) {
      tsr_option_entry entry = {.row = *row, .table = table, .index = i, .offset = offset, .title = title};
      entry.row.help = only && only->help ? only->help : row->help;
      entry.row.metavar = only && only->metavar ? only->metavar : row->metavar;
      entry.row.otherwise = only && only->otherwise ? only->otherwise : row->otherwise;
      code = add_entry(list, &entry);
    }
  }
  return code;
}

int tsr_option_list_make(const tsr_option_table *table, tsr_option_list *list)
{
  *list = (tsr_option_list){0};
  return table ? add_table(list, table, 0, table->title, NULL) : TSR_EXIT_OK;
}

void tsr_option_list_finish(tsr_option_list *list)
{
  free(list->entries);
  *list = (tsr_option_list){0};
}
