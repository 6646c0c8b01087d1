/* SPDX-License-Identifier: Apache-2.0
 *
 * BLEU and chrF from counts of n-grams.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/eval/ngrams.h"
#include "core/eval/words.h"
#include "tessera/eval.h"

enum { LONGEST_TEXT = 1 << 30 };

struct tsr_scorer {
  int32_t metrics;
  int64_t count;
  tsr_ngram_counts bleu[TSR_BLEU_ORDER];
  tsr_ngram_counts chrf[TSR_CHRF_ORDER];
  /* Scratch memory for a pair. */
  tsr_text_buffer clean[2]; /* hypothesis, reference; likewise the next two */
  tsr_text_buffer tokens[2][2];
  tsr_symbols symbols[2];
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

tsr_status tsr_scorer_create(int32_t metrics, tsr_scorer **scorer)
{
  if (!scorer)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_create: scorer must not be NULL");
  *scorer = NULL;
  if (metrics <= 0 || (metrics & ~(TSR_METRIC_BLEU | TSR_METRIC_CHRF)) != 0)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_create: metrics: expected some of TSR_METRIC_*, found %d", metrics);
  *scorer = calloc(1, sizeof **scorer);
  if (!*scorer)
    return tsr_fail_memory(sizeof **scorer);
  (*scorer)->metrics = metrics;
  return TSR_OK;
}

void tsr_scorer_destroy(tsr_scorer *scorer)
{
  if (!scorer)
    return;
  for (int side = 0; side < 2; side++) {
    free(scorer->clean[side].bytes);
    free(scorer->tokens[side][0].bytes);
    free(scorer->tokens[side][1].bytes);
    free(scorer->symbols[side].symbols);
  }
  tsr_words_finish(&scorer->words);
  tsr_ngrams_finish(&scorer->ngrams);
  free(scorer);
}

/* [0]: the hypothesis, [1]: the reference, in what follows. */

static tsr_status count_words(tsr_scorer *s, const tsr_span texts[2], tsr_ngram_counts counts[TSR_BLEU_ORDER])
{
  tsr_span tokens[2];
  for (int side = 0; side < 2; side++)
    TSR_TRY(tsr_tokenize_13a(s->tokens[side], texts[side].bytes, texts[side].size, &tokens[side].bytes,
                             &tokens[side].size));
  tsr_words_forget(&s->words);
  for (int side = 0; side < 2; side++)
    TSR_TRY(tsr_symbols_of_words(&s->symbols[side], &s->words, tokens[side].bytes, tokens[side].size));
  return tsr_ngrams_count(&s->ngrams, s->symbols[0].symbols, s->symbols[0].n, s->symbols[1].symbols, s->symbols[1].n,
                          TSR_BLEU_ORDER, counts);
}

static tsr_status count_characters(tsr_scorer *s, const tsr_span texts[2], tsr_ngram_counts counts[TSR_CHRF_ORDER])
{
  for (int side = 0; side < 2; side++)
    TSR_TRY(tsr_symbols_of_characters(&s->symbols[side], texts[side].bytes, texts[side].size));
  TSR_TRY(tsr_ngrams_count(&s->ngrams, s->symbols[0].symbols, s->symbols[0].n, s->symbols[1].symbols, s->symbols[1].n,
                           TSR_CHRF_ORDER, counts));
  for (int32_t i = 0; i < TSR_CHRF_ORDER; i++) {
    if (counts[i].reference == 0)
      counts[i].hypothesis = 0; /* sacreBLEU leaves them out: nothing could have matched */
  }
  return TSR_OK;
}

static void add_counts(tsr_ngram_counts *sums, const tsr_ngram_counts *counts, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    sums[i].hypothesis += counts[i].hypothesis;
    sums[i].reference += counts[i].reference;
    sums[i].matches += counts[i].matches;
  }
}

