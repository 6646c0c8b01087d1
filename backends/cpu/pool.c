/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* How long a thread looks for the next job before it sleeps: longer than the gap between two lines of a decoding
 * step and between two steps, much shorter than a time slice. */
enum { SPIN_NANOSECONDS = 100000, LOOKS_PER_CLOCK = 32, LOOKS_BEFORE_YIELD = 2000 };

/* How long a thread may be between two runs, in nanoseconds: the host's part of a step, and a time slice that another
 * thread may have taken. */
enum { PAUSE = 5000000 };

/* Nanoseconds. A thread that had to wait for its processor for more than WAIT, in a job of LONG, shares the processor;
 * and the run waited for the thread. For a spell the thread works in bursts and rests between them: so it has time to
 * its credit when it wants the processor, and the system takes the processor away while the thread rests, not in a job.
 * One that waits again in the spell, or SOON after it, has a spell of twice the length. */
enum { LONG = 500000, WAIT = 500000, BURST = 1500000, REST = 750000, REFERENCE = 1000000 };
enum { FIRST_SPELL = 5000000, LONGEST_SPELL = 640000000, SOON = 20000000 };

/* cpu_pool.ticket: the job's number, whether threads may still join it, and how many did. */
#define OPEN       (UINT64_C(1) << 31)
#define JOINED     (OPEN - 1)
#define NEXT_JOB   (UINT64_C(1) << 32)
#define JOB(value) ((value) >> 32)

struct cpu_pool {
  _Atomic int32_t threads;  /* the caller's included; fewer once the system refused some */
  int32_t started;          /* threads of the pool that run: threads - 1, fewer where the system refused */
  pthread_t *thread;        /* [threads - 1] */
  pthread_mutex_t owner;    /* held by the run whose job it is */
  _Atomic int32_t runs;     /* under way */
  _Atomic(uintptr_t) last;  /* the thread whose run ended last; likewise when, and the last one of another thread */
  _Atomic int64_t last_end; /* nanoseconds */
  _Atomic int64_t other_end;
  _Atomic uint64_t ticket;  /* of the job */
  _Atomic int32_t finished; /* threads that joined and are done */
  _Atomic int64_t next;     /* task */
  _Atomic int32_t stop;
  _Atomic int32_t owner_processor; /* on which the last job's run was; -1: not known */
  cpu_set_t allowed;               /* processors of the process when the pool was made */

  /* The job. Written while no thread has joined. */
  cpu_task body;
  const void *context;
  int64_t n_tasks;
  const cpu_team *team;

  pthread_mutex_t lock; /* of the sleepers */
  pthread_cond_t wake;
  _Atomic int32_t sleepers;
};

typedef struct member {
  cpu_pool *pool;
  int32_t index;     /* 1 .. threads - 1; 0 is the run's own thread */
  int32_t avoided;   /* the processor that it keeps away from; -1: none */
  int64_t clock;     /* nanoseconds when it last read what processor time it had had; 0: it has slept since */
  int64_t processor; /* that time */
  int64_t spell;     /* the last one in which it works in bursts, likewise when that ends */
  int64_t spell_end;
  int64_t burst_end;
} member;

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *scratch_of(const cpu_team *team, int32_t index)
{
  return team->scratch ? team->scratch + (uint64_t)index * team->scratch_size : NULL;
}

/* Until all tasks are taken, or that time has come. */
static void work(cpu_pool *pool, void *scratch, int64_t until)
{
  const int64_t n_tasks = pool->n_tasks;
  for (int64_t task; (task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < n_tasks;) {
    pool->body(pool->context, task, scratch);
    if (until < INT64_MAX && nanoseconds() >= until) {
      return;
    }
  }
}

/* Leaves the processor of the run, before a thread sleeps and where it meets the run. Some systems wake a thread on the
 * processor of who wakes it although another idles (a virtual machine's idle processor looks taken), and leave both
 * there for a tenth of a second: half the speed. */
static void keep_away(member *own)
{
  const cpu_pool *pool = own->pool;
  const int32_t processor = atomic_load_explicit(&pool->owner_processor, memory_order_relaxed);
  cpu_set_t others = pool->allowed;
  if (processor < 0 || processor >= CPU_SETSIZE || processor == own->avoided) {
    return;
  }
  CPU_CLR((size_t)processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0) {
    own->avoided = processor;
  }
}

/* Waits for a job after `seen`, or for the end. */
static uint64_t next_ticket(member *own, uint64_t seen)
{
  cpu_pool *pool = own->pool;
  int64_t since = 0;
  for (int64_t looks = 0;; looks++) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    if ((JOB(ticket) != seen && (ticket & OPEN)) || atomic_load_explicit(&pool->stop, memory_order_acquire)) {
      return ticket;
    }
    relax();
    if (looks % LOOKS_PER_CLOCK) {
      continue;
    }
    since = since ? since : nanoseconds();
    if (nanoseconds() - since < SPIN_NANOSECONDS) {
      continue;
    }
    keep_away(own);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    /* A job that is handed out from here on sees the sleeper; one that was before shows in the ticket. */
    ticket = atomic_load(&pool->ticket);
    if (!(JOB(ticket) != seen && (ticket & OPEN)) && !atomic_load(&pool->stop)) {
      pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    own->clock = since = 0;
  }
}

/* ---- a thread that shares its processor -------------------------------------------------------------------------- */

/* What the thread has had of its processor. Where the system does not count that exactly, all of the time. */
static int64_t processor_nanoseconds(void)
{
#ifdef CLOCK_THREAD_CPUTIME_ID
  struct timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  }
#endif
  return nanoseconds();
}

