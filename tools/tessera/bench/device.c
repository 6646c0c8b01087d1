/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of a measurement: opened with a number of threads, and told of beside its numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"

void bench_choose_device(tsr_names *devices)
{
  if (devices->n == 0) {
    devices->n = 1;
  }
}

static int set_threads(int32_t threads)
{
  char text[BENCH_NUMBER];
  snprintf(text, sizeof text, "%d", (int)threads);
  return threads == 0 || setenv(BENCH_THREADS_VARIABLE, text, 1) == 0 ? TSR_EXIT_OK : tsr_cli_no_memory();
}

int bench_open_device(int32_t threads, const char *name, tsr_runtime **runtime, tsr_device **device)
{
  int code = set_threads(threads);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(runtime);
  }
  return code == TSR_EXIT_OK ? tsr_cli_device(*runtime, name, device) : code;
}

void bench_describe(const tsr_device *device, bench_device_text *text)
{
  const tsr_device_properties *properties = tsr_device_get_properties(device);
  snprintf(text->device, sizeof text->device, "%s", tsr_device_name(device));
  snprintf(text->name, sizeof text->name, "%s", properties->name);
  snprintf(text->driver, sizeof text->driver, "%s", properties->driver);
}

int bench_describe_body(const void *task)
{
  const bench_device_task *wanted = task;
  bench_device_text text = {0};
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  int32_t request;
  int code = bench_open_device(wanted->threads, bench_given(wanted->name), &runtime, &device);
  if (code == TSR_EXIT_OK) {
    bench_describe(device, &text);
  }
  if (code == TSR_EXIT_OK && bench_next(&request)) {
    bench_reply(&text, sizeof text);
  }
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  return code;
}

int bench_describe_device(const char *name, int32_t threads, bench_device_text *text)
{
  bench_device_task task = {.threads = threads};
  bench_crew crew;
  bench_give(task.name, sizeof task.name, name);
  int code = bench_crew_init(&crew, 1);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = bench_crew_start(&crew, BENCH_DESCRIBE, &task);
  if (code == TSR_EXIT_OK) {
    code = bench_crew_ask(&crew, 0, 0, text, sizeof *text);
  }
  bench_crew_finish(&crew);
  return code;
}

json_t *bench_device_json(json_t *root, const bench_device_text *text)
{
  char date[TSR_DATE_ROOM];
  if (root) {
    json_object_set_new(root, "device", json_string(text->device));
    json_object_set_new(root, "device_name", tsr_cli_json_text(text->name, strlen(text->name)));
    json_object_set_new(root, "driver", tsr_cli_json_text(text->driver, strlen(text->driver)));
    json_object_set_new(root, "date", json_string(tsr_cli_date(date)));
  }
  return root;
}
