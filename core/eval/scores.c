/* SPDX-License-Identifier: Apache-2.0
 *
 * BLEU and chrF from counts of n-grams, the word error rate from counts of errors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/eval/ngrams.h"
#include "core/eval/normalizer.h"
#include "core/eval/word_errors.h"
#include "core/eval/words.h"
#include "tessera/eval.h"

enum { LONGEST_TEXT = 1 << 30 };

struct tsr_scorer {
  int32_t metrics;
  int64_t count;
  int32_t least_references, most_references; /* of a sentence */
  tsr_ngram_counts bleu[TSR_BLEU_ORDER];
  tsr_ngram_counts chrf[TSR_CHRF_ORDER];
  tsr_wer wer;                                /* its score is not set */
  tsr_normalizer *normalizer;                 /* the caller's, for the word error rate; NULL: none */
  tsr_ngram_counts last_bleu[TSR_BLEU_ORDER]; /* of the sentence that was added last */
  tsr_ngram_counts last_chrf[TSR_CHRF_ORDER];
  /* Scratch memory for a sentence: the hypothesis, then the references. */
  tsr_reading *readings; /* [room] */
  tsr_symbols *symbols;  /* [room] */
  int32_t room;
  tsr_words words;
  tsr_ngrams ngrams;
};

const char *tsr_bleu_signature(void)
{
  return "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tessera-" TSR_VERSION;
}

const char *tsr_chrf_signature(void)
{
  return "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:tessera-" TSR_VERSION;
}

char *tsr_scorer_signature(const tsr_scorer *scorer, int32_t metric, char *text, size_t size)
{
  char wer[96];
  const char *one = metric == TSR_METRIC_CHRF ? tsr_chrf_signature() : tsr_bleu_signature();
  if (metric == TSR_METRIC_WER) {
    snprintf(wer, sizeof wer, "nrefs:1|norm:%s|version:tessera-" TSR_VERSION,
             tsr_normalizer_name(scorer ? scorer->normalizer : NULL));
    one = wer;
  }
  int32_t n = scorer && scorer->count > 0 ? scorer->most_references : 1;
  if (n != 1 && scorer->least_references != n) {
    snprintf(text, size, "nrefs:var%s", strchr(one, '|'));
  } else {
    snprintf(text, size, "nrefs:%d%s", (int)n, strchr(one, '|'));
  }
  return text;
}

tsr_status tsr_scorer_create(int32_t metrics, tsr_scorer **scorer)
{
  if (!scorer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_create: scorer must not be NULL");
  }
  *scorer = NULL;
  if (metrics <= 0 || (metrics & ~(TSR_METRIC_BLEU | TSR_METRIC_CHRF | TSR_METRIC_WER)) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_create: metrics: expected some of TSR_METRIC_*, found %d", metrics);
  }
  *scorer = calloc(1, sizeof **scorer);
  if (!*scorer) {
    return tsr_fail_memory(sizeof **scorer);
  }
  (*scorer)->metrics = metrics;
  return TSR_OK;
}

void tsr_scorer_destroy(tsr_scorer *scorer)
{
  if (!scorer) {
    return;
  }
  tsr_readings_finish(scorer->readings, scorer->symbols, scorer->room);
  tsr_words_finish(&scorer->words);
  tsr_ngrams_finish(&scorer->ngrams);
  free(scorer);
}

/* n: texts; the first is the hypothesis. */
static tsr_status count_words(tsr_scorer *s, int32_t n, tsr_ngram_counts counts[TSR_BLEU_ORDER])
{
  tsr_words_forget(&s->words);
  for (int32_t i = 0; i < n; i++) {
    TSR_TRY(tsr_reading_words(&s->readings[i], &s->words, &s->symbols[i]));
  }
  return tsr_ngrams_count(&s->ngrams, &s->symbols[0], &s->symbols[1], n - 1, TSR_BLEU_ORDER, counts);
}

static void compute_chrf(const tsr_ngram_counts counts[TSR_CHRF_ORDER], tsr_chrf *chrf);

