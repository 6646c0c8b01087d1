/* SPDX-License-Identifier: Apache-2.0
 *
 * y[m, n] = activation(alpha * sum_k a[m, k] b[k, n] + bias[m, n]), for each matrix of the leading axes.
 *
 * Large products in f32 whose b changes from run to run go to the BLAS, tile by tile, where there is one (blas.h); or
 * they are laid out and multiplied part by part. All others are made panel by panel, or by some panels at a time on
 * matrix units.
 */
#include "blas.h"
#include "matrix.h"
#include "product_bf16.h"
#include "product_blocks.h"

enum { TILE_ROWS = 256, TILE_COLUMNS = 512, BLAS_ROWS = 128 };

typedef struct matmul {
  cpu_product product;
  const cpu_blas *blas; /* NULL: panels */
  cpu_blocks blocks;    /* of it: product is NULL if they do not pay */
  int64_t row_unit;     /* rows that no block divides */
  int64_t row_blocks;   /* or tiles, of a matrix */
  int64_t column_groups;
  int64_t n_tasks;
  float *y;
} matmul;

typedef struct panels {
  const matmul *plan;
  const void *shared;
  int64_t first, rows; /* of each matrix */
} panels;

/* What a BLAS takes: one of the last two strides is 1. */
static int fits_blas(const cpu_tensor *t, int32_t axis)
{
  const int64_t rows = t->extent[axis], columns = t->extent[axis + 1];
  const int64_t row = t->stride[axis], column = t->stride[axis + 1];
  return t->dtype == TSR_F32 && rows > 1 && columns > 1 &&
         ((column == 1 && row >= columns) || (row == 1 && column >= rows)) && row <= INT32_MAX && column <= INT32_MAX;
}

static int is_for_blas(const cpu_line *line)
{
  const int32_t axis = line->in[0].rank - 2;
  const int64_t M = line->in[0].extent[axis], K = line->in[0].extent[axis + 1], N = line->in[1].extent[axis + 1];
  /* Constant weights are laid out once; that done, the panels are as fast as a BLAS, which lays them out anew each
   * time. */
  return !line->in[1].constant && M >= BLAS_ROWS && N >= CPU_PANEL && K >= 32 && M <= INT32_MAX && N <= INT32_MAX &&
         K <= INT32_MAX && fits_blas(&line->in[0], axis) && fits_blas(&line->in[1], axis);
}

/* 1 if an operand's last leading axis goes on where its rows end. */
static int continues(const cpu_tensor *t)
{
  const int32_t rows = t->rank - 2;
  return t->extent[rows - 1] == 1 || t->extent[rows] == 1 || t->stride[rows - 1] == t->extent[rows] * t->stride[rows];
}

/* Makes an operand's last leading axis part of its rows; the axis of b, whose matrices are all the same, goes. */
static void drop_axis(cpu_tensor *t, int32_t into_rows)
{
  const int32_t rows = t->rank - 2;
  if (into_rows) {
    t->stride[rows] = t->extent[rows] == 1 ? t->stride[rows - 1] : t->stride[rows];
    t->extent[rows] *= t->extent[rows - 1];
  }
  for (int32_t axis = rows - 1; axis + 1 < t->rank; axis++) {
    t->extent[axis] = t->extent[axis + 1];
    t->stride[axis] = t->stride[axis + 1];
  }
  t->rank--;
  t->extent[t->rank] = 1;
  t->stride[t->rank] = 0;
}

/* A batch that meets one matrix is a matrix of more rows. */
static void fold_batch(cpu_line *line)
{
  cpu_tensor *a = &line->in[0], *b = &line->in[1], *bias = &line->in[2];
  while (a->rank > 2 && b->stride[b->rank - 3] == 0 && continues(a) && (!cpu_present(bias) || continues(bias))) {
    drop_axis(a, 1);
    drop_axis(b, 0);
    drop_axis(&line->out[0], 1);
    if (cpu_present(bias)) {
      drop_axis(bias, 1);
    }
  }
}

