/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays what marian-scorer and marian-decoder made of a model of Marian-NMT: sums of log-probabilities of given
 * outputs, and the n-best lists of searches, which are recorded as texts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tessera/text.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/golden/golden.h"

enum { MAX_IDS = 4096, DIGITS = 6 /* of a recorded score */ };

typedef struct replay {
  tsr_transformer *transformer;
  const tsr_transformer_config *config;
  const json_t *golden;
  tsr_tokenizer *tokenizer;
  double tolerance;
  int32_t n;        /* sentences */
  int32_t **source; /* [n] ids, </s> included */
  int32_t **target; /* likewise */
  int32_t *lengths; /* [2 n] of the sources, then of the targets */
} replay;

/* Recorded ids, with </s> put behind them. *ids is allocated. */
static tsr_status read_ids(const json_t *list, int32_t vocabulary, int32_t eos, int32_t **ids, int32_t *n)
{
  size_t count = json_array_size(list);
  *ids = malloc((count + 1) * sizeof **ids);
  if (!*ids) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *id = json_array_get(list, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocabulary ||
        count >= MAX_IDS) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "golden.json: expected at most %d token ids below %d, found %zu, of which number "
                      "%zu is none",
                      (int)MAX_IDS, (int)vocabulary, count, i);
    }
    (*ids)[i] = (int32_t)json_integer_value(id);
  }
  (*ids)[count] = eos;
  *n = (int32_t)count + 1;
  return TSR_OK;
}

static tsr_status read_sentences(replay *r)
{
  const json_t *source = json_object_get(r->golden, "source_ids_without_eos");
  const json_t *target = json_object_get(r->golden, "target_ids_without_eos");
  size_t n = json_array_size(source);
  if (n == 0 || n > INT32_MAX / 2 || json_array_size(target) != n) {
    return tsr_fail(TSR_ERR_FORMAT, "golden.json: expected as many sources as targets, found %zu and %zu", n,
                    json_array_size(target));
  }
  r->n = (int32_t)n;
  r->source = calloc(n, sizeof *r->source);
  r->target = calloc(n, sizeof *r->target);
  r->lengths = calloc(2 * n, sizeof *r->lengths);
  if (!r->source || !r->target || !r->lengths) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < n && status == TSR_OK; i++) {
    status = read_ids(json_array_get(source, i), r->config->source_vocabulary, r->config->eos_id, &r->source[i],
                      &r->lengths[i]);
    if (status == TSR_OK) {
      status = read_ids(json_array_get(target, i), r->config->target_vocabulary, r->config->eos_id, &r->target[i],
                        &r->lengths[n + i]);
    }
  }
  return status;
}

/* Adds one comparison; half a unit of the last digit recorded is the recording's own error. */
static void add_error(tsr_golden_search *search, double expected, double found, int digits)
{
  double unit = digits > 0 && expected != 0.0 ? pow(10.0, floor(log10(fabs(expected))) + 1.0 - digits) : 0.0;
  double error = fabs(found - expected) - unit / 2.0;
  error = isnan(error) ? INFINITY : error > 0.0 ? error : 0.0;
  search->score_error = error > search->score_error ? error : search->score_error;
}

static tsr_status replay_scorer(const replay *r, tsr_golden_search *search)
{
  const json_t *recorded = json_object_get(r->golden, "scorer_sum_logprob");
  *search = (tsr_golden_search){.sequences = r->n};
  snprintf(search->name, sizeof search->name, "scorer");
  if (json_array_size(recorded) != (size_t)r->n) {
    return tsr_fail(TSR_ERR_FORMAT, "golden.json: 'scorer_sum_logprob' has %zu sums; expected %d",
                    json_array_size(recorded), (int)r->n);
  }
  tsr_scores scores;
  tsr_status status = tsr_score(r->transformer, r->n, (const int32_t *const *)r->source, r->lengths,
                                (const int32_t *const *)r->target, r->lengths + r->n, NULL, NULL, NULL, &scores);
  if (status != TSR_OK) {
    return status;
  }
  for (int32_t i = 0; i < r->n; i++) {
    add_error(search, json_number_value(json_array_get(recorded, (size_t)i)), scores.targets[i].sum, 0);
  }
  tsr_scores_finish(&scores);
  search->passed = search->score_error <= r->tolerance;
  return TSR_OK;
}

/* 1 if the ids, without </s>, are the tokens of a text, which blanks separate. */
static int same_tokens(const replay *r, const char *text, const tsr_hypothesis *found)
{
  int32_t n = found->n_ids > 0 && found->ids[found->n_ids - 1] == r->config->eos_id ? found->n_ids - 1 : found->n_ids;
  int32_t i = 0;
  while (*text) {
    size_t size = strcspn(text, " ");
    const char *token = i < n ? tsr_tokenizer_token(r->tokenizer, TSR_SIDE_TARGET, found->ids[i++]) : "";
    if (strlen(token) != size || memcmp(token, text, size) != 0) {
      return 0;
    }
    text += size + (text[size] == ' ');
  }
  return i == n;
}

