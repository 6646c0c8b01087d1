/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST = 16, PATIENCE = 30 /* seconds that a rank waits for the others */ };

/* What a rank shows to the others during a call. */
typedef struct shown {
  const char *bytes;
  const int64_t *sizes;
} shown;

typedef struct hall {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int32_t size;
  int32_t waiting;
  int64_t meeting; /* how often all met */
  int32_t has_ended;
  shown of[MOST];
} hall;

typedef struct rank {
  hall *hall;
  int32_t index;
  rank_fn run;
  void *context;
  rank_result result;
} rank;

static int64_t n_exchanges;
static pthread_mutex_t exchanges_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t count_exchanges(int64_t more)
{
  pthread_mutex_lock(&exchanges_lock);
  const int64_t n = n_exchanges += more;
  pthread_mutex_unlock(&exchanges_lock);
  return n;
}

int64_t ranks_exchanges(void)
{
  return count_exchanges(0);
}

/* Returns when all ranks are here, or one has ended, or does not come. */
static int32_t meet(hall *h)
{
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += PATIENCE;
  pthread_mutex_lock(&h->lock);
  const int64_t meeting = h->meeting;
  if (++h->waiting == h->size) {
    h->waiting = 0;
    h->meeting++;
    pthread_cond_broadcast(&h->changed);
  }
  while (h->meeting == meeting && !h->has_ended) {
    h->has_ended |= pthread_cond_timedwait(&h->changed, &h->lock, &end) != 0;
  }
  const int32_t status = h->meeting == meeting ? TSR_ERR_PLUGIN : TSR_OK;
  pthread_mutex_unlock(&h->lock);
  return status;
}

static int32_t threads_open(void **context, tsr_comm_place *place)
{
  const rank *self = *context;
  place->rank = place->local_rank = self->index;
  place->size = place->local_size = self->hall->size;
  place->processors = 1;
  place->any_thread = self->hall->size != 3; /* with and without */
  return TSR_OK;
}

static void threads_close(void *context)
{
  (void)context;
}

static int64_t sum_below(const int64_t *sizes, int32_t n)
{
  int64_t sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += sizes[i];
  }
  return sum;
}

static int32_t threads_exchange(void *context, const void *send, const int64_t *send_sizes, void *receive,
                                const int64_t *receive_sizes)
{
  const rank *self = context;
  hall *h = self->hall;
  int32_t status = TSR_OK;
  char *to = receive;
  (void)count_exchanges(1);
  h->of[self->index] = (shown){send, send_sizes};
  if (meet(h) != TSR_OK) {
    return TSR_ERR_PLUGIN;
  }
  for (int32_t i = 0; i < h->size; i++) {
    const shown *from = &h->of[i];
    status = from->sizes[self->index] == receive_sizes[i] ? status : TSR_ERR_PLUGIN;
    memcpy(to, from->bytes + sum_below(from->sizes, self->index), (size_t)receive_sizes[i]);
    to += receive_sizes[i];
  }
  return meet(h) == TSR_OK ? status : TSR_ERR_PLUGIN;
}

static int32_t threads_gather(void *context, const void *mine, void *all, const int64_t *sizes)
{
  const rank *self = context;
  hall *h = self->hall;
  char *to = all;
  h->of[self->index] = (shown){mine, sizes};
  if (meet(h) != TSR_OK) {
    return TSR_ERR_PLUGIN;
  }
  for (int32_t i = 0; i < h->size; i++) {
    memcpy(to, h->of[i].bytes, (size_t)sizes[i]);
    to += sizes[i];
  }
  return meet(h);
}

static int32_t threads_broadcast(void *context, void *data, int64_t bytes, int32_t root)
{
  const rank *self = context;
  hall *h = self->hall;
  h->of[self->index] = (shown){data, NULL};
  if (meet(h) != TSR_OK) {
    return TSR_ERR_PLUGIN;
  }
  if (self->index != root) {
    memcpy(data, h->of[root].bytes, (size_t)bytes);
  }
  return meet(h);
}

static int32_t threads_barrier(void *context)
{
  return meet(((const rank *)context)->hall);
}

static void threads_abort(void *context, int32_t code)
{
  hall *h = ((const rank *)context)->hall;
  (void)code;
  pthread_mutex_lock(&h->lock);
  h->has_ended = 1;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
}

static const char *threads_message(void *context)
{
  (void)context;
  return "a rank ended, or the sizes differ";
}

static const tsr_comm_transport transport = {
    .struct_size = sizeof(tsr_comm_transport),
    .abi_major = TSR_COMM_ABI_MAJOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "threads",
    .description = "threads of a test",
    .open = threads_open,
    .close = threads_close,
    .exchange = threads_exchange,
    .gather = threads_gather,
    .broadcast = threads_broadcast,
    .barrier = threads_barrier,
    .abort = threads_abort,
    .message = threads_message,
};

static void *run_one(void *argument)
{
  rank *self = argument;
  tsr_comm *comm = NULL;
  self->result.status = tsr_comm_join(&transport, self, &comm);
  if (self->result.status == TSR_OK) {
    self->result.status = self->run(comm, self->context);
  }
  if (self->result.status != TSR_OK) {
    snprintf(self->result.message, sizeof self->result.message, "%s", tsr_error_message());
    tsr_comm_abort(comm, 1);
  }
  tsr_comm_close(comm);
  return NULL;
}

void run_ranks(int32_t size, rank_fn run, void *context, rank_result *results)
{
  hall h = {.size = size};
  rank ranks[MOST] = {{0}};
  pthread_t threads[MOST];
  assert_true(size >= 1 && size <= MOST);
  pthread_mutex_init(&h.lock, NULL);
  pthread_cond_init(&h.changed, NULL);
  for (int32_t i = 0; i < size; i++) {
    ranks[i] = (rank){.hall = &h, .index = i, .run = run, .context = context};
    assert_int_equal(pthread_create(&threads[i], NULL, run_one, &ranks[i]), 0);
  }
  for (int32_t i = 0; i < size; i++) {
    pthread_join(threads[i], NULL);
    results[i] = ranks[i].result;
  }
  pthread_cond_destroy(&h.changed);
  pthread_mutex_destroy(&h.lock);
}
