/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a case on a device: lays its tensors out with guards between them, runs it, holds the results against the
 * reference.
 *
 * The layout of a case in a device's memory, each tensor at the alignment that the device asks for:
 *     guard | operand | guard | operand | guard | result | guard
 * All of it is first one pattern, results included; then the operands are written. After a run everything but the
 * results and states must be as it was, bit for bit. A second pass starts from another pattern and must give the same
 * bits: so nothing is left unwritten, and nothing depends on what memory held before.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/runner.h"

#define GUARD_BYTES 128

static const unsigned char patterns[2] = {0xff, 0x5a}; /* 0xff..: NaN in each floating-point type */

tsr_status check_device_open(check_device *device, tsr_runtime *runtime, const char *name)
{
  *device = (check_device){0};
  tsr_status status = tsr_device_open(runtime, name, &device->device);
  if (status) {
    return status;
  }
  const int64_t alignment = tsr_device_get_properties(device->device)->buffer_alignment;
  device->alignment = alignment > 16 ? alignment : 16;
  return TSR_OK;
}

void check_device_finish(check_device *device)
{
  tsr_buffer_destroy(device->arena);
  tsr_device_close(device->device);
  *device = (check_device){0};
}

int check_device_supports(const check_device *device, const tsr_program *program, check_result *result)
{
  char text[256];

  *result = (check_result){.verdict = CHECK_PASSED};
  for (int32_t line = 0; line < tsr_program_line_count(program); line++) {
    if (!tsr_device_supports(device->device, program, line)) {
      result->verdict = CHECK_UNSUPPORTED;
      snprintf(result->message, sizeof(result->message), "%s",
               tsr_program_print_line(program, line, text, sizeof(text)));
      return 0;
    }
  }
  return 1;
}

/* Makes the memory shared by the cases at least `size` bytes. */
static tsr_status reserve(check_device *device, int64_t size)
{
  int64_t capacity = 1 << 20;

  if (device->arena && tsr_buffer_size(device->arena) >= size) {
    return TSR_OK;
  }
  while (capacity < size) {
    capacity += capacity / 2 + 4096;
  }
  tsr_buffer_destroy(device->arena);
  device->arena = NULL;
  return tsr_buffer_create(device->device, capacity, TSR_BUFFER_DEVICE, &device->arena);
}

tsr_ref check_storage_tensor(const tsr_program_desc *program, int32_t storage)
{
  for (int32_t tensor = 1; tensor < program->n_tensors; tensor++) {
    if (tsr_tensor_at(program, tensor)->storage == storage) {
      return tensor;
    }
  }
  return TSR_NONE;
}

static int is_result(int32_t kind)
{
  return kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_STATE;
}

/* Written by lines alone. */
static int is_result_only(int32_t kind)
{
  return kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_TEMPORARY;
}

/* In the runner's memory, not in the runtime's. */
static int is_bound(const check_case *test, int32_t kind)
{
  return kind == TSR_STORAGE_CONSTANT || (kind != TSR_STORAGE_TEMPORARY && !test->own);
}

void check_execution_finish(check_execution *execution)
{
  tsr_executable_destroy(execution->executable);
  free(execution->offset);
  free(execution->image);
  free(execution->found);
  memset(execution, 0, sizeof(*execution));
}

static tsr_status lay_out(check_execution *execution, const check_build *build)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  const int64_t alignment = execution->device->alignment;
  int64_t at = GUARD_BYTES;

  for (int32_t i = 1; i < program->n_storages; i++) {
    execution->offset[i] = -1;
    if (is_bound(build->test, tsr_storage_at(program, i)->kind)) {
      at = (at + alignment - 1) / alignment * alignment;
      execution->offset[i] = at;
      at += tsr_storage_at(program, i)->size + GUARD_BYTES;
    }
  }
  execution->size = at;
  execution->image = malloc((size_t)at);
  execution->found = malloc((size_t)at);
  if (!execution->image || !execution->found) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for an image of %lld bytes", (long long)at);
  }
  return reserve(execution->device, at);
}

