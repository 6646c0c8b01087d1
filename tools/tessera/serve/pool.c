/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/pool.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct job {
  struct job *next;
  pool_fn run;
  void *user;
} job;

struct pool {
  pthread_mutex_t lock;
  pthread_cond_t work;
  job *first, *last;
  int32_t n, most;
  int is_stopping;
  int32_t n_threads;
  pthread_t threads[];
};

static void *run(void *user)
{
  pool *p = user;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->first && !p->is_stopping) {
      pthread_cond_wait(&p->work, &p->lock);
    }
    job *next = p->first;
    if (!next) {
      break;
    }
    p->first = next->next;
    p->last = p->first ? p->last : NULL;
    p->n--;
    pthread_mutex_unlock(&p->lock);
    next->run(next->user);
    free(next);
    pthread_mutex_lock(&p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

pool *pool_create(int32_t threads, int32_t most)
{
  pool *p = calloc(1, sizeof *p + (size_t)threads * sizeof p->threads[0]);
  if (!p) {
    return NULL;
  }
  p->most = most;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  while (p->n_threads < threads && pthread_create(&p->threads[p->n_threads], NULL, run, p) == 0) {
    p->n_threads++;
  }
  if (p->n_threads < threads) {
    pool_destroy(p);
    return NULL;
  }
  return p;
}

void pool_destroy(pool *p)
{
  if (!p) {
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->is_stopping = 1;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  for (int32_t i = 0; i < p->n_threads; i++) {
    pthread_join(p->threads[i], NULL);
  }
  pthread_cond_destroy(&p->work);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

int pool_add(pool *p, pool_fn run_job, void *user)
{
  job *added = malloc(sizeof *added);
  if (!added) {
    return 0;
  }
  *added = (job){.run = run_job, .user = user};
  pthread_mutex_lock(&p->lock);
  int has_room = p->n < p->most;
  if (has_room) {
    if (p->last) {
      p->last->next = added;
    } else {
      p->first = added;
    }
    p->last = added;
    p->n++;
    pthread_cond_signal(&p->work);
  }
  pthread_mutex_unlock(&p->lock);
  if (!has_room) {
    free(added);
  }
  return has_room;
}
