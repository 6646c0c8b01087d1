/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/golden/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

golden_error golden_compare_values(const char *name, const golden_recorded *expected, const golden_recorded *mask,
                                   const float *found, double tolerance)
{
  golden_error summary = {.name = name};
  int32_t positions = expected->n_batch * expected->n_length;
  for (int32_t p = 0; p < positions; p++) {
    for (int32_t i = 0; i < expected->width && mask->ids[p] != 0; i++) {
      size_t at = (size_t)p * (size_t)expected->width + (size_t)i;
      double error = fabs((double)found[at] - (double)expected->values[at]);
      double magnitude = fabs((double)expected->values[at]);
      summary.largest = isnan(error) ? INFINITY : error > summary.largest ? error : summary.largest;
      summary.magnitude = magnitude > summary.magnitude ? magnitude : summary.magnitude;
    }
  }
  summary.relative = summary.largest / (summary.magnitude > 0.0 ? summary.magnitude : 1.0);
  summary.passed = summary.relative <= tolerance;
  return summary;
}

/* The recorded ids of one hypothesis, without the start token, up to the first </s>. Returns how many, -1 if there are
 * no such ids. */
static int32_t recorded_ids(const json_t *sequence, const tsr_generate_options *options, int32_t *ids, int32_t room)
{
  int32_t n = 0;
  for (size_t i = 1; i < json_array_size(sequence); i++) {
    const json_t *id = json_array_get(sequence, i);
    if (!json_is_integer(id) || n == room) {
      return -1;
    }
    ids[n++] = (int32_t)json_integer_value(id);
    for (int32_t k = 0; k < options->n_eos; k++) {
      if (ids[n - 1] == options->eos[k]) {
        return n;
      }
    }
  }
  return json_is_array(sequence) ? n : -1;
}

static void describe_difference(tsr_golden_search *summary, int32_t index, const int32_t *expected, int32_t n_expected,
                                const tsr_hypothesis *found)
{
  if (summary->different++ > 0) {
    return;
  }
  int32_t at = 0;
  while (at < n_expected && at < found->n_ids && expected[at] == found->ids[at]) {
    at++;
  }
  snprintf(summary->detail, sizeof summary->detail,
           "sequence %d, token %d: expected %d, found %d (-1: the end); lengths %d and %d", (int)index, (int)at,
           at < n_expected ? (int)expected[at] : -1, at < found->n_ids ? (int)found->ids[at] : -1, (int)n_expected,
           (int)found->n_ids);
}

tsr_status golden_compare_search(const json_t *entry, const tsr_generation *generation,
                                 const tsr_generate_options *options, double tolerance, tsr_golden_search *summary)
{
  enum { ROOM = 4096 };
  static int32_t expected[ROOM];
  const json_t *sequences = json_object_get(entry, "sequences");
  const json_t *scores = json_object_get(entry, "sequences_scores");
  int32_t total = generation->n_sentences * generation->n_best;
  if ((int32_t)json_array_size(sequences) != total ||
      (json_is_array(scores) && (int32_t)json_array_size(scores) != total)) {
    return tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s' has %zu sequences and %zu scores; expected %d", summary->name,
                    json_array_size(sequences), json_array_size(scores), (int)total);
  }
  summary->sequences = total;
  summary->score_error = json_is_array(scores) ? 0.0 : NAN;
  for (int32_t i = 0; i < total; i++) {
    const tsr_hypothesis *found = &generation->hypotheses[i];
    int32_t n = recorded_ids(json_array_get(sequences, (size_t)i), options, expected, ROOM);
    if (n < 0) {
      return tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s': sequence %d is no list of at most %d ids", summary->name,
                      (int)i, (int)ROOM);
    }
    if (n != found->n_ids || memcmp(expected, found->ids, (size_t)n * sizeof *expected) != 0) {
      describe_difference(summary, i, expected, n, found);
    }
    if (json_is_array(scores)) {
      double error = fabs(json_number_value(json_array_get(scores, (size_t)i)) - (double)found->score);
      summary->score_error = isnan(error) ? INFINITY : error > summary->score_error ? error : summary->score_error;
    }
  }
  summary->passed = summary->different == 0 && !(summary->score_error > tolerance);
  return TSR_OK;
}

void golden_resolve(const tsr_transformer_config *config, tsr_generate_options *options)
{
  if (options->n_eos == 0) {
    options->n_eos = 1;
    options->eos = &config->eos_id;
  }
  options->decoder_start_id = options->decoder_start_id >= 0 ? options->decoder_start_id : config->decoder_start_id;
}
