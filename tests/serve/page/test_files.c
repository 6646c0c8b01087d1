/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the page as the program has them: all that the pages name is there, and what a browser has is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tessera/serve/page/files.h"

/* What begins at `text` is there before its end; the bytes end with no NUL. */
static const char *find_in(const page_file *file, size_t from, const char *text)
{
  size_t length = strlen(text);
  for (size_t i = from; i + length <= file->size; i++) {
    if (memcmp(file->bytes + i, text, length) == 0) {
      return file->bytes + i;
    }
  }
  return NULL;
}

/* The path that a page at `base` means by `link`. */
static void resolve(const char *base, const char *link, size_t length, char path[128])
{
  char folder[64];
  snprintf(folder, sizeof folder, "%s", base);
  *(strrchr(folder, '/') + 1) = '\0';
  if (length >= 3 && memcmp(link, "../", 3) == 0) {
    snprintf(path, 128, "/%.*s", (int)(length - 3), link + 3);
  } else if (length >= 2 && memcmp(link, "./", 2) == 0) {
    snprintf(path, 128, "%s%.*s", folder, (int)(length - 2), link + 2);
  } else {
    snprintf(path, 128, "%s%.*s", folder, (int)length, link);
  }
}

static int check_links(const page_file *page, const char *attribute)
{
  int n = 0;
  for (const char *at = find_in(page, 0, attribute); at; at = find_in(page, (size_t)(at - page->bytes), attribute)) {
    at += strlen(attribute);
    const char *end = memchr(at, '"', page->size - (size_t)(at - page->bytes));
    assert_non_null(end);
    if (*at != '#') {
      char path[128];
      resolve(page->path, at, (size_t)(end - at), path);
      if (!page_file_find(path)) {
        fail_msg("%s names %s, which is not there", page->path, path);
      }
      n++;
    }
  }
  return n;
}

static void test_pages(void **unused)
{
  (void)unused;
  static const char *const pages[] = {"/", "/app/status"};
  static const char *const here[] = {" aria-current=\"page\" data-text=\"translate\"",
                                     " aria-current=\"page\" data-text=\"status\""};
  for (int i = 0; i < 2; i++) {
    const page_file *page = page_file_find(pages[i]);
    assert_non_null(page);
    assert_string_equal(page->path, pages[i]);
    assert_string_equal(page->content_type, "text/html; charset=utf-8");
    assert_memory_equal(page->bytes, "<!DOCTYPE html>", 15);
    assert_memory_equal(page->bytes + page->size - 8, "</html>\n", 8);
    assert_true(check_links(page, "href=\"") >= 5);
    assert_true(check_links(page, "src=\"") == 2);
    assert_null(find_in(page, 0, "style=\""));
    assert_null(find_in(page, 0, "<script>"));
    assert_null(find_in(page, 0, "{")); /* nothing is left to be filled in */
    assert_non_null(find_in(page, 0, here[i]));
    assert_null(find_in(page, 0, here[1 - i]));
  }
  assert_null(page_file_find("/app/"));
  assert_null(page_file_find("/app/page.html"));
  assert_null(page_file_find(""));
}

static void test_joined(void **unused)
{
  (void)unused;
  const page_file *script = page_file_find("/app/page.js");
  const page_file *style = page_file_find("/app/page.css");
  assert_non_null(script);
  assert_non_null(style);
  assert_string_equal(script->content_type, "text/javascript; charset=utf-8");
  assert_non_null(find_in(script, 0, "'app/recorder.js'"));
  assert_non_null(page_file_find("/app/recorder.js"));
  assert_string_equal(style->content_type, "text/css; charset=utf-8");
  /* From the first source to the last, in their order. */
  const char *first = find_in(script, 0, "const TEXTS = {");
  const char *last = find_in(script, 0, "'DOMContentLoaded'");
  assert_true(first && last && first < last);
  first = find_in(style, 0, ":root {");
  last = find_in(style, 0, "@media print {");
  assert_true(first && last && first < last);
}

static void test_tags(void **unused)
{
  (void)unused;
  const page_file *page = page_file_find("/"), *other = page_file_find("/app/status");
  size_t length = strlen(page->tag);
  assert_true(length > 10 && page->tag[0] == '"' && page->tag[length - 1] == '"');
  assert_string_not_equal(page->tag, other->tag);
  char list[256];
  assert_false(page_file_is_known(page, NULL));
  assert_false(page_file_is_known(page, ""));
  assert_false(page_file_is_known(page, other->tag));
  assert_true(page_file_is_known(page, page->tag));
  assert_true(page_file_is_known(page, "*"));
  snprintf(list, sizeof list, "%s, W/%s", other->tag, page->tag);
  assert_true(page_file_is_known(page, list));
  snprintf(list, sizeof list, "\"x%s", page->tag + 1);
  assert_false(page_file_is_known(page, list));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pages),
      cmocka_unit_test(test_joined),
      cmocka_unit_test(test_tags),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
