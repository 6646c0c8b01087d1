/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/sample.h"

#include <math.h>

#include "tessera/philox.h"

/* What the logits are compared as. */
typedef struct draw {
  const float *logits;
  const int32_t *tokens;
  int32_t *order; /* a heap of n places, the likeliest at its root; behind it, those that were taken out, in reverse */
  int32_t n;
} draw;

/* Among equals the lower token comes first. */
static int comes_before(const draw *d, int32_t a, int32_t b)
{
  return d->logits[a] != d->logits[b] ? d->logits[a] > d->logits[b] : d->tokens[a] < d->tokens[b];
}

static void sift(const draw *d, int32_t at, int32_t n)
{
  int32_t moved = d->order[at];
  for (int32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
    if (child + 1 < n && comes_before(d, d->order[child + 1], d->order[child])) {
      child++;
    }
    if (!comes_before(d, d->order[child], moved)) {
      break;
    }
    d->order[at] = d->order[child];
    at = child;
  }
  d->order[at] = moved;
}

static double weight(const draw *d, int32_t i, double temperature, double largest)
{
  return exp(((double)d->logits[i] - largest) / temperature);
}

/* Takes the likeliest of those that are left out of the heap, `taken` having gone before. */
static int32_t take(const draw *d, int32_t taken)
{
  int32_t left = d->n - taken - 1;
  int32_t best = d->order[0];
  d->order[0] = d->order[left];
  d->order[left] = best;
  sift(d, 0, left);
  return best;
}

/* Moves the tokens that may be drawn to the end of order, the likeliest last, and returns how many they are. */
static int32_t choose_likeliest(const draw *d, const tsr_generate_options *options, double temperature)
{
  int32_t k = options->top_k > 0 && options->top_k < d->n ? options->top_k : d->n;
  int cuts = options->top_p > 0.0f && options->top_p < 1.0f;
  if (k == d->n && !cuts) {
    return k;
  }
  for (int32_t i = d->n / 2 - 1; i >= 0; i--) {
    sift(d, i, d->n);
  }
  double largest = (double)d->logits[d->order[0]];
  double total = 0.0;
  int32_t taken = 0;
  for (int32_t i = 0; k == d->n && i < k; i++) {
    total += weight(d, i, temperature, largest);
  }
  while (k < d->n && taken < k) {
    total += weight(d, take(d, taken++), temperature, largest);
  }
  /* Those whose better ones have less than top_p of the probability together. */
  int32_t kept = 0;
  for (double before = 0.0; cuts && kept < k && before < (double)options->top_p * total; kept++) {
    int32_t next = kept < taken ? d->order[d->n - 1 - kept] : take(d, taken++);
    before += weight(d, next, temperature, largest);
  }
  return cuts ? kept : k;
}

/* Uniform in (0, 1), never either. */
static double uniform(const tsr_draw_place *place, int32_t token)
{
  const uint32_t key[2] = {(uint32_t)place->seed, (uint32_t)(place->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)token, (uint32_t)place->length, (uint32_t)place->sentence,
                               (uint32_t)place->hypothesis};
  uint32_t words[4];
  tsr_philox4x32(counter, key, words);
  uint64_t bits = ((uint64_t)words[1] << 32 | words[0]) >> 12;
  return ((double)bits + 0.5) * 0x1p-52;
}

int32_t tsr_sample(const tsr_generate_options *options, const tsr_draw_place *place, const float *logits,
                   const int32_t *tokens, int32_t n, int32_t *order)
{
  const draw d = {.logits = logits, .tokens = tokens, .order = order, .n = n};
  double temperature = options->temperature > 0.0f ? (double)options->temperature : 1.0;
  for (int32_t i = 0; i < n; i++) {
    order[i] = i;
  }
  int32_t kept = choose_likeliest(&d, options, temperature);
  int32_t best = -1;
  double largest = -INFINITY;
  for (int32_t i = n - 1; i >= n - kept; i--) {
    int32_t at = order[i];
    double logit = (double)logits[at] / temperature;
    if (logit == -INFINITY) {
      continue;
    }
    double u = uniform(place, tokens[at]);
    /* -log(u) is at least 1 - u, so that most tokens are out of question without a logarithm. */
    if (1.0 - u >= exp(logit - largest)) {
      continue;
    }
    double sum = logit - log(-log(u));
    if (best < 0 || sum > largest || (sum == largest && tokens[at] < tokens[best])) {
      best = at;
      largest = sum;
    }
  }
  if (best >= 0) {
    return best;
  }
  best = 0;
  for (int32_t i = 1; i < n; i++) {
    best = tokens[i] < tokens[best] ? i : best;
  }
  return best;
}