/* One sentence's list of [text, score]. */
static tsr_status compare_list(const replay *r, int32_t sentence, const json_t *list, const tsr_hypothesis *found,
                               int32_t n_best, tsr_golden_search *search)
{
  size_t n = json_array_size(list);
  if (n == 0 || n > (size_t)n_best) {
    return tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s': sentence %d has %zu hypotheses for a beam of %d", search->name,
                    (int)sentence, n, (int)n_best);
  }
  for (size_t i = 0; i < n; i++) {
    const json_t *entry = json_array_get(list, i);
    const char *text = json_string_value(json_array_get(entry, 0));
    if (!text || !json_is_number(json_array_get(entry, 1))) {
      return tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s': sentence %d: expected texts with scores", search->name,
                      (int)sentence);
    }
    search->sequences++;
    if (!found[i].ids || !same_tokens(r, text, &found[i])) {
      if (search->different++ == 0) {
        snprintf(search->detail, sizeof search->detail, "sentence %d, hypothesis %d: expected \"%.150s\"",
                 (int)sentence, (int)i, text);
      }
      continue;
    }
    add_error(search, json_number_value(json_array_get(entry, 1)), (double)found[i].score, DIGITS);
  }
  return TSR_OK;
}

static tsr_status replay_decoder(const replay *r, const json_t *entry, tsr_golden_search *search)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  const json_t *beam = json_object_get(entry, "beam_size"), *normalize = json_object_get(entry, "normalize");
  tsr_status status = tsr_generate_defaults(tsr_transformer_model(r->transformer), &options);
  if (status == TSR_OK && ((beam && !json_is_integer(beam)) || (normalize && !json_is_number(normalize)))) {
    status = tsr_fail(TSR_ERR_FORMAT, "golden.json: decode: 'beam_size' and 'normalize' should be numbers");
  }
  options.beam = beam ? (int32_t)json_integer_value(beam) : options.beam;
  options.length_penalty = normalize ? (float)json_number_value(normalize) : options.length_penalty;
  options.n_best = options.beam;
  *search = (tsr_golden_search){.passed = 0};
  snprintf(search->name, sizeof search->name, "beam %d, normalize %g", (int)options.beam,
           (double)options.length_penalty);
  const json_t *results = json_object_get(entry, "results");
  if (status == TSR_OK && json_array_size(results) != (size_t)r->n) {
    status = tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s' has %zu results; expected %d", search->name,
                      json_array_size(results), (int)r->n);
  }
  tsr_generation generation = {0};
  if (status == TSR_OK) {
    status = tsr_generate(r->transformer, r->n, (const int32_t *const *)r->source, r->lengths, 0, &options, NULL, NULL,
                          &generation);
  }
  for (int32_t i = 0; i < r->n && status == TSR_OK; i++) {
    status = compare_list(r, i, json_object_get(json_array_get(results, (size_t)i), "nbest"),
                          &generation.hypotheses[(int64_t)i * options.n_best], options.n_best, search);
  }
  search->passed = status == TSR_OK && search->different == 0 && search->score_error <= r->tolerance;
  tsr_generation_finish(&generation);
  return status;
}

/* The recorded texts of the sources have the recorded ids. */
static tsr_status replay_tokens(const replay *r, tsr_golden_search *search)
{
  const json_t *texts = json_object_get(r->golden, "source_text");
  tsr_status status = TSR_OK;
  *search = (tsr_golden_search){.score_error = NAN};
  snprintf(search->name, sizeof search->name, "tokens");
  for (size_t i = 0; i < json_array_size(texts) && i < (size_t)r->n && status == TSR_OK; i++) {
    const char *text = json_string_value(json_array_get(texts, i));
    int32_t *ids = NULL;
    int32_t n = 0;
    status = text ? tsr_tokenizer_encode(r->tokenizer, text, strlen(text), &ids, &n)
                  : tsr_fail(TSR_ERR_FORMAT, "golden.json: 'source_text' should hold texts");
    search->sequences++;
    if (status == TSR_OK && (n != r->lengths[i] || memcmp(ids, r->source[i], (size_t)n * sizeof *ids) != 0) &&
        search->different++ == 0) {
      snprintf(search->detail, sizeof search->detail, "sentence %zu: \"%.150s\" has other ids", i, text);
    }
    tsr_free(ids);
  }
  search->passed = search->different == 0;
  return status;
}

int tsr_golden_is_marian(const json_t *golden)
{
  return json_is_array(json_object_get(golden, "scorer_sum_logprob"));
}

tsr_status tsr_golden_marian(tsr_transformer *transformer, const json_t *golden, double tolerance,
                             tsr_golden_search **searches, int32_t *n_searches)
{
  const tsr_model *model = tsr_transformer_model(transformer);
  const json_t *decode = json_object_get(golden, "decode");
  replay r = {.transformer = transformer, .config = tsr_model_config(model), .golden = golden, .tolerance = tolerance};
  int32_t n = (int32_t)json_array_size(decode);
  *n_searches = 0;
  *searches = calloc((size_t)n + 2, sizeof **searches);
  tsr_status status = *searches ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(model, &r.tokenizer);
  }
  if (status == TSR_OK) {
    status = read_sentences(&r);
  }
  if (status == TSR_OK) {
    status = replay_tokens(&r, &(*searches)[(*n_searches)++]);
  }
  if (status == TSR_OK) {
    status = replay_scorer(&r, &(*searches)[(*n_searches)++]);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    status = replay_decoder(&r, json_array_get(decode, (size_t)i), &(*searches)[(*n_searches)++]);
  }
  for (int32_t i = 0; i < r.n; i++) {
    free(r.source ? r.source[i] : NULL);
    free(r.target ? r.target[i] : NULL);
  }
  free(r.source);
  free(r.target);
  free(r.lengths);
  tsr_tokenizer_close(r.tokenizer);
  return status;
}