/* Of several references the one counts with which the sentence scores best, the first of equals. */
static tsr_status count_characters(tsr_scorer *s, int32_t n, tsr_ngram_counts counts[TSR_CHRF_ORDER])
{
  double best = -1;
  for (int32_t i = 0; i < n; i++) {
    TSR_TRY(tsr_symbols_of_characters(&s->symbols[i], s->readings[i].text, s->readings[i].size));
  }
  for (int32_t r = 1; r < n; r++) {
    tsr_ngram_counts each[TSR_CHRF_ORDER] = {0};
    tsr_chrf chrf;
    TSR_TRY(tsr_ngrams_count(&s->ngrams, &s->symbols[0], &s->symbols[r], 1, TSR_CHRF_ORDER, each));
    for (int32_t i = 0; i < TSR_CHRF_ORDER; i++) {
      if (each[i].reference == 0) {
        each[i].hypothesis = 0; /* sacreBLEU leaves them out: nothing could have matched */
      }
    }
    compute_chrf(each, &chrf);
    if (chrf.score > best) {
      best = chrf.score;
      memcpy(counts, each, sizeof each);
    }
  }
  return TSR_OK;
}

/* Of several references the one counts that has the fewest errors per word, the first of equals. */
static tsr_status count_errors(tsr_scorer *s, int32_t n, tsr_wer *wer)
{
  double best = INFINITY;
  tsr_words_forget(&s->words);
  for (int32_t i = 0; i < n; i++) {
    tsr_reading *reading = &s->readings[i];
    tsr_span text = {reading->text, reading->size};
    if (s->normalizer) {
      TSR_TRY(tsr_normalizer_write(s->normalizer, text, &reading->normalized, &text.size));
      text.bytes = reading->normalized.bytes;
    }
    TSR_TRY(tsr_symbols_of_words(&s->symbols[i], &s->words, text.bytes, text.size));
  }
  for (int32_t r = 1; r < n; r++) {
    tsr_word_errors errors;
    TSR_TRY(tsr_word_errors_count(&s->symbols[0], &s->symbols[r], &errors));
    double words = s->symbols[r].n > 0 ? (double)s->symbols[r].n : 1;
    double rate = (double)(errors.substitutions + errors.deletions + errors.insertions) / words;
    if (rate < best) {
      best = rate;
      *wer = (tsr_wer){.substitutions = errors.substitutions,
                       .deletions = errors.deletions,
                       .insertions = errors.insertions,
                       .reference_words = (int64_t)s->symbols[r].n,
                       .hypothesis_words = (int64_t)s->symbols[0].n};
    }
  }
  return TSR_OK;
}

static void add_errors(tsr_wer *sums, const tsr_wer *wer)
{
  sums->substitutions += wer->substitutions;
  sums->deletions += wer->deletions;
  sums->insertions += wer->insertions;
  sums->reference_words += wer->reference_words;
  sums->hypothesis_words += wer->hypothesis_words;
}

static void add_counts(tsr_ngram_counts *sums, const tsr_ngram_counts *counts, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    sums[i].hypothesis += counts[i].hypothesis;
    sums[i].reference += counts[i].reference;
    sums[i].matches += counts[i].matches;
    sums[i].repeats += counts[i].repeats;
  }
}

static tsr_status check_texts(const tsr_span *texts, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    if (!texts[i].bytes && texts[i].size > 0) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_add: texts must not be NULL");
    }
    if (texts[i].size > LONGEST_TEXT) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_add: expected texts of at most 1 GiB, found %zu bytes",
                      texts[i].size);
    }
  }
  return TSR_OK;
}

/* Reads the hypothesis and those of several references that are not empty. *n: texts. */
static tsr_status read_texts(tsr_scorer *s, tsr_span hypothesis, const tsr_span *references, int32_t n_references,
                             int32_t *n)
{
  TSR_TRY(tsr_readings_reserve(&s->readings, &s->symbols, &s->room, n_references + 1));
  TSR_TRY(tsr_reading_begin(&s->readings[0], hypothesis.bytes, hypothesis.size));
  *n = 1;
  for (int32_t r = 0; r < n_references; r++) {
    int is_last = r + 1 == n_references && *n == 1;
    if (references[r].size > 0 || is_last) {
      TSR_TRY(tsr_reading_begin(&s->readings[(*n)++], references[r].bytes, references[r].size));
    }
  }
  return TSR_OK;
}

