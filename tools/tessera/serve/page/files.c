/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/page/files.h"

#include <string.h>

#include "page_files.inc"

#define TSR_PAGE_FILE(path, type, tag, bytes, size) {path, type, tag, (const char *)(bytes), size},

static const page_file files[] = {TSR_PAGE_FILES};

const char page_policy[] = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const page_file *page_file_find(const char *path)
{
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (strcmp(files[i].path, path) == 0) {
      return &files[i];
    }
  }
  return NULL;
}

int page_file_is_known(const page_file *file, const char *if_none_match)
{
  if (!if_none_match) {
    return 0;
  }
  /* A list of tags, some of which may be marked as weak: the quotes make each unmistakable. */
  return strcmp(if_none_match, "*") == 0 || strstr(if_none_match, file->tag) != NULL;
}
