/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tools/tessera/documents/documents.h"

static tsr_status refuse(void)
{
  return tsr_fail(TSR_ERR_UNSUPPORTED, "this build of tessera translates no documents: libxml2 and libzip were not "
                                       "there when it was built (Debian: libxml2-dev, libzip-dev; meson setup "
                                       "-Ddocuments=enabled)");
}

tsr_status tsr_document_html(const tsr_document_translator *translator, const char *html, size_t size, char **result,
                             size_t *result_size)
{
  (void)translator;
  (void)html;
  (void)size;
  if (result && result_size) {
    *result = NULL;
    *result_size = 0;
  }
  return refuse();
}

tsr_status tsr_document_file(const tsr_document_translator *translator, const char *name, const void *bytes,
                             size_t size, void **result, size_t *result_size)
{
  (void)translator;
  (void)name;
  (void)bytes;
  (void)size;
  if (result && result_size) {
    *result = NULL;
    *result_size = 0;
  }
  return refuse();
}

tsr_status tsr_document_take(const tsr_document_text *text, const tsr_translation *translation,
                             tsr_document_answer *answer)
{
  (void)text;
  (void)translation;
  (void)answer;
  return refuse();
}

const char *const *tsr_document_formats(void)
{
  static const char *const none[] = {NULL};
  return none;
}

void tsr_document_free(void *result)
{
  free(result);
}
