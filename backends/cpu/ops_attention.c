/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: which variant a line takes, and how it is cut into tasks.
 */
#include "attention.h"

static cpu_attention forward_of(const cpu_line *line)
{
  cpu_attention a = cpu_attention_of(line);
  a.y = &line->out[0];
  a.weights = cpu_attention_result(line, 1);
  a.lse = cpu_attention_result(line, 2);
  return a;
}

int32_t cpu_prepare_attention(cpu_line *line, cpu_preparation *preparation)
{
  if (!cpu_prepare_attention_plan(line, preparation)) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  const cpu_attention a = forward_of(line);
  cpu_ask_scratch(preparation, a.L <= CPU_FEW_QUERIES ? cpu_few_scratch(&a) : cpu_tiles_scratch(&a));
  return TSR_OK;
}

void cpu_run_attention(const cpu_line *line, cpu_team *team)
{
  cpu_attention a = forward_of(line);
  assert(a.q->rank == 4 && a.k->rank == 4 && a.v->rank == 4 && a.y->rank == 4);
  assert(a.q->dtype == TSR_F32 && a.k->dtype == a.v->dtype && a.k->dtype != TSR_I8 && a.k->dtype != TSR_I32);
  assert(a.k->extent[2] * a.sharing == a.H && a.v->extent[2] == a.k->extent[2]);
  assert(a.k->extent[3] == a.K && a.v->extent[1] == a.S);
  assert(a.k->extent[0] == a.v->extent[0] && (a.rows || a.k->extent[0] == a.B));
  assert(a.J <= 1 || a.y->stride[3] == 1);
  assert(!a.weights || a.S <= 1 || a.weights->stride[3] == 1);
  const int64_t n_rows = a.B * a.H;
  if (n_rows * a.L == 0) {
    return;
  }
  cpu_attention_drop_out(&a, line);
  /* Vector instructions for one key and one head, roughly. */
  const double keys = (double)cpu_attention_visible(&a) / (double)a.B;
  if (a.L <= CPU_FEW_QUERIES) {
    const double cost = (double)a.L * (10.0 + (double)(cpu_whole(a.K) + cpu_whole(a.J)) / CPU_LANES);
    a.n_items = n_rows;
    a.n_tasks = cpu_tasks(n_rows, 100.0 + keys * cost);
    cpu_parallel(team, a.n_tasks, cpu_few_task, &a);
  } else {
    const double vectors = (double)cpu_whole(a.L) / CPU_LANES, cost = vectors * (double)(a.K + a.J + 25);
    a.n_items = n_rows * cpu_tiles_count(a.L);
    a.n_tasks = cpu_tasks(a.n_items, 100.0 + keys * cost / (double)cpu_tiles_count(a.L));
    cpu_parallel(team, a.n_tasks, cpu_tiles_task, &a);
  }
}
