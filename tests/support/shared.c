/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const char *shared_folder(const char *name)
{
  static char path[4096];
  const char *root = getenv("TESSERA_SHARED");
  struct stat status;
  int size = snprintf(path, sizeof path, "%s/%s", root && root[0] ? root : TESSERA_SOURCE_ROOT "/../shared", name);
  return size < (int)sizeof path && stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? path : NULL;
}
