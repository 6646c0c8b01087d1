/* SPDX-License-Identifier: Apache-2.0 */
#include "core/speech/timestamp_rules.h"

#include <math.h>

/* Bans the tokens from `begin` to before `end`. */
static void ban(float *logits, int32_t vocabulary, int32_t begin, int32_t end)
{
  for (int32_t i = begin < 0 ? 0 : begin; i < end && i < vocabulary; i++) {
    logits[i] = -INFINITY;
  }
}

static float largest(const float *logits, int32_t begin, int32_t end)
{
  float most = -INFINITY;
  for (int32_t i = begin; i < end; i++) {
    most = logits[i] > most ? logits[i] : most;
  }
  return most;
}

/* 1 if the timestamps' probabilities are together greater than each other token's. What divides all of them into
 * probabilities cancels out. */
static int timestamps_prevail(const float *logits, int32_t timestamp_begin, int32_t vocabulary)
{
  const float most = largest(logits, timestamp_begin, vocabulary);
  if (!(most > -INFINITY)) {
    return 0;
  }
  double sum = 0.0;
  for (int32_t i = timestamp_begin; i < vocabulary; i++) {
    sum += exp((double)logits[i] - (double)most);
  }
  return (double)most + log(sum) > (double)largest(logits, 0, timestamp_begin);
}

/* -1: there is none. */
static int32_t last_timestamp(const int32_t *generated, int32_t n, int32_t timestamp_begin)
{
  for (int32_t i = n - 1; i >= 0; i--) {
    if (generated[i] >= timestamp_begin) {
      return generated[i];
    }
  }
  return -1;
}

void tsr_timestamp_rules_apply(const tsr_timestamp_rules *rules, const int32_t *generated, int32_t n, float *logits,
                               int32_t vocabulary)
{
  const int32_t begin = rules->timestamp_begin < vocabulary ? rules->timestamp_begin : vocabulary;
  const int after_timestamp = n > 0 && generated[n - 1] >= begin;
  const int is_open = after_timestamp && n > 1 && generated[n - 2] < begin; /* a pair of which the second is missing */
  const int32_t last = last_timestamp(generated, n, begin);
  if (rules->no_timestamps >= 0) {
    ban(logits, vocabulary, rules->no_timestamps, rules->no_timestamps + 1);
  }
  if (is_open) {
    ban(logits, vocabulary, 0, rules->eos);
  } else if (after_timestamp) {
    ban(logits, vocabulary, begin, vocabulary);
  }
  if (last >= 0) {
    ban(logits, vocabulary, begin, is_open ? last : last < vocabulary ? last + 1 : vocabulary);
  }
  if (n == 0) {
    ban(logits, vocabulary, 0, begin);
    if (rules->max_initial >= 0 && rules->max_initial < vocabulary - begin) {
      ban(logits, vocabulary, begin + rules->max_initial + 1, vocabulary);
    }
  }
  if (rules->by_sum && timestamps_prevail(logits, begin, vocabulary)) {
    ban(logits, vocabulary, 0, begin);
  }
}
