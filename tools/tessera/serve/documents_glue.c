/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/documents_glue.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/tessera/documents/documents.h"
#include "tools/tessera/serve/clock.h"

void documents_way_finish(documents_way *way)
{
  if (way->set) {
    models_release(way->call->service->models, way->set);
    way->set = NULL;
  }
}

/* ---- texts that a thread waits for ------------------------------------------------------------------------------- */

typedef struct waiter {
  pthread_mutex_t lock;
  pthread_cond_t done;
  int is_done;
} waiter;

static void on_done(void *user, work *w)
{
  waiter *waits = user;
  (void)w;
  pthread_mutex_lock(&waits->lock);
  waits->is_done = 1;
  pthread_cond_signal(&waits->done);
  pthread_mutex_unlock(&waits->lock);
}

/* A document on its way, for a tsr_document_translator. */
typedef struct passage {
  documents_way *way;
  int status; /* of HTTP, of what failed; 200: nothing did */
} passage;

/* Waits until there is room for the texts. Returns a status of HTTP: 200: they are started. */
static int start(documents_way *way, work *w, double deadline)
{
  const int32_t most = way->call->settings->queue;
  while (!work_reserve(w, most)) {
    if (work_lines(w) > most || http_is_gone(way->call->http)) {
      return 503;
    }
    if (clock_seconds() > deadline) {
      return 504;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  work_start(w);
  return 200;
}

/* Translates texts and waits. *done is the caller's. Returns a status of HTTP. */
static int wait_for_texts(documents_way *way, const char *const *texts, const size_t *sizes, int32_t n, work **done)
{
  call *c = way->call;
  waiter waits = {.is_done = 0};
  work_options options = {.alignment = 1, .deadline = call_deadline(c), .done = on_done, .user = &waits};
  model_set *set = models_hold(c->service->models);
  /* The route's models belong to way->set, which outlives the work. */
  if (!work_create(c->service->models, set, &way->way, n, texts, sizes, &options, done)) {
    models_release(c->service->models, set);
    return 500;
  }
  pthread_mutex_init(&waits.lock, NULL);
  pthread_cond_init(&waits.done, NULL);
  work_hold(*done);
  set_work(c, *done);
  if (http_is_gone(c->http)) {
    work_cancel(*done);
  }
  int status = start(way, *done, options.deadline);
  if (status == 200) {
    pthread_mutex_lock(&waits.lock);
    while (!waits.is_done) {
      pthread_cond_wait(&waits.done, &waits.lock);
    }
    pthread_mutex_unlock(&waits.lock);
    int outcome = work_outcome(*done);
    status = outcome == WORK_DONE ? 200 : outcome == WORK_LATE ? 504 : 500;
  }
  pthread_cond_destroy(&waits.done);
  pthread_mutex_destroy(&waits.lock);
  return status;
}

/* The translation of a text, and the links of its words. Returns 0 if memory ran out. */
static int take_text(const work *w, int32_t index, tsr_document_answer *answer)
{
  size_t size;
  int32_t n = 0, *places = work_alignment_bytes(w, index, &n);
  answer->text = work_text(w, index, 0, &size);
  answer->links = malloc(((size_t)n + 1) * sizeof *answer->links);
  for (int32_t i = 0; places && answer->links && i < n; i++) {
    const int32_t *at = &places[4 * i];
    answer->links[answer->n_links++] = (tsr_document_link){at[2], at[3], at[0], at[1]};
  }
  free(places);
  return answer->text && answer->links;
}

static tsr_status translate(void *user, int32_t n, const tsr_document_text *texts, tsr_document_answer *answers)
{
  passage *p = user;
  const char **all = malloc((size_t)n * sizeof *all);
  size_t *sizes = malloc((size_t)n * sizeof *sizes);
  work *w = NULL;
  p->status = all && sizes ? 200 : 500;
  for (int32_t i = 0; i < n && p->status == 200; i++) {
    all[i] = texts[i].text;
    sizes[i] = texts[i].size;
  }
  if (p->status == 200) {
    p->status = wait_for_texts(p->way, all, sizes, n, &w);
  }
  for (int32_t i = 0; i < n && p->status == 200; i++) {
    p->status = take_text(w, i, &answers[i]) ? 200 : 500;
  }
  work_release(w);
  free(all);
  free(sizes);
  return p->status == 200 ? TSR_OK : TSR_ERR_CANCELLED;
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

/* So few texts a call that other requests find room in the queue between two. */
enum { TEXTS_IN_HAND = 256 };

const char *const *documents_formats(void)
{
  return tsr_document_formats();
}

/* What became of a document, as a status of HTTP. */
static int conclude(const passage *p, tsr_status status, char *problem, size_t room)
{
  if (status == TSR_OK || p->status != 200) {
    return p->status;
  }
  if (status == TSR_ERR_OUT_OF_MEMORY || status == TSR_ERR_INTERNAL) {
    return 500;
  }
  snprintf(problem, room, "Invalid request: %s", tsr_error_message());
  return 400;
}

static tsr_document_translator translator_of(const documents_way *way, passage *p)
{
  int64_t queue = way->call->settings->queue;
  return (tsr_document_translator){
      .translate = translate,
      .user = p,
      .limits.batch = queue < TEXTS_IN_HAND ? (int32_t)(queue > 0 ? queue : 1) : TEXTS_IN_HAND,
  };
}

static int translate_html(documents_way *way, const char *html, size_t size, char **result, size_t *result_size,
                          char *problem, size_t room)
{
  passage p = {.way = way, .status = 200};
  const tsr_document_translator translator = translator_of(way, &p);
  char *clean = size > (SIZE_MAX - 1) / 3 ? NULL : malloc(3 * size + 1);
  *result = NULL;
  *result_size = 0;
  if (!clean) {
    return 500;
  }
  tsr_status status = tsr_document_html(&translator, clean, tsr_utf8_clean(html, size, clean), result, result_size);
  free(clean);
  return conclude(&p, status, problem, room);
}

typedef struct html_job {
  call *call;
  documents_way way;
  const char **texts;
  size_t *sizes;
  int32_t n;
  void (*done)(call *c, json_t *texts);
} html_job;

static void finish_html(html_job *job)
{
  documents_way_finish(&job->way);
  free(job->texts);
  free(job->sizes);
  free(job);
}

static void run_html(void *user)
{
  html_job *job = user;
  call *c = job->call;
  json_t *texts = json_array();
  int code = 200;
  char problem[256] = "";
  for (int32_t i = 0; i < job->n && code == 200; i++) {
    char *result = NULL;
    size_t size = 0;
    code = translate_html(&job->way, job->texts[i], job->sizes[i], &result, &size, problem, sizeof problem);
    if (code == 200) {
      json_array_append_new(texts, json_stringn(result, size));
    }
    free(result);
  }
  void (*done)(call *, json_t *) = job->done;
  finish_html(job);
  if (code == 200) {
    done(c, texts);
  } else {
    json_decref(texts);
    documents_reply(c, code, problem);
  }
  http_release(c->http);
}

void documents_start_html(call *c, model_set *set, const route *way, const char **texts, size_t *sizes, int32_t n,
                          void (*done)(call *c, json_t *texts))
{
  html_job *job = malloc(sizeof *job);
  if (!job) {
    models_release(c->service->models, set);
    free(texts);
    free(sizes);
    reply_no_memory(c);
    return;
  }
  *job = (html_job){
      .call = c, .way = {.call = c, .set = set, .way = *way}, .texts = texts, .sizes = sizes, .n = n, .done = done};
  http_hold(c->http);
  http_suspend(c->http);
  if (!pool_add(c->service->pool, run_html, job)) {
    finish_html(job);
    reply_busy(c);
    http_release(c->http);
  }
}

int documents_file(documents_way *way, const char *name, const void *bytes, size_t size, void **result,
                   size_t *result_size, char *problem, size_t room)
{
  passage p = {.way = way, .status = 200};
  const tsr_document_translator translator = translator_of(way, &p);
  *result = NULL;
  *result_size = 0;
  tsr_status status = tsr_document_file(&translator, name, bytes, size, result, result_size);
  return conclude(&p, status, problem, room);
}

void documents_reply(call *c, int status, const char *problem)
{
  if (problem[0]) {
    reply_error(c, status, "%s", problem);
  } else if (status == 503) {
    reply_busy(c);
  } else if (status == 504) {
    reply_outcome(c, WORK_LATE);
  } else {
    reply_outcome(c, WORK_FAILED);
  }
}
