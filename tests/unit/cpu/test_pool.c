/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the cpu backend: every task once, whoever asks, and an end without a trace.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "backends/cpu/pool.h"

enum { MAX_TASKS = 1000, SCRATCH = 256, PATIENCE = 20 /* seconds */ };

static void sleep_for(int milliseconds)
{
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = milliseconds * 1000000L};
  nanosleep(&pause, NULL);
}

static void team_init(cpu_team *team, cpu_pool *pool)
{
  *team = (cpu_team){.pool = pool, .scratch_size = SCRATCH};
  team->scratch = malloc((size_t)cpu_pool_threads(pool) * SCRATCH);
  assert_non_null(team->scratch);
}

static void team_finish(cpu_team *team)
{
  free(team->scratch);
}

/* A job that notes how often each task ran. Results are plain memory: that they are seen is part of the test. */
typedef struct job {
  int64_t n_tasks;
  int32_t ran[MAX_TASKS];
  atomic_int mixed; /* scratch that another thread wrote to */
} job;

static void note(const void *context, int64_t task, void *scratch)
{
  job *j = *(job *const *)context;
  memset(scratch, (int)(task % 251), SCRATCH);
  j->ran[task]++;
  for (int i = 0; i < SCRATCH; i++) {
    if (((volatile unsigned char *)scratch)[i] != task % 251) {
      atomic_fetch_add(&j->mixed, 1);
    }
  }
}

/* 1 if every task ran once. */
static int run_job(cpu_team *team, job *j, int64_t n_tasks)
{
  memset(j->ran, 0, sizeof j->ran);
  cpu_parallel(team, n_tasks, note, &j);
  for (int64_t task = 0; task < MAX_TASKS; task++) {
    if (j->ran[task] != (task < n_tasks)) {
      return 0;
    }
  }
  return atomic_load(&j->mixed) == 0;
}

static void test_every_task_once(void **state)
{
  (void)state;
  static const int32_t threads[] = {1, 2, 3, 8};
  static const int64_t n_tasks[] = {0, 1, 2, 3, 7, 8, 9, 64, MAX_TASKS};
  for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
    cpu_pool *pool = cpu_pool_create(threads[t]);
    cpu_team team;
    job j = {0};
    assert_non_null(pool);
    assert_int_equal(cpu_pool_threads(pool), threads[t]);
    team_init(&team, pool);
    for (int round = 0; round < 20; round++) {
      for (size_t n = 0; n < sizeof n_tasks / sizeof n_tasks[0]; n++) {
        cpu_pool_enter(&team);
        assert_true(run_job(&team, &j, n_tasks[n]));
        cpu_pool_leave(&team);
      }
    }
    team_finish(&team);
    cpu_pool_destroy(pool);
  }
}

static void test_many_small_jobs(void **state)
{
  (void)state;
  cpu_pool *pool = cpu_pool_create(3);
  cpu_team team;
  job j = {0};
  team_init(&team, pool);
  cpu_pool_enter(&team);
  for (int round = 0; round < 5000; round++) {
    assert_true(run_job(&team, &j, 2 + round % 4));
  }
  cpu_pool_leave(&team);
  team_finish(&team);
  cpu_pool_destroy(pool);
}

/* ---- who works --------------------------------------------------------------------------------------------------- */

typedef struct caller {
  pthread_t thread;
  int64_t next;      /* task */
  atomic_int others; /* tasks on another thread, or out of order */
} caller;

static void run_here(const void *context, int64_t task, void *scratch)
{
  caller *c = *(caller *const *)context;
  (void)scratch;
  if (!pthread_equal(pthread_self(), c->thread) || task != c->next++) {
    atomic_fetch_add(&c->others, 1);
  }
}

/* One thread, or one task: the caller's own. */
static void test_alone(void **state)
{
  (void)state;
  caller c = {.thread = pthread_self()}, *context = &c;
  for (int32_t threads = 1; threads <= 2; threads++) {
    cpu_pool *pool = cpu_pool_create(threads);
    cpu_team team;
    team_init(&team, pool);
    cpu_pool_enter(&team);
    for (int round = 0; round < 100; round++) {
      c.next = 0;
      cpu_parallel(&team, threads == 1 ? 50 : 1, run_here, &context);
    }
    cpu_pool_leave(&team);
    team_finish(&team);
    cpu_pool_destroy(pool);
  }
  assert_int_equal(atomic_load(&c.others), 0);
}

