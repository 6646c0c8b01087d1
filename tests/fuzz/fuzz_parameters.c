/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients send to `tessera serve`: the first byte chooses the type, the end of a line parts query string and body.
 * Texts that come out are UTF-8 without NUL.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"

#include "tools/tessera/serve/parameters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const types[] = {NULL, "application/json", "application/x-www-form-urlencoded",
                                      "multipart/form-data; boundary=x", "multipart/form-data; boundary=\"a b\""};
  if (size == 0) {
    return 0;
  }
  const char *type = types[data[0] % (sizeof types / sizeof types[0])];
  const char *body = (const char *)data + 1;
  const char *end = memchr(body, '\n', size - 1);
  size_t first = end ? (size_t)(end - body) : 0;
  char *query = calloc(first + 1, 1);
  REQUIRE(query);
  memcpy(query, body, first);
  body += end ? first + 1 : 0;
  parameters list;
  const char *problem = NULL;
  int code = parameters_read(type, body, size - 1 - (end ? first + 1 : 0), query, &list, &problem);
  REQUIRE((code == PARAMETERS_OK) == (problem == NULL));
  for (int32_t i = 0; i < list.n; i++) {
    const parameter *one = &list.items[i];
    int64_t number = 0;
    REQUIRE(one->value[one->size] == '\0');
    REQUIRE(one->kind == PARAMETER_FILE ? one->file_name != NULL : strlen(one->value) == one->size);
    REQUIRE(parameters_find(&list, one->name) != NULL);
    (void)parameters_integer(&list, one->name, &number);
    (void)parameters_flag(&list, one->name);
  }
  parameters_finish(&list);
  free(query);
  return 0;
}
