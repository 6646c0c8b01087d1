/* SPDX-License-Identifier: Apache-2.0
 *
 * Alternatives at a place of the output: a beam of one step finds the N best tokens there, and each of them is the end
 * of a prompt that is searched from.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/request.h"
#include "core/generate/trace.h"

/* The sentences of the second search: those of which an alternative goes on. */
typedef struct continued {
  int32_t n;
  int32_t *hypothesis; /* [n] number of the alternative, in all sentences */
  const int32_t **source;
  const float **features; /* as of tsr_request, likewise source */
  int32_t *lengths;
  tsr_prompt *prompts;
} continued;

static tsr_status continued_init(continued *c, size_t room)
{
  *c = (continued){.hypothesis = malloc((room + 1) * sizeof *c->hypothesis),
                   .source = malloc((room + 1) * sizeof *c->source),
                   .features = malloc((room + 1) * sizeof *c->features),
                   .lengths = malloc((room + 1) * sizeof *c->lengths),
                   .prompts = malloc((room + 1) * sizeof *c->prompts)};
  return c->hypothesis && c->source && c->features && c->lengths && c->prompts
             ? TSR_OK
             : tsr_fail_memory((room + 1) * sizeof *c->prompts);
}

static void continued_finish(continued *c)
{
  free(c->hypothesis);
  free(c->source);
  free(c->features);
  free(c->lengths);
  free(c->prompts);
}

/* Beams of one step. *first receives prompt and alternative of each hypothesis, and its log-probability as score. */
static tsr_status find_first(const tsr_request *request, const tsr_prompt *prompts, tsr_generation *first)
{
  tsr_generate_options options = *request->options;
  options.partial = 0;
  options.search = TSR_SEARCH_TRANSFORMERS;
  options.beam = options.n_best = options.alternatives;
  options.sample = 0;
  options.early_stopping = TSR_EARLY_FALSE;
  options.length_penalty = 0.0f; /* scores are sums */
  options.patience = 0.0f;
  options.attention = options.attention || options.coverage_penalty > 0.0f;
  options.coverage_penalty = 0.0f; /* counts once, when an output has ended */
  options.forced_eos_id = -1;
  tsr_request one = *request;
  one.options = &options;
  one.prompts = prompts;
  one.first_only = 1;
  one.progress = NULL;
  return tsr_request_run(&one, first);
}

/* The score of an output that ended with its alternative: until now it is a sum. */
static void score_ended(const tsr_generate_options *options, int32_t n_given, tsr_hypothesis *h)
{
  const tsr_trace trace = {.source = h->n_source, .steps = h->n_ids};
  double penalty = h->attention ? tsr_trace_penalty(&trace, h->attention, options->coverage_penalty) : 0.0;
  h->score = (float)(tsr_search_score(options, (double)h->score, h->n_ids - n_given) + penalty);
  if (!options->attention) {
    free(h->attention);
    h->attention = NULL;
    h->n_source = 0;
  }
}

/* Moves what ended with its alternative into `all`, and fills c with the rest. */
static void split(const tsr_request *request, const tsr_prompt *prompts, tsr_generation *first, tsr_generation *all,
                  continued *c)
{
  for (int32_t i = 0; i < first->n_sentences * first->n_best; i++) {
    tsr_hypothesis *h = &first->hypotheses[i];
    int32_t sentence = i / first->n_best;
    /* The further rows of a beam begin with -1e9: what only they have is not another alternative. */
    if (h->n_ids == 0 || h->score < -5e8f) {
      all->hypotheses[i].score = request->lengths[sentence] > 0 ? -INFINITY : h->score;
    } else if (tsr_search_is_end(request->options, h->ids[h->n_ids - 1])) {
      score_ended(request->options, prompts[sentence].n_given, h);
      all->hypotheses[i] = *h;
      *h = (tsr_hypothesis){0};
    } else {
      c->hypothesis[c->n] = i;
      c->source[c->n] = request->source ? request->source[sentence] : NULL;
      c->features[c->n] = request->features ? request->features[sentence] : NULL;
      c->lengths[c->n] = request->lengths[sentence];
      c->prompts[c->n] =
          (tsr_prompt){.ids = h->ids, .n = h->n_ids, .n_given = prompts[sentence].n_given, .sum = h->score};
      c->prompts[c->n].start = prompts[sentence].start;
      c->n++;
    }
  }
}

/* Searches on from each alternative. */
static tsr_status go_on(const tsr_request *request, const continued *c, tsr_generation *all)
{
  tsr_generate_options options = *request->options;
  options.partial = 0;
  tsr_generation found = {0};
  options.n_best = 1;
  tsr_request many = *request;
  many.options = &options;
  many.n_sentences = c->n;
  many.source = request->source ? c->source : NULL;
  many.features = request->features ? c->features : NULL;
  many.lengths = c->lengths;
  many.prompts = c->prompts;
  many.numbers = NULL;
  tsr_status status = tsr_request_run(&many, &found);
  if (status != TSR_OK) {
    const char *message;
    int64_t number = tsr_error_sentence(&message);
    return number < 0 ? status
                      : tsr_fail_sentence(tsr_fail(status, "%s", message), "",
                                          c->hypothesis[number] / request->options->alternatives);
  }
  for (int32_t i = 0; i < c->n; i++) {
    all->hypotheses[c->hypothesis[i]] = found.hypotheses[i];
    found.hypotheses[i] = (tsr_hypothesis){0};
  }
  tsr_generation_finish(&found);
  return TSR_OK;
}

/* A first token that the options force is given, and the alternatives come behind it. */
static tsr_prompt *behind_forced(const tsr_request *request)
{
  const int32_t *forced = &request->options->forced_bos_id;
  tsr_prompt *prompts = malloc(((size_t)request->n_sentences + 1) * sizeof *prompts);
  for (int32_t i = 0; prompts && i < request->n_sentences; i++) {
    prompts[i] = request->prompts[i];
    if (prompts[i].n == 0 && *forced >= 0) {
      prompts[i].ids = forced;
      prompts[i].n = 1;
    }
  }
  return prompts;
}

tsr_status tsr_request_alternatives(const tsr_request *request, tsr_generation *generation)
{
  size_t total = (size_t)request->n_sentences * (size_t)request->options->alternatives;
  tsr_prompt *prompts = behind_forced(request);
  tsr_hypothesis *hypotheses = calloc(total + 1, sizeof *hypotheses);
  tsr_generation first = {0};
  continued c = {0};
  *generation = (tsr_generation){0};
  tsr_status status = prompts && hypotheses ? TSR_OK : tsr_fail_memory((total + 1) * sizeof *hypotheses);
  if (status == TSR_OK) {
    *generation = (tsr_generation){
        .n_sentences = request->n_sentences, .n_best = request->options->alternatives, .hypotheses = hypotheses};
    status = continued_init(&c, total);
  } else {
    free(hypotheses);
  }
  if (status == TSR_OK) {
    status = find_first(request, prompts, &first);
  }
  if (status == TSR_OK) {
    split(request, prompts, &first, generation, &c);
    status = go_on(request, &c, generation);
  }
  tsr_generation_finish(&first);
  continued_finish(&c);
  free(prompts);
  if (status != TSR_OK) {
    tsr_generation_finish(generation);
  }
  return status;
}