typedef struct meeting {
  int32_t wanted;
  atomic_int arrived, late;
} meeting;

/* Waits for as many as are wanted. */
static void meet(const void *context, int64_t task, void *scratch)
{
  meeting *m = *(meeting *const *)context;
  const time_t until = time(NULL) + PATIENCE;
  (void)task;
  (void)scratch;
  atomic_fetch_add(&m->arrived, 1);
  while (atomic_load(&m->arrived) < m->wanted) {
    if (time(NULL) > until) {
      atomic_fetch_add(&m->late, 1);
      return;
    }
    sleep_for(0);
  }
}

/* Tasks run side by side, also after the threads have gone to sleep. */
static void test_side_by_side(void **state)
{
  (void)state;
  cpu_pool *pool = cpu_pool_create(3);
  cpu_team team;
  team_init(&team, pool);
  cpu_pool_enter(&team);
  for (int round = 0; round < 10; round++) {
    meeting m = {.wanted = 3}, *context = &m;
    cpu_parallel(&team, 3, meet, &context);
    assert_int_equal(atomic_load(&m.late), 0);
    sleep_for(round % 2 ? 3 : 0);
  }
  cpu_pool_leave(&team);
  team_finish(&team);
  cpu_pool_destroy(pool);
}

/* A thread of the pool that waits in a task has no processor time for it: as if another process had its processor. */
typedef struct burst {
  pthread_t caller;
  atomic_int n_waits;  /* to come */
  int64_t first, last; /* nanoseconds: when the pool's thread began to work without a pause, and when it last worked */
  atomic_int n_pauses; /* one after the other, with little work before each */
} burst;

static int64_t nanoseconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work_on(const void *context, int64_t task, void *scratch)
{
  enum { PAUSE = 400000, LITTLE = 3000000 };
  burst *b = *(burst *const *)context;
  (void)task;
  (void)scratch;
  for (const int64_t until = nanoseconds() + 10000; nanoseconds() < until;) {
  }
  if (pthread_equal(pthread_self(), b->caller)) {
    return;
  }
  const int64_t now = nanoseconds();
  if (atomic_load(&b->n_waits) > 0) {
    sleep_for(2);
    atomic_fetch_sub(&b->n_waits, 1);
    b->last = 0;
    return;
  }
  if (b->last == 0 || now - b->last > PAUSE) {
    atomic_fetch_add(&b->n_pauses, b->last != 0);
    b->first = now;
  }
  b->last = now;
  if (now - b->first > LITTLE) {
    atomic_store(&b->n_pauses, 0);
  }
}

