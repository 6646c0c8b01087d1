/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of one's own: attention from its parts, two products and a softmax, and its gradients; run on two devices
 * and compared.
 *
 *     cc -std=c11 operators.c $(pkg-config --cflags --libs tessera) -lm -o operators && ./operators reference cpu
 */
#include <math.h>
#include <stdio.h>

#include <tessera/autodiff.h>
#include <tessera/ops.h>
#include <tessera/runtime.h>

enum { L = 4, S = 5, K = 8, J = 3 }; /* queries, keys, their size, the values' size */
enum { N_INPUTS = 4, N_OUTPUTS = 4, MOST = S * K };

/* A tensor of the program: its name, extents, and where it stands. */
typedef struct tensor {
  const char *name;
  int64_t rows, columns;
  tsr_ref ref;
} tensor;

/* y = softmax(q kT / sqrt(K)) v; dq, dk, dv are the gradients of sum(y * dy). No check per line: errors of building
 * are sticky, and tsr_executable_create returns the first one. */
static void build(tsr_program *p, tensor *inputs, tensor *outputs)
{
  for (int i = 0; i < N_INPUTS; i++) {
    inputs[i].ref = tsr_input(p, inputs[i].name, TSR_F32, TSR_SHAPE(inputs[i].rows, inputs[i].columns));
  }
  tsr_ref q = inputs[0].ref, k = inputs[1].ref, v = inputs[2].ref, dy = inputs[3].ref;
  tsr_scope_push(p, "scores"); /* messages and listings name lines so */
  tsr_ref scores = tsr_matmul(p, q, tsr_transpose(p, k, 0, 1), TSR_NONE, 1.0f / sqrtf(K), TSR_ACTIVATION_NONE);
  tsr_scope_pop(p);
  tsr_ref y = tsr_product(p, tsr_softmax(p, scores, TSR_NONE), v);
  tsr_ref results[N_OUTPUTS] = {y, TSR_INVALID, TSR_INVALID, TSR_INVALID};
  if (tsr_gradients(p, y, dy, (tsr_ref[]){q, k, v}, 3, NULL, &results[1]) == TSR_OK) {
    for (int i = 0; i < N_OUTPUTS; i++) {
      outputs[i].ref = tsr_output(p, outputs[i].name, results[i]);
    }
  }
}

/* Runs the program on a device with the same inputs each time; values receives the outputs. */
static tsr_status run(tsr_device *device, const tsr_program *p, const tensor *inputs, const tensor *outputs,
                      float values[N_OUTPUTS][MOST])
{
  tsr_executable *executable = NULL;
  tsr_status status = tsr_executable_create(device, p, NULL, &executable);
  for (int i = 0; i < N_INPUTS && status == TSR_OK; i++) {
    float numbers[MOST];
    int64_t n = inputs[i].rows * inputs[i].columns;
    for (int64_t j = 0; j < n; j++) {
      numbers[j] = sinf((float)(100 * i + j));
    }
    status = tsr_executable_write(executable, inputs[i].ref, numbers, n * (int64_t)sizeof *numbers);
  }
  if (status == TSR_OK) {
    status = tsr_executable_run(executable);
  }
  for (int i = 0; i < N_OUTPUTS && status == TSR_OK; i++) {
    int64_t size = outputs[i].rows * outputs[i].columns * (int64_t)sizeof(float);
    status = tsr_executable_read(executable, outputs[i].ref, values[i], size);
  }
  if (status == TSR_OK) { /* A line that the device lacks ran on another one. */
    tsr_executable_info info;
    tsr_executable_report(executable, &info);
    printf("%s: %d lines, %d of them on another device\n", tsr_device_name(device), info.lines, info.fallback_lines);
  }
  tsr_executable_destroy(executable);
  return status;
}

/* Devices sum in another order, so the last bits differ. Returns 1 if nothing else does; a NaN is no agreement. */
static int agree(const tensor *output, const float *a, const float *b)
{
  const float tolerance = 1e-5f; /* the numbers are about 1 */
  int64_t n_wrong = 0;
  for (int64_t j = 0; j < output->rows * output->columns; j++) {
    n_wrong += !(fabsf(a[j] - b[j]) <= tolerance);
  }
  printf("%-2s [%d, %d]  %9.6f %9.6f ..  %s\n", output->name, (int)output->rows, (int)output->columns, (double)a[0],
         (double)a[1], n_wrong > 0 ? "DIFFERS" : "agrees");
  return n_wrong == 0;
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fprintf(stderr, "Usage: %s DEVICE DEVICE (names as `tessera devices` prints them)\n", argv[0]);
    return 2;
  }
  tensor inputs[N_INPUTS] = {{"q", L, K, 0}, {"k", S, K, 0}, {"v", S, J, 0}, {"dy", L, J, 0}};
  tensor outputs[N_OUTPUTS] = {{"y", L, J, 0}, {"dq", L, K, 0}, {"dk", S, K, 0}, {"dv", S, J, 0}};
  float values[2][N_OUTPUTS][MOST];
  tsr_runtime *runtime = NULL;
  tsr_program *program = NULL;
  tsr_device *devices[2] = {NULL, NULL};
  tsr_status status = tsr_runtime_create(NULL, &runtime);
  if (status == TSR_OK) {
    status = tsr_program_create(&program);
  }
  if (status == TSR_OK) {
    build(program, inputs, outputs);
    status = tsr_program_status(program);
  }
  for (int i = 0; i < 2 && status == TSR_OK; i++) {
    status = tsr_device_open(runtime, argv[1 + i], &devices[i]);
    if (status == TSR_OK) {
      status = run(devices[i], program, inputs, outputs, values[i]);
    }
  }
  int all_agree = status == TSR_OK;
  for (int i = 0; i < N_OUTPUTS && status == TSR_OK; i++) {
    all_agree &= agree(&outputs[i], values[0][i], values[1][i]);
  }
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
  }
  tsr_device_close(devices[0]); /* what was made first is freed last */
  tsr_device_close(devices[1]);
  tsr_program_destroy(program);
  tsr_runtime_destroy(runtime);
  return all_agree ? 0 : 1;
}
