/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of an executable: stretches of its lines that are started one by one, in the memory of one plan. Each has
 * segments of its own, and knows which buffers its lines use, so that others can be read while it is in flight.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

tsr_status tsr_executable_cut(tsr_executable *executable, const tsr_compile_options *options)
{
  const int32_t n = options->n_cuts, *cuts = options->cuts;
  if (n == 0) {
    return TSR_OK;
  }
  if (n < 0 || !cuts) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_create: n_cuts is %d, cuts %s", (int)n,
                    cuts ? "is not NULL" : "is NULL");
  }
  for (int32_t i = 0; i < n; i++) {
    if (cuts[i] <= (i > 0 ? cuts[i - 1] : 0) || cuts[i] >= executable->n_lines) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "tsr_executable_create: cut %d is before line %d of %d: cuts ascend, within the program", (int)i,
                      (int)cuts[i], (int)executable->n_lines);
    }
  }
  executable->parts = calloc((size_t)n + 1, sizeof *executable->parts);
  if (!executable->parts) {
    return tsr_fail_memory(((size_t)n + 1) * sizeof *executable->parts);
  }
  executable->n_parts = n + 1;
  for (int32_t i = 0; i <= n; i++) {
    tsr_executable *part = &executable->parts[i];
    part->whole = executable;
    part->first_line = i > 0 ? cuts[i - 1] : 0;
    part->n_lines = (i < n ? cuts[i] : executable->n_lines) - part->first_line;
  }
  return TSR_OK;
}

tsr_executable *tsr_executable_part_at(const tsr_executable *executable, int32_t line)
{
  for (int32_t i = 0; i < executable->n_parts; i++) {
    if (executable->parts[i].first_line == line) {
      return &executable->parts[i];
    }
  }
  return NULL;
}

tsr_executable *tsr_executable_part(tsr_executable *executable, int32_t index)
{
  return executable && index >= 0 && index < executable->n_parts ? &executable->parts[index] : NULL;
}

/* The storage of a line's operand or result; 0: there is none. */
static int32_t storage_of(const tsr_executable *executable, const tsr_line_desc *line, int32_t i)
{
  const int32_t tensor = i < TSR_MAX_INPUTS ? line->in[i] : line->out[i - TSR_MAX_INPUTS];
  return tensor > 0 ? executable->tensor_storage[tensor] : 0;
}

enum { OPERANDS = TSR_MAX_INPUTS + TSR_MAX_OUTPUTS };

/* ---- what a run of a part needs ---------------------------------------------------------------------------------- */

/* The buffers that the part's lines touch, and which of the caller's are written. touched, written: [n_buffers] of the
 * whole's. */
static void find_buffers(const tsr_executable *part, const tsr_program_desc *description, uint8_t *touched,
                         uint8_t *written)
{
  const tsr_executable *whole = part->whole;
  const tsr_side *side = &whole->sides[0];
  for (int32_t i = part->first_line; i < part->first_line + part->n_lines; i++) {
    for (int32_t j = 0; j < OPERANDS; j++) {
      const int32_t storage = storage_of(whole, tsr_line_at(description, i), j);
      if (storage > 0 && side->storages[storage].size > 0) {
        touched[side->storages[storage].buffer] = 1;
        written[side->storages[storage].buffer] |= j >= TSR_MAX_INPUTS;
      }
    }
  }
}

static tsr_status fill_uses(tsr_executable *part, const uint8_t *touched, const uint8_t *written)
{
  const tsr_executable *whole = part->whole;
  const tsr_side *side = &whole->sides[0];
  tsr_side *own = &part->sides[0];
  own->buffers = calloc((size_t)side->n_buffers + 1, sizeof *own->buffers);
  if (!own->buffers) {
    return tsr_fail_memory(((size_t)side->n_buffers + 1) * sizeof *own->buffers);
  }
  for (int32_t i = 0; i < side->n_buffers; i++) {
    if (!touched[i]) {
      continue;
    }
    own->buffers[own->n_buffers++] = side->buffers[i];
    for (int32_t k = 0; k < whole->n_uses; k++) {
      if (whole->uses[k].buffer->handle == side->buffers[i]) {
        part->uses[part->n_uses++] = (tsr_use){.buffer = whole->uses[k].buffer, .is_written = written[i]};
      }
    }
  }
  return TSR_OK;
}

static void take_segments(tsr_executable *part)
{
  const tsr_executable *whole = part->whole;
  int32_t i = 0;
  while (whole->segments[i].first_line < part->first_line) {
    i++;
  }
  part->segments = &whole->segments[i];
  while (i + part->n_segments < whole->n_segments &&
         whole->segments[i + part->n_segments].first_line < part->first_line + part->n_lines) {
    part->n_segments++;
  }
}

/* On one device: the buffers that its lines use. */
static tsr_status fill_one_side(tsr_executable *part, const tsr_program_desc *description)
{
  const size_t n = (size_t)part->whole->sides[0].n_buffers;
  uint8_t *touched = calloc(n + 1, 1), *written = calloc(n + 1, 1);
  tsr_status status = touched && written ? TSR_OK : tsr_fail_memory(n);
  if (status == TSR_OK) {
    find_buffers(part, description, touched, written);
    status = fill_uses(part, touched, written);
  }
  free(touched);
  free(written);
  return status;
}

static tsr_status fill_part(tsr_executable *part, const tsr_program_desc *description)
{
  const tsr_executable *whole = part->whole;
  part->copies = whole->copies;
  part->bounce = whole->bounce;
  part->bounce_size = whole->bounce_size;
  take_segments(part);
  part->uses = calloc((size_t)whole->n_uses + 1, sizeof *part->uses);
  if (!part->uses) {
    return tsr_fail_memory(((size_t)whole->n_uses + 1) * sizeof *part->uses);
  }
  if (whole->n_sides > 1) { /* such a part is never in flight, and its copies look for buffers by number */
    part->sides = whole->sides;
    part->n_sides = whole->n_sides;
    part->n_uses = whole->n_uses;
    memcpy(part->uses, whole->uses, (size_t)whole->n_uses * sizeof *part->uses);
    return TSR_OK;
  }
  part->sides = calloc(1, sizeof *part->sides);
  if (!part->sides) {
    return tsr_fail_memory(sizeof *part->sides);
  }
  part->n_sides = 1;
  part->sides[0].device = whole->sides[0].device;
  return fill_one_side(part, description);
}

tsr_status tsr_executable_fill_parts(tsr_executable *executable, const tsr_program_desc *description)
{
  for (int32_t i = 0; i < executable->n_parts; i++) {
    TSR_TRY(fill_part(&executable->parts[i], description));
  }
  return TSR_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void tsr_executable_wait_for_parts(tsr_executable *executable)
{
  for (int32_t i = 0; i < executable->n_parts; i++) {
    if (executable->parts[i].is_in_flight && tsr_executable_wait(&executable->parts[i]) != TSR_OK) {
      tsr_log(TSR_LOG_WARNING, "%s", tsr_error_message());
    }
  }
}

void tsr_executable_free_parts(tsr_executable *executable)
{
  for (int32_t i = 0; i < executable->n_parts; i++) {
    tsr_executable *part = &executable->parts[i];
    if (part->n_sides == 1) {
      free(part->sides[0].buffers);
      free(part->sides);
    }
    free(part->uses);
  }
  free(executable->parts);
}
