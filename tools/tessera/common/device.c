/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

enum { PATH_ROOM = 4096 };

/* In the build tree the program is BUILD/tools/tessera/tessera and the plugins are in BUILD/backends/NAME. Writes the
 * folders of those names, colon-separated; returns 0 if the program does not run from there. */
static int build_tree_path(const char *const *names, size_t n_names, char *path, size_t size)
{
  static const char program[] = "/tools/tessera/tessera";
  char self[PATH_ROOM];
  size_t length = path_of_program(self, sizeof self) ? strlen(self) : 0;
  if (length < sizeof program || strcmp(self + length - (sizeof program - 1), program) != 0) {
    return 0;
  }
  self[length - (sizeof program - 1)] = '\0';
  size_t used = 0;
  for (size_t i = 0; i < n_names; i++) {
    char folder[PATH_ROOM + 32];
    snprintf(folder, sizeof folder, "%s/backends/%s", self, names[i]);
    if (access(folder, R_OK | X_OK) != 0 || strchr(folder, ':')) {
      continue;
    }
    int written = snprintf(path + used, size - used, "%s%s", used > 0 ? ":" : "", folder);
    if (written < 0 || (size_t)written >= size - used) {
      return 0;
    }
    used += (size_t)written;
  }
  return used > 0;
}

int tsr_cli_runtime(tsr_runtime **runtime)
{
  static const char *const backends[] = {"cpu", "reference", "vulkan"};
  char path[3 * (PATH_ROOM + 32)];
  tsr_runtime_options options = {TSR_SIZED(tsr_runtime_options)};
  if (!getenv("TESSERA_BACKEND_PATH") && build_tree_path(backends, 3, path, sizeof path)) {
    options.path = path;
  }
  return tsr_cli_fail(tsr_runtime_create(&options, runtime));
}

const char *tsr_cli_audio_path(void)
{
  static const char *const folders[] = {"audio"};
  static char path[PATH_ROOM + 32];
  return !getenv("TESSERA_BACKEND_PATH") && build_tree_path(folders, 1, path, sizeof path) ? path : NULL;
}

int tsr_cli_comm(const char *name, tsr_comm **comm)
{
  static const char *const transports[] = {"comm-mpi"};
  char path[PATH_ROOM + 32];
  int is_in_build = !getenv("TESSERA_BACKEND_PATH") && build_tree_path(transports, 1, path, sizeof path);
  return tsr_cli_fail(tsr_comm_open(name, is_in_build ? path : NULL, comm));
}

int tsr_cli_device(tsr_runtime *runtime, const char *name, tsr_device **device)
{
  return tsr_cli_fail(tsr_device_open(runtime, name, device));
}

int tsr_cli_devices(tsr_runtime *runtime, const char *const *names, int32_t n, tsr_device **devices, int32_t *n_opened)
{
  int code = TSR_EXIT_OK;
  *n_opened = 0;
  while (code == TSR_EXIT_OK && *n_opened < (n > 0 ? n : 1)) {
    code = tsr_cli_device(runtime, n > 0 ? names[*n_opened] : NULL, &devices[*n_opened]);
    *n_opened += code == TSR_EXIT_OK;
  }
  return code;
}

void tsr_cli_devices_close(tsr_device *const *devices, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    tsr_device_close(devices[i]);
  }
}

int tsr_cli_check_split(const char *command, int32_t n, int split)
{
  if (split && n < 2) {
    return tsr_cli_usage(command, "--split: --device has to name two devices or more");
  }
  return split || n <= 1 ? TSR_EXIT_OK : tsr_cli_usage(command, "--device: %d devices, without --split", (int)n);
}

const char *tsr_cli_device_type(int32_t type)
{
  switch (type) {
  case TSR_DEVICE_DISCRETE_GPU:
    return "discrete GPU";
  case TSR_DEVICE_INTEGRATED_GPU:
    return "integrated GPU";
  case TSR_DEVICE_CPU:
    return "CPU";
  case TSR_DEVICE_VIRTUAL_GPU:
    return "virtual GPU";
  case TSR_DEVICE_SOFTWARE_GPU:
    return "GPU interface on a CPU";
  case TSR_DEVICE_REFERENCE:
    return "reference";
  default:
    return "unknown";
  }
}

int tsr_cli_is_gpu(int32_t type)
{
  return type == TSR_DEVICE_DISCRETE_GPU || type == TSR_DEVICE_INTEGRATED_GPU || type == TSR_DEVICE_VIRTUAL_GPU;
}
