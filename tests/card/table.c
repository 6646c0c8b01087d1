/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of an object, by its handle: a hash table with open addresses. A NULL value marks a place that was left.
 */
#include <stdlib.h>

#include "tests/card/card.h"

static size_t place_of(const card_table *table, uint64_t handle)
{
  return (size_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (table->room - 1);
}

static card_entry *entry_of(const card_table *table, uint64_t handle)
{
  if (table->room == 0) {
    return NULL;
  }
  for (size_t i = place_of(table, handle);; i = (i + 1) & (table->room - 1)) {
    card_entry *entry = &table->entries[i];
    if (entry->handle == handle) {
      return entry;
    }
    if (entry->handle == 0) {
      return NULL;
    }
  }
}

void *card_table_find(const card_table *table, uint64_t handle)
{
  const card_entry *entry = handle ? entry_of(table, handle) : NULL;
  return entry ? entry->value : NULL;
}

static void insert(card_table *table, uint64_t handle, void *value)
{
  size_t i = place_of(table, handle);
  while (table->entries[i].handle != 0) {
    i = (i + 1) & (table->room - 1);
  }
  table->entries[i] = (card_entry){handle, value};
  table->n++;
}

static void grow(card_table *table)
{
  card_table larger = {.room = 64};
  for (size_t i = 0, used = 0; i < table->room; i++) {
    used += table->entries[i].value != NULL;
    larger.room = used * 4 > larger.room ? larger.room * 2 : larger.room;
  }
  larger.entries = calloc(larger.room, sizeof(*larger.entries));
  if (!larger.entries) {
    card_breach("no memory for the layer's own tables");
  }
  for (size_t i = 0; i < table->room; i++) {
    if (table->entries[i].value) {
      insert(&larger, table->entries[i].handle, table->entries[i].value);
    }
  }
  free(table->entries);
  *table = larger;
}

void card_table_put(card_table *table, uint64_t handle, void *value)
{
  if (!value) {
    card_breach("no memory for the layer's own tables");
  }
  card_entry *entry = entry_of(table, handle);
  if (entry) {
    free(entry->value);
    entry->value = value;
    return;
  }
  if ((table->n + 1) * 2 > table->room) {
    grow(table);
  }
  insert(table, handle, value);
}

void *card_table_take(card_table *table, uint64_t handle)
{
  card_entry *entry = handle ? entry_of(table, handle) : NULL;
  void *value = entry ? entry->value : NULL;
  if (entry) {
    entry->value = NULL;
  }
  return value;
}

void card_table_clear(card_table *table)
{
  for (size_t i = 0; i < table->room; i++) {
    free(table->entries[i].value);
  }
  free(table->entries);
  *table = (card_table){0};
}
