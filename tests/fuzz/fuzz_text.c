/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of any bytes through a Marian tokenizer, and back.
 */
#include "tests/fuzz/fuzz.h"

#include "core/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  enum { VOCABULARY = 5001 };
  static tsr_tokenizer *tokenizer; /* kept for all inputs */
  if (!tokenizer) {
    const tsr_transformer_config config = {TSR_SIZED(tsr_transformer_config), .source_vocabulary = VOCABULARY,
                                           .target_vocabulary = VOCABULARY};
    REQUIRE(tsr_tokenizer_open_kind(TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr", tsr_tokenizer_kind_find("marian"),
                                    &config, &tokenizer) == TSR_OK);
  }
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    int32_t *ids;
    int32_t n_ids;
    REQUIRE(tsr_tokenizer_encode_side(tokenizer, side, (const char *)data, size, &ids, &n_ids) == TSR_OK);
    REQUIRE(n_ids >= 1 && ids[n_ids - 1] == 0);
    for (int32_t i = 0; i < n_ids; i++)
      REQUIRE(ids[i] >= 0 && ids[i] < VOCABULARY);
    char *text;
    REQUIRE(tsr_tokenizer_decode(tokenizer, ids, n_ids, &text) == TSR_OK);
    tsr_free(text);
    tsr_free(ids);
  }
  return 0;
}
