/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/documents_glue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Translates texts and waits. *done is the caller's. Returns a status of HTTP. */
static int translate(documents_way *way, const char *const *texts, const size_t *sizes, int32_t n, int32_t alignment,
                     work **done)
{
  call *c = way->call;
  waiter waits = {.is_done = 0};
  work_options options = {.alignment = alignment, .deadline = call_deadline(c), .done = on_done, .user = &waits};
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
  int status = 503;
  if (http_is_gone(c->http)) {
    work_cancel(*done);
  }
  if (work_start(*done, c->settings->queue)) {
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

/* ---- documents --------------------------------------------------------------------------------------------------- */

static const char *const formats[] = {".txt", NULL};

const char *const *documents_formats(void)
{
  return formats;
}

int documents_html(documents_way *way, const char *html, size_t size, char **result, size_t *result_size, char *problem,
                   size_t room)
{
  (void)way;
  (void)html;
  (void)size;
  *result = NULL;
  *result_size = 0;
  snprintf(problem, room, "html format is not supported by this server");
  return 400;
}

int documents_file(documents_way *way, const char *name, const void *bytes, size_t size, void **result,
                   size_t *result_size, char *problem, size_t room)
{
  const char *dot = strrchr(name, '.');
  *result = NULL;
  *result_size = 0;
  if (!dot || strcasecmp(dot, ".txt") != 0) {
    snprintf(problem, room, "Invalid request: file format not supported");
    return 400;
  }
  char *clean = size > (SIZE_MAX - 1) / 3 ? NULL : malloc(3 * size + 1);
  if (!clean) {
    return 500;
  }
  size_t used = tsr_utf8_clean(bytes, size, clean);
  work *w = NULL;
  int status = translate(way, (const char *const *)&(const char *){clean}, &used, 1, 0, &w);
  if (status == 200) {
    *result = work_text(w, 0, 0, result_size);
    status = *result ? 200 : 500;
  }
  work_release(w);
  free(clean);
  return status;
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
