/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisers and word errors of texts of any bytes, the first line against the rest: what comes out is UTF-8, and the
 * errors fit the numbers of words.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/utf8.h"
#include "tessera/eval.h"

static void normalize(tsr_normalizer *normalizer, tsr_span text, tsr_span rest)
{
  tsr_scorer *scorer;
  tsr_span normalized;
  tsr_wer wer;
  REQUIRE(tsr_normalize(normalizer, text, &normalized) == TSR_OK);
  REQUIRE(tsr_utf8_is_valid(normalized.bytes, normalized.size));
  REQUIRE(tsr_scorer_create(TSR_METRIC_WER, &scorer) == TSR_OK);
  REQUIRE(tsr_scorer_set_normalizer(scorer, normalizer) == TSR_OK);
  REQUIRE(tsr_scorer_add(scorer, text, rest) == TSR_OK);
  REQUIRE(tsr_scorer_wer(scorer, &wer) == TSR_OK);
  REQUIRE(wer.substitutions >= 0 && wer.deletions >= 0 && wer.insertions >= 0);
  REQUIRE(wer.substitutions + wer.deletions <= wer.reference_words);
  REQUIRE(wer.insertions - wer.deletions == wer.hypothesis_words - wer.reference_words);
  tsr_scorer_destroy(scorer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char spellings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/tokenizer/normalizer.json";
  static tsr_normalizer *basic, *plain, *english;
  if (!english) {
    int32_t flags = TSR_NORMALIZE_DIACRITICS | TSR_NORMALIZE_LETTERS;
    REQUIRE(tsr_normalizer_create(TSR_NORMALIZER_BASIC, 0, NULL, &basic) == TSR_OK);
    REQUIRE(tsr_normalizer_create(TSR_NORMALIZER_BASIC, flags, NULL, &plain) == TSR_OK);
    REQUIRE(tsr_normalizer_create(TSR_NORMALIZER_ENGLISH, 0, spellings, &english) == TSR_OK);
  }
  const uint8_t *feed = size > 0 ? memchr(data, '\n', size) : NULL;
  size_t first = feed ? (size_t)(feed - data) : size;
  tsr_span text = {(const char *)data, first};
  tsr_span rest = {(const char *)data + first, size - first};
  normalize(basic, text, rest);
  normalize(plain, text, rest);
  normalize(english, text, rest);
  return 0;
}
