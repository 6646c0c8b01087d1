/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest column of each row of a product, with the few columns alone computed that can be it.
 *
 * A copy of the weights in bytes gives each logit to within a bound that is proved, not guessed: with a = s q + d
 * and w = t v + r, q and v the whole numbers that stand for a row and a column, d and r what rounding left,
 *
 *     a . w  =  s t (q . v)  +  d . w  +  s q . r,      |d . w| <= |d| |w|,   |s q . r| <= |s q| |r|
 *
 * (Cauchy, Schwarz)
 *
 * so that a column whose upper bound lies below another's lower bound is not the largest. Those that remain, few
 * where one token stands out, are computed in f32 in the order in which a panel sums them: the result has the bits
 * that the whole product gives. The weights' bytes are a quarter of f32, and reading them is what a decoding step
 * mostly does.
 */
#include "screen.h"

#include "product_i8.h"

#include <float.h>
#include <stdatomic.h>

/* Where a panel's columns stand in the packed copy, after the bytes: [3][panels * CPU_PANEL] f32. */
enum { SCALE, LEFT, NORM, COLUMN_ROWS };

/* Candidates that a group keeps of a row. With more the row is computed whole. */
enum { CANDIDATES = 48, LEAST_COLUMNS = 1024, MOST_DEPTH = 8192, CHUNK = 256, LEAST_PANELS = 4 };

typedef struct candidate {
  float upper;
  int32_t index;
} candidate;

/* Of a row, of a column's element, and of alpha: with no more than these a sum stays far below the largest f32. */
#define MOST_NORM    1e12
#define MOST_ELEMENT 1e18f
#define MOST_ALPHA   1e6f

/* What one group of panels found in one row. */
typedef struct finding {
  float lower; /* at least one column of the row is as large */
  int32_t n;   /* candidates; -1: there were too many, or an element was not finite */
  candidate kept[CANDIDATES];
} finding;

typedef struct row_bound {
  float left;  /* |d| */
  float whole; /* |s q| */
  float norm;  /* |a| */
} row_bound;

struct cpu_screen {
  cpu_product exact; /* not packed */
  cpu_product quick;
  cpu_tensor bytes, scales; /* b and its scales, as quick sees them */
  const float *columns;     /* [COLUMN_ROWS][panels * CPU_PANEL] */
  int64_t row_blocks, groups;
  uint64_t quick_size, findings_size, bounds_size; /* bytes of shared memory, one after the other */
  float *values;
  int32_t *indices;
};

typedef struct sharing {
  const cpu_screen *screen;
  const void *quick;
  finding *findings;     /* [groups][rows]; at last, in kept[0] of group 0, what was found */
  row_bound *bounds;     /* [rows] */
  _Atomic float *lowers; /* [rows] the best lower bound so far: groups help one another with it */
  int64_t row_tasks;
} sharing;

/* ---- the copy in bytes ----------------------------------------------------------------------------------------- */

/* CHUNK elements of column n from k0 on; beyond the last: zeros. */
static void widen_chunk(const cpu_tensor *b, int64_t n, int64_t k0, float *to)
{
  const int64_t at = n * b->stride[1] + k0 * b->stride[0];
  const int64_t count = b->extent[0] - k0 < CHUNK ? b->extent[0] - k0 : CHUNK;
  cpu_widen_row(b->dtype, (const char *)b->data + at * cpu_element_size(b->dtype), b->stride[0], count, to);
  memset(to + count, 0, (size_t)(CHUNK - count) * sizeof *to);
}

