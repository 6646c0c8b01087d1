/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/vulkan/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/variants.h"

enum { MAX_ENTRIES = 4096, LINE_BYTES = 192 };

static const char first_line[] = "tessera variants 1\n";

void tsr_vk_tuning_finish(tsr_vk_tuning *tuning)
{
  free(tuning->entries);
  *tuning = (tsr_vk_tuning){0};
}

int32_t tsr_vk_bucket(uint64_t n)
{
  int32_t bucket = 0;
  while (bucket < 63 && ((uint64_t)1 << bucket) < n) {
    ++bucket;
  }
  return bucket;
}

static int32_t place_of(const tsr_vk_tuning *tuning, const tsr_vk_class *class)
{
  for (int32_t i = 0; i < tuning->count; ++i) {
    if (memcmp(&tuning->entries[i].class, class, sizeof *class) == 0) {
      return i;
    }
  }
  return -1;
}

int32_t tsr_vk_tuning_find(const tsr_vk_tuning *tuning, const tsr_vk_class *class)
{
  const int32_t at = tuning != NULL ? place_of(tuning, class) : -1;
  return at >= 0 ? tuning->entries[at].variant : TSR_VK_VARIANT_AUTO;
}

int tsr_vk_tuning_set(tsr_vk_tuning *tuning, const tsr_vk_class *class, int32_t variant)
{
  int32_t at = place_of(tuning, class);
  if (variant == TSR_VK_VARIANT_AUTO) {
    if (at >= 0) {
      tuning->entries[at] = tuning->entries[--tuning->count];
    }
    return 1;
  }
  if (at < 0) {
    if (tuning->count == tuning->room) {
      const int32_t room = tuning->room > 0 ? 2 * tuning->room : 64;
      tsr_vk_tuned *moved = room <= MAX_ENTRIES ? realloc(tuning->entries, (size_t)room * sizeof *moved) : NULL;
      if (moved == NULL) {
        return 0;
      }
      tuning->entries = moved;
      tuning->room = room;
    }
    at = tuning->count++;
    tuning->entries[at].class = *class;
  }
  tuning->entries[at].variant = variant;
  return 1;
}

void tsr_vk_class_print(const tsr_vk_class *class, char *text, size_t size)
{
  int length = snprintf(text, size, "%d", class->op);
  for (int i = 0; i < TSR_VK_CLASS_FIELDS && length > 0 && (size_t)length < size; ++i) {
    length += snprintf(text + length, size - (size_t)length, " %d", class->field[i]);
  }
}

/* A number of at most nine digits and the blank behind it. NULL if there is none. */
static const char *parse_number(const char *text, int32_t *number)
{
  const size_t digits = strspn(text, "0123456789");
  if (digits < 1 || digits > 9 || text[digits] != ' ') {
    return NULL;
  }
  *number = (int32_t)strtol(text, NULL, 10);
  return text + digits + 1;
}

const char *tsr_vk_tuning_parse(tsr_vk_tuning *tuning, const char *text)
{
  if (strncmp(text, first_line, sizeof first_line - 1) != 0) {
    return "it is no table of variants";
  }
  text += sizeof first_line - 1;
  while (*text != '\0') {
    tsr_vk_tuned entry;
    text = parse_number(text, &entry.class.op);
    for (int i = 0; i < TSR_VK_CLASS_FIELDS && text != NULL; ++i) {
      text = parse_number(text, &entry.class.field[i]);
    }
    char name[LINE_BYTES];
    const size_t length = text != NULL ? strcspn(text, "\n") : 0;
    if (length == 0 || length >= sizeof name || text[length] != '\n' || entry.class.op == 0) {
      return "a line is not a class and a variant";
    }
    memcpy(name, text, length);
    name[length] = '\0';
    text += length + 1;
    entry.variant = tsr_vk_variant_find(name);
    if (entry.variant != TSR_VK_VARIANT_AUTO && !tsr_vk_tuning_set(tuning, &entry.class, entry.variant)) {
      return "it has more lines than there is room for";
    }
  }
  return NULL;
}

char *tsr_vk_tuning_print(const tsr_vk_tuning *tuning)
{
  const size_t room = sizeof first_line + (size_t)tuning->count * LINE_BYTES;
  char *text = malloc(room);
  if (text == NULL) {
    return NULL;
  }
  size_t length = (size_t)snprintf(text, room, "%s", first_line);
  for (int32_t i = 0; i < tuning->count; ++i) {
    char class[LINE_BYTES / 2];
    tsr_vk_class_print(&tuning->entries[i].class, class, sizeof class);
    length += (size_t)snprintf(text + length, room - length, "%s %s\n", class,
                               tsr_vk_variant_name(tuning->entries[i].variant));
  }
  return text;
}
