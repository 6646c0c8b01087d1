/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lines run together, and which storages are copied between the two sides, and when.
 *
 * For each storage the sides that hold its current bytes are followed through the program. A line that finds them stale
 * on its side has them copied before its segment; a line that writes leaves its own side as the only current one. At
 * the end, outputs and states are made current on side 0, where the caller looks for them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

/* Bit of a side in a set of sides. */
enum { SIDE_0 = 1, SIDE_1 = 2, BOTH_SIDES = 3 };

static int is_state(const tsr_program_desc *description, int32_t storage)
{
  return tsr_storage_at(description, storage)->kind == TSR_STORAGE_STATE;
}

tsr_status tsr_executable_segment(tsr_executable *executable, const tsr_program_desc *description)
{
  executable->segments = calloc((size_t)executable->n_lines + 1, sizeof(tsr_segment));
  if (!executable->segments) {
    return tsr_fail_memory((size_t)executable->n_lines * sizeof(tsr_segment));
  }
  for (int32_t i = 0; i < executable->n_lines; i++) {
    int32_t side = executable->line_side[i];
    tsr_segment *last = executable->n_segments ? &executable->segments[executable->n_segments - 1] : NULL;
    if (last && last->side == side) {
      last->n_lines++;
    } else {
      executable->segments[executable->n_segments++] = (tsr_segment){.side = side, .first_line = i, .n_lines = 1};
    }
    if (side == 0) {
      continue;
    }
    executable->info.fallback_lines++;
    const tsr_line_desc *line = tsr_line_at(description, i);
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      if (line->in[j] > 0) {
        executable->flags[executable->tensor_storage[line->in[j]]] |= TSR_MIRRORED;
      }
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      if (line->out[j] > 0) {
        executable->flags[executable->tensor_storage[line->out[j]]] |= TSR_MIRRORED;
      }
    }
  }
  executable->info.lines = executable->n_lines;
  executable->info.segments = executable->n_segments;
  return TSR_OK;
}

/* Appends the copy that makes a storage current on side `to`, unless it is. A storage that is current nowhere was not
 * written yet: nothing to copy. */
static tsr_status make_current(tsr_executable *executable, const tsr_program_desc *description, tsr_list *copies,
                               uint8_t *current, int32_t storage, int32_t to)
{
  int bit = 1 << to;
  if (current[storage] & bit) {
    return TSR_OK;
  }
  int64_t size = tsr_storage_at(description, storage)->size;
  if (current[storage] && size > 0) {
    tsr_copy_step *copy = tsr_list_add(copies, sizeof *copy);
    if (!copy) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    *copy = (tsr_copy_step){.storage = storage, .to = to};
    executable->info.copies++;
    executable->info.copy_bytes += size;
    if (size > executable->bounce_size) {
      executable->bounce_size = size;
    }
  }
  current[storage] |= (uint8_t)bit;
  return TSR_OK;
}

/* Follows the lines. current[storage]: the sides that hold its current bytes, at the start and then at the end. */
static tsr_status follow(tsr_executable *executable, const tsr_program_desc *description, tsr_list *copies,
                         uint8_t *current)
{
  executable->info.copies = 0;
  executable->info.copy_bytes = 0;
  executable->bounce_size = 0;
  copies->count = 0;
  for (int32_t s = 0; s < executable->n_segments; s++) {
    tsr_segment *segment = &executable->segments[s];
    segment->first_copy = copies->count;
    for (int32_t i = segment->first_line; i < segment->first_line + segment->n_lines; i++) {
      const tsr_line_desc *line = tsr_line_at(description, i);
      for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
        if (line->in[j] > 0) {
          TSR_TRY(make_current(executable, description, copies, current, executable->tensor_storage[line->in[j]],
                               segment->side));
        }
      }
      for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
        if (line->out[j] <= 0) {
          continue;
        }
        int32_t storage = executable->tensor_storage[line->out[j]];
        if (is_state(description, storage)) { /* written in part: the rest must be there */
          TSR_TRY(make_current(executable, description, copies, current, storage, segment->side));
        }
        current[storage] = (uint8_t)(1 << segment->side);
      }
    }
    segment->n_copies = copies->count - segment->first_copy;
  }
  executable->first_final = copies->count;
  for (int32_t i = 1; i < executable->n_storages; i++) {
    int32_t kind = tsr_storage_at(description, i)->kind;
    if (kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_STATE) {
      TSR_TRY(make_current(executable, description, copies, current, i, 0));
    }
  }
  return TSR_OK;
}

/* The sides on which a storage is current when a run starts. */
static uint8_t current_at_start(const tsr_executable *executable, const tsr_program_desc *description, int32_t storage)
{
  switch (tsr_storage_at(description, storage)->kind) {
  case TSR_STORAGE_CONSTANT:
    return BOTH_SIDES;
  case TSR_STORAGE_INPUT:
  case TSR_STORAGE_STATE:
    return executable->flags[storage] & TSR_WRITE_BOTH ? BOTH_SIDES : SIDE_0;
  default:
    return 0;
  }
}

tsr_status tsr_executable_schedule(tsr_executable *executable, const tsr_program_desc *description)
{
  if (executable->n_sides == 1) {
    return TSR_OK;
  }
  tsr_status status = TSR_OK;
  tsr_list copies = {0};
  uint8_t *current = calloc((size_t)executable->n_storages, 1);
  if (!current) {
    status = tsr_fail_memory((size_t)executable->n_storages);
    goto done;
  }

  /* What nobody else can write keeps its mirror current between runs: the host writes both sides. For states this holds
   * only if a run ends with both sides current; so it is first assumed, then given up for those that do not. Storages
   * do not influence each other, so a second pass is final. */
  for (int32_t i = 1; i < executable->n_storages; i++) {
    int32_t kind = tsr_storage_at(description, i)->kind;
    if ((kind == TSR_STORAGE_INPUT || kind == TSR_STORAGE_STATE) && (executable->flags[i] & TSR_MIRRORED) &&
        !(executable->flags[i] & TSR_BOUND)) {
      executable->flags[i] |= TSR_WRITE_BOTH;
    }
  }
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 1; i < executable->n_storages; i++) {
      current[i] = current_at_start(executable, description, i);
    }
    status = follow(executable, description, &copies, current);
    if (status != TSR_OK) {
      goto done;
    }
    for (int32_t i = 1; i < executable->n_storages; i++) {
      if (is_state(description, i) && pass == 0 && !(current[i] & SIDE_1)) {
        executable->flags[i] &= (uint8_t)~TSR_WRITE_BOTH;
      }
    }
  }
  for (int32_t i = 1; i < executable->n_storages; i++) {
    if (current[i] == SIDE_1) {
      executable->flags[i] |= TSR_ON_FALLBACK;
    }
  }
  executable->copies = copies.items;
  executable->n_copies = copies.count;
  copies = (tsr_list){0};
done:
  tsr_list_finish(&copies);
  free(current);
  return status;
}
