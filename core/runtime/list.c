/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/internal.h"

void *tsr_list_add(tsr_list *list, size_t element_size)
{
  if (list->count == list->capacity) {
    int32_t capacity = list->capacity ? 2 * list->capacity : 8;
    void *items = realloc(list->items, (size_t)capacity * element_size);
    if (!items) {
      tsr_fail_memory((size_t)capacity * element_size);
      return NULL;
    }
    list->items = items;
    list->capacity = capacity;
  }
  void *item = (char *)list->items + (size_t)list->count * element_size;
  list->count++;
  return memset(item, 0, element_size);
}

void tsr_list_finish(tsr_list *list)
{
  free(list->items);
  *list = (tsr_list){0};
}

void tsr_text_append(char *text, size_t size, const char *format, ...)
{
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, size - length, format, arguments);
  va_end(arguments);
}
