/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of translations as one page that needs nothing else: what evaluation_json tells, and a script that shows it.
 */
#include <stdio.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/evaluation/evaluation.h"
#include "tools/tessera/pages/html.h"

static const char style[] =
#include "tools/tessera/pages/eval.css.inc"
    ;
static const char body[] =
#include "tools/tessera/pages/eval.html.inc"
    ;

int evaluation_write_page(const evaluation *e, int64_t limit, const char *title, const char *path)
{
  tsr_cli_page page;
  int code = tsr_cli_page_open(&page);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  json_t *root = evaluation_json(e, limit);
  json_object_del(root, "differences"); /* among the others */
  tsr_cli_html_begin(page.out, title, style);
  code = tsr_cli_html_json(page.out, "data", root, JSON_COMPACT);
  fputs(body, page.out);
  tsr_cli_html_end(page.out);
  return tsr_cli_page_close(&page, path, code);
}
