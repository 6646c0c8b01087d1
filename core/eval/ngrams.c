/* SPDX-License-Identifier: Apache-2.0
 *
 * An n-gram is the (n-1)-gram that it begins with and one more symbol. Each distinct (n-1)-gram has a number, its place
 * in a table; so an n-gram is a pair of numbers, is compared in one step whatever its length, and never mistaken.
 */
#include "core/eval/ngrams.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

typedef struct tsr_ngram {
  uint64_t key; /* number of the (n-1)-gram, and the last symbol */
  uint32_t stamp;
  uint32_t count; /* in the reference, less those that the hypothesis has matched */
} tsr_ngram;

uint64_t tsr_hash_mix(uint64_t key)
{
  key ^= key >> 32;
  key *= UINT64_C(0x9E3779B97F4A7C15);
  key ^= key >> 29;
  key *= UINT64_C(0xBF58476D1CE4E5B9);
  return key ^ key >> 32;
}

/* Room for 2 * n entries of the table, all of one order, and n ids. */
static tsr_status reserve(tsr_ngrams *g, size_t n)
{
  if (n > g->ids_room) {
    free(g->ids);
    g->ids = malloc(2 * n * sizeof *g->ids);
    g->ids_room = g->ids ? 2 * n : 0;
    if (!g->ids)
      return tsr_fail_memory(2 * n * sizeof *g->ids);
  }
  if (2 * n > g->room) {
    size_t room = 64;
    while (room < 2 * n)
      room *= 2;
    free(g->table);
    g->table = calloc(room, sizeof *g->table);
    g->room = g->table ? room : 0;
    g->stamp = 0;
    if (!g->table)
      return tsr_fail_memory(room * sizeof *g->table);
  }
  return TSR_OK;
}

/* Empties the table. */
static void begin_order(tsr_ngrams *g)
{
  if (++g->stamp == 0) {
    memset(g->table, 0, g->room * sizeof *g->table);
    g->stamp = 1;
  }
}

/* The place of an n-gram in the part of the table that the mask reaches. */
static uint32_t find(tsr_ngrams *g, size_t mask, uint64_t key)
{
  size_t at = (size_t)tsr_hash_mix(key) & mask;
  while (g->table[at].stamp == g->stamp && g->table[at].key != key)
    at = (at + 1) & mask;
  if (g->table[at].stamp != g->stamp)
    g->table[at] = (tsr_ngram){.key = key, .stamp = g->stamp};
  return (uint32_t)at;
}

static int64_t count_of(size_t length, size_t order)
{
  return length >= order ? (int64_t)(length - order + 1) : 0;
}

tsr_status tsr_ngrams_count(tsr_ngrams *g, const uint32_t *hypothesis, size_t n_hypothesis, const uint32_t *reference,
                            size_t n_reference, int32_t max_order, tsr_ngram_counts *counts)
{
  const size_t longest = (size_t)1 << 30;
  if (n_hypothesis > longest || n_reference > longest)
    return tsr_fail(TSR_ERR_ARGUMENT, "n-grams: expected at most 2^30 symbols, found %zu and %zu", n_hypothesis,
                    n_reference);
  size_t n = n_hypothesis + n_reference;
  TSR_TRY(reserve(g, n > 0 ? n : 1));
  size_t mask = 63;
  while (mask < 2 * n)
    mask = 2 * mask + 1;
  mask = mask < g->room ? mask : g->room - 1;
  uint32_t *reference_ids = g->ids;
  uint32_t *hypothesis_ids = g->ids + n_reference;
  memset(g->ids, 0, n * sizeof *g->ids);

  int shared = 1; /* without a match there is none of a higher order */
  for (int32_t i = 0; i < max_order; i++) {
    size_t order = (size_t)i + 1;
    counts[i] =
        (tsr_ngram_counts){.hypothesis = count_of(n_hypothesis, order), .reference = count_of(n_reference, order)};
    if (!shared)
      continue;
    begin_order(g);
    for (size_t k = 0; k + order <= n_reference; k++) {
      reference_ids[k] = find(g, mask, (uint64_t)reference_ids[k] << 32 | reference[k + order - 1]);
      g->table[reference_ids[k]].count++;
    }
    for (size_t k = 0; k + order <= n_hypothesis; k++) {
      hypothesis_ids[k] = find(g, mask, (uint64_t)hypothesis_ids[k] << 32 | hypothesis[k + order - 1]);
      tsr_ngram *ngram = &g->table[hypothesis_ids[k]];
      int matches = ngram->count > 0;
      counts[i].matches += matches;
      ngram->count -= (uint32_t)matches;
    }
    shared = counts[i].matches > 0;
  }
  return TSR_OK;
}

void tsr_ngrams_finish(tsr_ngrams *g)
{
  free(g->table);
  free(g->ids);
  *g = (tsr_ngrams){0};
}
