/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sentences, plain, SGM and XML, compressed or not: whatever is read is UTF-8, and the same when it is read
 * again.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/utf8.h"
#include "core/text/text_file.h"

static uint64_t mix(uint64_t sum, const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
  return sum ^ size;
}

/* Reads to the end or an error; returns a sum over the sentences. */
static uint64_t read_all(tsr_text_file *file, int is_markup, tsr_status *status)
{
  uint64_t sum = 0;
  tsr_corpus_sentence sentence;
  for (int32_t end = 0; (*status = tsr_text_file_next(file, &sentence, &end)) == TSR_OK && !end;) {
    REQUIRE(tsr_utf8_is_valid(sentence.text, sentence.size));
    REQUIRE(!sentence.size || !memchr(sentence.text, '\n', sentence.size));
    REQUIRE(!is_markup || !sentence.size || (sentence.text[0] != ' ' && sentence.text[sentence.size - 1] != ' '));
    sum = mix(mix(sum, sentence.text, sentence.size), sentence.id, strlen(sentence.id));
  }
  REQUIRE(*status == TSR_OK || tsr_error_message()[0]);
  return sum;
}

/* 1 if the text is short enough to be read a dozen times: a few compressed bytes can be gigabytes of it. */
static int is_short(const uint8_t *data, size_t size)
{
  enum { LONGEST = 1 << 20 };
  tsr_stream stream;
  if (tsr_stream_view("fuzz", data, size, &stream) != TSR_OK)
    return 1;
  while (stream.offset <= LONGEST && !stream.at_end && tsr_stream_fill(&stream) == TSR_OK)
    tsr_stream_skip(&stream, stream.end - stream.begin);
  int64_t length = stream.offset;
  tsr_stream_finish(&stream);
  return length <= LONGEST;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const names[] = {"fuzz", "fuzz.sgm"};
  if (!is_short(data, size))
    return 0;
  for (int32_t part = TSR_TEXT_SOURCE; part <= TSR_TEXT_HYPOTHESIS; part++) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
      tsr_text_file *file;
      if (tsr_text_file_view(names[i], data, size, part, &file) != TSR_OK) {
        REQUIRE(tsr_error_message()[0]);
        continue;
      }
      int is_markup = tsr_text_file_is_markup(file);
      tsr_status first;
      tsr_status second;
      uint64_t sum = read_all(file, is_markup, &first);
      REQUIRE(tsr_text_file_seek(file, 0, 0) == TSR_OK);
      REQUIRE(read_all(file, is_markup, &second) == sum && second == first);
      tsr_text_file_close(file);
    }
  }
  return 0;
}
