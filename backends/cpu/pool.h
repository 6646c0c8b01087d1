/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a device, and how a run gets at them.
 *
 * A run works on the thread that called it. While it is the only one on its device, the pool's threads help it with
 * each line that has several tasks. As soon as several runs are under way (a batch of sentences spread over threads
 * by the caller), each keeps to its own thread: that needs no handing over at all. A thread whose last run has just
 * ended counts as one that runs: it is between two steps, and needs its processor. Either way each task computes the
 * same.
 *
 * A thread of the pool that shares its processor with another process helps in bursts, and rests between them.
 */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "program.h"

typedef struct cpu_pool cpu_pool;

/* A pool with which runs work on `threads` threads, their own included; the others are started when first needed.
 * NULL without memory. */
cpu_pool *cpu_pool_create(int32_t threads);
void cpu_pool_destroy(cpu_pool *pool); /* takes NULL; no run is under way. Ends the threads */

int32_t cpu_pool_threads(const cpu_pool *pool);

struct cpu_team {
  cpu_pool *pool;
  unsigned char *scratch; /* [threads][scratch_size] */
  uint64_t scratch_size;  /* a multiple of 64 */
  unsigned char *shared;
  int32_t is_alone; /* no other thread's run had just ended when this one began */
};

/* Around a run. */
void cpu_pool_enter(cpu_team *team);
void cpu_pool_leave(cpu_team *team);

#endif
