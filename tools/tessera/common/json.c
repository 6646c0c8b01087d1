/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tessera/text.h"
#include "tools/tessera/common/message.h"

int tsr_cli_json_print(json_t *root, size_t flags)
{
  if (!root) {
    return tsr_cli_no_memory();
  }
  char *text = json_dumps(root, flags | JSON_PRESERVE_ORDER);
  json_decref(root);
  if (!text) {
    return tsr_cli_no_memory();
  }
  puts(text);
  free(text);
  return TSR_EXIT_OK;
}

json_t *tsr_cli_json_text(const char *text, size_t size)
{
  if (size > (SIZE_MAX - 1) / 3) {
    return NULL;
  }
  char *clean = malloc(size * 3 + 1);
  if (!clean) {
    return NULL;
  }
  size_t used = tsr_utf8_clean(text, size, clean);
  json_t *string = json_stringn(clean, used);
  free(clean);
  return string;
}

json_t *tsr_cli_json_real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}
