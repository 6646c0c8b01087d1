/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of texts that are scored, on all devices of a translator: a device takes a share of them at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/generate/score.h"
#include "core/translate/call.h"

typedef struct pair {
  int32_t index; /* in the caller's order */
  int64_t cost;
  int32_t is_taken;
  int32_t is_done;
} pair;

typedef struct score_call {
  tsr_call call;                /* its items are pairs */
  const int32_t *const *source; /* [n], likewise the next */
  const int32_t *source_lengths;
  const int32_t *const *target;
  const int32_t *target_lengths;
  const tsr_score_options *options;
  tsr_progress_fn progress;
  void *user;
  pair *pairs; /* [n], those that cost most first */
  int32_t n;
  tsr_target_score *targets; /* [n], in the caller's order */
  int64_t most_told;         /* with the call's `telling` */
  tsr_status status;         /* TSR_OK, or why the call is given up */
  char *message;
  int64_t sentence; /* that the message is about; -1: none */
} score_call;

/* What tsr_score reads of a share, [n] each. */
typedef struct share {
  score_call *call;
  const int32_t **source;
  int32_t *source_lengths;
  const int32_t **target;
  int32_t *target_lengths;
  int32_t n;
  int64_t told; /* of its pairs, those that progress was told of */
} share;

static tsr_status fill(share *s, void *const *items)
{
  const score_call *c = s->call;
  const size_t n = (size_t)s->n;
  s->source = malloc(n * sizeof(int32_t *));
  s->target = malloc(n * sizeof(int32_t *));
  s->source_lengths = malloc(n * sizeof *s->source_lengths);
  s->target_lengths = malloc(n * sizeof *s->target_lengths);
  if (!s->source || !s->target || !s->source_lengths || !s->target_lengths) {
    return tsr_fail_memory(n * sizeof(int32_t *));
  }
  for (int32_t i = 0; i < s->n; i++) {
    const int32_t index = ((const pair *)items[i])->index;
    s->source[i] = c->source[index];
    s->target[i] = c->target[index];
    s->source_lengths[i] = c->source_lengths[index];
    s->target_lengths[i] = c->target_lengths[index];
  }
  return TSR_OK;
}

static void finish(share *s)
{
  free(s->source);
  free(s->target);
  free(s->source_lengths);
  free(s->target_lengths);
}

/* Without the lock: tells of the pairs of all shares, never of fewer than before. */
static void on_progress(void *user, int64_t done, int64_t total)
{
  share *s = user;
  tsr_call *c = &s->call->call;
  (void)total; /* of this share */
  pthread_mutex_lock(&c->telling);
  c->n_told += done - s->told;
  s->told = done;
  if (s->call->progress && c->n_told > s->call->most_told) {
    s->call->most_told = c->n_told;
    s->call->progress(s->call->user, c->n_told, c->n_items);
  }
  pthread_mutex_unlock(&c->telling);
}

/* Without the lock: what was told, and is scored again, is not done. */
static void take_back(share *s)
{
  pthread_mutex_lock(&s->call->call.telling);
  s->call->call.n_told -= s->told;
  s->told = 0;
  pthread_mutex_unlock(&s->call->call.telling);
}

/* ---- a kind of call; with the lock ------------------------------------------------------------------------------- */

static int32_t gather(tsr_call *call, void **items)
{
  const score_call *c = (const score_call *)call;
  int32_t n = 0;
  for (int32_t i = 0; i < c->n && c->status == TSR_OK; i++) {
    if (!c->pairs[i].is_taken) {
      if (items) {
        items[n] = &c->pairs[i];
      }
      n++;
    }
  }
  return n;
}

static int64_t cost_of(const void *item)
{
  return ((const pair *)item)->cost;
}

static int32_t enough_of(const tsr_lane *lane, const void *item)
{
  (void)item; /* all are alike */
  return tsr_score_batch(((const score_call *)lane->call)->options);
}

static int32_t is_done(const void *item)
{
  return ((const pair *)item)->is_done;
}

/* The first error is the call's. */
static void fail(score_call *c, tsr_status status, const char *message, int64_t sentence)
{
  if (c->status == TSR_OK) {
    c->status = status;
    c->message = strdup(message);
    c->sentence = sentence;
  }
}

static void give_up(tsr_call *call, tsr_status status)
{
  fail((score_call *)call, status, tsr_error_message(), -1);
}

static void obey(tsr_call *call)
{
  if (call->t->is_closing) {
    give_up(call, tsr_fail(TSR_ERR_CANCELLED, "the translator is being closed"));
  }
}

/* Without the lock: 0 if the call was given up. */
static int32_t is_wanted(void *user)
{
  score_call *c = ((const share *)user)->call;
  pthread_mutex_lock(&c->call.t->lock);
  obey(&c->call);
  int32_t wanted = c->status == TSR_OK;
  pthread_mutex_unlock(&c->call.t->lock);
  return wanted;
}

/* The share's scores become the call's. */
static void collect(const score_call *c, void *const *items, tsr_scores *found)
{
  for (int32_t i = 0; i < found->n_sentences; i++) {
    pair *one = items[i];
    c->targets[one->index] = found->targets[i];
    found->targets[i].tokens = NULL; /* they are the call's */
    one->is_done = 1;
  }
}

