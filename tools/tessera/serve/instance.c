/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/instance.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/hearing.h"
#include "tools/tessera/serve/model_set.h"

enum { MOST_QUEUE = 1 << 30 };

static tsr_status choose_search(instance *by)
{
  const serve_settings *settings = by->settings;
  if (by->transcriber) { /* each request says how it is searched */
    return TSR_OK;
  }
  const tsr_model *opened = tsr_translator_model(by->translator);
  by->search = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_generate_defaults(opened, &by->search);
  if (status != TSR_OK) {
    return status;
  }
  by->search.n_best = 1;
  if (search_settings_apply(&settings->search, &by->lists, &by->search) != TSR_EXIT_OK) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the options of the search do not fit");
  }
  int32_t positions = tsr_model_config(opened)->max_positions;
  if (positions > 0 && by->search.max_length > positions) {
    by->search.max_length = positions;
  }
  status = search_settings_check_file(&settings->search, tsr_model_folder(opened), &by->search);
  return status == TSR_OK ? tsr_generate_check(opened, &by->search) : status;
}

int instance_is_about_device(tsr_status status)
{
  return status == TSR_ERR_NO_DEVICE || status == TSR_ERR_DEVICE_LOST || status == TSR_ERR_DEVICE_MEMORY ||
         status == TSR_ERR_NOT_FINITE || status == TSR_ERR_PLUGIN;
}

/* On the first of the devices that can be opened: a model of speech computes on one. */
static tsr_status open_transcriber(instance *by, const char *folder, tsr_runtime *runtime, const char *const *devices,
                                   int32_t n)
{
  tsr_transcriber_options options = {TSR_SIZED(tsr_transcriber_options), .weights = by->settings->precision,
                                     .runtime = runtime, .batch = by->settings->sound_batch};
  tsr_status status = TSR_ERR_NO_DEVICE;
  int32_t i = 0;
  do {
    options.device = n > 0 ? devices[i] : NULL;
    status = tsr_transcriber_open(folder, &options, &by->transcriber);
  } while (instance_is_about_device(status) && ++i < n);
  return status;
}

static tsr_status open_on(instance *by, const char *folder, tsr_runtime *runtime, const char *const *devices, int32_t n)
{
  const serve_settings *settings = by->settings;
  if (by->hears) {
    return open_transcriber(by, folder, runtime, devices, n);
  }
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options),
                                          .n_devices = n,
                                          .devices = devices,
                                          .runtime = runtime,
                                          .split = settings->split && n > 1,
                                          .weights = settings->precision,
                                          .batch = settings->batch,
                                          .workers = settings->workers,
                                          .queue = MOST_QUEUE};
  return tsr_translator_open(folder, &options, &by->translator);
}

/* On those of several devices that can be opened. */
static tsr_status open_on_rest(instance *by, const char *folder, tsr_runtime *runtime)
{
  const serve_settings *settings = by->settings;
  const char **names = malloc(((size_t)settings->devices.n + 1) * sizeof *names);
  int32_t n = 0;
  for (int32_t i = 0; names && i < settings->devices.n; i++) {
    tsr_device *device = NULL;
    if (tsr_device_open(runtime, settings->devices.values[i], &device) == TSR_OK) {
      names[n++] = settings->devices.values[i];
      tsr_device_close(device);
    }
  }
  tsr_status status = n > 0 ? open_on(by, folder, runtime, names, n) : TSR_ERR_NO_DEVICE;
  free(names);
  return status;
}

static tsr_status open_where(instance *by, const char *folder, tsr_runtime *runtime, int where)
{
  static const char *const others[] = {"cpu", "reference"};
  const serve_settings *settings = by->settings;
  tsr_status status = TSR_ERR_NO_DEVICE;
  if (where != INSTANCE_OTHERS) {
    status = open_on(by, folder, runtime, settings->devices.values, settings->devices.n);
    if (status == TSR_OK || where == INSTANCE_ASKED || !instance_is_about_device(status)) {
      return status;
    }
    tsr_cli_warning("%s: %s; going on without it", folder, tsr_error_message());
    status = settings->devices.n > 1 ? open_on_rest(by, folder, runtime) : status;
  }
  for (int i = 0; i < 2 && instance_is_about_device(status); i++) {
    status = open_on(by, folder, runtime, &others[i], 1);
  }
  atomic_store(&by->has_lost, status == TSR_OK);
  return status;
}

void instance_free(instance *by)
{
  if (by) {
    hearing_stop(by);
    tsr_translator_close(by->translator);
    tsr_transcriber_close(by->transcriber);
    search_lists_finish(&by->lists);
    free(by);
  }
}

void instance_note_bytes(instance *by)
{
  tsr_device_counters counters = {TSR_SIZED(tsr_device_counters)};
  if (tsr_device_get_counters(tsr_transcriber_device(by->transcriber), &counters) == TSR_OK) {
    atomic_store(&by->device_bytes, (long long)counters.bytes_in_use);
  }
}

tsr_status instance_open(models *m, const model *of, const serve_settings *settings, tsr_runtime *runtime, int where,
                         instance **made)
{
  instance *by = calloc(1, sizeof *by);
  *made = by;
  if (!by) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of host memory");
  }
  by->models = m;
  by->settings = settings;
  by->hears = of->hears;
  atomic_init(&by->references, 1);
  tsr_status status = open_where(by, of->folder, runtime, where);
  if (status == TSR_OK) {
    status = choose_search(by);
  }
  if (status == TSR_OK && by->transcriber) {
    instance_note_bytes(by);
    status = hearing_start(by) ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "no thread is to be had");
  }
  if (status != TSR_OK) {
    instance_free(by);
    *made = NULL;
  }
  return status;
}

int instance_failed_device(instance *by, char name[DEVICE_NAME_ROOM])
{
  tsr_translator_device one;
  int has_failed = 0;
  name[0] = '\0';
  for (int32_t i = 0; by->translator && tsr_translator_get_device(by->translator, i, &one) == TSR_OK; i++) {
    has_failed |= one.is_lost;
    if (one.is_lost && one.type == 0) {
      strcpy(name, one.name);
    }
  }
  return has_failed;
}

int instance_uses(instance *by, const char *name)
{
  tsr_translator_device one;
  if (by->transcriber) {
    return strcmp(tsr_device_name(tsr_transcriber_device(by->transcriber)), name) == 0;
  }
  for (int32_t i = 0; tsr_translator_get_device(by->translator, i, &one) == TSR_OK; i++) {
    if (!one.is_lost && strcmp(one.name, name) == 0) {
      return 1;
    }
  }
  return 0;
}
