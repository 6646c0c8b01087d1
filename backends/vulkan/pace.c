/* SPDX-License-Identifier: Apache-2.0
 *
 * How much work one submit may have. A driver that also draws the desktop takes a GPU for hung whose kernel does not
 * end within some seconds, and a desktop stands still for as long. Work is estimated by the planners; how fast a device
 * is, the first submits tell: they are small, and the more a device does in a second, the larger the next ones.
 */
#include "backends/vulkan/backend.h"

static const double wanted_seconds = 0.3;
static const double first_bound = 2e10; /* 0.2 s of a small integrated GPU; of a card, for each GiB that it has */
static const double least_bound = 1e8, largest_bound = 1e13;
enum { MOST_PARTS = 256 }; /* of one dispatch: beyond, to submit costs more than it helps */

/* What was recorded before the pace is known stays as it is, so a fast device is to begin with large submits: a product
 * that is divided into seven takes an H100 nearly twice as long. A card's memory tells of which class it is. */
void tsr_vk_pace_init(tsr_vk_pace *pace, const tsr_vk_caps *caps, uint64_t memory, double wanted)
{
  const double gib = caps->unified ? 1 : (double)memory / (double)(1 << 30);
  *pace = (tsr_vk_pace){.bound = wanted >= 0              ? wanted
                                 : caps->compute_like_cpu ? 0
                                                          : first_bound * (gib > 1 ? gib : 1),
                        .learns = wanted < 0 && !caps->compute_like_cpu};
}

void tsr_vk_pace_learn(tsr_vk_pace *pace, double work, double seconds)
{
  enum { MOST_AT_ONCE = 4 };
  if (!pace->learns || !(work > 0) || !(seconds > 0)) {
    return;
  }
  /* What takes less than a millisecond tells of the costs of a submit, too, and not that the device is slow. */
  double bound = seconds < 1e-3 && work < pace->bound ? pace->bound : work * wanted_seconds / seconds;
  bound = bound < pace->bound * MOST_AT_ONCE ? bound : pace->bound * MOST_AT_ONCE;
  bound = bound < largest_bound ? bound : largest_bound;
  pace->bound = bound > least_bound ? bound : least_bound;
}

uint32_t tsr_vk_pace_parts(const tsr_vk_pace *pace, const tsr_vk_dispatch *dispatch, int *axis)
{
  *axis = dispatch->groups[2] > 1 ? 2 : dispatch->groups[1] > 1 ? 1 : 0;
  if (!(pace->bound > 0) || dispatch->work <= pace->bound) {
    return 1;
  }
  const double wanted = dispatch->work / pace->bound + 1;
  const uint32_t most = dispatch->groups[*axis] < MOST_PARTS ? dispatch->groups[*axis] : MOST_PARTS;
  return wanted < (double)most ? (uint32_t)wanted : most;
}
