/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/eval.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/eval/ngrams.h"
#include "core/eval/words.h"

/* Texts: the hypothesis, the source, the references. */
enum { HYPOTHESIS = 0, SOURCE = 1, REFERENCES = 2 };

struct tsr_analyser {
  tsr_reading *readings; /* [room] */
  tsr_symbols *texts;    /* [room] */
  int32_t room;
  tsr_words words;
  tsr_ngrams ngrams;
};

tsr_status tsr_analyser_create(tsr_analyser **analyser)
{
  *analyser = calloc(1, sizeof **analyser);
  return *analyser ? TSR_OK : tsr_fail_memory(sizeof **analyser);
}

void tsr_analyser_destroy(tsr_analyser *analyser)
{
  if (!analyser) {
    return;
  }
  tsr_readings_finish(analyser->readings, analyser->texts, analyser->room);
  tsr_words_finish(&analyser->words);
  tsr_ngrams_finish(&analyser->ngrams);
  free(analyser);
}

static tsr_status read_text(tsr_analyser *a, int32_t index, tsr_span text)
{
  TSR_TRY(tsr_reading_begin(&a->readings[index], text.bytes, text.size));
  return tsr_reading_words(&a->readings[index], &a->words, &a->texts[index]);
}

static int64_t count_doubled(const tsr_symbols *text)
{
  int64_t n = 0;
  for (size_t i = 1; i < text->n; i++) {
    n += text->symbols[i] == text->symbols[i - 1];
  }
  return n;
}

static int is_same(const tsr_symbols *a, const tsr_symbols *b)
{
  return a->n == b->n && memcmp(a->symbols, b->symbols, a->n * sizeof *a->symbols) == 0;
}

/* The share of a text's words that the source has; 0 of no words. */
static tsr_status share_of_source(tsr_analyser *a, const tsr_symbols *text, double *share)
{
  tsr_ngram_counts counts;
  TSR_TRY(tsr_ngrams_count(&a->ngrams, text, &a->texts[SOURCE], 1, 1, &counts));
  *share = text->n > 0 ? (double)counts.matches / (double)text->n : 0;
  return TSR_OK;
}

static tsr_status find_copy(tsr_analyser *a, int32_t n_references, int *is_copy)
{
  const tsr_symbols *text = &a->texts[HYPOTHESIS];
  const double much = 0.5;
  double share, most = 0;
  *is_copy = 0;
  for (int32_t r = 0; r < n_references; r++) {
    double each;
    TSR_TRY(share_of_source(a, &a->texts[REFERENCES + r], &each));
    most = each > most ? each : most;
  }
  TSR_TRY(share_of_source(a, text, &share));
  *is_copy = text->n > 0 && most < much && (is_same(text, &a->texts[SOURCE]) || (text->n >= 4 && share >= much));
  return TSR_OK;
}

tsr_status tsr_analyse(tsr_analyser *analyser, tsr_span hypothesis, const tsr_span *references, int32_t n_references,
                       const tsr_span *source, tsr_facts *facts)
{
  enum { FEW = 4 };
  tsr_analyser *a = analyser;
  tsr_ngram_counts counts[TSR_BLEU_ORDER];
  *facts = (tsr_facts){0};
  TSR_TRY(tsr_readings_reserve(&a->readings, &a->texts, &a->room, n_references + REFERENCES));
  tsr_words_forget(&a->words);
  TSR_TRY(read_text(a, HYPOTHESIS, hypothesis));
  TSR_TRY(read_text(a, SOURCE, source ? *source : (tsr_span){0}));
  for (int32_t r = 0; r < n_references; r++) {
    TSR_TRY(read_text(a, REFERENCES + r, references[r]));
  }
  TSR_TRY(
      tsr_ngrams_count(&a->ngrams, &a->texts[HYPOTHESIS], &a->texts[REFERENCES], n_references, TSR_BLEU_ORDER, counts));
  facts->words = counts[0].hypothesis;
  facts->reference_words = counts[0].reference;
  facts->source_words = (int64_t)a->texts[SOURCE].n;
  int64_t allowed = 0;
  for (int32_t r = 0; r < n_references; r++) {
    int64_t doubled = count_doubled(&a->texts[REFERENCES + r]);
    allowed = doubled > allowed ? doubled : allowed;
  }
  int64_t doubled = count_doubled(&a->texts[HYPOTHESIS]);
  facts->doubled = doubled > allowed ? doubled - allowed : 0;
  for (int32_t i = 0; i < TSR_BLEU_ORDER; i++) {
    facts->repeats[i] = counts[i].repeats;
  }
  int is_copy = 0;
  if (source) {
    TSR_TRY(find_copy(a, n_references, &is_copy));
  }
  int is_empty = facts->words == 0 && facts->reference_words > 0;
  int is_short = !is_empty && facts->reference_words >= FEW && 2 * facts->words < facts->reference_words;
  int is_long = facts->words >= FEW && facts->words > 2 * facts->reference_words;
  facts->flaws = is_empty << TSR_FLAW_EMPTY | (facts->repeats[2] > 0 || facts->doubled > 0) << TSR_FLAW_REPEATS |
                 is_copy << TSR_FLAW_COPIED | is_short << TSR_FLAW_SHORT | is_long << TSR_FLAW_LONG;
  return TSR_OK;
}
