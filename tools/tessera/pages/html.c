/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/pages/html.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/files.h"
#include "tessera/text.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"

static const char common_style[] =
#include "tools/tessera/pages/page.css.inc"
    ;

int tsr_cli_page_open(tsr_cli_page *page)
{
  *page = (tsr_cli_page){0};
  page->out = open_memstream(&page->text, &page->size);
  return page->out ? TSR_EXIT_OK : tsr_cli_no_memory();
}

int tsr_cli_page_close(tsr_cli_page *page, const char *path, int code)
{
  int failed = ferror(page->out) != 0;
  failed |= fclose(page->out) != 0;
  if (failed && code == TSR_EXIT_OK) {
    code = tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_file_replace(path, page->text, page->size));
  }
  free(page->text);
  *page = (tsr_cli_page){0};
  return code;
}

static void put_character(FILE *out, char c)
{
  switch (c) {
  case '&':
    fputs("&amp;", out);
    break;
  case '<':
    fputs("&lt;", out);
    break;
  case '>':
    fputs("&gt;", out);
    break;
  case '"':
    fputs("&quot;", out);
    break;
  case '\'':
    fputs("&#39;", out);
    break;
  default:
    fputc(c, out);
  }
}

void tsr_cli_html_text(FILE *out, const char *text)
{
  enum { PIECE = 256, MOST_BYTES = 4 /* of a character */ };
  char clean[3 * PIECE];
  for (size_t left = strlen(text); left > 0;) {
    size_t n = left < PIECE ? left : PIECE;
    while (n < left && n > PIECE - MOST_BYTES && ((unsigned char)text[n] & 0xc0) == 0x80) {
      n--; /* a piece ends between two characters */
    }
    size_t n_clean = tsr_utf8_clean(text, n, clean);
    for (size_t i = 0; i < n_clean; i++) {
      put_character(out, clean[i]);
    }
    text += n;
    left -= n;
  }
}

void tsr_cli_html_begin(FILE *out, const char *title, const char *style)
{
  fputs("<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width'>\n<title>",
        out);
  tsr_cli_html_text(out, title);
  fprintf(out, "</title>\n<style>%s%s</style></head><body>\n", common_style, style ? style : "");
}

void tsr_cli_html_end(FILE *out)
{
  fputs("</body></html>\n", out);
}

int tsr_cli_html_json(FILE *out, const char *id, json_t *root, size_t flags)
{
  char *text = root ? json_dumps(root, flags | JSON_PRESERVE_ORDER) : NULL;
  json_decref(root);
  if (!text) {
    return tsr_cli_no_memory();
  }
  fprintf(out, "<script type='application/json' id='%s'>", id);
  /* "</script" and "<!--" are what a browser looks for; both begin with '<', which occurs in strings only. */
  for (const char *at = text; *at; at++) {
    if (*at == '<') {
      fputs("\\u003c", out);
    } else {
      fputc(*at, out);
    }
  }
  fputs("</script>\n", out);
  free(text);
  return TSR_EXIT_OK;
}
