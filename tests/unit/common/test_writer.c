/* SPDX-License-Identifier: Apache-2.0
 *
 * Transcripts as they are written: times, and texts that have signs of the form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tessera/text/transcript_writer.h"

static void write_and_compare(int32_t form, const tsr_segment *segments, int32_t n, const char *expected)
{
  char *text = NULL;
  size_t size = 0;
  writer w = {.file = open_memstream(&text, &size), .form = form};
  assert_non_null(w.file);
  writer_begin(&w);
  for (int32_t i = 0; i < n; i++) {
    assert_int_equal(writer_segment(&w, &segments[i]), 1);
  }
  assert_int_equal(fclose(w.file), 0);
  assert_string_equal(text, expected);
  free(text);
}

static void test_signs(void **state)
{
  (void)state;
  const tsr_segment one = {.start = 0.5, .end = 2, .text = " R&B <i>\tor\r\n\n a --> b ---> c> "};
  write_and_compare(WRITER_SRT, &one, 1, "1\n00:00:00,500 --> 00:00:02,000\nR&B <i>\tor    a -> b -> c>\n\n");
  write_and_compare(WRITER_VTT, &one, 1,
                    "WEBVTT\n\n00:00.500 --> 00:02.000\nR&amp;B &lt;i&gt;\tor    a --&gt; b ---&gt; c&gt;\n\n");
  write_and_compare(WRITER_TXT, &one, 1, "R&B <i> or    a --> b ---> c>\n");
  write_and_compare(WRITER_TSV, &one, 1, "start\tend\ttext\n500\t2000\tR&B <i> or    a --> b ---> c>\n");
}

/* Hours, more than two digits of them, a time that rounding makes a second longer; what has no text is no subtitle. */
static void test_times(void **state)
{
  (void)state;
  const tsr_segment segments[] = {
      {.start = 0, .end = 59.9996, .text = "a"},
      {.start = 3599.5, .end = 3600, .text = " \n"},
      {.start = 3599.99, .end = 360000.25, .text = "b"},
  };
  write_and_compare(WRITER_SRT, segments, 3,
                    "1\n00:00:00,000 --> 00:01:00,000\na\n\n2\n00:59:59,990 --> 100:00:00,250\nb\n\n");
  write_and_compare(WRITER_VTT, segments, 3,
                    "WEBVTT\n\n00:00.000 --> 01:00.000\na\n\n59:59.990 --> 100:00:00.250\nb\n\n");
  write_and_compare(WRITER_VTT, NULL, 0, "WEBVTT\n\n");
  write_and_compare(WRITER_SRT, NULL, 0, "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_signs),
      cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
