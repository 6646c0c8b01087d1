/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels ahead of the programs that need them: the extension "tessera.kernels/1" of those backends that have it.
 */
#include "core/base/status.h"
#include "core/runtime/executable.h"
#include "core/runtime/internal.h"

static tsr_status prepare(tsr_device *device, const tsr_program *program)
{
  const tsr_program_desc *description = tsr_program_describe(program);
  const tsr_kernels_extension *kernels = device->backend->kernels;
  for (int32_t line = 0; line < description->n_lines; line++) {
    char text[400];
    if (!tsr_device_supports_line(device, description, line)) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s does not support line %d: %s", device->name, (int)line,
                      tsr_program_print_line(program, line, text, sizeof text));
    }
  }
  return kernels ? TSR_SLOT(device->name, kernels, prepare, device->handle, description) : TSR_OK;
}

tsr_status tsr_device_prepare(tsr_device *device, const tsr_program *program)
{
  if (!device || !program) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_prepare: device and program must not be NULL");
  }
  TSR_TRY(tsr_program_status(program));
  tsr_device_enter(device);
  tsr_status status = prepare(device, program);
  tsr_device_leave(device);
  return status;
}
