/* SPDX-License-Identifier: Apache-2.0
 *
 * What loading a model takes of the host's memory: load_memory DEVICE. Beyond the mapped file and the device's own
 * memory it has to stay under 1.2 times the largest tensor plus 64 MB.
 *
 * A device that is a CPU keeps its memory in the same process. So what counts is what /proc tells of memory that is no
 * file's (RssAnon and RssShmem), at its peak while the weights are uploaded, less what there was before, less the bytes
 * of the buffers that the transformer made: each parameter in the type that it has on the device, and the table of
 * positions. What a driver rounds up, and what it needs for itself, counts as the host's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/transformer/model.h"
#include "tests/model/large_model.h"
#include "tests/support/temporary.h"

static const large_model sizes = {
    .vocabulary = 100000, .d_model = 512, .d_ff = 2048, .heads = 8, .layers = 10, .positions = 128};

/* Bytes of the process that belong to no file; 0 if /proc does not tell. */
static int64_t own_memory(void)
{
  char line[256];
  int64_t total = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, "RssAnon:", 8) == 0 || strncmp(line, "RssShmem:", 9) == 0) {
      total += 1024 * strtoll(strchr(line, ':') + 1, NULL, 10);
    }
  }
  if (file) {
    fclose(file);
  }
  return total;
}

typedef struct watcher {
  atomic_int stop;
  int64_t peak;
} watcher;

static void *watch(void *argument)
{
  watcher *w = argument;
  const struct timespec pause = {.tv_nsec = 1000000};
  while (!atomic_load(&w->stop)) {
    int64_t now = own_memory();
    w->peak = now > w->peak ? now : w->peak;
    nanosleep(&pause, NULL);
  }
  return NULL;
}

static int failed(const char *what)
{
  fprintf(stderr, "%s: %s\n", what, tsr_error_message());
  return 1;
}

static int64_t device_bytes(const tsr_model *model, int64_t *largest)
{
  const tsr_transformer_config *config = tsr_model_config(model);
  int64_t total = ((int64_t)config->max_positions + config->position_offset) * config->d_model * (int64_t)sizeof(float);
  *largest = 0;
  for (int32_t i = 0; i < model->parameters.n; i++) {
    const tsr_parameter *parameter = &model->parameters.items[i];
    int64_t elements = tsr_shape_elements(&parameter->shape);
    int64_t stored = elements * (int64_t)tsr_dtype_size(parameter->stored);
    *largest = stored > *largest ? stored : *largest;
    total += elements * (int64_t)tsr_dtype_size(tsr_parameter_dtype(parameter, 0));
  }
  return total;
}

static int measure(const tsr_model *model, tsr_device *device)
{
  const double mb = 1e6;
  int64_t largest = 0;
  int64_t on_device = device_bytes(model, &largest);
  int64_t before = own_memory();
  tsr_transformer *transformer = NULL;
  watcher w = {.peak = before};
  pthread_t thread;
  if (before == 0 || pthread_create(&thread, NULL, watch, &w) != 0) {
    return 77;
  }
  tsr_status status = tsr_transformer_create(model, device, NULL, &transformer);
  atomic_store(&w.stop, 1);
  pthread_join(thread, NULL);
  if (status != TSR_OK) {
    return failed("upload");
  }
  int64_t after = own_memory();
  w.peak = after > w.peak ? after : w.peak;
  double extra = (double)(w.peak - before - on_device);
  double allowed = 1.2 * (double)largest + 64.0 * mb;
  printf("%s: largest tensor %.1f MB, on the device %.1f MB, before %.1f MB, at the peak %.1f MB: %.1f MB of the host, "
         "%.1f MB allowed\n",
         tsr_device_name(device), (double)largest / mb, (double)on_device / mb, (double)before / mb,
         (double)w.peak / mb, extra / mb, allowed / mb);
  tsr_transformer_destroy(transformer);
  return extra <= allowed && (double)on_device > allowed ? 0 : 1;
}

/* AddressSanitizer's own memory would count. */
static int is_instrumented(void)
{
#if defined(__SANITIZE_ADDRESS__)
  return 1;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return 1;
#endif
#endif
  return 0;
}

int main(int argc, char **argv)
{
  if (is_instrumented()) {
    return 77;
  }
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  tsr_model *model = NULL;
  if (argc != 2 || tsr_runtime_create(NULL, &runtime) != TSR_OK) {
    return failed("runtime");
  }
  if (tsr_device_open(runtime, argv[1], &device) != TSR_OK) {
    (void)failed("skipped");
    tsr_runtime_destroy(runtime);
    return 77;
  }
  char *folder = make_temporary_folder();
  int code =
      large_model_write(folder, &sizes) == TSR_OK && tsr_model_open(folder, &model) == TSR_OK ? 0 : failed("model");
  if (code == 0) {
    code = measure(model, device);
  }
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  remove_temporary_folder(folder);
  return code;
}