/* Before a thread takes tasks. A system call for each job would cost too much. */
static void look(member *own, int64_t now)
{
  if (own->clock == 0 || now - own->clock > REFERENCE) {
    own->clock = now;
    own->processor = processor_nanoseconds();
  }
}

/* After it. A thread that did not sleep since it looked has waited for what it lacks of the time since. 1 if it has
 * rested. */
static int32_t pace(member *own, int64_t begin, int64_t end)
{
  if (end - begin > LONG && end - own->clock - (processor_nanoseconds() - own->processor) > WAIT) {
    const int64_t twice = 2 * own->spell < LONGEST_SPELL ? 2 * own->spell : LONGEST_SPELL;
    own->spell = own->spell > 0 && end < own->spell_end + SOON ? twice : FIRST_SPELL;
    own->spell_end = end + own->spell;
    own->burst_end = end;
  }
  if (end < own->spell_end && own->burst_end <= end) {
    const struct timespec rest = {.tv_nsec = REST};
    nanosleep(&rest, NULL);
    own->burst_end = nanoseconds() + BURST;
    own->clock = 0;
    return 1;
  }
  return 0;
}

static void *run_member(void *argument)
{
  member own = *(member *)argument;
  cpu_pool *pool = own.pool;
  free(argument);
  for (uint64_t seen = 0;;) {
    uint64_t ticket = next_ticket(&own, seen);
    if (atomic_load_explicit(&pool->stop, memory_order_acquire)) {
      return NULL;
    }
    seen = JOB(ticket);
    const int64_t begin = nanoseconds();
    look(&own, begin);
    /* Joins, unless the job was closed meanwhile. */
    while (JOB(ticket) == seen && (ticket & OPEN)) {
      if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                memory_order_acquire)) {
        work(pool, scratch_of(pool->team, own.index), begin < own.spell_end ? own.burst_end : INT64_MAX);
        if (sched_getcpu() == atomic_load_explicit(&pool->owner_processor, memory_order_relaxed)) {
          keep_away(&own);
        }
        atomic_fetch_add_explicit(&pool->finished, 1, memory_order_release);
        if (pace(&own, begin, nanoseconds())) {
          seen = 0; /* it may have left before the job's tasks were taken */
        }
        break;
      }
    }
  }
}

static void wake_all(cpu_pool *pool)
{
  if (atomic_load(&pool->sleepers) > 0) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
  }
}

/* Under the owner's lock. Signals stay with the program's own threads. */
static void start_threads(cpu_pool *pool)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool->started < pool->threads - 1) {
    member *argument = malloc(sizeof *argument);
    if (!argument) {
      break;
    }
    *argument = (member){.pool = pool, .index = pool->started + 1, .avoided = -1};
    if (pthread_create(&pool->thread[pool->started], NULL, run_member, argument) != 0) {
      free(argument);
      break;
    }
    pool->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (pool->started < pool->threads - 1) {
    pool->threads = pool->started + 1; /* do with those that there are */
  }
}

