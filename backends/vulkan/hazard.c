/* SPDX-License-Identifier: Apache-2.0
 *
 * True hazards: two accesses to the same bytes of which one writes. Temporaries share the arena's bytes, so reuse shows
 * up here as well. A barrier separates all that came before from all that comes after; then the list starts anew.
 */
#include <string.h>

#include "backends/vulkan/backend.h"

static int overlap(const tsr_vk_access *a, const tsr_vk_access *b)
{
  return a->buffer == b->buffer && (a->write || b->write) && a->begin < b->end && b->begin < a->end;
}

int tsr_vk_hazards_conflict(const tsr_vk_hazards *hazards, const tsr_vk_access *accesses, int32_t n, int independent)
{
  for (int32_t i = 0; i < hazards->n_accesses; i++) {
    const tsr_vk_access *earlier = &hazards->accesses[i];
    for (int32_t k = 0; k < n; k++) {
      if (overlap(earlier, &accesses[k]) && !(independent && earlier->line == accesses[k].line)) {
        return 1;
      }
    }
  }
  return 0;
}

int32_t tsr_vk_hazards_add(tsr_backend_device *d, tsr_vk_hazards *hazards, const tsr_vk_access *accesses, int32_t n)
{
  int32_t status =
      tsr_vk_grow(d, (void **)&hazards->accesses, &hazards->room, hazards->n_accesses + n, sizeof(*accesses));
  if (status == TSR_OK) {
    memcpy(hazards->accesses + hazards->n_accesses, accesses, (size_t)n * sizeof(*accesses));
    hazards->n_accesses += n;
  }
  return status;
}
