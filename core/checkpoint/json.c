/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies text, control characters replaced, and marks a cut that does not split a UTF-8 character. */
static void copy_printable(const char *text, size_t size, char *out, size_t room)
{
  static const char cut[] = "...";
  size_t kept = size;
  if (size >= room) {
    kept = room - sizeof cut;
    while (kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80) {
      kept--;
    }
  }
  for (size_t i = 0; i < kept; i++) {
    unsigned char byte = (unsigned char)text[i];
    out[i] = byte < 0x20 || byte == 0x7F ? '?' : text[i];
  }
  if (kept < size) {
    memcpy(out + kept, cut, sizeof cut);
  } else {
    out[kept] = 0;
  }
}

tsr_quoted tsr_quote(const char *text)
{
  tsr_quoted quoted;
  quoted.text[0] = '"';
  copy_printable(text, strlen(text), quoted.text + 1, sizeof quoted.text - 2);
  strcat(quoted.text, "\"");
  return quoted;
}

json_t *tsr_json_float(float value)
{
  char text[32];
  int digits = 1;
  do {
    snprintf(text, sizeof text, "%.*g", digits, (double)value);
  } while (strtof(text, NULL) != value && ++digits <= 9);
  return json_real(strtod(text, NULL));
}

tsr_quoted tsr_json_show(const json_t *value)
{
  tsr_quoted shown;
  char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
  const char *found = text ? text : "nothing";
  copy_printable(found, strlen(found), shown.text, sizeof shown.text);
  free(text);
  return shown;
}

/* Where the first number beyond 64 bits stands, in a text read with integers as reals: the keys from the root on, such
 * as "encoder.weight" "shape". Writes them to `where` and returns 1, or returns 0. */
static int find_large_number(const json_t *value, char *where, size_t room)
{
  if (json_is_real(value)) {
    double number = json_real_value(value);
    return number >= 9223372036854775808.0 || number <= -9223372036854775808.0;
  }
  if (json_is_array(value)) {
    size_t index;
    json_t *item;
    json_array_foreach(value, index, item)
    {
      if (find_large_number(item, where, room)) {
        return 1;
      }
    }
  }
  if (json_is_object(value)) {
    size_t length = strlen(where);
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)value, key, item)
    {
      snprintf(where + length, room - length, "%s%s", length > 0 ? " " : "", tsr_quote(key).text);
      if (find_large_number(item, where, room)) {
        return 1;
      }
      where[length] = 0;
    }
  }
  return 0;
}

static tsr_status fail_large_number(const char *name, const void *text, size_t size, const json_error_t *error)
{
  char where[512] = "";
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
  int found = root && find_large_number(root, where, sizeof where);
  json_decref(root);
  if (found) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %s: a number is too large: expected an integer of 64 bits", name, where);
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: line %d: %s", name, error->line, error->text);
}

static int is_infinity_or_nan(const char *text, size_t size, const json_error_t *error)
{
  static const char *const words[] = {"NaN", "Infinity"};
  size_t end = error->position > 0 ? (size_t)error->position : 0;
  for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
    size_t length = strlen(words[w]);
    /* The parser stops after the word, or after the sign before it. */
    size_t first = end > length ? end - length : 0;
    for (size_t at = first; at <= end && at + length <= size; at++) {
      if (memcmp(text + at, words[w], length) == 0) {
        return 1;
      }
    }
  }
  return 0;
}

/* The parser stops after the second of two equal keys, and names only a short one. */
static tsr_status fail_duplicate_key(const char *name, const char *text, size_t size, const json_error_t *error)
{
  size_t end = error->position > 0 && (size_t)error->position <= size ? (size_t)error->position : 0;
  while (end > 0 && text[end - 1] != '"') {
    end--;
  }
  size_t begin = end > 0 ? end - 1 : 0;
  int opens = 0;
  while (begin > 0 && !opens) {
    size_t escapes = 0;
    if (text[--begin] != '"') {
      continue;
    }
    while (escapes < begin && text[begin - 1 - escapes] == '\\') {
      escapes++;
    }
    opens = escapes % 2 == 0;
  }
  char key[128] = "";
  if (opens) {
    copy_printable(text + begin + 1, end - begin - 2, key, sizeof key);
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: line %d, column %d: not valid JSON: duplicate object key \"%s\"", name,
                  error->line, error->column, key);
}

