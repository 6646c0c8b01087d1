/* SPDX-License-Identifier: Apache-2.0 */
#include "product_blocks.h"

#include "product_tile.h"

/* Elements of b and of a that are laid out at a time, at most: 512 KiB of each, which stay in a core's cache of the
 * second level while they are read. FEW_PANELS: so many columns are taken together before the depth is cut. */
enum { PART_OF_B = 1 << 17, PART_OF_A = 1 << 17, FEW_PANELS = 8 };

/* Multiplications below which laying out first costs more in handing out than it saves. */
enum { LARGE = 1 << 22 };

/* What is laid out, and after a meeting of the team multiplied. */
typedef struct part {
  const cpu_blocks *blocks;
  int64_t matrix;
  int64_t panel, panels;
  int64_t k0, depth;
  int64_t row, rows, row_blocks;
  int64_t groups;           /* of panels, in the product's tasks */
  float *b;                 /* [panels][depth][CPU_PANEL] */
  float *a;                 /* [depth][column_step] or NULL: taken as it lies */
  int64_t b_tasks, a_tasks; /* that lay out */
  int64_t multiply_tasks;
} part;

/* A part is multiplied while the next one is laid out. */
typedef struct job {
  part now, next;
} job;

static int64_t divide_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static int64_t lesser(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

int32_t cpu_blocks_pay(const cpu_product *p)
{
  /* A single panel takes the columns of a as they lie. */
  const int32_t shared = cpu_rows_lie_ready(p->a) ? p->rows > CPU_BLOCK_ROWS : p->panels > 1;
  return shared && p->b->dtype != TSR_I8 && p->rows > 0 && p->depth > 0 && p->rows * p->columns >= LARGE / p->depth;
}

/* 1 if columns of a are better taken as they lie: the steps of k so near to each other, and met by so few panels, that
 * laying them out takes longer than it saves. */
static int32_t columns_stay_near(const cpu_product *p)
{
  enum { NEAR = 256, FEW = 4 };
  return cpu_columns_lie_ready(p->a) && p->a->stride[p->axis + 1] <= NEAR && p->panels <= FEW;
}

void cpu_blocks_init(cpu_blocks *blocks, const cpu_product *product, float *y)
{
  const cpu_product *p = product;
  const int64_t few = lesser(p->panels, FEW_PANELS), K = p->depth;
  const int64_t most = PART_OF_B / (few * CPU_PANEL) / CPU_BLOCK_DEPTH * CPU_BLOCK_DEPTH;
  *blocks = (cpu_blocks){.product = p, .y = y, .depth_step = divide_up(K, divide_up(K, most))};
  blocks->depth_parts = divide_up(K, blocks->depth_step);
  const int64_t panels = lesser(p->panels, PART_OF_B / (blocks->depth_step * CPU_PANEL));
  blocks->panel_parts = divide_up(p->panels, panels);
  blocks->size_of_b = cpu_aligned((uint64_t)(panels * blocks->depth_step * CPU_PANEL) * sizeof(float));
  blocks->row_parts = 1;
  blocks->kind_of_a = cpu_rows_lie_ready(p->a) ? CPU_A_ROWS : CPU_A_COLUMNS;
  if (blocks->kind_of_a == CPU_A_COLUMNS && !columns_stay_near(p)) {
    blocks->row_parts = divide_up(p->rows, lesser(p->rows, PART_OF_A / blocks->depth_step));
    blocks->column_step = cpu_column_step(divide_up(p->rows, blocks->row_parts));
  }
}

/* Few panels have few tasks: rows are cut finer, but no finer than pays for reading b again. */
static int64_t row_blocks_of(const cpu_blocks *blocks, int64_t rows)
{
  enum { TASKS = 16, LEAST_ROWS = 48 };
  const int64_t least = divide_up(rows, CPU_BLOCK_ROWS), most = divide_up(rows, LEAST_ROWS);
  const int64_t wanted = lesser(divide_up(TASKS, blocks->product->panels), most);
  return least > wanted ? least : wanted;
}

static int64_t parts_of(const cpu_blocks *blocks)
{
  return blocks->product->batch * blocks->panel_parts * blocks->depth_parts * blocks->row_parts;
}

static uint64_t size_of_a(const cpu_blocks *blocks)
{
  return (uint64_t)(blocks->depth_step * blocks->column_step) * sizeof(float);
}

/* Parts that are in memory at a time. */
static uint64_t buffers_of(const cpu_blocks *blocks)
{
  return parts_of(blocks) > 1 ? 2 : 1;
}

uint64_t cpu_blocks_shared(const cpu_blocks *blocks)
{
  return (blocks->size_of_b + size_of_a(blocks)) * buffers_of(blocks);
}

/* ---- laying out ------------------------------------------------------------------------------------------------ */

static void lay_out_b(const part *w, int64_t unit)
{
  const cpu_product *p = w->blocks->product;
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH), panel = unit / n_blocks;
  const int64_t k = unit % n_blocks * CPU_BLOCK_DEPTH, depth = lesser(w->depth - k, CPU_BLOCK_DEPTH);
  cpu_gather_block(p->b, cpu_at(p->b, p->axis, w->matrix), w->k0 + k, depth, (w->panel + panel) * CPU_PANEL,
                   cpu_panel_columns(p, w->panel + panel), w->b + (panel * w->depth + k) * CPU_PANEL);
}

static void lay_out_a(const part *w, int64_t k, int64_t depth)
{
  const cpu_tensor *a = w->blocks->product->a;
  const int32_t axis = w->blocks->product->axis;
  const int64_t at = cpu_at(a, axis, w->matrix) + w->row * a->stride[axis] + (w->k0 + k) * a->stride[axis + 1];
  cpu_lay_out_columns(a, at, w->rows, depth, w->a + k * w->blocks->column_step, w->blocks->column_step);
}

