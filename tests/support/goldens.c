/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/goldens.h"

#include <stdio.h>
#include <stdlib.h>

const char *golden_path(const char *source_root, const char *name)
{
  static char path[4096];
  const char *goldens = getenv("TESSERA_GOLDENS");
  if (!goldens) {
    snprintf(path, sizeof path, "%s/tests/data/goldens/%s", source_root, name);
    return path;
  }
  snprintf(path, sizeof path, "%s/%s", goldens, name);
  FILE *file = fopen(path, "rb");
  if (!file) {
    return NULL;
  }
  fclose(file);
  return path;
}