/* Of one column: its largest magnitude; NaN where an element is not finite, or more than MOST_ELEMENT. */
static float measure_column(const cpu_tensor *b, int64_t n, double *squares)
{
  const int64_t K = b->extent[0];
  float chunk[CHUNK];
  cpu_f32v largest = cpu_splat(0.0f);
  cpu_i32v finite = cpu_splat_i32(-1);
  *squares = 0.0;
  for (int64_t k0 = 0; k0 < K; k0 += CHUNK) {
    cpu_f32v sum = cpu_splat(0.0f);
    widen_chunk(b, n, k0, chunk);
    for (int64_t k = 0; k < CHUNK; k += CPU_LANES) {
      const cpu_f32v x = cpu_load(chunk + k);
      finite &= cpu_abs(x) <= cpu_splat(MOST_ELEMENT);
      largest = cpu_max(cpu_abs(x), largest);
      sum = cpu_fma(x, x, sum);
    }
    *squares += (double)cpu_sum(sum);
  }
  return cpu_any(~finite) ? NAN : cpu_largest(largest);
}

/* One column in bytes: group g goes to to[g * CPU_STRIP * CPU_GROUP ..]. */
static void pack_column(const cpu_tensor *b, int64_t n, uint8_t *to, float *scale, float *left, float *norm)
{
  const int64_t K = b->extent[0];
  double squares = 0.0, rest = 0.0;
  const float largest = measure_column(b, n, &squares);
  const int counts = largest >= 0x1p-60f;
  const float unit = counts ? largest / 127.0f : 0.0f, inverse = counts ? 127.0f / largest : 0.0f;
  const float raised = counts ? inverse : 0x1p60f; /* what is left, times this, has a square that does not vanish */
  for (int64_t k0 = 0; k0 < K; k0 += CHUNK) {
    float chunk[CHUNK];
    int32_t wholes[CHUNK];
    uint8_t bytes[CHUNK];
    cpu_f32v sum = cpu_splat(0.0f);
    widen_chunk(b, n, k0, chunk);
    for (int64_t k = 0; k < CHUNK; k += CPU_LANES) {
      const cpu_f32v whole = counts ? cpu_round(cpu_load(chunk + k) * cpu_splat(inverse)) : cpu_splat(0.0f);
      const cpu_f32v difference = (cpu_load(chunk + k) - whole * cpu_splat(unit)) * cpu_splat(raised);
      sum = cpu_fma(difference, difference, sum);
      cpu_store_i32(wholes + k, cpu_to_i32(whole) + cpu_splat_i32(CPU_SHIFT));
    }
    rest += (double)cpu_sum(sum);
    for (int64_t k = 0; k < CHUNK; k++) {
      bytes[k] = (uint8_t)wholes[k];
    }
    for (int64_t k = k0; k < K && k < k0 + CHUNK; k += CPU_GROUP) {
      memcpy(to + k / CPU_GROUP * CPU_STRIP * CPU_GROUP, bytes + (k - k0), CPU_GROUP);
    }
  }
  *scale = largest == largest ? unit : NAN;
  *left = largest == largest ? (float)(sqrt(rest) / (double)raised) + FLT_MIN : NAN;
  *norm = largest == largest && counts ? (float)sqrt(squares) : *left; /* what does not count is all left */
}

static uint64_t bytes_size(int64_t K, int64_t N)
{
  const int64_t panels = (N + CPU_PANEL - 1) / CPU_PANEL, groups = cpu_quantised_groups(K);
  return (uint64_t)(panels * groups * CPU_PANEL * CPU_GROUP);
}

