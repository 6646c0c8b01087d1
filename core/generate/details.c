/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/details.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

/* Of a sentence. */
typedef struct heard {
  float *languages; /* [n_languages], or NULL */
  float no_speech;  /* NaN: it was not asked for */
} heard;

/* Of a hypothesis. */
typedef struct aligned {
  float *weights; /* [heads][rows][positions], or NULL */
  int32_t rows;
} aligned;

struct tsr_details {
  int32_t n_sentences;
  int32_t n_best;
  heard *heard;              /* [n_sentences] */
  float **log_probabilities; /* [n_sentences][n_best], each [n_ids] or NULL */
  aligned *alignments;       /* [n_sentences][n_best] */
};

tsr_status tsr_details_create(tsr_details **details)
{
  if (!details) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_details_create: details must not be NULL");
  }
  *details = calloc(1, sizeof **details);
  return *details ? TSR_OK : tsr_fail_memory(sizeof **details);
}

static void clear(tsr_details *details)
{
  const int64_t n = (int64_t)details->n_sentences * details->n_best;
  for (int64_t i = 0; i < n; i++) {
    free(details->log_probabilities[i]);
    free(details->alignments[i].weights);
  }
  for (int32_t i = 0; i < details->n_sentences; i++) {
    free(details->heard[i].languages);
  }
  free(details->log_probabilities);
  free(details->alignments);
  free(details->heard);
  *details = (tsr_details){0};
}

void tsr_details_destroy(tsr_details *details)
{
  if (details) {
    clear(details);
    free(details);
  }
}

tsr_status tsr_details_begin(tsr_details *details, int32_t n_sentences, int32_t n_best)
{
  const size_t sentences = (size_t)n_sentences + 1, n = sentences * (size_t)n_best;
  clear(details);
  details->log_probabilities = calloc(n, sizeof *details->log_probabilities);
  details->heard = calloc(sentences, sizeof *details->heard);
  details->alignments = calloc(n, sizeof *details->alignments);
  if (!details->log_probabilities || !details->alignments || !details->heard) {
    clear(details);
    return tsr_fail_memory(n * sizeof *details->log_probabilities);
  }
  for (int32_t i = 0; i < n_sentences; i++) {
    details->heard[i].no_speech = NAN;
  }
  details->n_sentences = n_sentences;
  details->n_best = n_best;
  return TSR_OK;
}

void tsr_details_put(tsr_details *details, int32_t sentence, int32_t hypothesis, float *log_probabilities)
{
  details->log_probabilities[(int64_t)sentence * details->n_best + hypothesis] = log_probabilities;
}

tsr_status tsr_details_put_alignment(tsr_details *details, int32_t sentence, int32_t hypothesis, float *weights,
                                     int32_t rows, int32_t heads, int32_t positions)
{
  aligned *of = &details->alignments[(int64_t)sentence * details->n_best + hypothesis];
  const size_t width = (size_t)positions, size = (size_t)rows * (size_t)heads * width * sizeof *weights;
  float *turned = malloc(size + 1);
  for (int32_t row = 0; turned && row < rows; row++) {
    for (int32_t head = 0; head < heads; head++) {
      memcpy(turned + ((size_t)head * (size_t)rows + (size_t)row) * width,
             weights + ((size_t)row * (size_t)heads + (size_t)head) * width, width * sizeof *weights);
    }
  }
  free(weights);
  *of = (aligned){.weights = turned, .rows = rows};
  return turned ? TSR_OK : tsr_fail_memory(size);
}

tsr_status tsr_details_make_languages(tsr_details *details, int32_t sentence, int32_t n, float **probabilities)
{
  heard *of = &details->heard[sentence];
  free(of->languages);
  *probabilities = of->languages = malloc((size_t)n * sizeof *of->languages + 1);
  return of->languages ? TSR_OK : tsr_fail_memory((size_t)n * sizeof *of->languages);
}

void tsr_details_put_no_speech(tsr_details *details, int32_t sentence, float probability)
{
  details->heard[sentence].no_speech = probability;
}

static int has_sentence(const tsr_details *details, int32_t sentence)
{
  return details && sentence >= 0 && sentence < details->n_sentences;
}

static int has_hypothesis(const tsr_details *details, int32_t sentence, int32_t hypothesis)
{
  return has_sentence(details, sentence) && hypothesis >= 0 && hypothesis < details->n_best;
}

const float *tsr_details_log_probabilities(const tsr_details *details, int32_t sentence, int32_t hypothesis)
{
  return has_hypothesis(details, sentence, hypothesis)
             ? details->log_probabilities[(int64_t)sentence * details->n_best + hypothesis]
             : NULL;
}

const float *tsr_details_alignment(const tsr_details *details, int32_t sentence, int32_t hypothesis, int32_t *n_rows)
{
  const aligned none = {0};
  const aligned *of = has_hypothesis(details, sentence, hypothesis)
                          ? &details->alignments[(int64_t)sentence * details->n_best + hypothesis]
                          : &none;
  if (n_rows) {
    *n_rows = of->rows;
  }
  return of->weights;
}

const float *tsr_details_languages(const tsr_details *details, int32_t sentence)
{
  return has_sentence(details, sentence) ? details->heard[sentence].languages : NULL;
}

float tsr_details_no_speech(const tsr_details *details, int32_t sentence)
{
  return has_sentence(details, sentence) ? details->heard[sentence].no_speech : NAN;
}
