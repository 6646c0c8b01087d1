/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of gradients that leave the device: which parameters a bucket has, and where the program of a batch is cut so
 * that a bucket can be read while the rest is computed.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/train/step.h"
#include "core/train/trainer.h"
#include "core/train/trainer_parts.h"
#include "tessera/ops.h"

/* Which parameter's sum a storage of the program is: [n_storages], -1 for others. The caller's; NULL without memory. */
static int32_t *find_sums(const tsr_trainer *t, const tsr_program *program)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t *parameter = malloc(((size_t)desc->n_storages + 1) * sizeof *parameter);
  for (int32_t i = 0; parameter && i < desc->n_storages; i++) {
    parameter[i] = -1;
  }
  for (int32_t i = 0; parameter && i < t->n; i++) {
    char name[TSR_PARAMETER_NAME_ROOM];
    const tsr_ref sum =
        tsr_program_find(program, tsr_trained_name(name, t->model->parameters.items[i].name, TSR_TRAINED_SUM));
    if (sum != TSR_NONE) {
      parameter[tsr_tensor_at(desc, sum)->storage] = i;
    }
  }
  return parameter;
}

/* The parameter whose sum a line writes, or -1. */
static int32_t written_by(const tsr_program_desc *desc, int32_t line, const int32_t *parameter)
{
  const tsr_line_desc *l = tsr_line_at(desc, line);
  return l->op == TSR_OP_UPDATE ? parameter[tsr_tensor_at(desc, l->out[0])->storage] : -1;
}

/* ---- what a bucket has ------------------------------------------------------------------------------------------- */

/* In the order of the program's lines. */
static void fill_buckets(tsr_trainer *t, const tsr_program *program, const int32_t *parameter, int64_t elements)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  tsr_buckets *b = &t->buckets;
  int64_t at = 0, begin = 0; /* elements */
  for (int32_t line = 0; line < desc->n_lines; line++) {
    const int32_t i = written_by(desc, line, parameter);
    if (i < 0) {
      continue;
    }
    if (b->n == 0 || at - begin >= elements) {
      begin = at;
      b->n++;
    }
    b->of[i] = b->n - 1;
    b->offset[i] = (at - begin) * (int64_t)sizeof(float);
    at += (t->offset[i + 1] - t->offset[i]) / (int64_t)sizeof(float);
    b->ends[b->n - 1] = at;
  }
}

static int64_t bucket_elements(const tsr_buckets *b, int32_t bucket)
{
  return b->ends[bucket] - (bucket > 0 ? b->ends[bucket - 1] : 0);
}

static tsr_status make_buffers(tsr_trainer *t)
{
  for (int32_t i = 0; i < t->buckets.n; i++) {
    TSR_TRY(tsr_buffer_create(t->device, bucket_elements(&t->buckets, i) * (int64_t)sizeof(float), TSR_BUFFER_DEVICE,
                              &t->buckets.sums[i]));
  }
  return TSR_OK;
}

tsr_status tsr_trainer_make_buckets(tsr_trainer *t, int64_t elements)
{
  static const tsr_program_size any = {.batch = 1, .source = 1, .target = 1};
  const size_t n = (size_t)t->n + 1;
  tsr_buckets *b = &t->buckets;
  tsr_program *program;
  b->ends = calloc(n, sizeof *b->ends);
  b->of = calloc(n, sizeof *b->of);
  b->offset = calloc(n, sizeof *b->offset);
  b->sums = calloc(n, sizeof(tsr_buffer *));
  if (!b->ends || !b->of || !b->offset || !b->sums) {
    return tsr_fail_memory(n * sizeof *b->ends);
  }
  for (int32_t i = 0; i < t->n; i++) {
    b->of[i] = -1;
  }
  TSR_TRY(tsr_training_program(t->model, &t->options, TSR_STEP_SHARE, &any, &program));
  int32_t *parameter = find_sums(t, program);
  tsr_status status = parameter ? TSR_OK : tsr_fail_memory(sizeof *parameter);
  if (status == TSR_OK) {
    fill_buckets(t, program, parameter, elements);
    status = make_buffers(t);
  }
  free(parameter);
  tsr_program_destroy(program);
  return status;
}

void tsr_trainer_finish_buckets(tsr_trainer *t)
{
  for (int32_t i = 0; i < t->buckets.n; i++) {
    tsr_buffer_destroy(t->buckets.sums[i]);
  }
  free(t->buckets.ends);
  free(t->buckets.of);
  free(t->buckets.offset);
  free(t->buckets.sums);
  t->buckets = (tsr_buckets){0};
}

/* ---- when a bucket is whole -------------------------------------------------------------------------------------- */

/* The order of lines may depend on a batch's extents: a bucket is whole after the last line that writes into it, or
 * into one before it. */
static void find_cuts(const tsr_trainer *t, const tsr_program *program, const int32_t *parameter, tsr_compiled *entry)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t end = 0; /* line behind what the buckets so far need */
  for (int32_t bucket = 0; bucket < t->buckets.n; bucket++) {
    for (int32_t line = end; line < desc->n_lines; line++) {
      const int32_t i = written_by(desc, line, parameter);
      end = i >= 0 && t->buckets.of[i] == bucket ? line + 1 : end;
    }
    const int32_t last = entry->n_cuts > 0 ? entry->cuts[entry->n_cuts - 1] : 0;
    entry->whole[bucket] = entry->n_cuts;
    if (end > last && bucket < t->buckets.n - 1 && end < desc->n_lines) {
      entry->cuts[entry->n_cuts++] = end;
    } else if (end <= last) {
      entry->whole[bucket] = entry->n_cuts - 1; /* whole with the bucket before it */
    }
  }
}

tsr_status tsr_trainer_find_cuts(const tsr_trainer *t, const tsr_program *program, tsr_compiled *entry)
{
  const size_t n = (size_t)t->buckets.n + 1;
  int32_t *parameter = find_sums(t, program);
  entry->whole = calloc(n, sizeof *entry->whole);
  entry->cuts = calloc(n, sizeof *entry->cuts);
  tsr_status status = parameter && entry->whole && entry->cuts ? TSR_OK : tsr_fail_memory(n * sizeof *entry->whole);
  if (status == TSR_OK) {
    find_cuts(t, program, parameter, entry);
  }
  free(parameter);
  return status;
}

/* ---- what they hold ---------------------------------------------------------------------------------------------- */

int32_t tsr_trainer_bucket_count(const tsr_trainer *trainer)
{
  return trainer->buckets.n;
}

const int64_t *tsr_trainer_bucket_ends(const tsr_trainer *trainer)
{
  return trainer->buckets.ends;
}

tsr_status tsr_trainer_bucket_read(tsr_trainer *trainer, int32_t bucket, float *values)
{
  const int64_t size = bucket_elements(&trainer->buckets, bucket) * (int64_t)sizeof *values;
  return tsr_buffer_read(trainer->buckets.sums[bucket], 0, size, values);
}

tsr_status tsr_trainer_bucket_write(tsr_trainer *trainer, int32_t bucket, const float *values)
{
  const int64_t size = bucket_elements(&trainer->buckets, bucket) * (int64_t)sizeof *values;
  return tsr_buffer_write(trainer->buckets.sums[bucket], 0, size, values);
}
