/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json: whatever is accepted gives ids of its vocabulary for any text, and text for them.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "tests/support/temporary.h"

static char *folder;

static void remove_folder(void)
{
  remove_temporary_folder(folder);
}

static void there_and_back(const tsr_tokenizer *tokenizer, int32_t vocabulary, const char *text, size_t size)
{
  int32_t *ids;
  int32_t n_ids;
  if (tsr_tokenizer_encode(tokenizer, text, size, &ids, &n_ids) != TSR_OK)
    return;
  for (int32_t i = 0; i < n_ids; i++)
    REQUIRE(ids[i] >= 0 && ids[i] < vocabulary);
  char *decoded;
  if (tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded) == TSR_OK)
    REQUIRE(tsr_utf8_is_valid(decoded, strlen(decoded)));
  tsr_free(decoded);
  tsr_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char text[] = " ab  </s>a<unk>caf\xC3\xA9\xFF  b ";
  if (!folder) {
    folder = make_temporary_folder();
    atexit(remove_folder);
  }
  write_file(path_in(folder, "tokenizer.json"), data, size);
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_as(folder, "fast", &tokenizer) != TSR_OK) {
    REQUIRE(!tokenizer && tsr_error_message()[0]);
    return 0;
  }
  tsr_tokenizer_info info;
  REQUIRE(tsr_tokenizer_get_info(tokenizer, &info) == TSR_OK);
  there_and_back(tokenizer, info.source_vocabulary, text, sizeof text - 1);
  there_and_back(tokenizer, info.source_vocabulary, (const char *)data, size < 256 ? size : 256);
  tsr_tokenizer_close(tokenizer);
  return 0;
}
