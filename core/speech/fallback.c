/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a window's text is, and what follows from that.
 */
#include <math.h>
#include <stdlib.h>

#include <zlib.h>

#include "core/base/status.h"
#include "tessera/speech.h"

tsr_status tsr_speech_compression_ratio(const char *text, size_t size, double *ratio)
{
  enum { MOST = 1 << 28 };
  if ((!text && size > 0) || !ratio || size > MOST) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_compression_ratio: text and ratio must not be NULL, the text of at most %d bytes",
                    (int)MOST);
  }
  uLongf compressed = compressBound((uLong)size);
  Bytef *bytes = malloc(compressed);
  if (!bytes) {
    return tsr_fail_memory(compressed);
  }
  const int result = compress(bytes, &compressed, (const Bytef *)(text ? text : ""), (uLong)size);
  free(bytes);
  if (result != Z_OK) {
    return tsr_fail_memory(compressed);
  }
  *ratio = (double)size / (double)compressed;
  return TSR_OK;
}

double tsr_speech_average_logprob(const float *logprobs, int32_t n)
{
  double sum = 0.0;
  for (int32_t i = 0; i < n; i++) {
    sum += (double)logprobs[i];
  }
  return sum / ((double)n + 1.0);
}

/* Comparisons with NaN are false: what was not measured, or has no limit, decides nothing. */
int32_t tsr_speech_judge(const tsr_speech_measures *measured, const tsr_speech_measures *limits)
{
  const int is_unlikely = measured->average_logprob < limits->average_logprob;
  if (measured->no_speech > limits->no_speech && (is_unlikely || isnan(limits->average_logprob))) {
    return TSR_SPEECH_SKIP;
  }
  return is_unlikely || measured->compression_ratio > limits->compression_ratio ? TSR_SPEECH_RETRY : TSR_SPEECH_ACCEPT;
}