static void run(tsr_lane *lane, void *const *items, int32_t n)
{
  score_call *c = (score_call *)lane->call;
  tsr_translator *t = c->call.t;
  share s = {.call = c, .n = n};
  const tsr_score_watch watch = {.user = &s, .progress = on_progress, .is_wanted = is_wanted};
  tsr_scores found = {0};
  const char *message;
  tsr_status status = fill(&s, items);
  if (status != TSR_OK) {
    give_up(&c->call, status);
    finish(&s);
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    ((pair *)items[i])->is_taken = 1;
  }
  pthread_mutex_unlock(&t->lock);
  status = tsr_score_watched(lane->seat->transformer, n, s.source, s.source_lengths, s.target, s.target_lengths,
                             c->options, &watch, &found);
  int64_t culprit = tsr_error_sentence(&message);
  char *why = status != TSR_OK ? strdup(culprit >= 0 ? message : tsr_error_message()) : NULL;
  if (status != TSR_OK) {
    take_back(&s);
  }
  pthread_mutex_lock(&t->lock);
  collect(c, items, &found);
  if (tsr_lane_has_heir(lane, status)) {
    for (int32_t i = 0; i < n; i++) {
      ((pair *)items[i])->is_taken = 0;
    }
    tsr_lane_hand_on(lane, status, why);
    why = NULL;
  } else if (status != TSR_OK) {
    const int64_t index = culprit >= 0 && culprit < n ? ((const pair *)items[culprit])->index : -1;
    fail(c, status, why ? why : tsr_status_name(status), index);
  }
  pthread_cond_broadcast(&t->changed);
  free(why);
  tsr_scores_finish(&found);
  finish(&s);
}

static const tsr_call_kind call_of_pairs = {.number = TSR_CALL_OF_PAIRS,
                                            .gather = gather,
                                            .cost = cost_of,
                                            .enough = enough_of,
                                            .is_done = is_done,
                                            .run = run,
                                            .give_up = give_up,
                                            .obey = obey};

/* ---- a call; without the lock ------------------------------------------------------------------------------------ */

static int compare(const void *left, const void *right)
{
  const pair *a = left, *b = right;
  if (a->cost != b->cost) {
    return a->cost > b->cost ? -1 : 1;
  }
  return (a->index > b->index) - (a->index < b->index);
}

static tsr_status make_pairs(score_call *c)
{
  const size_t n = (size_t)c->n + 1;
  c->pairs = calloc(n, sizeof *c->pairs);
  c->targets = calloc(n, sizeof *c->targets);
  if (!c->pairs || !c->targets) {
    return tsr_fail_memory(n * sizeof *c->targets);
  }
  for (int32_t i = 0; i < c->n; i++) {
    c->pairs[i].index = i;
    c->pairs[i].cost = (int64_t)c->source_lengths[i] + c->target_lengths[i] + 1;
  }
  qsort(c->pairs, (size_t)c->n, sizeof *c->pairs, compare);
  return TSR_OK;
}

/* As it was told in the thread that failed. */
static tsr_status failure_of(const score_call *c)
{
  tsr_status status = tsr_fail(c->status, "%s", c->message ? c->message : tsr_status_name(c->status));
  return c->sentence >= 0 ? tsr_fail_sentence(status, "", c->sentence) : status;
}

tsr_status tsr_call_score(tsr_translator *t, int32_t n, const int32_t *const *source, const int32_t *source_lengths,
                          const int32_t *const *target, const int32_t *target_lengths, const tsr_score_options *options,
                          tsr_progress_fn progress, void *user, tsr_scores *scores)
{
  tsr_score_options given;
  TSR_TRY(TSR_SIZED_READ(tsr_score_options, decoder_start_id, options, &given));
  given.length_penalty = options ? given.length_penalty : 1.0f;
  TSR_TRY(tsr_score_check(tsr_model_config(t->model), n, source, source_lengths, target, target_lengths, &given));
  score_call c = {.call = {.t = t, .kind = &call_of_pairs, .n_items = n},
                  .source = source,
                  .source_lengths = source_lengths,
                  .target = target,
                  .target_lengths = target_lengths,
                  .options = &given,
                  .progress = progress,
                  .user = user,
                  .n = n,
                  .sentence = -1};
  tsr_status status = make_pairs(&c);
  if (status == TSR_OK) {
    pthread_mutex_init(&c.call.telling, NULL);
    pthread_mutex_lock(&t->lock);
    tsr_lanes_run(&c.call);
    pthread_mutex_unlock(&t->lock);
    tsr_answer_all(t, &c.call.answers);
    pthread_mutex_destroy(&c.call.telling);
    status = c.status != TSR_OK ? failure_of(&c) : TSR_OK;
  }
  *scores = (tsr_scores){.n_sentences = n, .targets = c.targets};
  if (status != TSR_OK) {
    tsr_scores_finish(scores);
  }
  free(c.pairs);
  free(c.message);
  return status;
}
