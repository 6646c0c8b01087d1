/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

void tsr_pairs_finish(tsr_pairs *pairs)
{
  for (int32_t i = 0; pairs->sounds && i < pairs->n; i++) {
    free(pairs->sounds[i].values);
  }
  free(pairs->sounds);
  free(pairs->bounds);
  free(pairs->lines);
  free(pairs->ids);
  *pairs = (tsr_pairs){0};
}

/* Room for one more pair; what failed half-way is freed with the rest. */
static tsr_status make_room(tsr_pairs *pairs)
{
  if (pairs->n < pairs->room) {
    return TSR_OK;
  }
  int32_t room = pairs->room > 0 ? 2 * pairs->room : 256;
  size_t bounds_size = (2 * (size_t)room + 1) * sizeof *pairs->bounds;
  int64_t *bounds = realloc(pairs->bounds, bounds_size);
  if (!bounds) {
    return tsr_fail_memory(bounds_size);
  }
  pairs->bounds = bounds;
  int64_t *lines = realloc(pairs->lines, (size_t)room * sizeof *lines);
  if (!lines) {
    return tsr_fail_memory((size_t)room * sizeof *lines);
  }
  pairs->lines = lines;
  pairs->room = room;
  return TSR_OK;
}

tsr_status tsr_pairs_add(tsr_pairs *pairs, const int32_t *source, int32_t n_source, const int32_t *target,
                         int32_t n_target, int64_t line)
{
  TSR_TRY(make_room(pairs));
  int64_t *bounds = pairs->bounds + 2 * (int64_t)pairs->n;
  if (pairs->n == 0) {
    bounds[0] = 0;
  }
  int64_t wanted = bounds[0] + n_source + n_target;
  if (wanted > pairs->ids_room) {
    int64_t room = wanted + wanted / 2 + 1024;
    int32_t *ids = realloc(pairs->ids, (size_t)room * sizeof *ids);
    if (!ids) {
      return tsr_fail_memory((size_t)room * sizeof *ids);
    }
    pairs->ids = ids;
    pairs->ids_room = room;
  }
  bounds[1] = bounds[0] + n_source;
  bounds[2] = wanted;
  if (n_source > 0) {
    memcpy(pairs->ids + bounds[0], source, (size_t)n_source * sizeof *source);
  }
  memcpy(pairs->ids + bounds[1], target, (size_t)n_target * sizeof *target);
  pairs->lines[pairs->n++] = line;
  return TSR_OK;
}

tsr_status tsr_pairs_add_sound(tsr_pairs *pairs, const tsr_pair_sound *sound, const int32_t *target, int32_t n_target,
                               int64_t line)
{
  TSR_TRY(make_room(pairs));
  tsr_pair_sound *sounds = realloc(pairs->sounds, (size_t)pairs->room * sizeof *sounds);
  if (!sounds) {
    return tsr_fail_memory((size_t)pairs->room * sizeof *sounds);
  }
  pairs->sounds = sounds;
  sounds[pairs->n] = *sound;
  return tsr_pairs_add(pairs, NULL, 0, target, n_target, line);
}
