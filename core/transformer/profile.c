/* SPDX-License-Identifier: Apache-2.0
 *
 * What each line of a transformer's programs takes, summed over all runs.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/transformer/transformer.h"
#include "tessera/ops.h"

tsr_status tsr_times_start(tsr_compiled *compiled)
{
  size_t n = 2 * (size_t)tsr_program_line_count(compiled->program) + 1;
  compiled->times = calloc(n, sizeof *compiled->times);
  return compiled->times ? TSR_OK : tsr_fail_memory(n * sizeof *compiled->times);
}

static double weight_of(const tsr_program_desc *desc, int32_t line)
{
  return tsr_line_flops(desc, line) + tsr_line_bytes(desc, line);
}

/* A backend that computes several lines as one gives the time to the last of them, and none to the others. They share
 * it in proportion to their arithmetic and their memory traffic. */
static void share_times(const tsr_program_desc *desc, uint64_t *nanoseconds)
{
  for (int32_t i = 0, first = 0; i < desc->n_lines; i++) {
    uint64_t whole = nanoseconds[i];
    if (whole == 0) {
      continue;
    }
    double all = 0.0;
    for (int32_t k = first; k <= i && first < i; k++) {
      all += weight_of(desc, k);
    }
    for (int32_t k = first; k < i && all > 0.0; k++) {
      nanoseconds[k] = (uint64_t)((double)whole * (weight_of(desc, k) / all));
      nanoseconds[i] -= nanoseconds[k] < nanoseconds[i] ? nanoseconds[k] : nanoseconds[i];
    }
    first = i + 1;
  }
}

tsr_status tsr_transformer_run(tsr_transformer *transformer, tsr_compiled *compiled, double share)
{
  if (!compiled->times) {
    return tsr_executable_run(compiled->executable);
  }
  int32_t n = tsr_program_line_count(compiled->program);
  uint64_t *sums = compiled->times, *last = sums + n;
  double start = tsr_seconds();
  TSR_TRY(tsr_executable_run(compiled->executable));
  TSR_TRY(tsr_executable_profile(compiled->executable, last, n));
  share_times(tsr_program_describe(compiled->program), last);
  for (int32_t i = 0; i < n; i++) {
    sums[i] += last[i];
  }
  transformer->times.run_seconds += tsr_seconds() - start;
  transformer->times.runs++;
  compiled->runs++;
  compiled->shares += share;
  return TSR_OK;
}

/* The row for such lines, made when there is none yet; NULL without memory. */
static tsr_profile_row *find_row(tsr_times *times, int32_t kind, int32_t op, const char *label)
{
  for (int32_t i = 0; i < times->n; i++) {
    tsr_profile_row *row = &times->rows[i];
    if (row->kind == kind && row->op == op && strcmp(row->label, label) == 0) {
      return row;
    }
  }
  if (times->n == times->room) {
    int32_t room = times->room ? 2 * times->room : 64;
    tsr_profile_row *rows = realloc(times->rows, (size_t)room * sizeof *rows);
    if (!rows) {
      return NULL;
    }
    times->rows = rows;
    times->room = room;
  }
  char *copy = strdup(label);
  if (!copy) {
    return NULL;
  }
  times->rows[times->n] = (tsr_profile_row){.kind = kind, .op = op, .label = copy};
  return &times->rows[times->n++];
}

/* Bytes of the keys and values that attention reads. */
static double cache_bytes(const tsr_program_desc *desc, const tsr_line_desc *line)
{
  double sum = 0.0;
  for (int32_t i = 1; i <= 2; i++) {
    const tsr_tensor_desc *t = tsr_tensor_at(desc, line->in[i]);
    sum += (double)t->extent[0] * (double)t->extent[1] * (double)t->extent[2] * (double)t->extent[3] *
           (double)tsr_dtype_size(t->dtype);
  }
  return sum;
}

void tsr_times_keep(tsr_times *times, tsr_compiled *compiled)
{
  if (!compiled->times) {
    return;
  }
  const tsr_program_desc *desc = tsr_program_describe(compiled->program);
  for (int32_t i = 0; i < desc->n_lines && compiled->runs > 0; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    enum { POSITION = 5 /* of attention's operands */ };
    int has_cache = line->op == TSR_OP_ATTENTION && line->in[POSITION] != TSR_NONE;
    tsr_profile_row *row = find_row(times, compiled->key.kind, line->op, line->label);
    if (!row) {
      times->failed = 1;
      break;
    }
    double runs = (double)compiled->runs, unused = has_cache ? runs - compiled->shares : 0.0;
    row->runs += compiled->runs;
    row->seconds += 1e-9 * (double)compiled->times[i];
    row->flops += tsr_line_flops(desc, i) * (runs - unused);
    row->bytes += tsr_line_bytes(desc, i) * runs - (has_cache ? cache_bytes(desc, line) * unused : 0.0);
  }
  memset(compiled->times, 0, (size_t)desc->n_lines * sizeof *compiled->times);
  compiled->runs = 0;
  compiled->shares = 0.0;
}

void tsr_times_finish(tsr_times *times)
{
  for (int32_t i = 0; i < times->n; i++) {
    free((char *)times->rows[i].label);
  }
  free(times->rows);
  *times = (tsr_times){0};
}

/* Adds what one transformer took. */
static tsr_status gather(tsr_transformer *t, tsr_times *all)
{
  for (int32_t i = 0; i < t->options.cache; i++) {
    if (t->compiled[i]) {
      tsr_times_keep(&t->times, t->compiled[i]);
    }
  }
  all->failed |= t->times.failed;
  for (int32_t i = 0; i < t->times.n && !all->failed; i++) {
    const tsr_profile_row *from = &t->times.rows[i];
    tsr_profile_row *row = find_row(all, from->kind, from->op, from->label);
    if (row) {
      row->runs += from->runs;
      row->seconds += from->seconds;
      row->flops += from->flops;
      row->bytes += from->bytes;
    }
    all->failed = !row;
  }
  all->runs += t->times.runs;
  all->compiled += t->times.compiled;
  all->run_seconds += t->times.run_seconds;
  all->compile_seconds += t->times.compile_seconds;
  return all->failed ? tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory for the times of lines") : TSR_OK;
}

tsr_status tsr_transformer_profile(tsr_transformer *transformer, tsr_profile *profile)
{
  if (!transformer || !profile) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transformer_profile: transformer and profile must not be NULL");
  }
  *profile = (tsr_profile){0};
  if (!transformer->options.profile) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the transformer was created without options.profile, so it keeps no times");
  }
  tsr_times all = {0};
  tsr_status status = gather(transformer, &all);
  for (int32_t i = 0; i < transformer->n_siblings && status == TSR_OK; i++) {
    status = gather(transformer->siblings[i], &all);
  }
  if (status != TSR_OK) {
    tsr_times_finish(&all);
    return status;
  }
  *profile = (tsr_profile){.n = all.n,
                           .rows = all.rows,
                           .runs = all.runs,
                           .compiled = all.compiled,
                           .run_seconds = all.run_seconds,
                           .compile_seconds = all.compile_seconds};
  return TSR_OK;
}

void tsr_profile_finish(tsr_profile *profile)
{
  if (!profile) {
    return;
  }
  for (int32_t i = 0; i < profile->n; i++) {
    free((char *)profile->rows[i].label);
  }
  free(profile->rows);
  *profile = (tsr_profile){0};
}
