/* SPDX-License-Identifier: Apache-2.0
 *
 * A program outside the tree: compiled against the installed headers and library, it must find the installed backends.
 * It adds two vectors on the device named on its command line.
 */
#include <stdio.h>
#include <string.h>

#include <tessera/ops.h>
#include <tessera/runtime.h>

static tsr_status add(tsr_device *device, const float *a, const float *b, float *sum, int64_t n)
{
  tsr_program *program = NULL;
  tsr_executable *executable = NULL;
  tsr_ref x = TSR_INVALID;
  tsr_ref y = TSR_INVALID;
  tsr_ref z = TSR_INVALID;
  tsr_status status = tsr_program_create(&program);
  if (status == TSR_OK) {
    x = tsr_input(program, "x", TSR_F32, TSR_SHAPE(n));
    y = tsr_input(program, "y", TSR_F32, TSR_SHAPE(n));
    z = tsr_output(program, "z", tsr_add(program, x, y));
    status = tsr_executable_create(device, program, NULL, &executable);
  }
  int64_t size = n * (int64_t)sizeof(float);
  if (status == TSR_OK) {
    status = tsr_executable_write(executable, x, a, size);
  }
  if (status == TSR_OK) {
    status = tsr_executable_write(executable, y, b, size);
  }
  if (status == TSR_OK) {
    status = tsr_executable_run(executable);
  }
  if (status == TSR_OK) {
    status = tsr_executable_read(executable, z, sum, size);
  }
  tsr_executable_destroy(executable);
  tsr_program_destroy(program);
  return status;
}

int main(int argc, char **argv)
{
  static const float a[] = {1, 2, 3};
  static const float b[] = {10, 20, 30};
  float sum[3] = {0};
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  tsr_status status = tsr_runtime_create(NULL, &runtime);
  if (status == TSR_OK) {
    status = tsr_device_open(runtime, argc > 1 ? argv[1] : "auto", &device);
  }
  if (status == TSR_OK) {
    status = add(device, a, b, sum, 3);
  }
  if (status == TSR_OK) {
    printf("%s: %g %g %g\n", tsr_device_name(device), (double)sum[0], (double)sum[1], (double)sum[2]);
  } else {
    fprintf(stderr, "%s: %s\n", tsr_status_name(status), tsr_error_message());
  }
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  return status == TSR_OK ? 0 : 1;
}
