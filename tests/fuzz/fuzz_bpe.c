/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges of byte-level BPE: whatever is accepted cuts any text, and gives it back.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/utf8.h"
#include "core/text/bpe.h"
#include "tessera/text.h"

enum { MOST = 4096 };

typedef struct pieces {
  char *list[3 * MOST];
  size_t n;
} pieces;

static tsr_status receive(void *user, const char *piece, size_t size)
{
  pieces *to = user;
  REQUIRE(size > 0 && to->n < sizeof to->list / sizeof to->list[0]);
  char *copy = malloc(size + 1);
  REQUIRE(copy);
  memcpy(copy, piece, size);
  copy[size] = '\0';
  to->list[to->n++] = copy;
  return TSR_OK;
}

static void there_and_back(const tsr_segmenter *segmenter, const char *text, size_t size)
{
  static pieces found;
  found.n = 0;
  REQUIRE(segmenter->methods->encode(segmenter->state, text, size, receive, &found) == TSR_OK);
  char *decoded;
  REQUIRE(segmenter->methods->decode(segmenter->state, (const char *const *)found.list, found.n, &decoded) == TSR_OK);
  char *clean = malloc(3 * size + 1);
  REQUIRE(clean);
  clean[tsr_utf8_clean(text, size, clean)] = '\0';
  REQUIRE(memchr(text, 0, size) || strcmp(clean, decoded) == 0);
  for (size_t i = 0; i < found.n; i++)
    free(found.list[i]);
  free(clean);
  free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data;
  tsr_bpe *bpe;
  if (tsr_bpe_parse("fuzz", data, size, &bpe) != TSR_OK) {
    REQUIRE(!bpe && tsr_error_message()[0]);
    REQUIRE(tsr_bpe_parse("fuzz", "a b\nab c\n", 9, &bpe) == TSR_OK);
  }
  tsr_segmenter segmenter = tsr_bpe_segmenter(bpe);
  if (size > 0 && size <= MOST)
    there_and_back(&segmenter, text, size);
  tsr_segmenter_close(segmenter);
  return 0;
}
