/* SPDX-License-Identifier: Apache-2.0
 *
 * The extensions of backends that the runtime knows: asked for once, when a backend has started, and checked; and how a
 * table of functions is checked.
 */
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/internal.h"

static const tsr_slot_place variants_slots[] = {
    {"name", offsetof(tsr_variants_extension, name)},
    {"force", offsetof(tsr_variants_extension, force)},
    {"variant_of", offsetof(tsr_variants_extension, variant_of)},
    {"class_of", offsetof(tsr_variants_extension, class_of)},
    {"remember", offsetof(tsr_variants_extension, remember)},
    {"save", offsetof(tsr_variants_extension, save)},
};
static const tsr_slot_place fusion_slots[] = {{"operands_until", offsetof(tsr_fusion_extension, operands_until)}};
static const tsr_slot_place commands_slots[] = {{"describe", offsetof(tsr_commands_extension, describe)}};
static const tsr_slot_place runs_slots[] = {{"run_many", offsetof(tsr_runs_extension, run_many)}};
static const tsr_slot_place plan_slots[] = {{"describe", offsetof(tsr_plan_extension, describe)},
                                            {"operands_until", offsetof(tsr_plan_extension, operands_until)},
                                            {"plan", offsetof(tsr_plan_extension, plan)}};
static const tsr_slot_place kernels_slots[] = {{"prepare", offsetof(tsr_kernels_extension, prepare)}};

void tsr_slots_missing(const void *table, const tsr_slot_place *slots, size_t n_slots, char *text, size_t text_size)
{
  text[0] = '\0';
  for (size_t i = 0; i < n_slots; i++) {
    void (*slot)(void);
    memcpy(&slot, (const char *)table + slots[i].offset, sizeof slot);
    if (!slot) {
      tsr_text_append(text, text_size, "%s%s", text[0] ? ", " : "", slots[i].name);
    }
  }
}

/* The backend's extension of that name, whose first field is its size: *table is NULL if it has none. */
static tsr_status take(const tsr_backend_entry *entry, const char *name, size_t size, const tsr_slot_place *slots,
                       size_t n_slots, const void **table)
{
  const char *bytes = entry->table.get_extension(entry->context, name);
  uint32_t struct_size;
  *table = bytes;
  if (!bytes) {
    return TSR_OK;
  }
  memcpy(&struct_size, bytes, sizeof struct_size);
  if (struct_size < size) {
    return tsr_fail(
        TSR_ERR_PLUGIN,
        "backend '%s': its extension %s has %u bytes instead of %zu: the plugin sets struct_size wrongly, or "
        "was built from a damaged header",
        entry->table.name, name, (unsigned)struct_size, size);
  }
  char missing[256];
  tsr_slots_missing(bytes, slots, n_slots, missing, sizeof missing);
  if (missing[0]) {
    return tsr_fail(TSR_ERR_PLUGIN, "backend '%s': its extension %s lacks what it must have: %s", entry->table.name,
                    name, missing);
  }
  return TSR_OK;
}

/* All variants have a name, by which they are asked for. */
static tsr_status check_names(const tsr_backend_entry *entry, const tsr_variants_extension *variants)
{
  if (variants->count < 0) {
    return tsr_fail(TSR_ERR_PLUGIN, "backend '%s': its extension %s has %d variants: a fault of the backend",
                    entry->table.name, TSR_VARIANTS_EXTENSION, (int)variants->count);
  }
  for (int32_t variant = 1; variant <= variants->count; variant++) {
    if (!variants->name(variant)) {
      return tsr_fail(TSR_ERR_PLUGIN, "backend '%s': variant %d of %d has no name (NULL): a fault of the backend",
                      entry->table.name, (int)variant, (int)variants->count);
    }
  }
  return TSR_OK;
}

tsr_status tsr_extensions_take(tsr_backend_entry *entry)
{
  const void *variants, *kernels, *fusion, *commands, *plan, *runs;
  if (!entry->table.get_extension) {
    return TSR_OK;
  }
  TSR_TRY(take(entry, TSR_VARIANTS_EXTENSION, sizeof *entry->variants, variants_slots,
               sizeof variants_slots / sizeof variants_slots[0], &variants));
  if (variants) {
    TSR_TRY(check_names(entry, variants));
  }
  TSR_TRY(take(entry, TSR_KERNELS_EXTENSION, sizeof *entry->kernels, kernels_slots,
               sizeof kernels_slots / sizeof kernels_slots[0], &kernels));
  TSR_TRY(take(entry, TSR_FUSION_EXTENSION, sizeof *entry->fusion, fusion_slots,
               sizeof fusion_slots / sizeof fusion_slots[0], &fusion));
  TSR_TRY(take(entry, TSR_COMMANDS_EXTENSION, sizeof *entry->commands, commands_slots,
               sizeof commands_slots / sizeof commands_slots[0], &commands));
  TSR_TRY(take(entry, TSR_PLAN_EXTENSION, sizeof *entry->plan, plan_slots, sizeof plan_slots / sizeof plan_slots[0],
               &plan));
  TSR_TRY(take(entry, TSR_RUNS_EXTENSION, sizeof *entry->runs, runs_slots, sizeof runs_slots / sizeof runs_slots[0],
               &runs));
  entry->variants = variants;
  entry->kernels = kernels;
  entry->fusion = fusion;
  entry->commands = commands;
  entry->plan = plan;
  entry->runs = runs;
  return TSR_OK;
}
