/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lines run together, and which storages are copied from side to side, and when.
 *
 * For each storage the sides that hold its current bytes are followed through the program. A line that finds them stale
 * on its side has them copied before its segment; a line that writes leaves its own side as the only current one. At
 * the end, outputs and states are made current at home, where the caller looks for them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

static int is_state(const tsr_program_desc *description, int32_t storage)
{
  return tsr_storage_at(description, storage)->kind == TSR_STORAGE_STATE;
}

static uint32_t bit_of(int32_t side)
{
  return UINT32_C(1) << side;
}

static int32_t first_in(uint32_t sides)
{
  int32_t side = 0;
  while (!(sides & bit_of(side))) {
    side++;
  }
  return side;
}

/* The sides that have bytes of a storage. */
static uint32_t sides_with(const tsr_spot *spot)
{
  return spot->sides | bit_of(spot->home);
}

/* Notes that a line of the newest segment touches a storage. touched [n_storages]: the last segment that did, from
 * 1. */
static void touch(tsr_executable *executable, int32_t storage, int32_t *touched)
{
  tsr_spot *spot = &executable->spots[storage];
  spot->sides |= bit_of(executable->segments[executable->n_segments - 1].side);
  spot->flags |= touched[storage] != 0 && touched[storage] != executable->n_segments ? TSR_CROSSES : 0;
  touched[storage] = executable->n_segments;
}

static void divide_lines(tsr_executable *executable, const tsr_program_desc *description, int32_t *touched)
{
  for (int32_t i = 0; i < executable->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(description, i);
    int32_t side = executable->line_side[i];
    tsr_segment *last = executable->n_segments ? &executable->segments[executable->n_segments - 1] : NULL;
    if (last && last->side == side && !tsr_executable_part_at(executable, i)) {
      last->n_lines++;
    } else {
      executable->segments[executable->n_segments++] = (tsr_segment){.side = side, .first_line = i, .n_lines = 1};
    }
    executable->info.fallback_lines += side >= executable->n_devices;
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      if (line->in[j] > 0) {
        touch(executable, executable->tensor_storage[line->in[j]], touched);
      }
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      if (line->out[j] > 0) {
        touch(executable, executable->tensor_storage[line->out[j]], touched);
      }
    }
  }
}

tsr_status tsr_executable_segment(tsr_executable *executable, const tsr_program_desc *description)
{
  size_t n_storages = (size_t)executable->n_storages + 1;
  int32_t *touched = calloc(n_storages, sizeof *touched);
  executable->segments = calloc((size_t)executable->n_lines + 1, sizeof(tsr_segment));
  if (!executable->segments || !touched) {
    free(touched);
    return tsr_fail_memory((size_t)executable->n_lines * sizeof(tsr_segment) + n_storages * sizeof *touched);
  }
  divide_lines(executable, description, touched);
  free(touched);
  executable->info.lines = executable->n_lines;
  executable->info.segments = executable->n_segments;
  return TSR_OK;
}

tsr_program_desc tsr_segment_describe(const tsr_segment *segment, const tsr_program_desc *description,
                                      const tsr_storage_desc *storages)
{
  tsr_program_desc part = *description;
  part.storages = storages;
  part.storage_size = sizeof *storages;
  part.lines = tsr_line_at(description, segment->first_line);
  part.n_lines = segment->n_lines;
  return part;
}

/* Appends the copy that makes a storage current on side `to`, unless it is. A storage that is current nowhere was not
 * written yet: nothing to copy. */
static tsr_status make_current(tsr_executable *executable, const tsr_program_desc *description, tsr_list *copies,
                               uint32_t *current, int32_t storage, int32_t to)
{
  if (current[storage] & bit_of(to)) {
    return TSR_OK;
  }
  int64_t size = tsr_storage_at(description, storage)->size;
  if (current[storage] && size > 0) {
    tsr_copy_step *copy = tsr_list_add(copies, sizeof *copy);
    if (!copy) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    *copy = (tsr_copy_step){.storage = storage, .from = first_in(current[storage]), .to = to};
    executable->info.copies++;
    executable->info.copy_bytes += size;
    if (size > executable->bounce_size) {
      executable->bounce_size = size;
    }
  }
  current[storage] |= bit_of(to);
  return TSR_OK;
}

