/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lines a device computes as one: the extension "tessera.fusion/1" of those backends that have it, for the memory
 * plan. */
#include <stdlib.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/program/plan.h"
#include "core/runtime/executable.h"

/* A backend's answer for a line, as one that the plan can use. */
static int32_t until(tsr_device *device, const tsr_program_desc *description, int32_t line)
{
  tsr_slot_enter();
  int32_t last = device->backend->fusion->operands_until(device->handle, description, line);
  (void)tsr_slot_leave(device->name, "operands_until", TSR_OK);
  return last > line && last < description->n_lines ? last : line;
}

tsr_status tsr_device_ask_fusion(tsr_device *device, const tsr_program_desc *description, const uint8_t *is_elsewhere,
                                 int32_t **operands_until)
{
  size_t size = ((size_t)description->n_lines + 1) * sizeof **operands_until;
  *operands_until = NULL;
  if (!device->backend->fusion) {
    return TSR_OK;
  }
  int32_t *lines = malloc(size);
  if (!lines) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < description->n_lines; i++) {
    int is_here = is_elsewhere ? !is_elsewhere[i] : tsr_device_supports_line(device, description, i);
    lines[i] = is_here ? until(device, description, i) : i;
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
  tsr_status status = tsr_device_ask_fusion(device, tsr_program_describe(program), NULL, &operands_until);
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
  tsr_status status = tsr_device_ask_fusion(device, tsr_program_describe(program), NULL, &operands_until);
  tsr_device_leave(device);
  if (status == TSR_OK) {
    status = tsr_program_measure_for(program, alignment, operands_until, &found);
    tsr_sized_fill(&found, sizeof found, statistics, size);
  }
  free(operands_until);
  return status;
}