/* The pattern everywhere but where the operands of run 0 lie, which the image may hold already. Storages lie in the
 * order of their numbers. */
static void fill_image(check_execution *execution, const check_build *build, const check_contents *contents,
                       int32_t pattern)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  int64_t from = 0;

  for (int32_t i = 1; i < program->n_storages; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(program, i);
    const int64_t at = execution->offset[i];
    if (contents->bytes[i] && !is_result_only(storage->kind) && at >= 0) {
      memset(execution->image + from, patterns[pattern], (size_t)(at - from));
      if (!execution->has_operands) {
        memcpy(execution->image + at, contents->bytes[i], (size_t)storage->size);
      }
      from = at + storage->size;
    }
  }
  memset(execution->image + from, patterns[pattern], (size_t)(execution->size - from));
  execution->has_operands = 1;
}

/* The image into the arena, where it may be already. */
static tsr_status write_image(check_execution *execution, const check_build *build, const check_contents *contents,
                              int32_t pattern)
{
  if (execution->is_written && pattern == execution->pattern) {
    return TSR_OK;
  }
  fill_image(execution, build, contents, pattern);
  execution->pattern = pattern;
  execution->is_written = 1;
  return tsr_buffer_write(execution->device->arena, 0, execution->size, execution->image);
}

tsr_status check_execution_init(check_execution *execution, const check_build *build, const check_contents *contents,
                                check_device *device, int32_t keep_all, int32_t profile)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .strict = 1, .keep_all = keep_all, .profile = profile};
  tsr_binding *bindings = calloc((size_t)program->n_storages, sizeof(*bindings));
  tsr_status status;

  memset(execution, 0, sizeof(*execution));
  execution->device = device;
  execution->offset = calloc((size_t)program->n_storages, sizeof(*execution->offset));
  if (!bindings || !execution->offset) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for %d bindings", (int)program->n_storages);
  } else {
    status = lay_out(execution, build);
  }
  for (int32_t i = 1; i < program->n_storages && !status; i++) {
    if (execution->offset[i] >= 0) {
      bindings[options.n_bindings++] = (tsr_binding){
          .tensor = check_storage_tensor(program, i), .buffer = device->arena, .offset = execution->offset[i]};
    }
  }
  if (!status) { /* a device may lay constants out anew while it compiles */
    status = write_image(execution, build, contents, 0);
  }
  if (!status) {
    options.bindings = bindings;
    status = tsr_executable_create(device->device, build->program, &options, &execution->executable);
  }
  free(bindings);
  if (status) {
    check_execution_finish(execution);
  }
  return status;
}

tsr_status check_execution_start(check_execution *execution, const check_build *build, const check_contents *contents,
                                 int32_t pattern)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  tsr_status status = TSR_OK;

  for (int32_t i = 1; i < program->n_storages && !status; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(program, i);
    if (contents->bytes[i] && !is_result_only(storage->kind) && execution->offset[i] < 0) {
      status = tsr_executable_write(execution->executable, check_storage_tensor(program, i), contents->bytes[i],
                                    storage->size);
    }
  }
  return status ? status : write_image(execution, build, contents, pattern);
}

tsr_status check_execution_run(check_execution *execution, const check_build *build, const check_contents *contents,
                               int32_t fresh)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  tsr_status status = TSR_OK;

  for (int32_t i = 1; i < program->n_storages && fresh && !status; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(program, i);
    if (storage->kind != TSR_STORAGE_INPUT) {
      continue;
    }
    if (execution->offset[i] >= 0) {
      memcpy(execution->image + execution->offset[i], contents->bytes[i], (size_t)storage->size);
      execution->has_operands = 0;
      status = tsr_buffer_write(execution->device->arena, execution->offset[i], storage->size, contents->bytes[i]);
    } else {
      status = tsr_executable_write(execution->executable, check_storage_tensor(program, i), contents->bytes[i],
                                    storage->size);
    }
  }
  execution->is_written = 0;
  if (!status) {
    status = tsr_executable_run(execution->executable);
  }
  return status ? status : tsr_buffer_read(execution->device->arena, 0, execution->size, execution->found);
}

