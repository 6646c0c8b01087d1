/* SPDX-License-Identifier: Apache-2.0
 *
 * Which token of the source a token was made from: the one that a layer of the decoder attends to most. Which layer is
 * the best for that differs from model to model. Words that are copied show it: names and numbers, whatever the
 * languages are.
 */
#include <string.h>

#include "core/base/status.h"
#include "core/translate/translate.h"

enum { N_TEXTS = 4, MOST_LENGTH = 64 };

static const char *const texts[N_TEXTS] = {
    "Maria 1984, Berlin 2001, Peter 37.",
    "Roma 56, Anna 480 and Paris 75.",
    "1, 2, 3, 4, 5, 6, 7, 8, 9.",
    "Robert Martin: London 12, Madrid 640; Linda Weber: Tokyo 31.",
};

void tsr_alignment_of(const tsr_tokenizer *tokenizer, const tsr_hypothesis *h, const int32_t *source, int32_t first,
                      int32_t *aligned)
{
  for (int32_t i = 0; i < h->n_ids; i++) {
    int32_t best = -1;
    aligned[i] = -1;
    if (!h->attention || tsr_token_is_special(tokenizer, TSR_SIDE_TARGET, h->ids[i])) {
      continue;
    }
    const float *row = h->attention + (size_t)i * (size_t)h->n_source;
    for (int32_t k = 0; k < h->n_source; k++) {
      if (!tsr_token_is_special(tokenizer, TSR_SIDE_SOURCE, source[k]) && (best < 0 || row[k] > row[best])) {
        best = k;
      }
    }
    aligned[i] = best < 0 ? -1 : first + best;
  }
}

/* The only place of a token, by its spelling, among ids; -1: there is none, or more than one. */
static int32_t find_only(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids, int32_t n, const char *token)
{
  int32_t found = -1;
  for (int32_t i = 0; i < n; i++) {
    if (strcmp(tsr_tokenizer_token(tokenizer, side, ids[i]), token) == 0) {
      if (found >= 0) {
        return -1;
      }
      found = i;
    }
  }
  return found;
}

/* How much the tokens of a translation that stand once in both texts attend to themselves, together. */
static double sum_hits(const tsr_tokenizer *tokenizer, const tsr_hypothesis *h, const int32_t *source)
{
  double sum = 0.0;
  for (int32_t i = 0; i < h->n_ids; i++) {
    const char *token = tsr_tokenizer_token(tokenizer, TSR_SIDE_TARGET, h->ids[i]);
    if (tsr_token_is_special(tokenizer, TSR_SIDE_TARGET, h->ids[i])) {
      continue;
    }
    int32_t only = find_only(tokenizer, TSR_SIDE_SOURCE, source, h->n_source, token);
    if (only >= 0 && find_only(tokenizer, TSR_SIDE_TARGET, h->ids, h->n_ids, token) == i) {
      sum += (double)h->attention[(size_t)i * (size_t)h->n_source + (size_t)only];
    }
  }
  return sum;
}

static tsr_status find_layer(tsr_translator *t, tsr_transformer *transformer, int32_t *const ids[N_TEXTS],
                             const int32_t n_ids[N_TEXTS])
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  tsr_generate_options options = t->defaults;
  double most_hits = 0.0;
  options.beam = options.n_best = options.attention = 1;
  options.sample = 0;
  options.max_length = MOST_LENGTH < config->max_positions ? MOST_LENGTH : config->max_positions;
  options.max_length = config->max_positions > 0 ? options.max_length : MOST_LENGTH;
  for (int32_t layer = 1; layer <= config->decoder_layers; layer++) {
    tsr_generation found;
    double hits = 0.0;
    options.attention_layer = layer;
    TSR_TRY(tsr_generate(transformer, N_TEXTS, (const int32_t *const *)ids, n_ids, 0, &options, NULL, NULL, &found));
    for (int32_t i = 0; i < N_TEXTS; i++) {
      hits += sum_hits(t->tokenizer, &found.hypotheses[i], ids[i]);
    }
    tsr_generation_finish(&found);
    if (hits > most_hits) {
      most_hits = hits;
      t->alignment_layer = layer;
    }
  }
  return TSR_OK;
}

tsr_status tsr_alignment_choose(tsr_translator *t, tsr_transformer *transformer)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t wanted = t->options.alignment_layer, layers = config->decoder_layers;
  if (wanted < -1 || wanted > layers) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_options: alignment_layer is %d; it should be -1 to %d",
                    (int)wanted, (int)layers);
  }
  if (config->encoder_layers == 0) {
    return TSR_OK;
  }
  t->alignment_layer = wanted > 0 ? wanted : layers > 1 ? layers - 1 : layers;
  if (wanted >= 0) {
    return TSR_OK;
  }
  int32_t *ids[N_TEXTS] = {NULL}, n_ids[N_TEXTS];
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < N_TEXTS && status == TSR_OK; i++) {
    status = tsr_tokenizer_encode(t->tokenizer, texts[i], strlen(texts[i]), &ids[i], &n_ids[i]);
    n_ids[i] = config->max_positions > 0 && n_ids[i] > config->max_positions ? config->max_positions : n_ids[i];
  }
  if (status == TSR_OK) {
    status = find_layer(t, transformer, ids, n_ids);
  }
  for (int32_t i = 0; i < N_TEXTS; i++) {
    tsr_free(ids[i]);
  }
  return status;
}
