/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/evaluation/evaluation.h"
#include "tools/tessera/common/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words from which on a bucket begins. */
static const int32_t bucket_begins[EVALUATION_BUCKETS + 1] = {0, 5, 10, 15, 20, 30, 50, INT32_MAX};

static const char *const flaw_names[TSR_FLAWS] = {
    [TSR_FLAW_EMPTY] = "empty",   [TSR_FLAW_CUT] = "cut",     [TSR_FLAW_REPEATS] = "repeats",
    [TSR_FLAW_COPIED] = "copied", [TSR_FLAW_SHORT] = "short", [TSR_FLAW_LONG] = "long",
};

const char *evaluation_flaw(int32_t flaw)
{
  return flaw_names[flaw];
}

char *evaluation_bucket(int32_t bucket, char *text)
{
  int32_t first = bucket_begins[bucket], last = bucket_begins[bucket + 1] - 1;
  if (bucket == 0) {
    snprintf(text, 32, "up to %d", (int)last);
  } else if (bucket + 1 == EVALUATION_BUCKETS) {
    snprintf(text, 32, "%d and more", (int)first);
  } else {
    snprintf(text, 32, "%d to %d", (int)first, (int)last);
  }
  return text;
}

int evaluation_begin(evaluation *e)
{
  tsr_status status = e->keeps ? tsr_analyser_create(&e->analyser) : TSR_OK;
  for (int32_t v = 0; v < e->n_variants && status == TSR_OK; v++) {
    tsr_scorer **scorer = &e->variants[v].all.scorer;
    status = tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF | (e->has_wer ? TSR_METRIC_WER : 0), scorer);
    if (e->has_wer && status == TSR_OK) {
      status = tsr_scorer_set_normalizer(*scorer, e->normalizer);
    }
    for (int32_t b = 0; e->keeps && b < EVALUATION_BUCKETS && status == TSR_OK; b++) {
      status = tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &e->variants[v].buckets[b].scorer);
    }
  }
  return tsr_cli_fail(status);
}

static void drop_sentences(evaluation *e)
{
  for (int64_t i = 0; i < e->n; i++) {
    evaluation_sentence *s = &e->sentences[i];
    free((char *)s->source.bytes);
    for (int32_t r = 0; s->references && r < e->n_references; r++) {
      free((char *)s->references[r].bytes);
    }
    for (int32_t v = 0; s->outputs && v < e->n_variants; v++) {
      free((char *)s->outputs[v].text.bytes);
    }
    free(s->references);
    free(s->outputs);
  }
  e->n = 0;
}

void evaluation_finish(evaluation *e)
{
  drop_sentences(e);
  free(e->sentences);
  for (int32_t v = 0; v < e->n_variants; v++) {
    tsr_scorer_destroy(e->variants[v].all.scorer);
    for (int32_t b = 0; b < EVALUATION_BUCKETS; b++) {
      tsr_scorer_destroy(e->variants[v].buckets[b].scorer);
    }
  }
  tsr_analyser_destroy(e->analyser);
}

void evaluation_forget(evaluation *e)
{
  if (!e->keeps) {
    e->forgotten += e->n;
    drop_sentences(e);
  }
}

/* 0 without memory. */
static int copy_text(tsr_span text, tsr_span *copy)
{
  char *bytes = malloc(text.size + 1);
  if (!bytes) {
    return 0;
  }
  if (text.size > 0) {
    memcpy(bytes, text.bytes, text.size);
  }
  bytes[text.size] = '\0';
  *copy = (tsr_span){bytes, text.size};
  return 1;
}

int evaluation_add(evaluation *e, int64_t number, tsr_span source, const tsr_span *references)
{
  if (e->n == e->room) {
    int64_t room = e->room > 0 ? 2 * e->room : 256;
    evaluation_sentence *sentences = realloc(e->sentences, (size_t)room * sizeof *sentences);
    if (!sentences) {
      return tsr_cli_no_memory();
    }
    e->sentences = sentences;
    e->room = room;
  }
  evaluation_sentence *s = &e->sentences[e->n++];
  *s = (evaluation_sentence){.number = number};
  s->references = calloc((size_t)e->n_references, sizeof *s->references);
  s->outputs = calloc((size_t)e->n_variants, sizeof *s->outputs);
  int done = s->references && s->outputs && (!source.bytes || copy_text(source, &s->source));
  for (int32_t r = 0; r < e->n_references && done; r++) {
    done = copy_text(references[r], &s->references[r]);
  }
  return done ? TSR_EXIT_OK : tsr_cli_no_memory();
}

