/* SPDX-License-Identifier: Apache-2.0
 *
 * json_value PATH: reads JSON (one document) from standard input and prints the value at PATH: keys and indices joined
 * by dots, "." for the whole. Strings are printed bare. Exit code 1 if the input is not JSON or the path leads nowhere.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *step_into(json_t *value, const char *key)
{
  if (json_is_array(value)) {
    return json_array_get(value, (size_t)strtoul(key, NULL, 10));
  }
  return json_object_get(value, key);
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    fputs("usage: json_value PATH\n", stderr);
    return 2;
  }
  json_error_t error;
  json_t *root = json_loadf(stdin, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (!root) {
    fprintf(stderr, "json_value: line %d: %s\n", error.line, error.text);
    return 1;
  }
  json_t *value = root;
  for (char *key = strtok(argv[1], "."); key && value; key = strtok(NULL, ".")) {
    value = step_into(value, key);
  }
  if (json_is_string(value)) {
    puts(json_string_value(value));
  } else if (value) {
    json_dumpf(value, stdout, JSON_ENCODE_ANY);
    putchar('\n');
  }
  json_decref(root);
  return value ? 0 : 1;
}