static void share(const cpu_team *team, int64_t n_tasks, cpu_task body, const void *context)
{
  cpu_pool *pool = team->pool;
  if (pool->started == 0) {
    start_threads(pool);
  }
  atomic_store_explicit(&pool->owner_processor, sched_getcpu(), memory_order_relaxed);
  pool->body = body;
  pool->context = context;
  pool->n_tasks = n_tasks;
  pool->team = team;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
  const uint64_t job = JOB(atomic_load_explicit(&pool->ticket, memory_order_relaxed)) + 1;
  atomic_store(&pool->ticket, job * NEXT_JOB | OPEN);
  wake_all(pool);
  work(pool, scratch_of(team, 0), INT64_MAX);
  /* Who has not joined by now has nothing left to do. */
  const uint64_t closed = atomic_fetch_and_explicit(&pool->ticket, ~OPEN, memory_order_acq_rel);
  const int32_t joined = (int32_t)(closed & JOINED);
  for (int64_t looks = 0; atomic_load_explicit(&pool->finished, memory_order_acquire) != joined; looks++) {
    if (looks < LOOKS_BEFORE_YIELD) {
      relax();
    } else {
      sched_yield();
    }
  }
}

void cpu_parallel(cpu_team *team, int64_t n_tasks, cpu_task body, const void *context)
{
  cpu_pool *pool = team->pool;
  if (n_tasks > 1 && pool->threads > 1 && team->is_alone &&
      atomic_load_explicit(&pool->runs, memory_order_relaxed) == 1 && pthread_mutex_trylock(&pool->owner) == 0) {
    share(team, n_tasks, body, context);
    pthread_mutex_unlock(&pool->owner);
    return;
  }
  for (int64_t task = 0; task < n_tasks; task++) {
    body(context, task, scratch_of(team, 0));
  }
}

void *cpu_shared(const cpu_team *team)
{
  return team->shared;
}

int64_t cpu_tasks(int64_t n, double cost)
{
  /* A task of about this many vector instructions takes some ten microseconds. */
  const double least = 20000.0, most = 64.0;
  double tasks = (double)n * cost / least;
  tasks = tasks < most ? tasks : most;
  tasks = tasks < (double)n ? tasks : (double)n;
  return tasks < 2.0 ? 1 : (int64_t)tasks;
}

cpu_pool *cpu_pool_create(int32_t threads)
{
  cpu_pool *pool = calloc(1, sizeof *pool);
  pthread_t *thread = calloc((size_t)threads, sizeof *thread);
  if (!pool || !thread) {
    free(pool);
    free(thread);
    return NULL;
  }
  pool->threads = threads;
  pool->thread = thread;
  pool->owner_processor = -1;
  atomic_init(&pool->last_end, INT64_MIN / 2);
  atomic_init(&pool->other_end, INT64_MIN / 2);
  if (sched_getaffinity(0, sizeof pool->allowed, &pool->allowed) != 0) {
    CPU_ZERO(&pool->allowed); /* nothing is known: threads stay where they are put */
  }
  pthread_mutex_init(&pool->owner, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  return pool;
}

void cpu_pool_destroy(cpu_pool *pool)
{
  if (!pool) {
    return;
  }
  atomic_store(&pool->stop, 1);
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (int32_t i = 0; i < pool->started; i++) {
    pthread_join(pool->thread[i], NULL);
  }
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->owner);
  free(pool->thread);
  free(pool);
}

int32_t cpu_pool_threads(const cpu_pool *pool)
{
  return pool->threads;
}

/* A number that no other running thread has. A plugin has no thread-local variables: those of a library that is opened
 * while the program runs may lie where LeakSanitizer reads them wrongly, and crashes. */
static uintptr_t this_thread(void)
{
  return (uintptr_t)pthread_self();
}

void cpu_pool_enter(cpu_team *team)
{
  cpu_pool *pool = team->pool;
  int32_t was_own = atomic_load_explicit(&pool->last, memory_order_relaxed) == this_thread();
  int64_t end = atomic_load_explicit(was_own ? &pool->other_end : &pool->last_end, memory_order_relaxed);
  team->is_alone = nanoseconds() - end > PAUSE;
  atomic_fetch_add_explicit(&pool->runs, 1, memory_order_relaxed);
}

void cpu_pool_leave(cpu_team *team)
{
  cpu_pool *pool = team->pool;
  if (atomic_exchange_explicit(&pool->last, this_thread(), memory_order_relaxed) != this_thread()) {
    atomic_store_explicit(&pool->other_end, atomic_load_explicit(&pool->last_end, memory_order_relaxed),
                          memory_order_relaxed);
  }
  atomic_store_explicit(&pool->last_end, nanoseconds(), memory_order_relaxed);
  atomic_fetch_sub_explicit(&pool->runs, 1, memory_order_relaxed);
}
