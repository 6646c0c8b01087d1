/* SPDX-License-Identifier: Apache-2.0
 *
 * GET / and /app/..: the files of the page, which browsers keep and ask about by their entity tags; GET /spec.
 */
#include "tools/tessera/serve/openapi.inc"
#include "tools/tessera/serve/page/files.h"
#include "tools/tessera/serve/service.h"

void api_embedded(call *c)
{
  const page_file *file = page_file_find(c->http->path);
  if (!file) {
    reply_error(c, 404, "There is no such page");
    return;
  }
  http_answer_header(c->http, "ETag", file->tag);
  http_answer_header(c->http, "Cache-Control", "no-cache");
  http_answer_header(c->http, "Content-Security-Policy", page_policy);
  if (page_file_is_known(file, http_header(c->http, "If-None-Match"))) {
    http_answer_static(c->http, 304, NULL, "", 0);
  } else {
    http_answer_static(c->http, 200, file->content_type, file->bytes, file->size);
  }
}

void api_spec(call *c)
{
  http_answer_static(c->http, 200, "application/json", (const char *)spec_bytes, sizeof spec_bytes);
}
