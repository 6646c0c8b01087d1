/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a program on a device, from a few figures of the device.
 *
 * Of a kernel whose g workgroups run on P processors:
 *
 *     memory     = bytes that no cache holds / min(memory bandwidth, share * L2 bandwidth)
 *     l2         = max(bytes, loads) / (share * L2 bandwidth)
 *     operations = operations / (rate * g / (P * ceil(g / P)))
 *     rate       = that of large products; where the rate of one row is told, r rows take as long as one at that rate,
 *                  for which the weights are fetched, and r - 1 at the rate of large products
 *     share      = min(1, g / P): one workgroup reads no faster than its processor does
 *     own        = max(memory, l2, operations)
 *     own        = bytes that no cache holds / min(memory bandwidth, that of one row's weights in f32)
 *                  + max(l2, operations at the rate of large products), of a product on a CPU, which packs a tile and
 *                  then multiplies it
 *
 * Kernels between two waits form a stage and share the device; where they run one after the other, as on a CPU, the
 * second line holds:
 *
 *     stage   = latency of a stage + (kernels - 1) * latency of a kernel
 *               + max(sum of each resource at its full rate, the largest own)
 *             = latency of a stage + (kernels - 1) * latency of a kernel + sum of own
 *     program = submit + sum of stages
 *
 * Which bytes a cache holds: a storage is found there if, since it was last touched, no more bytes than the cache has
 * were touched, itself among them; runs follow one another, so the weights of a small model may stay. Of r times as
 * much the part m is fetched anew, where 1 - m = exp(-m r): so it is where what goes is drawn by lot. Of what is
 * written, the larger of the storage and of all temporaries is what has to fit. A CPU fetches a line of its cache
 * before it writes there, so what such a kernel writes without having read it counts twice.
 */
#ifndef TESSERA_TOOLS_PLAN_COST_H
#define TESSERA_TOOLS_PLAN_COST_H

#include "tessera/plan.h"

/* Bytes, seconds, and what is done in one. */
typedef struct plan_figures {
  double memory_bandwidth; /* bytes per second */
  double l2_bandwidth;     /* of the last cache that all processors share */
  double l2_bytes;
  double rate[TSR_RATE_COUNT];    /* operations per second; a multiplication and an addition are two */
  double one_row[TSR_RATE_COUNT]; /* of products of one row, weights fetched from memory; 0: as large ones */
  double stage_seconds;           /* a kernel that waits for all before it */
  double dispatch_seconds;        /* a further kernel of a stage */
  double submit_seconds;          /* a run without kernels */
  int32_t processors;
  int32_t one_by_one; /* 1: kernels of a stage do not overlap */
} plan_figures;

/* What most of a kernel's time goes into. */
enum { PLAN_MEMORY, PLAN_L2, PLAN_OPERATIONS, PLAN_STAGES, PLAN_GROUPS, PLAN_BOUNDS };

/* "memory" and so on. Static. */
const char *plan_bound_name(int32_t bound);

typedef struct plan_cost {
  double seconds;  /* its part of the stage; the first of a stage takes the latency */
  double own;      /* alone on the device, without latency */
  double memory;   /* bytes that no cache holds */
  double l2;       /* bytes that are loaded or stored, from wherever */
  int32_t bound;   /* PLAN_* */
  double total[3]; /* seconds of memory, l2 and operations, at full rates */
} plan_cost;

/* Where tensors lie: the storage of each, [n_tensors]. */
typedef struct plan_places {
  const int32_t *storage_of;
  int32_t n_tensors;
  int32_t n_storages;
  double arena; /* bytes of all temporaries, as planned */
} plan_places;

/* The cost of each of n kernels, in the order in which they are started, the device having run the same before. costs:
 * [n]; scratch: [places->n_storages + 1]. Returns the seconds of the program, its submit among them. */
double plan_costs(const plan_figures *figures, const plan_places *places, const tsr_plan_kernel *const *kernels,
                  int32_t n, plan_cost *costs, double *scratch);

#endif
