/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/base64.h"

#include <stdint.h>
#include <string.h>

int tsr_base64_decode(const char *text, size_t size, unsigned char *bytes, size_t *n_bytes)
{
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  *n_bytes = 0;
  for (int padding = 0; padding < 2 && size > 0 && text[size - 1] == '='; padding++) {
    size--;
  }
  uint32_t bits = 0;
  for (size_t i = 0; i < size; i++) {
    const char *found = text[i] ? strchr(alphabet, text[i]) : NULL;
    if (!found) {
      return 0;
    }
    bits = bits << 6 | (uint32_t)(found - alphabet);
    if (i % 4 != 0) {
      bytes[(*n_bytes)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
  }
  return size % 4 != 1;
}
