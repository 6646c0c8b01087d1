/* SPDX-License-Identifier: Apache-2.0 */
#include "product_blocks.h"

#include "product_tile.h"

/* Elements of b that are laid out at a time, at most: 512 KiB, which stay in a core's cache of the second level while
 * they are read. FEW_PANELS: so many columns are taken together before the depth is cut. */
enum { PART = 1 << 17, FEW_PANELS = 8 };

/* In which a part is multiplied, at least, where it has so many. */
enum { TASKS = 16 };

/* Multiplications below which laying out first costs more in handing out than it saves. */
enum { LARGE = 1 << 22 };

/* What is laid out, and after a meeting of the team multiplied. */
typedef struct part {
  const cpu_blocks *blocks;
  float *b; /* [panels][depth][CPU_PANEL] */
  int64_t matrix;
  int64_t panel, panels;
  int64_t k0, depth;
  int64_t groups; /* of panels */
  int64_t lay_out_tasks, multiply_tasks;
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

void cpu_blocks_init(cpu_blocks *blocks, const cpu_product *product, float *y)
{
  /* NEAR: steps of k so near to each other that laying them out takes longer than it saves. LEAST_ROWS: for fewer it
   * does not pay to read b again. */
  enum { NEAR = 256, LEAST_ROWS = 48 };
  const cpu_product *p = product;
  const int32_t rows_ready = cpu_rows_lie_ready(p->a), columns_ready = cpu_columns_lie_ready(p->a);
  const int64_t few = lesser(p->panels, FEW_PANELS), K = p->depth;
  const int64_t most = PART / (few * CPU_PANEL);
  *blocks = (cpu_blocks){
      .product = p,
      .y = y,
      .depth_step = divide_up(K, divide_up(K, most)),
      .kind_of_a = rows_ready ? CPU_A_ROWS : CPU_A_COLUMNS,
      .lay_out_a = !rows_ready && !(columns_ready && p->a->stride[p->axis + 1] <= NEAR),
  };
  blocks->depth_parts = divide_up(K, blocks->depth_step);
  const int64_t panels = lesser(p->panels, PART / (blocks->depth_step * CPU_PANEL));
  blocks->panel_parts = divide_up(p->panels, panels);
  blocks->size_of_b = cpu_aligned((uint64_t)(panels * blocks->depth_step * CPU_PANEL) * sizeof(float));
  /* Who lays out rows multiplies them with all panels. */
  const int64_t wanted = blocks->lay_out_a ? TASKS : divide_up(TASKS, panels);
  const int64_t least = divide_up(p->rows, CPU_BLOCK_ROWS), finer = lesser(wanted, divide_up(p->rows, LEAST_ROWS));
  blocks->row_blocks = finer > least ? finer : least;
}

static int64_t parts_of(const cpu_blocks *blocks)
{
  return blocks->product->batch * blocks->panel_parts * blocks->depth_parts;
}

uint64_t cpu_blocks_shared(const cpu_blocks *blocks)
{
  return blocks->size_of_b * (parts_of(blocks) > 1 ? 2 : 1);
}

static void lay_out(const part *w, int64_t task)
{
  const cpu_product *p = w->blocks->product;
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH), units = w->panels * n_blocks;
  const int64_t end = cpu_first(units, w->lay_out_tasks, task + 1);
  for (int64_t unit = cpu_first(units, w->lay_out_tasks, task); unit < end; unit++) {
    const int64_t panel = unit / n_blocks, k = unit % n_blocks * CPU_BLOCK_DEPTH;
    cpu_gather_block(p->b, cpu_at(p->b, p->axis, w->matrix), w->k0 + k, lesser(w->depth - k, CPU_BLOCK_DEPTH),
                     (w->panel + panel) * CPU_PANEL, cpu_panel_columns(p, w->panel + panel),
                     w->b + (panel * w->depth + k) * CPU_PANEL);
  }
}

