/* SPDX-License-Identifier: Apache-2.0
 *
 * BLEU and chrF of texts of any bytes, the first line against the rest: within their range, and perfect against itself.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tessera/eval.h"

static int in_range(double score)
{
  return score >= 0 && score < 100.000001;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *feed = size > 0 ? memchr(data, '\n', size) : NULL;
  size_t first = feed ? (size_t)(feed - data) : size;
  tsr_span hypothesis = {(const char *)data, first};
  tsr_span reference = {(const char *)data + first, size - first};
  tsr_bleu bleu;
  tsr_chrf chrf;
  REQUIRE(tsr_bleu_corpus(&hypothesis, &reference, 1, &bleu) == TSR_OK && in_range(bleu.score));
  REQUIRE(tsr_chrf_corpus(&hypothesis, &reference, 1, &chrf) == TSR_OK && in_range(chrf.score));
  REQUIRE(tsr_bleu_sentence(reference, reference, &bleu) == TSR_OK);
  REQUIRE(bleu.totals[0] == 0 ? bleu.score == 0 : bleu.score > 99.999999 && in_range(bleu.score));
  REQUIRE(tsr_chrf_corpus(&reference, &reference, 1, &chrf) == TSR_OK);
  REQUIRE(chrf.reference[0] == 0 ? chrf.score == 0 : chrf.score > 99.999999 && in_range(chrf.score));
  return 0;
}