static int64_t own_processor_nanoseconds(void)
{
  struct timespec t = {0};
#ifdef CLOCK_THREAD_CPUTIME_ID
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
#endif
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether the thread of a new pool, which has had to wait for its processor, rests between bursts; -1 if neither that
 * nor the contrary can be told: other work took the caller's processor too. */
static int32_t rests(int64_t n_tasks)
{
  cpu_pool *pool = cpu_pool_create(2);
  cpu_team team = {.pool = pool};
  burst b = {.caller = pthread_self()}, *context = &b;
  atomic_init(&b.n_waits, 5);
  atomic_init(&b.n_pauses, 0);
  cpu_pool_enter(&team);
  const int64_t begin = nanoseconds(), processor = own_processor_nanoseconds();
  while (atomic_load(&b.n_waits) > 0 && nanoseconds() < begin + 1000000000) {
    cpu_parallel(&team, 4, work_on, &context);
  }
  for (const int64_t until = nanoseconds() + 30000000; atomic_load(&b.n_pauses) < 6 && nanoseconds() < until;) {
    cpu_parallel(&team, n_tasks, work_on, &context);
  }
  const double had = (double)(own_processor_nanoseconds() - processor), wanted = (double)(nanoseconds() - begin);
  cpu_pool_leave(&team);
  cpu_pool_destroy(pool);
  return atomic_load(&b.n_pauses) >= 6 ? 1 : had > 0.9 * wanted ? 0 : -1;
}

/* A thread that had to wait for its processor rests between bursts, within a job and between jobs. On a machine with
 * other work the thread may get no processor while it is watched, so it is watched again. */
static void test_a_crowded_thread_rests(void **state)
{
  (void)state;
#ifndef CLOCK_THREAD_CPUTIME_ID
  skip(); /* the system does not count exactly enough */
#endif
  for (int64_t n_tasks = 4; n_tasks <= 4000; n_tasks *= 1000) {
    const int64_t patience = nanoseconds() + (int64_t)PATIENCE * 1000000000;
    int32_t has_rested = 0;
    for (int32_t n_quiet = 0; !has_rested && nanoseconds() < patience;) {
      const int32_t told = rests(n_tasks);
      has_rested = told == 1;
      n_quiet += told == 0;
      assert_in_range(n_quiet, 0, 20);
    }
    if (!has_rested) {
      skip();
    }
  }
}

/* ---- several runs ------------------------------------------------------------------------------------------------ */

enum { RUNNERS = 4 };

typedef struct runner {
  pthread_t thread;
  cpu_pool *pool;
  int32_t n_jobs, is_patient, wrong;
} runner;

/* Runs of a few jobs each. A patient runner pauses between them, so that the others are at times alone. */
static void *run_often(void *argument)
{
  runner *r = argument;
  cpu_team team = {.pool = r->pool, .scratch_size = SCRATCH};
  job *j = calloc(1, sizeof *j);
  team.scratch = malloc((size_t)cpu_pool_threads(r->pool) * SCRATCH);
  r->wrong += !j || !team.scratch;
  for (int32_t run = 0; run < r->n_jobs && !r->wrong; run++) {
    cpu_pool_enter(&team);
    for (int64_t n_tasks = 1; n_tasks < 40; n_tasks += 13) {
      r->wrong += !run_job(&team, j, n_tasks);
    }
    cpu_pool_leave(&team);
    if (r->is_patient) {
      sleep_for(1);
    }
  }
  free(j);
  free(team.scratch);
  return NULL;
}

static void test_several_runs(void **state)
{
  (void)state;
  for (int32_t n_runners = 1; n_runners <= RUNNERS; n_runners++) {
    cpu_pool *pool = cpu_pool_create(3);
    runner runners[RUNNERS];
    for (int32_t i = 0; i < n_runners; i++) {
      runners[i] = (runner){.pool = pool, .n_jobs = i % 2 ? 50 : 300, .is_patient = i % 2};
      assert_int_equal(pthread_create(&runners[i].thread, NULL, run_often, &runners[i]), 0);
    }
    for (int32_t i = 0; i < n_runners; i++) {
      assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
      assert_int_equal(runners[i].wrong, 0);
    }
    cpu_pool_destroy(pool);
  }
}

/* Whoever enters later while a job is shared works alone. */
typedef struct visit {
  cpu_pool *pool;
  atomic_int done, wrong;
} visit;

static void visit_pool(const void *context, int64_t task, void *scratch)
{
  visit *v = *(visit *const *)context;
  cpu_team team;
  job *j = calloc(1, sizeof *j);
  (void)task;
  (void)scratch;
  team = (cpu_team){.pool = v->pool, .scratch_size = SCRATCH};
  team.scratch = malloc((size_t)cpu_pool_threads(v->pool) * SCRATCH);
  cpu_pool_enter(&team);
  if (!j || !team.scratch || !run_job(&team, j, 20)) {
    atomic_fetch_add(&v->wrong, 1);
  }
  cpu_pool_leave(&team);
  free(team.scratch);
  free(j);
  atomic_fetch_add(&v->done, 1);
}

/* A task that begins a run of its own: the pool is taken, so it runs on its own thread. */
static void test_run_within_a_task(void **state)
{
  (void)state;
  cpu_pool *pool = cpu_pool_create(3);
  cpu_team team;
  team_init(&team, pool);
  visit v = {.pool = pool}, *context = &v;
  cpu_pool_enter(&team);
  for (int round = 0; round < 50; round++) {
    cpu_parallel(&team, 6, visit_pool, &context);
  }
  cpu_pool_leave(&team);
  assert_int_equal(atomic_load(&v.done), 300);
  assert_int_equal(atomic_load(&v.wrong), 0);
  team_finish(&team);
  cpu_pool_destroy(pool);
}

/* Threads that take turns are busy between their runs: none helps another. One that is alone again gets help. */
static void *run_in_turn(void *argument)
{
  cpu_team team = {.pool = argument};
  cpu_pool_enter(&team);
  cpu_pool_leave(&team);
  return (void *)(intptr_t)team.is_alone;
}

static int is_alone_elsewhere(cpu_pool *pool)
{
  pthread_t thread;
  void *is_alone = NULL;
  assert_int_equal(pthread_create(&thread, NULL, run_in_turn, pool), 0);
  assert_int_equal(pthread_join(thread, &is_alone), 0);
  return (int)(intptr_t)is_alone;
}

static void test_taking_turns(void **state)
{
  (void)state;
  cpu_pool *pool = cpu_pool_create(2);
  cpu_team team = {.pool = pool};
  int32_t n_helped = 0;
  for (int round = 0; round < 10; round++) { /* a busy system may part two runs */
    sleep_for(20);
    assert_true(is_alone_elsewhere(pool));
    cpu_pool_enter(&team);
    n_helped += team.is_alone;
    cpu_pool_leave(&team);
  }
  assert_in_range(n_helped, 0, 9);
  sleep_for(20);
  for (int round = 0; round < 20; round++) {
    cpu_pool_enter(&team);
    assert_true(team.is_alone); /* its own last run is no reason */
    cpu_pool_leave(&team);
  }
  cpu_pool_destroy(pool);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void test_destroy(void **state)
{
  (void)state;
  cpu_pool_destroy(NULL);
  cpu_pool_destroy(cpu_pool_create(4)); /* never used: no thread was started */
  for (int round = 0; round < 30; round++) {
    cpu_pool *pool = cpu_pool_create(4);
    cpu_team team;
    job j = {0};
    team_init(&team, pool);
    cpu_pool_enter(&team);
    assert_true(run_job(&team, &j, 8));
    cpu_pool_leave(&team);
    team_finish(&team);
    sleep_for(round % 3); /* while they look for work, while they fall asleep, while they sleep */
    cpu_pool_destroy(pool);
  }
}

/* ---- how work is cut ------------------------------------------------------------------------------------------- */

static void test_cutting(void **state)
{
  (void)state;
  assert_int_equal(cpu_tasks(0, 1e9), 1);
  assert_int_equal(cpu_tasks(1, 1e9), 1);
  assert_int_equal(cpu_tasks(1000, 1.0), 1);
  for (int64_t n = 1; n <= 300; n++) {
    int64_t before = 1;
    for (double cost = 1.0; cost < 1e12; cost *= 3.0) {
      const int64_t tasks = cpu_tasks(n, cost);
      assert_in_range(tasks, before, n);
      before = tasks;
      assert_int_equal(cpu_first(n, tasks, 0), 0);
      assert_int_equal(cpu_first(n, tasks, tasks), n);
      for (int64_t task = 0; task < tasks; task++) {
        const int64_t size = cpu_first(n, tasks, task + 1) - cpu_first(n, tasks, task);
        assert_in_range(size, n / tasks, (n + tasks - 1) / tasks);
      }
    }
  }
  assert_true(cpu_tasks(1000, 1e9) > 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_task_once),
      cmocka_unit_test(test_many_small_jobs),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_side_by_side),
      cmocka_unit_test(test_a_crowded_thread_rests),
      cmocka_unit_test(test_several_runs),
      cmocka_unit_test(test_run_within_a_task),
      cmocka_unit_test(test_taking_turns),
      cmocka_unit_test(test_destroy),
      cmocka_unit_test(test_cutting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
