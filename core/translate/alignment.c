/* SPDX-License-Identifier: Apache-2.0
 *
 * Which token of the source a token was made from: the one that some heads of a layer of the decoder attend to most.
 * Which heads are the best for that differs from model to model. Words that are copied show it: names and numbers,
 * whatever the languages are.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/translate/translate.h"
#include "tessera/inspect.h"

enum { N_TEXTS = 32, MOST_LENGTH = 64, MOST_HEADS = 32 /* bits of tsr_generate_options */ };

/* Names and numbers within everyday sentences, which small models know, too. */
static const char *const texts[N_TEXTS] = {
    "Tom and Mary live in Boston.",
    "Peter met Anna in Berlin in 2001.",
    "Maria was born in Madrid in 1984.",
    "Robert, Linda and David are from London.",
    "John went to Tokyo with Emily.",
    "Paul is 37 years old, and Laura is 25.",
    "Martin wrote to Sarah from Moscow.",
    "We met Michael Brown in Chicago.",
    "Is Nancy in Rome or in Paris?",
    "Daniel has 15 dogs and 40 cats.",
    "Thomas and Julia are waiting for Sophie.",
    "Mr. Smith lives in New York.",
    "Karl works for Google in Dublin.",
    "Lisa, 29, plays chess with Ken.",
    "Simon and Clara arrived at 10:30.",
    "Victor bought 6 books in Vienna.",
    "Tom told Mary about Australia.",
    "I saw Alice and Jack in Hong Kong.",
    "Germany won 7 to 1 against Brazil.",
    "The museum in Amsterdam closes at 18:00.",
    "George came from Canada in 1995.",
    "Henry gave Marie 50 dollars.",
    "Lucas, 8, is taller than Nina.",
    "Call Bob at 555 2368.",
    "Ivan and Olga went to Kyoto.",
    "Charles was king until 1649.",
    "The train to Milan leaves at 9:45.",
    "Kate read 300 pages of Hamlet.",
    "Oscar, do you know Diana?",
    "Jim and Jane got married in Las Vegas.",
    "Carlos has lived in Lima since 2012.",
    "Tom is 13, and John is 14.",
};

/* A token that stands once in a text and once in its translation. */
typedef struct copied {
  int32_t text;
  int32_t target;
  int32_t source;
} copied;

/* The texts, what the model makes of them, and what is copied. */
typedef struct trial {
  int32_t *ids[N_TEXTS];
  int32_t n_ids[N_TEXTS];
  tsr_generation found;
  copied copies[N_TEXTS * MOST_LENGTH];
  int32_t n_copies;
} trial;

/* The token that is attended to most: its place in source; -1: all of them are special ones. */
static int32_t find_most(const tsr_tokenizer *tokenizer, const float *row, const int32_t *source, int32_t n_source)
{
  int32_t most = -1;
  for (int32_t k = 0; k < n_source; k++) {
    if (!tsr_token_is_special(tokenizer, TSR_SIDE_SOURCE, source[k]) && (most < 0 || row[k] > row[most])) {
      most = k;
    }
  }
  return most;
}

