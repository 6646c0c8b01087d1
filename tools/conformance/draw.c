/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawn cases: the families, and what their functions draw with. No arithmetic but that of integers, so that a seed
 * gives the same cases everywhere.
 */
#include "tools/conformance/cases.h"

int32_t check_draw_below(check_draw *draw, int32_t n)
{
  return (int32_t)(check_random(draw->key, draw->next++) % (uint64_t)n);
}

int check_draw_once_in(check_draw *draw, int32_t n)
{
  return check_draw_below(draw, n) == 0;
}

int32_t check_draw_size(check_draw *draw, int32_t high)
{
  int32_t bits = 1;

  while (high >> bits > 0) {
    bits++;
  }
  int32_t size = 1 << check_draw_below(draw, bits);
  switch (check_draw_below(draw, 8)) {
  case 0:
    break;
  case 1:
    size += 1;
    break;
  case 2:
    size -= size > 1;
    break;
  default:
    size += check_draw_below(draw, size);
  }
  return size <= high ? size : 1 + check_draw_below(draw, high);
}

int32_t check_draw_view(check_draw *draw)
{
  return check_draw_once_in(draw, 2) ? CHECK_DENSE : check_draw_below(draw, CHECK_FAR);
}

int32_t check_draw_data(check_draw *draw, const int32_t *list, int32_t n)
{
  const int32_t chance = check_draw_below(draw, 8);

  return chance < 4 ? CHECK_NORMAL : chance < 6 ? CHECK_INTEGER : list[check_draw_below(draw, n)];
}

tsr_shape check_draw_shape(check_draw *draw, int32_t low, int32_t high, int32_t last, int64_t elements)
{
  tsr_shape shape = {.rank = low + check_draw_below(draw, high - low + 1)};
  int64_t total = 1;

  for (int32_t axis = 0; axis < shape.rank; axis++) {
    shape.extent[axis] = check_draw_size(draw, axis == shape.rank - 1 ? last : 300);
    total *= shape.extent[axis];
  }
  while (total > elements) {
    int32_t longest = 0;
    total = 1;
    for (int32_t axis = 1; axis < shape.rank; axis++) {
      longest = shape.extent[axis] > shape.extent[longest] ? axis : longest;
    }
    shape.extent[longest] = (shape.extent[longest] + 1) / 2;
    for (int32_t axis = 0; axis < shape.rank; axis++) {
      total *= shape.extent[axis];
    }
  }
  if (shape.rank > 1 && check_draw_once_in(draw, 40)) {
    shape.extent[check_draw_below(draw, shape.rank - 1)] = 0;
  }
  return shape;
}

int check_draw_is_large(check_draw *draw)
{
  return check_draw_once_in(draw, 12);
}

tsr_shape check_draw_large(check_draw *draw, int32_t low, int32_t high, int32_t last)
{
  const int32_t most = 1 << 20, target = most + check_draw_below(draw, 2 * most);
  tsr_shape shape = {.rank = low + check_draw_below(draw, high - low + 1)};
  int32_t rest = target;

  for (int32_t axis = shape.rank - 1; axis > 0; axis--) {
    const int32_t limit = axis == shape.rank - 1 ? last : 300;
    shape.extent[axis] = check_draw_size(draw, limit < rest ? limit : rest);
    rest /= (int32_t)shape.extent[axis];
  }
  shape.extent[0] = rest;
  if (shape.rank == 1 && rest > last) {
    shape = TSR_SHAPE(rest / last, last);
  }
  return shape;
}