tsr_status tsr_scorer_add_references(tsr_scorer *scorer, tsr_span hypothesis, const tsr_span *references,
                                     int32_t n_references)
{
  if (!scorer || !references || n_references < 1) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_add: scorer and references must not be NULL");
  }
  TSR_TRY(check_texts(&hypothesis, 1));
  TSR_TRY(check_texts(references, n_references));
  int32_t n;
  TSR_TRY(read_texts(scorer, hypothesis, references, n_references, &n));
  tsr_ngram_counts bleu[TSR_BLEU_ORDER] = {0};
  tsr_ngram_counts chrf[TSR_CHRF_ORDER] = {0};
  if (scorer->metrics & TSR_METRIC_BLEU) {
    TSR_TRY(count_words(scorer, n, bleu));
  }
  if (scorer->metrics & TSR_METRIC_CHRF) {
    TSR_TRY(count_characters(scorer, n, chrf));
  }
  tsr_wer wer = {0};
  if (scorer->metrics & TSR_METRIC_WER) {
    TSR_TRY(count_errors(scorer, n, &wer));
  }
  add_errors(&scorer->wer, &wer);
  add_counts(scorer->bleu, bleu, TSR_BLEU_ORDER);
  add_counts(scorer->chrf, chrf, TSR_CHRF_ORDER);
  memcpy(scorer->last_bleu, bleu, sizeof bleu);
  memcpy(scorer->last_chrf, chrf, sizeof chrf);
  scorer->least_references = scorer->count > 0 && scorer->least_references < n - 1 ? scorer->least_references : n - 1;
  scorer->most_references = scorer->most_references > n - 1 ? scorer->most_references : n - 1;
  scorer->count++;
  return TSR_OK;
}

tsr_status tsr_scorer_add(tsr_scorer *scorer, tsr_span hypothesis, tsr_span reference)
{
  return tsr_scorer_add_references(scorer, hypothesis, &reference, 1);
}

int64_t tsr_scorer_count(const tsr_scorer *scorer)
{
  return scorer ? scorer->count : 0;
}

static void compute_bleu(const tsr_ngram_counts counts[TSR_BLEU_ORDER], int effective_order, tsr_bleu *bleu)
{
  *bleu = (tsr_bleu){
      .brevity_penalty = 1, .hypothesis_length = counts[0].hypothesis, .reference_length = counts[0].reference};
  for (int32_t i = 0; i < TSR_BLEU_ORDER; i++) {
    bleu->matches[i] = counts[i].matches;
    bleu->totals[i] = counts[i].hypothesis;
  }
  double n_hypothesis = (double)bleu->hypothesis_length;
  double n_reference = (double)bleu->reference_length;
  if (n_hypothesis < n_reference) {
    bleu->brevity_penalty = n_hypothesis > 0 ? exp(1 - n_reference / n_hypothesis) : 0;
  }
  if (bleu->matches[0] == 0) {
    return; /* and so none of a higher order */
  }

  /* An order without a match counts as half a match, the next one such as a quarter, and so on. */
  double smoothing = 1;
  double sum = 0;
  int32_t order = 0;
  for (; order < TSR_BLEU_ORDER && bleu->totals[order] > 0; order++) {
    double matches = (double)bleu->matches[order];
    if (bleu->matches[order] == 0) {
      smoothing /= 2;
      matches = smoothing;
    }
    bleu->precisions[order] = 100 * matches / (double)bleu->totals[order];
    sum += log(bleu->precisions[order]);
  }
  if (order == TSR_BLEU_ORDER || effective_order) {
    bleu->score = bleu->brevity_penalty * exp(sum / order);
  }
}

static void compute_chrf(const tsr_ngram_counts counts[TSR_CHRF_ORDER], tsr_chrf *chrf)
{
  const double beta_squared = 4;
  *chrf = (tsr_chrf){0};
  int32_t n_orders = 0;
  for (int32_t i = 0; i < TSR_CHRF_ORDER; i++) {
    chrf->matches[i] = counts[i].matches;
    chrf->hypothesis[i] = counts[i].hypothesis;
    chrf->reference[i] = counts[i].reference;
    if (counts[i].hypothesis > 0 && counts[i].reference > 0) {
      chrf->precision += (double)counts[i].matches / (double)counts[i].hypothesis;
      chrf->recall += (double)counts[i].matches / (double)counts[i].reference;
      n_orders++;
    }
  }
  if (n_orders == 0 || chrf->precision == 0) {
    return;
  }
  chrf->precision /= n_orders;
  chrf->recall /= n_orders;
  chrf->score =
      100 * (1 + beta_squared) * chrf->precision * chrf->recall / (beta_squared * chrf->precision + chrf->recall);
}

