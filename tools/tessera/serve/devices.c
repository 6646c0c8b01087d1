/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/devices.h"

#include <stdio.h>
#include <string.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/serve/instance.h"

/* The entry of a device, which may be new. NULL: there is no more room. */
static struct device_state *entry(device_list *list, const char *name)
{
  for (int32_t i = 0; i < list->n; i++) {
    if (strcmp(list->items[i].name, name) == 0) {
      return &list->items[i];
    }
  }
  if (list->n == MOST_DEVICES) {
    return NULL;
  }
  struct device_state *added = &list->items[list->n++];
  *added = (struct device_state){.kind = ""};
  snprintf(added->name, sizeof added->name, "%s", name);
  return added;
}

static void note_transcriber(device_list *list, const instance *by)
{
  const tsr_device *device = tsr_transcriber_device(by->transcriber);
  struct device_state *found = entry(list, tsr_device_name(device));
  if (found) {
    found->kind = tsr_cli_device_type(tsr_device_get_properties(device)->type);
    found->bytes += atomic_load(&by->device_bytes);
    found->models++;
  }
}

void devices_note(device_list *list, const instance *by)
{
  tsr_translator_device one;
  if (by->transcriber) {
    note_transcriber(list, by);
    return;
  }
  for (int32_t i = 0; tsr_translator_get_device(by->translator, i, &one) == TSR_OK; i++) {
    struct device_state *found = entry(list, one.name);
    if (found) {
      found->kind = one.type ? tsr_cli_device_type(one.type) : found->kind;
      found->bytes += one.bytes_in_use;
      found->models += !one.is_lost;
      found->is_lost |= one.is_lost;
    }
  }
}

void devices_note_lost(device_list *list, const char *name, const serve_settings *settings)
{
  char full[64];
  for (int32_t i = 0; i < (name[0] ? 1 : settings->devices.n); i++) {
    const char *one = name[0] ? name : settings->devices.values[i];
    snprintf(full, sizeof full, strchr(one, ':') ? "%s" : "%s:0", one);
    struct device_state *found = strcmp(one, "auto") == 0 ? NULL : entry(list, full);
    if (found && found->models == 0) {
      found->is_lost = 1;
    }
  }
}

json_t *devices_json(const device_list *list)
{
  json_t *all = json_array();
  for (int32_t i = 0; i < list->n; i++) {
    const struct device_state *one = &list->items[i];
    json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:b, s:i}", "name", one->name, "kind", one->kind, "bytes",
                                         (json_int_t)one->bytes, "lost", one->is_lost != 0, "models", one->models));
  }
  return all;
}

void devices_print(text_buffer *b, const device_list *list)
{
  text_add(b, "# HELP tessera_device_bytes Memory of the device that open models hold.\n"
              "# TYPE tessera_device_bytes gauge\n");
  for (int32_t i = 0; i < list->n; i++) {
    text_add(b, "tessera_device_bytes{device=\"%s\"} %lld\n", list->items[i].name, (long long)list->items[i].bytes);
  }
  text_add(b, "# HELP tessera_device_lost 1: the device failed, and is tried again.\n"
              "# TYPE tessera_device_lost gauge\n");
  for (int32_t i = 0; i < list->n; i++) {
    text_add(b, "tessera_device_lost{device=\"%s\"} %d\n", list->items[i].name, list->items[i].is_lost ? 1 : 0);
  }
}
