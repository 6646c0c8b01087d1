/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/store.h"

#include <stdio.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/options/values.h"

int32_t tsr_choice_find(const tsr_choice *choices, const char *name)
{
  for (int32_t i = 0; choices[i].name; i++) {
    if (strcmp(choices[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

static int fail_choice(const tsr_option_given *given, const char *text)
{
  char names[256] = "";
  for (const tsr_choice *choice = given->row->choices; choice->name; choice++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", choice->name);
  }
  return tsr_cli_usage(given->command, "%s: '%s' is none of %s", given->what, text, names);
}

static int take_choice(const tsr_option_given *given, const char *text, int32_t *value)
{
  int32_t index = tsr_choice_find(given->row->choices, text);
  if (index < 0) {
    return fail_choice(given, text);
  }
  *value = (int32_t)given->row->low + index;
  return TSR_EXIT_OK;
}

static int is_bounded(const tsr_option *row)
{
  return row->low <= row->high;
}

static int store_integer(const tsr_option_given *given, const char *text, void *field)
{
  const tsr_option *row = given->row;
  int32_t narrow = 0;
  int64_t value = 0;
  int is_narrow = row->size == sizeof narrow;
  int64_t most = is_narrow ? INT32_MAX : INT64_MAX;
  /* As a double, INT64_MAX is one too many. */
  int64_t high = is_bounded(row) && row->high < (double)most ? (int64_t)row->high : most;
  int64_t low = is_bounded(row) ? (int64_t)row->low : -most;
  int code = tsr_cli_integer(given->command, given->what, text, low, high, &value);
  if (code == TSR_EXIT_OK) {
    narrow = (int32_t)value;
    memcpy(field, is_narrow ? (void *)&narrow : (void *)&value, row->size);
  }
  return code;
}

static int store_number(const tsr_option_given *given, const char *text, void *field)
{
  const tsr_option *row = given->row;
  double value = 0.0;
  int code = tsr_cli_number(given->command, given->what, text, row->low, row->high, &value);
  if (code == TSR_EXIT_OK) {
    float narrow = (float)value;
    memcpy(field, row->size == sizeof narrow ? (void *)&narrow : (void *)&value, row->size);
  }
  return code;
}

/* A value that is a whole number within the program: a number, a precision, a choice. */
static int take_int32(const tsr_option_given *given, const char *text, int32_t *value)
{
  const tsr_option *row = given->row;
  switch (row->kind) {
  case TSR_OPTION_PRECISION: {
    tsr_dtype dtype = 0;
    int code = tsr_cli_precision(given->command, given->what, text, &dtype);
    *value = (int32_t)dtype;
    return code;
  }
  case TSR_OPTION_CHOICE:
    return take_choice(given, text, value);
  default:
    return tsr_cli_int32(given->command, given->what, text, (int32_t)row->low, (int32_t)row->high, value);
  }
}

static int add_integer(const tsr_option_given *given, const char *text, tsr_integers *list)
{
  int32_t value = 0;
  int code = take_int32(given, text, &value);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (list->n == TSR_INTEGERS) {
    return tsr_cli_usage(given->command, "%s: more than %d values", given->what, (int)TSR_INTEGERS);
  }
  list->values[list->n++] = value;
  return TSR_EXIT_OK;
}

int tsr_names_add(const char *command, const char *what, const char *word, tsr_names *names)
{
  if (names->n == TSR_NAMES) {
    return tsr_cli_usage(command, "%s: more than %d names", what, (int)TSR_NAMES);
  }
  names->values[names->n++] = word;
  return TSR_EXIT_OK;
}

static int are_numbers(const tsr_option *row)
{
  return row->kind == TSR_OPTION_INTEGER || row->kind == TSR_OPTION_PRECISION || row->kind == TSR_OPTION_CHOICE;
}

static int has_empty_part(const char *text)
{
  size_t length = strlen(text);
  return length == 0 || text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,");
}

/* Into tsr_integers or tsr_names; what a second one finds there it replaces, unless the option may be given again. */
static int store_list(const tsr_option_given *given, char *text, void *field)
{
  const tsr_option *row = given->row;
  tsr_integers *integers = field;
  tsr_names *names = field;
  int in_numbers = are_numbers(row), code = TSR_EXIT_OK;
  if (row->is_list && has_empty_part(text)) {
    return tsr_cli_usage(given->command, "%s: '%s' has an empty part", given->what, text);
  }
  if (!row->repeats && in_numbers) {
    integers->n = 0;
  } else if (!row->repeats) {
    names->n = 0;
  }
  for (char *part = text, *next = text; next && code == TSR_EXIT_OK; part = next) {
    next = row->is_list ? strchr(part, ',') : NULL;
    if (next) {
      *next++ = '\0';
    }
    code = in_numbers ? add_integer(given, part, integers) : tsr_names_add(given->command, given->what, part, names);
  }
  return code;
}

static int store_switch(const tsr_option_given *given, const char *text, int32_t *field)
{
  int is_true = !text || strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
  if (!is_true && strcmp(text, "false") != 0 && strcmp(text, "no") != 0) {
    return tsr_cli_usage(given->command, "%s: '%s' is neither true nor false", given->what, text);
  }
  *field = is_true;
  return TSR_EXIT_OK;
}

static int store_choice(const tsr_option_given *given, const char *text, void *field)
{
  int32_t value = 0;
  int code = take_choice(given, text, &value);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (given->row->kind == TSR_OPTION_SET) {
    *(unsigned *)field |= 1u << value;
  } else if (given->row->size == sizeof value) {
    memcpy(field, &value, sizeof value);
  } else {
    memcpy(field, &text, sizeof text);
  }
  return TSR_EXIT_OK;
}

int tsr_option_store(const tsr_option_given *given, char *text)
{
  const tsr_option *row = given->row;
  void *field = (char *)given->place + row->offset;
  if (row->is_list || row->repeats) {
    return store_list(given, text, field);
  }
  switch (row->kind) {
  case TSR_OPTION_FLAG:
    *(int32_t *)field = (int32_t)row->low;
    return TSR_EXIT_OK;
  case TSR_OPTION_SWITCH:
    return store_switch(given, text, field);
  case TSR_OPTION_INTEGER:
    return store_integer(given, text, field);
  case TSR_OPTION_NUMBER:
    return store_number(given, text, field);
  case TSR_OPTION_PRECISION:
    return tsr_cli_precision(given->command, given->what, text, field);
  case TSR_OPTION_CHOICE:
  case TSR_OPTION_SET:
    return store_choice(given, text, field);
  default:
    *(const char **)field = text;
    return TSR_EXIT_OK;
  }
}
