/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece models, with the library behind them: whatever is accepted cuts texts and joins pieces.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/text/sentencepiece.h"

static tsr_status count_piece(void *user, const char *piece, size_t size)
{
  (void)piece;
  *(size_t *)user += size;
  return TSR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const texts[] = {"", " A dog  runs. ",
                                      "\xE2\x96\x81\xFF\xC3\xA9 \xEF\xBC\xA1\xEF\xAC\x81\xCC\x81"};
  static const char *const pieces[] = {"\xE2\x96\x81", "A", "<unk>", "<0x41>", "</s>", "unknown", "\xFF"};
  tsr_sentencepiece *model;
  if (tsr_sentencepiece_parse("fuzz", data, size, &model) != TSR_OK) {
    REQUIRE(!model && tsr_error_message()[0]);
    return 0;
  }
  size_t total = 0;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    (void)!tsr_sentencepiece_encode(model, texts[i], strlen(texts[i]), count_piece, &total);
  (void)!tsr_sentencepiece_encode(model, (const char *)data, size < 256 ? size : 256, count_piece, &total);
  char *text;
  if (tsr_sentencepiece_decode(model, pieces, sizeof pieces / sizeof pieces[0], &text) == TSR_OK)
    total += strlen(text);
  free(text);
  tsr_sentencepiece_close(model);
  return 0;
}
