/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest columns of each row of a product, or of the logarithm of its softmax: the last two or three lines of
 * a decoding step.
 *
 * A task takes a group of panels through their product and keeps, per row, the k best so far and, for the
 * logarithms, the largest element and the sum of exponentials below it; the groups' finds are merged when all are
 * there. No row of logits is ever stored.
 */
#include <stdatomic.h>

#include "screen.h"

/* A group's first panel costs most, while it has no k of its own to compare with. */
enum { LEAST_PANELS = 4, MOST_GROUPS = 64 };

/* What one group of panels found in one row. */
typedef struct finding {
  float largest; /* -inf of nothing; NaN once a NaN or +inf was met */
  float sum;     /* of exp(x - largest) */
  int32_t n;     /* candidates */
  int32_t padding;
} finding;

typedef struct candidate {
  float value;
  int32_t index;
} candidate;

typedef struct matmul_topk {
  cpu_product product;
  int32_t k;
  int32_t logs;
  int64_t row_blocks;
  int64_t groups; /* of panels */
  int64_t n_tasks;
  float *values;
  int32_t *indices;
  uint64_t product_size;    /* bytes of shared memory that the product takes; then come the findings, */
  uint64_t findings_size;   /* then the candidates, */
  uint64_t candidates_size; /* then the bounds */
} matmul_topk;

typedef struct sharing {
  const matmul_topk *plan;
  const void *product;
  finding *findings;     /* [groups][rows] */
  candidate *candidates; /* [groups][rows][k] best first */
  _Atomic float *bounds; /* [rows] at least k elements of the row are as large: what is smaller is not looked at. Groups
                            help one another with it; what is found does not depend on it */
} sharing;

static sharing share(const matmul_topk *plan, char *memory)
{
  char *findings = memory + plan->product_size;
  return (sharing){.plan = plan,
                   .product = memory,
                   .findings = (finding *)(void *)findings,
                   .candidates = (candidate *)(void *)(findings + plan->findings_size),
                   .bounds = (_Atomic float *)(void *)(findings + plan->findings_size + plan->candidates_size)};
}

static int32_t prepare(cpu_line *line, cpu_preparation *preparation, int32_t logs)
{
  matmul_topk *plan = cpu_ask_memory(preparation, sizeof *plan);
  if (!plan) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  line->plan = plan;
  const int32_t status = cpu_product_init(&plan->product, line, 1, preparation);
  const cpu_product *p = &plan->product;
  plan->k = line->attributes.k;
  plan->logs = logs;
  plan->values = line->out[0].data;
  plan->indices = line->out[1].data;
  if (status != TSR_OK || p->rows == 0) {
    return status;
  }
  plan->row_blocks = (p->rows + CPU_BLOCK_ROWS - 1) / CPU_BLOCK_ROWS;
  const double rows = (double)p->rows / (double)plan->row_blocks;
  const double cost = CPU_PANEL_VECTORS * ((double)p->depth * (rows + 4.0) + (logs ? 30.0 : 3.0) * rows);
  /* By the columns alone: a row's sum is taken in the same order in a batch of any size. */
  plan->groups = (p->panels + LEAST_PANELS - 1) / LEAST_PANELS;
  plan->groups = plan->groups < MOST_GROUPS ? plan->groups : MOST_GROUPS;
  plan->n_tasks = cpu_tasks(plan->row_blocks * plan->groups, cost * (double)p->panels / (double)plan->groups);
  plan->product_size = cpu_product_shared(p);
  plan->findings_size = (uint64_t)(plan->groups * p->rows) * sizeof(finding);
  plan->candidates_size = (uint64_t)(plan->groups * p->rows * plan->k) * sizeof(candidate);
  cpu_ask_shared(preparation, plan->product_size + plan->findings_size + plan->candidates_size +
                                  (uint64_t)p->rows * sizeof(_Atomic float));
  cpu_ask_scratch(preparation, cpu_product_scratch(p) + CPU_BLOCK_ROWS * CPU_PANEL * sizeof(float));
  return TSR_OK;
}

