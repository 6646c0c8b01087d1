/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies: whatever is accepted finds each of its tokens again.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/text/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  enum { IDS = 100 };
  tsr_vocabulary *vocabulary;
  if (tsr_vocabulary_parse("fuzz", data, size, IDS, &vocabulary) != TSR_OK) {
    REQUIRE(!vocabulary && tsr_error_message()[0]);
    return 0;
  }
  for (int32_t id = -1; id <= IDS; id++) {
    const char *token = tsr_vocabulary_token(vocabulary, id);
    REQUIRE(!token || tsr_vocabulary_find(vocabulary, token, strlen(token)) == id);
  }
  int32_t found = tsr_vocabulary_find(vocabulary, (const char *)data, size);
  REQUIRE(found >= -1 && found < IDS);
  tsr_vocabulary_close(vocabulary);
  return 0;
}
