/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend for Tessera, as small as one can be: it computes `add` and `relu` on f32 tensors in host memory. Start here
 * when you write one for your own device. With tessera/backend.h beside it (or installed) one call compiles it:
 *
 *     cc -std=c11 -shared -fPIC -o libtessera-backend-template.so template.c
 *
 * and this shows that it is found:
 *
 *     TESSERA_BACKEND_PATH=$PWD tessera devices
 *
 * What to change: the name and description in the table at the end; then, from top to bottom, what each function does.
 * Nothing else is exported, and nothing of Tessera is linked: all that a backend knows of it is that header.
 *
 * A model needs more operators than these two. Say 0 in `supports` for a line that you cannot compute, and Tessera runs
 * it on another device and moves the data. So a backend can grow one operator at a time, and
 * `tessera check --devices NAME` compares each one with the reference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/backend.h"

/* What `start` makes: one per Tessera runtime. Keep everything here and nothing in global variables: a process may have
 * two runtimes. */
typedef struct template_context {
  const tsr_host *host; /* valid until stop */
} template_context;

/* The header declares these three types without content: it is yours to say what they are. */
struct tsr_backend_device {
  const tsr_host *host;
};

struct tsr_backend_buffer {
  char *bytes; /* a real device would keep its own handle of memory here */
};

/* One operand or result, ready for the loops: rank 4, strides in elements. */
typedef struct template_tensor {
  float *data;
  int64_t extent[TSR_MAX_RANK];
  int64_t stride[TSR_MAX_RANK];
} template_tensor;

typedef struct template_line {
  int32_t op;
  template_tensor a, b, y; /* b: add only */
} template_line;

struct tsr_backend_executable {
  int32_t n_lines;
  template_line *lines;
};

/* Errors: say why through the host, then return the status. The user reads "template:0: " and your sentence, so
 * write what failed and what helps. */
static int32_t fail(const tsr_host *host, int32_t status, const char *message)
{
  host->report(host, TSR_LOG_ERROR, message);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The backend and its devices
 */

/* Load the driver here, if there is one. If it is not installed, return TSR_ERR_NO_DEVICE and tell what to install. */
static int32_t template_start(const tsr_host *host, void **context)
{
  template_context *made = calloc(1, sizeof *made);
  if (!made) {
    return fail(host, TSR_ERR_OUT_OF_MEMORY, "no host memory to start");
  }
  made->host = host;
  *context = made;
  return TSR_OK;
}

static void template_stop(void *context)
{
  free(context);
}

/* None is a fine answer: the backend is there, the hardware is not. */
static int32_t template_device_count(void *context, uint32_t *count)
{
  (void)context;
  *count = 1;
  return TSR_OK;
}

/* Leave 0 what you do not know. Fields beyond properties->struct_size do not exist for the host: a plugin that was
 * built against a newer header than its host must not write them. The fields of 1.0 are always there. */
static int32_t template_device_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const template_context *self = context;
  if (index != 0) {
    return fail(self->host, TSR_ERR_NO_DEVICE, "there is only device 0");
  }
  properties->type = TSR_DEVICE_REFERENCE; /* so that `auto` chooses it last */
  snprintf(properties->name, sizeof properties->name, "host memory");
  snprintf(properties->driver, sizeof properties->driver, "template 1.0");
  properties->features = TSR_FEATURE_UNIFIED_MEMORY;
  properties->buffer_alignment = 16;
  return TSR_OK;
}

static int32_t template_device_open(void *context, uint32_t index, tsr_backend_device **device)
{
  const template_context *self = context;
  if (index != 0) {
    return fail(self->host, TSR_ERR_NO_DEVICE, "there is only device 0");
  }
  tsr_backend_device *made = calloc(1, sizeof *made);
  if (!made) {
    return fail(self->host, TSR_ERR_OUT_OF_MEMORY, "no host memory to open the device");
  }
  made->host = self->host;
  *device = made;
  return TSR_OK;
}

static void template_device_close(tsr_backend_device *device)
{
  free(device);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Buffers. The host has checked every range, and destroys every buffer before it closes the device.
 */

/* `usage` says how the host will use the buffer, for those who have several kinds of memory. */
static int32_t template_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage,
                                      tsr_backend_buffer **buffer)
{
  (void)usage;
  tsr_backend_buffer *made = calloc(1, sizeof *made);
  char *bytes = size <= SIZE_MAX ? calloc(1, (size_t)size) : NULL; /* zeros, as the header asks */
  if (!made || !bytes) {
    free(made);
    free(bytes);
    char message[96];
    snprintf(message, sizeof message, "no memory for a buffer of %llu bytes", (unsigned long long)size);
    return fail(device->host, TSR_ERR_DEVICE_MEMORY, message);
  }
  made->bytes = bytes;
  *buffer = made;
  return TSR_OK;
}

static void template_buffer_destroy(tsr_backend_buffer *buffer)
{
  if (!buffer) {
    return;
  }
  free(buffer->bytes);
  free(buffer);
}

static int32_t template_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  if (size > 0) {
    memcpy(buffer->bytes + offset, bytes, (size_t)size);
  }
  return TSR_OK;
}

static int32_t template_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  if (size > 0) {
    memcpy(bytes, buffer->bytes + offset, (size_t)size);
  }
  return TSR_OK;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Programs. The host has validated them: shapes fit, operands are broadcast already (a repeated axis has stride 0), and
 * types are those that ops.h allows for the operator. What remains to ask is what *this* device can do.
 */

