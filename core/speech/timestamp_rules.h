/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens may follow where Whisper writes timestamps (Radford et al. 2022, "Robust Speech Recognition via
 * Large-Scale Weak Supervision", section 4.5; the cases are those of its published decoder).
 *
 * Timestamps stand before and after each segment of text: <|0.00|> text <|1.20|><|1.20|> text <|2.40|>. They never
 * decrease, and the two that enclose a segment are not equal.
 */
#ifndef TESSERA_CORE_TIMESTAMP_RULES_H
#define TESSERA_CORE_TIMESTAMP_RULES_H

#include <stdint.h>

typedef struct tsr_timestamp_rules {
  int32_t eos;             /* <|endoftext|>; ids below it are text */
  int32_t no_timestamps;   /* <|notimestamps|>; -1: there is none */
  int32_t timestamp_begin; /* <|0.00|>; this id and all above it are timestamps */
  int32_t max_initial;     /* the first timestamp is at most timestamp_begin + max_initial; -1: it may be any */
  int32_t by_sum;          /* 1: a timestamp follows if all together are likelier than the likeliest other token */
} tsr_timestamp_rules;

/* Sets the logits, or log-probabilities, of tokens that may not follow to -inf.
 *   generated [n]           what the decoder wrote: no prompt, no <|startoftranscript|>, language or task
 *   logits    [vocabulary]  where other tokens are -inf already (tokens that are suppressed), they do not count
 * The rules:
 *   - <|notimestamps|> never follows.
 *   - The first token is a timestamp.
 *   - After two timestamps, or the first token, no timestamp follows. After text and one timestamp no text does.
 *   - No timestamp is below the last one. It is equal only where it closes a pair: right after text and that one.
 *   - by_sum: if the sum of the probabilities of all timestamps that are left is greater than the probability of each
 *     other token that is left, a timestamp follows.
 * Any thread. */
void tsr_timestamp_rules_apply(const tsr_timestamp_rules *rules, const int32_t *generated, int32_t n, float *logits,
                               int32_t vocabulary);

#endif
