/* SPDX-License-Identifier: Apache-2.0
 *
 * WAV files: whatever is read is finite, no longer than the file, and the same when it comes in other pieces.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "tests/support/memory_source.h"

enum { MOST = 4096 }; /* samples; the fuzzer's files have no more bytes */

/* Reads to the end or an error; how many samples. */
static int64_t read_all(const uint8_t *data, size_t size, size_t piece, int64_t at_once, float *samples,
                        tsr_status *status)
{
  memory_source bytes = {data, size, piece};
  const tsr_byte_source source = source_in_memory(&bytes);
  tsr_wav *wav = NULL;
  tsr_wav_info info;
  int64_t n = 0;
  *status = tsr_wav_open("fuzz", &source, &wav, &info);
  for (int64_t got = at_once; *status == TSR_OK && got == at_once; n += got) {
    REQUIRE(n + at_once <= MOST + at_once);
    *status = tsr_wav_read(wav, samples + n, at_once, &got);
  }
  REQUIRE(*status == TSR_OK || tsr_error_message()[0]);
  REQUIRE(*status != TSR_OK || info.length < 0 || info.length == n);
  tsr_wav_close(wav);
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static float whole[2 * MOST], pieces[2 * MOST];
  tsr_status first, second;
  const size_t most = size < MOST ? size : MOST;
  const int64_t n = read_all(data, most, MOST, MOST, whole, &first);
  const int64_t same = read_all(data, most, 3, 5, pieces, &second);
  REQUIRE(first == second);
  if (first == TSR_OK) {
    REQUIRE(n == same);
    for (int64_t i = 0; i < n; i++) {
      REQUIRE(isfinite(whole[i]));
    }
    REQUIRE(memcmp(whole, pieces, (size_t)n * sizeof *whole) == 0);
  }
  return 0;
}