static int is_f32(const tsr_program_desc *program, int32_t tensor)
{
  return tsr_tensor_at(program, tensor)->dtype == TSR_F32;
}

/* Any strides will do for the loops below, so only the operator and the type matter. `add` takes i32 too; we do not. */
static int32_t template_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  const tsr_line_desc *desc = tsr_line_at(program, line);
  switch (desc->op) {
  case TSR_OP_ADD:
    return is_f32(program, desc->in[0]) && is_f32(program, desc->in[1]);
  case TSR_OP_RELU:
    return is_f32(program, desc->in[0]);
  default:
    return 0;
  }
}

/* Where a tensor lies: the compile call places each storage in a buffer, and a tensor is a view of a storage. Buffers
 * outlive the executable, so their addresses can be kept. */
static template_tensor locate(const tsr_compile_args *args, int32_t index)
{
  const tsr_tensor_desc *desc = tsr_tensor_at(args->program, index);
  const tsr_storage_desc *storage = tsr_storage_at(args->program, desc->storage);
  template_tensor tensor;
  void *bytes = args->buffers[storage->buffer]->bytes + storage->offset; /* aligned to buffer_alignment */
  tensor.data = (float *)bytes + desc->offset;
  /* Beyond its rank a tensor has extents of 1 and strides of 0, so four loops serve every rank. */
  memcpy(tensor.extent, desc->extent, sizeof tensor.extent);
  memcpy(tensor.stride, desc->stride, sizeof tensor.stride);
  return tensor;
}

/* All the work that can be done once is done here: a real backend chooses kernels and records commands. `args` and
 * the program in it go away after the call; keep copies of what a run needs. */
static int32_t template_compile(tsr_backend_device *device, const tsr_compile_args *args,
                                tsr_backend_executable **executable)
{
  const tsr_program_desc *program = args->program;
  tsr_backend_executable *made = calloc(1, sizeof *made);
  template_line *lines = calloc((size_t)program->n_lines + 1, sizeof *lines);
  if (!made || !lines) {
    free(made);
    free(lines);
    return fail(device->host, TSR_ERR_OUT_OF_MEMORY, "no host memory for the executable");
  }
  for (int32_t i = 0; i < program->n_lines; i++) {
    const tsr_line_desc *desc = tsr_line_at(program, i);
    lines[i].op = desc->op;
    lines[i].a = locate(args, desc->in[0]);
    if (desc->op == TSR_OP_ADD) {
      lines[i].b = locate(args, desc->in[1]);
    }
    lines[i].y = locate(args, desc->out[0]);
  }
  made->n_lines = program->n_lines;
  made->lines = lines;
  *executable = made;
  return TSR_OK;
}

static void template_executable_destroy(tsr_backend_executable *executable)
{
  if (!executable) {
    return;
  }
  free(executable->lines);
  free(executable);
}

/* The element of t at i[]. */
static float *element(const template_tensor *t, const int64_t i[TSR_MAX_RANK])
{
  return t->data + i[0] * t->stride[0] + i[1] * t->stride[1] + i[2] * t->stride[2] + i[3] * t->stride[3];
}

static void compute(const template_line *line)
{
  const int64_t *n = line->y.extent;
  int64_t i[TSR_MAX_RANK];
  for (i[0] = 0; i[0] < n[0]; i[0]++) {
    for (i[1] = 0; i[1] < n[1]; i[1]++) {
      for (i[2] = 0; i[2] < n[2]; i[2]++) {
        for (i[3] = 0; i[3] < n[3]; i[3]++) {
          float a = *element(&line->a, i);
          if (line->op == TSR_OP_ADD) {
            *element(&line->y, i) = a + *element(&line->b, i);
          } else {
            *element(&line->y, i) = a < 0 ? 0 : a; /* a NaN is not below 0, and stays */
          }
        }
      }
    }
  }
}

/* May return before the work is done; here it does not, so there is nothing to wait for. */
static int32_t template_run(tsr_backend_executable *executable)
{
  for (int32_t i = 0; i < executable->n_lines; i++) {
    compute(&executable->lines[i]);
  }
  return TSR_OK;
}

static int32_t template_wait(tsr_backend_executable *executable)
{
  (void)executable;
  return TSR_OK;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The table, and the one function that is exported. The optional slots (profile, counters, get_extension) are left
 * NULL: the header says what the host does then.
 */
static const tsr_backend template_backend = {
    .struct_size = sizeof(tsr_backend),
    .abi_major = TSR_ABI_MAJOR,
    .abi_minor = TSR_ABI_MINOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "template",
    .description = "an example of a backend: add and relu in host memory",
    .start = template_start,
    .stop = template_stop,
    .device_count = template_device_count,
    .device_properties = template_device_properties,
    .device_open = template_device_open,
    .device_close = template_device_close,
    .buffer_create = template_buffer_create,
    .buffer_destroy = template_buffer_destroy,
    .buffer_write = template_buffer_write,
    .buffer_read = template_buffer_read,
    .supports = template_supports,
    .compile = template_compile,
    .executable_destroy = template_executable_destroy,
    .run = template_run,
    .wait = template_wait,
};

/* TSR_BACKEND_QUERY is tessera_backend_query, unless the build gives the backend a name of its own to link it into a
 * program (see backend.h). */
const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  if (host_abi_major != TSR_ABI_MAJOR) {
    host->report(host, TSR_LOG_ERROR, "the plugin was built for another version of the plugin interface");
    return NULL;
  }
  return &template_backend;
}
