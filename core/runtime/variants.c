/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of kernels: the extension "tessera.variants/1" of those backends that have it.
 */
#include <inttypes.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"
#include "core/runtime/internal.h"

/* NULL: there is no device, or its backend has no variants. */
static const tsr_variants_extension *variants_of(const tsr_device *device)
{
  return device ? device->backend->variants : NULL;
}

int32_t tsr_device_variant_count(const tsr_device *device)
{
  const tsr_variants_extension *variants = variants_of(device);
  return variants ? variants->count : 0;
}

const char *tsr_device_variant_name(const tsr_device *device, int32_t variant)
{
  const tsr_variants_extension *variants = variants_of(device);
  return variants && variant >= 1 && variant <= variants->count ? variants->name(variant) : NULL;
}

/* caller: the public function, for the message. */
static tsr_status check_variant(const char *caller, tsr_device *device, int32_t variant)
{
  const int32_t count = tsr_device_variant_count(device);
  if (variant < 0 || variant > count) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: there is no variant %" PRId32 ", %s has %" PRId32 " of them", caller,
                    variant, device->name, count);
  }
  return TSR_OK;
}

tsr_status tsr_device_force_variant(tsr_device *device, int32_t variant)
{
  if (!device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_force_variant: device must not be NULL");
  }
  TSR_TRY(check_variant("tsr_device_force_variant", device, variant));
  if (tsr_device_variant_count(device) == 0) {
    return TSR_OK;
  }
  tsr_device_enter(device);
  variants_of(device)->force(device->handle, variant);
  tsr_device_leave(device);
  return TSR_OK;
}

static int has_line(const tsr_program *program, int32_t line)
{
  return program && line >= 0 && line < tsr_program_line_count(program);
}

int tsr_device_variant_class(tsr_device *device, const tsr_program *program, int32_t line, char *text, size_t text_size)
{
  const tsr_variants_extension *variants = variants_of(device);
  if (text_size > 0) {
    text[0] = '\0';
  }
  if (!variants || text_size == 0 || !tsr_device_supports(device, program, line)) {
    return 0;
  }
  tsr_device_enter(device);
  int32_t has_class = variants->class_of(device->handle, tsr_program_describe(program), line, text,
                                         text_size < UINT32_MAX ? (uint32_t)text_size : UINT32_MAX);
  tsr_device_leave(device);
  return has_class == 1;
}

tsr_status tsr_device_remember_variant(tsr_device *device, const tsr_program *program, int32_t line, int32_t variant)
{
  if (!device || !has_line(program, line)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_remember_variant: a device and a line of a program are needed");
  }
  TSR_TRY(check_variant("tsr_device_remember_variant", device, variant));
  char text[2];
  if (!tsr_device_variant_class(device, program, line, text, sizeof text)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "tsr_device_remember_variant: on %s line %" PRId32 " has no variants",
                    device->name, line);
  }
  tsr_device_enter(device);
  tsr_slot_enter();
  tsr_status status =
      tsr_slot_leave(device->name, "remember",
                     variants_of(device)->remember(device->handle, tsr_program_describe(program), line, variant));
  tsr_device_leave(device);
  return status;
}

tsr_status tsr_device_save_variants(tsr_device *device)
{
  if (!device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_save_variants: device must not be NULL");
  }
  const tsr_variants_extension *variants = variants_of(device);
  if (!variants) {
    return TSR_OK;
  }
  tsr_device_enter(device);
  tsr_slot_enter();
  tsr_status status = tsr_slot_leave(device->name, "save", variants->save(device->handle));
  tsr_device_leave(device);
  return status;
}

int32_t tsr_device_variant_of(tsr_device *device, const tsr_program *program, int32_t line)
{
  const tsr_variants_extension *variants = variants_of(device);
  if (!variants || !tsr_device_supports(device, program, line)) {
    return 0;
  }
  tsr_device_enter(device);
  int32_t variant = variants->variant_of(device->handle, tsr_program_describe(program), line);
  tsr_device_leave(device);
  return variant;
}