static void lay_out(const part *w, int64_t task)
{
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH);
  if (task < w->b_tasks) {
    const int64_t units = w->panels * n_blocks, end = cpu_first(units, w->b_tasks, task + 1);
    for (int64_t unit = cpu_first(units, w->b_tasks, task); unit < end; unit++) {
      lay_out_b(w, unit);
    }
    return;
  }
  const int64_t k = cpu_first(w->depth, w->a_tasks, task - w->b_tasks);
  lay_out_a(w, k, cpu_first(w->depth, w->a_tasks, task - w->b_tasks + 1) - k);
}

/* ---- multiplying ----------------------------------------------------------------------------------------------- */

static void multiply(const part *w, int64_t task)
{
  const cpu_product *p = w->blocks->product;
  const int64_t row_block = task / w->groups, group = task % w->groups;
  const int64_t first = cpu_first(w->rows, w->row_blocks, row_block);
  const int64_t row = w->row + first, rows = cpu_first(w->rows, w->row_blocks, row_block + 1) - first;
  const int64_t begin = cpu_first(w->panels, w->groups, group), end = cpu_first(w->panels, w->groups, group + 1);
  const int64_t column = (w->panel + begin) * CPU_PANEL, last = lesser((w->panel + end) * CPU_PANEL, p->columns);
  const int64_t m_step = p->a->stride[p->axis], k_step = p->a->stride[p->axis + 1];
  const int32_t a_rows = w->blocks->kind_of_a == CPU_A_ROWS;
  const float *from = (const float *)p->a->data + cpu_at(p->a, p->axis, w->matrix) + row * m_step + w->k0 * k_step;
  cpu_rows_of_a a = {.rows = rows, .kind = w->blocks->kind_of_a, .step = a_rows ? m_step : k_step};
  float *y = w->blocks->y + (w->matrix * p->rows + row) * p->columns;
  if (w->a) {
    from = w->a + first;
    a.step = w->blocks->column_step;
  }
  for (int64_t k = 0; k < w->depth; k += CPU_BLOCK_DEPTH) {
    a.from = from + k * (a_rows ? 1 : a.step);
    for (int64_t panel = begin; panel < end; panel++) {
      cpu_multiply_block(&a, TSR_F32, w->b + (panel * w->depth + k) * CPU_PANEL, lesser(w->depth - k, CPU_BLOCK_DEPTH),
                         y + (w->panel + panel) * CPU_PANEL, p->columns, cpu_panel_columns(p, w->panel + panel),
                         w->k0 + k > 0);
    }
  }
  for (int64_t i = 0; i < rows && w->k0 + w->depth == p->depth; i++) {
    cpu_product_finish(p, w->matrix, row + i, column, last - column, y + i * p->columns + column);
  }
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static part part_at(const cpu_blocks *blocks, char *shared, int64_t index)
{
  const cpu_product *p = blocks->product;
  const int64_t row = index % blocks->row_parts, of_b = index / blocks->row_parts;
  const int64_t depth = of_b % blocks->depth_parts, panel = of_b / blocks->depth_parts % blocks->panel_parts;
  part w = {
      .blocks = blocks,
      .matrix = of_b / blocks->depth_parts / blocks->panel_parts,
      .panel = cpu_first(p->panels, blocks->panel_parts, panel),
      .k0 = depth * blocks->depth_step,
      .row = cpu_first(p->rows, blocks->row_parts, row),
      .b = (float *)(void *)(shared + (of_b % 2 ? blocks->size_of_b : 0)),
  };
  w.panels = cpu_first(p->panels, blocks->panel_parts, panel + 1) - w.panel;
  w.depth = lesser(p->depth - w.k0, blocks->depth_step);
  w.rows = cpu_first(p->rows, blocks->row_parts, row + 1) - w.row;
  w.row_blocks = row_blocks_of(blocks, w.rows);
  /* A block of b takes three times as long to come from memory as to move. */
  const int64_t n_blocks = divide_up(w.depth, CPU_BLOCK_DEPTH);
  if (row == 0) {
    w.b_tasks = cpu_tasks(w.panels * n_blocks, 12.0 * CPU_BLOCK_DEPTH * CPU_PANEL_VECTORS);
  }
  if (blocks->column_step > 0) {
    w.a = (float *)(void *)(shared + buffers_of(blocks) * blocks->size_of_b + (index % 2 ? size_of_a(blocks) : 0));
    w.a_tasks = cpu_tasks(w.depth, 12.0 * (double)w.rows / CPU_LANES);
  }
  const double cost = (double)w.depth * CPU_PANEL_VECTORS * ((double)w.rows / (double)w.row_blocks);
  w.groups = lesser(divide_up(cpu_tasks(w.row_blocks * w.panels, cost), w.row_blocks), w.panels);
  w.multiply_tasks = w.row_blocks * w.groups;
  return w;
}

static void job_task(const void *context, int64_t task, void *scratch)
{
  const job *both = context;
  (void)scratch;
  if (task < both->now.multiply_tasks) {
    multiply(&both->now, task);
  } else {
    lay_out(&both->next, task - both->now.multiply_tasks);
  }
}

void cpu_blocks_run(const cpu_blocks *blocks, cpu_team *team)
{
  const int64_t n_parts = parts_of(blocks);
  job both = {.next = part_at(blocks, cpu_shared(team), 0)};
  for (int64_t i = 0; i <= n_parts; i++) {
    cpu_parallel(team, both.now.multiply_tasks + both.next.b_tasks + both.next.a_tasks, job_task, &both);
    both.now = both.next;
    both.next = i + 1 < n_parts ? part_at(blocks, cpu_shared(team), i + 1) : (part){0};
  }
}
