/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of kernels: the extension "tessera.forms/1" of those backends that have it.
 */
#include <inttypes.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"
#include "core/runtime/internal.h"

/* NULL: there is no device, or its backend has no forms. */
static const tsr_forms_extension *forms_of(const tsr_device *device)
{
  return device ? device->backend->forms : NULL;
}

int32_t tsr_device_form_count(const tsr_device *device)
{
  const tsr_forms_extension *forms = forms_of(device);
  return forms ? forms->count : 0;
}

const char *tsr_device_form_name(const tsr_device *device, int32_t form)
{
  const tsr_forms_extension *forms = forms_of(device);
  return forms && form >= 1 && form <= forms->count ? forms->name(form) : NULL;
}

tsr_status tsr_device_force_form(tsr_device *device, int32_t form)
{
  if (!device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_force_form: device must not be NULL");
  }
  const int32_t count = tsr_device_form_count(device);
  if (form < 0 || form > count) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_force_form: there is no form %" PRId32 ", %s has %" PRId32 " of them",
                    form, device->name, count);
  }
  if (count == 0) {
    return TSR_OK;
  }
  tsr_device_enter(device);
  forms_of(device)->force(device->handle, form);
  tsr_device_leave(device);
  return TSR_OK;
}

static int has_line(const tsr_program *program, int32_t line)
{
  return program && line >= 0 && line < tsr_program_line_count(program);
}

int tsr_device_form_class(tsr_device *device, const tsr_program *program, int32_t line, char *text, size_t text_size)
{
  const tsr_forms_extension *forms = forms_of(device);
  if (text_size > 0) {
    text[0] = '\0';
  }
  if (!forms || text_size == 0 || !tsr_device_supports(device, program, line)) {
    return 0;
  }
  tsr_device_enter(device);
  int32_t has_class = forms->class_of(device->handle, tsr_program_describe(program), line, text,
                                      text_size < UINT32_MAX ? (uint32_t)text_size : UINT32_MAX);
  tsr_device_leave(device);
  return has_class == 1;
}

tsr_status tsr_device_remember_form(tsr_device *device, const tsr_program *program, int32_t line, int32_t form)
{
  if (!device || !has_line(program, line)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_remember_form: a device and a line of a program are needed");
  }
  const int32_t count = tsr_device_form_count(device);
  if (form < 0 || form > count) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_device_remember_form: there is no form %" PRId32 ", %s has %" PRId32 " of them", form,
                    device->name, count);
  }
  char text[2];
  if (!tsr_device_form_class(device, program, line, text, sizeof text)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "tsr_device_remember_form: on %s line %" PRId32 " has no forms", device->name,
                    line);
  }
  tsr_device_enter(device);
  tsr_slot_enter();
  tsr_status status = tsr_slot_leave(
      device->name, "remember", forms_of(device)->remember(device->handle, tsr_program_describe(program), line, form));
  tsr_device_leave(device);
  return status;
}

tsr_status tsr_device_save_forms(tsr_device *device)
{
  if (!device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_save_forms: device must not be NULL");
  }
  const tsr_forms_extension *forms = forms_of(device);
  if (!forms) {
    return TSR_OK;
  }
  tsr_device_enter(device);
  tsr_slot_enter();
  tsr_status status = tsr_slot_leave(device->name, "save", forms->save(device->handle));
  tsr_device_leave(device);
  return status;
}

int32_t tsr_device_form_of(tsr_device *device, const tsr_program *program, int32_t line)
{
  const tsr_forms_extension *forms = forms_of(device);
  if (!forms || !tsr_device_supports(device, program, line)) {
    return 0;
  }
  tsr_device_enter(device);
  int32_t form = forms->form_of(device->handle, tsr_program_describe(program), line);
  tsr_device_leave(device);
  return form;
}
