/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/table.h"

static int compare_doubles(const void *left, const void *right)
{
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

bench_summary bench_summarise(double *values, int32_t n)
{
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return (bench_summary){.median = median, .least = values[0], .most = values[n - 1]};
}

void bench_count_cell(tsr_cli_table *table, int32_t count)
{
  if (count > 0) {
    tsr_cli_table_cell(table, "%d", (int)count);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

json_t *bench_summary_json(const bench_summary *summary, double factor)
{
  return json_pack("{s:f, s:f, s:f}", "median", factor * summary->median, "min", factor * summary->least, "max",
                   factor * summary->most);
}