static int64_t divide_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static int64_t lesser(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Into blocks of rows, and panels. */
static void cut(matmul *plan)
{
  const cpu_product *p = &plan->product;
  plan->row_unit = 1;
  plan->row_blocks = divide_up(p->rows, CPU_BLOCK_ROWS);
  const int64_t blocks = p->batch * plan->row_blocks;
  /* A vector of weights takes its time to arrive even where few rows meet it. */
  const double cost = (double)p->depth * CPU_PANEL_VECTORS * ((double)p->rows / (double)plan->row_blocks + 4.0);
  plan->column_groups = lesser(divide_up(cpu_tasks(blocks * p->panels, cost), blocks), p->panels);
}

/* The same for matrix units. b comes from far away once per block of rows: these are few, and large, and a task takes
 * no more panels than stay in a core's own cache while its rows pass. */
static void cut_for_matrix(matmul *plan)
{
  enum { WANTED = 16, LEAST_ROWS = 384 };
  const cpu_product *p = &plan->product;
  const int64_t wide = divide_up(p->panels, CPU_MATRIX_PANELS);
  plan->row_unit = CPU_MATRIX_ROWS;
  plan->row_blocks = lesser(divide_up(WANTED, p->batch * wide), divide_up(p->chunk, LEAST_ROWS));
  const int64_t blocks = p->batch * plan->row_blocks, wanted = divide_up(WANTED, blocks);
  const int64_t groups = p->chunk <= CPU_MATRIX_ROWS ? p->panels : wide > wanted ? wide : wanted;
  /* In vector instructions: what a panel takes to arrive, and what rows take with it. */
  const double vectors = (double)p->depth * CPU_PANEL_VECTORS, rows = (double)p->chunk / (double)plan->row_blocks;
  const double cost = 2.0 * vectors + rows * (CPU_MATRIX_UNITS ? vectors / 32.0 + 16.0 : vectors);
  const int64_t tasks = cpu_tasks(blocks * p->panels, cost);
  plan->column_groups = lesser(lesser(groups, divide_up(tasks, blocks)), p->panels);
}

int32_t cpu_prepare_matmul(cpu_line *line, cpu_preparation *preparation)
{
  matmul *plan = cpu_ask_memory(preparation, sizeof *plan);
  if (!plan) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  line->plan = plan;
  fold_batch(line);
  plan->blas = is_for_blas(line) ? cpu_ask_blas(preparation) : NULL;
  plan->y = line->out[0].data;
  const int32_t status = cpu_product_init(&plan->product, line, plan->blas == NULL, preparation);
  const cpu_product *p = &plan->product;
  if (status != TSR_OK || p->batch * p->rows * p->columns == 0) {
    return status;
  }
  if (plan->blas) {
    plan->row_blocks = divide_up(p->rows, TILE_ROWS);
    plan->column_groups = divide_up(p->columns, TILE_COLUMNS);
    plan->n_tasks = p->batch * plan->row_blocks * plan->column_groups;
    return TSR_OK;
  }
  if (!line->in[1].constant && !p->rounds && cpu_blocks_pay(p)) {
    cpu_blocks_init(&plan->blocks, p, plan->y);
    cpu_ask_shared(preparation, cpu_blocks_shared(&plan->blocks));
    cpu_ask_scratch(preparation, cpu_product_scratch(p));
    plan->n_tasks = 1;
    return TSR_OK;
  }
  if (cpu_product_on_matrix(p)) {
    enum { FAR = 1 << 19 }; /* elements: 2 MiB, about what a cache of the second level has */
    plan->product.far = p->batch * p->rows * p->columns >= FAR;
    plan->product.chunk = cpu_rounded_chunk(p);
    cut_for_matrix(plan);
  } else {
    cut(plan);
  }
  plan->n_tasks = p->batch * plan->row_blocks * plan->column_groups;
  cpu_ask_shared(preparation, cpu_product_shared(p));
  cpu_ask_scratch(preparation, cpu_product_scratch(p));
  return TSR_OK;
}

/* Where a block of so many rows begins. */
static int64_t first_row(const matmul *plan, int64_t rows, int64_t block)
{
  return lesser(cpu_first(divide_up(rows, plan->row_unit), plan->row_blocks, block) * plan->row_unit, rows);
}

static void panel_task(const void *context, int64_t task, void *scratch)
{
  const panels *all = context;
  const matmul *plan = all->plan;
  const cpu_product *p = &plan->product;
  const int64_t group = task % plan->column_groups, block = task / plan->column_groups % plan->row_blocks;
  const int64_t matrix = task / plan->column_groups / plan->row_blocks;
  const int64_t begin = first_row(plan, all->rows, block), rows = first_row(plan, all->rows, block + 1) - begin;
  const int64_t first = all->first + begin;
  const int64_t panel = cpu_first(p->panels, plan->column_groups, group);
  const int64_t end = cpu_first(p->panels, plan->column_groups, group + 1);
  float *y = plan->y + (matrix * p->rows + first) * p->columns;
  cpu_product_panels(p, all->shared, matrix, first, rows, panel, end - panel, y + panel * CPU_PANEL, p->columns,
                     scratch);
}

/* The rows (or, transposed, the columns) of a matrix from (row, column) on, as a BLAS wants them. */
static const float *operand(const cpu_tensor *t, int32_t axis, int64_t matrix, int64_t row, int64_t column,
                            int32_t *transposed, int64_t *step)
{
  *transposed = t->stride[axis + 1] != 1;
  *step = *transposed ? t->stride[axis + 1] : t->stride[axis];
  return (const float *)t->data + cpu_at(t, axis, matrix) + row * t->stride[axis] + column * t->stride[axis + 1];
}

static void blas_task(const void *context, int64_t task, void *scratch)
{
  const matmul *plan = context;
  const cpu_product *p = &plan->product;
  (void)scratch;
  const int64_t group = task % plan->column_groups, block = task / plan->column_groups % plan->row_blocks;
  const int64_t matrix = task / plan->column_groups / plan->row_blocks;
  const int64_t m = cpu_first(p->rows, plan->row_blocks, block);
  const int64_t n = cpu_first(p->columns, plan->column_groups, group);
  cpu_gemm gemm = {
      .rows = cpu_first(p->rows, plan->row_blocks, block + 1) - m,
      .columns = cpu_first(p->columns, plan->column_groups, group + 1) - n,
      .depth = p->depth,
      .c = plan->y + (matrix * p->rows + m) * p->columns + n,
      .ldc = p->columns,
      .alpha = 1.0f,
  };
  gemm.a = operand(p->a, p->axis, matrix, m, 0, &gemm.a_transposed, &gemm.lda);
  gemm.b = operand(p->b, p->axis, matrix, 0, n, &gemm.b_transposed, &gemm.ldb);
  cpu_blas_product(plan->blas, &gemm);
  for (int64_t i = 0; i < gemm.rows; i++) {
    float *row = gemm.c + i * gemm.ldc;
    cpu_product_finish(p, matrix, m + i, n, gemm.columns, row, row);
  }
}

void cpu_run_matmul(const cpu_line *line, cpu_team *team)
{
  const matmul *plan = line->plan;
  if (plan->n_tasks == 0) { /* an empty result */
    return;
  }
  if (plan->blas) {
    cpu_parallel(team, plan->n_tasks, blas_task, plan);
    return;
  }
  if (plan->blocks.product) {
    cpu_blocks_run(&plan->blocks, team);
    return;
  }
  for (int64_t first = 0; first < plan->product.rows; first += plan->product.chunk) {
    const int64_t rows = lesser(plan->product.chunk, plan->product.rows - first);
    const panels all = {.plan = plan, .shared = cpu_shared(team), .first = first, .rows = rows};
    cpu_product_begin(&plan->product, first, team, cpu_shared(team));
    cpu_parallel(team, plan->n_tasks, panel_task, &all);
  }
}
