/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference with a fault, which the environment names:
 *   FAULTY_LINE=LABEL    products of that label give NaN
 *   FAULTY_TOKEN=ID      an element of that row of each embedding becomes NaN on the device, after it was written
 *   FAULTY_END=HOW       when a program is compiled, the device is "lost", or the process ends: "crash"; when one
 *                        with a product is, it never comes back: "hang"
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/over_reference.h"

static const tsr_backend *sound;

/* Element 0 of a row of an embedding's table. */
static int32_t spoil_table(const tsr_compile_args *args, const tsr_line_desc *line, int64_t row)
{
  static const uint32_t nan = 0x7fff7fff; /* as an f32, and twice as an f16 */
  const tsr_tensor_desc *table = tsr_tensor_at(args->program, line->in[0]);
  const tsr_storage_desc *storage = tsr_storage_at(args->program, table->storage);
  uint64_t size = table->dtype == TSR_F32 ? 4 : 2;
  uint64_t at = (uint64_t)storage->offset + (uint64_t)(table->offset + row * table->stride[0]) * size;
  return row < table->extent[0] ? sound->buffer_write(args->buffers[storage->buffer], at, size, &nan) : TSR_OK;
}

static int32_t compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  const char *label = getenv("FAULTY_LINE");
  const char *token = getenv("FAULTY_TOKEN");
  const char *end = getenv("FAULTY_END");
  size_t size = (size_t)args->program->n_lines * args->program->line_size;
  tsr_line_desc *lines = malloc(size + 1);
  tsr_program_desc program = *args->program;
  tsr_compile_args changed = *args;
  int32_t status = lines ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
  if (end && strcmp(end, "crash") == 0) {
    abort();
  }
  if (end && strcmp(end, "lost") == 0) {
    free(lines);
    return TSR_ERR_DEVICE_LOST;
  }
  if (lines) {
    memcpy(lines, args->program->lines, size);
    program.lines = lines;
    changed.program = &program;
  }
  for (int32_t i = 0; i < program.n_lines && status == TSR_OK; i++) {
    tsr_line_desc *line = &lines[i];
    while (line->op == TSR_OP_MATMUL && end && strcmp(end, "hang") == 0) {
      pause();
    }
    if (line->op == TSR_OP_MATMUL && label && strcmp(line->label, label) == 0) {
      line->attributes.alpha = NAN;
    }
    if (line->op == TSR_OP_EMBEDDING && token) {
      status = spoil_table(args, line, strtol(token, NULL, 10));
    }
  }
  if (status == TSR_OK) {
    status = sound->compile(device, &changed, executable);
  }
  free(lines);
  return status;
}

const tsr_backend *tessera_backend_query(uint32_t host_abi_major, const tsr_host *host)
{
  static tsr_backend table;
  sound = query_reference(host_abi_major, host);
  if (!sound) {
    return NULL;
  }
  table = *sound;
  table.name = "faulty";
  table.compile = compile;
  return &table;
}