tsr_status tsr_scorer_bleu(const tsr_scorer *scorer, tsr_bleu *bleu)
{
  if (!scorer || !bleu || !(scorer->metrics & TSR_METRIC_BLEU)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_bleu: expected a scorer with TSR_METRIC_BLEU, and bleu not NULL");
  }
  compute_bleu(scorer->bleu, 0, bleu);
  return TSR_OK;
}

tsr_status tsr_scorer_chrf(const tsr_scorer *scorer, tsr_chrf *chrf)
{
  if (!scorer || !chrf || !(scorer->metrics & TSR_METRIC_CHRF)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_chrf: expected a scorer with TSR_METRIC_CHRF, and chrf not NULL");
  }
  compute_chrf(scorer->chrf, chrf);
  return TSR_OK;
}

tsr_status tsr_scorer_wer(const tsr_scorer *scorer, tsr_wer *wer)
{
  if (!scorer || !wer || !(scorer->metrics & TSR_METRIC_WER)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_wer: expected a scorer with TSR_METRIC_WER, and wer not NULL");
  }
  *wer = scorer->wer;
  double errors = (double)(wer->substitutions + wer->deletions + wer->insertions);
  wer->score = wer->reference_words > 0 ? 100 * errors / (double)wer->reference_words : NAN;
  return TSR_OK;
}

tsr_status tsr_scorer_set_normalizer(tsr_scorer *scorer, tsr_normalizer *normalizer)
{
  if (!scorer || !(scorer->metrics & TSR_METRIC_WER) || scorer->count > 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_set_normalizer: expected a scorer with TSR_METRIC_WER that has no "
                                      "sentence yet");
  }
  scorer->normalizer = normalizer;
  return TSR_OK;
}

tsr_status tsr_scorer_last(const tsr_scorer *scorer, tsr_bleu *bleu, tsr_chrf *chrf)
{
  if (!scorer || scorer->count == 0 || (bleu && !(scorer->metrics & TSR_METRIC_BLEU)) ||
      (chrf && !(scorer->metrics & TSR_METRIC_CHRF))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_last: expected a scorer with these metrics and a sentence");
  }
  if (bleu) {
    compute_bleu(scorer->last_bleu, 1, bleu);
  }
  if (chrf) {
    compute_chrf(scorer->last_chrf, chrf);
  }
  return TSR_OK;
}

/* A scorer that has read everything. */
static tsr_status score_all(int32_t metric, const tsr_span *hypotheses, const tsr_span *references, int64_t n,
                            tsr_scorer **scorer)
{
  *scorer = NULL;
  if (n < 0 || (n > 0 && (!hypotheses || !references))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "scores of a corpus: expected hypotheses and references, and n from 0 on");
  }
  tsr_status status = tsr_scorer_create(metric, scorer);
  for (int64_t i = 0; i < n && status == TSR_OK; i++) {
    status = tsr_scorer_add(*scorer, hypotheses[i], references[i]);
  }
  return status;
}

tsr_status tsr_bleu_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n, tsr_bleu *bleu)
{
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_BLEU, hypotheses, references, n, &scorer);
  if (status == TSR_OK) {
    status = tsr_scorer_bleu(scorer, bleu);
  }
  tsr_scorer_destroy(scorer);
  return status;
}

tsr_status tsr_chrf_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n, tsr_chrf *chrf)
{
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_CHRF, hypotheses, references, n, &scorer);
  if (status == TSR_OK) {
    status = tsr_scorer_chrf(scorer, chrf);
  }
  tsr_scorer_destroy(scorer);
  return status;
}

tsr_status tsr_bleu_sentence(tsr_span hypothesis, tsr_span reference, tsr_bleu *bleu)
{
  if (!bleu) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_bleu_sentence: bleu must not be NULL");
  }
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_BLEU, &hypothesis, &reference, 1, &scorer);
  if (status == TSR_OK) {
    status = tsr_scorer_last(scorer, bleu, NULL);
  }
  tsr_scorer_destroy(scorer);
  return status;
}