int32_t cpu_prepare_matmul_topk(cpu_line *line, cpu_preparation *preparation)
{
  if (cpu_screen_suits(line)) {
    line->op = CPU_OP_MATMUL_SCREEN;
    return cpu_prepare_screen(line, preparation);
  }
  return prepare(line, preparation, 0);
}

int32_t cpu_prepare_matmul_log_topk(cpu_line *line, cpu_preparation *preparation)
{
  return prepare(line, preparation, 1);
}

/* 1 if a stands before b, whose index is lower: larger, NaN larger than all. */
static int before(float a, float b)
{
  return a > b || (a != a && b == b);
}

/* Candidates come in the order of their indices: among equals the first to come stays first. */
static void insert(finding *found, candidate *best, int32_t k, float value, int32_t index)
{
  int32_t at = found->n;
  if (found->n == k) {
    if (!before(value, best[k - 1].value)) {
      return;
    }
    at = k - 1;
  } else {
    found->n++;
  }
  for (; at > 0 && before(value, best[at - 1].value); at--) {
    best[at] = best[at - 1];
  }
  best[at] = (candidate){.value = value, .index = index};
}

/* One row of a panel: `columns` elements, the first of which is column `from`. Those below `bound` are passed over;
 * NaN is not. */
static void scan(finding *found, candidate *best, int32_t k, const float *row, int64_t columns, int32_t from,
                 float bound)
{
  for (int64_t i = 0; i < columns; i += CPU_LANES) {
    const int64_t n = columns - i < CPU_LANES ? columns - i : CPU_LANES;
    const cpu_f32v x = n == CPU_LANES ? cpu_load(row + i) : cpu_load_part(row + i, n, 0.0f);
    const float least = found->n == k && best[k - 1].value > bound ? best[k - 1].value : bound;
    uint32_t lanes = cpu_mask_bits(~(x < cpu_splat(least))) & (uint32_t)((UINT64_C(1) << n) - 1);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int32_t lane = __builtin_ctz(lanes);
      insert(found, best, k, row[i + lane], from + (int32_t)i + lane);
    }
  }
}

/* largest and sum, of the elements so far, taken over one more row of a panel. */
static void accumulate(finding *found, const float *row, int64_t columns)
{
  cpu_f32v x[CPU_PANEL_VECTORS], top = cpu_splat(-INFINITY);
  cpu_i32v strange = cpu_splat_i32(0);
  for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
    const int64_t n = columns - v * CPU_LANES;
    x[v] = n >= CPU_LANES ? cpu_load(row + v * CPU_LANES)
                          : cpu_load_part(row + (n > 0 ? v * CPU_LANES : 0), n > 0 ? n : 0, -INFINITY);
    strange |= ~(x[v] < cpu_splat(INFINITY)); /* +inf or NaN */
    top = cpu_max(x[v], top);
  }
  if (cpu_any(strange)) {
    found->largest = NAN;
    return;
  }
  const float largest = cpu_largest(top);
  if (largest > found->largest) {
    found->sum *= found->largest == -INFINITY ? 0.0f : expf(found->largest - largest);
    found->largest = largest;
  }
  if (found->largest == -INFINITY || found->largest != found->largest) {
    return;
  }
  cpu_f32v sum = cpu_splat(0.0f);
  for (int v = 0; v < CPU_PANEL_VECTORS; v++) {
    sum += cpu_exp(x[v] - cpu_splat(found->largest));
  }
  found->sum += cpu_sum(sum);
}

