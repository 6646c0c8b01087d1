/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct place {
  void *user; /* NULL: not watched */
  uint32_t round;
} place;

struct watch {
  int poll;
  int stop;
  pthread_t thread;
  pthread_mutex_t lock;
  place *places; /* by the socket's number */
  int32_t n;
  uint32_t round; /* tells apart connections that had the same number one after the other */
  watch_fn gone, hold, release;
};

static uint64_t number_of(int socket, uint32_t round)
{
  return (uint64_t)round << 32 | (uint32_t)socket;
}

static void *run(void *user)
{
  watch *w = user;
  for (;;) {
    struct epoll_event event;
    int n = epoll_wait(w->poll, &event, 1, -1);
    if (n == 1 && event.data.u64 == 0) {
      return NULL;
    }
    if (n != 1) {
      continue;
    }
    int32_t at = (int32_t)(event.data.u64 & 0xffffffff);
    void *found = NULL;
    pthread_mutex_lock(&w->lock);
    if (at < w->n && w->places[at].user && w->places[at].round == (uint32_t)(event.data.u64 >> 32)) {
      found = w->places[at].user;
      w->hold(found);
    }
    pthread_mutex_unlock(&w->lock);
    if (found) {
      w->gone(found);
      w->release(found);
    }
  }
}

int watch_create(int32_t sockets, watch_fn gone, watch_fn hold, watch_fn release, watch **made)
{
  watch *w = calloc(1, sizeof *w);
  *made = NULL;
  if (!w) {
    return 0;
  }
  *w = (watch){.gone = gone, .hold = hold, .release = release, .n = sockets + 1024};
  w->places = calloc((size_t)w->n, sizeof *w->places);
  w->poll = epoll_create1(EPOLL_CLOEXEC);
  w->stop = eventfd(0, EFD_CLOEXEC);
  pthread_mutex_init(&w->lock, NULL);
  struct epoll_event event = {.events = EPOLLIN};
  if (!w->places || w->poll < 0 || w->stop < 0 || epoll_ctl(w->poll, EPOLL_CTL_ADD, w->stop, &event) ||
      pthread_create(&w->thread, NULL, run, w)) {
    close(w->poll);
    close(w->stop);
    free(w->places);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return 0;
  }
  *made = w;
  return 1;
}

void watch_destroy(watch *w)
{
  if (!w) {
    return;
  }
  uint64_t one = 1;
  if (write(w->stop, &one, sizeof one) == (ssize_t)sizeof one) {
    pthread_join(w->thread, NULL);
  }
  close(w->poll);
  close(w->stop);
  pthread_mutex_destroy(&w->lock);
  free(w->places);
  free(w);
}

uint64_t watch_begin(watch *w, int socket, void *user)
{
  uint64_t number = 0;
  pthread_mutex_lock(&w->lock);
  if (socket >= 0 && socket < w->n) {
    w->round = w->round == UINT32_MAX ? 1 : w->round + 1;
    w->places[socket] = (place){user, w->round};
    number = number_of(socket, w->round);
    /* A connection that was watched before is still in the list. */
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = number};
    if (epoll_ctl(w->poll, EPOLL_CTL_MOD, socket, &event) && epoll_ctl(w->poll, EPOLL_CTL_ADD, socket, &event)) {
      w->places[socket].user = NULL;
      number = 0;
    }
  }
  pthread_mutex_unlock(&w->lock);
  return number;
}

void watch_end(watch *w, uint64_t number)
{
  int at = (int)(number & 0xffffffff);
  pthread_mutex_lock(&w->lock);
  /* The system tells at most once more that the client has left, and closing the connection ends even that. */
  if (w->places[at].round == (uint32_t)(number >> 32)) {
    w->places[at].user = NULL;
  }
  pthread_mutex_unlock(&w->lock);
}