static const struct {
  const char *name; /* draws of one family are not those of another */
  void (*draw)(check_table *table, check_draw *draw, int32_t what);
  int32_t what;
} families[] = {
    {"matmul", check_random_matmul, CHECK_MATMUL_FLOAT},
    {"matmul i8", check_random_matmul, CHECK_MATMUL_I8},
    {"matmul i4", check_random_matmul, CHECK_MATMUL_I4},
    {"matmul narrow", check_random_matmul, CHECK_MATMUL_REDUCED},
    {"attention", check_random_attention, CHECK_ATTENTION_F32},
    {"attention halves", check_random_attention, CHECK_ATTENTION_HALVES},
    {"norms of sums", check_random_program, CHECK_PROGRAM_NORMS},
    {"residuals", check_random_program, CHECK_PROGRAM_RESIDUALS},
    {"largest", check_random_program, CHECK_PROGRAM_LARGEST},
    {"unfused", check_random_program, CHECK_PROGRAM_UNFUSED},
    {"cache", check_random_program, CHECK_PROGRAM_CACHE},
    {"decode", check_random_program, CHECK_PROGRAM_DECODE},
    {"ranks", check_random_program, CHECK_PROGRAM_RANKS},
    {"sums", check_random_program, CHECK_PROGRAM_SUMS},
    {"turns", check_random_program, CHECK_PROGRAM_TURNS},
    {"layer", check_random_program, CHECK_PROGRAM_LAYER},
    {"softmax", check_random_rows, TSR_OP_SOFTMAX},
    {"log_softmax", check_random_rows, TSR_OP_LOG_SOFTMAX},
    {"layernorm", check_random_rows, TSR_OP_LAYERNORM},
    {"rmsnorm", check_random_rows, TSR_OP_RMSNORM},
    {"reduce_sum", check_random_rows, TSR_OP_REDUCE_SUM},
    {"topk", check_random_rows, TSR_OP_TOPK},
    {"embedding", check_random_index, TSR_OP_EMBEDDING},
    {"gather", check_random_index, TSR_OP_GATHER},
    {"append", check_random_state, TSR_OP_APPEND},
    {"update", check_random_state, TSR_OP_UPDATE},
    {"scatter_add", check_random_scatter, TSR_OP_SCATTER_ADD},
    {"concat", check_random_concat, TSR_OP_CONCAT},
    {"mask", check_random_mask, TSR_OP_MASK},
    {"conv1d", check_random_conv1d, TSR_OP_CONV1D},
    {"add", check_random_elementwise, TSR_OP_ADD},
    {"mul", check_random_elementwise, TSR_OP_MUL},
    {"relu", check_random_elementwise, TSR_OP_RELU},
    {"gelu", check_random_elementwise, TSR_OP_GELU},
    {"silu", check_random_elementwise, TSR_OP_SILU},
    {"copy", check_random_elementwise, TSR_OP_COPY},
    {"rotate", check_random_rotate, TSR_OP_ROTATE},
    {"attention_gradient", check_random_attention_gradient, TSR_OP_ATTENTION_GRADIENT},
    {"softmax_gradient", check_random_gradient, TSR_OP_SOFTMAX_GRADIENT},
    {"log_softmax_gradient", check_random_gradient, TSR_OP_LOG_SOFTMAX_GRADIENT},
    {"layernorm_gradient", check_random_gradient, TSR_OP_LAYERNORM_GRADIENT},
    {"rmsnorm_gradient", check_random_gradient, TSR_OP_RMSNORM_GRADIENT},
    {"activation_gradient", check_random_gradient, TSR_OP_ACTIVATION_GRADIENT},
    {"mask_gradient", check_random_gradient, TSR_OP_MASK_GRADIENT},
    {"relative_gradient", check_random_relative, TSR_OP_RELATIVE_GRADIENT},
    {"dropout", check_random_dropout, TSR_OP_DROPOUT},
    {"cross_entropy", check_random_loss, TSR_OP_CROSS_ENTROPY},
    {"cross_entropy_gradient", check_random_loss, TSR_OP_CROSS_ENTROPY_GRADIENT},
    {"sum_of_squares", check_random_squares, TSR_OP_SUM_OF_SQUARES},
    {"adam", check_random_adam, TSR_OP_ADAM},
};

/* What the case added last costs, in millions. */
static tsr_status cost_of(const check_case *test, double *millions)
{
  check_build build;
  const tsr_status status = check_build_program(test, &build);

  if (status) {
    return tsr_fail_context(status, "%s", test->name);
  }
  *millions = 1e-6 * check_program_cost(build.program) * test->runs;
  tsr_program_destroy(build.program);
  return TSR_OK;
}

/* One that is there already is not added again: then another is drawn, unless there are hardly others. */
static tsr_status draw_family(check_table *table, int32_t family, int32_t millions, uint64_t seed)
{
  const uint64_t key = check_hash(seed, families[family].name);
  const int64_t tries = 16 * (int64_t)millions;
  double spent = 0.0;
  tsr_status status = TSR_OK;

  for (int64_t number = 0; spent < millions && number < tries && !table->failed && !status; number++) {
    const int32_t before = table->count;
    check_draw draw = {.key = check_random(key, (uint64_t)number)};
    families[family].draw(table, &draw, families[family].what);
    if (table->count > before) {
      double cost = 0.0;
      status = cost_of(&table->test[table->count - 1], &cost);
      spent += cost < 1.0 ? 1.0 : cost;
    }
  }
  return status;
}

tsr_status check_table_draw(check_table *table, int32_t millions, uint64_t seed)
{
  tsr_status status = TSR_OK;

  for (int32_t i = 0; i < COUNT_OF(families) && !status; i++) {
    status = draw_family(table, i, millions, seed);
  }
  return table->failed ? tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the drawn cases") : status;
}
