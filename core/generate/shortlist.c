/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/shortlist.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

/* By source, the best first. */
static int compare_entries(const void *left, const void *right)
{
  const tsr_shortlist_entry *a = left;
  const tsr_shortlist_entry *b = right;
  if (a->source != b->source) {
    return a->source < b->source ? -1 : 1;
  }
  if (a->probability != b->probability) {
    return a->probability > b->probability ? -1 : 1;
  }
  return (a->target > b->target) - (a->target < b->target);
}

static tsr_status check_entries(const tsr_shortlist *s, const tsr_shortlist_entry *entries, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    if (entries[i].source < 0 || entries[i].source >= s->source_vocabulary || entries[i].target < 0 ||
        entries[i].target >= s->target_vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "shortlist: entry %lld is of the tokens %d and %d; the vocabularies have %d and %d", (long long)i,
                      (int)entries[i].source, (int)entries[i].target, (int)s->source_vocabulary,
                      (int)s->target_vocabulary);
    }
  }
  return TSR_OK;
}

static tsr_status fill(tsr_shortlist *s, const tsr_shortlist_entry *entries, int64_t n, int32_t best)
{
  size_t size = ((size_t)n + 1) * sizeof(tsr_shortlist_entry);
  tsr_shortlist_entry *sorted = malloc(size);
  s->begin = calloc((size_t)s->source_vocabulary + 1, sizeof *s->begin);
  s->targets = malloc(((size_t)n + 1) * sizeof *s->targets);
  if (!sorted || !s->begin || !s->targets) {
    free(sorted);
    return tsr_fail_memory(size);
  }
  if (n > 0) {
    memcpy(sorted, entries, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_entries);
  }
  int64_t kept = 0;
  int64_t at = 0;
  for (int32_t source = 0; source < s->source_vocabulary; source++) {
    s->begin[source] = kept;
    for (int32_t taken = 0; at < n && sorted[at].source == source; at++) {
      if (taken++ < best) {
        s->targets[kept++] = sorted[at].target;
      }
    }
  }
  s->begin[s->source_vocabulary] = kept;
  free(sorted);
  return TSR_OK;
}

tsr_status tsr_shortlist_create(int32_t source_vocabulary, int32_t target_vocabulary,
                                const tsr_shortlist_entry *entries, int64_t n, int32_t first, int32_t best,
                                tsr_shortlist **shortlist)
{
  if (!shortlist || source_vocabulary < 1 || target_vocabulary < 1 || n < 0 || (n > 0 && !entries) || first < 0 ||
      best < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_shortlist_create: vocabularies of %d and %d, %lld entries, first %d, best %d: none may be "
                    "negative, and no vocabulary empty",
                    (int)source_vocabulary, (int)target_vocabulary, (long long)n, (int)first, (int)best);
  }
  *shortlist = NULL;
  tsr_shortlist *s = calloc(1, sizeof *s);
  if (!s) {
    return tsr_fail_memory(sizeof *s);
  }
  *s = (tsr_shortlist){.source_vocabulary = source_vocabulary, .target_vocabulary = target_vocabulary, .first = first};
  tsr_status status = check_entries(s, entries, n);
  if (status == TSR_OK) {
    status = fill(s, entries, n, best);
  }
  if (status != TSR_OK) {
    tsr_shortlist_close(s);
    return status;
  }
  *shortlist = s;
  return TSR_OK;
}

void tsr_shortlist_close(tsr_shortlist *shortlist)
{
  if (shortlist) {
    free(shortlist->begin);
    free(shortlist->targets);
    free(shortlist);
  }
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

tsr_status tsr_token_set_init(tsr_token_set *set, const tsr_shortlist *shortlist, int32_t vocabulary)
{
  *set = (tsr_token_set){.has = calloc((size_t)vocabulary, 1), .vocabulary = vocabulary};
  if (!set->has) {
    return tsr_fail_memory((size_t)vocabulary);
  }
  for (int32_t token = 0; token < shortlist->first && token < vocabulary; token++) {
    tsr_token_set_add(set, token);
  }
  return TSR_OK;
}

void tsr_token_set_finish(tsr_token_set *set)
{
  free(set->has);
  *set = (tsr_token_set){0};
}

void tsr_token_set_add(tsr_token_set *set, int32_t token)
{
  if (token >= 0 && token < set->vocabulary && !set->has[token]) {
    set->has[token] = 1;
    set->n++;
  }
}

void tsr_token_set_add_source(tsr_token_set *set, const tsr_shortlist *shortlist, const int32_t *ids, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    if (ids[i] >= shortlist->source_vocabulary) {
      continue;
    }
    for (int64_t at = shortlist->begin[ids[i]]; at < shortlist->begin[ids[i] + 1]; at++) {
      tsr_token_set_add(set, shortlist->targets[at]);
    }
  }
}

/* A few sizes, so that one program serves many batches. */
static int32_t round_up(int32_t n, int32_t vocabulary)
{
  int32_t step = n <= 1024 ? 128 : n <= 8192 ? 1024 : 8192;
  int32_t rounded = (n + step - 1) / step * step;
  return rounded < vocabulary ? rounded : vocabulary;
}

tsr_status tsr_token_set_list(tsr_token_set *set, int32_t **tokens, int32_t *n)
{
  int32_t wanted = round_up(set->n > 0 ? set->n : 1, set->vocabulary);
  for (int32_t token = 0; set->n < wanted; token++) {
    tsr_token_set_add(set, token);
  }
  *tokens = malloc((size_t)wanted * sizeof **tokens);
  if (!*tokens) {
    return tsr_fail_memory((size_t)wanted * sizeof **tokens);
  }
  *n = 0;
  for (int32_t token = 0; token < set->vocabulary; token++) {
    if (set->has[token]) {
      (*tokens)[(*n)++] = token;
    }
  }
  return TSR_OK;
}