static void add_facts(evaluation_group *group, const tsr_facts *facts)
{
  group->words += facts->words;
  group->reference_words += facts->reference_words;
  group->doubled += facts->doubled;
  for (int32_t i = 0; i < TSR_BLEU_ORDER; i++) {
    group->repeats[i] += facts->repeats[i];
  }
  for (int32_t i = 0; i < TSR_FLAWS; i++) {
    group->flaws[i] += facts->flaws >> i & 1;
  }
}

static int32_t bucket_of(const evaluation_sentence *s, const tsr_facts *facts)
{
  int64_t words = s->source.bytes ? facts->source_words : facts->reference_words;
  int32_t bucket = 0;
  while (bucket + 1 < EVALUATION_BUCKETS && words >= bucket_begins[bucket + 1]) {
    bucket++;
  }
  return bucket;
}

static tsr_status analyse(evaluation *e, evaluation_variant *v, const evaluation_sentence *s, evaluation_output *output,
                          int is_cut)
{
  tsr_bleu bleu;
  tsr_chrf chrf;
  tsr_status status = tsr_scorer_last(v->all.scorer, &bleu, &chrf);
  if (status == TSR_OK) {
    status = tsr_analyse(e->analyser, output->text, s->references, e->n_references, s->source.bytes ? &s->source : NULL,
                         &output->facts);
  }
  if (status != TSR_OK) {
    return status;
  }
  output->bleu = bleu.score;
  output->chrf = chrf.score;
  output->facts.flaws |= is_cut << TSR_FLAW_CUT;
  evaluation_group *bucket = &v->buckets[bucket_of(s, &output->facts)];
  add_facts(&v->all, &output->facts);
  add_facts(bucket, &output->facts);
  return tsr_scorer_add_references(bucket->scorer, output->text, s->references, e->n_references);
}

int evaluation_add_output(evaluation *e, int32_t variant, int64_t sentence, tsr_span text, int is_cut)
{
  evaluation_variant *v = &e->variants[variant];
  evaluation_sentence *s = &e->sentences[sentence];
  v->cut += is_cut != 0;
  tsr_status status = tsr_scorer_add_references(v->all.scorer, text, s->references, e->n_references);
  if (status == TSR_OK && e->keeps) {
    if (!copy_text(text, &s->outputs[variant].text)) {
      return tsr_cli_no_memory();
    }
    status = analyse(e, v, s, &s->outputs[variant], is_cut != 0);
  }
  return tsr_cli_fail(status);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* A sentence by what it is sorted by: small values first. */
typedef struct ranked {
  int64_t sentence;
  double keys[2];
} ranked;

static int compare_ranked(const void *left, const void *right)
{
  const ranked *a = left, *b = right;
  for (int i = 0; i < 2; i++) {
    if (a->keys[i] != b->keys[i]) {
      return a->keys[i] < b->keys[i] ? -1 : 1;
    }
  }
  return (a->sentence > b->sentence) - (a->sentence < b->sentence);
}

/* 1 if the outputs are not all the same; *range: of their sentence BLEU. */
static int differs(const evaluation *e, const evaluation_sentence *s, double *range)
{
  double low = s->outputs[0].bleu, high = low;
  int found = 0;
  for (int32_t v = 1; v < e->n_variants; v++) {
    const evaluation_output *o = &s->outputs[v];
    found |=
        o->text.size != s->outputs[0].text.size || memcmp(o->text.bytes, s->outputs[0].text.bytes, o->text.size) != 0;
    low = o->bleu < low ? o->bleu : low;
    high = o->bleu > high ? o->bleu : high;
  }
  *range = high - low;
  return found;
}

static int list_sentences(const evaluation *e, int only_differing, int64_t **list, int64_t *n)
{
  ranked *all = malloc(((size_t)e->n + 1) * sizeof *all);
  *list = malloc(((size_t)e->n + 1) * sizeof **list);
  *n = 0;
  if (!all || !*list) {
    free(all);
    return tsr_cli_no_memory();
  }
  for (int64_t i = 0; i < e->n; i++) {
    const evaluation_sentence *s = &e->sentences[i];
    double range = 0;
    if (only_differing && !differs(e, s, &range)) {
      continue;
    }
    all[(*n)++] = (ranked){i, {only_differing ? -range : s->outputs[0].bleu, s->outputs[0].chrf}};
  }
  qsort(all, (size_t)*n, sizeof *all, compare_ranked);
  for (int64_t i = 0; i < *n; i++) {
    (*list)[i] = all[i].sentence;
  }
  free(all);
  return TSR_EXIT_OK;
}

int evaluation_worst(const evaluation *e, int64_t **list, int64_t *n)
{
  return list_sentences(e, 0, list, n);
}

int evaluation_differing(const evaluation *e, int64_t **list, int64_t *n)
{
  return list_sentences(e, 1, list, n);
}
