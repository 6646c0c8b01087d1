/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

typedef struct rows_work {
  const cpu_line *line;
  cpu_rows_body body;
  int64_t n_rows, n_tasks;
} rows_work;

static void rows_task(const void *context, int64_t task, void *scratch)
{
  const rows_work *work = context;
  work->body(work->line, cpu_first(work->n_rows, work->n_tasks, task), cpu_first(work->n_rows, work->n_tasks, task + 1),
             scratch);
}

void cpu_run_rows(const cpu_line *line, cpu_team *team, int64_t n_rows, double cost, cpu_rows_body body)
{
  if (n_rows == 0 || cpu_row_length(&line->out[0]) == 0) {
    return;
  }
  const rows_work work = {.line = line, .body = body, .n_rows = n_rows, .n_tasks = cpu_tasks(n_rows, cost)};
  cpu_parallel(team, work.n_tasks, rows_task, &work);
}

int32_t cpu_prepare_rows(cpu_line *line, cpu_preparation *preparation)
{
  cpu_ask_scratch(preparation, 4 * (uint64_t)cpu_room(cpu_row_length(&line->in[0])) * sizeof(float));
  return TSR_OK;
}
