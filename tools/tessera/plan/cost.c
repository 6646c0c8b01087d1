/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plan/cost.h"

#include <math.h>

const char *plan_bound_name(int32_t bound)
{
  static const char *const names[] = {"memory", "l2", "operations", "stages", "workgroups"};
  return bound >= 0 && bound < PLAN_BOUNDS ? names[bound] : "?";
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* The bytes that were touched so far, and were when each storage was touched last; negative: it never was. */
typedef struct cache {
  const plan_figures *figures;
  const plan_places *places;
  double touched;
  double *last; /* [n_storages + 1]; the last: memory of the backend's own */
} cache;

static int32_t storage_of(const cache *c, tsr_ref tensor)
{
  return tensor > 0 && tensor < c->places->n_tensors ? c->places->storage_of[tensor] : c->places->n_storages;
}

static int is_read(const cache *c, const tsr_plan_kernel *kernel, int32_t storage)
{
  for (int32_t i = 0; i < kernel->n_accesses; i++) {
    if (!kernel->accesses[i].is_written && storage_of(c, kernel->accesses[i].tensor) == storage) {
      return 1;
    }
  }
  return 0;
}

/* How often a byte that no cache holds passes between it and the memory: a CPU fetches what it is going to write. */
static double passes_of(const cache *c, const tsr_plan_kernel *kernel, const tsr_kernel_access *access)
{
  const int fetches = c->figures->one_by_one && access->is_written;
  return fetches && !is_read(c, kernel, storage_of(c, access->tensor)) ? 2.0 : 1.0;
}

/* The part of what is touched in turn that a cache of random replacement does not hold, if this is `times` what it has
 * room for: each byte that is fetched leaves the others there with the probability 1 - 1 / room, so 1 - m of them are
 * found, exp(-m * times). */
static double missing(double times)
{
  enum { HALVINGS = 40 };
  double low = 0, high = times > 1 ? 1 : 0;
  for (int32_t i = 0; i < HALVINGS && high > 0; i++) {
    const double m = (low + high) / 2;
    if (1 - m > exp(-m * times)) {
      low = m;
    } else {
      high = m;
    }
  }
  return high;
}

/* Touches what the kernel reads and writes. */
static void pass(cache *c, const tsr_plan_kernel *kernel, plan_cost *cost)
{
  const double room = c->figures->l2_bytes;
  *cost = (plan_cost){.bound = PLAN_STAGES};
  for (int32_t i = 0; i < kernel->n_accesses; i++) {
    const tsr_kernel_access *access = &kernel->accesses[i];
    const int32_t storage = storage_of(c, access->tensor);
    const double since = c->last[storage] < 0 ? INFINITY : c->touched - c->last[storage];
    const double in_turn = access->is_written ? fmax(access->bytes, c->places->arena) : since + access->bytes;
    cost->l2 += access->bytes;
    cost->memory += missing(in_turn / room) * passes_of(c, kernel, access) * access->bytes;
  }
  c->touched += cost->l2;
  for (int32_t i = 0; i < kernel->n_accesses; i++) {
    c->last[storage_of(c, kernel->accesses[i].tensor)] = c->touched;
  }
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static double of(double amount, double rate)
{
  return amount > 0 ? amount / rate : 0.0;
}

static double rate_of(const plan_figures *f, const tsr_plan_kernel *kernel)
{
  const double full = f->rate[kernel->rate], one_row = f->one_row[kernel->rate], rows = (double)kernel->rows;
  return rows > 0 && one_row > 0 ? rows / (1 / one_row + (rows - 1) / full) : full;
}

/* A product packs one operand after the other, no faster than the weights of one row come. */
static double packing_bandwidth(const plan_figures *f)
{
  const double bytes_per_operation = 2; /* f32, a multiplication and an addition for each weight */
  const double one_row = bytes_per_operation * f->one_row[TSR_RATE_F32];
  return one_row > 0 ? fmin(one_row, f->memory_bandwidth) : f->memory_bandwidth;
}

/* What the kernel takes alone, and what bounds it then. */
static void cost_alone(const plan_figures *f, const tsr_plan_kernel *kernel, plan_cost *cost)
{
  const double processors = f->processors;
  const double groups = kernel->groups > 0 ? (double)kernel->groups : processors;
  const double share = groups < processors ? groups / processors : 1.0;
  const double filled = groups / (processors * ceil(groups / processors));
  const double l2 = kernel->loads > cost->l2 ? kernel->loads : cost->l2;
  const double rate = rate_of(f, kernel);
  cost->total[PLAN_MEMORY] = of(cost->memory, f->memory_bandwidth);
  cost->total[PLAN_L2] = of(l2, f->l2_bandwidth);
  cost->total[PLAN_OPERATIONS] = of(kernel->operations, rate);
  const double seconds[] = {
      [PLAN_MEMORY] = of(cost->memory, fmin(f->memory_bandwidth, share * f->l2_bandwidth)),
      [PLAN_L2] = of(l2, share * f->l2_bandwidth),
      [PLAN_OPERATIONS] = of(kernel->operations, rate * filled),
  };
  cost->bound = PLAN_MEMORY;
  for (int32_t i = 0; i < 3; i++) {
    cost->bound = seconds[i] > seconds[cost->bound] ? i : cost->bound;
  }
  cost->own = seconds[cost->bound];
  if (f->one_by_one && kernel->rows > 0) {
    cost->own =
        of(cost->memory, packing_bandwidth(f)) + fmax(seconds[PLAN_L2], of(kernel->operations, f->rate[kernel->rate]));
  }
  cost->l2 = l2;
  if (share < 1 && cost->own > fmax(fmax(cost->total[0], cost->total[1]), cost->total[2])) {
    cost->bound = PLAN_GROUPS;
  }
}

/* The time of kernels first .. end - 1, a stage, dealt out among them by what each takes alone. */
static double cost_stage(const plan_figures *f, int32_t first, int32_t end, plan_cost *costs)
{
  double sums[3] = {0, 0, 0}, longest = 0, all = 0;
  for (int32_t i = first; i < end; i++) {
    for (int32_t k = 0; k < 3; k++) {
      sums[k] += costs[i].total[k];
    }
    longest = fmax(longest, costs[i].own);
    all += costs[i].own;
  }
  const double work = f->one_by_one ? all : fmax(longest, fmax(sums[0], fmax(sums[1], sums[2])));
  double seconds = 0;
  for (int32_t i = first; i < end; i++) {
    const double latency = i == first ? f->stage_seconds : f->dispatch_seconds;
    const double part = all > 0 ? work * costs[i].own / all : 0.0;
    costs[i].seconds = latency + part;
    costs[i].bound = latency > part ? PLAN_STAGES : costs[i].bound;
    seconds += costs[i].seconds;
  }
  return seconds;
}

double plan_costs(const plan_figures *figures, const plan_places *places, const tsr_plan_kernel *const *kernels,
                  int32_t n, plan_cost *costs, double *scratch)
{
  cache c = {.figures = figures, .places = places, .last = scratch};
  for (int32_t i = 0; i <= places->n_storages; i++) {
    c.last[i] = -1;
  }
  enum { RUNS = 2 }; /* the first fills the cache */
  for (int32_t run = 0; run < RUNS; run++) {
    for (int32_t i = 0; i < n; i++) {
      pass(&c, kernels[i], &costs[i]);
    }
  }
  for (int32_t i = 0; i < n; i++) {
    cost_alone(figures, kernels[i], &costs[i]);
  }
  double seconds = figures->submit_seconds;
  for (int32_t first = 0, end = 0; first < n; first = end) {
    for (end = first + 1; end < n && !kernels[end]->waits; end++) {
      ;
    }
    seconds += cost_stage(figures, first, end, costs);
  }
  return seconds;
}
