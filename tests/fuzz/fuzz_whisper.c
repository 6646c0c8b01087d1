/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer of Whisper, one line of tokenizer.json, and ids, a byte each, behind it: whatever is accepted decodes all
 * ids to UTF-8, and its segments and words lie within them.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "tessera/speech.h"
#include "tests/support/temporary.h"

static char *folder;

static void remove_folder(void)
{
  remove_temporary_folder(folder);
}

enum { MOST = 256 };

static void decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n)
{
  for (int32_t keep = 0; keep < 4; keep++) {
    char *text;
    REQUIRE(tsr_speech_decode(tokenizer, ids, n, keep, n, &text) == TSR_OK);
    REQUIRE(tsr_utf8_is_valid(text, strlen(text)));
    tsr_free(text);
  }
  tsr_speech_offset *offsets;
  int32_t n_offsets;
  REQUIRE(tsr_speech_offsets(tokenizer, ids, n, 0, &offsets, &n_offsets) == TSR_OK);
  for (int32_t i = 0; i < n_offsets; i++) {
    REQUIRE(tsr_utf8_is_valid(offsets[i].text, strlen(offsets[i].text)));
  }
  tsr_free(offsets);
}

static void cut(const tsr_speech_tokens *tokens, const int32_t *ids, int32_t n)
{
  tsr_speech_segment segments[MOST + 1];
  int32_t n_segments;
  int64_t advance;
  REQUIRE(tsr_speech_segments(ids, n, tokens->timestamp_begin, n, 1 + n, segments, &n_segments, &advance) == TSR_OK);
  REQUIRE(n_segments >= 1 && n_segments <= n + 1 && advance >= 1);
  int32_t end = 0;
  for (int32_t i = 0; i < n_segments; i++) {
    REQUIRE(segments[i].first == end && segments[i].n_tokens >= 0);
    end += segments[i].n_tokens;
  }
  REQUIRE(end <= n);
  const int32_t kept = tsr_speech_plain_length(ids, n, tokens->end_of_text, tokens->timestamp_begin);
  REQUIRE(kept >= 0 && kept <= n);
}

static void group(const tsr_tokenizer *tokenizer, const char *language, const int32_t *ids, int32_t n)
{
  double times[MOST + 1] = {0};
  tsr_speech_word *words;
  int32_t n_words;
  REQUIRE(tsr_speech_words(tokenizer, language, ids, n, times, NULL, &words, &n_words) == TSR_OK);
  int32_t end = 0;
  for (int32_t i = 0; i < n_words; i++) {
    REQUIRE(words[i].first >= end && words[i].n_tokens > 0 && words[i].text[0]);
    REQUIRE(tsr_utf8_is_valid(words[i].text, strlen(words[i].text)));
    end = words[i].first + words[i].n_tokens;
  }
  REQUIRE(end <= n);
  tsr_free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!folder) {
    folder = make_temporary_folder();
    atexit(remove_folder);
  }
  const uint8_t *feed = size > 0 ? memchr(data, '\n', size) : NULL;
  const size_t first = feed ? (size_t)(feed - data) : size;
  write_file(path_in(folder, "tokenizer.json"), data, first);
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_as(folder, "whisper", &tokenizer) != TSR_OK) {
    REQUIRE(!tokenizer && tsr_error_message()[0]);
    return 0;
  }
  int32_t ids[MOST];
  int32_t n = 0;
  for (size_t i = first + 1; i < size && n < MOST; i++) {
    ids[n++] = data[i] == 0xFF ? -1 : data[i];
  }
  tsr_speech_tokens tokens;
  REQUIRE(tsr_speech_get_tokens(tokenizer, &tokens) == TSR_OK);
  decode(tokenizer, ids, n);
  cut(&tokens, ids, n);
  group(tokenizer, "en", ids, n);
  group(tokenizer, "ja", ids, n);
  int32_t *prompt;
  int32_t n_prompt;
  if (tsr_speech_prompt(tokenizer, (const char *)data, first, &prompt, &n_prompt) == TSR_OK) {
    REQUIRE(n_prompt >= 1 && prompt[0] == tokens.start_of_prev);
  }
  tsr_free(prompt);
  tsr_tokenizer_close(tokenizer);
  return 0;
}