/* cpu_layout.pack: [strips][groups][CPU_STRIP][CPU_GROUP] bytes, then [COLUMN_ROWS][panels * CPU_PANEL] f32. */
static void pack_screen(const cpu_layout *layout, void *to)
{
  const cpu_tensor *b = layout->from;
  const int64_t K = b->extent[0], N = b->extent[1], groups = cpu_quantised_groups(K);
  const int64_t columns = (N + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL;
  uint8_t *bytes = to;
  float *rows = (float *)(void *)(bytes + bytes_size(K, N));
  memset(bytes, CPU_SHIFT, (size_t)bytes_size(K, N));
  for (int64_t n = 0; n < N; n++) {
    uint8_t *column = bytes + cpu_quantised_column(groups, n);
    pack_column(b, n, column, &rows[SCALE * columns + n], &rows[LEFT * columns + n], &rows[NORM * columns + n]);
  }
}

/* ---- prepare --------------------------------------------------------------------------------------------------- */

int cpu_screen_suits(const cpu_line *line)
{
  const cpu_tensor *a = &line->in[0], *b = &line->in[1];
  return (CPU_LANES > 4 || CPU_HAS_DOT) && line->attributes.k == 1 &&
         line->attributes.activation == TSR_ACTIVATION_NONE && a->rank == 2 && b->constant && b->dtype != TSR_I8 &&
         b->extent[1] >= LEAST_COLUMNS && b->extent[0] <= MOST_DEPTH && b->extent[0] > 0 && a->extent[0] > 0 &&
         line->attributes.alpha != 0.0f && fabsf(line->attributes.alpha) <= MOST_ALPHA;
}

int32_t cpu_prepare_screen(cpu_line *line, cpu_preparation *preparation)
{
  cpu_screen *screen = cpu_ask_memory(preparation, sizeof *screen);
  if (!screen) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  line->plan = screen;
  const cpu_tensor *b = &line->in[1];
  const int64_t K = b->extent[0], N = b->extent[1], columns = (N + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL;
  const cpu_layout layout = {
      .from = b,
      .size = bytes_size(K, N) + (uint64_t)(COLUMN_ROWS * columns) * sizeof(float),
      .pack = pack_screen,
      .matrices = 1,
  };
  int32_t status = cpu_product_init(&screen->exact, line, 0, preparation);
  if (status == TSR_OK) {
    status = cpu_product_init(&screen->quick, line, 0, preparation);
  }
  const void *packed = status == TSR_OK ? cpu_ask_packed(preparation, &layout) : NULL;
  if (!packed) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  screen->columns = (const float *)(const void *)((const char *)packed + bytes_size(K, N));
  screen->bytes = *b;
  screen->bytes.dtype = TSR_I8;
  screen->scales = (cpu_tensor){
      .data = (void *)(uintptr_t)screen->columns, .dtype = TSR_F32, .rank = 1, .extent = {N, 1, 1, 1}, .stride = {1}};
  screen->quick.b = &screen->bytes;
  screen->quick.scales = &screen->scales;
  screen->quick.packed = packed;
  screen->values = line->out[0].data;
  screen->indices = line->out[1].data;

  const cpu_product *p = &screen->quick;
  screen->row_blocks = (p->rows + CPU_BLOCK_ROWS - 1) / CPU_BLOCK_ROWS;
  const double rows = (double)p->rows / (double)screen->row_blocks;
  const double cost = CPU_PANEL_VECTORS * ((double)p->depth / CPU_GROUP * (rows + 4.0) + 10.0 * rows);
  const int64_t tasks = cpu_tasks(screen->row_blocks * p->panels, cost);
  const int64_t most = (p->panels + LEAST_PANELS - 1) / LEAST_PANELS;
  screen->groups = (tasks + screen->row_blocks - 1) / screen->row_blocks;
  screen->groups = screen->groups < most ? screen->groups : most;
  screen->quick_size = cpu_product_shared(p);
  screen->findings_size = cpu_aligned((uint64_t)(screen->groups * p->rows) * sizeof(finding));
  screen->bounds_size = cpu_aligned((uint64_t)p->rows * sizeof(row_bound));
  cpu_ask_shared(preparation, screen->quick_size + screen->findings_size + screen->bounds_size +
                                  (uint64_t)p->rows * sizeof(_Atomic float));
  const uint64_t quick = cpu_product_scratch(p), exact = cpu_product_scratch(&screen->exact);
  cpu_ask_scratch(preparation, (quick > exact ? quick : exact) + CPU_BLOCK_ROWS * CPU_PANEL * sizeof(float) +
                                   (uint64_t)(K * CPU_LANES) * sizeof(float));
  return TSR_OK;
}

/* ---- run ------------------------------------------------------------------------------------------------------- */

/* The norms behind a row's bound, a little too large rather than too small; NaN of rows with which sums may
 * overflow. In f64, where the square of no f32 vanishes. */
static row_bound bound_row(const cpu_screen *screen, const void *quick, int64_t row)
{
  const cpu_product *p = &screen->quick;
  const cpu_tensor *a = p->a;
  const float *from = (const float *)a->data + row * a->stride[0];
  const double unit = (double)cpu_quantised_unit(p, quick, row);
  double left = 0.0, whole = 0.0, norm = 0.0;
  for (int64_t k = 0; k < p->depth; k++) {
    const double value = (double)from[k * a->stride[1]], stands = unit * cpu_quantised_at(p, quick, row, k);
    left += (value - stands) * (value - stands);
    whole += stands * stands;
    norm += value * value;
  }
  const double room = norm <= MOST_NORM * MOST_NORM ? 1.001 * fabs((double)p->alpha) : NAN;
  return (row_bound){.left = (float)(sqrt(left) * room) + FLT_MIN,
                     .whole = (float)(sqrt(whole) * room) + FLT_MIN,
                     .norm = (float)(sqrt(norm) * room) + FLT_MIN};
}

/* Drops what lies below the bound; 0: the list is full all the same. */
static int make_room(finding *found, float lower)
{
  int32_t n = 0;
  for (int32_t i = 0; i < found->n; i++) {
    if (!(found->kept[i].upper < lower)) {
      found->kept[n++] = found->kept[i];
    }
  }
  found->n = n;
  return n < CANDIDATES;
}

/* One row of a panel: c holds what the bytes give. */
static void scan(const cpu_screen *screen, finding *found, const row_bound *bound, const float *c, int64_t columns,
                 int64_t from)
{
  const int64_t all = screen->quick.panels * CPU_PANEL;
  const float *left = screen->columns + LEFT * all + from, *norm = screen->columns + NORM * all + from;
  /* Sums in f32, here and in the whole product, each K roundings long; the factor covers both. */
  const float roundings = bound->norm * (float)(screen->quick.depth + 16) * 0x1p-22f;
  const cpu_f32v of_norm = cpu_splat(bound->left + roundings), of_left = cpu_splat(bound->whole);
  for (int64_t i = 0; i < columns && found->n >= 0; i += CPU_LANES) {
    const int64_t n = columns - i < CPU_LANES ? columns - i : CPU_LANES;
    const cpu_f32v x = n == CPU_LANES ? cpu_load(c + i) : cpu_load_part(c + i, n, -INFINITY);
    const cpu_f32v size = cpu_min(cpu_abs(x), cpu_splat(FLT_MAX)); /* -inf is sure: it comes from the bias */
    cpu_f32v error = cpu_fma(of_norm, cpu_load(norm + i), cpu_splat(FLT_MIN));
    error = cpu_fma(of_left, cpu_load(left + i), error);
    error = cpu_fma(cpu_splat(0x1p-20f), size, error);
    const cpu_f32v upper = x + error;
    const uint32_t wanted = (uint32_t)((UINT64_C(1) << n) - 1);
    uint32_t lanes = cpu_mask_bits(~(upper < cpu_splat(found->lower))) & wanted;
    if (lanes == 0) {
      continue;
    }
    float uppers[CPU_LANES], lowers[CPU_LANES];
    cpu_store(uppers, upper);
    cpu_store(lowers, x - error);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int32_t lane = __builtin_ctz(lanes);
      if (!(uppers[lane] <= 1e30f)) {
        found->n = -1; /* not finite, or of a bias so large that the sum may overflow otherwise */
        return;
      }
      if (uppers[lane] < found->lower) {
        continue; /* by one found beside it */
      }
      found->lower = lowers[lane] > found->lower ? lowers[lane] : found->lower;
      if (found->n == CANDIDATES && !make_room(found, found->lower)) {
        found->n = -1;
        return;
      }
      found->kept[found->n++] = (candidate){.upper = uppers[lane], .index = (int32_t)(from + i + lane)};
    }
  }
}

static void panel_task(const void *context, int64_t task, void *scratch)
{
  const sharing *s = context;
  const cpu_screen *screen = s->screen;
  const cpu_product *p = &screen->quick;
  const int64_t group = task % screen->groups, block = task / screen->groups;
  const int64_t first = cpu_first(p->rows, screen->row_blocks, block);
  const int64_t rows = cpu_first(p->rows, screen->row_blocks, block + 1) - first;
  const int64_t end = cpu_first(p->panels, screen->groups, group + 1);
  finding *found = s->findings + group * p->rows + first;
  float *c = scratch;
  for (int64_t i = 0; i < rows; i++) {
    found[i].lower = -INFINITY;
    found[i].n = 0;
  }
  for (int64_t panel = cpu_first(p->panels, screen->groups, group); panel < end; panel++) {
    cpu_product_panel(p, s->quick, 0, first, rows, panel, c, CPU_PANEL, c + CPU_BLOCK_ROWS * CPU_PANEL);
    for (int64_t i = 0; i < rows; i++) {
      const float known = atomic_load_explicit(&s->lowers[first + i], memory_order_relaxed);
      found[i].lower = known > found[i].lower ? known : found[i].lower;
      scan(screen, &found[i], &s->bounds[first + i], c + i * CPU_PANEL, cpu_panel_columns(p, panel), panel * CPU_PANEL);
      if (found[i].lower > known) {
        atomic_store_explicit(&s->lowers[first + i], found[i].lower, memory_order_relaxed);
      }
    }
  }
}

/* 1 if value a of a column with index i stands before b of j: larger, NaN larger than all, then the lower index. */
static int before(float a, int32_t i, float b, int32_t j)
{
  if (a != a || b != b) {
    return a != a && (b == b || i < j);
  }
  return a > b || (a == b && i < j);
}

/* The columns of a whole row, panel by panel. */
static candidate search_whole(const sharing *s, int64_t row, float *scratch)
{
  const cpu_product *p = &s->screen->exact;
  candidate best = {.upper = -INFINITY, .index = INT32_MAX};
  for (int64_t panel = 0; panel < p->panels; panel++) {
    cpu_product_panel(p, NULL, 0, row, 1, panel, scratch, CPU_PANEL, scratch + CPU_PANEL);
    for (int32_t i = 0; i < cpu_panel_columns(p, panel); i++) {
      const int32_t index = (int32_t)(panel * CPU_PANEL) + i;
      if (before(scratch[i], index, best.upper, best.index)) {
        best = (candidate){.upper = scratch[i], .index = index};
      }
    }
  }
  return best;
}

/* The values of up to CPU_LANES columns: sums in the order of k, as in a panel. */
static void compute(const sharing *s, int64_t row, const int32_t *indices, int32_t n, float *values, float *columns)
{
  const cpu_product *p = &s->screen->exact;
  const float *a = (const float *)p->a->data + row * p->a->stride[0];
  cpu_f32v sum = cpu_splat(0.0f);
  for (int32_t i = 0; i < n; i++) {
    const int64_t at = indices[i] * p->b->stride[1];
    cpu_widen_row(p->b->dtype, (const char *)p->b->data + at * cpu_element_size(p->b->dtype), p->b->stride[0], p->depth,
                  columns + i * p->depth);
  }
  for (int64_t k = 0; k < p->depth; k++) {
    float w[CPU_LANES] = {0};
    for (int32_t i = 0; i < n; i++) {
      w[i] = columns[i * p->depth + k];
    }
    sum = cpu_fma(cpu_splat(a[k * p->a->stride[1]]), cpu_load(w), sum);
  }
  float sums[CPU_LANES];
  cpu_store(sums, sum);
  for (int32_t i = 0; i < n; i++) {
    values[i] = sums[i];
    cpu_product_finish(p, 0, row, indices[i], 1, &values[i], &values[i]);
  }
}

/* The best of these columns and of what was best before them. */
static candidate best_of(const sharing *s, int64_t row, const int32_t *indices, int32_t n, candidate best,
                         float *scratch)
{
  float values[CPU_LANES];
  compute(s, row, indices, n, values, scratch);
  for (int32_t i = 0; i < n; i++) {
    if (before(values[i], indices[i], best.upper, best.index)) {
      best = (candidate){.upper = values[i], .index = indices[i]};
    }
  }
  return best;
}

static candidate search_few(const sharing *s, int64_t row, float *scratch)
{
  const cpu_screen *screen = s->screen;
  const float lower = atomic_load_explicit(&s->lowers[row], memory_order_relaxed);
  candidate best = {.upper = -INFINITY, .index = INT32_MAX};
  int32_t indices[CPU_LANES], n = 0;
  for (int64_t group = 0; group < screen->groups; group++) {
    const finding *found = &s->findings[group * screen->quick.rows + row];
    for (int32_t i = 0; i < found->n; i++) {
      if (found->kept[i].upper < lower) {
        continue;
      }
      indices[n++] = found->kept[i].index;
      if (n == CPU_LANES) {
        best = best_of(s, row, indices, n, best, scratch);
        n = 0;
      }
    }
  }
  return best_of(s, row, indices, n, best, scratch);
}

static void search_row(const sharing *s, int64_t row, float *scratch)
{
  const cpu_screen *screen = s->screen;
  int whole = !(atomic_load_explicit(&s->lowers[row], memory_order_relaxed) > -INFINITY);
  for (int64_t group = 0; group < screen->groups && !whole; group++) {
    whole = s->findings[group * screen->quick.rows + row].n < 0;
  }
  const candidate best = whole ? search_whole(s, row, scratch) : search_few(s, row, scratch);
  s->findings[row].kept[0] = best; /* of group 0: looked at above, and no other row's */
}

static void rows_task(const void *context, int64_t task, void *scratch)
{
  const sharing *s = context;
  const int64_t rows = s->screen->quick.rows, end = cpu_first(rows, s->row_tasks, task + 1);
  for (int64_t row = cpu_first(rows, s->row_tasks, task); row < end; row++) {
    search_row(s, row, scratch);
  }
}

void cpu_run_screen(const cpu_line *line, cpu_team *team)
{
  const cpu_screen *screen = line->plan;
  char *shared = cpu_shared(team);
  char *findings = shared + screen->quick_size;
  const int64_t rows = screen->quick.rows;
  const sharing s = {
      .screen = screen,
      .quick = shared,
      .findings = (finding *)(void *)findings,
      .bounds = (row_bound *)(void *)(findings + screen->findings_size),
      .lowers = (_Atomic float *)(void *)(findings + screen->findings_size + screen->bounds_size),
      .row_tasks = cpu_tasks(rows, (double)screen->quick.depth * 20.0),
  };
  cpu_product_begin(&screen->quick, 0, team, shared);
  for (int64_t row = 0; row < rows; row++) {
    s.bounds[row] = bound_row(screen, shared, row);
    atomic_init(&s.lowers[row], -INFINITY);
  }
  cpu_parallel(team, screen->row_blocks * screen->groups, panel_task, &s);
  cpu_parallel(team, s.row_tasks, rows_task, &s);
  /* Only now: the results may lie where a does, which later lines do not need. */
  for (int64_t row = 0; row < rows; row++) {
    screen->values[row] = s.findings[row].kept[0].upper;
    screen->indices[row] = s.findings[row].kept[0].index;
  }
}
