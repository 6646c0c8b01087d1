/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lines a device computes as one: the extension "tessera.fusion/1" of those backends that have it, for the memory
 * plan. */
#include <stdlib.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/program/plan.h"
#include "core/runtime/executable.h"

/* A backend's answer for a line of some that are compiled together, as one that the plan can use. */
static int32_t until(tsr_device *device, const tsr_program_desc *description, int32_t line)
{
  tsr_slot_enter();
  int32_t last = device->backend->fusion->operands_until(device->handle, description, line);
  (void)tsr_slot_leave(device->name, "operands_until", TSR_OK);
  return last > line && last < description->n_lines ? last : line;
}

/* The lines of a plan that keeps nothing longer than it is read, for the caller to free; or NULL. */
static int32_t *make_lines(const tsr_program_desc *description)
{
  int32_t *lines = malloc(((size_t)description->n_lines + 1) * sizeof *lines);
  for (int32_t i = 0; lines && i < description->n_lines; i++) {
    lines[i] = i;
  }
  return lines;
}

tsr_status tsr_executable_ask_fusion(tsr_executable *executable, const tsr_program_desc *description,
                                     int32_t **operands_until)
{
  const size_t n = (size_t)description->n_storages + 1;
  *operands_until = NULL;
  int is_needed = 0;
  for (int32_t s = 0; s < executable->n_sides; s++) {
    is_needed |= executable->sides[s].device->backend->fusion != NULL;
  }
  if (!is_needed) {
    return TSR_OK;
  }
  tsr_storage_desc *storages = calloc(n, sizeof *storages);
  int32_t *lines = make_lines(description);
  if (!storages || !lines) {
    free(storages);
    free(lines);
    return tsr_fail_memory(n * sizeof *storages);
  }
  for (int32_t i = 0; i < executable->n_segments; i++) {
    const tsr_segment *segment = &executable->segments[i];
    tsr_device *device = executable->sides[segment->side].device;
    for (int32_t k = 1; k < description->n_storages; k++) {
      storages[k] = *tsr_storage_at(description, k);
      storages[k].kind = executable->sides[segment->side].storages[k].kind;
    }
    const tsr_program_desc part = tsr_segment_describe(segment, description, storages);
    for (int32_t k = 0; device->backend->fusion && k < part.n_lines; k++) {
      lines[segment->first_line + k] = segment->first_line + until(device, &part, k);
    }
  }
  free(storages);
  *operands_until = lines;
  return TSR_OK;
}

/* *operands_until of a plan for the device where lines that it does not support run elsewhere. Within
 * tsr_device_enter. */
static tsr_status ask_device(tsr_device *device, const tsr_program_desc *description, int32_t **operands_until)
{
  *operands_until = NULL;
  if (!device->backend->fusion) {
    return TSR_OK;
  }
  int32_t *lines = make_lines(description);
  if (!lines) {
    return tsr_fail_memory(((size_t)description->n_lines + 1) * sizeof *lines);
  }
  for (int32_t i = 0; i < description->n_lines; i++) {
    if (tsr_device_supports_line(device, description, i)) {
      lines[i] = until(device, description, i);
    }
  }
  *operands_until = lines;
  return TSR_OK;
}

tsr_status tsr_device_measure_pieces(tsr_device *device, const tsr_program *program, int64_t alignment, int64_t piece,
                                     int64_t *bytes)
{
  if (!device || !program || !bytes || alignment < 1 || piece < 1 || piece % alignment != 0) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "tsr_device_measure_pieces: device, program and bytes must not be NULL, and a piece (%lld) a multiple "
        "of the alignment (%lld)",
        (long long)piece, (long long)alignment);
  }
  TSR_TRY(tsr_program_status(program));
  int32_t *operands_until;
  tsr_device_enter(device);
  tsr_status status = ask_device(device, tsr_program_describe(program), &operands_until);
  tsr_device_leave(device);
  tsr_memory_plan plan = {0};
  if (status == TSR_OK) {
    const tsr_plan_options options = {.alignment = alignment, .piece = piece, .operands_until = operands_until};
    status = tsr_memory_plan_make(tsr_program_describe(program), &options, &plan);
    *bytes = plan.size;
  }
  tsr_memory_plan_finish(&plan);
  free(operands_until);
  return status;
}

tsr_status tsr_device_measure_sized(tsr_device *device, const tsr_program *program, int64_t alignment,
                                    tsr_program_statistics *statistics, size_t size)
{
  if (!device || !program || !statistics) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_measure: device, program and statistics must not be NULL");
  }
  TSR_TRY(tsr_program_status(program));
  int32_t *operands_until;
  tsr_program_statistics found = {0};
  tsr_device_enter(device);
  tsr_status status = ask_device(device, tsr_program_describe(program), &operands_until);
  tsr_device_leave(device);
  if (status == TSR_OK) {
    status = tsr_program_measure_for(program, alignment, operands_until, &found);
    tsr_sized_fill(&found, sizeof found, statistics, size);
  }
  free(operands_until);
  return status;
}