const void *check_execution_found(const check_execution *execution, int32_t storage)
{
  return execution->offset[storage] >= 0 ? execution->found + execution->offset[storage] : NULL;
}

tsr_status check_execution_result(check_execution *execution, const check_build *build, int32_t storage, void *bytes)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  int64_t size = tsr_storage_at(program, storage)->size;

  if (execution->offset[storage] >= 0) {
    memcpy(bytes, execution->found + execution->offset[storage], (size_t)size);
    return TSR_OK;
  }
  return tsr_executable_read(execution->executable, check_storage_tensor(program, storage), bytes, size);
}

int check_execution_guards(const check_execution *execution, const check_build *build, char *message, size_t size)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  int64_t from = 0, at;
  int32_t i = 1, before = 0;

  /* storages lie in the order of their numbers; what lies between two results must be untouched */
  for (; i <= program->n_storages; i++) {
    const tsr_storage_desc *storage = i < program->n_storages ? tsr_storage_at(program, i) : NULL;
    if (storage && (execution->offset[i] < 0 || !is_result(storage->kind))) {
      continue;
    }
    int64_t to = storage ? execution->offset[i] : execution->size;
    if (memcmp(execution->image + from, execution->found + from, (size_t)(to - from)) != 0) {
      for (at = from; execution->image[at] == execution->found[at]; at++) {
      }
      snprintf(message, size,
               "byte %lld outside of the results was overwritten (0x%02x instead of 0x%02x): %lld bytes after the end "
               "of %s, %lld before the start of %s",
               (long long)at, execution->found[at], execution->image[at], (long long)(at - from),
               before ? tsr_ref_name(build->program, check_storage_tensor(program, before)) : "the start",
               (long long)(to - at),
               storage ? tsr_ref_name(build->program, check_storage_tensor(program, i)) : "the end");
      return 0;
    }
    if (storage) {
      from = to + storage->size;
      before = i;
    }
  }
  return 1;
}

tsr_status check_build_program(const check_case *test, check_build *build)
{
  return check_build_part(test, NULL, build);
}

tsr_status check_build_part(const check_case *test, const check_part *part, check_build *build)
{
  memset(build, 0, sizeof(*build));
  build->test = test;
  build->part = part;
  tsr_status status = tsr_program_create(&build->program);
  if (!status) {
    test->build(build, test->params);
    status = tsr_program_status(build->program);
  }
  if (status) {
    tsr_program_destroy(build->program);
    build->program = NULL;
  }
  return status;
}

void check_contents_finish(check_contents *contents)
{
  for (int32_t i = 0; i < contents->count; i++) {
    free(contents->bytes[i]);
  }
  free(contents->bytes);
  memset(contents, 0, sizeof(*contents));
}

tsr_status check_contents_init(check_contents *contents, const check_build *build, uint64_t seed, int32_t run)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);

  memset(contents, 0, sizeof(*contents));
  contents->bytes = calloc((size_t)program->n_storages, sizeof(*contents->bytes));
  if (!contents->bytes) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for %d storages", (int)program->n_storages);
  }
  contents->count = program->n_storages;
  for (int32_t leaf = 0; leaf < build->n_leaves; leaf++) {
    int32_t at = tsr_tensor_at(program, build->leaf[leaf].base)->storage;
    if (run > 0 && tsr_storage_at(program, at)->kind != TSR_STORAGE_INPUT) {
      continue; /* constants and states are written once */
    }
    contents->bytes[at] = malloc((size_t)tsr_storage_at(program, at)->size + 1);
    if (!contents->bytes[at]) {
      check_contents_finish(contents);
      return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for an operand of %lld bytes",
                      (long long)tsr_storage_at(program, at)->size);
    }
    check_leaf_fill(build, leaf, seed, run, contents->bytes[at]);
  }
  return TSR_OK;
}
