/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device runs which line of a program that is split over several. A line runs where the largest of what it uses
 * lies: of the constants and states that the caller has bound, so that no weights are moved; a single number counts for
 * none. A line without such runs where the line before it does, so that few copies are waited for.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

enum { NOWHERE = TSR_MAX_SIDES, NUMBER = 8 /* bytes of one, at most */ };

int32_t tsr_executable_side_of(const tsr_executable *executable, const tsr_device *device)
{
  int32_t s = executable->n_devices - 1;
  while (s >= 0 && executable->sides[s].device != device) {
    s--;
  }
  return s;
}

/* Where the largest of what a line uses is bound, or NOWHERE. bound [n_storages]: likewise, of each storage. */
static uint8_t side_of_line(const tsr_executable *executable, const tsr_program_desc *description, int32_t index,
                            const uint8_t *bound)
{
  const tsr_line_desc *line = tsr_line_at(description, index);
  int64_t largest = NUMBER;
  uint8_t side = NOWHERE;
  for (int32_t i = 0; i < TSR_MAX_INPUTS + TSR_MAX_OUTPUTS; i++) {
    const int32_t tensor = i < TSR_MAX_INPUTS ? line->in[i] : line->out[i - TSR_MAX_INPUTS];
    const int32_t storage = tensor > 0 ? executable->tensor_storage[tensor] : 0;
    const int64_t size = storage > 0 ? tsr_storage_at(description, storage)->size : 0;
    if (bound[storage] != NOWHERE && size > largest) {
      largest = size;
      side = bound[storage];
    }
  }
  return side;
}

tsr_status tsr_executable_split(tsr_executable *executable, const tsr_program_desc *description,
                                const tsr_compile_options *options)
{
  if (executable->n_devices == 1) {
    return TSR_OK; /* all on side 0 */
  }
  const size_t n = (size_t)executable->n_storages + 1;
  uint8_t *bound = malloc(n);
  if (!bound) {
    return tsr_fail_memory(n);
  }
  for (size_t i = 0; i < n; i++) {
    bound[i] = NOWHERE;
  }
  for (int32_t i = 0; i < options->n_bindings; i++) {
    const tsr_binding *binding = &options->bindings[i];
    if (binding->tensor > 0 && binding->tensor < executable->n_tensors && binding->buffer) {
      const int32_t side = tsr_executable_side_of(executable, binding->buffer->device);
      bound[executable->tensor_storage[binding->tensor]] = (uint8_t)(side >= 0 ? side : NOWHERE);
    }
  }
  int32_t first = 0; /* line that has a side of its own */
  for (int32_t i = executable->n_lines - 1; i >= 0; i--) {
    executable->line_side[i] = side_of_line(executable, description, i, bound);
    first = executable->line_side[i] != NOWHERE ? i : first;
  }
  uint8_t side = executable->n_lines > 0 ? executable->line_side[first] : 0;
  for (int32_t i = 0; i < executable->n_lines; i++) {
    side = executable->line_side[i] != NOWHERE ? executable->line_side[i] : side;
    executable->line_side[i] = side != NOWHERE ? side : 0;
  }
  free(bound);
  return TSR_OK;
}