/* A block of rows through one group of panels. */
static void search_group(const sharing *s, int64_t group, int64_t block, void *scratch)
{
  const matmul_topk *plan = s->plan;
  const cpu_product *p = &plan->product;
  const int64_t first = cpu_first(p->rows, plan->row_blocks, block);
  const int64_t rows = cpu_first(p->rows, plan->row_blocks, block + 1) - first;
  const int64_t end = cpu_first(p->panels, plan->groups, group + 1);
  finding *found = s->findings + group * p->rows + first;
  candidate *best = s->candidates + (group * p->rows + first) * plan->k;
  float *c = scratch;
  for (int64_t i = 0; i < rows; i++) {
    found[i] = (finding){.largest = -INFINITY};
  }
  for (int64_t panel = cpu_first(p->panels, plan->groups, group); panel < end; panel++) {
    const int64_t columns = cpu_panel_columns(p, panel);
    cpu_product_panel(p, s->product, 0, first, rows, panel, c, CPU_PANEL, c + CPU_BLOCK_ROWS * CPU_PANEL);
    for (int64_t i = 0; i < rows; i++) {
      candidate *own = best + i * plan->k;
      const float bound = atomic_load_explicit(&s->bounds[first + i], memory_order_relaxed);
      scan(&found[i], own, plan->k, c + i * CPU_PANEL, columns, (int32_t)(panel * CPU_PANEL), bound);
      if (found[i].n == plan->k && own[plan->k - 1].value > bound) {
        atomic_store_explicit(&s->bounds[first + i], own[plan->k - 1].value, memory_order_relaxed);
      }
      if (plan->logs) {
        accumulate(&found[i], c + i * CPU_PANEL, columns);
      }
    }
  }
}

static void groups_task(const void *context, int64_t task, void *scratch)
{
  const sharing *s = context;
  const matmul_topk *plan = s->plan;
  const int64_t all = plan->row_blocks * plan->groups, end = cpu_first(all, plan->n_tasks, task + 1);
  for (int64_t i = cpu_first(all, plan->n_tasks, task); i < end; i++) {
    search_group(s, i % plan->groups, i / plan->groups, scratch);
  }
}

/* largest + ln sum over all groups; NaN if one met what no softmax has a value for. */
static void normaliser(const sharing *s, int64_t row, float *largest, float *log_sum)
{
  const matmul_topk *plan = s->plan;
  const int64_t M = plan->product.rows;
  float top = -INFINITY;
  double sum = 0.0;
  for (int64_t group = 0; group < plan->groups; group++) {
    const float found = s->findings[group * M + row].largest;
    top = found > top || found != found ? found : top;
    if (top != top) {
      break;
    }
  }
  for (int64_t group = 0; group < plan->groups && top == top && top > -INFINITY; group++) {
    const finding *found = &s->findings[group * M + row];
    sum += found->largest == -INFINITY ? 0.0 : (double)found->sum * exp((double)found->largest - (double)top);
  }
  *largest = top;
  *log_sum = (float)log(sum);
}

static void merge(const sharing *s, int64_t row)
{
  const matmul_topk *plan = s->plan;
  const int64_t M = plan->product.rows;
  const int32_t k = plan->k;
  candidate best[CPU_TOPK_FUSED];
  finding all = {0};
  for (int64_t group = 0; group < plan->groups; group++) {
    const candidate *found = s->candidates + (group * M + row) * k;
    for (int32_t i = 0; i < s->findings[group * M + row].n; i++) {
      insert(&all, best, k, found[i].value, found[i].index);
    }
  }
  float largest = 0.0f, log_sum = 0.0f;
  if (plan->logs) {
    normaliser(s, row, &largest, &log_sum);
  }
  for (int32_t i = 0; i < k; i++) {
    float value = best[i].value;
    int32_t index = best[i].index;
    if (plan->logs && largest != largest) {
      value = NAN;
      index = i;
    } else if (plan->logs) {
      value = value == -INFINITY ? -INFINITY : value - largest - log_sum;
    }
    plan->values[row * k + i] = value;
    plan->indices[row * k + i] = index;
  }
}

void cpu_run_matmul_topk(const cpu_line *line, cpu_team *team)
{
  const matmul_topk *plan = line->plan;
  if (plan->product.rows == 0) {
    return;
  }
  const sharing s = share(plan, cpu_shared(team));
  for (int64_t row = 0; row < plan->product.rows; row++) {
    atomic_init(&s.bounds[row], -INFINITY);
  }
  cpu_product_begin(&plan->product, 0, team, cpu_shared(team));
  cpu_parallel(team, plan->n_tasks, groups_task, &s);
  for (int64_t row = 0; row < plan->product.rows; row++) {
    merge(&s, row);
  }
}
