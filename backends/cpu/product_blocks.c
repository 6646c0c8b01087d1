/* SPDX-License-Identifier: Apache-2.0 */
#include "product_blocks.h"

#include "product_tile.h"

/* Elements of b and of a that are laid out at a time, at most: 512 KiB and 1 MiB, which stay in a core's cache of the
 * second level while they are read. FEW_PANELS: so many columns are taken together before the depth is cut. */
enum { PART_OF_B = 1 << 17, PART_OF_A = 1 << 18, FEW_PANELS = 8 };

/* Multiplications below which laying out first costs more in handing out than it saves. */
enum { LARGE = 1 << 22 };

/* What is laid out and multiplied between two meetings of the team. */
typedef struct part {
  const cpu_blocks *blocks;
  int64_t matrix;
  int64_t panel, panels;
  int64_t k0, depth;
  int64_t row, rows, row_blocks;
  int64_t groups;           /* of panels, in the product's tasks */
  float *b;                 /* [panels][depth][CPU_PANEL] */
  float *a;                 /* [row_blocks][tiles] or NULL: taken as it lies */
  int64_t b_tasks, a_tasks; /* that lay out */
} part;

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
  const cpu_product *p = product;
  const int64_t few = lesser(p->panels, FEW_PANELS), K = p->depth;
  const int64_t most = PART_OF_B / (few * CPU_PANEL) / CPU_BLOCK_DEPTH * CPU_BLOCK_DEPTH;
  const int64_t step = divide_up(divide_up(K, divide_up(K, most)), CPU_BLOCK_DEPTH) * CPU_BLOCK_DEPTH;
  *blocks = (cpu_blocks){.product = p, .y = y, .depth_step = lesser(K, step)};
  blocks->depth_parts = divide_up(K, blocks->depth_step);
  const int64_t panels = lesser(p->panels, PART_OF_B / (blocks->depth_step * CPU_PANEL));
  blocks->panel_parts = divide_up(p->panels, panels);
  blocks->size_of_b = cpu_aligned((uint64_t)(panels * blocks->depth_step * CPU_PANEL) * sizeof(float));
  blocks->row_parts = 1;
  if (!cpu_rows_lie_ready(p->a)) {
    blocks->row_parts = divide_up(p->rows, lesser(p->rows, PART_OF_A / blocks->depth_step));
    blocks->tile_step = cpu_tile_step(blocks->depth_step);
  }
}

static int64_t tiles_of(int64_t rows, int64_t row_blocks)
{
  return cpu_tile_count(divide_up(rows, row_blocks));
}

uint64_t cpu_blocks_shared(const cpu_blocks *blocks)
{
  const int64_t rows = divide_up(blocks->product->rows, blocks->row_parts),
                row_blocks = divide_up(rows, CPU_BLOCK_ROWS);
  const int64_t tiles = blocks->tile_step > 0 ? row_blocks * tiles_of(rows, row_blocks) : 0;
  return blocks->size_of_b + (uint64_t)(tiles * blocks->tile_step) * sizeof(float);
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

static float *tiles_at(const part *w, int64_t row_block)
{
  return w->a + row_block * tiles_of(w->rows, w->row_blocks) * w->blocks->tile_step;
}

static void lay_out_a(const part *w, int64_t unit)
{
  const cpu_tensor *a = w->blocks->product->a;
  const int32_t axis = w->blocks->product->axis;
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH), row_block = unit / n_blocks;
  const int64_t k = unit % n_blocks * CPU_BLOCK_DEPTH, depth = lesser(w->depth - k, CPU_BLOCK_DEPTH);
  const int64_t first = cpu_first(w->rows, w->row_blocks, row_block);
  const int64_t at = cpu_at(a, axis, w->matrix) + (w->row + first) * a->stride[axis] + w->k0 * a->stride[axis + 1];
  cpu_lay_out_rows(a, at, cpu_first(w->rows, w->row_blocks, row_block + 1) - first, k, depth, tiles_at(w, row_block),
                   w->blocks->tile_step);
}

static void lay_out_task(const void *context, int64_t task, void *scratch)
{
  const part *w = context;
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH);
  (void)scratch;
  if (task < w->b_tasks) {
    const int64_t units = w->panels * n_blocks, end = cpu_first(units, w->b_tasks, task + 1);
    for (int64_t unit = cpu_first(units, w->b_tasks, task); unit < end; unit++) {
      lay_out_b(w, unit);
    }
    return;
  }
  const int64_t units = w->row_blocks * n_blocks, end = cpu_first(units, w->a_tasks, task - w->b_tasks + 1);
  for (int64_t unit = cpu_first(units, w->a_tasks, task - w->b_tasks); unit < end; unit++) {
    lay_out_a(w, unit);
  }
}