static void multiply(const part *w, int64_t task, float *room)
{
  const cpu_blocks *blocks = w->blocks;
  const cpu_product *p = blocks->product;
  const int64_t row = cpu_first(p->rows, blocks->row_blocks, task / w->groups), group = task % w->groups;
  const int64_t rows = cpu_first(p->rows, blocks->row_blocks, task / w->groups + 1) - row;
  const int64_t begin = w->panel + cpu_first(w->panels, w->groups, group);
  const int64_t end = w->panel + cpu_first(w->panels, w->groups, group + 1);
  const int64_t m_step = p->a->stride[p->axis], k_step = p->a->stride[p->axis + 1];
  const int64_t a_at = cpu_at(p->a, p->axis, w->matrix) + row * m_step;
  float *y = blocks->y + (w->matrix * p->rows + row) * p->columns;
  for (int64_t k = 0; k < w->depth; k += CPU_BLOCK_DEPTH) {
    const int64_t depth = lesser(w->depth - k, CPU_BLOCK_DEPTH), at = a_at + (w->k0 + k) * k_step;
    cpu_rows_of_a a = {.from = (const float *)p->a->data + at, .rows = rows, .kind = blocks->kind_of_a};
    a.step = a.kind == CPU_A_ROWS ? m_step : k_step;
    if (blocks->lay_out_a) {
      a = cpu_lay_out_columns(p->a, at, rows, depth, room);
    }
    for (int64_t panel = begin; panel < end; panel++) {
      cpu_multiply_block(&a, TSR_F32, w->b + ((panel - w->panel) * w->depth + k) * CPU_PANEL, depth,
                         y + panel * CPU_PANEL, p->columns, cpu_panel_columns(p, panel), w->k0 + k > 0);
    }
  }
  const int64_t column = begin * CPU_PANEL, columns = lesser(end * CPU_PANEL, p->columns) - column;
  for (int64_t i = 0; i < rows && w->k0 + w->depth == p->depth; i++) {
    float *own = y + i * p->columns + column;
    cpu_product_finish(p, w->matrix, row + i, column, columns, own, own);
  }
}

static part part_at(const cpu_blocks *blocks, char *shared, int64_t index)
{
  const cpu_product *p = blocks->product;
  const int64_t panel = index / blocks->depth_parts % blocks->panel_parts;
  part w = {
      .blocks = blocks,
      .matrix = index / blocks->depth_parts / blocks->panel_parts,
      .panel = cpu_first(p->panels, blocks->panel_parts, panel),
      .k0 = index % blocks->depth_parts * blocks->depth_step,
      .b = (float *)(void *)(shared + (index % 2 ? blocks->size_of_b : 0)),
  };
  w.panels = cpu_first(p->panels, blocks->panel_parts, panel + 1) - w.panel;
  w.depth = lesser(p->depth - w.k0, blocks->depth_step);
  /* A block of b takes three times as long to come from memory as to move. */
  w.lay_out_tasks =
      cpu_tasks(w.panels * divide_up(w.depth, CPU_BLOCK_DEPTH), 12.0 * CPU_BLOCK_DEPTH * CPU_PANEL_VECTORS);
  const double rows = (double)p->rows / (double)blocks->row_blocks;
  const int64_t tasks = cpu_tasks(blocks->row_blocks * w.panels, (double)w.depth * CPU_PANEL_VECTORS * rows);
  w.groups = lesser(divide_up(blocks->lay_out_a ? lesser(tasks, TASKS) : tasks, blocks->row_blocks), w.panels);
  w.multiply_tasks = blocks->row_blocks * w.groups;
  return w;
}

static void job_task(const void *context, int64_t task, void *scratch)
{
  const job *both = context;
  if (task < both->now.multiply_tasks) {
    multiply(&both->now, task, scratch);
  } else {
    lay_out(&both->next, task - both->now.multiply_tasks);
  }
}

void cpu_blocks_run(const cpu_blocks *blocks, cpu_team *team)
{
  const int64_t n_parts = parts_of(blocks);
  job both = {.next = part_at(blocks, cpu_shared(team), 0)};
  for (int64_t i = 0; i <= n_parts; i++) {
    cpu_parallel(team, both.now.multiply_tasks + both.next.lay_out_tasks, job_task, &both);
    both.now = both.next;
    both.next = i + 1 < n_parts ? part_at(blocks, cpu_shared(team), i + 1) : (part){0};
  }
}