/* What a run leaves is made current at home. *first: of these copies. */
static tsr_status end_run(tsr_executable *executable, const tsr_program_desc *description, tsr_list *copies,
                          uint32_t *current, int32_t *first)
{
  *first = copies->count;
  for (int32_t i = 1; i < executable->n_storages; i++) {
    int32_t kind = tsr_storage_at(description, i)->kind;
    if (kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_STATE) {
      TSR_TRY(make_current(executable, description, copies, current, i, executable->spots[i].home));
    }
  }
  return TSR_OK;
}

/* Follows the lines. current[storage]: the sides that hold its current bytes, at the start and then at the end. */
static tsr_status follow(tsr_executable *executable, const tsr_program_desc *description, tsr_list *copies,
                         uint32_t *current)
{
  executable->info.copies = 0;
  executable->info.copy_bytes = 0;
  executable->bounce_size = 0;
  copies->count = 0;
  tsr_executable *part = NULL;
  for (int32_t s = 0; s < executable->n_segments; s++) {
    tsr_segment *segment = &executable->segments[s];
    tsr_executable *begun = tsr_executable_part_at(executable, segment->first_line);
    if (begun && part) {
      TSR_TRY(end_run(executable, description, copies, current, &part->first_final));
      part->n_copies = copies->count;
    }
    part = begun ? begun : part;
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
        current[storage] = bit_of(segment->side);
      }
    }
    segment->n_copies = copies->count - segment->first_copy;
  }
  TSR_TRY(end_run(executable, description, copies, current, &executable->first_final));
  if (part) {
    part->first_final = executable->first_final;
    part->n_copies = copies->count;
  }
  return TSR_OK;
}

/* The sides on which a storage is current when a run starts. */
static uint32_t current_at_start(const tsr_executable *executable, const tsr_program_desc *description, int32_t storage)
{
  const tsr_spot *spot = &executable->spots[storage];
  switch (tsr_storage_at(description, storage)->kind) {
  case TSR_STORAGE_CONSTANT:
    return sides_with(spot);
  case TSR_STORAGE_INPUT:
  case TSR_STORAGE_STATE:
    return spot->flags & TSR_WRITE_ALL ? sides_with(spot) : bit_of(spot->home);
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
  uint32_t *current = calloc((size_t)executable->n_storages, sizeof *current);
  if (!current) {
    status = tsr_fail_memory((size_t)executable->n_storages * sizeof *current);
    goto done;
  }

  /* What nobody else can write stays current on all its sides between runs: the host writes them all. For states this
   * holds only if a run ends with all of them current; so it is first assumed, then given up for those that do not.
   * Storages do not influence each other, so a second pass is final. */
  for (int32_t i = 1; i < executable->n_storages; i++) {
    int32_t kind = tsr_storage_at(description, i)->kind;
    if ((kind == TSR_STORAGE_INPUT || kind == TSR_STORAGE_STATE) && !(executable->spots[i].flags & TSR_BOUND)) {
      executable->spots[i].flags |= TSR_WRITE_ALL;
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
      if (is_state(description, i) && pass == 0 && (sides_with(&executable->spots[i]) & ~current[i])) {
        executable->spots[i].flags &= (uint8_t)~TSR_WRITE_ALL;
      }
    }
  }
  for (int32_t i = 1; i < executable->n_storages; i++) {
    tsr_spot *spot = &executable->spots[i];
    int is_at_home = current[i] == 0 || (current[i] & bit_of(spot->home));
    spot->last = is_at_home ? spot->home : (uint8_t)first_in(current[i]);
  }
  executable->copies = copies.items;
  executable->n_copies = copies.count;
  copies = (tsr_list){0};
done:
  tsr_list_finish(&copies);
  free(current);
  return status;
}