tsr_status tsr_scorer_add(tsr_scorer *scorer, tsr_span hypothesis, tsr_span reference)
{
  if (!scorer || (!hypothesis.bytes && hypothesis.size > 0) || (!reference.bytes && reference.size > 0))
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_add: scorer and texts must not be NULL");
  if (hypothesis.size > LONGEST_TEXT || reference.size > LONGEST_TEXT)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_add: expected texts of at most 1 GiB, found %zu and %zu bytes",
                    hypothesis.size, reference.size);
  const tsr_span given[2] = {hypothesis, reference};
  tsr_span texts[2];
  for (int side = 0; side < 2; side++)
    TSR_TRY(tsr_text_buffer_clean(&scorer->clean[side], given[side].size > 0 ? given[side].bytes : "", given[side].size,
                                  &texts[side].bytes, &texts[side].size));
  tsr_ngram_counts bleu[TSR_BLEU_ORDER] = {0};
  tsr_ngram_counts chrf[TSR_CHRF_ORDER] = {0};
  if (scorer->metrics & TSR_METRIC_BLEU)
    TSR_TRY(count_words(scorer, texts, bleu));
  if (scorer->metrics & TSR_METRIC_CHRF)
    TSR_TRY(count_characters(scorer, texts, chrf));
  add_counts(scorer->bleu, bleu, TSR_BLEU_ORDER);
  add_counts(scorer->chrf, chrf, TSR_CHRF_ORDER);
  scorer->count++;
  return TSR_OK;
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
  if (n_hypothesis < n_reference)
    bleu->brevity_penalty = n_hypothesis > 0 ? exp(1 - n_reference / n_hypothesis) : 0;
  if (bleu->matches[0] == 0)
    return; /* and so none of a higher order */

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
  if (order == TSR_BLEU_ORDER || effective_order)
    bleu->score = bleu->brevity_penalty * exp(sum / order);
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
  if (n_orders == 0 || chrf->precision == 0)
    return;
  chrf->precision /= n_orders;
  chrf->recall /= n_orders;
  chrf->score =
      100 * (1 + beta_squared) * chrf->precision * chrf->recall / (beta_squared * chrf->precision + chrf->recall);
}

tsr_status tsr_scorer_bleu(const tsr_scorer *scorer, tsr_bleu *bleu)
{
  if (!scorer || !bleu || !(scorer->metrics & TSR_METRIC_BLEU))
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_bleu: expected a scorer with TSR_METRIC_BLEU, and bleu not NULL");
  compute_bleu(scorer->bleu, 0, bleu);
  return TSR_OK;
}

tsr_status tsr_scorer_chrf(const tsr_scorer *scorer, tsr_chrf *chrf)
{
  if (!scorer || !chrf || !(scorer->metrics & TSR_METRIC_CHRF))
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_scorer_chrf: expected a scorer with TSR_METRIC_CHRF, and chrf not NULL");
  compute_chrf(scorer->chrf, chrf);
  return TSR_OK;
}

/* A scorer that has read everything. */
static tsr_status score_all(int32_t metric, const tsr_span *hypotheses, const tsr_span *references, int64_t n,
                            tsr_scorer **scorer)
{
  *scorer = NULL;
  if (n < 0 || (n > 0 && (!hypotheses || !references)))
    return tsr_fail(TSR_ERR_ARGUMENT, "scores of a corpus: expected hypotheses and references, and n from 0 on");
  tsr_status status = tsr_scorer_create(metric, scorer);
  for (int64_t i = 0; i < n && status == TSR_OK; i++)
    status = tsr_scorer_add(*scorer, hypotheses[i], references[i]);
  return status;
}

tsr_status tsr_bleu_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n, tsr_bleu *bleu)
{
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_BLEU, hypotheses, references, n, &scorer);
  if (status == TSR_OK)
    status = tsr_scorer_bleu(scorer, bleu);
  tsr_scorer_destroy(scorer);
  return status;
}

tsr_status tsr_chrf_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n, tsr_chrf *chrf)
{
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_CHRF, hypotheses, references, n, &scorer);
  if (status == TSR_OK)
    status = tsr_scorer_chrf(scorer, chrf);
  tsr_scorer_destroy(scorer);
  return status;
}

tsr_status tsr_bleu_sentence(tsr_span hypothesis, tsr_span reference, tsr_bleu *bleu)
{
  if (!bleu)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_bleu_sentence: bleu must not be NULL");
  tsr_scorer *scorer;
  tsr_status status = score_all(TSR_METRIC_BLEU, &hypothesis, &reference, 1, &scorer);
  if (status == TSR_OK)
    compute_bleu(scorer->bleu, 1, bleu);
  tsr_scorer_destroy(scorer);
  return status;
}