void tsr_alignment_of(const tsr_tokenizer *tokenizer, const tsr_hypothesis *h, const int32_t *source, int32_t first,
                      int32_t *aligned)
{
  for (int32_t i = 0; i < h->n_ids; i++) {
    aligned[i] = -1;
    if (h->attention && !tsr_token_is_special(tokenizer, TSR_SIDE_TARGET, h->ids[i])) {
      int32_t most = find_most(tokenizer, h->attention + (size_t)i * (size_t)h->n_source, source, h->n_source);
      aligned[i] = most < 0 ? -1 : first + most;
    }
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

/* Of a name or a number, by a capital letter or a digit: other words are rarely copied, but spelled alike by chance. */
static int is_name(const char *token)
{
  return strpbrk(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != NULL;
}

static void find_copies(const tsr_tokenizer *tokenizer, trial *of)
{
  for (int32_t text = 0; text < N_TEXTS; text++) {
    const tsr_hypothesis *h = &of->found.hypotheses[text];
    for (int32_t i = 0; i < h->n_ids; i++) {
      const char *token = tsr_tokenizer_token(tokenizer, TSR_SIDE_TARGET, h->ids[i]);
      int32_t only = is_name(token) ? find_only(tokenizer, TSR_SIDE_SOURCE, of->ids[text], of->n_ids[text], token) : -1;
      if (only >= 0 && !tsr_token_is_special(tokenizer, TSR_SIDE_TARGET, h->ids[i]) &&
          !tsr_token_is_special(tokenizer, TSR_SIDE_SOURCE, of->ids[text][only]) &&
          find_only(tokenizer, TSR_SIDE_TARGET, h->ids, h->n_ids, token) == i) {
        of->copies[of->n_copies++] = (copied){.text = text, .target = i, .source = only};
      }
    }
  }
}

/* One search of all texts, in at most MOST_LENGTH steps. */
static tsr_status translate_texts(const tsr_translator *t, tsr_transformer *transformer, trial *of)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t positions = config->max_positions > 0 ? config->max_positions : MOST_LENGTH;
  tsr_generate_options options = t->defaults;
  for (int32_t i = 0; i < N_TEXTS; i++) {
    TSR_TRY(tsr_tokenizer_encode(t->tokenizer, texts[i], strlen(texts[i]), &of->ids[i], &of->n_ids[i]));
    of->n_ids[i] = of->n_ids[i] > positions ? positions : of->n_ids[i];
  }
  options.beam = options.n_best = 1;
  options.sample = 0;
  options.max_length = MOST_LENGTH < positions ? MOST_LENGTH : positions;
  TSR_TRY(tsr_generate(transformer, N_TEXTS, (const int32_t *const *)of->ids, of->n_ids, 0, &options, NULL, NULL,
                       &of->found));
  find_copies(t->tokenizer, of);
  return TSR_OK;
}

/* The attention of all heads of all layers, by teacher forcing. */
static tsr_status show_attention(const tsr_translator *t, tsr_transformer *transformer, const trial *of,
                                 tsr_inspection *seen)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t start = t->defaults.decoder_start_id >= 0 ? t->defaults.decoder_start_id : config->decoder_start_id;
  int32_t n_source = 1, n_target = 1;
  for (int32_t i = 0; i < N_TEXTS; i++) {
    n_source = of->n_ids[i] > n_source ? of->n_ids[i] : n_source;
    n_target = of->found.hypotheses[i].n_ids > n_target ? of->found.hypotheses[i].n_ids : n_target;
  }
  size_t row = (size_t)n_source + (size_t)n_target;
  int32_t *source = malloc(N_TEXTS * row * sizeof *source);
  if (!source) {
    return tsr_fail_memory(N_TEXTS * row * sizeof *source);
  }
  int32_t *target = source + (size_t)N_TEXTS * (size_t)n_source;
  for (int32_t i = 0; i < N_TEXTS; i++) {
    const tsr_hypothesis *h = &of->found.hypotheses[i];
    for (int32_t k = 0; k < n_source; k++) {
      source[i * n_source + k] = of->ids[i][k < of->n_ids[i] ? k : of->n_ids[i] - 1];
    }
    for (int32_t k = 0; k < n_target; k++) {
      target[i * n_target + k] = k > 0 && k <= h->n_ids ? h->ids[k - 1] : start;
    }
  }
  tsr_status status = tsr_transformer_inspect(transformer, TSR_INSPECT_CROSS_ATTENTION, N_TEXTS, n_source, source,
                                              of->n_ids, n_target, target, seen);
  free(source);
  return status;
}

/* How well a layer's heads find together where the copies came from: their log-likelihood, by what the true places get
 * of the attention to all, and never less than a hundredth. `heads`: bits, 0 for all. `row` has room for the longest
 * source. */
static double rate_heads(const tsr_tokenizer *tokenizer, const trial *of, const tsr_inspected *weights, uint32_t heads,
                         float *row)
{
  const int64_t *extent = weights->shape.extent;
  double sum = 0.0;
  for (int32_t i = 0; i < of->n_copies; i++) {
    const copied *c = &of->copies[i];
    const int32_t *source = of->ids[c->text], n_source = of->n_ids[c->text];
    double all = 0.0;
    memset(row, 0, (size_t)n_source * sizeof *row);
    for (int64_t head = 0; head < extent[1]; head++) {
      if (heads == 0 || (head < MOST_HEADS && (heads >> head & 1) != 0)) {
        const float *of_head = weights->values + ((c->text * extent[1] + head) * extent[2] + c->target) * extent[3];
        for (int32_t k = 0; k < n_source; k++) {
          row[k] += of_head[k];
        }
      }
    }
    for (int32_t k = 0; k < n_source; k++) {
      all += tsr_token_is_special(tokenizer, TSR_SIDE_SOURCE, source[k]) ? 0.0 : (double)row[k];
    }
    sum += log(all > 0.0 ? 0.99 * (double)row[c->source] / all + 0.01 : 0.01);
  }
  return sum;
}

/* The best heads of a layer: all, but for those without which the others find the copies better. A few copies can
 * speak against a good head by chance: each that is left out counts as if it made them e^2 times less likely (twice
 * what Akaike's criterion asks). */
static double choose_heads(const tsr_tokenizer *tokenizer, const trial *of, const tsr_inspected *weights, float *row,
                           uint32_t *heads)
{
  const double cost = 2.0;
  int64_t n_heads = weights->shape.extent[1];
  double most = rate_heads(tokenizer, of, weights, 0, row);
  *heads = 0;
  if (n_heads > MOST_HEADS) {
    return most;
  }
  uint32_t kept = 0, best = UINT32_MAX >> (MOST_HEADS - n_heads);
  for (int32_t n_out = 1; kept != best; n_out++) {
    kept = best;
    for (int64_t head = 0; head < n_heads; head++) {
      uint32_t fewer = kept & ~(UINT32_C(1) << head);
      if (fewer != kept && fewer != 0) {
        double rate = rate_heads(tokenizer, of, weights, fewer, row) - cost * (double)n_out;
        if (rate > most) {
          most = rate;
          best = *heads = fewer;
        }
      }
    }
  }
  return most;
}

static tsr_status find_heads(tsr_translator *t, const trial *of, const tsr_inspection *seen)
{
  double most = -INFINITY;
  int32_t n_source = 1;
  for (int32_t i = 0; i < N_TEXTS; i++) {
    n_source = of->n_ids[i] > n_source ? of->n_ids[i] : n_source;
  }
  float *row = malloc((size_t)n_source * sizeof *row);
  if (!row) {
    return tsr_fail_memory((size_t)n_source * sizeof *row);
  }
  for (int32_t layer = 1; layer <= tsr_model_config(t->model)->decoder_layers; layer++) {
    char name[64];
    uint32_t heads = 0;
    snprintf(name, sizeof name, "decoder.layers.%d.cross_attention.weights", (int)layer - 1);
    double rate = choose_heads(t->tokenizer, of, tsr_inspection_find(seen, name), row, &heads);
    if (rate > most) {
      most = rate;
      t->alignment_layer = layer;
      t->alignment_heads = heads;
    }
  }
  free(row);
  return TSR_OK;
}

static tsr_status check_options(const tsr_translator_options *options, const tsr_transformer_config *config)
{
  if (options->alignment_layer < -1 || options->alignment_layer > config->decoder_layers) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_options: alignment_layer is %d; it should be -1 to %d",
                    (int)options->alignment_layer, (int)config->decoder_layers);
  }
  if (options->alignment_heads != 0 && options->alignment_layer < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_translator_options: alignment_heads is %#x and alignment_layer is -1; heads need a layer",
                    options->alignment_heads);
  }
  if (config->decoder_heads < MOST_HEADS && options->alignment_heads >> config->decoder_heads != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_options: alignment_heads is %#x; the decoder has %d heads",
                    options->alignment_heads, (int)config->decoder_heads);
  }
  return TSR_OK;
}

tsr_status tsr_alignment_choose(tsr_translator *t, tsr_transformer *transformer)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t wanted = t->options.alignment_layer, layers = config->decoder_layers;
  TSR_TRY(check_options(&t->options, config));
  if (config->encoder_layers == 0) {
    return TSR_OK;
  }
  t->alignment_layer = wanted > 0 ? wanted : layers > 1 ? layers - 1 : layers;
  t->alignment_heads = t->options.alignment_heads;
  if (wanted >= 0) {
    return TSR_OK;
  }
  trial *of = calloc(1, sizeof *of);
  if (!of) {
    return tsr_fail_memory(sizeof *of);
  }
  tsr_inspection seen = {0};
  tsr_status status = translate_texts(t, transformer, of);
  if (status == TSR_OK && of->n_copies > 0) {
    status = show_attention(t, transformer, of, &seen);
    status = status == TSR_OK ? find_heads(t, of, &seen) : status;
  }
  tsr_inspection_finish(&seen);
  tsr_generation_finish(&of->found);
  for (int32_t i = 0; i < N_TEXTS; i++) {
    tsr_free(of->ids[i]);
  }
  free(of);
  return status;
}
