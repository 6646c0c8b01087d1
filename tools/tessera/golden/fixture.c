/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/golden/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/golden/golden.h"

tsr_status golden_recorded_read(const tsr_checkpoint *tensors, const char *name, int32_t rank, golden_recorded *out)
{
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(tensors, name);
  tsr_dtype dtype = rank == 2 ? TSR_I32 : TSR_F32;
  tsr_checkpoint_tensor_info info = {0};
  if (tensor) {
    tsr_checkpoint_describe(tensor, &info);
  }
  if (info.rank != rank || info.dtype != dtype) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' is missing, or is not %s of rank %d", tsr_checkpoint_path(tensors),
                    name, tsr_dtype_name(dtype), (int)rank);
  }
  const int64_t *extent = info.shape.extent;
  int64_t elements = tsr_shape_elements(&info.shape);
  if (elements < 1 || elements > INT32_MAX) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor '%s' has %lld elements", tsr_checkpoint_path(tensors), name,
                    (long long)elements);
  }
  *out = (golden_recorded){
      .n_batch = (int32_t)extent[0], .n_length = (int32_t)extent[1], .width = rank == 3 ? (int32_t)extent[2] : 1};
  void *data = malloc((size_t)elements * 4);
  if (!data) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  if (rank == 2) {
    out->ids = data;
  } else {
    out->values = data;
  }
  return tsr_checkpoint_read(tensor, 0, elements, dtype, data);
}

int golden_same_extents(const golden_recorded *a, const golden_recorded *b)
{
  return a->n_batch == b->n_batch && a->n_length == b->n_length;
}

/* Lengths of the sources: their masks are ones, then zeros. */
static tsr_status find_lengths(const char *path, golden_forced *f)
{
  const golden_recorded *mask = &f->source_mask;
  f->lengths = calloc((size_t)mask->n_batch, sizeof *f->lengths);
  if (!f->lengths) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  for (int32_t b = 0; b < mask->n_batch; b++) {
    const int32_t *row = mask->ids + (size_t)b * (size_t)mask->n_length;
    for (int32_t t = 0; t < mask->n_length; t++) {
      if (row[t] != 0 && f->lengths[b] < t) {
        return tsr_fail(TSR_ERR_FORMAT, "%s: attention_mask: row %d is not ones followed by zeros", path, (int)b);
      }
      f->lengths[b] += row[t] != 0;
    }
  }
  return TSR_OK;
}

static tsr_status read_forced(const tsr_checkpoint *tensors, const char *prefix, golden_forced *f)
{
  const struct {
    const char *name;
    int32_t rank;
    golden_recorded *to;
  } rows[] = {
      {"input_ids", 2, &f->source},
      {"attention_mask", 2, &f->source_mask},
      {"decoder_input_ids", 2, &f->target},
      {"decoder_attention_mask", 2, &f->target_mask},
      {"encoder_output", 3, &f->encoder_output},
      {"logits", 3, &f->logits},
  };
  const char *path = tsr_checkpoint_path(tensors);
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == TSR_OK; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, rows[i].name);
    status = golden_recorded_read(tensors, name, rows[i].rank, rows[i].to);
  }
  if (status == TSR_OK &&
      (!golden_same_extents(&f->source, &f->source_mask) || !golden_same_extents(&f->source, &f->encoder_output) ||
       !golden_same_extents(&f->target, &f->target_mask) || !golden_same_extents(&f->target, &f->logits) ||
       f->source.n_batch != f->target.n_batch)) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the extents of ids, masks and results do not fit together", path);
  }
  return status == TSR_OK ? find_lengths(path, f) : status;
}

static tsr_status read_tensors(const char *path, golden_fixture *f)
{
  tsr_status status = tsr_checkpoint_open(path, &f->tensors);
  if (status == TSR_OK) {
    status = read_forced(f->tensors, "", &f->batch);
  }
  if (status == TSR_OK && tsr_checkpoint_find(f->tensors, "long.input_ids")) {
    status = read_forced(f->tensors, "long.", &f->further);
  }
  return status;
}

tsr_status golden_fixture_read(const char *folder, golden_fixture *f)
{
  size_t room = strlen(folder) + 32;
  char *path = malloc(room);
  if (!path) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  json_error_t error;
  snprintf(path, room, "%s/golden.json", folder);
  f->golden = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  tsr_status status = TSR_OK;
  if (!json_is_object(f->golden)) {
    status = tsr_fail(access(path, R_OK) == 0 ? TSR_ERR_FORMAT : TSR_ERR_IO, "%s: %s", path,
                      f->golden ? "expected a JSON object" : error.text);
  }
  if (status == TSR_OK && !tsr_golden_is_marian(f->golden)) {
    snprintf(path, room, "%s/golden.safetensors", folder);
    status = tsr_golden_is_speech(f->golden) ? tsr_checkpoint_open(path, &f->tensors) : read_tensors(path, f);
  }
  free(path);
  return status;
}

static void finish_forced(golden_forced *f)
{
  golden_recorded *all[] = {&f->source, &f->source_mask, &f->target, &f->target_mask, &f->encoder_output, &f->logits};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    free(all[i]->ids);
    free(all[i]->values);
  }
  free(f->lengths);
}

void golden_fixture_finish(golden_fixture *f)
{
  finish_forced(&f->batch);
  finish_forced(&f->further);
  json_decref(f->golden);
  tsr_checkpoint_close(f->tensors);
}