/* Whether a text was refused because memory ran out. jansson says so in few places: elsewhere it gives no reason, or
 * the text looks wrong to it. A text that can be read when it is tried again was not wrong; and where there is no
 * memory to try, nothing is known of the text. */
static int is_out_of_memory(const void *text, size_t size, size_t flags, const json_error_t *error)
{
  if (json_error_code(error) == json_error_out_of_memory || error->text[0] == 0) {
    return 1;
  }
  json_t *probe = json_stringn_nocheck(text, size);
  json_t *value = probe ? json_loadb(text, size, flags, NULL) : NULL;
  int is_memory = !probe || value;
  json_decref(value);
  json_decref(probe);
  return is_memory;
}

static tsr_status fail_json_memory(const char *name)
{
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: out of host memory", name);
}

tsr_status tsr_json_parse(const char *name, const void *text, size_t size, json_t **root)
{
  *root = NULL;
  if (size == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the file is empty: expected JSON", name);
  }
  json_error_t error;
  json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
  if (!value) {
    enum json_error_code code = json_error_code(&error);
    if (is_out_of_memory(text, size, JSON_REJECT_DUPLICATES, &error)) {
      return fail_json_memory(name);
    }
    if (code == json_error_numeric_overflow) {
      return fail_large_number(name, text, size, &error);
    }
    if (code == json_error_invalid_syntax && is_infinity_or_nan(text, size, &error)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: line %d, column %d: NaN and Infinity are not JSON: expected a finite number",
                      name, error.line, error.column);
    }
    if (code == json_error_duplicate_key) {
      return fail_duplicate_key(name, text, size, &error);
    }
    char reason[sizeof error.text];
    copy_printable(error.text, strlen(error.text), reason, sizeof reason);
    return tsr_fail(TSR_ERR_FORMAT, "%s: line %d, column %d: not valid JSON: %s", name, error.line, error.column,
                    reason);
  }
  if (!json_is_object(value)) {
    tsr_quoted shown = tsr_json_show(value);
    json_decref(value);
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected a JSON object, found %s", name, shown.text);
  }
  *root = value;
  return TSR_OK;
}

/* Makes integers of those reals of a container that are some; integers beyond 2^53 were none of use. */
static tsr_status restore_integers(json_t *container)
{
  const double exact = 9007199254740992.0;
  const char *key;
  void *next;
  size_t index;
  json_t *item;
  int failed = 0;
  json_object_foreach_safe(container, next, key, item)
  {
    double number = json_real_value(item);
    if (json_is_real(item) && fabs(number) <= exact && number == floor(number)) {
      failed |= json_object_set_new(container, key, json_integer((json_int_t)number)) != 0;
    } else if (!json_is_real(item) && restore_integers(item) != TSR_OK) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
  }
  json_array_foreach(container, index, item)
  {
    double number = json_real_value(item);
    if (json_is_real(item) && fabs(number) <= exact && number == floor(number)) {
      failed |= json_array_set_new(container, index, json_integer((json_int_t)number)) != 0;
    } else if (!json_is_real(item) && restore_integers(item) != TSR_OK) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
  }
  return failed ? tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of host memory") : TSR_OK;
}

tsr_status tsr_json_parse_large(const char *name, const void *text, size_t size, json_t **root)
{
  json_error_t error;
  *root = NULL;
  const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
  json_t *value = size > 0 ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &error) : NULL;
  int is_large = size > 0 && !value && json_error_code(&error) == json_error_numeric_overflow;
  if (size > 0 && !value && !is_large && is_out_of_memory(text, size, flags, &error)) {
    return fail_json_memory(name);
  }
  json_decref(value);
  if (!is_large) {
    return tsr_json_parse(name, text, size, root);
  }
  value = json_loadb(text, size, flags, &error);
  if (!value && is_out_of_memory(text, size, flags, &error)) {
    return fail_json_memory(name);
  }
  if (!json_is_object(value)) {
    json_decref(value);
    return tsr_json_parse(name, text, size, root); /* which tells what is wrong */
  }
  tsr_status status = restore_integers(value);
  if (status != TSR_OK) {
    json_decref(value);
    return status;
  }
  *root = value;
  return TSR_OK;
}
