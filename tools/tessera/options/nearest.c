/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/nearest.h"

#include <string.h>

int32_t tsr_words_apart(const char *a, const char *b)
{
  enum { ROOM = 64 };
  int32_t row[ROOM], n = (int32_t)strlen(b), m = (int32_t)strlen(a);
  n = n < ROOM - 1 ? n : ROOM - 1;
  m = m < ROOM - 1 ? m : ROOM - 1;
  for (int32_t j = 0; j <= n; j++) {
    row[j] = j;
  }
  for (int32_t i = 1; i <= m; i++) {
    int32_t diagonal = row[0];
    row[0] = i;
    for (int32_t j = 1; j <= n; j++) {
      int32_t changed = diagonal + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      diagonal = row[j];
      row[j] = changed < other ? changed : other;
    }
  }
  return row[n];
}