/* ---- multiplying ----------------------------------------------------------------------------------------------- */

static void multiply_task(const void *context, int64_t task, void *scratch)
{
  const part *w = context;
  const cpu_product *p = w->blocks->product;
  const int64_t row_block = task / w->groups, group = task % w->groups;
  const int64_t first = cpu_first(w->rows, w->row_blocks, row_block);
  const int64_t row = w->row + first, rows = cpu_first(w->rows, w->row_blocks, row_block + 1) - first;
  const int64_t begin = cpu_first(w->panels, w->groups, group), end = cpu_first(w->panels, w->groups, group + 1);
  const int64_t column = (w->panel + begin) * CPU_PANEL, last = lesser((w->panel + end) * CPU_PANEL, p->columns);
  const int64_t a_at = cpu_at(p->a, p->axis, w->matrix) + row * p->a->stride[p->axis];
  cpu_rows_of_a a = {.rows = rows, .from = (const float *)p->a->data + a_at + w->k0, .step = p->a->stride[p->axis]};
  float *y = w->blocks->y + (w->matrix * p->rows + row) * p->columns;
  (void)scratch;
  if (w->a) {
    a = (cpu_rows_of_a){
        .rows = rows, .from = tiles_at(w, row_block), .step = w->blocks->tile_step, .kind = CPU_A_TILES};
  }
  for (int64_t k = 0; k < w->depth; k += CPU_BLOCK_DEPTH) {
    for (int64_t panel = begin; panel < end; panel++) {
      cpu_multiply_block(&a, k, TSR_F32, w->b + (panel * w->depth + k) * CPU_PANEL,
                         lesser(w->depth - k, CPU_BLOCK_DEPTH), y + (w->panel + panel) * CPU_PANEL, p->columns,
                         cpu_panel_columns(p, w->panel + panel), w->k0 > 0);
    }
  }
  for (int64_t i = 0; i < rows && w->k0 + w->depth == p->depth; i++) {
    cpu_product_finish(p, w->matrix, row + i, column, last - column, y + i * p->columns + column);
  }
}

static void run_rows(part *w, cpu_team *team)
{
  const cpu_blocks *blocks = w->blocks;
  const int64_t n_blocks = divide_up(w->depth, CPU_BLOCK_DEPTH);
  const int64_t units = w->panels * n_blocks;
  for (int64_t i = 0; i < blocks->row_parts; i++) {
    w->row = cpu_first(blocks->product->rows, blocks->row_parts, i);
    w->rows = cpu_first(blocks->product->rows, blocks->row_parts, i + 1) - w->row;
    w->row_blocks = divide_up(w->rows, CPU_BLOCK_ROWS);
    /* Per unit: about one vector instruction for each vector moved, and what memory takes. */
    w->b_tasks = i == 0 ? cpu_tasks(units, 4.0 * CPU_BLOCK_DEPTH * CPU_PANEL_VECTORS) : 0;
    w->a_tasks = w->a ? cpu_tasks(w->row_blocks * n_blocks, 4.0 * CPU_BLOCK_DEPTH * CPU_BLOCK_ROWS / CPU_TILE_ROWS) : 0;
    if (w->b_tasks + w->a_tasks > 0) {
      cpu_parallel(team, w->b_tasks + w->a_tasks, lay_out_task, w);
    }
    const double cost = (double)w->depth * CPU_PANEL_VECTORS * ((double)w->rows / (double)w->row_blocks);
    const int64_t tasks = cpu_tasks(w->row_blocks * w->panels, cost);
    w->groups = lesser(divide_up(tasks, w->row_blocks), w->panels);
    cpu_parallel(team, w->row_blocks * w->groups, multiply_task, w);
  }
}

void cpu_blocks_run(const cpu_blocks *blocks, cpu_team *team)
{
  const cpu_product *p = blocks->product;
  char *shared = cpu_shared(team);
  part w = {.blocks = blocks, .b = (float *)(void *)shared};
  if (blocks->tile_step > 0) {
    w.a = (float *)(void *)(shared + blocks->size_of_b);
  }
  for (w.matrix = 0; w.matrix < p->batch; w.matrix++) {
    for (int64_t i = 0; i < blocks->panel_parts; i++) {
      w.panel = cpu_first(p->panels, blocks->panel_parts, i);
      w.panels = cpu_first(p->panels, blocks->panel_parts, i + 1) - w.panel;
      for (w.k0 = 0; w.k0 < p->depth; w.k0 += blocks->depth_step) {
        w.depth = lesser(p->depth - w.k0, blocks->depth_step);
        run_rows(&w, team);
      }
    }
  }
}
